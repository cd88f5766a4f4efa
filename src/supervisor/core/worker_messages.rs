//! What workers say, and what follows from it.

use super::Core;
use super::slot::{Activity, Worker};
use crate::Action;
use device::Device;
use fault::ErrorReport;
use fault::{Evidence, Fault, FaultKind};
use protocol::{AttemptEvent, AttemptId, FromWorker, ToWorker, VERSION};
use search::study::Job;
use store::{AttemptEnd, Write};
use task::{Ended, Epoch};

/// What is noted of a suspect's second attempt that went well.
const VICTIM: &str = "it passed with blocking launches: the trial had been a victim";

/// So many warnings of attempts are told in a run: what is said of each trial alike is known by then.
const WARNINGS: usize = 20;

impl Core {
    pub(super) fn on_message(&mut self, slot: usize, message: FromWorker) {
        // It is being ended for what it did, or did not do: what it said meanwhile comes too late.
        let ending = |w: &Worker| {
            let late = w.silent.is_some() || w.overtime.is_some();
            w.garbage.is_some() || w.killed.is_some() || late
        };
        let fatal = matches!(message, FromWorker::Fatal(_));
        if self.slots[slot].worker().is_some_and(ending) && !fatal {
            // Its worker waits for the answer, and hands SIGTERM on to its program after that.
            if matches!(
                message,
                FromWorker::Attempt(_, AttemptEvent::EpochFinished(_))
            ) {
                self.decide(slot, true);
            }
            return;
        }
        match message {
            FromWorker::Hello { protocol, version } => self.on_hello(slot, protocol, &version),
            FromWorker::DeviceOpened { capacity, context } => {
                self.on_device_opened(slot, capacity);
                self.note_context(slot, context);
                self.note_opened(slot);
            }
            FromWorker::NotExpandable { error } => self.on_not_expandable(slot, &error),
            FromWorker::Ready => self.on_ready(slot),
            FromWorker::Attempt(attempt, event) => {
                if self.sign_of_life(slot, attempt) {
                    self.on_attempt(slot, attempt, event);
                }
            }
            FromWorker::Fatal(error) => {
                if let Some(w) = self.slots[slot].worker_mut() {
                    w.error = Some(error);
                }
            }
        }
    }

    /// Something has become of the slot's attempt.
    fn on_attempt(&mut self, slot: usize, attempt: AttemptId, event: AttemptEvent) {
        let (job, number) = (attempt.job(), attempt.number);
        if matches!(event, AttemptEvent::Stepped(_)) {
            self.put_back_after_epoch(slot, job);
        }
        match event {
            AttemptEvent::Stepped(steps) if job.searches() => {
                self.report(report::Event::TrialStepped { number, steps });
            }
            // How many steps there will be is of use to a rehearsal alone.
            AttemptEvent::Stepped(_) | AttemptEvent::Planned(_) => {}
            AttemptEvent::KeepsState => self.programs_keep_state = true,
            AttemptEvent::Warned(what) => {
                self.warnings += 1;
                let last = match self.warnings {
                    ..WARNINGS => "",
                    WARNINGS => "; warnings of further trials are in their logs alone",
                    _ => return,
                };
                let message = format!("{job}: {what}{last}");
                self.report(report::Event::Warned { message });
            }
            AttemptEvent::EpochFinished(epoch) => self.on_epoch(slot, job, epoch),
            // It goes on from a checkpoint: what was reported up to it holds again.
            AttemptEvent::Resumed(epochs) => {
                for epoch in epochs {
                    self.note_epoch(job, epoch);
                }
            }
            AttemptEvent::Measured(usage) => self.note_usage(slot, attempt, usage),
            AttemptEvent::Ended(ended) => self.on_ended(slot, attempt, ended),
            AttemptEvent::Failed(error) => self.on_failed(slot, attempt, error),
        }
    }

    fn on_hello(&mut self, slot: usize, protocol: u32, version: &str) {
        let device = self.slots[slot].device;
        let rehearse = self.rehearsal_of_spare(slot);
        let Some(worker) = self.slots[slot].worker_mut() else {
            return;
        };
        let id = worker.id;
        worker.greeted = true;
        if protocol != VERSION || version != env!("CARGO_PKG_VERSION") {
            let error = format!(
                "the worker is tune {version} with protocol {protocol}, the supervisor {} with \
                 {VERSION}: the binary was replaced while it ran; start tune again",
                env!("CARGO_PKG_VERSION")
            );
            return self.end_for_garbage(slot, error);
        }
        let spec = Box::new(self.spec.clone());
        let open = ToWorker::Open {
            spec,
            device,
            rehearse,
        };
        self.send(id, open);
    }

    fn on_ready(&mut self, slot: usize) {
        self.note_opened(slot);
        let device = self.slots[slot].device.to_string();
        if let Some((worker, pid)) = self.slots[slot].ready(self.now) {
            self.room_was_found(slot);
            self.report(report::Event::WorkerStarted {
                worker,
                pid,
                device,
            });
        }
    }

    /// Notes a sign of life; false for a message of another attempt than the current one.
    fn sign_of_life(&mut self, slot: usize, attempt: AttemptId) -> bool {
        let heard = self.heard;
        let Some(worker) = self.slots[slot].worker_at(Activity::Busy(attempt)) else {
            return false;
        };
        worker.silences.end(heard.saturating_sub(worker.since));
        worker.since = worker.since.max(heard);
        true
    }

    fn on_epoch(&mut self, slot: usize, job: Job, finished: Epoch) {
        if !self.active.contains_key(&job) {
            // Another program has ended the trial meanwhile: there is nothing to train for.
            self.decide(slot, true);
            return;
        }
        self.slots[slot].progressed();
        if let Some(active) = self.active.get_mut(&job) {
            active.epoch_over = true;
        }
        self.consider_leaving(job);
        let Epoch { epoch, metrics } = finished.clone();
        let value = self.note_epoch(job, finished);
        if !job.searches() {
            // No pruner: a mean needs whole trainings.
            self.decide(slot, false);
            return;
        }
        let prune = self
            .history
            .get(job.number)
            .is_some_and(|entry| self.pruner.should_prune(&self.history, entry));
        let prune = prune && !self.is_audited(job, epoch);
        self.decide(slot, prune);
        self.report(report::Event::EpochFinished {
            number: job.number,
            epoch,
            value,
            metrics,
        });
    }

    fn decide(&mut self, slot: usize, prune: bool) {
        if let Some(w) = self.slots[slot].worker() {
            let worker = w.id;
            self.send(worker, ToWorker::Decided { prune });
        }
    }

    /// Notes an epoch; of the search's own trials for the history and in the database as well.
    fn note_epoch(&mut self, job: Job, Epoch { epoch, metrics }: Epoch) -> f64 {
        let value = metrics
            .get(&self.spec.objective.metric)
            .copied()
            .unwrap_or(f64::NAN);
        if job.searches() {
            self.history.report(job.number, i64::from(epoch), value);
            self.actions.push(Action::WriteSoon(Write::Reported {
                number: job.number,
                step: i64::from(epoch),
                value,
            }));
        }
        if let Some(active) = self.active.get_mut(&job) {
            active.epochs.insert(epoch, metrics);
            active.trial.intermediate.insert(i64::from(epoch), value);
        }
        value
    }

    fn on_ended(&mut self, slot: usize, attempt: AttemptId, ended: Ended) {
        let objectives = self.spec.objectives();
        let Some(active) = self.active.get(&attempt.job()) else {
            let (outcome, detail) = match &ended {
                Ended::Completed | Ended::Returned { .. } => ("completed", ""),
                Ended::Pruned => ("pruned", ""),
                Ended::Diverged { at } => (FaultKind::Diverged.word(), at.as_str()),
            };
            self.end_orphan(attempt, outcome, detail);
            self.free(slot, true);
            return;
        };
        let victim = self.slots[slot]
            .worker()
            .is_some_and(|w| w.reserved.is_some());
        let (end, outcome) = match ended {
            Ended::Completed => (active.result(&objectives, false, self.heard), "completed"),
            Ended::Returned { metrics } => (
                active.returned(&metrics, &objectives, self.heard),
                "completed",
            ),
            Ended::Pruned => (active.result(&objectives, true, self.heard), "pruned"),
            Ended::Diverged { at } => {
                let fault = Fault::new(FaultKind::Diverged, at);
                self.apply_fault(slot, attempt, &fault);
                self.free(slot, false);
                return;
            }
        };
        // Programs may end without ever having reported an epoch.
        self.slots[slot].progressed();
        self.end_attempt(
            attempt,
            AttemptEnd {
                outcome: outcome.into(),
                detail: if victim { VICTIM.into() } else { String::new() },
                again: false,
            },
        );
        self.learn(slot, attempt.job());
        self.finish(attempt.job(), end);
        self.free(slot, true);
    }

    fn on_failed(&mut self, slot: usize, attempt: AttemptId, error: ErrorReport) {
        let program = error.program.is_some();
        let mut fault = fault::classify(&Evidence {
            phase: Some(error.phase),
            error: Some(error),
            xids: self.xids(slot),
            gpu_lost: self.gpu_lost(slot),
            ..Evidence::default()
        });
        // There is no GPU to lose: the program wants one that this run does not have.
        if program && fault.kind == FaultKind::DeviceLost && self.slots[slot].device == Device::Cpu
        {
            fault.kind = FaultKind::TaskError;
            fault.detail += "; this run's device is the CPU";
        }
        let replace = self.apply_fault(slot, attempt, &fault);
        if replace {
            // A program's end is its trial's; the worker has come to no harm.
            if !program || fault.kind == FaultKind::DeviceLost {
                self.rest(slot, &fault);
            }
            self.leave(slot, false);
        } else {
            self.free(slot, false);
        }
    }

    /// Learns from the attempt that the slot's worker has ended by itself.
    fn learn(&mut self, slot: usize, job: Job) {
        self.learn_memory(slot, job, false);
        if let Some(worker) = self.slots[slot].worker() {
            self.deadlines.learn(worker.silences);
        }
        self.concurrency.ended_well();
    }

    /// The slot's worker is done with its attempt: it takes the next one, or is replaced when it
    /// has had its number of successful trials, or holds on to memory.
    fn free(&mut self, slot: usize, success: bool) {
        let successes = self.slots[slot].freed(success, self.now);
        self.room_was_made(self.slots[slot].device);
        let due = self.spec.operation.supervisor.recycle_after;
        if (due > 0 && successes >= due) || self.drifts(slot) {
            self.leave(slot, true);
        } else if self.slots[slot].closed.is_some() || self.winds_down() {
            self.leave(slot, false);
        }
    }

    /// Tells an idle or busy worker to leave in peace.
    pub(super) fn leave(&mut self, slot: usize, recycled: bool) {
        let stays = |w: &&mut Worker| w.activity != Activity::Leaving;
        if let Some(worker) = self.slots[slot].worker_mut().filter(stays) {
            worker.begins(Activity::Leaving, self.now);
            worker.recycled = recycled;
            let id = worker.id;
            self.send(id, ToWorker::Exit);
        }
    }
}
