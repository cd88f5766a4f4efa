//! The Gaussian process beside its observations: mean and variance at other points.

use faer::linalg::triangular_inverse::invert_lower_triangular;
use faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place, solve_upper_triangular_in_place,
};
use faer::{Mat, Par, Side};

use super::fit::{JITTER, Sample};
use super::kernel::{Columns, Hyper, Near};
use super::simd::{self, Loops, vectorised};

/// A Gaussian process given observations, and pending points at which the function is taken to be
/// what the observations predict ("fantasies": they change no mean and lower the variance).
#[derive(Debug, Clone)]
pub(super) struct Posterior {
    hyper: Hyper,
    /// Observations, then pending points.
    points: Columns,
    /// The Cholesky factor of the covariance of observations, then pending points.
    factor: Mat<f64>,
    /// The transpose of its inverse, whose columns are the rows of the inverse: a climb asks for one
    /// point after another, and a product costs less than solving for each.
    inverse: Mat<f64>,
    /// The inverse covariance of the observations times their residuals.
    alpha: Vec<f64>,
}

/// What rounding leaves of a variance at least.
const LEAST_VARIANCE: f64 = 1e-12;

/// Mean and variance (of the function, without noise), with their derivatives by the features.
#[derive(Debug, Clone, Default)]
pub(super) struct Prediction {
    pub mean: f64,
    pub variance: f64,
    pub mean_slope: Vec<f64>,
    pub variance_slope: Vec<f64>,
}

/// The covariances of points (rows) and others (columns).
fn covariances(hyper: &Hyper, points: &Columns, others: &[impl AsRef<[f64]>]) -> Mat<f64> {
    let mut found = Mat::<f64>::zeros(points.len(), others.len());
    let mut near = Near::default();
    for (j, other) in others.iter().enumerate() {
        vectorised(Fill {
            hyper,
            points,
            at: other.as_ref(),
            near: &mut near,
            out: found.col_as_slice_mut(j),
        });
    }
    found
}

/// The covariances of points and one.
struct Fill<'a> {
    hyper: &'a Hyper,
    points: &'a Columns,
    at: &'a [f64],
    near: &'a mut Near,
    out: &'a mut [f64],
}

impl Loops for Fill<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        (self.hyper).covariances(self.points, self.at, self.near, self.out);
    }
}

/// What one point's covariances say of mean and variance there.
struct Predict<'a> {
    posterior: &'a Posterior,
    at: &'a [f64],
    near: &'a Near,
    values: &'a [f64],
}

impl Loops for Predict<'_> {
    type Output = Prediction;

    #[inline(always)]
    fn run(self) -> Prediction {
        let Posterior { hyper, alpha, .. } = self.posterior;
        let n = self.values.len();
        let (mut explained, mut weights) = (0.0, vec![0.0; n]);
        for i in 0..n {
            let row = &self.posterior.inverse.col_as_slice(i)[..=i];
            let part = simd::dot(row, &self.values[..=i]);
            explained += part * part;
            simd::add(&mut weights[..=i], part, row);
        }
        let both = [alpha.as_slice(), weights.as_slice()];
        let [mean_slope, mut variance_slope] =
            hyper.slopes(&self.posterior.points, self.at, self.near, both);
        variance_slope.iter_mut().for_each(|slope| *slope *= -2.0);
        Prediction {
            mean: hyper.mean + simd::dot(alpha, &self.values[..alpha.len()]),
            variance: (hyper.signal() - explained).max(LEAST_VARIANCE),
            mean_slope,
            variance_slope,
        }
    }
}

impl Posterior {
    /// `None` where the covariance cannot be factorised.
    pub fn new(hyper: Hyper, sample: Sample, pending: &[Vec<f64>]) -> Option<Posterior> {
        let rows: Vec<&Vec<f64>> = sample.features.iter().chain(pending).collect();
        let points = Columns::new(sample.categorical, &rows);
        let (n, m) = (points.len(), sample.features.len());
        let mut covariance = covariances(&hyper, &points, &rows);
        for i in 0..n {
            let known = sample.noise.get(i).copied().unwrap_or(0.0);
            covariance[(i, i)] = hyper.signal() + hyper.noise + known + JITTER;
        }
        let factor = covariance.llt(Side::Lower).ok()?.L().to_owned();
        let mut alpha = Mat::from_fn(m, 1, |i, _| sample.targets[i] - hyper.mean);
        // The factor of a leading block is the leading block of the factor.
        let block = factor.as_ref().submatrix(0, 0, m, m);
        solve_lower_triangular_in_place(block, alpha.as_mut(), Par::Seq);
        solve_upper_triangular_in_place(block.transpose(), alpha.as_mut(), Par::Seq);
        let mut inverse = Mat::<f64>::zeros(n, n);
        invert_lower_triangular(inverse.transpose_mut(), factor.as_ref(), Par::Seq);
        Some(Posterior {
            alpha: (0..m).map(|i| alpha[(i, 0)]).collect(),
            hyper,
            points,
            factor,
            inverse,
        })
    }

    /// Means and variances at many points, a column of arithmetic each.
    pub fn many(&self, points: &[Vec<f64>]) -> Vec<(f64, f64)> {
        let mut cross = covariances(&self.hyper, &self.points, points);
        let known = self.alpha.len();
        let mean = |j| self.hyper.mean + simd::dot(&self.alpha, &cross.col_as_slice(j)[..known]);
        let means: Vec<f64> = (0..points.len()).map(mean).collect();
        solve_lower_triangular_in_place(self.factor.as_ref(), cross.as_mut(), Par::Seq);
        let variance = |j| {
            let explained = simd::dot(cross.col_as_slice(j), cross.col_as_slice(j));
            (self.hyper.signal() - explained).max(LEAST_VARIANCE)
        };
        let variances = (0..points.len()).map(variance);
        means.into_iter().zip(variances).collect()
    }

    /// Mean, variance and derivatives at one point.
    pub fn one(&self, point: &[f64]) -> Prediction {
        let (mut near, mut values) = (Near::default(), vec![0.0; self.points.len()]);
        vectorised(Fill {
            hyper: &self.hyper,
            points: &self.points,
            at: point,
            near: &mut near,
            out: &mut values,
        });
        vectorised(Predict {
            posterior: self,
            at: point,
            near: &near,
            values: &values,
        })
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
