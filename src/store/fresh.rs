//! Rows of new trials and studies.
//!
//! SQLite gives the highest id again once its row is gone, and who deletes a row in SQLite's shell or a script deletes
//! nothing that refers to it: a new row would begin with the parameters, results and trials of the one before.

use rusqlite::Connection;
use rusqlite::types::ToSql;

use super::error::Cause;

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
) -> Result<i64, Cause> {
    conn.prepare_cached(
        "INSERT INTO trials (number, study_id, state, datetime_start, datetime_complete)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((number, study_id, state, start, complete))?;
    let trial_id = conn.last_insert_rowid();
    delete_left(conn, &OF_TRIAL, "trial_id", trial_id)?;
    Ok(trial_id)
}

/// The row of a new study; gives its id, of which nothing else is known.
pub(super) fn new_study(conn: &Connection, name: &str) -> Result<i64, Cause> {
    conn.execute("INSERT INTO studies (study_name) VALUES (?1)", [name])?;
    let study_id = conn.last_insert_rowid();
    let mut of_another = conn.prepare("SELECT trial_id FROM trials WHERE study_id = ?1")?;
    let trials = of_another.query_map([study_id], |row| row.get(0))?;
    for trial_id in trials.collect::<Result<Vec<i64>, _>>()? {
        delete_left(conn, &OF_TRIAL, "trial_id", trial_id)?;
    }
    delete_left(conn, &["trials"], "study_id", study_id)?;
    delete_left(conn, &OF_STUDY, "study_id", study_id)?;
    Ok(study_id)
}

fn delete_left(conn: &Connection, tables: &[&str], key: &str, id: i64) -> Result<(), Cause> {
    for table in tables {
        conn.prepare_cached(&format!("DELETE FROM {table} WHERE {key} = ?1"))?
            .execute([id])?;
    }
    Ok(())
}
