//! A proposal: spread points at first, then the model's.

use rand_chacha::ChaCha8Rng;

use super::feasibility::Feasibility;
use super::fit::{self, Sample};
use super::improvement;
use super::kernel::Geometry;
use super::observations::Observations;
use super::posterior::Posterior;
use super::search::{Acquisition, Effort, Search};
use super::targets;
use crate::sampler::encoding::{Axis, Encoding, Point};
use crate::sampler::{Ask, sobol_point};

/// Most trials that the kernel's parameters are fitted to.
const FITTED: usize = 150;

/// Evaluations of a fit from each of its starts.
const EVALUATIONS: usize = 40;

/// Best points whose neighbourhood is searched.
const LEADERS: usize = 5;

/// Failures after which small points are no longer all that is tried.
const PATIENCE: usize = 4;

/// Ended trials whose waste is looked at.
const WINDOW: usize = 20;

/// Wasted share of them that is too much.
const TOLERATED: f64 = 0.15;

/// How steeply the acquisition falls below the demanded probability.
const PENALTY: f64 = 2000.0;

/// Spread points that a start beside infeasible regions chooses from.
const SPREAD: u64 = 48;

/// The probability to be feasible that satisfies a start.
const LIKELY: f64 = 0.6;

/// Another spread point. Where some points could not be run: the first that probably can be.
pub(super) fn start(
    ask: &Ask,
    encoding: &Encoding,
    seen: &Observations,
    rng: &mut ChaCha8Rng,
) -> Option<Point> {
    let spread = |index: u64| {
        let params = sobol_point(ask.space, ask.seed, index)?;
        encoding.point(&ask.space.encode(&params))
    };
    if seen.infeasible.is_empty() {
        return spread(ask.number);
    }
    if seen.points.is_empty() {
        return smaller(encoding, &seen.infeasible, rng);
    }
    let geometry = Geometry::new(encoding);
    let feasibility = Feasibility::new(&geometry, &seen.points, &seen.infeasible)?;
    let points: Vec<Point> = (0..SPREAD)
        .filter_map(|k| spread(ask.number + k * SPREAD))
        .collect();
    let features: Vec<Vec<f64>> = points.iter().map(|p| geometry.features(p)).collect();
    let chances = feasibility.ln_many(&features);
    let likely = (0..points.len()).find(|&i| chances[i] > LIKELY.ln());
    let best = || (0..points.len()).reduce(|a, b| if chances[b] > chances[a] { b } else { a });
    likely.or_else(best).map(|i| points[i].clone())
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
        let apart = |p: &Point| {
            let own = geometry.features(p);
            let distances = failed
                .iter()
                .map(|f| geometry.distance(&own, &geometry.features(f)));
            distances.fold(f64::INFINITY, f64::min)
        };
        return draws
            .into_iter()
            .max_by(|a, b| apart(a).total_cmp(&apart(b)));
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
        encoding.settle(point, |_| 0.0);
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

/// The point of the highest expected improvement.
pub(super) fn improve(
    encoding: &Encoding,
    seen: &Observations,
    most: usize,
    rng: &mut ChaCha8Rng,
) -> Option<Point> {
    let geometry = Geometry::new(encoding);
    let features = |points: &[Point]| -> Vec<Vec<f64>> {
        points.iter().map(|p| geometry.features(p)).collect()
    };
    let ranked = seen.ranked();
    let all = Rows {
        features: features(&seen.points),
        targets: targets::standardised(&seen.losses),
        noise: seen.doubts.clone(),
    };
    let kept = all.only(&subset(&ranked, most));
    let few = all.only(&subset(&ranked, FITTED.min(most)));
    let hyper = fit::fit(few.sample(&geometry), EVALUATIONS);
    let posterior = Posterior::new(hyper, kept.sample(&geometry), &features(&seen.pending))?;
    let sure = kept.noise.iter().map(|n| *n == 0.0);
    let smoothed = posterior.smoothed(kept.sample(&geometry));
    let best = smoothed
        .iter()
        .zip(sure)
        .filter(|(_, sure)| *sure)
        .map(|(s, _)| *s);
    let acquisition = Improvement {
        best: best.reduce(f64::min).unwrap_or(0.0),
        feasibility: Feasibility::new(&geometry, &seen.points, &seen.infeasible),
        demanded: demanded(&seen.ran).ln(),
        geometry: &geometry,
        parameters: encoding.len(),
        posterior: &posterior,
    };
    let leaders: Vec<Point> = ranked
        .iter()
        .take(LEADERS)
        .map(|&i| seen.points[i].clone())
        .collect();
    let taken = seen
        .points
        .iter()
        .chain(&seen.pending)
        .chain(&seen.infeasible);
    let search = Search {
        encoding,
        acquisition: &acquisition,
        leaders: &leaders,
        taken: &taken.cloned().collect::<Vec<Point>>(),
        effort: effort(kept.targets.len()),
    };
    search.run(rng).map(|(point, _)| point)
}

/// The probability of being feasible below which a point is hardly ever proposed: the higher, the
/// more of the latest trials were wasted. Where the best points lie on the border of what can be
/// run, the expected improvement alone would waste every other trial there.
fn demanded(ran: &[bool]) -> f64 {
    let streak = ran.iter().rev().take_while(|ran| !**ran).count();
    let latest = &ran[ran.len().saturating_sub(WINDOW)..];
    let wasted = latest.iter().filter(|ran| !**ran).count() as f64 / WINDOW as f64;
    let by_share = 0.5 + 0.4 * (wasted / TOLERATED).min(1.0);
    let by_streak = [0.0, 0.9, 0.97][streak.min(2)];
    by_share.max(by_streak)
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

/// What a model is made from.
#[derive(Debug, Clone)]
struct Rows {
    features: Vec<Vec<f64>>,
    targets: Vec<f64>,
    noise: Vec<f64>,
}

impl Rows {
    fn only(&self, rows: &[usize]) -> Rows {
        Rows {
            features: rows.iter().map(|&i| self.features[i].clone()).collect(),
            targets: rows.iter().map(|&i| self.targets[i]).collect(),
            noise: rows.iter().map(|&i| self.noise[i]).collect(),
        }
    }

    fn sample<'a>(&'a self, geometry: &'a Geometry) -> Sample<'a> {
        Sample {
            features: &self.features,
            categorical: &geometry.categorical,
            targets: &self.targets,
            noise: &self.noise,
        }
    }
}

/// At most `most` of the rows, ascending: the best third, the latest third, and others spread
/// evenly over the ranks.
fn subset(ranked: &[usize], most: usize) -> Vec<usize> {
    let n = ranked.len();
    if n <= most {
        return (0..n).collect();
    }
    let third = most / 3;
    let mut keep = vec![false; n];
    ranked[..third].iter().for_each(|&i| keep[i] = true);
    keep[n - third..].fill(true);
    let rest: Vec<usize> = ranked.iter().copied().filter(|&i| !keep[i]).collect();
    let free = most - keep.iter().filter(|k| **k).count();
    for k in 0..free {
        keep[rest[k * rest.len() / free]] = true;
    }
    (0..n).filter(|&i| keep[i]).collect()
}

/// The logarithm of the expected improvement times the probability of being feasible.
struct Improvement<'a> {
    geometry: &'a Geometry,
    /// Number of parameters.
    parameters: usize,
    posterior: &'a Posterior,
    best: f64,
    feasibility: Option<Feasibility>,
    /// The logarithm of the probability that is demanded.
    demanded: f64,
}

impl Improvement<'_> {
    /// What the logarithm of a probability of being feasible adds, and its derivative.
    fn feasible(&self, chance: f64) -> (f64, f64) {
        if chance < self.demanded {
            (chance + PENALTY * (chance - self.demanded), 1.0 + PENALTY)
        } else {
            (chance, 1.0)
        }
    }
}

impl Acquisition for Improvement<'_> {
    fn many(&self, points: &[Point]) -> Vec<f64> {
        let features: Vec<Vec<f64>> = points.iter().map(|p| self.geometry.features(p)).collect();
        let noise = self.posterior.noise();
        let predictions = self.posterior.many(&features).into_iter();
        let mut values: Vec<f64> = predictions
            .map(|(mean, variance)| {
                improvement::ln_improvement(mean, variance, self.best)
                    + improvement::augmented(variance, noise).0
            })
            .collect();
        if let Some(feasibility) = &self.feasibility {
            for (value, chance) in values.iter_mut().zip(feasibility.ln_many(&features)) {
                *value += self.feasible(chance).0;
            }
        }
        values
    }

    fn one(&self, point: &[f64]) -> (f64, Vec<f64>) {
        let features = self.geometry.features(point);
        let p = self.posterior.one(&features);
        let (gain, by_mean, by_variance) = improvement::with_slopes(p.mean, p.variance, self.best);
        let (worth, worth_slope) = improvement::augmented(p.variance, self.posterior.noise());
        let by_variance = by_variance + worth_slope;
        let mut value = gain + worth;
        let mut by_feature: Vec<f64> = (0..features.len())
            .map(|k| by_mean * p.mean_slope[k] + by_variance * p.variance_slope[k])
            .collect();
        if let Some(feasibility) = &self.feasibility {
            let (chance, slopes) = feasibility.ln_one(&features);
            let (chance, factor) = self.feasible(chance);
            value += chance;
            for (sum, slope) in by_feature.iter_mut().zip(slopes) {
                *sum += factor * slope;
            }
        }
        let mut slopes = vec![0.0; self.parameters];
        for (slope, &index) in by_feature.iter().zip(&self.geometry.parameters) {
            slopes[index] = *slope;
        }
        (value, slopes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subset_holds_the_best_and_the_latest_and_never_too_many() {
        let ranked: Vec<usize> = (0..500).rev().collect();
        let rows = subset(&ranked, 90);
        assert_eq!(rows.len(), 90);
        assert!(rows.windows(2).all(|w| w[0] < w[1]));
        assert!((470..500).all(|i| rows.contains(&i)));
        let forward: Vec<usize> = (0..500).collect();
        let rows = subset(&forward, 90);
        assert_eq!(rows.len(), 90);
        assert!((0..30).chain(470..500).all(|i| rows.contains(&i)));
        assert_eq!(subset(&ranked, 500).len(), 500);
    }
}
