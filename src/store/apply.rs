//! Carrying out a batch of writes in one transaction.

use std::collections::BTreeMap;

use rusqlite::types::Null;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use serde_json::{Map, Value as Json};

use super::error::Cause;
use super::fresh::new_trial;
use super::open::stamp;
use super::place::FileId;
use super::read::state;
use super::sense::named;
use super::studies::put_study_attributes;
use super::{AttemptEnd, Shown, Store, StoreError, Write, Written};
use messages::to_python_json;
use search::space::{Domain, Params, Value, distribution_to_json};
use search::study::TrialState;

impl Store {
    /// Carries out a batch of writes for a run: all of it is durable, or nothing was written.
    ///
    /// # Errors
    /// [`StoreError::transient`] ones may be tried again with the same batch. A write that no
    /// trial may undergo is refused with the whole batch.
    pub fn apply(
        &mut self,
        study_id: i64,
        run_id: i64,
        writes: &[Write],
    ) -> Result<Written, StoreError> {
        self.apply_as_of(study_id, run_id, self.time(), writes)
    }

    /// The same for a batch that had to wait: its rows carry the time at which it came up.
    ///
    /// # Errors
    /// See [`Store::apply`].
    pub fn apply_as_of(
        &mut self,
        study_id: i64,
        run_id: i64,
        time: jiff::Timestamp,
        writes: &[Write],
    ) -> Result<Written, StoreError> {
        if writes.is_empty() {
            return Ok(Written::Done);
        }
        self.must_be_writable(writes)?;
        let all = |batch: &Batch<'_>| writes.iter().try_for_each(|write| batch.write(write));
        match self.transact(study_id, run_id, &stamp(time), all) {
            Ok(()) => Ok(Written::Done),
            Err(Cause::Conflict) => Ok(Written::Conflict),
            Err(cause) => Err(self.at(cause)),
        }
    }

    /// Nothing is written to a file that another one has taken the place of, nor behind a log that has lost something; and
    /// no run ends well that has written to a log that was overwritten.
    pub(super) fn must_be_writable(&self, writes: &[Write]) -> Result<(), StoreError> {
        self.must_be_in_place()?;
        match writes.iter().any(|w| matches!(w, Write::RunEnded { .. })) {
            true => self.log_must_be_intact(),
            false => Ok(()),
        }
    }

    /// Nothing is written to a file that another one has taken the place of.
    pub(super) fn must_be_in_place(&self) -> Result<(), StoreError> {
        if self.file.is_some() && FileId::of(&self.path) != self.file {
            return Err(StoreError::Moved {
                path: Shown(self.path.clone()),
            });
        }
        self.log_must_be_there()
    }

    /// Does something in one transaction: all of it is durable, or nothing was written.
    pub(super) fn transact<T>(
        &mut self,
        study_id: i64,
        run_id: i64,
        now: &str,
        act: impl FnOnce(&Batch<'_>) -> Result<T, Cause>,
    ) -> Result<T, Cause> {
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let batch = Batch {
            conn: &tx,
            study_id,
            run_id,
            now,
        };
        let done = act(&batch)?;
        tx.commit()?;
        self.copy_long_log();
        Ok(done)
    }
}

/// One transaction under way.
pub(super) struct Batch<'a> {
    pub(super) conn: &'a Connection,
    pub(super) study_id: i64,
    pub(super) run_id: i64,
    pub(super) now: &'a str,
}

impl Batch<'_> {
    pub(super) fn write(&self, write: &Write) -> Result<(), Cause> {
        match write {
            Write::TrialCreated {
                number,
                params,
                distributions,
                user_attrs,
                system_attrs,
            } => {
                let trial_id = self.create(*number, params, distributions)?;
                put_user_attributes(self.conn, trial_id, user_attrs)?;
                put_system_attributes(self.conn, trial_id, system_attrs)
            }
            Write::TrialClaimed {
                number,
                params,
                distributions,
                user_attrs,
            } => self.claim(*number, params, distributions, user_attrs),
            Write::AttemptStarted {
                number,
                attempt,
                worker,
                pid,
                device,
                log,
            } => {
                let trial_id = self.running(*number)?;
                self.clear_earlier_attempts(trial_id)?;
                self.start_attempt(trial_id, *number, (*attempt, *worker, *pid), device, log)
            }
            Write::Reported {
                number,
                step,
                value,
            } => self.report(self.running(*number)?, *step, *value),
            Write::AttemptEnded {
                number,
                attempt,
                end,
            } => self.end_attempt(*number, *attempt, end),
            Write::TrialFinished {
                number,
                state,
                values,
                user_attrs,
                system_attrs,
            } => {
                let trial_id = self.finish(*number, *state, values)?;
                put_user_attributes(self.conn, trial_id, user_attrs)?;
                put_system_attributes(self.conn, trial_id, system_attrs)
            }
            Write::RepeatStarted { .. }
            | Write::RepeatAttemptEnded { .. }
            | Write::RepeatFinished { .. } => self.write_repeat(write),
            Write::MemoryUsed {
                number,
                purpose,
                attempt,
                entry,
            } => self.note_memory(*number, *purpose, *attempt, entry),
            Write::TrialNoted { number, user_attrs } => {
                let (trial_id, _) = self.trial(*number)?;
                put_user_attributes(self.conn, trial_id, user_attrs)
            }
            Write::StudyAttributes { user_attrs } => {
                put_study_attributes(self.conn, self.study_id, user_attrs)
            }
            Write::GpuSampled { minute } => self.put_gpu_minute(minute),
            Write::RunEnded { exit } => self.end_run(*exit),
        }
    }

    /// Row id and state of a trial.
    pub(super) fn trial(&self, number: u64) -> Result<(i64, TrialState), Cause> {
        let found = self
            .conn
            .prepare_cached(
                "SELECT trial_id, state FROM trials WHERE study_id = ?1 AND number = ?2",
            )?
            .query_row((self.study_id, number), |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
            })
            .optional()?;
        let (id, word) = found.ok_or(Cause::UnknownTrial(self.study_id, number))?;
        Ok((id, state(&word, || format!("trial {number}"))?))
    }

    /// Row id of a trial that must be RUNNING.
    fn running(&self, number: u64) -> Result<i64, Cause> {
        match self.trial(number)? {
            (id, TrialState::Running) => Ok(id),
            (
                _,
                state @ (TrialState::Waiting
                | TrialState::Complete
                | TrialState::Pruned
                | TrialState::Fail),
            ) => Err(Cause::Transition(number, state, TrialState::Running)),
        }
    }

    /// Makes a trial and returns its row id.
    fn create(
        &self,
        number: u64,
        params: &Params,
        distributions: &BTreeMap<String, Domain>,
    ) -> Result<i64, Cause> {
        if next_number(self.conn, self.study_id)? != number {
            return Err(Cause::Conflict);
        }
        let place = (self.study_id, number);
        let trial_id = new_trial(self.conn, place, "RUNNING", (&self.now, &Null))?;
        self.own(trial_id)?;
        put_params(self.conn, trial_id, number, params, distributions)?;
        Ok(trial_id)
    }

    fn claim(
        &self,
        number: u64,
        params: &Params,
        distributions: &BTreeMap<String, Domain>,
        user_attrs: &Map<String, Json>,
    ) -> Result<(), Cause> {
        let (trial_id, state) = self.trial(number)?;
        if state != TrialState::Waiting {
            return Err(Cause::Conflict);
        }
        self.conn
            .prepare_cached(
                "UPDATE trials SET state = 'RUNNING', datetime_start = ?2 WHERE trial_id = ?1",
            )?
            .execute((trial_id, self.now))?;
        self.own(trial_id)?;
        // A trial that Optuna enqueued for another try carries the old parameters.
        self.conn
            .prepare_cached("DELETE FROM trial_params WHERE trial_id = ?1")?
            .execute([trial_id])?;
        put_params(self.conn, trial_id, number, params, distributions)?;
        put_user_attributes(self.conn, trial_id, user_attrs)
    }

    /// Notes that the trial is one of ours.
    fn own(&self, trial_id: i64) -> Result<(), Cause> {
        self.conn
            .prepare_cached(
                "INSERT OR REPLACE INTO tune_trials (trial_id, run_id) VALUES (?1, ?2)",
            )?
            .execute((trial_id, self.run_id))?;
        Ok(())
    }

    /// What earlier attempts reported is forgotten; one that nobody ended was interrupted.
    fn clear_earlier_attempts(&self, trial_id: i64) -> Result<(), Cause> {
        self.conn
            .prepare_cached("DELETE FROM trial_intermediate_values WHERE trial_id = ?1")?
            .execute([trial_id])?;
        self.conn
            .prepare_cached(
                "UPDATE tune_attempts SET ended = ?2, outcome = 'interrupted', detail = '', again = 1
                 WHERE trial_id = ?1 AND ended IS NULL",
            )?
            .execute((trial_id, self.now))?;
        Ok(())
    }

    fn start_attempt(
        &self,
        trial_id: i64,
        number: u64,
        (attempt, worker, pid): (u32, u64, u32),
        device: &str,
        log: &str,
    ) -> Result<(), Cause> {
        let added = self
            .conn
            .prepare_cached(
                "INSERT INTO tune_attempts
                 (trial_id, attempt, run_id, worker, pid, device, log, started)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                 ON CONFLICT (trial_id, attempt) DO NOTHING",
            )?
            .execute((
                trial_id,
                attempt,
                self.run_id,
                worker,
                pid,
                device,
                log,
                self.now,
            ))?;
        if added == 1 {
            Ok(())
        } else {
            Err(Cause::Content(format!(
                "attempt {attempt} of trial {number} of {} is in tune_attempts before it has \
                 started",
                named(self.conn, self.study_id)
            )))
        }
    }

    fn report(&self, trial_id: i64, step: i64, value: f64) -> Result<(), Cause> {
        let (stored, kind) = typed(value);
        self.conn
            .prepare_cached(
                "INSERT INTO trial_intermediate_values
                 (trial_id, step, intermediate_value, intermediate_value_type)
                 VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (trial_id, step) DO UPDATE SET
                     intermediate_value = excluded.intermediate_value,
                     intermediate_value_type = excluded.intermediate_value_type",
            )?
            .execute((trial_id, step, stored, kind))?;
        Ok(())
    }

    fn end_attempt(&self, number: u64, attempt: u32, end: &AttemptEnd) -> Result<(), Cause> {
        let (trial_id, _) = self.trial(number)?;
        let changed = self
            .conn
            .prepare_cached(
                "UPDATE tune_attempts SET ended = ?3, outcome = ?4, detail = ?5, again = ?6
                 WHERE trial_id = ?1 AND attempt = ?2 AND ended IS NULL",
            )?
            .execute((
                trial_id,
                attempt,
                self.now,
                &end.outcome,
                &end.detail,
                end.again,
            ))?;
        if changed == 1 {
            Ok(())
        } else {
            Err(Cause::Content(format!(
                "attempt {attempt} of trial {number} of {} is to end, but is not under way in \
                 tune_attempts",
                named(self.conn, self.study_id)
            )))
        }
    }

    /// Ends a trial and returns its row id.
    fn finish(&self, number: u64, to: TrialState, values: &[f64]) -> Result<i64, Cause> {
        let (trial_id, from) = self.trial(number)?;
        if !to.finished() || from.next(to).is_err() {
            return Err(Cause::Transition(number, from, to));
        }
        let objectives = self
            .conn
            .prepare_cached("SELECT COUNT(*) FROM study_directions WHERE study_id = ?1")?
            .query_row([self.study_id], |row| row.get::<_, usize>(0))?;
        let mut last = Vec::new();
        if to == TrialState::Pruned && values.is_empty() && objectives == 1 {
            last.extend(self.last_report(trial_id)?);
        }
        let values = if last.is_empty() { values } else { &last };
        if !values.is_empty() && values.len() != objectives {
            return Err(Cause::Content(format!(
                "{} has {objectives} directions in study_directions, but trial {number} ended with \
                 {} values",
                named(self.conn, self.study_id),
                values.len()
            )));
        }
        check_values(number, to, values, objectives)?;
        self.conn
            .prepare_cached(
                "UPDATE trials SET state = ?2, datetime_complete = ?3,
                     datetime_start = COALESCE(datetime_start, ?3)
                 WHERE trial_id = ?1",
            )?
            .execute((trial_id, to.optuna(), self.now))?;
        let mut statement = self.conn.prepare_cached(
            "INSERT INTO trial_values (trial_id, objective, value, value_type)
             VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (trial_id, objective) DO UPDATE SET
                 value = excluded.value, value_type = excluded.value_type",
        )?;
        for (objective, &value) in values.iter().enumerate() {
            let (stored, kind) = typed(value);
            statement.execute((trial_id, objective, stored, kind))?;
        }
        Ok(trial_id)
    }

    /// The last reported value that is not NaN.
    fn last_report(&self, trial_id: i64) -> Result<Option<f64>, Cause> {
        let found = self
            .conn
            .prepare_cached(
                "SELECT intermediate_value, intermediate_value_type FROM trial_intermediate_values
                 WHERE trial_id = ?1 AND intermediate_value_type <> 'NAN'
                 ORDER BY step DESC LIMIT 1",
            )?
            .query_row([trial_id], |row| {
                Ok((row.get::<_, Option<f64>>(0)?, row.get::<_, String>(1)?))
            })
            .optional()?;
        Ok(found.and_then(|(value, kind)| match kind.as_str() {
            "INF_POS" => Some(f64::INFINITY),
            "INF_NEG" => Some(f64::NEG_INFINITY),
            _ => value,
        }))
    }

    fn end_run(&self, exit: u8) -> Result<(), Cause> {
        let changed = self
            .conn
            .prepare_cached("UPDATE tune_runs SET ended = ?2, exit_code = ?3 WHERE run_id = ?1")?
            .execute((self.run_id, self.now, exit))?;
        if changed == 1 {
            Ok(())
        } else {
            Err(Cause::Invalid(format!(
                "there is no run {} to end",
                self.run_id
            )))
        }
    }
}

/// Optuna's rules for the values of a trial that ends.
pub(super) fn check_values(
    number: u64,
    to: TrialState,
    values: &[f64],
    objectives: usize,
) -> Result<(), Cause> {
    let wrong = |what: &str| Err(Cause::Invalid(format!("trial {number}, {to}: {what}")));
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

/// The number that the study's next trial gets.
pub(super) fn next_number(conn: &Connection, study_id: i64) -> Result<u64, Cause> {
    Ok(conn
        .prepare_cached("SELECT COALESCE(MAX(number), -1) + 1 FROM trials WHERE study_id = ?1")?
        .query_row([study_id], |row| row.get(0))?)
}

/// A number as Optuna stores it: the finite value, and the type.
pub(super) fn typed(value: f64) -> (Option<f64>, &'static str) {
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

/// Parameters as a Python dict in JSON; a string choice stays a string, whatever it says.
pub(super) fn params_json(params: &Params) -> String {
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

/// Stores parameters with their distributions.
pub(super) fn put_params(
    conn: &Connection,
    trial_id: i64,
    number: u64,
    params: &Params,
    distributions: &BTreeMap<String, Domain>,
) -> Result<(), Cause> {
    let mut statement = conn.prepare_cached(
        "INSERT INTO trial_params (trial_id, param_name, param_value, distribution_json)
         VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (name, value) in params {
        let wrong = |what: &str| {
            Cause::Invalid(format!(
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
        statement.execute((trial_id, name, internal, distribution_to_json(domain)))?;
    }
    Ok(())
}

pub(super) fn put_user_attributes(
    conn: &Connection,
    trial_id: i64,
    attributes: &Map<String, Json>,
) -> Result<(), Cause> {
    let mut statement = conn.prepare_cached(
        "INSERT INTO trial_user_attributes (trial_id, key, value_json) VALUES (?1, ?2, ?3)
         ON CONFLICT (trial_id, key) DO UPDATE SET value_json = excluded.value_json",
    )?;
    for (key, value) in attributes {
        statement.execute((trial_id, key, to_python_json(value)))?;
    }
    Ok(())
}

fn put_system_attributes(
    conn: &Connection,
    trial_id: i64,
    attributes: &Map<String, Json>,
) -> Result<(), Cause> {
    for (key, value) in attributes {
        put_system_attribute(conn, trial_id, key, &to_python_json(value))?;
    }
    Ok(())
}

pub(super) fn put_system_attribute(
    conn: &Connection,
    trial_id: i64,
    key: &str,
    text: &str,
) -> Result<(), Cause> {
    conn.prepare_cached(
        "INSERT INTO trial_system_attributes (trial_id, key, value_json) VALUES (?1, ?2, ?3)
         ON CONFLICT (trial_id, key) DO UPDATE SET value_json = excluded.value_json",
    )?
    .execute((trial_id, key, text))?;
    Ok(())
}
