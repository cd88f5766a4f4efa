//! The table of trials.

use ratatui::layout::Rect;

use super::columns::{BETWEEN, fit, width_of};
use super::lists::first_row;
use crate::looks::Role;
use crate::pen::{Pen, line_at, width};
use crate::state::{Focus, State};
use crate::{Column, Snapshot};

/// Draws the rows around the chosen one, with as many columns as fit.
pub(super) fn draw(pen: &mut Pen<'_>, area: Rect, state: &State, snapshot: &Snapshot) {
    if area.height < 3 {
        return;
    }
    let columns = snapshot.trials.columns();
    let numbers = &state.arranged.numbers;
    let focus = state.focus == Focus::Trials;
    pen.heading(area, "trials", &beside(state, snapshot, &columns), focus);
    let room = usize::from(area.height - 2);
    let place = state.place();
    let first = first_row(place, numbers.len(), room);
    let rows: Vec<Vec<String>> = (numbers.iter().skip(first).take(room))
        .map(|number| snapshot.trials.cells(*number))
        .collect();
    if rows.is_empty() {
        let text = match state.filter.is_empty() {
            true => "no trials yet",
            false => "no trial passes the filter",
        };
        pen.text(area.x, area.y + 1, area.width, text, Role::Faint);
        return;
    }
    let fitting = fitting(&columns, &rows, area.width);
    for (column, x, columns_of) in &fitting {
        let heading = &columns[*column].heading;
        let sorted = state.sorting.column == Some(*column);
        let role = if sorted { Role::Accent } else { Role::Faint };
        let (x, y) = (area.x + x, area.y + 1);
        match columns[*column].right {
            true => pen.right(x, y, *columns_of, heading, role),
            false => drop(pen.text(x, y, *columns_of, heading, role)),
        }
    }
    for (i, row) in rows.iter().enumerate() {
        let y = area.y + 2 + i as u16;
        for (column, x, columns_of) in &fitting {
            let cell = row.get(*column).map_or("", String::as_str);
            match columns[*column].right {
                true => pen.right(area.x + x, y, *columns_of, cell, Role::Plain),
                false => drop(pen.text(area.x + x, y, *columns_of, cell, Role::Plain)),
            }
        }
        if focus && first + i == place {
            pen.choose(line_at(area, y));
        }
    }
}

/// How many of them are shown, in which order, and by which filter.
fn beside(state: &State, snapshot: &Snapshot, columns: &[Column]) -> String {
    let (shown, all) = (state.arranged.numbers.len(), snapshot.trials.count());
    let count = match shown == all {
        true => all.to_string(),
        false => format!("{shown} of {all}"),
    };
    let by = state.sorting.column.and_then(|c| columns.get(c));
    let by = by.map_or_else(
        || "the best first".to_owned(),
        |c| format!("by {}", c.heading),
    );
    let reverse = if state.sorting.reverse {
        ", reversed"
    } else {
        ""
    };
    let filter = match state.filter.is_empty() {
        true => String::new(),
        false => format!(", /{}", state.filter),
    };
    format!("{count}, {by}{reverse}{filter}")
}

/// The columns that fit, with the place and width of each: those that are kept first, then one after the other. The last
/// of them may be cut.
fn fitting(columns: &[Column], rows: &[Vec<String>], room: u16) -> Vec<(usize, u16, u16)> {
    let wide = |(i, column): (usize, &Column)| {
        let heading = &column.heading;
        width_of(rows, i, heading).or_else(|| column.kept.then(|| width(heading)))
    };
    let widths: Vec<Option<u16>> = columns.iter().enumerate().map(wide).collect();
    let (fitting, _) = fit(&widths, |i| columns[i].kept, room + BETWEEN);
    let mut x = 0;
    let mut places = Vec::new();
    for (i, width) in fitting.into_iter().enumerate() {
        let Some(width) = width.filter(|_| x < room) else {
            continue;
        };
        places.push((i, x, width.min(room - x)));
        x += width + BETWEEN;
    }
    // What nobody else needs is the last one's: a reason can be long.
    if let Some((i, x, columns)) = places.last_mut() {
        *columns = widths[*i].unwrap_or(0).min(room - *x);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_columns_come_first_and_the_last_one_may_be_long() {
        let column = |heading: &str, kept| Column {
            heading: heading.to_owned(),
            right: false,
            kept,
        };
        let columns = [
            column("trial", true),
            column("lr", false),
            column("optimizer", false),
            column("empty", false),
            column("reason", true),
        ];
        let reason = "out of memory in the third epoch of this trial";
        let row = ["7", "1e-3", "adam", "", reason]
            .map(str::to_owned)
            .to_vec();
        let places = |room| fitting(&columns, std::slice::from_ref(&row), room);
        assert_eq!(places(80), [(0, 0, 5), (1, 7, 4), (2, 13, 9), (4, 24, 46)]);
        assert_eq!(places(60), [(0, 0, 5), (1, 7, 4), (2, 13, 9), (4, 24, 36)]);
        assert_eq!(places(40), [(0, 0, 5), (1, 7, 4), (4, 13, 27)]);
        assert_eq!(places(10), [(0, 0, 5), (4, 7, 3)]);
    }
}
