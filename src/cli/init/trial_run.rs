//! A program, run once to see what it prints.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use super::output;
use crate::replay::stopped_by_signals;
use config::StudySpec;
use fault::Death;
use files::bounded;
use messages::exit::{Exit, Failure};
use nix::sys::signal::Signal;
use process::child::{ChildState, GroupLeader, lead_group};
use search::space::Params;

/// The last lines of each output are kept.
const KEPT: usize = 10_000;

/// Longest line, in bytes; a longer one comes in parts.
const LONGEST: u64 = 64 * 1024;

/// How often it is looked whether the program has ended.
const LOOK: Duration = Duration::from_millis(100);

/// How long output is waited for that a program has left behind.
const REST: Duration = Duration::from_millis(300);

/// What was seen.
pub(super) struct Seen {
    /// Lines of standard output.
    pub(super) printed: Vec<String>,
    /// Lines of standard error.
    pub(super) errors: Vec<String>,
    /// Metric lines.
    pub(super) reported: Vec<String>,
}

/// Runs the program with its parameters' defaults, and shows what it prints if `loud`; after `limit` it is ended, and
/// what it has printed until then counts.
///
/// # Errors
/// It cannot be started, fails (2), or a signal has stopped it (4).
pub(super) fn run_once(
    spec: &StudySpec,
    cwd: &Path,
    limit: Duration,
    loud: bool,
) -> Result<Seen, Failure> {
    let files = tempfile::tempdir()
        .map_err(|e| Failure::input(format!("no temporary directory can be made: {e}")))?;
    let metrics = files.path().join("metrics.jsonl");
    let point = spec.space.point(&Params::new());
    let mut command = task::command::once(spec, &point, cwd, files.path())
        .map_err(|problem| Failure::input(format!("--script: {problem}")))?;
    command.env("TUNE_METRICS_FILE", &metrics);
    if loud {
        let line = shown(&command);
        report::err(&format!("running once, to see what it prints: {line}"));
    }
    let mut watched = Watched::start(command, loud)?;
    let death = watched.wait(Instant::now() + limit)?;
    let reported = bounded::read_to_string(&metrics, bounded::REPORTS).unwrap_or_default();
    let seen = Seen {
        printed: watched.printed.into(),
        errors: watched.errors.into(),
        reported: reported.lines().map(str::to_owned).collect(),
    };
    match death {
        Some(Death::Exited(0)) | None => Ok(seen),
        Some(death) => {
            let last = seen.errors.last().or(seen.printed.last());
            Err(Failure::input(format!(
                "{}, so that nothing was written; the last line of its output:\n  {}",
                fault::describe_program(death),
                last.map_or_else(|| "nothing".to_owned(), |line| output::shown(line))
            )))
        }
    }
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// A line, and whether it is of standard error.
type Line = (bool, String);

/// A program that runs, with what it has printed.
struct Watched {
    leader: GroupLeader,
    lines: Receiver<Line>,
    /// A signal asks to stop.
    stopped: Arc<AtomicBool>,
    loud: bool,
    printed: VecDeque<String>,
    errors: VecDeque<String>,
}

impl Watched {
    fn start(mut command: Command, loud: bool) -> Result<Watched, Failure> {
        let internal =
            |e: std::io::Error| Failure::internal(format!("the program cannot be watched: {e}"));
        let stopped = stopped_by_signals()?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // SAFETY: nothing is done between fork and exec.
        unsafe { lead_group(&mut command, Signal::SIGKILL, || Ok(())) };
        let mut child = command
            .spawn()
            .map_err(|e| Failure::input(format!("{} cannot be started: {e}", shown(&command))))?;
        let leader = GroupLeader::new(&child);
        // A program that prints faster than it is read waits.
        let (send, lines) = mpsc::sync_channel(1_000);
        let reading = child
            .stdout
            .take()
            .map_or(Ok(()), |out| read(out, false, send.clone()));
        let reading = reading.and_then(|()| {
            child
                .stderr
                .take()
                .map_or(Ok(()), |err| read(err, true, send))
        });
        if let Err(error) = reading {
            leader.end(None);
            return Err(internal(error));
        }
        Ok(Watched {
            leader,
            lines,
            stopped,
            loud,
            printed: VecDeque::new(),
            errors: VecDeque::new(),
        })
    }

    /// Its end, or none where it was ended at `limit`. Nothing that it has started is left.
    fn wait(&mut self, limit: Instant) -> Result<Option<Death>, Failure> {
        let ended = loop {
            self.take(LOOK);
            if self.stopped.load(Ordering::Relaxed) {
                self.leader.end(None);
                return Err(Failure::new(Exit::Stopped, "stopped: nothing was written"));
            }
            match self.leader.look() {
                ChildState::Ended => break true,
                ChildState::Running | ChildState::Stopped if Instant::now() >= limit => {
                    break false;
                }
                ChildState::Running | ChildState::Stopped => {}
            }
        };
        let (end, _) = self.leader.end(None);
        self.take(REST);
        if !ended {
            report::err("it was ended at --limit; what it has printed counts");
        }
        Ok(ended.then_some(end.death))
    }

    /// Takes lines for so long, or until no more can come.
    fn take(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            match self.lines.recv_timeout(left) {
                Ok((error, line)) => {
                    if self.loud {
                        report::err(&format!("  | {}", output::shown(&line)));
                    }
                    let kept = if error {
                        &mut self.errors
                    } else {
                        &mut self.printed
                    };
                    kept.push_back(line);
                    if kept.len() > KEPT {
                        kept.pop_front();
                    }
                }
                // Its output may be closed before its end.
                Err(RecvTimeoutError::Disconnected) => return thread::sleep(left.min(LOOK)),
                Err(RecvTimeoutError::Timeout) => return,
            }
        }
    }
}

/// Reads lines on a thread of its own.
fn read(
    output: impl Read + Send + 'static,
    error: bool,
    lines: SyncSender<Line>,
) -> std::io::Result<()> {
    let reading = move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while let Ok(1..) = output.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line).into_owned();
            let text = task::command::without_colour(text.trim_end()).into_owned();
            if lines.send((error, text)).is_err() {
                return;
            }
            line.clear();
        }
    };
    thread::Builder::new()
        .name("output".into())
        .spawn(reading)
        .map(drop)
}
