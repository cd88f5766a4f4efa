//! When the search ends before its goal: once more trials would hardly bring anything (`run.until_flat`), or early enough
//! for repeats and the test to be done in time (`--by`).

use std::time::Duration;

use super::slot::State;
use super::{Core, Mode};
use crate::Now;
use messages::exit::Exit;
use report::SearchEnded;
use search::outlook::{FEWEST, Outlook, flat};
use search::study::noise::noise;
use search::study::selection::{LEADERS, rounds};

/// Whether it still pays is asked after each so many finished trials.
const STEP: usize = 10;

/// What comes may take so many times as long as what it is judged by.
const MARGIN: f64 = 1.25;

/// For starting and ending workers.
const SPARE: Duration = Duration::from_secs(5);

/// How a run ends whose search was over before its goal.
pub(super) struct SearchEnd {
    pub(super) exit: Exit,
    pub(super) reason: String,
}

/// How long repeats and the test take on so many slots, where a training takes `training`: each round of repeats is over
/// before the next one begins.
fn time_of_repeats(
    leaders: usize,
    repeats: u32,
    tests: bool,
    slots: usize,
    training: Duration,
) -> Duration {
    let rounds = match repeats {
        0 | 1 => Vec::new(),
        repeats => rounds(leaders, repeats),
    };
    let rows: usize = rounds.iter().map(|jobs| jobs.div_ceil(slots.max(1))).sum();
    training * (rows + usize::from(tests)) as u32
}

impl Core {
    /// Ends the search where one of the two reasons is there.
    pub(super) fn check_search(&mut self) {
        if self.mode != Mode::Running || !self.searching() {
            return;
        }
        if let Some(outlook) = self.flat() {
            let gain = match outlook.high > 0.0 {
                true => format!("less than {}", report::format::value(outlook.high)),
                false => "nothing".to_owned(),
            };
            let reason = format!(
                "{} more trials would most likely gain {gain} (at {} finished), and that does not pay",
                outlook.trials,
                self.progress.counts().finished()
            );
            self.end_search(Exit::Done, reason, Some(outlook));
        } else if self
            .search_must_end()
            .is_some_and(|at| self.now + self.suspended >= at)
        {
            let reason = "what follows the search needs the time that is left".to_owned();
            self.end_search(Exit::Budget, reason, None);
        }
    }

    fn end_search(&mut self, exit: Exit, reason: String, outlook: Option<Outlook>) {
        self.report(report::Event::SearchEnded(SearchEnded {
            reason: reason.clone(),
            outlook,
        }));
        let reason = format!("the search was over before its goal: {reason}");
        self.search_ended = Some(SearchEnd { exit, reason });
        self.repeats.look_again();
    }

    /// What more trials would bring, where it does not pay. It follows from the first tens of trials alone, so that a run
    /// that goes on with a study ends where the first one would have ended.
    fn flat(&mut self) -> Option<Outlook> {
        let share = self.spec.operation.until_flat?;
        let finished = self.progress.counts().finished() as usize / STEP * STEP;
        if finished < FEWEST || self.looked_at == finished {
            return None;
        }
        self.looked_at = finished;
        let mut losses = self.progress.losses();
        losses.truncate(finished);
        let noise = noise(self.repeats.values()).map(|noise| noise.deviation);
        flat(&losses, noise, share)
    }

    /// When the search has to end at the latest for all else to be done in time, from the run's start; `None`: never.
    /// As long as it is not near, a time before that.
    pub(super) fn search_must_end(&self) -> Option<Now> {
        let by = self.spec.operation.by?;
        let Some(longest) = self.progress.longest() else {
            return Some(by);
        };
        let (repeats, tests) = self.repeats.planned();
        let slots = self
            .slots
            .iter()
            .filter(|s| !s.spare && !matches!(s.state, State::Drained))
            .count();
        let leaders = LEADERS.min(self.progress.counts().complete as usize);
        let ends = |training: Duration| {
            let after = time_of_repeats(leaders, repeats, tests, slots, training.mul_f64(MARGIN));
            // Those that run then end first.
            by.saturating_sub(after + longest.mul_f64(MARGIN) + SPARE)
        };
        // Who leads takes a look at all trials: not at each event of a long search.
        let early = ends(longest);
        if self.now + self.suspended < early {
            return Some(early);
        }
        Some(ends(self.progress.leaders_take(LEADERS).unwrap_or(longest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_planned_round_by_round() {
        let s = Duration::from_secs;
        // 16 trainings, then 8 of the better half, then one more of each of the last two.
        assert_eq!(time_of_repeats(8, 5, false, 1, s(10)), s(260));
        assert_eq!(time_of_repeats(8, 5, true, 4, s(10)), s(80));
        assert_eq!(time_of_repeats(8, 1, false, 4, s(10)), s(0));
        assert_eq!(time_of_repeats(8, 1, true, 4, s(10)), s(10));
        assert_eq!(time_of_repeats(0, 5, false, 4, s(10)), s(0));
    }
}
