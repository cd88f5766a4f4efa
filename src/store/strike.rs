//! Results that somebody has declared invalid.

use super::rows::{SYSTEM, USER, put_attributes};
use super::studies::must_be_there;
use super::{Store, StoreError, StoreErrorKind as Kind};
use search::study::STRUCK;
use serde_json::{Map, Value as Json};

/// The user attribute that says why a trial was struck.
pub const STRUCK_WHY: &str = "struck";

impl Store {
    /// The trials of a study that `tune` has struck, each with the reason as JSON.
    ///
    /// # Errors
    /// Reading failed.
    pub fn struck(&self, study_id: i64) -> Result<Vec<(u64, String)>, StoreError> {
        let query = format!(
            "SELECT t.number, a.value_json FROM trials t JOIN {} a ON a.trial_id = t.trial_id
             WHERE t.study_id = ?1 AND a.\"key\" = ?2 ORDER BY t.number",
            USER.0
        );
        self.read(|conn| {
            conn.rows(&query, &[&study_id, &STRUCK_WHY], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
        })
    }

    /// Strikes a trial's result, for this reason: Optuna 5 sees a violated constraint. `None` takes that back.
    ///
    /// # Errors
    /// No such study or trial; writing failed. Nothing was changed then.
    pub fn strike(
        &mut self,
        study_id: i64,
        number: u64,
        why: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write(|conn| {
            must_be_there(conn, study_id)?;
            let of = "SELECT trial_id FROM trials WHERE study_id = ?1 AND number = ?2";
            let trial_id: Option<i64> = conn.first(of, &[&study_id, &number], |row| row.get(0))?;
            let trial_id = trial_id.ok_or(Kind::UnknownTrial(study_id, number))?;
            let one = |key: &str, value: Json| Map::from_iter([(key.to_owned(), value)]);
            match why {
                Some(why) => {
                    put_attributes(conn, USER, trial_id, &one(STRUCK_WHY, why.into()))?;
                    put_attributes(conn, SYSTEM, trial_id, &one(STRUCK, 1.0.into()))
                }
                None => [(USER, STRUCK_WHY), (SYSTEM, STRUCK)]
                    .into_iter()
                    .try_for_each(|((table, whose), key)| {
                        let delete =
                            format!("DELETE FROM {table} WHERE {whose} = ?1 AND \"key\" = ?2");
                        conn.send(&delete, &[&trial_id, &key])?;
                        Ok(())
                    }),
            }
        })
    }
}
