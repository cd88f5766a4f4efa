//! What samplers and pruners know of a study.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use crate::space::{Params, Space};

use super::{Direction, FrozenTrial, TrialState, ranking, violation};

/// One trial as a sampler sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Trial number.
    pub number: u64,
    /// State. RUNNING entries are pending: they count (constant liar), but have no value.
    pub state: TrialState,
    /// Parameter values.
    pub params: Params,
    /// The values in internal representation, in the space's order (see
    /// [`Space::encode`]); NaN where a parameter is inactive.
    pub code: Vec<f64>,
    /// One value an objective; empty without a result.
    pub values: Vec<f64>,
    /// Reported values by step.
    pub intermediate: BTreeMap<i64, f64>,
    /// See [`violation`]: above 0 is infeasible, `None` is without any constraint.
    pub violation: Option<f64>,
    /// A fault ended it: what it had reported says nothing of what would have become of it.
    pub faulted: bool,
    /// Its point was one of the best of another study: what is usual cannot be told by it.
    pub chosen: bool,
}

impl Entry {
    /// The first objective's value.
    pub fn value(&self) -> Option<f64> {
        self.values.first().copied()
    }

    /// Its values, if it can be one of the best of a study with so many objectives.
    pub fn result(&self, objectives: usize) -> Option<&[f64]> {
        ranking::result(self.state, &self.values, objectives).filter(|_| self.feasible())
    }

    /// Whether it violates no constraint.
    pub fn feasible(&self) -> bool {
        self.violation.is_none_or(|v| v <= 0.0)
    }

    /// The last reported step and its value.
    pub fn last_report(&self) -> Option<(i64, f64)> {
        self.intermediate.iter().next_back().map(|(s, v)| (*s, *v))
    }
}

/// The user attributes of a trial that a fault ended: tune's word for its kind, and the marks that
/// scripts of other programs set.
const FAULTS: [&str; 6] = [
    "fault",
    "cuda_error",
    "oom",
    "hang",
    "diverged",
    "infeasible",
];

/// Whether a fault ended the trial: it says so, or NaN is the last that it reported. One that
/// reached its end all the same has a value that counts.
fn faulted(trial: &FrozenTrial) -> bool {
    let set = |name: &str| match trial.user_attrs.get(name) {
        Some(Json::Bool(set)) => *set,
        Some(other) => !other.is_null(),
        None => false,
    };
    let last = trial.intermediate.values().next_back();
    trial.state == TrialState::Pruned
        && (FAULTS.iter().any(|name| set(name)) || last.is_some_and(|v| v.is_nan()))
}

/// What has become of trials, by number; `None`: it is gone.
pub type Updates = Vec<(u64, Option<Entry>)>;

/// The trials of a study, in order of number, encoded for its space.
#[derive(Debug, Clone)]
pub struct History {
    directions: Vec<Direction>,
    entries: Vec<Entry>,
    /// Trials that have changed since the last [`History::take_updates`].
    changed: BTreeSet<u64>,
}

impl History {
    /// An empty history; one direction an objective.
    pub fn new(directions: Vec<Direction>) -> History {
        History {
            directions,
            entries: Vec::new(),
            changed: BTreeSet::new(),
        }
    }

    /// The direction of the first objective.
    pub fn direction(&self) -> Direction {
        self.directions
            .first()
            .copied()
            .unwrap_or(Direction::Minimize)
    }

    /// All directions.
    pub fn directions(&self) -> &[Direction] {
        &self.directions
    }

    /// All trials, ascending by number.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The trial with this number.
    pub fn get(&self, number: u64) -> Option<&Entry> {
        self.position(number).ok().map(|i| &self.entries[i])
    }

    /// Adds a trial, or replaces the one with its number. One that was struck is left out.
    pub fn put(&mut self, space: &Space, trial: &FrozenTrial) {
        if trial.struck() {
            self.remove(trial.number);
            return;
        }
        let entry = Entry {
            number: trial.number,
            state: trial.state,
            params: trial.params.clone(),
            code: space.encode(&trial.params),
            values: trial.values.clone(),
            intermediate: trial.intermediate.clone(),
            violation: violation(trial),
            faulted: faulted(trial),
            chosen: trial.user_attrs.contains_key("point_from"),
        };
        self.set(entry);
    }

    fn set(&mut self, entry: Entry) {
        self.changed.insert(entry.number);
        match self.position(entry.number) {
            Ok(i) => self.entries[i] = entry,
            Err(i) => self.entries.insert(i, entry),
        }
    }

    /// Notes a reported value of a running trial.
    pub fn report(&mut self, number: u64, step: i64, value: f64) {
        if let Ok(i) = self.position(number) {
            self.changed.insert(number);
            self.entries[i].intermediate.insert(step, value);
        }
    }

    /// Forgets the reports of an attempt that will be repeated.
    pub fn clear_reports(&mut self, number: u64) {
        if let Ok(i) = self.position(number) {
            self.changed.insert(number);
            self.entries[i].intermediate.clear();
        }
    }

    /// Removes a trial that turned out not to exist.
    pub fn remove(&mut self, number: u64) {
        if let Ok(i) = self.position(number) {
            self.changed.insert(number);
            self.entries.remove(i);
        }
    }

    /// A trial has another number than was thought; there is none of that number.
    pub fn renumber(&mut self, from: u64, to: u64) {
        if let Ok(at) = self.position(from) {
            let entry = self.entries.remove(at);
            self.changed.insert(from);
            self.set(Entry {
                number: to,
                ..entry
            });
        }
    }

    /// What has changed since this was last asked; at first all trials.
    pub fn take_updates(&mut self) -> Updates {
        let changed = std::mem::take(&mut self.changed).into_iter();
        changed.map(|n| (n, self.get(n).cloned())).collect()
    }

    /// Brings this up to date with the history that gave these updates; all of its updates have to come here, in order.
    pub fn apply(&mut self, updates: Updates) {
        for (number, entry) in updates {
            match entry {
                Some(entry) => self.set(entry),
                None => self.remove(number),
            }
        }
        self.changed.clear();
    }

    /// The best COMPLETE trial; among equals the earliest. Infeasible trials do not count.
    pub fn best(&self) -> Option<&Entry> {
        let value = |e: &Entry| e.result(self.directions.len())?.first().copied();
        let results = self.entries.iter().filter_map(|e| Some((e, value(e)?)));
        self.direction().best(results).map(|(best, _)| best)
    }

    fn position(&self, number: u64) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&number, |e| e.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::testing::trial;
    use crate::study::STRUCK;
    use proptest::prelude::*;
    use serde_json::json;

    fn faulted_as(state: TrialState, attrs: Json, reports: &[f64]) -> bool {
        let mut told = trial(0, state, Params::new(), None);
        told.intermediate = (1..).zip(reports.iter().copied()).collect();
        let attrs = attrs.as_object().cloned().unwrap_or_default();
        told.user_attrs = attrs.into_iter().collect();
        let mut history = History::new(vec![Direction::Minimize]);
        history.put(&Space::default(), &told);
        history.entries()[0].faulted
    }

    #[test]
    fn a_fault_shows_by_its_marks_and_by_nan() {
        use TrialState::{Complete, Pruned};
        for attrs in [
            json!({"fault": "assert", "cuda_error": true}),
            json!({"hang": true}),
            json!({"diverged": true}),
            json!({"oom": true, "diverged": false}),
        ] {
            assert!(faulted_as(Pruned, attrs.clone(), &[0.1]), "{attrs}");
            assert!(!faulted_as(Complete, attrs, &[0.1]));
        }
        assert!(faulted_as(Pruned, json!({}), &[0.1, f64::NAN]));
        assert!(!faulted_as(Pruned, json!({}), &[f64::NAN, 0.1]));
        let marks = json!({"diverged": false, "fault": null, "worker": 3});
        assert!(!faulted_as(Pruned, marks, &[0.1]));
    }

    #[test]
    fn a_trial_that_was_struck_teaches_nothing() {
        let mut history = History::new(vec![Direction::Minimize]);
        let mut told = trial(0, TrialState::Complete, Params::new(), Some(0.1));
        history.put(&Space::default(), &told);
        history.take_updates();
        told.system_attrs.insert(STRUCK.to_owned(), json!(1.0));
        history.put(&Space::default(), &told);
        assert_eq!(history.best(), None);
        assert_eq!(history.take_updates(), [(0, None)]);
    }

    #[test]
    fn who_follows_the_news_knows_the_same() {
        let mut told = History::new(vec![Direction::Minimize]);
        let mut follows = told.clone();
        let space = Space::default();
        let running = |number| trial(number, TrialState::Running, Params::new(), None);
        for number in 0..4 {
            told.put(&space, &running(number));
        }
        let first = told.take_updates();
        assert_eq!(first.len(), 4);
        follows.apply(first);
        assert_eq!(told.take_updates(), []);
        told.report(1, 1, 0.5);
        told.report(2, 1, 0.5);
        told.clear_reports(2);
        told.remove(3);
        told.put(
            &space,
            &trial(0, TrialState::Complete, Params::new(), Some(0.1)),
        );
        told.report(9, 1, 0.5);
        let changes = told.take_updates();
        assert_eq!(changes.len(), 4);
        follows.apply(changes);
        assert_eq!(follows.entries(), told.entries());
        assert_eq!(follows.take_updates(), []);
    }

    proptest! {
        #[test]
        fn whatever_happens_between_two_news_they_tell_all_of_it(
            acts in proptest::collection::vec((0u8..5, 0u64..6, -1.0..1.0f64), 0..60),
        ) {
            let space = Space::default();
            let mut told = History::new(vec![Direction::Minimize]);
            let mut follows = told.clone();
            for (act, number, value) in acts {
                let state = if value > 0.0 { TrialState::Complete } else { TrialState::Running };
                match act {
                    0 => told.put(&space, &trial(number, state, Params::new(), Some(value))),
                    1 => told.remove(number),
                    2 => told.report(number, 1, value),
                    3 => told.clear_reports(number),
                    _ => {
                        follows.apply(told.take_updates());
                        prop_assert_eq!(follows.entries(), told.entries());
                    }
                }
            }
        }
    }
}
