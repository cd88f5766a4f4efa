//! Studies for tests.

use std::path::Path;

use search::study::Direction;

use crate::{
    Input, Key, KeyType, Metric, Overrides, Preset, Problems, Role, StudySpec, TaskKind,
    resolve_text,
};

const fn key(name: &'static str, ty: KeyType, preset: Preset, role: Role) -> Key<'static> {
    Key {
        name,
        ty,
        preset,
        role,
        help: "a key",
        acts: &[],
    }
}
const fn float(name: &'static str, low: f64, high: f64) -> Key<'static> {
    key(
        name,
        KeyType::Float { low, high },
        Preset::Float(low),
        Role::Training,
    )
}
const fn int(name: &'static str, low: i64, high: i64) -> Key<'static> {
    key(
        name,
        KeyType::Int { low, high },
        Preset::Int(low),
        Role::Training,
    )
}
const fn word(name: &'static str, words: &'static [&'static str]) -> Key<'static> {
    key(
        name,
        KeyType::Choice(words),
        Preset::Text(words[0]),
        Role::Training,
    )
}

const KEYS: &[Key<'static>] = &[
    key("data.path", KeyType::Path, Preset::Optional, Role::Data),
    key("data.text", KeyType::Text, Preset::Text("text"), Role::Data),
    key(
        "data.text_pair",
        KeyType::Text,
        Preset::Optional,
        Role::Data,
    ),
    key(
        "data.label",
        KeyType::Text,
        Preset::Text("label"),
        Role::Data,
    ),
    key("data.group", KeyType::Text, Preset::Optional, Role::Data),
    key(
        "data.split.train",
        KeyType::Float {
            low: 0.0,
            high: 1.0,
        },
        Preset::Float(0.8),
        Role::Data,
    ),
    key(
        "data.split.validation",
        KeyType::Float {
            low: 0.0,
            high: 1.0,
        },
        Preset::Float(0.1),
        Role::Data,
    ),
    key(
        "data.split.test",
        KeyType::Float {
            low: 0.0,
            high: 1.0,
        },
        Preset::Float(0.1),
        Role::Data,
    ),
    key(
        "data.split.seed",
        KeyType::Int {
            low: 0,
            high: i64::MAX,
        },
        Preset::Int(0),
        Role::Data,
    ),
    key(
        "data.loaders",
        KeyType::Int { low: 0, high: 64 },
        Preset::Int(0),
        Role::Operational,
    ),
    float("task.step_ms", 0.0, 1e6),
    int("task.steps", 1, 1_000_000),
    float("task.noise", 0.0, 1e6),
    key(
        "train.epochs",
        KeyType::Int {
            low: 1,
            high: 10_000,
        },
        Preset::Required,
        Role::Training,
    ),
    int("train.patience", 0, 10_000),
    float("train.min_delta", 0.0, 1.0),
    int("train.batch_size", 1, 4096),
    int("train.grad_accum", 1, 1024),
    float("train.clip_grad", 0.0, 100.0),
    key(
        "train.grad_checkpointing",
        KeyType::Bool,
        Preset::Bool(false),
        Role::Training,
    ),
    int("train.freeze_encoder_layers", 0, 100),
    int("tok.max_length", 1, 8192),
    float("optim.lr", 1e-9, 10.0),
    float("optim.weight_decay", 0.0, 1.0),
    float("optim.beta1", 0.0, 1.0),
    float("optim.beta2", 0.0, 1.0),
    float("optim.eps", 0.0, 1.0),
    float("optim.momentum", 0.0, 1.0),
    float("optim.layerwise_lr_decay", 0.0, 1.0),
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
    float("sched.warmup_ratio", 0.0, 1.0),
    int("sched.cosine_cycles", 1, 100),
    float("sched.poly_power", 0.0, 10.0),
    key(
        "model.name",
        KeyType::Text,
        Preset::Optional,
        Role::Training,
    ),
    float("model.dropout", 0.0, 1.0),
    float("model.attn_dropout", 0.0, 1.0),
    int("model.layers", 1, 100),
    int("model.width", 1, 65_536),
    word("head.pooling", &["cls", "mean", "max", "attn"]),
    int("head.layers", 1, 16),
    int("head.hidden", 1, 65_536),
    word("head.activation", &["gelu", "relu", "silu"]),
    float("head.dropout", 0.0, 1.0),
    word("loss.cls.type", &["ce", "ce_label_smooth", "focal"]),
    float("loss.cls.label_smoothing", 0.0, 1.0),
    float("loss.cls.gamma", 0.0, 10.0),
    float("loss.cls.alpha", 0.0, 1.0),
    word("loss.cls.balance", &["none", "weighted", "effective_num"]),
];

/// A kind of task that declares the whole space of the field notes.
pub static WHOLE: TaskKind = TaskKind {
    name: "whole",
    keys: KEYS,
    metrics: &[
        Metric {
            name: "loss",
            direction: Direction::Minimize,
            range: None,
        },
        Metric {
            name: "macro_f1",
            direction: Direction::Maximize,
            range: Some((0.0, 1.0)),
        },
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

/// Resolves a file of the kind [`WHOLE`], with assignments as of `--set`.
///
/// # Errors
/// Every problem.
pub fn resolve_with(text: &str, sets: &[&str]) -> Result<StudySpec, Problems> {
    let mut overrides = Overrides::default();
    for set in sets {
        overrides.push_assignment(set).unwrap();
    }
    resolve_overrides(text, &overrides)
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
