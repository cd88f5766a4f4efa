//! From the values of trials to the targets of a regression.

use std::f64::consts::FRAC_1_SQRT_2;

/// Losses as targets of mean 0 and variance about 1: the better half keeps its distances, the worse
/// half is spread by rank as the tail of a normal distribution, so that one absurd value does not
/// flatten everything else (the half-rank warping of Song et al., "The Vizier Gaussian Process
/// Bandit Algorithm", 2024, arXiv 2408.11527). Infinite losses are worst. No NaN.
pub(super) fn standardised(losses: &[f64]) -> Vec<f64> {
    let n = losses.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| losses[a].total_cmp(&losses[b]).then(a.cmp(&b)));
    let mut targets = match half_rank(losses, &order) {
        Some(warped) => warped,
        None => return vec![0.0; n],
    };
    let mean = targets.iter().sum::<f64>() / n as f64;
    let variance = targets.iter().map(|t| (t - mean) * (t - mean)).sum::<f64>() / n as f64;
    let scale = if variance > 0.0 { variance.sqrt() } else { 1.0 };
    targets.iter_mut().for_each(|t| *t = (*t - mean) / scale);
    targets
}

/// The losses with their worse half replaced; `None` where all are equal or none is finite.
fn half_rank(losses: &[f64], order: &[usize]) -> Option<Vec<f64>> {
    let n = losses.len();
    let median = losses[*order.get(n.saturating_sub(1) / 2)?];
    let good: Vec<f64> = losses.iter().copied().filter(|l| *l <= median).collect();
    let finite = |l: &&f64| l.is_finite();
    let count = good.iter().filter(finite).count().max(1);
    let squares = good
        .iter()
        .filter(finite)
        .map(|l| (l - median) * (l - median));
    let mut deviation = (squares.sum::<f64>() / count as f64).sqrt();
    if deviation == 0.0 || !deviation.is_finite() {
        // More than half are equal (or none is finite): ranks are all there is.
        deviation = 1.0;
    }
    let middle = if median.is_finite() { median } else { 0.0 };
    let mut warped: Vec<f64> = losses.to_vec();
    let mut rank = 0;
    while rank < n {
        let value = losses[order[rank]];
        let equals = order[rank..]
            .iter()
            .take_while(|&&i| losses[i] == value)
            .count();
        if value > median || !value.is_finite() {
            // The middle rank of equal values, as a quantile between a half and one.
            let place = (rank as f64 + 0.5 * equals as f64) / n as f64;
            let place = place.clamp(0.5, 1.0 - 0.25 / n as f64);
            for &i in &order[rank..rank + equals] {
                warped[i] = middle + deviation * normal_quantile(place);
            }
        }
        rank += equals;
    }
    let first = warped.first()?;
    warped.iter().any(|w| w != first).then_some(warped)
}

/// The standard normal quantile of `p` within 0..1, by bisection: few are needed.
fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-9.0f64, 9.0f64);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if 0.5 * libm::erfc(-middle * FRAC_1_SQRT_2) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_keep_the_order_and_the_better_half_its_distances() {
        let losses = [3.0, 1.0, 2.0, 1e9, 10.0, f64::INFINITY, 2.5];
        let targets = standardised(&losses);
        for (i, a) in losses.iter().enumerate() {
            for (j, b) in losses.iter().enumerate() {
                assert_eq!(a < b, targets[i] < targets[j], "{a} {b}");
            }
        }
        let ratio = (targets[2] - targets[1]) / (targets[6] - targets[2]);
        assert!((ratio - 2.0).abs() < 1e-9);
        assert!(targets.iter().all(|t| t.abs() < 3.0));
        assert!(targets.iter().sum::<f64>().abs() < 1e-9);
    }

    #[test]
    fn equal_values_and_no_values_have_equal_targets() {
        assert_eq!(standardised(&[2.0; 4]), [0.0; 4]);
        assert_eq!(standardised(&[f64::INFINITY; 3]), [0.0; 3]);
        assert_eq!(standardised(&[]), Vec::<f64>::new());
        let most = standardised(&[1.0, 1.0, 1.0, 5.0, 0.0]);
        assert_eq!(most[0], most[2]);
        assert!(most[4] < most[0] && most[0] < most[3]);
    }
}
