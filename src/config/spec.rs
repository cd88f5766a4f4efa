//! The resolved configuration of a study and of one run of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::values::defaults;
use crate::kinds::keys_of;
use crate::{KeyType, Problem, Source};
use device::{Device, DevicePolicy};
use inject::InjectSpec;
use search::pruner::{Horizon, PrunerSpec};
use search::sampler::SamplerSpec;
use search::space::{Domain, Params, Space, Value};
use search::study::Direction;

/// What is optimised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// One of the task kind's metrics, or one of [`MEASURED`](super::objectives::MEASURED).
    pub metric: String,
    /// The direction.
    pub direction: Direction,
}

/// `minimize loss`.
impl std::fmt::Display for Objective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.direction, self.metric)
    }
}

/// How long an attempt may go without a sign of life before it counts as hung.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Deadline {
    /// For ever.
    Off,
    /// This long.
    Fixed(Duration),
    /// Learned from the run: `factor` times the longest recent silence of the same phase, within
    /// these bounds; `ceiling` while too little has been seen.
    Learned {
        /// Least deadline.
        floor: Duration,
        /// Greatest deadline.
        ceiling: Duration,
        /// Above 1.
        factor: f64,
    },
}

/// How workers are supervised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SupervisorPolicy {
    /// A worker is replaced after this many successful trials; 0 = never.
    pub recycle_after: u64,
    /// Longest time without a training step before an attempt counts as hung.
    pub deadline: Deadline,
    /// Longest time from a worker's start until it is ready (data loaded, caches empty).
    pub start_deadline: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// A process that lives on for this long after SIGKILL (it waits in the kernel) is given up.
    pub abandon_after: Duration,
    /// More deaths of one slot than this within `death_window` without a finished epoch trip the
    /// breaker.
    pub max_deaths: u32,
    /// See `max_deaths`.
    pub death_window: Duration,
    /// First pause before a worker that died is replaced; doubled at each death without progress.
    pub backoff: Duration,
    /// Longest such pause.
    pub max_backoff: Duration,
    /// This many FAIL trials in a row trip the breaker.
    pub max_failures: u64,
    /// This many refused trials in a row trip the breaker.
    pub max_refused: u64,
    /// How long to wait for a database that cannot be written before the run ends.
    pub storage_patience: Duration,
    /// Keep checkpoints, so that an interrupted trial goes on from its last epoch.
    pub checkpoint: bool,
}

/// How many trials run at a time at most. In records: `null`, `"auto"` or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Option<ParallelRecord>", into = "Option<ParallelRecord>")]
pub enum Parallel {
    /// Nothing was said: as many as fit on a GPU, one on the CPU.
    #[default]
    Unsaid,
    /// As many as fit.
    Auto,
    /// This many, as far as they fit.
    Limit(usize),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ParallelRecord {
    Limit(usize),
    Word(ParallelWord),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ParallelWord {
    Auto,
}

impl From<Option<ParallelRecord>> for Parallel {
    fn from(record: Option<ParallelRecord>) -> Parallel {
        match record {
            None => Parallel::Unsaid,
            Some(ParallelRecord::Limit(n)) => Parallel::Limit(n),
            Some(ParallelRecord::Word(ParallelWord::Auto)) => Parallel::Auto,
        }
    }
}

impl From<Parallel> for Option<ParallelRecord> {
    fn from(parallel: Parallel) -> Option<ParallelRecord> {
        match parallel {
            Parallel::Unsaid => None,
            Parallel::Limit(n) => Some(ParallelRecord::Limit(n)),
            Parallel::Auto => Some(ParallelRecord::Word(ParallelWord::Auto)),
        }
    }
}

/// As many trials share a GPU at most where memory alone decides: more slow each other down.
const SHARED: usize = 8;

impl Parallel {
    /// How many slots a run has on these devices with so many cores. At least 1.
    pub fn slots(self, devices: &[Device], cores: usize) -> usize {
        let gpus = devices.iter().filter(|d| **d != Device::Cpu).count();
        let slots = match self {
            Parallel::Limit(slots) => slots,
            Parallel::Unsaid if gpus == 0 => 1,
            Parallel::Unsaid | Parallel::Auto if gpus > 0 => cores.min(SHARED * gpus).max(gpus),
            Parallel::Unsaid | Parallel::Auto => cores,
        };
        slots.max(1)
    }
}

impl Operation {
    /// libtorch threads of a worker, of a run on these devices with so many cores. At least 1.
    pub fn worker_threads(&self, devices: &[Device], cores: usize) -> usize {
        // Two threads of different workers on one core slow each other down tenfold.
        let share = cores / self.parallel.slots(devices, cores);
        self.threads.unwrap_or(share.max(1))
    }
}

/// Whether a spare worker waits, ready, beside those of the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standby {
    /// On GPUs, while memory permits.
    #[default]
    Auto,
    /// On every device, while memory permits.
    On,
    /// Never.
    Off,
}

/// When the winner is scored on the test split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestPolicy {
    /// With repeats, where the task has a test split.
    #[default]
    Auto,
    /// Once: the first winner.
    On,
    /// Never.
    Off,
    /// Another winner, too, after the split has been used for one.
    Again,
}

/// Operational keys: they may change at any resume and are recorded per run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// The goal: COMPLETE + PRUNED trials that were started.
    pub trials: u64,
    /// Repeats of the last candidates once the goal is reached; 1: none.
    #[serde(default = "one")]
    pub repeats: u32,
    /// Whether the winner is scored on the test split.
    #[serde(default)]
    pub test: TestPolicy,
    /// The weights of so many best trials are kept.
    #[serde(default)]
    pub keep_best: usize,
    /// All kept weights of a study together, in bytes.
    #[serde(default)]
    pub max_kept_bytes: u64,
    /// Slots (upper limit).
    pub parallel: Parallel,
    /// The run ends (exit 3) after this time.
    pub timeout: Option<Duration>,
    /// All of it, repeats and the test included, is done by this time from the run's start, as far as can be planned.
    #[serde(default)]
    pub by: Option<Duration>,
    /// The machine is taken away after this time.
    #[serde(default)]
    pub leave_in: Option<Duration>,
    /// The database, where the configuration names it.
    #[serde(default)]
    pub storage: Option<String>,
    /// Directories of trackers that are told of the trials, by the name of the tracker's key below `track`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub track: BTreeMap<String, PathBuf>,
    /// On a server, a node that is not heard of for so long loses its trials.
    #[serde(default = "lease")]
    pub lease: Duration,
    /// The search ends once more trials would bring less than the seeds' noise, or than this share of what it has
    /// gained.
    #[serde(default)]
    pub until_flat: Option<f64>,
    /// Running trials have so long to end once the run is to stop; `None`: as long as trials take.
    #[serde(default)]
    pub grace: Option<Duration>,
    /// An attempt that runs for longer is ended, its trial PRUNED.
    #[serde(default)]
    pub trial_limit: Option<Duration>,
    /// Where to train.
    pub device: DevicePolicy,
    /// libtorch threads a worker; `None`: the cores divided among the slots.
    pub threads: Option<usize>,
    /// Supervision.
    pub supervisor: SupervisorPolicy,
    /// Part of a GPU's memory, above 0 and up to 1, that trials which run together may use.
    pub gpu_memory: f64,
    /// Part of it that a trial may use which has the GPU to itself; at least `gpu_memory`.
    #[serde(default = "nearly_all")]
    pub gpu_alone: f64,
    /// Part of the host's memory, above 0 and up to 1, that all workers together may use.
    #[serde(default = "most")]
    pub host_memory: f64,
    /// A batch that runs out of memory is halved: the same update is computed in parts.
    #[serde(default)]
    pub halve: bool,
    /// Operations that are computed on the CPU where a trial trains on a GPU, such as `aten::mm`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback_ops: Vec<String>,
    /// Whether a spare worker waits to take over.
    #[serde(default)]
    pub standby: Standby,
    /// A worker's log of one attempt is cut at this size, in bytes.
    pub max_log_bytes: u64,
    /// All logs of a study together, in bytes; the oldest are deleted.
    pub max_logs_bytes: u64,
    /// Sampler.
    pub sampler: SamplerSpec,
    /// Pruner.
    pub pruner: PrunerSpec,
    /// For this share of all epochs, trials that the pruner would end go on, to show whether it is right; 0: none does.
    #[serde(default)]
    pub audit: f64,
    /// Faults made on purpose; by a flag only, never by a file.
    pub inject: Option<InjectSpec>,
}

/// A study, resolved and checked: what its values depend on (everything outside `operation`), and
/// how this run of it is operated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StudySpec {
    /// The task's name: the configuration's file stem.
    pub task: String,
    /// The task kind.
    pub kind: String,
    /// The configuration file.
    pub file: PathBuf,
    /// The study's name.
    pub study: String,
    /// What is optimised; with several objectives the first, whose best epoch a trial is judged by.
    pub objective: Objective,
    /// Further objectives, see [`search::study::pareto`].
    #[serde(default)]
    pub further: Vec<Objective>,
    /// The study's seed.
    pub seed: u64,
    /// What is searched. `space.fixed` equals `fixed`.
    pub space: Space,
    /// Every key that the task kind declares and that is not searched, by dotted name, defaults
    /// filled in; keys without a value are absent. Paths are absolute.
    pub fixed: Params,
    /// Where the file, a flag or the environment gives a key its value, by dotted name; of entries of
    /// `[space]` and sections of the file, too. Of use where a study is resolved alone: it travels nowhere.
    #[serde(skip)]
    pub sources: BTreeMap<String, Source>,
    /// Lists of strings among the task kind's keys, by dotted name.
    #[serde(default)]
    pub lists: BTreeMap<String, Vec<String>>,
    /// Names of models to directories (absolute, `~` expanded). A name without an entry is a
    /// Hugging Face id in the local cache.
    pub models: BTreeMap<String, PathBuf>,
    /// Points tried first, in this order, after the point of the defaults; each a part of a point,
    /// the rest taken from the defaults.
    pub points: Vec<Params>,
    /// Operational keys.
    pub operation: Operation,
}

fn most() -> f64 {
    0.9
}

fn nearly_all() -> f64 {
    0.95
}

/// Runs recorded by earlier versions repeat nothing.
fn lease() -> Duration {
    Duration::from_secs(300)
}

fn one() -> u32 {
    1
}

impl StudySpec {
    /// All objectives, the first one first.
    pub fn objectives(&self) -> Vec<&Objective> {
        std::iter::once(&self.objective)
            .chain(&self.further)
            .collect()
    }

    /// Their metrics.
    pub fn metric_names(&self) -> Vec<&str> {
        let objectives = self.objectives().into_iter();
        objectives.map(|o| o.metric.as_str()).collect()
    }

    /// Their directions.
    pub fn directions(&self) -> Vec<Direction> {
        self.objectives().iter().map(|o| o.direction).collect()
    }

    /// A problem with a key of the configuration, where it has its value: else where its section begins.
    pub fn problem(
        &self,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Problem {
        let section = key.split('.').next().unwrap_or_default();
        let source = self.sources.get(key).or_else(|| self.sources.get(section));
        match source {
            Some(source) => Problem::new(source, key, found, expected),
            None => Problem::in_file(&self.file, key, found, expected),
        }
    }

    /// Everything a trial with these parameters is trained with: fixed keys, parameters, and the
    /// presets of the task kind for searched keys that are inactive in this trial.
    pub fn effective(&self, params: &Params) -> Params {
        let mut all = defaults(keys_of(&self.kind));
        all.extend(self.fixed.clone());
        all.extend(params.iter().map(|(k, v)| (k.clone(), v.clone())));
        all
    }

    /// The points of the parameters after training (`post.*`), the first key changing slowest: what a validation's
    /// outputs are scored at without training again. One without values where there are none.
    pub fn post(&self) -> Vec<Params> {
        let mut points = vec![Params::new()];
        for key in keys_of(&self.kind) {
            let (KeyType::Grid { .. }, Some(list)) = (key.ty, self.lists.get(key.name)) else {
                continue;
            };
            let values = list.iter().filter_map(|text| text.parse::<f64>().ok());
            let values: Vec<f64> = values.collect();
            let with = |point: &Params, value: f64| {
                let mut point = point.clone();
                point.insert(key.name.to_owned(), Value::Float(value));
                point
            };
            points = (points.iter())
                .flat_map(|point| values.iter().map(|value| with(point, *value)))
                .collect();
        }
        points
    }

    /// The points tried first, whole: the point of the defaults, where there are any, then the
    /// configured ones. The trial numbered `n` is the point at `n`.
    pub fn first_points(&self) -> Vec<Params> {
        let defaults = self.space.has_defaults().then(Params::new);
        let all = defaults.iter().chain(&self.points);
        all.map(|point| self.space.point(point)).collect()
    }

    /// Whether a worker needs libtorch to run trials on this device.
    pub fn needs_libtorch(&self, device: Device) -> bool {
        let Some(kind) = crate::kinds::kind(&self.kind) else {
            return false;
        };
        let makes_faults = || {
            let plan = self.operation.inject.as_ref().map(|inject| &inject.plan);
            plan.is_some_and(|plan| plan.kinds().iter().any(|kind| kind.needs_libtorch()))
        };
        kind.needs_libtorch || kind.in_process && (device != Device::Cpu || makes_faults())
    }

    /// Whether a trial is a program of the user's, and the worker only starts it.
    pub fn runs_programs(&self) -> bool {
        crate::kinds::kind(&self.kind).is_some_and(|kind| !kind.in_process)
    }

    /// What a pruner knows of the study beside its trials.
    pub fn horizon(&self) -> Horizon {
        Horizon {
            max_step: crate::kinds::kind(&self.kind).and_then(|kind| kind.last_epoch(self)),
            study: self.study.clone(),
        }
    }

    /// What is recorded of a run: the operational keys, and under `study` everything else.
    pub fn to_record(&self) -> serde_json::Value {
        let mut study = serde_json::to_value(self).unwrap_or_default();
        let mut record = study
            .as_object_mut()
            .and_then(|s| s.shift_remove("operation"))
            .unwrap_or_default();
        if let Some(record) = record.as_object_mut() {
            record.insert("study".into(), study);
        }
        record
    }

    /// What [`StudySpec::to_record`] made; `None` where it is not whole: an older version made it.
    pub fn from_record(record: &serde_json::Value) -> Option<StudySpec> {
        let mut operation = record.as_object()?.clone();
        let mut study = operation.shift_remove("study")?;
        study
            .as_object_mut()?
            .insert("operation".into(), operation.into());
        serde_json::from_value(study).ok()
    }

    /// Every value that `key` can have in a trial: its choices or the bounds of its range where it is
    /// searched, else its fixed value.
    pub fn possible(&self, key: &str) -> Vec<Value> {
        possible_values(&self.space, &self.fixed, key)
    }
}

/// Every value that `key` can have in a trial: its choices or the bounds of its range where it is
/// searched, else its fixed value.
pub(super) fn possible_values(space: &Space, fixed: &Params, key: &str) -> Vec<Value> {
    match space.find(key).map(|(_, p)| &p.domain) {
        Some(Domain::Categorical { choices }) => choices.clone(),
        Some(Domain::Float { low, high, .. }) => vec![(*low).into(), (*high).into()],
        Some(Domain::Int { low, high, .. }) => vec![(*low).into(), (*high).into()],
        None => fixed.get(key).cloned().into_iter().collect(),
    }
}
