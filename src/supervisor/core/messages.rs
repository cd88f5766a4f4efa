//! What workers say, and what follows from it.

use super::live::End;
use super::slot::{State, Worker};
use super::{Core, Mode};
use crate::fault::{self, Death, Evidence, Fault, FaultKind, Verdict};
use crate::protocol::{AttemptId, ErrorReport, FromWorker, Phase, ToWorker, VERSION};
use crate::report;
use crate::store::{AttemptEnd, Write};
use crate::study::TrialState;
use crate::supervisor::{Action, WorkerId};
use crate::task::{Ended, Metrics};

impl Core {
    pub(super) fn on_spawned(&mut self, worker: WorkerId, pid: u32) {
        if let Some(slot) = self.slot_of(worker)
            && let Some(w) = self.slots[slot].worker_mut()
        {
            w.pid = pid;
        }
    }

    pub(super) fn on_message(&mut self, worker: WorkerId, message: FromWorker) {
        let Some(slot) = self.slot_of(worker) else {
            return;
        };
        match message {
            FromWorker::Hello { protocol, version } => self.on_hello(slot, protocol, &version),
            FromWorker::Ready => self.on_ready(slot),
            FromWorker::Stepped { attempt, steps } => {
                if self.sign_of_life(slot, attempt) {
                    self.report(report::Event::TrialStepped {
                        number: attempt.number,
                        steps,
                    });
                }
            }
            FromWorker::EpochFinished {
                attempt,
                epoch,
                metrics,
            } => {
                if self.sign_of_life(slot, attempt) {
                    self.on_epoch(slot, attempt, epoch, metrics);
                }
            }
            FromWorker::Ended {
                attempt,
                ended,
                peak_memory_mb,
            } => {
                if self.sign_of_life(slot, attempt) {
                    if let Some(live) = self.live.get_mut(&attempt.number) {
                        live.peak_memory_mb = Some(peak_memory_mb);
                    }
                    self.on_ended(slot, attempt, ended);
                }
            }
            FromWorker::Failed { attempt, error } => {
                if self.sign_of_life(slot, attempt) {
                    self.on_failed(slot, attempt, error);
                }
            }
            FromWorker::Dying { error, .. } => {
                if let Some(w) = self.slots[slot].worker_mut() {
                    w.error = Some(error);
                }
            }
        }
    }

    fn on_hello(&mut self, slot: usize, protocol: u32, version: &str) {
        let device = self.slots[slot].device;
        let Some(worker) = self.slots[slot].worker_mut() else {
            return;
        };
        let id = worker.id;
        if protocol != VERSION || version != env!("CARGO_PKG_VERSION") {
            worker.garbage = Some(format!(
                "the worker is tune {version} with protocol {protocol}, the supervisor {} with \
                 {VERSION}: the binary was replaced while it ran; start tune again",
                env!("CARGO_PKG_VERSION")
            ));
            self.actions.push(Action::Kill { worker: id });
            return;
        }
        self.actions.push(Action::Send {
            worker: id,
            message: ToWorker::Open {
                spec: Box::new(self.spec.clone()),
                device,
            },
        });
    }

    fn on_ready(&mut self, slot: usize) {
        let device = self.slots[slot].device.to_string();
        if let Some((worker, pid)) = self.slots[slot].ready(self.now) {
            self.report(report::Event::WorkerStarted {
                worker,
                pid,
                device,
            });
        }
    }

    /// Notes a sign of life; false for a message of another attempt than the current one.
    fn sign_of_life(&mut self, slot: usize, attempt: AttemptId) -> bool {
        let now = self.now;
        match &mut self.slots[slot].state {
            State::Busy(worker, current) if *current == attempt => {
                worker.since = now;
                true
            }
            State::Busy(..)
            | State::Starting(_)
            | State::Idle(_)
            | State::Recording(..)
            | State::Leaving(_)
            | State::Empty { .. }
            | State::Drained => false,
        }
    }

    fn on_epoch(&mut self, slot: usize, attempt: AttemptId, epoch: u32, metrics: Metrics) {
        let value = metrics
            .get(&self.spec.objective.metric)
            .copied()
            .unwrap_or(f64::NAN);
        let number = attempt.number;
        self.slots[slot].progressed();
        self.history.report(number, i64::from(epoch), value);
        self.actions.push(Action::WriteSoon {
            write: Write::Reported {
                number,
                step: i64::from(epoch),
                value,
            },
        });
        if let Some(live) = self.live.get_mut(&number) {
            live.epochs.insert(epoch, metrics.clone());
            live.trial.intermediate.insert(i64::from(epoch), value);
        }
        let prune = self
            .history
            .get(number)
            .is_some_and(|entry| self.pruner.should_prune(&self.history, entry));
        if let Some(w) = self.slots[slot].worker() {
            let worker = w.id;
            self.actions.push(Action::Send {
                worker,
                message: ToWorker::Decided { prune },
            });
        }
        self.report(report::Event::EpochFinished {
            number,
            epoch,
            value,
            metrics,
        });
    }

    fn on_ended(&mut self, slot: usize, attempt: AttemptId, ended: Ended) {
        let metric = self.spec.objective.metric.clone();
        let direction = self.spec.objective.direction;
        let Some(live) = self.live.get(&attempt.number) else {
            // Another program ended the trial meanwhile; its word stands.
            self.free(slot, true);
            return;
        };
        let (end, outcome) = match ended {
            Ended::Completed => (
                live.result(&metric, direction, false, self.now),
                "completed",
            ),
            Ended::Pruned => (live.result(&metric, direction, true, self.now), "pruned"),
            Ended::Diverged { at } => {
                let fault = Fault::new(FaultKind::Diverged, at);
                self.apply_fault(slot, attempt, &fault);
                self.free(slot, false);
                return;
            }
        };
        self.outbox.push(Write::AttemptEnded {
            number: attempt.number,
            attempt: attempt.attempt,
            end: AttemptEnd {
                outcome: outcome.into(),
                detail: String::new(),
                again: false,
            },
        });
        self.finish_trial(attempt.number, end);
        self.free(slot, true);
    }

    fn on_failed(&mut self, slot: usize, attempt: AttemptId, error: ErrorReport) {
        let fault = fault::classify(&Evidence {
            phase: Some(error.phase),
            error: Some(error),
            ..Evidence::default()
        });
        let replace = self.apply_fault(slot, attempt, &fault);
        if replace {
            self.leave(slot, false);
        } else {
            self.free(slot, false);
        }
    }

    /// The slot's worker is done with its attempt: it takes the next one, or is replaced when it
    /// has had its number of successful trials.
    fn free(&mut self, slot: usize, success: bool) {
        let successes = self.slots[slot].freed(success, self.now);
        let due = self.spec.operation.supervisor.recycle_after;
        if due > 0 && successes >= due {
            self.leave(slot, true);
        }
    }

    /// Tells an idle or busy worker to leave in peace.
    pub(super) fn leave(&mut self, slot: usize, recycled: bool) {
        match self.slots[slot].take(self.now) {
            State::Starting(mut worker)
            | State::Idle(mut worker)
            | State::Recording(mut worker, _)
            | State::Busy(mut worker, _) => {
                worker.since = self.now;
                worker.recycled = recycled;
                self.actions.push(Action::Send {
                    worker: worker.id,
                    message: ToWorker::Exit,
                });
                self.slots[slot].state = State::Leaving(worker);
            }
            state @ (State::Leaving(_) | State::Empty { .. } | State::Drained) => {
                self.slots[slot].state = state;
            }
        }
    }

    /// Judges a fault of an attempt and carries out the verdict on the trial. Returns whether the
    /// process must be replaced.
    fn apply_fault(&mut self, slot: usize, attempt: AttemptId, fault: &Fault) -> bool {
        let number = attempt.number;
        let Some(live) = self.live.get_mut(&number) else {
            return true;
        };
        let outcome = fault::judge(fault.kind, &live.tally);
        live.tally.add(fault.kind);
        let (again, verdict) = match outcome.verdict {
            Verdict::Again { suspect: false } => (true, "again"),
            Verdict::Again { suspect: true } => (true, "suspect"),
            Verdict::Pruned(_) => (false, "pruned"),
            Verdict::Fail => (false, "fail"),
        };
        self.outbox.push(Write::AttemptEnded {
            number,
            attempt: attempt.attempt,
            end: AttemptEnd {
                outcome: fault.kind.word().into(),
                detail: fault.detail.clone(),
                again,
            },
        });
        let stopping = self.mode != Mode::Running;
        if !(stopping && fault.kind == FaultKind::Interrupted) {
            let worker = self.slots[slot].worker().map_or(0, |w| w.id);
            self.last_fault = Some(format!("{}: {}", fault.kind.word(), fault.detail));
            self.report(report::Event::Fault {
                fault: fault.kind.word().into(),
                worker,
                trial: Some((number, attempt.attempt)),
                detail: fault.detail.clone(),
                verdict: verdict.into(),
            });
        }
        match outcome.verdict {
            Verdict::Again { .. } => self.put_back(number),
            Verdict::Pruned(reason) => self.end_by_fault(number, fault, Some(reason)),
            Verdict::Fail => self.end_by_fault(number, fault, None),
        }
        outcome.replace
    }

    fn put_back(&mut self, number: u64) {
        if let Some(live) = self.live.get_mut(&number) {
            live.attempt += 1;
            live.epochs.clear();
            live.trial.intermediate.clear();
            self.history.clear_reports(number);
            self.retry.insert(number);
        }
    }

    fn end_by_fault(&mut self, number: u64, fault: &Fault, reason: Option<&str>) {
        let Some(live) = self.live.get(&number) else {
            return;
        };
        let config = self.spec.effective(&live.trial.params);
        let end = live.fault_end(
            fault,
            reason,
            &config,
            &self.spec.objective.metric,
            self.spec.objective.direction,
            self.now,
        );
        self.finish_trial(number, end);
    }

    fn finish_trial(&mut self, number: u64, end: End) {
        let Some(live) = self.live.remove(&number) else {
            return;
        };
        self.retry.remove(&number);
        let mut trial = live.trial;
        let mut values = end.values.clone();
        if values.is_empty() && end.state == TrialState::Pruned {
            // Optuna's rule, as the store applies it.
            let last = trial.intermediate.values().rev().find(|v| !v.is_nan());
            values.extend(last.copied());
        }
        trial.state = end.state;
        trial.values = values;
        trial.user_attrs.extend(end.user_attrs.clone());
        trial.system_attrs.extend(end.system_attrs.clone());
        self.outbox.push(Write::TrialFinished {
            number,
            state: end.state,
            values: end.values,
            user_attrs: end.user_attrs,
            system_attrs: end.system_attrs,
        });
        self.history.put(&self.spec.space, &trial);
        self.settle(&trial);
    }

    pub(super) fn on_garbled(&mut self, worker: WorkerId, error: String) {
        let Some(slot) = self.slot_of(worker) else {
            return;
        };
        if let Some(w) = self.slots[slot].worker_mut()
            && w.garbage.is_none()
        {
            w.garbage = Some(error);
            w.killed = true;
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
            });
            self.on_exited(worker, Death::Unknown, String::new(), false, 0);
        }
    }

    pub(super) fn on_exited(
        &mut self,
        worker: WorkerId,
        death: Death,
        tail: String,
        stopped: bool,
        oom_kills: u64,
    ) {
        let Some(slot) = self.slot_of(worker) else {
            return;
        };
        let evidence = |w: &Worker, phase, asked| Evidence {
            error: w.error.clone(),
            death: Some(death),
            asked,
            silent: w.silent,
            stopped,
            garbage: w.garbage.clone(),
            oom_kills,
            tail: tail.clone(),
            phase: Some(phase),
            ..Evidence::default()
        };
        let stopping = self.mode != Mode::Running;
        match self.slots[slot].take(self.now) {
            State::Leaving(w) => {
                let reason = if w.recycled { "recycled" } else { "done" };
                self.stopped(worker, reason);
            }
            State::Busy(w, attempt) => {
                // After a request to stop, a worker that was told to end did so for our sake.
                let asked = stopping && w.terminated.is_some() && w.silent.is_none();
                let fault = fault::classify(&evidence(&w, Phase::Training, asked));
                self.slots[slot].state = State::Busy(w, attempt);
                self.apply_fault(slot, attempt, &fault);
                self.bury(slot, worker, &fault);
            }
            State::Recording(w, attempt) => {
                // It died before the attempt reached it; the trial had no part in it.
                let fault = fault::classify(&evidence(&w, Phase::Seeding, true));
                self.slots[slot].state = State::Recording(w, attempt);
                self.apply_fault(slot, attempt, &fault);
                self.bury(slot, worker, &fault);
            }
            State::Starting(w) | State::Idle(w) => {
                let asked = stopping && w.terminated.is_some();
                let fault = fault::classify(&evidence(&w, Phase::Opening, asked));
                self.bury(slot, worker, &fault);
            }
            state @ (State::Empty { .. } | State::Drained) => self.slots[slot].state = state,
        }
    }

    /// The slot's worker is dead: pause, replace, or give the slot up.
    fn bury(&mut self, slot: usize, worker: WorkerId, fault: &Fault) {
        self.slots[slot].take(self.now);
        self.stopped(worker, fault.kind.word());
        if self.mode != Mode::Running {
            return;
        }
        self.last_fault = Some(format!("{}: {}", fault.kind.word(), fault.detail));
        let policy = self.spec.operation.supervisor.clone();
        match self.slots[slot].died(self.now, &policy, self.spec.seed) {
            Some(pause) => {
                self.slots[slot].state = State::Empty {
                    not_before: self.now + pause,
                };
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
                self.slots[slot].state = State::Drained;
                self.warn(format!(
                    "slot {slot} is given up: {deaths} workers died without finishing an epoch, \
                     the last one: {}",
                    fault.detail
                ));
            }
        }
    }

    fn stopped(&mut self, worker: WorkerId, reason: &str) {
        self.report(report::Event::WorkerStopped {
            worker,
            reason: reason.into(),
        });
    }

    /// No point was found that satisfies the declared constraints.
    pub(super) fn give_up_search(&mut self) {
        self.stop(
            crate::exit::Exit::Breaker,
            "the sampler found no point that satisfies the declared constraints; loosen \
             [[constraints]] or widen [space]"
                .into(),
        );
    }
}
