//! Studies in which a search can lose a night: regions that look best until they break, choices
//! that cannot be combined, bounds that were moved, constraints that leave little.

use super::testing::{categorical, float, log_float, parameter, trial};
use super::{Ask, Sampler, sampler};
use crate::sampler::SamplerSpec;
use crate::space::{Constraint, Params, Space};
use crate::study::{Direction, FrozenTrial, History, TrialState};

fn by_kind(kind: &str) -> Box<dyn Sampler> {
    let spec = SamplerSpec {
        kind: kind.to_owned(),
        options: Params::new(),
    };
    sampler(&spec).unwrap()
}

fn number(params: &Params, name: &str) -> f64 {
    params[name].as_f64().unwrap()
}

/// Goes on with a study; `run` says what becomes of a point.
fn go_on(
    kind: &str,
    space: &Space,
    history: &mut History,
    (trials, seed): (u64, u64),
    run: impl Fn(u64, Params) -> FrozenTrial,
) {
    let mut sampler = by_kind(kind);
    let first = history.entries().len() as u64;
    for number in first..first + trials {
        let ask = Ask {
            space,
            history,
            number,
            seed,
        };
        let point = sampler.suggest(&ask).expect("a point");
        assert!(space.holds(&point), "{kind} {point:?}");
        history.put(space, &run(number, point));
    }
}

fn searched(
    kind: &str,
    space: &Space,
    size: (u64, u64),
    run: impl Fn(u64, Params) -> FrozenTrial,
) -> History {
    let mut history = History::new(vec![Direction::Minimize]);
    go_on(kind, space, &mut history, size, run);
    history
}

fn count(history: &History, state: TrialState) -> usize {
    let entries = history.entries().iter();
    entries.filter(|e| e.state == state).count()
}

fn best(history: &History) -> f64 {
    history
        .best()
        .and_then(|e| e.value())
        .unwrap_or(f64::INFINITY)
}

/// The larger the rate the faster the loss falls, until from 0.03 on it becomes NaN.
fn diverging(trial_number: u64, params: Params) -> FrozenTrial {
    let distance = (number(&params, "lr").log10() + 2.0).powi(2) + number(&params, "wd").powi(2);
    let diverges = number(&params, "lr") > 0.03;
    let mut told = trial(trial_number, TrialState::Complete, params, Some(distance));
    for step in 1..=3 {
        let reported = if diverges { -10.0 } else { distance };
        told.intermediate.insert(step, reported);
    }
    if diverges {
        told.state = TrialState::Pruned;
        told.values = vec![-10.0];
        told.user_attrs.insert("diverged".into(), true.into());
    }
    told
}

#[test]
fn what_falls_fastest_before_it_diverges_is_left_alone() {
    let space = Space {
        parameters: vec![
            parameter("lr", log_float(1e-5, 1.0)),
            parameter("wd", float(0.0, 1.0)),
        ],
        ..Space::default()
    };
    for kind in ["auto", "gp"] {
        for seed in 0..3 {
            let history = searched(kind, &space, (40, seed), diverging);
            let diverged = count(&history, TrialState::Pruned);
            assert!(diverged <= 12, "{kind} {seed}: {diverged}");
            assert!(best(&history) < 1e-3, "{kind} {seed}: {}", best(&history));
        }
    }
}

/// Of 16 combinations of two choices two can be run; the better one resembles the other in nothing.
fn rarely_combined(trial_number: u64, params: Params) -> FrozenTrial {
    let at = |name: &str| params[name].as_str().unwrap();
    let loss = match (at("a"), at("b")) {
        ("r", "s") => (number(&params, "x") - 0.7).powi(2),
        ("s", "q") => 0.3 + (number(&params, "x") - 0.7).powi(2),
        _ => return trial(trial_number, TrialState::Fail, params, None),
    };
    trial(trial_number, TrialState::Complete, params, Some(loss))
}

#[test]
fn choices_that_can_rarely_be_combined_are_all_tried() {
    rarely_combined_choices(2);
}

#[test]
#[ignore = "slow"]
fn choices_that_can_rarely_be_combined_are_all_tried_in_many_studies() {
    rarely_combined_choices(5);
}

fn rarely_combined_choices(seeds: u64) {
    let choices = categorical(&["p", "q", "r", "s"].map(Into::into));
    let space = Space {
        parameters: vec![
            parameter("a", choices.clone()),
            parameter("b", choices),
            parameter("x", float(0.0, 1.0)),
        ],
        ..Space::default()
    };
    for seed in 0..seeds {
        let found = best(&searched("auto", &space, (120, seed), rarely_combined));
        assert!(found < 0.1, "{seed}: {found}");
    }
}

#[test]
fn what_lies_outside_the_bounds_of_today_is_no_value_to_beat() {
    let line = |low: f64, high: f64| Space {
        parameters: vec![
            parameter("x", float(low, high)),
            parameter("y", float(-10.0, 10.0)),
        ],
        ..Space::default()
    };
    let bowl = |trial_number: u64, params: Params| {
        let loss = (number(&params, "x") - 5.0).powi(2) + (number(&params, "y") - 2.0).powi(2);
        trial(trial_number, TrialState::Complete, params, Some(loss))
    };
    for seed in 0..3 {
        let history = searched("gp", &line(-10.0, 10.0), (40, seed), bowl);
        let (mut narrow, today) = (History::new(vec![Direction::Minimize]), line(-10.0, 0.0));
        for entry in history.entries() {
            let value = entry.value();
            let told = trial(entry.number, entry.state, entry.params.clone(), value);
            narrow.put(&today, &told);
        }
        go_on("gp", &today, &mut narrow, (20, seed), bowl);
        let since = narrow.entries()[40..].iter().filter_map(|e| e.value());
        let found = since.fold(f64::INFINITY, f64::min);
        assert!(found < 25.5, "{seed}: {found}");
    }
}

#[test]
fn constraints_that_leave_one_point_in_thousands_stop_no_sampler() {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let ordered = names.windows(2).map(|pair| Constraint {
        expr: format!("{} <= {}", pair[0], pair[1]).parse().unwrap(),
        when: vec![],
    });
    let space = Space {
        parameters: names.map(|n| parameter(n, float(0.0, 1.0))).to_vec(),
        constraints: ordered.collect(),
        ..Space::default()
    };
    let sum = |trial_number: u64, params: Params| {
        let loss = params.values().filter_map(|v| v.as_f64()).sum();
        trial(trial_number, TrialState::Complete, params, Some(loss))
    };
    for kind in ["random", "sobol", "tpe", "gp", "auto", "nsga2"] {
        for seed in 0..2 {
            let history = searched(kind, &space, (24, seed), sum);
            assert_eq!(history.entries().len(), 24, "{kind}");
        }
    }
}

#[test]
fn with_several_objectives_failures_teach_as_well() {
    let names = ["a", "b", "c"];
    let space = Space {
        parameters: names.map(|n| parameter(n, float(0.0, 1.0))).to_vec(),
        ..Space::default()
    };
    let run = |trial_number: u64, params: Params| {
        let (a, b, c) = (
            number(&params, "a"),
            number(&params, "b"),
            number(&params, "c"),
        );
        // 77 % of the space.
        if a * b > 0.06 {
            return trial(trial_number, TrialState::Fail, params, None);
        }
        let mut told = trial(trial_number, TrialState::Complete, params, None);
        told.values = vec![(1.0 - a) * (1.0 - b) + c * c, a + b + c];
        told
    };
    let failed = |kind: &str| -> usize {
        let one = |seed| {
            let mut history = History::new(vec![Direction::Minimize; 2]);
            go_on(kind, &space, &mut history, (60, seed), run);
            count(&history, TrialState::Fail)
        };
        (0..3).map(one).sum()
    };
    let (taught, random) = (failed("nsga2"), failed("random"));
    assert!(random > 110, "{random}");
    assert!(taught < 45, "{taught}");
}
