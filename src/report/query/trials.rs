//! `tune trials`: all trials of a study as table, JSON and CSV.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json, json};

use super::choose;
use super::format::{self, rfc3339};
use crate::exit::Failure;
use crate::report::format::value as number;
use crate::report::{json_number, params_json};
use crate::store::{AttemptRecord, Store, to_python_json};
use crate::study::FrozenTrial;

type Attempts = BTreeMap<u64, Vec<AttemptRecord>>;

/// All trials as an array of objects in JSON, one a line.
///
/// # Errors
/// No such study (2); reading failed (7).
pub fn trials_json(store: &Store, name: Option<&str>) -> Result<String, Failure> {
    let (trials, attempts) = read(store, name)?;
    let mut out = String::from("[");
    for (i, trial) in trials.iter().enumerate() {
        let history = attempts.get(&trial.number).map_or(&[][..], Vec::as_slice);
        out.push_str(if i == 0 { "\n" } else { ",\n" });
        out.push_str(&trial_json(trial, history).to_string());
    }
    out.push_str("\n]\n");
    Ok(out)
}

/// All trials as CSV, one a row: number, state, value, times, a column a parameter, and the
/// attributes as JSON.
///
/// # Errors
/// See [`trials_json`].
pub fn trials_csv(store: &Store, name: Option<&str>) -> Result<String, Failure> {
    let (trials, _) = read(store, name)?;
    let names = parameter_names(&trials);
    let several = trials.iter().map(|t| t.values.len()).max().unwrap_or(0);
    let several = if several > 1 { several } else { 0 };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fixed = [
        "number",
        "state",
        "value",
        "datetime_start",
        "datetime_complete",
    ];
    let mut heading: Vec<String> = fixed.map(str::to_owned).to_vec();
    heading.extend((0..several).map(|i| format!("values.{i}")));
    heading.extend(names.iter().map(|name| format!("params.{name}")));
    heading.push("attrs".to_owned());
    let mut write = |record: &[String]| {
        writer
            .write_record(record)
            .map_err(|e| Failure::internal(format!("cannot write CSV: {e}")))
    };
    write(&heading)?;
    for trial in &trials {
        let time = |stored: &Option<String>| stored.as_deref().map_or_else(String::new, rfc3339);
        let mut record = vec![
            trial.number.to_string(),
            trial.state.to_string(),
            plain(&format::single_value(&trial.values)),
            time(&trial.datetime_start),
            time(&trial.datetime_complete),
        ];
        record.extend((0..several).map(|i| match trial.values.get(i) {
            Some(value) => plain(&json_number(*value)),
            None => String::new(),
        }));
        record.extend(names.iter().map(|name| match trial.params.get(*name) {
            Some(crate::space::Value::Null) => "null".to_owned(),
            Some(value) => plain(&value.to_json()),
            None => String::new(),
        }));
        record.push(Json::Object(trial.user_attrs.clone()).to_string());
        write(&record)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|e| Failure::internal(format!("cannot write CSV: {e}")))?;
    String::from_utf8(bytes).map_err(|e| Failure::internal(format!("cannot write CSV: {e}")))
}

/// All trials as a table for people.
///
/// # Errors
/// See [`trials_json`].
pub fn trials_table(store: &Store, name: Option<&str>) -> Result<String, Failure> {
    let (trials, attempts) = read(store, name)?;
    if trials.is_empty() {
        return Ok("no trials yet\n".to_owned());
    }
    let names = parameter_names(&trials);
    let fixed = ["trial", "state", "value", "time", "attempts"];
    let mut heading: Vec<String> = fixed.map(str::to_owned).to_vec();
    heading.extend(names.iter().map(|name| format::printable(name)));
    heading.push("fault".to_owned());
    let mut rows = vec![heading];
    for trial in &trials {
        let values: Vec<String> = trial.values.iter().map(|v| number(*v)).collect();
        let count = attempts.get(&trial.number).map_or(0, Vec::len);
        let mut row = vec![
            trial.number.to_string(),
            trial.state.to_string(),
            values.join(", "),
            runtime(trial).map_or_else(String::new, format::duration),
            if count == 0 {
                String::new()
            } else {
                count.to_string()
            },
        ];
        row.extend(names.iter().map(|name| {
            trial
                .params
                .get(*name)
                .map_or_else(String::new, format::value)
        }));
        row.push(
            trial
                .user_attrs
                .get("fault")
                .map_or_else(String::new, format::attribute),
        );
        rows.push(row);
    }
    Ok(format::table(&rows))
}

/// One trial as the contract has it. Changing it means changing docs/schemas/trials.schema.json.
pub(super) fn trial_json(trial: &FrozenTrial, attempts: &[AttemptRecord]) -> Json {
    let intermediate: Map<String, Json> = trial
        .intermediate
        .iter()
        .map(|(step, value)| (step.to_string(), json_number(*value)))
        .collect();
    let mut json = json!({
        "number": trial.number,
        "state": trial.state,
        "value": format::single_value(&trial.values),
        "params": params_json(&trial.params),
        "attrs": trial.user_attrs,
        "attempts": attempts.iter().map(attempt_json).collect::<Vec<_>>(),
        "datetime_start": trial.datetime_start.as_deref().map(rfc3339),
        "datetime_complete": trial.datetime_complete.as_deref().map(rfc3339),
        "intermediate": intermediate,
    });
    if let Some(values) = format::values(&trial.values) {
        json["values"] = values;
    }
    json
}

fn attempt_json(attempt: &AttemptRecord) -> Json {
    json!({
        "attempt": attempt.attempt,
        "outcome": attempt.outcome,
        "detail": attempt.detail,
        "again": attempt.again,
        "started": rfc3339(&attempt.started),
        "ended": attempt.ended.as_deref().map(rfc3339),
        "worker": attempt.worker,
        "pid": attempt.pid,
        "device": attempt.device,
        "log": attempt.log,
        "run": attempt.run_id,
    })
}

/// Seconds from a trial's start to its end.
pub(super) fn runtime(trial: &FrozenTrial) -> Option<f64> {
    format::seconds(
        trial.datetime_start.as_deref()?,
        trial.datetime_complete.as_deref()?,
    )
}

fn read(store: &Store, name: Option<&str>) -> Result<(Vec<FrozenTrial>, Attempts), Failure> {
    let study = choose(store, name)?;
    Ok((
        store.trials(study.study_id)?,
        store.all_attempts(study.study_id)?,
    ))
}

fn parameter_names(trials: &[FrozenTrial]) -> BTreeSet<&str> {
    trials
        .iter()
        .flat_map(|t| t.params.keys().map(String::as_str))
        .collect()
}

/// JSON as a cell: strings without quotes, nothing for null.
fn plain(json: &Json) -> String {
    match json {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => to_python_json(json),
    }
}
