//! Other programs that ask, tell, enqueue, end and delete trials of the same study.
//!
//! The database decides: a number belongs to who was first, the end of a trial to who ended it first.
//! What others did comes in as [`Changes`], which tell the durable state of the study and nothing of
//! batches that are still on their way. So a trial whose start is on its way is not missing, and
//! another one with its number is not it.

use super::Core;
use super::new_trial::created;
use super::slot::Activity;
use crate::Action;
use crate::refused_starts::RefusedStarts;
use protocol::AttemptId;
use search::study::{FrozenTrial, Job, TrialState};
use store::{AttemptEnd, Changes, Write};

/// What is noted of an attempt whose trial somebody else has ended.
const OVERRULED: &str = "another program had ended the trial meanwhile, and its word stands";

impl Core {
    /// Undoes starts of trials that are not on record.
    pub(super) fn undo(&mut self, writes: &[Write], refused: &RefusedStarts) {
        for number in refused.trials() {
            // As a rule because its point was tried meanwhile.
            if writes.iter().any(|w| created(w) == Some(number)) {
                self.propose_apart();
            }
            let is =
                |w: &Write| matches!(w, Write::TrialReclaimed { number: n, .. } if *n == number);
            let taken_over = writes.iter().any(is);
            // A further attempt may wait for its record, too: it must not be taken for one of the
            // trial that has this number instead.
            for slot in &mut self.slots {
                if let Some(attempt) = slot.attempt().filter(|a| a.number == number) {
                    slot.unrecord(attempt);
                }
            }
            // Its answer is still to come, and is none to the same attempt when the trial starts again.
            for pending in self.pending.values_mut() {
                pending.sends.take_if(|(_, a)| a.number == number);
            }
            self.drop_live(Job::trial(number));
            // One that another node was faster to take over is a trial as before.
            if !taken_over {
                self.history.remove(number);
                self.progress.remove(number);
            }
        }
    }

    /// What a look at the study has found. It finds every trial whose number was taken before it, unless it has been
    /// deleted since.
    pub(super) fn on_look(&mut self, changes: Changes) {
        self.nodes.unseen.clear();
        self.merge_foreign_changes(changes);
    }

    /// Takes in what other programs did.
    pub(super) fn merge_foreign_changes(&mut self, changes: Changes) {
        if changes.is_empty() {
            return;
        }
        self.repeats.look_again();
        for number in changes.gone {
            self.contested.remove(&number);
            if !self.on_its_way(number) {
                self.on_deleted(number);
            }
        }
        let lost = changes.lost.into_iter().filter(|n| !self.on_its_way(*n));
        let lost: Vec<Job> = lost.map(Job::trial).collect();
        for job in lost {
            self.warn(format!(
                "another node has taken {job} over, because nothing was heard from this one for longer than \
                 storage.lease: it runs there, and what this node knows of it is dropped"
            ));
            self.lose(job);
        }
        for trial in changes.trials {
            self.contested.remove(&trial.number);
            if self.on_its_way(trial.number) {
                self.contested.insert(trial.number, trial);
            } else {
                self.put_found(trial);
            }
        }
        if let Some(nodes) = changes.nodes {
            self.on_other_nodes(nodes);
        }
    }

    /// These starts have been answered: whose the contested numbers among them are is known.
    pub(super) fn resolve_contested(&mut self, writes: &[Write]) {
        for number in writes.iter().filter_map(Write::trial_started) {
            if let Some(trial) = self.contested.remove(&number)
                && !self.active.contains_key(&Job::trial(number))
            {
                self.put_found(trial);
            }
        }
    }

    /// Whether a start of this trial has been sent to the store and not been answered.
    fn on_its_way(&self, number: u64) -> bool {
        let mut writes = self.pending.values().flat_map(|p| &p.writes);
        writes.any(|write| write.trial_started() == Some(number))
    }

    /// A trial as another program has left it.
    fn put_found(&mut self, trial: FrozenTrial) {
        let job = Job::trial(trial.number);
        let active = self.active.contains_key(&job);
        if !trial.state.finished() && active {
            return;
        }
        if active {
            let waited = self.retry.contains(&job) || self.memory.held.contains(&job);
            self.drop_live(job);
            if waited {
                self.forget(job);
            }
        }
        if trial.state != TrialState::Complete {
            self.drop_repeats(trial.number);
        }
        self.history.put(&self.spec.space, &trial);
        let ends = trial.state.finished() && !self.progress.has_ended(trial.number);
        self.progress.put(&trial);
        if self.nodes.shared()
            && ends
            && let Some(failure) = self.count_streaks(&trial)
        {
            self.last_fault = Some(format!("{}: {}", failure.fault, failure.message));
        }
        if let Some(weights) = &mut self.weights {
            weights.found(&trial);
        }
        if trial.state == TrialState::Waiting {
            self.waiting.insert(trial.number, trial);
        } else {
            self.waiting.remove(&trial.number);
        }
    }

    /// The trial is gone, and its number may be given to another one: nothing may go on under it.
    fn on_deleted(&mut self, number: u64) {
        self.kill_attempts_of(|attempt| attempt.number == number);
        self.drop_live(Job::trial(number));
        // Even if it has ended: a new trial may have its number before that end is answered.
        self.forget(Job::trial(number));
        self.drop_repeats(number);
        self.history.remove(number);
        self.progress.remove(number);
        self.waiting.remove(&number);
        if let Some(weights) = &mut self.weights {
            weights.gone(number);
        }
    }

    /// Ends the workers whose attempts are these.
    pub(super) fn kill_attempts_of(&mut self, these: impl Fn(AttemptId) -> bool) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].attempt().is_some_and(&these) {
                self.kill_attempt(slot);
            }
        }
    }

    /// Ends the slot's worker, whose attempt is of no use to anybody; the next one takes its place.
    fn kill_attempt(&mut self, slot: usize) {
        let now = self.now;
        if self.slots[slot].attempt().is_none() {
            return;
        }
        if let Some(worker) = self.slots[slot].worker_mut() {
            worker.begins(Activity::Leaving, now);
        }
        self.kill(slot);
    }

    fn drop_repeats(&mut self, number: u64) {
        let jobs: Vec<Job> = self.active.keys().copied().collect();
        let repeats = jobs.into_iter().filter(|j| j.number == number);
        repeats
            .filter(|j| !j.searches())
            .for_each(|job| self.drop_live(job));
    }

    pub(super) fn drop_live(&mut self, job: Job) {
        self.active.remove(&job);
        self.retry.remove(&job);
        self.memory.held.remove(&job);
    }

    /// The trial or repeat has ended durably, or is gone: what it has left on disk is deleted.
    pub(super) fn forget(&mut self, job: Job) {
        if self.spec.operation.supervisor.checkpoint || self.weights.is_some() {
            self.actions.push(Action::Forget(job));
        }
    }

    /// An attempt has ended whose trial another program had ended before.
    pub(super) fn end_orphan(&mut self, attempt: AttemptId, outcome: &str, detail: &str) {
        let detail = match detail {
            "" => OVERRULED.to_owned(),
            detail => format!("{detail}; {OVERRULED}"),
        };
        self.end_attempt(
            attempt,
            AttemptEnd {
                outcome: outcome.into(),
                detail,
                again: false,
            },
        );
        self.forget(attempt.job());
    }
}
