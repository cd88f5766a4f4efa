//! The covariance of two points, of two parts.
//!
//! One looks at all parameters together: Matérn 5/2 of a weighted distance (Rasmussen and Williams,
//! "Gaussian Processes for Machine Learning", 2006, equation 4.17). The other is a sum of what each
//! parameter does by itself (Duvenaud, Nickisch and Rasmussen, "Additive Gaussian Processes", 2011),
//! a rational quadratic kernel each: effects of their own need few trials to be learned, and much of
//! what hyperparameters do is of this kind.
//!
//! Numbers enter by the square of their difference on the unit interval, choices by whether they
//! differ (Hamming). A parameter that is inactive stands in the middle of its range (a choice: on
//! a choice of its own), so that points of different branches of a conditional space differ by the
//! parameter that chose the branch and by what only one of them has, and points of the same branch
//! by what they share. Points of different branches have half of each parameter's own effect in
//! common. All of it is an embedding, so that covariances stay positive definite.

use super::simd;
use crate::sampler::encoding::{Axis, Encoding};

/// Where an inactive choice stands.
const ABSENT: f64 = -1.0;

/// The features that the kernel sees: those coordinates that can vary.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Geometry {
    /// By feature: the parameter's index.
    pub parameters: Vec<usize>,
    /// By feature: whether it is a choice.
    pub categorical: Vec<bool>,
}

impl Geometry {
    pub fn new(encoding: &Encoding) -> Geometry {
        let varies = |&index: &usize| encoding.axis(index) != Axis::Fixed;
        let parameters: Vec<usize> = (0..encoding.len()).filter(varies).collect();
        let categorical = |&index: &usize| !encoding.axis(index).numeric();
        Geometry {
            categorical: parameters.iter().map(categorical).collect(),
            parameters,
        }
    }

    /// The features of a point; behind them its branch.
    pub fn features(&self, point: &[f64]) -> Vec<f64> {
        let feature = |(&index, &categorical): (&usize, &bool)| match point[index] {
            x if !x.is_nan() => x,
            _ if categorical => ABSENT,
            _ => 0.5,
        };
        let both = self.parameters.iter().zip(&self.categorical);
        let branch = branch(self.parameters.iter().map(|&index| point[index].is_nan()));
        both.map(feature).chain([branch]).collect()
    }

    /// The squared distance of two feature vectors, every feature alike.
    pub fn distance(&self, a: &[f64], b: &[f64]) -> f64 {
        let features = self.categorical.iter().enumerate();
        features.map(|(k, &c)| square(c, a[k], b[k])).sum()
    }
}

/// A number for the branch of a conditional space: for what is inactive there. It has 52 bits, so
/// that two of a space's branches share one only by an absurd chance.
fn branch(absent: impl Iterator<Item = bool>) -> f64 {
    let bits = absent.fold(0u64, |bits, absent| {
        bits.rotate_left(7).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(absent)
    });
    (bits >> 12) as f64
}

/// The squared difference of two values of a feature.
pub(super) fn square(categorical: bool, a: f64, b: f64) -> f64 {
    if categorical {
        f64::from(u8::from(a != b))
    } else {
        (a - b) * (a - b)
    }
}

/// Matérn 5/2 at a squared weighted distance, and its derivative by that square.
#[inline(always)]
pub(super) fn matern(square: f64) -> (f64, f64) {
    let s = (5.0 * square).sqrt();
    let e = simd::exp(-s);
    ((1.0 + s + s * s / 3.0) * e, -5.0 / 6.0 * (1.0 + s) * e)
}

/// The part of a feature's own effect that points of different branches have in common.
const COMMON: f64 = 0.5;

/// The part of the sum that two points have in common, by their branches.
#[inline(always)]
pub(super) fn common(a: f64, b: f64) -> f64 {
    if a == b { 1.0 } else { COMMON }
}

/// A rational quadratic kernel (of index 2) of one feature at a squared weighted difference, and
/// its derivative by that square. It costs no exponential.
#[inline(always)]
pub(super) fn rational(square: f64) -> (f64, f64) {
    let inverse = 1.0 / (1.0 + 0.5 * square);
    let value = inverse * inverse;
    (value, -value * inverse)
}

/// Feature vectors, by feature: loops over points run over neighbours in memory.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    /// By feature: whether it is a choice.
    categorical: Vec<bool>,
    /// By feature: of all points.
    features: Vec<Vec<f64>>,
    /// The branches of all points.
    branches: Vec<f64>,
}

impl Columns {
    pub fn new(categorical: &[bool], points: &[&Vec<f64>]) -> Columns {
        let column = |k: usize| -> Vec<f64> { points.iter().map(|p| p[k]).collect() };
        Columns {
            categorical: categorical.to_vec(),
            features: (0..categorical.len()).map(column).collect(),
            branches: column(categorical.len()),
        }
    }

    /// The number of points.
    pub fn len(&self) -> usize {
        self.branches.len()
    }
}

/// What lies between many points and one; kept for its memory and its derivatives.
#[derive(Debug, Clone, Default)]
pub(super) struct Near {
    /// Squared distances, weighted for the joint part.
    distance: Vec<f64>,
    /// The sums of the features' own parts.
    sum: Vec<f64>,
}

impl Near {
    #[inline(always)]
    fn fill(&mut self, hyper: &Hyper, points: &Columns, at: &[f64]) {
        for part in [&mut self.distance, &mut self.sum] {
            part.clear();
            part.resize(points.len(), 0.0);
        }
        for (k, column) in points.features.iter().enumerate() {
            let (weight, single, at) = (hyper.weights[k], hyper.single[k], at[k]);
            let parts = self.distance.iter_mut().zip(&mut self.sum).zip(column);
            if points.categorical[k] {
                let differ = rational(single).0;
                for ((distance, sum), x) in parts {
                    *distance += if *x == at { 0.0 } else { weight };
                    *sum += if *x == at { 1.0 } else { differ };
                }
            } else {
                for ((distance, sum), x) in parts {
                    let square = (x - at) * (x - at);
                    *distance += weight * square;
                    *sum += rational(single * square).0;
                }
            }
        }
    }
}

/// What a fit finds, on the scale of standardised targets.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hyper {
    /// By feature: the inverse square of the length scale of the joint part.
    pub weights: Vec<f64>,
    /// By feature: the same of its own part of the sum.
    pub single: Vec<f64>,
    /// Variance of the joint part.
    pub joint: f64,
    /// Variance of the sum of the features' own parts.
    pub sum: f64,
    /// Variance of the noise.
    pub noise: f64,
    /// The mean far from all points.
    pub mean: f64,
}

impl Hyper {
    /// Variance of the function.
    pub fn signal(&self) -> f64 {
        self.joint + self.sum
    }

    /// The covariances of the function at many points and at one, into `out`, as many as it holds.
    #[inline(always)]
    pub fn covariances(&self, points: &Columns, at: &[f64], near: &mut Near, out: &mut [f64]) {
        near.fill(self, points, at);
        let share = self.share();
        let branch = at.last().copied().unwrap_or_default();
        let parts = near.distance.iter().zip(&near.sum).zip(&points.branches);
        for (out, ((distance, sum), other)) in out.iter_mut().zip(parts) {
            *out = self.joint * matern(*distance).0 + share * common(branch, *other) * sum;
        }
    }

    /// The derivatives of two weighted sums of the covariances of many points and one, by the
    /// features of that one (0 for choices). `near` has been filled for the same points.
    #[inline(always)]
    pub fn slopes(
        &self,
        points: &Columns,
        at: &[f64],
        near: &Near,
        weights: [&[f64]; 2],
    ) -> [Vec<f64>; 2] {
        let branch = at.last().copied().unwrap_or_default();
        let mut slopes = [vec![0.0; self.weights.len()], vec![0.0; self.weights.len()]];
        let (mut joint, mut sum) = (vec![0.0; points.len()], vec![0.0; points.len()]);
        let mut terms = vec![0.0; points.len()];
        for (slopes, weights) in slopes.iter_mut().zip(weights) {
            // What a weight does to the joint part, and to the sum.
            let known = weights.len();
            for (i, weight) in weights.iter().enumerate() {
                let shared = self.share() * common(branch, points.branches[i]);
                joint[i] = weight * self.joint * matern(near.distance[i]).1;
                sum[i] = weight * shared;
            }
            for (k, column) in points.features.iter().enumerate() {
                if points.categorical[k] {
                    continue;
                }
                let (weight, single, at) = (self.weights[k], self.single[k], at[k]);
                let parts = joint.iter().zip(&sum).zip(column);
                for (term, ((joint, sum), x)) in terms[..known].iter_mut().zip(parts) {
                    let off = at - x;
                    let own = single * rational(single * (off * off)).1;
                    *term = off * (weight * joint + own * sum);
                }
                slopes[k] = 2.0 * simd::sum(&terms[..known]);
            }
        }
        slopes
    }

    /// Variance of the part of one feature.
    pub fn share(&self) -> f64 {
        self.sum / self.weights.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_derivative_is_that_of_the_value() {
        for square in [0.01, 0.3, 2.0, 9.0] {
            let h = 1e-6;
            let slope = (matern(square + h).0 - matern(square - h).0) / (2.0 * h);
            assert!((slope - matern(square).1).abs() < 1e-8, "{square}");
        }
        assert_eq!(matern(0.0).0, 1.0);
    }
}
