//! How good samplers are on functions whose best points are known: counted trials, no time.

use super::conformance::by_kind;
use super::testing::{self, float, parameter, trial};
use super::{Ask, Sampler};
use crate::space::{Params, Space, Value};
use crate::study::{Direction, History, TrialState};

type Objective = fn(&Params) -> f64;

/// The best value after `budget` trials.
fn optimise(sampler: &mut dyn Sampler, space: &Space, f: Objective, budget: u64, seed: u64) -> f64 {
    let mut history = History::new(vec![Direction::Minimize]);
    for number in 0..budget {
        let ask = Ask {
            space,
            history: &history,
            number,
            seed,
        };
        let point = sampler.suggest(&ask).unwrap();
        let value = f(&point);
        history.put(
            space,
            &trial(number, TrialState::Complete, point, Some(value)),
        );
    }
    history.best().unwrap().value().unwrap()
}

fn number(point: &Params, name: &str) -> f64 {
    point[name].as_f64().unwrap()
}

fn sphere(point: &Params) -> f64 {
    point
        .values()
        .map(|v| (v.as_f64().unwrap() - 1.0).powi(2))
        .sum()
}

fn mixed(point: &Params) -> f64 {
    let lr = (number(point, "lr").ln() - 1e-3_f64.ln()).powi(2) / 10.0;
    let width = (number(point, "width") / 1024.0 - 0.5).powi(2) * 4.0;
    let choice = if point["choice"] == Value::from("relu") {
        0.0
    } else {
        1.0
    };
    lr + width + choice + (number(point, "dropout") - 0.2).powi(2) * 5.0
}

fn conditional(point: &Params) -> f64 {
    let lr = (number(point, "lr").ln() - 3e-3_f64.ln()).powi(2) / 10.0;
    let branch = match point.get("depth") {
        Some(depth) => (depth.as_f64().unwrap() - 4.0).abs() / 8.0,
        None => 1.0,
    };
    let rate = point
        .get("rate")
        .map_or(0.5, |r| (r.as_f64().unwrap() - 0.7).abs());
    lr + branch + rate
}

/// A limit to memory that hardly a fifth of the mixed space keeps to; the best points are near it.
fn memory(point: &Params) -> f64 {
    let layers = number(point, "width") * (1.0 + number(point, "layers"));
    number(point, "batch") * layers / 4_000.0
}

/// The number of points beyond the limit, the longest run of them, and the best value of the rest.
fn limited(sampler: &mut dyn Sampler, budget: u64, seed: u64) -> (u64, u64, f64) {
    let space = testing::mixed_space();
    let mut history = History::new(vec![Direction::Minimize]);
    let (mut wasted, mut streak, mut longest) = (0, 0, 0);
    for trial_number in 0..budget {
        let ask = Ask {
            space: &space,
            history: &history,
            number: trial_number,
            seed,
        };
        let point = sampler.suggest(&ask).unwrap();
        let told = if memory(&point) > 1.0 {
            (wasted, streak) = (wasted + 1, streak + 1);
            longest = longest.max(streak);
            trial(trial_number, TrialState::Fail, point, None)
        } else {
            streak = 0;
            let value = mixed(&point) - number(&point, "layers") / 8.0;
            trial(trial_number, TrialState::Complete, point, Some(value))
        };
        history.put(&space, &told);
    }
    (wasted, longest, history.best().unwrap().value().unwrap())
}

#[test]
fn trials_that_run_side_by_side_are_spread_apart() {
    let names = ["a", "b", "c"];
    let space = Space {
        parameters: names.map(|n| parameter(n, float(0.0, 1.0))).to_vec(),
        ..Space::default()
    };
    let bowl = |p: &Params| {
        p.values()
            .map(|v| (v.as_f64().unwrap() - 0.3).powi(2))
            .sum()
    };
    for kind in ["gp", "auto", "tpe"] {
        for seed in 0..3 {
            let mut history = testing::random_history(&space, 0, 0);
            for entry in testing::random_history(&space, 40, seed).entries() {
                let params = entry.params.clone();
                let value: f64 = bowl(&params);
                let told = trial(entry.number, TrialState::Complete, params, Some(value));
                history.put(&space, &told);
            }
            let mut sampler = by_kind(kind);
            let mut points: Vec<Params> = Vec::new();
            for number in 40..48 {
                let ask = Ask {
                    space: &space,
                    history: &history,
                    number,
                    seed,
                };
                let point = sampler.suggest(&ask).unwrap();
                points.push(point.clone());
                let running = trial(number, TrialState::Running, point, None);
                history.put(&space, &running);
            }
            let apart = |a: &Params, b: &Params| {
                let square = |n: &&str| (number(a, n) - number(b, n)).powi(2);
                names.iter().map(square).sum::<f64>().sqrt()
            };
            let pairs = (0..8).flat_map(|i| (0..i).map(move |j| (i, j)));
            let least = pairs.map(|(i, j)| apart(&points[i], &points[j]));
            let least = least.fold(f64::INFINITY, f64::min);
            assert!(least > 0.01, "{kind} {seed}: {least}");
        }
    }
}

#[test]
fn failed_trials_teach_where_a_space_cannot_be_run() {
    failed_trials_teach(3);
}

#[test]
#[ignore = "slow"]
fn failed_trials_of_many_studies_teach_where_a_space_cannot_be_run() {
    failed_trials_teach(10);
}

fn failed_trials_teach(seeds: u64) {
    let runs = |kind: &str| -> Vec<(u64, u64, f64)> {
        let run = |seed| limited(&mut *by_kind(kind), 60, seed);
        (0..seeds).map(run).collect()
    };
    let sum = |runs: &[(u64, u64, f64)]| runs.iter().map(|r| r.0).sum::<u64>() as f64;
    let share = |runs: &[(u64, u64, f64)]| sum(runs) / (60 * seeds) as f64;
    let value = |runs: &[(u64, u64, f64)]| runs.iter().map(|r| r.2).sum::<f64>() / seeds as f64;
    let random = runs("random");
    assert!(share(&random) > 0.7, "{random:?}");
    for kind in ["gp", "auto"] {
        let taught = runs(kind);
        assert!(share(&taught) < 0.22, "{kind} {taught:?}");
        let streaks = taught.iter().map(|r| r.1).sum::<u64>();
        assert!(10 * streaks <= 28 * seeds, "{kind} {taught:?}");
        let bounded = |r: &(u64, u64, f64)| r.0 <= 16 && r.1 <= 4;
        assert!(taught.iter().all(bounded), "{kind} {taught:?}");
        assert!(
            value(&taught) < value(&random),
            "{kind} {taught:?} {random:?}"
        );
    }
}

#[test]
fn the_gaussian_process_needs_fewer_trials_than_tpe() {
    gaussian_process_beside_tpe(2);
}

#[test]
#[ignore = "slow"]
fn the_gaussian_process_needs_fewer_trials_than_tpe_in_many_studies() {
    gaussian_process_beside_tpe(5);
}

fn gaussian_process_beside_tpe(seeds: u64) {
    let names = ["a", "b", "c", "d", "e"];
    let ball = Space {
        parameters: names.map(|n| parameter(n, float(-5.0, 5.0))).to_vec(),
        ..Space::default()
    };
    let problems: [(&Space, Objective); 3] = [
        (&ball, sphere),
        (&testing::mixed_space(), mixed),
        (&testing::conditional_space(), conditional),
    ];
    for (i, (space, f)) in problems.into_iter().enumerate() {
        let mean = |kind: &str| {
            let runs = (0..seeds).map(|seed| optimise(&mut *by_kind(kind), space, f, 40, seed));
            runs.sum::<f64>() / seeds as f64
        };
        let tpe = mean("tpe");
        for kind in ["gp", "auto"] {
            let value = mean(kind);
            assert!(value < 0.7 * tpe, "problem {i}: {kind} {value}, tpe {tpe}");
        }
    }
}

#[test]
fn tpe_beats_random_on_classical_functions() {
    let names = ["a", "b", "c", "d", "e"];
    let ball = Space {
        parameters: names.map(|n| parameter(n, float(-5.0, 5.0))).to_vec(),
        ..Space::default()
    };
    let problems: [(&Space, Objective, f64); 3] = [
        (&ball, sphere, 0.4),
        (&testing::mixed_space(), mixed, 0.6),
        (&testing::conditional_space(), conditional, 0.6),
    ];
    for (i, (space, f, share)) in problems.into_iter().enumerate() {
        let mean = |kind: &str| {
            let runs = (0..20).map(|seed| optimise(&mut *by_kind(kind), space, f, 100, seed));
            runs.sum::<f64>() / 20.0
        };
        let (tpe, random) = (mean("tpe"), mean("random"));
        println!("problem {i}: tpe {tpe:.4}, random {random:.4}");
        assert!(tpe < share * random, "problem {i}: {tpe} {random}");
    }
}
