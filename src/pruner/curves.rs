//! Learning curves of ended trials, prepared so that a look at any step costs little.

use std::collections::BTreeMap;

use crate::study::{Direction, Entry};

/// A trial's best loss so far, report by report. What is not a number counts as infinite.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Curve {
    /// The steps of its reports, ascending; counted from 1, whatever the trial counts from.
    times: Vec<f64>,
    /// The best loss until each.
    best: Vec<f64>,
    /// The sums of the best losses before each, and of all.
    sums: Vec<f64>,
}

/// A curve as it is until some step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefix<'a> {
    curve: &'a Curve,
    reports: usize,
}

impl Curve {
    /// The curve of a trial's reports.
    pub fn new(entry: &Entry, direction: Direction) -> Curve {
        let from_zero = entry.intermediate.keys().next().is_some_and(|s| *s <= 0);
        let mut curve = Curve {
            sums: vec![0.0],
            ..Curve::default()
        };
        let (mut best, mut sum) = (f64::INFINITY, 0.0);
        for (step, value) in &entry.intermediate {
            // `f64::min` prefers any number to NaN.
            best = best.min(direction.loss(*value));
            sum += best;
            curve.times.push((*step + i64::from(from_zero)) as f64);
            curve.best.push(best);
            curve.sums.push(sum);
        }
        curve
    }

    /// Its last report's time; 0 without any.
    pub fn end(&self) -> f64 {
        self.times.last().copied().unwrap_or_default()
    }

    /// The whole curve.
    pub fn whole(&self) -> Prefix<'_> {
        Prefix {
            curve: self,
            reports: self.times.len(),
        }
    }

    /// The curve until `time`.
    pub fn until(&self, time: f64) -> Prefix<'_> {
        Prefix {
            curve: self,
            reports: self.times.partition_point(|t| *t <= time),
        }
    }
}

impl Prefix<'_> {
    /// How many reports there are.
    pub fn reports(self) -> usize {
        self.reports
    }

    /// The best loss; infinite where there is none.
    pub fn best(self) -> f64 {
        let last = self.reports.checked_sub(1);
        last.map_or(f64::INFINITY, |i| self.curve.best[i])
    }

    /// Where the best loss will be at `horizon`, if it goes on to fall as it did: by a constant
    /// factor from each third of the reports to the next. Its best so far where nothing can be told.
    pub fn extrapolated(self, horizon: f64) -> f64 {
        let best = self.best();
        if self.reports < 3 || !best.is_finite() {
            return best;
        }
        let mean = |third: usize| {
            let (a, b) = (self.reports * third / 3, self.reports * (third + 1) / 3);
            (self.curve.sums[b] - self.curve.sums[a]) / (b - a) as f64
        };
        let (first, second) = (mean(0) - mean(1), mean(1) - mean(2));
        let usable = |fall: f64| fall.is_finite() && fall > 0.0;
        if !usable(first) || !usable(second) {
            return best;
        }
        // Nearer to 1, the sum would be that of a straight line.
        let factor = (second / first).min(0.98);
        let elapsed = self.curve.times[self.reports - 1];
        let thirds = ((horizon - elapsed) / (elapsed / 3.0)).max(0.0);
        best - second * factor * (1.0 - factor.powf(thirds)) / (1.0 - factor)
    }
}

/// Curves of ended trials by number. Pure memoisation: a trial that has ended does not change, and
/// one that looks otherwise than it did is read again.
#[derive(Debug, Clone, Default)]
pub(super) struct Curves(BTreeMap<u64, (Stamp, Curve)>);

/// What tells a trial's reports from others.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stamp {
    direction: Direction,
    reports: usize,
    first: Option<(i64, u64)>,
    last: Option<(i64, u64)>,
    value: Option<u64>,
}

impl Stamp {
    fn of(entry: &Entry, direction: Direction) -> Stamp {
        let bits = |(step, value): (&i64, &f64)| (*step, value.to_bits());
        Stamp {
            direction,
            reports: entry.intermediate.len(),
            first: entry.intermediate.first_key_value().map(bits),
            last: entry.intermediate.last_key_value().map(bits),
            value: entry.value().map(f64::to_bits),
        }
    }
}

impl Curves {
    /// Reads those of the trials, ascending by number, that have not been read, and forgets earlier
    /// ones once they are many.
    pub fn read(&mut self, entries: &[&Entry], direction: Direction) {
        for entry in entries {
            let stamp = Stamp::of(entry, direction);
            match self.0.get(&entry.number) {
                Some((known, _)) if *known == stamp => {}
                Some(_) | None => {
                    let curve = Curve::new(entry, direction);
                    self.0.insert(entry.number, (stamp, curve));
                }
            }
        }
        if let Some(first) = entries.first()
            && self.0.len() > 2 * entries.len()
        {
            self.0 = self.0.split_off(&first.number);
        }
    }

    /// The curve of a trial that was read.
    pub fn get(&self, entry: &Entry) -> Option<&Curve> {
        self.0.get(&entry.number).map(|(_, curve)| curve)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{entry, epochs};
    use super::*;
    use crate::study::TrialState;

    fn curve(reports: &[f64]) -> Curve {
        let entry = epochs(0, TrialState::Complete, reports);
        Curve::new(&entry, Direction::Minimize)
    }

    #[test]
    fn an_exponential_curve_is_continued_to_where_it_goes() {
        let at = |t: f64| 0.5 + 2.0 * (-0.1 * t).exp();
        let reports: Vec<f64> = (1..=12).map(|t| at(f64::from(t))).collect();
        let found = curve(&reports).whole().extrapolated(40.0);
        // The last third's mean lies above its last report.
        assert!((0.3..0.7).contains(&found), "{found}");
        assert!(found < at(12.0) - 0.3);
    }

    #[test]
    fn nothing_is_told_of_short_flat_or_infinite_curves() {
        let inf = f64::INFINITY;
        for (reports, best) in [
            (&[3.0, 2.0][..], 2.0),
            (&[3.0, 3.0, 3.0, 3.0], 3.0),
            (&[inf, 3.0, 2.0], 2.0),
            (&[f64::NAN, f64::NAN, f64::NAN], inf),
            (&[], inf),
        ] {
            assert_eq!(curve(reports).whole().extrapolated(9.0), best);
        }
    }

    #[test]
    fn a_curve_counts_from_one_and_knows_its_best_at_each_time() {
        let from_zero = entry(0, TrialState::Complete, &[3.0, f64::NAN, 5.0, 1.0]);
        let found = Curve::new(&from_zero, Direction::Minimize);
        assert_eq!(found, curve(&[3.0, f64::NAN, 5.0, 1.0]));
        assert_eq!(found.end(), 4.0);
        let best = [0.0, 1.0, 2.5, 4.0, 9.0].map(|t| found.until(t).best());
        assert_eq!(best, [f64::INFINITY, 3.0, 3.0, 1.0, 1.0]);
        let gain = Curve::new(&from_zero, Direction::Maximize);
        assert_eq!(gain.until(4.0).best(), -5.0);
    }
}
