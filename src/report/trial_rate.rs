//! How fast trials finish, and how long the rest of them will take. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

use super::format::duration;
use super::narrator::since;

/// The rate is that of the last so many finished trials.
const WINDOW: usize = 50;

/// When trials finished, for the rate and the time left.
#[derive(Debug, Default)]
pub struct TrialRate {
    pub(super) goal: u64,
    marks: VecDeque<(u64, Timestamp)>,
}

impl TrialRate {
    /// A run with this goal starts now, with so many trials finished already.
    pub fn new(goal: u64, finished: u64, now: Timestamp) -> TrialRate {
        TrialRate {
            goal,
            marks: VecDeque::from([(finished, now)]),
        }
    }

    /// So many trials have finished now.
    pub fn finished(&mut self, finished: u64, now: Timestamp) {
        self.marks.push_back((finished, now));
        if self.marks.len() > WINDOW + 1 {
            self.marks.pop_front();
        }
    }

    /// Trials an hour; `None` until one has finished.
    pub fn per_hour(&self) -> Option<f64> {
        let (first, from) = *self.marks.front()?;
        let (last, to) = *self.marks.back()?;
        let seconds = since(from, to).as_secs_f64();
        (last > first && seconds > 0.0).then(|| (last - first) as f64 * 3600.0 / seconds)
    }

    /// How long the trials up to the goal will take; `None` until one has finished.
    pub fn left(&self) -> Option<Duration> {
        let done = self.marks.back()?.0;
        let hours = self.goal.saturating_sub(done) as f64 / self.per_hour()?;
        Duration::try_from_secs_f64(hours * 3600.0).ok()
    }

    /// `3.2/min`; empty until a trial has finished.
    pub fn speed(&self) -> String {
        match self.per_hour() {
            None => String::new(),
            Some(rate) if rate >= 3600.0 => format!("{:.1}/s", rate / 3600.0),
            Some(rate) if rate >= 60.0 => format!("{:.1}/min", rate / 60.0),
            Some(rate) => format!("{rate:.1}/h"),
        }
    }

    /// `5 h 10 min left`; empty until a trial has finished, and at the goal.
    pub fn time_left(&self) -> String {
        let left = self.left().filter(|left| !left.is_zero());
        left.map_or_else(String::new, |left| format!("{} left", duration(left)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_latest_trials() {
        let at = |s: i64| Timestamp::from_second(1_700_000_000 + s).unwrap();
        let text = |rate: &TrialRate| (rate.speed(), rate.time_left());
        let told = |speed: &str, left: &str| (speed.to_owned(), left.to_owned());
        let mut rate = TrialRate::new(100, 0, at(0));
        assert_eq!(text(&rate), told("", ""));
        rate.finished(1, at(60));
        assert_eq!(text(&rate), told("1.0/min", "1 h 39 min left"));
        for i in 0..=WINDOW as u64 {
            rate.finished(2 + i, at(1000 + i as i64 / 2));
        }
        assert_eq!(text(&rate), told("2.0/s", "24.0 s left"));
        assert_eq!(rate.per_hour(), Some(7200.0));
        rate.finished(100, at(2000));
        assert_eq!(rate.time_left(), "");
    }
}
