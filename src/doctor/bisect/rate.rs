//! How often a fault comes, and when that is known well enough.

/// What runs of one failing input have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rate {
    /// Runs that failed.
    pub failed: u32,
    /// All runs.
    pub runs: u32,
}

/// Whether an input has been run often enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measured {
    /// Once more.
    More,
    /// The rate is known well enough.
    Known,
    /// It does not fail: at 95 %, a rate above 26 % is excluded.
    Never,
}

/// Failures in a row, from the first run on, that make a fault one that always comes.
const ALWAYS: u32 = 3;

/// Failures after which the rate of a flaky fault is known well enough.
const FAILURES: u32 = 4;

/// Clean runs in a row, from the first on, that make a fault one that does not come any more.
const CLEAN: u32 = 10;

/// Most runs, whatever has come.
const MOST: u32 = 40;

/// The rate of a fault that has always come: not quite 1, so that no clean run excludes anything for good.
const CERTAIN: f64 = 1.0 - 1e-9;

impl Rate {
    /// Counts one run.
    pub fn count(&mut self, failed: bool) {
        self.runs += 1;
        self.failed += u32::from(failed);
    }

    /// Whether the input needs another run.
    pub fn measured(self) -> Measured {
        if self.failed == 0 && self.runs >= CLEAN {
            return Measured::Never;
        }
        let always = self.always() && self.runs >= ALWAYS;
        match always || self.failed >= FAILURES || self.runs >= MOST {
            true => Measured::Known,
            false => Measured::More,
        }
    }

    /// Whether every run failed.
    pub fn always(self) -> bool {
        self.failed == self.runs && self.runs > 0
    }

    /// The rate, above 0 and below 1. Runs end with a failure, so the estimate without bias is that of inverse
    /// sampling, `(failed - 1) / (runs - 1)` (Haldane, On a method of estimating frequencies, Biometrika 1945).
    pub fn estimate(self) -> f64 {
        if self.always() {
            return CERTAIN;
        }
        let (failed, runs) = (f64::from(self.failed), f64::from(self.runs));
        match self.failed {
            0 | 1 => (failed.max(0.5) / (runs + 1.0)).min(0.5),
            _ => (failed - 1.0) / (runs - 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::runs_to_exclude;

    fn rate(failed: u32, runs: u32) -> Rate {
        Rate { failed, runs }
    }

    #[test]
    fn as_many_clean_runs_are_asked_for_as_exclude_the_rate() {
        assert_eq!(runs_to_exclude(rate(3, 3).estimate()), 1);
        assert_eq!(runs_to_exclude(rate(4, 13).estimate()), 11);
    }

    #[test]
    fn a_fault_that_always_comes_takes_three_runs_and_one_that_is_gone_ten() {
        assert_eq!(rate(2, 2).measured(), Measured::More);
        assert_eq!(rate(3, 3).measured(), Measured::Known);
        assert_eq!(rate(0, 9).measured(), Measured::More);
        assert_eq!(rate(0, 10).measured(), Measured::Never);
        assert_eq!(rate(3, 9).measured(), Measured::More);
        assert_eq!(rate(4, 10).measured(), Measured::Known);
        assert_eq!(rate(1, 40).measured(), Measured::Known);
    }

    #[test]
    fn a_rate_lies_between_never_and_always() {
        for runs in 1..30 {
            for failed in 0..=runs {
                let estimate = rate(failed, runs).estimate();
                assert!(estimate > 0.0 && estimate < 1.0, "{failed} of {runs}");
            }
        }
        assert!((rate(4, 11).estimate() - 0.3).abs() < 1e-9);
    }
}
