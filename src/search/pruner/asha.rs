//! Asynchronous successive halving (Li et al., "A System for Massively Parallel Hyperparameter
//! Tuning", 2020), with the options of Optuna's `SuccessiveHalvingPruner`.

use super::reports;
use super::{Horizon, PruneContext, Pruner};
use crate::study::{Direction, Entry, TrialState};

/// Ends a trial that, when it reaches a rung, is not among the best `1 / reduction_factor` of the
/// trials that have reached it so far. Rung `k` lies at step
/// `min_resource * reduction_factor ^ (min_early_stopping_rate + k)`.
///
/// Trials are compared by their best report until the rung, as the best epoch's value is what a
/// trial comes to. A COMPLETE trial that ended before a rung takes part in it with its best value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AshaPruner {
    /// The step of rung 0, at least 1. `None`: a hundredth of the longest trial, at least 1.
    pub min_resource: Option<i64>,
    /// One trial of so many goes on, at least 2.
    pub reduction_factor: i64,
    /// So many of the lowest rungs are left out.
    pub min_early_stopping_rate: u32,
    /// At each rung, the first so many trials end.
    pub bootstrap_count: usize,
    /// Without `min_resource`, its measure; nothing ends at its last step.
    pub horizon: Horizon,
}

impl Default for AshaPruner {
    fn default() -> AshaPruner {
        AshaPruner {
            min_resource: None,
            reduction_factor: 4,
            min_early_stopping_rate: 0,
            bootstrap_count: 0,
            horizon: Horizon::default(),
        }
    }
}

impl Pruner for AshaPruner {
    fn name(&self) -> &'static str {
        "asha"
    }

    fn judge(&mut self, judged: &PruneContext) -> bool {
        self.judge_among(judged, |_| true)
    }
}

impl AshaPruner {
    /// The decision, where only the trials that `competes` allows are compared with.
    pub(super) fn judge_among(
        &self,
        judged: &PruneContext,
        competes: impl Fn(&Entry) -> bool,
    ) -> bool {
        let PruneContext { history, trial, .. } = *judged;
        let direction = history.direction();
        let Some((step, _)) = trial.last_report() else {
            return false;
        };
        let (Some(own), Some(min_resource)) = (
            reports::best_until(trial, step, direction),
            self.min_resource(judged),
        ) else {
            return false;
        };
        let top =
            (self.horizon.max_step).map_or(i64::MAX, |m| i64::try_from(m).unwrap_or(i64::MAX));
        let new = self
            .rungs(min_resource)
            .take_while(|rung| *rung <= step && *rung < top)
            .filter(|rung| judged.since.is_none_or(|asked| asked < *rung));
        for rung in new {
            if own.is_nan() {
                return true;
            }
            let others = history.entries().iter();
            let others = others.filter(|e| e.number != trial.number && !e.chosen);
            // Whether a trial competes is asked last: it can cost a hash.
            let losses = others.filter_map(|e| Some((e, reached(e, rung, direction)?)));
            let losses = losses.filter(|(e, loss)| !loss.is_nan() && competes(e));
            let mut losses: Vec<f64> = losses.map(|(_, loss)| loss).collect();
            if losses.len() < self.bootstrap_count {
                return true;
            }
            if !self.promotes(own, &mut losses) {
                return true;
            }
        }
        false
    }

    /// Whether a loss is good enough to go on, among those of the others at the rung.
    fn promotes(&self, own: f64, others: &mut Vec<f64>) -> bool {
        others.push(own);
        others.sort_unstable_by(f64::total_cmp);
        // While they are fewer than the factor, only the best one goes on.
        let promoted = (others.len() / self.reduction_factor.max(2) as usize).max(1);
        others.get(promoted - 1).is_none_or(|limit| own <= *limit)
    }

    fn min_resource(&self, judged: &PruneContext) -> Option<i64> {
        self.min_resource.or_else(|| {
            let planned = self.horizon.max_step.and_then(|m| i64::try_from(m).ok());
            let learned = || reports::longest(judged.history).map(|(step, _)| step);
            let longest = planned.or_else(learned)?;
            Some((longest / 100).max(1))
        })
    }

    /// The steps of the rungs, ascending.
    fn rungs(&self, min_resource: i64) -> impl Iterator<Item = i64> {
        let factor = self.reduction_factor.max(2);
        let first = factor
            .checked_pow(self.min_early_stopping_rate)
            .and_then(|f| f.checked_mul(min_resource.max(1)));
        std::iter::successors(first, move |rung| rung.checked_mul(factor))
    }
}

/// The best loss until a rung, of a trial that has reached it or ended by itself before.
fn reached(entry: &Entry, rung: i64, direction: Direction) -> Option<f64> {
    let at = entry
        .intermediate
        .range(rung..)
        .next()
        .map(|(step, _)| *step);
    match (at, entry.state) {
        (Some(step), _) => reports::best_until(entry, step, direction),
        (None, TrialState::Complete) => reports::best_until(entry, rung, direction),
        (
            None,
            TrialState::Waiting | TrialState::Running | TrialState::Pruned | TrialState::Fail,
        ) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{epochs, history};
    use super::*;
    use crate::study::History;

    const D: Direction = Direction::Minimize;

    fn asha() -> AshaPruner {
        AshaPruner {
            min_resource: Some(1),
            reduction_factor: 2,
            ..AshaPruner::default()
        }
    }

    fn running(reports: &[f64]) -> Entry {
        epochs(99, TrialState::Running, reports)
    }

    fn pruned(values: &[f64]) -> History {
        let entries: Vec<Entry> = (0..)
            .zip(values)
            .map(|(n, v)| epochs(n, TrialState::Pruned, &[*v]))
            .collect();
        history(D, &entries)
    }

    #[test]
    fn the_best_of_each_rung_go_on_and_trials_in_any_state_compete() {
        let four = pruned(&[1.0, 2.0, 3.0, 4.0]);
        assert!(!asha().should_prune(&four, &running(&[1.5])));
        assert!(asha().should_prune(&four, &running(&[2.5])));
        assert!(!asha().should_prune(&pruned(&[]), &running(&[9.0])));
        assert!(asha().should_prune(&pruned(&[8.0]), &running(&[9.0])));
        assert!(asha().should_prune(&pruned(&[]), &running(&[f64::NAN])));
    }

    #[test]
    fn a_trial_is_judged_when_it_reaches_a_rung_and_at_no_other_step() {
        let complete = |n| epochs(n, TrialState::Complete, &[1.0; 9]);
        let history = history(D, &[complete(0), complete(1), complete(2)]);
        let judged = |n: usize| asha().should_prune(&history, &running(&[5.0; 9][..n]));
        assert_eq!(
            [1, 2, 3, 4, 5, 8].map(judged),
            [true, true, false, true, false, true]
        );
        let mut late = AshaPruner {
            min_early_stopping_rate: 2,
            ..asha()
        };
        let judged = |n: usize| late.should_prune(&history, &running(&[5.0; 9][..n]));
        assert_eq!([1, 2, 4, 8].map(judged), [false, false, true, true]);
    }

    #[test]
    fn a_trial_that_ended_by_its_patience_counts_at_later_rungs_with_its_best_value() {
        let stopped = [1.0, 1.1].map(|v| epochs(v as u64, TrialState::Complete, &[9.0, v, 9.0]));
        let pruned = [1.0, 1.1].map(|v| epochs(v as u64, TrialState::Pruned, &[9.0, v, 9.0]));
        let own = running(&[9.0, 2.0, 2.0, 2.0]);
        assert!(asha().should_prune(&history(D, &stopped), &own));
        assert!(!asha().should_prune(&history(D, &pruned), &own));
    }

    #[test]
    fn a_trial_is_compared_by_its_best_report() {
        let other = epochs(0, TrialState::Complete, &[9.0, 2.0]);
        assert!(!asha().should_prune(
            &history(D, std::slice::from_ref(&other)),
            &running(&[1.0, 5.0])
        ));
        assert!(asha().should_prune(&history(D, &[other]), &running(&[3.0, 5.0])));
    }

    #[test]
    fn the_first_rung_is_a_hundredth_of_the_longest_trial() {
        let mut unknown = AshaPruner::default();
        let own = |n: usize| running(&[5.0; 9][..n]);
        assert!(!unknown.should_prune(&pruned(&[1.0; 9]), &own(1)));
        let long = history(D, &[epochs(0, TrialState::Complete, &[1.0; 350])]);
        let mut told = AshaPruner {
            horizon: Horizon {
                max_step: Some(350),
                study: String::new(),
            },
            ..AshaPruner::default()
        };
        for pruner in [&mut unknown, &mut told] {
            let judged = [1, 2, 3, 4].map(|n| pruner.should_prune(&long, &own(n)));
            assert_eq!(judged, [false, false, true, false]);
        }
    }

    #[test]
    fn nothing_ends_at_the_last_step() {
        let other = epochs(0, TrialState::Complete, &[1.0; 4]);
        let mut told = AshaPruner {
            horizon: Horizon {
                max_step: Some(4),
                study: String::new(),
            },
            ..asha()
        };
        let history = history(D, &[other]);
        assert!(told.should_prune(&history, &running(&[5.0; 2])));
        assert!(!told.should_prune(&history, &running(&[5.0; 4])));
        assert!(asha().should_prune(&history, &running(&[5.0; 4])));
    }

    #[test]
    fn the_first_trials_of_a_rung_end_while_it_is_bootstrapped() {
        let mut bootstrapped = AshaPruner {
            bootstrap_count: 2,
            ..asha()
        };
        for (others, ends) in [(&[][..], true), (&[5.0], true), (&[5.0, 6.0], false)] {
            assert_eq!(
                bootstrapped.should_prune(&pruned(others), &running(&[1.0])),
                ends
            );
        }
    }

    #[test]
    fn chosen_points_are_not_compared_with() {
        let mut other = epochs(0, TrialState::Complete, &[1.0]);
        other.chosen = true;
        assert!(!asha().should_prune(&history(D, &[other]), &running(&[5.0])));
    }
}
