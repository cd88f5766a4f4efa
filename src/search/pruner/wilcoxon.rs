//! Stopping by Wilcoxon's signed-rank test against the best trial, as Optuna's `WilcoxonPruner` has
//! it: for objectives that are the mean over folds or instances, each of which is a step.

use super::reports::{self, losses};
use super::signed_rank;
use super::{PruneContext, Pruner};

/// Ends a trial that is worse than the best one on the steps that both have reported, unless this
/// can be chance.
///
/// Steps are the names of folds or instances, not times: a step that the best trial has not
/// reported tells nothing here, and only the best trial is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WilcoxonPruner {
    /// A trial ends if the chance of the difference is below this, from 0 to 1.
    pub p_threshold: f64,
    /// Nothing is pruned before so many common steps, and never before two.
    pub n_startup_steps: usize,
}

impl Default for WilcoxonPruner {
    fn default() -> WilcoxonPruner {
        WilcoxonPruner {
            p_threshold: 0.1,
            n_startup_steps: 2,
        }
    }
}

impl Pruner for WilcoxonPruner {
    fn name(&self) -> &'static str {
        "wilcoxon"
    }

    fn judge(&mut self, judged: &PruneContext) -> bool {
        let direction = judged.history.direction();
        let own = losses(judged.trial, direction);
        let Some(best) = reports::best(judged.history, judged.trial) else {
            return false;
        };
        let of_best = losses(best, direction);
        let common = own.iter().filter_map(|(step, loss)| {
            let at = of_best.binary_search_by_key(step, |(s, _)| *s).ok()?;
            Some(difference(*loss, of_best[at].1))
        });
        let differences: Vec<f64> = common.collect();
        if differences.len() < self.n_startup_steps.max(2) {
            return false;
        }
        // The latest steps may have been the hard ones: a trial that is ahead in the mean goes on.
        mean(&own) > mean(&of_best) && signed_rank::p_greater(&differences) < self.p_threshold
    }
}

/// `a - b`; none between equal infinities.
fn difference(a: f64, b: f64) -> f64 {
    if a == b { 0.0 } else { a - b }
}

fn mean(losses: &[(i64, f64)]) -> f64 {
    losses.iter().map(|(_, loss)| loss).sum::<f64>() / losses.len() as f64
}

#[cfg(test)]
mod tests {
    use super::super::testing::prunes;
    use super::*;
    use crate::study::Direction;

    fn wilcoxon() -> WilcoxonPruner {
        WilcoxonPruner::default()
    }

    #[test]
    fn a_trial_that_is_worse_on_most_steps_ends() {
        let best: &[&[f64]] = &[&[1.0, 2.0, 3.0, 4.0, 5.0]];
        let ends = |d, own: &[f64]| prunes(&mut wilcoxon(), d, best, own);
        let d = Direction::Minimize;
        assert!(ends(d, &[1.5, 2.6, 3.7, 4.8]));
        assert!(!ends(d, &[1.5, 2.6, 3.7]));
        assert!(!ends(d, &[1.5, 1.4, 3.7, 3.2]));
        assert!(ends(Direction::Maximize, &[0.5, 1.4, 2.3, 3.2]));
        assert!(!ends(d, &[]));
    }

    #[test]
    fn a_trial_that_is_ahead_in_the_mean_goes_on() {
        let best: &[&[f64]] = &[&[1.0, 2.0, 3.0, 4.0, 90.0]];
        let own = [1.5, 2.6, 3.7, 4.8];
        assert!(!prunes(&mut wilcoxon(), Direction::Minimize, best, &own));
    }

    #[test]
    fn nan_is_worse_than_any_number_and_equal_to_nan() {
        let best: &[&[f64]] = &[&[1.0, 2.0, 3.0, 4.0]];
        let own = [1.5, 2.5, f64::NAN, 4.5];
        assert!(prunes(&mut wilcoxon(), Direction::Minimize, best, &own));
        let best: &[&[f64]] = &[&[1.0, f64::NAN, f64::NAN]];
        let own = [0.5, f64::NAN, f64::NAN];
        assert!(!prunes(&mut wilcoxon(), Direction::Minimize, best, &own));
    }

    #[test]
    fn start_up_and_threshold_are_kept() {
        let best: &[&[f64]] = &[&[1.0, 2.0, 3.0, 4.0, 5.0]];
        let own = [1.5, 2.6, 3.7, 4.8];
        let d = Direction::Minimize;
        let mut late = WilcoxonPruner {
            n_startup_steps: 5,
            ..wilcoxon()
        };
        assert!(!prunes(&mut late, d, best, &own));
        let mut sure = WilcoxonPruner {
            p_threshold: 0.05,
            ..wilcoxon()
        };
        assert!(!prunes(&mut sure, d, best, &own));
        assert!(!prunes(&mut wilcoxon(), d, &[], &own));
    }
}
