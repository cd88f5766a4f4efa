//! Patience around another pruner, as Optuna's `PatientPruner` has it.

use super::reports::losses;
use super::{PruneContext, Pruner};

/// Asks the wrapped pruner only about a trial whose last `patience + 1` reports are all worse than
/// its best before them.
pub struct PatientPruner {
    /// So many reports without an improvement are borne.
    pub patience: usize,
    /// Reports count as worse if they are so by more than this; not negative.
    pub min_delta: f64,
    /// Who decides then; `None`: the patience alone.
    pub wrapped: Option<Box<dyn Pruner>>,
}

impl Pruner for PatientPruner {
    fn name(&self) -> &'static str {
        "patient"
    }

    fn judge(&mut self, judged: &PruneContext) -> bool {
        let losses = losses(judged.trial, judged.history.direction());
        let worse: Vec<(i64, bool)> = self.exhausted(&losses).collect();
        let Some((_, true)) = worse.last() else {
            return false;
        };
        let Some(wrapped) = &mut self.wrapped else {
            return true;
        };
        // The wrapped pruner has not seen what was reported in between.
        let before = worse.iter().rev().skip(1).find(|(_, worse)| *worse);
        wrapped.judge(&PruneContext {
            since: before.map(|(step, _)| *step),
            ..*judged
        })
    }
}

impl PatientPruner {
    /// For each report, whether patience is exhausted with it.
    fn exhausted(&self, losses: &[(i64, f64)]) -> impl Iterator<Item = (i64, bool)> {
        let window = self.patience + 1;
        let mut before: Option<f64> = None;
        losses.iter().enumerate().map(move |(i, (step, _))| {
            let Some(first) = (i + 1).checked_sub(window).filter(|first| *first > 0) else {
                return (*step, false);
            };
            let leaves = losses[first - 1].1;
            let best = before.map_or(leaves, |b| b.min(leaves));
            before = Some(best);
            let after = losses[first..=i].iter().map(|(_, loss)| *loss);
            let after = after.fold(f64::INFINITY, f64::min);
            // Without a number at all there is nothing to wait for.
            let hopeless = best == f64::INFINITY && after == f64::INFINITY;
            (*step, hopeless || best + self.min_delta < after)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{entry, epochs, history, prunes};
    use super::super::{AshaPruner, NoPruner, PercentilePruner};
    use super::*;
    use crate::study::{Direction, TrialState};

    fn patient(patience: usize, min_delta: f64) -> PatientPruner {
        PatientPruner {
            patience,
            min_delta,
            wrapped: None,
        }
    }

    fn ends(pruner: &mut PatientPruner, direction: Direction, own: &[f64]) -> bool {
        prunes(pruner, direction, &[], own)
    }

    #[test]
    fn only_reports_that_are_all_worse_exhaust_patience() {
        let d = Direction::Minimize;
        let mut two = patient(2, 0.0);
        assert!(!ends(&mut two, d, &[1.0, 2.0, 2.0]));
        assert!(ends(&mut two, d, &[1.0, 2.0, 2.0, 2.0]));
        assert!(!ends(&mut two, d, &[1.0, 2.0, 1.0, 2.0]));
        assert!(!ends(&mut two, d, &[1.0, 2.0, 0.5, 2.0]));
        assert!(ends(&mut two, Direction::Maximize, &[1.0, 0.5, 0.5, 0.5]));
        assert!(!ends(&mut patient(0, 0.5), d, &[1.0, 1.5]));
        assert!(ends(&mut patient(0, 0.5), d, &[1.0, 1.6]));
        assert!(!ends(&mut patient(0, 0.0), d, &[]));
    }

    #[test]
    fn nan_is_no_improvement() {
        let nan = f64::NAN;
        let mut one = patient(1, 0.0);
        let d = Direction::Minimize;
        assert!(ends(&mut one, d, &[1.0, nan, nan]));
        assert!(ends(&mut one, d, &[nan, nan, nan]));
        assert!(!ends(&mut one, d, &[nan, nan, 1.0]));
        assert!(!ends(&mut one, d, &[nan, nan]));
    }

    #[test]
    fn the_wrapped_pruner_decides_once_patience_is_exhausted() {
        let mut median = PatientPruner {
            wrapped: Some(Box::new(PercentilePruner {
                n_startup_trials: 1,
                ..PercentilePruner::default()
            })),
            ..patient(1, 0.0)
        };
        let others: &[&[f64]] = &[&[2.0; 5]];
        let d = Direction::Minimize;
        assert!(!prunes(&mut median, d, others, &[5.0, 4.0, 3.0]));
        assert!(prunes(&mut median, d, others, &[3.0, 4.0, 4.0]));
        assert!(!prunes(&mut median, d, others, &[2.0, 4.0, 4.0]));
        let mut never = PatientPruner {
            wrapped: Some(Box::new(NoPruner)),
            ..patient(1, 0.0)
        };
        assert!(!prunes(&mut never, d, others, &[3.0, 4.0, 4.0]));
    }

    #[test]
    fn a_rung_that_was_passed_while_improving_is_judged_when_patience_ends() {
        let mut pruner = PatientPruner {
            wrapped: Some(Box::new(AshaPruner {
                min_resource: Some(2),
                ..AshaPruner::default()
            })),
            ..patient(1, 0.0)
        };
        let others = [epochs(0, TrialState::Complete, &[1.0; 4])];
        let history = history(Direction::Minimize, &others);
        let own = [5.0, 4.0, 3.0, 3.5, 3.5, 3.5];
        let judged =
            |n: usize| pruner.should_prune(&history, &epochs(9, TrialState::Running, &own[..n]));
        // At step 6 the rung has been judged already.
        let found = [1, 2, 3, 4, 5, 6].map(judged);
        assert_eq!(found, [false, false, false, false, true, false]);
        assert!(!pruner.should_prune(&history, &entry(9, TrialState::Running, &[])));
    }
}
