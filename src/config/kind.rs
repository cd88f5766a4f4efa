//! What a kind of task declares, and what is learnt of a study's data and models before it starts.

use serde::{Deserialize, Serialize};

use files::watched::WatchedFile;
use search::study::Direction;

use crate::{Key, StudySpec};

/// A metric that a task kind computes at each epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// Name, as in `objective.metric`.
    pub name: &'static str,
    /// Its natural direction.
    pub direction: Direction,
    /// Its least and greatest value (inclusive), where they are known.
    pub range: Option<(f64, f64)>,
}

impl Metric {
    /// A metric that may have any value.
    pub const fn new(name: &'static str, direction: Direction) -> Metric {
        let range = None;
        Metric {
            name,
            direction,
            range,
        }
    }

    /// A metric whose values lie between these.
    pub const fn within(name: &'static str, direction: Direction, low: f64, high: f64) -> Metric {
        let range = Some((low, high));
        Metric {
            name,
            direction,
            range,
        }
    }
}

/// The score of the trivial answer (for a classifier: always the majority class), on the same
/// validation split and by the same metric as the trials' values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// The objective's value.
    #[serde(with = "messages::any_float")]
    pub value: f64,
    /// What scores it, for people; may be empty: `always predicting class 0 of status`.
    #[serde(default)]
    pub what: String,
}

/// A part of the data that no trial is scored on: kept for the winner alone.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TestSplit {
    /// The trivial baseline on it.
    pub baseline: Option<Baseline>,
}

/// The name of a metric on the test split, among those of an epoch: `test.macro_f1`.
pub fn test_metric(name: &str) -> String {
    format!("test.{name}")
}

/// What the supervisor learns about a task's data and models before anything is started.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prepared {
    /// Hash of the data that values depend on; `None` for a task without data.
    pub data_fingerprint: Option<String>,
    /// Hash of the assignment of rows to splits.
    pub split_fingerprint: Option<String>,
    /// The trivial baseline.
    pub baseline: Option<Baseline>,
    /// The test split; `None`: there is none.
    pub test: Option<TestSplit>,
    /// What `tune check` shows: a heading (`data`, `split`, `model`) and a line.
    pub facts: Vec<(String, String)>,
    /// What people should know before they trust the values; shown by `tune check` and when a run
    /// starts.
    pub warnings: Vec<String>,
    /// Further things that values depend on, such as checkpoints: a dotted key and a hash. Part of
    /// the study's identity.
    pub fingerprints: Vec<(String, String)>,
    /// Files that trials or workers read anew, and whose content is part of the study's identity: a run ends where one changes.
    pub watched: Vec<WatchedFile>,
}

/// A kind of task, as configurations see it.
#[derive(Debug)]
pub struct TaskKind {
    /// The word in `task.kind`.
    pub name: &'static str,
    /// Every key that trials read, searched or fixed. A key that is not here is refused in
    /// configurations: no dead knobs.
    pub keys: &'static [Key<'static>],
    /// The metrics reported at each epoch; the first is the default objective. None of a kind that
    /// passes parameters on.
    pub metrics: &'static [Metric],
    /// Whether it passes parameters on without knowing them. `[space]`, `[params]` and `[train]` may
    /// then hold any name, and `objective.metric` any word.
    pub accepts_any_parameter: bool,
    /// Whether trials compute in the worker process itself, on its device.
    pub in_process: bool,
    /// `tune`'s own keys that have another default with this kind: name, and value as in a file.
    pub presets: &'static [(&'static str, &'static str)],
    /// The key whose value counts what trials report where it is above 1, in place of `train.epochs`.
    pub folds: Option<&'static str>,
    /// Whether its trainings keep checkpoints and go on from them.
    pub keeps_checkpoints: bool,
    /// Whether its trainings hand over weights that can be kept.
    pub keeps_weights: bool,
    /// Whether its trainings compute a batch in parts where they are told to;
    /// [`BATCH_SIZE`] is then the key of the batch size.
    pub halves_batches: bool,
    /// Whether trials need libtorch on every device; the others need it on GPUs alone.
    pub needs_libtorch: bool,
}

/// The keys that a kind declares, and those of `names` that it passes on without knowing them.
pub(super) fn with_passed_on<'a>(declared: &[Key<'a>], names: &'a [String]) -> Vec<Key<'a>> {
    let mut keys = declared.to_vec();
    for name in names {
        if !declared.iter().any(|key| key.name == name) {
            keys.push(Key::passed_on(name));
        }
    }
    keys
}

/// The key of the batch size.
pub const BATCH_SIZE: &str = "train.batch_size";

impl TaskKind {
    /// The last epoch that any trial of the study reports, unless something ends it early; `None`:
    /// unknown. It depends on the study's identity alone.
    pub fn last_epoch(&self, spec: &StudySpec) -> Option<u64> {
        let folds = self.folds.and_then(|key| greatest(spec, key));
        // A kind that passes parameters on may have it under its bare name.
        let bare = || greatest(spec, "epochs").filter(|_| self.accepts_any_parameter);
        (folds.filter(|folds| *folds > 1))
            .or_else(|| greatest(spec, "train.epochs"))
            .or_else(bare)
    }
}

/// The greatest value above 0 that an integer key can have.
fn greatest(spec: &StudySpec, key: &str) -> Option<u64> {
    let values = spec.possible(key).into_iter().filter_map(|v| v.as_i64());
    let greatest = values.max().and_then(|n| u64::try_from(n).ok());
    greatest.filter(|n| *n > 0)
}
