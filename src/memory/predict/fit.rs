//! A fit to the first measurements of a sequence; it then takes further ones in without changing.

use super::columns::Columns;
use super::effects::{Effects, Place};
use super::process::{Hyper, Row, distance, predict};
use search::space::{Params, Space};

/// Most measurements that effects are found from.
const SAMPLE: usize = 1024;
/// Up to so many, a prediction looks at all of them.
const ALL: usize = 96;
/// Else at these: the nearest, the latest, and some spread over all.
const NEAREST: usize = 56;
const LATEST: usize = 24;
const SPREAD: usize = 16;
/// Measurements that the process's parameters are found from, and those that the interval is.
const HYPER: usize = 64;
const CALIBRATED: usize = 100;
/// Terms that stand beside the floor for what it leaves out: context and libraries. In MiB.
const BESIDE: [u64; 9] = [0, 64, 128, 256, 384, 512, 768, 1024, 2048];
/// The interval is wider than what measurements are off by that were there when the effects were found.
const HINDSIGHT: f64 = 1.07;
/// What a peak exceeds a bound by at least, as a logarithm, and how sure that is.
const BEYOND: f64 = 0.1;
const BEYOND_DOUBT: f64 = 0.1;

/// A measurement as the fit reads it.
#[derive(Debug, Clone)]
pub struct Known {
    /// Everything that the training read.
    pub config: Params,
    /// Logarithm of the peak, or of the bound.
    pub log_peak: f64,
    /// Its floor in bytes; `None` where there is none, or where no floor is used.
    pub floor: Option<u64>,
    /// A bound.
    pub censored: bool,
}

/// A prediction of a logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// 2.5 %.
    pub lower: f64,
    /// Median.
    pub expected: f64,
    /// 98 %.
    pub upper: f64,
}

/// A training that ran out of memory.
#[derive(Debug)]
struct Bound {
    config: Params,
    place: Place,
    /// What it needs at least, as a target.
    target: f64,
    /// Measurements at its place that did with less, each by its nearness: what they share is not the reason.
    refuted: f64,
}

/// Effects, a process beside them, and how wide the interval is in deviations.
#[derive(Debug)]
pub struct Fit {
    floored: bool,
    beside: f64,
    effects: Effects,
    hyper: Hyper,
    rows: Vec<Row>,
    bounds: Vec<Bound>,
    /// A deviation of what the effects leave: greater rests are doubted.
    usual: f64,
    low: f64,
    high: f64,
}

impl Bound {
    fn hear(&mut self, row: &Row) {
        if row.rest + row.place.mean < self.target {
            self.refuted += near(&self.place, &row.place);
        }
    }

    /// How much of the bound a prediction has to come up to: all of it for the same training, for others less the
    /// farther away they are, and the more trainings there did with less.
    fn weight(&self, config: &Params, place: &Place) -> f64 {
        match self.config == *config {
            true => 1.0,
            false => near(&self.place, place) / (1.0 + self.refuted),
        }
    }
}

/// From 1 at the same place to 0, where effects differ by some 10 % and more.
fn near(a: &Place, b: &Place) -> f64 {
    (-distance(a, b) / (0.05f64).powi(2)).exp()
}

impl Fit {
    /// Of all of `known` (at least one); either all have floors, or none is read.
    pub fn new(space: &Space, known: &[&Known], floored: bool) -> Fit {
        let beside = if floored { beside(known) } else { 0.0 };
        let mut fit = Fit {
            floored,
            beside,
            effects: Effects::new(Columns::new(space, &[]), &[], &[]),
            hyper: Hyper::prior(if floored { 0.1 } else { 0.4 }),
            rows: Vec::new(),
            bounds: Vec::new(),
            usual: f64::INFINITY,
            low: -2.0,
            high: 3.0,
        };
        let sample = spread(known);
        fit.effects = fit.find_effects(space, &sample);
        let mut rests: Vec<f64> = sample.iter().map(|k| fit.row(k).rest.abs()).collect();
        rests.sort_by(f64::total_cmp);
        fit.usual = (1.5 * rests[rests.len() / 2]).max(0.03);
        for known in known {
            fit.push(known);
        }
        let measured: Vec<&Row> = fit.rows.iter().filter(|r| !r.censored).collect();
        if measured.len() > 2 {
            let step = measured.len().div_ceil(HYPER);
            let few: Vec<&Row> = measured.iter().rev().step_by(step).copied().collect();
            fit.hyper = Hyper::fit(&few, fit.hyper);
        }
        (fit.low, fit.high) = fit.calibrate();
        fit
    }

    /// Takes a further measurement in.
    pub fn push(&mut self, known: &Known) {
        let row = self.row(known);
        match known.censored {
            true => self.bounds.push(self.bound(known, &row)),
            false => self.bounds.iter_mut().for_each(|bound| bound.hear(&row)),
        }
        self.rows.push(row);
    }

    fn bound(&self, known: &Known, row: &Row) -> Bound {
        let mut bound = Bound {
            config: known.config.clone(),
            place: row.place.clone(),
            target: row.rest + row.place.mean,
            refuted: 0.0,
        };
        let measured = self.rows.iter().filter(|r| !r.censored);
        measured.for_each(|row| bound.hear(row));
        bound
    }

    /// What is predicted for a configuration. `floor` as in [`Known`].
    pub fn predict(&self, config: &Params, floor: Option<u64>) -> Interval {
        let place = self.effects.place(config, self.log_floor(floor));
        let (mut mean, deviation) = self.local(&place, None);
        mean += place.mean;
        for bound in &self.bounds {
            mean += bound.weight(config, &place) * (bound.target - mean).max(0.0);
        }
        let novel = self.effects.columns().novelties(config) as f64;
        let strange = if self.floored { 0.15 } else { 0.5 };
        let deviation = (deviation.powi(2) + novel * strange * strange).sqrt();
        let base = self.base(floor);
        Interval {
            lower: base + mean + self.low * deviation,
            expected: base + mean,
            upper: base + mean + self.high * deviation,
        }
    }

    fn log_floor(&self, floor: Option<u64>) -> Option<f64> {
        floor
            .filter(|_| self.floored)
            .map(|f| (f.max(1) as f64).ln())
    }

    /// What targets are relative to.
    fn base(&self, floor: Option<u64>) -> f64 {
        match floor {
            Some(floor) if self.floored => (floor as f64 + self.beside).max(1.0).ln(),
            Some(_) | None => 0.0,
        }
    }

    fn target(&self, known: &Known) -> f64 {
        let beyond = if known.censored { BEYOND } else { 0.0 };
        known.log_peak + beyond - self.base(known.floor)
    }

    fn row(&self, known: &Known) -> Row {
        let place = self
            .effects
            .place(&known.config, self.log_floor(known.floor));
        let rest = self.target(known) - place.mean;
        let strange = rest.abs() > 8.0 * self.usual;
        Row {
            doubt: match (known.censored, strange) {
                (true, _) => BEYOND_DOUBT,
                (false, true) => rest.abs() / 2.0,
                (false, false) => 0.0,
            },
            place,
            rest,
            censored: known.censored,
        }
    }

    /// Effects of the measurements first; then once more, with bounds raised to what those predict
    /// and absurd values moved towards it.
    fn find_effects(&self, space: &Space, sample: &[&Known]) -> Effects {
        let of = |sample: &[&Known], targets: &[f64]| {
            let configs: Vec<(&Params, Option<f64>)> = sample
                .iter()
                .map(|k| (&k.config, self.log_floor(k.floor)))
                .collect();
            Effects::new(Columns::new(space, &configs), &configs, targets)
        };
        let all =
            |sample: &[&Known]| -> Vec<f64> { sample.iter().map(|k| self.target(k)).collect() };
        let measured: Vec<&Known> = sample.iter().filter(|k| !k.censored).copied().collect();
        if measured.is_empty() {
            return of(sample, &all(sample));
        }
        let first = of(&measured, &all(&measured));
        let mean = |k: &Known| first.place(&k.config, self.log_floor(k.floor)).mean;
        let mut rests: Vec<f64> = measured.iter().map(|k| self.target(k) - mean(k)).collect();
        rests.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        let usual = (1.5 * rests[rests.len() / 2].abs()).max(0.05);
        let absurd = rests.last().is_some_and(|r| r.abs() > 6.0 * usual);
        if measured.len() == sample.len() && !absurd {
            return first;
        }
        let target = |k: &&Known| {
            let (target, mean) = (self.target(k), mean(k));
            match k.censored {
                true => target.max(mean),
                false => target.clamp(mean - 6.0 * usual, mean + 6.0 * usual),
            }
        };
        of(sample, &sample.iter().map(target).collect::<Vec<f64>>())
    }

    /// Mean and deviation of the rest at a place, from the rows near it; `without` leaves one out.
    fn local(&self, place: &Place, without: Option<usize>) -> (f64, f64) {
        let rows = self.near(place, without);
        let measured: Vec<&Row> = rows.iter().filter(|r| !r.censored).copied().collect();
        if measured.len() == rows.len() {
            return predict(&rows, self.hyper, place);
        }
        // A bound below what is predicted anyway says nothing.
        let says =
            |row: &&&Row| !row.censored || predict(&measured, self.hyper, &row.place).0 < row.rest;
        let rows: Vec<&Row> = rows.iter().filter(says).copied().collect();
        predict(&rows, self.hyper, place)
    }

    fn near(&self, place: &Place, without: Option<usize>) -> Vec<&Row> {
        let n = self.rows.len();
        let mut indices: Vec<usize> = (0..n).collect();
        if n > ALL {
            let mut far: Vec<(f64, usize)> = (0..n)
                .map(|i| (distance(place, &self.rows[i].place), n - i))
                .collect();
            let order =
                |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            far.select_nth_unstable_by(NEAREST, order);
            indices = far[..NEAREST].iter().map(|(_, i)| n - i).collect();
            indices.extend(n - LATEST..n);
            indices.extend((0..SPREAD).map(|i| i * n / SPREAD));
            indices.sort_unstable();
            indices.dedup();
        }
        let kept = indices.into_iter().filter(|i| Some(*i) != without);
        kept.map(|i| &self.rows[i]).collect()
    }

    /// How many deviations below and above the mean the interval ends: quantiles of what each of the
    /// latest measurements is off when the others predict it.
    fn calibrate(&self) -> (f64, f64) {
        let measured = (0..self.rows.len())
            .rev()
            .filter(|i| !self.rows[*i].censored);
        let mut off: Vec<f64> = measured
            .take(CALIBRATED)
            .map(|i| {
                let row = &self.rows[i];
                let (mean, deviation) = self.local(&row.place, Some(i));
                (row.rest - mean) / deviation
            })
            .collect();
        off.sort_by(f64::total_cmp);
        let m = off.len();
        let square = off.iter().map(|x| x.clamp(-5.0, 5.0).powi(2)).sum::<f64>();
        // Two more that are off by one deviation: few measurements prove little.
        let scale =
            ((square + 2.0) / (m as f64 + 2.0)).sqrt().max(0.5) * (1.0 + 3.0 / (m as f64 + 1.0));
        let rank = (0.98 * (m as f64 + 1.0)).ceil() as usize;
        let seen = off.get(rank.min(m).wrapping_sub(1)).copied().unwrap_or(0.0);
        let high = match rank <= m {
            true => seen.max(1.6 * scale),
            false => seen.max(2.1 * scale),
        };
        let rank = (0.025 * (m as f64 + 1.0)).floor() as usize;
        let seen = off
            .get(rank.wrapping_sub(1))
            .copied()
            .unwrap_or(f64::INFINITY);
        let low = if rank >= 1 {
            seen.min(-0.5)
        } else {
            -2.0 * scale
        };
        (HINDSIGHT * low, (HINDSIGHT * high).min(12.0))
    }
}

/// At most [`SAMPLE`] of them: half the latest, half spread over the others.
fn spread<'a>(known: &[&'a Known]) -> Vec<&'a Known> {
    if known.len() <= SAMPLE {
        return known.to_vec();
    }
    let (early, late) = known.split_at(known.len() - SAMPLE / 2);
    let step = early.len().div_ceil(SAMPLE / 2);
    early.iter().step_by(step).chain(late).copied().collect()
}

/// Bytes that stand beside the floor: those with which peaks and floors agree best up to a factor.
fn beside(known: &[&Known]) -> f64 {
    let mib = |n: u64| (n << 20) as f64;
    let measured: Vec<(f64, f64)> = known
        .iter()
        .rev()
        .filter(|k| !k.censored)
        .take(SAMPLE)
        .filter_map(|k| Some((k.log_peak, k.floor? as f64)))
        .collect();
    if measured.len() < 3 {
        return mib(384);
    }
    let left = |beside: f64| {
        let rests = measured
            .iter()
            .map(|(peak, floor)| peak - (floor + beside).max(1.0).ln());
        let rests: Vec<f64> = rests.collect();
        let mut sorted = rests.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted[sorted.len() / 2];
        rests.iter().map(|r| (r - middle).abs()).sum::<f64>()
    };
    let scored = BESIDE.map(|n| (left(mib(n)), mib(n)));
    let best = scored.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or(mib(384), |b| b.1)
}
