//! A training loop that is hit by a fault.

use std::io;
use std::os::fd::RawFd;
use std::path::Path;

use super::faults::{self, Scene};
use super::ledger::{self, Entry};
use super::{InjectSpec, Injection, Kind};
use crate::gpu::Device;
use crate::task::{Checkpoint, Decision, Ended, Metrics, Reporter, Task, TrialSpec};

/// A fault that waits for its step.
pub struct Armed<'a> {
    injection: Injection,
    ledger: &'a Path,
    scene: Scene,
}

impl<'a> Armed<'a> {
    /// The fault of an attempt, if it is to have one. `socket` is the one to the supervisor.
    pub fn of(
        spec: Option<&'a InjectSpec>,
        trial: &TrialSpec,
        device: Device,
        socket: RawFd,
    ) -> Option<Armed<'a>> {
        let spec = spec?;
        Some(Armed {
            injection: spec.decide(trial.number, trial.attempt)?,
            ledger: &spec.ledger,
            scene: Scene { device, socket },
        })
    }
}

/// Runs an attempt; the fault comes at its step, or at the attempt's end where it has fewer steps.
///
/// # Errors
/// Those of the task, and those that were made.
pub fn run(
    task: &mut dyn Task,
    trial: &TrialSpec,
    reporter: &mut dyn Reporter,
    armed: Option<Armed<'_>>,
) -> anyhow::Result<Ended> {
    let Some(armed) = armed else {
        return task.run(trial, reporter);
    };
    let mut hit = Hit {
        reporter,
        number: trial.number,
        attempt: trial.attempt,
        armed: Some(armed),
        steps: 0,
        pending: None,
    };
    let ended = task.run(trial, &mut hit)?;
    hit.fire();
    hit.raise()?;
    Ok(ended)
}

struct Hit<'a> {
    reporter: &'a mut dyn Reporter,
    number: u64,
    attempt: u32,
    armed: Option<Armed<'a>>,
    steps: u64,
    /// An error that the next call able to return one returns.
    pending: Option<anyhow::Error>,
}

impl Reporter for Hit<'_> {
    fn step(&mut self) {
        self.steps += 1;
        let due = |a: &Armed<'_>| self.steps >= a.injection.at_step;
        if self.armed.as_ref().is_some_and(due) {
            self.fire();
        }
        self.reporter.step();
    }

    fn epoch(&mut self, epoch: u32, metrics: &Metrics) -> anyhow::Result<Decision> {
        self.raise()?;
        self.reporter.epoch(epoch, metrics)
    }

    fn resume(&mut self) -> anyhow::Result<Option<Checkpoint>> {
        self.reporter.resume()
    }

    fn keep(&mut self, write: &mut dyn FnMut(&mut dyn io::Write) -> anyhow::Result<()>) {
        self.reporter.keep(write);
    }
}

impl Hit<'_> {
    fn fire(&mut self) {
        let Some(armed) = self.armed.take() else {
            return;
        };
        let kind = armed.injection.kind;
        // Made before it is noted: the note names it.
        let left = if kind == Kind::Stray {
            faults::stray()
        } else {
            None
        };
        let entry = Entry {
            time: jiff::Timestamp::now().to_string(),
            trial: self.number,
            attempt: self.attempt,
            pid: std::process::id(),
            kind,
            culprit: armed.injection.culprit,
            left,
        };
        // A fault that could not be noted must not happen: nobody could tell it from a real one.
        if ledger::append(armed.ledger, &entry).is_ok() {
            self.pending = faults::perform(kind, &armed.scene).err();
        }
    }

    fn raise(&mut self) -> anyhow::Result<()> {
        self.pending.take().map_or(Ok(()), Err)
    }
}
