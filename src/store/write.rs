//! What is written to a study. Writes are values: the supervisor's core decides them, the store
//! carries out a batch of them in one transaction.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use device::GpuMinute;
use memory::Entry;
use search::space::{Domain, Params};
use search::study::{AttemptId, Job, TrialState, derive_seed};
use std::collections::BTreeMap;

/// One write. A batch is one transaction: all of it is durable, or nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "write", rename_all = "snake_case")]
pub enum Write {
    /// A new trial, RUNNING. Fails the batch with a conflict unless `number` is the next one.
    TrialCreated {
        /// Number within the study.
        number: u64,
        /// The highest number that it may have instead, where others are faster: with their trials counted, a later one would
        /// be beyond the study's goal.
        #[serde(default)]
        last: u64,
        /// The lowest number whose trial was not known when this point was proposed: a trial from there on may be at
        /// the same point.
        #[serde(default)]
        since: u64,
        /// The study's seed, where the trial's own, which is among its user attributes, follows from it and the number.
        #[serde(default)]
        study_seed: Option<u64>,
        /// Parameters.
        params: Params,
        /// The distribution that held for each of them.
        distributions: BTreeMap<String, Domain>,
        /// User attributes (`seed`, ...).
        user_attrs: Map<String, Json>,
        /// System attributes (`sampler`).
        system_attrs: Map<String, Json>,
    },
    /// A WAITING trial becomes RUNNING, with these parameters. Conflict unless it is still WAITING.
    TrialClaimed {
        /// Number within the study.
        number: u64,
        /// Parameters.
        params: Params,
        /// The distribution that held for each of them.
        distributions: BTreeMap<String, Domain>,
        /// User attributes (`seed`, ...).
        user_attrs: Map<String, Json>,
    },
    /// A trial that is RUNNING, and that nobody holds any more, is taken over, as it was known: with another attempt to make
    /// next, somebody else has had it meanwhile.
    TrialReclaimed {
        /// Number within the study.
        number: u64,
        /// The attempt to make next.
        attempt: u32,
    },
    /// An attempt is about to be sent to a worker. At a trial, it forgets what an earlier attempt
    /// reported; the first one at a repeat, or at the test, of a COMPLETE trial makes the repeat.
    AttemptStarted {
        /// Which attempt.
        #[serde(flatten)]
        id: AttemptId,
        /// The training's seed.
        seed: u64,
        /// Worker, a number unique within the run.
        worker: u64,
        /// Process id of the worker.
        pid: u32,
        /// `cpu`, `cuda:0`.
        device: String,
        /// Path of the attempt's log, relative to `tune.db.d/`.
        log: String,
    },
    /// An epoch's value; not urgent: it may be delayed to the next batch.
    Reported {
        /// Trial number.
        number: u64,
        /// Epoch, from 1.
        step: i64,
        /// Value; may be infinite or NaN.
        #[serde(with = "messages::any_float")]
        value: f64,
    },
    /// An attempt has ended.
    #[serde(alias = "repeat_attempt_ended")]
    AttemptEnded {
        /// Which attempt.
        #[serde(flatten)]
        id: AttemptId,
        /// How.
        end: AttemptEnd,
    },
    /// A trial has ended; with PRUNED, Optuna's rule for the value applies: the last reported
    /// value that is not NaN is copied where `values` is empty.
    TrialFinished {
        /// Trial number.
        number: u64,
        /// COMPLETE, PRUNED or FAIL.
        state: TrialState,
        /// One value an objective; empty with FAIL.
        #[serde(with = "messages::any_float")]
        values: Vec<f64>,
        /// Merged into the user attributes.
        user_attrs: Map<String, Json>,
        /// Merged into the system attributes (`constraints:...`).
        system_attrs: Map<String, Json>,
    },
    /// A repeat has ended.
    RepeatFinished {
        /// Which repeat.
        #[serde(flatten)]
        job: Job,
        /// The repeat's seed.
        seed: u64,
        /// COMPLETE; PRUNED or FAIL where it failed for good.
        state: TrialState,
        /// The objective's value; finite. With the test: that of the test split.
        value: Option<f64>,
        /// What is known of it, by the names of a trial's user attributes.
        user_attrs: Map<String, Json>,
    },
    /// What an attempt used of memory.
    MemoryUsed {
        /// Which attempt.
        #[serde(flatten)]
        id: AttemptId,
        /// The ledger's line.
        entry: Box<Entry>,
    },
    /// Something about a trial that came out later, whatever state it is in.
    TrialNoted {
        /// Trial number.
        number: u64,
        /// Merged into the user attributes.
        user_attrs: Map<String, Json>,
    },
    /// Study attributes, merged.
    StudyAttributes {
        /// User attributes.
        user_attrs: Map<String, Json>,
    },
    /// What a GPU was at over the last minute of the run; not urgent.
    GpuSampled {
        /// Averages and peaks.
        minute: Box<GpuMinute>,
    },
    /// The run ended.
    RunEnded {
        /// Exit code.
        exit: u8,
    },
}

impl Write {
    /// One study attribute.
    pub fn study_attribute(name: &str, value: Json) -> Write {
        let user_attrs = Map::from_iter([(name.to_owned(), value)]);
        Write::StudyAttributes { user_attrs }
    }

    /// The trial, repeat or test that it concerns, if it concerns one.
    fn job(&self) -> Option<Job> {
        match self {
            Write::TrialCreated { number, .. }
            | Write::TrialClaimed { number, .. }
            | Write::TrialReclaimed { number, .. }
            | Write::Reported { number, .. }
            | Write::TrialFinished { number, .. }
            | Write::TrialNoted { number, .. } => Some(Job::trial(*number)),
            Write::AttemptStarted { id, .. }
            | Write::AttemptEnded { id, .. }
            | Write::MemoryUsed { id, .. } => Some(id.job()),
            Write::RepeatFinished { job, .. } => Some(*job),
            Write::StudyAttributes { .. } | Write::GpuSampled { .. } | Write::RunEnded { .. } => {
                None
            }
        }
    }

    /// The trial it concerns, if it concerns one.
    pub fn number(&self) -> Option<u64> {
        self.job().map(|job| job.number)
    }

    /// The repeat or test that it concerns, if it concerns one.
    pub fn repeat(&self) -> Option<Job> {
        self.job().filter(|job| !job.searches())
    }

    /// The same about the trial of another number, if it concerns one: with the log of an attempt by that number, and the seed of
    /// a new trial.
    pub fn under(&self, other: u64) -> Write {
        let mut write = self.clone();
        match &mut write {
            Write::TrialCreated {
                number,
                study_seed,
                user_attrs,
                ..
            } => {
                *number = other;
                if let (Some(study_seed), Some(seed)) = (study_seed, user_attrs.get_mut("seed")) {
                    *seed = derive_seed(*study_seed, other, "trial").into();
                }
            }
            Write::TrialClaimed { number, .. }
            | Write::TrialReclaimed { number, .. }
            | Write::Reported { number, .. }
            | Write::TrialFinished { number, .. }
            | Write::TrialNoted { number, .. } => *number = other,
            Write::AttemptStarted { id, log, .. } => {
                let stem = id.job().file_stem();
                id.number = other;
                // The study's name, which is part of the path, may hold anything.
                let name = log.rfind('/').map_or(0, |slash| slash + 1);
                let renamed = log[name..].replace(&stem, &id.job().file_stem());
                log.replace_range(name.., &renamed);
            }
            Write::AttemptEnded { id, .. } | Write::MemoryUsed { id, .. } => id.number = other,
            Write::RepeatFinished { job, .. } => job.number = other,
            Write::StudyAttributes { .. } | Write::GpuSampled { .. } | Write::RunEnded { .. } => {}
        }
        write
    }

    /// The trial that it makes run, if it does that.
    pub fn trial_started(&self) -> Option<u64> {
        if let Write::TrialCreated { number, .. }
        | Write::TrialClaimed { number, .. }
        | Write::TrialReclaimed { number, .. } = self
        {
            return Some(*number);
        }
        None
    }

    /// The attempt that it starts, if it does that.
    pub fn attempt_started(&self) -> Option<AttemptId> {
        if let Write::AttemptStarted { id, .. } = self {
            return Some(*id);
        }
        None
    }

    /// The trial or repeat that it ends, if it does that.
    pub fn job_ended(&self) -> Option<Job> {
        if let Write::TrialFinished { number, .. } = self {
            return Some(Job::trial(*number));
        }
        if let Write::RepeatFinished { job, .. } = self {
            return Some(*job);
        }
        None
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// `completed`, `pruned`, or a fault's word (`killed`, `panic`, `hang`, ...).
    pub outcome: String,
    /// What is known of a fault: text, signal, place. Empty without one.
    pub detail: String,
    /// Whether the same trial is run again.
    pub again: bool,
}

/// What a run was started with.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRecord {
    /// Process id.
    pub pid: u32,
    /// Host name.
    pub host: String,
    /// `tune`'s version.
    pub version: String,
    /// The command line.
    pub command: Vec<String>,
    /// Operational keys, as JSON, and under `study` the rest of the resolved configuration.
    pub operation: Json,
}

/// What a batch did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// Everything is durable.
    Done,
    /// Nothing was written: a trial's number is taken, or a WAITING trial was claimed by another
    /// program. Read the study's new trials and decide again.
    Conflict,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_trial_that_gets_another_number_has_that_number_s_seed() {
        let new = |study_seed| Write::TrialCreated {
            number: 3,
            last: 9,
            since: 3,
            study_seed,
            params: Params::new(),
            distributions: BTreeMap::new(),
            user_attrs: Map::from_iter([("seed".to_owned(), 1.into())]),
            system_attrs: Map::new(),
        };
        let seed = |write: Write| {
            let Write::TrialCreated {
                number, user_attrs, ..
            } = write
            else {
                panic!("{write:?}");
            };
            (number, user_attrs["seed"].as_u64())
        };
        let derived = derive_seed(7, 5, "trial");
        assert_eq!(seed(new(Some(7)).under(5)), (5, Some(derived)));
        assert_eq!(
            seed(new(None).under(5)),
            (5, Some(1)),
            "of a program's own choice"
        );
    }
}
