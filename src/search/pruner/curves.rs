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
        for (step, value) in &entry.intermediate {
            curve.push(*step + i64::from(from_zero), direction.loss(*value));
        }
        curve
    }

    fn push(&mut self, time: i64, loss: f64) {
        let last = |values: &[f64], none| values.last().copied().unwrap_or(none);
        // `f64::min` prefers any number to NaN.
        let best = last(&self.best, f64::INFINITY).min(loss);
        self.sums.push(last(&self.sums, 0.0) + best);
        self.times.push(time as f64);
        self.best.push(best);
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
        Stamp {
            direction,
            reports: entry.intermediate.len(),
            first: entry.intermediate.first_key_value().map(bits),
            last: entry.intermediate.last_key_value().map(bits),
            value: entry.value().map(f64::to_bits),
        }
    }

    /// That of the same trial before its last report.
    fn before(self, entry: &Entry) -> Stamp {
        Stamp {
            reports: self.reports.saturating_sub(1),
            last: entry.intermediate.iter().nth_back(1).map(bits),
            ..self
        }
    }
}

fn bits((step, value): (&i64, &f64)) -> (i64, u64) {
    (*step, value.to_bits())
}

impl Curves {
    /// Reads those of the trials that have not been read.
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
    }

    /// Forgets trials before this one once there are more than `most`.
    pub fn forget(&mut self, first: u64, most: usize) {
        if self.0.len() > most {
            self.0 = self.0.split_off(&first);
        }
    }

    /// Reads a trial that runs. Of one that is known but for its last report only that is read: a trial
    /// of 100,000 reports is judged 100,000 times.
    pub fn follow(&mut self, entry: &Entry, direction: Direction) {
        let stamp = Stamp::of(entry, direction);
        if let Some((known, curve)) = self.0.get_mut(&entry.number)
            && *known == stamp.before(entry)
            && let (Some((first, _)), Some((step, value))) = (known.first, stamp.last)
        {
            let time = step + i64::from(first <= 0);
            curve.push(time, direction.loss(f64::from_bits(value)));
            *known = stamp;
        }
        self.read(&[entry], direction);
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
    fn the_curve_of_a_running_trial_grows_by_its_last_report() {
        let reports = [3.0, f64::NAN, 5.0, 1.0, 2.0];
        for of in [entry, epochs] {
            let mut curves = Curves::default();
            for n in 0..=reports.len() {
                let trial = of(7, TrialState::Running, &reports[..n]);
                curves.follow(&trial, Direction::Minimize);
                let fresh = Curve::new(&trial, Direction::Minimize);
                assert_eq!(curves.get(&trial), Some(&fresh));
            }
            // Another attempt begins anew; one that goes on from a checkpoint reports several at once.
            for other in [
                &[4.0][..],
                &[4.0, 2.0],
                &[4.0, 2.0, 9.0, 8.0, 7.0],
                &[9.0, 2.0],
            ] {
                let trial = of(7, TrialState::Running, other);
                curves.follow(&trial, Direction::Maximize);
                let fresh = Curve::new(&trial, Direction::Maximize);
                assert_eq!(curves.get(&trial), Some(&fresh));
            }
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
