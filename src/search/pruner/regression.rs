//! What a few quantities say of another one: ridge regression with Student's prediction interval.

use std::f64::consts::SQRT_2;

/// How many quantities predict.
pub(super) const FEATURES: usize = 3;

/// The weight of the prior that holds the coefficients of standardised quantities near 0: that of
/// one observation.
const RIDGE: f64 = 1.0;

/// A value that is not known exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    /// Its mean.
    pub mean: f64,
    /// Its scale, above 0.
    pub scale: f64,
    /// Degrees of freedom of its t distribution, at least 1.
    pub freedom: f64,
}

impl Estimate {
    /// The chance that it lies below `limit`.
    pub fn chance_below(self, limit: f64) -> f64 {
        // Wallace's normal approximation of Student's t, 1959.
        let t = (limit - self.mean) / self.scale;
        let v = self.freedom;
        let z = (8.0 * v + 1.0) / (8.0 * v + 3.0) * (v * (t * t / v).ln_1p()).sqrt();
        libm::erfc(-z.copysign(t) / SQRT_2) / 2.0
    }
}

/// The next of values like these. They are finite, and at least two.
pub(super) fn next(values: &[f64]) -> Estimate {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let freedom = (n - 1.0).max(1.0);
    Estimate {
        mean,
        scale: (squares / freedom * (1.0 + 1.0 / n)).sqrt().max(TINY),
        freedom,
    }
}

/// Least scale: equal values leave something open.
const TINY: f64 = 1e-12;

/// The value that belongs to `at`, where `rows` have `values`. Everything is finite; there are at
/// least two rows, as many as values.
pub(super) fn predict(rows: &[[f64; FEATURES]], values: &[f64], at: [f64; FEATURES]) -> Estimate {
    let n = rows.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let (rows, at) = standardised(rows, at);
    let mut gram = [[0.0; FEATURES]; FEATURES];
    let mut moment = [0.0; FEATURES];
    for (row, value) in rows.iter().zip(values) {
        for i in 0..FEATURES {
            moment[i] += row[i] * (value - mean);
            for j in 0..FEATURES {
                gram[i][j] += row[i] * row[j];
            }
        }
    }
    for (i, line) in gram.iter_mut().enumerate() {
        line[i] += RIDGE;
    }
    let slopes = solve(gram, moment);
    let dot = |a: &[f64; FEATURES], b: &[f64; FEATURES]| -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    };
    let residual =
        |(row, value): (&[f64; FEATURES], &f64)| (value - mean - dot(row, &slopes)).powi(2);
    let squares: f64 = rows.iter().zip(values).map(residual).sum();
    let freedom = (n - 1.0 - FEATURES as f64).max(1.0);
    let distance = dot(&solve(gram, at), &at);
    Estimate {
        mean: mean + dot(&slopes, &at),
        scale: (squares / freedom * (1.0 + 1.0 / n + distance))
            .sqrt()
            .max(TINY),
        freedom,
    }
}

/// Each quantity with mean 0 and deviation 1 over the rows.
fn standardised(
    rows: &[[f64; FEATURES]],
    mut at: [f64; FEATURES],
) -> (Vec<[f64; FEATURES]>, [f64; FEATURES]) {
    let n = rows.len() as f64;
    let mut rows = rows.to_vec();
    for i in 0..FEATURES {
        let mean = rows.iter().map(|r| r[i]).sum::<f64>() / n;
        let squares: f64 = rows.iter().map(|r| (r[i] - mean).powi(2)).sum();
        let scale = (squares / n).sqrt().max(TINY);
        for row in &mut rows {
            row[i] = (row[i] - mean) / scale;
        }
        at[i] = (at[i] - mean) / scale;
    }
    (rows, at)
}

/// Solves `matrix * x = right`; the matrix is symmetric, its eigenvalues are at least [`RIDGE`].
fn solve(mut matrix: [[f64; FEATURES]; FEATURES], mut right: [f64; FEATURES]) -> [f64; FEATURES] {
    for i in 0..FEATURES {
        let (line, pivot) = (matrix[i], matrix[i][i]);
        for j in (0..FEATURES).filter(|j| *j != i) {
            let factor = matrix[j][i] / pivot;
            for (x, y) in matrix[j].iter_mut().zip(line) {
                *x -= factor * y;
            }
            right[j] -= factor * right[i];
        }
    }
    std::array::from_fn(|i| right[i] / matrix[i][i])
}

/// The fences beyond which a value counts as an outlier (Tukey): one and a half times the distance
/// of the quartiles beyond them. Values that are not finite are left out; `None` without any.
pub(super) fn fences(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let mut finite: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    finite.sort_unstable_by(f64::total_cmp);
    let quartile = |part: usize| {
        let last = finite.len().checked_sub(1)?;
        finite.get(last * part / 4).copied()
    };
    let (low, high) = (quartile(1)?, quartile(3)?);
    let beyond = 1.5 * (high - low);
    Some((low - beyond, high + beyond))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_relation_is_found_and_noise_widens_the_estimate() {
        let rows: Vec<[f64; 3]> = (0..40)
            .map(|i| f64::from(i) / 10.0)
            .map(|x| [x, (7.0 * x).sin(), 1.0])
            .collect();
        let exact: Vec<f64> = rows.iter().map(|r| 2.0 * r[0] - r[1]).collect();
        let found = predict(&rows, &exact, [2.0, 0.5, 1.0]);
        assert!((found.mean - 3.5).abs() < 0.1, "{found:?}");
        let noisy = exact.iter().zip(0..);
        let noisy: Vec<f64> = noisy.map(|(v, i)| v + f64::from(i % 2) - 0.5).collect();
        let wide = predict(&rows, &noisy, [2.0, 0.5, 1.0]);
        assert!(wide.scale > 3.0 * found.scale);
        assert!((wide.mean - 3.5).abs() < 0.3);
        let far = predict(&rows, &noisy, [40.0, 0.5, 1.0]);
        assert!(far.scale > 2.0 * wide.scale);
    }

    #[test]
    fn what_tells_nothing_changes_nothing() {
        let rows = vec![[1.0; 3]; 8];
        let values = [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0];
        let (found, alone) = (predict(&rows, &values, [1.0; 3]), next(&values));
        assert!((found.mean - alone.mean).abs() < 1e-12);
        assert!(found.scale > alone.scale);
    }

    #[test]
    fn chances_are_those_of_students_distribution() {
        let standard = |freedom| Estimate {
            mean: 0.0,
            scale: 1.0,
            freedom,
        };
        for (freedom, t, expected) in [
            (9.0, 0.0, 0.5),
            (9.0, -1.833, 0.05),
            (9.0, 2.821, 0.99),
            (4.0, -2.132, 0.05),
            (30.0, -1.697, 0.05),
        ] {
            let found = standard(freedom).chance_below(t);
            assert!((found - expected).abs() < 2e-3, "{freedom} {t} {found}");
        }
        assert!(next(&[1.0, 1.0]).chance_below(0.9) < 1e-6);
    }

    #[test]
    fn fences_leave_ordinary_values_inside_and_outliers_outside() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 1e6, f64::INFINITY, f64::NAN];
        let (low, high) = fences(values.into_iter()).unwrap();
        assert!(low < 1.0 && high > 5.0 && high < 100.0);
        assert_eq!(fences([f64::NAN].into_iter()), None);
    }
}
