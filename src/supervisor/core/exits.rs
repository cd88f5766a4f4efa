//! Worker processes that misbehave, end, or refuse to end.

use super::slot::{State, Worker};
use super::{Core, Mode};
use crate::{Action, WorkerId};
use device::Device;
use fault::{Death, Evidence, Fault, FaultKind};
use fault::{ErrorReport, Phase};

/// Why a worker ended that could not open its GPU for want of memory.
const NO_ROOM: &str = "no memory to open its device";

/// What the system says about the end of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Remains {
    /// How it ended; `None`: it did not.
    pub death: Option<Death>,
    /// The end of what it printed.
    pub tail: String,
    /// It was in state T when it was told to end.
    pub stopped: bool,
    /// OOM kills in its cgroup since it was started.
    pub oom_kills: u64,
}

impl Remains {
    /// Of a process that was not observed to end.
    const NONE: Remains = Remains {
        death: None,
        tail: String::new(),
        stopped: false,
        oom_kills: 0,
    };

    /// What is known of the GPU stands in `of_gpu`.
    fn evidence(&self, worker: &Worker, phase: Phase, asked: bool, of_gpu: Evidence) -> Evidence {
        Evidence {
            error: worker.error.clone(),
            death: self.death,
            asked,
            silent: worker.silent,
            stopped: self.stopped || worker.stopped,
            garbage: worker.garbage.clone(),
            oom_kills: self.oom_kills,
            tail: self.tail.clone(),
            phase: Some(phase),
            ..of_gpu
        }
    }
}

impl Core {
    pub(super) fn on_garbled(&mut self, worker: WorkerId, error: String) {
        if let Some(slot) = self.slot_of(worker) {
            self.end_for_garbage(slot, error);
        }
    }

    /// A process that ends closes its socket too; that it lives on shows when time passes.
    pub(super) fn on_hung_up(&mut self, worker: WorkerId) {
        let now = self.now;
        if let Some(slot) = self.slot_of(worker)
            && let Some(w) = self.slots[slot].worker_mut()
        {
            w.hung_up.get_or_insert(now);
        }
    }

    /// Nobody can be asked why it was stopped: it is told to go on, once. If it is stopped again,
    /// somebody means it.
    pub(super) fn on_stopped(&mut self, worker: WorkerId) {
        let now = self.now;
        let Some(slot) = self.slot_of(worker) else {
            return;
        };
        let Some(w) = self.slots[slot].worker_mut() else {
            return;
        };
        if w.continued {
            w.stopped = true;
            w.killed.get_or_insert(now);
            self.actions.push(Action::Kill { worker });
            return;
        }
        w.continued = true;
        w.since = now;
        self.actions.push(Action::Continue { worker });
        self.warn(format!(
            "worker {worker} was stopped from outside (SIGSTOP); it was told to go on"
        ));
    }

    /// Ends a worker with which one cannot talk.
    pub(super) fn end_for_garbage(&mut self, slot: usize, error: String) {
        let now = self.now;
        if let Some(w) = self.slots[slot].worker_mut()
            && w.garbage.is_none()
        {
            w.garbage = Some(error);
            w.killed = Some(now);
            let worker = w.id;
            self.actions.push(Action::Kill { worker });
        }
    }

    pub(super) fn on_spawn_failed(&mut self, worker: WorkerId, error: String) {
        if let Some(slot) = self.slot_of(worker)
            && let Some(w) = self.slots[slot].worker_mut()
        {
            w.error = Some(ErrorReport {
                phase: Phase::Opening,
                panic: false,
                text: error,
                healthy: None,
                program: None,
            });
            let remains = Remains {
                death: Some(Death::Unknown),
                ..Remains::NONE
            };
            self.on_exited(worker, &remains);
        }
    }

    /// The process is gone.
    pub(super) fn on_exited(&mut self, worker: WorkerId, remains: &Remains) {
        let Some(slot) = self.slot_of(worker) else {
            return;
        };
        let place = self.place(slot);
        if let State::Leaving(w) = &self.slots[slot].state {
            let reason = match w.recycled {
                true => self.why_recycled(worker),
                false => "done".into(),
            };
            self.slots[slot].vacate();
            self.room_was_made(self.slots[slot].device);
            self.stopped(worker, &reason);
        } else if let Some(fault) = self.post_mortem(slot, remains) {
            self.bury(slot, worker, &fault);
        }
        self.departs(place);
    }

    /// The slot's device and the process there.
    fn place(&self, slot: usize) -> (Device, u32) {
        let slot = &self.slots[slot];
        (slot.device, slot.worker().map_or(0, |w| w.pid))
    }

    /// A worker is gone from its slot: its memory is nobody's, whatever an older figure says.
    fn departs(&mut self, (device, pid): (Device, u32)) {
        self.departed.leaves(device, pid, self.heard);
    }

    /// The process lives on although it was killed: it hangs in the kernel, most likely in the
    /// driver. Nothing can end it; the run goes on without it and without its GPU.
    pub(super) fn abandon(&mut self, slot: usize) {
        let Some(worker) = self.slots[slot].worker().map(|w| w.id) else {
            return;
        };
        self.actions.push(Action::Abandon { worker });
        let place = self.place(slot);
        let device = self.slots[slot].device;
        let fault = match &self.slots[slot].state {
            State::Leaving(_) => None,
            State::Starting(_)
            | State::Idle(_)
            | State::Recording(..)
            | State::Busy(..)
            | State::Empty { .. }
            | State::Drained => self.post_mortem(slot, &Remains::NONE),
        };
        let why = format!("worker {worker} does not die: it hangs in the kernel");
        self.warn(format!("{why}; it is left behind"));
        self.close_device(device, &why);
        match fault {
            Some(fault) => self.bury(slot, worker, &fault),
            None => {
                self.slots[slot].vacate();
                self.stopped(worker, "abandoned");
            }
        }
        self.departs(place);
    }

    /// Classifies the end of the slot's worker and judges the attempt that it was at.
    fn post_mortem(&mut self, slot: usize, remains: &Remains) -> Option<Fault> {
        let stopping = self.mode != Mode::Running;
        let worker = self.slots[slot].worker()?;
        // After a request to stop, a worker that was told to end did so for our sake.
        let asked = stopping && worker.terminated.is_some() && worker.silent.is_none();
        let of_gpu = Evidence {
            xids: self.xids(slot),
            gpu_lost: self.gpu_lost(slot),
            ..Evidence::default()
        };
        match &self.slots[slot].state {
            State::Busy(worker, attempt) => {
                let attempt = *attempt;
                let fault =
                    fault::classify(&remains.evidence(worker, Phase::Training, asked, of_gpu));
                self.apply_fault(slot, attempt, &fault);
                Some(fault)
            }
            State::Recording(worker, attempt) => {
                // It died before the attempt reached it; the trial had no part in it.
                let attempt = *attempt;
                let fault =
                    fault::classify(&remains.evidence(worker, Phase::Seeding, true, of_gpu));
                self.apply_fault(slot, attempt, &fault);
                Some(fault)
            }
            State::Starting(worker) | State::Idle(worker) => {
                let mut fault =
                    fault::classify(&remains.evidence(worker, Phase::Opening, asked, of_gpu));
                if fault.kind == FaultKind::HostOom {
                    self.host_out_of_memory();
                }
                // There is no GPU to lose: the task wants one that this run does not have.
                if fault.kind == FaultKind::DeviceLost && self.slots[slot].device == Device::Cpu {
                    fault.kind = FaultKind::OpenFailed;
                }
                Some(fault)
            }
            State::Leaving(_) | State::Empty { .. } | State::Drained => None,
        }
    }

    /// The slot's worker is dead: pause, replace, or give the slot up.
    fn bury(&mut self, slot: usize, worker: WorkerId, fault: &Fault) {
        self.note_unopened(slot);
        let short = self.lacks_room(slot, fault);
        if self.mode == Mode::Running {
            // One that could not even open had no room to give back.
            if !short {
                self.last_fault = Some(format!("{}: {}", fault.kind.word(), fault.detail));
                self.room_was_made(self.slots[slot].device);
            }
            self.rest(slot, fault);
        }
        self.slots[slot].vacate();
        self.stopped(worker, if short { NO_ROOM } else { fault.kind.word() });
    }

    /// Takes the end of the slot's worker from the slot's budget: the next one starts after a pause,
    /// or never.
    pub(super) fn rest(&mut self, slot: usize, fault: &Fault) {
        if fault.kind == FaultKind::DeviceLost {
            self.close_device(self.slots[slot].device, &fault.detail);
        }
        if self.slots[slot].closed.is_some() {
            return;
        }
        if self.lacks_room(slot, fault) {
            self.wait_for_room(slot, fault);
            return;
        }
        let worker = self.slots[slot].worker().map_or(0, |w| w.id);
        let policy = self.spec.operation.supervisor.clone();
        match self.slots[slot].died(self.now, &policy, self.spec.seed) {
            Some(pause) => {
                self.slots[slot].rest = self.now + pause;
                if fault.kind == FaultKind::OpenFailed || pause.as_secs() >= 5 {
                    self.warn(format!(
                        "worker {worker} ended ({}); the next one starts in {:.0} s",
                        fault.detail,
                        pause.as_secs_f64()
                    ));
                }
            }
            None => {
                let deaths = self.slots[slot].deaths();
                let why = format!(
                    "{deaths} workers died without finishing an epoch, the last one: {}",
                    fault.detail
                );
                self.close_slot(slot, &why);
            }
        }
    }

    fn stopped(&mut self, worker: WorkerId, reason: &str) {
        self.report(report::Event::WorkerStopped {
            worker,
            reason: reason.into(),
        });
    }
}
