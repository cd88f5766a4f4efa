//! Worker processes that misbehave, end, or refuse to end.

use super::slot::{Activity, Worker};
use super::{Core, Mode};
use crate::{ExitInfo, WorkerAction, WorkerEvent, WorkerId};
use device::Device;
use fault::{Death, Evidence, Fault, FaultKind};
use fault::{ErrorReport, Phase};

/// Why a worker ended that could not open its GPU for want of memory.
const NO_ROOM: &str = "no memory to open its device";

impl ExitInfo {
    /// What is known of the GPU stands in `of_gpu`.
    fn evidence(&self, worker: &Worker, phase: Phase, asked: bool, of_gpu: Evidence) -> Evidence {
        Evidence {
            error: worker.error.clone(),
            death: self.death,
            asked,
            silent: worker.silent,
            overtime: worker.overtime,
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
    /// Something has happened to a worker; what comes too late, for one that is gone, changes nothing.
    pub(super) fn on_worker(&mut self, id: WorkerId, event: WorkerEvent) {
        let now = self.now;
        let Some(slot) = self.slot_of(id) else {
            return;
        };
        let Some(worker) = self.slots[slot].worker_mut() else {
            return;
        };
        match event {
            WorkerEvent::Spawned(pid) => worker.pid = pid,
            WorkerEvent::SpawnFailed(error) => {
                worker.error = Some(ErrorReport::new(Phase::Opening, error));
                self.on_exited(slot, id, &ExitInfo::of(Death::Unknown));
            }
            WorkerEvent::Received(message) => self.on_message(slot, message),
            WorkerEvent::Garbled(error) => self.end_for_garbage(slot, error),
            // A process that ends closes its socket too; that it lives on shows when time passes.
            WorkerEvent::HungUp => _ = worker.hung_up.get_or_insert(now),
            WorkerEvent::Stopped => self.on_stopped(slot, id),
            WorkerEvent::Exited(info) => self.on_exited(slot, id, &info),
        }
    }

    /// Nobody can be asked why it was stopped: it is told to go on, once. If it is stopped again,
    /// somebody means it.
    fn on_stopped(&mut self, slot: usize, worker: WorkerId) {
        let now = self.now;
        let Some(w) = self.slots[slot].worker_mut() else {
            return;
        };
        if w.continued {
            w.stopped = true;
            w.killed.get_or_insert(now);
            self.act_on(worker, WorkerAction::Kill);
            return;
        }
        w.continued = true;
        w.since = now;
        self.act_on(worker, WorkerAction::Continue);
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
            self.act_on(worker, WorkerAction::Kill);
        }
    }

    /// The process is gone.
    fn on_exited(&mut self, slot: usize, worker: WorkerId, info: &ExitInfo) {
        let place = self.place(slot);
        if self.slots[slot].is_leaving() {
            let reason = self.why_it_left(slot);
            self.slots[slot].vacate();
            self.room_was_made(self.slots[slot].device);
            self.stopped(worker, &reason);
        } else if let Some(fault) = self.classify_exit(slot, info) {
            self.retire_worker(slot, worker, &fault);
        }
        self.note_departure(place);
    }

    /// The slot's device and the process there.
    fn place(&self, slot: usize) -> (Device, u32) {
        let slot = &self.slots[slot];
        (slot.device, slot.worker().map_or(0, |w| w.pid))
    }

    /// A worker is gone from its slot: its memory is nobody's, whatever an older figure says.
    fn note_departure(&mut self, (device, pid): (Device, u32)) {
        self.ended_workers.leaves(device, pid, self.heard);
    }

    /// The process lives on although it was killed: it hangs in the kernel, most likely in the
    /// driver. Nothing can end it; the run goes on without it and without its GPU.
    pub(super) fn abandon(&mut self, slot: usize) {
        let Some(worker) = self.slots[slot].worker().map(|w| w.id) else {
            return;
        };
        self.act_on(worker, WorkerAction::Abandon);
        let place = self.place(slot);
        let device = self.slots[slot].device;
        let fault = self.classify_exit(slot, &ExitInfo::default());
        let why = format!("worker {worker} does not die: it hangs in the kernel");
        self.warn(format!("{why}; it is left behind"));
        self.close_device(device, &why);
        match fault {
            Some(fault) => self.retire_worker(slot, worker, &fault),
            None => {
                self.slots[slot].vacate();
                self.stopped(worker, "abandoned");
            }
        }
        self.note_departure(place);
    }

    /// Classifies the end of the slot's worker and judges the attempt that it was at; `None`: it was
    /// told to leave.
    fn classify_exit(&mut self, slot: usize, info: &ExitInfo) -> Option<Fault> {
        let stopping = self.mode != Mode::Running;
        let worker = self.slots[slot].worker()?;
        // After a request to stop, a worker that was told to end did so for our sake.
        let late = worker.silent.is_some() || worker.overtime.is_some();
        let asked = stopping && worker.terminated.is_some() && !late;
        let of_gpu = Evidence {
            xids: self.xids(slot),
            gpu_lost: self.gpu_lost(slot),
            ..Evidence::default()
        };
        let (phase, asked) = match worker.activity {
            Activity::Busy(_) => (Phase::Training, asked),
            // It died before the attempt reached it; the trial had no part in it.
            Activity::Recording(_) => (Phase::Seeding, true),
            Activity::Starting | Activity::Idle => (Phase::Opening, asked),
            Activity::Leaving => return None,
        };
        let mut fault = fault::classify(&info.evidence(worker, phase, asked, of_gpu));
        if let Some(attempt) = self.slots[slot].attempt() {
            self.apply_fault(slot, attempt, &fault);
            return Some(fault);
        }
        if fault.kind == FaultKind::HostOom {
            self.host_out_of_memory();
        }
        // There is no GPU to lose: the task wants one that this run does not have.
        if fault.kind == FaultKind::DeviceLost && self.slots[slot].device == Device::Cpu {
            fault.kind = FaultKind::OpenFailed;
        }
        Some(fault)
    }

    /// The slot's worker is dead: pause, replace, or give the slot up.
    fn retire_worker(&mut self, slot: usize, worker: WorkerId, fault: &Fault) {
        self.note_unopened(slot);
        let short = self.lacks_room(slot, fault);
        if self.mode == Mode::Running {
            // One that could not even open had no room to give back.
            if !short {
                self.last_fault = Some(format!("{}: {}", fault.kind.word(), fault.detail));
                self.room_was_made(self.slots[slot].device);
            }
            if self.is_of_the_worker(slot, fault) {
                self.rest(slot, fault);
            }
        }
        self.slots[slot].vacate();
        self.stopped(worker, if short { NO_ROOM } else { fault.kind.word() });
    }

    /// Whether the slot's budget pays for the end of its worker: not where its trial took too long, nor
    /// where it waited for a program that hung.
    fn is_of_the_worker(&self, slot: usize, fault: &Fault) -> bool {
        let hung = fault.kind == FaultKind::Hang && self.slots[slot].is_busy();
        !(fault.kind == FaultKind::TimeLimit || hung && self.spec.runs_programs())
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
