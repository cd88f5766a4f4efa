//! Which worker gets which trial, and when a worker is started for it.
//!
//! A trial that is run again gets a fresh worker; a suspect one gets a worker of its own, started
//! with blocking launches; one that ran out of device memory has the device to itself.

use super::active_trial::ActiveTrial;
use super::admission::{Admission, Reservation};
use super::assign::log_name;
use super::slot::{Activity, Slot, State, Worker};
use super::{Core, Mode};
use crate::{WorkerAction, WorkerOptions};
use device::Device;
use search::study::Job;
use store::Write;

/// So many trials may have been proposed and wait for memory, at most: each of them was proposed
/// without the results of what has been started since.
const HELD: usize = 8;

/// A trial that waits for memory is passed over by so many others at most.
pub(super) const PASSED: u32 = 30;

/// What an idle worker does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// Runs this trial again, with this share of its device.
    Again(Job, Reservation),
    /// Runs a trial that has not been run, if the goal needs one, or else a repeat.
    New,
    /// Waits until the idle workers of its device are gone, whose memory this trial wants.
    Clear(Job),
    /// Leaves, so that a fresh worker takes its place.
    Leave,
    /// Waits for others.
    Wait,
}

impl Core {
    /// Gives every idle worker something to do; those on the emptiest device first.
    pub(super) fn assign_all(&mut self) {
        let mut idle: Vec<usize> = (0..self.slots.len())
            .filter(|s| !self.slots[*s].spare && self.slots[*s].is_idle())
            .collect();
        while !idle.is_empty() {
            let emptiest = |at: &usize| (self.load(self.slots[idle[*at]].device), *at);
            let Some(at) = (0..idle.len()).min_by_key(emptiest) else {
                return;
            };
            let slot = idle.remove(at);
            // One that was chosen for before it may have sent it away.
            if !self.slots[slot].is_idle() {
                continue;
            }
            match self.choose(slot) {
                Choice::Again(job, reservation) => {
                    self.retry.remove(&job);
                    self.give(slot, job, reservation);
                }
                Choice::New => self.give_new(slot),
                Choice::Clear(job) => self.clear(slot, job),
                Choice::Leave => self.leave(slot, false),
                Choice::Wait => {}
            }
        }
    }

    /// Assigns the trial or repeat with its share of the device.
    fn give(&mut self, slot: usize, job: Job, reservation: Reservation) {
        self.reserve(job, reservation);
        self.assign(slot, job);
    }

    /// Gives an idle worker the first of what waits for memory that fits, else something new. What
    /// does not fit waits; what never will is refused, and the next one is asked for.
    fn give_new(&mut self, slot: usize) {
        let device = self.slots[slot].device;
        let clearing = self.cleared_for(device);
        let held = self.memory.held.iter().copied();
        let held: Vec<Job> = held.filter(|j| clearing.is_none_or(|c| c == *j)).collect();
        for job in held {
            if self.offer(slot, job) {
                return;
            }
        }
        while self.memory.held.len() < HELD && !self.kept_free(device) {
            let trial = self.start_trial().map(Job::trial);
            if trial.is_none() && self.asked() && !self.search_done() {
                return;
            }
            let Some(job) = trial.or_else(|| self.start_repeat()) else {
                return;
            };
            if self.offer(slot, job) || self.mode != Mode::Running {
                return;
            }
        }
    }

    /// Tries to give a trial or repeat to an idle worker; true when it is given or the worker has
    /// something else to do first.
    fn offer(&mut self, slot: usize, job: Job) -> bool {
        let device = self.slots[slot].device;
        self.memory.held.remove(&job);
        match self.admission(slot, job) {
            Admission::Start(reservation) => {
                self.give(slot, job, reservation);
                true
            }
            Admission::Refuse { needs, has } => {
                if self.halve(job, device, false) {
                    return self.offer(slot, job);
                }
                match job.searches() {
                    true => {
                        self.refuse_for_memory(job, device, needs, has);
                        self.check_breaker();
                    }
                    // Its point has been trained before.
                    false => drop(self.memory.held.insert(job)),
                }
                false
            }
            Admission::Clear => {
                self.memory.held.insert(job);
                self.clear(slot, job);
                true
            }
            Admission::Wait => {
                self.memory.held.insert(job);
                self.tell_of_waiting(device);
                false
            }
        }
    }

    /// Sends the other workers of the slot's device away that are in no attempt, so that a trial has
    /// all of its memory; nothing else starts there before it. One that is to be alone does not wait for
    /// those that are being started either.
    fn clear(&mut self, but: usize, job: Job) {
        let device = self.slots[but].device;
        self.memory.clearing.insert(device, job);
        let alone = self.wants_device(job);
        for slot in 0..self.slots.len() {
            let other = &self.slots[slot];
            let idle = other.is_idle() || (alone && other.is_starting());
            if slot != but && idle && other.device == device {
                self.leave(slot, false);
            }
        }
    }

    fn choose(&self, slot: usize) -> Choice {
        let Some(worker) = self.slots[slot].worker() else {
            return Choice::Wait;
        };
        if self.slots[slot].closed.is_some() || self.staying() > self.concurrency.limit() {
            return Choice::Leave;
        }
        if !worker.healthy() {
            return Choice::Wait;
        }
        let device = self.slots[slot].device;
        if self.runs_alone(device) {
            return Choice::Wait;
        }
        let fits = |job: Job| match self.admission(slot, job) {
            Admission::Start(reservation) => Some(Choice::Again(job, reservation)),
            Admission::Clear => Some(Choice::Clear(job)),
            Admission::Wait | Admission::Refuse { .. } => None,
        };
        if let Some(job) = worker.reserved {
            return match (worker.fresh() && self.retry.contains(&job), fits(job)) {
                (true, choice) => choice.unwrap_or(Choice::Wait),
                (false, _) => Choice::Leave,
            };
        }
        let cleared = self.cleared_for(device);
        if worker.fresh()
            && let Some(choice) = (self.retry.iter())
                .filter(|j| !self.suspect(**j) && cleared.is_none_or(|c| c == **j))
                .find_map(|j| fits(*j))
        {
            return choice;
        }
        if self.waits_for_device(device) {
            // Nothing new is started here, so that the device becomes free.
            return match (
                self.busy_on(device) > 0,
                self.retries_without_a_worker() > 0 || !worker.fresh(),
            ) {
                (true, _) | (false, false) => Choice::Wait,
                (false, true) => Choice::Leave,
            };
        }
        match self.retries_without_a_worker() {
            0 => Choice::New,
            1.. => Choice::Leave,
        }
    }

    /// Whether a trial that has the device to itself is running on it: no other worker has a context
    /// there until it has ended.
    pub(super) fn runs_alone(&self, device: Device) -> bool {
        self.slots
            .iter()
            .filter(|s| s.device == device)
            .filter_map(Slot::attempt)
            .any(|a| self.wants_device(a.job()))
    }

    /// Whether other workers than the slot's are on its device, whatever they are at.
    pub(super) fn shares_device(&self, slot: usize) -> bool {
        let device = self.slots[slot].device;
        let other =
            |(at, s): (usize, &Slot)| at != slot && s.device == device && s.worker().is_some();
        self.slots.iter().enumerate().any(other)
    }

    /// Attempts on the device.
    pub(super) fn busy_on(&self, device: Device) -> usize {
        self.slots
            .iter()
            .filter(|s| s.device == device && s.attempt().is_some())
            .count()
    }

    /// How much is on a device: attempts, and among equals the one with the most memory left is the
    /// emptiest.
    pub(super) fn load(&self, device: Device) -> (usize, std::cmp::Reverse<u64>) {
        let left = self.device_memory(device, None).left();
        (self.busy_on(device), std::cmp::Reverse(left))
    }

    /// Whether the trial has to run alone on its device: it ran out of its memory before.
    fn wants_device(&self, job: Job) -> bool {
        self.active.get(&job).is_some_and(ActiveTrial::alone)
    }

    /// Whether the trial is a suspect: its next attempt decides whether it is to blame.
    fn suspect(&self, job: Job) -> bool {
        self.active.get(&job).is_some_and(|l| l.tally.suspected > 0)
    }

    /// Whether a trial waits to have this device to itself. Kept free for it is the device of the
    /// worker that was started for it, else the emptiest.
    pub(super) fn waits_for_device(&self, device: Device) -> bool {
        let waiting =
            |j: &Job| self.retry.contains(j) && (self.wants_device(*j) || self.passed_over(*j));
        let waits = self.retry.iter().any(waiting);
        let reserved = self.slots.iter().find(|s| {
            let job = s.worker().and_then(|w| w.reserved);
            job.is_some_and(|j| waiting(&j))
        });
        if let Some(slot) = reserved {
            return slot.device == device;
        }
        waits && self.emptiest_device() == Some(device)
    }

    /// The device with the fewest attempts among those where trials can start, the first among equals.
    fn emptiest_device(&self) -> Option<Device> {
        let starts = |s: &&Slot| !s.spare && s.closed.is_none() && !s.is_drained();
        let open = self.slots.iter().filter(starts);
        open.map(|s| s.device).min_by_key(|d| self.busy_on(*d))
    }

    /// Whether so many others were started before the trial, which waits for memory, that it is its
    /// turn now.
    fn passed_over(&self, job: Job) -> bool {
        self.active.get(&job).is_some_and(|l| l.passed >= PASSED)
    }

    /// The waiting trial that the device is being emptied for.
    pub(super) fn cleared_for(&self, device: Device) -> Option<Job> {
        let job = self.memory.clearing.get(&device).copied()?;
        (self.memory.held.contains(&job) || self.retry.contains(&job)).then_some(job)
    }

    /// Whether nothing new is to start on the device, so that a trial fits that was passed over:
    /// the emptiest device, unless an attempt on it may hang.
    pub(super) fn kept_free(&self, device: Device) -> bool {
        if self.cleared_for(device).is_some() {
            return true;
        }
        self.emptiest_device() == Some(device)
            && self.holds_one_passed_over()
            && !self.may_hang_on(device)
    }

    /// Whether a trial waits for memory that it is the turn of.
    pub(super) fn holds_one_passed_over(&self) -> bool {
        self.memory.held.iter().any(|j| self.passed_over(*j))
    }

    /// How many trials to run again have no worker, and no slot where one will be started for them.
    fn retries_without_a_worker(&self) -> usize {
        let slots = || self.slots.iter().filter(|s| !s.spare);
        // Where a worker finds no room, or there is none for it, it comes after one of those that are there; while
        // others run, those have something to do meanwhile.
        let gets_one = |s: &Slot| {
            let starts = self.busy_on(s.device) > 0 || self.room_for_worker(s.device);
            starts && !s.waits_for_room(self.now)
        };
        let open = slots().filter(|s| match s.empty_until() {
            Some(_) => gets_one(s),
            None => s.is_leaving() && s.closed.is_none(),
        });
        let open = open.count();
        let ready = slots()
            .filter_map(Slot::unreserved)
            .filter(|w| w.fresh())
            .count();
        let open = open.min(self.concurrency.limit().saturating_sub(self.staying()));
        let suspects = self.suspects_without_a_worker().count();
        let plain = self.plain_retries();
        suspects.saturating_sub(open) + plain.saturating_sub(ready + open.saturating_sub(suspects))
    }

    /// Workers that were not told to leave, but for spare ones.
    pub(super) fn staying(&self) -> usize {
        self.slots
            .iter()
            .filter(|s| !s.spare && s.worker().is_some() && !s.is_leaving())
            .count()
    }

    /// Trials to run again that any fresh worker can take.
    fn plain_retries(&self) -> usize {
        self.retry.iter().filter(|j| !self.suspect(**j)).count()
    }

    /// Suspects that wait for a worker of their own.
    pub(super) fn suspects_without_a_worker(&self) -> impl Iterator<Item = Job> {
        self.retry.iter().copied().filter(|&job| {
            let reserved = |s: &Slot| {
                s.worker()
                    .is_some_and(|w| w.reserved == Some(job) && w.fresh())
            };
            self.suspect(job) && !self.slots.iter().any(reserved)
        })
    }

    /// How many workers there is work for, beyond those that wait for it. What runs again is no work
    /// for a used one.
    pub(super) fn workers_needed(&self) -> u64 {
        let free = self.slots.iter().filter(|s| !s.spare);
        let free = free.filter_map(Slot::unreserved).map(Worker::fresh);
        let (fresh, used): (Vec<bool>, Vec<bool>) = free.partition(|fresh| *fresh);
        let (fresh, used) = (fresh.len() as u64, used.len() as u64);
        let again = self.plain_retries() as u64;
        let held = self.memory.held.len() as u64;
        let others = held + self.new_trials_wanted() + self.repeats.waiting();
        let rest = fresh.saturating_sub(again) + used;
        again.saturating_sub(fresh) + others.saturating_sub(rest)
    }

    /// Starts workers for empty slots, no more than there is work and memory for.
    pub(super) fn spawn_needed(&mut self) {
        let mut needed = self.workers_needed();
        let living = |s: &&Slot| !s.spare && s.worker().is_some();
        let mut workers = self.slots.iter().filter(living).count();
        for slot in 0..self.slots.len() {
            let Some(not_before) = self.slots[slot].empty_until() else {
                continue;
            };
            let full = not_before > self.now || workers >= self.concurrency.limit();
            let device = self.slots[slot].device;
            if self.slots[slot].spare || full || self.runs_alone(device) {
                continue;
            }
            // What the device is being emptied for comes before a suspect.
            let cleared = self.cleared_for(device);
            let mut suspects = self.suspects_without_a_worker();
            let reserved = suspects.find(|job| cleared.is_none_or(|c| c == *job));
            drop(suspects);
            if reserved.is_none() {
                if needed == 0 || !self.room_for_worker(device) {
                    continue;
                }
                needed -= 1;
            }
            workers += 1;
            self.spawn(slot, reserved);
        }
    }

    pub(super) fn spawn(&mut self, slot: usize, reserved: Option<Job>) {
        let worker = self.next_worker;
        self.next_worker += 1;
        let expandable = self.device_facts.expandable();
        let mut started = Worker::new(worker, reserved, self.now);
        started.held.plain = !expandable;
        self.slots[slot].state = State::Held(Box::new(started));
        let options = WorkerOptions {
            device: self.slots[slot].device,
            threads: self.threads,
            forensic: reserved.is_some(),
            expandable,
        };
        self.act_on(worker, WorkerAction::Spawn(options));
    }

    /// How many trials beyond the live ones the goal still needs, as far as it is known that there are any.
    pub(super) fn new_trials_wanted(&self) -> u64 {
        let active = self.active.keys().filter(|j| j.searches()).count() as u64;
        let elsewhere = self.nodes.trials() + self.failures_on_their_way();
        let sure = self.progress.counts().finished() + active + elsewhere;
        let wanted = self.spec.operation.trials.saturating_sub(sure);
        match self.searches_on() {
            _ if self.search_ended.is_some() => 0,
            true => wanted,
            false => wanted.min(self.waiting.len() as u64),
        }
    }

    /// Records that the slot's idle worker gets this trial or repeat; it is sent once that is
    /// durable.
    fn assign(&mut self, slot: usize, job: Job) {
        let device = self.slots[slot].device.to_string();
        let worker = self.slots[slot].worker_at(Activity::Idle);
        let (Some(worker), Some(active)) = (worker, self.active.get_mut(&job)) else {
            return;
        };
        active.place = Some((device.clone(), worker.id));
        active.epochs.clear();
        active.forget_memory();
        let attempt = job.attempt(active.attempt);
        self.outbox.push(Write::AttemptStarted {
            id: attempt,
            seed: active.seed,
            worker: worker.id,
            pid: worker.pid,
            device,
            log: log_name(&self.spec.study, attempt),
        });
        worker.activity = Activity::Recording(attempt);
        let sends = Some((worker.id, attempt));
        // Who looks on sees what it may use; the line is replaced at its end.
        if active.reservation.grant.is_some() {
            self.note_memory(attempt, "running");
        }
        self.send_batch(sends);
    }
}

/// How many workers may live at the same time: all slots', fewer after the host ran out of memory.
#[derive(Debug)]
pub(super) struct Concurrency {
    slots: usize,
    limit: usize,
    /// Trials that ended well since the limit changed.
    quiet: u32,
}

/// After so many trials without the host running out of memory, one more worker may live.
const QUIET: u32 = 20;

impl Concurrency {
    pub(super) fn new(slots: usize) -> Concurrency {
        Concurrency {
            slots,
            limit: slots,
            quiet: 0,
        }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether the host ran out of memory, and has not been seen to carry all slots since.
    pub(super) fn lowered(&self) -> bool {
        self.limit < self.slots
    }

    /// The host ran out of memory while so many workers lived; gives the limit from now on.
    pub(super) fn lower(&mut self, workers: usize) -> usize {
        self.limit = self.limit.min(workers.saturating_sub(1)).max(1);
        self.quiet = 0;
        self.limit
    }

    /// A trial ended by its own result.
    pub(super) fn ended_well(&mut self) {
        self.quiet += 1;
        if self.quiet >= QUIET && self.limit < self.slots {
            self.limit += 1;
            self.quiet = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrency_falls_with_the_hosts_memory_and_recovers_slowly() {
        let mut concurrency = Concurrency::new(4);
        assert_eq!(concurrency.lower(4), 3);
        assert_eq!(concurrency.lower(3), 2);
        assert_eq!(concurrency.lower(1), 1, "one worker is always allowed");
        for _ in 0..QUIET {
            concurrency.ended_well();
        }
        assert_eq!(concurrency.limit(), 2);
        for _ in 0..10 * QUIET {
            concurrency.ended_well();
        }
        assert_eq!(concurrency.limit(), 4);
    }
}
