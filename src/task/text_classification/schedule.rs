//! The learning rate over the steps: a linear rise, then a linear fall.

/// The factor on the learning rate at `step` (from 0) of `total`: rises linearly over the first
/// `warmup_ratio` of the steps to 1, then falls linearly towards 0. Never 0 within the training.
pub fn factor(step: u64, total: u64, warmup_ratio: f64) -> f64 {
    let warmup = (warmup_ratio * total as f64).round() as u64;
    if step < warmup {
        (step + 1) as f64 / warmup as f64
    } else {
        total.saturating_sub(step) as f64 / total.saturating_sub(warmup).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_rises_to_one_and_falls_without_reaching_zero() {
        let all: Vec<f64> = (0..10).map(|s| factor(s, 10, 0.2)).collect();
        assert_eq!(all[0], 0.5);
        assert_eq!(all[1], 1.0);
        assert_eq!(all[2], 1.0);
        assert_eq!(all[9], 0.125);
        assert_eq!(factor(0, 10, 0.0), 1.0);
        assert_eq!(factor(9, 10, 1.0), 1.0);
    }
}
