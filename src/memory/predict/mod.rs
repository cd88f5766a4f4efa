//! Peaks of trainings that have not run yet.
//!
//! Everything is done with logarithms: a prediction is off by a factor, not by bytes. The target is
//! the peak over (the floor and what stands beside it), or without a floor the peak itself.
//!
//! ```text
//! columns    configurations as numbers: what varied, a group of columns a key
//! effects    which keys matter, and what each does by itself
//! process    a Gaussian process on the rest, its distances measured in effects
//! fit        all three, and an interval calibrated on what the others predict of each measurement
//! account    how often that has held in this study, and how much wider it has to be
//! ```

mod columns;
mod effects;
mod fit;
mod process;
mod scores;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use self::fit::{Fit, Interval, Known};
use self::scores::{PredictionScores, WINDOW};
use super::{Estimate, Floor, Observation};
use search::space::{Params, Space};

/// Greater peaks are no measurements: 64 TiB.
const ABSURD: u64 = 1 << 46;
/// Up to so many measurements each is followed by a fit; then one sixteenth more, then one eighth.
const FEW: usize = 24;
const MANY: usize = 256;
/// With fewer measurements than this and without a floor nothing says what a training needs at least:
/// one that ran out of memory would speak for choices that nobody has tried.
const LITTLE: usize = 8;

/// Learns peaks from measurements, beginning with what the task knows beforehand.
pub struct Predictor {
    space: Space,
    floor: Option<Arc<Floor>>,
    known: Vec<Known>,
    account: PredictionScores,
    /// Made when first asked for, of the measurements up to [`fitted`]; with floors and without.
    with_floor: OnceLock<Option<Fit>>,
    without: OnceLock<Option<Fit>>,
}

impl Predictor {
    /// Knows the floor alone. `space` tells which numbers are on a logarithmic scale.
    pub fn new(space: Space, floor: Option<Arc<Floor>>) -> Predictor {
        Predictor {
            space,
            floor,
            known: Vec::new(),
            account: PredictionScores::new(),
            with_floor: OnceLock::new(),
            without: OnceLock::new(),
        }
    }

    /// Takes a measurement in: of this study, or of an earlier one with other keys. Absurd ones (0
    /// bytes, more than any machine has) are left out.
    pub fn learn(&mut self, observation: Observation) {
        if usable(&observation) {
            let predicted = self.predict(&observation.config);
            let log_peak = (observation.peak as f64).ln();
            (self.account).enter(predicted, log_peak, observation.censored);
            self.take_in(observation);
        }
    }

    /// Learns one after the other; what is forgotten anyway of how predictions held is not asked for.
    pub fn learn_all(&mut self, observations: Vec<Observation>) {
        let observations: Vec<Observation> = observations.into_iter().filter(usable).collect();
        let judged = observations.len().saturating_sub(WINDOW);
        for (at, observation) in observations.into_iter().enumerate() {
            match at < judged {
                true => self.take_in(observation),
                false => self.learn(observation),
            }
        }
    }

    /// Whether the intervals of this study's predictions are known to hold.
    pub fn holds(&self) -> bool {
        self.account.holds()
    }

    fn take_in(&mut self, observation: Observation) {
        let known = Known {
            floor: self.floor(&observation.config),
            log_peak: (observation.peak as f64).ln(),
            censored: observation.censored,
            config: observation.config,
        };
        if !known.censored {
            self.forget_bounds(&known.config);
        }
        self.known.push(known);
        if fitted(self.known.len()) == self.known.len() {
            self.with_floor = OnceLock::new();
            self.without = OnceLock::new();
        } else if let Some(known) = self.known.last() {
            if let Some(Some(fit)) = self.with_floor.get_mut()
                && known.floor.is_some()
            {
                fit.push(known);
            }
            if let Some(Some(fit)) = self.without.get_mut() {
                fit.push(known);
            }
        }
    }

    /// What a training needs that ran out of memory is known once it is measured: if it is less than it could not
    /// have, the training was not to blame; if it is more, the bound says nothing beside it.
    fn forget_bounds(&mut self, measured: &Params) {
        let before = self.known.len();
        self.known
            .retain(|k| !(k.censored && k.config == *measured));
        if self.known.len() < before {
            self.with_floor = OnceLock::new();
            self.without = OnceLock::new();
        }
    }

    /// How many measurements it knows.
    pub fn known(&self) -> usize {
        self.known.len()
    }

    /// The peak of a training of this configuration; `None` where nothing is known. A function of
    /// the arguments of [`Predictor::new`] and of what was learned, in order.
    pub fn estimate(&self, config: &Params) -> Option<Estimate> {
        let interval = self.account.widen(self.predict(config)?);
        let bytes = |log: f64| log.exp().min(ABSURD as f64) as u64;
        let bounded = self.floor(config).is_some() || self.known.len() >= LITTLE;
        Some(Estimate {
            lower: if bounded { bytes(interval.lower) } else { 0 },
            expected: bytes(interval.expected),
            upper: bytes(interval.upper),
        })
    }

    /// What the fit predicts, as wide as it is by itself.
    fn predict(&self, config: &Params) -> Option<Interval> {
        let floor = self.floor(config);
        let fit = match floor {
            Some(_) => self.with_floor.get_or_init(|| self.fit(true)),
            None => self.without.get_or_init(|| self.fit(false)),
        };
        match (fit, floor) {
            (Some(fit), _) => Some(fit.predict(config, floor)),
            (None, Some(floor)) => Some(beforehand(floor)),
            (None, None) => None,
        }
    }

    fn floor(&self, config: &Params) -> Option<u64> {
        let floor = self.floor.as_ref()?;
        floor(config)
    }

    fn fit(&self, floored: bool) -> Option<Fit> {
        let usable = |k: &&Known| !floored || k.floor.is_some();
        let (before, after) = self.known.split_at(fitted(self.known.len()));
        let first: Vec<&Known> = before.iter().filter(usable).collect();
        if first.is_empty() {
            return None;
        }
        let mut fit = Fit::new(&self.space, &first, floored);
        after.iter().filter(usable).for_each(|k| fit.push(k));
        Some(fit)
    }
}

/// Whether it can be a measurement at all.
fn usable(observation: &Observation) -> bool {
    (1..=ABSURD).contains(&observation.peak)
}

/// With a floor and without a measurement: the floor itself, and what contexts, libraries and
/// buffers may take beside it.
fn beforehand(floor: u64) -> Interval {
    let (floor, mib) = (floor as f64, (1u64 << 20) as f64);
    Interval {
        lower: floor.max(1.0).ln(),
        expected: (1.2 * floor + 512.0 * mib).ln(),
        upper: (2.0 * floor + 1536.0 * mib).ln(),
    }
}

/// How many of the first `n` measurements the fit is made of.
fn fitted(n: usize) -> usize {
    let mut at = n.min(FEW);
    loop {
        let next = match at {
            0..FEW => return at,
            FEW..MANY => at + at / 16,
            _ => at + at / 8,
        };
        if next > n {
            return at;
        }
        at = next;
    }
}
