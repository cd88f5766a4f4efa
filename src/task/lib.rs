//! The interface between a worker and a training loop, what a kind of task does before it trains, and
//! the kinds that need no libtorch.

pub mod command;
mod early_stopping;
mod epoch;
pub mod synthetic;

pub use early_stopping::{EarlyStopping, Patience};
pub use epoch::Epoch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use config::{Prepared, Problems, StudySpec, TaskKind};
use device::Device;
use fault::ProgramEnd;
use memory::Floor;
use search::space::{Params, Value};
use search::study::{Job, Purpose};

/// What a kind of task does before a worker trains. It runs in the supervisor and touches neither
/// libtorch nor any device.
pub trait Preparation: Sync {
    /// What the kind declares.
    fn kind(&self) -> &'static TaskKind;

    /// Reads and validates everything on the CPU: data, split, checkpoints, lengths.
    ///
    /// # Errors
    /// All problems found, each with file, row or key, what was found and what was expected.
    fn prepare(&self, spec: &StudySpec) -> Result<Prepared, Problems>;

    /// Whether what a training with this configuration reads is still what the study was made with, of
    /// which `identity` has the fingerprints: on other inputs a trial that is trained again would be
    /// another one. Nothing is looked at where a kind does not say.
    ///
    /// # Errors
    /// What cannot be read, and what differs.
    fn unchanged(
        &self,
        _spec: &StudySpec,
        _identity: &serde_json::Map<String, serde_json::Value>,
        _config: &Params,
    ) -> Result<(), Problems> {
        Ok(())
    }

    /// The rows that a training reads, to find out which of them it fails by; `None` of a kind without rows.
    ///
    /// # Errors
    /// They cannot be read.
    fn training_rows(&self, _spec: &StudySpec) -> Result<Option<TrainingRows>, Problems> {
        Ok(None)
    }

    /// Puts rows that nobody wrote, kept in `dir`, in the place of the study's.
    ///
    /// # Errors
    /// They cannot be written, or the kind has no rows.
    fn make_up(&self, _spec: &mut StudySpec, _dir: &Path) -> anyhow::Result<()> {
        anyhow::bail!("the task kind {} has no rows", self.kind().name)
    }

    /// What of the default point's model can be tried alone; nothing, of a kind that does not say.
    fn parts(&self, _spec: &StudySpec) -> ModelParts {
        ModelParts::default()
    }

    /// Reads all that the default point trains on as its training does, in so many threads (0: in the one that asks); `at`
    /// is told what comes next.
    ///
    /// # Errors
    /// Something cannot be read, or the kind does not read by itself.
    fn read_all(
        &self,
        _spec: &StudySpec,
        _threads: usize,
        _at: &dyn Fn(&str),
    ) -> anyhow::Result<ReadRows> {
        anyhow::bail!("the task kind {} reads nothing", self.kind().name)
    }

    /// Writes a trained model as a directory of its own, whole or not at all, for `tune predict` to read; what was in
    /// `dir` is replaced where `force`. `told` is called with the size of the weights before they are written.
    ///
    /// # Errors
    /// Something else lies there, what was trained has changed since, or writing failed.
    fn export(
        &self,
        _spec: &StudySpec,
        _model: &TrainedModel<'_>,
        (_dir, _force): (&Path, bool),
        _told: &mut dyn FnMut(u64),
    ) -> anyhow::Result<ExportedModel> {
        anyhow::bail!(
            "trials of the task kind {} cannot be exported",
            self.kind().name
        )
    }

    /// What a training cannot do without of a device's memory, where the kind knows; called after
    /// [`Preparation::prepare`] went well.
    fn floor(&self, _spec: &StudySpec, _device: Device) -> Option<Arc<Floor>> {
        None
    }
}

/// What of a model can be tried alone, to find out which of it fails.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelParts {
    /// Its parts, in the order of the way back: `head`, `layer.3`.
    pub parts: Vec<String>,
    /// The losses that a trial may have.
    pub losses: Vec<String>,
}

/// What was read of all rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRows {
    /// Equal where the same was read.
    pub checksum: u64,
    /// How much it was, for people.
    pub what: String,
}

/// Rows of a file that a training reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainingRows {
    /// The file, as the configuration names it.
    pub file: String,
    /// The line on which each row of the file starts, from 1.
    pub lines: Vec<usize>,
    /// Rows to train on, by their numbers from 0, of each model that a trial trains.
    pub train: Vec<Vec<usize>>,
}

/// Weights that a training has handed over, and what is known of them.
#[derive(Debug, Clone, Copy)]
pub struct TrainedModel<'a> {
    /// Of which trial, for people.
    pub trial: u64,
    /// Everything that the training read.
    pub config: &'a Params,
    /// The file of the weights, as [`Reporter::keep_best`] wrote it.
    pub weights: &'a Path,
    /// What the training said of them.
    pub about: &'a serde_json::Map<String, serde_json::Value>,
    /// Where they come from: what `tune.json` says.
    pub origin: &'a serde_json::Value,
}

/// What an export has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedModel {
    /// The classes; none of a number.
    pub labels: Vec<String>,
    /// The class of transformers that computes the same; `None`: there is none.
    pub transformers: Option<String>,
    /// What other programs make of it, for people.
    pub note: String,
}

/// Opens a task in a worker: loads data and moves to the device what trials share. It fails with whatever
/// keeps the worker from running trials.
pub type Open = fn(&StudySpec, Device) -> anyhow::Result<Box<dyn Task>>;

/// How a kind of task is opened that needs no libtorch.
pub fn open(kind: &str) -> Option<Open> {
    match kind {
        "synthetic" => Some(synthetic::open),
        "command" => Some(command::open),
        _ => None,
    }
}

/// One attempt of a trial, as a worker gets it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialSpec {
    /// Number within the study.
    pub number: u64,
    /// What it is trained for.
    pub purpose: Purpose,
    /// Attempt, from 0.
    pub attempt: u32,
    /// The training's seed; equal in all attempts.
    pub seed: u64,
    /// The searched parameters.
    pub params: Params,
    /// Everything the training reads: fixed keys and parameters.
    pub config: Params,
    /// How often its batches are halved, because whole ones did not fit: a batch is computed in
    /// `2^halvings` parts, whose gradients are added up.
    #[serde(default)]
    pub halvings: u32,
    /// A rehearsal, for what it needs of memory and time alone: so many training steps, those
    /// first that need the most memory, and an end without a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rehearse: Option<u32>,
    /// Of the rows to train on only these, by their numbers in the data from 0, to find out which of
    /// them a training fails by. Kinds without rows ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<usize>>,
}

impl TrialSpec {
    /// The point of the defaults as a trial.
    pub fn of_defaults(spec: &StudySpec, seed: u64) -> TrialSpec {
        Self::new(spec, 0, seed, spec.space.point(&Params::new()))
    }

    /// The first attempt of a search's trial with these parameters, whole.
    pub fn new(spec: &StudySpec, number: u64, seed: u64, params: Params) -> TrialSpec {
        TrialSpec {
            number,
            purpose: Purpose::Search,
            attempt: 0,
            seed,
            config: spec.effective(&params),
            params,
            halvings: 0,
            rehearse: None,
            rows: None,
        }
    }

    /// What is trained.
    pub fn job(&self) -> Job {
        Job {
            number: self.number,
            purpose: self.purpose,
        }
    }

    /// Whether the test split is to be scored at the best epoch, see [`Task::run`].
    pub fn tests(&self) -> bool {
        self.purpose == Purpose::Test
    }

    /// A float of the configuration.
    ///
    /// # Errors
    /// The key is absent or no number: a defect of the task's declaration.
    pub fn float(&self, key: &str) -> anyhow::Result<f64> {
        self.typed(key, "a number", Value::as_f64)
    }

    /// An integer of the configuration.
    ///
    /// # Errors
    /// See [`TrialSpec::float`]; or it is outside of the type's range.
    pub fn int<T: TryFrom<i64>>(&self, key: &str) -> anyhow::Result<T> {
        let read = |value: &Value| T::try_from(value.as_i64()?).ok();
        self.typed(key, "an integer", read)
    }

    /// A string of the configuration.
    ///
    /// # Errors
    /// See [`TrialSpec::float`].
    pub fn text(&self, key: &str) -> anyhow::Result<&str> {
        self.typed(key, "a string", Value::as_str)
    }

    /// A word of the configuration as what it stands for.
    ///
    /// # Errors
    /// See [`TrialSpec::float`]; or the type has no such word.
    pub fn word<T: DeserializeOwned>(&self, key: &str) -> anyhow::Result<T> {
        let word = self.text(key)?;
        serde_json::from_value(word.into()).map_err(|e| anyhow::anyhow!("{key} = {word}: {e}"))
    }

    /// A boolean of the configuration.
    ///
    /// # Errors
    /// See [`TrialSpec::float`].
    pub fn flag(&self, key: &str) -> anyhow::Result<bool> {
        self.typed(key, "true or false", Value::as_bool)
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        read: fn(&'a Value) -> Option<T>,
    ) -> anyhow::Result<T> {
        let trial = self.number;
        let Some(value) = self.config.get(key) else {
            anyhow::bail!("trial {trial}: no value for {key}");
        };
        read(value).with_context(|| format!("trial {trial}: {key} = {value}, expected {expected}"))
    }
}

/// Metric values of one epoch, by name.
pub type Metrics = BTreeMap<String, f64>;

/// The answer to a reported epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Train on.
    Continue,
    /// The pruner ended the trial; return [`Ended::Pruned`].
    Prune,
}

/// How a training came to its end by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum Ended {
    /// All epochs done, or stopped early by its own patience. The value is the best epoch's.
    Completed,
    /// Ended with a result of its own, which is no epoch's.
    Returned {
        /// By name, the objectives' among them, which are finite.
        #[serde(with = "messages::any_float")]
        metrics: Metrics,
    },
    /// Ended because the answer to a report was [`Decision::Prune`].
    Pruned,
    /// Loss or logits became NaN or infinite.
    Diverged {
        /// Where: epoch, step, what was not finite.
        at: String,
    },
}

/// The training loop's line to the supervisor.
pub trait Reporter {
    /// A training step was done; called at every step, it is cheap. The sign of life.
    fn step(&mut self);

    /// The whole training would take so many training steps, unless something ended it early; told
    /// once in a rehearsal, where the task knows.
    fn plan(&mut self, _steps: u64) {}

    /// An epoch (from 1) ended with these metrics, the objective's among them; waits for the
    /// answer.
    ///
    /// # Errors
    /// The supervisor is gone; return at once with this error.
    fn epoch(&mut self, epoch: u32, metrics: &Metrics) -> anyhow::Result<Decision>;

    /// The checkpoint to go on from; `None`: start from the beginning. A task that keeps
    /// checkpoints asks once, before its first step. Going on has to end with the result that an
    /// undisturbed training has.
    ///
    /// # Errors
    /// The supervisor is gone.
    fn resume(&mut self) -> anyhow::Result<Option<Checkpoint>> {
        Ok(None)
    }

    /// Keeps a checkpoint of the training as it is after the last reported epoch, if checkpoints
    /// are wanted: calls `write` with where the task's state goes. Where it cannot be kept, the
    /// training goes on without.
    fn keep(&mut self, _write: &mut dyn FnMut(&mut dyn std::io::Write) -> anyhow::Result<()>) {}

    /// Whether the weights of a training are wanted whose best epoch has this value of the objective.
    fn wants_weights(&self, _value: f64) -> bool {
        false
    }

    /// Keeps the weights of the training as they are after the last reported epoch; to be called
    /// where that epoch is the training's best so far and its `value` of the objective is good enough
    /// ([`Reporter::wants_weights`]), before [`Reporter::keep`]. `write` writes them as safetensors;
    /// `about` says what they are (they stand beside the weights). Where they cannot be kept, the
    /// training goes on without.
    fn keep_best(
        &mut self,
        _value: f64,
        _about: &serde_json::Map<String, serde_json::Value>,
        _write: &mut dyn FnMut(&mut dyn std::io::Write) -> anyhow::Result<()>,
    ) {
    }

    /// The trial's own directory, which outlives its attempts; `None`: checkpoints are not wanted.
    fn directory(&self) -> Option<&std::path::Path> {
        None
    }

    /// The training goes on after these epochs of an earlier attempt, for a task that finds out only
    /// after its start that it does.
    ///
    /// # Errors
    /// The supervisor is gone.
    fn go_on_after(&mut self, _epochs: &[Epoch]) -> anyhow::Result<()> {
        Ok(())
    }

    /// Tells whoever looks at the run something of the trial that its value may suffer from; the training goes on.
    fn warn(&mut self, _what: &str) {}

    /// What is trained keeps its state by itself in [`Reporter::directory`], so that another attempt may go on from it; told
    /// once, as soon as it is known.
    fn keeps_state(&mut self) {}

    /// The trial has printed something, or may have: keeps its log within its size.
    fn printed(&mut self) {}
}

/// What an earlier attempt of the same trial kept.
#[derive(Debug)]
pub struct Checkpoint {
    /// The epochs it had reported, in order; the training goes on after the last of them.
    pub epochs: Vec<Epoch>,
    /// The task's state, from its beginning.
    pub state: std::fs::File,
}

/// An opened task: runs trials one after the other in one process.
pub trait Task {
    /// Trains one trial. The result is a function of `trial` and the study alone: nothing that an
    /// earlier trial of this process left behind may change it.
    ///
    /// Where `trial.tests()`, each epoch that is the best so far reports the objective and other
    /// metrics of the test split as well, by the names of [`config::test_metric`]. In all other trainings
    /// the test split is not touched.
    ///
    /// # Errors
    /// An error of the task's own code or data, or a device's error.
    fn run(&mut self, trial: &TrialSpec, reporter: &mut dyn Reporter) -> anyhow::Result<Ended>;

    /// Does what a first trial would have to wait for, without a result: loads a device's kernels and
    /// fills caches that trials share. A spare worker's before it is ready. No trial's result may
    /// depend on it.
    ///
    /// # Errors
    /// As with [`Task::run`]; only a device that does not work any more is of consequence.
    fn warm_up(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Peak resident memory of the last trial in MiB, where it is not that of this process.
    fn peak_memory_mb(&self) -> Option<f64> {
        None
    }
}

/// The error of a trial whose program failed: its end is evidence.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ProgramFailed {
    /// How it ended.
    pub end: ProgramEnd,
    /// What is wrong, for people.
    pub message: String,
}
