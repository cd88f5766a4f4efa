//! The night at a glance: which faults there were and when, who caused them, what they cost, what to do.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::faults::{self, FaultCost, Hours, Lift, came_through, of_the_trial};
use crate::{Material, seconds, shown};
use fault::FaultKind;
use jiff::Timestamp;
use search::space::Params;
use search::study::{Purpose, TrialState};
use store::AttemptRecord;

/// The faults of a study.
#[derive(Serialize)]
pub struct Night {
    /// The study.
    pub study: String,
    /// How it stands, in words.
    pub state: String,
    /// Attempts that have ended.
    pub attempts: u64,
    /// Of these, those that ended by a fault or from outside.
    pub faulty: u64,
    /// Where the time went.
    pub hours: Hours,
    /// Faults by kind, the most expensive first.
    pub kinds: Vec<FaultCost>,
    /// When they were; `None` without any.
    pub over_time: Option<OverTime>,
    /// Trials with faults that may be of their own making, those first that ended by them, then the most expensive.
    pub culprits: Vec<Culprit>,
    /// Faults by device.
    pub devices: Vec<OfDevice>,
    /// Values with which faults are more frequent beyond chance, the surest first.
    pub lifts: Vec<Lift>,
    /// What to do next, the most urgent first.
    pub next: Vec<Advice>,
}

/// Faults over time, in periods of equal length.
#[derive(Debug, PartialEq, Serialize)]
pub struct OverTime {
    /// Seconds of a period.
    pub period_s: u64,
    /// The periods, one after the other; from the first attempt's start to the last one's end.
    pub periods: Vec<Period>,
}

/// One of them.
#[derive(Debug, PartialEq, Serialize)]
pub struct Period {
    /// When it begins: RFC 3339.
    pub from: String,
    /// Attempts that ended in it.
    pub attempts: u64,
    /// Of these, those that ended by a fault, by kind.
    pub kinds: BTreeMap<String, u64>,
}

/// A trial with faults.
#[derive(Debug, PartialEq, Serialize)]
pub struct Culprit {
    /// Its number.
    pub number: u64,
    /// Its state.
    pub state: TrialState,
    /// Whether it ended by its faults; if not, it came through in a later attempt, or still may.
    pub ended_by_it: bool,
    /// Attempts that ended by a fault, by kind.
    pub kinds: BTreeMap<String, u64>,
    /// Other trials that met the context it had broken.
    pub victims: u64,
    /// Hours that these attempts had run.
    pub hours: f64,
    /// What is known of the last fault.
    pub detail: String,
    /// Its devices.
    pub devices: BTreeSet<String>,
    /// Its point.
    pub params: Params,
}

/// The attempts of one device.
#[derive(Debug, PartialEq, Serialize)]
pub struct OfDevice {
    /// `cpu`, `cuda:0`.
    pub device: String,
    /// Attempts that have ended there.
    pub attempts: u64,
    /// Of these, those that ended by a fault or from outside.
    pub faulty: u64,
}

/// Something to do.
#[derive(Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Why.
    pub why: String,
    /// The command.
    pub command: String,
}

/// So many trials are named.
const NAMED: usize = 10;

/// So many periods at most.
const PERIODS: f64 = 24.0;

/// How long a period may be, in seconds.
const LENGTHS: [u64; 8] = [60, 300, 900, 3600, 10_800, 21_600, 86_400, 604_800];

/// An attempt that has ended by a fault.
struct Fault<'a> {
    number: u64,
    attempt: &'a AttemptRecord,
    kind: &'a str,
}

impl Night {
    /// What the attempts tell.
    pub fn new(material: &Material) -> Night {
        let ended = material.attempts.iter().filter(|(_, a)| a.ended.is_some());
        let faults: Vec<Fault> = material
            .attempts
            .iter()
            .filter_map(|(job, attempt)| {
                let kind = attempt.outcome.as_deref().filter(|o| !came_through(o))?;
                Some(Fault {
                    number: job.number,
                    attempt,
                    kind,
                })
            })
            .collect();
        let kinds = faults::by_kind(material);
        let culprits = culprits(material, &faults);
        Night {
            study: material.study.name.clone(),
            state: material.state.clone(),
            attempts: ended.count() as u64,
            faulty: faults.len() as u64,
            hours: faults::hours(material),
            over_time: (!faults.is_empty()).then(|| over_time(material)).flatten(),
            devices: devices(material),
            lifts: faults::lifts(material),
            next: next(material, &kinds, &culprits),
            kinds,
            culprits,
        }
    }
}

fn over_time(material: &Material) -> Option<OverTime> {
    let times = material.attempts.iter().map(|(_, a)| {
        let end = a.ended.as_deref().and_then(seconds);
        (seconds(&a.started), end, a)
    });
    let times: Vec<_> = times.collect();
    let first = times.iter().filter_map(|t| t.0).reduce(f64::min)?;
    let last = times.iter().filter_map(|t| t.1).reduce(f64::max)?;
    let fits = |length: &&u64| (last - first) / **length as f64 <= PERIODS - 1.0;
    let week = LENGTHS[LENGTHS.len() - 1];
    let mut length = *LENGTHS.iter().find(fits).unwrap_or(&week);
    // A clock that was wrong for a while makes no endless table.
    while (last - first) / length as f64 > PERIODS - 1.0 {
        length *= 2;
    }
    let step = length as f64;
    let begin = (first / step).floor() * step;
    let count = ((last - begin) / step).floor() as usize + 1;
    let mut periods: Vec<Period> = (0..count)
        .map(|i| Period {
            from: told(begin + i as f64 * step),
            attempts: 0,
            kinds: BTreeMap::new(),
        })
        .collect();
    for (_, end, attempt) in times {
        let at = end.map(|end| ((end - begin) / step).max(0.0) as usize);
        let Some(period) = at.and_then(|at| periods.get_mut(at)) else {
            continue;
        };
        period.attempts += 1;
        if let Some(kind) = attempt.outcome.as_deref().filter(|o| !came_through(o)) {
            *period.kinds.entry(kind.to_owned()).or_default() += 1;
        }
    }
    Some(OverTime {
        period_s: length,
        periods,
    })
}

/// A time in seconds since 1970, as RFC 3339.
fn told(seconds: f64) -> String {
    Timestamp::from_second(seconds as i64)
        .unwrap_or_default()
        .to_string()
}

fn culprits(material: &Material, faults: &[Fault<'_>]) -> Vec<Culprit> {
    let mut of: BTreeMap<u64, Vec<&Fault>> = BTreeMap::new();
    for fault in faults.iter().filter(|f| of_the_trial(f.kind)) {
        of.entry(fault.number).or_default().push(fault);
    }
    let victims = victims(material, faults);
    let culprit = |(number, mut own): (u64, Vec<&Fault>)| {
        let trial = material.trials.iter().find(|t| t.number == number)?;
        own.sort_by(|a, b| a.attempt.started.cmp(&b.attempt.started));
        let last = own.last()?;
        let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
        for fault in &own {
            *kinds.entry(fault.kind.to_owned()).or_default() += 1;
        }
        let lengths = own.iter().filter_map(|f| faults::length(f.attempt));
        Some(Culprit {
            number,
            state: trial.state,
            ended_by_it: trial.state.finished()
                && trial.state != TrialState::Complete
                && !last.attempt.again,
            kinds,
            victims: victims.get(&number).copied().unwrap_or_default(),
            hours: lengths.sum::<f64>() / 3600.0,
            detail: last.attempt.detail.clone(),
            devices: own.iter().map(|f| f.attempt.device.clone()).collect(),
            params: trial.params.clone(),
        })
    };
    let mut found: Vec<Culprit> = of.into_iter().filter_map(culprit).collect();
    found.sort_by(|a, b| {
        (b.ended_by_it.cmp(&a.ended_by_it))
            .then(b.victims.cmp(&a.victims))
            .then(b.hours.total_cmp(&a.hours))
            .then(a.number.cmp(&b.number))
    });
    found.truncate(NAMED);
    found
}

/// Of each trial, how many others met a broken context in the process that had trained it last.
fn victims(material: &Material, faults: &[Fault<'_>]) -> BTreeMap<u64, u64> {
    let mut victims = BTreeMap::new();
    let poisoned = FaultKind::Poisoned.word();
    for met in faults.iter().filter(|f| f.kind == poisoned) {
        let before = material.attempts.iter().filter(|(job, a)| {
            job.purpose == Purpose::Search
                && (a.run_id, a.worker) == (met.attempt.run_id, met.attempt.worker)
                && a.started < met.attempt.started
        });
        let latest = before.max_by(|(_, a), (_, b)| a.started.cmp(&b.started));
        if let Some((job, _)) = latest.filter(|(job, _)| job.number != met.number) {
            *victims.entry(job.number).or_default() += 1;
        }
    }
    victims
}

fn devices(material: &Material) -> Vec<OfDevice> {
    let mut of: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (_, attempt) in material.attempts.iter().filter(|(_, a)| a.ended.is_some()) {
        let counts = of.entry(&attempt.device).or_default();
        counts.0 += 1;
        let fault = attempt.outcome.as_deref().is_some_and(|o| !came_through(o));
        counts.1 += u64::from(fault);
    }
    let of = of.into_iter();
    of.map(|(device, (attempts, faulty))| OfDevice {
        device: device.to_owned(),
        attempts,
        faulty,
    })
    .collect()
}

/// What to do next: the first of these that apply.
fn next(material: &Material, kinds: &[FaultCost], culprits: &[Culprit]) -> Vec<Advice> {
    let about = &material.about;
    let some = |of: &[FaultKind]| {
        let words: Vec<&str> = of.iter().map(|kind| kind.word()).collect();
        kinds.iter().any(|cost| words.contains(&cost.kind.as_str()))
    };
    let mut advice = Vec::new();
    let mut add = |why: String, command: String| advice.push(Advice { why, command });
    if some(&[FaultKind::DeviceLost, FaultKind::OpenFailed]) {
        add(
            "A device was lost, or could not be used: look at the machine before anything else."
                .to_owned(),
            "tune doctor".to_owned(),
        );
    }
    if let Some(group) = material.failures.first() {
        let line = group.message.lines().next().unwrap_or_default();
        add(
            format!(
                "Trials failed, most often with “{}”.",
                chart::shortened(&shown(line), 100)
            ),
            about.command("failures"),
        );
    }
    if let Some(culprit) = culprits.iter().find(|c| c.ended_by_it && bisectable(c)) {
        let kinds = culprit.kinds.keys().cloned().collect::<Vec<_>>().join(", ");
        add(
            format!(
                "Trial {} ended by {kinds}: find the parameters and rows that cause it.",
                culprit.number
            ),
            format!("{} {}", about.command("bisect"), culprit.number),
        );
    }
    if some(&[FaultKind::Oom, FaultKind::HostOom]) {
        add(
            "Memory ran out: see what uses it, and how many trials fit at a time.".to_owned(),
            about.command("memory"),
        );
    }
    advice
}

/// Whether a smallest cause can be looked for: memory and time depend on more than the trial.
fn bisectable(culprit: &Culprit) -> bool {
    let not = [
        FaultKind::Oom,
        FaultKind::HostOom,
        FaultKind::TimeLimit,
        FaultKind::Diverged,
    ];
    !culprit
        .kinds
        .keys()
        .any(|kind| not.iter().any(|not| not.word() == kind))
}

#[cfg(test)]
#[path = "night_tests.rs"]
mod tests;
