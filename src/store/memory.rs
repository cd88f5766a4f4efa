//! The memory ledger: what attempts used, and what can be learned from it.

use super::apply::Batch;
use super::attempts::job;
use super::read::points;
use super::sql::{Args, Connection, Row};
use super::{Store, StoreError, StoreErrorKind as Kind};
use config::StudySpec;
use device::Device;
use memory::{Entry, Estimate, Observation, Usage};
use search::space::Params;
use search::study::{AttemptId, Job};

/// A line of the ledger, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRecord {
    /// What was trained.
    pub job: Job,
    /// Which attempt at it, from 0.
    pub attempt: u32,
    /// The line.
    pub entry: Entry,
}

/// What is known of one training's peak, and of where it trained.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryObservation {
    /// Configuration and peak.
    pub observation: Observation,
    /// Peaks on another kind of device say little.
    pub device: Device,
    /// How often its batches were halved.
    pub halvings: u32,
}

/// The columns of a line, in the order of [`entry`] and of [`Batch::put_memory`].
const COLUMNS: &str = "device, outcome, capacity, allocated, reserved, unallocated, inactive_split,
    retries, ooms, process, context, resident, resident_before, granted, predicted_lower,
    predicted_expected, predicted_upper, halvings";

impl Store {
    /// The ledger of a study, by trial, purpose and attempt.
    ///
    /// # Errors
    /// Reading failed, or a row makes no sense.
    pub fn memory(&self, study_id: i64) -> Result<Vec<MemoryRecord>, StoreError> {
        self.read(|conn| lines(conn, study_id))
    }

    /// What an attempt may use; `None`: there is no limit, or nobody has noted it.
    ///
    /// # Errors
    /// Reading failed.
    pub fn grant(&self, study_id: i64, id: AttemptId) -> Result<Option<u64>, StoreError> {
        self.read(|conn| {
            if !conn.has_table("tune_memory")? {
                return Ok(None);
            }
            let (word, repeat) = id.purpose.columns();
            let query =
                "SELECT m.granted FROM trials t JOIN tune_memory m ON m.trial_id = t.trial_id
                 WHERE t.study_id = ?1 AND t.number = ?2
                     AND (m.purpose, m.repeat, m.attempt) = (?3, ?4, ?5)";
            let key: Args<'_> = &[&study_id, &id.number, &word, &repeat, &id.attempt];
            Ok(conn.first(query, key, |row| row.get(0))?.flatten())
        })
    }

    /// What all studies of this task kind and task, in the order in which they were made, say about
    /// peaks: each training with everything that it read, searched or fixed. Attempts that were cut
    /// short say nothing.
    ///
    /// # Errors
    /// See [`Store::memory`].
    pub fn memory_observations(
        &self,
        kind: &str,
        task: &str,
    ) -> Result<Vec<MemoryObservation>, StoreError> {
        let mut found = Vec::new();
        for study in self.studies()? {
            let runs = self.runs(study.study_id)?;
            let latest = runs.iter().rev();
            let spec = latest.filter_map(|r| StudySpec::from_record(&r.record.operation));
            if let Some(spec) = spec.take(1).find(|s| s.kind == kind && s.task == task) {
                found.extend(self.read(|conn| observations(conn, study.study_id, &spec))?);
            }
        }
        Ok(found)
    }
}

fn observations(
    conn: &Connection,
    study_id: i64,
    spec: &StudySpec,
) -> Result<Vec<MemoryObservation>, Kind> {
    let records = lines(conn, study_id)?;
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let points = points(conn, study_id)?;
    let observed = |record: MemoryRecord| {
        let config: Params = spec.effective(points.get(&record.job.number)?);
        Some(MemoryObservation {
            observation: record.entry.observation(config)?,
            device: record.entry.device,
            halvings: record.entry.halvings,
        })
    };
    Ok(records.into_iter().filter_map(observed).collect())
}

fn lines(conn: &Connection, study_id: i64) -> Result<Vec<MemoryRecord>, Kind> {
    // Files of an earlier version, opened for reading, do not have the table yet.
    if !conn.has_table("tune_memory")? {
        return Ok(Vec::new());
    }
    let query = format!(
        "SELECT t.number, m.purpose, m.repeat, m.attempt, {COLUMNS}
         FROM trials t JOIN tune_memory m ON m.trial_id = t.trial_id
         WHERE t.study_id = ?1
         ORDER BY t.number, m.purpose <> 'search', m.purpose, m.repeat, m.attempt"
    );
    conn.rows(&query, &[&study_id], |row| {
        let job = job(row)?;
        Ok(MemoryRecord {
            job,
            attempt: row.get(3)?,
            entry: entry(row, job)?,
        })
    })
}

/// The columns of [`COLUMNS`], behind the first four.
fn entry(row: &Row<'_>, job: Job) -> Result<Entry, Kind> {
    let device: String = row.get(4)?;
    let predicted = match (row.get(18)?, row.get(19)?, row.get(20)?) {
        (Some(lower), Some(expected), Some(upper)) => Some(Estimate {
            lower,
            expected,
            upper,
        }),
        (None | Some(_), None | Some(_), None | Some(_)) => None,
    };
    Ok(Entry {
        device: (device.parse())
            .map_err(|()| Kind::Content(format!("{job} was trained on {device:?}")))?,
        outcome: row.get(5)?,
        capacity: row.get(6)?,
        usage: Usage {
            allocated: row.get(7)?,
            reserved: row.get(8)?,
            unallocated: row.get(9)?,
            inactive_split: row.get(10)?,
            retries: row.get(11)?,
            ooms: row.get(12)?,
            process: row.get(13)?,
            context: row.get(14)?,
            resident: row.get(15)?,
            resident_before: row.get(16)?,
        },
        grant: row.get(17)?,
        predicted,
        halvings: row.get(21)?,
    })
}

impl Batch<'_> {
    /// Writes a line; one that is written again is replaced.
    pub(super) fn put_memory(&self, id: AttemptId, entry: &Entry) -> Result<(), Kind> {
        let (trial_id, _) = self.trial(id.number)?;
        let (word, repeat) = id.purpose.columns();
        let usage = &entry.usage;
        let predicted = |part: fn(&Estimate) -> u64| entry.predicted.as_ref().map(part);
        let key = "trial_id, purpose, repeat, attempt";
        let device = entry.device.to_string();
        let [lower, expected, upper] = [
            predicted(|p| p.lower),
            predicted(|p| p.expected),
            predicted(|p| p.upper),
        ];
        self.conn.put(
            "tune_memory",
            key,
            COLUMNS,
            &[[
                &trial_id,
                &word,
                &repeat,
                &id.attempt,
                &device,
                &entry.outcome,
                &entry.capacity,
                &usage.allocated,
                &usage.reserved,
                &usage.unallocated,
                &usage.inactive_split,
                &usage.retries,
                &usage.ooms,
                &usage.process,
                &usage.context,
                &usage.resident,
                &usage.resident_before,
                &entry.grant,
                &lower,
                &expected,
                &upper,
                &entry.halvings,
            ]],
        )
    }
}
