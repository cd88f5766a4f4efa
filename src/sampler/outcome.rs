//! What a trial's end means to a sampler.

use crate::study::{Direction, Entry, TrialState};

/// What became of a trial, as losses (smaller is better, never NaN).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Outcome {
    /// It ended by itself.
    Finished {
        /// Its value; infinite where it was none.
        loss: f64,
    },
    /// It was stopped early.
    Stopped {
        /// The last step that it reported.
        step: i64,
        /// The best loss reported until then.
        loss: f64,
    },
    /// Its point cannot be run: out of memory, refused, failed, or without any value when it ended.
    Infeasible,
    /// It has not ended.
    Pending,
    /// It waits and has no point yet that could be relied on.
    Waiting,
}

impl Outcome {
    pub fn of(entry: &Entry, direction: Direction) -> Outcome {
        let violated = entry.violation.is_some_and(|v| v > 0.0 || v.is_nan());
        match entry.state {
            TrialState::Waiting => Outcome::Waiting,
            TrialState::Running => Outcome::Pending,
            TrialState::Fail => Outcome::Infeasible,
            TrialState::Complete | TrialState::Pruned if violated => Outcome::Infeasible,
            TrialState::Complete => match entry.value() {
                Some(value) if !value.is_nan() => Outcome::Finished {
                    loss: direction.loss(value),
                },
                Some(_) | None => Outcome::Finished {
                    loss: f64::INFINITY,
                },
            },
            TrialState::Pruned => {
                match (entry.last_report(), best_until(entry, i64::MAX, direction)) {
                    (Some((step, _)), Some(loss)) => Outcome::Stopped { step, loss },
                    (Some(_) | None, _) => Outcome::Infeasible,
                }
            }
        }
    }
}

/// The best loss that a trial had reported by a step; `None` without any number.
pub(super) fn best_until(entry: &Entry, step: i64, direction: Direction) -> Option<f64> {
    let reports = entry.intermediate.range(..=step).map(|(_, v)| *v);
    reports
        .filter(|v| !v.is_nan())
        .map(|v| direction.loss(v))
        .reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(state: TrialState, value: Option<f64>, reports: &[f64]) -> Entry {
        Entry {
            number: 0,
            state,
            params: Default::default(),
            code: vec![],
            values: value.into_iter().collect(),
            intermediate: (1..).zip(reports.iter().copied()).collect(),
            violation: None,
            chosen: false,
        }
    }

    #[test]
    fn every_end_has_a_meaning() {
        use TrialState::{Complete, Fail, Pruned, Running, Waiting};
        let of = |e: &Entry| Outcome::of(e, Direction::Maximize);
        let nan = f64::NAN;
        let finished = |loss| Outcome::Finished { loss };
        assert_eq!(of(&entry(Complete, Some(2.0), &[])), finished(-2.0));
        assert_eq!(
            of(&entry(Complete, Some(nan), &[])),
            finished(f64::INFINITY)
        );
        let stopped = Outcome::Stopped {
            step: 3,
            loss: -0.5,
        };
        assert_eq!(of(&entry(Pruned, Some(0.1), &[0.1, 0.5, nan])), stopped);
        assert_eq!(of(&entry(Pruned, None, &[nan])), Outcome::Infeasible);
        assert_eq!(of(&entry(Pruned, None, &[])), Outcome::Infeasible);
        assert_eq!(of(&entry(Fail, None, &[0.3])), Outcome::Infeasible);
        assert_eq!(of(&entry(Running, None, &[0.3])), Outcome::Pending);
        assert_eq!(of(&entry(Waiting, None, &[])), Outcome::Waiting);
        let mut violating = entry(Complete, Some(2.0), &[]);
        violating.violation = Some(1.0);
        assert_eq!(of(&violating), Outcome::Infeasible);
    }
}
