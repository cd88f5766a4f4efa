//! Every point of a grid, once: all choices, all numbers that have a step, and some values of
//! every other range.
//!
//! A grid of a conditional space holds only combinations of active parameters, and only points
//! that satisfy the constraints. They are taken in an order shuffled by the study's seed, so that
//! a search that ends early has seen a bit of everything. What has been tried is told from the
//! history, points of other samplers and of other programs included; a point whose trial failed is
//! tried once more. When nothing is left, the search is over; who goes on asking is led round
//! again.

use std::collections::HashMap;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{Ask, Proposal, Sampler};
use crate::space::{Domain, Params, Space, Value};
use crate::study::{self, TrialState};

/// A larger grid is not listed: its points are drawn at random, and nobody will see its end.
const LARGEST_LIST: usize = 100_000;

/// Steps of the search for listed points, so that constraints that leave little do not take for ever.
const MOST_STEPS: usize = 1_000_000;

/// Draws for a new point of a grid that is not listed.
const MAX_DRAWS: usize = 10_000;

/// How often a point is tried that fails every time.
const TRIES: u32 = 2;

/// Takes every point of a grid once, in an order of the seed's.
#[derive(Debug, Clone)]
pub struct GridSampler {
    /// Values of a range that has no steps of its own: a float without a step, a logarithmic one.
    n_points: usize,
    listed: Option<Listed>,
}

/// The points of a grid in their order, and for which space and seed this is.
#[derive(Debug, Clone)]
struct Listed {
    space: Space,
    seed: u64,
    /// In internal representation; `None` where they are too many.
    points: Option<Vec<Vec<f64>>>,
}

impl GridSampler {
    /// A grid with so many values (at least 1) of each range that has no steps of its own.
    pub fn new(n_points: usize) -> GridSampler {
        GridSampler {
            n_points: n_points.max(1),
            listed: None,
        }
    }

    fn points(&mut self, ask: &Ask) -> Option<&[Vec<f64>]> {
        let n_points = self.n_points;
        let known = (self.listed.take()).filter(|l| l.seed == ask.seed && l.space == *ask.space);
        let listed = self.listed.insert(known.unwrap_or_else(|| Listed {
            space: ask.space.clone(),
            seed: ask.seed,
            points: shuffled_points(ask.space, n_points, ask.seed),
        }));
        listed.points.as_deref()
    }
}

impl Sampler for GridSampler {
    fn name(&self) -> &'static str {
        "grid"
    }

    fn candidate(&mut self, ask: &Ask) -> Option<Proposal> {
        let by_grid = Proposal::by(self.name());
        let tried = Tried::new(ask);
        let n_points = self.n_points;
        let Some(points) = self.points(ask) else {
            return drawn(ask, n_points, &tried).map(by_grid);
        };
        let start = (ask.number % points.len().max(1) as u64) as usize;
        let mut round = (0..points.len()).map(|i| &points[(start + i) % points.len()]);
        let next = round.find(|p| !tried.contains(p));
        decode(ask.space, next.or_else(|| points.get(start))?).map(by_grid)
    }

    /// Every point has its turn once, however near it lies to one that was pruned.
    fn propose(&mut self, ask: &Ask) -> Option<Proposal> {
        self.candidate(ask)
    }

    fn exhausted(&mut self, ask: &Ask) -> bool {
        let tried = Tried::new(ask);
        let points = self.points(ask);
        points.is_some_and(|all| !all.is_empty() && all.iter().all(|p| tried.contains(p)))
    }
}

/// What need not be tried again: by point, its trials that count and those that failed.
struct Tried(HashMap<Vec<u64>, (u32, u32)>);

impl Tried {
    fn new(ask: &Ask) -> Tried {
        let mut tried: HashMap<Vec<u64>, (u32, u32)> = HashMap::new();
        for entry in ask.history.entries() {
            if entry.number == ask.number {
                continue;
            }
            let (done, failed) = match entry.state {
                TrialState::Complete | TrialState::Pruned | TrialState::Running => (1, 0),
                TrialState::Fail => (0, 1),
                TrialState::Waiting => continue,
            };
            let counts = tried.entry(key(&entry.code)).or_default();
            *counts = (counts.0 + done, counts.1 + failed);
        }
        Tried(tried)
    }

    fn contains(&self, point: &[f64]) -> bool {
        (self.0.get(&key(point))).is_some_and(|(done, failed)| *done > 0 || *failed >= TRIES)
    }
}

/// What two values of one point have in common that differ by rounding alone.
fn key(code: &[f64]) -> Vec<u64> {
    let rounded = |x: &f64| match x.is_nan() {
        true => u64::MAX,
        // Without the last eight of 53 bits; 0 and -0 are one.
        false => (x + 0.0).to_bits().wrapping_add(0x80) >> 8,
    };
    code.iter().map(rounded).collect()
}

/// All points of the grid in an order of the seed's; `None` where they are too many.
fn shuffled_points(space: &Space, n_points: usize, seed: u64) -> Option<Vec<Vec<f64>>> {
    let mut walk = Walk {
        space,
        n_points,
        steps: 0,
        points: Vec::new(),
    };
    if walk.surely_too_many() || !walk.visit(0, &mut Params::new()) {
        return None;
    }
    let mut rng = study::rng(seed, 0, "grid");
    let mut points: Vec<(u64, Vec<f64>)> =
        (walk.points.into_iter().map(|p| (rng.random(), p))).collect();
    points.sort_by_key(|(at, _)| *at);
    Some(points.into_iter().map(|(_, p)| p).collect())
}

/// The search for all points.
struct Walk<'a> {
    space: &'a Space,
    n_points: usize,
    steps: usize,
    points: Vec<Vec<f64>>,
}

impl Walk<'_> {
    /// Whether the parameters alone that always are there make too many points.
    fn surely_too_many(&self) -> bool {
        let always = (self.space.parameters.iter())
            .filter(|p| p.when.is_empty() && p.high_when.is_empty())
            .map(|p| Axis::new(&p.domain, self.n_points).len() as f64);
        self.space.constraints.is_empty() && always.product::<f64>() > LARGEST_LIST as f64
    }

    /// Every continuation of `params`, whose values are those before `position`. False where there
    /// are too many. A constraint says nothing while a value that it names is missing: what is
    /// violated stays violated.
    fn visit(&mut self, position: usize, params: &mut Params) -> bool {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return false;
        }
        if self.space.violated(params).is_some() {
            return true;
        }
        let Some(parameter) = self.space.parameters.get(position) else {
            self.points.push(self.space.encode(params));
            return self.points.len() <= LARGEST_LIST;
        };
        let Some(domain) = self.space.active_domain(parameter, params) else {
            return self.visit(position + 1, params);
        };
        let axis = Axis::new(&domain, self.n_points);
        for index in 0..axis.len() {
            params.insert(parameter.name.clone(), axis.value(index));
            if !self.visit(position + 1, params) {
                return false;
            }
        }
        params.remove(&parameter.name);
        true
    }
}

/// A random point of a grid that is too large for a list.
fn drawn(ask: &Ask, n_points: usize, tried: &Tried) -> Option<Params> {
    let mut rng = ask.rng();
    let mut draw = || (ask.space).build(|_, _, domain| Axis::new(domain, n_points).draw(&mut rng));
    let mut any = None;
    for _ in 0..MAX_DRAWS {
        let params = draw();
        if ask.space.violated(&params).is_some() {
            continue;
        }
        if !tried.contains(&ask.space.encode(&params)) {
            return Some(params);
        }
        any = Some(params);
    }
    any
}

fn decode(space: &Space, code: &[f64]) -> Option<Params> {
    let mut missing = false;
    let params = space.build(|position, _, domain| {
        domain.from_internal(code[position]).unwrap_or_else(|| {
            missing = true;
            domain.middle()
        })
    });
    (!missing).then_some(params)
}

/// The values of one parameter on the grid.
enum Axis<'a> {
    /// All values of the domain, so many.
    All(&'a Domain, usize),
    /// These.
    Some(Vec<Value>),
}

impl<'a> Axis<'a> {
    fn new(domain: &'a Domain, n_points: usize) -> Axis<'a> {
        let whole = |span: f64| Axis::All(domain, (span + 1.0).min(1e15) as usize);
        match *domain {
            Domain::Categorical { ref choices } => Axis::All(domain, choices.len()),
            Domain::Float {
                low,
                high,
                step: Some(step),
                ..
            } => whole(((high - low) / step + 1e-9).floor()),
            Domain::Int {
                low,
                high,
                log: false,
                step,
            } => whole(((high - low) / step) as f64),
            Domain::Int { low, high, .. } if high - low < n_points as i64 => {
                whole((high - low) as f64)
            }
            Domain::Float { .. } | Domain::Int { .. } => Axis::Some(spaced(domain, n_points)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Axis::All(_, count) => *count,
            Axis::Some(values) => values.len(),
        }
    }

    fn value(&self, index: usize) -> Value {
        match self {
            Axis::Some(values) => values[index].clone(),
            Axis::All(domain, _) => match domain {
                Domain::Categorical { choices } => choices[index].clone(),
                Domain::Int { low, step, .. } => Value::Int(low + index as i64 * step),
                Domain::Float { low, step, .. } => {
                    domain.from_number(low + index as f64 * step.unwrap_or(0.0))
                }
            },
        }
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> Value {
        self.value(rng.random_range(0..self.len()))
    }
}

/// `n` different values at equal distances (in the logarithm where `log`), both ends among them;
/// one alone is the middle.
fn spaced(domain: &Domain, n: usize) -> Vec<Value> {
    let (low, high, log) = match *domain {
        Domain::Float { low, high, log, .. } => (low, high, log),
        Domain::Int { low, high, log, .. } => (low as f64, high as f64, log),
        Domain::Categorical { .. } => return Vec::new(),
    };
    if n < 2 || domain.single() {
        return vec![domain.middle()];
    }
    let ratio = high / low;
    let mut values: Vec<Value> = (0..n)
        .map(|i| match (i, i as f64 / (n - 1) as f64) {
            (0, _) => low,
            (i, _) if i == n - 1 => high,
            (_, part) if log && ratio.is_finite() => low * ratio.powf(part),
            (_, part) if log => (low.ln() + part * (high.ln() - low.ln())).exp(),
            (_, part) => low + part * (high - low),
        })
        .map(|x| domain.from_number(x))
        .collect();
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        self, categorical, conditional_space, float, int, log_float, parameter, trial, when,
    };
    use super::*;
    use crate::study::{Direction, History};

    /// 3 * (2 + 1) = 9 points.
    fn small_space() -> Space {
        let mut rate = parameter("rate", log_float(1e-4, 1e-2));
        rate.when = vec![when("kind", &["a"])];
        Space {
            parameters: vec![
                parameter("kind", categorical(&["a".into(), "b".into()])),
                parameter("n", int(2, 6, false, 2)),
                rate,
            ],
            ..Space::default()
        }
    }

    fn ask<'a>(space: &'a Space, history: &'a History, number: u64) -> Ask<'a> {
        Ask {
            space,
            history,
            number,
            seed: 4,
        }
    }

    /// Points of the trials until the grid has an end, each trial ending in the state that `end`
    /// says.
    fn search(
        space: &Space,
        n_points: usize,
        end: impl Fn(u64, &Params) -> TrialState,
    ) -> Vec<Params> {
        let mut sampler = GridSampler::new(n_points);
        let mut history = History::new(vec![Direction::Minimize]);
        let mut points = Vec::new();
        for number in 0.. {
            if sampler.exhausted(&ask(space, &history, number)) {
                return points;
            }
            let point = sampler.suggest(&ask(space, &history, number)).unwrap();
            let state = end(number, &point);
            let value = (state == TrialState::Complete).then_some(1.0);
            history.put(space, &trial(number, state, point.clone(), value));
            points.push(point);
        }
        points
    }

    fn distinct(points: &[Params]) -> usize {
        let texts = points.iter().map(|p| format!("{p:?}"));
        texts.collect::<std::collections::BTreeSet<_>>().len()
    }

    #[test]
    fn ends_may_be_further_apart_than_a_float_can_tell() {
        let values = spaced(&log_float(1e-200, 1e200), 3);
        let [_, Value::Float(middle), _] = values[..] else {
            panic!("{values:?}");
        };
        assert!((middle - 1.0).abs() < 1e-9, "{middle}");
    }

    #[test]
    fn every_active_combination_is_tried_once_and_then_it_ends() {
        let points = search(&small_space(), 2, |_, _| TrialState::Complete);
        assert_eq!((points.len(), distinct(&points)), (9, 9));
        let rates = points.iter().filter_map(|p| p.get("rate"));
        assert!(
            rates
                .clone()
                .all(|r| [1e-4, 1e-2].map(Value::Float).contains(r))
        );
        assert_eq!(rates.count(), 6);
    }

    #[test]
    fn a_point_that_fails_is_tried_twice_and_a_pruned_one_once() {
        let of_b = |p: &Params| p["kind"] == "b".into();
        let points = search(&small_space(), 2, |_, p| match of_b(p) {
            true => TrialState::Fail,
            false => TrialState::Pruned,
        });
        assert_eq!((points.len(), distinct(&points)), (12, 9));
        assert_eq!(points.iter().filter(|p| of_b(p)).count(), 6);
        assert_eq!(distinct(&points[..9]), 9, "second tries come last");
    }

    #[test]
    fn pending_points_are_not_proposed_again_and_after_the_end_it_goes_round() {
        let space = small_space();
        let points = search(&space, 2, |_, _| TrialState::Running);
        assert_eq!(distinct(&points), 9);
        let mut history = History::new(vec![Direction::Minimize]);
        for (number, point) in (0..).zip(points) {
            history.put(
                &space,
                &trial(number, TrialState::Complete, point, Some(0.0)),
            );
        }
        let mut sampler = GridSampler::new(2);
        let again: Vec<Params> = (9..18)
            .map(|number| sampler.suggest(&ask(&space, &history, number)).unwrap())
            .collect();
        assert_eq!(distinct(&again), 9);
    }

    #[test]
    fn points_of_other_samplers_count_as_tried_within_rounding() {
        let space = Space {
            parameters: vec![parameter("x", float(0.0, 1.0))],
            ..Space::default()
        };
        let mut history = History::new(vec![Direction::Minimize]);
        for (number, x) in [0.1 + 0.2, 0.6, 0.9, -0.0, 0.5].into_iter().enumerate() {
            let point = [("x".to_owned(), Value::Float(x))].into();
            let told = trial(number as u64, TrialState::Complete, point, Some(0.0));
            history.put(&space, &told);
        }
        // Thirds would be another grid.
        let mut sampler = GridSampler::new(11);
        let mut seen = Vec::new();
        for number in 5..11 {
            let point = sampler.suggest(&ask(&space, &history, number)).unwrap();
            seen.push((point["x"].as_f64().unwrap() * 10.0).round() as i64);
            history.put(
                &space,
                &trial(number, TrialState::Complete, point, Some(0.0)),
            );
        }
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 4, 7, 8, 10]);
        assert!(sampler.exhausted(&ask(&space, &history, 11)));
    }

    #[test]
    fn constraints_and_conditional_bounds_cut_points_off() {
        let space = conditional_space();
        let points = search(&space, 2, |_, _| TrialState::Complete);
        assert_eq!(distinct(&points), points.len());
        // small: 15 lengths; tree: 11 lengths, 2 depths, 1 + 4 boosters; large: depth 1 or 16 with
        // a product of at most 2048. Everywhere two rates.
        let large = 11 + 3;
        let expected = 2 * (15 + 11 * 2 * (1 + 4) + large * (1 + 4));
        assert!(points.iter().all(|p| space.violated(p).is_none()));
        let large_ones = points.iter().filter(|p| p["model"] == "large".into());
        assert_eq!(large_ones.count(), 2 * large * 5);
        assert_eq!(points.len(), expected);
    }

    #[test]
    fn seeds_shuffle_the_order_and_not_the_points() {
        let space = small_space();
        let order = |seed| {
            let points = shuffled_points(&space, 2, seed).unwrap();
            points.iter().map(|p| key(p)).collect::<Vec<_>>()
        };
        let (mut a, mut b) = (order(0), order(1));
        assert_ne!(a, b);
        a.sort();
        b.sort();
        assert_eq!(a, b);
    }

    #[test]
    fn a_grid_too_large_for_a_list_gives_other_points_every_time() {
        let space = testing::mixed_space();
        let mut sampler = GridSampler::new(3);
        let mut history = History::new(vec![Direction::Minimize]);
        for number in 0..200 {
            assert!(!sampler.exhausted(&ask(&space, &history, number)));
            let point = sampler.suggest(&ask(&space, &history, number)).unwrap();
            let x = point["dropout"].as_f64().unwrap();
            assert!([0.0, 0.3, 0.6].iter().any(|y| (x - y).abs() < 1e-9));
            history.put(
                &space,
                &trial(number, TrialState::Complete, point, Some(0.0)),
            );
        }
        let points: Vec<Params> = history.entries().iter().map(|e| e.params.clone()).collect();
        assert_eq!(distinct(&points), 200);
    }

    #[test]
    fn logarithmic_ranges_are_cut_in_the_logarithm_and_keep_their_ends() {
        let values = |domain: &Domain, n| {
            let axis = Axis::new(domain, n);
            (0..axis.len()).map(|i| axis.value(i)).collect::<Vec<_>>()
        };
        let close = |a: &[Value], b: &[f64]| {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(a, b)| (a.as_f64().unwrap() / b - 1.0).abs() < 1e-12)
        };
        assert!(close(
            &values(&log_float(1e-4, 1e-2), 3),
            &[1e-4, 1e-3, 1e-2]
        ));
        assert!(close(
            &values(&int(1, 100, true, 1), 3),
            &[1.0, 10.0, 100.0]
        ));
        assert!(close(
            &values(&int(1, 4, true, 1), 9),
            &[1.0, 2.0, 3.0, 4.0]
        ));
        assert!(close(&values(&float(1.0, 2.0), 1), &[1.5]));
        assert_eq!(values(&float(1.0, 1.0), 4).len(), 1);
    }
}
