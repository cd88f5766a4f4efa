//! How often the study's own predictions have held, and how much wider that makes the next ones.
//!
//! Each measurement is compared with what was predicted for it before it was known. How far it lay
//! from the median, in widths of the interval's half on that side, is its score; from the latest
//! scores a factor for the lower half follows (split conformal prediction, the window moving on), because
//! the lower end refuses trials. The upper half is left as the fit calibrates it: it holds by itself, and
//! what the first measurements of a study missed would keep trials apart for long. A function of the
//! latest measurements, in their order.

use std::collections::VecDeque;

use super::fit::Interval;

/// So many of the latest measurements count.
pub const WINDOW: usize = 128;
/// With fewer scores than this it is not known whether predictions hold.
const ENOUGH: usize = 5;
/// Peaks that may lie below the interval.
const BELOW: f64 = 0.025;
/// Predictions hold where no more than this part of them missed.
const MISSED: f64 = 0.07;
/// The lower half gets at most so many times as wide: one absurd measurement is no rule.
const WIDEST: f64 = 4.0;

/// How a measurement compares with its prediction: above 1 it lies beyond the interval's end.
/// `None` where it does not tell: memory ran out before it was known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Score {
    below: Option<f64>,
    above: Option<f64>,
}

/// Scores of the latest predictions, and the factor that follows from them.
#[derive(Debug, Clone, PartialEq)]
pub struct PredictionScores {
    scores: VecDeque<Score>,
    low: f64,
    /// Predictions of the window that can be judged, and those that held, each widened by what was
    /// known before it.
    judged: usize,
    held: usize,
}

impl PredictionScores {
    pub fn new() -> PredictionScores {
        PredictionScores {
            scores: VecDeque::new(),
            low: 1.0,
            judged: 0,
            held: 0,
        }
    }

    /// Enters a measurement beside its prediction, as that was before it was widened.
    pub fn enter(&mut self, predicted: Option<Interval>, log_peak: f64, bound: bool) {
        let score = predicted.map(|p| score(p, log_peak, bound));
        self.scores.push_back(score.unwrap_or_default());
        if self.scores.len() > WINDOW {
            self.scores.pop_front();
        }
        self.judge();
    }

    /// An interval that reaches as low as this study's measurements demand.
    pub fn widen(&self, interval: Interval) -> Interval {
        let half = interval.expected - interval.lower;
        Interval {
            lower: interval.expected - half * self.low,
            ..interval
        }
    }

    /// Whether predictions are known to hold.
    pub fn holds(&self) -> bool {
        let missed = (self.judged - self.held) as f64;
        self.judged >= ENOUGH && missed <= MISSED * self.judged as f64
    }

    /// Goes through the window as it came about.
    fn judge(&mut self) {
        let mut below = Vec::new();
        (self.judged, self.held, self.low) = (0, 0, 1.0);
        for score in &self.scores {
            let within = |score: Option<f64>, factor| score.is_none_or(|s| s <= factor);
            if score.below.or(score.above).is_some() {
                self.judged += 1;
                let held = within(score.below, self.low) && within(score.above, 1.0);
                self.held += usize::from(held);
            }
            self.low = enter(&mut below, score.below);
        }
    }
}

/// Sorts a score in; gives how many times as wide the half has to be so that a share [`BELOW`] of such
/// scores lies beyond it.
fn enter(sorted: &mut Vec<f64>, score: Option<f64>) -> f64 {
    if let Some(score) = score {
        let at = sorted.partition_point(|s| *s < score);
        sorted.insert(at, score);
    }
    let n = sorted.len();
    let rank = ((1.0 - BELOW) * (n as f64 + 1.0)).ceil() as usize;
    // So few scores do not reach as far as the quantile does.
    let beyond = if rank > n { 1.0 + 3.0 / n as f64 } else { 1.0 };
    let found = sorted.get(rank.min(n).wrapping_sub(1)).copied();
    found.map_or(1.0, |s| (s * beyond).clamp(1.0, WIDEST))
}

fn score(predicted: Interval, log_peak: f64, bound: bool) -> Score {
    let Interval {
        lower,
        expected,
        upper,
    } = predicted;
    // An interval without width would make every miss infinite.
    let part = |distance: f64, half: f64| distance / half.max(1e-3);
    let below = part(expected - log_peak, expected - lower);
    let above = part(log_peak - expected, upper - expected);
    Score {
        // The peak is larger than the bound: the lower end has held if the bound lies above it, and
        // the upper one has not if the bound does so, too.
        below: (!bound || below <= 1.0).then_some(below),
        above: (!bound || above > 1.0).then_some(above),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Interval = Interval {
        lower: -1.0,
        expected: 0.0,
        upper: 2.0,
    };

    fn account(peaks: &[f64]) -> PredictionScores {
        let mut account = PredictionScores::new();
        peaks
            .iter()
            .for_each(|p| account.enter(Some(INTERVAL), *p, false));
        account
    }

    #[test]
    fn nothing_is_known_to_hold_before_the_fifth_measurement() {
        for n in 0..10 {
            assert_eq!(account(&vec![0.3; n]).holds(), n >= ENOUGH, "{n}");
        }
        assert_eq!(account(&[0.3; 40]).widen(INTERVAL), INTERVAL);
    }

    #[test]
    fn a_miss_among_few_means_that_nothing_is_known_and_the_interval_is_wider() {
        let missed = account(&[0.3, 0.1, -1.5, 0.2, 0.0, 0.1]);
        assert!(!missed.holds());
        let wider = missed.widen(INTERVAL);
        // Half as much more again: the sixth part of all says little of the fortieth.
        assert_eq!((wider.lower, wider.upper), (-2.25, 2.0));
        let above = account(&[0.3, 0.1, 3.0, 0.2, 0.0]);
        assert!(!above.holds());
        assert_eq!(
            above.widen(INTERVAL),
            INTERVAL,
            "the upper end is the fit's"
        );
        let mut rare = vec![0.1; 20];
        rare[3] = -1.5;
        assert!(account(&rare).holds(), "one of twenty");
        rare[9] = -3.0;
        assert!(!account(&rare).holds(), "two of twenty");
    }

    #[test]
    fn what_was_missed_long_ago_is_forgotten() {
        let mut peaks = vec![-9.0; 40];
        peaks.extend(vec![0.1; WINDOW]);
        let account = account(&peaks);
        assert!(account.holds());
        assert_eq!(account.widen(INTERVAL), INTERVAL);
    }

    #[test]
    fn who_ran_out_of_memory_judges_only_what_that_tells() {
        let mut account = PredictionScores::new();
        // Below the lower end: nothing. Within: the lower end has held. Above: the upper one has not.
        for (bound, judged, held) in [(-1.5, 0, 0), (0.5, 1, 1), (2.5, 2, 1)] {
            account.enter(Some(INTERVAL), bound, true);
            assert_eq!((account.judged, account.held), (judged, held), "{bound}");
        }
        account.enter(None, 0.0, false);
        assert_eq!(account.judged, 2);
    }

    #[test]
    fn one_absurd_measurement_is_no_rule() {
        let mut peaks = vec![0.1; 60];
        peaks[50] = -1e3;
        assert_eq!(account(&peaks).widen(INTERVAL).lower, -WIDEST);
        peaks.extend(vec![0.1; 40]);
        assert_eq!(account(&peaks).widen(INTERVAL), INTERVAL);
    }
}
