//! Which trials of earlier studies a new study begins with. A trial whose training would be the
//! same in the new study comes with its value; where values are not comparable, the best points
//! come to be tried again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json, json};

use super::{Direction, FrozenTrial, TrialState, is_constraint, pareto};
use crate::space::{Condition, Domain, Params, Space, Value};

/// User attribute of a trial whose result comes from another study: `{study, number}`.
pub const COPIED_FROM: &str = "copied_from";
/// User attribute of a trial whose point was tried in another study: `{study, number}`.
pub const POINT_FROM: &str = "point_from";
/// How many points are tried again where values are not comparable.
const MOST_POINTS: usize = 10;

/// An earlier study.
#[derive(Debug, Clone)]
pub struct Source<'a> {
    /// Its name.
    pub study: &'a str,
    /// What it searched, with its fixed values; `None` where nobody recorded it.
    pub space: Option<&'a Space>,
    /// Whether its values and those of the new study can stand side by side.
    pub comparable: bool,
    /// Trials with numbers below this were there before `tune` took the study over from another
    /// program: nobody knows what measured their values.
    pub claimed: u64,
    /// One direction an objective.
    pub directions: &'a [Direction],
    /// Its trials, ascending by number.
    pub trials: &'a [FrozenTrial],
}

/// A new study.
#[derive(Debug, Clone)]
pub struct Target<'a> {
    /// What it searches, with its fixed values.
    pub space: &'a Space,
    /// What the task kind trains with where a key has no value.
    pub presets: &'a Params,
    /// The points tried first: trial `n` is the point at `n`.
    pub first: &'a [Params],
}

/// Why trials do not fit, and how many.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    /// The parameter, or `constraints`.
    pub key: String,
    /// What is wrong with its values.
    pub why: String,
    /// How many trials.
    pub trials: u64,
}

/// What became of the trials of the earlier studies.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Carried {
    /// Copied with their values.
    pub copied: u64,
    /// Points enqueued to be tried again.
    pub enqueued: u64,
    /// Finished trials that do not fit, by parameter and reason, the most first. Each is counted
    /// once, for the first reason found.
    pub left_out: Vec<LeftOut>,
    /// Points that waited in the earlier studies, and wait in the new one.
    pub waiting: u64,
    /// Trials that waited and whose points do not fit, by parameter and reason.
    pub waiting_left_out: Vec<LeftOut>,
    /// Trials without a result: failed, refused, started and not ended.
    pub without_result: u64,
}

/// Why a trial does not fit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Misfit {
    key: String,
    why: String,
}

fn misfit<T>(key: &str, why: impl Into<String>) -> Result<T, Misfit> {
    Err(Misfit {
        key: key.to_owned(),
        why: why.into(),
    })
}

/// The trials that the new study begins with, in the order of their numbers, and what to tell of
/// it. An earlier source wins over a later one: what it has copied itself is not taken twice.
pub fn carry(sources: &[Source], target: &Target) -> (Vec<FrozenTrial>, Carried) {
    let mut carried = Carried::default();
    let mut reasons = BTreeMap::new();
    let mut trials = copies(sources, target, &mut carried, &mut reasons);
    carried.copied = trials.len() as u64;
    // What people have enqueued goes before what is only worth another try.
    let mut reasons_to_wait = BTreeMap::new();
    trials.extend(queue(sources, target, &mut reasons_to_wait));
    carried.waiting = trials.len() as u64 - carried.copied;
    if carried.copied == 0 {
        let points = |s: &Source| points(s, target, &mut carried, &mut reasons);
        let others = sources.iter().filter(|s| !s.comparable || s.claimed > 0);
        let again = others.map(points).find(|p| !p.is_empty());
        let known: Vec<Params> = trials.iter().map(FrozenTrial::fixed_params).collect();
        let mut again = again.unwrap_or_default();
        again.retain(|t| !known.contains(&t.fixed_params()));
        carried.enqueued = again.len() as u64;
        trials.extend(again);
    }
    carried.left_out = left_out(reasons);
    carried.waiting_left_out = left_out(reasons_to_wait);
    (in_order(trials, target), carried)
}

type Reasons = BTreeMap<Misfit, u64>;

/// The most first.
fn left_out(reasons: Reasons) -> Vec<LeftOut> {
    let mut left: Vec<LeftOut> = reasons
        .into_iter()
        .map(|(Misfit { key, why }, trials)| LeftOut { key, why, trials })
        .collect();
    left.sort_by_key(|l| std::cmp::Reverse(l.trials));
    left
}

/// The trials of comparable sources that fit, with their values.
fn copies(
    sources: &[Source],
    target: &Target,
    carried: &mut Carried,
    reasons: &mut Reasons,
) -> Vec<FrozenTrial> {
    let mut copied = Vec::new();
    let mut seen = BTreeSet::new();
    let mut unknown = 0;
    for source in sources.iter().filter(|s| s.comparable) {
        let Some(old) = source.space else { continue };
        for trial in source.trials {
            seen.extend(trial.user_attrs.get(COPIED_FROM).and_then(origin));
            if seen.contains(&(source.study.to_owned(), trial.number)) {
                continue;
            }
            if trial.number < source.claimed {
                unknown += u64::from(trial.counts());
                continue;
            }
            if !trial.counts() {
                carried.without_result += u64::from(trial.state != TrialState::Waiting);
                continue;
            }
            match fits(trial, old, target) {
                Ok(params) => copied.push(copy(trial, params, source.study, target.space)),
                Err(why) => *reasons.entry(why).or_default() += 1,
            }
        }
    }
    // Without any copy their points are looked at again, to be tried anew.
    if unknown > 0 && !copied.is_empty() {
        let key = "values".to_owned();
        let why = "of another program: nobody knows what measured them".to_owned();
        reasons.insert(Misfit { key, why }, unknown);
    }
    copied
}

/// The points that wait in the sources and that the new study can take. One that an earlier source
/// has from a later one is taken once.
fn queue(sources: &[Source], target: &Target, reasons: &mut Reasons) -> Vec<FrozenTrial> {
    let mut queue: Vec<FrozenTrial> = Vec::new();
    let mut seen = BTreeSet::new();
    for source in sources {
        for trial in source.trials {
            seen.extend(trial.user_attrs.get(POINT_FROM).and_then(origin));
            if trial.state != TrialState::Waiting
                || seen.contains(&(source.study.to_owned(), trial.number))
            {
                continue;
            }
            match enqueued(trial, target.space) {
                Ok(params) => {
                    let mut attrs = trial.user_attrs.clone();
                    attrs.insert(POINT_FROM.to_owned(), whence(source.study, trial));
                    queue.push(waiting(&params, attrs));
                }
                Err(why) => *reasons.entry(why).or_default() += 1,
            }
        }
    }
    queue
}

/// An enqueued point as the new study can take it: somebody wants these very values tried.
fn enqueued(trial: &FrozenTrial, new: &Space) -> Result<Params, Misfit> {
    let mut wanted = trial.params.clone();
    wanted.extend(trial.fixed_params());
    for (name, value) in wanted.iter().filter(|(name, _)| new.find(name).is_none()) {
        match new.fixed.get(name) {
            Some(now) if now == value => {}
            Some(now) => return misfit(name, format!("fixed at {now} now")),
            None => return misfit(name, "not a parameter any more"),
        }
    }
    let mut params = Params::new();
    for parameter in &new.parameters {
        let name = parameter.name.as_str();
        let Some(value) = wanted.get(name) else {
            continue;
        };
        // What is missing is chosen when the point is tried, and may make it active then.
        let open = |c: &Condition| new.find(&c.parent).is_some() && !params.contains_key(&c.parent);
        let domain = match new.active_domain(parameter, &params) {
            None if parameter.when.iter().any(open) => Some(parameter.domain.clone()),
            domain => domain,
        };
        match domain.map(|d| inside(&d, value).ok_or(d)) {
            Some(Ok(value)) => _ = params.insert(name.to_owned(), value),
            Some(Err(domain)) => return misfit(name, outside(&domain, value)),
            None => return misfit(name, "not active beside the others any more"),
        }
    }
    obeys(new, params)
}

/// Study and number in an attribute that says where a trial comes from.
pub fn origin(attribute: &Json) -> Option<(String, u64)> {
    let study = attribute.get("study")?.as_str()?;
    Some((study.to_owned(), attribute.get("number")?.as_u64()?))
}

/// The trial's point in the new space, if training it there would be training it as it was: every
/// key that either study searches has the value that it had.
fn fits(trial: &FrozenTrial, old: &Space, target: &Target) -> Result<Params, Misfit> {
    let (new, presets) = (target.space, target.presets);
    if let Some(name) = trial.params.keys().find(|n| old.find(n).is_none()) {
        return misfit(name, "not a parameter of the earlier study");
    }
    for parameter in &old.parameters {
        let active = old.active_domain(parameter, &trial.params).is_some();
        if active && !trial.params.contains_key(&parameter.name) {
            return misfit(&parameter.name, "the trial has no value for it");
        }
    }
    let had = |name: &str| {
        let value = trial.params.get(name).or_else(|| old.fixed.get(name));
        value.or_else(|| presets.get(name))
    };
    // Before what depends on it: a child that is not active any more is no reason of its own.
    for parameter in old
        .parameters
        .iter()
        .filter(|p| new.find(&p.name).is_none())
    {
        let now = new.fixed.get(&parameter.name);
        if had(&parameter.name) != now {
            return match now {
                Some(now) => misfit(&parameter.name, format!("fixed at {now} now")),
                None => misfit(&parameter.name, "not a parameter any more"),
            };
        }
    }
    let mut params = Params::new();
    for parameter in &new.parameters {
        let name = parameter.name.as_str();
        match (new.active_domain(parameter, &params), had(name)) {
            (Some(_), None) => return misfit(name, "the trial has no value for it"),
            (Some(domain), Some(value)) => match inside(&domain, value) {
                Some(value) => _ = params.insert(name.to_owned(), value),
                None => return misfit(name, outside(&domain, value)),
            },
            (None, value) if value == presets.get(name) => {}
            (None, _) => return misfit(name, "not active beside the others any more"),
        }
    }
    obeys(new, params)
}

fn inside(domain: &Domain, value: &Value) -> Option<Value> {
    domain.contains(value).then(|| domain.clamp(value))?
}

fn outside(domain: &Domain, value: &Value) -> String {
    match domain {
        Domain::Categorical { .. } => format!("{value} is no choice now"),
        Domain::Float { .. } | Domain::Int { .. } => {
            format!("outside {domain}")
        }
    }
}

fn obeys(space: &Space, params: Params) -> Result<Params, Misfit> {
    match space.violated(&params) {
        None => Ok(params),
        Some(constraint) => misfit("constraints", format!("{} violated", constraint.expr)),
    }
}

fn copy(trial: &FrozenTrial, params: Params, study: &str, space: &Space) -> FrozenTrial {
    let mut copy = trial.clone();
    copy.user_attrs
        .insert(COPIED_FROM.into(), whence(study, trial));
    // What else there is belongs to a sampler, or to the queue, of the earlier study.
    copy.system_attrs.retain(|k, _| is_constraint(k));
    copy.distributions = space.distributions(&params);
    copy.params = params;
    copy
}

fn whence(study: &str, trial: &FrozenTrial) -> Json {
    json!({"study": study, "number": trial.number})
}

/// The best distinct points of a source that the new space has, best first, to be tried again.
fn points(
    source: &Source,
    target: &Target,
    carried: &mut Carried,
    reasons: &mut Reasons,
) -> Vec<FrozenTrial> {
    let mut fitting: Vec<(Vec<f64>, &FrozenTrial, Params)> = Vec::new();
    // Of a comparable study, those whose values nobody can vouch for; the others were looked at.
    let looked_at = |t: &&FrozenTrial| source.comparable && t.number >= source.claimed;
    let waits = |t: &&FrozenTrial| t.state == TrialState::Waiting;
    for trial in source.trials.iter().filter(|t| !looked_at(t) && !waits(t)) {
        let Some(values) = trial.result(source.directions.len()) else {
            carried.without_result += 1;
            continue;
        };
        match point(trial, source.space, target.space) {
            Ok(params) => {
                let losses = pareto::losses(source.directions, values);
                fitting.push((losses, trial, params));
            }
            Err(why) => *reasons.entry(why).or_default() += 1,
        }
    }
    let mut chosen: Vec<FrozenTrial> = Vec::new();
    for (trial, params) in best_first(fitting) {
        if chosen.len() == MOST_POINTS {
            break;
        }
        if chosen.iter().all(|c| c.fixed_params() != params) {
            let from = (POINT_FROM.to_owned(), whence(source.study, trial));
            chosen.push(waiting(&params, [from].into_iter().collect()));
        }
    }
    chosen
}

/// By value; with several objectives front after front.
fn best_first<T, U>(fitting: Vec<(Vec<f64>, T, U)>) -> Vec<(T, U)> {
    let losses: Vec<Vec<f64>> = fitting.iter().map(|f| f.0.clone()).collect();
    let ranks = match losses.iter().any(|l| l.len() > 1) {
        true => pareto::ranks(&losses),
        false => vec![0; losses.len()],
    };
    let mut ranked: Vec<_> = ranks.into_iter().zip(fitting).collect();
    // Sorting keeps the order of equals.
    ranked.sort_by(|(a, (x, ..)), (b, (y, ..))| {
        let by_value = match (x.as_slice(), y.as_slice()) {
            ([x], [y]) => x.total_cmp(y),
            (_, _) => std::cmp::Ordering::Equal,
        };
        a.cmp(b).then(by_value)
    });
    ranked.into_iter().map(|(_, (_, t, u))| (t, u)).collect()
}

/// The part of a point that the new space has. What the new study fixes must agree with it, other
/// keys are of no interest, and what is missing is chosen when the point is tried.
fn point(trial: &FrozenTrial, old: Option<&Space>, new: &Space) -> Result<Params, Misfit> {
    let had = |name: &str| {
        let fixed = || old.and_then(|o| o.fixed.get(name));
        trial.params.get(name).or_else(fixed)
    };
    let mut params = Params::new();
    for parameter in &new.parameters {
        let name = parameter.name.as_str();
        if let (Some(domain), Some(value)) = (new.active_domain(parameter, &params), had(name)) {
            match inside(&domain, value) {
                Some(value) => _ = params.insert(name.to_owned(), value),
                None => return misfit(name, outside(&domain, value)),
            }
        }
    }
    for (name, value) in &trial.params {
        if let Some(now) = new.fixed.get(name).filter(|now| *now != value) {
            return misfit(name, format!("fixed at {now} now"));
        }
    }
    if !trial.params.keys().any(|name| params.contains_key(name)) {
        return misfit("parameters", "none that the new study searches");
    }
    obeys(new, params)
}

/// A trial that waits to be started with these values.
pub fn waiting(params: &Params, user_attrs: Map<String, Json>) -> FrozenTrial {
    let fixed: Map<String, Json> = params
        .iter()
        .map(|(name, value)| (name.clone(), value.to_json()))
        .collect();
    let mut trial = FrozenTrial::new(0, TrialState::Waiting, Params::new());
    trial.user_attrs = user_attrs;
    trial
        .system_attrs
        .insert("fixed_params".to_owned(), fixed.into());
    trial
}

/// Numbers the trials. The first are the points that are tried first in any study: those among the
/// trials have their places there, the others wait.
fn in_order(mut trials: Vec<FrozenTrial>, target: &Target) -> Vec<FrozenTrial> {
    if trials.is_empty() {
        return trials;
    }
    let mut ordered = Vec::new();
    for point in target.first {
        let is = |t: &FrozenTrial| match t.state {
            TrialState::Waiting => t.fixed_params() == *point,
            TrialState::Complete | TrialState::Pruned | TrialState::Fail | TrialState::Running => {
                t.params == *point
            }
        };
        let found = trials.iter().position(is).map(|i| trials.remove(i));
        ordered.push(found.unwrap_or_else(|| waiting(point, Map::new())));
    }
    ordered.extend(trials);
    for (number, trial) in ordered.iter_mut().enumerate() {
        trial.number = number as u64;
    }
    ordered
}

#[cfg(test)]
#[path = "carry_tests.rs"]
mod tests;
