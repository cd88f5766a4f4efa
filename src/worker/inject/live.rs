//! A training loop that is hit by a fault.

use std::io;
use std::path::Path;

use serde_json::{Map, Value as Json};

use super::faults::{self, FaultContext};
use ::inject::ledger::{self, Entry};
use ::inject::{InjectSpec, Injection, Kind};
use task::Epoch;
use task::{Checkpoint, Decision, Ended, Metrics, Reporter, Task, TrialSpec};

/// A fault that waits for its step.
pub struct Armed<'a> {
    injection: Injection,
    ledger: &'a Path,
    scene: FaultContext,
}

impl<'a> Armed<'a> {
    /// The fault of an attempt, if it is to have one.
    pub fn of(
        spec: Option<&'a InjectSpec>,
        trial: &TrialSpec,
        scene: FaultContext,
    ) -> Option<Armed<'a>> {
        let spec = spec?;
        Some(Armed {
            injection: spec.decide(trial.job(), trial.attempt)?,
            ledger: &spec.ledger,
            scene,
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

    fn plan(&mut self, steps: u64) {
        self.reporter.plan(steps);
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

    fn wants_weights(&self, value: f64) -> bool {
        self.reporter.wants_weights(value)
    }

    fn keep_best(
        &mut self,
        value: f64,
        about: &Map<String, Json>,
        write: &mut dyn FnMut(&mut dyn io::Write) -> anyhow::Result<()>,
    ) {
        self.reporter.keep_best(value, about, write);
    }

    fn directory(&self) -> Option<&Path> {
        self.reporter.directory()
    }

    fn go_on_after(&mut self, epochs: &[Epoch]) -> anyhow::Result<()> {
        self.reporter.go_on_after(epochs)
    }

    fn keeps_state(&mut self) {
        self.reporter.keeps_state();
    }

    fn printed(&mut self) {
        self.reporter.printed();
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
            faults::orphan()
        } else {
            None
        };
        let entry = Entry {
            time: messages::clock::now().to_string(),
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use inject::{Here, Plan};
    use search::space::Params;
    use search::study::Purpose;

    /// Counts what reaches it.
    #[derive(Default)]
    struct Counter {
        steps: u64,
        epochs: u64,
        resumes: u64,
        kept: Vec<u8>,
    }

    impl Reporter for Counter {
        fn step(&mut self) {
            self.steps += 1;
        }
        fn epoch(&mut self, _: u32, _: &Metrics) -> anyhow::Result<Decision> {
            self.epochs += 1;
            Ok(Decision::Continue)
        }
        fn resume(&mut self) -> anyhow::Result<Option<Checkpoint>> {
            self.resumes += 1;
            Ok(None)
        }
        fn keep(&mut self, write: &mut dyn FnMut(&mut dyn Write) -> anyhow::Result<()>) {
            write(&mut self.kept).unwrap();
        }
    }

    /// Trains so many epochs of one step, and keeps each.
    struct Epochs(u32);

    impl Task for Epochs {
        fn run(&mut self, _: &TrialSpec, reporter: &mut dyn Reporter) -> anyhow::Result<Ended> {
            reporter.resume()?;
            for epoch in 1..=self.0 {
                reporter.step();
                reporter.epoch(epoch, &Metrics::new())?;
                reporter.keep(&mut |file| Ok(file.write_all(b"x")?));
            }
            Ok(Ended::Completed)
        }
    }

    /// What became of an attempt, what its reporter and the ledger saw, and the step that is hit.
    struct Observed {
        result: anyhow::Result<Ended>,
        reporter: Counter,
        ledger: Vec<Entry>,
        at_step: u64,
    }

    /// Runs an attempt of a trial whose first one meets a plain error: the only fault that a test
    /// may have in its own process.
    fn attempt(epochs: u32, attempt: u32) -> Observed {
        let dir = tempfile::tempdir().unwrap();
        let here = Here {
            gpu: false,
            torch: false,
        };
        let spec = InjectSpec {
            plan: Plan::parse("error:1.0", here).unwrap(),
            seed: 3,
            ledger: dir.path().join("ledger.jsonl"),
        };
        let trial = TrialSpec {
            number: 5,
            purpose: Purpose::Search,
            attempt,
            seed: 0,
            params: Params::new(),
            config: Params::new(),
            halvings: 0,
            rehearse: None,
            rows: None,
        };
        let scene = FaultContext {
            libtorch: &crate::NoLibtorch,
            device: device::Device::Cpu,
            socket: -1,
        };
        let armed = Armed::of(Some(&spec), &trial, scene);
        let mut reporter = Counter::default();
        Observed {
            result: run(&mut Epochs(epochs), &trial, &mut reporter, armed),
            reporter,
            ledger: ledger::read(&spec.ledger),
            at_step: spec.plan.decide(3, 5, 0).unwrap().at_step,
        }
    }

    #[test]
    fn a_fault_comes_at_its_step_and_is_noted() {
        let seen = attempt(20, 0);
        assert!(seen.result.unwrap_err().to_string().contains("no label"));
        assert_eq!(seen.reporter.steps, seen.at_step);
        assert_eq!(seen.reporter.epochs, seen.at_step - 1);
        assert_eq!(seen.ledger.len(), 1);
        assert_eq!(
            (seen.ledger[0].trial, seen.ledger[0].kind),
            (5, Kind::Error)
        );
    }

    #[test]
    fn a_short_attempt_is_hit_at_its_end() {
        let seen = attempt(0, 0);
        assert!(seen.result.is_err());
        assert_eq!((seen.reporter.steps, seen.ledger.len()), (0, 1));
    }

    #[test]
    fn an_attempt_that_is_not_hit_goes_its_way() {
        let seen = attempt(3, 1);
        assert_eq!(seen.result.unwrap(), Ended::Completed);
        assert_eq!((seen.reporter.steps, seen.reporter.epochs), (3, 3));
        assert_eq!(seen.ledger, []);
    }

    #[test]
    fn checkpoints_pass_through_until_the_fault() {
        let seen = attempt(20, 0);
        assert_eq!(seen.reporter.resumes, 1);
        assert_eq!(seen.reporter.kept.len() as u64, seen.at_step - 1);
    }
}
