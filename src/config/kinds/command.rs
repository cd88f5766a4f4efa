//! `command`: what it reads.

use crate::TaskKind;
use crate::key::{Key, KeyType, Preset, data, float, operational};

/// The program and its arguments.
pub const RUN: &str = "task.run";
/// Where the program runs.
pub const DIR: &str = "task.dir";
/// How its value is found in what it prints.
pub const VALUE: &str = "task.value";
/// Which of several reported steps gives the value.
pub const RESULT: &str = "task.result";
/// Files that values depend on.
pub const FILES: &str = "task.files";
/// The trivial answer's value.
pub const BASELINE: &str = "task.baseline";

/// What the kind itself reads; its parameters have any name.
pub const KEYS: [Key; 6] = [
    data(RUN, KeyType::List, Preset::Required)
        .help("the program and its arguments; {name} is replaced by a parameter's value"),
    operational(DIR, KeyType::Path, Preset::Optional)
        .help("where the program runs; default: the project directory, or this file's, where the script is"),
    data(VALUE, KeyType::Text, Preset::Optional)
        .help("a pattern whose first group is the value, in the last line of standard output that matches"),
    data(RESULT, KeyType::Choice(&["best", "last"]), Preset::Text("best"))
        .help("which of several reported steps gives the value"),
    data(FILES, KeyType::List, Preset::Optional)
        .help("more files that values depend on than the script that run names, relative to dir: when one changes, the study is another one"),
    operational(BASELINE, float(f64::NEG_INFINITY, f64::INFINITY), Preset::Optional)
        .help("the trivial answer's value, to compare the best one with"),
];

/// Task kind `command`: any program as a trial.
pub static KIND: TaskKind = TaskKind {
    name: "command",
    keys: &KEYS,
    metrics: &[],
    // Many programs say nothing until they are done.
    presets: &[
        ("supervisor.checkpoint", "true"),
        ("supervisor.deadline_ceiling", "1h"),
    ],
    folds: None,
    accepts_any_parameter: true,
    in_process: false,
    keeps_checkpoints: true,
    keeps_weights: false,
    halves_batches: false,
    needs_libtorch: false,
};
