//! `tune status`: how studies stand.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value as Json;

use super::failures::{failure_groups, without_value};
use super::format::{self, stored_field};
use super::gpus::Gpu;
use super::live::{RunningTrial, rate, running_trials, step_word};
use super::nodes::{NodeLine, nodes_of};
use super::objectives::Objectives;
use super::state::{Holder, StudyState};
use super::winner::Winner;
use super::{Answer, baseline, baseline_text, leading, made_from, told, warning};
use config::Baseline;
use fault::FailureGroup;
use messages::exit::Failure;
use report::format::value as number;
use report::format::{plural, table};
use report::{About, Best, Counts, SlotGivenUp, TrialRate};
use search::study::FrozenTrial;
use store::{RunEntry, Store, StudySummary};
use supervisor::core::SLOTS_GIVEN_UP;
use supervisor::spool::Waiting;
use supervisor::{LockOwner, MADE_FROM};

/// So many kinds of failures are told.
const REASONS: usize = 3;

/// Characters of a message.
const REASON: usize = 160;

/// What the database does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Now.
    pub now: jiff::Timestamp,
    /// Who works on the study. `None` where nobody does.
    pub owner: Option<LockOwner>,
    /// Whether that process is suspended, as by Ctrl-Z.
    pub suspended: bool,
    /// Results that wait in spools and are not in the database yet.
    pub spooled: Waiting,
    /// How commands begin ([`About`]).
    pub tune: String,
}

/// How a study stands.
#[derive(Serialize)]
pub struct Status {
    pub(super) study: String,
    pub(super) state: StudyState,
    #[serde(flatten)]
    pub(super) objectives: Objectives,
    made_from: Option<Json>,
    pub(super) counts: StateCounts,
    /// Trials that count towards the goal.
    pub(super) finished: u64,
    /// Trials that the last run was asked for.
    pub(super) goal: Option<u64>,
    pub(super) best: Option<Best>,
    pub(super) baseline: Option<Baseline>,
    /// Of a run that lives: finished trials an hour.
    rate_per_hour: Option<f64>,
    /// Of a run that lives: seconds until the goal is reached.
    time_left_s: Option<f64>,
    pub(super) running: Vec<RunningTrial>,
    /// Of a study that several nodes share: who works on it, or has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<NodeLine>,
    /// Why trials failed, the most frequent reason first.
    failures: Vec<FailureGroup>,
    /// Slots that the last run has given up.
    pub(super) slots_given_up: Vec<SlotGivenUp>,
    faults: BTreeMap<String, u64>,
    /// What the GPUs of a run that lives are at.
    pub(super) gpus: Vec<Gpu>,
    pub(super) spooled: Waiting,
    pub(super) holder: Option<Holder>,
    runs: usize,
    last_exit: Option<u8>,
    #[serde(serialize_with = "stored_field")]
    last_activity: Option<String>,
    /// With several objectives, in place of the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    front: Option<Vec<Best>>,
    /// What to say where trials have ended and none has a value.
    #[serde(skip)]
    no_value: Option<String>,
    #[serde(skip)]
    about: About,
    #[serde(skip)]
    pub(super) now: jiff::Timestamp,
    #[serde(skip)]
    pub(super) summary: StudySummary,
    /// The trial that won by its repeats.
    #[serde(skip)]
    winner: Option<u64>,
    #[serde(skip)]
    pub(super) last_run: Option<RunEntry>,
    #[serde(skip)]
    pub(super) rate: TrialRate,
}

/// Trials by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct StateCounts {
    #[serde(flatten)]
    taken: Counts,
    waiting: u64,
}

/// How a study stands.
///
/// # Errors
/// Reading failed (7).
pub fn status(store: &Store, study: StudySummary, context: &Context) -> Result<Status, Failure> {
    let trials = store.outlines(study.study_id)?;
    let failures = failure_groups(store, &study, &trials, REASONS)?;
    status_of(store, study, &trials, failures, context)
}

/// The same of trials that were read: at least their outlines.
pub(super) fn status_of(
    store: &Store,
    study: StudySummary,
    trials: &[FrozenTrial],
    failures: Vec<FailureGroup>,
    context: &Context,
) -> Result<Status, Failure> {
    let single = study.directions.len() == 1;
    let last_run = store.last_run(study.study_id)?;
    let asked = |run: &RunEntry| run.record.operation.get("trials")?.as_u64();
    let goal = last_run.as_ref().and_then(asked);
    let nodes = nodes_of(store, &study)?;
    let shared = nodes.iter().any(NodeLine::is_live);
    let live = context.owner.is_some() || shared;
    let state = state(context, shared, last_run.as_ref());
    let current = last_run.as_ref().filter(|_| live);
    // One that stops or is suspended comes no nearer to its goal.
    let on_its_way = current.filter(|_| state == StudyState::Running);
    let gpus = current.map(|run| store.last_gpu_minutes(run.run_id));
    let gpus = gpus.transpose()?.unwrap_or_default();
    let pace = on_its_way
        .zip(goal)
        .map(|(run, goal)| rate(trials, run, goal));
    let pace = pace.unwrap_or_default();
    let running = match live {
        true => running_trials(store, &study, trials, &nodes, context.now)?,
        false => Vec::new(),
    };
    let leading = leading(store, &study, trials)?;
    let mut leading: Vec<Best> = leading.iter().map(told).collect();
    let about = About::new(&study.name, &context.tune);
    let counts = StateCounts::of(trials);
    let faults = store.faults(study.study_id)?;
    let valid = |n: &u64| trials.iter().any(|t| t.number == *n && !t.struck());
    let winner = Winner::of(&study).number().filter(valid);
    Ok(Status {
        no_value: without_value(&about, trials, &faults),
        about,
        study: study.name.clone(),
        state,
        objectives: Objectives::of(&study),
        made_from: study.user_attrs.get(MADE_FROM).cloned(),
        counts,
        finished: counts.taken.finished(),
        goal,
        best: leading.pop_if(|_| single),
        baseline: baseline(&study),
        rate_per_hour: pace.per_hour(),
        time_left_s: pace.left().map(|left| left.as_secs_f64()),
        running,
        nodes,
        failures,
        slots_given_up: slots_given_up(&study),
        faults,
        gpus: gpus.into_iter().map(Gpu::new).collect(),
        spooled: context.spooled.clone(),
        holder: Holder::of(&study.name, context.owner.as_ref(), last_run.as_ref())
            .map(|holder| holder.or_live(shared)),
        runs: store.runs(study.study_id)?.len(),
        last_exit: last_run.as_ref().and_then(|run| run.exit),
        last_activity: study.last_activity.clone(),
        front: (!single).then_some(leading),
        now: context.now,
        summary: study,
        winner,
        last_run,
        rate: pace,
    })
}

/// How the study stands; `shared`: a node works on it, which holds no lock of this one.
fn state(context: &Context, shared: bool, last_run: Option<&RunEntry>) -> StudyState {
    match context.owner.is_none() && shared {
        true => StudyState::Running,
        false => StudyState::of(context.owner.as_ref(), context.suspended, last_run),
    }
}

/// The slots that the last run has given up.
fn slots_given_up(study: &StudySummary) -> Vec<SlotGivenUp> {
    let noted = study.user_attrs.get(SLOTS_GIVEN_UP).cloned();
    let noted = noted.and_then(|json| serde_json::from_value(json).ok());
    noted.unwrap_or_default()
}

impl StateCounts {
    fn of(trials: &[FrozenTrial]) -> StateCounts {
        let mut counts = StateCounts::default();
        for trial in trials {
            let count = counts.taken.of(trial.state, trial.counts());
            *count.unwrap_or(&mut counts.waiting) += 1;
        }
        counts
    }

    /// `12 of 100 finished (10 complete, 2 pruned); 1 failed, 2 running`. Without a run, nobody trains those that
    /// it has left: they are unfinished.
    pub(super) fn text(&self, goal: Option<u64>, live: bool) -> String {
        let told = |parts: &[(u64, &str)]| {
            let parts = parts.iter().filter(|(n, _)| *n > 0);
            parts
                .map(|(n, word)| format!("{n} {word}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let taken = &self.taken;
        let finished = taken.finished();
        let ended = told(&[(taken.complete, "complete"), (taken.pruned, "pruned")]);
        let ended = if ended.is_empty() {
            ended
        } else {
            format!(" ({ended})")
        };
        let others = told(&[
            (taken.fail, "failed"),
            (taken.infeasible, "refused"),
            (taken.running, if live { "running" } else { "unfinished" }),
            (self.waiting, "waiting"),
        ]);
        let others = if others.is_empty() {
            others
        } else {
            format!("; {others}")
        };
        let finished = match goal {
            Some(goal) if finished > goal => format!("{finished} finished, goal {goal}"),
            Some(goal) => format!("{finished} of {goal} finished"),
            None => format!("{finished} finished"),
        };
        format!("{finished}{ended}{others}")
    }
}

impl Answer for Status {
    fn text(&self) -> String {
        let holder = self.holder.as_ref();
        let live = self.nodes.iter().filter(|node| node.is_live()).count();
        let state = match live {
            0 => self.state.text(holder, self.last_run.as_ref(), self.now),
            _ => format!("running on {}", plural(live as u64, "node")),
        };
        let mut facts = vec![
            (
                "study",
                format!("{}: {}", self.study, self.objectives.text()),
            ),
            ("state", state),
        ];
        facts.extend(
            holder
                .and_then(Holder::command)
                .map(|command| ("command", command)),
        );
        facts.extend(made_from(&self.summary).map(|text| ("made from", text)));
        facts.push(("trials", self.counts.text(self.goal, self.is_live())));
        if self.rate_per_hour.is_some() {
            let parts = [self.rate.speed(), self.rate.time_left()];
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            facts.push(("rate", parts.join(", ")));
        }
        let why = self.no_value.as_ref().map(|why| format!("none: {why}"));
        let (word, leading) = match &self.front {
            Some(front) => ("front", plural(front.len() as u64, "trial")),
            None => ("best", self.best_text()),
        };
        facts.push((word, why.unwrap_or(leading)));
        let winner = self.winner;
        facts.extend(winner.map(|n| ("winner", format!("trial {n}, by repeats"))));
        let baseline = self.baseline.as_ref();
        facts.extend(baseline.map(|b| ("baseline", baseline_text(b))));
        facts.extend(self.node_lines());
        facts.extend(self.running_lines());
        facts.extend(self.failure_lines());
        facts.extend(self.slots_given_up.iter().map(|given_up| {
            let SlotGivenUp {
                slot,
                device,
                reason,
            } = given_up;
            ("given up", format!("slot {slot} on {device}: {reason}"))
        }));
        if !self.faults.is_empty() {
            let faults = self.faults.iter();
            let faults: Vec<String> = faults.map(|(kind, n)| format!("{kind} {n}")).collect();
            facts.push(("faults", faults.join(", ")));
        }
        facts.extend(self.gpus.iter().map(|gpu| ("gpu", gpu.text(self.now))));
        facts.extend(self.spooled.text().map(|waiting| ("spool", waiting)));
        facts.extend(self.ago().map(|ago| ("last activity", ago)));
        format::facts(&facts) + &warning(&self.summary, self.best.as_ref(), baseline)
    }
}

impl Status {
    /// Whether a process works on the study.
    pub fn is_live(&self) -> bool {
        self.state.row().live
    }

    fn best_text(&self) -> String {
        match self.best.as_ref().and_then(|b| Some((b.number, b.value?))) {
            Some((trial, value)) => {
                format!(
                    "{} {} (trial {trial})",
                    self.objectives.metric(),
                    number(value)
                )
            }
            None => "none yet".to_owned(),
        }
    }

    /// The best trial, or how many the front has.
    pub(super) fn leading_text(&self) -> String {
        self.front.as_ref().map_or_else(
            || self.best_text(),
            |front| format!("front of {}", plural(front.len() as u64, "trial")),
        )
    }

    /// Those that work, or are lost.
    fn node_lines(&self) -> Vec<(&'static str, String)> {
        let works = self.nodes.iter().any(NodeLine::is_live);
        let nodes = self.nodes.iter().filter(|node| !node.has_ended());
        nodes.map(|node| ("node", node.text(works))).collect()
    }

    fn running_lines(&self) -> Vec<(&'static str, String)> {
        let (step, metric) = (step_word(&self.summary), self.objectives.metric());
        let mut lines: Vec<_> = self
            .running
            .iter()
            .map(|t| ("running", t.text(step, metric)))
            .collect();
        lines.iter_mut().skip(1).for_each(|line| line.0 = "");
        lines
    }

    fn failure_lines(&self) -> Vec<(&'static str, String)> {
        let line = |(i, group): (usize, &FailureGroup)| {
            let named: Vec<String> = group.trials.iter().take(4).map(u64::to_string).collect();
            let more = if group.trials.len() > 4 { ", ..." } else { "" };
            let noun = if group.count == 1 { "trial" } else { "trials" };
            let message = group.message.lines().next().unwrap_or_default();
            let message = format::shortened(message, REASON);
            let text = format!(
                "{} ({noun} {}{more}): {message}",
                group.fault,
                named.join(", ")
            );
            (if i == 0 { "failed" } else { "" }, text)
        };
        let mut lines: Vec<_> = self
            .failures
            .iter()
            .take(REASONS)
            .enumerate()
            .map(line)
            .collect();
        if self.failures.len() > REASONS {
            let others = plural((self.failures.len() - REASONS) as u64, "other failure");
            lines.push(("", format!("{others}: {}", self.about.command("failures"))));
        }
        lines
    }

    fn ago(&self) -> Option<String> {
        let last = self.last_activity.as_deref()?;
        let ago = format::seconds(last, &format::stored(self.now));
        let ago = ago.map_or_else(String::new, |s| format!(" ({} ago)", format::duration(s)));
        Some(format!("{}{ago}", format::time(last)))
    }

    /// The row of [`Statuses`].
    fn cells(&self) -> Vec<String> {
        let goal = self
            .goal
            .map_or_else(String::new, |n| match self.finished > n {
                true => format!(", goal {n}"),
                false => format!(" of {n}"),
            });
        let last = self.last_activity.as_deref();
        let ago = last.and_then(|last| format::seconds(last, &format::stored(self.now)));
        vec![
            self.study.clone(),
            self.state.row().word.to_owned(),
            format!("{}{goal}", self.finished),
            self.leading_text(),
            self.rate.time_left().trim_end_matches(" left").to_owned(),
            ago.map_or_else(String::new, |s| format!("{} ago", format::duration(s))),
        ]
    }
}

/// How all studies of a database stand, the one with the latest activity first. Of a database with one study
/// it is told as by its name, for scripts that know of no other: its members stand beside the list.
pub struct Statuses {
    studies: Vec<Status>,
}

impl Serialize for Statuses {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct All<'a> {
            #[serde(flatten)]
            only: Option<&'a Status>,
            studies: &'a [Status],
        }
        let only = match self.studies.as_slice() {
            [only] => Some(only),
            _ => None,
        };
        let all = All {
            only,
            studies: &self.studies,
        };
        all.serialize(serializer)
    }
}

impl Statuses {
    /// Of these, in the order of their latest activity.
    pub fn new(mut studies: Vec<Status>) -> Statuses {
        studies.sort_by(|a, b| b.last_activity.cmp(&a.last_activity));
        Statuses { studies }
    }

    /// Whether a process works on one of them.
    pub fn is_live(&self) -> bool {
        self.studies.iter().any(Status::is_live)
    }
}

impl Answer for Statuses {
    fn text(&self) -> String {
        if let [only] = self.studies.as_slice() {
            return only.text();
        }
        if self.studies.is_empty() {
            return "no studies yet\n".to_owned();
        }
        let heading = [
            "study",
            "state",
            "finished",
            "best",
            "time left",
            "last activity",
        ];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        rows.extend(self.studies.iter().map(Status::cells));
        if !self.is_live() {
            rows.iter_mut().for_each(|row| drop(row.remove(4)));
        }
        table(&rows) + "\ntune status STUDY says more about one\n"
    }
}
