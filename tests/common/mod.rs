//! A project directory of its own for each test, and the real binary run in it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm
)]
#![allow(dead_code)] // Each test file uses a part of this.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

pub mod card;
pub mod optuna;
pub mod postgres;
pub mod python;
pub mod tiny;

/// The program under test: beside the folder that this test is in.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("tune")
}

const ANSWERS: &str = include_str!("../../docs/schemas/answers.schema.json");

/// Validates what a command answers with `--json` against the definition of this name in the schema of answers.
pub fn valid(definition: &str, answer: &Json) {
    let mut schema: Json = serde_json::from_str(ANSWERS).unwrap();
    schema["$ref"] = format!("#/$defs/{definition}").into();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> = validator
        .iter_errors(answer)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{definition}: {wrong:#?}\n{answer:#}");
}

/// The library that it loads where a trial needs libtorch: the one that the environment names, else the one that is
/// built with the tests that train.
pub fn library() -> PathBuf {
    std::env::var_os("TUNE_TORCH_LIBRARY").map_or_else(
        || {
            std::env::current_exe()
                .unwrap()
                .with_file_name("libtune_torch.so")
        },
        PathBuf::from,
    )
}

/// A temporary project: `configs/` and whatever runs leave there.
pub struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    /// A project with the shipped `synthetic` configuration.
    pub fn synthetic() -> Project {
        let project = Project::empty();
        let shipped = Path::new(crate::ROOT).join("configs/synthetic.toml");
        std::fs::copy(shipped, project.path().join("configs/synthetic.toml")).unwrap();
        project
    }

    /// A project without any configuration.
    pub fn empty() -> Project {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("configs")).unwrap();
        Project { dir }
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Its database.
    pub fn database(&self) -> PathBuf {
        self.path().join("tune.db")
    }

    /// Writes `configs/NAME.toml`.
    pub fn config(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(format!("configs/{name}.toml")), text).unwrap();
    }

    /// `tune -C DIR ARGS`, on the CPU, with no environment of the caller's that it reads.
    pub fn tune(&self, args: &[&str]) -> Command {
        let mut command = Command::new(crate::common::program());
        command.arg("-C").arg(self.path()).args(args);
        command.env("TUNE_TORCH_LIBRARY", library());
        for name in [
            "TUNE_HOME",
            "TUNE_STORAGE",
            "TUNE_LOG",
            "RUST_LOG",
            "HPO_EPOCHS",
            "HPO_PATIENCE",
            "HPO_MIN_DELTA",
        ] {
            command.env_remove(name);
        }
        command
            .env_remove("HPO_MODEL_CHOICES")
            .env_remove("HPO_OUTDIR");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs to the end.
    pub fn run(&self, args: &[&str]) -> Output {
        self.tune(args).output().unwrap()
    }

    /// Runs to the end and requires this exit code; gives stdout and stderr.
    pub fn expect(&self, code: i32, args: &[&str]) -> (String, String) {
        let output = self.run(args);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            output.status.code(),
            Some(code),
            "tune {args:?}\nstdout:\n{stdout}\nstderr:\n{stderr}"
        );
        (stdout, stderr)
    }

    /// Starts a run in the background, its output thrown away.
    pub fn start(&self, args: &[&str]) -> Child {
        self.tune(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// `tune trials --json`.
    pub fn trials(&self, study: &str) -> Vec<Json> {
        let (stdout, _) = self.expect(0, &["trials", study, "--json"]);
        serde_json::from_str(&stdout).unwrap()
    }

    /// A connection to the database.
    pub fn connect(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.database()).unwrap()
    }

    /// Process ids of workers that live and were started for this project.
    pub fn workers(&self) -> Vec<u32> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
                continue;
            };
            let output = std::fs::read_link(entry.path().join("fd/2")).unwrap_or_default();
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if output.starts_with(self.path()) && line.ends_with(b"\0worker\0") {
                found.push(pid);
            }
        }
        found
    }
}

/// What must not depend on when a study was interrupted.
pub fn results(trials: &[Json]) -> Vec<Json> {
    trials
        .iter()
        .map(|t| {
            serde_json::json!({
                "number": t["number"], "state": t["state"], "value": t["value"],
                "params": t["params"], "intermediate": t["intermediate"],
                "seed": t["attrs"]["seed"], "best_epoch": t["attrs"]["best_epoch"],
            })
        })
        .collect()
}

/// Waits until `condition` holds, at most 30 s.
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < Duration::from_secs(120),
            "waited for {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The state of a process, its parent and its session; `None` where there is none.
pub fn stat(pid: u32) -> Option<(char, u32, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let state = fields[0].chars().next()?;
    Some((state, fields[1].parse().ok()?, fields[3].parse().ok()?))
}

/// Whether a process is there that has not ended.
pub fn lives(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _, _)| state != 'Z')
}

/// The guardian that this supervisor has now.
pub fn guardian(supervisor: u32) -> Option<u32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|pid| stat(*pid).is_some_and(|(state, up, _)| up == supervisor && state != 'Z'))
        .find(|pid| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .unwrap_or_default()
                .starts_with(b"tune guardian\0")
        })
}

/// Sends a signal.
pub fn signal(pid: u32, signal: nix::sys::signal::Signal) {
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), signal);
}
