//! Whether pruning was right: what became of trials that the pruner would have ended (`pruner.audit`).

use serde::Serialize;
use statrs::distribution::{Beta, ContinuousCDF};

use crate::Material;
use search::study::{AUDITED, FrozenTrial, TrialState};

/// What became of trials that the pruner would have ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Audit {
    /// Trials that the pruner has ended.
    pub pruned: u64,
    /// Trials that it would have ended, and that came to their ends.
    pub audited: u64,
    /// Those of them that are better than all trials that it let pass.
    pub won: u64,
    /// Of trials that it ended or would have ended, the part that would have won: lower end of a 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Those of them that are as good as the best tenth of the trials that it let pass.
    pub best_tenth: u64,
}

/// `None` where no such trial has come to its end, or there are several objectives.
pub(crate) fn audit(m: &Material) -> Option<Audit> {
    let direction = m.study.direction();
    let scored = m.scored();
    let told = |t: &FrozenTrial| t.user_attrs.contains_key(AUDITED);
    let losses = |audited: bool| {
        let of = scored.iter().filter(|s| told(s.trial) == audited);
        let mut losses: Vec<f64> = of.map(|s| direction.loss(s.value)).collect();
        losses.sort_by(f64::total_cmp);
        losses
    };
    let (passed, audited) = (losses(false), losses(true));
    if m.several() || audited.is_empty() {
        return None;
    }
    let best = passed.first().copied().unwrap_or(f64::INFINITY);
    let tenth = passed
        .get(passed.len() / 10)
        .copied()
        .unwrap_or(f64::INFINITY);
    let better = |than: f64| audited.iter().filter(|x| **x < than).count() as u64;
    let (low, high) = interval(better(best), audited.len() as u64);
    Some(Audit {
        pruned: m
            .trials
            .iter()
            .filter(|t| t.state == TrialState::Pruned && t.counts())
            .count() as u64,
        audited: audited.len() as u64,
        won: better(best),
        low,
        high,
        best_tenth: better(tenth),
    })
}

/// The 95 % interval of a share by Clopper and Pearson (Biometrika 26, 1934): `some` of `all` were seen.
fn interval(some: u64, all: u64) -> (f64, f64) {
    let at = |a: u64, b: u64, share: f64| {
        let beta = Beta::new(a as f64, b as f64).ok();
        beta.map(|beta| beta.inverse_cdf(share))
    };
    let low = at(some, all - some + 1, 0.025);
    let high = at(some + 1, all - some, 0.975);
    (low.unwrap_or(0.0), high.unwrap_or(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_tables() {
        let near = |(low, high): (f64, f64), expected: (f64, f64)| {
            assert!((low - expected.0).abs() < 5e-4, "{low}");
            assert!((high - expected.1).abs() < 5e-4, "{high}");
        };
        near(interval(0, 10), (0.0, 0.3085));
        near(interval(1, 10), (0.0025, 0.4450));
        near(interval(10, 10), (0.6915, 1.0));
    }
}
