//! Trials that wait to be started, with values that are fixed beforehand.

use rusqlite::TransactionBehavior;
use rusqlite::types::Null;
use serde_json::{Map, Value as Json};

use super::apply::{next_number, params_json, put_system_attribute, put_user_attributes};
use super::error::Cause;
use super::fresh::new_trial;
use super::{Store, StoreError};
use search::space::Params;

impl Store {
    /// Adds a WAITING trial whose parameters are fixed beforehand (all or some), and returns its
    /// number. May be called while a run of another process writes.
    ///
    /// # Errors
    /// No such study; writing failed.
    pub fn enqueue(
        &mut self,
        study_id: i64,
        params: &Params,
        user_attrs: &Map<String, Json>,
    ) -> Result<u64, StoreError> {
        let added = self.enqueue_all(study_id, std::slice::from_ref(params), user_attrs)?;
        Ok(added.start)
    }

    /// The same for several points in their order, each with the same user attributes: all of
    /// them, or none. Returns their numbers.
    ///
    /// # Errors
    /// No such study; writing failed.
    pub fn enqueue_all(
        &mut self,
        study_id: i64,
        points: &[Params],
        user_attrs: &Map<String, Json>,
    ) -> Result<std::ops::Range<u64>, StoreError> {
        self.insert_waiting(study_id, points, user_attrs)
            .map_err(|c| self.at(c))
    }

    fn insert_waiting(
        &mut self,
        study_id: i64,
        points: &[Params],
        user_attrs: &Map<String, Json>,
    ) -> Result<std::ops::Range<u64>, Cause> {
        if !self.study_exists(study_id)? {
            return Err(Cause::UnknownStudy(study_id));
        }
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let first = next_number(&tx, study_id)?;
        let numbers = first..first + points.len() as u64;
        for (number, params) in numbers.clone().zip(points) {
            let trial_id = new_trial(&tx, (study_id, number), "WAITING", (&Null, &Null))?;
            put_user_attributes(&tx, trial_id, user_attrs)?;
            put_system_attribute(&tx, trial_id, "fixed_params", &params_json(params))?;
        }
        tx.commit()?;
        Ok(numbers)
    }
}
