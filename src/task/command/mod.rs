//! Task kind `command`: a trial is a run of any program.
//!
//! The program gets its parameters as arguments, as a JSON file and as environment variables. It
//! reports metrics as JSON lines, or prints its value, or both (`docs/command.md`). It runs in a
//! process group of its own, below a worker that passes its output to the attempt's log, its
//! metrics to the supervisor, and the pruner's answers to it.

mod attempt;
mod check;
mod follow;
mod lines;
mod number;
mod output;
mod place;
mod program;
mod reported;
mod result;
pub mod template;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use regex::Regex;
use signal_hook::consts::{SIGCHLD, SIGTERM};

use crate::{Ended, Preparation, Reporter, Task, TrialSpec};
use attempt::{Attempt, Progress};
use config::kinds::command::{self, BASELINE, DIR, FILES, KEYS, RESULT, RUN, VALUE};
use config::{Prepared, Problems, StudySpec, TaskKind};
use device::Device;
use device::DevicePolicy;
use files::plain;
use follow::Follow;
use output::Scanner;
use process::orphans;
use program::{Program, Reserved};
use reported::Reported;
use result::ResultInputs;
use search::space::{Params, Value};
use search::study::Purpose;

pub use output::without_colour;
pub use place::{is_script, named_files, own_files};

/// The kind.
pub struct Command;

impl Preparation for Command {
    fn kind(&self) -> &'static TaskKind {
        &command::KIND
    }

    fn prepare(&self, spec: &StudySpec) -> Result<Prepared, Problems> {
        check::prepare(spec, &search_path())
    }
}

/// Opens it in a worker.
///
/// # Errors
/// A handler or a pipe cannot be made.
pub fn open(spec: &StudySpec, device: Device) -> anyhow::Result<Box<dyn Task>> {
    let run = spec.lists.get(RUN).context("task.run is missing")?.clone();
    let dir = directory(spec);
    let pattern = text_key(spec, VALUE).map(str::to_owned);
    let idle = Arc::new(AtomicBool::new(true));
    orphans::adopt_orphans()?;
    // Between trials SIGTERM ends the worker as ever.
    signal_hook::flag::register_conditional_default(SIGTERM, Arc::clone(&idle))?;
    Ok(Box::new(Opened {
        run,
        dir,
        pattern,
        spec: spec.clone(),
        device,
        idle,
        signals: program::signal_pipe(SIGTERM)?,
        children: program::signal_pipe(SIGCHLD)?,
        reserved: Reserved::new()?,
        peak_memory_mb: None,
    }))
}

/// The program as a trial starts it, but outside of a study: with these values as arguments, as variables and as the
/// file `params.json` in `files`; it runs in `dir`.
///
/// # Errors
/// There is no such program, or the file cannot be written; for people.
pub fn once(
    spec: &StudySpec,
    values: &Params,
    dir: &Path,
    files: &Path,
) -> Result<std::process::Command, String> {
    let run = spec.lists.get(RUN).ok_or("task.run is missing")?;
    let values = parameters(&spec.effective(values));
    let mut command = std::process::Command::new(place::program(&run[0], dir, &search_path())?);
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", files.display());
    let params = files.join("params.json");
    let text = params_json(&values).map_err(|e| failed(&e))?;
    plain::write(&params, &text).map_err(|e| failed(&e))?;
    command
        .args(&template::fill(run, &values)[1..])
        .current_dir(dir)
        .env("TUNE_PARAMS_FILE", params)
        .env("TUNE_SEED", spec.seed.to_string())
        .env("PYTHONUNBUFFERED", "1");
    set_parameters(&mut command, &values);
    Ok(command)
}

/// An argument of the program that names a file of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowsArgument {
    /// Its place in `task.run`.
    pub at: usize,
    /// What stands before the file: `--data=`, or nothing.
    pub before: String,
    /// The file.
    pub file: PathBuf,
}

/// What the names of files of rows end with.
const ROWS: [&str; 4] = [".csv", ".tsv", ".jsonl", ".ndjson"];

/// The arguments that name a file of rows which is there, where a trial has this point.
pub fn rows_arguments(spec: &StudySpec, point: &Params) -> Vec<RowsArgument> {
    let values = parameters(&spec.effective(point));
    let dir = directory(spec);
    let run = spec.lists.get(RUN).map_or(&[][..], Vec::as_slice);
    let named = run.iter().enumerate().skip(1).filter_map(|(at, argument)| {
        // Alone, as one whose parameter is not active takes the one before it along.
        let filled = template::fill(std::slice::from_ref(argument), &values).pop()?;
        let (before, name) = match filled.split_once('=') {
            Some((option, name)) if option.starts_with('-') => (format!("{option}="), name),
            Some(_) | None => (String::new(), filled.as_str()),
        };
        let file = dir.join(name);
        let rows = ROWS.iter().any(|ending| name.ends_with(ending)) && file.is_file();
        rows.then_some(RowsArgument { at, before, file })
    });
    named.collect()
}

/// The value that a trial would find in lines that a program has printed; without a pattern as
/// `Scanner::value` does.
///
/// # Errors
/// What the trial would fail with: the pattern is none, or has captured no number, or a part of one.
pub fn value_in(
    pattern: Option<&str>,
    printed: &[String],
    objective: &str,
) -> Result<Option<f64>, String> {
    let pattern = pattern.map(Regex::new).transpose();
    let mut scanner = Scanner::new(pattern.map_err(|e| e.to_string())?);
    for line in printed {
        scanner.feed(line.as_bytes());
        scanner.feed(b"\n");
    }
    scanner.value(objective)
}

fn params_json(values: &Params) -> serde_json::Result<Vec<u8>> {
    let json: BTreeMap<&str, serde_json::Value> = values
        .iter()
        .map(|(k, v)| (k.as_str(), v.to_json()))
        .collect();
    serde_json::to_vec_pretty(&json)
}

/// Parameters as variables, and none of an outer trial's.
fn set_parameters(command: &mut std::process::Command, values: &Params) {
    for name in inherited() {
        command.env_remove(name);
    }
    for (name, value) in values {
        command.env(template::variable(name), template::text(value));
    }
}

fn search_path() -> OsString {
    // What a shell without PATH looks through.
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

fn text_key<'a>(spec: &'a StudySpec, key: &str) -> Option<&'a str> {
    spec.fixed.get(key).and_then(Value::as_str)
}

/// Where the program runs.
fn directory(spec: &StudySpec) -> PathBuf {
    match text_key(spec, DIR) {
        Some(dir) => PathBuf::from(dir),
        None => {
            let run = spec.lists.get(RUN).map_or(&[][..], Vec::as_slice);
            place::directory(&spec.file, run, Path::exists)
        }
    }
}

/// What a program is given: everything that is not the task's own.
fn parameters(config: &Params) -> Params {
    let own = |name: &str| KEYS.iter().any(|k| k.name == name);
    let given = config.iter().filter(|(name, _)| !own(name));
    given.map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// A worker that runs programs.
struct Opened {
    run: Vec<String>,
    dir: PathBuf,
    pattern: Option<String>,
    spec: StudySpec,
    device: Device,
    /// No program runs.
    idle: Arc<AtomicBool>,
    signals: OwnedFd,
    children: OwnedFd,
    reserved: Reserved,
    peak_memory_mb: Option<f64>,
}

impl Task for Opened {
    fn run(&mut self, trial: &TrialSpec, reporter: &mut dyn Reporter) -> anyhow::Result<Ended> {
        self.peak_memory_mb = None;
        let pattern = self.pattern.as_deref().map(Regex::new).transpose()?;
        let files = Files::make(reporter.directory(), trial.attempt)?;
        let values = parameters(&trial.config);
        plain::write(&files.params, &params_json(&values)?)
            .with_context(|| files.params.display().to_string())?;
        let metrics =
            Follow::create(&files.metrics).with_context(|| files.metrics.display().to_string())?;
        let program =
            place::program(&self.run[0], &self.dir, &search_path()).map_err(anyhow::Error::msg)?;
        let mut command = std::process::Command::new(&program);
        command
            .args(&template::fill(&self.run, &values)[1..])
            .current_dir(&self.dir);
        self.set_environment(&mut command, trial, &values, &files);
        let reported = reporter.directory().map(Reported::new);
        self.idle.store(false, Ordering::Relaxed);
        let program = Program::spawn(command, &mut self.reserved).with_context(|| {
            format!(
                "{} cannot be started in {}",
                program.display(),
                self.dir.display()
            )
        });
        let objective = &self.spec.objective.metric;
        let ended = program.map(|program| {
            let attempt = Attempt {
                program,
                reporter,
                signals: &self.signals,
                children: &self.children,
                metrics,
                prune_file: files.prune.clone(),
                earlier: reported.as_ref().map_or_else(Vec::new, Reported::earlier),
                checkpoints: reported.is_some().then(|| files.checkpoints.clone()),
                reported,
                grace: self.spec.operation.supervisor.grace,
                seen: ResultInputs {
                    objective: objective.clone(),
                    further: self.spec.further.iter().map(|o| o.metric.clone()).collect(),
                    pattern: self.pattern.clone(),
                    last_counts: text_key(&self.spec, RESULT) == Some("last"),
                    ..ResultInputs::default()
                },
                state: Progress::new(objective),
            };
            attempt.run(&mut Scanner::new(pattern))
        });
        self.idle.store(true, Ordering::Relaxed);
        let (ended, peak) = ended?;
        self.peak_memory_mb = Some(peak);
        ended
    }

    fn peak_memory_mb(&self) -> Option<f64> {
        self.peak_memory_mb
    }
}

impl Opened {
    /// What a program's environment has beyond the worker's, and lacks of it.
    fn set_environment(
        &self,
        command: &mut std::process::Command,
        trial: &TrialSpec,
        values: &Params,
        files: &Files,
    ) {
        set_parameters(command, values);
        command
            .env("TUNE_PARAMS_FILE", &files.params)
            .env("TUNE_METRICS_FD", self.reserved.number().to_string())
            .env("TUNE_METRICS_FILE", &files.metrics)
            .env("TUNE_PRUNE_FILE", &files.prune)
            .env("TUNE_CHECKPOINT_DIR", &files.checkpoints)
            .env("TUNE_STUDY", &self.spec.study)
            .env("TUNE_TRIAL", trial.number.to_string())
            .env("TUNE_ATTEMPT", trial.attempt.to_string())
            .env("TUNE_REPEAT", repeat(trial.purpose).to_string())
            .env("TUNE_SEED", trial.seed.to_string())
            .env("TUNE_DEVICE", self.device.to_string());
        let hide_gpus = self.spec.operation.device == DevicePolicy::Cpu;
        let ours = std::env::var("CUDA_VISIBLE_DEVICES").ok();
        if let Some(devices) = visible(self.device, hide_gpus, ours.as_deref()) {
            command.env("CUDA_VISIBLE_DEVICES", devices);
        }
        // What a program printed before it died is evidence, and a sign of life while it lives.
        if std::env::var_os("PYTHONUNBUFFERED").is_none() {
            command.env("PYTHONUNBUFFERED", "1");
        }
    }
}

/// Parameters of an outer trial: a program that runs `tune` itself would pass them on.
fn inherited() -> Vec<String> {
    std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with(template::PREFIX))
        .collect()
}

/// The value of `CUDA_VISIBLE_DEVICES` for a program on this device, where `ours` is the worker's;
/// `None` leaves it as it is.
fn visible(device: Device, hide: bool, ours: Option<&str>) -> Option<String> {
    match device {
        // Where no GPU was found, there may still be one of another kind.
        Device::Cpu => hide.then(String::new),
        Device::Cuda(_) => device.visible(ours),
    }
}

/// Which repeat of the trial this is; 0: the trial itself.
fn repeat(purpose: Purpose) -> u32 {
    match purpose {
        Purpose::Repeat(repeat) => repeat,
        Purpose::Search | Purpose::Test => 0,
    }
}

/// The files through which `tune` and a program talk.
struct Files {
    params: PathBuf,
    metrics: PathBuf,
    prune: PathBuf,
    /// The program's own, for all attempts of a trial that has a directory.
    checkpoints: PathBuf,
    /// Where the trial has no directory; deleted when this is dropped.
    _temporary: Option<tempfile::TempDir>,
}

impl Files {
    fn make(trial: Option<&Path>, attempt: u32) -> anyhow::Result<Files> {
        let (base, checkpoints, temporary) = match trial {
            Some(dir) => {
                let dir = std::path::absolute(dir)?;
                (
                    dir.join(format!("attempt-{attempt}")),
                    dir.join("files"),
                    None,
                )
            }
            // So that a program need not ask whether there are checkpoints.
            None => {
                let temporary = tempfile::tempdir().context("a temporary directory")?;
                let base = plain::real(temporary.path());
                (base.clone(), base.join("files"), Some(temporary))
            }
        };
        for dir in [&base, &checkpoints] {
            plain::make_dirs(dir).with_context(|| dir.display().to_string())?;
        }
        Ok(Files {
            params: base.join("params.json"),
            metrics: base.join("metrics.jsonl"),
            prune: base.join("prune"),
            checkpoints,
            _temporary: temporary,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_sees_one_gpu_or_none() {
        let of = |device, ours: Option<&str>| visible(device, false, ours);
        assert_eq!(of(Device::Cpu, None), None);
        assert_eq!(visible(Device::Cpu, true, None).as_deref(), Some(""));
        assert_eq!(of(Device::Cuda(2), None).as_deref(), Some("2"));
        assert_eq!(of(Device::Cuda(1), Some("4, 7")).as_deref(), Some("7"));
        assert_eq!(of(Device::Cuda(2), Some("4,7")), None);
    }

    #[test]
    fn the_tasks_own_keys_are_no_parameters() {
        let config = Params::from([(RESULT.into(), "best".into()), ("lr".into(), 0.1.into())]);
        assert_eq!(
            parameters(&config),
            Params::from([("lr".into(), 0.1.into())])
        );
    }
}
