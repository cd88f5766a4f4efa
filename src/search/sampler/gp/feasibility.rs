//! Where trials can be run at all: Gaussian process classification with the logistic function, by
//! Laplace's approximation (Rasmussen and Williams, "Gaussian Processes for Machine Learning",
//! 2006, algorithms 3.1 and 3.2).
//!
//! What cannot be run is usually what is too large: a border that rises or falls with each number.
//! The latent function is therefore a linear one plus a smooth rest, with one length scale for all:
//! length scales of their own would explain points that crowd on both sides of a border by
//! whatever else distinguishes them. How steep it is, is chosen by the evidence; and whether the
//! region has such a border at all, and whether failures depend on the point.

use std::collections::VecDeque;
use std::sync::Arc;

use faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place, solve_upper_triangular_in_place,
};
use faer::{Mat, Par, Side};

use super::kernel::{Geometry, matern, square};
use super::model::refit_size;
use super::observations::Observations;
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

/// How often a Newton step that leads downhill is halved.
const HALVINGS: usize = 8;

/// Choices of a shape that are kept.
const KEPT: usize = 8;

/// The probability that a point can be run.
#[derive(Debug, Clone)]
pub(super) struct Feasibility {
    kernel: Kernel,
    features: Vec<Vec<f64>>,
    /// What the latent function is a sum of covariances with: at its mode the derivative of the log
    /// likelihood.
    weights: Vec<f64>,
    /// The square roots of the log likelihood's negative second derivative.
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

/// Points that could be run and points that could not, as the classifier takes them.
#[derive(Debug, Clone, PartialEq)]
struct Labelled {
    categorical: Vec<bool>,
    features: Vec<Vec<f64>>,
    /// 1 or -1.
    labels: Vec<f64>,
}

impl Labelled {
    fn new(geometry: &Geometry, good: &[Point], bad: &[Point]) -> Labelled {
        // The latest of each kind, in proportion.
        let share = (MOST as f64 / (good.len() + bad.len()) as f64).min(1.0);
        let latest = |points: &'_ [Point], label: f64| -> Vec<(Vec<f64>, f64)> {
            let kept = ((points.len() as f64 * share).ceil() as usize).min(points.len());
            let points = points[points.len() - kept..].iter();
            points.map(|p| (geometry.features(p), label)).collect()
        };
        let rows = [latest(good, 1.0), latest(bad, -1.0)].concat();
        let (features, labels) = rows.into_iter().unzip();
        Labelled {
            categorical: geometry.categorical.clone(),
            features,
            labels,
        }
    }

    /// The classifier of this shape, with the logarithm of its evidence.
    fn fit(&self, shape: usize) -> Option<(Feasibility, f64)> {
        let kernel = Kernel::new(&self.categorical, SHAPES[shape]);
        Feasibility::with(kernel, &self.features, &self.labels)
    }

    /// The shape that the evidence chooses.
    fn choose(&self) -> Option<(usize, Feasibility, f64)> {
        let fits = (0..SHAPES.len()).filter_map(|shape| {
            let (feasibility, evidence) = self.fit(shape)?;
            Some((shape, feasibility, evidence))
        });
        fits.reduce(|a, b| if b.2 > a.2 { b } else { a })
    }
}

/// The latest classifiers and choices of a shape, by what they were made from: functions of that
/// alone. The shape is the one that suits what had been seen a little earlier (see [`refit_size`]):
/// it hardly changes from trial to trial, and choosing it costs as much as all shapes together.
#[derive(Debug, Clone, Default)]
pub(super) struct FeasibilityModel {
    shapes: VecDeque<(Labelled, Option<usize>)>,
    latest: Option<(Labelled, Option<Arc<Feasibility>>)>,
}

impl FeasibilityModel {
    /// Learns from points that could be run and points that could not; `None` without the latter,
    /// and where these seem to have failed by chance.
    pub fn of(&mut self, geometry: &Geometry, seen: &Observations) -> Option<Arc<Feasibility>> {
        if seen.infeasible.is_empty() {
            return None;
        }
        let all = Labelled::new(geometry, &seen.points, &seen.infeasible);
        if let Some((known, border)) = &self.latest
            && *known == all
        {
            return border.clone();
        }
        let fitted = match self.shape(&early(geometry, seen), &all) {
            Shape::Known(shape) => all.fit(shape?),
            Shape::Fitted(fitted) => fitted,
        };
        let found = fitted
            .filter(|(_, evidence)| *evidence > by_chance(&all.labels) - CHANCE)
            .map(|(feasibility, _)| Arc::new(feasibility));
        self.latest = Some((all, found.clone()));
        found
    }

    fn shape(&mut self, early: &Labelled, all: &Labelled) -> Shape {
        if let Some((_, shape)) = self.shapes.iter().find(|(known, _)| known == early) {
            return Shape::Known(*shape);
        }
        let chosen = early.choose();
        if self.shapes.len() == KEPT {
            self.shapes.pop_front();
        }
        let shape = chosen.as_ref().map(|(shape, _, _)| *shape);
        self.shapes.push_back((early.clone(), shape));
        match chosen {
            Some((_, feasibility, evidence)) if early == all => {
                Shape::Fitted(Some((feasibility, evidence)))
            }
            Some(_) | None => Shape::Known(shape),
        }
    }
}

/// A shape, or the classifier that choosing it has left.
enum Shape {
    Known(Option<usize>),
    Fitted(Option<(Feasibility, f64)>),
}

/// What the shape is chosen by: what had been seen earlier, if anything had failed by then.
fn early(geometry: &Geometry, seen: &Observations) -> Labelled {
    let (good, bad) = (&seen.points[..], &seen.infeasible[..]);
    let ended = refit_size(seen.ran.len());
    let ran = seen.ran[..ended].iter().filter(|ran| **ran).count();
    match ended - ran {
        0 => Labelled::new(geometry, good, bad),
        failed => Labelled::new(
            geometry,
            &good[..ran.min(good.len())],
            &bad[..failed.min(bad.len())],
        ),
    }
}

impl Feasibility {
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
        let objective = |a: &[f64], latent: &[f64]| {
            let fit: f64 = (labels.iter().zip(latent))
                .map(|(label, f)| -ln_one_plus_exp(-label * f))
                .sum();
            let penalty: f64 = a.iter().zip(latent).map(|(a, f)| a * f).sum();
            fit - 0.5 * penalty
        };
        let (mut weights, mut latent) = (vec![0.0; n], vec![0.0; n]);
        let mut reached = objective(&weights, &latent);
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
            let mut a: Vec<f64> = (0..n)
                .map(|i| target[i] - root[i] * solved[(i, 0)])
                .collect();
            let mut moved = times(&covariance, &a);
            let mut height = objective(&a, &moved);
            for _ in 0..HALVINGS {
                if height >= reached - 1e-9 {
                    break;
                }
                halve(&weights, &mut a);
                halve(&latent, &mut moved);
                height = objective(&a, &moved);
            }
            let log_det: f64 = (0..n).map(|i| factor[(i, i)].ln()).sum();
            found = Some((root, factor, height - log_det));
            (weights, latent) = (a, moved);
            if !height.is_finite() || (height - reached).abs() < 1e-6 {
                break;
            }
            reached = height;
        }
        let (root, factor, evidence) = found?;
        let feasibility = Feasibility {
            kernel,
            features: features.to_vec(),
            weights,
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
                mean += self.weights[i] * value;
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
            mean += self.weights[i] * value;
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
                mean_slope[k] += self.weights[i] * by_feature;
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

/// Moves `to` half of the way back.
fn halve(from: &[f64], to: &mut [f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = 0.5 * (*to + from);
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

    fn seen(good: &[Point], bad: &[Point]) -> Observations {
        let ran = [vec![true; good.len()], vec![false; bad.len()]].concat();
        Observations {
            points: good.to_vec(),
            infeasible: bad.to_vec(),
            ran,
            ..Observations::default()
        }
    }

    fn learned(good: &[Point], bad: &[Point]) -> Option<Arc<Feasibility>> {
        FeasibilityModel::default().of(&geometry(), &seen(good, bad))
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
        let feasibility = learned(&good, &bad).unwrap();
        let chance = |x, y| feasibility.ln_many(&[vec![x, y, 0.0]])[0].exp();
        assert!(chance(0.1, 0.1) > 0.95 && chance(0.7, 0.7) < 0.05);
        assert!(chance(0.05, 0.5) > 0.7 && chance(0.5, 0.5) < 0.5);
        assert!(learned(&good, &[]).is_none());
    }

    #[test]
    fn it_learns_a_slab() {
        let mut rng = crate::study::rng(2, 0, "test");
        let points = (0..80).map(|_| vec![rng.random(), rng.random(), 0.0]);
        let (good, bad): (Vec<Point>, Vec<Point>) =
            points.partition(|p: &Point| (0.35..0.6).contains(&p[0]));
        let feasibility = learned(&good, &bad).unwrap();
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
        assert!(learned(good, bad).is_none());
    }

    #[test]
    fn one_point_is_as_many_and_the_derivatives_are_those_of_the_value() {
        let (good, bad) = labelled(30);
        let feasibility = learned(&good, &bad).unwrap();
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

    /// Observations of the first `n` trials, in their order.
    fn first(n: usize) -> Observations {
        let mut rng = crate::study::rng(1, 200, "test");
        let mut found = Observations::default();
        for _ in 0..n {
            let choice = f64::from(rng.random_range(0..2u8));
            let point: Point = vec![rng.random(), rng.random(), choice];
            let runs = point[0] + point[1] < 0.8;
            found.ran.push(runs);
            match runs {
                true => found.points.push(point),
                false => found.infeasible.push(point),
            }
        }
        found
    }

    #[test]
    fn a_shape_is_chosen_once_for_some_trials_and_what_was_asked_before_changes_nothing() {
        let mut used = FeasibilityModel::default();
        let probe = [vec![0.4, 0.35, 1.0]];
        for n in 100..112 {
            let seen = first(n);
            let found = used.of(&geometry(), &seen).unwrap().ln_many(&probe);
            let fresh = FeasibilityModel::default().of(&geometry(), &seen).unwrap();
            assert_eq!(found, fresh.ln_many(&probe), "{n}");
        }
        // Of 100 to 111 trials: 100, 104 and 108 are refit_size numbers.
        assert_eq!(used.shapes.len(), 3);
        let before = used.latest.clone().unwrap().1.unwrap();
        let again = used.of(&geometry(), &first(111)).unwrap();
        assert!(Arc::ptr_eq(&before, &again), "nothing is fitted again");
    }

    #[test]
    fn newton_ends_at_the_mode_for_every_shape() {
        let seen = first(120);
        let labelled = Labelled::new(&geometry(), &seen.points, &seen.infeasible);
        for shape in 0..SHAPES.len() {
            let (found, _) = labelled.fit(shape).unwrap();
            // There, the weights are the slopes of the likelihood.
            let rows = labelled.features.iter().zip(&labelled.labels);
            for (i, (row, label)) in rows.enumerate() {
                let others = labelled.features.iter().zip(&found.weights);
                let latent: f64 = others
                    .map(|(other, weight)| weight * found.kernel.value(row, other).0)
                    .sum();
                let slope = f64::from(*label > 0.0) - sigmoid(latent);
                let apart = (slope - found.weights[i]).abs();
                assert!(apart < 0.02, "{shape} {i}: {slope} {}", found.weights[i]);
            }
        }
    }
}
