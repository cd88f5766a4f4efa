//! The genetic algorithm NSGA-II for several objectives (Deb et al., "A fast and elitist
//! multiobjective genetic algorithm: NSGA-II", 2002), with his constrained domination.
//!
//! The population is told from the history alone: of all finished trials the best by front and
//! crowding, then infeasible ones by how much they violate. There are no generations to wait for:
//! each proposal is a child of the population as it is (a steady state), so that several slots and
//! trials of other samplers and programs fit in. While there are fewer trials than the population
//! has places, the points are those of a Sobol sequence. Where trials could not be run, points and
//! children are chosen by whether they probably can be (see `gp::feasibility`).
//!
//! Numbers are crossed over by SBX and mutated polynomially on their own scale, choices are
//! swapped and drawn anew; a parameter that only one parent has is taken from it.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::elite::Elite;
use super::gp::FeasiblePoints;
use super::outcome::Outcome;
use super::random::unit;
use super::sobol::{SPREAD, spread};
use super::{Ask, Proposal, Sampler};
use crate::space::{Domain, Params, Space, Value};
use crate::study::{Entry, TrialState};

/// How close children are to their parents, for crossover and for mutation: the larger, the closer.
const ETA: (f64, f64) = (10.0, 10.0);

/// How often a mutation draws a number anew instead of moving it.
const REDRAWN: f64 = 0.25;

/// Children of which one is chosen where trials could not be run.
const CHILDREN: usize = 20;

/// Children that are made before one is taken that was tried already.
const NEW_CHILDREN: usize = 20;

/// Children that are made before a point is drawn, because they violate constraints.
const MAX_CHILDREN: usize = 1000;

/// Options of [`Nsga2Sampler`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nsga2Options {
    /// Trials that have children, at least 2.
    pub population_size: usize,
    /// Probability that a parameter mutates; `None`: 1 divided by their number.
    pub mutation_prob: Option<f64>,
    /// Probability that a child has two parents.
    pub crossover_prob: f64,
    /// Probability that a parameter is the second parent's.
    pub swapping_prob: f64,
}

impl Default for Nsga2Options {
    fn default() -> Nsga2Options {
        Nsga2Options {
            population_size: 16,
            mutation_prob: None,
            crossover_prob: 0.9,
            swapping_prob: 0.5,
        }
    }
}

/// The genetic algorithm NSGA-II as a steady state.
#[derive(Debug, Clone, Default)]
pub struct Nsga2Sampler {
    options: Nsga2Options,
    elite: Elite,
    feasible_points: FeasiblePoints,
}

impl Nsga2Sampler {
    /// A sampler with these options.
    pub fn new(options: Nsga2Options) -> Nsga2Sampler {
        Nsga2Sampler {
            options,
            ..Nsga2Sampler::default()
        }
    }

    /// What it will do, and why, for people: clauses with semicolons between them.
    pub fn plan(options: &Nsga2Options) -> String {
        format!(
            "starts with {} spread-out points, then makes new points out of the best ones (the genetic algorithm NSGA-II), \
             which finds a whole front where a model of one objective does not; where trials cannot be run (infeasible) \
             it prefers points that probably can",
            options.population_size.max(2)
        )
    }
}

impl Sampler for Nsga2Sampler {
    fn name(&self) -> &'static str {
        "nsga2"
    }

    fn candidate(&mut self, ask: &Ask) -> Option<Proposal> {
        let size = self.options.population_size.max(2);
        let population = population(&mut self.elite, ask, size);
        let mut rng = ask.rng();
        if population.len() < size {
            let point = self.feasible_points.start(ask, &mut rng);
            return point.or_else(|| spread(ask)).map(Proposal::by(SPREAD));
        }
        let failed = |e: &Entry| Outcome::of(e, ask.history.direction()) == Outcome::Infeasible;
        let child = match ask.history.entries().iter().any(failed) {
            true => {
                let made = (0..CHILDREN).map_while(|_| self.new_child(ask, &population, &mut rng));
                let made: Vec<Params> = made.collect();
                self.feasible_points.likely(ask, made)
            }
            false => self.new_child(ask, &population, &mut rng),
        };
        (child.map(Proposal::by(self.name()))).or_else(|| spread(ask).map(Proposal::by(SPREAD)))
    }
}

impl Nsga2Sampler {
    /// A child that was not tried before, if there is one.
    fn new_child(&self, ask: &Ask, population: &[&Entry], rng: &mut ChaCha8Rng) -> Option<Params> {
        let mut any = None;
        for attempt in 0..MAX_CHILDREN {
            if attempt >= NEW_CHILDREN && any.is_some() {
                break;
            }
            let child = self.child(ask.space, population, rng);
            if ask.space.violated(&child).is_some() {
                continue;
            }
            let known = |e: &Entry| e.number != ask.number && e.params == child;
            if !ask.history.entries().iter().any(known) {
                return Some(child);
            }
            any = Some(child);
        }
        any
    }

    fn child(&self, space: &Space, population: &[&Entry], rng: &mut ChaCha8Rng) -> Params {
        let first = tournament(population, rng);
        let second = match rng.random_bool(self.options.crossover_prob.clamp(0.0, 1.0)) {
            true => tournament(population, rng),
            false => first,
        };
        let count = first.params.len().max(1) as f64;
        let mutates = self.options.mutation_prob.unwrap_or(1.0 / count);
        space.build(|_, parameter, domain| {
            let of = |entry: &Entry| {
                let value = entry.params.get(&parameter.name)?;
                domain.clamp(value)
            };
            let inherited = match (of(first), of(second)) {
                (Some(a), Some(b)) => {
                    let swapped = rng.random_bool(self.options.swapping_prob.clamp(0.0, 1.0));
                    let (near, far) = if swapped { (b, a) } else { (a, b) };
                    crossed(domain, near, &far, rng)
                }
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => return domain.sample(rng),
            };
            match rng.random_bool(mutates.clamp(0.0, 1.0)) {
                true => mutated(domain, &inherited, rng),
                false => inherited,
            }
        })
    }
}

/// The best finished trials, best first, at most `size`.
fn population<'a>(elite: &mut Elite, ask: &Ask<'a>, size: usize) -> Vec<&'a Entry> {
    let entries = ask.history.entries();
    let directions = ask.history.directions();
    let others = entries.iter().filter(|e| e.number != ask.number);
    let (good, bad): (Vec<&Entry>, Vec<&Entry>) = others
        .filter(|e| match e.state {
            TrialState::Complete | TrialState::Pruned => true,
            TrialState::Running | TrialState::Waiting | TrialState::Fail => false,
        })
        .partition(|e| e.result(directions.len()).is_some());
    let best = elite.best(directions, &good, size).into_iter();
    let mut chosen: Vec<&Entry> = best.map(|i| good[i]).collect();
    let mut bad = bad;
    bad.sort_by(|a, b| violation(a).total_cmp(&violation(b)));
    chosen.extend(bad);
    chosen.truncate(size);
    chosen
}

/// How much a trial violates; one that ended without a result and without saying so is the worst.
fn violation(entry: &Entry) -> f64 {
    match entry.violation {
        Some(v) => v,
        None if entry.state == TrialState::Complete => 0.0,
        None => f64::INFINITY,
    }
}

/// The better of two: the population is sorted.
fn tournament<'a>(population: &[&'a Entry], rng: &mut ChaCha8Rng) -> &'a Entry {
    let mut draw = || rng.random_range(0..population.len());
    let (a, b) = (draw(), draw());
    population[a.min(b)]
}

/// Simulated binary crossover of a number, towards `near` or away from it; a choice is that of
/// `near`.
fn crossed(domain: &Domain, near: Value, far: &Value, rng: &mut ChaCha8Rng) -> Value {
    let (Some(a), Some(b)) = (unit(domain, &near), unit(domain, far)) else {
        return near;
    };
    if a == b {
        return near;
    }
    let u: f64 = rng.random();
    let power = 1.0 / (ETA.0 + 1.0);
    let spread = match u <= 0.5 {
        true => (2.0 * u).powf(power),
        false => (0.5 / (1.0 - u)).powf(power),
    };
    domain.from_unit(0.5 * ((1.0 + spread) * a + (1.0 - spread) * b))
}

/// A choice drawn anew, a number moved a little or, now and then, drawn anew.
fn mutated(domain: &Domain, value: &Value, rng: &mut ChaCha8Rng) -> Value {
    let Some(at) = unit(domain, value).filter(|_| !rng.random_bool(REDRAWN)) else {
        return domain.sample(rng);
    };
    let u: f64 = rng.random();
    let power = 1.0 / (ETA.1 + 1.0);
    let step = match u < 0.5 {
        true => (2.0 * u).powf(power) - 1.0,
        false => 1.0 - (2.0 * (1.0 - u)).powf(power),
    };
    domain.from_unit(at + step)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{float, int, log_float, parameter, trial};
    use super::*;
    use crate::study::{Direction, History};

    fn two() -> Vec<Direction> {
        vec![Direction::Minimize, Direction::Maximize]
    }

    fn told(history: &mut History, space: &Space, number: u64, x: f64, values: &[f64]) {
        let point = [("x".to_owned(), Value::Float(x))].into();
        let mut trial = trial(number, TrialState::Complete, point, None);
        trial.values = values.to_vec();
        history.put(space, &trial);
    }

    fn line() -> Space {
        Space {
            parameters: vec![parameter("x", float(0.0, 1.0))],
            ..Space::default()
        }
    }

    #[test]
    fn the_population_is_front_after_front_and_then_by_violation() {
        let space = line();
        let mut history = History::new(two());
        told(&mut history, &space, 0, 0.1, &[2.0, 1.0]);
        told(&mut history, &space, 1, 0.2, &[1.0, 3.0]);
        told(&mut history, &space, 2, 0.3, &[5.0, 9.0]);
        told(&mut history, &space, 3, 0.4, &[1.0]);
        for (number, violation) in [(4, 2.0), (5, 0.5)] {
            let mut t = trial(number, TrialState::Pruned, Params::new(), None);
            t.system_attrs
                .insert("constraints:gpu_memory".into(), violation.into());
            history.put(&space, &t);
        }
        let failed = trial(6, TrialState::Fail, Params::new(), None);
        history.put(&space, &failed);
        let ask = Ask {
            space: &space,
            history: &history,
            number: 7,
            seed: 0,
        };
        let numbers = |size| -> Vec<u64> {
            let population = population(&mut Elite::default(), &ask, size);
            population.iter().map(|e| e.number).collect()
        };
        assert_eq!(numbers(3), [1, 2, 0]);
        let all = numbers(9);
        assert_eq!(
            all[3..],
            [3, 5, 4],
            "a trial without all values violates nothing"
        );
    }

    #[test]
    fn positions_between_the_bounds_are_those_that_values_are_made_from() {
        let stepped = Domain::Float {
            low: 0.5,
            high: 2.0,
            log: false,
            step: Some(0.25),
        };
        for domain in [
            float(-3.0, 5.0),
            log_float(1e-5, 0.1),
            int(1, 9, false, 1),
            int(64, 512, false, 64),
            int(1, 512, true, 1),
            stepped,
        ] {
            for k in 0..=20 {
                let value = domain.from_unit(f64::from(k) / 20.0);
                let back = domain.from_unit(unit(&domain, &value).unwrap());
                let (a, b) = (value.as_f64().unwrap(), back.as_f64().unwrap());
                assert!((a - b).abs() <= 1e-9 * a.abs(), "{domain}: {a} {b}");
            }
        }
    }

    #[test]
    fn children_stay_near_the_front_and_are_new() {
        let space = line();
        let mut history = History::new(two());
        for number in 0..60 {
            let x = number as f64 / 60.0;
            // Everything in 0.4 to 0.6 is on the front.
            let off = (x - 0.5_f64).abs().max(0.1) - 0.1;
            told(
                &mut history,
                &space,
                number,
                x,
                &[x + 10.0 * off, x - 10.0 * off],
            );
        }
        let mut sampler = Nsga2Sampler::default();
        let near = (60..160).filter(|&number| {
            let ask = Ask {
                space: &space,
                history: &history,
                number,
                seed: 1,
            };
            let x = sampler.suggest(&ask).unwrap()["x"].as_f64().unwrap();
            (0.25..0.75).contains(&x)
        });
        // Half of the line, and a quarter of all mutations are drawn anew.
        assert!(near.count() > 70);
    }
}
