//! The memory ledger: what attempts used, and what can be learned from it.

use rusqlite::Row;

use super::apply::Batch;
use super::error::Cause;
use super::repeats::{columns, purpose};
use super::{Store, StoreError};
use config::StudySpec;
use device::Device;
use memory::{Entry, Estimate, Observation, Usage};
use search::space::Params;
use search::study::{Job, Purpose};

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

const COLUMNS: &str = "m.device, m.outcome, m.capacity, m.allocated, m.reserved, m.unallocated,
    m.inactive_split, m.retries, m.ooms, m.process, m.context, m.resident, m.resident_before,
    m.granted, m.predicted_lower, m.predicted_expected, m.predicted_upper, m.halvings";

impl Store {
    /// The ledger of a study, by trial, purpose and attempt.
    ///
    /// # Errors
    /// Reading failed, or a row makes no sense.
    pub fn memory(&self, study_id: i64) -> Result<Vec<MemoryRecord>, StoreError> {
        self.read_memory(study_id).map_err(|c| self.at(c))
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
                let read = self.observations_of(study.study_id, &spec);
                found.extend(read.map_err(|c| self.at(c))?);
            }
        }
        Ok(found)
    }

    fn observations_of(
        &self,
        study_id: i64,
        spec: &StudySpec,
    ) -> Result<Vec<MemoryObservation>, Cause> {
        let records = self.read_memory(study_id)?;
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let points = self.points_of(study_id)?;
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

    fn read_memory(&self, study_id: i64) -> Result<Vec<MemoryRecord>, Cause> {
        // Files of an earlier version, opened for reading, do not have the table yet.
        if !self.conn.table_exists(None, "tune_memory")? {
            return Ok(Vec::new());
        }
        let mut statement = self.conn.prepare_cached(&format!(
            "SELECT t.number, m.purpose, m.repeat, m.attempt, {COLUMNS}
             FROM trials t JOIN tune_memory m ON m.trial_id = t.trial_id
             WHERE t.study_id = ?1
             ORDER BY t.number, m.purpose <> 'search', m.purpose, m.repeat, m.attempt"
        ))?;
        let mut rows = statement.query([study_id])?;
        let mut records = Vec::new();
        while let Some(row) = rows.next()? {
            let number = row.get(0)?;
            let purpose = match row.get::<_, String>(1)?.as_str() {
                "search" => Purpose::Search,
                other => purpose(other, row.get(2)?, number)?,
            };
            let job = Job { number, purpose };
            records.push(MemoryRecord {
                job,
                attempt: row.get(3)?,
                entry: entry(row, job)?,
            });
        }
        Ok(records)
    }
}

/// The columns of [`COLUMNS`], behind the first four.
fn entry(row: &Row<'_>, job: Job) -> Result<Entry, Cause> {
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
            .map_err(|()| Cause::Content(format!("{job} was trained on {device:?}")))?,
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
    pub(super) fn note_memory(
        &self,
        number: u64,
        purpose: Purpose,
        attempt: u32,
        entry: &Entry,
    ) -> Result<(), Cause> {
        let (trial_id, _) = self.trial(number)?;
        let (word, repeat) = columns(purpose);
        let usage = &entry.usage;
        let predicted = |part: fn(&Estimate) -> u64| entry.predicted.as_ref().map(part);
        self.conn
            .prepare_cached(
                "INSERT OR REPLACE INTO tune_memory
                 (trial_id, purpose, repeat, attempt, device, outcome, capacity, allocated,
                  reserved, unallocated, inactive_split, retries, ooms, process, context, resident,
                  resident_before, granted, predicted_lower, predicted_expected, predicted_upper,
                  halvings)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,
                         ?17, ?18, ?19, ?20, ?21, ?22)",
            )?
            .execute(rusqlite::params![
                trial_id,
                word,
                repeat,
                attempt,
                entry.device.to_string(),
                entry.outcome,
                entry.capacity,
                usage.allocated,
                usage.reserved,
                usage.unallocated,
                usage.inactive_split,
                usage.retries,
                usage.ooms,
                usage.process,
                usage.context,
                usage.resident,
                usage.resident_before,
                entry.grant,
                predicted(|p| p.lower),
                predicted(|p| p.expected),
                predicted(|p| p.upper),
                entry.halvings,
            ])?;
        Ok(())
    }
}
