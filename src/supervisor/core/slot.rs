//! One of the `--parallel` places a worker can hold.

use std::time::Duration;

use rand::RngExt;

use super::ledger::HeldMemory;
use super::liveness::{LongestSilences, Opening};
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
    /// No worker.
    Empty {
        /// None is started before this time.
        not_before: Now,
    },
    /// A worker.
    Held(Box<Worker>),
    /// No more workers: they died too often, or the device is gone.
    Drained,
}

/// What a worker is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// It is not ready yet.
    Starting,
    /// It waits for an attempt.
    Idle,
    /// Its next attempt is being recorded; it is sent when that is durable.
    Recording(AttemptId),
    /// It is in an attempt.
    Busy(AttemptId),
    /// It was told to leave.
    Leaving,
}

/// A worker as the core knows it.
#[derive(Debug)]
pub struct Worker {
    /// Its number in this run.
    pub id: WorkerId,
    /// Process id, once started.
    pub pid: u32,
    /// What it is at.
    pub activity: Activity,
    /// Last sign of life, or the time the present activity began.
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
    pub silences: LongestSilences,
    /// What it holds on to of memory.
    pub held: HeldMemory,
    /// The fatal error that it reported, if any.
    pub error: Option<ErrorReport>,
    /// It sent garbage.
    pub garbage: Option<String>,
    /// It was told to end because of this long silence.
    pub silent: Option<Duration>,
    /// It was told to end because its attempt had run for this long, the longest that one may.
    pub overtime: Option<Duration>,
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
    /// Whether it may be given work: nothing has ended it, and it listens.
    pub fn healthy(&self) -> bool {
        self.terminated.is_none() && self.killed.is_none() && self.hung_up.is_none()
    }

    /// A worker that is about to be started, for a suspect trial or for any.
    pub fn new(id: WorkerId, reserved: Option<Job>, now: Now) -> Worker {
        Worker {
            id,
            pid: 0,
            activity: Activity::Starting,
            since: now,
            successes: 0,
            reserved,
            trial: None,
            previous: None,
            silences: LongestSilences::default(),
            held: HeldMemory::default(),
            error: None,
            garbage: None,
            silent: None,
            overtime: None,
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

    /// Whether it is in an attempt.
    pub fn is_busy(&self) -> bool {
        matches!(self.activity, Activity::Busy(_))
    }

    /// Goes on to another activity.
    pub fn begins(&mut self, activity: Activity, now: Now) {
        self.activity = activity;
        self.since = now;
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
        match self.activity()? {
            Activity::Recording(attempt) | Activity::Busy(attempt) => Some(attempt),
            Activity::Starting | Activity::Idle | Activity::Leaving => None,
        }
    }

    /// The attempt whose record its worker waits for.
    pub fn recorded_mut(&mut self) -> Option<&mut AttemptId> {
        match &mut self.worker_mut()?.activity {
            Activity::Recording(attempt) => Some(attempt),
            Activity::Starting | Activity::Idle | Activity::Busy(_) | Activity::Leaving => None,
        }
    }

    /// Its worker, if it has one.
    pub fn worker(&self) -> Option<&Worker> {
        match &self.state {
            State::Held(worker) => Some(worker),
            State::Empty { .. } | State::Drained => None,
        }
    }

    /// Its worker, if it has one.
    pub fn worker_mut(&mut self) -> Option<&mut Worker> {
        match &mut self.state {
            State::Held(worker) => Some(worker),
            State::Empty { .. } | State::Drained => None,
        }
    }

    /// What its worker is at, if it has one.
    pub fn activity(&self) -> Option<Activity> {
        self.worker().map(|w| w.activity)
    }

    /// Whether its worker is not ready yet.
    pub fn is_starting(&self) -> bool {
        self.activity() == Some(Activity::Starting)
    }

    /// Whether its worker waits for an attempt.
    pub fn is_idle(&self) -> bool {
        self.activity() == Some(Activity::Idle)
    }

    /// Whether its worker is in an attempt.
    pub fn is_busy(&self) -> bool {
        self.worker().is_some_and(Worker::is_busy)
    }

    /// Whether its worker was told to leave.
    pub fn is_leaving(&self) -> bool {
        self.activity() == Some(Activity::Leaving)
    }

    /// Whether it gets no more workers.
    pub fn is_drained(&self) -> bool {
        matches!(self.state, State::Drained)
    }

    /// The time before which it gets no worker, if it has none and may get one.
    pub fn empty_until(&self) -> Option<Now> {
        match self.state {
            State::Empty { not_before } => Some(not_before),
            State::Held(_) | State::Drained => None,
        }
    }

    /// Its worker, if that is at this.
    pub fn worker_at(&mut self, activity: Activity) -> Option<&mut Worker> {
        self.worker_mut().filter(|w| w.activity == activity)
    }

    /// Its worker, if that is in no attempt, stays, and may take any trial.
    pub fn unreserved(&self) -> Option<&Worker> {
        let free = |w: &&Worker| matches!(w.activity, Activity::Starting | Activity::Idle);
        self.worker().filter(free).filter(|w| w.reserved.is_none())
    }

    /// A starting worker is ready: gives its number and process id.
    pub fn ready(&mut self, now: Now) -> Option<(WorkerId, u32)> {
        let worker = self.worker_at(Activity::Starting)?;
        worker.begins(Activity::Idle, now);
        Some((worker.id, worker.pid))
    }

    /// The recorded attempt is sent now; false when the slot no longer waits for that.
    pub fn sent(&mut self, attempt: AttemptId, now: Now) -> bool {
        let Some(worker) = self.worker_at(Activity::Recording(attempt)) else {
            return false;
        };
        worker.begins(Activity::Busy(attempt), now);
        worker.previous = worker.trial.replace(attempt.job());
        worker.silences = LongestSilences::default();
        true
    }

    /// The attempt will not be sent: the worker is idle again; false when the slot no longer waits
    /// for it.
    pub fn unrecord(&mut self, attempt: AttemptId) -> bool {
        let worker = self.worker_at(Activity::Recording(attempt));
        worker.map(|w| w.activity = Activity::Idle).is_some()
    }

    /// The worker is done with its attempt; gives its successful trials so far.
    pub fn freed(&mut self, success: bool, now: Now) -> u64 {
        let Some(worker) = self.worker_mut().filter(|w| w.is_busy()) else {
            return 0;
        };
        worker.begins(Activity::Idle, now);
        worker.successes += u64::from(success);
        worker.successes
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
        let most = policy.max_backoff.as_secs_f64();
        Some(Duration::from_secs_f64((pause * jitter).min(most)))
    }

    /// Deaths since the last finished epoch.
    pub fn deaths(&self) -> usize {
        self.deaths.len()
    }
}
