//! Repeats of trials, and the test: what is stored of them beside their attempts, in a table of our own.

use serde_json::{Map, Value as Json};

use super::apply::Batch;
use super::attempts::{job, next_attempt, of_repeats};
use super::sql::{Args, Connection, Row};
use super::{AttemptRecord, Store, StoreError, StoreErrorKind as Kind};
use messages::{python_json, to_python_json};
use search::study::{Job, Purpose, TrialState};

/// A repeat as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct RepeatRecord {
    /// Whose training it is.
    pub job: Job,
    /// Its seed.
    pub seed: u64,
    /// RUNNING, also between two attempts and between two runs; COMPLETE; PRUNED or FAIL where it
    /// failed for good.
    pub state: TrialState,
    /// The objective's value; with the test that of the test split.
    pub value: Option<f64>,
    /// What is known of it, by the names of a trial's user attributes.
    pub attrs: Map<String, Json>,
    /// Naive UTC.
    pub started: String,
    /// Naive UTC.
    pub ended: Option<String>,
    /// Its attempts, in order.
    pub attempts: Vec<AttemptRecord>,
}

impl RepeatRecord {
    /// The attempt to make next.
    pub fn next_attempt(&self) -> u32 {
        next_attempt(&self.attempts)
    }
}

impl Store {
    /// The repeats and tests of a study, by trial and repeat; of one trial only where it is given.
    ///
    /// # Errors
    /// Reading failed.
    pub fn repeats(
        &self,
        study_id: i64,
        number: Option<u64>,
    ) -> Result<Vec<RepeatRecord>, StoreError> {
        self.read(|conn| match conn.has_table("tune_repeats")? {
            true => repeats(conn, study_id, number),
            // Files of an earlier version, opened for reading, do not have the tables yet.
            false => Ok(Vec::new()),
        })
    }
}

/// The repeats and tests of a study; of one trial only where it is given.
pub(super) fn repeats(
    conn: &Connection,
    study_id: i64,
    number: Option<u64>,
) -> Result<Vec<RepeatRecord>, Kind> {
    // A server looks through all trials of the study, each time that a node looks: not where there is nothing to find.
    let query = "SELECT t.number, r.purpose, r.repeat, r.seed, r.state, r.value, r.attrs_json,
                r.started, r.ended
         FROM trials t JOIN tune_repeats r ON r.trial_id = t.trial_id
         WHERE t.study_id = ?1 AND (t.number = ?2 OR ?2 IS NULL)
             AND EXISTS (SELECT 1 FROM tune_repeats)
         ORDER BY t.number, r.purpose, r.repeat";
    let mut repeats: Vec<RepeatRecord> = conn.rows(query, &[&study_id, &number], record)?;
    if repeats.is_empty() {
        return Ok(repeats);
    }
    let mut attempts = of_repeats(conn, study_id, number)?;
    for repeat in &mut repeats {
        repeat.attempts = attempts.remove(&repeat.job).unwrap_or_default();
    }
    Ok(repeats)
}

/// A repeat without its attempts.
fn record(row: &Row<'_>) -> Result<RepeatRecord, Kind> {
    let job = job(row)?;
    if job.purpose == Purpose::Search {
        return Err(Kind::Content(format!(
            "a repeat of trial {} is for \"search\"",
            job.number
        )));
    }
    let holds = |what: &str| Kind::Content(format!("the repeat {job} holds {what}"));
    let Some(Json::Object(attrs)) = python_json(row.text(6)?) else {
        return Err(holds("no JSON object"));
    };
    Ok(RepeatRecord {
        job,
        seed: row.get(3)?,
        state: row.text(4)?.parse().map_err(|()| holds("no state"))?,
        value: row.get(5)?,
        attrs,
        started: row.get(7)?,
        ended: row.get(8)?,
        attempts: Vec::new(),
    })
}

impl Batch<'_> {
    /// Row id of the trial whose repeat an attempt is about to be made at; the first one makes the repeat.
    pub(super) fn start_repeat(&self, job: Job, seed: u64) -> Result<i64, Kind> {
        let (trial_id, trial) = self.trial(job.number)?;
        if trial != TrialState::Complete {
            return Err(Kind::Invalid(format!("{job}: the trial is {trial}")));
        }
        let (word, repeat) = job.purpose.columns();
        self.conn.send(
            "INSERT INTO tune_repeats
                 (trial_id, purpose, repeat, seed, state, attrs_json, started)
                 VALUES (?1, ?2, ?3, ?4, 'RUNNING', '{}', ?5)
                 ON CONFLICT (trial_id, purpose, repeat) DO NOTHING",
            &[&trial_id, &word, &repeat, &seed, &self.now],
        )?;
        match self.repeat_state(trial_id, job)? {
            Some(TrialState::Running) => Ok(trial_id),
            _ => Err(Kind::Invalid(format!("{job} has ended and cannot start"))),
        }
    }

    /// Ends a repeat; one whose start could not be recorded is made by its end.
    pub(super) fn finish_repeat(
        &self,
        job: Job,
        seed: u64,
        (state, value): (TrialState, Option<f64>),
        attrs: &Map<String, Json>,
    ) -> Result<(), Kind> {
        let fits = match value {
            Some(value) => state == TrialState::Complete && value.is_finite(),
            None => matches!(state, TrialState::Pruned | TrialState::Fail),
        };
        if job.searches() {
            return Err(Kind::Invalid(format!("{job} is no repeat")));
        }
        if !fits {
            return Err(Kind::Invalid(format!("{job}: {state} with {value:?}")));
        }
        let (trial_id, _) = self.trial(job.number)?;
        if self
            .repeat_state(trial_id, job)?
            .is_some_and(TrialState::finished)
        {
            return Err(Kind::Invalid(format!("{job} has ended before")));
        }
        let (word, repeat) = job.purpose.columns();
        let attrs = to_python_json(&Json::Object(attrs.clone()));
        self.conn.send(
            "INSERT INTO tune_repeats
                 (trial_id, purpose, repeat, seed, state, value, attrs_json, started, ended)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
                 ON CONFLICT (trial_id, purpose, repeat) DO UPDATE SET
                     state = excluded.state, value = excluded.value,
                     attrs_json = excluded.attrs_json, ended = excluded.ended",
            &[
                &trial_id,
                &word,
                &repeat,
                &seed,
                &state.optuna(),
                &value,
                &attrs,
                &self.now,
            ],
        )?;
        Ok(())
    }

    /// The state of a repeat; `None` where there is no such repeat.
    pub(super) fn repeat_state(&self, trial_id: i64, job: Job) -> Result<Option<TrialState>, Kind> {
        let (word, repeat) = job.purpose.columns();
        let query = "SELECT state FROM tune_repeats
             WHERE trial_id = ?1 AND purpose = ?2 AND repeat = ?3";
        let args: Args<'_> = &[&trial_id, &word, &repeat];
        let state = self
            .conn
            .first(query, args, |row| Ok(row.text(0)?.parse().ok()))?;
        Ok(state.flatten())
    }
}
