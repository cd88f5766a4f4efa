//! Which trials fit which space.

use super::*;
use crate::space::{Condition, Constraint, Domain, HighWhen, Parameter};

fn words(choices: &[&str]) -> Domain {
    Domain::Categorical {
        choices: choices.iter().map(|c| Value::from(*c)).collect(),
    }
}

fn float(low: f64, high: f64) -> Domain {
    Domain::Float {
        low,
        high,
        log: true,
        step: None,
    }
}

fn is(parent: &str, value: &str) -> Condition {
    Condition {
        parent: parent.into(),
        values: vec![value.into()],
    }
}

fn params(entries: &[(&str, Value)]) -> Params {
    let owned = entries.iter().map(|(k, v)| ((*k).to_owned(), v.clone()));
    owned.collect()
}

/// A model, a learning rate, and a momentum where the optimiser is sgd; epochs are fixed.
fn space(models: &[&str], high: f64) -> Space {
    let mut momentum = Parameter::new("momentum", float(0.1, 0.9));
    momentum.when = vec![is("optim", "sgd")];
    Space {
        parameters: vec![
            Parameter::new("model", words(models)),
            Parameter::new("optim", words(&["adam", "sgd"])),
            Parameter::new("lr", float(1e-5, high)),
            momentum,
        ],
        constraints: vec![],
        fixed: params(&[("epochs", Value::Int(4))]),
    }
}

fn presets() -> Params {
    params(&[("momentum", 0.5.into()), ("dropout", 0.1.into())])
}

fn adam(model: &str, lr: f64) -> Params {
    params(&[
        ("model", model.into()),
        ("optim", "adam".into()),
        ("lr", lr.into()),
    ])
}

fn sgd(model: &str, momentum: f64) -> Params {
    let mut point = adam(model, 0.01);
    point.insert("optim".into(), "sgd".into());
    point.insert("momentum".into(), momentum.into());
    point
}

fn trial(number: u64, params: Params, value: f64) -> FrozenTrial {
    FrozenTrial {
        trial_id: number as i64 + 100,
        distributions: space(&["a", "b"], 0.1).distributions(&params),
        values: vec![value],
        intermediate: [(1, value)].into(),
        user_attrs: [("seed".to_owned(), 7.into())].into_iter().collect(),
        datetime_start: Some("2026-01-01 00:00:00.000000".into()),
        ..FrozenTrial::new(number, TrialState::Complete, params)
    }
}

fn ended(mut trial: FrozenTrial, state: TrialState) -> FrozenTrial {
    trial.state = state;
    trial
}

fn source<'a>(study: &'a str, space: &'a Space, trials: &'a [FrozenTrial]) -> Source<'a> {
    Source {
        study,
        space: Some(space),
        comparable: true,
        claimed: 0,
        directions: &[Direction::Minimize],
        trials,
    }
}

fn carry_to(
    old: &Space,
    trials: &[FrozenTrial],
    new: &Space,
    first: &[Params],
) -> (Vec<FrozenTrial>, Carried) {
    let target = Target {
        space: new,
        presets: &presets(),
        first,
    };
    carry(&[source("old", old, trials)], &target)
}

/// The reason for which a trial with these parameters is left out; empty where it fits.
fn reason(old: &Space, point: Params, new: &Space) -> String {
    let (_, carried) = carry_to(old, &[trial(0, point, 1.0)], new, &[]);
    match &carried.left_out[..] {
        [] => String::new(),
        [only] => format!("{}: {}", only.key, only.why),
        several => panic!("{several:?}"),
    }
}

#[test]
fn a_trial_that_fits_comes_with_everything_and_says_whence() {
    let (old, new) = (space(&["a", "b"], 0.1), space(&["c", "b"], 0.05));
    let mut there = trial(3, adam("b", 0.01), 0.25);
    there.system_attrs = [
        ("constraints:gpu_memory".to_owned(), Json::from(-1.0)),
        ("fixed_params".to_owned(), json!({"lr": 0.01})),
    ]
    .into_iter()
    .collect();
    let (trials, carried) = carry_to(&old, std::slice::from_ref(&there), &new, &[]);
    assert_eq!((carried.copied, carried.left_out.len()), (1, 0));
    let here = &trials[0];
    assert_eq!((here.number, here.state), (0, TrialState::Complete));
    assert_eq!((&here.params, &here.values), (&there.params, &there.values));
    assert_eq!(here.intermediate, there.intermediate);
    assert_eq!(here.datetime_start, there.datetime_start);
    assert_eq!(here.user_attrs["seed"], json!(7));
    let from = json!({"study": "old", "number": 3});
    assert_eq!(here.user_attrs[COPIED_FROM], from);
    assert_eq!(here.distributions["model"], words(&["c", "b"]));
    assert_eq!(here.distributions["lr"], float(1e-5, 0.05));
    let kept: Vec<&String> = here.system_attrs.keys().collect();
    assert_eq!(kept, ["constraints:gpu_memory"]);
}

#[test]
fn what_does_not_fit_is_counted_by_parameter_and_reason() {
    let (old, new) = (space(&["a", "b"], 0.1), space(&["a"], 0.02));
    let trials = [
        trial(0, adam("b", 0.01), 1.0),
        trial(1, adam("b", 0.05), 1.0),
        trial(2, adam("a", 0.05), 1.0),
        trial(3, adam("a", 0.01), 1.0),
        ended(trial(4, adam("a", 0.01), 1.0), TrialState::Fail),
        ended(trial(5, adam("a", 0.01), 1.0), TrialState::Running),
        ended(trial(6, adam("a", 0.02), 1.0), TrialState::Pruned),
    ];
    let (copied, carried) = carry_to(&old, &trials, &new, &[]);
    assert_eq!(copied.len(), 2);
    assert_eq!((carried.copied, carried.without_result), (2, 2));
    let told: Vec<String> = carried
        .left_out
        .iter()
        .map(|l| format!("{} {}: {}", l.trials, l.key, l.why))
        .collect();
    assert_eq!(
        told,
        [
            "2 model: b is no choice now",
            "1 lr: outside 1e-5..0.02 log"
        ]
    );
}

#[test]
fn a_refused_trial_was_never_trained_and_stays_behind() {
    let old = space(&["a"], 0.1);
    let mut refused = ended(trial(0, adam("a", 0.01), 1.0), TrialState::Pruned);
    refused.user_attrs.insert("infeasible".into(), true.into());
    let (trials, carried) = carry_to(&old, &[refused], &old, &[]);
    assert!(trials.is_empty());
    assert_eq!(carried.without_result, 1);
}

#[test]
fn a_parameter_that_is_fixed_now_must_have_had_that_value() {
    let old = space(&["a"], 0.1);
    let mut new = space(&["a"], 0.1);
    new.parameters.retain(|p| p.name != "lr");
    new.fixed.insert("lr".into(), 0.01.into());
    assert_eq!(reason(&old, adam("a", 0.01), &new), "");
    assert_eq!(reason(&old, adam("a", 0.02), &new), "lr: fixed at 0.01 now");
    new.fixed.remove("lr");
    let gone = "lr: not a parameter any more";
    assert_eq!(reason(&old, adam("a", 0.02), &new), gone);
}

#[test]
fn a_parameter_that_was_fixed_takes_the_value_it_had() {
    let mut old = space(&["a"], 0.1);
    old.fixed.insert("batch".into(), Value::Int(16));
    let mut new = space(&["a"], 0.1);
    let batch = |high| Domain::Int {
        low: 8,
        high,
        log: false,
        step: 8,
    };
    new.parameters.push(Parameter::new("batch", batch(64)));
    let (trials, _) = carry_to(&old, &[trial(0, adam("a", 0.01), 1.0)], &new, &[]);
    assert_eq!(trials[0].params["batch"], Value::Int(16));
    assert_eq!(trials[0].distributions["batch"], batch(64));
    new.parameters.pop();
    new.parameters.push(Parameter::new("batch", batch(8)));
    let reason = reason(&old, adam("a", 0.01), &new);
    assert_eq!(reason, "batch: outside 8..8 step 8");
}

#[test]
fn a_parameter_nobody_recorded_a_value_of_lets_nothing_fit() {
    let old = space(&["a"], 0.1);
    let mut new = space(&["a"], 0.1);
    new.parameters.push(Parameter::new("clip", float(0.1, 1.0)));
    let missing = "clip: the trial has no value for it";
    assert_eq!(reason(&old, adam("a", 0.01), &new), missing);
    let mut point = adam("a", 0.01);
    point.remove("lr");
    let missing = "lr: the trial has no value for it";
    assert_eq!(reason(&old, point, &old), missing);
    let mut point = adam("a", 0.01);
    point.insert("odd".into(), 1.0.into());
    let unknown = "odd: not a parameter of the earlier study";
    assert_eq!(reason(&old, point, &old), unknown);
}

#[test]
fn a_parameter_that_was_not_active_was_trained_with_its_preset() {
    let old = space(&["a"], 0.1);
    let mut always = space(&["a"], 0.1);
    always.parameters[3].when.clear();
    let (trials, _) = carry_to(&old, &[trial(0, adam("a", 0.01), 1.0)], &always, &[]);
    assert_eq!(trials[0].params["momentum"], Value::Float(0.5));
    // And the other way round: only the preset's value is what training would have now.
    let with = |momentum: f64| {
        let mut point = adam("a", 0.01);
        point.insert("momentum".into(), momentum.into());
        reason(&always, point, &old)
    };
    assert_eq!(with(0.5), "");
    let inactive = "momentum: not active beside the others any more";
    assert_eq!(with(0.7), inactive);
}

#[test]
fn conditional_bounds_and_constraints_of_the_new_space_count() {
    let old = space(&["a", "b"], 0.1);
    let mut new = space(&["a", "b"], 0.1);
    new.parameters[2].high_when = vec![HighWhen {
        when: vec![is("model", "b")],
        high: 0.01,
    }];
    assert_eq!(reason(&old, adam("a", 0.05), &new), "");
    let outside = "lr: outside 1e-5..0.01 log";
    assert_eq!(reason(&old, adam("b", 0.05), &new), outside);
    new.constraints.push(Constraint {
        expr: "lr * epochs <= 0.1".parse().unwrap(),
        when: vec![],
    });
    let violated = "constraints: lr * epochs <= 0.1 violated";
    assert_eq!(reason(&old, adam("a", 0.05), &new), violated);
}

#[test]
fn the_first_trials_are_the_points_that_are_tried_first() {
    let old = space(&["a", "b"], 0.1);
    let trials = [
        trial(0, adam("b", 0.01), 1.0),
        trial(1, adam("a", 0.01), 2.0),
    ];
    let first = [adam("a", 0.02), adam("a", 0.01)];
    let (seeded, carried) = carry_to(&old, &trials, &old, &first);
    assert_eq!(carried.copied, 2);
    assert_eq!(seeded[0].state, TrialState::Waiting);
    assert_eq!(seeded[0].fixed_params(), first[0]);
    assert_eq!(
        (seeded[1].value(), seeded[2].value()),
        (Some(2.0), Some(1.0))
    );
    let numbers: Vec<u64> = seeded.iter().map(|t| t.number).collect();
    assert_eq!(numbers, [0, 1, 2]);
    let (nothing, _) = carry_to(&old, &[], &old, &first);
    assert!(nothing.is_empty(), "an empty study begins with them anyway");
}

#[test]
fn a_trial_that_an_earlier_fork_has_copied_is_not_taken_twice() {
    let old = space(&["a", "b"], 0.1);
    let mut copy = trial(0, adam("a", 0.01), 1.0);
    let whence = json!({"study": "s", "number": 4});
    copy.user_attrs.insert(COPIED_FROM.into(), whence);
    let fork = [copy, trial(1, adam("a", 0.02), 2.0)];
    let first = [
        trial(4, adam("a", 0.01), 1.0),
        trial(5, adam("b", 0.01), 3.0),
    ];
    let target = Target {
        space: &old,
        presets: &presets(),
        first: &[],
    };
    let sources = [source("s@2", &old, &fork), source("s", &old, &first)];
    let (trials, carried) = carry(&sources, &target);
    let values: Vec<f64> = trials.iter().filter_map(FrozenTrial::value).collect();
    assert_eq!(values, [1.0, 2.0, 3.0]);
    assert_eq!((carried.copied, carried.left_out.len()), (3, 0));
    let from = |i: usize| origin(&trials[i].user_attrs[COPIED_FROM]).unwrap();
    assert_eq!(from(0), ("s@2".to_owned(), 0));
    assert_eq!(from(2), ("s".to_owned(), 5));
}

fn incomparable<'a>(space: Option<&'a Space>, trials: &'a [FrozenTrial]) -> Source<'a> {
    Source {
        study: "old",
        space,
        comparable: false,
        claimed: 0,
        directions: &[Direction::Maximize],
        trials,
    }
}

#[test]
fn where_values_are_not_comparable_the_best_distinct_points_are_tried_again() {
    let old = space(&["a", "b"], 0.1);
    let mut trials: Vec<FrozenTrial> = (0..20)
        .map(|n| trial(n, adam("a", 1e-3 * (n + 1) as f64), n as f64))
        .collect();
    trials.push(trial(20, adam("a", 0.02), 19.5));
    trials.push(trial(21, adam("b", 0.05), 99.0));
    trials.push(ended(trial(22, adam("a", 0.03), 98.0), TrialState::Pruned));
    let mut infeasible = trial(23, adam("a", 0.04), 97.0);
    let violation = ("constraints:gpu_memory".to_owned(), json!("Infinity"));
    infeasible.system_attrs = [violation].into_iter().collect();
    trials.push(infeasible);
    let target = Target {
        space: &space(&["a"], 0.1),
        presets: &presets(),
        first: &[],
    };
    let (points, carried) = carry(&[incomparable(Some(&old), &trials)], &target);
    assert_eq!((carried.copied, carried.enqueued), (0, 10));
    assert_eq!(carried.left_out[0].why, "b is no choice now");
    assert_eq!(carried.without_result, 2);
    assert!(points.iter().all(|p| p.state == TrialState::Waiting));
    assert!(points.iter().all(|p| p.values.is_empty()));
    assert_eq!(points[0].fixed_params(), adam("a", 0.02));
    assert_eq!(points[1].fixed_params()["lr"], Value::Float(0.019));
    let from = json!({"study": "old", "number": 20});
    assert_eq!(points[0].user_attrs[POINT_FROM], from);
}

#[test]
fn a_point_of_another_program_is_tried_with_what_the_new_study_knows_of_it() {
    let mut point = adam("a", 0.01);
    point.insert("seed".into(), 3.into());
    let theirs = [trial(0, point.clone(), 1.0)];
    let target = Target {
        space: &space(&["a"], 0.1),
        presets: &presets(),
        first: &[],
    };
    let (points, _) = carry(&[incomparable(None, &theirs)], &target);
    assert_eq!(points[0].fixed_params(), adam("a", 0.01));
    point.insert("epochs".into(), Value::Int(9));
    let (points, carried) = carry(&[incomparable(None, &[trial(0, point, 1.0)])], &target);
    assert!(points.is_empty());
    assert_eq!(carried.left_out[0].why, "fixed at 4 now");
    let nothing = [trial(0, params(&[("seed", 3.into())]), 1.0)];
    let (points, _) = carry(&[incomparable(None, &nothing)], &target);
    assert!(points.is_empty());
}

#[test]
fn of_several_objectives_the_front_is_tried_first_and_then_the_next_one() {
    let values = [[1.0, 5.0], [2.0, 4.0], [0.5, 9.0], [3.0, 6.0]];
    let trials: Vec<FrozenTrial> = (0..)
        .zip(values)
        .map(|(n, values)| {
            let mut trial = trial(n, sgd("a", 0.1 * (n + 1) as f64), 0.0);
            trial.values = values.to_vec();
            trial
        })
        .collect();
    let source = Source {
        directions: &[Direction::Maximize, Direction::Minimize],
        ..incomparable(None, &trials)
    };
    let target = Target {
        space: &space(&["a"], 0.1),
        presets: &presets(),
        first: &[],
    };
    let (points, _) = carry(&[source], &target);
    let from = |p: &FrozenTrial| origin(&p.user_attrs[POINT_FROM]).unwrap().1;
    assert_eq!(points.iter().map(from).collect::<Vec<_>>(), [1, 3, 0, 2]);
}

#[test]
fn what_waits_in_the_earlier_study_waits_in_the_new_one() {
    let old = space(&["a", "b"], 0.1);
    let new = space(&["a"], 0.05);
    let queued = |number, entries: &[(&str, Value)], note: &str| {
        let attrs = [("note".to_owned(), Json::from(note))];
        let mut trial = waiting(&params(entries), attrs.into_iter().collect());
        trial.number = number;
        trial
    };
    let trials = [
        trial(0, adam("a", 0.01), 0.5),
        queued(1, &[("lr", 0.02.into()), ("momentum", 0.3.into())], "mine"),
        queued(2, &[("epochs", Value::Int(4)), ("model", "a".into())], ""),
        queued(3, &[("lr", 0.09.into())], ""),
        queued(4, &[("epochs", Value::Int(5))], ""),
        queued(5, &[("optim", "adam".into()), ("momentum", 0.3.into())], ""),
        queued(6, &[("lr", 0.02.into()), ("batch", Value::Int(8))], ""),
    ];
    for comparable in [true, false] {
        let one = Source {
            comparable,
            ..source("old", &old, &trials)
        };
        let target = Target {
            space: &new,
            presets: &presets(),
            first: &[],
        };
        let (carried_over, told) = carry(&[one], &target);
        assert_eq!((told.waiting, told.without_result), (2, 0));
        assert_eq!(told.copied + told.enqueued, 1);
        let first = usize::from(comparable);
        let (mine, other) = (&carried_over[first], &carried_over[first + 1]);
        assert_eq!(
            mine.fixed_params(),
            params(&[("lr", 0.02.into()), ("momentum", 0.3.into())])
        );
        assert_eq!(mine.user_attrs["note"], "mine");
        assert_eq!(
            mine.user_attrs[POINT_FROM],
            json!({"study": "old", "number": 1})
        );
        assert_eq!(other.fixed_params(), params(&[("model", "a".into())]));
        let reasons: Vec<String> = told
            .waiting_left_out
            .iter()
            .map(|l| format!("{} {}: {}", l.trials, l.key, l.why))
            .collect();
        assert_eq!(
            reasons,
            [
                "1 batch: not a parameter any more",
                "1 epochs: fixed at 4 now",
                "1 lr: outside 1e-5..0.05 log",
                "1 momentum: not active beside the others any more",
            ]
        );
    }
}

#[test]
fn a_point_that_a_fork_has_in_its_queue_already_is_not_taken_twice() {
    let space = space(&["a", "b"], 0.1);
    let point = params(&[("lr", 0.02.into())]);
    let mut there = [waiting(&point, Map::new())];
    there[0].number = 3;
    let from = [(POINT_FROM.to_owned(), json!({"study": "s", "number": 3}))];
    let here = [waiting(&point, from.into_iter().collect())];
    let target = Target {
        space: &space,
        presets: &presets(),
        first: &[],
    };
    // The fork has tried it.
    let tried = here.clone().map(|t| ended(t, TrialState::Fail));
    for (here, expected) in [(&here, 1), (&tried, 0)] {
        let sources = [source("s@2", &space, here), source("s", &space, &there)];
        assert_eq!(carry(&sources, &target).1.waiting, expected);
    }
}

#[test]
fn values_that_another_program_has_brought_are_not_copied() {
    let space = space(&["a", "b"], 0.1);
    let trials = [
        trial(0, adam("a", 0.01), 0.5),
        trial(1, adam("a", 0.02), 0.4),
        trial(2, adam("b", 0.03), 0.3),
    ];
    let target = Target {
        space: &space,
        presets: &presets(),
        first: &[],
    };
    let claimed = |claimed| Source {
        claimed,
        ..source("s", &space, &trials)
    };
    let (carried_over, told) = carry(&[claimed(2)], &target);
    assert_eq!((told.copied, told.enqueued), (1, 0));
    assert_eq!(carried_over[0].params, adam("b", 0.03));
    assert_eq!(told.left_out.len(), 1);
    assert_eq!(
        (told.left_out[0].key.as_str(), told.left_out[0].trials),
        ("values", 2)
    );
    // With nothing to copy their points are tried again, the best first.
    let (carried_over, told) = carry(&[claimed(3)], &target);
    assert_eq!((told.copied, told.enqueued, told.left_out.len()), (0, 3, 0));
    assert_eq!(carried_over[0].fixed_params(), adam("b", 0.03));
}

#[test]
fn a_fixed_parent_is_the_reason_and_not_the_child_that_it_leaves_inactive() {
    let old = space(&["a", "b"], 0.1);
    let mut new = old.clone();
    new.parameters.retain(|p| p.name != "optim");
    new.fixed.insert("optim".into(), "adam".into());
    assert_eq!(
        reason(&old, sgd("a", 0.3), &new),
        "optim: fixed at adam now"
    );
}
