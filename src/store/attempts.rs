//! Attempts: what ran in which worker, and how it ended. Those at trials are in `tune_attempts`, those at repeats and at
//! the test in `tune_repeat_attempts`, whose key has the purpose, too.

use std::collections::BTreeMap;

use rusqlite::types::{FromSql, ToSql};

use super::apply::Batch;
use super::sql::{Args, Connection, Row};
use super::studies::named;
use super::{AttemptEnd, Store, StoreError, StoreErrorKind as Kind};
use search::study::{AttemptId, Job, Purpose};

/// One execution of a trial, or of a repeat of one, in one worker.
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

/// A trial that a run of `tune` left RUNNING.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reclaimable {
    /// Trial number.
    pub number: u64,
    /// Its attempts so far, in order; none where the run was killed before the first was recorded.
    pub attempts: Vec<AttemptRecord>,
}

impl Reclaimable {
    /// The attempt to make next.
    pub fn next_attempt(&self) -> u32 {
        next_attempt(&self.attempts)
    }
}

/// The attempt to make after these.
pub(super) fn next_attempt(attempts: &[AttemptRecord]) -> u32 {
    attempts.last().map_or(0, |last| last.attempt + 1)
}

/// The table that holds the attempts for a purpose, and its key but for the attempt's number: the columns, and the
/// parameters `?1` to `?3` (row id of the trial, [`columns`]) that they are compared with.
struct Table {
    name: &'static str,
    key: &'static str,
    job: &'static str,
}

fn table(purpose: Purpose) -> Table {
    match purpose {
        Purpose::Search => Table {
            name: "tune_attempts",
            key: "trial_id",
            job: "?1",
        },
        Purpose::Repeat(_) | Purpose::Test => Table {
            name: "tune_repeat_attempts",
            key: "trial_id, purpose, repeat",
            job: "?1, ?2, ?3",
        },
    }
}

/// What the columns `number`, `purpose` and `repeat` name, which come first in a row.
pub(super) fn job(row: &Row<'_>) -> Result<Job, Kind> {
    let number = row.get(0)?;
    let purpose = match row.text(1)? {
        "search" => Purpose::Search,
        "repeat" => Purpose::Repeat(row.get(2)?),
        "test" => Purpose::Test,
        other => {
            return Err(Kind::Content(format!(
                "a repeat of trial {number} is for {other:?}"
            )));
        }
    };
    Ok(Job { number, purpose })
}

impl Store {
    /// The trials that a run holds, ascending by number: at its beginning those that it has taken over.
    ///
    /// # Errors
    /// Reading failed.
    pub fn reclaimable(&self, study_id: i64, run_id: i64) -> Result<Vec<Reclaimable>, StoreError> {
        self.read(|conn| {
            let query =
                "SELECT t.number FROM trials t JOIN tune_trials o ON o.trial_id = t.trial_id
                 WHERE t.study_id = ?1 AND t.state = 'RUNNING' AND o.run_id = ?2
                 ORDER BY t.number";
            let numbers = conn.rows(query, &[&study_id, &run_id], |row| row.get(0))?;
            left(conn, study_id, numbers)
        })
    }

    /// The attempts of one trial, in order.
    ///
    /// # Errors
    /// Reading failed.
    pub fn attempts(&self, study_id: i64, number: u64) -> Result<Vec<AttemptRecord>, StoreError> {
        if !self.own_tables {
            return Ok(Vec::new());
        }
        let of_it = |conn: &Connection| of_trials(conn, study_id, "TRUE", Some(number));
        Ok(self.read(of_it)?.into_values().next().unwrap_or_default())
    }

    /// The attempts of all trials that have any, by trial number.
    ///
    /// # Errors
    /// Reading failed.
    pub fn all_attempts(
        &self,
        study_id: i64,
    ) -> Result<BTreeMap<u64, Vec<AttemptRecord>>, StoreError> {
        if !self.own_tables {
            return Ok(BTreeMap::new());
        }
        let all = self.read(|conn| of_trials(conn, study_id, "TRUE", None))?;
        Ok(all
            .into_iter()
            .map(|(job, attempts)| (job.number, attempts))
            .collect())
    }

    /// How many attempts each trial has had, for trials that have had one.
    ///
    /// # Errors
    /// Reading failed.
    pub fn attempt_counts(&self, study_id: i64) -> Result<BTreeMap<u64, u32>, StoreError> {
        let query = "SELECT t.number, COUNT(*)
             FROM trials t JOIN tune_attempts a ON a.trial_id = t.trial_id
             WHERE t.study_id = ?1 GROUP BY t.trial_id";
        self.count(query, study_id)
    }

    /// How many attempts ended by which fault, by the fault's word.
    ///
    /// # Errors
    /// Reading failed.
    pub fn faults(&self, study_id: i64) -> Result<BTreeMap<String, u64>, StoreError> {
        let query = format!(
            "SELECT a.outcome, COUNT(*)
             FROM trials t JOIN tune_attempts a ON a.trial_id = t.trial_id
             WHERE t.study_id = ?1 AND {FAULTED} GROUP BY a.outcome"
        );
        self.count(&query, study_id)
    }

    /// The last so many attempts of a study that a fault ended, the latest first, each with its trial's number.
    ///
    /// # Errors
    /// Reading failed.
    pub fn last_faults(
        &self,
        study_id: i64,
        most: usize,
    ) -> Result<Vec<(u64, AttemptRecord)>, StoreError> {
        if !self.own_tables {
            return Ok(Vec::new());
        }
        self.read(|conn| {
            let query = format!(
                "SELECT t.number, NULL, NULL, {COLUMNS}
                 FROM trials t JOIN tune_attempts a ON a.trial_id = t.trial_id
                 WHERE t.study_id = ?1 AND {FAULTED} ORDER BY a.ended DESC, t.number DESC LIMIT ?2"
            );
            conn.rows(&query, &[&study_id, &most], |row| {
                Ok((row.get(0)?, record(row)?))
            })
        })
    }

    /// The counts that a query about a study gives.
    fn count<K: FromSql + Ord, N: FromSql>(
        &self,
        query: &str,
        study_id: i64,
    ) -> Result<BTreeMap<K, N>, StoreError> {
        if !self.own_tables {
            return Ok(BTreeMap::new());
        }
        self.read(|conn| conn.rows(query, &[&study_id], |row| Ok((row.get(0)?, row.get(1)?))))
    }
}

/// The condition on attempts `a` that a fault ended them.
const FAULTED: &str = "a.outcome NOT IN ('completed', 'pruned', 'interrupted')";

/// Attempts by what they are attempts at, in order.
type ByJob = BTreeMap<Job, Vec<AttemptRecord>>;

/// The attempts at the trials `t` that meet a condition; of one trial only where it is given.
fn of_trials(
    conn: &Connection,
    study_id: i64,
    condition: &str,
    number: Option<u64>,
) -> Result<ByJob, Kind> {
    let from = format!("'search', 0, {COLUMNS} FROM trials t JOIN tune_attempts a");
    by_job(conn, &from, condition, (study_id, number))
}

/// What runs have left of these trials.
pub(super) fn left(
    conn: &Connection,
    study_id: i64,
    numbers: Vec<u64>,
) -> Result<Vec<Reclaimable>, Kind> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let mut attempts = of_trials(conn, study_id, "t.state = 'RUNNING'", None)?;
    let left = numbers.into_iter().map(|number| Reclaimable {
        number,
        attempts: attempts.remove(&Job::trial(number)).unwrap_or_default(),
    });
    Ok(left.collect())
}

/// The attempts at repeats and tests of a study; of one trial only where it is given.
pub(super) fn of_repeats(
    conn: &Connection,
    study_id: i64,
    number: Option<u64>,
) -> Result<ByJob, Kind> {
    let from = format!("a.purpose, a.repeat, {COLUMNS} FROM trials t JOIN tune_repeat_attempts a");
    by_job(conn, &from, "TRUE", (study_id, number))
}

fn by_job(
    conn: &Connection,
    from: &str,
    condition: &str,
    (study_id, number): (i64, Option<u64>),
) -> Result<ByJob, Kind> {
    let mut attempts = ByJob::new();
    let query = format!(
        "SELECT t.number, {from} ON a.trial_id = t.trial_id
         WHERE t.study_id = ?1 AND (t.number = ?2 OR ?2 IS NULL) AND {condition}
         ORDER BY t.number, a.attempt"
    );
    conn.each(&query, &[&study_id, &number], |row| {
        attempts.entry(job(row)?).or_default().push(record(row)?);
        Ok(())
    })?;
    Ok(attempts)
}

/// The columns of an attempt, in the order of [`record`].
const COLUMNS: &str = "a.attempt, a.run_id, a.worker, a.pid, a.device, a.log, a.started, a.ended,
     a.outcome, a.detail, a.again";

/// The columns of [`COLUMNS`], behind those of [`job`].
fn record(row: &Row<'_>) -> Result<AttemptRecord, Kind> {
    Ok(AttemptRecord {
        attempt: row.get(3)?,
        run_id: row.get(4)?,
        worker: row.get(5)?,
        pid: row.get(6)?,
        device: row.get(7)?,
        log: row.get(8)?,
        started: row.get(9)?,
        ended: row.get(10)?,
        outcome: row.get(11)?,
        detail: row.get::<Option<String>>(12)?.unwrap_or_default(),
        again: row.get::<Option<bool>>(13)?.unwrap_or(false),
    })
}

/// Ends the attempts at trials that are open, of those whose condition the id `?1` meets, at the time at which they were
/// last heard of. Not every trial of these starts again: another program may have ended it.
pub(super) fn interrupt(conn: &Connection, trials: &str, id: i64, heard: &str) -> Result<(), Kind> {
    let query = format!(
        "UPDATE tune_attempts SET ended = CASE WHEN started > ?2 THEN started ELSE ?2 END,
             outcome = 'interrupted', detail = '', again =
             (SELECT state = 'RUNNING' FROM trials t WHERE t.trial_id = tune_attempts.trial_id)
         WHERE ended IS NULL AND {trials}"
    );
    conn.send(&query, &[&id, &heard])?;
    Ok(())
}

impl Batch<'_> {
    /// Records an attempt that is about to be sent to a worker; one before it that nobody ended was interrupted.
    pub(super) fn start_attempt(
        &self,
        trial_id: i64,
        id: AttemptId,
        (worker, pid): (u64, u32),
        device: &str,
        log: &str,
    ) -> Result<(), Kind> {
        let Table { name, key, job } = table(id.purpose);
        let (word, repeat) = id.purpose.columns();
        self.begun.borrow_mut().insert(id);
        let is_first = self.fresh.borrow_mut().remove(&trial_id);
        if !is_first {
            self.conn.send(
                &format!(
                    "UPDATE {name} SET ended = ?4, outcome = 'interrupted', detail = '', again = TRUE
                     WHERE ({key}) = ({job}) AND ended IS NULL"
                ),
                &[&trial_id, &word, &repeat, &self.now],
            )?;
        }
        let add = format!(
            "INSERT INTO {name}
             ({key}, attempt, run_id, worker, pid, device, log, started)
             VALUES ({job}, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT DO NOTHING"
        );
        let args: Args<'_> = &[
            &trial_id,
            &word,
            &repeat,
            &id.attempt,
            &self.run_id,
            &worker,
            &pid,
            &device,
            &log,
            &self.now,
        ];
        // A trial that was made here has no attempt to be in the way.
        if is_first {
            return self.conn.send(&add, args);
        }
        let added = self.conn.execute(&add, args)?;
        match added {
            1 => Ok(()),
            _ => Err(self.contradicts(id, &format!("is in {name} before it has started"))),
        }
    }

    /// Records the end of an attempt that is under way.
    pub(super) fn end_attempt(&self, id: AttemptId, end: &AttemptEnd) -> Result<(), Kind> {
        let (trial_id, _) = self.trial(id.number)?;
        let Table { name, key, job } = table(id.purpose);
        let (word, repeat) = id.purpose.columns();
        let is_under_way = self.begun.borrow_mut().remove(&id)
            || under_way(self.study_id, id, |query, args| {
                self.conn.exists(query, args)
            })?;
        if !is_under_way {
            return Err(self.contradicts(id, &format!("is to end, but is not under way in {name}")));
        }
        self.conn.send(
            &format!(
                "UPDATE {name} SET ended = ?5, outcome = ?6, detail = ?7, again = ?8
                 WHERE ({key}) = ({job}) AND attempt = ?4 AND ended IS NULL"
            ),
            &[
                &trial_id,
                &word,
                &repeat,
                &id.attempt,
                &self.now,
                &end.outcome,
                &end.detail,
                &end.again,
            ],
        )
    }

    /// Whether an attempt has ended with this outcome.
    pub(super) fn attempt_ended(&self, id: AttemptId, outcome: &str) -> Result<bool, Kind> {
        let (trial_id, _) = self.trial(id.number)?;
        let Table { name, key, job } = table(id.purpose);
        let (word, repeat) = id.purpose.columns();
        let query = format!(
            "SELECT 1 FROM {name}
             WHERE ({key}) = ({job}) AND attempt = ?4 AND ended IS NOT NULL AND outcome = ?5"
        );
        let args: Args<'_> = &[&trial_id, &word, &repeat, &id.attempt, &outcome];
        self.conn.exists(&query, args)
    }

    /// The attempt at a trial or repeat to make next.
    pub(super) fn next_attempt(&self, trial_id: i64, job: Job) -> Result<u64, Kind> {
        let Table { name, key, job: of } = table(job.purpose);
        let (word, repeat) = job.purpose.columns();
        let next =
            format!("SELECT COALESCE(MAX(attempt), -1) + 1 FROM {name} WHERE ({key}) = ({of})");
        match job.searches() {
            true => self.conn.value(&next, &[&trial_id]),
            false => self.conn.value(&next, &[&trial_id, &word, &repeat]),
        }
    }

    /// The run whose attempt at a trial or repeat was the last; `None`: there was none.
    pub(super) fn last_run_at(&self, trial_id: i64, job: Job) -> Result<Option<i64>, Kind> {
        let Table { name, key, job: of } = table(job.purpose);
        let (word, repeat) = job.purpose.columns();
        let query = format!(
            "SELECT run_id FROM {name} WHERE ({key}) = ({of}) ORDER BY attempt DESC LIMIT 1"
        );
        let args: Args<'_> = &[&trial_id, &word, &repeat];
        self.conn.first(&query, args, |row| row.get(0))
    }

    fn contradicts(&self, id: AttemptId, what: &str) -> Kind {
        let study = named(self.conn, self.study_id);
        let (attempt, job) = (id.attempt, id.job());
        Kind::Content(format!("attempt {attempt} of {job} of {study} {what}"))
    }
}

/// Does something with the query whether an attempt has begun and not ended.
pub(super) fn under_way<T>(
    study_id: i64,
    id: AttemptId,
    act: impl FnOnce(&str, Args<'_>) -> Result<T, Kind>,
) -> Result<T, Kind> {
    let (word, repeat) = id.purpose.columns();
    let args: [&dyn ToSql; 5] = [&study_id, &id.number, &id.attempt, &word, &repeat];
    let (of, args) = match id.purpose {
        Purpose::Search => ("", &args[..3]),
        Purpose::Repeat(_) | Purpose::Test => (" AND a.purpose = ?4 AND a.repeat = ?5", &args[..]),
    };
    let query = format!(
        "SELECT 1 FROM trials t JOIN {} a ON a.trial_id = t.trial_id
         WHERE t.study_id = ?1 AND t.number = ?2 AND a.attempt = ?3 AND a.ended IS NULL{of}",
        table(id.purpose).name
    );
    act(&query, args)
}
