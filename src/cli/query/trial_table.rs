//! The table of a study's trials that `tune watch` keeps, filters and sorts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock};

use serde_json::Value as Json;
use view::{Arranged, Column, Sorting};

use super::columns::{cell, heading, order_of_parameters};
use super::format;
use super::key::Key;
use super::objectives::Objectives;
use super::reason::reason;
use super::selection::{Wanted, best_first, by_value, condition};
use super::trials::parameter_names;
use search::space::Domain;
use search::study::{Direction, FrozenTrial};
use store::Changes;

/// What matters is found anew once the study has so many times the trials.
const GROWTH: usize = 4;

/// Trials as they were last read, ascending by number, without their reports.
pub(super) struct TrialTable {
    pub(super) trials: Vec<FrozenTrial>,
    pub(super) attempts: BTreeMap<u64, u32>,
    /// Whether a process works on the study.
    pub(super) live: bool,
    objectives: Objectives,
    directions: Vec<Direction>,
    /// What the words of a filter are looked for in, by trial.
    texts: BTreeMap<u64, String>,
    parameters: BTreeSet<String>,
    attributes: BTreeSet<String>,
    /// The parameters, the most telling first, as of so many trials.
    order: (Vec<String>, usize),
    /// The best first, then the others, the latest first.
    ranked: Vec<u64>,
}

impl TrialTable {
    pub(super) fn new(objectives: Objectives, directions: &[Direction]) -> TrialTable {
        TrialTable {
            trials: Vec::new(),
            attempts: BTreeMap::new(),
            live: false,
            objectives,
            directions: directions.to_vec(),
            texts: BTreeMap::new(),
            parameters: BTreeSet::new(),
            attributes: BTreeSet::new(),
            order: (Vec::new(), 0),
            ranked: Vec::new(),
        }
    }

    /// Takes over what has changed.
    pub(super) fn apply(&mut self, changes: Changes) {
        for number in &changes.gone {
            if let Ok(at) = self.place(*number) {
                self.trials.remove(at);
            }
            self.texts.remove(number);
        }
        for mut trial in changes.trials {
            trial.intermediate.clear();
            self.parameters.extend(trial.params.keys().cloned());
            self.attributes.extend(trial.user_attrs.keys().cloned());
            self.texts.insert(trial.number, text(&trial));
            match self.place(trial.number) {
                Ok(at) => self.trials[at] = trial,
                Err(at) => self.trials.insert(at, trial),
            }
        }
        self.ranked = best_first(&self.directions, &self.trials, usize::MAX);
        let best: BTreeSet<u64> = self.ranked.iter().copied().collect();
        let others = self.trials.iter().rev().map(|t| t.number);
        self.ranked.extend(others.filter(|n| !best.contains(n)));
        let known = self.order.0.len() == self.parameters.len();
        if !known || self.trials.len() >= GROWTH * self.order.1 {
            self.parameters = parameter_names(self.trials.iter().map(|t| &t.params));
            let order = order_of_parameters(&self.trials, &self.parameters, &self.directions);
            self.order = (order, self.trials.len());
        }
    }

    fn place(&self, number: u64) -> Result<usize, usize> {
        self.trials.binary_search_by_key(&number, |t| t.number)
    }

    fn keys(&self) -> Vec<Key> {
        let mut keys = vec![Key::Number, Key::State];
        keys.extend((0..self.objectives.names().len()).map(Key::Value));
        keys.push(Key::Duration);
        let again = self.attempts.values().any(|n| *n > 1);
        keys.extend(again.then_some(Key::Attempts));
        keys.push(Key::Reason);
        keys.extend(self.order.0.iter().cloned().map(Key::Parameter));
        keys
    }

    fn column(&self, key: &Key) -> Column {
        let numeric = |name: &str| {
            let of = |t: &FrozenTrial| t.distributions.get(name).cloned();
            let domain = self.trials.iter().find_map(of);
            domain.is_some_and(|d| !matches!(d, Domain::Categorical { .. }))
        };
        let (right, kept) = match key {
            Key::Number | Key::Value(_) | Key::Duration => (true, true),
            Key::Attempts => (true, false),
            Key::State => (false, true),
            Key::Reason | Key::Attribute(_) => (false, false),
            Key::Parameter(name) => (numeric(name), false),
        };
        Column {
            heading: heading(key, &self.objectives, &self.parameters),
            right,
            kept,
        }
    }

    fn cells(&self, number: u64) -> Vec<String> {
        let Ok(at) = self.place(number) else {
            return Vec::new();
        };
        let attempts = self.attempts.get(&number).copied();
        let cell = |key| cell(key, &self.trials[at], attempts, self.live);
        self.keys().iter().map(cell).collect()
    }

    fn arranged(&self, filter: &str, sorting: Sorting) -> Arranged {
        let mut wanted = Vec::new();
        let mut words = Vec::new();
        let mut wrong = None;
        for word in filter.split_whitespace() {
            match word.contains(['<', '>', '=', '!']) {
                false => words.push(word.to_lowercase()),
                true => match self.wanted(word) {
                    Ok(condition) => wanted.push(condition),
                    Err(why) => wrong = Some(why),
                },
            }
        }
        let passes = |number: &u64| {
            let text = self.texts.get(number).map_or("", String::as_str);
            let has = |word: &String| text.contains(word.as_str()) || *word == number.to_string();
            words.iter().all(has)
                && self.place(*number).is_ok_and(|at| {
                    let attempts = self.attempts.get(number).copied();
                    wanted.iter().all(|w| w.holds(&self.trials[at], attempts))
                })
        };
        let mut numbers: Vec<u64> = self.ranked.iter().copied().filter(passes).collect();
        match sorting.column.and_then(|c| self.keys().get(c).cloned()) {
            Some(key) => self.sort(&mut numbers, &key, sorting.reverse),
            None if sorting.reverse => numbers.reverse(),
            None => {}
        }
        Arranged { numbers, wrong }
    }

    fn wanted<'a>(&self, word: &'a str) -> Result<Wanted<'a>, String> {
        let condition = condition(word)?;
        let names = self.objectives.names();
        let key = Key::named(condition.0, names, &self.parameters, &self.attributes)?;
        Wanted::of(condition, key, &self.trials)
            .map_err(|why| why.trim_start_matches([':', ' ']).to_owned())
    }

    fn sort(&self, numbers: &mut Vec<u64>, key: &Key, down: bool) {
        let value = |number: u64| {
            let trial = &self.trials[self.place(number).ok()?];
            key.value(trial, self.attempts.get(&number).copied())
        };
        let mut keyed: Vec<(Option<Json>, u64)> = numbers.iter().map(|n| (value(*n), *n)).collect();
        keyed.sort_by(|(a, m), (b, n)| by_value(a.as_ref(), b.as_ref(), down).then(m.cmp(n)));
        *numbers = keyed.into_iter().map(|(_, number)| number).collect();
    }
}

/// What the words of a filter are looked for in.
fn text(trial: &FrozenTrial) -> String {
    let state = trial.state.to_string();
    let mut text = format!("{state} {}", reason(trial));
    for (name, value) in &trial.params {
        text += &format!(" {name}={}", format::value(value));
    }
    text.to_lowercase()
}

/// A table that a thread keeps while another one shows it.
pub(super) struct Shared(pub(super) RwLock<TrialTable>);

impl Shared {
    fn ask<T>(&self, question: impl FnOnce(&TrialTable) -> T) -> T {
        question(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl view::Trials for Shared {
    fn count(&self) -> usize {
        self.ask(|table| table.trials.len())
    }

    fn columns(&self) -> Vec<Column> {
        self.ask(|table| table.keys().iter().map(|key| table.column(key)).collect())
    }

    fn cells(&self, number: u64) -> Vec<String> {
        self.ask(|table| table.cells(number))
    }

    fn arranged(&self, filter: &str, sorting: Sorting) -> Arranged {
        self.ask(|table| table.arranged(filter, sorting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use search::space::Value;
    use search::study::TrialState;
    use serde_json::json;

    fn trial(
        number: u64,
        state: TrialState,
        loss: Option<f64>,
        lr: f64,
        name: &str,
    ) -> FrozenTrial {
        let params = [
            ("optim.lr".to_owned(), Value::Float(lr)),
            ("optim.name".to_owned(), Value::Str(name.to_owned())),
        ];
        let mut trial = FrozenTrial::new(number, state, params.into());
        let low_high = Domain::Float {
            low: 1e-6,
            high: 1.0,
            log: true,
            step: None,
        };
        let choices = ["adam", "sgd"].map(|c| Value::Str(c.to_owned())).to_vec();
        trial.distributions.insert("optim.lr".to_owned(), low_high);
        let choices = Domain::Categorical { choices };
        trial.distributions.insert("optim.name".to_owned(), choices);
        trial.values = loss.into_iter().collect();
        trial
    }

    fn table() -> TrialTable {
        let objectives = Objectives::named("loss", Direction::Minimize);
        let mut table = TrialTable::new(objectives, &[Direction::Minimize]);
        let complete = TrialState::Complete;
        let mut failed = trial(3, TrialState::Fail, None, 0.5, "sgd");
        let attrs = json!({"fault": "task_error", "error_msg": "bad batch"});
        failed.user_attrs = attrs.as_object().unwrap().clone();
        table.apply(Changes {
            trials: vec![
                trial(0, complete, Some(0.3), 1e-3, "adam"),
                trial(1, complete, Some(0.1), 1e-2, "sgd"),
                trial(2, complete, Some(0.2), 1e-5, "adam"),
                failed,
                trial(4, TrialState::Running, None, 0.1, "adam"),
            ],
            ..Changes::default()
        });
        table
    }

    fn numbers(table: &TrialTable, filter: &str) -> Vec<u64> {
        let arranged = table.arranged(filter, Sorting::default());
        assert_eq!(arranged.wrong, None, "{filter}");
        arranged.numbers
    }

    #[test]
    fn the_best_come_first_and_what_has_no_value_last() {
        assert_eq!(numbers(&table(), ""), [1, 2, 0, 4, 3]);
    }

    #[test]
    fn words_stand_in_the_trial_and_conditions_hold_for_it() {
        let table = table();
        assert_eq!(numbers(&table, "Adam"), [2, 0, 4]);
        assert_eq!(numbers(&table, "adam running"), [4]);
        assert_eq!(numbers(&table, "batch"), [3]);
        assert_eq!(numbers(&table, "lr<2e-3"), [2, 0]);
        assert_eq!(numbers(&table, "optim.name=adam loss<0.25"), [2]);
        assert_eq!(numbers(&table, "state=complete sgd"), [1]);
        assert_eq!(numbers(&table, "4"), [4]);
    }

    #[test]
    fn a_condition_that_is_none_is_told_and_lets_everything_pass() {
        let wrong = |filter: &str| {
            let arranged = table().arranged(filter, Sorting::default());
            assert_eq!(arranged.numbers.len(), 5, "{filter}");
            arranged.wrong.unwrap()
        };
        assert!(wrong("lr<").contains("expected KEY<VALUE"));
        assert!(wrong("lf<1").starts_with("no trial has lf"));
        assert!(wrong("name=adm").starts_with("optim.name is never adm (did you mean adam?)"));
    }

    #[test]
    fn any_column_sorts() {
        let table = table();
        let by = |heading: &str, reverse| {
            let columns: Vec<Column> = table.keys().iter().map(|k| table.column(k)).collect();
            let column = columns.iter().position(|c| c.heading == heading);
            assert!(column.is_some(), "{columns:?}");
            table.arranged("", Sorting { column, reverse }).numbers
        };
        assert_eq!(by("trial", false), [0, 1, 2, 3, 4]);
        assert_eq!(by("lr", false), [2, 0, 1, 4, 3]);
        assert_eq!(by("loss", true), [0, 2, 1, 3, 4]);
        assert_eq!(by("name", false), [0, 2, 4, 1, 3]);
    }

    #[test]
    fn changes_are_taken_over() {
        let mut table = table();
        table.apply(Changes {
            gone: vec![1, 9],
            trials: vec![
                trial(4, TrialState::Complete, Some(0.05), 0.1, "adam"),
                trial(5, TrialState::Running, None, 0.1, "adam"),
            ],
            ..Changes::default()
        });
        assert_eq!(numbers(&table, ""), [4, 2, 0, 5, 3]);
        assert_eq!(table.cells(1), Vec::<String>::new());
        let cells = table.cells(4);
        assert_eq!(
            (cells[0].as_str(), cells[1].as_str(), cells[2].as_str()),
            ("4", "COMPLETE", "0.05")
        );
    }
}
