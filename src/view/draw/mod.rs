//! The screen that a state gives.

mod columns;
mod detail;
mod help;
mod lists;
mod overview;
mod table;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::looks::{Looks, Role};
use crate::pen::{Pen, behind, line_at, width};
use crate::state::{Focus, Over, State};

pub(crate) use detail::length as detail_length;

/// Less than this has no room for anything, in columns and rows.
const LEAST: (u16, u16) = (40, 8);

/// Draws the state over the whole of a buffer that is empty.
pub fn draw(state: &State, looks: Looks, buffer: &mut Buffer) {
    let area = buffer.area;
    let mut pen = Pen::new(buffer, looks);
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = "the terminal is too small for the view: q leaves";
        pen.text(area.x, area.y, area.width, text, Role::Plain);
        return;
    }
    let page = Rect {
        height: area.height - 1,
        ..area
    };
    let foot = line_at(area, area.bottom() - 1);
    match (&state.snapshot, state.opened) {
        (Some(snapshot), Some(number)) => {
            detail::draw(&mut pen, page, state, snapshot, number);
        }
        (Some(snapshot), None) => overview::draw(&mut pen, page, state, snapshot),
        (None, _) => {
            pen.text(area.x, area.y, area.width, "reading the study", Role::Faint);
        }
    }
    if state.over == Over::Help {
        help::draw(&mut pen, page, state.of_run);
    }
    draw_foot(&mut pen, foot, state);
}

/// The last line: what went wrong, a question, the filter, or the keys.
fn draw_foot(pen: &mut Pen<'_>, area: Rect, state: &State) {
    let Rect { x, y, width, .. } = area;
    match (state.over, &state.unread) {
        (Over::Leaving, _) => {
            let text = "Leave the view? The run goes on.";
            let at = pen.text(x, y, width, text, Role::Strong) + 2;
            let keys = [("Enter", "leave"), ("s", "stop the run"), ("Esc", "stay")];
            draw_keys(pen, behind(area, at), &keys);
        }
        (Over::Filter, _) => {
            let at = pen.text(x, y, width, "/", Role::Accent);
            let at = pen.text(at, y, width - 1, &state.filter, Role::Plain);
            let at = pen.text(at, y, 1, pen.looks.sign("▏", "_"), Role::Accent);
            let hint = match &state.arranged.wrong {
                Some(why) => (why.as_str(), Role::Bad),
                None => (
                    "a word, or optim.lr<1e-4; Enter keeps it, Esc drops it",
                    Role::Faint,
                ),
            };
            pen.text(
                at + 2,
                y,
                (x + width).saturating_sub(at + 2),
                hint.0,
                hint.1,
            );
        }
        (Over::Nothing | Over::Help, Some(why)) => {
            pen.text(x, y, width, why, Role::Bad);
        }
        (Over::Nothing | Over::Help, None) => draw_keys(pen, area, &keys(state)),
    }
}

/// The keys that are worth naming now, the most needed first.
fn keys(state: &State) -> Vec<(&'static str, &'static str)> {
    let mut keys = vec![
        ("q", if state.of_run { "leave" } else { "quit" }),
        ("?", "keys"),
    ];
    if state.opened.is_some() {
        keys.extend([
            ("Esc", "back"),
            ("j k", "scroll"),
            ("n p", "next, previous trial"),
        ]);
        return keys;
    }
    keys.extend([("Enter", "the trial"), ("/", "filter"), ("s r", "sort")]);
    match state.table_only {
        true => keys.push(("t", "all of the page")),
        false => keys.extend([("t", "table"), ("Tab", "next list")]),
    }
    if state.focus == Focus::Trials && !state.filter.is_empty() {
        keys.push(("Esc", "no filter"));
    }
    keys
}

fn draw_keys(pen: &mut Pen<'_>, area: Rect, keys: &[(&str, &str)]) {
    let mut x = area.x;
    for (key, what) in keys {
        let takes = width(key) + 1 + width(what) + 3;
        if x + takes - 3 > area.right() {
            return;
        }
        let at = pen.text(x, area.y, area.width, key, Role::Accent);
        pen.text(at + 1, area.y, area.width, what, Role::Faint);
        x += takes;
    }
}
