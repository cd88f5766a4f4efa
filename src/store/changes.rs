//! A study that other programs write to as well: what they have done since one last looked, and
//! writes of ours that they got ahead of.
//!
//! SQLite says only that some connection has committed something ([`Store::foreign_change`]): to this
//! study or to another one in the same file. What has changed in this one is found by comparing
//! number, state, ownership and whether it was struck with what was seen before: one pass over these columns.
//! Only trials that are new or different are then read.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::attempts::left;
use super::glimpse::{glimpse, glimpse_query};
use super::leases::live_runs;
use super::read::{Which, read_trials};
use super::repeats::repeats;
use super::sql::Connection;
use super::studies::must_be_there;
use super::{HeldBy, Reclaimable, RepeatRecord, Store, StoreError, StoreErrorKind as Kind, Write};
use search::study::{FrozenTrial, Job, STRUCK, TrialState};

/// A batch of which it is not known whether it was committed.
#[derive(Debug)]
pub(super) struct Doubt {
    /// The transaction's.
    number: i64,
    writes: Vec<Write>,
    /// What became of it, where it was.
    carried: CarriedOut,
}

/// What became of a batch that was carried out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CarriedOut {
    /// What other programs got ahead of, and was left out.
    pub late: Vec<Write>,
    /// The new trials that have other numbers than they asked for, because others were faster: by the number asked for, the
    /// one that it has now.
    pub renumbered: BTreeMap<u64, u64>,
}

impl Doubt {
    /// Of a batch of which nothing was left out.
    #[cfg(test)]
    pub(super) fn of(number: i64, writes: &[Write]) -> Doubt {
        Doubt {
            number,
            writes: writes.to_vec(),
            carried: CarriedOut::default(),
        }
    }
}

/// A trial at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrialSummary {
    /// Its state.
    pub state: TrialState,
    /// Who may end it, or has ended it: of a finished trial never a node.
    pub held_by: HeldBy,
    /// Whether somebody has declared its result invalid.
    pub struck: bool,
}

/// A repeat, or a test, at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepeatSummary {
    /// Whether it has ended.
    pub finished: bool,
    /// Who has begun its last attempt; `Nobody` where there was none.
    pub held_by: HeldBy,
}

/// What nodes do beside the one that asks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OtherNodes {
    /// What they are running.
    pub running: BTreeSet<Job>,
    /// Trials that are RUNNING and nobody's, to be taken over, ascending by number.
    pub left: Vec<(FrozenTrial, Reclaimable)>,
    /// The study's repeats and tests.
    pub repeats: Vec<RepeatRecord>,
}

/// What is known of a study's trials, by number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownTrials {
    /// The run that wants to know; `None`: none does, and all that runs of `tune` hold is the same.
    run: Option<i64>,
    trials: BTreeMap<u64, TrialSummary>,
    /// The number after the highest that was ever known.
    ever: u64,
    /// The number after the highest at the last look: of those from here on only the run's own are known.
    looked: u64,
    /// What others are running, as it was read last.
    running: BTreeMap<u64, FrozenTrial>,
    nodes: OtherNodes,
}

/// What others have done to a study.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// Numbers of trials that were deleted, ascending. One of them stands among `trials` as well
    /// where somebody has made another trial with its number.
    pub gone: Vec<u64>,
    /// Numbers of trials that this run held and another one has taken over, ascending; they stand among `trials` as well.
    pub lost: Vec<u64>,
    /// Trials that were added or changed, as they are now, ascending by number.
    pub trials: Vec<FrozenTrial>,
    /// What other nodes do, where that is something else than before.
    pub nodes: Option<OtherNodes>,
}

impl Changes {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.gone.is_empty()
            && self.lost.is_empty()
            && self.trials.is_empty()
            && self.nodes.is_none()
    }
}

/// What a comparison gives: numbers of trials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// See [`Changes::gone`].
    pub gone: Vec<u64>,
    /// See [`Changes::lost`].
    pub lost: Vec<u64>,
    /// Those to be read: new ones, changed ones, and those that others are running, whose reports are told by no state.
    pub read: Vec<u64>,
}

impl KnownTrials {
    /// Of nothing yet, for a run.
    pub fn of_run(run_id: i64) -> KnownTrials {
        KnownTrials {
            run: Some(run_id),
            ..KnownTrials::default()
        }
    }

    /// Of nothing yet, for somebody who runs nothing and wants to know what all runs report.
    pub fn of_onlooker() -> KnownTrials {
        // The first run has the id 1.
        KnownTrials::of_run(0)
    }

    /// The number that a new trial asks for, where it gets `next` instead: that is not beyond the last that it may have, and
    /// no trial of it, nor one after it, was ever known.
    pub fn renumbered(&self, write: &Write, next: u64) -> Option<u64> {
        let Write::TrialCreated { number, last, .. } = write else {
            return None;
        };
        (*number != next && next <= *last && next >= self.ever).then_some(*number)
    }

    /// The number of the first trial that is not known to have ended, or not known at all: those before it hardly change.
    pub fn first_open(&self) -> u64 {
        let mut looked_at = self.trials.range(..self.looked);
        let open = looked_at.find(|(_, trial)| !trial.state.finished());
        open.map_or(self.looked, |(number, _)| *number)
    }

    fn after_last(&self) -> u64 {
        self.trials.keys().next_back().map_or(0, |last| last + 1)
    }

    /// Compares with what is there now from the number `first` on, and takes that over.
    pub fn update(&mut self, first: u64, now: BTreeMap<u64, TrialSummary>) -> Compared {
        let before = self.trials.split_off(&first);
        self.trials.extend(now);
        self.looked = self.after_last();
        self.ever = self.ever.max(self.looked);
        let mut compared = Compared::default();
        for (number, _) in before.iter().filter(|(_, was)| was.held_by == HeldBy::Run) {
            match self.trials.get(number).map(|is| is.held_by) {
                None | Some(HeldBy::Foreign) => compared.gone.push(*number),
                Some(HeldBy::Node | HeldBy::Nobody) => compared.lost.push(*number),
                Some(HeldBy::Run) => {}
            }
        }
        let deleted = before
            .iter()
            .filter(|(n, was)| was.held_by != HeldBy::Run && !self.trials.contains_key(n));
        compared.gone.extend(deleted.map(|(number, _)| *number));
        compared.gone.sort_unstable();
        let read = self.trials.range(first..).filter(|(number, is)| {
            before.get(number) != Some(is)
                || (is.held_by != HeldBy::Run && is.state == TrialState::Running)
        });
        compared.read.extend(read.map(|(number, _)| *number));
        compared
    }

    /// Leaves out what others are running and have reported nothing new of.
    fn news(&mut self, mut trials: Vec<FrozenTrial>) -> Vec<FrozenTrial> {
        trials.retain(|trial| self.running.get(&trial.number) != Some(trial));
        let running = |number: &u64| {
            let is = self.trials.get(number);
            is.is_some_and(|is| is.state == TrialState::Running && is.held_by != HeldBy::Run)
        };
        self.running.retain(|number, _| running(number));
        for trial in trials.iter().filter(|trial| running(&trial.number)) {
            self.running.insert(trial.number, trial.clone());
        }
        trials
    }

    /// Takes over what a write of our own has done.
    pub fn note(&mut self, write: &Write) {
        if let Some(number) = write.trial_started() {
            let running = TrialSummary {
                state: TrialState::Running,
                held_by: HeldBy::Run,
                struck: false,
            };
            self.trials.insert(number, running);
            self.ever = self.ever.max(self.after_last());
        }
        if let Write::TrialFinished { number, state, .. } = write
            && let Some(trial) = self.trials.get_mut(number)
        {
            trial.state = *state;
        }
    }
}

/// Whether somebody got ahead of a write about a trial, and its repeat, that is like this now, so that it says
/// nothing any more: a start that cannot be, or a fact about a trial that was ended, deleted or taken over.
/// `next` is what comes next: where a trial is new, its number; where one is taken over or a repeat begins, its attempt. The end of an attempt is recorded although
/// another program has ended its trial.
pub fn overtaken(
    write: &Write,
    trial: Option<TrialSummary>,
    repeat: Option<RepeatSummary>,
    next: u64,
) -> bool {
    let is = |state: TrialState| trial.is_some_and(|t| t.state == state);
    let held_by = |by: HeldBy| trial.is_some_and(|t| t.held_by == by);
    let repeat_is_open = |begun_by: &[HeldBy]| {
        is(TrialState::Complete)
            && repeat.is_none_or(|r| !r.finished && begun_by.contains(&r.held_by))
    };
    match write {
        Write::TrialCreated { number, .. } => *number != next,
        Write::TrialClaimed { .. } => !is(TrialState::Waiting),
        // Another attempt than the one that was known to be the next: somebody else has had it meanwhile.
        Write::TrialReclaimed { attempt, .. } => {
            u64::from(*attempt) != next || !(is(TrialState::Running) && held_by(HeldBy::Nobody))
        }
        Write::AttemptStarted { id, .. } if !id.job().searches() => {
            u64::from(id.attempt) != next || !repeat_is_open(&[HeldBy::Run, HeldBy::Nobody])
        }
        Write::AttemptStarted { .. } | Write::Reported { .. } | Write::TrialFinished { .. } => {
            !(held_by(HeldBy::Run) && is(TrialState::Running))
        }
        Write::AttemptEnded { id, .. } | Write::MemoryUsed { id, .. } if id.job().searches() => {
            !held_by(HeldBy::Run)
        }
        // One that was never begun on record is nobody's.
        Write::AttemptEnded { .. } | Write::MemoryUsed { .. } => {
            !is(TrialState::Complete) || repeat.is_some_and(|r| r.held_by != HeldBy::Run)
        }
        Write::RepeatFinished { .. } => !repeat_is_open(&[HeldBy::Run]),
        Write::TrialNoted { .. } => trial.is_none(),
        Write::StudyAttributes { .. } | Write::GpuSampled { .. } | Write::RunEnded { .. } => false,
    }
}

/// Attributes of a study that say what has come of its repeats and tests.
const OF_REPEATS: [&str; 2] = ["selection", "test"];

/// Whether a write says what follows from an end that was left out of the same batch: that does not stand either.
pub fn follows_from_late(write: &Write, late: &[Write]) -> bool {
    let Write::StudyAttributes { user_attrs } = write else {
        return false;
    };
    let is_end = |late: &Write| matches!(late, Write::RepeatFinished { .. });
    OF_REPEATS.iter().any(|name| user_attrs.contains_key(*name)) && late.iter().any(is_end)
}

impl Store {
    /// What has changed in a study since `seen`, which is brought up to date; with an empty `seen`
    /// that is all of it. Other studies of the file cost nothing but a pass over this one's states.
    ///
    /// # Errors
    /// The study was deleted; reading failed, or a row makes no sense. `seen` is then as it was.
    pub fn changes(&self, study_id: i64, seen: &mut KnownTrials) -> Result<Changes, StoreError> {
        self.changes_from(study_id, seen, 0)
    }

    /// The same but for trials before the first that is not known to have ended: that one of them was deleted or struck, the
    /// next [`Store::changes`] finds.
    ///
    /// # Errors
    /// See [`Store::changes`].
    pub fn recent_changes(
        &self,
        study_id: i64,
        seen: &mut KnownTrials,
    ) -> Result<Changes, StoreError> {
        let first = seen.first_open();
        self.changes_from(study_id, seen, first)
    }

    fn changes_from(
        &self,
        study_id: i64,
        seen: &mut KnownTrials,
        first: u64,
    ) -> Result<Changes, StoreError> {
        let shared = self.place().is_shared() && seen.run.is_some();
        self.read(|conn| {
            must_be_there(conn, study_id)?;
            let live = match shared {
                true => live_runs(conn, study_id)?,
                false => BTreeSet::new(),
            };
            let mut now = BTreeMap::new();
            let query = glimpse_query(self.own_tables) + " AND t.number >= ?3";
            conn.each(&query, &[&study_id, &STRUCK, &first], |row| {
                let number: u64 = row.get(3)?;
                now.insert(
                    number,
                    glimpse(row, number, seen.run, |run| live.contains(&run))?,
                );
                Ok(())
            })?;
            let mut updated = seen.clone();
            let Compared { gone, lost, read } = updated.update(first, now);
            let trials = match read.is_empty() {
                true => Vec::new(),
                false => updated.news(read_trials(conn, study_id, Which::These(&read))?),
            };
            let mut nodes = None;
            if shared {
                let now = other_nodes(conn, study_id, &updated, &live)?;
                nodes = (now != updated.nodes).then(|| now.clone());
                updated.nodes = now;
            }
            *seen = updated;
            Ok(Changes {
                gone,
                lost,
                trials,
                nodes,
            })
        })
    }

    /// Carries out a batch for a run, but for what other programs got ahead of: that is left out and
    /// given back. So is a new trial whose point another one has that was not known when it was proposed. A new trial whose number
    /// another one has got meanwhile gets the next one, with all that the batch says of it, unless that is beyond the last that
    /// it may have, or a trial of it has been in `seen` before: what is to be written may still speak of that one. What is
    /// not left out is durable when this returns, and in `seen`.
    ///
    /// # Errors
    /// Nothing was written. See [`Store::apply`]; also where the study was deleted.
    pub fn carry_out(
        &mut self,
        (study_id, run_id): (i64, i64),
        time: jiff::Timestamp,
        writes: &[Write],
        seen: &mut KnownTrials,
    ) -> Result<CarriedOut, StoreError> {
        if writes.is_empty() {
            return Ok(CarriedOut::default());
        }
        self.must_be_writable(writes)?;
        if let Some(carried) = self.written_after_all(writes)? {
            let written = writes.iter().filter(|write| !carried.late.contains(write));
            written.for_each(|write| seen.note(&carried.as_written(write)));
            return Ok(carried);
        }
        let (mut written, mut carried) = (Vec::new(), CarriedOut::default());
        let done = self.transact((study_id, run_id), time, writes, |batch| {
            for write in writes {
                let next = batch.next_for(write)?;
                let twin = batch.is_tried(write, next)?;
                if !twin && let Some(asked) = seen.renumbered(write, next) {
                    carried.renumbered.insert(asked, next);
                }
                let as_written = carried.as_written(write);
                if twin
                    || follows_from_late(write, &carried.late)
                    || batch.is_overtaken(&as_written, next)?
                {
                    carried.late.push(write.clone());
                } else {
                    batch.write(&as_written)?;
                    written.push(as_written);
                }
            }
            Ok(())
        });
        if let Err(Kind::Doubtful(number)) = done {
            self.doubt = Some(Doubt {
                number,
                writes: writes.to_vec(),
                carried: carried.clone(),
            });
        }
        done.map_err(|kind| self.at(kind))?;
        written.iter().for_each(|write| seen.note(write));
        Ok(carried)
    }

    /// What became of these writes, where they are those of a commit that was in doubt, and turn out to be durable.
    fn written_after_all(&mut self, writes: &[Write]) -> Result<Option<CarriedOut>, StoreError> {
        let Some(doubt) = self.doubt.take() else {
            return Ok(None);
        };
        match self.conn.committed(doubt.number) {
            Ok(true) if doubt.writes == writes => Ok(Some(doubt.carried)),
            Ok(_) => Ok(None),
            Err(kind) => {
                self.doubt = Some(doubt);
                Err(self.at(kind))
            }
        }
    }
}

impl CarriedOut {
    /// A write of the batch, about the trial by the number that it has.
    fn as_written<'a>(&self, write: &'a Write) -> Cow<'a, Write> {
        let given = write.number().and_then(|asked| self.renumbered.get(&asked));
        given.map_or(Cow::Borrowed(write), |number| {
            Cow::Owned(write.under(*number))
        })
    }
}

/// What other nodes do now, in view of the trials as they are.
fn other_nodes(
    conn: &Connection,
    study_id: i64,
    seen: &KnownTrials,
    live: &BTreeSet<i64>,
) -> Result<OtherNodes, Kind> {
    let running = |by: HeldBy| {
        let trials = seen.trials.iter();
        let of = move |t: &TrialSummary| t.state == TrialState::Running && t.held_by == by;
        trials
            .filter(move |(_, t)| of(t))
            .map(|(number, _)| *number)
    };
    let repeats = repeats(conn, study_id, None)?;
    let at = |repeat: &&RepeatRecord| {
        let run = repeat.attempts.last().map(|a| a.run_id);
        !repeat.state.finished() && run != seen.run && run.is_some_and(|r| live.contains(&r))
    };
    let at_repeats = repeats.iter().filter(at).map(|r| r.job);
    let left = left(conn, study_id, running(HeldBy::Nobody).collect())?.into_iter();
    let with_trial = |r: Reclaimable| Some((seen.running.get(&r.number)?.clone(), r));
    Ok(OtherNodes {
        running: at_repeats
            .chain(running(HeldBy::Node).map(Job::trial))
            .collect(),
        left: left.filter_map(with_trial).collect(),
        repeats,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    #[test]
    fn of_a_late_repeat_only_selection_and_test_follow() {
        let late = [Write::RepeatFinished {
            job: Job::repeat(3, 1),
            seed: 7,
            state: TrialState::Complete,
            value: Some(0.5),
            user_attrs: Map::new(),
        }];
        let about = |name: &str| Write::study_attribute(name, json!(1));
        for name in ["selection", "test"] {
            assert!(follows_from_late(&about(name), &late));
            assert!(!follows_from_late(&about(name), &[]));
        }
        assert!(!follows_from_late(&about("slots_given_up"), &late));
    }
}
