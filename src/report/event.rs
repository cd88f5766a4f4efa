//! What happened, as one enum: the terminal, plain lines and `--json` are all fed from it.

use serde_json::{Map, Value as Json};

use super::Chosen;
use config::Baseline;
use config::Objective;
use protocol::AttemptId;
use search::space::Params;
use search::study::carry::Carried;
use search::study::selection::Selection;
use search::study::{Direction, Job, TrialState};
use task::Metrics;

/// Counts of a study's trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
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
}

/// The best trial so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// Its number.
    pub number: u64,
    /// Its value; of several objectives the first one's.
    pub value: f64,
    /// One value an objective.
    pub values: Vec<f64>,
    /// Its parameters; those that its study cannot hold, where it was adopted and has no others.
    pub params: Params,
    /// Whether these are parameters that its study cannot hold.
    pub adopted: bool,
}

/// What a new study was made from.
#[derive(Debug, Clone, PartialEq)]
pub struct Fork {
    /// `--fork` or `--from`.
    pub by: String,
    /// The earlier studies, the latest first.
    pub from: Vec<String>,
    /// How the latest one differs from what is asked; empty where nobody recorded what it was.
    pub differences: Vec<String>,
    /// What became of its trials.
    pub carried: Carried,
}

/// An event of a run; names are past tense, as in the contract.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The run began.
    RunStarted {
        /// The goal.
        trials: u64,
        /// Slots.
        parallel: usize,
        /// Devices of the slots (`cpu`, `cuda:0`), without repetition.
        devices: Vec<String>,
        /// Objective's metric; of several the first one's.
        metric: String,
        /// Direction.
        direction: Direction,
        /// Further objectives.
        further: Vec<Objective>,
        /// Baseline.
        baseline: Option<Baseline>,
        /// What the study already holds.
        counts: Counts,
        /// Trials that an earlier run left unfinished and that are run again.
        reclaimed: u64,
        /// Best so far; none with several objectives.
        best: Option<Best>,
        /// With several objectives: the trials that none dominates.
        front: Vec<Best>,
        /// Sampler's and pruner's names.
        sampler: String,
        /// Pruner's name.
        pruner: String,
        /// Faults made on purpose, as they were asked for.
        injected: Option<String>,
        /// The point of the defaults; empty where there is none. Not part of `--json`.
        defaults: Params,
    },
    /// A study was made with what fits of earlier ones; comes before `RunStarted`.
    StudyForked(Fork),
    /// A worker is ready.
    WorkerStarted {
        /// Worker number.
        worker: u64,
        /// Process id.
        pid: u32,
        /// Device.
        device: String,
    },
    /// An attempt was sent to a worker.
    TrialStarted {
        /// Trial number.
        number: u64,
        /// Attempt, from 0.
        attempt: u32,
        /// Worker.
        worker: u64,
        /// Parameters.
        params: Params,
    },
    /// A sign of life, a few times a second at most; not part of `--json`.
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
        value: f64,
        /// All metrics.
        metrics: Metrics,
    },
    /// A trial ended.
    TrialFinished {
        /// Trial number.
        number: u64,
        /// COMPLETE, PRUNED or FAIL.
        state: TrialState,
        /// The objective's value, if it has one; none with several objectives.
        value: Option<f64>,
        /// One value an objective, if it has any.
        values: Vec<f64>,
        /// Parameters.
        params: Params,
        /// User attributes.
        attrs: Map<String, Json>,
        /// Counts after it.
        counts: Counts,
    },
    /// An attempt at a repeat of a trial, or at the winner's test, was sent to a worker.
    RepeatStarted {
        /// What is trained.
        job: Job,
        /// Attempt, from 0.
        attempt: u32,
        /// Worker.
        worker: u64,
        /// Its seed.
        seed: u64,
        /// Parameters.
        params: Params,
    },
    /// A repeat, or the test, ended.
    RepeatFinished {
        /// What was trained.
        job: Job,
        /// COMPLETE; PRUNED or FAIL where it failed for good.
        state: TrialState,
        /// The objective's value, with the test that of the test split.
        value: Option<f64>,
        /// Its seed.
        seed: u64,
        /// Attributes by the names of a trial's.
        attrs: Map<String, Json>,
    },
    /// The winner by repeats is known.
    WinnerSelected {
        /// Who, and by what.
        selection: Box<Selection>,
        /// Finished trials then.
        trials: u64,
    },
    /// A fault was classified.
    Fault {
        /// Its word (`killed`, `hang`, ...).
        fault: String,
        /// The worker.
        worker: u64,
        /// The attempt it ended, if any.
        attempt: Option<AttemptId>,
        /// What is known.
        detail: String,
        /// What becomes of the trial: `again`, `suspect`, `pruned`, `fail`.
        verdict: String,
    },
    /// A worker is gone.
    WorkerStopped {
        /// Worker number.
        worker: u64,
        /// Why: `done`, `recycled`, or a fault's word.
        reason: String,
    },
    /// A trial is better than all before; with several objectives: none before dominates it.
    NewBest(Best),
    /// Something people should know: storage retries, a pause before a restart.
    Warned {
        /// One line.
        message: String,
    },
    /// The run ended.
    RunFinished {
        /// Exit code.
        exit: u8,
        /// Why, in words.
        reason: String,
        /// Counts.
        counts: Counts,
        /// Best; none with several objectives.
        best: Option<Best>,
        /// With several objectives: the trials that none dominates.
        front: Vec<Best>,
        /// Baseline.
        baseline: Option<Baseline>,
        /// The winner by repeats and the look at the test split.
        chosen: Box<Chosen>,
    },
}
