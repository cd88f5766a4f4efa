//! Samplers on functions with several objectives, by the hypervolume that they reach: ZDT1 to 3
//! (Zitzler et al., 2000), DTLZ2 (Deb et al., 2002) and a mixed, conditional one.

use super::testing::{categorical, float, int, log_float, parameter, trial, when};
use super::{Ask, sampler};
use crate::sampler::SamplerSpec;
use crate::space::{Params, Space};
use crate::study::{Direction, History, TrialState, pareto};

struct Problem {
    name: &'static str,
    space: Space,
    values: fn(&Params) -> Vec<f64>,
    reference: &'static [f64],
}

fn cube(dimensions: usize) -> Space {
    let names = (0..dimensions).map(|i| format!("x{i}"));
    Space {
        parameters: names.map(|n| parameter(&n, float(0.0, 1.0))).collect(),
        ..Space::default()
    }
}

fn x(point: &Params, name: &str) -> f64 {
    point[name].as_f64().unwrap()
}

/// The first coordinate, and the second objective without its shape.
fn zdt(point: &Params) -> (f64, f64) {
    let n = point.len();
    let rest: f64 = (1..n).map(|i| x(point, &format!("x{i}"))).sum();
    (x(point, "x0"), 1.0 + 9.0 * rest / (n - 1) as f64)
}

fn zdt1(point: &Params) -> Vec<f64> {
    let (f, g) = zdt(point);
    vec![f, g * (1.0 - (f / g).sqrt())]
}

fn zdt2(point: &Params) -> Vec<f64> {
    let (f, g) = zdt(point);
    vec![f, g * (1.0 - (f / g).powi(2))]
}

fn zdt3(point: &Params) -> Vec<f64> {
    let (f, g) = zdt(point);
    let wave = (10.0 * std::f64::consts::PI * f).sin();
    vec![f, g * (1.0 - (f / g).sqrt() - f / g * wave)]
}

fn dtlz2(point: &Params) -> Vec<f64> {
    let at = |i: usize| x(point, &format!("x{i}"));
    let g: f64 = (2..point.len()).map(|i| (at(i) - 0.5).powi(2)).sum();
    let half = std::f64::consts::FRAC_PI_2;
    let (a, b) = (at(0) * half, at(1) * half);
    let shape = [a.cos() * b.cos(), a.cos() * b.sin(), a.sin()];
    shape.map(|s| (1.0 + g) * s).to_vec()
}

/// A model's error and its cost: kind, layers, width, learning rate, momentum of one kind.
fn mixed_space() -> Space {
    let mut momentum = parameter("momentum", float(0.0, 1.0));
    momentum.when = vec![when("optimiser", &["sgd"])];
    Space {
        parameters: vec![
            parameter(
                "optimiser",
                categorical(&["sgd".into(), "adam".into(), "rms".into()]),
            ),
            parameter(
                "model",
                categorical(&["plain".into(), "wide".into(), "deep".into()]),
            ),
            parameter("layers", int(1, 12, false, 1)),
            parameter("width", int(16, 1024, true, 1)),
            parameter("lr", log_float(1e-5, 1.0)),
            parameter("decay", log_float(1e-6, 0.1)),
            momentum,
        ],
        ..Space::default()
    }
}

fn mixed(point: &Params) -> Vec<f64> {
    let model = match point["model"].as_str() {
        Some("plain") => (0.15, 1.0),
        Some("wide") => (0.05, 1.6),
        _ => (0.0, 2.2),
    };
    let optimiser = match point["optimiser"].as_str() {
        Some("sgd") => (x(point, "momentum") - 0.9).powi(2),
        Some("adam") => 0.05,
        _ => 0.1,
    };
    let size = x(point, "layers") * x(point, "width").log2() / 120.0;
    let lr = (x(point, "lr").log10() + 2.5).abs() / 10.0;
    let decay = (x(point, "decay").log10() + 4.0).abs() / 20.0;
    let error = model.0 + optimiser + lr + decay + 0.5 * (1.0 - size).powi(2);
    vec![error, model.1 * size]
}

fn problems() -> [Problem; 5] {
    let two: &[f64] = &[1.1, 7.0];
    let problem = |name, space, values, reference| Problem {
        name,
        space,
        values,
        reference,
    };
    [
        problem("ZDT1", cube(10), zdt1, two),
        problem("ZDT2", cube(10), zdt2, two),
        problem("ZDT3", cube(10), zdt3, two),
        problem("DTLZ2", cube(7), dtlz2, &[1.5, 1.5, 1.5]),
        problem("mixed", mixed_space(), mixed, &[1.5, 2.5]),
    ]
}

/// The hypervolume after `budget` trials.
fn reached(kind: &str, options: Params, problem: &Problem, budget: u64, seed: u64) -> f64 {
    let kind = kind.to_owned();
    let mut sampler = sampler(&SamplerSpec { kind, options }).unwrap();
    let directions = vec![Direction::Minimize; problem.reference.len()];
    let mut history = History::new(directions);
    for number in 0..budget {
        let ask = Ask {
            space: &problem.space,
            history: &history,
            number,
            seed,
        };
        let point = sampler.suggest(&ask).unwrap();
        let values = (problem.values)(&point);
        let mut told = trial(number, TrialState::Complete, point, None);
        told.values = values;
        history.put(&problem.space, &told);
    }
    let values: Vec<Vec<f64>> = history.entries().iter().map(|e| e.values.clone()).collect();
    pareto::hypervolume(&values, problem.reference)
}

fn mean(kind: &str, options: &Params, problem: &Problem, budget: u64, seeds: u64) -> f64 {
    let all = (0..seeds).map(|seed| reached(kind, options.clone(), problem, budget, seed));
    all.sum::<f64>() / seeds as f64
}

#[test]
fn nsga2_and_tpe_reach_more_than_random_on_every_function() {
    let none = Params::new();
    for problem in problems() {
        let random = mean("random", &none, &problem, 120, 3);
        for kind in ["nsga2", "tpe"] {
            let found = mean(kind, &none, &problem, 120, 3);
            assert!(found > random, "{} {kind}: {found} {random}", problem.name);
        }
    }
}

/// The table of docs/search-quality.md, "Several objectives". `TUNE_POPULATIONS` (`12 24 50`) are
/// other populations.
#[test]
#[ignore = "a measurement"]
fn hypervolumes_at_200_evaluations() {
    let sizes = std::env::var("TUNE_POPULATIONS").unwrap_or_default();
    let mut samplers = vec![
        ("random", Params::new()),
        ("tpe", Params::new()),
        ("nsga2", Params::new()),
    ];
    for size in sizes.split_whitespace() {
        let option = (
            "population_size".to_owned(),
            size.parse::<i64>().unwrap().into(),
        );
        samplers.push(("nsga2", [option].into()));
    }
    for problem in problems() {
        for (kind, options) in &samplers {
            let size = options.get("population_size").map(|s| s.to_string());
            let found = mean(kind, options, &problem, 200, 5);
            println!(
                "{} {kind}{} {found:.4}",
                problem.name,
                size.unwrap_or_default()
            );
        }
    }
}
