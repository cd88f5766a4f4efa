//! A Gaussian process on what the effects leave unexplained, over the measurements near a point.

use faer::linalg::solvers::{DenseSolveCore, Solve};
use faer::{Mat, Side};

use super::effects::Place;

/// Deviations of a column's effect beyond the one found, and of the mean.
const SLOPE: f64 = 0.05;
const MEAN: f64 = 0.2;

/// A measurement, or a bound, at its place.
#[derive(Debug, Clone)]
pub struct Row {
    /// Where.
    pub place: Place,
    /// What the effects leave of the target.
    pub rest: f64,
    /// Deviation of its own noise, beside that of all.
    pub doubt: f64,
    /// A bound: the true value is larger.
    pub censored: bool,
}

/// The process's parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hyper {
    /// Deviation of the noise.
    pub noise: f64,
    /// Deviation of the function.
    pub signal: f64,
    /// Distance, in effects, over which it changes.
    pub length: f64,
}

const NOISES: [f64; 9] = [0.004, 0.008, 0.015, 0.03, 0.06, 0.12, 0.25, 0.5, 1.0];
const SIGNALS: [f64; 4] = [0.02, 0.06, 0.2, 0.6];
const LENGTHS: [f64; 3] = [0.3, 1.0, 3.0];

impl Hyper {
    /// For so few measurements that nothing can be fitted.
    pub fn prior(noise: f64) -> Hyper {
        Hyper {
            noise,
            signal: 0.2,
            length: 1.0,
        }
    }

    /// Those that predict each row best from the others (log density), one at a time from `start`.
    pub fn fit(rows: &[&Row], start: Hyper) -> Hyper {
        let mut best = (density(rows, start), start);
        for _ in 0..2 {
            let before = best.1;
            let noises = NOISES.map(|noise| Hyper { noise, ..before });
            better(rows, &noises, &mut best);
            let now = best.1;
            better(
                rows,
                &SIGNALS.map(|signal| Hyper { signal, ..now }),
                &mut best,
            );
            let now = best.1;
            better(
                rows,
                &LENGTHS.map(|length| Hyper { length, ..now }),
                &mut best,
            );
            if best.1 == before {
                break;
            }
        }
        best.1
    }

    fn covariance(&self, a: &Place, b: &Place) -> f64 {
        let linear: f64 = a.columns.iter().zip(&b.columns).map(|(x, y)| x * y).sum();
        let s = (5.0 * distance(a, b)).sqrt() / self.length;
        let matern = (1.0 + s + s * s / 3.0) * (-s).exp();
        MEAN * MEAN + SLOPE * SLOPE * linear + self.signal * self.signal * matern
    }

    fn matrix(&self, rows: &[&Row]) -> Mat<f64> {
        let mut matrix = Mat::<f64>::zeros(rows.len(), rows.len());
        for (i, row) in rows.iter().enumerate() {
            for (j, other) in rows[..i].iter().enumerate() {
                let value = self.covariance(&row.place, &other.place);
                matrix[(i, j)] = value;
                matrix[(j, i)] = value;
            }
            let noise = self.noise.powi(2) + row.doubt.powi(2);
            matrix[(i, i)] = self.covariance(&row.place, &row.place) + noise;
        }
        matrix
    }
}

fn better(rows: &[&Row], candidates: &[Hyper], best: &mut (f64, Hyper)) {
    for candidate in candidates {
        let reached = density(rows, *candidate);
        if reached > best.0 {
            *best = (reached, *candidate);
        }
    }
}

/// The squared distance of two places, in effects.
pub fn distance(a: &Place, b: &Place) -> f64 {
    let pairs = a.effects.iter().zip(&b.effects);
    pairs.map(|(x, y)| (x - y) * (x - y)).sum()
}

/// The mean log density of each row given the others.
fn density(rows: &[&Row], hyper: Hyper) -> f64 {
    let Ok(factor) = hyper.matrix(rows).llt(Side::Lower) else {
        return f64::NEG_INFINITY;
    };
    let rest = Mat::from_fn(rows.len(), 1, |i, _| rows[i].rest);
    let (alpha, inverse) = (factor.solve(&rest), factor.inverse());
    let each = (0..rows.len()).map(|i| {
        let precision = inverse[(i, i)].max(1e-12);
        0.5 * (precision.ln() - alpha[(i, 0)].powi(2) / precision)
    });
    each.sum::<f64>() / rows.len().max(1) as f64
}

/// Mean and deviation (noise included) at `place`, given these rows.
pub fn predict(rows: &[&Row], hyper: Hyper, place: &Place) -> (f64, f64) {
    let prior = hyper.covariance(place, place) + hyper.noise.powi(2);
    if rows.is_empty() {
        return (0.0, prior.sqrt());
    }
    let Ok(factor) = hyper.matrix(rows).llt(Side::Lower) else {
        return (0.0, prior.sqrt());
    };
    let right = Mat::from_fn(rows.len(), 2, |i, j| match j {
        0 => rows[i].rest,
        _ => hyper.covariance(&rows[i].place, place),
    });
    let solved = factor.solve(&right);
    let (mut mean, mut explained) = (0.0, 0.0);
    for i in 0..rows.len() {
        mean += right[(i, 1)] * solved[(i, 0)];
        explained += right[(i, 1)] * solved[(i, 1)];
    }
    let least = hyper.noise.powi(2);
    (mean, (prior - explained).max(least).sqrt())
}
