//! A study that is served: points for the asking, results for the sampler. Pure, but for what an
//! [`Archive`] does.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json};

use super::init::RequestedStudy;
use super::request::TrialResult;
use super::space::{point, write_params};
use messages::exit::Exit;
use search::pruner;
use search::sampler::{self, PROPOSED_BY, Proposal};
use search::space::Params;
use search::study::{FrozenTrial, TrialState};
use search::{Outcome, TrialError};
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
    study: search::Study,
    max_step: Option<i64>,
    archive: Option<Box<dyn Archive>>,
}

impl Study {
    /// A study with the trials it has already.
    pub fn new(
        asked: RequestedStudy,
        archive: Option<Box<dyn Archive>>,
        trials: Vec<FrozenTrial>,
    ) -> Result<Study, String> {
        let unknown = |what: &str, kind: &str| format!("{what} {kind} has no code");
        let sampler = sampler::sampler(&asked.sampler)
            .ok_or_else(|| unknown("sampler", &asked.sampler.kind))?;
        let pruner = pruner::pruner(&asked.pruner, &asked.horizon())
            .ok_or_else(|| unknown("pruner", &asked.pruner.kind))?;
        let mut study = search::Study::new(asked.space, vec![asked.direction])
            .with_seed(asked.seed)
            .with_sampler(sampler)
            .with_pruner(pruner);
        study.merge(trials, Vec::new());
        Ok(Study {
            study,
            max_step: asked.max_step,
            archive,
        })
    }

    /// Proposes a point; the reply.
    pub fn ask(&mut self) -> Result<String, String> {
        let (number, params) = self.start(|study| {
            let Proposal { params, by } =
                study.propose().ok_or("no point of the space was found")?;
            Ok((params, Some(by)))
        })?;
        let mut reply = String::with_capacity(128);
        write!(reply, "{{\"id\":{number},\"params\":").ok();
        write_params(self.study.space(), &params, &mut reply);
        reply.push('}');
        Ok(reply)
    }

    /// Takes a point that the client has chosen; the reply.
    pub fn add(&mut self, given: &Map<String, Json>) -> Result<String, String> {
        let params = point(self.study.space(), given)?;
        let (number, _) = self.start(|_| Ok((params.clone(), None)))?;
        Ok(format!("{{\"id\":{number}}}"))
    }

    /// Notes a value before the end; the reply.
    pub fn report(&mut self, id: u64, step: i64, value: f64) -> Result<String, String> {
        let trial = self.study.trial(id).map_err(refused)?;
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
        let prune = self.study.report(id, step, value).map_err(refused)?;
        Ok(format!("{{\"prune\":{prune}}}"))
    }

    /// Ends a trial.
    pub fn tell(&mut self, id: u64, result: TrialResult) -> Result<(), String> {
        let outcome = match result {
            TrialResult::Ok(value) => Outcome::Complete(vec![value]),
            TrialResult::Pruned(told) => Outcome::Pruned(told),
            TrialResult::Failed => Outcome::Failed,
        };
        let (state, values) = self.study.end(id, outcome.clone()).map_err(refused)?;
        self.write(|| finished(id, state, values, None))?;
        self.study.tell(id, outcome).map_err(refused)
    }

    /// Ends what was asked for and never told as FAIL, and the run with it.
    pub fn end(mut self, exit: Exit) -> Result<(), String> {
        self.take_in_changes()?;
        let Some(archive) = &mut self.archive else {
            return Ok(());
        };
        let mut writes: Vec<Write> = self.study.running().map(abandoned).collect();
        writes.push(Write::RunEnded { exit: exit.code() });
        archive.write(&writes).map(|_| ())
    }

    /// What the sampler sees.
    #[cfg(test)]
    pub fn entries(&self) -> &[search::study::Entry] {
        self.study.history().entries()
    }

    /// Begins a trial at a point, and with whoever proposed it, once other programs' trials are known; its number and
    /// point.
    fn start(
        &mut self,
        mut point: impl FnMut(&mut search::Study) -> Result<(Params, Option<&'static str>), String>,
    ) -> Result<(u64, Params), String> {
        for _ in 0..CONFLICTS {
            self.take_in_changes()?;
            let (params, by) = point(&mut self.study)?;
            if let Some(number) = self.begin(&params, by)? {
                return Ok((number, params));
            }
        }
        Err("other programs keep taking the study's trial numbers; ask again".to_owned())
    }

    /// Makes a point a running trial; its number, `None` where another program took it.
    fn begin(&mut self, params: &Params, by: Option<&str>) -> Result<Option<u64>, String> {
        let number = self.study.next_number();
        if let Some(archive) = &mut self.archive {
            let created = Write::TrialCreated {
                number,
                last: number,
                since: number,
                study_seed: None,
                params: params.clone(),
                distributions: self.study.space().distributions(params),
                user_attrs: Map::new(),
                system_attrs: by
                    .map(|by| (PROPOSED_BY.to_owned(), by.into()))
                    .into_iter()
                    .collect(),
            };
            match archive.write(&[created])? {
                Written::Done => {}
                Written::Conflict => return Ok(None),
            }
        }
        self.study.begin(params.clone());
        Ok(Some(number))
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
            self.study.merge(changes.trials, changes.gone);
        }
        Ok(())
    }
}

/// Why a trial cannot be reported on or told.
fn refused(why: TrialError) -> String {
    format!("id: {why}")
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
