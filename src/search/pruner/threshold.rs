//! Stopping outside of fixed limits, as Optuna's `ThresholdPruner` has it.

use super::reports::Interval;
use super::{PruneContext, Pruner};

/// Ends a trial whose latest report is NaN, below `lower` or above `upper`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThresholdPruner {
    /// The least value that is let pass.
    pub lower: f64,
    /// The greatest value that is let pass.
    pub upper: f64,
    /// Reports of steps below this are never judged.
    pub n_warmup_steps: i64,
    /// From the warm-up on, a report is judged when it is the first at or after every such step.
    pub interval_steps: i64,
}

impl Default for ThresholdPruner {
    fn default() -> ThresholdPruner {
        ThresholdPruner {
            lower: f64::NEG_INFINITY,
            upper: f64::INFINITY,
            n_warmup_steps: 0,
            interval_steps: 1,
        }
    }
}

impl Pruner for ThresholdPruner {
    fn name(&self) -> &'static str {
        "threshold"
    }

    fn judge(&mut self, judged: &PruneContext) -> bool {
        let Some((step, value)) = judged.trial.last_report() else {
            return false;
        };
        let looked_at = Interval {
            warmup: self.n_warmup_steps,
            steps: self.interval_steps,
        };
        // NaN is in no range.
        looked_at.holds(judged.trial, step) && !(self.lower..=self.upper).contains(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::prunes;
    use super::*;
    use crate::study::Direction;

    #[test]
    fn the_latest_report_must_lie_within_the_limits() {
        let mut pruner = ThresholdPruner {
            lower: 0.0,
            upper: 2.0,
            n_warmup_steps: 1,
            interval_steps: 2,
        };
        for direction in [Direction::Minimize, Direction::Maximize] {
            let mut ends = |own: &[f64]| prunes(&mut pruner, direction, &[], own);
            assert!(ends(&[1.0, 2.1]));
            assert!(ends(&[1.0, -0.1]));
            assert!(ends(&[1.0, f64::NAN]));
            assert!(!ends(&[1.0, 2.0]));
            assert!(!ends(&[1.0, 0.0]));
            assert!(!ends(&[9.0]));
            assert!(!ends(&[9.0, 1.0, 9.0]));
            assert!(ends(&[9.0, 1.0, 9.0, 9.0]));
            assert!(!ends(&[]));
        }
        let mut all = ThresholdPruner::default();
        assert!(!prunes(
            &mut all,
            Direction::Minimize,
            &[],
            &[f64::INFINITY]
        ));
        assert!(prunes(&mut all, Direction::Minimize, &[], &[f64::NAN]));
    }
}
