//! How a run ends: by its goal, by a request, by a breaker.

use super::{Core, Mode};
use crate::Action;
use device::Device;
use fault::FaultKind;
use messages::exit::Exit;
use store::{StopAsked, Write};

const GOAL: &str = "the goal is reached";

/// Why a run stops that a signal has asked.
pub(super) const BY_SIGNAL: &str = "stopped by a signal";

/// The same by the database.
const BY_NODE: &str = "stopped by `tune stop --all`, given on this or another node";

/// What ends a run before its goal without any fault: only a grid has an end.
const SEARCHED_OUT: &str = "every point of the grid has been tried";

impl Core {
    /// SIGINT or SIGTERM: once, running trials may end; twice, they are put back; then the groups are
    /// killed at once. `now` (SIGQUIT): they are put back.
    pub(super) fn on_stop_requested(&mut self, now: bool) {
        let (exit, reason) = self.wish_to_stop(BY_SIGNAL);
        match &self.mode {
            Mode::Running => self.begin_to_stop(exit, reason, now),
            Mode::WindingDown { .. } => self.stop(exit, reason),
            Mode::Stopping { .. } if !now => self.kill_all(),
            Mode::Stopping { .. } | Mode::Closing { .. } | Mode::Finished => {}
        }
    }

    /// `tune stop --all`. Whoever gives it does not know what was asked for here before: a run that waits for its trials
    /// goes on to wait for them, unless they are to be put back now.
    pub(super) fn on_stop_asked(&mut self, asked: StopAsked) {
        let now = asked == StopAsked::Now;
        let (exit, reason) = self.wish_to_stop(BY_NODE);
        match &self.mode {
            Mode::Running => self.begin_to_stop(exit, reason, now),
            Mode::WindingDown { .. } if now => self.stop(exit, reason),
            Mode::WindingDown { .. }
            | Mode::Stopping { .. }
            | Mode::Closing { .. }
            | Mode::Finished => {}
        }
    }

    /// Notes that somebody asks to stop, and says with what and why the run then ends: as it was asked first.
    fn wish_to_stop(&mut self, reason: &str) -> (Exit, String) {
        let wish = || (Exit::Stopped, reason.to_owned());
        self.asked_to_stop.get_or_insert_with(wish).clone()
    }

    /// The first request while the run is on.
    fn begin_to_stop(&mut self, exit: Exit, reason: String, now: bool) {
        if self.done() {
            let (exit, reason) = self.done_as();
            self.stop(exit, reason);
        } else if now {
            self.stop(exit, reason);
        } else {
            self.wind_down(exit, reason);
        }
    }

    /// Puts back what runs.
    pub(super) fn stop(&mut self, exit: Exit, reason: String) {
        if !matches!(self.mode, Mode::Running | Mode::WindingDown { .. }) {
            return;
        }
        self.mode = Mode::Stopping { exit, reason };
        for slot in 0..self.slots.len() {
            self.terminate(slot);
        }
    }

    /// What is trained from now on would be values of another program, or of other rows: nothing new is started.
    pub(super) fn on_files_changed(&mut self, files: &[String]) {
        if self.mode == Mode::Running && !self.done() {
            let have = if files.len() == 1 { "has" } else { "have" };
            let reason = format!("{} {have} changed while the run was on", files.join(", "));
            self.wind_down(Exit::Differs, reason);
        }
    }

    fn kill_all(&mut self) {
        for slot in 0..self.slots.len() {
            self.kill(slot);
        }
    }

    /// Trips when trials keep failing or no worker can live.
    pub(super) fn check_breaker(&mut self) {
        if self.done() {
            return;
        }
        let policy = &self.spec.operation.supervisor;
        let last = self.last_fault.clone().unwrap_or_default();
        let searching = self.searching();
        if searching && self.progress.failures_in_row() >= policy.max_failures {
            let reason = format!(
                "{} trials in a row failed, the last one with {last}",
                self.progress.failures_in_row()
            );
            self.stop(Exit::Breaker, reason);
        } else if let Some(alike) = self.in_doubt()
            && self.slots.iter().all(|s| s.attempt().is_none())
        {
            let reason = format!(
                "no trial has worked yet, and the first {alike} failed alike, at which a run ends; the last fault was {last}"
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

    /// Whether new trials are wanted. What runs beside the trial that reached the goal comes to its own end.
    pub(super) fn searching(&self) -> bool {
        self.search_ended.is_none() && !self.goal_reached()
    }

    fn goal_reached(&self) -> bool {
        self.progress.counts().finished() >= self.spec.operation.trials
    }

    /// How a run ends that has nothing left to do.
    fn done_as(&self) -> (Exit, String) {
        match &self.search_ended {
            _ if self.goal_reached() => (Exit::Done, GOAL.to_owned()),
            Some(end) => (end.exit, end.reason.clone()),
            None => (Exit::Done, SEARCHED_OUT.to_owned()),
        }
    }

    /// How many trials have failed alike where nothing has worked yet: nothing new is started then, and the run ends
    /// unless a trial that still runs gives a value, or comes further than those that failed.
    pub(super) fn in_doubt(&self) -> Option<u64> {
        let alike = self.progress.first_alike().filter(|_| self.searching())?;
        let mut reported = self.active.values().map(|active| active.epochs.len());
        let works = reported.any(|steps| self.progress.is_further(steps));
        (!works).then_some(alike)
    }

    /// Says what is waited for where the run is in doubt.
    pub(super) fn tell_of_doubt(&mut self) {
        let running: Vec<String> = self.running().map(|(job, _)| job.to_string()).collect();
        if let Some(alike) = self.in_doubt()
            && !running.is_empty()
        {
            self.warn(format!(
                "no trial has worked yet, and the first {alike} failed alike: nothing new starts unless one that still \
                 runs gives a value or comes further ({})",
                running.join(", ")
            ));
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
                let (exit, reason) = self.done_as();
                self.mode = Mode::Stopping { exit, reason };
            }
        }
        if let Mode::WindingDown { exit, reason, .. } = &self.mode
            && !self.workers_left()
        {
            // What was waited for may have been the last that was missing.
            let (exit, reason) = match self.done() {
                true => self.done_as(),
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
                self.mode = match self.asked_to_stop.clone() {
                    Some((exit, reason)) => Mode::Stopping { exit, reason },
                    None => Mode::Running,
                };
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
