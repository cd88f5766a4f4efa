//! Deadlines: what follows from time alone.

use super::slot::State;
use super::{Core, Mode};
use crate::exit::Exit;
use crate::supervisor::{Action, Now};

/// Time between SIGTERM to the workers of a run that is stopped and SIGKILL.
const STOP_GRACE: Now = Now::from_secs(3);

/// A process that has closed its socket and lives on for this long did not close it by dying.
const HANG_UP: Now = Now::from_secs(2);

impl Core {
    /// When something follows from time alone; `None`: never.
    pub fn next_deadline(&self) -> Option<Now> {
        let slots = (0..self.slots.len()).filter_map(|s| self.slot_deadline(s));
        let timeout = match self.mode {
            // Once the goal is reached, only what is under way is waited for.
            Mode::Running if self.done() => None,
            Mode::Running => {
                (self.spec.operation.timeout).map(|timeout| timeout.saturating_sub(self.slept))
            }
            Mode::Stopping { .. } | Mode::Closing { .. } | Mode::Finished => None,
        };
        slots.chain(timeout).chain(self.storage_deadline()).min()
    }

    /// When this slot's state wants attention.
    fn slot_deadline(&self, slot: usize) -> Option<Now> {
        let policy = &self.spec.operation.supervisor;
        let grace = match self.mode {
            Mode::Running => policy.grace,
            Mode::Stopping { .. } | Mode::Closing { .. } | Mode::Finished => {
                policy.grace.min(STOP_GRACE)
            }
        };
        if let Some(w) = self.slots[slot].worker() {
            match (w.terminated, w.killed) {
                (_, Some(at)) => return Some(at + policy.abandon_after),
                (Some(at), None) => return Some(at + grace),
                (None, None) => {}
            }
            if let Some(at) = w.hung_up {
                return Some(at + HANG_UP);
            }
        }
        match &self.slots[slot].state {
            State::Empty { not_before } => {
                (self.mode == Mode::Running && *not_before > self.now).then_some(*not_before)
            }
            State::Starting(w) => Some(w.since + policy.start_deadline),
            State::Busy(w, _) => {
                let limit = self.pace.limit(policy.deadline, &w.silences);
                limit.map(|limit| w.since + limit)
            }
            State::Leaving(w) => Some(w.since + grace),
            State::Idle(_) | State::Recording(..) | State::Drained => None,
        }
    }

    /// Acts on every deadline that has passed.
    pub(super) fn check_times(&mut self) {
        if self.mode == Mode::Running
            && (self.spec.operation.timeout).is_some_and(|t| self.now + self.slept >= t)
            && !self.done()
        {
            self.stop(Exit::Budget, "the time budget is used up".into());
        }
        for slot in 0..self.slots.len() {
            if self.slot_deadline(slot).is_some_and(|at| self.heard >= at) {
                self.overdue(slot);
            }
        }
    }

    fn overdue(&mut self, slot: usize) {
        let now = self.now;
        let silent = match &self.slots[slot].state {
            State::Busy(w, _) | State::Starting(w) => Some(self.heard.saturating_sub(w.since)),
            State::Leaving(_)
            | State::Idle(_)
            | State::Recording(..)
            | State::Empty { .. }
            | State::Drained => None,
        };
        let Some(worker) = self.slots[slot].worker_mut() else {
            return;
        };
        let id = worker.id;
        if worker.killed.is_some() {
            self.abandon(slot);
        } else if worker.terminated.is_some() {
            worker.killed = Some(now);
            self.actions.push(Action::Kill { worker: id });
        } else if worker.hung_up.is_some() {
            self.end_for_garbage(slot, "it closed its socket and lived on".into());
        } else {
            worker.terminated = Some(now);
            worker.silent = silent;
            self.actions.push(Action::Terminate { worker: id });
        }
    }
}
