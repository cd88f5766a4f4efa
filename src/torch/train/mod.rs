//! Training on libtorch: one opened task per worker, many trials. What a kind of task says of itself is a [`Kind`]
//! and the [`Module`] that it makes for a trial; everything else is here once.

mod ahead;
pub mod answer;
mod classes;
pub mod detection;
mod dropout;
mod fit;
mod folds;
mod layers;
mod loss;
mod mlp;
mod module;
mod optimizer;
mod precision;
pub mod tabular;
mod tensors;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod testing;
pub mod text;

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, ensure};

use crate::gpu;
use ::training::split::{Part, Round};
use config::{Objective, Problem, StudySpec};
use device::Device;
use search::space::Params;
use task::{Decision, Ended, Metrics, Reporter, Task, TrialSpec};

pub use layers::Parameter;
pub use module::{Kind, Module, Outputs, Parts, Step};

/// An opened task of a kind that libtorch trains.
pub struct TorchTask<K> {
    kind: K,
    device: Device,
    objective: Objective,
    /// The point of the defaults.
    defaults: TrialSpec,
    /// What a trial trains, model by model.
    rounds: Vec<Round>,
    /// Rows of the test part: only the winner's test reads them.
    test: Vec<usize>,
    /// Points of the parameters after training.
    post: Vec<Params>,
}

/// How a training ended, and what it trained.
pub struct Trained {
    /// The end.
    pub ended: Ended,
    /// Everything that was trained.
    pub parameters: Vec<Parameter>,
}

impl<K: Kind> TorchTask<K> {
    /// Reads the data of a study.
    ///
    /// # Errors
    /// See [`Kind::open`].
    pub fn open(spec: &StudySpec, device: Device) -> Result<TorchTask<K>> {
        let (kind, split) = K::open(spec, device)?;
        Ok(TorchTask {
            kind,
            device,
            objective: spec.objective.clone(),
            defaults: TrialSpec::of_defaults(spec, 0),
            rounds: split.rounds(),
            test: split.rows(Part::Test),
            post: spec.post(),
        })
    }

    /// One training step at the point of the defaults; what stays is what trials share.
    fn rehearse_defaults(&mut self) -> Result<()> {
        let trial = TrialSpec {
            rehearse: Some(1),
            ..self.defaults.clone()
        };
        self.train(&trial, &mut Unheard).map(|_| ())
    }

    /// Trains one trial and hands over what it trained; with folds, the last one's model.
    ///
    /// # Errors
    /// See [`Task::run`].
    pub fn train(&mut self, trial: &TrialSpec, reporter: &mut dyn Reporter) -> Result<Trained> {
        match self.rounds.len() {
            1 => self.train_round(trial, 0, reporter),
            _ => folds::train(self, trial, reporter),
        }
    }

    /// Trains one model, on one of the rounds.
    fn train_round(
        &mut self,
        trial: &TrialSpec,
        round: usize,
        reporter: &mut dyn Reporter,
    ) -> Result<Trained> {
        let settings = fit::FitSettings::of(trial)?;
        let from = match trial.rehearse {
            None => reporter.resume()?,
            Some(_) => None,
        };
        let rows = self.parts(trial, round)?;
        let mut module = self.kind.module(trial, &rows, reporter)?;
        let judgement = fit::Judgement {
            objective: &self.objective,
            post: &self.post,
            tests: !rows.test.is_empty(),
        };
        let ended = fit::fit(module.as_mut(), &settings, &judgement, from, reporter)?;
        // Before the model goes: what activations left behind is then not kept together by it.
        gpu::empty_cache()?;
        Ok(Trained {
            ended,
            parameters: module.parameters()?,
        })
    }

    /// The rows of one of the rounds, to train on those of them alone that the trial asks for.
    fn parts(&self, trial: &TrialSpec, round: usize) -> Result<Parts> {
        let Round { train, validation } = self.rounds[round].clone();
        let only: Option<BTreeSet<usize>> =
            (trial.rows.as_ref()).map(|o| o.iter().copied().collect());
        let chosen = |row: &usize| only.as_ref().is_none_or(|only| only.contains(row));
        let train: Vec<usize> = train.into_iter().filter(chosen).collect();
        ensure!(!train.is_empty(), "none of these rows is trained on");
        Ok(Parts {
            train,
            validation,
            test: match trial.tests() {
                true => self.test.clone(),
                false => Vec::new(),
            },
        })
    }
}

impl<K: Kind> Task for TorchTask<K> {
    fn run(&mut self, trial: &TrialSpec, reporter: &mut dyn Reporter) -> Result<Ended> {
        Ok(self.train(trial, reporter)?.ended)
    }

    fn warm_up(&mut self) -> Result<()> {
        match self.device {
            // Nothing is loaded at first use there, and a step takes cores from the trials that run.
            Device::Cpu => Ok(()),
            Device::Cuda(_) => self.rehearse_defaults(),
        }
    }
}

/// Nobody listens.
struct Unheard;

impl Reporter for Unheard {
    fn step(&mut self) {}

    fn epoch(&mut self, _: u32, _: &Metrics) -> Result<Decision> {
        Ok(Decision::Continue)
    }
}

/// Problems as one error.
fn told(problems: &[Problem]) -> anyhow::Error {
    let lines: Vec<String> = problems
        .iter()
        .map(|p| format!("{}; expected {}", p.found, p.expected))
        .collect();
    anyhow!(lines.join("\n"))
}
