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
use super::sql::Connection;
use messages::to_python_json;
use search::space::{Domain, Params, Value, distribution_to_json};
use search::study::{FrozenTrial, TrialState};

/// What Optuna's tables hold of a trial.
pub(super) const OF_TRIAL: [&str; 6] = [
    "trial_params",
    "trial_values",
    "trial_intermediate_values",
    "trial_user_attributes",
    "trial_system_attributes",
    "trial_heartbeats",
];

/// What Optuna's tables hold of a study, but for its trials.
pub(super) const OF_STUDY: [&str; 3] = [
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
    if let Some(trial_id) = conn.next_trial_id()? {
        conn.send(
            "INSERT INTO trials (trial_id, number, study_id, state, datetime_start, datetime_complete)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            &[&trial_id, &number, &study_id, &state, &start, &complete],
        )?;
        return Ok(trial_id);
    }
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
        conn.send(&delete, &[&study_id])?;
    }
    delete_left(conn, &["trials"], "study_id", study_id)?;
    delete_left(conn, &OF_STUDY, "study_id", study_id)?;
    delete_left(conn, &["studies"], "study_id", study_id)
}

fn delete_left(conn: &Connection, tables: &[&str], key: &str, id: i64) -> Result<(), Kind> {
    for table in tables {
        conn.send(&format!("DELETE FROM {table} WHERE {key} = ?1"), &[&id])?;
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
    let reports = trial.intermediate.iter();
    put_reports(conn, reports.map(|(step, value)| (trial_id, *step, *value)))?;
    put_attributes(conn, USER, trial_id, &trial.user_attrs)?;
    let texts = trial.system_attrs.iter().map(|(key, value)| {
        // A string choice stays a string, even one that says NaN.
        let text = match key.as_str() {
            "fixed_params" => params_json(&trial.fixed_params()),
            _ => to_python_json(value),
        };
        (key.as_str(), text)
    });
    put_texts(conn, SYSTEM, trial_id, texts)
}

/// The number that a study's next trial gets.
pub(super) const NEXT_NUMBER: &str =
    "SELECT COALESCE(MAX(number), -1) + 1 FROM trials WHERE study_id = ?1";

/// The number that the study's next trial gets.
pub(super) fn next_number(conn: &Connection, study_id: i64) -> Result<u64, Kind> {
    conn.value(NEXT_NUMBER, &[&study_id])
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
    let row = |(name, value): (&String, &Value)| {
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
        Ok((name.clone(), internal, distribution_to_json(domain)))
    };
    let rows: Vec<_> = params.iter().map(row).collect::<Result<_, Kind>>()?;
    let rows: Vec<[&dyn ToSql; 4]> = rows
        .iter()
        .map(|(name, value, domain)| [&trial_id as _, name as _, value as _, domain as _])
        .collect();
    let columns = "param_value, distribution_json";
    conn.put("trial_params", "trial_id, param_name", columns, &rows)
}

/// The numbers of a study's trials, from one to another, that have this value of a parameter, as it is stored. Each trial's
/// parameter is looked up: a server without statistics would look through those of all trials.
pub(super) const ALIKE: &str = "SELECT t.number FROM trials t
     WHERE t.study_id = ?1 AND t.number BETWEEN ?2 AND ?3
         AND (SELECT r.param_value FROM trial_params r
              WHERE r.trial_id = t.trial_id AND r.param_name = ?4) = ?5";

/// The parameter, and its stored value, by which a trial is found with the same point: a number that next to none share, so that
/// few are read while others wait for the study. `None`: there is no number among them.
pub(super) fn rarest(
    params: &Params,
    distributions: &BTreeMap<String, Domain>,
) -> Option<(String, f64)> {
    let stored = |is: fn(&Domain) -> bool| {
        params.iter().find_map(|(name, value)| {
            let domain = distributions.get(name).filter(|domain| is(domain))?;
            Some((name.clone(), domain.to_internal(value)?))
        })
    };
    // Integers are few, as numbers of layers.
    let float = stored(|domain| matches!(domain, Domain::Float { .. }));
    float.or_else(|| stored(|domain| matches!(domain, Domain::Int { .. })))
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
    let values: Vec<_> = values.iter().map(|v| typed(*v)).enumerate().collect();
    let rows: Vec<[&dyn ToSql; 4]> = values
        .iter()
        .map(|(objective, (value, kind))| [&trial_id as _, objective as _, value as _, kind as _])
        .collect();
    let columns = "value, value_type";
    conn.put("trial_values", "trial_id, objective", columns, &rows)
}

/// Stores values that trials (row ids) have reported at steps, no two of them at the same.
pub(super) fn put_reports(
    conn: &Connection,
    reports: impl Iterator<Item = (i64, i64, f64)>,
) -> Result<(), Kind> {
    let reports: Vec<_> = reports.map(|(id, step, v)| (id, step, typed(v))).collect();
    let rows: Vec<[&dyn ToSql; 4]> = reports
        .iter()
        .map(|(id, step, (value, kind))| [id as _, step as _, value as _, kind as _])
        .collect();
    let columns = "intermediate_value, intermediate_value_type";
    let key = "trial_id, step";
    conn.put("trial_intermediate_values", key, columns, &rows)
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
    let texts = attributes
        .iter()
        .map(|(key, value)| (key.as_str(), to_python_json(value)));
    put_texts(conn, table, owner, texts)
}

/// Sets a study's attribute of Optuna's own where there is none of that name.
pub(super) fn put_if_absent(
    conn: &Connection,
    study_id: i64,
    key: &str,
    value: &Json,
) -> Result<(), Kind> {
    conn.send(
        "INSERT INTO study_system_attributes (study_id, key, value_json) VALUES (?1, ?2, ?3)
         ON CONFLICT (study_id, key) DO NOTHING",
        &[&study_id, &key, &to_python_json(value)],
    )?;
    Ok(())
}

fn put_texts<'a>(
    conn: &Connection,
    (table, whose): Attributes,
    owner: i64,
    texts: impl Iterator<Item = (&'a str, String)>,
) -> Result<(), Kind> {
    let texts: Vec<_> = texts.collect();
    let rows: Vec<[&dyn ToSql; 3]> = texts
        .iter()
        .map(|(key, text)| [&owner as _, key as _, text as _])
        .collect();
    conn.put(table, &format!("{whose}, key"), "value_json", &rows)
}
