//! One of the `--parallel` places a worker can hold.

use std::time::Duration;

use rand::RngExt;

use super::ledger::Held;
use super::pace::{Opening, Silences};
use super::shortage::Shortage;
use crate::{Now, WorkerId};
use config::SupervisorPolicy;
use device::Device;
use fault::ErrorReport;
use protocol::AttemptId;
use search::study::{self, Job};

/// A slot.
#[derive(Debug)]
pub struct Slot {
    /// Where its workers train.
    pub device: Device,
    /// It holds a worker that takes over from one of the others, and never a trial.
    pub spare: bool,
    /// What it holds.
    pub state: State,
    /// Why it gets no more workers once the one it has is gone; `None`: it does get them.
    pub closed: Option<String>,
    /// No worker is started before this time.
    pub rest: Now,
    /// It has found no room on its device.
    pub shortage: Option<Shortage>,
    /// When its workers died since its last finished epoch.
    deaths: Vec<Now>,
}

/// What a slot holds.
#[derive(Debug)]
pub enum State {
    /// No worker; none before this time.
    Empty {
        /// See above.
        not_before: Now,
    },
    /// A worker that is not ready yet.
    Starting(Worker),
    /// A worker that waits for an attempt.
    Idle(Worker),
    /// A worker whose next attempt is being recorded; it is sent when that is durable.
    Recording(Worker, AttemptId),
    /// A worker in an attempt.
    Busy(Worker, AttemptId),
    /// A worker that was told to leave.
    Leaving(Worker),
    /// No more workers: they died too often, or the device is gone.
    Drained,
}

/// A worker as the core knows it.
#[derive(Debug)]
pub struct Worker {
    /// Number.
    pub id: WorkerId,
    /// Process id, once started.
    pub pid: u32,
    /// Last sign of life, or the time the present state began.
    pub since: Now,
    /// Successful trials.
    pub successes: u64,
    /// Started with blocking launches for this suspect trial; it takes no other.
    pub reserved: Option<Job>,
    /// The trial it was given last, or the repeat of one.
    pub trial: Option<Job>,
    /// The one before.
    pub previous: Option<Job>,
    /// The silences of its present attempt.
    pub silences: Silences,
    /// What it holds on to of memory.
    pub held: Held,
    /// Its last words, if it said any.
    pub error: Option<ErrorReport>,
    /// It sent garbage.
    pub garbage: Option<String>,
    /// It was told to end because of this long silence.
    pub silent: Option<Duration>,
    /// SIGTERM was sent at this time.
    pub terminated: Option<Now>,
    /// SIGKILL was sent at this time.
    pub killed: Option<Now>,
    /// It is being replaced according to plan.
    pub recycled: bool,
    /// It was found stopped (SIGSTOP) once and was told to go on.
    pub continued: bool,
    /// It was found stopped again, and that is why it was ended.
    pub stopped: bool,
    /// Its end of the socket was closed at this time, though it lived on.
    pub hung_up: Option<Now>,
    /// It has said hello.
    pub greeted: bool,
    /// What it is at until it is ready.
    pub opening: Opening,
    /// People were told that it takes long to be ready.
    pub slow: bool,
}

impl Worker {
    /// A worker that is about to be started, for a suspect trial or for any.
    pub fn new(id: WorkerId, reserved: Option<Job>, now: Now) -> Worker {
        Worker {
            id,
            pid: 0,
            since: now,
            successes: 0,
            reserved,
            trial: None,
            previous: None,
            silences: Silences::default(),
            held: Held::default(),
            error: None,
            garbage: None,
            silent: None,
            terminated: None,
            killed: None,
            recycled: false,
            continued: false,
            stopped: false,
            hung_up: None,
            greeted: false,
            opening: Opening::Device,
            slow: false,
        }
    }

    /// Whether it has not been given any trial yet.
    pub fn fresh(&self) -> bool {
        self.trial.is_none()
    }
}

impl Slot {
    /// An empty slot.
    pub fn new(device: Device) -> Slot {
        Slot {
            device,
            spare: false,
            state: State::Empty {
                not_before: Duration::ZERO,
            },
            closed: None,
            rest: Now::ZERO,
            shortage: None,
            deaths: Vec::new(),
        }
    }

    /// An empty slot for a spare worker.
    pub fn spare(device: Device) -> Slot {
        Slot {
            spare: true,
            ..Slot::new(device)
        }
    }

    /// Empties the slot: a worker may follow after its rest, unless the slot is closed.
    pub fn vacate(&mut self) {
        self.state = match self.closed {
            Some(_) => State::Drained,
            None => State::Empty {
                not_before: self.rest,
            },
        };
    }

    /// The attempt that it holds, recorded or running.
    pub fn attempt(&self) -> Option<AttemptId> {
        match &self.state {
            State::Recording(_, attempt) | State::Busy(_, attempt) => Some(*attempt),
            State::Empty { .. }
            | State::Starting(_)
            | State::Idle(_)
            | State::Leaving(_)
            | State::Drained => None,
        }
    }

    /// Its worker, if it has one.
    pub fn worker(&self) -> Option<&Worker> {
        match &self.state {
            State::Starting(w)
            | State::Idle(w)
            | State::Recording(w, _)
            | State::Busy(w, _)
            | State::Leaving(w) => Some(w),
            State::Empty { .. } | State::Drained => None,
        }
    }

    /// Its worker, if it has one.
    pub fn worker_mut(&mut self) -> Option<&mut Worker> {
        match &mut self.state {
            State::Starting(w)
            | State::Idle(w)
            | State::Recording(w, _)
            | State::Busy(w, _)
            | State::Leaving(w) => Some(w),
            State::Empty { .. } | State::Drained => None,
        }
    }

    /// A starting worker is ready: gives its number and process id.
    pub fn ready(&mut self, now: Now) -> Option<(WorkerId, u32)> {
        if !matches!(self.state, State::Starting(_)) {
            return None;
        }
        let State::Starting(mut worker) = self.take(now) else {
            return None;
        };
        worker.since = now;
        let names = (worker.id, worker.pid);
        self.state = State::Idle(worker);
        Some(names)
    }

    /// The recorded attempt is sent now; false when the slot no longer waits for that.
    pub fn sent(&mut self, attempt: AttemptId, now: Now) -> bool {
        if !self.records(attempt) {
            return false;
        }
        if let State::Recording(mut worker, attempt) = self.take(now) {
            worker.since = now;
            worker.previous = worker.trial.replace(attempt.job());
            worker.silences = Silences::default();
            self.state = State::Busy(worker, attempt);
        }
        true
    }

    /// The attempt will not be sent: the worker is idle again; false when the slot no longer waits
    /// for it.
    pub fn unrecord(&mut self, attempt: AttemptId, now: Now) -> bool {
        if !self.records(attempt) {
            return false;
        }
        if let State::Recording(worker, _) = self.take(now) {
            self.state = State::Idle(worker);
        }
        true
    }

    /// The worker is done with its attempt; gives its successful trials so far.
    pub fn freed(&mut self, success: bool, now: Now) -> u64 {
        if !matches!(self.state, State::Busy(..)) {
            return 0;
        }
        let State::Busy(mut worker, _) = self.take(now) else {
            return 0;
        };
        worker.since = now;
        worker.successes += u64::from(success);
        let successes = worker.successes;
        self.state = State::Idle(worker);
        successes
    }

    /// Whether it waits for this attempt to be recorded.
    fn records(&self, attempt: AttemptId) -> bool {
        matches!(&self.state, State::Recording(_, a) if *a == attempt)
    }

    /// Takes the state out, leaving the slot empty: put one back, or call [`Slot::vacate`].
    pub fn take(&mut self, now: Now) -> State {
        std::mem::replace(&mut self.state, State::Empty { not_before: now })
    }

    /// An epoch was finished: earlier deaths are forgiven.
    pub fn progressed(&mut self) {
        self.shortage = None;
        self.deaths.clear();
    }

    /// A worker died: how long to wait before the next one, or `None` when the slot's budget is
    /// used up. The first death costs no pause; then the pause doubles with each death without
    /// progress, with jitter from the study's seed.
    pub fn died(&mut self, now: Now, policy: &SupervisorPolicy, seed: u64) -> Option<Duration> {
        self.deaths.push(now);
        let count = self.deaths.len();
        let recent = self
            .deaths
            .iter()
            .filter(|&&t| now.saturating_sub(t) <= policy.death_window)
            .count();
        let most = policy.max_deaths as usize;
        // The second bound ends a slot whose workers die slowly: too few in any window, but
        // without any progress all the same.
        if recent > most || count > most.saturating_mul(4) {
            return None;
        }
        if count == 1 {
            return Some(Duration::ZERO);
        }
        let doublings = (count - 2).min(20) as i32;
        let pause = policy.backoff.as_secs_f64() * 2f64.powi(doublings);
        let jitter = study::rng(seed, now.as_nanos() as u64, "backoff").random_range(0.5..1.5);
        Some(Duration::from_secs_f64(pause * jitter).min(policy.max_backoff))
    }

    /// Deaths since the last finished epoch.
    pub fn deaths(&self) -> usize {
        self.deaths.len()
    }
}
