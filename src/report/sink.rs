//! Where a run's events go: one interface, one implementation for each way of showing them.

use std::io;

use indicatif::ProgressDrawTarget;
use jiff::Timestamp;

use super::About;
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

/// The sink of a mode, on the process's own stdout and stderr. It never waits for whoever reads, and
/// leaves lines out, the least important first, where nobody does; see `outlet`. Dropping it
/// waits until all is shown, as long as somebody reads. `about` is the study in the commands that it proposes.
///
/// # Errors
/// There is no thread to be had.
pub fn sink(mode: Mode, about: &About) -> io::Result<Box<dyn Sink>> {
    let bar = ProgressDrawTarget::stderr_with_hz(10);
    made(mode, about, Output::stdout(), bar)
}

/// The sink of a mode on any stream; a progress bar is not drawn then.
///
/// # Errors
/// See [`sink`].
pub fn sink_to(mode: Mode, about: &About, output: Output) -> io::Result<Box<dyn Sink>> {
    made(mode, about, output, ProgressDrawTarget::hidden())
}

fn made(
    mode: Mode,
    about: &About,
    output: Output,
    bar: ProgressDrawTarget,
) -> io::Result<Box<dyn Sink>> {
    Ok(match mode {
        Mode::Progress => Box::new(Progress::new(about, output, bar)?),
        Mode::Lines => Box::new(Lines::new(about, output)?),
        Mode::Json => Box::new(JsonLines::new(about, output)?),
        Mode::Quiet => Box::new(Quiet),
    })
}

struct Quiet;

impl Sink for Quiet {
    fn handle(&mut self, _: &Event, _: Timestamp) {}
}

#[cfg(test)]
#[path = "sink_tests.rs"]
pub(super) mod tests;
