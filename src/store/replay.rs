//! Writes that a run could not make itself, and left in its spool.

use std::collections::BTreeSet;

use super::apply::Batch;
use super::{HeldBy, Store, StoreError, StoreErrorKind as Kind, Write};
use search::study::TrialState;

/// What became of writes from a spool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replayed {
    /// They are durable now.
    Written,
    /// They were durable before: the run wrote them and died before it emptied its spool.
    Before,
    /// They do not fit what the database holds; nothing was written. The reason, for people.
    Refused(String),
}

impl Store {
    /// Carries out what a run left in its spool, in one transaction, as of the time at which it
    /// came up. Repeating the call changes nothing. Only for who has the lock of the run's node, and before
    /// anything of it is started again.
    ///
    /// # Errors
    /// Reading or writing failed. Writes that do not fit are no error, but [`Replayed::Refused`].
    pub fn replay(
        &mut self,
        study_id: i64,
        run_id: i64,
        time: jiff::Timestamp,
        writes: &[Write],
    ) -> Result<Replayed, StoreError> {
        self.must_be_in_place()?;
        let replayed = self.transact((study_id, run_id), time, writes, |batch| {
            if batch.holds(writes)? {
                return Ok(Replayed::Before);
            }
            batch.must_hold(writes)?;
            batch.write_all(writes)?;
            Ok(Replayed::Written)
        });
        match replayed {
            Err(Kind::UnknownTrial(_, number)) => Ok(Replayed::Refused(format!(
                "the database has no trial {number}"
            ))),
            Err(Kind::Transition(number, from, to)) => Ok(Replayed::Refused(format!(
                "trial {number} is {from} in the database and cannot become {to}"
            ))),
            Err(Kind::Invalid(what) | Kind::Content(what)) => Ok(Replayed::Refused(what)),
            Err(Kind::Conflict) => Ok(Replayed::Refused("its trial was taken".to_owned())),
            replayed => replayed.map_err(|kind| self.at(kind)),
        }
    }
}

impl Batch<'_> {
    /// Refuses writes about a trial that is under way and that another run has taken over.
    fn must_hold(&self, writes: &[Write]) -> Result<(), Kind> {
        let numbers: BTreeSet<u64> = writes.iter().filter_map(Write::number).collect();
        for number in numbers {
            let held = self.glimpse(number)?;
            let taken = held.is_some_and(|trial| {
                trial.state == TrialState::Running
                    && matches!(trial.held_by, HeldBy::Node | HeldBy::Nobody)
            });
            if taken {
                let what = format!("another node has taken trial {number} over");
                return Err(Kind::Invalid(what));
            }
        }
        Ok(())
    }

    /// Whether the ends among the writes are in the database already. Batches are written whole or
    /// not at all, so the rest of them is then there, too.
    fn holds(&self, writes: &[Write]) -> Result<bool, Kind> {
        let mut ends = false;
        for write in writes {
            let there = if let Write::AttemptEnded { id, end } = write {
                self.attempt_ended(*id, &end.outcome)?
            } else if let Write::TrialFinished { number, state, .. } = write {
                self.trial(*number)?.1 == *state
            } else if let Write::RepeatFinished { job, state, .. } = write {
                self.repeat_state(self.trial(job.number)?.0, *job)? == Some(*state)
            } else {
                continue;
            };
            if !there {
                return Ok(false);
            }
            ends = true;
        }
        Ok(ends)
    }
}
