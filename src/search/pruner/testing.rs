//! Trials and histories for the tests of pruners.

use super::Pruner;
use crate::sampler::testing::trial;
use crate::space::Space;
use crate::study::{Direction, Entry, History, TrialState};

/// A trial with reports from step 0; its value is the best one.
pub fn entry(number: u64, state: TrialState, reports: &[f64]) -> Entry {
    steps(number, state, (0..).zip(reports.iter().copied()))
}

/// A trial with reports from step 1.
pub fn epochs(number: u64, state: TrialState, reports: &[f64]) -> Entry {
    steps(number, state, (1..).zip(reports.iter().copied()))
}

pub fn steps(number: u64, state: TrialState, reports: impl Iterator<Item = (i64, f64)>) -> Entry {
    Entry {
        number,
        state,
        params: Default::default(),
        code: vec![],
        values: vec![],
        intermediate: reports.collect(),
        violation: None,
        faulted: false,
        chosen: false,
    }
}

/// The history that holds these trials; those that are COMPLETE have their best report as value.
pub fn history(direction: Direction, entries: &[Entry]) -> History {
    let mut history = History::new(vec![direction]);
    for entry in entries {
        put(&mut history, entry);
    }
    history
}

pub fn put(history: &mut History, entry: &Entry) {
    let direction = history.direction();
    let losses = entry.intermediate.values().map(|v| direction.loss(*v));
    let best = losses.reduce(f64::min).map(|loss| direction.loss(loss));
    let value = best.filter(|v| entry.state == TrialState::Complete && !v.is_nan());
    let mut trial = trial(entry.number, entry.state, entry.params.clone(), value);
    trial.intermediate.clone_from(&entry.intermediate);
    if entry.chosen {
        trial.user_attrs.insert("point_from".into(), "other".into());
    }
    history.put(&Space::default(), &trial);
}

/// Whether a trial with these reports is pruned at the last of them, beside COMPLETE trials.
pub fn prunes(
    pruner: &mut dyn Pruner,
    direction: Direction,
    others: &[&[f64]],
    own: &[f64],
) -> bool {
    let entries: Vec<Entry> = (0..)
        .zip(others)
        .map(|(number, reports)| entry(number, TrialState::Complete, reports))
        .collect();
    let own = entry(99, TrialState::Running, own);
    pruner.should_prune(&history(direction, &entries), &own)
}
