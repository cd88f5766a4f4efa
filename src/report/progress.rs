//! A progress bar on stderr; the lines of finished trials go to stdout above it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;

use super::About;
use super::Event;
use super::format::plural;
use super::lines::left_out;
use super::narrator::Narrator;
use super::outlet::{Outlet, Standing, Worth};
use super::output::Output;
use super::sink::Sink;
use super::terminal;
use super::trial_rate::TrialRate;
use search::study::Job;

/// So many running trials are named beside the bar.
const NAMED: usize = 4;

pub(super) struct Progress {
    narrator: Narrator,
    outlet: Outlet,
    rate: TrialRate,
    /// Finished trials, and whether the run is over.
    finished: (u64, bool),
    running: BTreeMap<u64, u32>,
    /// Repeats under way, and how many have ended in this run.
    repeats: (BTreeSet<Job>, u64),
}

impl Progress {
    pub(super) fn new(
        about: &About,
        output: Output,
        target: ProgressDrawTarget,
    ) -> io::Result<Progress> {
        let bar = ProgressBar::with_draw_target(Some(0), target).with_style(style());
        Ok(Progress {
            narrator: Narrator::new(about, columns),
            outlet: Outlet::new(output, Some(bar), left_out(about))?,
            rate: TrialRate::default(),
            finished: (0, false),
            running: BTreeMap::new(),
            repeats: (BTreeSet::new(), 0),
        })
    }

    fn note(&mut self, event: &Event, time: Timestamp) {
        match event {
            Event::RunStarted(run) => {
                self.finished.0 = run.counts.finished();
                self.rate = TrialRate::new(run.trials, run.counts.finished(), time);
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
                self.rate.finished(trial.counts.finished(), time);
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
            | Event::GpuSampled(_)
            | Event::WorkerStopped { .. }
            | Event::NewBest(_)
            | Event::WinnerSelected(_)
            | Event::StopRequested(_)
            | Event::SearchEnded(_)
            | Event::Warned { .. } => {}
        }
    }

    /// What stands beside the bar, in so many characters.
    fn message(&self, room: usize) -> String {
        let parts = [
            self.narrator.best_so_far(),
            self.rate.time_left(),
            running_text(&self.running),
            repeats_text(&self.repeats.0, self.repeats.1),
            self.rate.speed(),
            self.narrator.trivial_so_far(),
        ];
        fitting(parts, room)
    }
}

impl Sink for Progress {
    fn handle(&mut self, event: &Event, time: Timestamp) {
        let lines = self.narrator.lines(event, time);
        self.outlet.lines(&lines, Worth::Lasting);
        self.note(event, time);
        let (position, over) = self.finished;
        let length = self.rate.goal;
        // Before the run has begun nothing is known of it: a bar of no length would be a full one.
        if length == 0 && !over {
            return;
        }
        let before = format!("{position}/{length} | ").len() + bar_width(columns());
        self.outlet.bar(Standing {
            length,
            position,
            message: self.message(columns().saturating_sub(before + 1)),
            over,
        });
    }
}

fn style() -> ProgressStyle {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let template = match (bar_width(columns()), no_color) {
        (0, _) => "{pos}/{len} | {wide_msg}",
        (_, true) => "{bar:20} {pos}/{len} | {wide_msg}",
        (_, false) => "{bar:20.cyan} {pos}/{len} | {wide_msg}",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Characters of the bar with the space behind it: none where the words need the room.
fn bar_width(columns: usize) -> usize {
    if columns < 80 { 0 } else { 21 }
}

/// The parts that fit into so many characters; what comes first is worth most. The first loses its end in brackets
/// before it is left out.
fn fitting(parts: impl IntoIterator<Item = String>, room: usize) -> String {
    let mut line = String::new();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let short = part.split(" (").next().unwrap_or_default().to_owned();
        for form in [part, short] {
            let between = if line.is_empty() { "" } else { " | " };
            let length = line.chars().count() + between.len() + form.chars().count();
            if length <= room {
                line += &format!("{between}{form}");
                break;
            }
        }
    }
    line
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

/// `running trial 7`, `running trials 7 (epoch 2) and 8`; empty where none runs.
fn running_text(running: &BTreeMap<u64, u32>) -> String {
    let names = running.iter().take(NAMED);
    let mut names: Vec<String> = names
        .map(|(number, epoch)| match epoch {
            0 => format!("{number}"),
            e => format!("{number} (epoch {e})"),
        })
        .collect();
    if running.len() > NAMED {
        names.push(plural((running.len() - NAMED) as u64, "other"));
    }
    let noun = if running.len() > 1 { "trials" } else { "trial" };
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => format!("running {noun} {only}"),
        Some((last, others)) => format!("running {noun} {} and {last}", others.join(", ")),
    }
}

/// The terminal's width.
fn columns() -> usize {
    terminal::columns().unwrap_or(80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_trials_beyond_the_fourth_are_counted() {
        let running = BTreeMap::from([(7, 0), (8, 2), (9, 0), (10, 1), (11, 0)]);
        assert_eq!(
            running_text(&running),
            "running trials 7, 8 (epoch 2), 9, 10 (epoch 1) and 1 other"
        );
        let two = BTreeMap::from([(0, 0), (1, 0)]);
        assert_eq!(running_text(&two), "running trials 0 and 1");
        assert_eq!(
            running_text(&BTreeMap::from([(3, 1)])),
            "running trial 3 (epoch 1)"
        );
        assert_eq!(running_text(&BTreeMap::new()), "");
    }

    #[test]
    fn a_narrow_terminal_keeps_the_best_value() {
        let parts = || {
            [
                "best 0.77121 (trial 7)",
                "22 h 30 min left",
                "",
                "running trials 0 and 1",
            ]
            .map(str::to_owned)
        };
        let told = |room| fitting(parts(), room);
        assert_eq!(
            told(80),
            "best 0.77121 (trial 7) | 22 h 30 min left | running trials 0 and 1"
        );
        assert_eq!(told(49), "best 0.77121 (trial 7) | 22 h 30 min left");
        assert_eq!(told(30), "best 0.77121 (trial 7)");
        assert_eq!(told(15), "best 0.77121");
        assert_eq!(told(5), "");
    }
}
