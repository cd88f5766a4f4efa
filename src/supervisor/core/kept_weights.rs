//! Whose weights are kept.

use std::collections::BTreeMap;

use super::Core;
use crate::Action;
use config::StudySpec;
use protocol::KeepBest;
use search::study::selection::LEADERS;
use search::study::{FrozenTrial, Job};
use weights::{Leader, Leaders, Unheard};

/// The best trials among those whose ends are durable: an end that is not may never have been, and
/// must not drive weights out.
#[derive(Debug)]
pub(super) struct Weights {
    leaders: Leaders,
    /// Ends on their way to the database.
    coming: BTreeMap<u64, Leader>,
    objectives: usize,
}

/// How many trials' weights a study keeps; `None`: its task has none. With repeats as many as are
/// repeated, because any of those may be the winner.
pub fn weights_kept(spec: &StudySpec) -> Option<usize> {
    if !config::kinds::kind(&spec.kind).is_some_and(|kind| kind.keeps_weights) {
        return None;
    }
    let most = spec.operation.keep_best;
    Some(match spec.operation.repeats {
        2.. if most > 0 => most.max(LEADERS),
        _ => most,
    })
}

impl Weights {
    /// From the trials in the database; `None` where no weights are kept.
    pub(super) fn new(spec: &StudySpec, trials: &[FrozenTrial]) -> Option<Weights> {
        let most = weights_kept(spec).filter(|most| *most > 0)?;
        Some(Weights {
            leaders: Leaders::new(spec.directions(), most, trials),
            coming: BTreeMap::new(),
            objectives: spec.directions().len(),
        })
    }

    /// A trial of this run has ended; its end is on its way.
    pub(super) fn ended(&mut self, trial: &FrozenTrial) {
        if let Some(leader) = Leader::of(trial, self.objectives) {
            self.coming.insert(trial.number, leader);
        }
    }

    /// A trial is not in the database any more.
    pub(super) fn gone(&mut self, number: u64) {
        self.coming.remove(&number);
        self.leaders.remove(number);
    }

    /// This is how a trial stands in the database.
    pub(super) fn found(&mut self, trial: &FrozenTrial) {
        self.coming.remove(&trial.number);
        match Leader::of(trial, self.objectives) {
            Some(leader) => self.leaders.put(leader),
            None => self.leaders.remove(trial.number),
        }
    }
}

impl Core {
    /// Where an attempt keeps weights, and which.
    pub(super) fn keep_best(&self, job: Job) -> Option<KeepBest> {
        let weights = self.weights.as_ref().filter(|_| job.searches())?;
        Some(KeepBest {
            directory: super::checkpoint_name(&self.spec.study, job),
            better_than: weights.leaders.bar(job.number),
        })
    }

    /// These ends are durable.
    pub(super) fn keep_weights(&mut self, ends: &[Job]) {
        let Some(weights) = &mut self.weights else {
            return;
        };
        let mut searches = ends.iter().filter(|job| job.searches()).peekable();
        if searches.peek().is_none() {
            return;
        }
        for job in searches {
            if let Some(leader) = weights.coming.remove(&job.number) {
                weights.leaders.put(leader);
            }
        }
        let leaders = weights.leaders.best().to_vec();
        let unheard = match self.nodes.shared() {
            true => self.progress.unheard(),
            false => Unheard::default(),
        };
        self.actions.push(Action::KeepWeights(leaders, unheard));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use search::space::Params;
    use search::study::{Direction, TrialState};

    #[test]
    fn a_deleted_trial_is_none_of_the_best() {
        let trials = [(0, 0.9), (1, 0.5)].map(|(number, value)| FrozenTrial {
            values: vec![value],
            ..FrozenTrial::new(number, TrialState::Complete, Params::new())
        });
        let mut weights = Weights {
            leaders: Leaders::new(vec![Direction::Maximize], 2, &trials),
            coming: BTreeMap::new(),
            objectives: 1,
        };
        weights.gone(0);
        let best: Vec<u64> = weights.leaders.best().iter().map(|l| l.number).collect();
        assert_eq!(best, [1]);
    }
}
