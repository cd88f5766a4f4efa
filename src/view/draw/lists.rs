//! Running trials, the machine, and the last faults.

use ratatui::layout::Rect;

use super::columns::{BETWEEN, fit, width_of};
use super::overview::{age, bar};
use crate::chart::sparkline;
use crate::looks::Role;
use crate::pen::{Pen, line_at, width};
use crate::state::{Focus, State};
use crate::{Running, Snapshot};
use report::format::value;

/// The widest sparkline.
const CURVE: u16 = 40;

/// The narrowest that is worth having.
const LEAST_CURVE: u16 = 8;

/// Where a list of so many rows begins so that a row stands in sight.
pub(super) fn first_row(row: usize, count: usize, room: usize) -> usize {
    let middle = row.saturating_sub(room / 2);
    middle.min(count.saturating_sub(room))
}

/// The trials under way, a row each.
pub(super) fn running(pen: &mut Pen<'_>, area: Rect, state: &State, snapshot: &Snapshot) {
    if area.height == 0 {
        return;
    }
    let focus = state.focus == Focus::Running;
    let count = snapshot.running.len();
    let beside = match snapshot.slots {
        Some(slots) => format!("{count} of {slots}"),
        None => count.to_string(),
    };
    pen.heading(area, "running", &beside, focus);
    let room = usize::from(area.height.saturating_sub(2));
    let first = first_row(if focus { state.row } else { 0 }, count, room);
    let shown: Vec<&Running> = snapshot.running.iter().skip(first).take(room).collect();
    let cells: Vec<Vec<String>> = shown.iter().map(|r| cells(r, state)).collect();
    let headings = [
        "trial",
        snapshot.step,
        &snapshot.metric,
        "for",
        "attempt",
        "memory",
        "device",
    ];
    let columns = Columns::fitting(&headings, &cells, area.width);
    columns.draw(
        pen,
        (area.x, area.y + 1),
        &headings.map(str::to_owned),
        Role::Faint,
    );
    for (i, (trial, cells)) in shown.iter().zip(&cells).enumerate() {
        let y = area.y + 2 + i as u16;
        columns.draw(pen, (area.x, y), cells, Role::Plain);
        if let Some((x, room)) = columns.curve {
            let line = sparkline(&trial.curve, usize::from(room), pen.looks);
            pen.text(area.x + x, y, room, &line, Role::Accent);
        }
        if focus && first + i == state.row {
            pen.choose(line_at(area, y));
        }
    }
}

fn cells(trial: &Running, state: &State) -> Vec<String> {
    let last = trial.curve.last().copied();
    vec![
        trial.number.to_string(),
        trial.step.map_or_else(String::new, |s| s.to_string()),
        last.map_or_else(String::new, value),
        trial
            .started
            .map_or_else(String::new, |s| age(s, state.now)),
        match trial.attempt {
            0 => String::new(),
            n => n.to_string(),
        },
        trial.memory.clone(),
        trial.device.clone(),
    ]
}

/// Where the columns of running trials stand, and the sparkline behind the third.
struct Columns {
    /// Start and width of those that fit.
    places: Vec<Option<(u16, u16)>>,
    curve: Option<(u16, u16)>,
}

impl Columns {
    /// The first four, then as many as fit beside a sparkline; columns in which nothing stands are left out.
    fn fitting(headings: &[&str], cells: &[Vec<String>], columns: u16) -> Columns {
        let widths = headings.iter().enumerate();
        let widths: Vec<_> = widths.map(|(i, h)| width_of(cells, i, h)).collect();
        let (fitting, room) = fit(&widths, |i| i < 4, columns.saturating_sub(LEAST_CURVE));
        let curve = (room + LEAST_CURVE).saturating_sub(BETWEEN).min(CURVE);
        let mut x = 0;
        let mut behind = 0;
        let mut places = Vec::new();
        for (i, width) in fitting.into_iter().enumerate() {
            places.push(width.map(|w| (x, w)));
            x += width.map_or(0, |w| w + BETWEEN);
            if i == 2 {
                behind = x;
                x += if curve > 0 { curve + BETWEEN } else { 0 };
            }
        }
        Columns {
            places,
            curve: (curve >= LEAST_CURVE / 2).then_some((behind, curve)),
        }
    }

    fn draw(&self, pen: &mut Pen<'_>, (x, y): (u16, u16), cells: &[String], role: Role) {
        for (i, (place, cell)) in self.places.iter().zip(cells).enumerate() {
            let Some((from, columns)) = place else {
                continue;
            };
            match i < 6 {
                true => pen.right(x + from, y, *columns, cell, role),
                false => drop(pen.text(x + from, y, *columns, cell, role)),
            }
        }
    }
}

/// GPUs and the host, a bar each.
pub(super) fn machine(pen: &mut Pen<'_>, area: Rect, snapshot: &Snapshot) {
    if area.height == 0 {
        return;
    }
    pen.heading(area, "machine", "", false);
    let meters = snapshot.machine.iter().take(usize::from(area.height) - 1);
    let labels = snapshot.machine.iter().map(|m| width(&m.label));
    let label = labels.max().unwrap_or(0) + BETWEEN;
    let columns = (area.width / 4).clamp(8, 30);
    for (i, meter) in meters.enumerate() {
        let y = area.y + 1 + i as u16;
        pen.text(area.x, y, label, &meter.label, Role::Plain);
        let mut x = area.x + label;
        if let Some(share) = meter.share {
            let role = match meter.mark.is_some_and(|mark| share > mark) {
                true => Role::Warning,
                false => Role::Good,
            };
            bar(pen, (x, y, columns), share, meter.mark, role);
        }
        x += columns + BETWEEN;
        let room = area.right().saturating_sub(x);
        // What is wrong is worth more than a figure.
        let trouble = width(&meter.trouble);
        let figures = match trouble {
            0 => room,
            n => room.saturating_sub(n + BETWEEN),
        };
        x = pen.text(x, y, figures, &meter.text, Role::Plain);
        if trouble > 0 {
            let x = if figures == 0 { x } else { x + BETWEEN };
            let room = area.right().saturating_sub(x);
            pen.text(x, y, room, &meter.trouble, Role::Bad);
        }
    }
}

/// The last faults, the latest first.
pub(super) fn faults(pen: &mut Pen<'_>, area: Rect, state: &State, snapshot: &Snapshot) {
    if area.height == 0 {
        return;
    }
    let focus = state.focus == Focus::Faults;
    pen.heading(area, "last faults", "", focus);
    let room = usize::from(area.height - 1);
    let count = snapshot.faults.len();
    let first = first_row(if focus { state.row } else { 0 }, count, room);
    let ago = |at: Option<jiff::Timestamp>| at.map_or_else(String::new, |t| age(t, state.now));
    let shown: Vec<_> = snapshot.faults.iter().skip(first).take(room).collect();
    let ages = shown.iter().map(|f| width(&ago(f.at))).max().unwrap_or(0);
    for (i, fault) in shown.into_iter().enumerate() {
        let y = area.y + 1 + i as u16;
        pen.right(area.x, y, ages, &ago(fault.at), Role::Faint);
        let x = area.x + ages + BETWEEN;
        let room = area.right().saturating_sub(x);
        let number = format!("trial {}: ", fault.number);
        let at = pen.text(x, y, room, &number, Role::Plain);
        pen.text(
            at,
            y,
            area.right().saturating_sub(at),
            &fault.text,
            Role::Warning,
        );
        if focus && first + i == state.row {
            pen.choose(line_at(area, y));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_row_is_always_in_sight() {
        assert_eq!(first_row(0, 100, 10), 0);
        assert_eq!(first_row(4, 100, 10), 0);
        assert_eq!(first_row(50, 100, 10), 45);
        assert_eq!(first_row(99, 100, 10), 90);
        assert_eq!(first_row(3, 4, 10), 0);
        assert_eq!(first_row(0, 0, 0), 0);
    }

    #[test]
    fn the_sparkline_gets_what_the_columns_leave() {
        let headings = [
            "trial", "epoch", "loss", "for", "attempt", "memory", "device",
        ];
        let row = ["12", "3", "0.25", "5 s", "", "1.50 GiB", "cuda:0"];
        let cells = vec![row.map(str::to_owned).to_vec()];
        let of = |columns| {
            let fitting = Columns::fitting(&headings, &cells, columns);
            (
                fitting.places[5].is_some(),
                fitting.places[6].is_some(),
                fitting.curve,
            )
        };
        assert_eq!(of(100), (true, true, Some((20, 40))));
        assert_eq!(of(60), (true, true, Some((20, 15))));
        assert_eq!(of(45), (true, false, Some((20, 8))));
        assert_eq!(of(40), (false, false, Some((20, 13))));
    }
}
