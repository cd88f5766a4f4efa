//! Taking in what a run could not write itself, and left in its spool.

use rusqlite::OptionalExtension;

use super::apply::Batch;
use super::error::Cause;
use super::open::stamp;
use super::{Store, StoreError, Write};

/// What became of writes that were taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakenIn {
    /// They are durable now.
    Written,
    /// They were durable before: the run wrote them and died before it emptied its spool.
    There,
    /// They do not fit what the database holds; nothing was written. The reason, for people.
    Refused(String),
}

impl Store {
    /// Carries out what a run left in its spool, in one transaction, as of the time at which it
    /// came up. Repeating the call changes nothing. Only for who holds the study, and before
    /// anything of it is started again.
    ///
    /// # Errors
    /// Reading or writing failed. Writes that do not fit are no error, but [`TakenIn::Refused`].
    pub fn take_in(
        &mut self,
        study_id: i64,
        run_id: i64,
        time: jiff::Timestamp,
        writes: &[Write],
    ) -> Result<TakenIn, StoreError> {
        self.must_be_in_place()?;
        if self.is_there(study_id, writes).map_err(|c| self.at(c))? {
            return Ok(TakenIn::There);
        }
        let all = |batch: &Batch<'_>| writes.iter().try_for_each(|write| batch.write(write));
        match self.transact(study_id, run_id, &stamp(time), all) {
            Ok(()) => Ok(TakenIn::Written),
            Err(Cause::UnknownTrial(_, number)) => Ok(TakenIn::Refused(format!(
                "the database has no trial {number}"
            ))),
            Err(Cause::Transition(number, from, to)) => Ok(TakenIn::Refused(format!(
                "trial {number} is {from} in the database and cannot become {to}"
            ))),
            Err(Cause::Invalid(what) | Cause::Content(what)) => Ok(TakenIn::Refused(what)),
            Err(Cause::Conflict) => Ok(TakenIn::Refused("its trial was taken".to_owned())),
            Err(cause) => Err(self.at(cause)),
        }
    }

    /// Whether the ends among the writes are in the database already. Batches are written whole or
    /// not at all, so the rest of them is then there, too.
    fn is_there(&self, study_id: i64, writes: &[Write]) -> Result<bool, Cause> {
        let mut ends = false;
        for write in writes {
            let there = match write {
                Write::AttemptEnded {
                    number,
                    attempt,
                    end,
                } => self
                    .conn
                    .prepare_cached(
                        "SELECT 1 FROM trials t JOIN tune_attempts a ON a.trial_id = t.trial_id
                         WHERE t.study_id = ?1 AND t.number = ?2 AND a.attempt = ?3
                             AND a.ended IS NOT NULL AND a.outcome = ?4",
                    )?
                    .exists((study_id, number, attempt, &end.outcome))?,
                Write::RepeatAttemptEnded {
                    number,
                    purpose,
                    attempt,
                    end,
                } => self.repeat_attempt_ended(
                    (study_id, *number, *purpose),
                    *attempt,
                    &end.outcome,
                )?,
                Write::RepeatFinished {
                    number,
                    purpose,
                    state,
                    ..
                } => self.repeat_finished((study_id, *number, *purpose), *state)?,
                Write::TrialFinished { number, state, .. } => self
                    .conn
                    .prepare_cached("SELECT state FROM trials WHERE study_id = ?1 AND number = ?2")?
                    .query_row((study_id, number), |row| row.get::<_, String>(0))
                    .optional()?
                    .is_some_and(|word| word == state.optuna()),
                Write::TrialCreated { .. }
                | Write::TrialClaimed { .. }
                | Write::AttemptStarted { .. }
                | Write::Reported { .. }
                | Write::RepeatStarted { .. }
                | Write::MemoryUsed { .. }
                | Write::TrialNoted { .. }
                | Write::StudyAttributes { .. }
                | Write::GpuSampled { .. }
                | Write::RunEnded { .. } => continue,
            };
            if !there {
                return Ok(false);
            }
            ends = true;
        }
        Ok(ends)
    }
}
