//! What a fault does to its trial, and how trials end.

use super::active_trial::{ActiveTrial, End};
use super::{Core, Mode};
use fault::{Fault, FaultKind, Tally, Verdict};
use protocol::AttemptId;
use search::study::{Job, Purpose, TrialState};
use store::{AttemptEnd, Write};

impl Core {
    /// Judges a fault of an attempt and carries out the verdict on the trial. Returns whether the
    /// process must be replaced.
    pub(super) fn apply_fault(&mut self, slot: usize, attempt: AttemptId, fault: &Fault) -> bool {
        if matches!(fault.kind, FaultKind::CudaSticky | FaultKind::Poisoned) {
            self.note_lost_context(slot);
        }
        let job = attempt.job();
        let Some(active) = self.active.get_mut(&job) else {
            self.end_orphan(attempt, fault.kind.word(), &fault.detail);
            return fault::judge(fault.kind, &Tally::default()).replace;
        };
        let outcome = fault::judge(fault.kind, &active.tally);
        active.tally.add(fault.kind);
        let detail = self.describe(slot, job, fault);
        let (again, verdict) = match outcome.verdict {
            Verdict::Again { suspect: false } => (true, "again"),
            Verdict::Again { suspect: true } => (true, "suspect"),
            Verdict::Pruned(_) => (false, "pruned"),
            Verdict::Fail => (false, "fail"),
        };
        self.end_attempt(
            attempt,
            AttemptEnd {
                outcome: fault.kind.word().into(),
                detail: detail.clone(),
                again,
            },
        );
        self.tell_of_fault(slot, attempt, fault, detail, verdict);
        self.tell_of_cut(job, fault.kind);
        if matches!(fault.kind, FaultKind::Oom | FaultKind::HostOom) {
            self.learn_memory(slot, job, true);
        }
        if fault.kind == FaultKind::HostOom {
            self.host_out_of_memory();
        }
        if fault.kind == FaultKind::Oom && matches!(outcome.verdict, Verdict::Again { .. }) {
            let device = self.slots[slot].device;
            self.halve(job, device, true);
        }
        match outcome.verdict {
            Verdict::Again { .. } => {
                self.note_end(slot, job, fault.kind);
                self.put_back(job);
            }
            Verdict::Pruned(reason) => self.end_by_fault(job, fault, Some(reason)),
            Verdict::Fail => self.end_by_fault(job, fault, None),
        }
        outcome.replace
    }

    /// A fault in words, with its place. Where the worker's context was broken before the attempt
    /// began, the trial that it ran before is marked as a suspect.
    fn describe(&mut self, slot: usize, job: Job, fault: &Fault) -> String {
        let mut detail = fault.detail.clone();
        if let Some(place) = &fault.place {
            detail += &format!("; {place}");
        }
        let previous = self.slots[slot].worker().and_then(|w| w.previous);
        let Some(previous) = previous.filter(|_| fault.kind == FaultKind::Poisoned) else {
            return detail;
        };
        if previous.searches() {
            let next = job.number;
            let why = format!("the next trial of its worker, {next}, found a broken context");
            self.outbox.push(Write::TrialNoted {
                number: previous.number,
                user_attrs: [("suspect".to_owned(), why.into())].into_iter().collect(),
            });
        }
        detail + &format!("; {previous}, which this worker ran before, is suspect")
    }

    /// Tells people of a fault and its verdict, unless it is only that the run is being stopped.
    fn tell_of_fault(
        &mut self,
        slot: usize,
        attempt: AttemptId,
        fault: &Fault,
        detail: String,
        verdict: &str,
    ) {
        if self.mode != Mode::Running && fault.kind == FaultKind::Interrupted {
            return;
        }
        self.last_fault = Some(format!("{}: {detail}", fault.kind.word()));
        self.report(report::Event::Fault(report::Fault {
            fault: fault.kind.word().into(),
            worker: self.slots[slot].worker().map_or(0, |w| w.id),
            attempt: Some(attempt),
            detail,
            verdict: verdict.into(),
        }));
    }

    /// Fewer workers live at the same time from now on, for a while.
    pub(super) fn host_out_of_memory(&mut self) {
        let slots = self.slots.iter().filter(|s| !s.spare);
        let workers = slots.filter(|s| s.worker().is_some()).count();
        let before = self.concurrency.limit();
        let limit = self.concurrency.lower(workers);
        if limit < before {
            self.warn(format!(
                "the host ran out of memory with {workers} workers; {limit} at a time for now"
            ));
        }
    }

    fn put_back(&mut self, job: Job) {
        if let Some(active) = self.active.get_mut(&job) {
            active.attempt += 1;
            active.epochs.clear();
            active.trial.intermediate.clear();
            if job.searches() {
                self.history.clear_reports(job.number);
            }
            self.retry.insert(job);
        }
    }

    fn end_by_fault(&mut self, job: Job, fault: &Fault, reason: Option<&str>) {
        let Some(active) = self.active.get(&job) else {
            return;
        };
        let config = self.spec.effective(&active.trial.params);
        let objectives = self.spec.objectives();
        let end = active.fault_end(fault, reason, &config, &objectives, self.heard);
        self.finish(job, end);
    }

    /// Records the end of an attempt.
    pub(super) fn end_attempt(&mut self, attempt: AttemptId, end: AttemptEnd) {
        self.note_memory(attempt, &end.outcome);
        self.outbox.push(Write::AttemptEnded { id: attempt, end });
    }

    /// A trial, or a repeat of one, has ended.
    pub(super) fn finish(&mut self, job: Job, end: End) {
        let Some(active) = self.active.remove(&job) else {
            return;
        };
        self.retry.remove(&job);
        self.memory.held.remove(&job);
        match job.purpose {
            Purpose::Search => self.finish_trial(active, end),
            Purpose::Repeat(_) | Purpose::Test => self.finish_repeat(job, &active, end),
        }
    }

    fn finish_trial(&mut self, active: ActiveTrial, end: End) {
        let number = active.trial.number;
        let mut trial = active.trial;
        let mut values = end.values.clone();
        if values.is_empty() && end.state == TrialState::Pruned && self.spec.further.is_empty() {
            // Optuna's rule, as the store applies it: not with several objectives.
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
        self.audit.add(&trial);
        self.record_end(&trial);
    }
}
