//! A study that is served: points for the asking, results for the sampler. Pure, but for what an
//! [`Archive`] does.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Map;

use super::init::Asked;
use super::request::TrialResult;
use super::space::write_params;
use messages::exit::Exit;
use search::pruner::{self, Pruner};
use search::sampler::{self, Ask, PROPOSED_BY, Proposal, Sampler};
use search::space::Space;
use search::study::{FrozenTrial, History, TrialState};
use store::{Changes, Write, Written};

/// Asks in which other programs were faster, before one is given up.
const CONFLICTS: usize = 20;

/// Where a study is kept beside the memory.
pub trait Archive {
    /// Makes these writes durable, all of them or none.
    ///
    /// # Errors
    /// What went wrong, in words; nothing was written then.
    fn write(&mut self, writes: &[Write]) -> Result<Written, String>;

    /// What other programs have changed since the last call.
    ///
    /// # Errors
    /// What went wrong, in words.
    fn changes(&mut self) -> Result<Changes, String>;
}

/// A study under way.
pub(super) struct Study {
    seed: u64,
    max_step: Option<i64>,
    space: Space,
    sampler: Box<dyn Sampler>,
    pruner: Box<dyn Pruner>,
    history: History,
    /// Trials that were asked for and not told, by number.
    live: BTreeMap<u64, FrozenTrial>,
    /// The number of the next trial.
    next: u64,
    archive: Option<Box<dyn Archive>>,
}

impl Study {
    /// A study with the trials it has already.
    pub fn new(
        asked: Asked,
        archive: Option<Box<dyn Archive>>,
        trials: Vec<FrozenTrial>,
    ) -> Result<Study, String> {
        let unknown = |what: &str, kind: &str| format!("{what} {kind} has no code");
        let mut study = Study {
            sampler: sampler::sampler(&asked.sampler)
                .ok_or_else(|| unknown("sampler", &asked.sampler.kind))?,
            pruner: pruner::pruner(&asked.pruner, &asked.horizon())
                .ok_or_else(|| unknown("pruner", &asked.pruner.kind))?,
            seed: asked.seed,
            max_step: asked.max_step,
            space: asked.space,
            history: History::new(vec![asked.direction]),
            live: BTreeMap::new(),
            next: 0,
            archive,
        };
        study.take_in(Changes {
            gone: Vec::new(),
            trials,
        });
        Ok(study)
    }

    /// Proposes a point; the reply.
    pub fn ask(&mut self) -> Result<String, String> {
        for _ in 0..CONFLICTS {
            self.take_in_changes()?;
            let number = self.next;
            let proposal = self.sampler.propose(&Ask {
                space: &self.space,
                history: &self.history,
                number,
                seed: self.seed,
            });
            let proposal = proposal.ok_or("no point of the space was found")?;
            if let Some(reply) = self.begin(number, proposal)? {
                return Ok(reply);
            }
        }
        Err("other programs keep taking the study's trial numbers; ask again".to_owned())
    }

    /// Notes a value before the end; the reply.
    pub fn report(&mut self, id: u64, step: i64, value: f64) -> Result<String, String> {
        let trial = self.live(id)?;
        let last = trial.intermediate.keys().next_back().copied();
        let Some(max_step) = self.max_step else {
            let expected = "expected no report, as max_step is null";
            return Err(format!("step: found {step}, {expected}"));
        };
        if !(1..=max_step).contains(&step) {
            return Err(format!("step: found {step}, expected 1 to {max_step}"));
        }
        if let Some(last) = last.filter(|last| step <= *last) {
            return Err(format!(
                "step: found {step}, expected one after {last}, the last step that trial {id} reported"
            ));
        }
        self.write(|| Write::Reported {
            number: id,
            step,
            value,
        })?;
        if let Some(trial) = self.live.get_mut(&id) {
            trial.intermediate.insert(step, value);
        }
        self.history.report(id, step, value);
        let entry = self.history.get(id);
        let prune = entry.is_some_and(|e| self.pruner.should_prune(&self.history, e));
        Ok(format!("{{\"prune\":{prune}}}"))
    }

    /// Ends a trial.
    pub fn tell(&mut self, id: u64, result: TrialResult) -> Result<(), String> {
        let trial = self.live(id)?;
        let (state, value) = match result {
            TrialResult::Ok(value) => (TrialState::Complete, Some(value)),
            TrialResult::Pruned(told) => (TrialState::Pruned, last_number(trial).or(told)),
            TrialResult::Failed => (TrialState::Fail, None),
        };
        let values: Vec<f64> = value.into_iter().filter(|v| !v.is_nan()).collect();
        self.write(|| finished(id, state, values.clone(), None))?;
        if let Some(mut trial) = self.live.remove(&id) {
            trial.state = state;
            trial.values = values;
            self.history.put(&self.space, &trial);
        }
        Ok(())
    }

    /// Ends what was asked for and never told as FAIL, and the run with it.
    pub fn end(mut self, exit: Exit) -> Result<(), String> {
        self.take_in_changes()?;
        let Some(archive) = &mut self.archive else {
            return Ok(());
        };
        let mut writes: Vec<Write> = self.live.keys().copied().map(abandoned).collect();
        writes.push(Write::RunEnded { exit: exit.code() });
        archive.write(&writes).map(|_| ())
    }

    /// What the sampler sees.
    #[cfg(test)]
    pub fn entries(&self) -> &[search::study::Entry] {
        self.history.entries()
    }

    /// A trial that can be reported on and told.
    fn live(&self, id: u64) -> Result<&FrozenTrial, String> {
        if let Some(trial) = self.live.get(&id) {
            return Ok(trial);
        }
        Err(match self.history.get(id).map(|e| e.state) {
            Some(state @ (TrialState::Complete | TrialState::Pruned | TrialState::Fail)) => {
                format!(
                    "id: found {id}, a trial that has ended ({state}), expected one that has not"
                )
            }
            Some(TrialState::Running | TrialState::Waiting) => {
                format!("id: found {id}, a trial of another program, expected one asked for here")
            }
            None => format!(
                "id: found {id}, which no trial has, expected that of a trial asked for ({} so far)",
                self.next
            ),
        })
    }

    /// Makes the proposed trial a running one; `None` where another program took its number.
    fn begin(&mut self, number: u64, proposal: Proposal) -> Result<Option<String>, String> {
        let mut trial = FrozenTrial {
            trial_id: 0,
            number,
            state: TrialState::Running,
            params: proposal.params,
            distributions: BTreeMap::new(),
            values: Vec::new(),
            intermediate: BTreeMap::new(),
            user_attrs: Map::new(),
            system_attrs: Map::new(),
            datetime_start: None,
            datetime_complete: None,
        };
        if let Some(archive) = &mut self.archive {
            trial.distributions = self.space.distributions(&trial.params);
            let created = Write::TrialCreated {
                number,
                params: trial.params.clone(),
                distributions: trial.distributions.clone(),
                user_attrs: Map::new(),
                system_attrs: [(PROPOSED_BY.to_owned(), proposal.by.into())]
                    .into_iter()
                    .collect(),
            };
            match archive.write(&[created])? {
                Written::Done => {}
                Written::Conflict => return Ok(None),
            }
        }
        let mut reply = String::with_capacity(128);
        write!(reply, "{{\"id\":{number},\"params\":").ok();
        write_params(&self.space, &trial.params, &mut reply);
        reply.push('}');
        self.history.put(&self.space, &trial);
        self.live.insert(number, trial);
        self.next = number + 1;
        Ok(Some(reply))
    }

    fn write(&mut self, write: impl FnOnce() -> Write) -> Result<(), String> {
        match &mut self.archive {
            Some(archive) => archive.write(&[write()]).map(|_| ()),
            None => Ok(()),
        }
    }

    fn take_in_changes(&mut self) -> Result<(), String> {
        if let Some(archive) = &mut self.archive {
            let changes = archive.changes()?;
            self.take_in(changes);
        }
        Ok(())
    }

    /// Takes in trials as they are stored: those of other programs, and those that others ended or
    /// deleted.
    fn take_in(&mut self, changes: Changes) {
        for number in changes.gone {
            self.live.remove(&number);
            self.history.remove(number);
        }
        for trial in changes.trials {
            if trial.state.finished() {
                self.live.remove(&trial.number);
            }
            if !self.live.contains_key(&trial.number) {
                self.history.put(&self.space, &trial);
            }
        }
        let last = self.history.entries().last();
        self.next = last.map_or(0, |entry| entry.number + 1);
    }
}

/// The last reported value that is a number: Optuna's rule for the value of a PRUNED trial.
fn last_number(trial: &FrozenTrial) -> Option<f64> {
    let mut latest_first = trial.intermediate.values().rev().copied();
    latest_first.find(|v| !v.is_nan())
}

/// The end of a trial that was asked for and never told.
pub(super) fn abandoned(number: u64) -> Write {
    let why = "the session that asked for the trial ended before it was told";
    finished(number, TrialState::Fail, Vec::new(), Some(why))
}

fn finished(number: u64, state: TrialState, values: Vec<f64>, why: Option<&str>) -> Write {
    let mut user_attrs = Map::new();
    user_attrs.extend(why.map(|why| ("error_msg".to_owned(), why.into())));
    Write::TrialFinished {
        number,
        state,
        values,
        user_attrs,
        system_attrs: Map::new(),
    }
}
