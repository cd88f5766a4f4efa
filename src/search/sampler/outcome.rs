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
        /// The last step that it reported; the largest there is where it has a value alone.
        step: i64,
        /// The best loss reported until then.
        loss: f64,
    },
    /// Its point cannot be run: out of memory, refused, failed, ended by any other fault (what falls
    /// fastest before it becomes NaN is not a good point), or without any value when it ended.
    Infeasible,
    /// It has not ended.
    Pending,
    /// It waits and has no point yet that could be relied on.
    Waiting,
}

impl Outcome {
    pub fn of(entry: &Entry, direction: Direction) -> Outcome {
        match entry.state {
            TrialState::Waiting => Outcome::Waiting,
            TrialState::Running => Outcome::Pending,
            TrialState::Fail => Outcome::Infeasible,
            TrialState::Complete | TrialState::Pruned if !entry.feasible() => Outcome::Infeasible,
            TrialState::Complete => match entry.value() {
                Some(value) if !value.is_nan() => Outcome::Finished {
                    loss: direction.loss(value),
                },
                Some(_) | None => Outcome::Finished {
                    loss: f64::INFINITY,
                },
            },
            TrialState::Pruned if entry.faulted => Outcome::Infeasible,
            TrialState::Pruned => {
                let value = entry.value().filter(|v| !v.is_nan());
                match (entry.last_report(), best(entry, direction), value) {
                    (Some((step, _)), Some(loss), _) => Outcome::Stopped { step, loss },
                    (None, _, Some(value)) => Outcome::Stopped {
                        step: i64::MAX,
                        loss: direction.loss(value),
                    },
                    (Some(_) | None, _, _) => Outcome::Infeasible,
                }
            }
        }
    }
}

/// The best loss that a trial has reported; `None` without any number.
fn best(entry: &Entry, direction: Direction) -> Option<f64> {
    let reports = entry.intermediate.values().filter(|v| !v.is_nan());
    reports.map(|v| direction.loss(*v)).reduce(f64::min)
}

/// What a trial had reached when: made in one walk over its reports, so that trials of thousands of
/// epochs can be asked about every one of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BestSoFar(Vec<(i64, f64)>);

impl BestSoFar {
    pub fn new(entry: &Entry, direction: Direction) -> BestSoFar {
        let reports = entry.intermediate.iter().filter(|(_, v)| !v.is_nan());
        let mut steps: Vec<(i64, f64)> = Vec::new();
        for (step, value) in reports {
            let loss = direction.loss(*value);
            // Only where it became better.
            if steps.last().is_none_or(|(_, best)| loss < *best) {
                steps.push((*step, loss));
            }
        }
        BestSoFar(steps)
    }

    /// The best loss that it had reported by a step; `None` without any number.
    pub fn until(&self, step: i64) -> Option<f64> {
        let better = self.0.partition_point(|(at, _)| *at <= step);
        Some(self.0[better.checked_sub(1)?].1)
    }
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
            faulted: false,
            chosen: false,
        }
    }

    #[test]
    fn what_was_reached_by_a_step_is_the_least_of_the_reports_until_then() {
        let nan = f64::NAN;
        for reports in [
            &[3.0, nan, 5.0, 1.0, 1.0, 2.0, -0.5][..],
            &[nan, nan, 2.0],
            &[f64::INFINITY, 1.0, f64::NEG_INFINITY],
            &[],
        ] {
            let trial = entry(TrialState::Running, None, reports);
            for direction in [Direction::Minimize, Direction::Maximize] {
                let best = BestSoFar::new(&trial, direction);
                for step in -1..10 {
                    let until = trial.intermediate.range(..=step).map(|(_, v)| *v);
                    let numbers = until.filter(|v| !v.is_nan());
                    let least = numbers.map(|v| direction.loss(v)).reduce(f64::min);
                    assert_eq!(best.until(step), least, "{reports:?} {step}");
                }
            }
        }
    }

    #[test]
    fn a_long_curve_is_kept_by_its_improvements_alone() {
        let flat = entry(TrialState::Running, None, &[1.0; 5000]);
        assert_eq!(
            BestSoFar::new(&flat, Direction::Minimize),
            BestSoFar(vec![(1, 1.0)])
        );
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
        let told = Outcome::Stopped {
            step: i64::MAX,
            loss: -0.2,
        };
        assert_eq!(of(&entry(Pruned, Some(0.2), &[])), told);
        let mut faulted = entry(Pruned, Some(0.5), &[0.1, 0.5]);
        faulted.faulted = true;
        assert_eq!(of(&faulted), Outcome::Infeasible);
        assert_eq!(of(&entry(Running, None, &[0.3])), Outcome::Pending);
        assert_eq!(of(&entry(Waiting, None, &[])), Outcome::Waiting);
        let mut violating = entry(Complete, Some(2.0), &[]);
        violating.violation = Some(1.0);
        assert_eq!(of(&violating), Outcome::Infeasible);
    }
}
