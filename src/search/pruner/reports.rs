//! What trials have reported, as pruners compare it.

use crate::study::{Direction, Entry, History, TrialState};

/// The COMPLETE trials that `trial` is compared with: those whose points were not taken from the
/// best of another study.
pub(super) fn complete<'a>(
    history: &'a History,
    trial: &'a Entry,
) -> impl Iterator<Item = &'a Entry> {
    let counts =
        |e: &&Entry| e.state == TrialState::Complete && e.number != trial.number && !e.chosen;
    history.entries().iter().filter(counts)
}

/// The best of them that is feasible, among equals the earliest.
pub(super) fn best<'a>(history: &'a History, trial: &'a Entry) -> Option<&'a Entry> {
    let value = |e: &Entry| e.result(history.directions().len())?.first().copied();
    let results = complete(history, trial).filter_map(|e| Some((e, value(e)?)));
    history.direction().best(results).map(|(best, _)| best)
}

/// The reports as losses, ascending by step, NaN as the worst.
pub(super) fn losses(trial: &Entry, direction: Direction) -> Vec<(i64, f64)> {
    let reports = trial.intermediate.iter();
    reports
        .map(|(step, value)| {
            let loss = direction.loss(*value);
            (*step, if loss.is_nan() { f64::INFINITY } else { loss })
        })
        .collect()
}

/// The best report up to `step` as a loss: NaN where all are NaN, `None` where there is none.
pub(super) fn best_until(entry: &Entry, step: i64, direction: Direction) -> Option<f64> {
    let reports = entry.intermediate.range(..=step);
    // `f64::min` prefers any number to NaN.
    reports.map(|(_, v)| direction.loss(*v)).reduce(f64::min)
}

/// The report at `step` as a loss; without one, the best before: a trial that has ended by its own
/// patience would have had nothing worse to offer.
pub(super) fn at(entry: &Entry, step: i64, direction: Direction) -> Option<f64> {
    match entry.intermediate.get(&step) {
        Some(value) => Some(direction.loss(*value)),
        None => best_until(entry, step, direction),
    }
}

/// The steps of a trial's reports that are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    /// Reports of steps below this are never looked at.
    pub warmup: i64,
    /// From the warm-up on, a report counts when it is the first at or after every such step; at
    /// least 1.
    pub steps: i64,
}

impl Interval {
    /// Whether the report at `step` is the first at or after one of the steps to look at.
    pub fn holds(self, trial: &Entry, step: i64) -> bool {
        if step < self.warmup {
            return false;
        }
        let interval = self.steps.max(1);
        let due = self.warmup + (step - self.warmup) / interval * interval;
        let previous = trial.intermediate.range(..step).next_back();
        previous.is_none_or(|(before, _)| *before < due)
    }
}

/// The longest COMPLETE trial's last step, and whether any of them counts its steps from 0.
pub(super) fn longest(history: &History) -> Option<(i64, bool)> {
    let complete = |e: &&Entry| e.state == TrialState::Complete;
    let ends = history.entries().iter().filter(complete).filter_map(|e| {
        let first = e.intermediate.keys().next()?;
        Some((e.last_report()?.0, *first == 0))
    });
    ends.reduce(|(a, zero), (b, also)| (a.max(b), zero || also))
}
