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
