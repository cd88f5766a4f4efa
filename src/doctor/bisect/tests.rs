//! Causes of every size in simulated spaces, with and without luck; spaces with conditions and constraints.

use std::cell::Cell;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::statistics::{Measured, Rate};
use search::space::{Condition, Domain, Parameter, Params, Space, Value};

/// Fails at `rate` where all parts of the cause are there.
struct Simulated {
    cause: Vec<usize>,
    rate: f64,
    runs: u32,
    most: u32,
    rng: ChaCha8Rng,
}

impl Simulated {
    fn new(parts: usize, size: usize, rate: f64, seed: u64) -> Simulated {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut cause = Parts::new();
        while cause.len() < size {
            cause.insert(rng.random_range(0..parts));
        }
        Simulated {
            cause: cause.into_iter().collect(),
            rate,
            runs: 0,
            most: u32::MAX,
            rng,
        }
    }

    /// As the command does: the failing input first, until its rate is known.
    fn rate(&mut self, parts: usize) -> Rate {
        let all = (0..parts).collect();
        let mut rate = Rate::default();
        while rate.measured() == Measured::More {
            rate.add(self.fails(&all).unwrap());
        }
        rate
    }
}

impl Oracle for Simulated {
    type Input = Parts;
    type Stop = ();

    fn input(&self, parts: &Parts) -> Option<Parts> {
        Some(parts.clone())
    }

    fn fails(&mut self, input: &Parts) -> Result<bool, ()> {
        if self.runs >= self.most {
            return Err(());
        }
        self.runs += 1;
        let within = self.cause.iter().all(|part| input.contains(part));
        Ok(within && self.rng.random::<f64>() < self.rate)
    }
}

const SPACES: u64 = 50;
const PARTS: usize = 30;

/// In how many spaces the cause is found exactly, and the most runs that one took, of those that had any failing runs.
fn found(size: usize, rate: f64) -> (u64, u32) {
    let mut exact = 0;
    let mut most = 0;
    for seed in 0..SPACES {
        let mut oracle = Simulated::new(PARTS, size, rate, 1000 * size as u64 + seed);
        let rate = oracle.rate(PARTS);
        let answer = smallest(&mut oracle, PARTS, rate);
        let cause: Parts = oracle.cause.iter().copied().collect();
        exact += u64::from(answer.end == End::Found && answer.parts == cause);
        most = most.max(oracle.runs);
    }
    (exact, most)
}

#[test]
fn causes_of_up_to_three_parameters_of_thirty_are_found_exactly_within_the_bound() {
    for size in 1..=3 {
        let (exact, most) = found(size, 1.0);
        let k = size as f64;
        let bound = 2.0 * k * (PARTS as f64).log2() + k;
        assert_eq!(exact, SPACES, "{size} parameters");
        assert!(
            f64::from(most) <= bound,
            "{size}: {most} runs, {bound} are allowed"
        );
    }
}

#[test]
fn causes_that_fail_three_times_in_ten_are_found_nearly_always() {
    for size in 1..=3 {
        let (exact, most) = found(size, 0.3);
        println!("{size} parameters at 30 %: {exact} of {SPACES}, at most {most} runs");
        assert!(
            exact * 100 >= 85 * SPACES,
            "{size} parameters: {exact} of {SPACES}"
        );
    }
}

#[test]
fn a_rate_that_looked_certain_at_first_is_learned_from_what_comes() {
    let exact = (0..SPACES).filter(|seed| {
        let mut oracle = Simulated::new(PARTS, 2, 0.7, *seed);
        let three = Rate { failed: 3, all: 3 };
        let answer = smallest(&mut oracle, PARTS, three);
        let cause: Parts = oracle.cause.iter().copied().collect();
        answer.end == End::Found && answer.parts.is_superset(&cause)
    });
    assert_eq!(
        exact.count() as u64,
        SPACES,
        "nothing that is needed is left out"
    );
}

#[test]
fn a_survivor_that_fails_too_is_no_survivor() {
    let mut oracle = Simulated::new(PARTS, 0, 0.3, 7);
    let rate = Rate { failed: 4, all: 12 };
    assert_eq!(smallest(&mut oracle, PARTS, rate).end, End::BaseFails);
}

#[test]
fn what_is_known_when_no_more_runs_are_made_is_told() {
    let mut oracle = Simulated::new(PARTS, 2, 1.0, 3);
    oracle.most = 5;
    let answer = smallest(&mut oracle, PARTS, Rate { failed: 3, all: 3 });
    assert_eq!(answer.end, End::Stopped(()));
    let left: Parts = answer.parts.union(&answer.among).copied().collect();
    assert!(oracle.cause.iter().all(|part| left.contains(part)));
}

#[test]
fn one_row_of_many_thousands_takes_the_logarithm_of_them() {
    let mut oracle = Simulated::new(20_000, 1, 1.0, 11);
    let answer = smallest(&mut oracle, 20_000, Rate { failed: 3, all: 3 });
    assert_eq!(answer.parts.into_iter().collect::<Vec<_>>(), oracle.cause);
    assert!(oracle.runs <= 17, "{} runs", oracle.runs);
}

/// Points of a space, which fail where a function says so; no run of a point is made twice.
struct Points<'a> {
    between: Between<'a>,
    fails: &'a dyn Fn(&Params) -> bool,
    runs: Cell<u32>,
}

impl Oracle for Points<'_> {
    type Input = Params;
    type Stop = ();

    fn input(&self, parts: &Parts) -> Option<Params> {
        self.between.point(parts)
    }

    fn fails(&mut self, point: &Params) -> Result<bool, ()> {
        self.runs.set(self.runs.get() + 1);
        Ok((self.fails)(point))
    }
}

fn params(values: &[(&str, Value)]) -> Params {
    let values = values.iter();
    values
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect()
}

/// `head` has a child that exists beside `deep` alone; `a` and `b` may not be above 10 together.
fn space() -> Space {
    let mut child = Parameter::new("layers", Domain::int(1, 9));
    child.when = vec![Condition {
        parent: "head".into(),
        values: vec!["deep".into()],
    }];
    child.default = Some(Value::Int(2));
    let mut space = Space::new([
        Parameter::new("head", Domain::choices(["flat", "deep"])),
        child,
        Parameter::new("a", Domain::int(0, 10)),
        Parameter::new("b", Domain::int(0, 10)),
        Parameter::new("c", Domain::float(0.0, 1.0)),
    ]);
    space.constraints.push(search::space::Constraint {
        expr: "a + b <= 10".parse().unwrap(),
        when: Vec::new(),
    });
    space
}

fn cause(survivor: &Params, failing: &Params, fails: &dyn Fn(&Params) -> bool) -> Vec<String> {
    let space = space();
    let mut oracle = Points {
        between: Between::new(&space, survivor, failing),
        fails,
        runs: Cell::new(0),
    };
    let count = oracle.between.names().len();
    let answer = smallest(&mut oracle, count, Rate { failed: 3, all: 3 });
    assert_eq!(answer.end, End::Found);
    let names = answer
        .parts
        .iter()
        .map(|part| oracle.between.names()[*part]);
    names.map(str::to_owned).collect()
}

fn flat() -> Params {
    params(&[
        ("head", "flat".into()),
        ("a", Value::Int(1)),
        ("b", Value::Int(9)),
        ("c", Value::Float(0.5)),
    ])
}

fn deep() -> Params {
    params(&[
        ("head", "deep".into()),
        ("layers", Value::Int(7)),
        ("a", Value::Int(8)),
        ("b", Value::Int(2)),
        ("c", Value::Float(0.9)),
    ])
}

#[test]
fn what_exists_only_beside_another_value_is_found_together_with_it() {
    let many = |point: &Params| point.get("layers").and_then(Value::as_i64) > Some(5);
    assert_eq!(cause(&flat(), &deep(), &many), ["head", "layers"]);
    let any = |point: &Params| point.contains_key("layers");
    assert_eq!(cause(&flat(), &deep(), &any), ["head"]);
}

#[test]
fn no_point_is_run_that_the_space_does_not_have() {
    let space = space();
    let fails = |point: &Params| {
        assert!(space.holds(point), "{point:?}");
        point["a"].as_i64() > Some(5)
    };
    // With b of the survivor, a of the failing point violates the constraint.
    assert_eq!(cause(&flat(), &deep(), &fails), ["a", "b"]);
}

#[test]
fn all_parts_make_the_failing_point_and_none_the_survivor() {
    let (space, survivor, failing) = (space(), flat(), deep());
    for (from, to) in [(&survivor, &failing), (&failing, &survivor)] {
        let between = Between::new(&space, from, to);
        let count = between.names().len();
        assert_eq!(between.point(&(0..count).collect()).as_ref(), Some(to));
        assert_eq!(between.point(&Parts::new()).as_ref(), Some(from));
    }
}

#[test]
fn points_are_as_far_apart_as_their_parameters_are_on_their_scales() {
    let space = space();
    assert_eq!(distance(&space, &flat(), &flat()), 0.0);
    let mut near = flat();
    near.insert("c".into(), Value::Float(0.75));
    assert!((distance(&space, &flat(), &near) - 0.25).abs() < 1e-12);
    assert!(distance(&space, &flat(), &deep()) > 2.0);
}

#[test]
fn the_value_from_which_on_it_fails_is_narrowed_down_by_short_numbers() {
    let known = Threshold {
        fails: Value::Float(0.5),
        survives: Value::Float(1.0),
    };
    let mut asked = Vec::new();
    let found = threshold(&Domain::float(0.0, 1.0), known.clone(), &mut |value| {
        asked.push(value.to_string());
        Ok::<_, ()>(Some(value.as_f64() >= Some(0.9)))
    });
    let found = found.unwrap();
    let (fails, survives) = (
        found.fails.as_f64().unwrap(),
        found.survives.as_f64().unwrap(),
    );
    assert!(
        fails < 0.9 && survives >= 0.9 && survives - fails < 0.05,
        "{found:?}"
    );
    assert!(asked.iter().all(|value| value.len() <= 4), "{asked:?}");
    let whole = Threshold {
        fails: Value::Int(9),
        survives: Value::Int(4),
    };
    let found = threshold(&Domain::int(0, 100), whole, &mut |value| {
        Ok::<_, ()>(Some(value.as_i64() < Some(6)))
    });
    assert_eq!(
        found.unwrap(),
        Threshold {
            fails: Value::Int(6),
            survives: Value::Int(5)
        }
    );
    let stopped = threshold(&Domain::float(0.0, 1.0), known.clone(), &mut |_| {
        Err("time")
    });
    assert_eq!(stopped, Err((known, "time")));
}
