//! Rows of trials and studies in Optuna's tables.
//!
//! SQLite gives the highest id again once its row is gone, and who deletes a row in SQLite's shell or a script deletes
//! nothing that refers to it: a new row would begin with the parameters, results and trials of the one before. So what
//! refers to the id of a new row is deleted first.

use std::collections::BTreeMap;
use std::ops::Range;

use rusqlite::types::ToSql;
use serde_json::{Map, Value as Json};

use super::StoreErrorKind as Kind;
use super::sql::{Args, Connection, upsert};
use messages::to_python_json;
use search::space::{Domain, Params, Value, distribution_to_json};
use search::study::{FrozenTrial, TrialState};

/// What Optuna's tables hold of a trial.
const OF_TRIAL: [&str; 6] = [
    "trial_params",
    "trial_values",
    "trial_intermediate_values",
    "trial_user_attributes",
    "trial_system_attributes",
    "trial_heartbeats",
];

/// What Optuna's tables hold of a study, but for its trials.
const OF_STUDY: [&str; 3] = [
    "study_directions",
    "study_user_attributes",
    "study_system_attributes",
];

/// The row of a new trial, with its state and times (naive UTC); gives its id, of which nothing else is known.
pub(super) fn new_trial(
    conn: &Connection,
    (study_id, number): (i64, u64),
    state: &str,
    (start, complete): (&dyn ToSql, &dyn ToSql),
) -> Result<i64, Kind> {
    let trial_id = conn.value(
        "INSERT INTO trials (number, study_id, state, datetime_start, datetime_complete)
         VALUES (?1, ?2, ?3, ?4, ?5) RETURNING trial_id",
        &[&number, &study_id, &state, &start, &complete],
    )?;
    if conn.gives_ids_again() {
        delete_left(conn, &OF_TRIAL, "trial_id", trial_id)?;
    }
    Ok(trial_id)
}

/// The row of a new study; gives its id, of which nothing else is known.
pub(super) fn new_study(conn: &Connection, name: &str) -> Result<i64, Kind> {
    let new = "INSERT INTO studies (study_name) VALUES (?1) RETURNING study_id";
    let study_id = conn.value(new, &[&name])?;
    if !conn.gives_ids_again() {
        return Ok(study_id);
    }
    let of_another = "SELECT trial_id FROM trials WHERE study_id = ?1";
    let trials: Vec<i64> = conn.rows(of_another, &[&study_id], |row| row.get(0))?;
    for trial_id in trials {
        delete_left(conn, &OF_TRIAL, "trial_id", trial_id)?;
    }
    delete_left(conn, &["trials"], "study_id", study_id)?;
    delete_left(conn, &OF_STUDY, "study_id", study_id)?;
    Ok(study_id)
}

/// Deletes a study and everything that refers to it; triggers delete our own rows with those of Optuna's tables.
pub(super) fn delete_rows(conn: &Connection, study_id: i64) -> Result<(), Kind> {
    for table in OF_TRIAL {
        let of_study = "SELECT trial_id FROM trials WHERE study_id = ?1";
        let delete = format!("DELETE FROM {table} WHERE trial_id IN ({of_study})");
        conn.execute(&delete, &[&study_id])?;
    }
    delete_left(conn, &["trials"], "study_id", study_id)?;
    delete_left(conn, &OF_STUDY, "study_id", study_id)?;
    delete_left(conn, &["studies"], "study_id", study_id)
}

fn delete_left(conn: &Connection, tables: &[&str], key: &str, id: i64) -> Result<(), Kind> {
    for table in tables {
        conn.execute(&format!("DELETE FROM {table} WHERE {key} = ?1"), &[&id])?;
    }
    Ok(())
}

/// Adds trials to a study, with all that they have but for their row ids and numbers, which count on from the highest.
/// Gives their numbers.
pub(super) fn add_trials(
    conn: &Connection,
    study_id: i64,
    objectives: usize,
    trials: &[FrozenTrial],
) -> Result<Range<u64>, Kind> {
    let first = next_number(conn, study_id)?;
    let numbers = first..first + trials.len() as u64;
    for (number, trial) in numbers.clone().zip(trials) {
        add_trial(conn, (study_id, number), objectives, trial)?;
    }
    Ok(numbers)
}

fn add_trial(
    conn: &Connection,
    (study_id, number): (i64, u64),
    objectives: usize,
    trial: &FrozenTrial,
) -> Result<(), Kind> {
    if trial.state == TrialState::Running {
        return Err(Kind::Invalid(format!(
            "trial {number} is still RUNNING and cannot be taken over"
        )));
    }
    check_values(number, trial.state, &trial.values, objectives)?;
    let times = (&trial.datetime_start as _, &trial.datetime_complete as _);
    let trial_id = new_trial(conn, (study_id, number), trial.state.optuna(), times)?;
    put_params(conn, trial_id, number, &trial.params, &trial.distributions)?;
    put_values(conn, trial_id, &trial.values)?;
    for (step, value) in &trial.intermediate {
        put_report(conn, trial_id, *step, *value)?;
    }
    put_attributes(conn, USER, trial_id, &trial.user_attrs)?;
    for (key, value) in &trial.system_attrs {
        // A string choice stays a string, even one that says NaN.
        let text = match key.as_str() {
            "fixed_params" => params_json(&trial.fixed_params()),
            _ => to_python_json(value),
        };
        put_attribute(conn, SYSTEM, trial_id, key, &text)?;
    }
    Ok(())
}

/// The number that the study's next trial gets.
pub(super) fn next_number(conn: &Connection, study_id: i64) -> Result<u64, Kind> {
    let next = "SELECT COALESCE(MAX(number), -1) + 1 FROM trials WHERE study_id = ?1";
    conn.value(next, &[&study_id])
}

/// Optuna's rules for the values of a trial that ends.
pub(super) fn check_values(
    number: u64,
    to: TrialState,
    values: &[f64],
    objectives: usize,
) -> Result<(), Kind> {
    let wrong = |what: &str| Err(Kind::Invalid(format!("trial {number}, {to}: {what}")));
    if values.iter().any(|v| v.is_nan()) {
        return wrong("NaN is no value");
    }
    let fits = match to {
        TrialState::Complete => values.len() == objectives,
        TrialState::Pruned => values.is_empty() || values.len() == objectives,
        TrialState::Fail | TrialState::Waiting | TrialState::Running => values.is_empty(),
    };
    if fits {
        Ok(())
    } else {
        wrong(&format!(
            "{} values for {objectives} objectives",
            values.len()
        ))
    }
}

/// Stores parameters with their distributions.
pub(super) fn put_params(
    conn: &Connection,
    trial_id: i64,
    number: u64,
    params: &Params,
    distributions: &BTreeMap<String, Domain>,
) -> Result<(), Kind> {
    let put = "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json)
         VALUES (?1, ?2, ?3, ?4)";
    for (name, value) in params {
        let wrong = |what: &str| {
            Kind::Invalid(format!(
                "parameter {name} = {value} of trial {number} {what}"
            ))
        };
        let domain = distributions
            .get(name)
            .ok_or_else(|| wrong("has no distribution"))?;
        let internal = domain
            .to_internal(value)
            .filter(|x| x.is_finite())
            .ok_or_else(|| wrong("does not lie in its distribution"))?;
        let args: Args<'_> = &[&trial_id, name, &internal, &distribution_to_json(domain)];
        conn.execute(put, args)?;
    }
    Ok(())
}

/// Parameters as a Python dict in JSON; a string choice stays a string, whatever it says.
fn params_json(params: &Params) -> String {
    let pairs: Vec<String> = params
        .iter()
        .map(|(name, value)| {
            let text = match value {
                Value::Float(_) => to_python_json(&value.to_json()),
                Value::Null | Value::Bool(_) | Value::Int(_) | Value::Str(_) => {
                    value.to_json().to_string()
                }
            };
            format!("{}: {text}", Json::from(name.as_str()))
        })
        .collect();
    format!("{{{}}}", pairs.join(", "))
}

/// A number as Optuna stores it: the finite value, and the type.
fn typed(value: f64) -> (Option<f64>, &'static str) {
    if value.is_nan() {
        (None, "NAN")
    } else if value == f64::INFINITY {
        (None, "INF_POS")
    } else if value == f64::NEG_INFINITY {
        (None, "INF_NEG")
    } else {
        (Some(value), "FINITE")
    }
}

/// Stores the values of a trial, one an objective.
pub(super) fn put_values(conn: &Connection, trial_id: i64, values: &[f64]) -> Result<(), Kind> {
    let put = upsert("trial_values", "trial_id, objective", "value, value_type");
    for (objective, &value) in values.iter().enumerate() {
        let (stored, kind) = typed(value);
        conn.execute(&put, &[&trial_id, &objective, &stored, &kind])?;
    }
    Ok(())
}

/// Stores a value that a trial has reported.
pub(super) fn put_report(
    conn: &Connection,
    trial_id: i64,
    step: i64,
    value: f64,
) -> Result<(), Kind> {
    let (stored, kind) = typed(value);
    let columns = "intermediate_value, intermediate_value_type";
    let put = upsert("trial_intermediate_values", "trial_id, step", columns);
    conn.execute(&put, &[&trial_id, &step, &stored, &kind])?;
    Ok(())
}

/// A table of attributes, and its column that says whose they are.
type Attributes = (&'static str, &'static str);

/// User attributes of trials.
pub(super) const USER: Attributes = ("trial_user_attributes", "trial_id");

/// System attributes of trials.
pub(super) const SYSTEM: Attributes = ("trial_system_attributes", "trial_id");

/// User attributes of studies.
pub(super) const OF_STUDIES: Attributes = ("study_user_attributes", "study_id");

/// Merges attributes into those of a trial or study.
pub(super) fn put_attributes(
    conn: &Connection,
    table: Attributes,
    owner: i64,
    attributes: &Map<String, Json>,
) -> Result<(), Kind> {
    for (key, value) in attributes {
        put_attribute(conn, table, owner, key, &to_python_json(value))?;
    }
    Ok(())
}

/// Sets a study's attribute of Optuna's own where there is none of that name.
pub(super) fn put_if_absent(
    conn: &Connection,
    study_id: i64,
    key: &str,
    value: &Json,
) -> Result<(), Kind> {
    conn.execute(
        "INSERT INTO study_system_attributes (study_id, key, value_json) VALUES (?1, ?2, ?3)
         ON CONFLICT (study_id, key) DO NOTHING",
        &[&study_id, &key, &to_python_json(value)],
    )?;
    Ok(())
}

fn put_attribute(
    conn: &Connection,
    (table, whose): Attributes,
    owner: i64,
    key: &str,
    text: &str,
) -> Result<(), Kind> {
    let put = upsert(table, &format!("{whose}, key"), "value_json");
    conn.execute(&put, &[&owner, &key, &text])?;
    Ok(())
}
