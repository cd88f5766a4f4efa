//! A progress bar on stderr; the lines of finished trials go to stdout above it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;

use super::Event;
use super::format::{duration, plural};
use super::lines::left_out;
use super::narrator::{Narrator, since};
use super::outlet::{Outlet, Standing, Worth};
use super::output::Output;
use super::sink::Sink;
use search::study::Job;

/// The rate is that of the last so many finished trials.
const WINDOW: usize = 50;
/// So many running trials are named beside the bar.
const NAMED: usize = 4;

pub(super) struct Progress {
    narrator: Narrator,
    outlet: Outlet,
    pace: TrialRate,
    /// Finished trials, and whether the run is over.
    finished: (u64, bool),
    running: BTreeMap<u64, u32>,
    /// Repeats under way, and how many have ended in this run.
    repeats: (BTreeSet<Job>, u64),
}

impl Progress {
    pub(super) fn new(
        study: &str,
        output: Output,
        target: ProgressDrawTarget,
    ) -> io::Result<Progress> {
        let bar = ProgressBar::with_draw_target(Some(0), target).with_style(style());
        Ok(Progress {
            narrator: Narrator::new(study, columns),
            outlet: Outlet::new(output, Some(bar), left_out(study))?,
            pace: TrialRate::default(),
            finished: (0, false),
            running: BTreeMap::new(),
            repeats: (BTreeSet::new(), 0),
        })
    }

    fn note(&mut self, event: &Event, time: Timestamp) {
        match event {
            Event::RunStarted(run) => {
                self.finished.0 = run.counts.finished();
                self.pace = TrialRate::new(run.trials, run.counts.finished(), time);
            }
            Event::TrialStarted { number, .. } => {
                self.running.insert(*number, 0);
            }
            Event::EpochFinished { number, epoch, .. } => {
                self.running.insert(*number, *epoch);
            }
            Event::TrialFinished(trial) => {
                self.running.remove(&trial.number);
                self.finished.0 = trial.counts.finished();
                self.pace.finished(trial.counts.finished(), time);
            }
            Event::RepeatStarted { job, .. } => {
                self.repeats.0.insert(*job);
            }
            Event::RepeatFinished(repeat) => {
                self.repeats.0.remove(&repeat.job);
                self.repeats.1 += 1;
            }
            Event::Fault(fault) => {
                if let Some(attempt) = fault.attempt {
                    let job = attempt.job();
                    self.repeats.0.remove(&job);
                    if job.searches() {
                        self.running.remove(&job.number);
                    }
                }
            }
            Event::RunFinished(_) => self.finished.1 = true,
            Event::StudyForked(_)
            | Event::WorkerStarted { .. }
            | Event::TrialStepped { .. }
            | Event::WorkerStopped { .. }
            | Event::NewBest(_)
            | Event::WinnerSelected(_)
            | Event::Warned { .. } => {}
        }
    }

    fn message(&self) -> String {
        [
            self.pace.text(),
            self.narrator.standing(),
            running_text(&self.running),
            repeats_text(&self.repeats.0, self.repeats.1),
        ]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" | ")
    }
}

impl Sink for Progress {
    fn handle(&mut self, event: &Event, time: Timestamp) {
        let lines = self.narrator.lines(event, time);
        self.outlet.lines(&lines, Worth::Lasting);
        self.note(event, time);
        let (position, over) = self.finished;
        self.outlet.bar(Standing {
            length: self.pace.goal,
            position,
            message: self.message(),
            over,
        });
    }
}

fn style() -> ProgressStyle {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let template = if no_color {
        "{bar:20} {pos}/{len} | {wide_msg}"
    } else {
        "{bar:20.cyan} {pos}/{len} | {wide_msg}"
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// When trials finished, for rate and time left.
#[derive(Debug, Default)]
struct TrialRate {
    goal: u64,
    marks: VecDeque<(u64, Timestamp)>,
}

impl TrialRate {
    fn new(goal: u64, finished: u64, now: Timestamp) -> TrialRate {
        TrialRate {
            goal,
            marks: VecDeque::from([(finished, now)]),
        }
    }

    fn finished(&mut self, finished: u64, now: Timestamp) {
        self.marks.push_back((finished, now));
        if self.marks.len() > WINDOW + 1 {
            self.marks.pop_front();
        }
    }

    /// Trials a second.
    fn rate(&self) -> Option<f64> {
        let (first, from) = *self.marks.front()?;
        let (last, to) = *self.marks.back()?;
        let seconds = since(from, to).as_secs_f64();
        (last > first && seconds > 0.0).then(|| (last - first) as f64 / seconds)
    }

    /// `3.2/min, 5 h 10 min left`; empty until a trial has finished.
    fn text(&self) -> String {
        let Some(rate) = self.rate() else {
            return String::new();
        };
        let speed = if rate >= 1.0 {
            format!("{rate:.1}/s")
        } else if rate * 60.0 >= 1.0 {
            format!("{:.1}/min", rate * 60.0)
        } else {
            format!("{:.1}/h", rate * 3600.0)
        };
        let done = self.marks.back().map_or(0, |m| m.0);
        let left = self.goal.saturating_sub(done) as f64 / rate;
        match Duration::try_from_secs_f64(left) {
            Ok(left) => format!("{speed}, {} left", duration(left)),
            Err(_) => speed,
        }
    }
}

/// `7 repeats done, now trial 3, repeat 2`; empty before the first.
fn repeats_text(running: &BTreeSet<Job>, ended: u64) -> String {
    if running.is_empty() && ended == 0 {
        return String::new();
    }
    let named: Vec<String> = running.iter().take(NAMED).map(Job::to_string).collect();
    let mut text = format!("{} done", plural(ended, "repeat"));
    if !named.is_empty() {
        text.push_str(&format!(", now {}", named.join("; ")));
    }
    text
}

fn running_text(running: &BTreeMap<u64, u32>) -> String {
    if running.is_empty() {
        return String::new();
    }
    let mut names: Vec<String> = running
        .iter()
        .take(NAMED)
        .map(|(number, epoch)| match epoch {
            0 => format!("{number}"),
            e => format!("{number} (epoch {e})"),
        })
        .collect();
    if running.len() > NAMED {
        names.push(plural((running.len() - NAMED) as u64, "other"));
    }
    format!("running {}", names.join(", "))
}

/// The terminal's width.
fn columns() -> usize {
    usize::from(console::Term::stdout().size().1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_latest_trials() {
        let at = |s: i64| Timestamp::from_second(1_700_000_000 + s).unwrap();
        let mut pace = TrialRate::new(100, 0, at(0));
        assert_eq!(pace.text(), "");
        pace.finished(1, at(60));
        assert_eq!(pace.text(), "1.0/min, 1 h 39 min left");
        for i in 0..=WINDOW as u64 {
            pace.finished(2 + i, at(1000 + i as i64 / 2));
        }
        assert_eq!(pace.text(), "2.0/s, 24.0 s left");
    }

    #[test]
    fn running_trials_beyond_the_fourth_are_counted() {
        let running = BTreeMap::from([(7, 0), (8, 2), (9, 0), (10, 1), (11, 0)]);
        assert_eq!(
            running_text(&running),
            "running 7, 8 (epoch 2), 9, 10 (epoch 1), 1 other"
        );
    }
}
