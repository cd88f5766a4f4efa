//! A training of the point of the defaults, in a worker of its own, as a run would do it.

use std::path::Path;

use super::{RungArgs, at, say};
use crate::{libtorch, run};
use config::StudySpec;
use device::DevicePolicy;
use doctor::change::Change;
use doctor::inside::Inside;
use doctor::ladder::WARNING;
use doctor::notes::Longest;
use doctor::signs::WINDOWS_ALLOWS;
use fault::Fault;
use messages::exit::{Exit, Failure};
use search::space::Value;
use search::study::derive_seed;
use supervisor::{Replay, ReplayEnd, ReplayResult, replay};
use task::TrialSpec;

/// Steps by which the time of an epoch is estimated.
const FIRST: u32 = 4;

/// An epoch that takes longer, in seconds, is not trained to its end.
const EPOCH: f64 = 60.0;

/// Trains on the task's rows or on made-up ones, all of them or those of these numbers: an epoch where that is not too
/// long, else as many steps as there is time for, those that need the most memory first.
///
/// # Errors
/// Exit 5: the training fails; its fault is told.
pub(super) fn train(
    mut spec: StudySpec,
    real: bool,
    rows: Option<Vec<usize>>,
    args: &RungArgs,
) -> Result<Exit, Failure> {
    let dir = tempfile::tempdir()
        .map_err(|e| Failure::internal(format!("no temporary directory: {e}")))?;
    // A program notes and changes what is its own by itself.
    let inside = Inside::of(&doctor::change::variables()).filter(|_| !spec.runs_programs());
    let synthetic = inside.as_ref().is_some_and(|i| i.makes(Change::Synthetic));
    if !real || synthetic {
        let kind = run::preparation(&spec.kind)
            .ok_or_else(|| Failure::internal("the task kind has no code"))?;
        kind.make_up(&mut spec, dir.path())
            .map_err(|e| Failure::input(format!("{e:#}")))?;
    }
    if inside.as_ref().is_some_and(|i| i.makes(Change::Cpu)) {
        spec.operation.device = DevicePolicy::Cpu;
    }
    let named = inside.as_ref().and_then(|i| i.rows.clone());
    let named = named.map(|rows| {
        rows.iter()
            .map(|row| row.saturating_sub(1) as usize)
            .collect()
    });
    let rows = rows.or(named);
    let whole = rows.is_some() || spec.runs_programs();
    let mut training = Training::new(spec, rows, args, dir.path())?;
    if let Some(inside) = inside {
        training.change(&inside);
    }
    if whole || args.steps.is_some() {
        let played = training.play(args.steps)?;
        return training.told(&played, args.steps);
    }
    let first = training.play(Some(FIRST))?;
    let steps = first.planned.unwrap_or(0) as f64;
    let seconds = first.speed.map_or(0.0, |(time, steps)| {
        time.as_secs_f64() / steps.max(1) as f64
    });
    let limit = (steps * seconds > EPOCH).then(|| (EPOCH / seconds) as u32);
    let played = training.play(limit)?;
    training.told(&played, limit)
}

/// Trains the steps that need the most memory, and tells the operation that took longest of those that are noted in the
/// file of [`fault::TRACE_OPERATIONS`].
///
/// # Errors
/// Exit 5: the training fails.
pub(super) fn longest_kernel(spec: StudySpec, args: &RungArgs) -> Result<Exit, Failure> {
    let steps = RungArgs {
        steps: Some(FIRST),
        ..args.clone()
    };
    train(spec, false, None, &steps)?;
    let file = std::env::var_os(fault::TRACE_OPERATIONS).unwrap_or_default();
    let noted = std::fs::read(&file).unwrap_or_default();
    let Some(longest) = Longest::read(&String::from_utf8_lossy(&noted)) else {
        return Err(Failure::internal("no operation was noted"));
    };
    let near = doctor::machine::wsl() && longest.seconds >= WINDOWS_ALLOWS / 2.0;
    let warning = if near { WARNING } else { "" };
    say(&format!(
        "{warning}the longest operation is {longest}; Windows resets a GPU after {WINDOWS_ALLOWS} s in one kernel"
    ));
    Ok(Exit::Done)
}

struct Training {
    plan: Replay,
}

impl Training {
    fn new(
        mut spec: StudySpec,
        rows: Option<Vec<usize>>,
        args: &RungArgs,
        dir: &Path,
    ) -> Result<Training, Failure> {
        let device = super::device(&spec)?;
        // What was injected into a run is no part of the task.
        spec.operation.inject = None;
        let mut trial = TrialSpec::of_defaults(&spec, derive_seed(spec.seed, 0, "trial"));
        trial.rows = rows;
        if !spec.runs_programs() {
            let once = Value::from(1i64);
            trial.config.insert("train.epochs".to_owned(), once);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Training {
            plan: Replay {
                device,
                threads: spec.operation.threads.unwrap_or(cores),
                blocking: args.blocking,
                library: libtorch::for_workers(&spec, device)?,
                ..Replay::new(spec, trial, dir.join("training.log"))
            },
        })
    }

    /// Makes the changes that doctor wants of this run, and notes what is trained.
    fn change(&mut self, inside: &Inside) {
        let Replay {
            trial,
            spec,
            threads,
            device,
            ..
        } = &mut self.plan;
        if spec.needs_libtorch(*device) {
            inside.torch();
        }
        let size = trial.config.get("train.batch_size").and_then(Value::as_i64);
        let size = size.unwrap_or(1).max(1);
        let half = trial.config.get("train.precision") == Some(&Value::from("bf16"));
        let rows = trial.rows.clone().or_else(|| training_rows(spec));
        if let Some(rows) = rows {
            let numbers: Vec<u64> = rows.iter().map(|row| *row as u64 + 1).collect();
            inside.training(&numbers, size.unsigned_abs(), half);
        }
        if size > 1 && inside.makes(Change::HalfBatch) {
            let halved = Value::from(size / 2);
            trial.config.insert("train.batch_size".to_owned(), halved);
        }
        if size > 1 && inside.makes(Change::OneRow) {
            let one = Value::from(1i64);
            trial.config.insert("train.batch_size".to_owned(), one);
        }
        if half && inside.makes(Change::Fp32) {
            let single = Value::from("fp32");
            trial.config.insert("train.precision".to_owned(), single);
        }
        if inside.makes(Change::Seed) {
            trial.seed = derive_seed(spec.seed, inside.shift, "trial");
        }
        if inside.makes(Change::OneThread) {
            *threads = 1;
        }
        if let Some(operation) = &inside.operation
            && inside.makes(Change::OperationOnCpu)
        {
            spec.operation.fallback_ops.push(operation.clone());
        }
    }

    /// Trains so many steps, or an epoch.
    fn play(&mut self, steps: Option<u32>) -> Result<ReplayResult, Failure> {
        at(&steps.map_or("a training".to_owned(), |steps| {
            format!("{steps} training steps")
        }));
        self.plan.trial.rehearse = steps;
        let played = replay(&self.plan, &mut |_| {})?;
        match &played.end {
            ReplayEnd::Completed => Ok(played),
            ReplayEnd::Fault(fault) => Err(Failure::new(Exit::Breaker, text(fault))),
        }
    }

    fn told(&self, played: &ReplayResult, steps: Option<u32>) -> Result<Exit, Failure> {
        let metric = &self.plan.spec.objective.metric;
        let value = |metrics: &task::Metrics| metrics.get(metric).copied();
        let last = played.epochs.last().and_then(|epoch| value(&epoch.metrics));
        let result = last.or(played.returned.as_ref().and_then(value));
        let result = result.map_or_else(String::new, |value| {
            format!(", {metric} {}", report::format::value(value))
        });
        let what = match (steps, self.plan.spec.runs_programs()) {
            (Some(steps), _) => format!("{steps} steps, those that need the most memory first"),
            (None, true) => "the program ran to its end".to_owned(),
            (None, false) => "an epoch and its validation".to_owned(),
        };
        say(&format!("{what}{result}, on {}", self.plan.device));
        Ok(Exit::Done)
    }
}

/// The rows that a trial trains on, from 0.
fn training_rows(spec: &StudySpec) -> Option<Vec<usize>> {
    let rows = run::preparation(&spec.kind)?.training_rows(spec).ok()??;
    rows.train.into_iter().next()
}

/// `cuda_sticky: ...`, then the error's whole text and the place, where they say more.
fn text(fault: &Fault) -> String {
    let mut lines = vec![format!("{}: {}", fault.kind.word(), fault.detail)];
    if !fault.text.is_empty() && !fault.detail.contains(&fault.text) {
        lines.push(fault.text.clone());
    }
    lines.extend(fault.own_line.clone());
    lines.join("\n")
}
