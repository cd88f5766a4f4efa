//! Compares what was done (the ledger) with what was noticed (the events) and with what came of it
//! (the trials, and those of the study left in peace). Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::expect::expected;
use super::measure::{Times, between};
use fault::FaultKind;
use inject::ledger::Entry;
use inject::{Form, Kind};

/// What one kind of fault led to.
#[derive(Debug, Clone)]
pub struct Row {
    /// The fault.
    pub kind: Kind,
    /// Whether it was the real thing.
    pub form: Form,
    /// How often it was made.
    pub injected: u32,
    /// What it was detected as, and how often; `nothing` where it was not.
    pub detected: BTreeMap<String, u32>,
    /// From the fault to its event.
    pub detection: Times,
    /// What became of trial and process, and how often: `again, restart`.
    pub action: BTreeMap<String, u32>,
    /// From the fault to the next finished epoch in that slot.
    pub next_step: Times,
    /// Trials that never ended.
    pub lost: u32,
    /// Trials that ended more than once.
    pub repeated: u32,
    /// Attempts that began in a process after it had reported a sticky error.
    pub reused: u32,
    /// Whether all of it was as it has to be.
    pub held: bool,
}

impl Row {
    /// A row before anything has happened.
    pub fn new(kind: Kind, form: Form) -> Row {
        Row {
            kind,
            form,
            injected: 0,
            detected: BTreeMap::new(),
            detection: Times::default(),
            action: BTreeMap::new(),
            next_step: Times::default(),
            lost: 0,
            repeated: 0,
            reused: 0,
            held: true,
        }
    }
}

/// A disturbed study after its end.
#[derive(Debug, Default)]
pub struct Observed {
    /// The run's events, in order.
    pub events: Vec<Json>,
    /// What was done to it.
    pub ledger: Vec<Entry>,
    /// `tune trials --json`.
    pub trials: Vec<Json>,
    /// Sizes of the attempts' logs, in bytes.
    pub logs: BTreeMap<(u64, u32), u64>,
    /// Processes left behind that outlived the run.
    pub left_over: Vec<u32>,
    /// A log is cut at this size, in bytes.
    pub max_log_bytes: u64,
    /// The goal.
    pub goal: u64,
}

/// Adds what happened to the rows; returns what did not hold.
pub fn judge(
    reference: &[Json],
    observed: &Observed,
    rows: &mut BTreeMap<Kind, Row>,
) -> Vec<String> {
    let mut problems = Vec::new();
    for entry in &observed.ledger {
        let Some(row) = rows.get_mut(&entry.kind) else {
            problems.push(format!("{} was not asked for", entry.kind));
            continue;
        };
        let found = judge_entry(entry, observed, row);
        row.held &= found.is_empty();
        let name = |p| {
            format!(
                "{}, trial {}, attempt {}: {p}",
                entry.kind, entry.trial, entry.attempt
            )
        };
        problems.extend(found.into_iter().map(name));
    }
    problems.extend(judge_trials(reference, observed));
    problems
}

fn judge_entry(entry: &Entry, observed: &Observed, row: &mut Row) -> Vec<String> {
    let mut problems = Vec::new();
    let expected = expected(entry.kind);
    row.injected += 1;
    let at = observed.events.iter().position(|e| {
        e["event"] == "fault" && e["number"] == entry.trial && e["attempt"] == entry.attempt
    });
    let event = at.map(|at| &observed.events[at]);
    let word = event.and_then(|e| e["fault"].as_str());
    *row.detected
        .entry(word.unwrap_or("nothing").into())
        .or_default() += 1;
    let right = match word {
        Some(word) => expected.kinds.iter().any(|k| k.word() == word),
        None => expected.kinds.is_empty(),
    };
    if !right {
        problems.push(format!(
            "detected as {}, expected {}",
            word.unwrap_or("nothing"),
            words(expected.kinds)
        ));
    }
    match at {
        Some(at) => {
            let reused = note_fault(entry, &observed.events, at, row);
            if reused > 0 {
                problems.push(format!("{reused} attempts began in its process afterwards"));
            }
        }
        None => *row.action.entry("goes on".into()).or_default() += 1,
    }
    row.lost += u32::from(
        !observed
            .trials
            .iter()
            .any(|t| t["number"] == entry.trial && ended(t)),
    );
    row.repeated += u32::from(repeated(observed, entry.trial));
    if let Some(left) = entry.left.filter(|pid| observed.left_over.contains(pid)) {
        problems.push(format!(
            "the process {left} that it left behind outlived the run"
        ));
    }
    let log = observed
        .logs
        .get(&(entry.trial, entry.attempt))
        .copied()
        .unwrap_or(0);
    if log > observed.max_log_bytes {
        problems.push(format!(
            "the log has {log} bytes, the limit is {}",
            observed.max_log_bytes
        ));
    }
    problems
}

/// Notes what the fault's event and those after it tell; gives the attempts that began in its lost
/// context.
fn note_fault(entry: &Entry, events: &[Json], at: usize, row: &mut Row) -> u32 {
    let event = &events[at];
    let time = event["time"].as_str().unwrap_or_default();
    if let Some(seconds) = between(&entry.time, time) {
        row.detection.push(seconds);
    }
    let verdict = event["verdict"].as_str().unwrap_or_default();
    let process = if stays(events, at) {
        "continue"
    } else {
        "restart"
    };
    *row.action
        .entry(format!("{verdict}, {process}"))
        .or_default() += 1;
    if let Some(seconds) = next_step(events, at, &entry.time) {
        row.next_step.push(seconds);
    }
    let reused = reused(events, at);
    row.reused += reused;
    reused
}

fn words(kinds: &[FaultKind]) -> String {
    match kinds {
        [] => "nothing".into(),
        kinds => kinds
            .iter()
            .map(|k| k.word())
            .collect::<Vec<_>>()
            .join(" or "),
    }
}

/// Whether the process of the fault at `at` went on: it took another attempt, or lived until it was
/// recycled or no worker was needed any more.
fn stays(events: &[Json], at: usize) -> bool {
    let later = &events[at + 1..];
    let next = later.iter().position(|e| {
        let about = e["event"] == "trial_started" || e["event"] == "worker_stopped";
        about && e["worker"] == events[at]["worker"]
    });
    next.is_some_and(|next| {
        let event = &later[next];
        let last = || !later.iter().any(|e| e["event"] == "worker_started");
        event["event"] == "trial_started"
            || event["reason"]
                .as_str()
                .is_some_and(|r| r.starts_with("recycled"))
            || (event["reason"] == "done" && last())
    })
}

/// Attempts that began in the process of a sticky error.
fn reused(events: &[Json], at: usize) -> u32 {
    let sticky = [
        FaultKind::CudaSticky,
        FaultKind::Poisoned,
        FaultKind::DeviceLost,
    ];
    if !sticky.iter().any(|k| events[at]["fault"] == k.word()) {
        return 0;
    }
    let again = |e: &&Json| e["event"] == "trial_started" && e["worker"] == events[at]["worker"];
    events[at + 1..].iter().filter(again).count() as u32
}

/// From the fault to the first finished epoch of the attempt that its slot had next: one on the
/// same worker, or on one that is younger than all so far.
fn next_step(events: &[Json], at: usize, from: &str) -> Option<f64> {
    let worker = events[at]["worker"].as_u64()?;
    let youngest = events[..at]
        .iter()
        .filter_map(|e| e["worker"].as_u64())
        .max()?;
    let start = events[at + 1..].iter().position(|e| {
        let by = |w: u64| w == worker || w > youngest;
        e["event"] == "trial_started" && e["worker"].as_u64().is_some_and(by)
    })? + at
        + 1;
    let number = &events[start]["number"];
    let step = events[start..]
        .iter()
        .find(|e| e["event"] == "epoch_finished" && e["number"] == *number)?;
    between(from, step["time"].as_str()?)
}

fn ended(trial: &Json) -> bool {
    ["COMPLETE", "PRUNED", "FAIL"]
        .iter()
        .any(|s| trial["state"] == *s)
}

/// Whether a trial ended more than once, by its events or by its attempts.
fn repeated(observed: &Observed, number: u64) -> bool {
    let ends = observed.events.iter();
    let ends = ends.filter(|e| e["event"] == "trial_finished" && e["number"] == number);
    let trials = observed.trials.iter().filter(|t| t["number"] == number);
    let results: usize = trials.map(results_of).sum();
    ends.count() > 1 || results > 1
}

/// Attempts with a result of their own.
fn results_of(trial: &Json) -> usize {
    let attempts = trial["attempts"].as_array().map_or(&[][..], Vec::as_slice);
    let result = |a: &&Json| a["outcome"] == "completed" || a["outcome"] == "pruned";
    attempts.iter().filter(result).count()
}

/// The trials as a whole: complete, each once, and those that were not to blame as they are
/// without faults.
fn judge_trials(reference: &[Json], observed: &Observed) -> Vec<String> {
    let mut problems = compare(reference, &observed.trials, &blamed(&observed.ledger));
    let finished = |t: &&Json| t["state"] == "COMPLETE" || t["state"] == "PRUNED";
    let finished = observed.trials.iter().filter(finished).count() as u64;
    if finished < observed.goal {
        problems.push(format!(
            "{finished} trials finished, the goal is {}",
            observed.goal
        ));
    }
    for trial in &observed.trials {
        let number = trial["number"].as_u64().unwrap_or_default();
        if repeated(observed, number) {
            problems.push(format!("trial {number} ended more than once"));
        }
    }
    for entry in &observed.ledger {
        let trial = observed.trials.iter().find(|t| t["number"] == entry.trial);
        if let (Some(trial), Some(ends), false) = (trial, expected(entry.kind).ends, entry.culprit)
            && trial["state"] != ends
        {
            problems.push(format!(
                "{}: trial {} ended as {}, expected {ends}",
                entry.kind, entry.trial, trial["state"]
            ));
        }
    }
    problems
}

/// Trials whose results need not be those of the study left in peace.
fn blamed(ledger: &[Entry]) -> BTreeSet<u64> {
    let blamed = |e: &&Entry| e.culprit || expected(e.kind).ends.is_some();
    ledger.iter().filter(blamed).map(|e| e.trial).collect()
}

/// What differs from the study left in peace: numbers that are missing or still open, and results.
pub fn compare(reference: &[Json], trials: &[Json], blamed: &BTreeSet<u64>) -> Vec<String> {
    let mut problems = Vec::new();
    for (i, trial) in trials.iter().enumerate() {
        let number = trial["number"].as_u64().unwrap_or_default();
        if number != i as u64 {
            problems.push(format!("trial {i} is missing or there twice"));
            break;
        }
        if !ended(trial) {
            problems.push(format!("trial {number} is lost: it is {}", trial["state"]));
        } else if let Some(undisturbed) = reference.get(i)
            && !blamed.contains(&number)
            && result(trial) != result(undisturbed)
        {
            problems.push(format!(
                "trial {number} was no culprit and ended otherwise than without faults: {} instead of {}",
                result(trial),
                result(undisturbed)
            ));
        }
    }
    problems
}

/// What must not depend on faults.
fn result(trial: &Json) -> Json {
    serde_json::json!({
        "state": trial["state"], "value": trial["value"], "params": trial["params"],
        "intermediate": trial["intermediate"], "seed": trial["attrs"]["seed"],
    })
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
