//! Deadlines: what follows from time alone.

use super::liveness::Opening;
use super::slot::{Activity, Worker};
use super::{Core, Mode};
use crate::{Now, WorkerAction};
use device::Device;
use messages::exit::Exit;

/// Time between SIGTERM to the workers of a run that is stopped and SIGKILL.
const STOP_GRACE: Now = Now::from_secs(3);

/// A worker that opens its GPU for longer than this is told of.
const SLOW_START: Now = Now::from_secs(10);

/// An attempt that has been silent for this part of what it may be silent has been so for longer than any before: it may
/// hang.
const DOUBTED: u32 = 4;

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
                let operation = &self.spec.operation;
                let ends = self.search_must_end().filter(|_| self.searching());
                let times = [operation.timeout, operation.by, ends];
                let first = times.into_iter().flatten().min();
                let first = first.map(|time| time.saturating_sub(self.suspended));
                first.into_iter().chain(self.leaves_at()).min()
            }
            Mode::WindingDown { until, .. } => Some(until),
            Mode::Stopping { .. } | Mode::Closing { .. } | Mode::Finished => None,
        };
        let slow = (0..self.slots.len()).filter_map(|s| self.slow_start_told(s));
        let slots = slots.chain(slow).chain(self.next_doubt());
        slots.chain(timeout).chain(self.storage_deadline()).min()
    }

    /// When the slot's attempt will have been silent for one part in `parts` of what it may be; `None`: never.
    fn silence_ends(&self, slot: usize, parts: u32) -> Option<Now> {
        let worker = self.slots[slot].worker().filter(|w| w.is_busy())?;
        let deadline = self.spec.operation.supervisor.deadline;
        let limit = self.deadlines.limit(deadline, &worker.silences)?;
        Some(worker.since + limit / parts)
    }

    /// When the slot's attempt will have run for as long as one may; `None`: never.
    fn limit_ends(&self, slot: usize) -> Option<Now> {
        let attempt = self.slots[slot]
            .attempt()
            .filter(|_| self.slots[slot].is_busy())?;
        let active = self.active.get(&attempt.job())?;
        Some(active.started + self.spec.operation.trial_limit?)
    }

    /// Whether an attempt on the device has been silent for so long that nobody should be kept waiting for its end.
    pub(super) fn may_hang_on(&self, device: Device) -> bool {
        let slots = (0..self.slots.len()).filter(|s| self.slots[*s].device == device);
        let mut doubted = slots.filter_map(|s| self.silence_ends(s, DOUBTED));
        doubted.any(|at| self.now >= at)
    }

    /// When an attempt that a trial waits for may be found to hang.
    fn next_doubt(&self) -> Option<Now> {
        let slots = (0..self.slots.len()).filter(|_| self.holds_one_passed_over());
        let doubted = slots.filter_map(|s| self.silence_ends(s, DOUBTED));
        doubted.filter(|at| *at > self.now).min()
    }

    /// How long after its start the slot's worker must be done with what it is at. Only a GPU can keep it
    /// waiting for ever: there the time is learned.
    fn start_limit(&self, slot: usize, worker: &Worker) -> Now {
        let configured = self.spec.operation.supervisor.start_deadline;
        match self.slots[slot].device {
            Device::Cpu => configured,
            Device::Cuda(_) => self.deadlines.start_limit(worker.opening, configured),
        }
    }

    /// The slot's worker is done with a part of its opening, and goes on with the next.
    pub(super) fn note_opened(&mut self, slot: usize) {
        let (spare, heard) = (self.slots[slot].spare, self.heard);
        if self.slots[slot].device == Device::Cpu {
            return;
        }
        if let Some(worker) = self.slots[slot].worker_at(Activity::Starting) {
            let after = heard.saturating_sub(worker.since);
            self.deadlines.learn_start(worker.opening, after);
            worker.opening = match spare {
                true => Opening::Rehearsal,
                false => Opening::Task,
            };
        }
    }

    /// When people are told that the slot's worker takes long to open its GPU: longer than others have.
    fn slow_start_told(&self, slot: usize) -> Option<Now> {
        let slot = &self.slots[slot];
        let to_tell = |w: &&Worker| !w.slow && w.terminated.is_none() && slot.is_starting();
        let worker = slot.worker().filter(to_tell)?;
        let slowest = self
            .deadlines
            .slowest_start(worker.opening)
            .unwrap_or_default();
        (slot.device != Device::Cpu).then(|| worker.since + SLOW_START.max(slowest * 2))
    }

    /// Says which worker keeps the slot waiting, and at what.
    fn tell_of_slow_start(&mut self, slot: usize) {
        let (device, heard) = (self.slots[slot].device, self.heard);
        let Some(worker) = self.slots[slot].worker() else {
            return;
        };
        let at = match (worker.opening, worker.greeted) {
            (Opening::Device, false) => "starting its process",
            (Opening::Device, true) => "making its context",
            (Opening::Task, _) => "loading its task",
            (Opening::Rehearsal, _) => "loading its task and rehearsing",
        };
        let text =
            |time: Now| humantime::format_duration(Now::from_secs(time.as_secs())).to_string();
        let message = format!(
            "slot {slot}: worker {} has been opening {device} for {} ({at}); it is ended after {}",
            worker.id,
            text(heard.saturating_sub(worker.since)),
            text(self.start_limit(slot, worker)),
        );
        if let Some(worker) = self.slots[slot].worker_mut() {
            worker.slow = true;
        }
        self.warn(message);
    }

    /// When this slot's state wants attention.
    fn slot_deadline(&self, slot: usize) -> Option<Now> {
        let policy = &self.spec.operation.supervisor;
        let grace = match self.mode {
            Mode::Running | Mode::WindingDown { .. } => policy.grace,
            Mode::Stopping { .. } | Mode::Closing { .. } | Mode::Finished => {
                policy.grace.min(STOP_GRACE)
            }
        };
        let Some(w) = self.slots[slot].worker() else {
            let empty = self.slots[slot].empty_until();
            return empty.filter(|at| self.mode == Mode::Running && *at > self.now);
        };
        match (w.terminated, w.killed, w.hung_up) {
            (_, Some(at), _) => return Some(at + policy.abandon_after),
            (Some(at), None, _) => return Some(at + grace),
            (None, None, Some(at)) => return Some(at + HANG_UP),
            (None, None, None) => {}
        }
        match w.activity {
            Activity::Starting => Some(w.since + self.start_limit(slot, w)),
            Activity::Busy(_) => {
                let ends = [self.silence_ends(slot, 1), self.limit_ends(slot)];
                ends.into_iter().flatten().min()
            }
            Activity::Leaving => Some(w.since + grace),
            Activity::Idle | Activity::Recording(_) => None,
        }
    }

    /// Acts on every deadline that has passed.
    pub(super) fn check_times(&mut self) {
        if self.mode == Mode::Running
            && (self.spec.operation.timeout).is_some_and(|t| self.now + self.suspended >= t)
            && !self.done()
        {
            self.wind_down(Exit::Budget, "the time budget is used up".into());
        }
        if self.mode == Mode::Running
            && (self.spec.operation.by).is_some_and(|by| self.now + self.suspended >= by)
            && !self.done()
        {
            let reason = "the time that all was to be done by has come".to_owned();
            self.stop(Exit::Budget, reason);
        }
        self.check_leaving();
        self.check_patience();
        for slot in 0..self.slots.len() {
            if self
                .slow_start_told(slot)
                .is_some_and(|at| self.heard >= at)
            {
                self.tell_of_slow_start(slot);
            }
            if self.slot_deadline(slot).is_some_and(|at| self.heard >= at) {
                self.overdue(slot);
            }
        }
    }

    fn overdue(&mut self, slot: usize) {
        let now = self.now;
        let limit = self.spec.operation.trial_limit;
        let overtime = limit.filter(|_| self.limit_ends(slot).is_some_and(|at| self.heard >= at));
        let Some(worker) = self.slots[slot].worker_mut() else {
            return;
        };
        let silent = match worker.activity {
            Activity::Busy(_) | Activity::Starting => Some(self.heard.saturating_sub(worker.since)),
            Activity::Leaving | Activity::Idle | Activity::Recording(_) => None,
        };
        let id = worker.id;
        if worker.killed.is_some() {
            self.abandon(slot);
        } else if worker.terminated.is_some() {
            worker.killed = Some(now);
            self.act_on(id, WorkerAction::Kill);
        } else if worker.hung_up.is_some() {
            self.end_for_garbage(slot, "it closed its socket and lived on".into());
        } else {
            worker.terminated = Some(now);
            worker.overtime = overtime;
            worker.silent = silent.filter(|_| overtime.is_none());
            self.act_on(id, WorkerAction::Terminate);
        }
    }
}
