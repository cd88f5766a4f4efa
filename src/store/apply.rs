//! Carrying out a batch of writes in one transaction.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use rusqlite::types::Null;
use serde_json::{Map, Value as Json};

use super::attempts::interrupt;
use super::file::FileId;
use super::glimpse::ask_ahead;
use super::rows::{
    OF_STUDIES, SYSTEM, USER, check_values, new_trial, next_number, put_attributes, put_params,
    put_reports, put_values,
};
use super::sql::{Connection, Intent};
use super::studies::named;
use super::{HeldBy, Store, StoreError, StoreErrorKind as Kind, TrialSummary, Write, Written};
use messages::clock::to_store as stamp;
use search::space::{Domain, Params};
use search::study::{AttemptId, Purpose, TrialState};

impl Store {
    /// Carries out a batch of writes for a run: all of it is durable, or nothing was written.
    ///
    /// # Errors
    /// [`StoreError::transient`] ones may be tried again with the same batch. A write that no
    /// trial may undergo is refused with the whole batch.
    pub fn apply(
        &mut self,
        study_id: i64,
        run_id: i64,
        writes: &[Write],
    ) -> Result<Written, StoreError> {
        if writes.is_empty() {
            return Ok(Written::Done);
        }
        self.must_be_writable(writes)?;
        let time = self.time();
        match self.transact((study_id, run_id), time, writes, |b| b.write_all(writes)) {
            Ok(()) => Ok(Written::Done),
            Err(Kind::Conflict) => Ok(Written::Conflict),
            Err(kind) => Err(self.at(kind)),
        }
    }

    /// Nothing is written to a file that another one has taken the place of, nor behind a log that has lost something; and
    /// no run ends well that has written to a log that was overwritten.
    pub(super) fn must_be_writable(&self, writes: &[Write]) -> Result<(), StoreError> {
        self.must_be_in_place()?;
        match writes.iter().any(|w| matches!(w, Write::RunEnded { .. })) {
            true => self.log_must_be_intact(),
            false => Ok(()),
        }
    }

    /// Nothing is written to a file that another one has taken the place of.
    pub(super) fn must_be_in_place(&self) -> Result<(), StoreError> {
        if self.file.is_some() && FileId::of(self.path()) != self.file {
            return Err(self.at(Kind::Moved));
        }
        self.log_must_be_there()
    }

    /// Does something for a run in one transaction, whose rows carry this time: all of it is durable, or nothing was
    /// written. What has to be known to write `writes` is asked with the lock.
    pub(super) fn transact<T>(
        &mut self,
        (study_id, run_id): (i64, i64),
        time: jiff::Timestamp,
        writes: &[Write],
        act: impl FnOnce(&Batch<'_>) -> Result<T, Kind>,
    ) -> Result<T, Kind> {
        let done = self.conn.transaction(Intent::Write, |conn| {
            let objectives = conn.lock_study(study_id, || ask_ahead(conn, study_id, writes))?;
            let batch = Batch {
                conn,
                study_id,
                objectives,
                run_id,
                now: &stamp(time),
                next: Cell::default(),
                known: RefCell::default(),
                fresh: RefCell::default(),
                begun: RefCell::default(),
                reports: RefCell::default(),
            };
            let done = act(&batch)?;
            batch.flush_reports()?;
            Ok(done)
        })?;
        self.copy_long_log();
        Ok(done)
    }
}

/// One transaction under way.
pub(super) struct Batch<'a> {
    pub(super) conn: &'a Connection,
    pub(super) study_id: i64,
    /// How many the study has.
    objectives: usize,
    pub(super) run_id: i64,
    pub(super) now: &'a str,
    /// The number that the study's next trial gets, once somebody has asked.
    next: Cell<Option<u64>>,
    /// Trials as they are, which nobody else changes until the transaction ends: by number, with their row ids.
    known: RefCell<BTreeMap<u64, (i64, TrialSummary)>>,
    /// Row ids of trials that were made here and have had no attempt yet: there is nothing to forget or to end.
    pub(super) fresh: RefCell<BTreeSet<i64>>,
    /// Attempts that were begun here.
    pub(super) begun: RefCell<BTreeSet<AttemptId>>,
    /// Reports that have not been written yet, by row id and step: many are written at once.
    reports: RefCell<BTreeMap<(i64, i64), f64>>,
}

impl Batch<'_> {
    pub(super) fn write_all(&self, writes: &[Write]) -> Result<(), Kind> {
        writes.iter().try_for_each(|write| self.write(write))
    }

    pub(super) fn write(&self, write: &Write) -> Result<(), Kind> {
        if !matches!(write, Write::Reported { .. }) {
            self.flush_reports()?;
        }
        match write {
            Write::TrialCreated {
                number,
                params,
                distributions,
                user_attrs,
                system_attrs,
                ..
            } => self.create(*number, params, distributions, [user_attrs, system_attrs]),
            Write::TrialClaimed {
                number,
                params,
                distributions,
                user_attrs,
            } => self.claim(*number, params, distributions, user_attrs),
            Write::TrialReclaimed { number, .. } => self.reclaim(*number),
            Write::AttemptStarted {
                id,
                seed,
                worker,
                pid,
                device,
                log,
            } => {
                let trial_id = self.ready_for_attempt(*id, *seed)?;
                self.start_attempt(trial_id, *id, (*worker, *pid), device, log)
            }
            Write::Reported {
                number,
                step,
                value,
            } => {
                let trial_id = self.running(*number)?;
                self.reports.borrow_mut().insert((trial_id, *step), *value);
                Ok(())
            }
            Write::AttemptEnded { id, end } => self.end_attempt(*id, end),
            Write::TrialFinished {
                number,
                state,
                values,
                user_attrs,
                system_attrs,
            } => {
                let trial_id = self.finish(*number, *state, values)?;
                put_attributes(self.conn, USER, trial_id, user_attrs)?;
                put_attributes(self.conn, SYSTEM, trial_id, system_attrs)
            }
            Write::RepeatFinished {
                job,
                seed,
                state,
                value,
                user_attrs,
            } => self.finish_repeat(*job, *seed, (*state, *value), user_attrs),
            Write::MemoryUsed { id, entry } => self.put_memory(*id, entry),
            Write::TrialNoted { number, user_attrs } => {
                put_attributes(self.conn, USER, self.trial(*number)?.0, user_attrs)
            }
            Write::StudyAttributes { user_attrs } => {
                put_attributes(self.conn, OF_STUDIES, self.study_id, user_attrs)
            }
            Write::GpuSampled { minute } => self.put_gpu_minute(minute),
            Write::RunEnded { exit } => self.end_run(*exit),
        }
    }

    fn flush_reports(&self) -> Result<(), Kind> {
        let reports = self.reports.take().into_iter();
        put_reports(
            self.conn,
            reports.map(|((id, step), value)| (id, step, value)),
        )
    }

    /// Row id and state of a trial.
    pub(super) fn trial(&self, number: u64) -> Result<(i64, TrialState), Kind> {
        let (trial_id, trial) = self
            .known(number)?
            .ok_or(Kind::UnknownTrial(self.study_id, number))?;
        Ok((trial_id, trial.state))
    }

    /// Row id of a trial, and how it is.
    pub(super) fn known(&self, number: u64) -> Result<Option<(i64, TrialSummary)>, Kind> {
        if let Some(known) = self.known.borrow().get(&number) {
            return Ok(Some(*known));
        }
        if self.next.get().is_some_and(|next| number >= next) {
            return Ok(None);
        }
        let read = self.look_at(number)?;
        let mut known = self.known.borrow_mut();
        known.extend(read.map(|read| (number, read)));
        Ok(read)
    }

    /// The number that the study's next trial gets; nobody else makes one until the transaction ends.
    pub(super) fn next_number(&self) -> Result<u64, Kind> {
        if let Some(next) = self.next.get() {
            return Ok(next);
        }
        let next = next_number(self.conn, self.study_id)?;
        self.next.set(Some(next));
        Ok(next)
    }

    /// A trial is RUNNING now, and this run's.
    fn runs(&self, number: u64, trial_id: i64) {
        let trial = TrialSummary {
            state: TrialState::Running,
            held_by: HeldBy::Run,
            struck: false,
        };
        self.known.borrow_mut().insert(number, (trial_id, trial));
    }

    /// Row id of a trial that must be RUNNING.
    fn running(&self, number: u64) -> Result<i64, Kind> {
        match self.trial(number)? {
            (id, TrialState::Running) => Ok(id),
            (
                _,
                state @ (TrialState::Waiting
                | TrialState::Complete
                | TrialState::Pruned
                | TrialState::Fail),
            ) => Err(Kind::Transition(number, state, TrialState::Running)),
        }
    }

    /// Makes a trial, with its user and system attributes.
    fn create(
        &self,
        number: u64,
        params: &Params,
        distributions: &BTreeMap<String, Domain>,
        [user_attrs, system_attrs]: [&Map<String, Json>; 2],
    ) -> Result<(), Kind> {
        if self.next_number()? != number {
            return Err(Kind::Conflict);
        }
        let place = (self.study_id, number);
        let trial_id = new_trial(self.conn, place, "RUNNING", (&self.now, &Null))?;
        self.next.set(Some(number + 1));
        self.fresh.borrow_mut().insert(trial_id);
        self.own(trial_id)?;
        put_params(self.conn, trial_id, number, params, distributions)?;
        self.runs(number, trial_id);
        put_attributes(self.conn, USER, trial_id, user_attrs)?;
        put_attributes(self.conn, SYSTEM, trial_id, system_attrs)
    }

    fn claim(
        &self,
        number: u64,
        params: &Params,
        distributions: &BTreeMap<String, Domain>,
        user_attrs: &Map<String, Json>,
    ) -> Result<(), Kind> {
        let (trial_id, state) = self.trial(number)?;
        if state != TrialState::Waiting {
            return Err(Kind::Conflict);
        }
        self.conn.send(
            "UPDATE trials SET state = 'RUNNING', datetime_start = ?2 WHERE trial_id = ?1",
            &[&trial_id, &self.now],
        )?;
        self.own(trial_id)?;
        // A trial that Optuna enqueued for another try carries the old parameters.
        self.conn
            .send("DELETE FROM trial_params WHERE trial_id = ?1", &[&trial_id])?;
        put_params(self.conn, trial_id, number, params, distributions)?;
        self.runs(number, trial_id);
        put_attributes(self.conn, USER, trial_id, user_attrs)
    }

    /// Takes over a RUNNING trial, that nobody holds any more: its last attempt was interrupted.
    fn reclaim(&self, number: u64) -> Result<(), Kind> {
        let trial_id = self.running(number)?;
        self.own(trial_id)?;
        self.runs(number, trial_id);
        interrupt(self.conn, "trial_id = ?1", trial_id, self.now)
    }

    /// Notes that the trial is one of ours.
    fn own(&self, trial_id: i64) -> Result<(), Kind> {
        let row = [&trial_id as _, &self.run_id as _];
        self.conn.put("tune_trials", "trial_id", "run_id", &[row])
    }

    /// Row id of the trial that an attempt is about to be made at, or at a repeat of it. What earlier attempts at a trial
    /// reported is forgotten.
    fn ready_for_attempt(&self, id: AttemptId, seed: u64) -> Result<i64, Kind> {
        if id.purpose != Purpose::Search {
            return self.start_repeat(id.job(), seed);
        }
        let trial_id = self.running(id.number)?;
        if !self.fresh.borrow().contains(&trial_id) {
            let forget = "DELETE FROM trial_intermediate_values WHERE trial_id = ?1";
            self.conn.send(forget, &[&trial_id])?;
        }
        Ok(trial_id)
    }

    /// Ends a trial and returns its row id.
    fn finish(&self, number: u64, to: TrialState, values: &[f64]) -> Result<i64, Kind> {
        let (trial_id, from) = self.trial(number)?;
        if !to.finished() || from.next(to).is_err() {
            return Err(Kind::Transition(number, from, to));
        }
        let objectives = self.objectives;
        let mut last = Vec::new();
        if to == TrialState::Pruned && values.is_empty() && objectives == 1 {
            last.extend(self.last_report(trial_id)?);
        }
        let values = if last.is_empty() { values } else { &last };
        if !values.is_empty() && values.len() != objectives {
            return Err(Kind::Content(format!(
                "{} has {objectives} directions in study_directions, but trial {number} ended with \
                 {} values",
                named(self.conn, self.study_id),
                values.len()
            )));
        }
        check_values(number, to, values, objectives)?;
        self.conn.send(
            "UPDATE trials SET state = ?2, datetime_complete = ?3,
                     datetime_start = COALESCE(datetime_start, ?3)
                 WHERE trial_id = ?1",
            &[&trial_id, &to.optuna(), &self.now],
        )?;
        put_values(self.conn, trial_id, values)?;
        if let Some((_, trial)) = self.known.borrow_mut().get_mut(&number) {
            trial.state = to;
        }
        Ok(trial_id)
    }

    /// The last reported value that is not NaN.
    fn last_report(&self, trial_id: i64) -> Result<Option<f64>, Kind> {
        let query = "SELECT intermediate_value, intermediate_value_type
             FROM trial_intermediate_values
             WHERE trial_id = ?1 AND intermediate_value_type <> 'NAN'
             ORDER BY step DESC LIMIT 1";
        let found = self.conn.first(query, &[&trial_id], |row| {
            Ok(match row.text(1)? {
                "INF_POS" => Some(f64::INFINITY),
                "INF_NEG" => Some(f64::NEG_INFINITY),
                _ => row.get(0)?,
            })
        })?;
        Ok(found.flatten())
    }
}
