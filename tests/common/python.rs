//! Python with packages: each environment is made once per machine by `tests/venv.sh`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::optuna::printed;

/// The interpreter of an environment with these packages; the modules, separated by commas, are imported once.
pub fn venv(name: &str, modules: &str, packages: &[&str]) -> PathBuf {
    let mut made = Command::new("sh");
    made.arg(Path::new(crate::ROOT).join("tests/venv.sh"));
    made.args([name, modules]).args(packages);
    PathBuf::from(printed(made, name).trim())
}

/// The programs that read what `tune` writes for others.
pub fn readers() -> PathBuf {
    venv(
        "exports-2",
        "mlflow,pandas,pyarrow,tensorboard,prometheus_client,wandb",
        &[
            "mlflow-skinny==3.17.2",
            "pandas==3.1.1",
            "pyarrow==26.0.1",
            "tensorboard==2.21.0",
            "prometheus-client==0.26.0",
            "wandb==0.31.0",
        ],
    )
}

/// What a Python program says, with these arguments.
pub fn said(python: &Path, program: &str, args: &[&Path]) -> String {
    let mut command = Command::new(python);
    command.args(["-W", "ignore", "-c", program]).args(args);
    printed(command, "a reader")
}
