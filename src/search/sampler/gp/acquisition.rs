//! What a search maximises.

use std::sync::Arc;

use super::feasibility::Feasibility;
use super::improvement;
use super::kernel::Geometry;
use super::posterior::Posterior;
use super::search::Acquisition;
use crate::sampler::encoding::Point;

/// How steeply the acquisition falls below the demanded probability.
const PENALTY: f64 = 2000.0;

/// The logarithm of the expected improvement times the probability of being feasible.
pub(super) struct Improvement<'a> {
    pub geometry: &'a Geometry,
    /// Number of parameters.
    pub parameters: usize,
    pub posterior: &'a Posterior,
    /// The target to be improved upon.
    pub best: f64,
    pub feasibility: Option<Arc<Feasibility>>,
    /// The logarithm of the probability of being feasible that is demanded.
    pub demanded: f64,
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
        let mut by_feature: Vec<f64> = (0..p.mean_slope.len())
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
    use super::super::feasibility::FeasibilityModel;
    use super::super::fit::Sample;
    use super::super::kernel::Hyper;
    use super::super::observations::Observations;
    use super::*;
    use crate::sampler::encoding::Encoding;
    use crate::sampler::testing;
    use crate::study;

    fn hyper(features: usize) -> Hyper {
        let weights = (0..features).map(|k| 0.3 + 0.4 * k as f64);
        Hyper {
            single: weights.clone().map(|w| 2.0 * w).collect(),
            weights: weights.collect(),
            joint: 0.8,
            sum: 0.4,
            noise: 0.01,
            mean: 0.1,
        }
    }

    /// Points of which those can be run whose first coordinate is small.
    fn observed(encoding: &Encoding) -> Observations {
        let mut rng = study::rng(4, 0, "test");
        let mut found = Observations::default();
        for _ in 0..40 {
            let point = encoding.draw(&mut rng);
            let runs = point[0] < 0.7;
            found.ran.push(runs);
            match runs {
                true => found.points.push(point),
                false => found.infeasible.push(point),
            }
        }
        found
    }

    #[test]
    fn its_derivatives_are_those_of_its_value() {
        let space = testing::mixed_space();
        let encoding = Encoding::new(&space);
        let geometry = Geometry::new(&encoding);
        let seen = observed(&encoding);
        let features: Vec<Vec<f64>> = (seen.points.iter()).map(|p| geometry.features(p)).collect();
        let targets: Vec<f64> = features.iter().map(|f| (3.0 * f[0]).sin() + f[1]).collect();
        let sample = Sample {
            features: &features,
            categorical: &geometry.categorical,
            targets: &targets,
            noise: &vec![0.0; targets.len()],
        };
        let posterior = Posterior::new(hyper(geometry.categorical.len()), sample, &[]).unwrap();
        let border = FeasibilityModel::default().of(&geometry, &seen);
        assert!(border.is_some());
        // Without a border, one that is far enough away, and one whose penalty counts.
        for (feasibility, demanded) in [(None, 0.0), (border.clone(), -50.0), (border, 0.0)] {
            let acquisition = Improvement {
                geometry: &geometry,
                parameters: encoding.len(),
                posterior: &posterior,
                best: -0.4,
                feasibility,
                demanded,
            };
            let mut rng = study::rng(4, 1, "test");
            for _ in 0..5 {
                let point = encoding.draw(&mut rng);
                let (value, slopes) = acquisition.one(&point);
                let at = |index: usize, h: f64| {
                    let mut moved = point.clone();
                    moved[index] += h;
                    acquisition.many(&[moved])[0]
                };
                assert!((value - at(0, 0.0)).abs() < 1e-9 * value.abs().max(1.0));
                for (index, slope) in slopes.iter().enumerate() {
                    if !encoding.axis(index).numeric() {
                        assert_eq!(*slope, 0.0);
                        continue;
                    }
                    let numeric = (at(index, 1e-6) - at(index, -1e-6)) / 2e-6;
                    let apart = (numeric - slope).abs();
                    assert!(
                        apart < 1e-5 * slope.abs().max(1.0),
                        "{index}: {numeric} {slope}"
                    );
                }
            }
        }
    }
}
