//! `synthetic`: what it reads and reports.

use search::study::Direction;

use super::shared::{LONG_ENOUGH, MIN_DELTA, PATIENCE, WITH_PATIENCE};
use crate::key::{FRACTION, Key, KeyType, Preset, float, int, operational, training};
use crate::{Metric, TaskKind};

const METRICS: [Metric; 3] = [
    // Noise can make it negative.
    Metric::new("loss", Direction::Minimize),
    Metric::within("accuracy", Direction::Maximize, 0.0, 1.0),
    Metric::new("cost", Direction::Minimize),
];

/// What trials read.
pub const KEYS: [Key; 12] = [
    operational("task.step_ms", float(0.0, 1e6), Preset::Float(0.0))
        .help("time a step takes, in milliseconds"),
    // Without it a study is what it was before there was this key.
    training("task.memory_mb", int(0, 1_000_000), Preset::Optional)
        .help("memory that a trial holds while it runs, in MiB; default 0"),
    training("task.steps", int(1, 1_000_000), Preset::Int(1)).help("steps an epoch"),
    training("task.noise", float(0.0, 1e6), Preset::Float(0.0))
        .help("standard deviation of the noise on the loss"),
    training("train.epochs", int(1, 1_000_000), Preset::Int(9)).help("epochs"),
    training(PATIENCE, int(0, 1_000_000), Preset::Int(0))
        .help("epochs without improvement before stopping; 0: off")
        .only_where(LONG_ENOUGH),
    training(MIN_DELTA, float(0.0, 1e6), Preset::Float(0.0))
        .help("least improvement that counts")
        .only_where(WITH_PATIENCE),
    training("optim.lr", float(1e-8, 10.0), Preset::Float(1e-3))
        .help("learning rate; best 0.01, above 3 it diverges"),
    training("optim.momentum", FRACTION, Preset::Float(0.9)).help("momentum; best 0.9"),
    training(
        "optim.name",
        KeyType::Choice(&["adam", "sgd", "rmsprop"]),
        Preset::Text("adam"),
    )
    .help("optimiser; best sgd"),
    training("model.layers", int(1, 64), Preset::Int(2)).help("layers; best 4"),
    training("model.width", int(1, 65_536), Preset::Int(64)).help("width of a layer; best 128"),
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
