//! The plainest point that is no worse than a good one: from its values back to the defaults, parameter by parameter.
//!
//! Trainings are paired: a candidate and the good point are trained with the same seeds, and what counts is the
//! difference. A candidate is taken where it is shown, by a one-sided t test of non-inferiority at 95 %, to be worse by
//! less than a margin; it is dropped as soon as it is clearly worse. Parameters are reset in groups, those that matter
//! least first; a group that fails is halved. Each candidate is compared with the good point itself, so that what each of
//! them loses does not add up unseen.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::statistics::Statistics;

use crate::space::{Params, Space};

/// The margin, in standard deviations of the seeds' noise.
const MARGIN: f64 = 1.5;

/// The least margin, as a part of what the good point is better than the defaults.
const LEAST: f64 = 0.01;

/// Trainings of the good point that show the noise.
const FIRST: u32 = 3;

/// A candidate has so many pairs at most.
const PAIRS: u32 = 8;

/// Probability that a candidate that is worse by the margin is dropped.
const CONFIDENCE: f64 = 0.95;

/// What trains points.
pub trait Train {
    /// Why no further training is made.
    type Stop;

    /// The loss of a point with a seed, from 1; `None` where the training fails.
    ///
    /// # Errors
    /// The budget is used up, or training is not possible.
    fn loss(&mut self, point: &Params, seed: u32) -> Result<Option<f64>, Self::Stop>;
}

/// Whether a parameter keeps its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The default is worse, or was not shown to be no worse.
    Matters,
    /// The default is no worse.
    Reset,
    /// It was not looked at: the trainings were used up.
    Unknown,
}

/// How far the plainest point lies from the good one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Loss {
    /// Mean of the differences, in the metric's units; above 0 is worse.
    pub mean: f64,
    /// With 95 % it is no worse than by this.
    pub at_most: f64,
    /// Pairs of trainings.
    pub pairs: usize,
}

/// The way from a good point to the defaults.
pub struct Simplifier<'a> {
    space: &'a Space,
    winner: &'a Params,
    changes: BTreeMap<String, Change>,
    /// Losses by point, one a seed.
    losses: BTreeMap<String, BTreeMap<u32, Option<f64>>>,
    margin: f64,
    loss: Option<Loss>,
}

impl<'a> Simplifier<'a> {
    /// From this point; `known` are losses of its that are known already, by seed.
    pub fn new(
        space: &'a Space,
        winner: &'a Params,
        known: BTreeMap<u32, Option<f64>>,
    ) -> Simplifier<'a> {
        let differs = |name: &&String| without(space, winner, &BTreeSet::from([*name])) != *winner;
        let changes = winner.keys().filter(differs);
        Simplifier {
            space,
            winner,
            changes: changes
                .map(|name| (name.clone(), Change::Unknown))
                .collect(),
            losses: BTreeMap::from([(key(winner), known)]),
            margin: 0.0,
            loss: None,
        }
    }

    /// The parameters whose values differ from the defaults.
    pub fn changes(&self) -> &BTreeMap<String, Change> {
        &self.changes
    }

    /// A candidate may be worse by less than this, in the metric's units; known once the noise is.
    pub fn margin(&self) -> f64 {
        self.margin
    }

    /// How far the plainest point lies from the good one; `None` where nothing was reset.
    pub fn loss(&self) -> Option<Loss> {
        self.loss
    }

    /// The plainest point so far.
    pub fn point(&self) -> Params {
        without(self.space, self.winner, &self.in_state(Change::Reset))
    }

    fn in_state(&self, state: Change) -> BTreeSet<&String> {
        let found = self.changes.iter().filter(|(_, s)| **s == state);
        found.map(|(name, _)| name).collect()
    }

    /// Goes back to the defaults as far as the trainings reach. `order` names parameters, those that matter least first;
    /// others come before them.
    ///
    /// # Errors
    /// Why training stopped. What was found until then stays.
    pub fn run<T: Train>(&mut self, order: &[String], trainer: &mut T) -> Result<(), T::Stop> {
        if self.changes.is_empty() {
            return Ok(());
        }
        self.find_margin(trainer)?;
        let place = |name: &String| order.iter().position(|o| o == name);
        let mut names: Vec<String> = self.changes.keys().cloned().collect();
        names.sort_by_key(place);
        // Half of them, then half of the rest: what matters comes in small groups.
        let mut rest = &names[..];
        while !rest.is_empty() {
            let (group, more) = rest.split_at(rest.len().div_ceil(2));
            self.settle(group, trainer)?;
            rest = more;
        }
        Ok(())
    }

    fn find_margin<T: Train>(&mut self, trainer: &mut T) -> Result<(), T::Stop> {
        let winner = self.winner.clone();
        let mut own = Vec::new();
        for seed in 1..=FIRST {
            own.extend(self.trained(&winner, seed, trainer)?);
        }
        let defaults = self.space.point(&Params::new());
        let theirs = match self.space.holds(&defaults) {
            true => self.trained(&defaults, 1, trainer)?,
            false => None,
        };
        // Of too few values these are NaN, which `max` passes over.
        let mean = (&own).mean();
        let gained = theirs.map_or(0.0, |theirs| theirs - mean).max(0.0);
        self.margin = (MARGIN * (&own).std_dev()).max(LEAST * gained);
        Ok(())
    }

    fn settle<T: Train>(&mut self, group: &[String], trainer: &mut T) -> Result<(), T::Stop> {
        let mut reset = self.in_state(Change::Reset);
        reset.extend(group);
        let candidate = without(self.space, self.winner, &reset);
        if let Some(loss) = self.no_worse(&candidate, trainer)? {
            self.loss = Some(loss);
            self.mark(group, Change::Reset);
        } else if group.len() == 1 {
            self.mark(group, Change::Matters);
        } else {
            let (first, second) = group.split_at(group.len() / 2);
            self.settle(first, trainer)?;
            self.settle(second, trainer)?;
        }
        Ok(())
    }

    fn mark(&mut self, group: &[String], state: Change) {
        for name in group {
            self.changes.insert(name.clone(), state);
        }
    }

    /// How much worse a point is where that is shown to be less than the margin.
    fn no_worse<T: Train>(
        &mut self,
        point: &Params,
        trainer: &mut T,
    ) -> Result<Option<Loss>, T::Stop> {
        if !self.space.holds(point) {
            return Ok(None);
        }
        let winner = self.winner.clone();
        let mut differences = Vec::new();
        for seed in 1..=PAIRS {
            let Some(own) = self.trained(&winner, seed, trainer)? else {
                continue;
            };
            let Some(theirs) = self.trained(point, seed, trainer)? else {
                return Ok(None);
            };
            differences.push(theirs - own);
            match judged(&differences, self.margin) {
                Judged::NoWorse(at_most) => {
                    return Ok(Some(Loss {
                        mean: (&differences).mean(),
                        at_most,
                        pairs: differences.len(),
                    }));
                }
                Judged::Worse => return Ok(None),
                Judged::Open => {}
            }
        }
        Ok(None)
    }

    fn trained<T: Train>(
        &mut self,
        point: &Params,
        seed: u32,
        trainer: &mut T,
    ) -> Result<Option<f64>, T::Stop> {
        let known = self.losses.entry(key(point)).or_default();
        if let Some(loss) = known.get(&seed) {
            return Ok(*loss);
        }
        let loss = trainer.loss(point, seed)?.filter(|loss| loss.is_finite());
        known.insert(seed, loss);
        Ok(loss)
    }
}

/// The point without these of its values: they are the defaults, as far as these exist there.
fn without(space: &Space, winner: &Params, reset: &BTreeSet<&String>) -> Params {
    let kept = winner.iter().filter(|(name, _)| !reset.contains(name));
    space.point(&kept.map(|(n, v)| (n.clone(), v.clone())).collect())
}

fn key(point: &Params) -> String {
    let values = point
        .iter()
        .map(|(name, value)| format!("{name}={value:?}"));
    values.collect::<Vec<_>>().join(" ")
}

enum Judged {
    /// By less than the margin; with 95 % by no more than this.
    NoWorse(f64),
    Worse,
    Open,
}

fn judged(differences: &[f64], margin: f64) -> Judged {
    let n = differences.len();
    let (mean, deviation) = (differences.mean(), differences.std_dev());
    let least = differences.iter().copied().fold(f64::INFINITY, f64::min);
    if n >= 2 && least > 2.0 * margin {
        return Judged::Worse;
    }
    // Three pairs, but where the seed changes nothing.
    if n < 2 || (n < 3 && deviation > 0.0) {
        return Judged::Open;
    }
    let t = StudentsT::new(0.0, 1.0, (n - 1) as f64)
        .map_or(f64::INFINITY, |t| t.inverse_cdf(CONFIDENCE));
    let half = match deviation > 0.0 {
        true => t * deviation / (n as f64).sqrt(),
        false => 0.0,
    };
    match (mean + half <= margin, mean - half > margin) {
        (true, _) => Judged::NoWorse(mean + half),
        (false, true) => Judged::Worse,
        (false, false) => Judged::Open,
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::importance;
    use crate::space::{Domain, Parameter, Value};
    use crate::study::{self, Direction, FrozenTrial, TrialState};

    const NUMBER: usize = 28;

    /// A sum of parabolas of a few of 28 parameters, with noise by the seed.
    struct Made {
        space: Space,
        live: BTreeMap<String, (f64, f64)>,
        noise: f64,
        trainings: u32,
        most: u32,
    }

    impl Made {
        fn new(seed: u64, noise: f64, most: u32) -> (Made, ChaCha8Rng) {
            let mut rng = study::rng(seed, 0, "made");
            let domain = Domain::Float {
                low: 0.0,
                high: 1.0,
                log: false,
                step: None,
            };
            let parameters = (0..NUMBER).map(|i| Parameter {
                default: Some(Value::Float(0.5)),
                ..Parameter::new(&format!("p{i:02}"), domain.clone())
            });
            let space = Space {
                parameters: parameters.collect(),
                ..Space::default()
            };
            let mut live = BTreeMap::new();
            while live.len() < rng.random_range(3..=6) {
                let side = if rng.random_bool(0.5) { 0.1 } else { 0.9 };
                let weight = rng.random_range(1.0..3.0);
                live.insert(
                    format!("p{:02}", rng.random_range(0..NUMBER)),
                    (side, weight),
                );
            }
            let made = Made {
                space,
                live,
                noise,
                trainings: 0,
                most,
            };
            (made, rng)
        }

        fn plain(&self, point: &Params) -> f64 {
            let of = |(name, (at, weight)): (&String, &(f64, f64))| {
                weight * (point[name].as_f64().unwrap() - at).powi(2)
            };
            self.live.iter().map(of).sum()
        }
    }

    impl Train for Made {
        type Stop = ();

        fn loss(&mut self, point: &Params, seed: u32) -> Result<Option<f64>, ()> {
            if self.trainings == self.most {
                return Err(());
            }
            self.trainings += 1;
            let mut rng = study::rng(u64::from(seed), 0, &key(point));
            let noise: f64 = (0..12).map(|_| rng.random::<f64>() - 0.5).sum();
            Ok(Some(self.plain(point) + self.noise * noise))
        }
    }

    /// A search of 1,000 trials whose best is the winner: those that matter at their best, the others anywhere.
    fn searched(made: &Made, rng: &mut ChaCha8Rng) -> (Params, Vec<String>) {
        let trials = (0..1000).map(|number| {
            let near = number as f64 / 1000.0;
            let point: Params = (made.space.parameters.iter())
                .map(|p| {
                    let any = rng.random::<f64>();
                    let x = made
                        .live
                        .get(&p.name)
                        .map_or(any, |(at, _)| near * at + (1.0 - near) * any);
                    (p.name.clone(), Value::Float(x))
                })
                .collect();
            let mut trial = FrozenTrial::new(number, TrialState::Complete, point);
            let domains = made.space.parameters.iter();
            trial.distributions = domains
                .map(|p| (p.name.clone(), p.domain.clone()))
                .collect();
            trial.values =
                vec![made.plain(&trial.params) + made.noise * (rng.random::<f64>() - 0.5)];
            trial
        });
        let trials: Vec<FrozenTrial> = trials.collect();
        let mut order = importance::ranked(&trials, 0, Direction::Minimize);
        order.reverse();
        let best = trials
            .iter()
            .min_by(|a, b| a.values[0].total_cmp(&b.values[0]));
        let names = order.into_iter().map(|r| r.name).collect();
        (best.unwrap().params.clone(), names)
    }

    #[test]
    fn of_28_parameters_nearly_all_that_do_nothing_go_back_and_hardly_one_that_matters() {
        let (mut dead, mut reset, mut live, mut wrongly) = (0, 0, 0, 0);
        for seed in 0..60 {
            let noise = [0.0, 0.02, 0.05][seed as usize % 3];
            let (mut made, mut rng) = Made::new(seed, noise, 100);
            let (winner, order) = searched(&made, &mut rng);
            let space = made.space.clone();
            let mut simplifier = Simplifier::new(&space, &winner, BTreeMap::new());
            // Used up or not: what was found stands.
            let _ = simplifier.run(&order, &mut made);
            assert!(made.trainings <= 100);
            for (name, change) in simplifier.changes() {
                let is_live = made.live.contains_key(name);
                let back = usize::from(*change == Change::Reset);
                *if is_live { &mut live } else { &mut dead } += 1;
                *if is_live { &mut wrongly } else { &mut reset } += back;
            }
            let lost = made.plain(&simplifier.point()) - made.plain(&winner);
            assert!(
                lost <= simplifier.margin() + 1e-9 || noise > 0.0,
                "{seed}: {lost}"
            );
        }
        let share = |a: usize, b: usize| a as f64 / b as f64;
        assert!(share(reset, dead) >= 0.9, "{reset} of {dead}");
        assert!(share(wrongly, live) <= 0.05, "{wrongly} of {live}");
    }

    #[test]
    fn what_is_known_is_not_trained_again_and_a_point_that_fails_is_not_taken() {
        struct Fails(Vec<(Params, u32)>);
        impl Train for Fails {
            type Stop = ();
            fn loss(&mut self, point: &Params, seed: u32) -> Result<Option<f64>, ()> {
                self.0.push((point.clone(), seed));
                Ok(None)
            }
        }
        let (made, _) = Made::new(1, 0.0, 0);
        let winner = made
            .space
            .point(&Params::from([("p03".to_owned(), 0.7.into())]));
        let known = (1..=8).map(|seed| (seed, Some(0.1))).collect();
        let mut simplifier = Simplifier::new(&made.space, &winner, known);
        assert_eq!(simplifier.changes().keys().collect::<Vec<_>>(), ["p03"]);
        let mut trainer = Fails(Vec::new());
        simplifier.run(&[], &mut trainer).unwrap();
        assert_eq!(simplifier.changes()["p03"], Change::Matters);
        assert!(
            trainer
                .0
                .iter()
                .all(|(point, seed)| *point != winner && *seed == 1)
        );
        assert_eq!(simplifier.point(), winner);
    }
}
