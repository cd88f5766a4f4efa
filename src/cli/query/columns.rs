//! The table of `tune trials`: as many columns as the line holds, the most telling ones first.

use std::collections::{BTreeMap, BTreeSet};

use super::format;
use super::key::Key;
use super::objectives::Objectives;
use super::selection::Selected;
use super::trials::runtime;
use report::format::{plural, short_name, table};
use search::importance;
use search::study::{Direction, FrozenTrial, TrialState};

/// The widest that a reason is shown where not everything fits, in characters, and the narrowest that says anything.
const REASON: (usize, usize) = (16, 40);

/// Spaces between two columns.
const BETWEEN: usize = 2;

/// How wide a table may be, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// As wide as this.
    Of(usize),
    /// As wide as all of it is.
    Any,
}

/// A column with its heading.
struct Column {
    cells: Vec<String>,
    /// Whether it is there however narrow the line is.
    kept: bool,
}

impl Column {
    fn width(&self) -> usize {
        let widths = self.cells.iter().map(|cell| cell.chars().count());
        widths.max().unwrap_or(0) + BETWEEN
    }
}

/// The table of the trials that were asked for.
pub(super) fn trials_table(selected: &Selected, objectives: &Objectives, width: Width) -> String {
    if selected.trials.is_empty() {
        return match selected.live || !selected.running {
            true => "no such trials\n".to_owned(),
            false => "no trial runs: no process works on the study (--state running: what its last run has left \
                      unfinished)\n"
                .to_owned(),
        };
    }
    let column = |key: &Key, kept: bool| {
        let heading = heading(key, objectives, &selected.parameters);
        let cells = selected.trials.iter().map(|t| {
            let attempts = selected.attempts.get(&t.number).copied();
            cell(key, t, attempts, selected.live)
        });
        Column {
            cells: std::iter::once(heading).chain(cells).collect(),
            kept,
        }
    };
    let columns: Vec<Column> = match &selected.columns {
        Some(keys) => keys.iter().map(|key| column(key, true)).collect(),
        None => {
            let mut keys = vec![Key::Number, Key::State];
            keys.extend((0..objectives.names().len()).map(Key::Value));
            keys.push(Key::Duration);
            let again = selected
                .trials
                .iter()
                .any(|t| selected.attempts.get(&t.number).is_some_and(|n| *n > 1));
            keys.extend(again.then_some(Key::Attempts));
            let fixed = keys.len();
            keys.extend(selected.order.iter().cloned().map(Key::Parameter));
            let reason = column(&Key::Reason, true);
            let told = reason.cells.iter().skip(1).any(|cell| !cell.is_empty());
            let columns = keys
                .iter()
                .enumerate()
                .map(|(i, key)| column(key, i < fixed));
            let mut columns: Vec<Column> = columns.collect();
            if told {
                columns.push(reason);
                shorten_last(&mut columns, width);
            }
            columns
        }
    };
    let all = columns.len();
    let shown = fitting(columns, width);
    let left_out = all - shown.len();
    let row = |row: usize| shown.iter().map(move |column| &column.cells[row]).collect();
    let rows: Vec<Vec<&String>> = (0..=selected.trials.len()).map(row).collect();
    let mut text = table(&rows);
    if left_out > 0 {
        text += &format!(
            "+{} (--columns all)\n",
            plural(left_out as u64, "more column")
        );
    }
    text
}

/// Shortens the cells of the last column where not all columns fit as they are.
fn shorten_last(columns: &mut [Column], width: Width) {
    let total: usize = columns.iter().map(Column::width).sum();
    let Width::Of(width) = width else {
        return;
    };
    if total <= width + BETWEEN {
        return;
    }
    if let Some((last, before)) = columns.split_last_mut() {
        let kept: usize = before.iter().filter(|c| c.kept).map(Column::width).sum();
        let room = width.saturating_sub(kept).clamp(REASON.0, REASON.1);
        let cells = last.cells.iter_mut();
        cells.for_each(|cell| *cell = format::shortened(cell, room));
    }
}

/// The columns that fit, in their order: those that are kept first, then one after the other as long as there is room.
fn fitting(columns: Vec<Column>, width: Width) -> Vec<Column> {
    let Width::Of(width) = width else {
        return columns;
    };
    let kept: usize = columns.iter().filter(|c| c.kept).map(Column::width).sum();
    let mut room = (width + BETWEEN).saturating_sub(kept);
    let fits = |column: &Column| {
        let fits = column.kept || column.width() <= room;
        if fits && !column.kept {
            room -= column.width();
        }
        fits
    };
    let mut fits = fits;
    columns.into_iter().filter(|column| fits(column)).collect()
}

/// The parameters in the order in which they tell most: those that vary first, and of these what decides most whether a
/// trial is one of the best.
pub(super) fn order_of_parameters(
    trials: &[FrozenTrial],
    parameters: &BTreeSet<String>,
    directions: &[Direction],
) -> Vec<String> {
    let shares = match directions {
        [direction] => importance::shares(trials, *direction),
        _ => BTreeMap::new(),
    };
    let varies = |name: &String| {
        let mut values = trials.iter().map(|t| t.params.get(name));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let mut order: Vec<(bool, f64, &String)> = parameters
        .iter()
        .map(|name| {
            (
                !varies(name),
                -shares.get(name).copied().unwrap_or(0.0),
                name,
            )
        })
        .collect();
    order.sort_by(|a, b| (a.0.cmp(&b.0)).then(a.1.total_cmp(&b.1)).then(a.2.cmp(b.2)));
    order.into_iter().map(|(_, _, name)| name.clone()).collect()
}

pub(super) fn heading(key: &Key, objectives: &Objectives, parameters: &BTreeSet<String>) -> String {
    match key {
        Key::Number => "trial".to_owned(),
        Key::State => "state".to_owned(),
        Key::Value(i) => objectives.names().get(*i).cloned().unwrap_or_default(),
        Key::Duration => "time".to_owned(),
        Key::Attempts => "attempts".to_owned(),
        Key::Reason => "reason".to_owned(),
        Key::Parameter(name) => short_name(name, parameters.iter()).to_owned(),
        Key::Attribute(name) => name.clone(),
    }
}

/// What a trial has of a key, for people; `live`: whether a process works on the study.
pub(super) fn cell(key: &Key, trial: &FrozenTrial, attempts: Option<u32>, live: bool) -> String {
    let text = match key {
        // As `tune status` says it; RUNNING is Optuna's word, and that of JSON and CSV.
        Key::State if trial.state == TrialState::Running && !live => Some("unfinished".to_owned()),
        Key::Parameter(name) => trial.params.get(name).map(format::value),
        Key::Duration => runtime(trial).map(format::duration),
        Key::Value(i) => trial.values.get(*i).map(|v| report::format::value(*v)),
        Key::Number | Key::State | Key::Attempts | Key::Reason | Key::Attribute(_) => {
            let value = key.value(trial, attempts);
            value.map(|value| format::attribute(&value))
        }
    };
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use search::space::Domain;

    fn column(cells: [&str; 2], kept: bool) -> Column {
        Column {
            cells: cells.map(str::to_owned).to_vec(),
            kept,
        }
    }

    #[test]
    fn as_many_columns_are_shown_as_fit_and_those_that_are_kept_in_any_case() {
        let columns = || {
            vec![
                column(["trial", "7"], true),
                column(["lr", "1e-3"], false),
                column(["optimizer", "x"], false),
                column(["on", "1"], false),
                column(["reason", "oom"], true),
            ]
        };
        let told = |width| {
            let shown = fitting(columns(), width);
            shown
                .iter()
                .map(|c| c.cells[0].clone())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(told(Width::Any), "trial lr optimizer on reason");
        assert_eq!(told(Width::Of(34)), "trial lr optimizer on reason");
        assert_eq!(told(Width::Of(33)), "trial lr optimizer reason");
        assert_eq!(told(Width::Of(23)), "trial lr on reason");
        assert_eq!(told(Width::Of(3)), "trial reason");
    }

    #[test]
    fn a_long_reason_is_shortened_only_where_there_is_no_room() {
        let reason = "a reason of more than forty characters, which is long";
        let shown = |width| {
            let mut columns = [
                column(["trial", "7"], true),
                column(["reason", reason], true),
            ];
            shorten_last(&mut columns, width);
            columns[1].cells[1].clone()
        };
        assert_eq!(shown(Width::Any), reason);
        assert_eq!(shown(Width::Of(200)), reason);
        assert_eq!(
            shown(Width::Of(50)),
            "a reason of more than forty character..."
        );
        assert_eq!(shown(Width::Of(40)), "a reason of more than forty ch...");
        assert_eq!(shown(Width::Of(9)), "a reason of m...");
    }

    #[test]
    fn what_varies_comes_first_and_of_that_what_decides() {
        let names: BTreeSet<String> = ["a", "b", "c"].map(str::to_owned).into();
        let trial = |number: u64| {
            // The value is that of c; b only varies.
            let (b, c) = ((number * 7 % 10) as f64 / 10.0, number as f64 / 20.0);
            let values = [("a", 1.0), ("b", b), ("c", c)];
            let params = values.map(|(name, x)| (name.to_owned(), x.into()));
            let mut trial = FrozenTrial::new(number, TrialState::Complete, params.into());
            let domain = Domain::Float {
                low: 0.0,
                high: 1.0,
                log: false,
                step: None,
            };
            trial.distributions = names
                .iter()
                .map(|name| (name.clone(), domain.clone()))
                .collect();
            trial.values = vec![c];
            trial
        };
        let trials: Vec<FrozenTrial> = (0..20).map(trial).collect();
        let order =
            |trials: &[FrozenTrial]| order_of_parameters(trials, &names, &[Direction::Minimize]);
        assert_eq!(order(&trials), ["c", "b", "a"]);
        assert_eq!(order(&trials[..1]), ["a", "b", "c"]);
    }
}
