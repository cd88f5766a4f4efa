//! One attempt: a program from its start to its end.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use super::follow::Follow;
use super::lines::{Meaning, MetricLines, PartialLine};
use super::output::{Scanner, Tail};
use super::program::{self, Output, Program};
use super::reported::Reported;
use super::result::{ResultInputs, conclude};
use crate::Epoch;
use crate::{Decision, Ended, Metrics, ProgramFailed, Reporter};
use fault::{Death, ProgramEnd};
use process::child::ChildState;
use process::evidence;

/// A program that is stopped for so long is told to go on.
const STOPPED_FOR: Duration = Duration::from_millis(200);

/// How often the process and the file of metrics are looked at while the program says nothing.
const TICK: Duration = Duration::from_millis(100);

/// The same once the program can say nothing any more: it is about to end.
const LAST_TICK: Duration = Duration::from_millis(2);

/// The answers to a metric line.
const GO_ON: &str = r#"{"prune": false}"#;
const PRUNE: &str = r#"{"prune": true}"#;

/// Why a program is being ended.
enum Reason {
    /// The pruner says so.
    Pruned,
    /// A value was not finite.
    Diverged(String),
    /// Its attempt cannot go on.
    Broken(anyhow::Error),
}

/// How far the ending of a program has got.
enum Ending {
    /// It was asked to end by itself, then.
    Asked(Instant),
    /// SIGTERM was sent, then.
    Terminated(Instant),
    /// SIGKILL was sent.
    Killed,
}

/// What an attempt is made of.
pub struct Attempt<'a> {
    pub program: Program,
    pub reporter: &'a mut dyn Reporter,
    /// Can be read once this worker was asked to end (SIGTERM).
    pub signals: &'a OwnedFd,
    /// Can be read once a child has stopped or ended (SIGCHLD).
    pub children: &'a OwnedFd,
    /// The file that takes metric lines, too.
    pub metrics: Follow,
    /// Exists once the program is to end.
    pub prune_file: PathBuf,
    /// What an earlier attempt had reported.
    pub earlier: Vec<Epoch>,
    /// Where that is kept, where another attempt may go on.
    pub reported: Option<Reported>,
    /// The program's directory for checkpoints, until it is known that it keeps some.
    pub checkpoints: Option<PathBuf>,
    /// Between asking a program to end, SIGTERM and SIGKILL.
    pub grace: Duration,
    pub seen: ResultInputs,
    pub state: Progress,
}

/// What has come so far.
#[derive(Default)]
pub struct Progress {
    lines: MetricLines,
    /// What came on the descriptor for metrics after the last line's end.
    partial: PartialLine,
    tail: Tail,
    /// There were metric lines: output alone is no sign of life any more.
    reports: bool,
    reason: Option<Reason>,
    ending: Option<Ending>,
    /// A value did not count, which was told.
    ignored: bool,
    /// This worker was asked to end.
    leaving: bool,
    /// When it was found stopped, until it is told to go on.
    found_stopped: Option<Instant>,
    /// It was found stopped before.
    continued: bool,
    stopped: bool,
    oom_kills: u64,
}

impl Progress {
    /// Of a program that was just started.
    pub fn new(objective: &str) -> Progress {
        Progress {
            lines: MetricLines::new(objective),
            oom_kills: evidence::oom_kills(),
            ..Progress::default()
        }
    }
}

impl Attempt<'_> {
    /// Runs the program to its end; gives the result, and the program's peak memory in MiB.
    ///
    /// # Errors
    /// The program failed, gave no value, or the attempt was ended.
    pub fn run(mut self, scanner: &mut Scanner) -> (anyhow::Result<Ended>, f64) {
        loop {
            let tick = if self.has_more() {
                Duration::ZERO
            } else if self.program.silent() {
                LAST_TICK
            } else {
                TICK
            };
            let said = (self.program).listen([self.signals, self.children], tick);
            program::has_come(self.children);
            self.take_output(said, scanner);
            self.check_signals();
            self.escalate();
            self.resume_stopped();
            match self.program.look() {
                ChildState::Running => {}
                ChildState::Stopped => {
                    self.state.found_stopped.get_or_insert_with(Instant::now);
                }
                ChildState::Ended => break,
            }
        }
        let end = self.program.end();
        // All who could write are gone: what is there is the rest.
        loop {
            let said = self.program.read();
            let silent = said.is_empty();
            self.take_output(said, scanner);
            self.check_signals();
            if silent && !self.has_more() {
                break;
            }
        }
        // One that was killed may have been within a line.
        if end.death == Death::Exited(0) {
            self.take_partial_lines();
            self.nothing_was_left();
        }
        self.check_signals();
        if self.state.leaving {
            // As if it had not been handled. Should that fail, the supervisor's SIGKILL follows.
            let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTERM);
        }
        let program = ProgramEnd {
            death: end.death,
            stopped: self.state.stopped,
            oom_kills: evidence::oom_kills().saturating_sub(self.state.oom_kills),
            output: self.state.tail.text(),
        };
        let ended = match self.state.reason {
            Some(Reason::Pruned) => Ok(Ended::Pruned),
            Some(Reason::Diverged(at)) => Ok(Ended::Diverged { at }),
            Some(Reason::Broken(error)) => Err(error),
            None => conclude(&self.seen, scanner, program).map_err(Into::into),
        };
        (ended, end.peak_memory_mb)
    }

    /// Takes what the program said, and what is new in its file.
    fn take_output(&mut self, said: Vec<Output>, scanner: &mut Scanner) {
        let mut lines = Vec::new();
        for said in said {
            match said {
                Output::Out(bytes) => {
                    scanner.feed(&bytes);
                    self.log(&bytes);
                }
                Output::Err(bytes) => self.log(&bytes),
                Output::Metrics(bytes) => lines.extend(self.state.partial.take(&bytes)),
            }
        }
        for line in lines {
            let answer = self.line(&line);
            self.program.answer(&answer);
        }
        if self.state.reason.is_some() {
            return;
        }
        match self.metrics.lines() {
            Ok(lines) => {
                for line in lines {
                    self.line(&line);
                }
            }
            Err(problem) => self.end(Reason::Broken(malformed(problem))),
        }
    }

    /// Whether the file of metrics has lines that bear on the result and can be read at once.
    fn has_more(&self) -> bool {
        self.metrics.has_more() && self.state.reason.is_none() && !self.state.leaving
    }

    /// An attempt that was cut short after its last step leaves nothing to do: the program that goes
    /// on from its checkpoint reports no step any more, and those from before hold.
    fn nothing_was_left(&mut self) {
        let silent = self.seen.last.is_none() && self.seen.result.is_none();
        if !silent || self.state.reason.is_some() {
            return;
        }
        if let Some(last) = self.earlier.last()
            && self.reporter.go_on_after(&self.earlier).is_ok()
        {
            self.seen.last = Some(last.metrics.clone());
        }
    }

    /// Takes the last lines of a program that has not ended them.
    fn take_partial_lines(&mut self) {
        let rest = [self.state.partial.rest(), self.metrics.rest()];
        for bytes in rest {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if !text.trim().is_empty() {
                self.line(&text);
            }
        }
    }

    /// Passes output on to the attempt's log.
    fn log(&mut self, bytes: &[u8]) {
        self.state.tail.feed(bytes);
        // A disk that is full must not keep anybody from training.
        let _ = std::io::stderr().write_all(bytes);
        self.reporter.printed();
        if !self.state.reports && self.state.ending.is_none() {
            self.reporter.step();
        }
    }

    /// Takes a metric line; gives the answer.
    fn line(&mut self, text: &str) -> String {
        if text.trim().is_empty() || self.state.leaving || self.state.reason.is_some() {
            return PRUNE.to_owned();
        }
        self.state.reports = true;
        self.reporter.step();
        match self.state.lines.take(text) {
            Ok(Meaning::Alive) => GO_ON.to_owned(),
            Ok(Meaning::Ignored(why)) => {
                self.ignored(&why);
                GO_ON.to_owned()
            }
            Ok(Meaning::Result(metrics)) => {
                self.seen.result = Some(metrics);
                GO_ON.to_owned()
            }
            Ok(Meaning::Pruned) => {
                self.end(Reason::Pruned);
                PRUNE.to_owned()
            }
            Ok(Meaning::Step(step, metrics)) => self.step(step, metrics).to_owned(),
            Err(problem) => {
                let answer = json!({ "error": problem }).to_string();
                self.end(Reason::Broken(malformed(problem)));
                answer
            }
        }
    }

    fn step(&mut self, step: u32, metrics: Metrics) -> &'static str {
        if let Some(what) = self.seen.diverged(&metrics) {
            self.end(Reason::Diverged(format!("step {step}: {what}")));
            return PRUNE;
        }
        let holds = |dir: &mut PathBuf| {
            std::fs::read_dir(dir).is_ok_and(|mut files| files.next().is_some())
        };
        if self.checkpoints.take_if(holds).is_some() {
            self.reporter.keeps_state();
        }
        let mut earlier = std::mem::take(&mut self.earlier);
        earlier.retain(|e| e.epoch < step);
        let known = if earlier.is_empty() {
            Ok(())
        } else {
            self.reporter.go_on_after(&earlier)
        };
        let decision = known.and_then(|()| self.reporter.epoch(step, &metrics));
        self.keep(&earlier, step, &metrics);
        self.seen.last = Some(metrics);
        match decision {
            Ok(Decision::Continue) => GO_ON,
            Ok(Decision::Prune) => {
                self.end(Reason::Pruned);
                PRUNE
            }
            Err(error) => {
                self.end(Reason::Broken(error));
                PRUNE
            }
        }
    }

    /// Keeps a step before the program hears of it: from then on it may keep a checkpoint of its own,
    /// from which another attempt goes on.
    fn keep(&mut self, earlier: &[Epoch], step: u32, metrics: &Metrics) {
        let epoch = Epoch {
            epoch: step,
            metrics: metrics.clone(),
        };
        if let Some(reported) = &mut self.reported
            && let Err(error) = reported.add(earlier, &epoch)
        {
            self.note(&format!("what was reported cannot be kept: {error}"));
            self.reported = None;
        }
    }

    /// Begins to end the program. One that is pruned may end by itself; others have no reason to
    /// go on.
    fn end(&mut self, reason: Reason) {
        if let Err(error) = std::fs::write(&self.prune_file, "") {
            self.note(&format!("{}: {error}", self.prune_file.display()));
        }
        match reason {
            Reason::Pruned => self.state.ending = Some(Ending::Asked(Instant::now())),
            Reason::Diverged(_) | Reason::Broken(_) => self.terminate(),
        }
        self.state.reason = Some(reason);
    }

    fn terminate(&mut self) {
        self.program.signal(Signal::SIGTERM);
        // A stopped process does not even get the signal.
        self.program.signal(Signal::SIGCONT);
        self.state.ending = Some(Ending::Terminated(Instant::now()));
    }

    /// Goes on ending a program that takes too long.
    fn escalate(&mut self) {
        if self.state.ending.is_some() && !self.state.leaving {
            // The deadline is for trainings; this cannot last.
            self.reporter.step();
        }
        match self.state.ending {
            Some(Ending::Asked(at)) if at.elapsed() >= self.grace => {
                self.note("the program was told that it is pruned, and goes on: SIGTERM");
                self.terminate();
            }
            Some(Ending::Terminated(at)) if at.elapsed() >= self.grace => {
                self.note("the program does not end: SIGKILL");
                self.program.signal(Signal::SIGKILL);
                self.state.ending = Some(Ending::Killed);
            }
            Some(Ending::Asked(_) | Ending::Terminated(_) | Ending::Killed) | None => {}
        }
    }

    /// This worker was asked to end: so is the program, and then the worker follows.
    fn check_signals(&mut self) {
        if program::has_come(self.signals) {
            self.state.leaving = true;
            self.terminate();
        }
    }

    /// Nobody can be asked why it was stopped: it is told to go on, once. If it is stopped again,
    /// somebody means it.
    fn resume_stopped(&mut self) {
        // Whoever ends a whole run stops its processes a moment before they are killed.
        let stopped = self.state.found_stopped;
        if stopped.is_none_or(|since| since.elapsed() < STOPPED_FOR) {
            return;
        }
        self.state.found_stopped = None;
        if self.state.continued {
            self.state.stopped = true;
            self.program.signal(Signal::SIGKILL);
        } else {
            self.state.continued = true;
            self.note("the program was stopped from outside (SIGSTOP); it was told to go on");
            self.program.signal(Signal::SIGCONT);
        }
    }

    /// A value that does not count; the first one is told where the run is looked at, too.
    fn ignored(&mut self, why: &str) {
        self.note(why);
        if !std::mem::replace(&mut self.state.ignored, true) {
            self.reporter
                .warn(&format!("{why}, and does not count: steps go up"));
        }
    }

    fn note(&self, text: &str) {
        let _ = writeln!(std::io::stderr(), "tune: {text}");
    }
}

/// The error of a program that breaks the rules of metric lines. It has not ended, and how it is going to end is ours; what the
/// line holds says nothing of that either. So the error is the message alone, as of a program that ends well without a word.
fn malformed(message: String) -> anyhow::Error {
    let end = ProgramEnd {
        death: Death::Exited(0),
        stopped: false,
        oom_kills: 0,
        output: String::new(),
    };
    ProgramFailed { end, message }.into()
}
