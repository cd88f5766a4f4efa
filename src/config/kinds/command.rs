//! `command`: what it reads.

use crate::{Key, KeyType, Preset, Role, TaskKind};

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

const fn key(
    name: &'static str,
    ty: KeyType,
    preset: Preset,
    role: Role,
    help: &'static str,
) -> Key<'static> {
    Key {
        name,
        ty,
        preset,
        role,
        help,
        acts: &[],
    }
}

/// What the kind itself reads; its parameters have any name.
#[rustfmt::skip]
pub const KEYS: [Key<'static>; 6] = [
    key(RUN, KeyType::List, Preset::Required, Role::Data, "the program and its arguments; {name} is replaced by a parameter's value"),
    key(DIR, KeyType::Path, Preset::Optional, Role::Operational, "where the program runs; default: the project directory, or this file's, where the script is"),
    key(VALUE, KeyType::Text, Preset::Optional, Role::Data, "a pattern whose first group is the value, in the last line of standard output that matches"),
    key(RESULT, KeyType::Choice(&["best", "last"]), Preset::Text("best"), Role::Data, "which of several reported steps gives the value"),
    key(FILES, KeyType::List, Preset::Optional, Role::Data, "files that values depend on, relative to dir: when one changes, the study is another one"),
    key(BASELINE, KeyType::Float { low: f64::NEG_INFINITY, high: f64::INFINITY }, Preset::Optional, Role::Operational, "the trivial answer's value, to compare the best one with"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_every_key() {
        let doc = include_str!("../../../docs/command.md");
        for key in KEYS {
            let preset = key
                .preset
                .value()
                .map_or(String::new(), |v| format!("`{v}`"));
            let row = format!("| `{}` | {preset} | {} |", key.name, key.help);
            assert!(doc.contains(&row), "docs/command.md lacks\n{row}");
        }
    }
}
