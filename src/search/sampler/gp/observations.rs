//! The history as a Gaussian process needs it: points with their losses, and how far each of them
//! can be relied on.

use super::propose::streak;
use super::search::Taken;
use crate::sampler::Ask;
use crate::sampler::encoding::{Encoding, Point};
use crate::sampler::outcome::{BestSoFar, Outcome};
use crate::sampler::pruned;
use crate::study::{Direction, Entry};

/// Trials without a better one after which a search may have stagnated.
const STALE: usize = 16;

/// What a better loss has to be better by, of the difference between the best and the middle one.
const PROGRESS: f64 = 1e-4;

/// Finished trials that a prediction from unfinished ones needs.
const ENOUGH: usize = 4;

/// Latest finished trials that others are compared with.
const COMPARED: usize = 300;

/// Added to the number of finished trials when their agreement is judged: few agree by chance.
const CAUTION: f64 = 0.5;

/// Least doubt about a trial that has not ended, or whose point lies outside the bounds that hold
/// today: it keeps those apart that a better point has to be better than.
const LEAST_DOUBT: f64 = 0.001;

/// What has been seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Observations {
    /// Points with a loss, in order of number.
    pub points: Vec<Point>,
    /// Their losses; of a trial that was stopped early the one that it would have reached.
    pub losses: Vec<f64>,
    /// Variance of what is not known of a loss, in units of the variance of all losses: 0 for a
    /// finished trial.
    pub doubts: Vec<f64>,
    /// Points of trials that are running.
    pub pending: Vec<Point>,
    /// Points that could not be run.
    pub infeasible: Vec<Point>,
    /// Points where a trial was pruned, but for what lies beside the best one.
    pub pruned: Vec<Point>,
    /// Of the trials that ended, in order of number: whether they could be run.
    pub ran: Vec<bool>,
}

impl Observations {
    /// What an ask can know; of the trials with a loss only the first `most`, by number.
    pub fn new(ask: &Ask, encoding: &Encoding, most: usize) -> Observations {
        let direction = ask.history.direction();
        let others = ask.history.entries().iter();
        let mut seen: Vec<(&Entry, Point, Outcome)> = Vec::new();
        let mut with_loss = 0;
        for entry in others.filter(|e| e.number != ask.number) {
            let outcome = Outcome::of(entry, direction);
            let counts = matches!(outcome, Outcome::Finished { .. } | Outcome::Stopped { .. });
            if counts && with_loss == most {
                continue;
            }
            if let Some(point) = encoding.point(&entry.code) {
                seen.push((entry, point, outcome));
                with_loss += usize::from(counts);
            }
        }
        let finished: Vec<(&Entry, f64)> = seen
            .iter()
            .filter_map(|(entry, _, outcome)| match outcome {
                Outcome::Finished { loss } => Some((*entry, *loss)),
                Outcome::Stopped { .. }
                | Outcome::Infeasible
                | Outcome::Pending
                | Outcome::Waiting => None,
            })
            .collect();
        let latest = &finished[finished.len().saturating_sub(COMPARED)..];
        let mut rungs = Rungs::new(latest, direction);
        let pruned = pruned::codes(ask).into_iter();
        let mut found = Observations {
            pruned: pruned.filter_map(|code| encoding.point(code)).collect(),
            ..Observations::default()
        };
        for (_, point, outcome) in seen {
            match outcome {
                Outcome::Finished { loss } => {
                    let within = encoding.within(&point);
                    found.put(point, loss, if within { 0.0 } else { LEAST_DOUBT });
                }
                Outcome::Stopped { step, loss } => {
                    let rung = rungs.at(step);
                    found.put(point, rung.forecast(loss), rung.doubt);
                }
                Outcome::Infeasible => {
                    found.ran.push(false);
                    found.infeasible.push(point);
                }
                Outcome::Pending => found.pending.push(point),
                Outcome::Waiting => {}
            }
        }
        found
    }

    fn put(&mut self, point: Point, loss: f64, doubt: f64) {
        self.ran.push(true);
        self.points.push(point);
        self.losses.push(loss);
        self.doubts.push(doubt);
    }

    /// Whether nothing better has been found for long.
    pub fn stagnant(&self) -> bool {
        let ranked = self.ranked();
        let n = ranked.len();
        let (Some(&best), Some(&middle)) = (ranked.first(), ranked.get(n / 2)) else {
            return false;
        };
        let apart = self.losses[middle] - self.losses[best];
        let enough = if apart.is_finite() {
            PROGRESS * apart.max(0.0)
        } else {
            0.0
        };
        // Of those that count like the best one.
        let as_good = |&i: &usize| {
            (self.doubts[i] > 0.0) == (self.doubts[best] > 0.0)
                && self.losses[i] <= self.losses[best] + enough
        };
        n - (0..n).find(as_good).unwrap_or(best) > STALE.max(n / 4)
    }

    /// Whether all losses are equal, so that there is nothing to go by.
    pub fn flat(&self) -> bool {
        let first = self.losses.first();
        self.losses.len() > 1 && self.losses.iter().all(|loss| Some(loss) == first)
    }

    /// The number of trials in a row, up to the latest one, that could not be run.
    pub fn streak(&self) -> usize {
        streak(&self.ran)
    }

    /// What is not proposed again.
    pub fn taken(&self) -> Taken {
        let points = self.points.iter().chain(&self.pending);
        Taken {
            tried: points.chain(&self.infeasible).cloned().collect(),
            pruned: self.pruned.clone(),
        }
    }

    /// The same of those points with a loss only that have a parameter at one place.
    pub fn within(&self, parameter: usize, place: f64) -> Observations {
        let rows = (0..self.points.len()).filter(|&i| self.points[i][parameter] == place);
        let rows: Vec<usize> = rows.collect();
        Observations {
            points: rows.iter().map(|&i| self.points[i].clone()).collect(),
            losses: rows.iter().map(|&i| self.losses[i]).collect(),
            doubts: rows.iter().map(|&i| self.doubts[i]).collect(),
            ..self.clone()
        }
    }

    /// Indices of the points with a loss, the best first; finished ones before others.
    pub fn ranked(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.losses.len()).collect();
        let unsure = |i: usize| self.doubts[i] > 0.0;
        order.sort_by(|&a, &b| {
            unsure(a)
                .cmp(&unsure(b))
                .then(self.losses[a].total_cmp(&self.losses[b]))
                .then(a.cmp(&b))
        });
        order
    }
}

/// What the finished trials had reached at each step, computed when first asked for.
struct Rungs<'a> {
    finished: &'a [(&'a Entry, f64)],
    direction: Direction,
    /// Of each of them what it had reached when; empty before the first question.
    reached: Vec<BestSoFar>,
    known: std::collections::BTreeMap<i64, Rung>,
}

/// What the finished trials had reached by one step, and what became of it.
#[derive(Debug, Clone, PartialEq)]
struct Rung {
    /// Losses at the step, ascending, and final losses, ascending.
    here: Vec<f64>,
    there: Vec<f64>,
    doubt: f64,
}

impl<'a> Rungs<'a> {
    fn new(finished: &'a [(&'a Entry, f64)], direction: Direction) -> Rungs<'a> {
        Rungs {
            finished,
            direction,
            reached: Vec::new(),
            known: Default::default(),
        }
    }

    fn at(&mut self, step: i64) -> &Rung {
        if self.reached.is_empty() {
            let best = |(entry, _): &(&Entry, f64)| BestSoFar::new(entry, self.direction);
            self.reached = self.finished.iter().map(best).collect();
        }
        let (finished, reached) = (self.finished, &self.reached);
        self.known.entry(step).or_insert_with(|| {
            let pair = |(best, (_, last)): (&BestSoFar, &(&Entry, f64))| {
                let here = best.until(step)?;
                (here.is_finite() && last.is_finite()).then_some((here, *last))
            };
            Rung::new(reached.iter().zip(finished).filter_map(pair).collect())
        })
    }
}

impl Rung {
    fn new(pairs: Vec<(f64, f64)>) -> Rung {
        let agreement = rank_correlation(&pairs).max(0.0);
        let n = pairs.len() as f64;
        let agreement = agreement * n / (n + CAUTION);
        let (mut here, mut there): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        here.sort_by(f64::total_cmp);
        there.sort_by(f64::total_cmp);
        Rung {
            here,
            there,
            doubt: (1.0 - agreement * agreement).max(LEAST_DOUBT),
        }
    }

    /// The final loss that belongs to a loss at this step: the one of the same rank. Beyond the
    /// losses seen, the distance to the last of them is kept.
    fn forecast(&self, loss: f64) -> f64 {
        let n = self.here.len();
        if n < ENOUGH {
            return loss;
        }
        let (first, last) = (self.here[0], self.here[n - 1]);
        if loss < first {
            return self.there[0] - (first - loss);
        }
        if loss > last {
            return self.there[n - 1] + (loss - last);
        }
        let equals =
            (self.here).partition_point(|h| *h < loss)..self.here.partition_point(|h| *h <= loss);
        if !equals.is_empty() {
            // Of several that were equal here nobody knows which is which.
            let count = equals.len() as f64;
            return self.there[equals].iter().sum::<f64>() / count;
        }
        let above = equals.end;
        let (a, b) = (self.here[above - 1], self.here[above]);
        let part = if b > a { (loss - a) / (b - a) } else { 0.5 };
        self.there[above - 1] + part * (self.there[above] - self.there[above - 1])
    }
}

/// Spearman's rank correlation; 0 for fewer than two pairs or without any spread.
fn rank_correlation(pairs: &[(f64, f64)]) -> f64 {
    let ranks = |value: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        order.sort_by(|&a, &b| value(&pairs[a]).total_cmp(&value(&pairs[b])));
        let mut ranks = vec![0.0; pairs.len()];
        let mut rank = 0;
        while rank < order.len() {
            let own = value(&pairs[order[rank]]);
            let rest = order[rank..].iter();
            let equals = rest.take_while(|&&i| value(&pairs[i]) == own).count();
            for &i in &order[rank..rank + equals] {
                ranks[i] = rank as f64 + 0.5 * (equals as f64 - 1.0);
            }
            rank += equals;
        }
        ranks
    };
    let (a, b) = (ranks(|p| p.0), ranks(|p| p.1));
    let mean = (pairs.len() as f64 - 1.0) / 2.0;
    let product = |x: &[f64], y: &[f64]| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum()
    };
    let spread = (product(&a, &a) * product(&b, &b)).sqrt();
    if spread > 0.0 {
        product(&a, &b) / spread
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_keeps_ranks_and_distances_beyond_them() {
        let pairs = (0..10).map(|i| (f64::from(i), 100.0 + 2.0 * f64::from(i)));
        let rung = Rung::new(pairs.collect());
        for (loss, expected) in [
            (0.0, 100.0),
            (2.5, 105.0),
            (9.0, 118.0),
            (12.0, 121.0),
            (-1.0, 99.0),
        ] {
            assert!((rung.forecast(loss) - expected).abs() < 1e-12, "{loss}");
        }
        assert!(rung.doubt < 0.5);
    }

    #[test]
    fn where_early_losses_say_nothing_the_doubt_is_whole() {
        let opposite = (0..8).map(|i| (f64::from(i), -f64::from(i))).collect();
        assert_eq!(Rung::new(opposite).doubt, 1.0);
        assert_eq!(Rung::new(vec![]).doubt, 1.0);
        assert_eq!(Rung::new(vec![]).forecast(3.0), 3.0);
    }

    #[test]
    fn gains_too_small_to_matter_are_no_progress() {
        let seen = |losses: Vec<f64>| Observations {
            points: vec![vec![0.0]; losses.len()],
            doubts: vec![0.0; losses.len()],
            losses,
            ..Observations::default()
        };
        let creeping = |gain: f64| {
            let others = (0..20).map(|i| 10.0 + f64::from(i));
            let good = (0..19).map(|i| 1.0 - gain * f64::from(i));
            seen(others.chain(good).collect()).stagnant()
        };
        assert!(creeping(0.0) && creeping(1e-6) && !creeping(1e-2));
        let infinite = vec![f64::INFINITY; 30];
        assert!(seen(infinite).stagnant());
        assert!(!seen(vec![]).stagnant());
    }

    #[test]
    fn equal_values_share_their_rank() {
        let pairs = [(1.0, 1.0), (1.0, 1.0), (2.0, 2.0)];
        assert!((rank_correlation(&pairs) - 1.0).abs() < 1e-12);
        assert_eq!(rank_correlation(&[(1.0, 2.0), (1.0, 3.0)]), 0.0);
    }
}
