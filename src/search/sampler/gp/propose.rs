//! A proposal: spread points at first, then the model's.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::Cache;
use super::acquisition::Improvement;
use super::feasibility::{Feasibility, FeasibilityModel};
use super::kernel::Geometry;
use super::model::Model;
use super::observations::Observations;
use super::search::{Effort, Search};
use crate::sampler::encoding::{Axis, Encoding, Point};
use crate::sampler::{Ask, sobol_point};

/// Trials that each branch gets before the better ones get more.
const TRIED: usize = 3;

/// BestSoFar points whose neighbourhood is searched.
const LEADERS: usize = 5;

/// Failures after which small points are no longer all that is tried.
const PATIENCE: usize = 4;

/// Ended trials whose waste is looked at.
const WINDOW: usize = 20;

/// Wasted share of them that is too much.
const TOLERATED: f64 = 0.15;

/// Spread points that a start beside infeasible regions chooses from.
const SPREAD: u64 = 48;

/// Trials with a choice, all of them failed, after which it is given up.
const MOST_FAILURES: usize = 20;

/// The probability that so many have failed by chance which is too small to try on.
const CHANCE: f64 = 0.1;

/// Pairs of choices that are drawn to find one that was not tried.
const DRAWN_PAIRS: usize = 200;

/// BestSoFar points that other choices are tried at.
const TRANSPLANTED: usize = 100;

/// How much of the way to a point that could be run is left, and the share of choices that differ.
const APART: f64 = 0.2;

/// The probability to be feasible that satisfies a start.
const LIKELY: f64 = 0.6;

/// A point of the scrambled Sobol sequence.
pub(super) fn spread(ask: &Ask, encoding: &Encoding, index: u64) -> Option<Point> {
    let params = sobol_point(ask.space, ask.seed, index)?;
    encoding.point(&ask.space.encode(&params))
}

/// Another spread point. Where some points could not be run: the first that probably can be.
pub(super) fn start(
    ask: &Ask,
    encoding: &Encoding,
    seen: &Observations,
    feasible: &mut FeasibilityModel,
    rng: &mut ChaCha8Rng,
) -> Option<Point> {
    if seen.infeasible.is_empty() {
        return spread(ask, encoding, ask.number);
    }
    if seen.points.is_empty() {
        return smaller(encoding, &seen.infeasible, rng);
    }
    let geometry = Geometry::new(encoding);
    let Some(feasibility) = feasible.of(&geometry, seen) else {
        return spread(ask, encoding, ask.number);
    };
    let points: Vec<Point> = (0..SPREAD)
        .filter_map(|k| spread(ask, encoding, ask.number + k * SPREAD))
        .collect();
    let chances = chances(&points, &geometry, &feasibility);
    let likely = (0..points.len()).find(|&i| chances[i] > LIKELY.ln());
    likely
        .or_else(|| highest(&chances))
        .map(|i| points[i].clone())
}

/// The logarithms of the points' probabilities to be feasible.
pub(super) fn chances(
    points: &[Point],
    geometry: &Geometry,
    feasibility: &Feasibility,
) -> Vec<f64> {
    let features: Vec<Vec<f64>> = points.iter().map(|p| geometry.features(p)).collect();
    feasibility.ln_many(&features)
}

/// The index of the highest value, of several the first.
pub(super) fn highest(values: &[f64]) -> Option<usize> {
    (0..values.len()).reduce(|a, b| if values[b] > values[a] { b } else { a })
}

/// A point that probably can be run after several that could not: drawn, moved most of the way
/// towards the nearest point that could be, and of many such the one that is most likely to be.
/// `None` where nothing has run yet, or where nothing is known of what can be.
pub(super) fn beside(
    encoding: &Encoding,
    seen: &Observations,
    feasible: &mut FeasibilityModel,
    rng: &mut ChaCha8Rng,
) -> Option<Point> {
    let geometry = Geometry::new(encoding);
    let feasibility = feasible.of(&geometry, seen)?;
    let ran: Vec<Vec<f64>> = seen.points.iter().map(|p| geometry.features(p)).collect();
    let taken = seen.taken();
    let mut points: Vec<Point> = Vec::new();
    for _ in 0..SPREAD {
        let mut point = encoding.draw(rng);
        let own = geometry.features(&point);
        let distances = ran.iter().map(|r| geometry.distance(&own, r));
        let nearest = (0..).zip(distances).min_by(|a, b| a.1.total_cmp(&b.1));
        approach(encoding, &mut point, &seen.points[nearest?.0], rng);
        if encoding.allowed(&point) && !taken.contains(&point) {
            points.push(point);
        }
    }
    highest(&chances(&points, &geometry, &feasibility)).map(|i| points[i].clone())
}

/// Moves a point most of the way to another; of its choices it keeps few.
fn approach(encoding: &Encoding, point: &mut Point, to: &[f64], rng: &mut ChaCha8Rng) {
    for (index, place) in point.iter_mut().enumerate() {
        let target = to[index];
        if target.is_nan() {
            continue;
        }
        *place = match encoding.axis(index) {
            Axis::Continuous | Axis::Grid(_) if !place.is_nan() => {
                target + APART * (*place - target)
            }
            Axis::Choice(_) if rng.random::<f64>() < APART => *place,
            Axis::Choice(_) | Axis::Continuous | Axis::Grid(_) | Axis::Fixed => target,
        };
    }
    encoding.complete(point, |_| rng.random());
}

/// A point for a study none of whose trials could be run. What makes a trial too large is usually
/// a number of things (rows, tokens, layers, units): integers are drawn from an ever smaller part
/// at their low ends. Of choices the first ones are taken, as people list them from small to
/// large, and then those that have failed least. Where that does not help, every other point is
/// the one farthest from all that failed.
fn smaller(encoding: &Encoding, failed: &[Point], rng: &mut ChaCha8Rng) -> Option<Point> {
    let draws = (0..200).map(|_| encoding.draw(rng));
    let mut draws: Vec<Point> = draws.filter(|p| encoding.allowed(p)).collect();
    if failed.len() > PATIENCE && failed.len().is_multiple_of(2) {
        let geometry = Geometry::new(encoding);
        let failed: Vec<Vec<f64>> = failed.iter().map(|f| geometry.features(f)).collect();
        let apart = |point: Point| {
            let own = geometry.features(&point);
            let distances = failed.iter().map(|f| geometry.distance(&own, f));
            (distances.fold(f64::INFINITY, f64::min), point)
        };
        let farthest = draws
            .into_iter()
            .map(apart)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        return farthest.map(|(_, point)| point);
    }
    let part = 0.3f64.powi(failed.len().min(PATIENCE) as i32);
    for point in &mut draws {
        for (index, place) in point.iter_mut().enumerate() {
            match encoding.axis(index) {
                Axis::Grid(_) => *place *= part,
                Axis::Choice(_) if failed.len() == 1 => *place = 0.0,
                Axis::Choice(n) => *place = least_failed(failed, index, n),
                Axis::Continuous | Axis::Fixed => {}
            }
        }
        encoding.complete(point, |_| 0.0);
    }
    draws.into_iter().find(|p| encoding.allowed(p))
}

/// The choice that was part of the fewest failures; of several the last.
fn least_failed(failed: &[Point], index: usize, choices: usize) -> f64 {
    let count = |choice: f64| failed.iter().filter(|p| p[index] == choice).count();
    let choices = (0..choices).map(|c| c as f64);
    choices
        .min_by_key(|c| (count(*c), -(*c as i64)))
        .unwrap_or(0.0)
}

/// A parameter of few values, and its coordinates.
pub(super) type ConditionalBranches = (usize, Vec<f64>);

/// What a proposal is made from.
pub(super) struct Proposer<'a> {
    pub encoding: &'a Encoding<'a>,
    pub seen: Observations,
    /// What of it the kernel's parameters are fitted to.
    pub earlier: Observations,
    /// Most trials that a model holds.
    pub most: usize,
}

impl Proposer<'_> {
    /// The point of the highest expected improvement.
    pub fn improve(&self, memory: &mut Cache, rng: &mut ChaCha8Rng) -> Option<Point> {
        self.search(None, &self.seen, memory, rng)
    }

    /// A point of a choice that is not the best one, by a process of its own: what is left to find
    /// there is not told by what was found elsewhere (where one optimiser has its best rate is not
    /// where the other has it), and a model of all of the space is soon sure of choices of which it
    /// has seen little.
    pub fn challenge(
        &self,
        branches: &ConditionalBranches,
        memory: &mut Cache,
        rng: &mut ChaCha8Rng,
    ) -> Option<Point> {
        let parameter = branches.0;
        let place = challenger(&self.seen, branches, rng)?;
        if never_ran(&self.seen, parameter, place) {
            return self.transplanted(&[(parameter, place)], memory, rng);
        }
        let branch = Proposer {
            encoding: self.encoding,
            seen: self.seen.within(parameter, place),
            earlier: self.earlier.within(parameter, place),
            most: self.most,
        };
        branch.search(Some((parameter, place)), &self.seen, memory, rng)
    }

    /// A point with two choices that have not been tried together. Where some points cannot be run
    /// nothing else tells whether such a pair can be: the classifier condemns both for the pairs
    /// that failed, and no expected improvement outweighs that.
    pub fn untried_pair(&self, memory: &mut Cache, rng: &mut ChaCha8Rng) -> Option<Point> {
        let best = &self.seen.points[*self.seen.ranked().first()?];
        let taken = self.seen.taken();
        let choices = |index: usize| match self.encoding.axis(index) {
            Axis::Choice(n) if !best[index].is_nan() => Some((index, n)),
            Axis::Choice(_) | Axis::Continuous | Axis::Grid(_) | Axis::Fixed => None,
        };
        let choices: Vec<(usize, usize)> = (0..best.len()).filter_map(choices).collect();
        let mut draw = || -> Option<[(usize, f64); 2]> {
            let two = choices.sample_array::<_, 2>(rng)?;
            Some(two.map(|(index, n)| (index, rng.random_range(0..n) as f64)))
        };
        let untried = |pair: &[(usize, f64); 2]| {
            let same = |p: &Point| pair.iter().all(|(index, place)| p[*index] == *place);
            !taken.tried.iter().any(same)
        };
        let pair = (0..DRAWN_PAIRS).find_map(|_| draw().filter(untried))?;
        self.transplanted(&pair, memory, rng)
    }

    /// One of the points that ran, with other choices: the best one that is at least half as likely
    /// to run as any.
    fn transplanted(
        &self,
        places: &[(usize, f64)],
        memory: &mut Cache,
        rng: &mut ChaCha8Rng,
    ) -> Option<Point> {
        let geometry = Geometry::new(self.encoding);
        let taken = self.seen.taken();
        let ranked = self.seen.ranked().into_iter().take(TRANSPLANTED);
        let moved = ranked.map(|i| {
            let mut point = self.seen.points[i].clone();
            places
                .iter()
                .for_each(|(index, place)| point[*index] = *place);
            self.encoding.complete(&mut point, |_| rng.random());
            point
        });
        let fits = |p: &Point| {
            places.iter().all(|(index, place)| p[*index] == *place)
                && self.encoding.allowed(p)
                && !taken.contains(p)
        };
        let points: Vec<Point> = moved.filter(fits).collect();
        let good = match memory.feasible.of(&geometry, &self.seen) {
            Some(feasibility) => {
                let chances = chances(&points, &geometry, &feasibility);
                let enough = chances[highest(&chances)?] + 0.5f64.ln();
                chances.iter().position(|chance| *chance >= enough)?
            }
            None => 0,
        };
        points.into_iter().nth(good)
    }

    /// `everything`: what can be run is learned from all of the space.
    fn search(
        &self,
        pinned: Option<(usize, f64)>,
        everything: &Observations,
        memory: &mut Cache,
        rng: &mut ChaCha8Rng,
    ) -> Option<Point> {
        let (encoding, seen) = (self.encoding, &self.seen);
        let geometry = Geometry::new(encoding);
        let model = Model::new(&geometry, seen, &self.earlier, self.most, &mut memory.fits)?;
        let ranked = seen.ranked().into_iter().take(LEADERS);
        let search = Search {
            encoding,
            acquisition: &Improvement {
                geometry: &geometry,
                parameters: encoding.len(),
                posterior: &model.posterior,
                best: model.best,
                feasibility: memory.feasible.of(&geometry, everything),
                demanded: demanded(&seen.ran).ln(),
            },
            leaders: &ranked.map(|i| seen.points[i].clone()).collect::<Vec<_>>(),
            taken: &seen.taken(),
            effort: effort(model.rows),
            pinned,
        };
        search.run(rng).map(|(point, _)| point)
    }
}

/// The branch whose turn it is: one that has hardly been tried; else any but the best one, the more
/// often the better its best trial.
fn challenger(
    seen: &Observations,
    (parameter, places): &ConditionalBranches,
    rng: &mut ChaCha8Rng,
) -> Option<f64> {
    let taken = seen.taken();
    let count = |place: f64| {
        taken
            .tried
            .iter()
            .filter(|p| p[*parameter] == place)
            .count()
    };
    let fewest = places.iter().copied().min_by_key(|p| count(*p))?;
    if count(fewest) < TRIED {
        return Some(fewest);
    }
    let unlucky =
        |place: &&f64| never_ran(seen, *parameter, **place) && by_chance(seen, count(**place));
    if let Some(place) = places.iter().find(unlucky) {
        return Some(*place);
    }
    let ranked = seen.ranked();
    // A choice none of whose many trials could be run has no rank, and no turn.
    let rank = |place: &f64| {
        let same = |&i: &usize| seen.points[i][*parameter] == *place;
        Some((ranked.iter().position(same)?, *place))
    };
    let mut branches: Vec<(usize, f64)> = places.iter().filter_map(rank).collect();
    branches.sort_by_key(|(rank, _)| *rank);
    let weights: Vec<f64> = (2..=branches.len()).map(|n| 1.0 / n as f64).collect();
    let mut left = rng.random::<f64>() * weights.iter().sum::<f64>();
    let chosen = weights.iter().position(|weight| {
        left -= weight;
        left <= 0.0
    });
    branches.get(1 + chosen?).map(|(_, place)| *place)
}

/// Whether trials with a parameter at this place have been tried, and none of them could be run.
fn never_ran(seen: &Observations, parameter: usize, place: f64) -> bool {
    let there = |p: &Point| p[parameter] == place;
    seen.infeasible.iter().any(there) && !seen.points.iter().any(there)
}

/// Whether so many trials may all have failed by chance, as often as trials fail here.
fn by_chance(seen: &Observations, count: usize) -> bool {
    let failed = seen.infeasible.len() as f64 / seen.ran.len().max(1) as f64;
    count < MOST_FAILURES && failed.powi(count as i32) > CHANCE
}

/// The probability of being feasible below which a point is hardly ever proposed: the higher, the
/// more of the latest trials were wasted. Where the best points lie on the border of what can be
/// run, the expected improvement alone would waste every other trial there.
pub(super) fn demanded(ran: &[bool]) -> f64 {
    let streak = streak(ran);
    let latest = &ran[ran.len().saturating_sub(WINDOW)..];
    let wasted = latest.iter().filter(|ran| !**ran).count() as f64 / WINDOW as f64;
    let by_share = 0.5 + 0.4 * (wasted / TOLERATED).min(1.0);
    let by_streak = [0.0, 0.9, 0.97][streak.min(2)];
    by_share.max(by_streak)
}

/// The number of trials in a row, up to the latest one, that could not be run.
pub(super) fn streak(ran: &[bool]) -> usize {
    ran.iter().rev().take_while(|ran| !**ran).count()
}

/// What a search costs grows with the square of the trials; its work shrinks with them.
fn effort(trials: usize) -> Effort {
    let part = (150.0 / trials as f64).clamp(0.35, 1.0);
    let scaled = |n: f64| (n * part) as usize;
    Effort {
        draws: scaled(400.0),
        neighbours: scaled(300.0),
        starts: scaled(6.0),
        evaluations: 20,
    }
}
