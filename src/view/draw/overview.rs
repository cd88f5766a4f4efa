//! The page about the whole study.

use jiff::Timestamp;
use ratatui::layout::Rect;

use super::{lists, table};
use crate::chart::Chart;
use crate::looks::Role;
use crate::pen::{Pen, behind, below, line_at, width};
use crate::state::State;
use crate::{Mood, Snapshot};
use report::format::duration;

/// From so many columns on, the table stands beside the rest.
const WIDE: u16 = 140;

/// Where the parts of the page stand; a part without height is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Plan {
    chart: Rect,
    running: Rect,
    machine: Rect,
    faults: Rect,
    table: Rect,
}

/// Lines that each part would fill, its heading included.
#[derive(Debug, Clone, Copy)]
struct Needs {
    running: u16,
    machine: u16,
    faults: u16,
    trials: u16,
}

/// Lines of the chart: at least, and where there is room.
const CHART: (u16, u16) = (6, 11);

/// Lines of the table that nothing else is shown in place of.
const TABLE: u16 = 6;

impl Plan {
    fn of(area: Rect, needs: Needs, table_only: bool) -> Plan {
        if table_only {
            return Plan {
                table: area,
                ..Plan::default()
            };
        }
        let wide = area.width >= WIDE;
        let left = match wide {
            true => Rect {
                width: (area.width * 2 / 5).max(66),
                ..area
            },
            false => area,
        };
        let kept = if wide { 0 } else { TABLE.min(needs.trials) };
        let mut room = left.height.saturating_sub(kept);
        // The most important takes first; what is left of a part must be worth its heading.
        let mut take = |wanted: u16, most: u16, least: u16| {
            let given = wanted.min(most).min(room);
            let given = if given < least { 0 } else { given };
            room -= given;
            given
        };
        let third = left.height / 3;
        let running = take(needs.running, third.max(3), 2);
        let faults = take(needs.faults, if wide { third } else { 4 }, 2);
        let machine = take(needs.machine, third, 2);
        let mut chart = take(CHART.0, CHART.0, CHART.0);
        // A table that does not need its room leaves it to the chart.
        let spare = match wide {
            true => room,
            false => (room + kept).saturating_sub(needs.trials),
        };
        if chart > 0 {
            chart += spare.min(CHART.1 - CHART.0);
        }
        let mut y = left.y;
        let mut place = |height: u16| {
            let part = Rect { y, height, ..left };
            y += height;
            part
        };
        let (running, chart, machine, faults) =
            (place(running), place(chart), place(machine), place(faults));
        let table = match wide {
            true => behind(area, left.right() + 2),
            false => below(area, faults.bottom() - area.y),
        };
        Plan {
            chart,
            running,
            machine,
            faults,
            table,
        }
    }
}

pub(super) fn draw(pen: &mut Pen<'_>, page: Rect, state: &State, snapshot: &Snapshot) {
    let head = draw_head(pen, page, state, snapshot);
    let body = below(page, head);
    let lines = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let needs = Needs {
        running: lines(snapshot.running.len()).saturating_add(match snapshot.running.len() {
            0 => 0,
            _ => 2,
        }),
        machine: match snapshot.machine.len() {
            0 => 0,
            n => lines(n).saturating_add(1),
        },
        faults: match snapshot.faults.len() {
            0 => 0,
            n => lines(n).saturating_add(1),
        },
        trials: lines(state.arranged.numbers.len()).saturating_add(2),
    };
    let plan = Plan::of(body, needs, state.table_only);
    lists::running(pen, plan.running, state, snapshot);
    draw_chart(pen, plan.chart, snapshot);
    lists::machine(pen, plan.machine, snapshot);
    lists::faults(pen, plan.faults, state, snapshot);
    table::draw(pen, plan.table, state, snapshot);
}

/// The lines about the whole study; gives how many they are.
fn draw_head(pen: &mut Pen<'_>, page: Rect, state: &State, snapshot: &Snapshot) -> u16 {
    let Rect {
        x,
        y,
        width: columns,
        ..
    } = page;
    let role = match snapshot.mood {
        Mood::Running | Mood::Done => Role::Good,
        Mood::Waiting => Role::Warning,
        Mood::Failing => Role::Bad,
    };
    let since = snapshot.since.map(|since| age(since, state.now));
    let standing = match (since, state.asked_to_stop) {
        (_, true) if snapshot.mood == Mood::Running => "asked to stop".to_owned(),
        (Some(age), _) => format!("{} {age}", snapshot.state),
        (None, _) => snapshot.state.clone(),
    };
    let room = columns.saturating_sub(width(&standing) + 2);
    let at = pen.text(x, y, room, &snapshot.study, Role::Strong);
    let left = room.saturating_sub(at - x + 2);
    pen.text(at + 2, y, left, &snapshot.objective, Role::Faint);
    pen.right(x, y, columns, &standing, role);
    draw_progress(pen, line_at(page, y + 1), snapshot);
    let at = pen.text(x, y + 2, columns, "best ", Role::Faint);
    let at = pen.text(
        at,
        y + 2,
        columns.saturating_sub(at - x),
        &snapshot.best,
        Role::Strong,
    );
    let room = (x + columns).saturating_sub(at + 2);
    if !snapshot.trivial.is_empty() && room > 12 {
        pen.text(at + 2, y + 2, room, &snapshot.trivial, Role::Faint);
    }
    let mut lines = 3;
    let warnings = snapshot.warnings.iter().map(|w| (w, Role::Warning));
    let advice = snapshot.advice.iter().map(|a| (a, Role::Plain));
    for (text, role) in advice.chain(warnings) {
        if lines + 8 < page.height {
            pen.text(x, y + lines, columns, text, role);
            lines += 1;
        }
    }
    // A line between the head and the rest, where there is room for it.
    lines + u16::from(page.height > 20)
}

fn draw_progress(pen: &mut Pen<'_>, line: Rect, snapshot: &Snapshot) {
    let mut x = line.x;
    if let Some(goal) = snapshot.goal.filter(|goal| *goal > 0) {
        let columns = (line.width / 5).clamp(10, 40);
        let share = snapshot.finished as f64 / goal as f64;
        bar(pen, (x, line.y, columns), share, None, Role::Accent);
        x += columns + 2;
    }
    let between = pen.looks.sign(" · ", " - ");
    let all = snapshot
        .progress
        .iter()
        .map(|part| width(part) + 3)
        .sum::<u16>();
    let brief = all > line.right().saturating_sub(x) + 3;
    let mut written = 0;
    for part in &snapshot.progress {
        let part = &if brief {
            without_brackets(part)
        } else {
            part.clone()
        };
        let sep = if written == 0 { "" } else { between };
        let room = line.right().saturating_sub(x);
        // The first one is shown in any case, as far as it goes.
        if written > 0 && width(sep) + width(part) > room {
            continue;
        }
        x = pen.text(x, line.y, room, sep, Role::Faint);
        x = pen.text(x, line.y, line.right().saturating_sub(x), part, Role::Plain);
        written += 1;
    }
}

/// `36 of 300 finished (18 complete, 18 pruned); 3 running` without what stands in brackets.
fn without_brackets(part: &str) -> String {
    match (part.split_once(" ("), part.split_once(')')) {
        (Some((before, _)), Some((_, behind))) => format!("{before}{behind}"),
        (_, _) => part.to_owned(),
    }
}

/// A bar at a place, of so many columns, filled to a share, with a mark up to where it may be filled.
pub(super) fn bar(
    pen: &mut Pen<'_>,
    (x, y, columns): (u16, u16, u16),
    share: f64,
    mark: Option<f64>,
    role: Role,
) {
    let filled = (share.clamp(0.0, 1.0) * f64::from(columns)).round() as u16;
    let (full, empty) = (pen.looks.sign("█", "#"), pen.looks.sign("░", "."));
    pen.text(x, y, filled, &full.repeat(usize::from(filled)), role);
    let rest = columns - filled;
    pen.text(
        x + filled,
        y,
        rest,
        &empty.repeat(usize::from(rest)),
        Role::Faint,
    );
    if let Some(mark) = mark.filter(|mark| *mark < 1.0) {
        let at = ((mark * f64::from(columns)).round() as u16).min(columns.saturating_sub(1));
        pen.text(x + at, y, 1, pen.looks.sign("│", "|"), Role::Warning);
    }
}

fn draw_chart(pen: &mut Pen<'_>, area: Rect, snapshot: &Snapshot) {
    if area.height == 0 {
        return;
    }
    pen.heading(area, "best so far", &snapshot.metric, false);
    let chart = Chart {
        points: &snapshot.history,
        steps: true,
        level: snapshot.level.map(|level| (level, "trivial answer")),
        ends: (&snapshot.history_ends.0, &snapshot.history_ends.1),
    };
    chart.draw(pen, below(area, 1));
}

/// How long ago something was, for people.
pub(super) fn age(since: Timestamp, now: Timestamp) -> String {
    let age = now.duration_since(since);
    let age = std::time::Duration::try_from(age).unwrap_or_default();
    // A figure that changes ten times a second is hard to read.
    let whole = std::time::Duration::from_secs(age.as_secs());
    match whole.as_secs() {
        s @ 0..60 => format!("{s} s"),
        _ => duration(whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: Needs = Needs {
        running: 6,
        machine: 3,
        faults: 9,
        trials: 200,
    };

    fn heights(columns: u16, rows: u16, needs: Needs) -> [u16; 5] {
        let plan = Plan::of(Rect::new(0, 0, columns, rows), needs, false);
        let parts = [
            plan.running,
            plan.chart,
            plan.machine,
            plan.faults,
            plan.table,
        ];
        parts.map(|part| part.height)
    }

    #[test]
    fn the_most_important_parts_are_there_however_low_the_terminal_is() {
        assert_eq!(heights(80, 50, NEEDS), [6, 6, 3, 4, 31]);
        assert_eq!(heights(80, 24, NEEDS), [6, 0, 3, 4, 11]);
        assert_eq!(heights(80, 12, NEEDS), [4, 0, 0, 2, 6]);
        assert_eq!(heights(80, 6, NEEDS), [0, 0, 0, 0, 6]);
    }

    #[test]
    fn room_that_the_table_does_not_need_is_the_charts() {
        let few = Needs { trials: 5, ..NEEDS };
        assert_eq!(heights(80, 40, few), [6, 11, 3, 4, 16]);
    }

    #[test]
    fn on_a_wide_terminal_the_table_stands_beside_the_rest() {
        let area = Rect::new(0, 3, 200, 46);
        let plan = Plan::of(area, NEEDS, false);
        assert_eq!(plan.table, Rect::new(82, 3, 118, 46));
        assert_eq!((plan.running.width, plan.faults.height), (80, 9));
        let alone = Plan::of(area, NEEDS, true);
        assert_eq!((alone.table, alone.chart.height), (area, 0));
    }

    #[test]
    fn ages_change_once_a_second() {
        let at = |s: i64, ms| Timestamp::new(1_700_000_000 + s, ms * 1_000_000).unwrap();
        assert_eq!(age(at(0, 0), at(0, 900)), "0 s");
        assert_eq!(age(at(0, 500), at(75, 0)), "1 min 14 s");
        assert_eq!(age(at(9, 0), at(0, 0)), "0 s");
    }
}
