//! Ray Tune's directory of an experiment: a directory a trial, with its parameters (`params.json`), what it reported, a line of
//! JSON each time (`result.json`), and what it died of (`error.txt`). How it ended stands in the experiment's own state
//! (`experiment_state-*.json`): a function that returns leaves `"done": false` in its last report. Pickles beside them are not read.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value as Json;

use super::{Record, State, flattened};
use files::bounded;
use search::space::Value;

/// Longest file that is read, in bytes.
const LONGEST: u64 = 256 << 20;

/// So much is kept of the end of an error, in bytes.
const ERROR: usize = 4000;

/// Numbers that Ray adds to each report.
const OF_RAY: [&str; 8] = [
    "timestamp",
    "training_iteration",
    "time_this_iter_s",
    "time_total_s",
    "pid",
    "time_since_restore",
    "iterations_since_restore",
    "timesteps_total",
];

/// Reads all trials, in the order of their directories' names, which Ray numbers.
pub(super) fn read(dir: &Path) -> Result<Vec<Record>, String> {
    let unreadable = |e: io::Error| format!("cannot be read ({e})");
    let mut homes: Vec<PathBuf> = Vec::new();
    let mut states: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.join("params.json").is_file() {
            homes.push(path);
        } else if is_state(&path) {
            states.push(path);
        }
    }
    if homes.is_empty() {
        return Err(
            "no directory in it has a params.json; expected the directory of an experiment of Ray Tune's, in which each \
             trial has one"
                .to_owned(),
        );
    }
    homes.sort();
    // A continued experiment writes another one, whose name has a later time.
    let statuses = match states.iter().max() {
        Some(file) => statuses(file),
        None => BTreeMap::new(),
    };
    homes.iter().map(|home| trial(home, &statuses)).collect()
}

/// Whether this is what Ray calls an experiment's state.
fn is_state(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("experiment_state-") && name.ends_with(".json")
}

/// The status that the experiment has kept of each trial, by the name of its directory and by its id. What is not of Ray's form
/// tells nothing, and no more does a file that cannot be read: the trials themselves are there.
fn statuses(file: &Path) -> BTreeMap<String, String> {
    let mut statuses = BTreeMap::new();
    let text = match bounded::read_to_string(file, LONGEST) {
        Ok(text) => text,
        Err(error) => {
            tracing::warn!(
                "{}: cannot be read ({error}): trials whose own files do not say that they have ended count as still running",
                file.display()
            );
            return statuses;
        }
    };
    let state = parsed(&text).unwrap_or_default();
    // A trial is a text of JSON; newer versions have a pair, whose second text is of its reports. Before, these were "checkpoints".
    let trials = ["trial_data", "checkpoints"].map(|key| state[key].as_array());
    for trial in trials.into_iter().flatten().flatten() {
        let text = trial.as_str().or_else(|| trial[0].as_str());
        let trial = text.and_then(|text| parsed(text).ok()).unwrap_or_default();
        let Some(status) = trial["status"].as_str() else {
            continue;
        };
        for key in ["relative_logdir", "trial_id"] {
            if let Some(name) = trial[key].as_str() {
                statuses.insert(name.to_owned(), status.to_owned());
            }
        }
    }
    statuses
}

fn trial(home: &Path, statuses: &BTreeMap<String, String>) -> Result<Record, String> {
    let name = home
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let text = |file: &str| match bounded::read_to_string(&home.join(file), LONGEST) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|e| format!("{name}/{file}: cannot be read ({e})")),
    };
    let params = parsed(&text("params.json")?).map_err(|e| format!("{name}/params.json: {e}"))?;
    let value = |(name, json): (String, Json)| Some((name, Value::from_json(&json)?));
    let mut record = Record {
        params: flattened(&params).into_iter().filter_map(value).collect(),
        ..Record::default()
    };
    record.params.retain(|_, value| *value != Value::Null);
    let results = text("result.json")?;
    let mut done = false;
    let mut status = statuses.get(&name);
    let lines = results.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<&str> = lines.collect();
    for (at, line) in (1..).zip(&lines) {
        let report = match parsed(line) {
            Ok(report) => flattened(&report),
            // A program that was killed leaves half a line.
            Err(_) if at == lines.len() => break,
            Err(e) => return Err(format!("{name}/result.json: line {at}: {e}")),
        };
        done = report.get("done").and_then(Json::as_bool).unwrap_or(false);
        let id = report.get("trial_id").and_then(Json::as_str);
        status = status.or_else(|| statuses.get(id?));
        take(&mut record, &report);
    }
    let error = text("error.txt")?;
    let from = error.len().saturating_sub(ERROR);
    let from = (from..=error.len()).find(|at| error.is_char_boundary(*at));
    record.error = from
        .map(|from| error[from..].trim().to_owned())
        .filter(|e| !e.is_empty());
    done |= status.is_some_and(|status| status == "TERMINATED");
    let failed = record.error.is_some() || status.is_some_and(|status| status == "ERROR");
    record.state = match (done, failed) {
        (true, _) => State::Ended,
        (false, true) => State::Failed,
        (false, false) => State::Open,
    };
    if done {
        // It was tried again, and came to its end.
        record.error = None;
    }
    record.name = name;
    Ok(record)
}

/// Takes over what was reported once.
fn take(record: &mut Record, report: &BTreeMap<String, Json>) {
    let number = |name: &str| report.get(name).and_then(messages::number_from_json);
    let time = |seconds: f64| Timestamp::from_microsecond((seconds * 1e6) as i64).ok();
    if let Some(now) = number("timestamp") {
        record.end = time(now);
        let since = number("time_total_s").unwrap_or(0.0);
        record.start = record.start.or_else(|| time(now - since));
    }
    let step = number("training_iteration").unwrap_or(0.0) as i64;
    for (name, json) in report {
        let own = OF_RAY.contains(&name.as_str()) || name.starts_with("config.");
        if let Some(x) = messages::number_from_json(json).filter(|_| !own) {
            let curve = record.metrics.entry(name.clone()).or_default();
            curve.insert(step, x);
        }
    }
}

/// An object of JSON as Python writes it: with words for the numbers that JSON has none for.
fn parsed(line: &str) -> Result<Json, String> {
    let strict = serde_json::from_str(line);
    let json: Json = strict
        .or_else(|_| serde_json::from_str(&with_texts(line)))
        .map_err(|e| e.to_string())?;
    match json.is_object() {
        true => Ok(json),
        false => Err("expected names with values in braces".to_owned()),
    }
}

/// `NaN`, `Infinity` and `-Infinity` outside of texts become texts.
fn with_texts(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let (mut quoted, mut escaped) = (false, false);
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let word = ["NaN", "Infinity", "-Infinity"]
            .into_iter()
            .find(|w| rest.starts_with(w));
        if let Some(word) = word.filter(|_| !quoted) {
            out.extend(["\"", word, "\""]);
            rest = &rest[word.len()..];
            continue;
        }
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && c == '\\' && !escaped;
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_trials_ended_stands_in_the_experiment_s_state() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["f_0", "f_1", "f_2", "f_3"] {
            let home = dir.path().join(name);
            std::fs::create_dir(&home).unwrap();
            std::fs::write(home.join("params.json"), r#"{"lr": 0.5}"#).unwrap();
            let id = name.replace("f_", "id_");
            let report = format!(r#"{{"loss": 1.5, "done": false, "trial_id": "{id}"}}"#);
            std::fs::write(home.join("result.json"), report).unwrap();
        }
        // It was tried again after this.
        std::fs::write(dir.path().join("f_1/error.txt"), "an error").unwrap();
        let states = || {
            let trials = read(dir.path()).unwrap();
            trials.iter().map(|trial| trial.state).collect::<Vec<_>>()
        };
        use State::{Ended, Failed, Open};
        assert_eq!(states(), [Open, Failed, Open, Open]);
        let trial = |key: &str, name: &str, status: &str| {
            serde_json::json!([
                format!(r#"{{"{key}": "{name}", "status": "{status}", "x": NaN}}"#),
                "{}"
            ])
        };
        let write = |time: &str, data: Json| {
            let file = dir.path().join(format!("experiment_state-{time}.json"));
            let state = serde_json::json!({ "trial_data": data });
            std::fs::write(file, state.to_string()).unwrap();
        };
        write(
            "2026-11-30_16-00-00",
            serde_json::json!([
                trial("relative_logdir", "f_0", "TERMINATED"),
                trial("trial_id", "id_1", "TERMINATED"),
                trial("relative_logdir", "f_2", "ERROR"),
                trial("relative_logdir", "f_3", "RUNNING"),
            ]),
        );
        assert_eq!(states(), [Ended, Ended, Failed, Open]);
        // The latest one counts; what is none of Ray's tells nothing.
        write("2026-11-30_17-00-00", serde_json::json!([3, ["{"], "{}"]));
        assert_eq!(states(), [Open, Failed, Open, Open]);
        let older = r#"{"trial_id": "id_0", "status": "TERMINATED"}"#;
        let older = serde_json::json!({ "checkpoints": [older] });
        let file = dir.path().join("experiment_state-2026-11-30_18-00-00.json");
        std::fs::write(file, older.to_string()).unwrap();
        assert_eq!(states(), [Ended, Failed, Open, Open]);
        // One that cannot be read costs nothing but what it says.
        let file = "experiment_state-2026-11-30_19-00-00.json";
        std::fs::create_dir(dir.path().join(file)).unwrap();
        assert_eq!(states(), [Open, Failed, Open, Open]);
    }

    #[test]
    fn python_s_words_for_numbers_are_read() {
        let json = parsed(r#"{"a": NaN, "b": -Infinity, "c": "NaN \" Infinity", "d": [Infinity]}"#);
        let json = json.unwrap();
        assert_eq!(json["a"], "NaN");
        assert_eq!(json["b"], "-Infinity");
        assert_eq!(json["c"], "NaN \" Infinity");
        assert_eq!(json["d"][0], "Infinity");
        assert!(parsed("{\"a\": nan}").is_err());
        assert!(parsed("[1]").unwrap_err().contains("in braces"));
    }
}
