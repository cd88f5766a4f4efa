//! Wilcoxon's signed-rank test, one-sided.

use std::f64::consts::SQRT_2;

/// Up to so many differences the distribution is counted out.
const EXACT: usize = 50;

/// The chance of differences at least as large as these in sum of ranks, where each is as likely
/// to be above 0 as below. Zeros are split evenly between both signs, ties share their ranks. Up to
/// 50 differences it is exact, ties or not; beyond, the normal approximation. The differences are not
/// NaN.
pub(super) fn p_greater(differences: &[f64]) -> f64 {
    let n = differences.len();
    let ranks = doubled_ranks(differences);
    let of = |sign: fn(&f64) -> bool| -> usize {
        let ranks = differences.iter().zip(&ranks);
        ranks.filter(|(d, _)| sign(d)).map(|(_, r)| r).sum()
    };
    let above = of(|d| *d > 0.0);
    if n <= EXACT {
        // The zeros' part is the same whatever the signs.
        let signed = differences.iter().zip(&ranks);
        let free: Vec<usize> = signed
            .filter(|(d, _)| **d != 0.0)
            .map(|(_, r)| *r)
            .collect();
        return tail(&free, above);
    }
    let statistic = above as f64 / 2.0 + of(|d| *d == 0.0) as f64 / 4.0;
    let count = n as f64;
    let mean = count * (count + 1.0) / 4.0;
    let variance = (count * (count + 1.0) * (2.0 * count + 1.0) - ties(differences) / 2.0) / 24.0;
    let z = (statistic - mean) / variance.sqrt();
    libm::erfc(z / SQRT_2) / 2.0
}

/// Twice the rank of each by its absolute value, from 1; equals share the mean of their ranks.
fn doubled_ranks(differences: &[f64]) -> Vec<usize> {
    let mut sorted: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = |d: &f64| {
        let below = sorted.partition_point(|s| *s < d.abs());
        let up_to = sorted.partition_point(|s| *s <= d.abs());
        below + 1 + up_to
    };
    differences.iter().map(place).collect()
}

/// The sum of `t^3 - t` over groups of `t` ties.
fn ties(differences: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let groups = sorted.chunk_by(|a, b| a == b).map(|g| g.len() as f64);
    groups.map(|t| t * t * t - t).sum()
}

/// The chance that the sum of those of `ranks` that get the upper sign reaches `least`.
fn tail(ranks: &[usize], least: usize) -> f64 {
    let mut chances = vec![0.0; ranks.iter().sum::<usize>() + 1];
    chances[0] = 1.0;
    let mut greatest = 0;
    for rank in ranks {
        greatest += rank;
        for sum in (0..=greatest).rev() {
            let with = sum.checked_sub(*rank).map_or(0.0, |rest| chances[rest]);
            chances[sum] = (chances[sum] + with) / 2.0;
        }
    }
    chances[least..].iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(differences: &[f64], expected: f64) {
        let p = p_greater(differences);
        assert!((p - expected).abs() < 1e-12, "{p} {expected}");
    }

    #[test]
    fn small_samples_are_counted_out() {
        assert_near(&[1.0, 2.0], 0.25);
        assert_near(&[1.0, 2.0, 3.0, 4.0], 1.0 / 16.0);
        assert_near(&[-1.0, 2.0, 3.0, 4.0], 2.0 / 16.0);
        assert_near(&[-1.0, -2.0, -3.0], 1.0);
        // Two of rank 1.5: sums of 4.5 and above are had by (3, 1.5), twice, and all.
        assert_near(&[-1.0, 1.0, 3.0], 3.0 / 8.0);
    }

    #[test]
    fn zeros_take_ranks_and_no_side() {
        assert_near(&[0.0, 0.0], 1.0);
        assert_near(&[0.0, 1.0, 2.0], 0.25);
        assert_near(&[0.0, 1.0, -2.0], 0.75);
        assert_near(&[], 1.0);
        assert_near(&[0.0; 51], 0.5);
    }

    #[test]
    fn the_approximation_joins_the_exact_distribution() {
        let sample = |n: usize| -> Vec<f64> {
            (0..n)
                .map(|i| (i as f64 + 1.0) * if i % 3 == 0 { -1.0 } else { 1.0 })
                .collect()
        };
        let exact = p_greater(&sample(50));
        let next = p_greater(&sample(52));
        assert!((exact - next).abs() < 0.01, "{exact} {next}");
        let upside: Vec<f64> = sample(60).iter().map(|d| -d).collect();
        let (p, q) = (p_greater(&sample(60)), p_greater(&upside));
        assert!((p + q - 1.0).abs() < 1e-9);
    }
}
