//! MLflow's file store: a directory `mlruns` in which the study is an experiment and each trial a run. A file a
//! parameter, a metric and a tag; a metric's lines are `milliseconds value step`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use search::study::{FrozenTrial, TrialState};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::{Trials, plain, seconds};

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
    let experiment = experiment_id(study.study);
    let home = dir.join(&experiment);
    let uri = format!("file://{}", encoded(&place.join(&experiment)));
    let times = study.trials.iter();
    let times = times.flat_map(|t| [&t.datetime_start, &t.datetime_complete]);
    let times: Vec<i64> = times.filter_map(|t| milliseconds(t.as_deref())).collect();
    let meta = [
        ("artifact_location", text(&uri)),
        (
            "creation_time",
            times.iter().min().map_or("0".to_owned(), i64::to_string),
        ),
        ("experiment_id", text(&experiment)),
        (
            "last_update_time",
            times.iter().max().map_or("0".to_owned(), i64::to_string),
        ),
        ("lifecycle_stage", "active".to_owned()),
        ("name", text(&plain(study.study, 500))),
    ];
    // What MLflow makes where it finds a directory without one.
    fs::create_dir_all(dir.join(".trash"))?;
    fs::create_dir_all(&home)?;
    fs::write(home.join("meta.yaml"), yaml(&meta))?;
    for trial in study.trials {
        let id = run_id(study.study, trial.number);
        run(study, trial, &home.join(&id), &experiment, &id, &uri)?;
    }
    Ok(())
}

fn run(
    study: &Trials<'_>,
    trial: &FrozenTrial,
    dir: &Path,
    experiment: &str,
    id: &str,
    uri: &str,
) -> io::Result<()> {
    let time = |stored: &Option<String>| milliseconds(stored.as_deref());
    let null = || "null".to_owned();
    let name = format!("trial {}", trial.number);
    let (start, end) = (time(&trial.datetime_start), time(&trial.datetime_complete));
    let meta = [
        ("artifact_uri", text(&format!("{uri}/{id}/artifacts"))),
        ("end_time", end.map_or_else(null, |t| t.to_string())),
        ("entry_point_name", text("")),
        ("experiment_id", text(experiment)),
        ("lifecycle_stage", "active".to_owned()),
        ("run_id", text(id)),
        ("run_name", text(&name)),
        ("run_uuid", text(id)),
        ("source_name", text("tune")),
        ("source_type", "4".to_owned()),
        ("source_version", text("")),
        ("start_time", start.map_or_else(null, |t| t.to_string())),
        ("status", status(trial.state).to_string()),
        ("tags", "[]".to_owned()),
        ("user_id", text("")),
    ];
    for part in ["params", "metrics", "tags", "artifacts"] {
        fs::create_dir_all(dir.join(part))?;
    }
    fs::write(dir.join("meta.yaml"), yaml(&meta))?;
    let params = trial.params.iter();
    let params = params.map(|(name, value)| (name.clone(), plain(&value.to_string(), PARAM)));
    put(&dir.join("params"), params)?;
    let at = end.or(start).unwrap_or(0);
    put(&dir.join("metrics"), metrics(study, trial, at))?;
    let tags = trial.user_attrs.iter();
    let tags = tags.filter(|(name, _)| !name.starts_with("metric."));
    let tags = tags.map(|(name, json)| {
        let value = json
            .as_str()
            .map_or_else(|| json.to_string(), str::to_owned);
        (format!("tune.{name}"), plain(&value, TAG))
    });
    let own = [
        ("mlflow.runName", name),
        ("tune.number", trial.number.to_string()),
        ("tune.state", trial.state.to_string()),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value));
    put(&dir.join("tags"), own.into_iter().chain(tags))
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

/// A file for each name. Of two that come to one file name, the second gets a number.
fn put(dir: &Path, files: impl Iterator<Item = (String, String)>) -> io::Result<()> {
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
        fs::write(dir.join(file), content)?;
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

fn milliseconds(stored: Option<&str>) -> Option<i64> {
    seconds(stored).map(|s| (s * 1e3).round() as i64)
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

fn run_id(study: &str, number: u64) -> String {
    let digest = Sha256::digest(format!("{number} {study}").as_bytes());
    digest.iter().take(16).fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}
