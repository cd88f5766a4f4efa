//! Where trials can be run at all: Gaussian process classification with the logistic function, by
//! Laplace's approximation (Rasmussen and Williams, "Gaussian Processes for Machine Learning",
//! 2006, algorithms 3.1 and 3.2).
//!
//! What cannot be run is usually what is too large: a border that rises or falls with each number.
//! The latent function is therefore a linear one plus a smooth rest, with one length scale for all:
//! length scales of their own would explain points that crowd on both sides of a border by
//! whatever else distinguishes them. How steep it is, is chosen by the evidence; and whether the
//! region has such a border at all, and whether failures depend on the point.

use faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place, solve_upper_triangular_in_place,
};
use faer::{Mat, Par, Side};

use super::kernel::{Geometry, matern, square};
use crate::sampler::encoding::Point;

/// What the evidence chooses from: variances of the linear part and of the rest, and the length
/// scale of the rest in units of the square root of the number of features. The last ones are for
/// regions without a border that rises or falls: slabs, islands.
const SHAPES: [(f64, f64, f64); 7] = [
    (4.0, 1.0, 0.5),
    (25.0, 2.0, 0.5),
    (100.0, 5.0, 0.5),
    (400.0, 10.0, 0.5),
    (2000.0, 20.0, 0.5),
    (0.0, 10.0, 0.25),
    (0.0, 10.0, 0.1),
];

/// Variance of the constant where there is no linear part.
const CONSTANT: f64 = 2.0;

/// How much likelier (in logarithm) it must be that failures have nothing to do with the point,
/// before a classifier is done without.
const CHANCE: f64 = 2.0;

/// Most labels that enter: the latest ones.
const MOST: usize = 250;

/// Most Newton steps.
const STEPS: usize = 30;

/// The probability that a point can be run.
#[derive(Debug, Clone)]
pub(super) struct Feasibility {
    kernel: Kernel,
    features: Vec<Vec<f64>>,
    /// The derivative of the log likelihood at the mode.
    slope: Vec<f64>,
    /// The square roots of its negative second derivative.
    root: Vec<f64>,
    /// The Cholesky factor of 1 + root K root.
    factor: Mat<f64>,
}

#[derive(Debug, Clone)]
struct Kernel {
    categorical: Vec<bool>,
    constant: f64,
    linear: f64,
    rest: f64,
    /// The inverse square of the length scale.
    weight: f64,
}

impl Kernel {
    fn new(categorical: &[bool], (linear, rest, length): (f64, f64, f64)) -> Kernel {
        let features = categorical.len().max(1) as f64;
        Kernel {
            categorical: categorical.to_vec(),
            constant: if linear > 0.0 { linear } else { CONSTANT },
            linear,
            rest,
            weight: 1.0 / (length * length * features),
        }
    }

    /// The covariance, and the derivative of its rest by the squared weighted distance.
    fn value(&self, a: &[f64], b: &[f64]) -> (f64, f64) {
        let (mut product, mut distance) = (0.0, 0.0);
        for (k, &categorical) in self.categorical.iter().enumerate() {
            let apart = square(categorical, a[k], b[k]);
            distance += self.weight * apart;
            product += if categorical {
                1.0 - apart
            } else {
                (2.0 * a[k] - 1.0) * (2.0 * b[k] - 1.0)
            };
        }
        let (value, slope) = matern(distance);
        let value = self.constant + self.linear * product + self.rest * value;
        (value, self.rest * slope)
    }
}

impl Feasibility {
    /// Learns from points that could be run and points that could not; `None` without the latter,
    /// and where these seem to have failed by chance.
    pub fn new(geometry: &Geometry, good: &[Point], bad: &[Point]) -> Option<Feasibility> {
        if bad.is_empty() {
            return None;
        }
        // The latest of each kind, in proportion.
        let share = (MOST as f64 / (good.len() + bad.len()) as f64).min(1.0);
        let latest = |points: &'_ [Point], label: f64| -> Vec<(Vec<f64>, f64)> {
            let kept = ((points.len() as f64 * share).ceil() as usize).min(points.len());
            let points = points[points.len() - kept..].iter();
            points.map(|p| (geometry.features(p), label)).collect()
        };
        let rows = [latest(good, 1.0), latest(bad, -1.0)].concat();
        let (features, labels): (Vec<Vec<f64>>, Vec<f64>) = rows.into_iter().unzip();
        let fits = SHAPES.iter().filter_map(|&shape| {
            let kernel = Kernel::new(&geometry.categorical, shape);
            Feasibility::with(kernel, &features, &labels)
        });
        let best = fits.reduce(|a, b| if b.1 > a.1 { b } else { a });
        best.filter(|(_, evidence)| *evidence > by_chance(&labels) - CHANCE)
            .map(|(feasibility, _)| feasibility)
    }

    /// The mode of the latent function, with the logarithm of the evidence; `None` where it cannot
    /// be computed.
    fn with(kernel: Kernel, features: &[Vec<f64>], labels: &[f64]) -> Option<(Feasibility, f64)> {
        let n = labels.len();
        let mut covariance = Mat::<f64>::zeros(n, n);
        for i in 0..n {
            for j in 0..=i {
                let value = kernel.value(&features[i], &features[j]).0;
                covariance[(i, j)] = value;
                covariance[(j, i)] = value;
            }
        }
        let mut latent = vec![0.0; n];
        let mut reached = f64::NEG_INFINITY;
        let mut found = None;
        for _ in 0..STEPS {
            let chance: Vec<f64> = latent.iter().map(|f| sigmoid(*f)).collect();
            let slope: Vec<f64> = (0..n)
                .map(|i| f64::from(labels[i] > 0.0) - chance[i])
                .collect();
            let root: Vec<f64> = chance.iter().map(|p| (p * (1.0 - p)).sqrt()).collect();
            let b = Mat::from_fn(n, n, |i, j| {
                f64::from(u8::from(i == j)) + root[i] * covariance[(i, j)] * root[j]
            });
            let factor = b.llt(Side::Lower).ok()?.L().to_owned();
            let target: Vec<f64> = (0..n)
                .map(|i| root[i] * root[i] * latent[i] + slope[i])
                .collect();
            let product = times(&covariance, &target);
            let mut solved = Mat::from_fn(n, 1, |i, _| root[i] * product[i]);
            solve_lower_triangular_in_place(factor.as_ref(), solved.as_mut(), Par::Seq);
            solve_upper_triangular_in_place(factor.transpose(), solved.as_mut(), Par::Seq);
            let a: Vec<f64> = (0..n)
                .map(|i| target[i] - root[i] * solved[(i, 0)])
                .collect();
            let moved = times(&covariance, &a);
            let fit: f64 = (0..n)
                .map(|i| -ln_one_plus_exp(-labels[i] * moved[i]))
                .sum();
            let penalty: f64 = (0..n).map(|i| a[i] * moved[i]).sum();
            let objective = fit - 0.5 * penalty;
            let log_det: f64 = (0..n).map(|i| factor[(i, i)].ln()).sum();
            found = Some((slope, root, factor, objective - log_det));
            latent = moved;
            if !objective.is_finite() || (objective - reached).abs() < 1e-6 {
                break;
            }
            reached = objective;
        }
        let (slope, root, factor, evidence) = found?;
        let feasibility = Feasibility {
            kernel,
            features: features.to_vec(),
            slope,
            root,
            factor,
        };
        evidence.is_finite().then_some((feasibility, evidence))
    }

    /// The logarithms of the probabilities at many points.
    pub fn ln_many(&self, points: &[Vec<f64>]) -> Vec<f64> {
        let n = self.features.len();
        let mut means = Vec::with_capacity(points.len());
        let mut cross = Mat::<f64>::zeros(n, points.len());
        for (j, point) in points.iter().enumerate() {
            let mut mean = 0.0;
            for (i, row) in self.features.iter().enumerate() {
                let value = self.kernel.value(row, point).0;
                mean += self.slope[i] * value;
                cross[(i, j)] = self.root[i] * value;
            }
            means.push(mean);
        }
        solve_lower_triangular_in_place(self.factor.as_ref(), cross.as_mut(), Par::Seq);
        let chance = |(j, mean): (usize, &f64)| {
            let explained: f64 = (0..n).map(|i| cross[(i, j)] * cross[(i, j)]).sum();
            let own = self.kernel.value(&points[j], &points[j]).0;
            -ln_one_plus_exp(-mean / softening((own - explained).max(0.0)))
        };
        means.iter().enumerate().map(chance).collect()
    }

    /// The logarithm of the probability at a point, and its derivatives by the features.
    pub fn ln_one(&self, point: &[f64]) -> (f64, Vec<f64>) {
        let (n, d) = (self.features.len(), self.kernel.categorical.len());
        let (mut mean, mut mean_slope) = (0.0, vec![0.0; d]);
        let mut cross = Mat::<f64>::zeros(n, 1);
        let mut slopes = vec![0.0; n];
        for (i, row) in self.features.iter().enumerate() {
            let (value, slope) = self.kernel.value(row, point);
            mean += self.slope[i] * value;
            cross[(i, 0)] = self.root[i] * value;
            slopes[i] = slope;
        }
        let factor = self.factor.as_ref();
        solve_lower_triangular_in_place(factor, cross.as_mut(), Par::Seq);
        let explained: f64 = (0..n).map(|i| cross[(i, 0)] * cross[(i, 0)]).sum();
        solve_upper_triangular_in_place(factor.transpose(), cross.as_mut(), Par::Seq);
        let variance = (self.kernel.value(point, point).0 - explained).max(0.0);
        let mut variance_slope = vec![0.0; d];
        for k in (0..d).filter(|&k| !self.kernel.categorical[k]) {
            variance_slope[k] = self.kernel.linear * 4.0 * (2.0 * point[k] - 1.0);
            for (i, row) in self.features.iter().enumerate() {
                let by_product = self.kernel.linear * 2.0 * (2.0 * row[k] - 1.0);
                let by_distance = slopes[i] * self.kernel.weight * 2.0 * (point[k] - row[k]);
                let by_feature = by_product + by_distance;
                mean_slope[k] += self.slope[i] * by_feature;
                variance_slope[k] -= 2.0 * self.root[i] * cross[(i, 0)] * by_feature;
            }
        }
        let soft = softening(variance);
        let z = mean / soft;
        let outer = sigmoid(-z);
        let slope = |k: usize| {
            let by_softening = std::f64::consts::PI / 16.0 * variance_slope[k] / soft;
            outer * (mean_slope[k] - z * by_softening) / soft
        };
        (-ln_one_plus_exp(-z), (0..d).map(slope).collect())
    }
}

/// What averages the logistic function over a normal distribution of this variance (MacKay, "The
/// Evidence Framework Applied to Classification Networks", 1992).
fn softening(variance: f64) -> f64 {
    (1.0 + std::f64::consts::PI * variance / 8.0).sqrt()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// ln(1 + e^x) without overflow.
fn ln_one_plus_exp(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// The logarithm of the evidence of labels that are independent draws of one unknown rate.
fn by_chance(labels: &[f64]) -> f64 {
    let n = labels.len() as f64;
    let good = labels.iter().filter(|l| **l > 0.0).count() as f64;
    libm::lgamma(good + 1.0) + libm::lgamma(n - good + 1.0) - libm::lgamma(n + 2.0)
}

fn times(matrix: &Mat<f64>, vector: &[f64]) -> Vec<f64> {
    let n = vector.len();
    let mut product = vec![0.0; n];
    for (j, v) in vector.iter().enumerate() {
        for (i, sum) in product.iter_mut().enumerate() {
            *sum += matrix[(i, j)] * v;
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    fn geometry() -> Geometry {
        Geometry {
            parameters: vec![0, 1, 2],
            categorical: vec![false, false, true],
        }
    }

    /// Feasible where the first two are small together.
    fn labelled(n: u64) -> (Vec<Point>, Vec<Point>) {
        let mut rng = crate::study::rng(1, n, "test");
        let points = (0..n).map(|_| {
            let choice = f64::from(rng.random_range(0..2u8));
            vec![rng.random(), rng.random(), choice]
        });
        points.partition(|p: &Point| p[0] + p[1] < 0.8)
    }

    #[test]
    fn it_learns_a_border() {
        let (good, bad) = labelled(60);
        let feasibility = Feasibility::new(&geometry(), &good, &bad).unwrap();
        let chance = |x, y| feasibility.ln_many(&[vec![x, y, 0.0]])[0].exp();
        assert!(chance(0.1, 0.1) > 0.95 && chance(0.7, 0.7) < 0.05);
        assert!(chance(0.05, 0.5) > 0.7 && chance(0.5, 0.5) < 0.5);
        assert!(Feasibility::new(&geometry(), &good, &[]).is_none());
    }

    #[test]
    fn it_learns_a_slab() {
        let mut rng = crate::study::rng(2, 0, "test");
        let points = (0..80).map(|_| vec![rng.random(), rng.random(), 0.0]);
        let (good, bad): (Vec<Point>, Vec<Point>) =
            points.partition(|p: &Point| (0.35..0.6).contains(&p[0]));
        let feasibility = Feasibility::new(&geometry(), &good, &bad).unwrap();
        let chance = |x, y| feasibility.ln_many(&[vec![x, y, 0.0]])[0].exp();
        assert!(chance(0.47, 0.3) > 0.6 && chance(0.47, 0.8) > 0.6);
        assert!(chance(0.05, 0.5) < 0.3 && chance(0.95, 0.05) < 0.3);
    }

    #[test]
    fn failures_by_chance_teach_nothing() {
        let mut rng = crate::study::rng(3, 0, "test");
        let points: Vec<Point> = (0..100)
            .map(|_| vec![rng.random(), rng.random(), 0.0])
            .collect();
        let (bad, good) = points.split_at(25);
        assert!(Feasibility::new(&geometry(), good, bad).is_none());
    }

    #[test]
    fn one_point_is_as_many_and_the_derivatives_are_those_of_the_value() {
        let (good, bad) = labelled(30);
        let feasibility = Feasibility::new(&geometry(), &good, &bad).unwrap();
        let point = vec![0.45, 0.3, 1.0];
        let (value, slopes) = feasibility.ln_one(&point);
        let at = |k: usize, h: f64| {
            let mut moved = point.clone();
            moved[k] += h;
            feasibility.ln_many(&[moved])[0]
        };
        assert!((value - at(0, 0.0)).abs() < 1e-12);
        for (k, slope) in slopes[..2].iter().enumerate() {
            let numeric = (at(k, 1e-5) - at(k, -1e-5)) / 2e-5;
            assert!((numeric - slope).abs() < 1e-5, "{numeric} {slope}");
        }
        assert_eq!(slopes[2], 0.0);
    }
}
