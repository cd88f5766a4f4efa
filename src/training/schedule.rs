//! The learning rate over the steps of the optimiser.

use std::f64::consts::PI;

use serde::Deserialize;

/// The course of the learning rate, by its word in `sched.name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Course {
    /// Falls evenly.
    Linear,
    /// Falls along half a cosine.
    Cosine,
    /// As often as there are cycles: jumps to the top and falls along half a cosine.
    CosineRestart,
    /// A power of the part that is left.
    Polynomial,
    /// As often as there are cycles: rises from a 25th along half a cosine, and falls along another
    /// to a ten-thousandth of that (Smith and Topin, "Super-Convergence", 2018, as PyTorch has it,
    /// but for the momentum, which stays).
    OneCycle,
}

/// A schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// The course.
    pub shape: Course,
    /// Share of the steps in which the rate first rises evenly; of each cycle with
    /// [`Course::OneCycle`]. In 0..=1.
    pub warmup_ratio: f64,
    /// Of the courses that have cycles; at least 1.
    pub cycles: u64,
    /// Of [`Course::Polynomial`].
    pub power: f64,
}

/// Where one cycle begins, as a part of the top.
const FIRST: f64 = 1.0 / 25.0;

/// Where it ends.
const LAST: f64 = FIRST / 1e4;

impl Schedule {
    /// The factor on the learning rate at `step` (from 0) of `total`: above 0, at most 1.
    pub fn factor(&self, step: u64, total: u64) -> f64 {
        if self.shape == Course::OneCycle {
            return self.cycle(step, total);
        }
        let warmup = (self.warmup_ratio * total as f64).round() as u64;
        if step < warmup {
            return (step + 1) as f64 / warmup as f64;
        }
        let steps = total.saturating_sub(warmup).max(1);
        let done = (step - warmup).min(steps - 1);
        let left = (steps - done) as f64 / steps as f64;
        match self.shape {
            Course::Linear => left,
            Course::Cosine => falling(done as f64 / steps as f64),
            Course::CosineRestart => falling(within(done, steps, self.cycles)),
            Course::Polynomial => left.powf(self.power),
            Course::OneCycle => 1.0,
        }
    }

    fn cycle(&self, step: u64, total: u64) -> f64 {
        let (at, rise) = (within(step, total.max(1), self.cycles), self.warmup_ratio);
        if at < rise {
            return FIRST + (1.0 - FIRST) * (1.0 - falling(at / rise));
        }
        LAST + (1.0 - LAST) * falling((at - rise) / (1.0 - rise))
    }
}

/// Half a cosine: 1 at 0, 0 at 1.
fn falling(at: f64) -> f64 {
    0.5 * (1.0 + (PI * at).cos())
}

/// The place within one of `cycles` equal parts of `steps`, from 0 to below 1. In whole numbers, so
/// that a part begins at its first step whatever the rounding.
fn within(step: u64, steps: u64, cycles: u64) -> f64 {
    let at = (u128::from(step) * u128::from(cycles.max(1))) % u128::from(steps);
    at as f64 / steps as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINEAR: Schedule = Schedule {
        shape: Course::Linear,
        warmup_ratio: 0.0,
        cycles: 1,
        power: 1.0,
    };

    fn all(schedule: Schedule, total: u64) -> Vec<f64> {
        (0..total).map(|s| schedule.factor(s, total)).collect()
    }

    fn close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (f, e) in found.iter().zip(expected) {
            assert!((f - e).abs() < 1e-12, "{found:?} {expected:?}");
        }
    }

    #[test]
    fn the_factor_rises_to_one_and_falls_without_reaching_zero() {
        let linear = Schedule {
            warmup_ratio: 0.2,
            ..LINEAR
        };
        let factors = all(linear, 10);
        assert_eq!(factors[0], 0.5);
        assert_eq!(factors[1], 1.0);
        assert_eq!(factors[2], 1.0);
        assert_eq!(factors[9], 0.125);
        assert_eq!(LINEAR.factor(0, 10), 1.0);
        let only_rises = Schedule {
            warmup_ratio: 1.0,
            ..LINEAR
        };
        assert_eq!(only_rises.factor(9, 10), 1.0);
    }

    #[test]
    fn a_cosine_falls_along_half_a_wave_and_starts_again_at_each_cycle() {
        let cosine = Schedule {
            shape: Course::Cosine,
            ..LINEAR
        };
        let half = 0.5f64.sqrt() / 2.0;
        close(&all(cosine, 4), &[1.0, 0.5 + half, 0.5, 0.5 - half]);
        let restart = |cycles| Schedule {
            shape: Course::CosineRestart,
            cycles,
            ..LINEAR
        };
        assert_eq!(all(restart(1), 8), all(cosine, 8));
        let twice = [all(cosine, 4), all(cosine, 4)].concat();
        close(&all(restart(2), 8), &twice);
    }

    #[test]
    fn a_polynomial_is_a_power_of_the_linear_fall() {
        let power = |power| Schedule {
            shape: Course::Polynomial,
            power,
            ..LINEAR
        };
        close(&all(power(1.0), 5), &all(LINEAR, 5));
        close(&all(power(2.0), 4), &[1.0, 0.5625, 0.25, 0.0625]);
        close(&[power(0.5).factor(3, 4)], &[0.5]);
    }

    #[test]
    fn one_cycle_rises_for_the_share_of_the_warm_up_and_falls_each_time() {
        let cycle = |cycles| Schedule {
            shape: Course::OneCycle,
            warmup_ratio: 0.25,
            cycles,
            power: 1.0,
        };
        let one = all(cycle(1), 8);
        assert!((one[0] - 0.04).abs() < 1e-12, "{one:?}");
        assert!((one[1] - 0.52).abs() < 1e-12, "half way up: {one:?}");
        assert_eq!(one[2], 1.0);
        assert!((one[5] - (0.5 + 0.5 * 4e-6)).abs() < 1e-12, "half way down");
        assert!(one[2..].windows(2).all(|w| w[0] > w[1]), "{one:?}");
        close(&all(cycle(2), 16), &[one.clone(), one].concat());
    }

    proptest! {
        #[test]
        fn a_factor_is_above_zero_and_at_most_one(
            word in prop::sample::select(vec![
                "linear", "cosine", "cosine_restart", "polynomial", "one_cycle",
            ]),
            warmup_ratio in 0.0f64..=1.0, cycles in 1u64..9, power in 0.1f64..3.0,
            total in 1u64..300,
        ) {
            let shape: Course = serde_json::from_value(word.into()).unwrap();
            let schedule = Schedule { shape, warmup_ratio, cycles, power };
            for factor in all(schedule, total) {
                prop_assert!(factor > 0.0 && factor <= 1.0, "{factor}");
            }
        }
    }
}
