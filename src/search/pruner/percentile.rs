//! Stopping by a percentile of what others had at the same step. With the median it is the rule of
//! Golovin et al., "Google Vizier", 2017, section 3.2.1, as Optuna's `MedianPruner` has it.

use super::reports::{self, Interval};
use super::{PruneContext, Pruner};

/// Ends a trial whose best report so far is not among the best `percentile` percent of what the
/// COMPLETE trials reported at the same step.
///
/// A COMPLETE trial that had ended by its own patience before that step takes part with its best
/// value: it would have had nothing worse to offer, and without it only the trials that improved
/// for long would be left to compare with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PercentilePruner {
    /// The part that goes on, from 0 to 100; 50 is the median.
    pub percentile: f64,
    /// Nothing is pruned while fewer trials than this are COMPLETE.
    pub n_startup_trials: usize,
    /// Reports of steps below this are never judged.
    pub n_warmup_steps: i64,
    /// From the warm-up on, a report is judged when it is the first at or after every such step.
    pub interval_steps: i64,
    /// Fewer reports than this to compare with, and the trial goes on.
    pub n_min_trials: usize,
}

impl Default for PercentilePruner {
    fn default() -> PercentilePruner {
        PercentilePruner {
            percentile: 50.0,
            n_startup_trials: 5,
            n_warmup_steps: 0,
            interval_steps: 1,
            n_min_trials: 1,
        }
    }
}

impl Pruner for PercentilePruner {
    fn name(&self) -> &'static str {
        if self.percentile == 50.0 {
            "median"
        } else {
            "percentile"
        }
    }

    fn judge(&mut self, judged: &PruneContext) -> bool {
        let PruneContext { history, trial, .. } = *judged;
        let Some((step, _)) = trial.last_report() else {
            return false;
        };
        let looked_at = Interval {
            warmup: self.n_warmup_steps,
            steps: self.interval_steps,
        };
        if !looked_at.holds(trial, step) {
            return false;
        }
        let direction = history.direction();
        let others = || reports::complete(history, trial);
        if others().count() < self.n_startup_trials.max(1) {
            return false;
        }
        let Some(own) = reports::best_until(trial, step, direction) else {
            return false;
        };
        if own.is_nan() {
            return true;
        }
        let reported = others().filter_map(|e| reports::at(e, step, direction));
        let mut losses: Vec<f64> = reported.collect();
        if losses.len() < self.n_min_trials {
            return false;
        }
        losses.retain(|v| !v.is_nan());
        percentile(&mut losses, self.percentile).is_some_and(|limit| own > limit)
    }
}

/// The percentile of values without NaN, between two of them in proportion (NumPy's rule, but
/// without its NaN where an infinity is the neighbour). `None` of no values.
fn percentile(values: &mut [f64], percent: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let place = percent / 100.0 * values.len().checked_sub(1)? as f64;
    let part = place.fract();
    let a = *values.get(place as usize)?;
    let b = *values.get(place.ceil() as usize)?;
    let wide = b - a;
    Some(if part == 0.0 || a == b {
        a
    } else if wide.is_infinite() {
        a * (1.0 - part) + b * part
    } else if part < 0.5 {
        a + wide * part
    } else {
        b - wide * (1.0 - part)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{entry, history, prunes};
    use super::*;
    use crate::study::{Direction, TrialState};

    fn pruner() -> PercentilePruner {
        PercentilePruner {
            n_startup_trials: 1,
            ..PercentilePruner::default()
        }
    }

    #[test]
    fn worse_than_the_median_is_pruned_in_either_direction() {
        let others: &[&[f64]] = &[&[1.0], &[2.0], &[3.0], &[10.0]];
        let prunes = |d, own| prunes(&mut pruner(), d, others, &[own]);
        assert!(prunes(Direction::Minimize, 2.6));
        assert!(!prunes(Direction::Minimize, 2.5));
        assert!(prunes(Direction::Maximize, 2.4));
        assert!(!prunes(Direction::Maximize, 2.5));
    }

    #[test]
    fn a_smaller_percentile_keeps_fewer() {
        let others: &[&[f64]] = &[&[1.0], &[2.0], &[3.0], &[4.0], &[5.0]];
        let prunes = |percentile: f64, d, own| {
            let mut pruner = PercentilePruner {
                percentile,
                ..pruner()
            };
            prunes(&mut pruner, d, others, &[own])
        };
        assert!(prunes(25.0, Direction::Minimize, 2.1));
        assert!(!prunes(25.0, Direction::Minimize, 2.0));
        assert!(prunes(25.0, Direction::Maximize, 3.9));
        assert!(!prunes(25.0, Direction::Maximize, 4.0));
        assert!(!prunes(100.0, Direction::Minimize, 5.0));
        assert!(prunes(0.0, Direction::Minimize, 1.1));
    }

    #[test]
    fn the_best_report_so_far_counts() {
        let others: &[&[f64]] = &[&[9.0, 5.0], &[9.0, 5.0]];
        let prunes = |own| prunes(&mut pruner(), Direction::Minimize, others, own);
        assert!(!prunes(&[4.0, 8.0]));
        assert!(prunes(&[6.0, 8.0]));
    }

    #[test]
    fn a_trial_that_ended_early_takes_part_with_its_best_value() {
        let others: &[&[f64]] = &[&[3.0, 1.0], &[4.0, 2.0], &[9.0, 9.0, 9.0]];
        let prunes = |others| prunes(&mut pruner(), Direction::Minimize, others, &[5.0; 3]);
        assert!(prunes(others));
        assert!(!prunes(&others[2..]));
    }

    #[test]
    fn nan_is_worst_and_never_a_value_to_compare_with() {
        let others: &[&[f64]] = &[&[f64::NAN], &[2.0]];
        let prunes = |others, own| prunes(&mut pruner(), Direction::Minimize, others, &[own]);
        assert!(prunes(others, f64::NAN));
        assert!(prunes(&others[..1], f64::NAN));
        assert!(!prunes(others, 1.0));
        assert!(!prunes(&others[..1], 1.0));
    }

    #[test]
    fn infinities_have_their_place_among_the_others() {
        const INF: f64 = f64::INFINITY;
        let prunes =
            |others: &[&[f64]], own| prunes(&mut pruner(), Direction::Minimize, others, &[own]);
        assert!(!prunes(&[&[INF], &[INF]], INF));
        assert!(prunes(&[&[2.0]], INF));
        assert!(prunes(&[&[1.0], &[2.0], &[INF]], 5.0));
        assert!(!prunes(&[&[1.0], &[INF]], 5.0));
        assert!(!prunes(&[&[-INF], &[INF]], 5.0));
    }

    #[test]
    fn start_up_warm_up_interval_and_minimum_are_kept() {
        let others: &[&[f64]] = &[&[1.0; 4], &[1.0; 4]];
        let d = Direction::Minimize;
        let mut start = PercentilePruner {
            n_startup_trials: 3,
            ..pruner()
        };
        assert!(!prunes(&mut start, d, others, &[5.0]));
        let mut warm = PercentilePruner {
            n_warmup_steps: 1,
            interval_steps: 2,
            ..pruner()
        };
        let judged = [1, 2, 3, 4].map(|n: usize| prunes(&mut warm, d, others, &[5.0; 4][..n]));
        assert_eq!(judged, [false, true, false, true]);
        let mut many = PercentilePruner {
            n_min_trials: 3,
            ..pruner()
        };
        assert!(!prunes(&mut many, d, others, &[5.0]));
        assert!(!prunes(&mut pruner(), d, others, &[]));
        assert!(!prunes(&mut pruner(), d, &[], &[5.0]));
    }

    #[test]
    fn only_complete_trials_that_were_not_chosen_are_compared_with() {
        let mut entries = vec![entry(0, TrialState::Pruned, &[1.0])];
        entries.push(entry(1, TrialState::Complete, &[1.0]));
        entries[1].chosen = true;
        let own = entry(9, TrialState::Running, &[5.0]);
        let history = |entries: &[_]| history(Direction::Minimize, entries);
        assert!(!pruner().should_prune(&history(&entries), &own));
        entries[1].chosen = false;
        assert!(pruner().should_prune(&history(&entries), &own));
    }
}
