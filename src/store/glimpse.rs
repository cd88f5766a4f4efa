//! What has to be known of trials while a batch is written: where others got ahead of it, it is not.

use std::collections::BTreeSet;

use super::apply::Batch;
use super::attempts::under_way;
use super::changes::overtaken;
use super::leases::is_live;
use super::read::{Which, read_trials, state};
use super::rows::{ALIKE, NEXT_NUMBER, rarest};
use super::sql::{Args, Connection, Row};
use super::{HeldBy, RepeatSummary, StoreErrorKind as Kind, TrialSummary, Write};
use search::study::{Job, STRUCK};

impl Batch<'_> {
    /// What comes next, as for [`overtaken`]; 0 for a write that does not ask for it.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only three ask for it")]
    pub(super) fn next_for(&self, write: &Write) -> Result<u64, Kind> {
        let job = match write {
            Write::TrialCreated { .. } => return self.next_number(),
            Write::TrialReclaimed { number, .. } => Job::trial(*number),
            Write::AttemptStarted { id, .. } if !id.job().searches() => id.job(),
            _ => return Ok(0),
        };
        match self.known(job.number)? {
            Some((trial_id, _)) => self.next_attempt(trial_id, job),
            None => Ok(0),
        }
    }

    /// Whether a new trial's point is that of another one that was not known when it was proposed.
    pub(super) fn is_tried(&self, write: &Write, next: u64) -> Result<bool, Kind> {
        let Write::TrialCreated { since, params, .. } = write else {
            return Ok(false);
        };
        if *since >= next {
            return Ok(false);
        }
        let ask = |query: &str, args: Args<'_>| self.conn.rows(query, args, |row| row.get(0));
        let alike: Option<Vec<u64>> = with_alike(self.study_id, write, ask)?;
        let alike = alike.unwrap_or_else(|| (*since..next).collect());
        if alike.is_empty() {
            return Ok(false);
        }
        let alike = read_trials(self.conn, self.study_id, Which::These(&alike))?;
        Ok(alike.iter().any(|trial| trial.params == *params))
    }

    /// Whether somebody got ahead of a write; `next` as for [`overtaken`].
    pub(super) fn is_overtaken(&self, write: &Write, next: u64) -> Result<bool, Kind> {
        let Some(number) = write.number() else {
            return Ok(false);
        };
        let trial = self.glimpse(number)?;
        let repeat = match write.repeat() {
            Some(job) if trial.is_some() => self.glimpse_of_repeat(job)?,
            Some(_) | None => None,
        };
        Ok(overtaken(write, trial, repeat, next))
    }

    /// A trial at a glance.
    pub(super) fn glimpse(&self, number: u64) -> Result<Option<TrialSummary>, Kind> {
        Ok(self.known(number)?.map(|(_, trial)| trial))
    }

    /// Row id of a trial, and how it is; nobody changes it until the transaction ends.
    pub(super) fn look_at(&self, number: u64) -> Result<Option<(i64, TrialSummary)>, Kind> {
        let query = one_glimpse(self.conn);
        let args: Args<'_> = &[&self.study_id, &STRUCK, &number];
        let found = self.conn.first(&query, args, |row| {
            let trial = glimpse(row, number, Some(self.run_id), |_| true)?;
            Ok((row.get(4)?, row.get(1)?, trial))
        })?;
        let Some((trial_id, run, mut trial)) = found else {
            return Ok(None);
        };
        if let Some(run) = run
            && trial.held_by == HeldBy::Node
            && !is_live(self.conn, run)?
        {
            trial.held_by = HeldBy::Nobody;
        }
        Ok(Some((trial_id, trial)))
    }

    /// A repeat or test of a trial.
    fn glimpse_of_repeat(&self, job: Job) -> Result<Option<RepeatSummary>, Kind> {
        let trial_id = self.trial(job.number)?.0;
        let Some(state) = self.repeat_state(trial_id, job)? else {
            return Ok(None);
        };
        let run = self.last_run_at(trial_id, job)?;
        let live = match run {
            Some(run) if run != self.run_id => is_live(self.conn, run)?,
            Some(_) | None => false,
        };
        let held_by = run.map_or(HeldBy::Nobody, |run| {
            HeldBy::of(Some(run), live, Some(self.run_id))
        });
        Ok(Some(RepeatSummary {
            finished: state.finished(),
            held_by,
        }))
    }
}

/// The highest number that a trial can have: Optuna's column on a server has 32 bits.
const HIGHEST: u64 = i32::MAX as u64;

/// Asks ahead for what has to be known to write a batch: the trials that it is about, attempts that end, and twins of the first
/// new trial.
pub(super) fn ask_ahead(conn: &Connection, study_id: i64, writes: &[Write]) -> Result<(), Kind> {
    // What an earlier write of the batch alters is asked when it is needed.
    let (mut asked, mut altered) = (BTreeSet::new(), BTreeSet::new());
    let is_new = |write: &&Write| matches!(write, Write::TrialCreated { .. });
    let is_only_one = writes.iter().filter(is_new).count() == 1;
    for write in writes {
        if let Write::AttemptEnded { id, .. } = write
            && !altered.contains(&id.number)
        {
            under_way(study_id, *id, |query, args| conn.ask_ahead(query, args))?;
        }
        if let Write::AttemptEnded { id, .. } | Write::AttemptStarted { id, .. } = write {
            altered.insert(id.number);
        } else if let Write::TrialReclaimed { number, .. } = write {
            altered.insert(*number);
        }
        let Some(number) = write.number().filter(|number| asked.insert(*number)) else {
            continue;
        };
        if !is_new(&write) {
            conn.ask_ahead(&one_glimpse(conn), &[&study_id, &STRUCK, &number])?;
            continue;
        }
        if is_only_one {
            conn.ask_ahead(NEXT_NUMBER, &[&study_id])?;
            with_alike(study_id, write, |query, args| conn.ask_ahead(query, args))?;
        }
        conn.ask_trial_id_ahead()?;
    }
    Ok(())
}

/// Does something with the query for the trials that may be at a new trial's point; `None`: no number tells them.
fn with_alike<T>(
    study_id: i64,
    write: &Write,
    act: impl FnOnce(&str, Args<'_>) -> Result<T, Kind>,
) -> Result<Option<T>, Kind> {
    let Write::TrialCreated {
        since,
        last,
        params,
        distributions,
        ..
    } = write
    else {
        return Ok(None);
    };
    let Some((name, value)) = rarest(params, distributions) else {
        return Ok(None);
    };
    let last = (*last).min(HIGHEST);
    act(ALIKE, &[&study_id, since, &last, &name, &value]).map(Some)
}

/// One trial at a glance; the third parameter is its number. Nobody changes it until the transaction ends.
fn one_glimpse(conn: &Connection) -> String {
    let locking = conn.locking("t");
    format!("{} AND t.number = ?3{locking}", glimpse_query(true))
}

/// The trials of a study at a glance; the second parameter is [`STRUCK`]. In a database that only Optuna has made nobody holds
/// them.
pub(super) fn glimpse_query(own_tables: bool) -> String {
    let (run, held) = match own_tables {
        true => (
            "o.run_id",
            "LEFT JOIN tune_trials o ON o.trial_id = t.trial_id",
        ),
        false => ("CAST(NULL AS BIGINT)", ""),
    };
    format!(
        "SELECT t.state, {run}, s.trial_id IS NOT NULL, t.number, t.trial_id FROM trials t {held}
         LEFT JOIN trial_system_attributes s ON s.trial_id = t.trial_id AND s.\"key\" = ?2
         WHERE t.study_id = ?1"
    )
}

/// A row of [`glimpse_query`], for the run that asks.
pub(super) fn glimpse(
    row: &Row<'_>,
    number: u64,
    asks: Option<i64>,
    live: impl FnOnce(i64) -> bool,
) -> Result<TrialSummary, Kind> {
    let state = state(row.text(0)?, || format!("trial {number}"))?;
    let run: Option<i64> = row.get(1)?;
    let live = !state.finished() && run.is_some_and(live);
    Ok(TrialSummary {
        state,
        held_by: HeldBy::of(run, live, asks),
        struck: row.get(2)?,
    })
}
