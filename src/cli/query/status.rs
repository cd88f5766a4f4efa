//! `tune status`: how a study stands.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value as Json;

use super::format::{self, stored_field};
use super::gpus::Gpu;
use super::winner::Winner;
use super::{Answer, baseline, baseline_text, leading, made_from, told, warning};
use config::Baseline;
use messages::exit::{Exit, Failure};
use report::Best;
use report::format::plural;
use report::format::value as number;
use search::study::{Direction, TrialState};
use store::{Counts, RunEntry, Store, StudySummary};
use supervisor::MADE_FROM;

/// What the database does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Now.
    pub now: jiff::Timestamp,
    /// Who holds the study: `pid 4711 on host`. `None` where nobody does.
    pub holder: Option<String>,
    /// Results that wait in the spool and are not in the database yet.
    pub spooled: u64,
}

/// How a study stands.
#[derive(Serialize)]
pub struct Status {
    study: String,
    directions: Vec<Direction>,
    made_from: Option<Json>,
    counts: Counts,
    counted: u64,
    /// Trials that the last run was asked for.
    goal: Option<u64>,
    best: Option<Best>,
    baseline: Option<Baseline>,
    faults: BTreeMap<String, u64>,
    /// What the GPUs of a run that lives are at.
    gpus: Vec<Gpu>,
    spooled: u64,
    holder: Option<String>,
    runs: usize,
    last_exit: Option<u8>,
    #[serde(serialize_with = "stored_field")]
    last_activity: Option<String>,
    /// With several objectives, in place of the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    front: Option<Vec<Best>>,
    #[serde(skip)]
    now: jiff::Timestamp,
    #[serde(skip)]
    summary: StudySummary,
    #[serde(skip)]
    last_run: Option<RunEntry>,
}

/// How a study stands.
///
/// # Errors
/// Reading failed (7).
pub fn status(store: &Store, study: StudySummary, context: &Context) -> Result<Status, Failure> {
    let single = study.directions.len() == 1;
    let (leading, counted) = leading(store, &study)?;
    let mut leading: Vec<Best> = leading.iter().map(told).collect();
    let mut runs = store.runs(study.study_id)?;
    let count = runs.len();
    let last_run = runs.pop();
    let asked = |run: &RunEntry| run.record.operation.get("trials")?.as_u64();
    let live = last_run.as_ref().filter(|_| context.holder.is_some());
    let gpus = live.map(|run| store.last_gpu_minutes(run.run_id));
    let gpus = gpus.transpose()?.unwrap_or_default();
    Ok(Status {
        study: study.name.clone(),
        directions: study.directions.clone(),
        made_from: study.user_attrs.get(MADE_FROM).cloned(),
        counts: study.counts,
        counted,
        goal: last_run.as_ref().and_then(asked),
        best: leading.pop_if(|_| single),
        baseline: baseline(&study),
        faults: store.faults(study.study_id)?,
        gpus: gpus.into_iter().map(Gpu::new).collect(),
        spooled: context.spooled,
        holder: context.holder.clone(),
        runs: count,
        last_exit: last_run.as_ref().and_then(|run| run.exit),
        last_activity: study.last_activity.clone(),
        front: (!single).then_some(leading),
        now: context.now,
        summary: study,
        last_run,
    })
}

impl Answer for Status {
    fn text(&self) -> String {
        let mut facts = vec![("study", self.heading())];
        facts.extend(made_from(&self.summary).map(|text| ("made from", text)));
        facts.push(("trials", counts_text(&self.counts)));
        let goal = self.goal.map_or_else(String::new, |n| format!(" of {n}"));
        facts.push(("counted", format!("{}{goal}", self.counted)));
        facts.push(match &self.front {
            Some(front) => ("front", plural(front.len() as u64, "trial")),
            None => ("best", self.best_text()),
        });
        let winner = Winner::of(&self.summary).number();
        facts.extend(winner.map(|n| ("winner", format!("trial {n}, by repeats"))));
        let baseline = self.baseline.as_ref();
        facts.extend(baseline.map(|b| ("baseline", baseline_text(b))));
        if !self.faults.is_empty() {
            let faults = self.faults.iter();
            let faults: Vec<String> = faults.map(|(kind, n)| format!("{kind} {n}")).collect();
            facts.push(("faults", faults.join(", ")));
        }
        facts.extend(self.gpus.iter().map(|gpu| ("gpu", gpu.text(self.now))));
        if self.spooled > 0 {
            let waiting = supervisor::spool::waiting_text(self.spooled);
            facts.push(("spool", waiting));
        }
        let holder = self.holder.as_deref().unwrap_or("nobody");
        facts.push(("held by", holder.to_owned()));
        facts.extend(
            self.last_run
                .as_ref()
                .map(|run| ("runs", self.runs_text(run))),
        );
        if let Some(last) = &self.last_activity {
            let ago = format::seconds(last, &format::stored(self.now));
            let ago = ago.map_or_else(String::new, |s| format!(" ({} ago)", format::duration(s)));
            facts.push(("last activity", format!("{}{ago}", format::time(last))));
        }
        format::facts(&facts) + &warning(&self.summary, self.best.as_ref(), baseline)
    }
}

impl Status {
    fn heading(&self) -> String {
        let optimised = match self.front {
            Some(_) => super::best::objectives(&self.summary),
            None => self.summary.direction().to_string(),
        };
        format!("{} ({optimised})", self.study)
    }

    fn best_text(&self) -> String {
        match self.best.as_ref().and_then(|b| Some((b.number, b.value?))) {
            Some((trial, value)) => format!("{} (trial {trial})", number(value)),
            None => "none yet".to_owned(),
        }
    }

    fn runs_text(&self, last: &RunEntry) -> String {
        let end = match last.exit {
            Some(code) => {
                let meaning = Exit::ALL.iter().find(|(exit, _)| exit.code() == code);
                let meaning = meaning.map_or("unknown", |(_, meaning)| meaning);
                format!("the last ended with {code}: {meaning}")
            }
            None => "the last has not ended, or was killed".to_owned(),
        };
        format!("{}; {end}", self.runs)
    }
}

pub(super) fn counts_text(counts: &Counts) -> String {
    let states = [
        (TrialState::Complete, "complete"),
        (TrialState::Pruned, "pruned"),
        (TrialState::Fail, "failed"),
        (TrialState::Running, "running"),
        (TrialState::Waiting, "waiting"),
    ];
    let parts: Vec<String> = states
        .iter()
        .filter(|(state, _)| counts.of(*state) > 0)
        .map(|(state, word)| format!("{} {word}", counts.of(*state)))
        .collect();
    if parts.is_empty() {
        "none".to_owned()
    } else {
        format!("{} ({})", counts.total(), parts.join(", "))
    }
}
