//! Times and their percentiles. Pure.

use jiff::Timestamp;

/// Times in seconds, in any order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times(Vec<f64>);

impl Times {
    /// Adds one.
    pub fn push(&mut self, seconds: f64) {
        self.0.push(seconds);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The median; `None` where there is none.
    pub fn median(&self) -> Option<f64> {
        self.percentile(50)
    }

    /// The time that 95 of a hundred do not exceed.
    pub fn p95(&self) -> Option<f64> {
        self.percentile(95)
    }

    /// By nearest rank.
    fn percentile(&self, percent: usize) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (sorted.len() * percent).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).copied()
    }
}

/// Seconds between two times in RFC 3339; never below 0. `None` where one of them is no time.
pub fn between(from: &str, to: &str) -> Option<f64> {
    let (from, to): (Timestamp, Timestamp) = (from.parse().ok()?, to.parse().ok()?);
    Some(to.duration_since(from).as_secs_f64().max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let mut times = Times::default();
        assert_eq!(times.median(), None);
        for i in (1..=20).rev() {
            times.push(f64::from(i));
        }
        assert_eq!((times.median(), times.p95()), (Some(10.0), Some(19.0)));
        assert_eq!(times.count(), 20);
    }

    #[test]
    fn a_clock_that_was_set_back_gives_no_negative_time() {
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01.5Z");
        assert_eq!(between(early, late), Some(1.5));
        assert_eq!(between(late, early), Some(0.0));
        assert_eq!(between("", late), None);
    }
}
