//! What more trials would likely bring: how far the best of the next ones would be better than the best so far.
//!
//! Whether one of them is better at all needs no form of the values: of `n + m` trials that came in any order, the best
//! is one of the last `m` with probability `m / (n + m)` (the rule of succession). By how much is a matter of the tail:
//! the values beyond a threshold are taken as a generalised Pareto distribution (peaks over threshold; fitted by
//! probability-weighted moments: Hosking and Wallis, Technometrics 29, 1987), of which what lies beyond the best so far is
//! one again. Futures are drawn from fits of resampled tails, so that the interval has the doubt about the tail in it.
//! All of it assumes that the search goes on as it did in its latest trials.

use rand::RngExt;
use serde::Serialize;

use crate::study;

/// What more trials would likely bring.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Outlook {
    /// So many more trials.
    pub trials: usize,
    /// Lower end of an 80 % interval of the gain; in the metric's units, 0 or more.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// Upper end.
    pub high: f64,
    /// Probability that the best becomes better at all.
    pub chance: f64,
    /// It rests on so many of the latest trials.
    pub latest: usize,
}

/// So many more trials are looked ahead.
const AHEAD: usize = 100;

/// Fewer finished trials than this say nothing of what comes.
pub const FEWEST: usize = 40;

/// The fewest and the most values that make a tail.
const TAIL: (usize, usize) = (12, 60);

/// Futures that are drawn.
const DRAWS: usize = 1000;

/// What more trials would bring; `None` where too few have finished. `finished` has the trials that count towards a
/// goal, in order: the loss of each that may be the best, which is finite.
pub fn outlook(finished: &[Option<f64>]) -> Option<Outlook> {
    let best = finished.iter().flatten().copied().reduce(f64::min)?;
    // The latest half; where nearly all of it was pruned, as many as have a tail.
    let mut values = (1..)
        .zip(finished.iter().rev())
        .filter(|(_, loss)| loss.is_some());
    let enough = values.nth(TAIL.0).map_or(usize::MAX, |(trials, _)| trials);
    let latest = (finished.len() / 2).max(FEWEST).max(enough);
    let first = finished.len().checked_sub(latest)?;
    let losses = finished[first..].iter().flatten();
    of_losses(losses.copied().collect(), latest, best)
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

/// The same for losses, of `among` trials that finished; `best` is the best of all.
fn of_losses(mut losses: Vec<f64>, among: usize, best: f64) -> Option<Outlook> {
    if losses.len() <= TAIL.0 {
        return None;
    }
    losses.sort_by(f64::total_cmp);
    // Whatever was pruned lies beyond it.
    let tail = (among / 5).clamp(TAIL.0, TAIL.1).min(losses.len() - 1);
    let threshold = *losses.get(tail)?;
    let excesses: Vec<f64> = losses[..tail].iter().map(|x| threshold - x).collect();
    // How far the best lies beyond the threshold.
    let needed = threshold - best;
    let mut rng = study::rng(0, 0, "outlook");
    let mut gains: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let drawn = (0..tail).map(|_| excesses[rng.random_range(0..tail)]);
            let fit = Tail::fit(drawn.collect()).beyond(needed);
            // The probability that one trial is better: none of those so far was.
            let rate = 1.0 - rng.random::<f64>().powf(1.0 / among as f64);
            let better = (0..AHEAD).filter(|_| rng.random::<f64>() < rate).count();
            let draws = (0..better).map(|_| fit.exceeded_by(1.0 - rng.random::<f64>()));
            draws.fold(0.0, f64::max)
        })
        .collect();
    gains.sort_by(f64::total_cmp);
    let at = |share: f64| gains[(share * (DRAWS - 1) as f64).round() as usize];
    let better = gains.iter().filter(|gain| **gain > 0.0).count();
    Some(Outlook {
        trials: AHEAD,
        low: at(0.1),
        median: at(0.5),
        high: at(0.9),
        chance: better as f64 / DRAWS as f64,
        latest: among,
    })
}

/// A generalised Pareto distribution.
#[derive(Debug, Clone, Copy)]
struct Tail {
    scale: f64,
    shape: f64,
}

impl Tail {
    fn fit(mut excesses: Vec<f64>) -> Tail {
        excesses.sort_by(f64::total_cmp);
        let n = excesses.len() as f64;
        let mean = excesses.iter().sum::<f64>() / n;
        let weighted = excesses.iter().enumerate();
        let weighted = weighted.map(|(i, x)| (n - i as f64 - 0.65) / n * x);
        let second = weighted.sum::<f64>() / n;
        let divisor = mean - 2.0 * second;
        if divisor <= 1e-12 * mean || mean <= 0.0 {
            return Tail {
                scale: mean.max(0.0),
                shape: 0.0,
            };
        }
        // Few values say little of a tail's shape, and an end that is not there would promise too little.
        let shape = (2.0 - mean / divisor).clamp(-0.3, 0.3);
        Tail {
            scale: mean * (1.0 - shape),
            shape,
        }
    }

    /// Of what goes beyond an excess, the distribution of what it has more.
    fn beyond(self, excess: f64) -> Tail {
        // The best so far may lie where the fit ends; that the fit is right there is not known.
        let least = 0.2 * self.scale;
        Tail {
            scale: (self.scale + self.shape * excess).max(least),
            ..self
        }
    }

    /// The excess that one in `1 / share` goes beyond.
    fn exceeded_by(self, share: f64) -> f64 {
        match self.shape.abs() < 1e-6 {
            true => -self.scale * share.ln(),
            false => self.scale / self.shape * (share.powf(-self.shape) - 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often an 80 % interval has the gain of the next hundred draws in it.
    fn coverage(draw: impl Fn(f64) -> f64, so_far: usize) -> f64 {
        let studies = 200;
        let held = (0..studies).filter(|study| {
            let mut rng = study::rng(*study, 0, "draws");
            let mut losses =
                |n: usize| -> Vec<f64> { (0..n).map(|_| draw(rng.random::<f64>())).collect() };
            let (past, future) = (losses(so_far), losses(AHEAD));
            let least = |all: &[f64]| all.iter().copied().fold(f64::INFINITY, f64::min);
            let best = least(&past);
            let gain = (best - least(&future)).max(0.0);
            let outlook = of_losses(past, so_far, best).unwrap();
            (outlook.low..=outlook.high).contains(&gain)
        });
        held.count() as f64 / studies as f64
    }

    #[test]
    fn the_interval_holds_in_four_of_five_studies_and_more_where_values_have_an_end() {
        let bounded = |u: f64| u.sqrt();
        let exponential = |u: f64| (u + 1e-9).ln();
        // About normal, by the inverse of the logistic function.
        let logistic = |u: f64| ((u + 1e-9) / (1.0 - u)).ln();
        for (name, covered, most) in [
            ("bounded", coverage(bounded, 200), 1.0),
            ("exponential", coverage(exponential, 200), 0.9),
            ("logistic", coverage(logistic, 100), 0.9),
        ] {
            assert!((0.72..=most).contains(&covered), "{name}: {covered}");
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
        let pruned = |x: Option<f64>| [x, None, None, None, None, None, None, None];
        let few: Vec<Option<f64>> = search(0.1).into_iter().flat_map(pruned).collect();
        assert_eq!(outlook(&few).unwrap().latest, few.len() / 2);
        let fewer = [few, vec![None; 2000]].concat();
        assert_eq!(outlook(&fewer).unwrap().latest, 2000 + 8 * 13);
    }

    #[test]
    fn equal_values_promise_nothing() {
        let outlook = of_losses(vec![0.5; 100], 100, 0.5).unwrap();
        assert_eq!((outlook.low, outlook.high, outlook.chance), (0.0, 0.0, 0.0));
        assert_eq!(of_losses(vec![0.5; 5], 100, 0.5), None);
    }
}
