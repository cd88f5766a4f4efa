//! A study under way: points for the asking, results for the telling.

use std::collections::{BTreeMap, BTreeSet};

use crate::pruner::{AutoPruner, Pruner};
use crate::sampler::{Ask, AutoSampler, Proposal, Sampler, TpeOptions};
use crate::space::{Params, Space};
use crate::study::{Direction, Entry, FrozenTrial, History, TrialState};

/// A search. What it proposes depends on its seed, its space, and what was told before the ask; never on a clock.
///
/// ```
/// use tune_search::space::{Domain, Parameter, Space};
/// use tune_search::study::Direction;
/// use tune_search::{Outcome, Study};
///
/// let space = Space::new([Parameter::new("x", Domain::float(-5.0, 5.0))]);
/// let mut study = Study::new(space, vec![Direction::Minimize]);
/// for _ in 0..40 {
///     let (trial, params) = study.ask().expect("the space has no constraint");
///     let x = params["x"].as_f64().expect("a float");
///     study.tell(trial, Outcome::Complete(vec![(x - 2.0).powi(2)]))?;
/// }
/// assert!(study.best().and_then(|best| best.value()) < Some(0.1));
/// # Ok::<(), tune_search::TrialError>(())
/// ```
pub struct Study {
    space: Space,
    seed: u64,
    sampler: Box<dyn Sampler>,
    pruner: Box<dyn Pruner>,
    history: History,
    /// Trials that were asked for and not told, by number.
    running: BTreeMap<u64, FrozenTrial>,
    /// Trials that the history leaves out, as somebody has declared them invalid; their numbers are taken.
    struck: BTreeSet<u64>,
    /// The number of the next trial.
    next: u64,
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// With a value for each objective; those that are NaN are left out.
    Complete(Vec<f64>),
    /// Early: its value is the last reported one that is a number, else this.
    Pruned(Option<f64>),
    /// Without a value.
    Failed,
}

/// Why a trial can be neither reported on nor told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrialError {
    /// It has ended.
    #[error("found {number}, a trial that has ended ({state}), expected one that has not")]
    Ended {
        /// The trial.
        number: u64,
        /// How.
        state: TrialState,
    },
    /// It was not asked for here.
    #[error("found {0}, a trial of another program, expected one asked for here")]
    Foreign(u64),
    /// There is no such trial.
    #[error(
        "found {number}, which no trial has, expected that of a trial asked for ({asked} so far)"
    )]
    Unknown {
        /// The number.
        number: u64,
        /// How many trials there are.
        asked: u64,
    },
}

impl Study {
    /// A study without trials, with the samplers and the pruner that `tune` takes by itself and the seed 0.
    pub fn new(space: Space, directions: Vec<Direction>) -> Study {
        Study {
            space,
            seed: 0,
            sampler: Box::new(AutoSampler::new(TpeOptions::default())),
            pruner: Box::new(AutoPruner::default()),
            history: History::new(directions),
            running: BTreeMap::new(),
            struck: BTreeSet::new(),
            next: 0,
        }
    }

    /// The same with another seed.
    pub fn with_seed(self, seed: u64) -> Study {
        Study { seed, ..self }
    }

    /// The same with another sampler.
    pub fn with_sampler(self, sampler: Box<dyn Sampler>) -> Study {
        Study { sampler, ..self }
    }

    /// The same with another pruner.
    pub fn with_pruner(self, pruner: Box<dyn Pruner>) -> Study {
        Study { pruner, ..self }
    }

    /// The space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// What the sampler sees: every trial, by number.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Numbers of the trials that were asked for and not told.
    pub fn running(&self) -> impl Iterator<Item = u64> {
        self.running.keys().copied()
    }

    /// The number of the trial that is asked for next.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// A new trial's number and point; `None` where no point was found that satisfies the constraints.
    pub fn ask(&mut self) -> Option<(u64, Params)> {
        let params = self.propose()?.params;
        Some((self.begin(params.clone()), params))
    }

    /// The point that the next trial would have, and who found it.
    pub fn propose(&mut self) -> Option<Proposal> {
        self.sampler.propose(&Ask {
            space: &self.space,
            history: &self.history,
            number: self.next,
            seed: self.seed,
        })
    }

    /// Begins the next trial with a point; its number.
    pub fn begin(&mut self, params: Params) -> u64 {
        let number = self.next;
        let trial = FrozenTrial::new(number, TrialState::Running, params);
        self.history.put(&self.space, &trial);
        self.running.insert(number, trial);
        self.next += 1;
        number
    }

    /// A trial that can be reported on and told.
    ///
    /// # Errors
    /// It cannot.
    pub fn trial(&self, number: u64) -> Result<&FrozenTrial, TrialError> {
        if let Some(trial) = self.running.get(&number) {
            return Ok(trial);
        }
        Err(match self.history.get(number).map(|e| e.state) {
            Some(state) if state.finished() => TrialError::Ended { number, state },
            Some(_) => TrialError::Foreign(number),
            None => TrialError::Unknown {
                number,
                asked: self.next,
            },
        })
    }

    /// Notes a value before the end. Whether the pruner ends the trial: it is then told as
    /// [`Outcome::Pruned`].
    ///
    /// # Errors
    /// The trial does not run.
    pub fn report(&mut self, number: u64, step: i64, value: f64) -> Result<bool, TrialError> {
        self.trial(number)?;
        if let Some(trial) = self.running.get_mut(&number) {
            trial.intermediate.insert(step, value);
        }
        self.history.report(number, step, value);
        let entry = self.history.get(number);
        Ok(entry.is_some_and(|e| self.pruner.should_prune(&self.history, e)))
    }

    /// State and values that a trial gets by such an end.
    ///
    /// # Errors
    /// The trial does not run.
    pub fn end(&self, number: u64, outcome: Outcome) -> Result<(TrialState, Vec<f64>), TrialError> {
        let trial = self.trial(number)?;
        let (state, values) = match outcome {
            Outcome::Complete(values) => (TrialState::Complete, values),
            Outcome::Pruned(told) => {
                let mut latest_first = trial.intermediate.values().rev().copied();
                let last = latest_first.find(|v| !v.is_nan());
                (TrialState::Pruned, last.or(told).into_iter().collect())
            }
            Outcome::Failed => (TrialState::Fail, Vec::new()),
        };
        Ok((state, values.into_iter().filter(|v| !v.is_nan()).collect()))
    }

    /// Ends a trial.
    ///
    /// # Errors
    /// The trial does not run.
    pub fn tell(&mut self, number: u64, outcome: Outcome) -> Result<(), TrialError> {
        let (state, values) = self.end(number, outcome)?;
        if let Some(mut trial) = self.running.remove(&number) {
            trial.state = state;
            trial.values = values;
            self.history.put(&self.space, &trial);
        }
        Ok(())
    }

    /// The best complete trial by the first objective.
    pub fn best(&self) -> Option<&Entry> {
        self.history.best()
    }

    /// Takes trials over as another program has left them, and forgets those that are gone. Those that run here
    /// stay as they are here, unless they have ended.
    pub fn merge(&mut self, trials: Vec<FrozenTrial>, gone: Vec<u64>) {
        for number in gone {
            self.running.remove(&number);
            self.history.remove(number);
            self.struck.remove(&number);
        }
        for trial in trials {
            match trial.struck() {
                true => self.struck.insert(trial.number),
                false => self.struck.remove(&trial.number),
            };
            if trial.state.finished() {
                self.running.remove(&trial.number);
            }
            if !self.running.contains_key(&trial.number) {
                self.history.put(&self.space, &trial);
            }
        }
        let last = self.history.entries().last().map(|entry| entry.number);
        let last = last.max(self.struck.last().copied());
        self.next = last.map_or(0, |number| number + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pruner::ThresholdPruner;
    use crate::sampler::RandomSampler;
    use crate::space::{Domain, Parameter};

    fn study() -> Study {
        let space = Space::new([Parameter::new("x", Domain::float(0.0, 1.0))]);
        Study::new(space, vec![Direction::Minimize]).with_sampler(Box::new(RandomSampler))
    }

    #[test]
    fn a_trial_is_told_once_and_only_where_it_was_asked_for() {
        let mut study = study();
        let (number, _) = study.ask().unwrap();
        assert_eq!((number, study.running().count()), (0, 1));
        study.tell(0, Outcome::Complete(vec![0.5])).unwrap();
        let state = TrialState::Complete;
        let again = study.tell(0, Outcome::Failed).unwrap_err();
        assert_eq!(again, TrialError::Ended { number: 0, state });
        study.merge(
            vec![FrozenTrial::new(4, TrialState::Running, Params::new())],
            vec![],
        );
        assert_eq!(study.report(4, 1, 0.0).unwrap_err(), TrialError::Foreign(4));
        let (number, asked) = (9, 5);
        assert_eq!(
            study.trial(9).unwrap_err(),
            TrialError::Unknown { number, asked }
        );
    }

    #[test]
    fn a_pruned_trial_is_worth_its_last_number() {
        let pruner = ThresholdPruner {
            upper: 1.0,
            ..ThresholdPruner::default()
        };
        let mut study = study().with_pruner(Box::new(pruner));
        let (number, _) = study.ask().unwrap();
        assert!(!study.report(number, 1, 0.5).unwrap());
        assert!(study.report(number, 2, 2.0).unwrap());
        study.report(number, 3, f64::NAN).unwrap();
        study.tell(number, Outcome::Pruned(Some(7.0))).unwrap();
        assert_eq!(study.history().get(number).unwrap().value(), Some(2.0));
    }

    #[test]
    fn the_same_seed_proposes_the_same_points() {
        let points = |seed| {
            let mut study = study().with_seed(seed);
            let asked: Vec<Params> = (0..5).map(|_| study.ask().unwrap().1).collect();
            asked
        };
        assert_eq!(points(3), points(3));
        assert_ne!(points(3), points(4));
    }
}
