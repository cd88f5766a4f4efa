//! How much of an attempt's time goes into checkpoints.
//!
//! Whether one is written depends on the clock. No result does: an attempt that goes on from an older
//! checkpoint trains the epochs after it once more.

use std::time::Duration;

/// One part of so many at most.
const PART: u32 = 10;

/// Not counted: a small checkpoint is always worth its time.
const FREE: Duration = Duration::from_secs(1);

/// What checkpoints have cost so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Budget {
    spent: Duration,
    last: Duration,
}

impl Budget {
    /// Whether a checkpoint that costs as much as the last one may be written, this long after the
    /// attempt's beginning.
    pub fn allows(&self, elapsed: Duration) -> bool {
        self.spent + self.last <= FREE + elapsed / PART
    }

    /// A checkpoint was written, or could not be, and cost this.
    pub fn spend(&mut self, cost: Duration) {
        self.spent += cost;
        self.last = cost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checkpoints that are written where epochs and checkpoints take so many milliseconds.
    fn written(epoch: u64, cost: u64, epochs: u64) -> u64 {
        let (mut budget, mut now, mut count) = (Budget::default(), Duration::ZERO, 0);
        for _ in 0..epochs {
            now += Duration::from_millis(epoch);
            if budget.allows(now) {
                let cost = Duration::from_millis(cost);
                budget.spend(cost);
                now += cost;
                count += 1;
            }
        }
        count
    }

    #[test]
    fn every_epoch_is_kept_where_that_costs_little() {
        assert_eq!(written(60_000, 5_000, 100), 100);
        assert_eq!(written(5, 1, 100), 100);
    }

    #[test]
    fn checkpoints_take_a_tenth_of_the_time_where_epochs_are_short() {
        for (epoch, cost) in [(1_000, 1_000), (500, 4_000)] {
            let count = written(epoch, cost, 1_000);
            let all = epoch * 1_000 + count * cost;
            let part = (count * cost) as f64 / all as f64;
            assert!((0.09..0.11).contains(&part), "{part}");
        }
    }
}
