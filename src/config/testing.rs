//! Studies for tests.

use std::path::Path;
use std::time::Duration;

use device::DevicePolicy;
use search::pruner::PrunerSpec;
use search::sampler::SamplerSpec;
use search::space::Params;
use search::study::Direction;

use super::document::Document;
use super::settings::Settings;
use super::values::Base;
use crate::key::{Key, KeyType, Preset, data, float, int, operational, training};
use crate::{
    Deadline, Input, Metric, Operation, Overrides, Parallel, Problems, Source, StudySpec,
    SupervisorPolicy, TaskKind, assignment, resolve_text,
};

const fn number(name: &'static str, low: f64, high: f64) -> Key<'static> {
    training(name, float(low, high), Preset::Float(low))
}
const fn count(name: &'static str, low: i64, high: i64) -> Key<'static> {
    training(name, int(low, high), Preset::Int(low))
}
const fn word(name: &'static str, words: &'static [&'static str]) -> Key<'static> {
    training(name, KeyType::Choice(words), Preset::Text(words[0]))
}

const KEYS: &[Key] = &[
    data("data.path", KeyType::Path, Preset::Optional),
    data("data.text", KeyType::Text, Preset::Text("text")),
    data("data.text_pair", KeyType::Text, Preset::Optional),
    data("data.label", KeyType::Text, Preset::Text("label")),
    data("data.group", KeyType::Text, Preset::Optional),
    data("data.split.train", float(0.0, 1.0), Preset::Float(0.8)),
    data("data.split.validation", float(0.0, 1.0), Preset::Float(0.1)),
    data("data.split.test", float(0.0, 1.0), Preset::Float(0.1)),
    data("data.split.seed", int(0, i64::MAX), Preset::Int(0)),
    operational("data.loaders", int(0, 64), Preset::Int(0)),
    number("task.step_ms", 0.0, 1e6),
    count("task.steps", 1, 1_000_000),
    number("task.noise", 0.0, 1e6),
    training("train.epochs", int(1, 10_000), Preset::Required),
    count("train.patience", 0, 10_000),
    number("train.min_delta", 0.0, 1.0),
    count("train.batch_size", 1, 4096),
    count("train.grad_accum", 1, 1024),
    number("train.clip_grad", 0.0, 100.0),
    training(
        "train.grad_checkpointing",
        KeyType::Bool,
        Preset::Bool(false),
    ),
    count("train.freeze_encoder_layers", 0, 100),
    count("tok.max_length", 1, 8192),
    number("optim.lr", 1e-9, 10.0),
    number("optim.weight_decay", 0.0, 1.0),
    number("optim.beta1", 0.0, 1.0),
    number("optim.beta2", 0.0, 1.0),
    number("optim.eps", 0.0, 1.0),
    number("optim.momentum", 0.0, 1.0),
    number("optim.layerwise_lr_decay", 0.0, 1.0),
    word("optim.name", &["adam", "sgd", "rmsprop"]),
    word(
        "sched.name",
        &[
            "linear",
            "cosine",
            "cosine_restart",
            "polynomial",
            "one_cycle",
        ],
    ),
    number("sched.warmup_ratio", 0.0, 1.0),
    count("sched.cosine_cycles", 1, 100),
    number("sched.poly_power", 0.0, 10.0),
    training("model.name", KeyType::Text, Preset::Optional),
    number("model.dropout", 0.0, 1.0),
    number("model.attn_dropout", 0.0, 1.0),
    count("model.layers", 1, 100),
    count("model.width", 1, 65_536),
    word("head.pooling", &["cls", "mean", "max", "attn"]),
    count("head.layers", 1, 16),
    count("head.hidden", 1, 65_536),
    word("head.activation", &["gelu", "relu", "silu"]),
    number("head.dropout", 0.0, 1.0),
    word("loss.cls.type", &["ce", "ce_label_smooth", "focal"]),
    number("loss.cls.label_smoothing", 0.0, 1.0),
    number("loss.cls.gamma", 0.0, 10.0),
    number("loss.cls.alpha", 0.0, 1.0),
    word("loss.cls.balance", &["none", "weighted", "effective_num"]),
];

/// A kind of task that declares the whole space of the field notes.
pub static WHOLE: TaskKind = TaskKind {
    name: "whole",
    keys: KEYS,
    metrics: &[
        Metric::new("loss", Direction::Minimize),
        Metric::within("macro_f1", Direction::Maximize, 0.0, 1.0),
    ],
    presets: &[],
    folds: None,
    accepts_any_parameter: false,
    in_process: true,
    keeps_checkpoints: false,
    keeps_weights: false,
    halves_batches: false,
    needs_libtorch: false,
};

impl Operation {
    /// A run of `trials` trials on one slot of the CPU, with the defaults otherwise but for a fixed
    /// deadline, random sampling and no pruning.
    pub fn sample(trials: u64) -> Operation {
        let nothing = Document::default();
        let defaults = Settings::read(&nothing, Base::nowhere(), &mut Vec::new()).operation();
        Operation {
            trials,
            parallel: Parallel::Limit(1),
            device: DevicePolicy::Cpu,
            supervisor: SupervisorPolicy {
                deadline: Deadline::Fixed(Duration::from_secs(600)),
                ..defaults.supervisor
            },
            sampler: SamplerSpec {
                kind: "random".into(),
                options: Params::new(),
            },
            pruner: PrunerSpec {
                kind: "none".into(),
                options: Params::new(),
            },
            ..defaults
        }
    }
}

/// Resolves a file of the kind [`WHOLE`], with assignments as of `--set`.
///
/// # Errors
/// Every problem.
pub fn resolve_with(text: &str, sets: &[&str]) -> Result<StudySpec, Problems> {
    resolve_overrides(text, &assigned(sets))
}

/// Assignments as of `--set`.
pub fn assigned(sets: &[&str]) -> Overrides {
    let mut overrides = Overrides::default();
    for set in sets {
        let (key, value) = assignment(set).unwrap();
        overrides.push(key, value, Source::Flag(format!("--set {set}")));
    }
    overrides
}

/// The same with any overrides.
///
/// # Errors
/// Every problem.
pub fn resolve_overrides(text: &str, overrides: &Overrides) -> Result<StudySpec, Problems> {
    let input = Input {
        text,
        shown: Path::new("t.toml"),
        absolute: Path::new("/p/configs/t.toml"),
        home: Some(Path::new("/home/me")),
    };
    resolve_text(&input, overrides, &[&WHOLE])
}

/// The same of a file without problems.
pub fn good(text: &str, sets: &[&str]) -> StudySpec {
    resolve_with(text, sets).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The study of the field notes, with its whole space.
pub fn field_notes() -> StudySpec {
    good(include_str!("../../tests/data/field-notes-space.toml"), &[])
}
