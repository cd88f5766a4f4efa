//! Repeats of trials, and the test: what is stored of them, in tables of our own.

use rusqlite::OptionalExtension;
use serde_json::{Map, Value as Json};

use super::apply::Batch;
use super::attempts::{COLUMNS, record};
use super::error::Cause;
use super::{AttemptEnd, AttemptRecord, Store, StoreError, Write};
use messages::python_json;
use messages::to_python_json;
use search::study::{Job, Purpose, TrialState};

/// A repeat as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct RepeatRecord {
    /// Which.
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
        self.read_repeats(study_id, number).map_err(|c| self.at(c))
    }

    fn read_repeats(&self, study_id: i64, number: Option<u64>) -> Result<Vec<RepeatRecord>, Cause> {
        // Files of an earlier version, opened for reading, do not have the tables yet.
        if !self.conn.table_exists(None, "tune_repeats")? {
            return Ok(Vec::new());
        }
        let tx = self.conn.unchecked_transaction()?;
        let mut statement = tx.prepare_cached(
            "SELECT t.number, r.purpose, r.repeat, r.seed, r.state, r.value, r.attrs_json,
                    r.started, r.ended
             FROM trials t JOIN tune_repeats r ON r.trial_id = t.trial_id
             WHERE t.study_id = ?1 AND (?2 IS NULL OR t.number = ?2)
             ORDER BY t.number, r.purpose, r.repeat",
        )?;
        let mut rows = statement.query((study_id, number))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let number = row.get(0)?;
            let job = Job {
                number,
                purpose: purpose(&row.get::<_, String>(1)?, row.get(2)?, number)?,
            };
            let holds = |what: &str| Cause::Content(format!("the repeat {job} holds {what}"));
            let state: String = row.get(4)?;
            let attrs: String = row.get(6)?;
            let attrs = match python_json(&attrs) {
                Some(Json::Object(attrs)) => attrs,
                Some(_) | None => return Err(holds("no JSON object")),
            };
            found.push(RepeatRecord {
                job,
                seed: row.get(3)?,
                state: state.parse().map_err(|()| holds("no state"))?,
                value: row.get(5)?,
                attrs,
                started: row.get(7)?,
                ended: row.get(8)?,
                attempts: self.read_repeat_attempts(study_id, job)?,
            });
        }
        Ok(found)
    }

    fn read_repeat_attempts(&self, study_id: i64, job: Job) -> Result<Vec<AttemptRecord>, Cause> {
        let (word, repeat) = columns(job.purpose);
        let mut statement = self.conn.prepare_cached(&format!(
            "SELECT t.number, {COLUMNS}
             FROM trials t JOIN tune_repeat_attempts a ON a.trial_id = t.trial_id
             WHERE t.study_id = ?1 AND t.number = ?2 AND a.purpose = ?3 AND a.repeat = ?4
             ORDER BY a.attempt"
        ))?;
        let mut rows = statement.query((study_id, job.number, word, repeat))?;
        let mut attempts = Vec::new();
        while let Some(row) = rows.next()? {
            attempts.push(record(row)?);
        }
        Ok(attempts)
    }

    /// Whether an attempt at a repeat has ended with this outcome.
    pub(super) fn repeat_attempt_ended(
        &self,
        (study_id, number, purpose): (i64, u64, Purpose),
        attempt: u32,
        outcome: &str,
    ) -> Result<bool, Cause> {
        let (word, repeat) = columns(purpose);
        let mut statement = self.conn.prepare_cached(
            "SELECT 1 FROM trials t JOIN tune_repeat_attempts a ON a.trial_id = t.trial_id
             WHERE t.study_id = ?1 AND t.number = ?2 AND a.purpose = ?3 AND a.repeat = ?4
                 AND a.attempt = ?5 AND a.ended IS NOT NULL AND a.outcome = ?6",
        )?;
        Ok(statement.exists((study_id, number, word, repeat, attempt, outcome))?)
    }

    /// Whether a repeat has ended in this state.
    pub(super) fn repeat_finished(
        &self,
        (study_id, number, purpose): (i64, u64, Purpose),
        state: TrialState,
    ) -> Result<bool, Cause> {
        let (word, repeat) = columns(purpose);
        let mut statement = self.conn.prepare_cached(
            "SELECT 1 FROM trials t JOIN tune_repeats r ON r.trial_id = t.trial_id
             WHERE t.study_id = ?1 AND t.number = ?2 AND r.purpose = ?3 AND r.repeat = ?4
                 AND r.state = ?5",
        )?;
        Ok(statement.exists((study_id, number, word, repeat, state.optuna()))?)
    }
}

/// What is started: seed, attempt, worker, process id, device, log.
type Start<'a> = (u64, u32, u64, u32, &'a str, &'a str);

impl Batch<'_> {
    /// Carries out a write about a repeat; any other is none of its business.
    pub(super) fn write_repeat(&self, write: &Write) -> Result<(), Cause> {
        match write {
            Write::RepeatStarted {
                number,
                purpose,
                attempt,
                seed,
                worker,
                pid,
                device,
                log,
            } => self.start_repeat(
                job(*number, *purpose)?,
                (*seed, *attempt, *worker, *pid, device, log),
            ),
            Write::RepeatAttemptEnded {
                number,
                purpose,
                attempt,
                end,
            } => self.end_repeat_attempt(job(*number, *purpose)?, *attempt, end),
            Write::RepeatFinished {
                number,
                purpose,
                seed,
                state,
                value,
                user_attrs,
            } => self.finish_repeat(job(*number, *purpose)?, *seed, (*state, *value), user_attrs),
            Write::TrialCreated { .. }
            | Write::TrialClaimed { .. }
            | Write::AttemptStarted { .. }
            | Write::Reported { .. }
            | Write::AttemptEnded { .. }
            | Write::TrialFinished { .. }
            | Write::MemoryUsed { .. }
            | Write::TrialNoted { .. }
            | Write::StudyAttributes { .. }
            | Write::GpuSampled { .. }
            | Write::RunEnded { .. } => Ok(()),
        }
    }

    fn start_repeat(&self, job: Job, start: Start) -> Result<(), Cause> {
        let (seed, attempt, worker, pid, device, log) = start;
        let (trial_id, trial) = self.trial(job.number)?;
        if trial != TrialState::Complete {
            return Err(Cause::Invalid(format!("{job}: the trial is {trial}")));
        }
        let (word, repeat) = columns(job.purpose);
        self.conn
            .prepare_cached(
                "INSERT INTO tune_repeats
                 (trial_id, purpose, repeat, seed, state, attrs_json, started)
                 VALUES (?1, ?2, ?3, ?4, 'RUNNING', '{}', ?5)
                 ON CONFLICT (trial_id, purpose, repeat) DO NOTHING",
            )?
            .execute((trial_id, word, repeat, seed, self.now))?;
        if self.repeat_state(trial_id, job)? != Some(TrialState::Running) {
            return Err(Cause::Invalid(format!("{job} has ended and cannot start")));
        }
        // An attempt that nobody ended was interrupted.
        self.conn
            .prepare_cached(
                "UPDATE tune_repeat_attempts
                 SET ended = ?4, outcome = 'interrupted', detail = '', again = 1
                 WHERE trial_id = ?1 AND purpose = ?2 AND repeat = ?3 AND ended IS NULL",
            )?
            .execute((trial_id, word, repeat, self.now))?;
        let added = self
            .conn
            .prepare_cached(
                "INSERT INTO tune_repeat_attempts
                 (trial_id, purpose, repeat, attempt, run_id, worker, pid, device, log, started)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                 ON CONFLICT DO NOTHING",
            )?
            .execute((
                trial_id,
                word,
                repeat,
                attempt,
                self.run_id,
                worker,
                pid,
                device,
                log,
                self.now,
            ))?;
        match added {
            1 => Ok(()),
            _ => Err(Cause::Invalid(format!(
                "attempt {attempt} of {job} was started before"
            ))),
        }
    }

    fn end_repeat_attempt(&self, job: Job, attempt: u32, end: &AttemptEnd) -> Result<(), Cause> {
        let (trial_id, _) = self.trial(job.number)?;
        let (word, repeat) = columns(job.purpose);
        let changed = self
            .conn
            .prepare_cached(
                "UPDATE tune_repeat_attempts
                 SET ended = ?5, outcome = ?6, detail = ?7, again = ?8
                 WHERE trial_id = ?1 AND purpose = ?2 AND repeat = ?3 AND attempt = ?4
                     AND ended IS NULL",
            )?
            .execute((
                trial_id,
                word,
                repeat,
                attempt,
                self.now,
                &end.outcome,
                &end.detail,
                end.again,
            ))?;
        match changed {
            1 => Ok(()),
            _ => Err(Cause::Invalid(format!(
                "attempt {attempt} of {job} is not under way and cannot end"
            ))),
        }
    }

    /// Ends a repeat; one whose start could not be recorded is made by its end.
    fn finish_repeat(
        &self,
        job: Job,
        seed: u64,
        (state, value): (TrialState, Option<f64>),
        attrs: &Map<String, Json>,
    ) -> Result<(), Cause> {
        let fits = match (state, value) {
            (TrialState::Complete, Some(value)) => value.is_finite(),
            (TrialState::Pruned | TrialState::Fail, None) => true,
            (
                TrialState::Complete
                | TrialState::Pruned
                | TrialState::Fail
                | TrialState::Waiting
                | TrialState::Running,
                _,
            ) => false,
        };
        if !fits {
            return Err(Cause::Invalid(format!("{job}: {state} with {value:?}")));
        }
        let (trial_id, _) = self.trial(job.number)?;
        if self
            .repeat_state(trial_id, job)?
            .is_some_and(TrialState::finished)
        {
            return Err(Cause::Invalid(format!("{job} has ended before")));
        }
        let (word, repeat) = columns(job.purpose);
        let attrs = to_python_json(&Json::Object(attrs.clone()));
        self.conn
            .prepare_cached(
                "INSERT INTO tune_repeats
                 (trial_id, purpose, repeat, seed, state, value, attrs_json, started, ended)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
                 ON CONFLICT (trial_id, purpose, repeat) DO UPDATE SET
                     state = excluded.state, value = excluded.value,
                     attrs_json = excluded.attrs_json, ended = excluded.ended",
            )?
            .execute((
                trial_id,
                word,
                repeat,
                seed,
                state.optuna(),
                value,
                attrs,
                self.now,
            ))?;
        Ok(())
    }

    fn repeat_state(&self, trial_id: i64, job: Job) -> Result<Option<TrialState>, Cause> {
        let (word, repeat) = columns(job.purpose);
        let state = self
            .conn
            .prepare_cached(
                "SELECT state FROM tune_repeats
                 WHERE trial_id = ?1 AND purpose = ?2 AND repeat = ?3",
            )?
            .query_row((trial_id, word, repeat), |row| row.get::<_, String>(0))
            .optional()?;
        Ok(state.and_then(|word| word.parse().ok()))
    }
}

/// The trial itself is no repeat.
fn job(number: u64, purpose: Purpose) -> Result<Job, Cause> {
    match purpose {
        Purpose::Search => Err(Cause::Invalid(format!("trial {number} is no repeat"))),
        Purpose::Repeat(_) | Purpose::Test => Ok(Job { number, purpose }),
    }
}

/// The columns `purpose` and `repeat`.
pub(super) fn columns(purpose: Purpose) -> (&'static str, u32) {
    match purpose {
        Purpose::Search => ("search", 0),
        Purpose::Repeat(repeat) => ("repeat", repeat),
        Purpose::Test => ("test", 0),
    }
}

pub(super) fn purpose(word: &str, repeat: u32, number: u64) -> Result<Purpose, Cause> {
    match word {
        "repeat" => Ok(Purpose::Repeat(repeat)),
        "test" => Ok(Purpose::Test),
        other => Err(Cause::Content(format!(
            "a repeat of trial {number} is for {other:?}"
        ))),
    }
}
