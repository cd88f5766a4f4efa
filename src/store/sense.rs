//! Rows that make sense one by one, but not together: what a run relies on beyond single rows.

use rusqlite::{Connection, OptionalExtension};

use super::error::Cause;
use super::{Store, StoreError, StudySummary};
use search::study::Direction;

impl Store {
    /// Refuses a study of ours whose rows contradict each other; `directions` are those that its
    /// identity has.
    ///
    /// # Errors
    /// Reading failed, or rows contradict each other.
    pub fn must_make_sense(
        &self,
        study: &StudySummary,
        directions: &[Direction],
    ) -> Result<(), StoreError> {
        self.contradiction(study, directions)
            .and_then(|found| found.map_or(Ok(()), |what| Err(Cause::Content(what))))
            .map_err(|cause| self.at(cause))
    }

    fn contradiction(
        &self,
        study: &StudySummary,
        directions: &[Direction],
    ) -> Result<Option<String>, Cause> {
        if study.directions != directions {
            let words = |directions: &[Direction]| {
                let words: Vec<&str> = directions.iter().map(|d| d.optuna()).collect();
                words.join(", ")
            };
            return Ok(Some(format!(
                "the study {:?} has the directions {} in study_directions, expected {}, which its \
                 identity has",
                study.name,
                words(&study.directions),
                words(directions)
            )));
        }
        // Nothing of ours takes a trial back to WAITING, nor does Optuna know a way.
        let waiting = self
            .conn
            .prepare_cached(
                "SELECT number FROM trials t WHERE study_id = ?1 AND state = 'WAITING'
                     AND EXISTS (SELECT 1 FROM tune_attempts a WHERE a.trial_id = t.trial_id)
                 ORDER BY number LIMIT 1",
            )?
            .query_row([study.study_id], |row| row.get::<_, u64>(0))
            .optional()?;
        Ok(waiting.map(|number| {
            format!(
                "trial {number} of the study {:?} is WAITING, but has attempts in tune_attempts; \
                 expected another state, or no attempts",
                study.name
            )
        }))
    }
}

/// How a study is called in messages about its rows.
pub(super) fn named(conn: &Connection, study_id: i64) -> String {
    let name = conn.query_row(
        "SELECT study_name FROM studies WHERE study_id = ?1",
        [study_id],
        |row| row.get::<_, String>(0),
    );
    name.map_or_else(
        |_| format!("study {study_id}"),
        |name| format!("the study {name:?}"),
    )
}
