//! The page about one trial.

use ratatui::layout::Rect;

use crate::chart::Chart;
use crate::looks::Role;
use crate::pen::{Pen, behind, below};
use crate::state::State;
use crate::{Detail, Section, Snapshot};

/// From so many columns on, the log stands beside the rest.
const WIDE: u16 = 140;

/// Lines of the curve.
const CURVE: u16 = 8;

/// The lines of all sections, with an empty one before each heading but the first.
pub(crate) fn length(detail: &Detail) -> usize {
    let of = |section: &Section| section.lines.len() + 2;
    let sections = detail.sections.iter().map(of).sum::<usize>();
    sections + of(&detail.log)
}

pub(super) fn draw(pen: &mut Pen<'_>, page: Rect, state: &State, snapshot: &Snapshot, number: u64) {
    let Rect { x, y, width, .. } = page;
    let heading = format!("trial {number}");
    let at = pen.text(x, y, width, &heading, Role::Strong) + 2;
    let room = (x + width).saturating_sub(at);
    let Some(detail) = &state.detail else {
        pen.text(at, y, room, "reading", Role::Faint);
        return;
    };
    let at = pen.text(at, y, room, &detail.title, Role::Plain) + 2;
    let room = (x + width).saturating_sub(at);
    if room > 8 {
        pen.right(at, y, room, &snapshot.study, Role::Faint);
    }
    let body = below(page, 2);
    let wide = body.width >= WIDE;
    let left = match wide {
        true => Rect {
            width: body.width / 2,
            ..body
        },
        false => body,
    };
    let rest = draw_curve(pen, left, detail, snapshot);
    let mut sections: Vec<&Section> = detail.sections.iter().collect();
    match wide {
        false => sections.push(&detail.log),
        true => {
            let right = behind(body, left.right() + 2);
            draw_tail(pen, right, &detail.log);
        }
    }
    draw_sections(pen, rest, &sections, state);
}

/// What the trial has reported; gives the area below.
fn draw_curve(pen: &mut Pen<'_>, area: Rect, detail: &Detail, snapshot: &Snapshot) -> Rect {
    let height = CURVE.min(area.height / 3);
    let [(first, _), .., (last, _)] = detail.curve.as_slice() else {
        return area;
    };
    if height < 4 {
        return area;
    }
    let beside = format!("by {}", snapshot.step);
    pen.heading(area, &snapshot.metric, &beside, false);
    let ends = (first.to_string(), last.to_string());
    let chart = Chart {
        points: &detail.curve,
        steps: false,
        level: snapshot.level.map(|level| (level, "trivial answer")),
        ends: (&ends.0, &ends.1),
    };
    chart.draw(pen, below(Rect { height, ..area }, 1));
    below(area, height + 1)
}

/// A line of the page.
enum Line<'a> {
    Heading(&'a str),
    Text(&'a str),
    Empty,
}

fn draw_sections(pen: &mut Pen<'_>, area: Rect, sections: &[&Section], state: &State) {
    let of = |section: &&'_ Section| -> bool { !section.lines.is_empty() };
    let lines = sections.iter().filter(|s| of(s)).flat_map(|section| {
        let heading = std::iter::once(Line::Heading(&section.heading));
        let texts = section.lines.iter().map(|line| Line::Text(line));
        heading.chain(texts).chain(std::iter::once(Line::Empty))
    });
    let lines: Vec<Line<'_>> = lines.collect();
    let room = usize::from(area.height);
    // At the end the last line stands at the bottom, not at the top.
    let last = lines.len().saturating_sub(room.max(1));
    state.scroll_ends.set(last);
    let first = state.scroll.min(last);
    for (row, line) in area.rows().zip(lines.iter().skip(first)) {
        match line {
            Line::Heading(heading) => pen.heading(row, heading, "", false),
            Line::Text(text) => drop(pen.text(row.x, row.y, row.width, text, Role::Plain)),
            Line::Empty => {}
        }
    }
}

/// The last lines of a section.
fn draw_tail(pen: &mut Pen<'_>, area: Rect, section: &Section) {
    pen.heading(area, &section.heading, "", false);
    let room = usize::from(area.height.saturating_sub(1));
    let first = section.lines.len().saturating_sub(room);
    for (row, line) in below(area, 1).rows().zip(&section.lines[first..]) {
        pen.text(row.x, row.y, row.width, line, Role::Plain);
    }
}
