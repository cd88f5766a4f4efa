//! The kernel's parameters: maximum a posteriori, from fixed starts.
//!
//! Length scales have the log-normal prior that grows with the square root of the dimension
//! (Hvarfner, Hellsten and Nardi, "Vanilla Bayesian Optimization Performs Great in High
//! Dimensions", 2024, arXiv 2402.02229); noise and signal have log-normal priors of their own. They
//! keep a fit of a few points from explaining them by one short length scale or by noise alone.

use faer::linalg::solvers::DenseSolveCore;
use faer::{Mat, Side};

use super::kernel::{Hyper, common, matern, rational, square};
use super::lbfgs::{self, Limits};
use super::simd::{self, Loops, vectorised};

/// Mean and deviation of the logarithm of a length scale, without the dimension's part.
const LENGTH: (f64, f64) = (-1.0, 1.0);
/// The same of a length scale of a feature's own part.
const SINGLE: (f64, f64) = (-1.3, 1.0);
/// The same of the variance of the joint part.
const JOINT: (f64, f64) = (-0.7, 1.0);
/// The same of the variance of the sum.
const SUM: (f64, f64) = (0.2, 1.0);
/// The same of the noise's variance.
const NOISE: (f64, f64) = (-7.0, 2.0);
/// Deviation of the mean.
const MEAN: f64 = 1.0;

/// Bounds of the logarithms of inverse squared length scales, signal and noise, and of the mean.
const WEIGHT_BOUNDS: (f64, f64) = (-9.0, 8.0);
const SIGNAL_BOUNDS: (f64, f64) = (-4.0, 4.0);
const NOISE_BOUNDS: (f64, f64) = (-16.0, 1.0);
const MEAN_BOUNDS: (f64, f64) = (-3.0, 3.0);

/// Added to the diagonal whatever the noise, for the factorisation's sake.
pub(super) const JITTER: f64 = 1e-8;

/// What is fitted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample<'a> {
    /// Features, a row each.
    pub features: &'a [Vec<f64>],
    /// By feature: whether it is a choice.
    pub categorical: &'a [bool],
    /// Standardised targets.
    pub targets: &'a [f64],
    /// Variance that a target is known to have beside the noise of all.
    pub noise: &'a [f64],
}

/// The kernel's parameters for a sample; those of the prior where it is empty.
pub(super) fn fit(sample: Sample, evaluations: usize) -> Hyper {
    let problem = Problem::new(sample);
    let limits = Limits {
        evaluations,
        tolerance: 1e-5,
    };
    let bounds = problem.bounds();
    let mut best: Option<(f64, Vec<f64>)> = None;
    for shift in [0.0, -1.2] {
        let mut theta = problem.start(shift);
        let value = lbfgs::minimise(&mut theta, &bounds, limits, |t, g| problem.loss(t, g));
        let better = best.as_ref().is_none_or(|(least, _)| value < *least);
        if value.is_finite() && better {
            best = Some((value, theta));
        }
    }
    let theta = best.map_or_else(|| problem.start(0.0), |(_, theta)| theta);
    problem.hyper(&theta)
}

/// The negative logarithm of the posterior as a function of (log weights, log weights of the
/// features' own parts, log variances of the joint part, the sum and the noise, mean).
struct Problem<'a> {
    sample: Sample<'a>,
    /// By feature: the squared differences of all pairs, the later point first.
    squares: Vec<Vec<f64>>,
    /// What their branches have in common.
    common: Vec<f64>,
    /// Mean of the logarithm of a length scale.
    length: f64,
}

/// The covariances of all pairs, part by part.
struct Pairs {
    /// The joint part.
    joint: Vec<f64>,
    /// Its derivative by the squared weighted distance.
    slopes: Vec<f64>,
    /// The sum of the features' own parts.
    sums: Vec<f64>,
}

impl<'a> Problem<'a> {
    fn new(sample: Sample<'a>) -> Problem<'a> {
        let rows = sample.features;
        let features = sample.categorical.len();
        let pairs = |of: &dyn Fn(&[f64], &[f64]) -> f64| -> Vec<f64> {
            let earlier = |i: usize| rows[..i].iter().map(move |row| (&rows[i], row));
            let pairs = (0..rows.len()).flat_map(earlier);
            pairs.map(|(a, b)| of(a, b)).collect()
        };
        let squares = |k: usize| pairs(&|a, b| square(sample.categorical[k], a[k], b[k]));
        Problem {
            sample,
            squares: (0..features).map(squares).collect(),
            common: pairs(&|a, b| common(a[features], b[features])),
            length: LENGTH.0 + 0.5 * (features.max(1) as f64).ln(),
        }
    }

    fn features(&self) -> usize {
        self.squares.len()
    }

    fn bounds(&self) -> Vec<(f64, f64)> {
        let mut bounds = vec![WEIGHT_BOUNDS; 2 * self.features()];
        bounds.extend([SIGNAL_BOUNDS, SIGNAL_BOUNDS, NOISE_BOUNDS, MEAN_BOUNDS]);
        bounds
    }

    /// The prior's middle of the logarithm of the weight of a feature's own part. All choices are
    /// equally far apart: far enough for a weak kernel, or its slope would not tell those that
    /// matter from those that do not.
    fn single(&self, k: usize) -> f64 {
        if self.sample.categorical[k] {
            0.0
        } else {
            -2.0 * SINGLE.0
        }
    }

    /// The prior's middle, with length scales moved by `shift` in logarithm.
    fn start(&self, shift: f64) -> Vec<f64> {
        let mut theta = vec![-2.0 * (self.length + shift); self.features()];
        theta.extend((0..self.features()).map(|k| self.single(k) - 2.0 * shift));
        theta.extend([JOINT.0, SUM.0, NOISE.0, 0.0]);
        theta
    }

    fn hyper(&self, theta: &[f64]) -> Hyper {
        let d = self.features();
        Hyper {
            weights: theta[..d].iter().map(|t| t.exp()).collect(),
            single: theta[d..2 * d].iter().map(|t| t.exp()).collect(),
            joint: theta[2 * d].exp(),
            sum: theta[2 * d + 1].exp(),
            noise: theta[2 * d + 2].exp(),
            mean: theta[2 * d + 3],
        }
    }

    /// The loss; its gradient into `gradient`. NaN where the covariance cannot be factorised.
    fn loss(&self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let d = self.features();
        let hyper = self.hyper(theta);
        let pairs = vectorised(PairsOf(self, &hyper));
        let Ok(factor) = self.covariance(&hyper, &pairs).llt(Side::Lower) else {
            return f64::NAN;
        };
        let inverse = factor.inverse();
        let n = self.sample.targets.len();
        let residual: Vec<f64> = self.sample.targets.iter().map(|y| y - hyper.mean).collect();
        let alpha: Vec<f64> = (0..n)
            .map(|i| simd::dot(inverse.col_as_slice(i), &residual))
            .collect();
        let lower = factor.L();
        let log_det: f64 = (0..n).map(|i| lower[(i, i)].ln()).sum();
        let effects = self.effects(&inverse, &alpha);
        vectorised(ByWeights {
            problem: self,
            hyper: &hyper,
            pairs: &pairs,
            effects: &effects,
            gradient,
        });
        // A point's covariance with itself does not depend on any weight.
        let trace: f64 = (0..n).map(|i| inverse[(i, i)] - alpha[i] * alpha[i]).sum();
        gradient[2 * d] = simd::dot(&effects, &pairs.joint) + 0.5 * trace * hyper.joint;
        gradient[2 * d + 1] = simd::dot(&effects, &pairs.sums) + 0.5 * trace * hyper.sum;
        gradient[2 * d + 2] = 0.5 * trace * hyper.noise;
        gradient[2 * d + 3] = -alpha.iter().sum::<f64>();
        0.5 * simd::dot(&residual, &alpha) + log_det + self.prior(theta, gradient)
    }

    /// The covariance of the observations, its lower half.
    fn covariance(&self, hyper: &Hyper, pairs: &Pairs) -> Mat<f64> {
        let n = self.sample.targets.len();
        let mut covariance = Mat::<f64>::zeros(n, n);
        let mut values = pairs.joint.iter().zip(&pairs.sums).map(|(a, b)| a + b);
        for i in 0..n {
            for (j, value) in (0..i).zip(&mut values) {
                covariance[(i, j)] = value;
            }
            covariance[(i, i)] = hyper.signal() + hyper.noise + self.sample.noise[i] + JITTER;
        }
        covariance
    }

    /// The loss's derivatives by the covariances of all pairs: the inverse less alpha alpha^T.
    fn effects(&self, inverse: &Mat<f64>, alpha: &[f64]) -> Vec<f64> {
        let mut effects = Vec::with_capacity(self.common.len());
        for (i, own) in alpha.iter().enumerate() {
            let earlier = inverse.col_as_slice(i)[..i].iter().zip(alpha);
            effects.extend(earlier.map(|(inverse, other)| inverse - own * other));
        }
        effects
    }

    /// The priors' part of the loss; its gradient is added.
    fn prior(&self, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let d = self.features();
        let mut sum = 0.0;
        let mut normal = |k: usize, mean: f64, deviation: f64| {
            let z = (theta[k] - mean) / deviation;
            gradient[k] += z / deviation;
            sum += 0.5 * z * z;
        };
        for k in 0..d {
            normal(k, -2.0 * self.length, 2.0 * LENGTH.1);
            normal(d + k, self.single(k), 2.0 * SINGLE.1);
        }
        normal(2 * d, JOINT.0, JOINT.1);
        normal(2 * d + 1, SUM.0, SUM.1);
        normal(2 * d + 2, NOISE.0, NOISE.1);
        normal(2 * d + 3, 0.0, MEAN);
        sum
    }
}

/// The parts of the covariances of all pairs.
struct PairsOf<'a>(&'a Problem<'a>, &'a Hyper);

impl Loops for PairsOf<'_> {
    type Output = Pairs;

    #[inline(always)]
    fn run(self) -> Pairs {
        let PairsOf(problem, hyper) = self;
        let pairs = problem.common.len();
        let (mut joint, mut sums) = (vec![0.0; pairs], vec![0.0; pairs]);
        let weights = hyper.weights.iter().zip(&hyper.single);
        for (squares, (weight, single)) in problem.squares.iter().zip(weights) {
            for ((distance, sum), square) in joint.iter_mut().zip(&mut sums).zip(squares) {
                *distance += weight * square;
                *sum += rational(single * square).0;
            }
        }
        let mut slopes = vec![0.0; pairs];
        for (joint, slope) in joint.iter_mut().zip(&mut slopes) {
            let (value, by_square) = matern(*joint);
            *joint = hyper.joint * value;
            *slope = hyper.joint * by_square;
        }
        let share = hyper.share();
        for (sum, common) in sums.iter_mut().zip(&problem.common) {
            *sum *= share * common;
        }
        Pairs {
            joint,
            slopes,
            sums,
        }
    }
}

/// The loss's derivatives by the logarithms of all weights, into `gradient`.
struct ByWeights<'a> {
    problem: &'a Problem<'a>,
    hyper: &'a Hyper,
    pairs: &'a Pairs,
    /// The loss's derivatives by the covariances of all pairs.
    effects: &'a [f64],
    gradient: &'a mut [f64],
}

impl Loops for ByWeights<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (problem, hyper) = (self.problem, self.hyper);
        let (mut by_joint, mut by_own) = (self.effects.to_vec(), self.effects.to_vec());
        for (effect, slope) in by_joint.iter_mut().zip(&self.pairs.slopes) {
            *effect *= slope;
        }
        for (effect, common) in by_own.iter_mut().zip(&problem.common) {
            *effect *= common;
        }
        let (d, share) = (problem.features(), hyper.share());
        let mut terms = vec![0.0; by_own.len()];
        for (k, squares) in problem.squares.iter().enumerate() {
            let (weight, single) = (hyper.weights[k], hyper.single[k]);
            for ((term, effect), square) in terms.iter_mut().zip(&by_own).zip(squares) {
                *term = square * effect * rational(single * square).1;
            }
            self.gradient[k] = weight * simd::dot(squares, &by_joint);
            self.gradient[d + k] = single * share * simd::sum(&terms);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    const CATEGORICAL: [bool; 3] = [false, false, true];

    /// Points, and values that depend on the first feature alone, with some noise.
    fn rows(n: u64, noise: f64) -> (Vec<Vec<f64>>, Vec<f64>) {
        let mut rng = crate::study::rng(7, n, "test");
        let rows = (0..n).map(|_| {
            let row = vec![
                rng.random(),
                rng.random(),
                f64::from(rng.random_range(0..3u8)),
                0.0,
            ];
            let value = (6.0 * row[0]).sin() + noise * (rng.random::<f64>() - 0.5) * 12f64.sqrt();
            (row, value)
        });
        rows.unzip()
    }

    fn sample<'a>(features: &'a [Vec<f64>], targets: &'a [f64], noise: &'a [f64]) -> Sample<'a> {
        Sample {
            features,
            categorical: &CATEGORICAL,
            targets,
            noise,
        }
    }

    #[test]
    fn the_gradient_is_that_of_the_loss() {
        let (features, targets) = rows(12, 0.1);
        let doubts: Vec<f64> = (0..12).map(|i| 0.1 * f64::from(i % 3)).collect();
        let problem = Problem::new(sample(&features, &targets, &doubts));
        let theta = [0.7, -0.4, 0.2, 2.0, 0.5, 1.0, 0.3, -0.5, -3.0, 0.2];
        let mut gradient = [0.0; 10];
        problem.loss(&theta, &mut gradient);
        for k in 0..10 {
            let at = |h: f64| {
                let mut moved = theta;
                moved[k] += h;
                problem.loss(&moved, &mut [0.0; 10])
            };
            let numeric = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!(
                (numeric - gradient[k]).abs() < 1e-5,
                "{k}: {numeric} {}",
                gradient[k]
            );
        }
    }

    #[test]
    fn what_decides_gets_a_shorter_length_than_what_does_not() {
        let (features, targets) = rows(40, 0.0);
        let hyper = fit(sample(&features, &targets, &[0.0; 40]), 40);
        assert!(hyper.single[0] > 100.0 * hyper.single[1], "{hyper:?}");
    }

    #[test]
    fn noise_is_learned() {
        let learned = |noise: f64| {
            let (features, targets) = rows(80, noise);
            fit(sample(&features, &targets, &[0.0; 80]), 40).noise
        };
        assert!(learned(0.0) < 1e-3);
        let noisy = learned(0.5).sqrt();
        assert!((0.35..0.65).contains(&noisy), "{noisy}");
    }

    #[test]
    fn few_points_or_none_get_what_the_priors_say() {
        let nothing = fit(sample(&[], &[], &[]), 40);
        assert!((nothing.noise.ln() - NOISE.0).abs() < 1e-3);
        let (features, targets) = rows(2, 0.0);
        let hyper = fit(sample(&features, &targets, &[0.0; 2]), 40);
        let prior = -2.0 * (LENGTH.0 + 0.5 * 3f64.ln());
        assert!(hyper.weights.iter().all(|w| (w.ln() - prior).abs() < 2.0));
    }
}
