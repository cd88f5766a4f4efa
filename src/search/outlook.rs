//! What more trials would likely bring: how far the best of the next ones would be better than the best so far.
//!
//! Whether one of them is better at all follows from how the search went: how often its later half bettered the best, how
//! long ago it last did, how many trials there are and how many of them were pruned. By how much is of the order of what
//! lies between the five best values. Odds and size are those of searches of the benchmark, to which a logistic and a
//! log-normal model were fitted (`benches/search/outlook_fit.py`, which also judges them by functions that they were not
//! fitted to; docs/search-quality.md has what it found). It takes the search to go on as it did.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};

/// What more trials would likely bring.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Outlook {
    /// So many more trials.
    pub trials: usize,
    /// Lower end of an 80 % interval of the gain, in the metric's units: 0, because a small gain is likelier than a large one.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// Upper end.
    pub high: f64,
    /// Probability that the best becomes better at all.
    pub chance: f64,
    /// It rests on so many of the latest trials most of all.
    pub latest: usize,
}

/// So many more trials are looked ahead.
const AHEAD: usize = 100;

/// Fewer finished trials than this say nothing of what comes.
pub const FEWEST: usize = 40;

/// What lies between the best value and this one, of values that differ, gives the size of a gain.
const RANK: usize = 5;

/// Share of what may come that lies within the interval.
const WITHIN: f64 = 0.8;

/// What more trials would bring; `None` where too few have finished, or fewer than five of their values differ; where all of
/// [`FEWEST`] or more are equal, nothing. `finished` has the trials that count towards a goal,
/// in order: the loss of each that may be the best, which is finite.
pub fn outlook(finished: &[Option<f64>]) -> Option<Outlook> {
    let seen = Seen::of(finished)?;
    let chance = seen.chance();
    let gain = |share: f64| match share < chance {
        true => seen.gain(1.0 - share / chance),
        false => 0.0,
    };
    Some(Outlook {
        trials: AHEAD,
        low: 0.0,
        median: gain(0.5),
        high: gain(1.0 - WITHIN),
        chance,
        latest: seen.latest,
    })
}

/// What a forecast rests on.
#[derive(Debug)]
struct Seen {
    trials: usize,
    /// Trials of the later half.
    latest: usize,
    /// How many of those bettered the best so far.
    records: usize,
    /// Trials since the best, with it.
    since: usize,
    /// Share of the later half that has no loss: pruned trials, and those that may not win.
    pruned: f64,
    /// From the best value to that of [`RANK`].
    gap: f64,
}

impl Seen {
    fn of(finished: &[Option<f64>]) -> Option<Seen> {
        let (trials, latest) = (finished.len(), finished.len() / 2);
        if trials < FEWEST {
            return None;
        }
        let mut best = f64::INFINITY;
        let mut records = Vec::new();
        for (at, loss) in finished.iter().enumerate() {
            if let Some(loss) = loss.filter(|loss| *loss < best) {
                best = loss;
                records.push(at);
            }
        }
        let mut values: Vec<f64> = finished.iter().flatten().copied().collect();
        values.sort_by(f64::total_cmp);
        let equal = values.len() >= FEWEST && values.first() == values.last();
        values.dedup();
        let later = trials - latest;
        let pruned = finished[later..].iter().filter(|loss| loss.is_none());
        Some(Seen {
            trials,
            latest,
            records: records.iter().filter(|at| **at >= later).count(),
            since: trials - records.last()?,
            pruned: pruned.count() as f64 / latest as f64,
            gap: match (values.get(RANK - 1), equal) {
                (Some(fifth), _) => fifth - best,
                (None, true) => 0.0,
                (None, false) => return None,
            },
        })
    }

    /// Probability that the best becomes better.
    fn chance(&self) -> f64 {
        if self.gap == 0.0 {
            // Whatever was tried came to the same.
            return 0.0;
        }
        let log = |n: f64| (AHEAD as f64 / n).ln();
        let odds = 0.18
            + 0.27 * (self.records as f64 + 0.5).ln()
            + 0.34 * log(self.since as f64)
            + 1.17 * log(self.trials as f64)
            - 0.89 * self.pruned;
        1.0 / (1.0 + (-odds).exp())
    }

    /// The gain, where there is one, that this share of gains does not exceed. The fit's constant is 0 to two digits: without
    /// pruning the median gain is the gap.
    fn gain(&self, share: f64) -> f64 {
        let spread = 1.56 * Normal::standard().inverse_cdf(share);
        self.gap * (spread - 1.79 * self.pruned).exp()
    }
}

/// What more trials would bring where it does not pay: at the upper end of the interval less than the seeds' `noise` (a
/// standard deviation), or than this share of what the search has gained since its first trials.
pub fn flat(finished: &[Option<f64>], noise: Option<f64>, share: f64) -> Option<Outlook> {
    let outlook = outlook(finished)?;
    let best = finished.iter().flatten().copied().reduce(f64::min)?;
    let mut first: Vec<f64> = finished.iter().take(FEWEST).flatten().copied().collect();
    first.sort_by(f64::total_cmp);
    let gained = first.get(first.len() / 2)? - best;
    let pays = noise.unwrap_or(0.0).max(share * gained);
    (outlook.high < pays || outlook.high == 0.0).then_some(outlook)
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;
    use crate::study;

    /// How often an 80 % interval has the gain of the next hundred draws in it.
    fn coverage(draw: impl Fn(f64) -> f64, so_far: usize) -> f64 {
        let studies = 200;
        let held = (0..studies).filter(|study| {
            let mut rng = study::rng(*study, 0, "draws");
            let mut losses = |n: usize| -> Vec<Option<f64>> {
                (0..n).map(|_| Some(draw(rng.random::<f64>()))).collect()
            };
            let (past, future) = (losses(so_far), losses(AHEAD));
            let least =
                |all: &[Option<f64>]| all.iter().flatten().copied().fold(f64::INFINITY, f64::min);
            let gain = (least(&past) - least(&future)).max(0.0);
            let outlook = outlook(&past).unwrap();
            (outlook.low..=outlook.high).contains(&gain)
        });
        held.count() as f64 / studies as f64
    }

    #[test]
    fn the_interval_holds_for_values_that_do_not_come_from_the_benchmark() {
        let bounded = |u: f64| u.sqrt();
        let exponential = |u: f64| (u + 1e-9).ln();
        // About normal, by the inverse of the logistic function.
        let logistic = |u: f64| ((u + 1e-9) / (1.0 - u)).ln();
        for (name, covered) in [
            ("bounded", coverage(bounded, 200)),
            ("exponential", coverage(exponential, 200)),
            ("logistic", coverage(logistic, 100)),
        ] {
            assert!((0.72..=0.95).contains(&covered), "{name}: {covered}");
        }
    }

    #[test]
    fn a_search_is_flat_where_more_would_gain_less_than_a_seed_or_a_part_of_what_was_gained() {
        let mut rng = study::rng(1, 0, "draws");
        // From values around 10 to values around 0.
        let mut search = |scale: f64| -> Vec<Option<f64>> {
            let mut of = |n: usize, least: f64, scale: f64| -> Vec<Option<f64>> {
                (0..n)
                    .map(|_| Some(least + scale * rng.random::<f64>()))
                    .collect()
            };
            [of(40, 10.0, 1.0), of(200, 0.0, scale)].concat()
        };
        assert!(flat(&search(0.1), None, 0.01).is_some());
        assert!(flat(&search(20.0), None, 0.001).is_none());
        assert!(flat(&search(20.0), Some(5.0), 0.001).is_some());
        assert!(flat(&search(0.1)[..FEWEST - 1], Some(50.0), 1.0).is_none());
        assert!(flat(&[None; 60], Some(50.0), 1.0).is_none(), "no value");
    }

    #[test]
    fn what_was_pruned_makes_less_of_what_comes() {
        let all: Vec<Option<f64>> = (0..200).map(|i| Some(f64::from(200 - i))).collect();
        let some: Vec<Option<f64>> = (all.iter().enumerate())
            .map(|(at, loss)| loss.filter(|_| at % 4 == 3))
            .collect();
        let (all, some) = (outlook(&all).unwrap(), outlook(&some).unwrap());
        assert_eq!((all.trials, all.latest, all.low), (AHEAD, 100, 0.0));
        assert!(all.chance > some.chance && some.chance > 0.5);
        assert!(all.high > some.high && some.high > some.median);
    }

    #[test]
    fn a_search_that_has_not_bettered_its_best_for_long_promises_nothing() {
        let mut losses: Vec<Option<f64>> = (0..900).map(|i| Some(1.0 + f64::from(i))).collect();
        losses[3] = Some(0.0);
        let outlook = outlook(&losses).unwrap();
        assert!(outlook.chance < 0.2);
        assert_eq!((outlook.low, outlook.median, outlook.high), (0.0, 0.0, 0.0));
    }

    #[test]
    fn equal_values_promise_nothing() {
        let equal = outlook(&[Some(0.5); 100]).unwrap();
        assert_eq!((equal.high, equal.chance), (0.0, 0.0));
        assert_eq!(outlook(&[None; 100]), None);
        let one = [vec![Some(1.0)], vec![None; 99]].concat();
        assert_eq!((outlook(&one), flat(&one, None, 0.01)), (None, None));
        let four: Vec<Option<f64>> = (0..100).map(|i| Some(f64::from(i % 4))).collect();
        assert_eq!(outlook(&four), None);
    }
}
