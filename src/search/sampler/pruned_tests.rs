//! Points that the pruner has ended trials at: no sampler comes back to them while there are others.

use super::testing::{categorical, float, int, log_float, parameter, trial};
use super::{Ask, Sampler, random, sampler};
use crate::pruner::{Horizon, PrunerSpec, pruner};
use crate::sampler::SamplerSpec;
use crate::space::{Domain, Params, Space};
use crate::study::{self, Direction, History, TrialState};
use crate::{Outcome, Study};

const STEPS: u64 = 12;

/// Trials of another program, without reports, that the study begins with.
const ADOPTED: u64 = 40;

fn by_kind(kind: &str) -> Box<dyn Sampler> {
    let spec = SamplerSpec {
        kind: kind.to_owned(),
        options: Params::new(),
    };
    sampler(&spec).unwrap()
}

/// The larger the rate the better, and best of all with `lion`; but there, at the end of the range,
/// trials fall fast and stay where they are.
fn space() -> Space {
    Space {
        parameters: vec![
            parameter("opt", categorical(&["sgd", "adam", "lion"].map(Into::into))),
            parameter("lr", log_float(1e-5, 1e-1)),
            parameter("width", int(16, 512, false, 16)),
            parameter("dropout", float(0.0, 0.5)),
        ],
        ..Space::default()
    }
}

fn curve(params: &Params) -> impl Iterator<Item = f64> {
    let number = |name: &str| params[name].as_f64().unwrap();
    let rate = (number("lr").log10() + 5.0) / 4.0;
    let choice = match params["opt"].as_str() {
        Some("sgd") => 0.6,
        Some("adam") => 0.3,
        _ => 0.0,
    };
    let dropout = 0.1 * (2.0 * number("dropout") - 0.4).powi(2);
    let trend = 1.0 + choice - 0.6 * rate - 0.2 * number("width") / 512.0 + dropout;
    let corner = choice == 0.0 && rate > 0.9;
    let (level, speed) = match corner {
        true => (trend + 0.25, 1.5),
        false => (trend, 0.12),
    };
    (1..=STEPS).map(move |step| level + (2.3 - level) * (-speed * step as f64).exp())
}

/// Whether two points are within a hundredth of each number's range, on its own scale.
fn within_one_percent(space: &Space, a: &Params, b: &Params) -> bool {
    let (a, b) = (space.encode(a), space.encode(b));
    let parameters = space.parameters.iter().zip(a.iter().zip(&b));
    parameters
        .map(|(parameter, codes)| (&parameter.domain, codes))
        .all(|(domain, (a, b))| match domain {
            Domain::Categorical { .. } => a == b,
            Domain::Float { .. } | Domain::Int { .. } => {
                (domain.to_unit(*a) - domain.to_unit(*b)).abs() <= 0.01
            }
        })
}

fn study(sampler: &str, pruned_by: &str, seed: u64) -> Study {
    let horizon = Horizon {
        max_step: Some(STEPS),
        study: "study".into(),
    };
    let spec = PrunerSpec {
        kind: pruned_by.into(),
        options: Params::new(),
    };
    let adopted = |number| {
        let point = random::draw(&space(), &mut study::rng(seed, number, "adopted")).unwrap();
        let value = curve(&point).last();
        trial(number, TrialState::Complete, point, value)
    };
    let mut study = Study::new(space(), vec![Direction::Minimize])
        .with_seed(seed)
        .with_sampler(by_kind(sampler))
        .with_pruner(pruner(&spec, &horizon).unwrap());
    study.merge((0..ADOPTED).map(adopted).collect(), vec![]);
    study
}

/// Of so many new trials those whose points lie beside one that was pruned before and is not the
/// best one; and how many were pruned.
fn repeated(study: &mut Study, trials: usize) -> (usize, usize) {
    let mut pruned: Vec<Params> = Vec::new();
    let mut repeated = 0;
    for _ in 0..trials {
        let best = study.best().unwrap().params.clone();
        let (number, point) = study.ask().unwrap();
        let near = |a: &Params, b: &Params| within_one_percent(&space(), a, b);
        let beside = |p: &&Params| near(p, &point) && !near(p, &best);
        repeated += usize::from(pruned.iter().any(|p| beside(&p)));
        let values: Vec<f64> = curve(&point).collect();
        let ended = (1..)
            .zip(&values)
            .find(|(step, value)| study.report(number, *step, **value).unwrap());
        let outcome = match ended {
            Some((_, value)) => {
                pruned.push(point);
                Outcome::Pruned(Some(*value))
            }
            None => Outcome::Complete(values.last().copied().into_iter().collect()),
        };
        study.tell(number, outcome).unwrap();
    }
    (repeated, pruned.len())
}

#[test]
fn a_point_that_was_pruned_is_not_proposed_again() {
    for kind in ["gp", "auto", "tpe", "nsga2", "random", "sobol", "grid"] {
        for pruned_by in ["auto", "median", "asha", "hyperband"] {
            let (repeated, pruned) = repeated(&mut study(kind, pruned_by, 1), 100);
            println!("{kind} {pruned_by}: {pruned} pruned, {repeated} beside an earlier one");
            assert!(repeated <= 2, "{kind} {pruned_by}: {repeated} of {pruned}");
            assert!(pruned > 5, "{kind} {pruned_by}: {pruned}");
        }
    }
}

/// Trials with one choice of three and one number of two, told as these states.
fn told(states: &[(&str, i64, TrialState)]) -> (Space, History) {
    let space = Space {
        parameters: vec![
            parameter("c", categorical(&["p", "q", "r"].map(Into::into))),
            parameter("n", int(1, 2, false, 1)),
        ],
        ..Space::default()
    };
    let mut history = History::new(vec![Direction::Minimize]);
    for (number, (choice, n, state)) in (0..).zip(states) {
        let point: Params = [
            ("c".to_owned(), (*choice).into()),
            ("n".to_owned(), (*n).into()),
        ]
        .into();
        let value = 1.0 + number as f64;
        history.put(&space, &trial(number, *state, point, Some(value)));
    }
    (space, history)
}

const KINDS: [&str; 6] = ["gp", "auto", "tpe", "nsga2", "random", "sobol"];

#[test]
fn what_is_left_of_a_small_space_is_found_and_its_end_stops_nobody() {
    use TrialState::Pruned;
    let all: Vec<(&str, i64, TrialState)> = ["p", "q", "r"]
        .into_iter()
        .flat_map(|c| [(c, 1, Pruned), (c, 2, Pruned)])
        .collect();
    for kind in KINDS {
        for number in 6..16 {
            let of = |states: &[(&str, i64, TrialState)]| {
                let (space, history) = told(states);
                by_kind(kind).suggest(&Ask {
                    space: &space,
                    history: &history,
                    number,
                    seed: 2,
                })
            };
            let left = of(&all[..5]).unwrap();
            assert_eq!(
                (left["c"].as_str(), left["n"].as_i64()),
                (Some("r"), Some(2)),
                "{kind} {number}"
            );
            assert!(of(&all).is_some(), "{kind}");
        }
    }
}

#[test]
fn what_lies_beside_the_best_point_may_be_proposed_whatever_was_pruned_there() {
    use TrialState::{Complete, Pruned};
    let (space, history) = told(&[("p", 1, Complete), ("p", 1, Pruned), ("q", 1, Pruned)]);
    let ask = Ask {
        space: &space,
        history: &history,
        number: 3,
        seed: 0,
    };
    let codes = super::pruned::codes(&ask);
    assert_eq!(codes, [&[1.0, 1.0][..]], "the choice q alone");
}
