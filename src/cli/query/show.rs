//! `tune show STUDY TRIAL`: all about one trial.

use std::path::PathBuf;

use serde_json::{Value as Json, json};

use super::choose;
use super::format;
use super::trials::{runtime, trial_json};
use adopt::fit::adopted_params;
use messages::exit::Failure;
use report::format::value;
use search::space::Domain;
use search::study::carry::{COPIED_FROM, POINT_FROM, origin};
use search::study::{FrozenTrial, Purpose};
use store::{AttemptRecord, RepeatRecord, Store, StudySummary};

/// One trial with its parameters, reports, attributes, attempts and logs, as text.
///
/// # Errors
/// No such study or trial (2); reading failed (7).
pub fn show(store: &Store, name: Option<&str>, number: u64) -> Result<String, Failure> {
    let (study, trial, attempts) = read(store, name, number)?;
    let mut out = format::facts(&head(&study, &trial));
    section(&mut out, "parameters", parameters(&trial));
    if let Some(adopted) = adopted_params(&trial) {
        let facts: Vec<_> = adopted
            .iter()
            .map(|(name, v)| (format::printable(name), format::value(v)))
            .collect();
        let heading = "parameters that its study cannot hold (adopted)";
        section(&mut out, heading, format::facts(&facts));
    }
    section(&mut out, "reports", reports(&trial));
    let attributes = |map: &serde_json::Map<String, Json>| {
        let facts: Vec<_> = map
            .iter()
            .map(|(k, v)| (format::printable(k), format::attribute(v)))
            .collect();
        format::facts(&facts)
    };
    section(&mut out, "attributes", attributes(&trial.user_attrs));
    section(
        &mut out,
        "system attributes",
        attributes(&trial.system_attrs),
    );
    for attempt in &attempts {
        let heading = format!("attempt {}", attempt.attempt);
        section(&mut out, &heading, attempt_text(store, attempt));
    }
    for repeat in store.repeats(study.study_id, Some(number))? {
        section(&mut out, &what(&repeat), repeat_text(store, &repeat));
    }
    Ok(out)
}

/// One trial as in `tune trials --json`, with its distributions, system attributes and the full
/// paths of its logs.
///
/// # Errors
/// See [`show`].
pub fn show_json(store: &Store, name: Option<&str>, number: u64) -> Result<Json, Failure> {
    let (study, trial, attempts) = read(store, name, number)?;
    let mut json = trial_json(&trial, &attempts);
    json["study"] = json!(study.name);
    json["distributions"] = json!(
        trial
            .distributions
            .iter()
            .map(|(name, domain)| (name.as_str(), domain_text(domain)))
            .collect::<std::collections::BTreeMap<_, _>>()
    );
    json["system_attrs"] = Json::Object(trial.system_attrs.clone());
    let repeats = store.repeats(study.study_id, Some(number))?;
    json["repeats"] = repeats.iter().map(|r| repeat_json(store, r)).collect();
    json["logs"] = attempts
        .iter()
        .map(|a| Json::from(log_path(store, a).display().to_string()))
        .collect();
    Ok(json)
}

/// A trial with its attempts.
///
/// # Errors
/// See [`show`].
pub fn read(
    store: &Store,
    name: Option<&str>,
    number: u64,
) -> Result<(StudySummary, FrozenTrial, Vec<AttemptRecord>), Failure> {
    let study = choose(store, name)?;
    let trial = store.trial(study.study_id, number)?.ok_or_else(|| {
        let total = study.counts.total();
        let has = match total.checked_sub(1) {
            Some(last) => format!("its trials are 0 to {last}"),
            None => "it has none yet".to_owned(),
        };
        Failure::input(format!(
            "study {:?} has no trial {number}; {has}",
            study.name
        ))
    })?;
    let attempts = store.attempts(study.study_id, number)?;
    Ok((study, trial, attempts))
}

fn head(study: &StudySummary, trial: &FrozenTrial) -> Vec<(&'static str, String)> {
    let values: Vec<String> = trial.values.iter().map(|v| value(*v)).collect();
    let mut facts = vec![
        ("study", format::printable(&study.name)),
        ("trial", trial.number.to_string()),
        ("state", trial.state.to_string()),
        (
            "value",
            if values.is_empty() {
                "none".to_owned()
            } else {
                values.join(", ")
            },
        ),
    ];
    for (word, key) in [("copied from", COPIED_FROM), ("point from", POINT_FROM)] {
        let origin = trial.user_attrs.get(key).and_then(origin);
        facts.extend(origin.map(|(study, number)| {
            (
                word,
                format!("trial {number} of {}", format::printable(&study)),
            )
        }));
    }
    let times = [
        ("started", &trial.datetime_start),
        ("ended", &trial.datetime_complete),
    ];
    for (word, stored) in times {
        facts.extend(stored.as_deref().map(|s| (word, format::time(s))));
    }
    facts.extend(runtime(trial).map(|s| ("took", format::duration(s))));
    facts
}

fn section(out: &mut String, heading: &str, body: String) {
    if body.is_empty() {
        return;
    }
    out.push_str(&format!("\n{heading}\n"));
    for line in body.lines() {
        out.push_str(&format!("  {line}\n"));
    }
}

fn parameters(trial: &FrozenTrial) -> String {
    let rows: Vec<Vec<String>> = trial
        .params
        .iter()
        .map(|(name, value)| {
            let domain = trial
                .distributions
                .get(name)
                .map_or_else(String::new, domain_text);
            vec![format::printable(name), format::value(value), domain]
        })
        .collect();
    report::format::table(&rows)
}

fn reports(trial: &FrozenTrial) -> String {
    let facts: Vec<(String, String)> = trial
        .intermediate
        .iter()
        .map(|(step, v)| (step.to_string(), value(*v)))
        .collect();
    format::facts(&facts)
}

fn attempt_text(store: &Store, attempt: &AttemptRecord) -> String {
    let outcome = attempt.outcome.as_deref().unwrap_or("not ended");
    let again = if attempt.again { ", then again" } else { "" };
    let mut facts = vec![
        ("outcome", format!("{}{again}", format::printable(outcome))),
        ("started", format::time(&attempt.started)),
    ];
    facts.extend(attempt.ended.as_deref().map(|s| ("ended", format::time(s))));
    facts.push((
        "worker",
        format!(
            "{} of run {}, pid {}",
            attempt.worker, attempt.run_id, attempt.pid
        ),
    ));
    facts.push(("device", attempt.device.clone()));
    facts.push(("log", log_path(store, attempt).display().to_string()));
    let mut text = format::facts(&facts);
    for line in attempt.detail.lines() {
        text.push_str(&format!("  {}\n", format::printable(line)));
    }
    text
}

/// `repeat 2`, `test`.
fn what(repeat: &RepeatRecord) -> String {
    match repeat.job.purpose {
        Purpose::Repeat(n) => format!("repeat {n}"),
        Purpose::Search | Purpose::Test => "test".to_owned(),
    }
}

fn repeat_text(store: &Store, repeat: &RepeatRecord) -> String {
    let mut facts = vec![("state".to_owned(), repeat.state.to_string())];
    facts.extend(repeat.value.map(|v| ("value".to_owned(), value(v))));
    facts.push(("seed".to_owned(), repeat.seed.to_string()));
    let attrs = repeat.attrs.iter();
    facts.extend(attrs.map(|(k, v)| (format::printable(k), format::attribute(v))));
    let mut text = format::facts(&facts);
    for attempt in &repeat.attempts {
        let told = attempt_text(store, attempt);
        text.push_str(&format!("attempt {}\n", attempt.attempt));
        told.lines()
            .for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    text
}

fn repeat_json(store: &Store, repeat: &RepeatRecord) -> Json {
    let logs = repeat.attempts.iter().map(|a| log_path(store, a));
    let logs: Vec<String> = logs.map(|path| path.display().to_string()).collect();
    json!({
        "what": what(repeat), "state": repeat.state, "value": repeat.value, "seed": repeat.seed,
        "attrs": repeat.attrs, "attempts": repeat.attempts.len(), "logs": logs,
    })
}

/// Logs lie beside the database, in `tune.db.d/`.
fn log_path(store: &Store, attempt: &AttemptRecord) -> PathBuf {
    let mut directory = store.path().as_os_str().to_owned();
    directory.push(".d");
    PathBuf::from(directory).join(&attempt.log)
}

fn domain_text(domain: &Domain) -> String {
    let scale = |log: bool| if log { ", log" } else { "" };
    match domain {
        Domain::Float {
            low,
            high,
            log,
            step,
        } => {
            let step = step.map_or_else(String::new, |s| format!(", step {s}"));
            format!("{low:?} to {high:?}{step}{}", scale(*log))
        }
        Domain::Int {
            low,
            high,
            log,
            step,
        } => {
            let step = if *step == 1 {
                String::new()
            } else {
                format!(", step {step}")
            };
            format!("{low} to {high}{step}{}", scale(*log))
        }
        Domain::Categorical { choices } => {
            let choices: Vec<String> = choices.iter().map(format::value).collect();
            format!("one of {}", choices.join(", "))
        }
    }
}
