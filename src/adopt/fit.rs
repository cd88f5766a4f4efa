//! Which trials of a study from elsewhere are history for the task's sampler, and each trial as
//! the adopted study holds it.
//!
//! A trial fits when training the task at its point would have been the same trial: every
//! parameter that the task searches and that is active at this point has a value within its active
//! domain, no constraint is violated, and what the task reads but does not search had the task's
//! value, where the trial tells. A parameter that the trial lacks is an obstacle: what it was
//! trained with is unknown, and a default would be an invention that the sampler takes for a fact.
//! Parameters that the task does not read are none; nor are those that are inactive at the point.
//!
//! The sampler learns a group of parameters from the trials that have all of them. So a trial that
//! lacks some still teaches the groups that it has whole; one that was trained with another value
//! of a fixed key, or that ended in a CUDA context that was lost before it began, teaches nothing,
//! and keeps no parameter.
//!
//! Optuna allows one kind of distribution for a name within a study, with one scale, and exactly one
//! list of choices. Numbers keep the distribution that they were drawn from where kind and scale are
//! the task's; any other value is stored under the task's distribution if it lies in it. What
//! cannot be stored goes to the attribute [`PARAMS`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use super::{TaskRequirements, compare, worth};
use search::space::{Domain, Params, Value};
use search::study::{FrozenTrial, TrialState};

/// User attribute of an adopted trial: parameters that its study cannot hold, by name.
pub const PARAMS: &str = "adopted_params";

/// User attribute of an adopted trial: the state that it had.
pub const STATE: &str = "adopted_state";

/// User attribute of an adopted trial: what was done with it, for people.
pub const NOTE: &str = "adopted_note";

/// System attribute of an adopted trial that must be neither learned from as good nor be the best: 1
/// for a value that the metric cannot have or that comes from a lost context. Constraints of its own
/// it keeps as they are.
const VIOLATION: &str = "constraints:adopted";

/// The parameters of an adopted trial that has none which its study can hold.
pub fn adopted_params(trial: &FrozenTrial) -> Option<Params> {
    let Some(Json::Object(moved)) = trial.user_attrs.get(PARAMS) else {
        return None;
    };
    if !trial.params.is_empty() || moved.is_empty() {
        return None;
    }
    let value = |(name, json): (&String, &Json)| Some((name.clone(), Value::from_json(json)?));
    Some(moved.iter().filter_map(value).collect())
}

/// Why a trial is no history for the sampler.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// It ended in a context that was lost before it began.
    NeverRan,
    /// It has no value for this parameter.
    Missing(String),
    /// Its value of this parameter is outside the bounds, or no choice.
    Outside(String),
    /// It was trained with another value of this key, which the task does not search.
    FixedOtherwise(String),
    /// It violates this constraint.
    Violates(String),
}

/// Why a trial is no history for the sampler; empty: it fits.
pub fn obstacles(trial: &FrozenTrial, asked: &TaskRequirements) -> Vec<Obstacle> {
    let mut found = Vec::new();
    for parameter in &asked.space.parameters {
        let Some(domain) = asked.space.active_domain(parameter, &trial.params) else {
            continue;
        };
        let name = || parameter.name.clone();
        match trial.params.get(&parameter.name) {
            None => found.push(Obstacle::Missing(name())),
            Some(value) if !domain.contains(value) => found.push(Obstacle::Outside(name())),
            Some(_) => {}
        }
    }
    for (name, value) in &trial.params {
        let fixed = compare::fixed(name, &asked.space.fixed, asked);
        if asked.space.find(name).is_none() && fixed.is_some_and(|f| f != value) {
            found.push(Obstacle::FixedOtherwise(name.clone()));
        }
    }
    if found.is_empty()
        && let Some(constraint) = asked.space.violated(&trial.params)
    {
        found.push(Obstacle::Violates(constraint.expr.to_string()));
    }
    found
}

/// How many trials fit, and what keeps the others from it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fit {
    /// COMPLETE and PRUNED trials: those that a sampler looks at.
    pub finished: usize,
    /// Those of them that fit.
    pub history: usize,
    /// Each obstacle with the number of finished trials that meet it, the most frequent first.
    pub obstacles: Vec<(Obstacle, usize)>,
}

/// Looks at all trials; `victims` ended in a lost context.
pub fn fit(trials: &[FrozenTrial], asked: &TaskRequirements, victims: &BTreeSet<u64>) -> Fit {
    let mut fit = Fit::default();
    let mut counts: BTreeMap<Obstacle, usize> = BTreeMap::new();
    for trial in trials {
        match trial.state {
            TrialState::Complete | TrialState::Pruned => {}
            TrialState::Fail | TrialState::Running | TrialState::Waiting => continue,
        }
        fit.finished += 1;
        let found = if victims.contains(&trial.number) {
            vec![Obstacle::NeverRan]
        } else {
            obstacles(trial, asked)
        };
        fit.history += usize::from(found.is_empty());
        for obstacle in found {
            *counts.entry(obstacle).or_default() += 1;
        }
    }
    fit.obstacles = counts.into_iter().collect();
    fit.obstacles.sort_by_key(|o| std::cmp::Reverse(o.1));
    fit
}

/// When trials are adopted, and what is known of the program that they come from.
#[derive(Debug, Clone)]
pub struct Arrival<'a> {
    /// Naive UTC as the database has it.
    pub now: &'a str,
    /// Whether the program that left trials RUNNING may still be at work on them.
    pub alive: bool,
    /// Numbers of the trials that ended in a lost context.
    pub victims: &'a BTreeSet<u64>,
}

/// A trial as the adopted study holds it.
pub fn adopted(trial: &FrozenTrial, asked: &TaskRequirements, arrival: &Arrival) -> FrozenTrial {
    let now = arrival.now;
    let victim = arrival.victims.contains(&trial.number);
    let mut out = trial.clone();
    let mut moved = move_params(&mut out, asked, victim);
    let note = match trial.state {
        TrialState::Running if arrival.alive => Some(
            "was RUNNING when its study was adopted; its program went on with it elsewhere"
                .to_owned(),
        ),
        TrialState::Running => {
            Some("was left RUNNING by a program that ended; settled when adopted".to_owned())
        }
        TrialState::Waiting => {
            let unfit = unfit(trial, asked, &moved);
            if unfit.is_none() {
                set_unknown_aside(&mut out, asked, &mut moved);
            }
            unfit
        }
        TrialState::Complete if trial.values.is_empty() => {
            Some("was COMPLETE without a value".to_owned())
        }
        TrialState::Complete | TrialState::Pruned | TrialState::Fail => None,
    };
    if let Some(note) = note {
        let attrs = &mut out.user_attrs;
        attrs.insert(STATE.into(), trial.state.optuna().into());
        attrs.insert(NOTE.into(), note.into());
        out.state = TrialState::Fail;
    }
    if out.state == TrialState::Fail {
        out.values.clear();
    }
    if out.state.finished() {
        let start = out.datetime_start.get_or_insert_with(|| now.to_owned());
        if out.datetime_complete.is_none() {
            let settled_now = trial.state == TrialState::Running;
            let end = if settled_now { now } else { start };
            out.datetime_complete = Some(end.to_owned());
        }
    }
    if !moved.is_empty() {
        // An adopted study can be adopted again.
        if let Some(Json::Object(before)) = out.user_attrs.get(PARAMS) {
            for (name, value) in before {
                moved.entry(name.as_str()).or_insert(value.clone());
            }
        }
        out.user_attrs.insert(PARAMS.into(), Json::Object(moved));
    }
    mark_violation(&mut out, asked, victim);
    out
}

/// Takes the parameters out that the study cannot hold, and gives them.
fn move_params(trial: &mut FrozenTrial, asked: &TaskRequirements, all: bool) -> Map<String, Json> {
    let all = all
        || obstacles(trial, asked)
            .iter()
            .any(|o| matches!(o, Obstacle::FixedOtherwise(_)));
    let (mut params, mut distributions) = (Params::new(), BTreeMap::new());
    let mut moved = Map::new();
    for (name, value) in &trial.params {
        let drawn = trial.distributions.get(name).filter(|_| !all);
        match drawn.and_then(|drawn| stored(name, value, drawn, trial, asked)) {
            Some((value, domain)) => {
                params.insert(name.clone(), value);
                distributions.insert(name.clone(), domain);
            }
            None => {
                moved.insert(name.clone(), value.to_json());
            }
        }
    }
    trial.params = params;
    trial.distributions = distributions;
    moved
}

/// A value with the distribution it is stored under; `None` where the study cannot hold it.
fn stored(
    name: &str,
    value: &Value,
    drawn: &Domain,
    trial: &FrozenTrial,
    asked: &TaskRequirements,
) -> Option<(Value, Domain)> {
    let (_, parameter) = asked.space.find(name)?;
    // The conditions of a waiting trial are not known before it starts.
    let active = match trial.state {
        TrialState::Waiting => Some(parameter.domain.clone()),
        TrialState::Running | TrialState::Complete | TrialState::Pruned | TrialState::Fail => {
            asked.space.active_domain(parameter, &trial.params)
        }
    }?;
    // Optuna lets numbers of one kind on one scale differ in their bounds.
    let numbers = !matches!(drawn, Domain::Categorical { .. });
    if numbers && drawn.compatible(&parameter.domain) {
        return Some((value.clone(), drawn.clone()));
    }
    let domain = [active, parameter.domain.clone()]
        .into_iter()
        .find(|d| d.contains(value))?;
    let value = domain.from_internal(domain.to_internal(value)?)?;
    Some((value, domain))
}

/// Why an enqueued trial cannot be run by the task. A key that the task does not know is no reason
/// where others remain.
fn unfit(
    trial: &FrozenTrial,
    asked: &TaskRequirements,
    moved: &Map<String, Json>,
) -> Option<String> {
    let point: Params = (trial.params.iter())
        .map(|(name, value)| (name.clone(), value.clone()))
        .chain(trial.fixed_params())
        .collect();
    for (name, value) in &point {
        let fits = match asked.space.find(name) {
            Some((_, parameter)) => !moved.contains_key(name) && parameter.domain.contains(value),
            None => compare::fixed(name, &asked.space.fixed, asked).is_none_or(|f| f == value),
        };
        if !fits {
            return Some(format!(
                "was WAITING; the task cannot take {name} = {value}"
            ));
        }
    }
    let none = !point.is_empty() && point.keys().all(|name| !asked.knows(name));
    none.then(|| {
        let names: Vec<&str> = point.keys().map(String::as_str).collect();
        format!("was WAITING; the task knows none of {}", names.join(", "))
    })
}

/// Takes the keys that the task does not know from an enqueued point.
fn set_unknown_aside(
    trial: &mut FrozenTrial,
    asked: &TaskRequirements,
    moved: &mut Map<String, Json>,
) {
    let Some(Json::Object(fixed)) = trial.system_attrs.get_mut("fixed_params") else {
        return;
    };
    let unknown: Vec<String> = (fixed.keys())
        .filter(|name| !asked.knows(name))
        .cloned()
        .collect();
    for name in unknown {
        if let Some(value) = fixed.shift_remove(&name) {
            moved.insert(name, value);
        }
    }
}

/// What samplers and `best` must not take for good is marked as they know it.
fn mark_violation(trial: &mut FrozenTrial, asked: &TaskRequirements, victim: bool) {
    let impossible = trial
        .value()
        .is_some_and(|v| victim || !worth::possible(asked.range, v));
    if impossible {
        trial.system_attrs.insert(VIOLATION.into(), 1.0.into());
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{asked, choices, float, int, space, trial};
    use super::*;
    use serde_json::json;

    const NOW: &str = "2026-03-01 00:00:00.000000";

    const NOBODY: BTreeSet<u64> = BTreeSet::new();

    const WITH: Arrival = Arrival {
        now: NOW,
        alive: false,
        victims: &NOBODY,
    };

    fn point(more: &[(&str, Value)]) -> FrozenTrial {
        let mut params = vec![
            ("lr", Value::Float(0.5)),
            ("layers", Value::Int(3)),
            ("name", "adam".into()),
        ];
        params.retain(|(name, _)| !more.iter().any(|(n, _)| n == name));
        params.extend(more.iter().cloned());
        trial(0, TrialState::Complete, Some(0.5), &params)
    }

    #[test]
    fn a_trial_fits_when_the_task_would_have_trained_the_same() {
        let space = space();
        let of = |t: &FrozenTrial| obstacles(t, &asked(&space));
        assert_eq!(of(&point(&[])), []);
        assert_eq!(of(&point(&[("head", Value::Int(3))])), []);
        // Momentum means nothing beside adam, and is needed beside sgd.
        assert_eq!(of(&point(&[("momentum", Value::Float(7.0))])), []);
        assert_eq!(
            of(&point(&[("name", "sgd".into())])),
            [Obstacle::Missing("momentum".into())]
        );
        assert_eq!(
            of(&point(&[("lr", Value::Float(1.5))])),
            [Obstacle::Outside("lr".into())]
        );
        assert_eq!(
            of(&point(&[("name", "rmsprop".into())])),
            [Obstacle::Outside("name".into())]
        );
        assert_eq!(of(&point(&[("width", Value::Float(64.0))])), []);
        assert_eq!(
            of(&point(&[("width", Value::Int(128))])),
            [Obstacle::FixedOtherwise("width".into())]
        );
    }

    #[test]
    fn a_declared_constraint_is_an_obstacle() {
        let mut space = space();
        space.constraints.push(search::space::Constraint {
            expr: "layers * width <= 128".parse().unwrap(),
            when: vec![],
        });
        let found = obstacles(&point(&[]), &asked(&space));
        assert_eq!(
            found,
            [Obstacle::Violates("layers * width <= 128".to_owned())]
        );
        let fit = fit(
            &[point(&[]), point(&[("layers", Value::Int(1))])],
            &asked(&space),
            &NOBODY,
        );
        assert_eq!((fit.finished, fit.history), (2, 1));
    }

    #[test]
    fn values_are_stored_so_that_optuna_finds_one_kind_of_distribution_a_name() {
        let space = space();
        let mut drawn = point(&[
            ("layers", Value::Float(4.0)),
            ("lr", Value::Float(1.5)),
            ("head", Value::Int(2)),
        ]);
        let other = choices(&["rmsprop", "adam"]);
        drawn.distributions.insert("name".into(), other);
        drawn.distributions.insert("lr".into(), float(0.0, 2.0));
        let out = adopted(&drawn, &asked(&space), &WITH);
        // Another order of choices: the index changes with the list.
        assert_eq!(out.distributions["name"], choices(&["adam", "sgd"]));
        assert_eq!(out.params["name"], "adam".into());
        // Beyond the task's bounds, with its own.
        assert_eq!(out.distributions["lr"], float(0.0, 2.0));
        // A float where the task has integers.
        assert_eq!(out.distributions["layers"], int(1, 8));
        assert!(matches!(out.params["layers"], Value::Int(4)));
        assert_eq!(out.user_attrs[PARAMS], json!({"head": 2}));
        assert_eq!(out.params.len(), 3);

        let odd = point(&[
            ("layers", Value::Float(2.5)),
            ("name", "rmsprop".into()),
            ("momentum", Value::Float(0.9)),
        ]);
        let out = adopted(&odd, &asked(&space), &WITH);
        assert_eq!(
            out.user_attrs[PARAMS],
            json!({"layers": 2.5, "momentum": 0.9, "name": "rmsprop"})
        );
        assert_eq!(out.params.keys().collect::<Vec<_>>(), ["lr"]);
    }

    #[test]
    fn another_scale_is_another_kind() {
        let space = space();
        let log = Domain::Float {
            low: 1e-3,
            high: 10.0,
            log: true,
            step: None,
        };
        let mut drawn = point(&[]);
        drawn.distributions.insert("lr".into(), log.clone());
        let out = adopted(&drawn, &asked(&space), &WITH);
        assert_eq!(out.distributions["lr"], float(0.0, 1.0));
        drawn.params.insert("lr".into(), Value::Float(5.0));
        let out = adopted(&drawn, &asked(&space), &WITH);
        assert_eq!(out.user_attrs[PARAMS], json!({"lr": 5.0}));
    }

    #[test]
    fn a_trial_that_was_trained_otherwise_teaches_nothing() {
        let space = space();
        let otherwise = point(&[("width", Value::Int(128))]);
        let out = adopted(&otherwise, &asked(&space), &WITH);
        assert!(out.params.is_empty() && out.distributions.is_empty());
        assert_eq!(out.user_attrs[PARAMS]["lr"], json!(0.5));
        assert_eq!(out.values, [0.5]);
    }

    #[test]
    fn nothing_is_held_against_the_point_of_a_trial_that_never_really_ran() {
        let space = space();
        let victims = BTreeSet::from([0]);
        let with = Arrival {
            victims: &victims,
            ..WITH
        };
        let out = adopted(&point(&[]), &asked(&space), &with);
        assert!(out.params.is_empty());
        assert_eq!(
            (out.state, out.values.clone()),
            (TrialState::Complete, vec![0.5])
        );
        // What a caught error has made of its value is not the best of anything.
        assert_eq!(out.system_attrs[VIOLATION], json!(1.0));
        let fit = fit(&[point(&[])], &asked(&space), &victims);
        assert_eq!(fit.obstacles, [(Obstacle::NeverRan, 1)]);
    }

    #[test]
    fn a_zombie_fails_and_says_so() {
        let space = space();
        let mut zombie = point(&[]);
        (zombie.state, zombie.values) = (TrialState::Running, vec![]);
        let out = adopted(&zombie, &asked(&space), &WITH);
        assert_eq!(out.state, TrialState::Fail);
        assert_eq!(out.user_attrs[STATE], json!("RUNNING"));
        assert_eq!(out.datetime_complete.as_deref(), Some(NOW));
        assert_eq!(out.datetime_start, zombie.datetime_start);
        let out = adopted(
            &zombie,
            &asked(&space),
            &Arrival {
                alive: true,
                ..WITH
            },
        );
        let note = out.user_attrs[NOTE].as_str().unwrap();
        assert!(note.contains("went on with it elsewhere"), "{note}");
    }

    #[test]
    fn enqueued_points_stay_work_to_do_where_the_task_can_take_them() {
        let space = space();
        let waiting = |fixed: Json| {
            let mut t = trial(0, TrialState::Waiting, None, &[]);
            t.datetime_start = None;
            t.system_attrs.insert("fixed_params".into(), fixed);
            adopted(&t, &asked(&space), &WITH)
        };
        let good = waiting(json!({"lr": 0.2, "momentum": 0.5, "width": 64}));
        assert_eq!(good.state, TrialState::Waiting);
        assert_eq!(good.datetime_start, None);
        // What the task does not know is set aside where the rest can be run.
        let odd = waiting(json!({"lr": 0.2, "head.dropout": 0.1}));
        assert_eq!(odd.state, TrialState::Waiting);
        assert_eq!(odd.fixed_params().keys().collect::<Vec<_>>(), ["lr"]);
        assert_eq!(odd.user_attrs[PARAMS], json!({"head.dropout": 0.1}));
        for bad in [
            json!({"lr": 2, "head.dropout": 0.1}),
            json!({"lr": 2}),
            json!({"name": "rmsprop"}),
            json!({"width": 1}),
            json!({"x": 1}),
        ] {
            let out = waiting(bad);
            assert_eq!(out.state, TrialState::Fail);
            assert!(out.datetime_start.is_some() && out.datetime_complete.is_some());
        }
        // What Optuna enqueues again after a failure carries its parameters.
        let mut again = point(&[("name", "sgd".into()), ("momentum", Value::Float(0.5))]);
        (again.state, again.values) = (TrialState::Waiting, vec![]);
        let out = adopted(&again, &asked(&space), &WITH);
        assert_eq!((out.state, out.params.len()), (TrialState::Waiting, 4));
        let mut odd = point(&[("head", Value::Int(3))]);
        (odd.state, odd.values) = (TrialState::Waiting, vec![]);
        let out = adopted(&odd, &asked(&space), &WITH);
        assert_eq!((out.state, out.params.len()), (TrialState::Waiting, 3));
        assert_eq!(out.user_attrs[PARAMS], json!({"head": 3}));
    }

    #[test]
    fn impossible_values_are_marked_and_constraints_stay_as_they_are() {
        let space = space();
        let mut impossible = point(&[]);
        impossible.values = vec![1.7];
        let out = adopted(&impossible, &asked(&space), &WITH);
        assert_eq!(out.values, [1.7]);
        assert_eq!(out.system_attrs[VIOLATION], json!(1.0));
        let mut old = point(&[]);
        old.system_attrs
            .insert("constraints".into(), json!([-1.0, -0.5]));
        let out = adopted(&old, &asked(&space), &WITH);
        assert_eq!(out.system_attrs, old.system_attrs);
        let out = adopted(&point(&[]), &asked(&space), &WITH);
        assert!(out.system_attrs.is_empty());
    }
}
