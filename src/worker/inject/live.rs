//! The fault of an attempt: when it comes, and that it is noted.

use std::path::Path;

use super::faults::{self, FaultContext};
use ::inject::ledger::{self, Entry};
use ::inject::{InjectSpec, Injection, Kind};
use task::TrialSpec;

/// A fault that comes at its step, or at the attempt's end where that has fewer steps.
pub struct Injected<'a> {
    /// Until it has come.
    injection: Option<Injection>,
    number: u64,
    attempt: u32,
    ledger: &'a Path,
    scene: FaultContext,
    /// An error that the next call able to return one returns.
    pending: Option<anyhow::Error>,
}

impl<'a> Injected<'a> {
    /// The fault of an attempt, if it is to have one.
    pub fn of(
        spec: Option<&'a InjectSpec>,
        trial: &TrialSpec,
        scene: FaultContext,
    ) -> Option<Injected<'a>> {
        let spec = spec?;
        Some(Injected {
            injection: Some(spec.decide(trial.job(), trial.attempt)?),
            number: trial.number,
            attempt: trial.attempt,
            ledger: &spec.ledger,
            scene,
            pending: None,
        })
    }

    /// The attempt is at this step, counted from 1.
    pub fn step(&mut self, step: u64) {
        if self.injection.as_ref().is_some_and(|i| step >= i.at_step) {
            self.fire();
        }
    }

    /// The attempt has made all of its steps.
    ///
    /// # Errors
    /// The error that was made.
    pub fn end(&mut self) -> anyhow::Result<()> {
        self.fire();
        self.raise()
    }

    /// # Errors
    /// The error that was made and not returned so far.
    pub fn raise(&mut self) -> anyhow::Result<()> {
        self.pending.take().map_or(Ok(()), Err)
    }

    fn fire(&mut self) {
        let Some(injection) = self.injection.take() else {
            return;
        };
        let kind = injection.kind;
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
            culprit: injection.culprit,
            left,
        };
        // A fault that could not be noted must not happen: nobody could tell it from a real one.
        if ledger::append(self.ledger, &entry).is_ok() {
            self.pending = faults::perform(kind, &self.scene).err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inject::{Here, Plan};
    use search::space::Params;
    use search::study::Purpose;

    /// What became of an attempt, how many steps it made, what the ledger saw, and the step that is hit.
    struct Observed {
        result: anyhow::Result<()>,
        steps: u64,
        ledger: Vec<Entry>,
        at_step: u64,
    }

    /// Makes an attempt of so many epochs, of one step each, of a trial whose first attempt meets a plain error: the only
    /// fault that a test may have in its own process.
    fn attempt(epochs: u64, attempt: u32) -> Observed {
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
            libtorch: &crate::NO_LIBTORCH,
            device: device::Device::Cpu,
            socket: -1,
        };
        let mut injected = Injected::of(Some(&spec), &trial, scene);
        let mut steps = 0;
        let mut run = || -> anyhow::Result<()> {
            for step in 1..=epochs {
                steps = step;
                if let Some(injected) = &mut injected {
                    injected.step(step);
                    injected.raise()?;
                }
            }
            injected.as_mut().map_or(Ok(()), Injected::end)
        };
        Observed {
            result: run(),
            steps,
            ledger: ledger::read(&spec.ledger),
            at_step: spec.plan.decide(3, 5, 0).unwrap().at_step,
        }
    }

    #[test]
    fn a_fault_comes_at_its_step_and_is_noted() {
        let seen = attempt(20, 0);
        assert!(seen.result.unwrap_err().to_string().contains("no label"));
        assert_eq!(seen.steps, seen.at_step);
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
        assert_eq!((seen.steps, seen.ledger.len()), (0, 1));
    }

    #[test]
    fn an_attempt_that_is_not_hit_goes_its_way() {
        let seen = attempt(3, 1);
        seen.result.unwrap();
        assert_eq!(seen.steps, 3);
        assert_eq!(seen.ledger, []);
    }
}
