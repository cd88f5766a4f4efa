//! `tune simplify STUDY`: which of the winner's values matter, and the plainest point that is no worse.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::{Common, answer, replay, run};
use crate::query::{self, Answer};
use config::places::Wanted;
use device::DevicePolicy;
use messages::exit::{Exit, Failure};
use messages::{any_float, printable};
use report::About;
use report::format::{duration, param, plural, table_of, value};
use search::importance;
use search::simplify::{Change, Loss, Simplifier, Train};
use search::space::{Params, Space, Value};
use search::study::{Purpose, TrialState};
use store::Store;
use supervisor::{Bounds, Replay, ReplayEnd, replay as train};

/// `tune simplify`
#[derive(Debug, Args)]
pub struct SimplifyArgs {
    /// Study
    pub study: String,
    /// Trainings at most [default: a tenth of the study's finished trials, at least 20]
    #[arg(long, value_name = "N", value_parser = crate::commands::whole::<u32>)]
    pub trainings: Option<u32>,
    /// How long they may take together
    #[arg(long, value_name = "TIME", value_parser = super::doctor::duration)]
    pub budget: Option<Duration>,
    /// auto, cpu, cuda or cuda:0 [default: as the study's last run]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DevicePolicy>,
}

/// However small a study is, so many trainings are made.
const FEWEST: u64 = 20;

/// Why no further training is made.
enum Stop {
    UsedUp,
    Signal,
    Failure(Failure),
}

/// Trains points one after the other, each in a fresh process.
struct Trainer {
    plan: Replay,
    stem: PathBuf,
    number: u64,
    winner: Params,
    left: u32,
    until: Option<Instant>,
    stop: Arc<AtomicBool>,
    loud: bool,
    made: u32,
}

impl Train for Trainer {
    type Stop = Stop;

    fn loss(&mut self, point: &Params, seed: u32) -> Result<Option<f64>, Stop> {
        let time = self
            .until
            .map(|at| at.saturating_duration_since(Instant::now()));
        if self.left == 0 || time.is_some_and(|time| time.is_zero()) {
            return Err(Stop::UsedUp);
        }
        self.left -= 1;
        self.made += 1;
        let plan = &mut self.plan;
        plan.bounds = Bounds {
            limit: time,
            stop: Some(Arc::clone(&self.stop)),
        };
        plan.trial.purpose = Purpose::Repeat(seed);
        plan.trial.seed = plan.trial.purpose.seed(plan.spec.seed, self.number);
        plan.trial.params = point.clone();
        plan.trial.config = plan.spec.effective(point);
        plan.log = self.stem.with_extension(format!("{}.log", self.made));
        let began = Instant::now();
        let played = train(plan, &mut |_| {}).map_err(Stop::Failure)?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(Stop::Signal);
        }
        let found = match &played.end {
            ReplayEnd::Completed => query::best_value(&plan.spec.objective, &played),
            ReplayEnd::Fault(_) if self.until.is_some_and(|at| Instant::now() >= at) => {
                return Err(Stop::UsedUp);
            }
            ReplayEnd::Fault(_) => None,
        };
        let told = match (&played.end, found) {
            (ReplayEnd::Fault(fault), _) => {
                format!("{}: {}", fault.kind.word(), printable(&fault.detail))
            }
            (ReplayEnd::Completed, Some(x)) => {
                format!("{} {}", plan.spec.objective.metric, value(x))
            }
            (ReplayEnd::Completed, None) => "no value".to_owned(),
        };
        if found.is_some() {
            // One file too many does no harm.
            let _ = std::fs::remove_file(&plan.log);
        }
        if self.loud {
            // A reader that has gone away does not end the trainings.
            let what = match self
                .winner
                .iter()
                .filter(|(n, v)| point.get(*n) != Some(v))
                .count()
            {
                0 => format!("trial {}", self.number),
                1 => "1 value of the defaults".to_owned(),
                n => format!("{n} values of the defaults"),
            };
            let _ = report::out(&format!(
                "training {}  {what}, seed {seed}: {told}, {}\n",
                self.made,
                duration(began.elapsed())
            ));
        }
        let direction = self.plan.spec.objective.direction;
        Ok(found.map(|x| direction.loss(x)))
    }
}

/// A value of the winner's that is not the default.
#[derive(Serialize)]
struct Changed {
    name: String,
    value: Value,
    /// What it would be otherwise; null where the parameter does not exist there.
    default: Option<Value>,
    verdict: Change,
}

/// The answer.
#[derive(Serialize)]
struct Simplified {
    study: String,
    /// The winner.
    number: u64,
    changes: Vec<Changed>,
    /// The plainest point.
    params: Params,
    /// How much worse it is.
    loss: Option<Loss>,
    /// A point may be worse by less than this, in the metric's units.
    #[serde(with = "any_float")]
    margin: f64,
    trainings: u32,
    outcome: Outcome,
    #[serde(skip)]
    about: About,
}

/// How far it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// Every value was looked at.
    Whole,
    /// Trainings or time were used up before.
    UsedUp,
    /// A signal came before.
    Stopped,
}

pub(super) fn simplify(common: &Common, args: &SimplifyArgs) -> Result<Exit, Failure> {
    let project = run::project(common, Wanted::Studies)?;
    let storage = run::storage(&project, common)?;
    let store = Store::open_read_only(&storage)?;
    let study = store::choose(&store, Some(&args.study))?;
    let number = query::winner_number(&store, &study)?;
    let trials = store.trials(study.study_id)?;
    let repeats = store.repeats(study.study_id, Some(number))?;
    let finished = trials.iter().filter(|t| t.counts()).count() as u64;
    let order = importance::ranked(&trials, 0, study.direction());
    let order: Vec<String> = order.into_iter().rev().map(|r| r.name).collect();
    let (spec, winner) = replay::find(&storage, &study.name, number, args.device.as_ref())?;
    replay::same_inputs(&storage, &study.name, &spec, &winner)?;
    let known = repeats.iter().filter(|r| r.state == TrialState::Complete);
    let known: BTreeMap<u32, Option<f64>> = known
        .filter_map(|r| match r.job.purpose {
            Purpose::Repeat(seed) => Some((seed, r.value.map(|v| study.direction().loss(v)))),
            Purpose::Search | Purpose::Test => None,
        })
        .collect();
    let space = spec.space.clone();
    let plan = replay::plan(&storage, spec, &winner, false)?;
    let most = args
        .trainings
        .unwrap_or((finished / 10).max(FEWEST).min(u64::from(u32::MAX)) as u32);
    let mut trainer = Trainer {
        // Two at a time do not share a log, by which processes are known.
        stem: plan
            .log
            .with_extension(format!("simplify-{}", std::process::id())),
        plan,
        number,
        winner: winner.params.clone(),
        left: most,
        until: args.budget.map(|budget| Instant::now() + budget),
        stop: replay::stopped_by_signals()?,
        loud: common.loud(),
        made: 0,
    };
    let mut simplifier = Simplifier::new(&space, &winner.params, known);
    let outcome = match simplifier.run(&order, &mut trainer) {
        Ok(()) => Outcome::Whole,
        Err(Stop::UsedUp) => Outcome::UsedUp,
        Err(Stop::Signal) => Outcome::Stopped,
        Err(Stop::Failure(failure)) => return Err(failure),
    };
    let about = About::new(&study.name, &run::command_in(common, &project)?);
    let found = Simplified {
        study: study.name,
        number,
        changes: changed(&simplifier, &space, &winner.params),
        params: simplifier.point(),
        loss: simplifier.loss(),
        margin: simplifier.margin(),
        trainings: trainer.made,
        outcome,
        about,
    };
    answer(common, &found)?;
    Ok(match outcome {
        Outcome::Whole => Exit::Done,
        Outcome::UsedUp => Exit::Budget,
        Outcome::Stopped => Exit::Stopped,
    })
}

/// What matters first.
fn changed(simplifier: &Simplifier<'_>, space: &Space, winner: &Params) -> Vec<Changed> {
    let defaults = space.point(&Params::new());
    let of = |(name, verdict): (&String, &Change)| {
        Some(Changed {
            name: name.clone(),
            value: winner.get(name)?.clone(),
            default: defaults.get(name).cloned(),
            verdict: *verdict,
        })
    };
    let mut changes: Vec<Changed> = simplifier.changes().iter().filter_map(of).collect();
    changes.sort_by_key(|c| match c.verdict {
        Change::Matters => 0,
        Change::Unknown => 1,
        Change::Reset => 2,
    });
    changes
}

impl Answer for Simplified {
    fn text(&self) -> String {
        let count = |verdict| self.changes.iter().filter(|c| c.verdict == verdict).count();
        let all = self.changes.len() as u64;
        let matters = count(Change::Matters);
        let verb = if matters == 1 { "matters" } else { "matter" };
        let mut text = match (all, count(Change::Unknown)) {
            (0, _) => return format!("trial {} has the defaults already\n", self.number),
            (_, 0) => format!("{matters} of {} {verb}\n", plural(all, "change")),
            (_, unknown) => format!(
                "{matters} of {} {verb}, and {unknown} not looked at: {}\n",
                plural(all, "change"),
                match self.outcome {
                    Outcome::Whole | Outcome::UsedUp =>
                        "the trainings or the time were used up (--trainings N and --budget TIME allow more)",
                    Outcome::Stopped => "it was stopped",
                }
            ),
        };
        let rows = self.changes.iter().map(|c| {
            [
                printable(&c.name).into_owned(),
                printable(&param(&c.value)).into_owned(),
                c.default
                    .as_ref()
                    .map_or_else(String::new, |v| printable(&param(v)).into_owned()),
                match c.verdict {
                    Change::Matters => "matters",
                    Change::Reset => "the default is no worse",
                    Change::Unknown => "not looked at",
                }
                .to_owned(),
            ]
        });
        text += &table_of(["parameter", "winner", "default", ""], rows);
        if let Some(loss) = self.loss {
            text += &format!(
                "without the others: worse by {} on average, by {} at most (95 %, {}; {} is allowed)\n",
                value(loss.mean),
                value(loss.at_most),
                plural(loss.pairs as u64, "pair"),
                value(self.margin)
            );
            // All of it: of a part of a point, the search chooses the rest.
            let point = self.params.iter();
            let point = point.map(|(n, v)| report::shell_word(&format!("{n}={v}")));
            text += &format!(
                "try it: {} {}\n",
                self.about.command("enqueue"),
                point.collect::<Vec<_>>().join(" ")
            );
        }
        text + &format!("{}\n", plural(u64::from(self.trainings), "training"))
    }
}
