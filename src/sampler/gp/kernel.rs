//! The covariance of two points: Matérn 5/2 of a weighted distance (Rasmussen and Williams,
//! "Gaussian Processes for Machine Learning", 2006, equation 4.17).
//!
//! Numbers enter by the square of their difference on the unit interval, choices by whether they
//! differ (Hamming). A parameter that is inactive stands in the middle of its range (a choice: on
//! a choice of its own), so that points of different branches of a conditional space differ by the
//! parameter that chose the branch and by what only one of them has, and points of the same branch
//! by what they share. All of it is an embedding, so that covariances stay positive definite.

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

    /// The features of a point.
    pub fn features(&self, point: &[f64]) -> Vec<f64> {
        let feature = |(&index, &categorical): (&usize, &bool)| match point[index] {
            x if !x.is_nan() => x,
            _ if categorical => ABSENT,
            _ => 0.5,
        };
        let both = self.parameters.iter().zip(&self.categorical);
        both.map(feature).collect()
    }

    /// The squared distance of two feature vectors, every feature alike.
    pub fn distance(&self, a: &[f64], b: &[f64]) -> f64 {
        let features = self.categorical.iter().enumerate();
        features.map(|(k, &c)| square(c, a[k], b[k])).sum()
    }
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
#[inline]
pub(super) fn matern(square: f64) -> (f64, f64) {
    let s = (5.0 * square).sqrt();
    let e = (-s).exp();
    ((1.0 + s + s * s / 3.0) * e, -5.0 / 6.0 * (1.0 + s) * e)
}

/// What a fit finds, on the scale of standardised targets.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hyper {
    /// By feature: the inverse square of the length scale.
    pub weights: Vec<f64>,
    /// Variance of the function.
    pub signal: f64,
    /// Variance of the noise.
    pub noise: f64,
    /// The mean far from all points.
    pub mean: f64,
}

impl Hyper {
    /// The squared weighted distance of two feature vectors.
    #[inline]
    pub fn distance(&self, categorical: &[bool], a: &[f64], b: &[f64]) -> f64 {
        let mut sum = 0.0;
        for k in 0..self.weights.len() {
            sum += self.weights[k] * square(categorical[k], a[k], b[k]);
        }
        sum
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
