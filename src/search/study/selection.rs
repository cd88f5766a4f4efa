//! Which trial wins when values are noisy: the leading points are trained again with other seeds,
//! and the best mean wins. Pure; `docs/selection.md` is for people.
//!
//! A trial leads because its value is good, and a part of that is luck. So the mean of a candidate
//! is that of its repeats alone: their seeds had no part in its being chosen. The trial's own value
//! counts for nothing but for the choice of the candidates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{Direction, Entry};
use crate::space::Params;

/// So many distinct points are repeated at most.
pub const LEADERS: usize = 8;

/// Repeats that the first round gives to every leader; a mean with an interval needs two.
const FIRST: u32 = 2;

/// Points that are still compared in the last round.
const FINALISTS: usize = 2;

/// Probability that the interval is to cover the mean.
const CONFIDENCE: f64 = 0.95;

/// A point that leads the search.
#[derive(Debug, Clone, PartialEq)]
pub struct Leader {
    /// The trial.
    pub number: u64,
    /// Its value, chosen for being good.
    pub value: f64,
    /// The point.
    pub params: Params,
}

/// A repeat's value; `None` where it failed for good.
pub type Outcomes = BTreeMap<(u64, u32), Option<f64>>;

/// What the repeats of a candidate say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The trial.
    pub number: u64,
    /// Its value in the search.
    #[serde(with = "messages::any_float")]
    pub value: f64,
    /// Mean of the repeats, with a t interval; `None` with fewer than two values.
    #[serde(flatten, serialize_with = "estimate_fields")]
    pub estimate: Option<Estimate>,
    /// Values of its repeats, in order; those that failed are left out.
    #[serde(with = "messages::any_float")]
    pub values: Vec<f64>,
    /// Repeats that failed for good.
    pub missing: u32,
    /// Whether it had as many repeats as any.
    pub finalist: bool,
    /// Its point.
    pub params: Params,
}

/// A mean with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Estimate {
    /// The mean.
    #[serde(with = "messages::any_float")]
    pub mean: f64,
    /// Lower end of the 95 % interval.
    #[serde(with = "messages::any_float")]
    pub low: f64,
    /// Upper end.
    #[serde(with = "messages::any_float")]
    pub high: f64,
}

/// The fields of an estimate; all are null where there is none.
fn estimate_fields<S: Serializer>(
    estimate: &Option<Estimate>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let field = |of: fn(&Estimate) -> f64| estimate.as_ref().map(of);
    let fields = [
        ("mean", field(|e| e.mean)),
        ("low", field(|e| e.low)),
        ("high", field(|e| e.high)),
    ];
    serializer.collect_map(fields.map(|(name, x)| (name, x.map(messages::json_number))))
}

/// The end of a selection.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// Repeats of each finalist.
    pub repeats: u32,
    /// Place of the winner among the candidates; `None`: every finalist lacks too many repeats.
    pub winner: Option<usize>,
    /// Every leader, the best of the search first.
    pub candidates: Vec<Candidate>,
    /// By how much the best single value of the search is better than the mean of that trial's
    /// own repeats; negative where its repeats were better still.
    pub optimism: Option<f64>,
}

impl Selection {
    /// The winner.
    pub fn winner(&self) -> Option<&Candidate> {
        self.candidates.get(self.winner?)
    }

    /// The trial with the best single value of the search.
    pub fn naive(&self) -> Option<&Candidate> {
        self.candidates.first()
    }

    /// Repeats that failed for good, of all candidates.
    pub fn missing(&self) -> u32 {
        self.candidates.iter().map(|c| c.missing).sum()
    }
}

/// What follows from the repeats so far.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// These repeats (trial, repeat from 1) are to be run, in this order, before anything else is
    /// decided.
    Run(Vec<(u64, u32)>),
    /// All is known.
    Done(Selection),
}

/// The best COMPLETE, feasible trials with distinct points, best first; among equals the earliest.
/// `runs` says whether a point can be trained.
pub fn leaders(
    entries: &[Entry],
    direction: Direction,
    runs: impl Fn(&Params) -> bool,
) -> Vec<Leader> {
    let mut complete: Vec<(f64, &Entry)> = entries
        .iter()
        .filter_map(|e| Some((*e.result(1)?.first()?, e)))
        .filter(|(value, _)| value.is_finite())
        .collect();
    complete.sort_by(|(a, x), (b, y)| direction.order((*a, x.number), (*b, y.number)));
    let mut leaders: Vec<Leader> = Vec::new();
    for (value, entry) in complete {
        if leaders.len() == LEADERS {
            break;
        }
        if leaders.iter().all(|l| l.params != entry.params) && runs(&entry.params) {
            leaders.push(Leader {
                number: entry.number,
                value,
                params: entry.params.clone(),
            });
        }
    }
    leaders
}

/// Successive halving over repeats: everybody gets two, the better half four in all, and so on,
/// the last ones `repeats` (at least 2). A function of its arguments alone, so that it can be asked again
/// after each repeat and after each restart.
pub fn next(leaders: &[Leader], outcomes: &Outcomes, repeats: u32, direction: Direction) -> Next {
    let repeats = repeats.max(FIRST);
    let mut field: Vec<usize> = (0..leaders.len()).collect();
    let mut target = FIRST;
    loop {
        let missing = |repeat: u32| {
            let numbers = field.iter().map(|i| leaders[*i].number);
            numbers
                .map(move |n| (n, repeat))
                .filter(|job| !outcomes.contains_key(job))
        };
        let run: Vec<(u64, u32)> = (1..=target).flat_map(missing).collect();
        if !run.is_empty() {
            return Next::Run(run);
        }
        let ranked = ranked(leaders, &field, outcomes, target, direction);
        if target == repeats {
            return Next::Done(selection(
                leaders, &field, &ranked, outcomes, repeats, direction,
            ));
        }
        let half = field.len().div_ceil(2).max(FINALISTS);
        field = ranked.into_iter().take(half).collect();
        field.sort_unstable();
        target = (target * 2).min(repeats);
    }
}

/// How many trainings each round has where all of them give a value: what [`next`] wants of so many leaders.
pub fn rounds(leaders: usize, repeats: u32) -> Vec<usize> {
    let repeats = repeats.max(FIRST);
    let (mut field, mut before, mut target) = (leaders, 0, FIRST);
    let mut rounds = Vec::new();
    while field > 0 {
        rounds.push(field * (target - before) as usize);
        if target == repeats {
            break;
        }
        field = field.div_ceil(2).max(FINALISTS).min(field);
        (before, target) = (target, (target * 2).min(repeats));
    }
    rounds
}

/// Those of the field that have enough of their first `target` repeats, the best mean first.
fn ranked(
    leaders: &[Leader],
    field: &[usize],
    outcomes: &Outcomes,
    target: u32,
    direction: Direction,
) -> Vec<usize> {
    let mut means: Vec<(f64, usize)> = field
        .iter()
        .filter_map(|&i| {
            let values = values(leaders[i].number, outcomes, target);
            enough(values.len(), target).then(|| (direction.loss(mean(&values)), i))
        })
        .collect();
    means.sort_by(|(a, i), (b, j)| a.total_cmp(b).then(i.cmp(j)));
    means.into_iter().map(|(_, i)| i).collect()
}

/// A candidate whose repeats often fail is none to rely on: at least half of them, and at least
/// two, must have a value.
fn enough(values: usize, target: u32) -> bool {
    values >= FIRST as usize && values * 2 >= target as usize
}

fn selection(
    leaders: &[Leader],
    finalists: &[usize],
    ranked: &[usize],
    outcomes: &Outcomes,
    repeats: u32,
    direction: Direction,
) -> Selection {
    let candidate = |(i, leader): (usize, &Leader)| {
        let values = values(leader.number, outcomes, repeats);
        let ended = (1..=repeats).filter(|r| outcomes.contains_key(&(leader.number, *r)));
        Candidate {
            number: leader.number,
            value: leader.value,
            params: leader.params.clone(),
            missing: ended.count() as u32 - values.len() as u32,
            estimate: estimate(&values),
            finalist: finalists.contains(&i),
            values,
        }
    };
    let candidates: Vec<Candidate> = leaders.iter().enumerate().map(candidate).collect();
    let optimism = candidates.first().and_then(|naive| {
        let mean = naive.estimate?.mean;
        Some(direction.loss(mean) - direction.loss(naive.value))
    });
    Selection {
        repeats,
        winner: ranked.first().copied(),
        candidates,
        optimism,
    }
}

fn values(number: u64, outcomes: &Outcomes, target: u32) -> Vec<f64> {
    (1..=target)
        .filter_map(|repeat| *outcomes.get(&(number, repeat))?)
        .filter(|value| value.is_finite())
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The mean of values with its 95 % t interval; `None` with fewer than two of them.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mean = mean(values);
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    let t = StudentsT::new(0.0, 1.0, (n - 1) as f64).ok()?;
    let half = t.inverse_cdf((1.0 + CONFIDENCE) / 2.0) * (variance / n as f64).sqrt();
    Some(Estimate {
        mean,
        low: mean - half,
        high: mean + half,
    })
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
