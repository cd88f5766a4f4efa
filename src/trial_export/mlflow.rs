//! MLflow's file store: a directory `mlruns` in which the study is an experiment and each trial a run. A file a
//! parameter, a metric and a tag; a metric's lines are `milliseconds value step`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use search::study::{FrozenTrial, TrialState};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::{Trials, milliseconds, plain, replace};

/// MLflow refuses longer values of parameters, in characters.
const PARAM: usize = 6000;

/// Longer values of tags.
const TAG: usize = 5000;

/// Longer names make no files.
const NAME: usize = 200;

/// Writes the store into an empty directory; `place` is where it will be: MLflow wants absolute addresses of artifacts.
///
/// # Errors
/// Writing failed.
pub fn mlflow(study: &Trials<'_>, dir: &Path, place: &Path) -> io::Result<()> {
    let experiment = Experiment::of(study.study, dir, place);
    let times = study.trials.iter();
    let times = times.flat_map(|t| [&t.datetime_start, &t.datetime_complete]);
    let times: Vec<i64> = times.filter_map(|t| milliseconds(t.as_deref())).collect();
    let first = times.iter().min().copied().unwrap_or(0);
    experiment.make(first, times.iter().max().copied().unwrap_or(0))?;
    for trial in study.trials {
        experiment.run(study, trial, Known::No)?;
    }
    Ok(())
}

/// Whether a run may be there already as it is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// It is written in any case.
    No,
    /// One that ended in the same way is left as it is.
    Perhaps,
}

/// A study in a store.
#[derive(Debug)]
pub(crate) struct Experiment {
    store: PathBuf,
    study: String,
    id: String,
    home: PathBuf,
    /// Where it will be, as an address.
    uri: String,
}

impl Experiment {
    /// `place` is where the store `dir` will be.
    pub(crate) fn of(study: &str, dir: &Path, place: &Path) -> Experiment {
        let id = experiment_id(study);
        Experiment {
            store: dir.to_owned(),
            study: study.to_owned(),
            home: dir.join(&id),
            uri: format!("file://{}", encoded(&place.join(&id))),
            id,
        }
    }

    /// Makes it, where it is not there. Times are milliseconds since 1970.
    pub(crate) fn make(&self, created: i64, updated: i64) -> io::Result<()> {
        let meta = self.home.join("meta.yaml");
        if meta.exists() {
            return Ok(());
        }
        // What MLflow makes where it finds a directory without one.
        fs::create_dir_all(self.store.join(".trash"))?;
        fs::create_dir_all(&self.home)?;
        let lines = [
            ("artifact_location", text(&self.uri)),
            ("creation_time", created.to_string()),
            ("experiment_id", text(&self.id)),
            ("last_update_time", updated.to_string()),
            ("lifecycle_stage", "active".to_owned()),
            ("name", text(&plain(&self.study, 500))),
        ];
        replace(&self.home, &meta, yaml(&lines).as_bytes())
    }

    /// Writes a trial's run, or writes it anew. Every file is whole whenever it is read, and that of the run itself comes
    /// last.
    pub(crate) fn run(
        &self,
        study: &Trials<'_>,
        trial: &FrozenTrial,
        known: Known,
    ) -> io::Result<()> {
        let id = run_id(study.study, trial.number);
        let dir = self.home.join(&id);
        let time = |stored: &Option<String>| milliseconds(stored.as_deref());
        let (start, end) = (time(&trial.datetime_start), time(&trial.datetime_complete));
        let (file, meta) = (dir.join("meta.yaml"), self.meta(trial, &id, start, end));
        let same = || fs::read_to_string(&file).is_ok_and(|there| there == meta);
        if known == Known::Perhaps && trial.state.finished() && same() {
            return Ok(());
        }
        for part in ["params", "metrics", "tags", "artifacts"] {
            fs::create_dir_all(dir.join(part))?;
        }
        let params = trial.params.iter();
        let params = params.map(|(name, value)| (name.clone(), plain(&value.to_string(), PARAM)));
        put(&dir, "params", params)?;
        let at = end.or(start).unwrap_or(0);
        put(&dir, "metrics", metrics(study, trial, at))?;
        put(&dir, "tags", tags(trial))?;
        replace(&dir, &file, meta.as_bytes())
    }

    fn meta(&self, trial: &FrozenTrial, id: &str, start: Option<i64>, end: Option<i64>) -> String {
        let or_null = |time: Option<i64>| time.map_or_else(|| "null".to_owned(), |t| t.to_string());
        yaml(&[
            (
                "artifact_uri",
                text(&format!("{}/{id}/artifacts", self.uri)),
            ),
            ("end_time", or_null(end)),
            ("entry_point_name", text("")),
            ("experiment_id", text(&self.id)),
            ("lifecycle_stage", "active".to_owned()),
            ("run_id", text(id)),
            ("run_name", text(&run_name(trial))),
            ("run_uuid", text(id)),
            ("source_name", text("tune")),
            ("source_type", "4".to_owned()),
            ("source_version", text("")),
            ("start_time", or_null(start)),
            ("status", status(trial.state).to_string()),
            ("tags", "[]".to_owned()),
            ("user_id", text("")),
        ])
    }
}

/// What people see of a trial's number.
pub(crate) fn run_name(trial: &FrozenTrial) -> String {
    format!("trial {}", trial.number)
}

/// Tags by name: ours, and the trial's attributes.
fn tags(trial: &FrozenTrial) -> impl Iterator<Item = (String, String)> {
    let attributes = trial.user_attrs.iter();
    let attributes = attributes.filter(|(name, _)| !name.starts_with("metric."));
    let attributes = attributes.map(|(name, json)| {
        let value = json
            .as_str()
            .map_or_else(|| json.to_string(), str::to_owned);
        (format!("tune.{name}"), plain(&value, TAG))
    });
    let own = [
        ("mlflow.runName", run_name(trial)),
        ("tune.number", trial.number.to_string()),
        ("tune.state", trial.state.to_string()),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value));
    own.into_iter().chain(attributes)
}

/// Metrics by name, as lines.
fn metrics(
    study: &Trials<'_>,
    trial: &FrozenTrial,
    at: i64,
) -> impl Iterator<Item = (String, String)> {
    let scalars = study.scalars(trial).into_iter();
    scalars.map(move |(name, steps)| {
        let lines = steps
            .into_iter()
            .map(|(step, value)| format!("{at} {} {step}\n", number(value)));
        (name, lines.collect())
    })
}

/// A file for each name in this part of a run. Of two that come to one file name, the second gets a number.
fn put(run: &Path, part: &str, files: impl Iterator<Item = (String, String)>) -> io::Result<()> {
    let mut taken = BTreeSet::new();
    for (name, content) in files {
        let wished = file_name(&name);
        let mut file = wished.clone();
        for n in 2.. {
            if taken.insert(file.clone()) {
                break;
            }
            file = format!("{wished}_{n}");
        }
        replace(run, &run.join(part).join(file), content.as_bytes())?;
    }
    Ok(())
}

/// A name that MLflow takes, and that is one part of a path: of ASCII letters, digits, `_`, `-`, `.`, `:` and spaces.
fn file_name(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.: ".contains(c);
    let name: String = name
        .chars()
        .map(|c| if allowed(c) { c } else { '_' })
        .take(NAME)
        .collect();
    match name.trim_matches('.').is_empty() {
        true => "_".repeat(name.len().max(1)),
        false => name,
    }
}

/// MLflow's `RunStatus`.
fn status(state: TrialState) -> u8 {
    match state {
        TrialState::Running => 1,
        TrialState::Waiting => 2,
        TrialState::Complete => 3,
        TrialState::Fail => 4,
        // Ended before its end.
        TrialState::Pruned => 5,
    }
}

/// A number as Python reads it.
fn number(x: f64) -> String {
    match x {
        x if x.is_nan() => "nan".to_owned(),
        f64::INFINITY => "inf".to_owned(),
        f64::NEG_INFINITY => "-inf".to_owned(),
        x => x.to_string(),
    }
}

fn yaml(lines: &[(&str, String)]) -> String {
    let mut out = String::new();
    for (key, value) in lines {
        let _ = writeln!(out, "{key}: {value}");
    }
    out
}

/// A text in YAML: a string of JSON is one.
fn text(text: &str) -> String {
    Json::from(plain(text, usize::MAX)).to_string()
}

/// A path in an address.
fn encoded(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut out = String::new();
    for byte in path.as_os_str().as_bytes() {
        match *byte {
            b if b.is_ascii_alphanumeric() || b"/-_.~".contains(&b) => out.push(char::from(b)),
            b => _ = write!(out, "%{b:02X}"),
        }
    }
    out
}

/// The same study has the same number wherever it is written: those of several exports can lie in one store.
fn experiment_id(study: &str) -> String {
    let digest = Sha256::digest(study.as_bytes());
    let first: [u8; 8] = std::array::from_fn(|i| digest[i]);
    (100_000_000_000_000_000 + u64::from_be_bytes(first) % 800_000_000_000_000_000).to_string()
}

/// The same trial has the same run wherever it is written: 32 hexadecimal digits.
pub(crate) fn run_id(study: &str, number: u64) -> String {
    let digest = Sha256::digest(format!("{number} {study}").as_bytes());
    digest.iter().take(16).fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}
