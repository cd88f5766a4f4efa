//! Median stopping (Golovin et al., "Google Vizier", 2017, section 3.2.1; the rule is Optuna's
//! `MedianPruner`).

use super::Pruner;
use crate::study::{Direction, Entry, History, TrialState};

/// Ends a trial whose best report so far is worse than the median of what the COMPLETE trials
/// reported at the same step.
///
/// A COMPLETE trial that had ended by its own patience before that step takes part with its best
/// value: it would have had nothing worse to offer, and without it only the trials that improved
/// for long would be left to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MedianPruner {
    /// Nothing is pruned while fewer trials than this are COMPLETE.
    pub n_startup_trials: usize,
    /// Reports of steps below this are never judged.
    pub n_warmup_steps: i64,
    /// From the warm-up on, a report is judged when it is the first at or after every such step.
    pub interval_steps: i64,
    /// Fewer values than this to compare with, and the trial goes on.
    pub n_min_trials: usize,
}

impl Default for MedianPruner {
    fn default() -> MedianPruner {
        MedianPruner {
            n_startup_trials: 5,
            n_warmup_steps: 0,
            interval_steps: 1,
            n_min_trials: 1,
        }
    }
}

impl Pruner for MedianPruner {
    fn name(&self) -> &'static str {
        "median"
    }

    fn should_prune(&self, history: &History, trial: &Entry) -> bool {
        let Some((step, _)) = trial.last_report() else {
            return false;
        };
        if !self.judges(trial, step) {
            return false;
        }
        let direction = history.direction();
        let complete =
            |e: &&Entry| e.state == TrialState::Complete && e.number != trial.number && !e.chosen;
        let others = || history.entries().iter().filter(complete);
        if others().count() < self.n_startup_trials.max(1) {
            return false;
        }
        let mut losses: Vec<f64> = others()
            .filter_map(|e| at(e, step, direction))
            .filter(|v| !v.is_nan())
            .collect();
        if losses.is_empty() || losses.len() < self.n_min_trials {
            return false;
        }
        let Some(own) = best_until(trial, step, direction) else {
            return false;
        };
        // Written so that NaN, a trial without any number so far, is pruned.
        own.is_nan() || own > median(&mut losses)
    }
}

impl MedianPruner {
    /// Whether the report at `step` is the first at or after one of the steps to judge.
    fn judges(&self, trial: &Entry, step: i64) -> bool {
        if step < self.n_warmup_steps {
            return false;
        }
        let interval = self.interval_steps.max(1);
        let due = self.n_warmup_steps + (step - self.n_warmup_steps) / interval * interval;
        let previous = trial.intermediate.range(..step).next_back();
        previous.is_none_or(|(before, _)| *before < due)
    }
}

/// A completed trial's report at `step` as a loss; where it had ended before, its best until then.
fn at(entry: &Entry, step: i64, direction: Direction) -> Option<f64> {
    match entry.intermediate.get(&step) {
        Some(value) => Some(direction.loss(*value)),
        None => best_until(entry, step, direction),
    }
}

/// The best report up to `step` as a loss: NaN where all are NaN, `None` where there is none.
fn best_until(entry: &Entry, step: i64, direction: Direction) -> Option<f64> {
    let reports = entry.intermediate.range(..=step);
    // `f64::min` prefers any number to NaN.
    reports.map(|(_, v)| direction.loss(*v)).reduce(f64::min)
}

/// Not empty, without NaN; the mean of the two in the middle of an even number.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    let (a, b) = (values[(n - 1) / 2], values[n / 2]);
    // Equal infinities have no mean by the formula.
    if a == b { a } else { a / 2.0 + b / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64, state: TrialState, reports: &[f64]) -> Entry {
        Entry {
            number,
            state,
            params: Default::default(),
            code: vec![],
            values: vec![],
            intermediate: (0..).zip(reports.iter().copied()).collect(),
            violation: None,
            chosen: false,
        }
    }

    fn pruner() -> MedianPruner {
        MedianPruner {
            n_startup_trials: 1,
            ..MedianPruner::default()
        }
    }

    fn prunes(pruner: &MedianPruner, direction: Direction, others: &[&[f64]], own: &[f64]) -> bool {
        let space = crate::space::Space::default();
        let mut history = History::new(vec![direction]);
        for (number, reports) in (0..).zip(others) {
            let params = Default::default();
            let state = TrialState::Complete;
            let mut trial = crate::sampler::testing::trial(number, state, params, Some(0.0));
            trial.intermediate = (0..).zip(reports.iter().copied()).collect();
            history.put(&space, &trial);
        }
        pruner.should_prune(&history, &entry(99, TrialState::Running, own))
    }

    #[test]
    fn worse_than_the_median_is_pruned_in_either_direction() {
        let others: &[&[f64]] = &[&[1.0], &[2.0], &[3.0], &[10.0]];
        assert!(prunes(&pruner(), Direction::Minimize, others, &[2.6]));
        assert!(!prunes(&pruner(), Direction::Minimize, others, &[2.5]));
        assert!(prunes(&pruner(), Direction::Maximize, others, &[2.4]));
        assert!(!prunes(&pruner(), Direction::Maximize, others, &[2.5]));
    }

    #[test]
    fn the_best_report_so_far_counts() {
        let others: &[&[f64]] = &[&[9.0, 5.0], &[9.0, 5.0]];
        assert!(!prunes(&pruner(), Direction::Minimize, others, &[4.0, 8.0]));
        assert!(prunes(&pruner(), Direction::Minimize, others, &[6.0, 8.0]));
    }

    #[test]
    fn a_trial_that_ended_early_takes_part_with_its_best_value() {
        let others: &[&[f64]] = &[&[3.0, 1.0], &[4.0, 2.0], &[9.0, 9.0, 9.0]];
        let own = [5.0, 5.0, 5.0];
        assert!(prunes(&pruner(), Direction::Minimize, others, &own));
        assert!(!prunes(&pruner(), Direction::Minimize, &others[2..], &own));
    }

    #[test]
    fn nan_is_worst_and_never_counts_among_the_others() {
        let others: &[&[f64]] = &[&[f64::NAN], &[2.0]];
        let d = Direction::Minimize;
        assert!(prunes(&pruner(), d, others, &[f64::NAN]));
        assert!(!prunes(&pruner(), d, others, &[1.0]));
        assert!(!prunes(&pruner(), d, &others[..1], &[1.0]));
        let infinite: &[&[f64]] = &[&[f64::INFINITY], &[f64::INFINITY]];
        assert!(!prunes(&pruner(), d, infinite, &[f64::INFINITY]));
        assert!(prunes(&pruner(), d, others, &[f64::INFINITY]));
    }

    #[test]
    fn start_up_warm_up_interval_and_minimum_are_kept() {
        let others: &[&[f64]] = &[&[1.0, 1.0, 1.0, 1.0], &[1.0, 1.0, 1.0, 1.0]];
        let d = Direction::Minimize;
        let start = MedianPruner {
            n_startup_trials: 3,
            ..pruner()
        };
        assert!(!prunes(&start, d, others, &[5.0]));
        let warm = MedianPruner {
            n_warmup_steps: 1,
            interval_steps: 2,
            ..pruner()
        };
        let judged = |n: usize| prunes(&warm, d, others, &[5.0; 4][..n]);
        assert_eq!([1, 2, 3, 4].map(judged), [false, true, false, true]);
        let many = MedianPruner {
            n_min_trials: 3,
            ..pruner()
        };
        assert!(!prunes(&many, d, others, &[5.0]));
        assert!(!prunes(&pruner(), d, others, &[]));
        assert!(!prunes(&pruner(), d, &[], &[5.0]));
    }
}
