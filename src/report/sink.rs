//! Where a run's events go: one interface, one implementation for each way of showing them.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;

use super::Event;
use super::json_lines::JsonLines;
use super::lines::Lines;
use super::output::Output;
use super::progress::Progress;

/// Takes a run's events in their order. Never fails: a sink whose reader has gone away falls
/// silent, the run goes on.
pub trait Sink: Send {
    /// Shows one event that happened at `time`.
    fn handle(&mut self, event: &Event, time: Timestamp);
}

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A progress bar on stderr, finished trials on stdout: for a terminal.
    Progress,
    /// Plain lines on stdout: for a log, for cron.
    Lines,
    /// One JSON object a line on stdout.
    Json,
    /// Nothing on stdout.
    Quiet,
}

impl Mode {
    /// The mode for these flags; `--json` wins over `-q`, which then only silences stderr.
    pub fn choose(json: bool, quiet: bool, stdout_is_tty: bool) -> Mode {
        match (json, quiet, stdout_is_tty) {
            (true, _, _) => Mode::Json,
            (false, true, _) => Mode::Quiet,
            (false, false, true) => Mode::Progress,
            (false, false, false) => Mode::Lines,
        }
    }
}

/// The sink of a mode, on the process's own stdout and stderr.
pub fn sink(mode: Mode, study: &str) -> Box<dyn Sink> {
    match mode {
        Mode::Progress => Box::new(Progress::new(
            study,
            Output::stdout(),
            indicatif::ProgressDrawTarget::stderr_with_hz(10),
        )),
        Mode::Lines | Mode::Json | Mode::Quiet => sink_to(mode, study, Output::stdout()),
    }
}

/// The sink of a mode on any stream; a progress bar is not drawn then.
pub fn sink_to(mode: Mode, study: &str, output: Output) -> Box<dyn Sink> {
    match mode {
        Mode::Progress => Box::new(Progress::new(
            study,
            output,
            indicatif::ProgressDrawTarget::hidden(),
        )),
        Mode::Lines => Box::new(Lines::new(study, output)),
        Mode::Json => Box::new(JsonLines::new(study, output)),
        Mode::Quiet => Box::new(Quiet),
    }
}

/// Shows events on a thread of its own: a terminal that is held (Ctrl-S) or a pipe whose reader does
/// not read keeps nobody else waiting. Dropping it waits until all is shown, as long as somebody
/// reads.
pub struct Detached {
    events: Option<Sender<(Event, Timestamp)>>,
    shown: Receiver<()>,
}

/// A reader that has read nothing for this long reads nothing more.
const PATIENCE: Duration = Duration::from_secs(5);

impl Detached {
    /// Moves a sink to a thread of its own.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn new(mut sink: Box<dyn Sink>) -> std::io::Result<Detached> {
        let (events, inbox) = mpsc::channel::<(Event, Timestamp)>();
        let (tell, shown) = mpsc::channel();
        thread::Builder::new()
            .name("report".into())
            .spawn(move || {
                for (event, time) in inbox {
                    sink.handle(&event, time);
                    let _ = tell.send(());
                }
            })?;
        Ok(Detached {
            events: Some(events),
            shown,
        })
    }
}

impl Sink for Detached {
    fn handle(&mut self, event: &Event, time: Timestamp) {
        while self.shown.try_recv().is_ok() {}
        if let Some(events) = &self.events {
            let _ = events.send((event.clone(), time));
        }
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        self.events = None;
        // Ends when the thread has, or when nothing was shown for too long.
        while self.shown.recv_timeout(PATIENCE).is_ok() {}
    }
}

struct Quiet;

impl Sink for Quiet {
    fn handle(&mut self, _: &Event, _: Timestamp) {}
}

#[cfg(test)]
#[path = "sink_tests.rs"]
mod tests;
