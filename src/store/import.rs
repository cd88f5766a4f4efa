//! Studies that begin with trials from elsewhere: another program's file, or another study.

use rusqlite::{Connection, TransactionBehavior};
use serde_json::{Map, Value as Json};

use super::apply::{
    check_values, params_json, put_params, put_system_attribute, put_user_attributes, typed,
};
use super::error::Cause;
use super::fresh::new_trial;
use super::studies::insert_study;
use super::{Store, StoreError};
use messages::to_python_json;
use search::study::{Direction, FrozenTrial, TrialState};

/// A study that is made at once with its first trials.
#[derive(Debug, Clone, PartialEq)]
pub struct NewStudy<'a> {
    /// Name; nothing in the database has it yet.
    pub name: &'a str,
    /// One direction an objective.
    pub directions: &'a [Direction],
    /// User attributes of the study.
    pub user_attrs: &'a Map<String, Json>,
    /// What the study's values depend on.
    pub identity: &'a Map<String, Json>,
}

impl Store {
    /// Makes a study that holds these trials, and returns its id: all of it, or nothing. The
    /// trials keep what they have, but for their row ids and their numbers, which count from 0 in
    /// the given order.
    ///
    /// # Errors
    /// There is a study with this name; a trial is RUNNING, which is no state to arrive in, or
    /// breaks one of Optuna's rules; writing failed.
    pub fn create_study_with(
        &mut self,
        study: &NewStudy,
        trials: &[FrozenTrial],
    ) -> Result<i64, StoreError> {
        let now = self.now();
        self.insert_all(study, trials, &now).map_err(|c| self.at(c))
    }

    fn insert_all(
        &mut self,
        study: &NewStudy,
        trials: &[FrozenTrial],
        now: &str,
    ) -> Result<i64, Cause> {
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let id = insert_study(&tx, study, now)?;
        for (number, trial) in trials.iter().enumerate() {
            insert_trial(&tx, id, number as u64, study.directions.len(), trial)?;
        }
        tx.commit()?;
        Ok(id)
    }
}

fn insert_trial(
    conn: &Connection,
    study_id: i64,
    number: u64,
    objectives: usize,
    trial: &FrozenTrial,
) -> Result<(), Cause> {
    if trial.state == TrialState::Running {
        return Err(Cause::Invalid(format!(
            "trial {number} is still RUNNING and cannot be taken over"
        )));
    }
    check_values(number, trial.state, &trial.values, objectives)?;
    let times = (&trial.datetime_start as _, &trial.datetime_complete as _);
    let trial_id = new_trial(conn, (study_id, number), trial.state.optuna(), times)?;
    put_params(conn, trial_id, number, &trial.params, &trial.distributions)?;
    let mut values = conn.prepare_cached(
        "INSERT INTO trial_values (trial_id, objective, value, value_type) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (objective, value) in trial.values.iter().enumerate() {
        let (stored, kind) = typed(*value);
        values.execute((trial_id, objective, stored, kind))?;
    }
    let mut reports = conn.prepare_cached(
        "INSERT INTO trial_intermediate_values
         (trial_id, step, intermediate_value, intermediate_value_type) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (step, value) in &trial.intermediate {
        let (stored, kind) = typed(*value);
        reports.execute((trial_id, step, stored, kind))?;
    }
    put_user_attributes(conn, trial_id, &trial.user_attrs)?;
    for (key, value) in &trial.system_attrs {
        // A string choice stays a string, even one that says NaN.
        let text = match key.as_str() {
            "fixed_params" => params_json(&trial.fixed_params()),
            _ => to_python_json(value),
        };
        put_system_attribute(conn, trial_id, key, &text)?;
    }
    Ok(())
}
