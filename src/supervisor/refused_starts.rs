//! What has happened, told from what was only meant to happen.
//!
//! A trial or attempt that was started on record, and only then sent, has happened. Where the
//! record could not be made, it was never sent, and nothing that refers to it may be written.

use std::collections::BTreeSet;

use protocol::AttemptId;
use store::Write;

/// Starts that are not on record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusedStarts {
    trials: BTreeSet<u64>,
    attempts: BTreeSet<AttemptId>,
}

impl RefusedStarts {
    /// What of a batch has happened: its starts are left out, and so is what refers to them, here
    /// and in later batches.
    pub fn facts(&mut self, writes: &[Write]) -> Vec<Write> {
        let mut facts = Vec::new();
        for write in writes {
            if !self.note(write) && !self.concerns(write) {
                facts.push(write.clone());
            }
        }
        facts
    }

    /// Whether this attempt is one of them.
    pub fn attempt(&self, attempt: &AttemptId) -> bool {
        self.attempts.contains(attempt)
    }

    /// The trials among them.
    pub fn trials(&self) -> impl Iterator<Item = u64> {
        self.trials.iter().copied()
    }

    /// The starts among these writes.
    pub fn of(writes: &[Write]) -> RefusedStarts {
        let mut refused = RefusedStarts::default();
        refused.add(writes);
        refused
    }

    /// Notes that the starts among these writes were refused.
    pub fn add(&mut self, writes: &[Write]) {
        for write in writes {
            self.note(write);
        }
    }

    /// Notes that a batch is on record, and with it its starts.
    pub fn recorded(&mut self, writes: &[Write]) {
        for write in writes {
            self.forget(write);
        }
    }

    /// Notes that new trials on record have these numbers, whatever they asked for.
    pub fn given<'a>(&mut self, numbers: impl Iterator<Item = &'a u64>) {
        for number in numbers {
            self.trials.remove(number);
            self.attempts.retain(|a| a.number != *number);
        }
    }

    /// A batch without what refers to starts that were refused before, and what was left out of it.
    /// What it starts itself is started anew.
    pub fn without(&mut self, writes: &[Write]) -> (Vec<Write>, Vec<Write>) {
        let (mut left, mut out) = (Vec::new(), Vec::new());
        for write in writes {
            self.forget(write);
            match self.concerns(write) {
                true => out.push(write.clone()),
                false => left.push(write.clone()),
            }
        }
        (left, out)
    }

    /// What this write starts is no longer unstarted.
    fn forget(&mut self, write: &Write) {
        self.given(write.trial_started().iter());
        if let Some(attempt) = write.attempt_started() {
            self.attempts.remove(&attempt);
        }
    }

    /// Notes a start; false for anything else.
    fn note(&mut self, write: &Write) -> bool {
        let (trial, attempt) = (write.trial_started(), write.attempt_started());
        self.trials.extend(trial);
        self.attempts.extend(attempt);
        trial.is_some() || attempt.is_some()
    }

    fn concerns(&self, write: &Write) -> bool {
        // A repeat, and a note on the choice of the winner, are about a trial that has ended: of this number somebody else has made one.
        let of_ended = write.repeat().is_some() || matches!(write, Write::TrialNoted { .. });
        let trial = write.number().filter(|_| !of_ended);
        let trial = trial.is_some_and(|n| self.trials.contains(&n));
        if let Write::AttemptEnded { id, .. } | Write::MemoryUsed { id, .. } = write {
            return trial || self.attempts.contains(id);
        }
        trial
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use search::space::Params;
    use search::study::{Job, TrialState};
    use store::AttemptEnd;

    fn created(number: u64) -> Write {
        Write::TrialCreated {
            number,
            last: u64::MAX,
            since: number,
            study_seed: None,
            params: Params::new(),
            distributions: [].into(),
            user_attrs: Map::new(),
            system_attrs: Map::new(),
        }
    }

    fn started(number: u64, attempt: u32) -> Write {
        Write::AttemptStarted {
            id: Job::trial(number).attempt(attempt),
            seed: 1234,
            worker: 0,
            pid: 1,
            device: "cpu".into(),
            log: String::new(),
        }
    }

    fn ended(number: u64, attempt: u32) -> Write {
        Write::AttemptEnded {
            id: Job::trial(number).attempt(attempt),
            end: AttemptEnd {
                outcome: "interrupted".into(),
                detail: String::new(),
                again: true,
            },
        }
    }

    fn finished(number: u64) -> Write {
        Write::TrialFinished {
            number,
            state: TrialState::Fail,
            values: vec![],
            user_attrs: Map::new(),
            system_attrs: Map::new(),
        }
    }

    #[test]
    fn a_start_and_what_refers_to_it_have_not_happened() {
        let mut refused = RefusedStarts::default();
        let batch = [ended(3, 0), finished(3), created(4), started(4, 0)];
        assert_eq!(refused.facts(&batch), [ended(3, 0), finished(3)]);
        assert_eq!(refused.facts(&[ended(4, 0), ended(2, 1)]), [ended(2, 1)]);
        assert_eq!(refused.facts(&[finished(4)]), []);
    }

    #[test]
    fn a_trial_that_somebody_else_has_made_with_a_refused_number_can_be_repeated() {
        let mut refused = RefusedStarts::default();
        refused.add(&[created(3)]);
        let note = Write::TrialNoted {
            number: 3,
            user_attrs: Map::new(),
        };
        let repeat = Write::AttemptEnded {
            id: Job::repeat(3, 1).attempt(0),
            end: AttemptEnd {
                outcome: "completed".into(),
                detail: String::new(),
                again: false,
            },
        };
        let writes = [note, repeat];
        assert_eq!(refused.without(&writes), (writes.to_vec(), vec![]));
        assert_eq!(refused.without(&[ended(3, 0)]).0, []);
    }

    #[test]
    fn a_new_attempt_that_was_not_started_leaves_its_trial_alone() {
        let mut refused = RefusedStarts::default();
        assert_eq!(refused.facts(&[started(2, 1)]), []);
        let end = [ended(2, 1), finished(2)];
        assert_eq!(refused.facts(&end), [finished(2)]);
    }

    #[test]
    fn a_refused_start_counts_again_once_it_is_started_anew() {
        let mut refused = RefusedStarts::default();
        refused.add(&[ended(1, 0), created(2), started(2, 0), started(0, 1)]);
        let stale = [ended(2, 0), ended(0, 1)];
        assert_eq!(refused.without(&stale), (vec![], stale.to_vec()));
        let anew = [started(0, 1), ended(0, 1)];
        assert_eq!(refused.without(&anew).0, anew);
        let anew = [created(2), started(2, 0), ended(2, 0)];
        assert_eq!(refused.without(&anew).0, anew);
    }
}
