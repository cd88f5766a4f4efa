//! Runs and attempts: what Optuna has no place for.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row};
use serde_json::Value as Json;

use super::error::Cause;
use super::{RunRecord, Store, StoreError};
use messages::python_json;

/// One execution of a trial in one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Attempt, from 0.
    pub attempt: u32,
    /// The run it belongs to.
    pub run_id: i64,
    /// Worker, a number unique within the run.
    pub worker: u64,
    /// Process id of the worker.
    pub pid: u32,
    /// `cpu`, `cuda:0`.
    pub device: String,
    /// Path of its log, relative to `tune.db.d/`.
    pub log: String,
    /// Naive UTC.
    pub started: String,
    /// Naive UTC; `None` while it runs, or when its supervisor was killed.
    pub ended: Option<String>,
    /// How it ended; `interrupted` where a later attempt found it open.
    pub outcome: Option<String>,
    /// What is known of a fault.
    pub detail: String,
    /// Whether the same trial was to run again.
    pub again: bool,
}

/// A trial that an earlier run of `tune` left RUNNING.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reclaimable {
    /// Trial number.
    pub number: u64,
    /// Attempts so far, which is the number of the next one.
    pub attempts: u32,
    /// The last attempt; `None` where the run was killed before the first was recorded.
    pub last: Option<AttemptRecord>,
}

/// A run as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEntry {
    /// Row id.
    pub run_id: i64,
    /// What it was started with.
    pub record: RunRecord,
    /// Naive UTC.
    pub started: String,
    /// Naive UTC; `None` while it runs, or when it was killed.
    pub ended: Option<String>,
    /// Exit code.
    pub exit: Option<u8>,
}

pub(super) const COLUMNS: &str =
    "a.attempt, a.run_id, a.worker, a.pid, a.device, a.log, a.started, a.ended,
     a.outcome, a.detail, a.again";

impl Store {
    /// Records that a run starts, and returns its id.
    ///
    /// # Errors
    /// No such study; writing failed.
    pub fn begin_run(&mut self, study_id: i64, run: &RunRecord) -> Result<i64, StoreError> {
        let now = self.now();
        self.insert_run(study_id, run, &now).map_err(|c| self.at(c))
    }

    /// When a run of the study was recorded, in naive UTC: together with its id this tells the run
    /// from every other one. `None`: this database has no such run.
    ///
    /// # Errors
    /// Reading failed.
    pub fn run_started(&self, study_id: i64, run_id: i64) -> Result<Option<String>, StoreError> {
        self.conn
            .query_row(
                "SELECT started FROM tune_runs WHERE study_id = ?1 AND run_id = ?2",
                (study_id, run_id),
                |row| row.get(0),
            )
            .optional()
            .map_err(|e| self.at(Cause::from(e)))
    }

    /// The runs of a study, in order.
    ///
    /// # Errors
    /// Reading failed.
    pub fn runs(&self, study_id: i64) -> Result<Vec<RunEntry>, StoreError> {
        self.read_runs(study_id).map_err(|c| self.at(c))
    }

    /// The trials that runs of `tune` have left RUNNING, ascending by number; never those of other
    /// programs. Only for who holds the study: a live run's trials look the same.
    ///
    /// # Errors
    /// Reading failed.
    pub fn reclaimable(&self, study_id: i64) -> Result<Vec<Reclaimable>, StoreError> {
        self.read_reclaimable(study_id).map_err(|c| self.at(c))
    }

    /// The attempts of one trial, in order.
    ///
    /// # Errors
    /// Reading failed.
    pub fn attempts(&self, study_id: i64, number: u64) -> Result<Vec<AttemptRecord>, StoreError> {
        let all = self
            .read_attempts(study_id, Some(number), false)
            .map_err(|c| self.at(c))?;
        Ok(all.into_values().next().unwrap_or_default())
    }

    /// The attempts of all trials that have any, by trial number.
    ///
    /// # Errors
    /// Reading failed.
    pub fn all_attempts(
        &self,
        study_id: i64,
    ) -> Result<BTreeMap<u64, Vec<AttemptRecord>>, StoreError> {
        self.read_attempts(study_id, None, false)
            .map_err(|c| self.at(c))
    }

    /// How many attempts each trial has had, for trials that have had one.
    ///
    /// # Errors
    /// Reading failed.
    pub fn attempt_counts(&self, study_id: i64) -> Result<BTreeMap<u64, u32>, StoreError> {
        self.per_trial(study_id, "COUNT(*)").map_err(|c| self.at(c))
    }

    /// The number of each trial's next attempt, for trials that have had one.
    ///
    /// # Errors
    /// Reading failed.
    pub fn last_attempts(&self, study_id: i64) -> Result<BTreeMap<u64, u32>, StoreError> {
        self.per_trial(study_id, "MAX(a.attempt) + 1")
            .map_err(|c| self.at(c))
    }

    /// How many attempts ended by which fault, by the fault's word.
    ///
    /// # Errors
    /// Reading failed.
    pub fn faults(&self, study_id: i64) -> Result<BTreeMap<String, u64>, StoreError> {
        self.read_faults(study_id).map_err(|c| self.at(c))
    }

    fn read_faults(&self, study_id: i64) -> Result<BTreeMap<String, u64>, Cause> {
        if !self.own_tables {
            return Ok(BTreeMap::new());
        }
        let mut statement = self.conn.prepare_cached(
            "SELECT a.outcome, COUNT(*)
             FROM trials t JOIN tune_attempts a ON a.trial_id = t.trial_id
             WHERE t.study_id = ?1 AND a.outcome NOT IN ('completed', 'pruned', 'interrupted')
             GROUP BY a.outcome",
        )?;
        let rows = statement.query_map([study_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn insert_run(&mut self, study_id: i64, run: &RunRecord, now: &str) -> Result<i64, Cause> {
        if !self.study_exists(study_id)? {
            return Err(Cause::UnknownStudy(study_id));
        }
        self.conn.execute(
            "INSERT INTO tune_runs
             (study_id, pid, host, version, command_json, operation_json, started)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            (
                study_id,
                run.pid,
                &run.host,
                &run.version,
                Json::from(run.command.as_slice()).to_string(),
                run.operation.to_string(),
                now,
            ),
        )?;
        let run_id = self.conn.last_insert_rowid();
        // What is open was left by a run that was killed. Not every trial of these starts again:
        // another program may have ended it.
        self.conn.execute(
            "UPDATE tune_attempts SET ended = ?2, outcome = 'interrupted', detail = '', again =
                 (SELECT state = 'RUNNING' FROM trials t WHERE t.trial_id = tune_attempts.trial_id)
             WHERE ended IS NULL
                 AND trial_id IN (SELECT trial_id FROM trials WHERE study_id = ?1)",
            (study_id, now),
        )?;
        Ok(run_id)
    }

    fn read_runs(&self, study_id: i64) -> Result<Vec<RunEntry>, Cause> {
        if !self.own_tables {
            return Ok(Vec::new());
        }
        let mut statement = self.conn.prepare_cached(
            "SELECT run_id, pid, host, version, command_json, operation_json, started, ended,
                    exit_code
             FROM tune_runs WHERE study_id = ?1 ORDER BY run_id",
        )?;
        let mut rows = statement.query([study_id])?;
        let mut runs = Vec::new();
        while let Some(row) = rows.next()? {
            let run_id: i64 = row.get(0)?;
            let (command, operation): (String, String) = (row.get(4)?, row.get(5)?);
            let json = |text: &str| {
                python_json(text)
                    .ok_or_else(|| Cause::Content(format!("run {run_id} holds no JSON")))
            };
            let command = json(&command)?;
            let words = command.as_array().map_or(&[][..], Vec::as_slice);
            runs.push(RunEntry {
                run_id,
                record: RunRecord {
                    pid: row.get(1)?,
                    host: row.get(2)?,
                    version: row.get(3)?,
                    command: words
                        .iter()
                        .filter_map(Json::as_str)
                        .map(str::to_owned)
                        .collect(),
                    operation: json(&operation)?,
                },
                started: row.get(6)?,
                ended: row.get(7)?,
                exit: row.get(8)?,
            });
        }
        Ok(runs)
    }

    fn read_reclaimable(&self, study_id: i64) -> Result<Vec<Reclaimable>, Cause> {
        if !self.own_tables {
            return Ok(Vec::new());
        }
        let tx = self.conn.unchecked_transaction()?;
        let mut attempts = self.read_attempts(study_id, None, true)?;
        let mut statement = tx.prepare_cached(
            "SELECT t.number FROM trials t JOIN tune_trials o ON o.trial_id = t.trial_id
             WHERE t.study_id = ?1 AND t.state = 'RUNNING' ORDER BY t.number",
        )?;
        let mut rows = statement.query([study_id])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let number: u64 = row.get(0)?;
            let last = attempts.remove(&number).and_then(|mut all| all.pop());
            found.push(Reclaimable {
                number,
                attempts: last.as_ref().map_or(0, |a| a.attempt + 1),
                last,
            });
        }
        Ok(found)
    }

    fn read_attempts(
        &self,
        study_id: i64,
        number: Option<u64>,
        running: bool,
    ) -> Result<BTreeMap<u64, Vec<AttemptRecord>>, Cause> {
        let mut attempts: BTreeMap<u64, Vec<AttemptRecord>> = BTreeMap::new();
        if !self.own_tables {
            return Ok(attempts);
        }
        let which = match (number, running) {
            (Some(_), _) => "t.number = ?2",
            (None, true) => "t.state = 'RUNNING' AND ?2 IS NULL",
            (None, false) => "?2 IS NULL",
        };
        let mut statement = self.conn.prepare_cached(&format!(
            "SELECT t.number, {COLUMNS}
             FROM trials t JOIN tune_attempts a ON a.trial_id = t.trial_id
             WHERE t.study_id = ?1 AND {which} ORDER BY t.number, a.attempt"
        ))?;
        let mut rows = statement.query((study_id, number))?;
        while let Some(row) = rows.next()? {
            attempts.entry(row.get(0)?).or_default().push(record(row)?);
        }
        Ok(attempts)
    }

    /// A number of a trial's attempts `a`, by the trial's number.
    fn per_trial(&self, study_id: i64, of_attempts: &str) -> Result<BTreeMap<u64, u32>, Cause> {
        if !self.own_tables {
            return Ok(BTreeMap::new());
        }
        let mut statement = self.conn.prepare_cached(&format!(
            "SELECT t.number, {of_attempts}
             FROM trials t JOIN tune_attempts a ON a.trial_id = t.trial_id
             WHERE t.study_id = ?1 GROUP BY t.trial_id"
        ))?;
        let rows = statement.query_map([study_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// The columns of [`COLUMNS`], behind the first column.
pub(super) fn record(row: &Row<'_>) -> Result<AttemptRecord, Cause> {
    Ok(AttemptRecord {
        attempt: row.get(1)?,
        run_id: row.get(2)?,
        worker: row.get(3)?,
        pid: row.get(4)?,
        device: row.get(5)?,
        log: row.get(6)?,
        started: row.get(7)?,
        ended: row.get(8)?,
        outcome: row.get(9)?,
        detail: row.get::<_, Option<String>>(10)?.unwrap_or_default(),
        again: row.get::<_, Option<bool>>(11)?.unwrap_or(false),
    })
}
