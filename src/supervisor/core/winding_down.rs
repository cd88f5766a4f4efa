//! Between the wish to stop and the end: nothing new is started, and trials that run may come to
//! their ends.

use std::time::Duration;

use super::ending::BY_SIGNAL;
use super::slot::{Activity, Slot};
use super::{Core, Mode};
use crate::Now;
use fault::FaultKind;
use messages::exit::Exit;
use search::study::Job;

/// What nobody has measured may take so long.
const UNKNOWN: Now = Duration::from_secs(600);

/// How long before the machine is taken away the run begins to leave it.
const LEAD: Now = Duration::from_secs(180);

/// How long it takes to end the workers and to record it.
const LEAVING: Now = Duration::from_secs(15);

/// A trial may take so many times as long as the longest of the study.
const MARGIN: f64 = 1.5;

/// However short trials are: a machine under load takes its time.
const LEAST: Now = Duration::from_secs(5);

/// How long trials may take to end that have been running for so long, where nothing was asked for: as
/// long as trials take, where any has ended, and in all no longer than 10 minutes or a tenth of the
/// time budget.
fn patience(longest: Option<Now>, budget: Option<Now>, running: &[Now]) -> Now {
    let most = budget.map_or(UNKNOWN, |budget| UNKNOWN.max(budget / 10));
    let Some(longest) = longest else {
        return most;
    };
    let left = |ran: &Now| longest.max(*ran).mul_f64(MARGIN).saturating_sub(*ran);
    let needed = running.iter().map(left).max().unwrap_or_default();
    needed.max(LEAST).min(most)
}

/// How long it takes until all have ended, by the longest trial of the study; `None`: not known.
fn expected(longest: Option<Now>, running: &[Now]) -> Option<Now> {
    let left = running.iter().map(|ran| longest?.checked_sub(*ran));
    left.collect::<Option<Vec<Now>>>()?.into_iter().max()
}

impl Core {
    /// Starts nothing new, and waits for what runs.
    pub(super) fn wind_down(&mut self, exit: Exit, reason: String) {
        self.asked_to_stop.get_or_insert((exit, reason.clone()));
        let running: Vec<(Job, Now)> = self.running().collect();
        let times: Vec<Now> = running.iter().map(|(_, ran)| *ran).collect();
        let (longest, budget) = (self.progress.longest(), self.spec.operation.timeout);
        let patience = match self.spec.operation.grace {
            Some(asked) => asked,
            None => patience(longest, budget, &times),
        };
        // The machine does not wait.
        let gone = self.gone_at().map(|at| at.saturating_sub(self.now));
        let patience = gone.map_or(patience, |left| patience.min(left));
        if running.is_empty() || patience.is_zero() {
            return self.stop(exit, reason);
        }
        self.report(report::Event::StopRequested(report::StopRequested {
            reason: reason.clone(),
            waits_for: running.iter().map(|(job, _)| *job).collect(),
            expected_s: expected(longest, &times).map(|time| time.min(patience).as_secs_f64()),
            most_s: patience.as_secs_f64(),
            by_signal: reason == BY_SIGNAL,
        }));
        self.mode = Mode::WindingDown {
            exit,
            reason,
            until: self.now + patience,
        };
        (0..self.slots.len()).for_each(|slot| self.send_home(slot));
    }

    /// What runs, and for how long it has.
    pub(super) fn running(&self) -> impl Iterator<Item = (Job, Now)> {
        let busy = self.slots.iter().filter(|s| s.is_busy());
        let jobs = busy.filter_map(Slot::attempt).map(|attempt| attempt.job());
        jobs.filter_map(|job| {
            let active = self.active.get(&job)?;
            Some((job, self.now.saturating_sub(active.started)))
        })
    }

    /// The slot's worker leaves, unless it is in an attempt. One whose attempt is only being recorded
    /// does not begin with it.
    fn send_home(&mut self, slot: usize) {
        match self.slots[slot].activity() {
            Some(Activity::Starting | Activity::Idle) => self.leave(slot, false),
            Some(Activity::Recording(_)) => self.terminate(slot),
            Some(Activity::Busy(_) | Activity::Leaving) | None => {}
        }
    }

    /// When all that runs must have been put back, because the machine is taken away, by the run's clock.
    fn gone_at(&self) -> Option<Now> {
        let leave_in = self.spec.operation.leave_in?;
        Some(leave_in.saturating_sub(self.suspended + LEAVING))
    }

    /// When the run begins to leave a machine that is taken away: early enough for an epoch or two, and never in its first
    /// half.
    pub(super) fn leaves_at(&self) -> Option<Now> {
        let gone = self.gone_at()?;
        Some(gone.saturating_sub(LEAD.min(gone / 2)))
    }

    /// Leaves where the time has come, or where nothing runs and nothing can be started that would end in time.
    pub(super) fn check_leaving(&mut self) {
        if self.mode != Mode::Running || self.done() {
            return;
        }
        let due = self.leaves_at().is_some_and(|at| self.now >= at);
        let idle = self.active.is_empty() && !self.ends_in_time();
        if due || idle {
            let reason = match due {
                true => "the machine is taken away soon (run.leave_in)",
                false => {
                    "a trial that starts now would not end before the machine is taken away (run.leave_in)"
                }
            };
            self.wind_down(Exit::Stopped, reason.to_owned());
        }
    }

    /// Whether trials go on from their last epoch, wherever they run next. Programs may keep checkpoints or not: theirs have
    /// to be seen.
    fn keeps_checkpoints(&self) -> bool {
        let seen = !self.spec.runs_programs() || self.programs_keep_state;
        self.spec.operation.supervisor.checkpoint && self.can_keep_checkpoints() && seen
    }

    /// Whether trainings of this kind can go on from their last epoch.
    fn can_keep_checkpoints(&self) -> bool {
        config::kinds::kind(&self.spec.kind).is_some_and(|kind| kind.keeps_checkpoints)
    }

    /// Whether a trial that starts now ends before the machine is taken away, or goes on elsewhere, as far as is known.
    pub(super) fn ends_in_time(&self) -> bool {
        let (Some(gone), Some(longest)) = (self.gone_at(), self.progress.longest()) else {
            return true;
        };
        self.keeps_checkpoints() || self.now + longest <= gone
    }

    /// An epoch of a training is over while running ones are waited for: where it would not come to its end in time, it
    /// leaves as soon as its checkpoint is there, which the next sign of life tells. Where nobody knows how long it takes,
    /// it is waited for if that was asked for.
    pub(super) fn consider_leaving(&mut self, job: Job) {
        let Mode::WindingDown { until, .. } = self.mode else {
            return;
        };
        if !self.keeps_checkpoints() {
            return;
        }
        let (now, longest) = (self.now, self.progress.longest());
        if let Some(active) = self.active.get_mut(&job) {
            let ran = now.saturating_sub(active.started);
            let left = longest.and_then(|longest| longest.checked_sub(ran));
            active.leaves = match left {
                Some(left) => now + left > until,
                None => self.spec.operation.grace.is_none(),
            };
        }
    }

    /// The slot's attempt goes on after an epoch: it is put back now if it was to leave there.
    pub(super) fn put_back_after_epoch(&mut self, slot: usize, job: Job) {
        if self.active.get(&job).is_some_and(|active| active.leaves) {
            self.terminate(slot);
        }
    }

    /// Whether running trials are waited for, and nothing else.
    pub(super) fn winds_down(&self) -> bool {
        matches!(self.mode, Mode::WindingDown { .. })
    }

    /// Puts back what has not ended in time.
    pub(super) fn check_patience(&mut self) {
        if let Mode::WindingDown {
            exit,
            reason,
            until,
        } = &self.mode
            && self.now >= *until
        {
            let (exit, reason) = (*exit, reason.clone());
            self.stop(exit, reason);
        }
    }

    /// Tells of a trial that was cut short again: so it never comes to its end.
    pub(super) fn tell_of_cut(&mut self, job: Job, kind: FaultKind) {
        let stops = |exit: &Exit| matches!(exit, Exit::Budget | Exit::Stopped);
        let by_stop = matches!(&self.mode, Mode::Stopping { exit, .. } if stops(exit));
        let times = self.active.get(&job).map_or(0, |l| l.tally.interrupted);
        if kind != FaultKind::Interrupted || !by_stop || times < 2 {
            return;
        }
        let go_on = match (
            self.spec.runs_programs(),
            self.spec.operation.supervisor.checkpoint,
        ) {
            (true, _) => {
                ", and a program that keeps its state in TUNE_CHECKPOINT_DIR goes on from there"
            }
            (false, false) if self.can_keep_checkpoints() => {
                ", and supervisor.checkpoint = true lets it go on from its last epoch"
            }
            (false, _) => "",
        };
        self.warn(format!(
            "{job} was cut short again, {times} times by now: a longer --timeout or --grace lets it come \
             to its end{go_on}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Now {
        Duration::from_secs(seconds)
    }

    #[test]
    fn trials_may_take_as_long_as_the_longest_of_the_study_and_half_more() {
        assert_eq!(patience(Some(s(100)), None, &[s(10), s(40)]), s(140));
        assert_eq!(
            patience(Some(s(100)), None, &[s(300)]),
            s(150),
            "the longest itself"
        );
        assert_eq!(patience(Some(s(1)), None, &[s(1)]), LEAST);
    }

    #[test]
    fn nobody_waits_for_longer_than_ten_minutes_or_a_tenth_of_the_budget() {
        assert_eq!(patience(Some(s(7200)), None, &[s(0)]), s(600));
        assert_eq!(patience(Some(s(7200)), Some(s(36_000)), &[s(0)]), s(3600));
        assert_eq!(
            patience(None, Some(s(5)), &[s(4)]),
            s(600),
            "nothing is known"
        );
    }

    #[test]
    fn what_is_expected_is_the_longest_trial_and_nothing_beyond_it() {
        assert_eq!(expected(Some(s(100)), &[s(10), s(40)]), Some(s(90)));
        assert_eq!(expected(Some(s(100)), &[s(10), s(140)]), None);
        assert_eq!(expected(None, &[s(10)]), None);
    }
}
