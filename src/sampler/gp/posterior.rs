//! The Gaussian process beside its observations: mean and variance at other points.

use faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place, solve_upper_triangular_in_place,
};
use faer::{Mat, MatRef, Par, Side};

use super::fit::{JITTER, Sample};
use super::kernel::Hyper;

/// A Gaussian process given observations, and pending points at which the function is taken to be
/// what the observations predict ("fantasies": they change no mean and lower the variance).
#[derive(Debug, Clone)]
pub(super) struct Posterior {
    hyper: Hyper,
    categorical: Vec<bool>,
    features: Vec<Vec<f64>>,
    /// The Cholesky factor of the covariance of observations, then pending points.
    factor: Mat<f64>,
    /// The inverse covariance of the observations times their residuals.
    alpha: Vec<f64>,
}

/// Mean and variance (of the function, without noise), with their derivatives by the features.
#[derive(Debug, Clone, Default)]
pub(super) struct Prediction {
    pub mean: f64,
    pub variance: f64,
    pub mean_slope: Vec<f64>,
    pub variance_slope: Vec<f64>,
}

impl Posterior {
    /// `None` where the covariance cannot be factorised.
    pub fn new(hyper: Hyper, sample: Sample, pending: &[Vec<f64>]) -> Option<Posterior> {
        let rows = sample.features.iter().chain(pending);
        let features: Vec<Vec<f64>> = rows.cloned().collect();
        let (n, m) = (features.len(), sample.features.len());
        let mut covariance = Mat::<f64>::zeros(n, n);
        for i in 0..n {
            for j in 0..i {
                covariance[(i, j)] =
                    hyper.covariance(sample.categorical, &features[i], &features[j]);
            }
            let known = sample.noise.get(i).copied().unwrap_or(0.0);
            covariance[(i, i)] = hyper.signal() + hyper.noise + known + JITTER;
        }
        let factor = covariance.llt(Side::Lower).ok()?.L().to_owned();
        let mut alpha = Mat::from_fn(m, 1, |i, _| sample.targets[i] - hyper.mean);
        // The factor of a leading block is the leading block of the factor.
        let block = factor.as_ref().submatrix(0, 0, m, m);
        solve_lower_triangular_in_place(block, alpha.as_mut(), Par::Seq);
        solve_upper_triangular_in_place(block.transpose(), alpha.as_mut(), Par::Seq);
        Some(Posterior {
            categorical: sample.categorical.to_vec(),
            alpha: (0..m).map(|i| alpha[(i, 0)]).collect(),
            hyper,
            features,
            factor,
        })
    }

    /// Means and variances at many points, a column of arithmetic each.
    pub fn many(&self, points: &[Vec<f64>]) -> Vec<(f64, f64)> {
        let n = self.features.len();
        let mut cross = Mat::<f64>::zeros(n, points.len());
        for (j, point) in points.iter().enumerate() {
            for (i, row) in self.features.iter().enumerate() {
                cross[(i, j)] = self.hyper.covariance(&self.categorical, row, point);
            }
        }
        let mean = |j: usize| {
            let products = self.alpha.iter().enumerate();
            self.hyper.mean + products.map(|(i, a)| a * cross[(i, j)]).sum::<f64>()
        };
        let means: Vec<f64> = (0..points.len()).map(mean).collect();
        solve_lower_triangular_in_place(self.factor.as_ref(), cross.as_mut(), Par::Seq);
        let variance = |j: usize| {
            let explained: f64 = (0..n).map(|i| cross[(i, j)] * cross[(i, j)]).sum();
            (self.hyper.signal() - explained).max(1e-12)
        };
        let variances = (0..points.len()).map(variance);
        means.into_iter().zip(variances).collect()
    }

    /// Mean, variance and derivatives at one point.
    pub fn one(&self, point: &[f64]) -> Prediction {
        let n = self.features.len();
        let mut values = Mat::<f64>::zeros(n, 1);
        let mut slopes: Vec<Vec<f64>> = Vec::with_capacity(n);
        for (i, row) in self.features.iter().enumerate() {
            let (value, by_feature) = (self.hyper).covariance_slopes(&self.categorical, row, point);
            values[(i, 0)] = value;
            slopes.push(by_feature);
        }
        let products = self.alpha.iter().enumerate();
        let mean = self.hyper.mean + products.map(|(i, a)| a * values[(i, 0)]).sum::<f64>();
        let factor: MatRef<f64> = self.factor.as_ref();
        solve_lower_triangular_in_place(factor, values.as_mut(), Par::Seq);
        let explained: f64 = (0..n).map(|i| values[(i, 0)] * values[(i, 0)]).sum();
        solve_upper_triangular_in_place(factor.transpose(), values.as_mut(), Par::Seq);
        let d = self.categorical.len();
        let (mut mean_slope, mut variance_slope) = (vec![0.0; d], vec![0.0; d]);
        for (i, slopes) in slopes.iter().enumerate() {
            let by_mean = self.alpha.get(i).copied().unwrap_or(0.0);
            let by_variance = -2.0 * values[(i, 0)];
            for k in 0..d {
                mean_slope[k] += by_mean * slopes[k];
                variance_slope[k] += by_variance * slopes[k];
            }
        }
        Prediction {
            mean,
            variance: (self.hyper.signal() - explained).max(1e-12),
            mean_slope,
            variance_slope,
        }
    }

    /// The means at the observations of the sample that it was made from: without their noise.
    pub fn smoothed(&self, sample: Sample) -> Vec<f64> {
        let observed = (0..sample.targets.len()).map(|i| {
            let noise = self.hyper.noise + sample.noise[i] + JITTER;
            sample.targets[i] - noise * self.alpha[i]
        });
        observed.collect()
    }

    /// Variance of the noise.
    pub fn noise(&self) -> f64 {
        self.hyper.noise
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CATEGORICAL: [bool; 2] = [false, true];

    fn hyper() -> Hyper {
        Hyper {
            weights: vec![6.0, 0.7],
            single: vec![20.0, 1.5],
            joint: 0.9,
            sum: 0.5,
            noise: 1e-6,
            mean: 0.3,
        }
    }

    fn features() -> Vec<Vec<f64>> {
        let rows = [(0.05, 0.0), (0.3, 1.0), (0.45, 0.0), (0.8, 0.0), (0.9, 1.0)];
        rows.map(|(x, choice)| vec![x, choice, 0.0]).to_vec()
    }

    fn sample<'a>(features: &'a [Vec<f64>], noise: &'a [f64]) -> Sample<'a> {
        Sample {
            features,
            categorical: &CATEGORICAL,
            targets: &[0.1, -1.0, 0.7, 1.5, -0.4],
            noise,
        }
    }

    #[test]
    fn it_passes_through_what_was_observed_and_returns_to_the_mean_far_away() {
        let (features, noise) = (features(), [0.0; 5]);
        let sample = sample(&features, &noise);
        let posterior = Posterior::new(hyper(), sample, &[]).unwrap();
        for ((mean, variance), target) in posterior.many(&features).iter().zip(sample.targets) {
            assert!((mean - target).abs() < 1e-4, "{mean} {target}");
            assert!(*variance < 1e-5);
        }
        for (smooth, target) in posterior.smoothed(sample).iter().zip(sample.targets) {
            assert!((smooth - target).abs() < 1e-4);
        }
        let joint = Hyper {
            joint: 1.4,
            sum: 0.0,
            ..hyper()
        };
        let posterior = Posterior::new(joint, sample, &[]).unwrap();
        let (mean, variance) = posterior.many(&[vec![50.0, 2.0, 0.0]])[0];
        assert!((mean - 0.3).abs() < 1e-6 && (variance - 1.4).abs() < 1e-6);
    }

    #[test]
    fn a_doubtful_observation_pulls_less() {
        let features = features();
        let doubts = [0.0, 0.0, 0.0, 4.0, 0.0];
        let at = |noise: &[f64]| {
            let posterior = Posterior::new(hyper(), sample(&features, noise), &[]).unwrap();
            posterior.many(&features[3..4])[0]
        };
        let (sure, doubtful) = (at(&[0.0; 5]), at(&doubts));
        assert!(doubtful.0 < sure.0 - 0.3 && doubtful.1 > sure.1 + 0.1);
    }

    #[test]
    fn pending_points_lower_the_variance_and_leave_the_mean() {
        let (features, noise) = (features(), [0.0; 5]);
        let pending = [vec![0.62, 1.0, 0.0]];
        let of = |pending: &[Vec<f64>]| {
            Posterior::new(hyper(), sample(&features, &noise), pending)
                .unwrap()
                .many(&[vec![0.62, 1.0, 0.0], vec![0.7, 1.0, 0.0]])
        };
        let (without, with) = (of(&[]), of(&pending));
        for (a, b) in without.iter().zip(&with) {
            assert!((a.0 - b.0).abs() < 1e-9);
            assert!(b.1 < a.1);
        }
        assert!(with[0].1 < 1e-5 && without[0].1 > 0.01);
    }

    #[test]
    fn one_point_is_as_many_and_the_derivatives_are_those_of_the_values() {
        let features = features();
        let noise = [0.0, 0.3, 0.0, 0.0, 0.1];
        let pending = [vec![0.6, 0.0, 0.0]];
        let posterior = Posterior::new(hyper(), sample(&features, &noise), &pending).unwrap();
        let at = |x: f64| posterior.many(&[vec![x, 1.0, 0.0]])[0];
        let one = posterior.one(&[0.2, 1.0, 0.0]);
        let (mean, variance) = at(0.2);
        assert!((one.mean - mean).abs() < 1e-12 && (one.variance - variance).abs() < 1e-12);
        let h = 1e-6;
        let (low, high) = (at(0.2 - h), at(0.2 + h));
        assert!((one.mean_slope[0] - (high.0 - low.0) / (2.0 * h)).abs() < 1e-6);
        assert!((one.variance_slope[0] - (high.1 - low.1) / (2.0 * h)).abs() < 1e-6);
        assert_eq!((one.mean_slope[1], one.variance_slope[1]), (0.0, 0.0));
    }
}
