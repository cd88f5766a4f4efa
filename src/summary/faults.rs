//! What went wrong: by kind with what it cost, and by the values of parameters.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};

use crate::{Material, seconds};
use fault::FaultKind;
use report::format;
use search::importance::grouped;
use search::space::Value;
use search::study::carry::COPIED_FROM;
use search::study::{FrozenTrial, Job, Purpose, TrialState};
use store::AttemptRecord;

/// Attempts that ended by a fault of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultCost {
    /// Its word.
    pub kind: String,
    /// What it is, for people.
    pub what: String,
    /// Attempts that ended so.
    pub attempts: u64,
    /// Trials that had one.
    pub trials: u64,
    /// Hours that these attempts had run.
    pub hours: f64,
}

/// Where the time went, in hours of trainings.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Hours {
    /// All attempts.
    pub trained: f64,
    /// Of these, attempts that ended by a fault or were interrupted.
    pub lost: f64,
}

/// What of an attempt's time is known.
pub(crate) fn length(attempt: &AttemptRecord) -> Option<f64> {
    let ended = attempt.ended.as_deref()?;
    Some((seconds(ended)? - seconds(&attempt.started)?).max(0.0))
}

/// Whether an attempt came to its end: a value, or the pruner's word.
pub(crate) fn came_through(outcome: &str) -> bool {
    ["completed", "pruned"].contains(&outcome)
}

/// Faults by kind, the most expensive first.
pub(crate) fn by_kind(material: &Material) -> Vec<FaultCost> {
    let mut found: BTreeMap<&str, (u64, BTreeSet<u64>, f64)> = BTreeMap::new();
    for (job, attempt) in &material.attempts {
        let Some(outcome) = attempt.outcome.as_deref().filter(|o| !came_through(o)) else {
            continue;
        };
        let kind = found.entry(outcome).or_default();
        kind.0 += 1;
        kind.1.insert(job.number);
        kind.2 += length(attempt).unwrap_or(0.0) / 3600.0;
    }
    let what = |word: &str| {
        let kind = FaultKind::ALL.iter().find(|kind| kind.word() == word);
        kind.map_or_else(String::new, |kind| kind.row().what.to_owned())
    };
    let costs = found.into_iter().map(|(word, (attempts, trials, hours))| {
        let trials = trials.len() as u64;
        FaultCost {
            what: what(word),
            kind: word.to_owned(),
            attempts,
            trials,
            hours,
        }
    });
    let mut costs: Vec<FaultCost> = costs.collect();
    costs.sort_by(|a, b| {
        b.hours
            .total_cmp(&a.hours)
            .then(b.attempts.cmp(&a.attempts))
    });
    costs
}

/// Something that was trained.
pub(crate) struct Training<'a> {
    pub job: Job,
    /// How it ended; `None` where nobody has noted it.
    pub outcome: Option<&'a str>,
    /// Seconds since 1970.
    pub from: f64,
    /// The same; not before `from`.
    pub to: f64,
}

/// Whether another study has trained this trial.
pub(crate) fn copied(trial: &FrozenTrial) -> bool {
    trial.user_attrs.contains_key(COPIED_FROM)
}

/// All trainings that have ended; of trials without attempts of ours, by their own times.
pub(crate) fn trainings(material: &Material) -> Vec<Training<'_>> {
    let ours: BTreeSet<u64> = material
        .attempts
        .iter()
        .map(|(job, _)| job.number)
        .collect();
    let span = |start: &str, end: &Option<String>| {
        let (from, to) = (seconds(start)?, seconds(end.as_deref()?)?);
        Some((from, to.max(from)))
    };
    let attempts = material.attempts.iter().filter_map(|(job, attempt)| {
        let (from, to) = span(&attempt.started, &attempt.ended)?;
        let outcome = attempt.outcome.as_deref();
        Some(Training {
            job: *job,
            outcome,
            from,
            to,
        })
    });
    let others = material
        .trials
        .iter()
        .filter(|t| !ours.contains(&t.number) && !copied(t));
    let others = others.filter_map(|trial| {
        let (from, to) = span(trial.datetime_start.as_deref()?, &trial.datetime_complete)?;
        Some(Training {
            job: Job {
                number: trial.number,
                purpose: Purpose::Search,
            },
            outcome: None,
            from,
            to,
        })
    });
    attempts.chain(others).collect()
}

/// The seconds that the search's trainings of each trial have taken together: between two of them it may have waited for days.
pub(crate) fn times(material: &Material) -> BTreeMap<u64, f64> {
    let mut times = BTreeMap::new();
    for training in trainings(material) {
        if training.job.searches() {
            *times.entry(training.job.number).or_default() += training.to - training.from;
        }
    }
    times
}

/// Where the time went.
pub(crate) fn hours(material: &Material) -> Hours {
    let mut hours = Hours::default();
    for training in trainings(material) {
        let length = (training.to - training.from) / 3600.0;
        hours.trained += length;
        if training.outcome.is_some_and(|o| !came_through(o)) {
            hours.lost += length;
        }
    }
    hours
}

/// A group of values under which faults are more, or less, frequent than elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lift {
    /// The parameter.
    pub name: String,
    /// Its value, or the range of its values, for people.
    pub values: String,
    /// Trials with such a value.
    pub trials: u64,
    /// Of these, those with a fault.
    pub faulty: u64,
    /// How many times as frequent faults are as with all other values.
    pub ratio: f64,
    /// Lower end of an interval that holds for all values of all parameters together in 19 of 20 studies.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Fewer faulty trials than this say nothing about values.
const FEWEST: usize = 5;

/// Fewest groups of similar numbers: faults are rare.
const FEWEST_GROUPS: usize = 2;

/// Whether something went wrong in a trial that its own values may have caused.
fn faulty(trial: &FrozenTrial, faulted: &BTreeSet<u64>) -> bool {
    trial.state == TrialState::Fail || faulted.contains(&trial.number)
}

/// Whether a fault may come from the trial: not those that come from people or from the machine.
pub(crate) fn of_the_trial(outcome: &str) -> bool {
    let others = [
        FaultKind::Interrupted,
        FaultKind::Killed,
        FaultKind::Poisoned,
        FaultKind::DeviceLost,
        FaultKind::OpenFailed,
    ];
    !came_through(outcome) && !others.iter().any(|kind| kind.word() == outcome)
}

/// The values under which faults are more frequent than elsewhere beyond chance, the strongest first.
pub(crate) fn lifts(material: &Material) -> Vec<Lift> {
    let faulted: BTreeSet<u64> = (material.attempts.iter())
        .filter(|(job, _)| job.purpose == Purpose::Search)
        .filter(|(_, attempt)| attempt.outcome.as_deref().is_some_and(of_the_trial))
        .map(|(job, _)| job.number)
        .collect();
    let ended = material.trials.iter().filter(|t| t.state.finished());
    let ended: Vec<(&FrozenTrial, bool)> = ended.map(|t| (t, faulty(t, &faulted))).collect();
    if ended.iter().filter(|(_, bad)| *bad).count() < FEWEST {
        return Vec::new();
    }
    let names: BTreeSet<&String> = ended.iter().flat_map(|(t, _)| t.params.keys()).collect();
    let groups: Vec<Group> = names
        .into_iter()
        .flat_map(|name| groups(&ended, name))
        .collect();
    let z = simultaneous(groups.len());
    let mut lifts: Vec<Lift> = groups.iter().filter_map(|g| g.lift(z)).collect();
    lifts.retain(|lift| lift.low > 1.0);
    lifts.sort_by(|a, b| b.low.total_cmp(&a.low));
    lifts
}

/// So many standard deviations hold for this many intervals at once in 19 of 20 cases (Bonferroni).
fn simultaneous(intervals: usize) -> f64 {
    let tail = 0.025 / intervals.max(1) as f64;
    Normal::standard().inverse_cdf(1.0 - tail)
}

/// Trials with similar values of one parameter, beside all others.
struct Group {
    name: String,
    values: String,
    /// Faulty and all, with such a value.
    inside: (u64, u64),
    /// With another one, or without the parameter.
    outside: (u64, u64),
}

/// The groups of one parameter.
fn groups(ended: &[(&FrozenTrial, bool)], name: &str) -> Vec<Group> {
    let with = ended
        .iter()
        .filter_map(|(t, bad)| Some((t.params.get(name)?, *bad)));
    let with: Vec<(&Value, bool)> = with.collect();
    let of = grouped(
        &with.iter().map(|(value, _)| *value).collect::<Vec<_>>(),
        FEWEST_GROUPS,
    );
    let all_bad = ended.iter().filter(|(_, bad)| *bad).count() as u64;
    let count = of.iter().max().map_or(0, |last| last + 1);
    let members = |group: usize| with.iter().zip(&of).filter(move |(_, g)| **g == group);
    (0..count)
        .map(|group| {
            let values: Vec<&Value> = members(group).map(|((value, _), _)| *value).collect();
            let bad = members(group).filter(|((_, bad), _)| *bad).count() as u64;
            let (size, all) = (values.len() as u64, ended.len() as u64);
            Group {
                name: name.to_owned(),
                values: range(&values),
                inside: (bad, size),
                outside: (all_bad - bad, all - size),
            }
        })
        .collect()
}

/// `16`, `1e-5 to 3e-4`.
fn range(values: &[&Value]) -> String {
    let number = |value: &&Value| value.as_f64();
    let numbers: Option<Vec<f64>> = values.iter().map(number).collect();
    let ends = numbers.map(|all| {
        all.iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
                (low.min(*x), high.max(*x))
            })
    });
    let told = |x: f64| format::param(&Value::Float(x));
    match (ends, values.first()) {
        (Some((low, high)), _) if low < high => format!("{} to {}", told(low), told(high)),
        (_, Some(value)) => chart::shortened(&format::param(value), 60),
        (_, None) => String::new(),
    }
}

impl Group {
    /// The ratio of both rates with its interval (Katz et al., Biometrics 34, 1978; half a trial is added to each
    /// count). `None` where one side has too few trials.
    fn lift(&self, z: f64) -> Option<Lift> {
        let ((bad, all), (bad_else, all_else)) = (self.inside, self.outside);
        if all < FEWEST as u64 || all_else < FEWEST as u64 {
            return None;
        }
        let plus = |n: u64| n as f64 + 0.5;
        let ratio = (plus(bad) / plus(all)) / (plus(bad_else) / plus(all_else));
        let variance =
            1.0 / plus(bad) - 1.0 / plus(all) + 1.0 / plus(bad_else) - 1.0 / plus(all_else);
        let width = (z * variance.max(0.0).sqrt()).exp();
        Some(Lift {
            name: self.name.clone(),
            values: self.values.clone(),
            trials: all,
            faulty: bad,
            ratio,
            low: ratio / width,
            high: ratio * width,
        })
    }
}
