//! A study that other programs write to as well: what they have done since one last looked, and
//! writes of ours that they got ahead of.
//!
//! SQLite says only that some connection has committed something ([`Store::foreign_change`]): to this
//! study or to another one in the same file. What has changed in this one is found by comparing
//! number, state, ownership and whether it was struck with what was seen before: one pass over these columns.
//! Only trials that are new or different are then read.

use std::collections::BTreeMap;

use super::apply::Batch;
use super::read::{Which, read_trials, state};
use super::rows::next_number;
use super::sql::{Args, Row};
use super::studies::must_be_there;
use super::{Store, StoreError, StoreErrorKind as Kind, Write};
use search::study::{FrozenTrial, STRUCK, TrialState};

/// A batch of which it is not known whether it was committed.
#[derive(Debug)]
pub(super) struct Doubt {
    /// The transaction's.
    number: i64,
    writes: Vec<Write>,
    /// What was left out.
    late: Vec<Write>,
}

impl Doubt {
    /// Of a batch of which nothing was left out.
    #[cfg(test)]
    pub(super) fn of(number: i64, writes: &[Write]) -> Doubt {
        Doubt {
            number,
            writes: writes.to_vec(),
            late: Vec::new(),
        }
    }
}

/// A trial at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrialSummary {
    /// Its state.
    pub state: TrialState,
    /// Whether a run of `tune` has made or claimed it.
    pub ours: bool,
    /// Whether somebody has declared its result invalid.
    pub struck: bool,
}

/// What is known of a study's trials, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownTrials {
    trials: BTreeMap<u64, TrialSummary>,
}

/// What others have done to a study.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// Numbers of trials that were deleted, ascending. One of them stands among `trials` as well
    /// where somebody has made another trial with its number.
    pub gone: Vec<u64>,
    /// Trials that were added or changed, as they are now, ascending by number.
    pub trials: Vec<FrozenTrial>,
}

impl Changes {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.trials.is_empty()
    }
}

impl KnownTrials {
    /// Compares with what is there now, and takes that over. Gives the numbers of trials that are
    /// gone, and of those to be read: new ones, changed ones, and those that other programs are
    /// running, whose reports are told by no state.
    pub fn update(&mut self, now: BTreeMap<u64, TrialSummary>) -> (Vec<u64>, Vec<u64>) {
        let before = std::mem::replace(&mut self.trials, now);
        let gone = before.iter().filter(|(number, was)| {
            (self.trials.get(number)).is_none_or(|is| was.ours && !is.ours)
        });
        let read = self.trials.iter().filter(|(number, is)| {
            before.get(number) != Some(is) || (!is.ours && is.state == TrialState::Running)
        });
        let numbers = |(number, _): (&u64, &TrialSummary)| *number;
        (gone.map(numbers).collect(), read.map(numbers).collect())
    }

    /// Takes over what a write of our own has done.
    pub fn note(&mut self, write: &Write) {
        if let Some(number) = write.trial_started() {
            let running = TrialSummary {
                state: TrialState::Running,
                ours: true,
                struck: false,
            };
            self.trials.insert(number, running);
        }
        if let Write::TrialFinished { number, state, .. } = write
            && let Some(trial) = self.trials.get_mut(number)
        {
            trial.state = *state;
        }
    }
}

/// Whether another program got ahead of a write about a trial that is like this now, so that it says
/// nothing any more: a start that cannot be, or a fact about a trial that was ended or deleted.
/// `next` is the number that the study's next trial gets. The end of an attempt is recorded although
/// somebody else has ended its trial.
pub fn overtaken(write: &Write, trial: Option<TrialSummary>, next: u64) -> bool {
    let is = |state: TrialState| trial.is_some_and(|t| t.state == state);
    let ours = trial.is_some_and(|t| t.ours);
    match write {
        Write::TrialCreated { number, .. } => *number != next,
        Write::TrialClaimed { .. } => !is(TrialState::Waiting),
        Write::AttemptStarted { id, .. } if !id.job().searches() => !is(TrialState::Complete),
        Write::AttemptStarted { .. } | Write::Reported { .. } | Write::TrialFinished { .. } => {
            !(ours && is(TrialState::Running))
        }
        Write::AttemptEnded { id, .. } | Write::MemoryUsed { id, .. } if id.job().searches() => {
            !ours
        }
        Write::AttemptEnded { .. } | Write::MemoryUsed { .. } | Write::RepeatFinished { .. } => {
            !is(TrialState::Complete)
        }
        Write::TrialNoted { .. } => trial.is_none(),
        Write::StudyAttributes { .. } | Write::GpuSampled { .. } | Write::RunEnded { .. } => false,
    }
}

impl Store {
    /// What has changed in a study since `seen`, which is brought up to date; with an empty `seen`
    /// that is all of it. Other studies of the file cost nothing but a pass over this one's states.
    ///
    /// # Errors
    /// The study was deleted; reading failed, or a row makes no sense. `seen` is then as it was.
    pub fn changes(&self, study_id: i64, seen: &mut KnownTrials) -> Result<Changes, StoreError> {
        self.read(|conn| {
            must_be_there(conn, study_id)?;
            let mut now = BTreeMap::new();
            let query = format!("{GLIMPSE} AND t.number IS NOT NULL");
            conn.each(&query, &[&study_id, &STRUCK], |row| {
                let number: u64 = row.get(3)?;
                now.insert(number, glimpse(row, number)?);
                Ok(())
            })?;
            let mut updated = seen.clone();
            let (gone, read) = updated.update(now);
            let trials = match read.is_empty() {
                true => Vec::new(),
                false => read_trials(conn, study_id, Which::These(&read))?,
            };
            *seen = updated;
            Ok(Changes { gone, trials })
        })
    }

    /// Carries out a batch for a run, but for what other programs got ahead of: that is left out and
    /// given back. The rest is durable when this returns, and in `seen`.
    ///
    /// # Errors
    /// Nothing was written. See [`Store::apply`]; also where the study was deleted.
    pub fn carry_out(
        &mut self,
        (study_id, run_id): (i64, i64),
        time: jiff::Timestamp,
        writes: &[Write],
        seen: &mut KnownTrials,
    ) -> Result<Vec<Write>, StoreError> {
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        self.must_be_writable(writes)?;
        if let Some(late) = self.written_after_all(writes)? {
            let written = writes.iter().filter(|write| !late.contains(write));
            written.for_each(|write| seen.note(write));
            return Ok(late);
        }
        let (mut written, mut late) = (Vec::new(), Vec::new());
        let done = self.transact((study_id, run_id), time, |batch| {
            must_be_there(batch.conn, study_id)?;
            for write in writes {
                if batch.is_overtaken(write)? {
                    late.push(write.clone());
                } else {
                    batch.write(write)?;
                    written.push(write);
                }
            }
            Ok(())
        });
        if let Err(Kind::Doubtful(number)) = done {
            self.doubt = Some(Doubt {
                number,
                writes: writes.to_vec(),
                late: late.clone(),
            });
        }
        done.map_err(|kind| self.at(kind))?;
        written.into_iter().for_each(|write| seen.note(write));
        Ok(late)
    }

    /// What was left out of these writes, where they are those of a commit that was in doubt, and turn out to be durable.
    fn written_after_all(&mut self, writes: &[Write]) -> Result<Option<Vec<Write>>, StoreError> {
        let Some(doubt) = self.doubt.take() else {
            return Ok(None);
        };
        match self.conn.committed(doubt.number) {
            Ok(true) if doubt.writes == writes => Ok(Some(doubt.late)),
            Ok(_) => Ok(None),
            Err(kind) => {
                self.doubt = Some(doubt);
                Err(self.at(kind))
            }
        }
    }
}

impl Batch<'_> {
    fn is_overtaken(&self, write: &Write) -> Result<bool, Kind> {
        let Some(number) = write.number() else {
            return Ok(false);
        };
        let query = format!("{GLIMPSE} AND t.number = ?3{}", self.conn.locking("t"));
        let args: Args<'_> = &[&self.study_id, &STRUCK, &number];
        let trial = self.conn.first(&query, args, |row| glimpse(row, number))?;
        let next = match matches!(write, Write::TrialCreated { .. }) {
            true => next_number(self.conn, self.study_id)?,
            false => 0,
        };
        Ok(overtaken(write, trial, next))
    }
}

/// The trials of a study at a glance; the second parameter is [`STRUCK`].
const GLIMPSE: &str = "SELECT t.state, o.trial_id IS NOT NULL, s.trial_id IS NOT NULL, t.number
     FROM trials t LEFT JOIN tune_trials o ON o.trial_id = t.trial_id
     LEFT JOIN trial_system_attributes s ON s.trial_id = t.trial_id AND s.\"key\" = ?2
     WHERE t.study_id = ?1";

/// A row of [`GLIMPSE`].
fn glimpse(row: &Row<'_>, number: u64) -> Result<TrialSummary, Kind> {
    Ok(TrialSummary {
        state: state(row.text(0)?, || format!("trial {number}"))?,
        ours: row.get(1)?,
        struck: row.get(2)?,
    })
}
