//! Rows that make sense one by one, but not together: what a run relies on beyond single rows.

use super::{Store, StoreError, StoreErrorKind as Kind, StudySummary};
use search::study::Direction;

impl Store {
    /// Refuses a study of ours whose rows contradict each other; `directions` are those that its
    /// identity has.
    ///
    /// # Errors
    /// Reading failed, or rows contradict each other.
    pub fn must_be_consistent(
        &self,
        study: &StudySummary,
        directions: &[Direction],
    ) -> Result<(), StoreError> {
        if study.directions != directions {
            let words = |directions: &[Direction]| {
                let words: Vec<&str> = directions.iter().map(|d| d.optuna()).collect();
                words.join(", ")
            };
            return Err(self.at(Kind::Content(format!(
                "the study {:?} has the directions {} in study_directions, expected {}, which its \
                 identity has",
                study.name,
                words(&study.directions),
                words(directions)
            ))));
        }
        // Nothing of ours takes a trial back to WAITING, nor does Optuna know a way.
        let waiting: Option<u64> = self.read(|conn| {
            let query = "SELECT number FROM trials t WHERE study_id = ?1 AND state = 'WAITING'
                     AND EXISTS (SELECT 1 FROM tune_attempts a WHERE a.trial_id = t.trial_id)
                 ORDER BY number LIMIT 1";
            conn.first(query, &[&study.study_id], |row| row.get(0))
        })?;
        match waiting {
            None => Ok(()),
            Some(number) => Err(self.at(Kind::Content(format!(
                "trial {number} of the study {:?} is WAITING, but has attempts in tune_attempts; \
                 expected another state, or no attempts",
                study.name
            )))),
        }
    }
}
