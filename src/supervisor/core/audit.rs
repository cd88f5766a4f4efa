//! Whether pruning is right (`pruner.audit`): some trials that the pruner would end go on, for a share of all epochs.
//!
//! Which of them is a coin's matter and the budget's, never that of their values: so those that go on stand for all
//! that were pruned.

use rand::RngExt;

use super::Core;
use search::study::{self, FrozenTrial, Job, TrialState};

/// Epochs of trials that have ended, and what of them went to trials that would have been pruned.
#[derive(Debug, Default)]
pub(super) struct Audit {
    share: f64,
    seed: u64,
    /// Epochs of all of them.
    spent: u64,
    /// Epochs after the pruner's word, those that are still to come included.
    extra: u64,
    /// Epochs of the longest complete trial.
    longest: u64,
}

impl Audit {
    pub(super) fn new(share: f64, seed: u64, trials: &[FrozenTrial]) -> Audit {
        let mut audit = Audit {
            share,
            seed,
            ..Audit::default()
        };
        for trial in trials {
            audit.add(trial);
            audit.extra += epochs_after_the_word(trial);
        }
        audit
    }

    /// Notes a trial that has ended.
    pub(super) fn add(&mut self, trial: &FrozenTrial) {
        let epochs = trial.intermediate.len() as u64;
        self.spent += epochs;
        if trial.state == TrialState::Complete {
            self.longest = self.longest.max(epochs);
        }
    }

    /// Whether a trial that the pruner would end at this epoch goes on: then what it has left is paid for.
    fn pays_for(&mut self, number: u64, epoch: u32) -> bool {
        let left = self.longest.saturating_sub(u64::from(epoch));
        let afforded = self.share * (self.spent + left) as f64;
        let coin = study::rng(self.seed, number, "audit").random_bool(0.5);
        let goes_on = left > 0 && coin && (self.extra + left) as f64 <= afforded;
        if goes_on {
            self.extra += left;
        }
        goes_on
    }
}

/// Epochs of a trial after the one at which the pruner would have ended it.
fn epochs_after_the_word(trial: &FrozenTrial) -> u64 {
    let told = trial.user_attrs.get(study::AUDITED);
    let told = told.and_then(|at| at.as_u64());
    told.map_or(0, |told| {
        (trial.intermediate.len() as u64).saturating_sub(told)
    })
}

impl Core {
    /// Whether the trial goes on although the pruner would end it at this epoch.
    pub(super) fn is_audited(&mut self, job: Job, epoch: u32) -> bool {
        let Some(active) = self.active.get_mut(&job) else {
            return false;
        };
        if active.audited.is_none() && self.audit.pays_for(job.number, epoch) {
            active.audited = Some(epoch);
        }
        active.audited.is_some()
    }
}

#[cfg(test)]
mod tests {
    use search::space::Params;

    use super::*;

    #[test]
    fn a_share_of_all_epochs_goes_to_trials_that_would_have_been_pruned() {
        let ended = |number, state, epochs, audited: Option<u64>| {
            let mut trial = FrozenTrial::new(number, state, Params::new());
            trial.intermediate = (1..=epochs).map(|e| (e, 0.5)).collect();
            let audited = audited.map(|at| (study::AUDITED.to_owned(), at.into()));
            trial.user_attrs.extend(audited);
            trial
        };
        let mut audit = Audit::new(0.1, 7, &[]);
        assert!(
            (0..50).all(|n| !audit.pays_for(n, 1)),
            "no trial is complete"
        );
        let mut went_on = 0;
        for number in 0..2000 {
            let complete = number % 4 == 0;
            let trial = match complete {
                true => ended(number, TrialState::Complete, 10, None),
                false if audit.pays_for(number, 2) => {
                    went_on += 1;
                    ended(number, TrialState::Complete, 10, Some(2))
                }
                false => ended(number, TrialState::Pruned, 2, None),
            };
            audit.add(&trial);
        }
        let share = audit.extra as f64 / audit.spent as f64;
        assert_eq!(audit.extra, 8 * went_on);
        assert!((0.09..=0.1).contains(&share), "{share}");
        let trials = [
            ended(0, TrialState::Complete, 10, None),
            ended(1, TrialState::Complete, 10, Some(2)),
        ];
        let audit = Audit::new(0.5, 7, &trials);
        assert_eq!((audit.spent, audit.extra, audit.longest), (20, 8, 10));
    }
}
