//! A fitted Gaussian process, and the fits that need not be made again.

use std::collections::VecDeque;

use super::fit::{self, Sample};
use super::kernel::{Geometry, Hyper};
use super::observations::Observations;
use super::posterior::Posterior;
use super::targets;

/// Most trials that the kernel's parameters are fitted to.
const FITTED: usize = 150;

/// Evaluations of a fit from each of its starts.
const EVALUATIONS: usize = 40;

/// Fits that are kept: those of a study's branches, and of some numbers of trials.
const KEPT: usize = 32;

/// The trials with a loss that the kernel's parameters are fitted to, of so many: they hardly
/// change from trial to trial, and fitting them is what costs most.
pub(super) fn refit_size(trials: usize) -> usize {
    trials - trials % (1 + trials / 32)
}

/// A Gaussian process that holds observations.
pub(super) struct Model {
    pub posterior: Posterior,
    /// The least target of a finished trial, without its noise.
    pub best: f64,
    /// Number of observations that it holds.
    pub rows: usize,
}

impl Model {
    /// A model of what has been `seen`, at most `most` of it, its parameters fitted to what had
    /// been seen `earlier`. `None` where the covariance cannot be factorised.
    pub fn new(
        geometry: &Geometry,
        seen: &Observations,
        earlier: &Observations,
        most: usize,
        fits: &mut Fits,
    ) -> Option<Model> {
        let few = Rows::new(geometry, earlier, FITTED.min(most));
        let hyper = fits.of(geometry, few);
        let kept = Rows::new(geometry, seen, most);
        let latest = &seen.pending[seen.pending.len().saturating_sub(most)..];
        let pending: Vec<Vec<f64>> = latest.iter().map(|p| geometry.features(p)).collect();
        let posterior = Posterior::new(hyper, kept.sample(geometry), &pending)?;
        let smoothed = posterior.smoothed(kept.sample(geometry));
        let sure = smoothed.iter().zip(&kept.noise).filter(|(_, n)| **n == 0.0);
        let least = sure.map(|(s, _)| *s).reduce(f64::min);
        let best = least.or_else(|| smoothed.iter().copied().reduce(f64::min));
        Some(Model {
            posterior,
            best: best.unwrap_or(0.0),
            rows: kept.targets.len(),
        })
    }
}

/// The latest fits, by what they were made from. A fit is a function of that alone.
#[derive(Debug, Clone, Default)]
pub(super) struct Fits(VecDeque<(Rows, Hyper)>);

impl Fits {
    fn of(&mut self, geometry: &Geometry, rows: Rows) -> Hyper {
        if let Some((_, hyper)) = self.0.iter().find(|(known, _)| *known == rows) {
            return hyper.clone();
        }
        let hyper = fit::fit(rows.sample(geometry), EVALUATIONS);
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back((rows, hyper.clone()));
        hyper
    }
}

/// What a model is made from.
#[derive(Debug, Clone, PartialEq)]
struct Rows {
    categorical: Vec<bool>,
    features: Vec<Vec<f64>>,
    targets: Vec<f64>,
    noise: Vec<f64>,
}

impl Rows {
    fn new(geometry: &Geometry, seen: &Observations, most: usize) -> Rows {
        let rows = subset(&seen.ranked(), most);
        let targets = targets::standardised(&seen.losses);
        let features = rows.iter().map(|&i| geometry.features(&seen.points[i]));
        Rows {
            categorical: geometry.categorical.clone(),
            features: features.collect(),
            targets: rows.iter().map(|&i| targets[i]).collect(),
            noise: rows.iter().map(|&i| seen.doubts[i]).collect(),
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
