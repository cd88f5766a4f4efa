//! Runs: which process worked on a study, when, and with what.

use std::time::Duration;

use serde_json::Value as Json;

use super::apply::Batch;
use super::attempts::interrupt;
use super::leases::{begin_lease, end_leases};
use super::sql::{Connection, Row};
use super::studies::must_be_there;
use super::{RunRecord, Store, StoreError, StoreErrorKind as Kind};
use messages::python_json;

/// The runs that say how a study stands. One that found the goal reached and started nothing, as cron begins every
/// night, changes nothing; the first one of a study counts in any case.
pub(super) fn telling(conn: &Connection) -> Result<String, Kind> {
    // Files of an earlier version, opened for reading, do not have the table yet.
    let repeats = match conn.has_table("tune_repeat_attempts")? {
        true => "UNION SELECT run_id FROM tune_repeat_attempts",
        false => "",
    };
    Ok(format!(
        "(exit_code IS DISTINCT FROM 0 OR run_id IN (SELECT MIN(run_id) FROM tune_runs GROUP BY study_id)
          OR run_id IN (SELECT run_id FROM tune_attempts {repeats}))"
    ))
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

impl Store {
    /// Records that a run starts that has the study to itself, and returns its id: it takes over all that others have left.
    ///
    /// # Errors
    /// No such study; writing failed.
    pub fn begin_run(&mut self, study_id: i64, run: &RunRecord) -> Result<i64, StoreError> {
        self.record_run(study_id, run, |conn, run_id, now| {
            take_over_all(conn, study_id, run_id, now)
        })
    }

    /// The same, where it is known when what others have left was last heard of, in naive UTC: it ran no longer than that.
    ///
    /// # Errors
    /// No such study; writing failed.
    pub fn begin_run_after(
        &mut self,
        study_id: i64,
        run: &RunRecord,
        heard: &str,
    ) -> Result<i64, StoreError> {
        self.record_run(study_id, run, |conn, run_id, now| {
            take_over_all(conn, study_id, run_id, heard.min(now))
        })
    }

    /// The same of a run that is one of several nodes': it holds its trials by a lease, and takes over later what it wants
    /// ([`Write::TrialReclaimed`]). What the node held before may be taken at once.
    ///
    /// [`Write::TrialReclaimed`]: super::Write::TrialReclaimed
    ///
    /// # Errors
    /// No such study; writing failed.
    pub fn begin_run_of_node(
        &mut self,
        study_id: i64,
        run: &RunRecord,
        lease: Duration,
    ) -> Result<i64, StoreError> {
        let node = self.place().node().unwrap_or_default().to_owned();
        self.record_run(study_id, run, |conn, run_id, _| {
            end_leases(conn, study_id, &node)?;
            begin_lease(conn, run_id, &node, lease)
        })
    }

    fn record_run(
        &mut self,
        study_id: i64,
        run: &RunRecord,
        begin: impl Fn(&Connection, i64, &str) -> Result<(), Kind>,
    ) -> Result<i64, StoreError> {
        let now = self.now();
        self.write(|conn| {
            must_be_there(conn, study_id)?;
            let run_id = conn.value(
                "INSERT INTO tune_runs
                 (study_id, pid, host, version, command_json, operation_json, started)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) RETURNING run_id",
                &[
                    &study_id,
                    &run.pid,
                    &run.host,
                    &run.version,
                    &Json::from(run.command.as_slice()).to_string(),
                    &run.operation.to_string(),
                    &now,
                ],
            )?;
            begin(conn, run_id, &now)?;
            Ok(run_id)
        })
    }

    /// When a run of the study was recorded, in naive UTC: together with its id this tells the run
    /// from every other one. `None`: this database has no such run.
    ///
    /// # Errors
    /// Reading failed.
    pub fn run_started(&self, study_id: i64, run_id: i64) -> Result<Option<String>, StoreError> {
        self.read(|conn| {
            let query = "SELECT started FROM tune_runs WHERE study_id = ?1 AND run_id = ?2";
            conn.first(query, &[&study_id, &run_id], |row| row.get(0))
        })
    }

    /// The runs of a study, in order.
    ///
    /// # Errors
    /// Reading failed.
    pub fn runs(&self, study_id: i64) -> Result<Vec<RunEntry>, StoreError> {
        self.runs_where(study_id, |_| Ok("TRUE ORDER BY run_id".to_owned()))
    }

    /// The last run that has started something or did not end well; where there is none, the first one.
    ///
    /// # Errors
    /// Reading failed.
    pub fn last_run(&self, study_id: i64) -> Result<Option<RunEntry>, StoreError> {
        let last = |conn: &_| Ok(telling(conn)? + " ORDER BY run_id DESC LIMIT 1");
        Ok(self.runs_where(study_id, last)?.pop())
    }

    fn runs_where(
        &self,
        study_id: i64,
        condition: fn(&Connection) -> Result<String, Kind>,
    ) -> Result<Vec<RunEntry>, StoreError> {
        if !self.own_tables {
            return Ok(Vec::new());
        }
        self.read(|conn| {
            let query = format!(
                "SELECT run_id, pid, host, version, command_json, operation_json, started, ended,
                        exit_code
                 FROM tune_runs WHERE study_id = ?1 AND {}",
                condition(conn)?
            );
            conn.rows(&query, &[&study_id], run)
        })
    }
}

/// Makes a run the holder of all trials of a study that runs have left RUNNING; `heard`: when these were last heard of.
fn take_over_all(conn: &Connection, study_id: i64, run_id: i64, heard: &str) -> Result<(), Kind> {
    conn.send(
        "UPDATE tune_trials SET run_id = ?2 WHERE trial_id IN
             (SELECT trial_id FROM trials WHERE study_id = ?1 AND state = 'RUNNING')",
        &[&study_id, &run_id],
    )?;
    let of_study = "trial_id IN (SELECT trial_id FROM trials WHERE study_id = ?1)";
    interrupt(conn, of_study, study_id, heard)
}

fn run(row: &Row<'_>) -> Result<RunEntry, Kind> {
    let run_id: i64 = row.get(0)?;
    let json = |column: usize| {
        let json = python_json(row.text(column)?);
        json.ok_or_else(|| Kind::Content(format!("run {run_id} holds no JSON")))
    };
    let command = json(4)?;
    let words = command.as_array().into_iter().flatten();
    Ok(RunEntry {
        run_id,
        record: RunRecord {
            pid: row.get(1)?,
            host: row.get(2)?,
            version: row.get(3)?,
            command: words.filter_map(Json::as_str).map(str::to_owned).collect(),
            operation: json(5)?,
        },
        started: row.get(6)?,
        ended: row.get(7)?,
        exit: row.get(8)?,
    })
}

impl Batch<'_> {
    /// Records that the run ended.
    pub(super) fn end_run(&self, exit: u8) -> Result<(), Kind> {
        let changed = self.conn.execute(
            "UPDATE tune_runs SET ended = ?2, exit_code = ?3 WHERE run_id = ?1",
            &[&self.run_id, &self.now, &exit],
        )?;
        if changed == 1 {
            self.end_lease()
        } else {
            Err(Kind::Invalid(format!(
                "there is no run {} to end",
                self.run_id
            )))
        }
    }
}
