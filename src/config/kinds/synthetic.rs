//! `synthetic`: what it reads and reports.

use search::study::Direction;

use crate::{Acts, Key, KeyType, Metric, Preset, Role, TaskKind};

const METRICS: [Metric; 3] = [
    Metric {
        name: "loss",
        direction: Direction::Minimize,
        // Noise can make it negative.
        range: None,
    },
    Metric {
        name: "accuracy",
        direction: Direction::Maximize,
        range: Some((0.0, 1.0)),
    },
    Metric {
        name: "cost",
        direction: Direction::Minimize,
        range: None,
    },
];

const fn float(
    name: &'static str,
    low: f64,
    high: f64,
    preset: f64,
    help: &'static str,
) -> Key<'static> {
    Key {
        name,
        ty: KeyType::Float { low, high },
        preset: Preset::Float(preset),
        role: Role::Training,
        help,
        acts: &[],
    }
}

const fn int(
    name: &'static str,
    low: i64,
    high: i64,
    preset: i64,
    help: &'static str,
) -> Key<'static> {
    Key {
        name,
        ty: KeyType::Int { low, high },
        preset: Preset::Int(preset),
        role: Role::Training,
        help,
        acts: &[],
    }
}

/// What trials read.
/// What trials read.
pub const KEYS: [Key<'static>; 12] = [
    Key {
        role: Role::Operational,
        ..float(
            "task.step_ms",
            0.0,
            1e6,
            0.0,
            "time a step takes, in milliseconds",
        )
    },
    Key {
        // Without it a study is what it was before there was this key.
        preset: Preset::Optional,
        ..int(
            "task.memory_mb",
            0,
            1_000_000,
            0,
            "memory that a trial holds while it runs, in MiB; default 0",
        )
    },
    int("task.steps", 1, 1_000_000, 1, "steps an epoch"),
    float(
        "task.noise",
        0.0,
        1e6,
        0.0,
        "standard deviation of the noise on the loss",
    ),
    int("train.epochs", 1, 1_000_000, 9, "epochs"),
    int(
        "train.patience",
        0,
        1_000_000,
        0,
        "epochs without improvement before stopping; 0: off",
    )
    .only_where(&[Acts::Beyond {
        key: "train.epochs",
        by: 2,
    }]),
    float(
        "train.min_delta",
        0.0,
        1e6,
        0.0,
        "least improvement that counts",
    )
    .only_where(&[Acts::AtLeast {
        key: "train.patience",
        least: 1,
    }]),
    float(
        "optim.lr",
        1e-8,
        10.0,
        1e-3,
        "learning rate; best 0.01, above 3 it diverges",
    ),
    float("optim.momentum", 0.0, 1.0, 0.9, "momentum; best 0.9"),
    Key {
        name: "optim.name",
        ty: KeyType::Choice(&["adam", "sgd", "rmsprop"]),
        preset: Preset::Text("adam"),
        role: Role::Training,
        help: "optimiser; best sgd",
        acts: &[],
    },
    int("model.layers", 1, 64, 2, "layers; best 4"),
    int("model.width", 1, 65_536, 64, "width of a layer; best 128"),
];

/// Task kind `synthetic`: a known function with learning curves.
pub static KIND: TaskKind = TaskKind {
    name: "synthetic",
    keys: &KEYS,
    metrics: &METRICS,
    presets: &[],
    folds: None,
    accepts_any_parameter: false,
    in_process: true,
    keeps_checkpoints: true,
    keeps_weights: false,
    halves_batches: false,
    needs_libtorch: false,
};
