//! The default: ends a trial when an epoch spent on it is far less likely to bring a new best value
//! than one spent on a new trial.
//!
//! What becomes of a trial is predicted from the COMPLETE ones, by a regression of their final value
//! on what was known of them at the same step: the best value, how much it improved in the second
//! half of the time, and where it would come to if it went on like that. Where early steps say
//! nothing of the end, the prediction is that of any trial, and none is ended; noise widens it. So
//! it learns from each study how much its early steps are worth, which fixed rules take for granted.
//!
//! The regression knows only the kinds of curves that came to their end. A trial whose own curve
//! leads to a new best value, or that is the best so far at its step, goes on whatever it says.

use super::curves::{Curve, Curves, Prefix};
use super::regression::{self, Estimate, FEATURES};
use super::reports;
use super::{Horizon, PruneContext, Pruner};
use crate::study::{Direction, Entry};

/// Ends trials whose next epochs are unlikely to bring a new best value.
#[derive(Debug, Clone)]
pub struct AutoPruner {
    /// Nothing is pruned while fewer trials than this are COMPLETE; fewer than 6 count as 6.
    pub n_startup_trials: usize,
    /// Reports of steps below this are never judged. `None`: a tenth of the longest trial. A first
    /// report is never judged.
    pub n_warmup_steps: Option<i64>,
    /// A trial ends if its chance of a new best value, for each step that is left, is below this
    /// part of a new trial's; from 0 (nothing ends) to 1.
    pub chance: f64,
    /// What is known of the study.
    pub horizon: Horizon,
    /// The curves of COMPLETE trials.
    curves: Curves,
}

/// So many COMPLETE trials at most are learned from, the latest.
const MOST: usize = 200;

/// Fewer leave nothing to estimate an error from.
const LEAST: usize = 6;

impl Default for AutoPruner {
    fn default() -> AutoPruner {
        AutoPruner {
            n_startup_trials: 8,
            n_warmup_steps: None,
            chance: 0.05,
            horizon: Horizon::default(),
            curves: Curves::default(),
        }
    }
}

/// A trial that is judged, in numbers.
#[derive(Debug, Clone, Copy)]
struct Own<'a> {
    /// Its curve.
    curve: &'a Curve,
    /// Its time, counted from 1.
    time: f64,
    /// The time of a whole trial.
    whole: f64,
}

impl Pruner for AutoPruner {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn judge(&mut self, judged: &PruneContext) -> bool {
        let PruneContext { history, trial, .. } = *judged;
        let direction = history.direction();
        let Some(whole) = self.whole(judged) else {
            return false;
        };
        self.curves.follow(trial, direction);
        if !own(&self.curves, trial, whole).is_some_and(|own| self.ready(own, trial)) {
            return false;
        }
        let entries: Vec<&Entry> = latest(judged).collect();
        if entries.len() < self.n_startup_trials.max(LEAST) {
            return false;
        }
        self.curves.read(&entries, direction);
        self.curves.forget(entries[0].number, 2 * entries.len());
        // It may be one of those before, tried again.
        self.curves.follow(trial, direction);
        let Some(own) = own(&self.curves, trial, whole) else {
            return false;
        };
        let others: Vec<(&Entry, &Curve)> = (entries.iter())
            .filter_map(|e| Some((*e, self.curves.get(e)?)))
            .collect();
        self.hopeless(own, &others, direction)
    }
}

impl AutoPruner {
    /// The defaults, for a study of which this is known.
    pub fn new(horizon: Horizon) -> AutoPruner {
        AutoPruner {
            horizon,
            ..AutoPruner::default()
        }
    }

    /// The time of a whole trial, as planned or learned.
    fn whole(&self, judged: &PruneContext) -> Option<f64> {
        let planned = self.horizon.max_step.map(|m| m as f64);
        planned.or_else(|| {
            let (last, from_zero) = reports::longest(judged.history)?;
            Some((last + i64::from(from_zero)) as f64)
        })
    }

    /// Whether the trial is far enough to be judged, and not at its end.
    fn ready(&self, own: Own, trial: &Entry) -> bool {
        let warm = match (self.n_warmup_steps, trial.last_report()) {
            (Some(warmup), Some((step, _))) => step >= warmup,
            (None, Some(_)) => own.time >= own.whole / 10.0,
            (_, None) => false,
        };
        warm && own.curve.whole().reports() >= 2 && own.time < own.whole
    }

    fn hopeless(&self, own: Own, others: &[(&Entry, &Curve)], direction: Direction) -> bool {
        let now = own.curve.whole();
        if others
            .iter()
            .all(|(_, c)| now.best() < c.until(own.time).best())
        {
            return false;
        }
        let finals: Vec<f64> = (others.iter())
            .map(|(entry, curve)| final_loss(entry, curve, direction))
            .collect();
        let results = others
            .iter()
            .zip(&finals)
            .filter(|((e, _), _)| e.feasible());
        let aim = results.map(|(_, loss)| *loss).fold(f64::INFINITY, f64::min);
        if !aim.is_finite() || now.extrapolated(own.whole) < aim {
            return false;
        }
        if now.best() == f64::INFINITY {
            return true;
        }
        let Some((afresh, here)) = estimates(own, others, &finals) else {
            return false;
        };
        let left = (own.whole - own.time) / own.whole;
        here.chance_below(aim) < self.chance * afresh.chance_below(aim) * left
    }
}

/// What is judged, of a trial that was followed.
fn own<'a>(curves: &'a Curves, trial: &Entry, whole: f64) -> Option<Own<'a>> {
    let curve = curves.get(trial)?;
    Some(Own {
        curve,
        time: curve.end(),
        whole,
    })
}

/// The latest COMPLETE trials with reports.
fn latest<'a>(judged: &PruneContext<'a>) -> impl Iterator<Item = &'a Entry> {
    let complete = reports::complete(judged.history, judged.trial);
    let mut all: Vec<&Entry> = complete.filter(|e| !e.intermediate.is_empty()).collect();
    all.drain(..all.len().saturating_sub(MOST));
    all.into_iter()
}

/// What a COMPLETE trial came to.
fn final_loss(entry: &Entry, curve: &Curve, direction: Direction) -> f64 {
    let told = entry.value().map(|v| direction.loss(v));
    let loss = told.unwrap_or_else(|| curve.whole().best());
    if loss.is_nan() { f64::INFINITY } else { loss }
}

/// The final loss of a new trial, and of this one. Outliers count as the nearest ordinary value, so
/// that a few trials that diverged do not decide about all others. `None` where nothing is finite.
fn estimates(
    own: Own,
    others: &[(&Entry, &Curve)],
    finals: &[f64],
) -> Option<(Estimate, Estimate)> {
    let (_, worst) = regression::fences(finals.iter().copied())?;
    let finals: Vec<f64> = finals.iter().map(|f| f.min(worst)).collect();
    let mut at = features(own.curve.whole(), own);
    let mut rows: Vec<[f64; FEATURES]> = (others.iter())
        .map(|(_, curve)| features(curve.until(own.time), Own { curve, ..own }))
        .collect();
    for i in 0..FEATURES {
        let (low, high) = regression::fences(rows.iter().map(|row| row[i]))?;
        for row in rows.iter_mut().chain([&mut at]) {
            row[i] = row[i].clamp(low, high);
        }
    }
    let here = regression::predict(&rows, &finals, at);
    Some((regression::next(&finals), here))
}

/// What is known of a trial at a time: none of it is NaN.
fn features(now: Prefix, own: Own) -> [f64; FEATURES] {
    let (best, half) = (now.best(), own.curve.until((own.time / 2.0).ceil()).best());
    // Two infinities differ by nothing.
    let gained = if half == best { 0.0 } else { half - best };
    [best, gained, now.extrapolated(own.whole)]
}
