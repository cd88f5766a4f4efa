//! What happened, as one enum: the terminal, plain lines and `--json` are all fed from it. What an event
//! is in JSON is derived; the names of its fields are those of the contract.

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value as Json};

use super::{Chosen, Fork, Selected};
use config::{Baseline, Objective};
use device::GpuMinute;
use fault::FailureGroup;
use messages::any_float;
use protocol::AttemptId;
use search::outlook::Outlook;
use search::space::Params;
use search::study::{FrozenTrial, Job, Purpose, TrialState};
use task::Metrics;

/// An event of a run; names are past tense, as in the contract.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The run began.
    RunStarted(Box<RunStarted>),
    /// A study was made with what fits of earlier ones; comes before `RunStarted`.
    StudyForked(Fork),
    /// A worker is ready.
    WorkerStarted {
        /// Worker number.
        worker: u64,
        /// Process id.
        pid: u32,
        /// `cpu`, `cuda:0`.
        device: String,
    },
    /// An attempt was sent to a worker.
    TrialStarted {
        /// Trial number.
        number: u64,
        /// Attempt, from 0.
        attempt: u32,
        /// Worker number.
        worker: u64,
        /// Parameters.
        params: Params,
    },
    /// A sign of life, a few times a second at most; not part of `--json`.
    #[serde(skip)]
    TrialStepped {
        /// Trial number.
        number: u64,
        /// Steps done in this attempt.
        steps: u64,
    },
    /// An epoch was finished.
    EpochFinished {
        /// Trial number.
        number: u64,
        /// From 1.
        epoch: u32,
        /// The objective's value.
        #[serde(with = "any_float")]
        value: f64,
        /// All metrics.
        #[serde(with = "any_float")]
        metrics: Metrics,
    },
    /// A trial ended.
    TrialFinished(TrialFinished),
    /// An attempt at a repeat of a trial, or at the winner's test, was sent to a worker.
    RepeatStarted {
        /// What is trained.
        #[serde(flatten, serialize_with = "job_fields")]
        job: Job,
        /// Attempt, from 0.
        attempt: u32,
        /// Worker number.
        worker: u64,
        /// The training's seed.
        seed: u64,
        /// Parameters.
        params: Params,
    },
    /// A repeat, or the test, ended.
    RepeatFinished(RepeatFinished),
    /// The winner by repeats is known.
    WinnerSelected(Box<Selected>),
    /// A fault was classified.
    Fault(Fault),
    /// A worker is gone.
    WorkerStopped {
        /// Worker number.
        worker: u64,
        /// `done`, `recycled`, or a fault's word.
        reason: String,
    },
    /// The run is to stop: nothing new is started, and what runs may come to its end.
    StopRequested(StopRequested),
    /// The search is over before its goal: no new trial is started, and repeats and the test follow.
    SearchEnded(SearchEnded),
    /// What a GPU was at in the last minute; not part of `--json`.
    #[serde(skip)]
    GpuSampled(Box<GpuMinute>),
    /// A trial is better than all before; with several objectives: none before dominates it.
    NewBest(Best),
    /// Something people should know: storage retries, a pause before a restart.
    Warned {
        /// One line.
        message: String,
    },
    /// The run ended.
    RunFinished(RunFinished),
}

impl Event {
    /// Whether it tells of what is under way: the end of that says it again.
    pub fn is_routine(&self) -> bool {
        super::routine_text(self).is_some()
    }
}

/// An event as a JSON object; `None` for events that are not part of `--json`.
pub fn event_json(event: &Event, time: Timestamp, study: &str) -> Option<Json> {
    // `{"trial_started": {"number": 3, ...}}`
    let Ok(Json::Object(named)) = serde_json::to_value(event) else {
        return None;
    };
    let (name, fields) = named.into_iter().next()?;
    let mut object = Map::new();
    object.insert("event".to_owned(), name.into());
    object.insert("time".to_owned(), time.to_string().into());
    object.insert("study".to_owned(), study.into());
    if let Json::Object(fields) = fields {
        object.extend(fields);
    }
    Some(Json::Object(object))
}

/// Counts of a study's trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// COMPLETE.
    pub complete: u64,
    /// PRUNED after having been started.
    pub pruned: u64,
    /// FAIL.
    pub fail: u64,
    /// PRUNED without having been started.
    pub infeasible: u64,
    /// RUNNING now.
    pub running: u64,
}

impl Counts {
    /// What counts towards `--trials`.
    pub fn finished(&self) -> u64 {
        self.complete + self.pruned
    }

    /// The count of the trials in a state, of those that count towards `--trials` or of the others; `None` of those that
    /// wait.
    pub fn of(&mut self, state: TrialState, counts: bool) -> Option<&mut u64> {
        match state {
            TrialState::Complete => Some(&mut self.complete),
            TrialState::Pruned if counts => Some(&mut self.pruned),
            TrialState::Pruned => Some(&mut self.infeasible),
            TrialState::Fail => Some(&mut self.fail),
            TrialState::Running => Some(&mut self.running),
            TrialState::Waiting => None,
        }
    }
}

/// The best trial so far, or one that no other dominates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Best {
    /// Its number.
    pub number: u64,
    /// Its value; none with several objectives.
    #[serde(with = "any_float")]
    pub value: Option<f64>,
    /// Its parameters.
    pub params: Params,
    /// One value an objective.
    #[serde(with = "any_float", skip_serializing_if = "not_several")]
    pub values: Vec<f64>,
    /// The parameters of an adopted trial, where its study cannot hold them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adopted_params: Option<Params>,
}

impl Best {
    /// What is told of a trial, with what `adopt` says of its parameters.
    pub fn new(trial: &FrozenTrial, adopted_params: Option<Params>) -> Best {
        Best {
            number: trial.number,
            value: trial.only_value(),
            params: trial.params.clone(),
            values: trial.values.clone(),
            adopted_params,
        }
    }

    /// The parameters that it was trained with.
    pub fn trained_with(&self) -> &Params {
        self.adopted_params.as_ref().unwrap_or(&self.params)
    }
}

fn not_several(values: &[f64]) -> bool {
    values.len() < 2
}

/// The run began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunStarted {
    /// The path of the database.
    pub database: String,
    /// The goal.
    pub trials: u64,
    /// Slots.
    pub parallel: usize,
    /// Devices of the slots (`cpu`, `cuda:0`), without repetition.
    pub devices: Vec<String>,
    /// What is optimised; of several objectives the first.
    #[serde(flatten)]
    pub objective: Objective,
    /// The trivial answer's value.
    pub baseline: Option<Baseline>,
    /// What the study already holds.
    pub counts: Counts,
    /// Trials that an earlier run left unfinished and that are run again.
    pub reclaimed: u64,
    /// Best so far; none with several objectives.
    pub best: Option<Best>,
    /// The sampler's name.
    pub sampler: String,
    /// The pruner's name.
    pub pruner: String,
    /// Faults made on purpose, as they were asked for.
    pub injected: Option<String>,
    /// All objectives, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<Objective>,
    /// With several objectives: the trials that none dominates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub front: Option<Vec<Best>>,
    /// The point of the defaults; empty where there is none. Not part of `--json`.
    #[serde(skip)]
    pub defaults: Params,
}

/// A trial ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialFinished {
    /// Trial number.
    pub number: u64,
    /// COMPLETE, PRUNED or FAIL.
    pub state: TrialState,
    /// The objective's value, if it has one; none with several objectives.
    #[serde(with = "any_float")]
    pub value: Option<f64>,
    /// Parameters.
    pub params: Params,
    /// User attributes.
    pub attrs: Map<String, Json>,
    /// Counts after it.
    pub counts: Counts,
    /// One value an objective, if it has any.
    #[serde(with = "any_float", skip_serializing_if = "not_several")]
    pub values: Vec<f64>,
    /// Whether it is the new best, or new on the front, of all trials of the study. Not part of `--json`: an event of its
    /// own says so.
    #[serde(skip)]
    pub leads: bool,
    /// The best trial then, whoever has run it, and its value; none with several objectives. Not part of `--json`.
    #[serde(skip)]
    pub best: Option<(u64, f64)>,
}

/// A repeat, or the test, ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepeatFinished {
    /// What was trained.
    #[serde(flatten, serialize_with = "job_fields")]
    pub job: Job,
    /// COMPLETE; PRUNED or FAIL where it failed for good.
    pub state: TrialState,
    /// The objective's value, with the test that of the test split.
    #[serde(with = "any_float")]
    pub value: Option<f64>,
    /// The training's seed.
    pub seed: u64,
    /// Attributes by the names of a trial's.
    pub attrs: Map<String, Json>,
}

/// A fault was classified.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fault {
    /// Its word (`killed`, `hang`, ...).
    pub fault: String,
    /// Worker number.
    pub worker: u64,
    /// The attempt it ended, if any.
    #[serde(flatten, serialize_with = "attempt_fields")]
    pub attempt: Option<AttemptId>,
    /// What is known.
    pub detail: String,
    /// What becomes of the trial: `again`, `suspect`, `pruned`, `fail`.
    pub verdict: String,
}

/// The run is to stop, and waits for what runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StopRequested {
    /// Why, in words.
    pub reason: String,
    /// What is waited for.
    #[serde(serialize_with = "all_job_fields")]
    pub waits_for: Vec<Job>,
    /// How long that will take, by what trials of the study took, in seconds; none: not known.
    pub expected_s: Option<f64>,
    /// What has not ended after this time is put back, in seconds.
    pub most_s: f64,
    /// Whether a signal asked for it, so that the next one is the second: for the line only.
    #[serde(skip)]
    pub by_signal: bool,
}

/// The search is over before its goal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchEnded {
    /// Why, in words.
    pub reason: String,
    /// What more trials would have brought, where that is why.
    pub outlook: Option<Outlook>,
}

/// The run ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunFinished {
    /// Exit code.
    pub exit: u8,
    /// Why, in words.
    pub reason: String,
    /// Counts at the end.
    pub counts: Counts,
    /// Best; none with several objectives.
    pub best: Option<Best>,
    /// With several objectives: the trials that none dominates, if there are any.
    pub front: Option<Vec<Best>>,
    /// The trivial answer's value.
    pub baseline: Option<Baseline>,
    /// Why trials of this run failed, the most frequent first.
    pub failures: Vec<FailureGroup>,
    /// Slots that were given up, and why.
    pub slots_given_up: Vec<SlotGivenUp>,
    /// The winner by repeats and the look at the test split.
    #[serde(flatten)]
    pub chosen: Box<Chosen>,
}

/// A slot that gets no more workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotGivenUp {
    /// Its number, from 0.
    pub slot: usize,
    /// Its device.
    pub device: String,
    /// Why, in words.
    pub reason: String,
}

/// What a training is named by.
#[derive(Serialize)]
struct JobFields {
    number: Option<u64>,
    purpose: Option<&'static str>,
    /// From 1.
    repeat: Option<u32>,
}

fn job_fields<S: Serializer>(job: &Job, serializer: S) -> Result<S::Ok, S::Error> {
    fields_of(Some(*job)).serialize(serializer)
}

fn all_job_fields<S: Serializer>(jobs: &[Job], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(jobs.iter().map(|job| fields_of(Some(*job))))
}

fn attempt_fields<S: Serializer>(
    attempt: &Option<AttemptId>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct AttemptFields {
        #[serde(flatten)]
        job: JobFields,
        attempt: Option<u32>,
    }
    let fields = AttemptFields {
        job: fields_of(attempt.map(AttemptId::job)),
        attempt: attempt.map(|a| a.attempt),
    };
    fields.serialize(serializer)
}

fn fields_of(job: Option<Job>) -> JobFields {
    let (purpose, repeat) = match job.map(|job| job.purpose) {
        Some(Purpose::Search) => (Some("search"), None),
        Some(Purpose::Repeat(repeat)) => (Some("repeat"), Some(repeat)),
        Some(Purpose::Test) => (Some("test"), None),
        None => (None, None),
    };
    JobFields {
        number: job.map(|job| job.number),
        purpose,
        repeat,
    }
}
