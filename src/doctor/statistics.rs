//! How often a command fails, and how many clean runs show that a change has ended that.
//!
//! A failure either comes every time or at some rate in (0, 1). The first is expected of seven in ten commands before
//! anything has run; of the others every rate is as likely as any other (a Beta(1, 1) prior). All figures are posterior
//! probabilities of that mixture, so that three failures in three runs are not yet taken for certainty.

/// How often a command that somebody brings here fails every time, before it has run.
const ALWAYS: f64 = 0.7;

/// How often a run still fails where a change has ended the failure: something else may go wrong.
const RESIDUE: f64 = 0.02;

/// What a clean series must rule out, as a probability.
pub const DOUBT: f64 = 0.05;

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
const IN_A_ROW: u32 = 3;

/// Failures after which the rate of a flaky fault is known well enough.
const FAILURES: u32 = 4;

/// Clean runs in a row, from the first on, that make a fault one that does not come any more.
const CLEAN: u32 = 10;

/// Most runs, whatever has come.
const MOST: u32 = 40;

/// The rate of a fault that has always come: not quite 1, so that no clean run excludes anything for good.
const CERTAIN: f64 = 1.0 - 1e-9;

/// How often something fails, as far as runs have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Rate {
    /// That failed.
    pub failed: u32,
    /// In all.
    pub all: u32,
}

impl Rate {
    /// Counts one more.
    pub fn add(&mut self, failed: bool) {
        self.failed += u32::from(failed);
        self.all += 1;
    }

    /// That ended well.
    pub fn clean(self) -> u32 {
        self.all - self.failed
    }

    /// Whether the input needs another run.
    pub fn measured(self) -> Measured {
        if self.failed == 0 && self.all >= CLEAN {
            return Measured::Never;
        }
        let always = self.every_time() && self.all >= IN_A_ROW;
        match always || self.failed >= FAILURES || self.all >= MOST {
            true => Measured::Known,
            false => Measured::More,
        }
    }

    /// Whether every run failed.
    pub fn every_time(self) -> bool {
        self.failed == self.all && self.all > 0
    }

    /// The rate, above 0 and below 1. Runs end with a failure, so the estimate without bias is that of inverse
    /// sampling, `(failed - 1) / (runs - 1)` (Haldane, On a method of estimating frequencies, Biometrika 1945).
    pub fn estimate(self) -> f64 {
        if self.every_time() {
            return CERTAIN;
        }
        let (failed, runs) = (f64::from(self.failed), f64::from(self.all));
        match self.failed {
            0 | 1 => (failed.max(0.5) / (runs + 1.0)).min(0.5),
            _ => (failed - 1.0) / (runs - 1.0),
        }
    }

    /// How likely the failure comes every time, in 0 to 1.
    fn certainty(self) -> f64 {
        if self.clean() > 0 {
            return 0.0;
        }
        let sometimes = (1.0 - ALWAYS) / f64::from(self.all + 1);
        ALWAYS / (ALWAYS + sometimes)
    }

    /// The failure rate that is to be expected, in 0 to 1.
    pub fn expected(self) -> f64 {
        let always = self.certainty();
        let (failed, all) = (f64::from(self.failed), f64::from(self.all));
        always + (1.0 - always) * (failed + 1.0) / (all + 2.0)
    }

    /// How likely such a series is where each run fails as often as those of `base` did.
    pub fn likelihood_unchanged(self, base: Rate) -> f64 {
        let always = base.certainty();
        let every_time = if self.clean() > 0 { 0.0 } else { 1.0 };
        let (a, b) = (f64::from(base.failed + 1), f64::from(base.clean() + 1));
        // The Beta distribution integrated over the series, one run after the other.
        let mut sometimes = 1.0;
        let mut seen = 0.0;
        for i in 0..self.failed {
            sometimes *= (a + f64::from(i)) / (a + b + seen);
            seen += 1.0;
        }
        for i in 0..self.clean() {
            sometimes *= (b + f64::from(i)) / (a + b + seen);
            seen += 1.0;
        }
        always * every_time + (1.0 - always) * sometimes
    }

    /// How likely such a series is where the failure has ended.
    pub fn likelihood_ended(self) -> f64 {
        RESIDUE.powi(self.failed as i32) * (1.0 - RESIDUE).powi(self.clean() as i32)
    }

    /// How likely such a series is where it now comes every time.
    pub fn likelihood_always(self) -> f64 {
        RESIDUE.powi(self.clean() as i32) * (1.0 - RESIDUE).powi(self.failed as i32)
    }

    /// How many clean runs in a row rule out, at 95 %, that runs still fail as often as these did.
    /// `None`: more than `most`.
    pub fn clean_runs_needed(self, most: u32) -> Option<u32> {
        (1..=most).find(|&all| Rate { failed: 0, all }.likelihood_unchanged(self) <= DOUBT)
    }
}

/// How many clean runs in a row rule out a known failure rate in (0, 1] at 95 %: ln 0.05 / ln(1 - rate), rounded up.
pub fn runs_to_exclude(rate: f64) -> u32 {
    if rate >= 1.0 {
        return 1;
    }
    let runs = DOUBT.ln() / (1.0 - rate.max(1e-6)).ln();
    runs.ceil().max(1.0) as u32
}

/// The failure rate that so many clean runs rule out at 95 %.
pub fn excluded_rate(clean: u32) -> f64 {
    1.0 - DOUBT.powf(1.0 / f64::from(clean.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(failed: u32, all: u32) -> Rate {
        Rate { failed, all }
    }

    #[test]
    fn a_known_rate_needs_the_runs_of_the_formula() {
        assert_eq!(runs_to_exclude(0.26), 10);
        assert_eq!(runs_to_exclude(0.3), 9);
        assert_eq!(runs_to_exclude(0.5), 5);
        assert_eq!(runs_to_exclude(1.0), 1);
        assert!((excluded_rate(10) - 0.2589).abs() < 1e-4);
    }

    #[test]
    fn two_failures_in_two_runs_need_one_clean_run_and_one_needs_two() {
        assert_eq!(runs(2, 2).clean_runs_needed(50), Some(1));
        assert!(runs(1, 1).clean_runs_needed(50) > Some(1));
    }

    #[test]
    fn an_estimated_rate_needs_more_runs_than_a_known_one() {
        let needed = runs(3, 10).clean_runs_needed(99).unwrap();
        assert!(needed > runs_to_exclude(0.3) && needed < 20, "{needed}");
        assert_eq!(runs(1, 60).clean_runs_needed(30), None, "too rare to say");
    }

    #[test]
    fn a_rare_failure_that_comes_every_time_has_changed() {
        let base = runs(3, 10);
        let now = runs(5, 5);
        assert!(now.likelihood_always() > 20.0 * now.likelihood_unchanged(base));
        let clean = runs(0, 14);
        assert!(clean.likelihood_ended() > 10.0 * clean.likelihood_unchanged(base));
    }

    #[test]
    fn the_series_of_one_length_are_a_distribution() {
        let base = runs(2, 5);
        let ways = [1.0, 3.0, 3.0, 1.0];
        let sum: f64 = (0..=3u32)
            .map(|k| ways[k as usize] * runs(k, 3).likelihood_unchanged(base))
            .sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
    }

    #[test]
    fn as_many_clean_runs_are_asked_for_as_exclude_the_runs() {
        assert_eq!(runs_to_exclude(runs(3, 3).estimate()), 1);
        assert_eq!(runs_to_exclude(runs(4, 13).estimate()), 11);
    }

    #[test]
    fn a_fault_that_always_comes_takes_three_runs_and_one_that_is_gone_ten() {
        assert_eq!(runs(2, 2).measured(), Measured::More);
        assert_eq!(runs(3, 3).measured(), Measured::Known);
        assert_eq!(runs(0, 9).measured(), Measured::More);
        assert_eq!(runs(0, 10).measured(), Measured::Never);
        assert_eq!(runs(3, 9).measured(), Measured::More);
        assert_eq!(runs(4, 10).measured(), Measured::Known);
        assert_eq!(runs(1, 40).measured(), Measured::Known);
    }

    #[test]
    fn a_rate_lies_between_never_and_always() {
        for all in 1..30 {
            for failed in 0..=all {
                let estimate = runs(failed, all).estimate();
                assert!(estimate > 0.0 && estimate < 1.0, "{failed} of {all}");
            }
        }
        assert!((runs(4, 11).estimate() - 0.3).abs() < 1e-9);
    }
}
