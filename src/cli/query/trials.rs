//! `tune trials`: the trials of a study as table, JSON and CSV.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value as Json};

use super::columns::{self, Width};
use super::format::{self, rfc3339, stored_field};
use super::objectives::Objectives;
use super::selection::{Selected, Selection};
use messages::any_float::{self, AnyFloat};
use messages::exit::Failure;
use messages::number_from_json;
use messages::to_python_json;
use search::space::{Params, distinct_names};
use search::study::{FrozenTrial, TrialState};
use store::{AttemptRecord, Members, RunNode, Store, StudySummary};

/// The trials that are asked for, as an array of objects in JSON, one a line.
///
/// # Errors
/// No such key (2); reading failed (7).
pub fn trials_json(
    store: &Store,
    study: &StudySummary,
    selection: &Selection,
) -> Result<String, Failure> {
    let order = order(store, study, selection)?;
    let trials = arranged(
        store.listing(study.study_id)?,
        |(t, _)| t.number,
        order.as_deref(),
    );
    let attempts = store.all_attempts(study.study_id)?;
    let nodes = store.run_nodes(study.study_id)?;
    let unwritten = |e| Failure::internal(format!("cannot write JSON: {e}"));
    let mut out = Vec::from(b"[");
    for (i, (trial, members)) in trials.iter().enumerate() {
        let history = attempts.get(&trial.number).map_or(&[][..], Vec::as_slice);
        out.extend_from_slice(if i == 0 { b"\n" } else { b",\n" });
        let attempts = history.iter().map(|a| AttemptJson::new(a, &nodes));
        write_trial(&mut out, trial, members, &attempts.collect::<Vec<_>>()).map_err(unwritten)?;
    }
    out.extend_from_slice(b"\n]\n");
    String::from_utf8(out).map_err(|e| Failure::internal(format!("cannot write JSON: {e}")))
}

/// The text of a [`TrialJson`], with what is JSON already.
fn write_trial(
    out: &mut Vec<u8>,
    trial: &FrozenTrial,
    members: &Members,
    attempts: &[AttemptJson],
) -> std::io::Result<()> {
    let value = trial.only_value().to_json();
    write!(
        out,
        "{{\"number\":{},\"state\":\"{}\",\"value\":{value},\"params\":{{",
        trial.number,
        trial.state.optuna()
    )?;
    out.extend_from_slice(&members.params);
    out.extend_from_slice(b"},\"attrs\":{");
    out.extend_from_slice(&members.attrs);
    out.extend_from_slice(b"},\"attempts\":");
    serde_json::to_writer(&mut *out, attempts)?;
    out.extend_from_slice(b",\"datetime_start\":");
    serde_json::to_writer(&mut *out, &trial.datetime_start.as_deref().map(rfc3339))?;
    out.extend_from_slice(b",\"datetime_complete\":");
    serde_json::to_writer(&mut *out, &trial.datetime_complete.as_deref().map(rfc3339))?;
    out.extend_from_slice(b",\"intermediate\":{");
    out.extend_from_slice(&members.intermediate);
    out.push(b'}');
    if trial.values.len() > 1 {
        write!(out, ",\"values\":{}", trial.values.to_json())?;
    }
    out.push(b'}');
    Ok(())
}

/// The numbers of the trials that are asked for, in order; `None`: all of them.
fn order(
    store: &Store,
    study: &StudySummary,
    selection: &Selection,
) -> Result<Option<Vec<u64>>, Failure> {
    if selection.is_everything() {
        return Ok(None);
    }
    let selected = selection.of(store, study)?;
    Ok(Some(selected.trials.iter().map(|t| t.number).collect()))
}

/// The items of these trials, in this order.
fn arranged<T>(items: Vec<T>, number: impl Fn(&T) -> u64, order: Option<&[u64]>) -> Vec<T> {
    let Some(order) = order else {
        return items;
    };
    let mut items: BTreeMap<u64, T> = items
        .into_iter()
        .map(|item| (number(&item), item))
        .collect();
    order
        .iter()
        .filter_map(|number| items.remove(number))
        .collect()
}

/// The trials that are asked for, as CSV, one a row: number, state, value, times, a column a parameter, and the
/// attributes as JSON; or the columns that are asked for.
///
/// # Errors
/// See [`trials_json`].
pub fn trials_csv(
    store: &Store,
    study: &StudySummary,
    selection: &Selection,
) -> Result<String, Failure> {
    if let Some(keys) = selection.chosen_columns() {
        return chosen_csv(&selection.of(store, study)?, &keys);
    }
    let order = order(store, study, selection)?;
    let trials = arranged(
        store.trials(study.study_id)?,
        |t| t.number,
        order.as_deref(),
    );
    let names = parameter_names(trials.iter().map(|t| &t.params));
    let several = trials.iter().map(|t| t.values.len()).max().unwrap_or(0);
    let several = if several > 1 { several } else { 0 };
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
    let mut rows = vec![heading];
    for trial in &trials {
        let time = |stored: &Option<String>| stored.as_deref().map_or_else(String::new, rfc3339);
        let mut record = vec![
            trial.number.to_string(),
            trial.state.to_string(),
            plain(&trial.only_value().to_json()),
            time(&trial.datetime_start),
            time(&trial.datetime_complete),
        ];
        record.extend((0..several).map(|i| match trial.values.get(i) {
            Some(value) => plain(&value.to_json()),
            None => String::new(),
        }));
        record.extend(names.iter().map(|name| match trial.params.get(name) {
            Some(search::space::Value::Null) => "null".to_owned(),
            Some(value) => plain(&value.to_json()),
            None => String::new(),
        }));
        record.push(Json::Object(trial.user_attrs.clone()).to_string());
        rows.push(record);
    }
    csv_of(rows)
}

/// The columns that are asked for, as CSV.
fn chosen_csv(selected: &Selected, heading: &[&str]) -> Result<String, Failure> {
    let keys = selected.columns.as_deref().unwrap_or_default();
    let heading: Vec<String> = heading.iter().map(ToString::to_string).collect();
    let mut rows = vec![heading];
    for trial in &selected.trials {
        let attempts = selected.attempts.get(&trial.number).copied();
        let cells = keys
            .iter()
            .map(|key| plain(&key.value(trial, attempts).unwrap_or_default()));
        rows.push(cells.collect());
    }
    csv_of(rows)
}

fn csv_of(rows: Vec<Vec<String>>) -> Result<String, Failure> {
    let unwritten = |e: String| Failure::internal(format!("cannot write CSV: {e}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer
            .write_record(row)
            .map_err(|e| unwritten(e.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|e| unwritten(e.to_string()))?;
    String::from_utf8(bytes).map_err(|e| unwritten(e.to_string()))
}

/// The trials that are asked for, as a table for people.
///
/// # Errors
/// See [`trials_json`].
pub fn trials_table(
    store: &Store,
    study: &StudySummary,
    selection: &Selection,
    width: Width,
) -> Result<String, Failure> {
    if study.counts.total() == 0 {
        return Ok("no trials yet\n".to_owned());
    }
    let selected = selection.of(store, study)?;
    Ok(columns::trials_table(
        &selected,
        &Objectives::of(study),
        width,
    ))
}

/// One trial as the contract has it. Changing it means changing [`trials_json`] and
/// docs/schemas/trials.schema.json.
#[derive(Serialize)]
pub(super) struct TrialJson<'a> {
    number: u64,
    state: TrialState,
    #[serde(with = "any_float")]
    value: Option<f64>,
    params: &'a Params,
    attrs: &'a Map<String, Json>,
    attempts: Vec<AttemptJson<'a>>,
    #[serde(serialize_with = "stored_field")]
    datetime_start: Option<String>,
    #[serde(serialize_with = "stored_field")]
    datetime_complete: Option<String>,
    #[serde(with = "any_float")]
    intermediate: BTreeMap<i64, f64>,
    #[serde(with = "any_float", skip_serializing_if = "Option::is_none")]
    values: Option<Vec<f64>>,
}

impl<'a> TrialJson<'a> {
    /// `nodes`: those of the runs.
    pub(super) fn new(
        trial: &'a FrozenTrial,
        attempts: &'a [AttemptRecord],
        nodes: &'a BTreeMap<i64, RunNode>,
    ) -> TrialJson<'a> {
        let attempts = attempts.iter().map(|a| AttemptJson::new(a, nodes));
        TrialJson {
            number: trial.number,
            state: trial.state,
            value: trial.only_value(),
            params: &trial.params,
            attrs: &trial.user_attrs,
            attempts: attempts.collect(),
            datetime_start: trial.datetime_start.clone(),
            datetime_complete: trial.datetime_complete.clone(),
            intermediate: trial.intermediate.clone(),
            values: Some(trial.values.clone()).filter(|values| values.len() > 1),
        }
    }
}

#[derive(Serialize)]
struct AttemptJson<'a> {
    attempt: u32,
    outcome: Option<&'a str>,
    detail: &'a str,
    again: bool,
    started: String,
    ended: Option<String>,
    worker: u64,
    pid: u32,
    device: &'a str,
    log: &'a str,
    run: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
}

impl<'a> AttemptJson<'a> {
    fn new(attempt: &'a AttemptRecord, nodes: &'a BTreeMap<i64, RunNode>) -> AttemptJson<'a> {
        AttemptJson {
            attempt: attempt.attempt,
            outcome: attempt.outcome.as_deref(),
            detail: &attempt.detail,
            again: attempt.again,
            started: rfc3339(&attempt.started),
            ended: attempt.ended.as_deref().map(rfc3339),
            worker: attempt.worker,
            pid: attempt.pid,
            device: &attempt.device,
            log: &attempt.log,
            run: attempt.run_id,
            node: nodes.get(&attempt.run_id).map(|node| node.name.as_str()),
        }
    }
}

/// The attribute that [`runtime`] reads.
pub(super) const RUNTIME: &str = "runtime_s";

/// Seconds that a trial has taken, by its own account; of a trial that has none, as of another program, those from its
/// start to its end. Between two attempts nobody may have run it for days.
pub(super) fn runtime(trial: &FrozenTrial) -> Option<f64> {
    let noted = trial.user_attrs.get(RUNTIME).and_then(number_from_json);
    noted.or_else(|| {
        format::seconds(
            trial.datetime_start.as_deref()?,
            trial.datetime_complete.as_deref()?,
        )
    })
}

/// The names of all parameters of some trials.
pub(super) fn parameter_names<'a>(all: impl Iterator<Item = &'a Params>) -> BTreeSet<String> {
    distinct_names(all.flat_map(Params::keys))
}

/// JSON as a cell: strings without quotes, nothing for null.
fn plain(json: &Json) -> String {
    match json {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => to_python_json(json),
    }
}
