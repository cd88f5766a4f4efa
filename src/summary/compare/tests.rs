//! What is said of two studies, and how often its intervals hold.

#![allow(clippy::unwrap_used)]

use rand::RngExt;
use report::Selected;
use serde_json::json;
use statrs::distribution::Normal;

use super::*;
use crate::tests::{study, usual};
use search::study::selection::estimate;
use search::study::{FrozenTrial, TrialState, rng};

fn candidate(number: u64, values: &[f64]) -> Candidate {
    Candidate {
        number,
        value: values[0],
        estimate: estimate(values),
        values: values.to_vec(),
        missing: 0,
        finalist: true,
        params: Params::new(),
    }
}

/// A study whose winner has these repeats.
fn won_by(values: &[f64]) -> Material {
    let mut material = usual();
    material.selection = Some(Selected {
        winner: Some(candidate(0, values)),
        ..Selected::default()
    });
    material
}

fn told(comparison: &Comparison, about: About) -> &str {
    let found = comparison.verdict.iter().find(|s| s.about == about);
    found.map_or("", |s| &s.text)
}

/// Draws of a normal distribution.
fn normal(mean: f64, deviation: f64, seed: u64) -> impl FnMut() -> f64 {
    let mut rng = rng(seed, 0, "compare");
    move || {
        let drawn = rng.random::<f64>().clamp(1e-12, 1.0 - 1e-12);
        mean + deviation * Normal::standard().inverse_cdf(drawn)
    }
}

#[test]
fn the_interval_of_two_winners_holds_in_19_of_20_pairs() {
    let pairs = 2000;
    let held = (0..pairs).filter(|pair| {
        let (mut a, mut b) = (normal(1.0, 0.1, 2 * pair), normal(0.8, 0.3, 2 * pair + 1));
        let (a, b): (Vec<f64>, Vec<f64>) =
            ((0..5).map(|_| a()).collect(), (0..4).map(|_| b()).collect());
        let of = |values: &[f64]| candidate(0, values);
        let d = by_repeats(&of(&a), &of(&b), Direction::Minimize);
        d.low.unwrap() <= 0.2 && 0.2 <= d.high.unwrap()
    });
    let share = held.count() as f64 / pairs as f64;
    assert!((0.935..0.965).contains(&share), "{share}");
}

#[test]
fn without_repeats_of_both_the_interval_holds_for_the_best_of_equally_many() {
    // Random search for the smallest square, with noise of which the repeats of some point tell.
    let deviation = 0.05;
    let pairs = 1000;
    let held = (0..pairs).filter(|pair| {
        let mut noise = normal(0.0, deviation, *pair);
        let mut place = rng(*pair, 1, "compare");
        let mut best = || {
            let tried = (0..50).map(|_| {
                let truth = place.random::<f64>().powi(2);
                (truth, truth + noise())
            });
            tried.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
        };
        let (a, b) = (best(), best());
        let half = student(20.0).unwrap() * deviation * 2f64.sqrt();
        (a.1 - b.1 - (a.0 - b.0)).abs() <= half
    });
    let share = held.count() as f64 / pairs as f64;
    assert!(share >= 0.95, "{share}");
}

#[test]
fn which_is_better_depends_on_the_direction_and_chance_is_no_better() {
    let (low, high) = ([0.10, 0.11, 0.12], [0.20, 0.21, 0.22]);
    let small = Comparison::new(&won_by(&low), &won_by(&high));
    assert_eq!(small.better, Some(Which::A));
    let d = small.difference.unwrap();
    assert_eq!((d.basis, d.a.trainings), (Basis::Repeats, 3));
    assert!((d.gain + 0.1).abs() < 1e-12 && d.high.unwrap() < 0.0);
    let text = told(&small, About::Better);
    assert!(text.starts_with("s is better by 0.1, 0.0"), "{text}");
    let [a, b] = [low, high].map(|values| {
        let mut material = won_by(&values);
        material.study.directions = vec![Direction::Maximize];
        material
    });
    assert_eq!(Comparison::new(&a, &b).better, Some(Which::B));
    let near = Comparison::new(&won_by(&low), &won_by(&[0.09, 0.14]));
    assert_eq!(near.better, None);
    let text = told(&near, About::Better);
    assert!(
        text.starts_with("It cannot be said: s is ahead by 0.005, -0."),
        "{text}"
    );
}

#[test]
fn without_any_repeat_there_is_no_interval_and_budgets_are_equal() {
    let mut short = usual();
    short.trials.truncate(40);
    let c = Comparison::new(&usual(), &short);
    let d = c.difference.unwrap();
    assert_eq!((d.basis, d.low, c.better), (Basis::Single, None, None));
    // Trial 0 is the best of both; what came after the fortieth counts for nothing.
    assert_eq!((d.a.number, d.b.number, d.gain), (0, 0, 0.0));
    assert_eq!(c.at_equal_trials.unwrap().budget, 40.0);
    assert!(told(&c, About::Better).starts_with("Neither is ahead"));
    assert!(told(&c, About::Basis).contains("tune s --trials 120 --repeats 5"));
}

#[test]
fn how_fast_is_counted_in_trials_and_in_hours_of_training() {
    let made = |values: &[f64]| {
        let of = |(n, value): (usize, &f64)| {
            let mut trial = FrozenTrial::new(n as u64, TrialState::Complete, Params::new());
            trial.values = vec![*value];
            trial.datetime_start = Some(format!("2026-11-21 0{n}:00:00.000000"));
            trial.datetime_complete = Some(format!("2026-11-21 0{n}:30:00.000000"));
            trial
        };
        study(values.iter().enumerate().map(of).collect(), Vec::new())
    };
    let c = Comparison::new(&made(&[0.9, 0.5, 0.4]), &made(&[0.8, 0.7, 0.5, 0.6]));
    let reached = c.a.reached.unwrap();
    assert_eq!((reached.number, reached.trials, reached.hours), (1, 2, 1.0));
    assert_eq!(c.b.reached, None);
    assert!(
        told(&c, About::Speed)
            .contains("was never as good as the best of s, in 4 trials and 2 h 00 min")
    );
    let hours = c.at_equal_hours.unwrap();
    assert_eq!((hours.budget, hours.a, hours.b), (1.5, 0.4, 0.5));
}

#[test]
fn values_of_other_data_are_not_compared() {
    let of = |digest: &str| {
        let mut material = won_by(&[0.1, 0.2]);
        let identity = json!({"task.kind": "text-classification", "data.fingerprint": digest, "train.epochs": digest.len()});
        material.identity = identity.as_object().cloned().unwrap();
        material
    };
    let c = Comparison::new(&of("ab"), &of("cde"));
    assert_eq!((c.better, c.difference), (None, None));
    assert_eq!(c.incomparable, ["their data differ"]);
    assert_eq!((c.a.reached, c.b.reached), (None, None));
    assert!(told(&c, About::Better).starts_with("Nothing can be said: their data differ."));
    let keys: Vec<&str> = c
        .differences
        .configuration
        .iter()
        .map(|d| d.key.as_str())
        .collect();
    assert_eq!(keys, ["data.fingerprint", "train.epochs"]);
}
