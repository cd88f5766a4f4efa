//! How a run ends: by its goal, by a request, by a breaker.

use super::{Core, Mode};
use crate::{Action, WorkerAction};
use device::Device;
use fault::FaultKind;
use messages::exit::Exit;
use store::Write;

/// So many trials that fail alike, before any has given a value, show that none will.
const FIRST: u64 = 3;

const GOAL: &str = "the goal is reached";

/// What ends a run before its goal without any fault: only a grid has an end.
const SEARCHED_OUT: &str = "every point of the grid has been tried";

impl Core {
    /// SIGINT or SIGTERM: once, running trials may end; twice, they are put back; then the groups are
    /// killed at once.
    pub(super) fn on_stop_requested(&mut self) {
        match &self.mode {
            Mode::Running if self.done() => self.stop(Exit::Done, GOAL.into()),
            Mode::Running => self.wind_down(Exit::Stopped, "stopped by a signal".into()),
            Mode::WindingDown { exit, reason, .. } => self.stop(*exit, reason.clone()),
            Mode::Stopping { .. } => self.kill_all(),
            Mode::Closing { .. } | Mode::Finished => {}
        }
    }

    /// Puts back what runs.
    pub(super) fn stop(&mut self, exit: Exit, reason: String) {
        if !matches!(self.mode, Mode::Running | Mode::WindingDown { .. }) {
            return;
        }
        self.mode = Mode::Stopping { exit, reason };
        for slot in 0..self.slots.len() {
            if let Some(w) = self.slots[slot].worker_mut()
                && w.terminated.is_none()
            {
                w.terminated = Some(self.now);
                let worker = w.id;
                self.act_on(worker, WorkerAction::Terminate);
            }
        }
    }

    fn kill_all(&mut self) {
        for slot in 0..self.slots.len() {
            if let Some(w) = self.slots[slot].worker_mut() {
                w.terminated.get_or_insert(self.now);
                w.killed.get_or_insert(self.now);
                let worker = w.id;
                self.act_on(worker, WorkerAction::Kill);
            }
        }
    }

    /// Trips when trials keep failing or no worker can live.
    pub(super) fn check_breaker(&mut self) {
        if self.done() {
            return;
        }
        let policy = &self.spec.operation.supervisor;
        let last = self.last_fault.clone().unwrap_or_default();
        // What runs beside the trial that reached the goal comes to its own end.
        let searching = self.progress.counts().finished() < self.spec.operation.trials;
        if searching && self.progress.failures_in_row() >= policy.max_failures {
            let reason = format!(
                "{} trials in a row failed, the last one with {last}",
                self.progress.failures_in_row()
            );
            self.stop(Exit::Breaker, reason);
        } else if searching && self.progress.failures_alike() >= FIRST {
            let reason = format!(
                "no trial has worked yet, and {FIRST} in a row failed alike, the last one with {last}"
            );
            self.stop(Exit::Breaker, reason);
        } else if searching && self.progress.refused_in_row() >= policy.max_refused {
            let reason = format!(
                "{} trials in a row were refused before their start",
                self.progress.refused_in_row()
            );
            self.stop(Exit::Breaker, reason);
        } else if let Some(why) = self.all_closed() {
            let gone = self.slots.iter().all(|s| s.device != Device::Cpu);
            let advice = if gone {
                "look at nvidia-smi, reset the GPU or reboot"
            } else {
                "`tune show STUDY N` names the logs of a trial's attempts"
            };
            let reason = format!(
                "no slot can go on: {why}. Nothing is lost: {advice}, then give the same command \
                 again"
            );
            self.stop(Exit::Breaker, reason);
        }
    }

    /// No point was found that satisfies the declared constraints.
    pub(super) fn give_up_search(&mut self) {
        self.stop(
            Exit::Breaker,
            "the sampler found no point that satisfies the declared constraints; loosen \
             [[constraints]] or widen [space]"
                .into(),
        );
    }

    /// Ends the run once nothing is left to wait for.
    pub(super) fn check_end(&mut self) {
        if self.mode == Mode::Running && self.done() {
            for slot in 0..self.slots.len() {
                // Nothing of ours is live: it trains what another program has ended.
                if let Some(attempt) = self.slots[slot].attempt() {
                    self.end_orphan(attempt, FaultKind::Interrupted.word(), "");
                }
                self.leave(slot, false);
            }
            if !self.workers_left() && self.pending.is_empty() {
                let reached = self.progress.counts().finished() >= self.spec.operation.trials;
                self.mode = Mode::Stopping {
                    exit: Exit::Done,
                    reason: if reached { GOAL } else { SEARCHED_OUT }.into(),
                };
            }
        }
        if let Mode::WindingDown { exit, reason, .. } = &self.mode
            && !self.workers_left()
        {
            // What was waited for may have been the last that was missing.
            let (exit, reason) = match self.done() {
                true => (Exit::Done, GOAL.to_owned()),
                false => (*exit, reason.clone()),
            };
            self.mode = Mode::Stopping { exit, reason };
        }
        if let Mode::Stopping { exit, reason } = &self.mode
            && !self.workers_left()
            && self.settled()
        {
            let (exit, reason) = self.with_storage(*exit, reason.clone());
            self.last_minutes();
            self.outbox.push(Write::RunEnded { exit: exit.code() });
            self.flush();
            self.mode = Mode::Closing { exit, reason };
        }
        if let Mode::Closing { exit, reason } = &self.mode
            && self.settled()
        {
            let (exit, reason) = (*exit, reason.clone());
            if exit == Exit::Done && self.outage.is_none() && !self.done() {
                // The last look at the study has shown that another program took trials away.
                self.mode = Mode::Running;
                return;
            }
            self.mode = Mode::Finished;
            let counts = self.progress.counts();
            let metric = &self.spec.objective.metric;
            self.report(report::Event::RunFinished(report::RunFinished {
                exit: exit.code(),
                reason: reason.clone(),
                counts,
                best: self.progress.best().cloned(),
                front: Some(self.progress.front()).filter(|front| !front.is_empty()),
                baseline: self.baseline.clone(),
                failures: fault::group_failures(self.failures.iter().cloned()),
                slots_given_up: self.slots_given_up(),
                chosen: Box::new(self.repeats.chosen(metric, counts.finished())),
            }));
            self.actions.push(Action::Finish { exit, reason });
        }
    }
}
