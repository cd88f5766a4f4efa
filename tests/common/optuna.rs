//! Real Optuna beside ours: each version lives in a virtual environment that `tests/optuna/venv.sh` makes once.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The versions to test with: those of `TUNE_OPTUNA_VERSIONS` (separated by spaces), else 5.0.0.
pub fn versions() -> Vec<String> {
    let given = std::env::var("TUNE_OPTUNA_VERSIONS").unwrap_or_default();
    let versions: Vec<String> = given.split_whitespace().map(str::to_owned).collect();
    match versions.is_empty() {
        true => vec!["5.0.0".to_owned()],
        false => versions,
    }
}

fn here() -> PathBuf {
    Path::new(crate::ROOT).join("tests/optuna")
}

/// A command that runs a script of `tests/optuna` with a version of Optuna. `kind` is what the environment has
/// besides, as `venv.sh` takes it.
pub fn script(version: &str, kind: &[&str], script: &str) -> Command {
    let mut venv = Command::new("sh");
    venv.arg(here().join("venv.sh")).arg(version).args(kind);
    let mut command = Command::new(printed(venv, version).trim());
    command
        .arg(here().join(script))
        .env("PYTHONWARNINGS", "ignore");
    command
}

/// What a command prints, which must end well; `what` names it where it does not.
pub fn printed(mut command: Command, what: &str) -> String {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "Optuna {what}: {}", error.trim());
    String::from_utf8(output.stdout).unwrap()
}
