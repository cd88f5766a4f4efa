//! From the values of trials to the targets of a regression.

use crate::sampler::tpe::quantile;

/// How many times the spread of the better part of the good losses the spread of all of them may
/// be; beyond it they are not of one scale.
const ONE_SCALE: f64 = 100.0;

/// Losses as targets of mean 0 and variance about 1: the better half keeps its distances, the worse
/// half is spread by rank as the tail of a normal distribution, so that one absurd value does not
/// flatten everything else (the half-rank warping of Song et al., "The Vizier Gaussian Process
/// Bandit Algorithm", 2024, arXiv 2408.11527). Where half of the losses are absurd, less than a half
/// keeps its distances. Infinite losses are the worst, those below every number as good as the best.
pub(super) fn standardised(losses: &[f64]) -> Vec<f64> {
    let n = losses.len();
    let finite = losses.iter().copied().filter(|l| l.is_finite());
    // Squares of differences must be numbers, too.
    let best = finite.fold(f64::INFINITY, f64::min).max(-HUGE);
    let losses: Vec<f64> = losses
        .iter()
        .map(|l| {
            if *l > HUGE {
                f64::INFINITY
            } else {
                l.max(best)
            }
        })
        .collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| losses[a].total_cmp(&losses[b]).then(a.cmp(&b)));
    let mut targets = match half_rank(&losses, &order) {
        Some(warped) => warped,
        None => return vec![0.0; n],
    };
    let mean = targets.iter().sum::<f64>() / n as f64;
    let variance = targets.iter().map(|t| (t - mean) * (t - mean)).sum::<f64>() / n as f64;
    let scale = if variance > 0.0 { variance.sqrt() } else { 1.0 };
    targets.iter_mut().for_each(|t| *t = (*t - mean) / scale);
    targets
}

/// Losses beyond it count as infinite.
const HUGE: f64 = 1e150;

/// The losses with their worse part replaced; `None` where all are equal or none is finite.
fn half_rank(losses: &[f64], order: &[usize]) -> Option<Vec<f64>> {
    let n = losses.len();
    let sorted: Vec<f64> = order.iter().map(|&i| losses[i]).collect();
    let best = *sorted.first().filter(|l| l.is_finite())?;
    let finite = sorted.iter().filter(|l| l.is_finite()).count();
    let mut last = (n - 1) / 2;
    last = last.min(finite - 1);
    while last > 1
        && sorted[last] - best > ONE_SCALE * (sorted[last / 2] - best)
        && sorted[last / 2] > best
    {
        last /= 2;
    }
    let border = sorted[last];
    let good = sorted.iter().filter(|l| **l <= border);
    let squares: f64 = good.clone().map(|l| (l - border) * (l - border)).sum();
    let mut deviation = (squares / good.clone().count() as f64).sqrt();
    if deviation == 0.0 {
        // The good ones are equal: ranks are all there is.
        deviation = 1.0;
    }
    let start = 0.5_f64.min((last + 1) as f64 / n as f64);
    let mut warped: Vec<f64> = losses.to_vec();
    let mut rank = 0;
    while rank < n {
        let value = sorted[rank];
        let equals = sorted[rank..].iter().take_while(|l| **l == value).count();
        if value > border {
            // The middle rank of equal values, as a quantile between a half and one.
            let place = (rank as f64 + 0.5 * equals as f64) / n as f64;
            let place = 0.5 + 0.5 * (place - start) / (1.0 - start);
            let place = place.clamp(0.5, 1.0 - 0.25 / n as f64);
            for &i in &order[rank..rank + equals] {
                warped[i] = border + deviation * quantile(place);
            }
        }
        rank += equals;
    }
    let first = warped.first()?;
    warped.iter().any(|w| w != first).then_some(warped)
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
    fn infinite_losses_are_the_worst_however_many_there_are() {
        for losses in [
            vec![150.0, 160.0, f64::INFINITY, f64::INFINITY, f64::INFINITY],
            vec![0.2, 0.1, f64::MAX, f64::MAX, 1e300, f64::INFINITY, f64::MAX],
        ] {
            let targets = standardised(&losses);
            assert!(targets.iter().all(|t| t.is_finite()), "{targets:?}");
            let worst_good = targets[0].max(targets[1]);
            assert!(
                targets[2..].iter().all(|t| *t > worst_good + 0.1),
                "{targets:?}"
            );
            assert_ne!(targets[0], targets[1]);
        }
        let targets = standardised(&[f64::NEG_INFINITY, 1.0, 2.0, 3.0]);
        assert!(targets[0] <= targets[1] && targets[1] < targets[2]);
    }

    #[test]
    fn a_majority_of_absurd_losses_does_not_flatten_the_others() {
        let losses = [0.1, 0.2, 0.3, 1e30, 1e30, 1e31, 1e30, 1e29, 1e30];
        let targets = standardised(&losses);
        assert!(targets[1] - targets[0] > 0.05, "{targets:?}");
        assert!(targets[3..].iter().all(|t| *t > targets[2]), "{targets:?}");
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
