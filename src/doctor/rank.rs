//! Causes ranked by probability, from the signs and from what changes did.
//!
//! Bayes' rule over [`Cause`] with signs and changes taken as independent given the cause. Signs are not quite
//! independent, which makes such a rule too sure of itself; they are tempered by one exponent ([`TEMPER`]). What is told
//! leaves room for causes that are not in the table ([`calibrated`]).

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::causes::{Cause, Profile};
use crate::change::Change;
use crate::signs::Sign;
use crate::statistics::Rate;

/// The weight of a sign: 1 is that of independent ones. What a change did is an experiment, and counts in full.
pub const TEMPER: f64 = 0.9;

/// How likely the cause is something that is no [`Cause`].
///
/// With [`TEMPER`] and the weight of [`Cause::OwnCode`] it was chosen by the Brier score and the logarithmic loss of 40
/// programs that were written, with their causes, before anything was changed for them, and of 66 others; docs/doctor.md
/// has the figures. Flattening the probabilities, or another weight, made both worse.
pub const SOMETHING_ELSE: f64 = 0.05;

/// The probabilities as they are told: the ranking knows its causes, and not all that there are.
pub fn calibrated(ranking: &[Ranked]) -> Vec<Ranked> {
    let told = |r: &Ranked| Ranked {
        probability: (1.0 - SOMETHING_ELSE) * r.probability,
        ..*r
    };
    ranking.iter().map(told).collect()
}

/// What is left of a cause that there can hardly be.
const IMPOSSIBLE: f64 = 0.01;

/// What is known so far.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// Signs of the failing runs.
    pub signs: BTreeSet<Sign>,
    /// The command as it is.
    pub base: Rate,
    /// The command under changes.
    pub changed: BTreeMap<Change, Rate>,
    /// Options, alone or together, without which it does not fail.
    pub options: bool,
    /// The command has no options.
    pub without_options: bool,
    /// A variable without which it does not fail.
    pub variable: bool,
    /// A row with which alone it fails, or with one other where it needs two to run, and not with as many others.
    pub row: bool,
}

/// A cause with its probability.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ranked {
    /// Which.
    pub cause: Cause,
    /// How likely, in 0 to 1.
    pub probability: f64,
}

impl Evidence {
    /// Every cause, the most likely first.
    pub fn ranking(&self) -> Vec<Ranked> {
        let logs: Vec<f64> = Cause::ALL.iter().map(|c| self.log_weight(*c)).collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logs.iter().map(|l| (l - most).exp()).sum();
        let mut ranked: Vec<Ranked> = Cause::ALL
            .iter()
            .zip(&logs)
            .map(|(&cause, log)| Ranked {
                cause,
                probability: (log - most).exp() / sum,
            })
            .collect();
        ranked.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        ranked
    }

    /// How likely a cause is.
    pub fn probability(&self, cause: Cause) -> f64 {
        let ranking = self.ranking();
        let found = ranking.iter().find(|ranked| ranked.cause == cause);
        found.map_or(0.0, |ranked| ranked.probability)
    }

    fn log_weight(&self, cause: Cause) -> f64 {
        let profile = cause.row();
        let signs: f64 = Sign::ALL.iter().map(|s| self.of_sign(profile, *s)).sum();
        let changes: f64 = self
            .changed
            .iter()
            .map(|(change, runs)| likelihood(cause, *change, *runs, self.base).ln())
            .sum();
        // A row whose values are finite fails by something else.
        let of_row: &[Cause] = match self.signs.contains(&Sign::NotFiniteRows) {
            true => &[
                Cause::NonFiniteInput,
                Cause::BadRow,
                Cause::LabelOutOfRange,
                Cause::IndexOutOfRange,
            ],
            false => &[
                Cause::BadRow,
                Cause::LabelOutOfRange,
                Cause::IndexOutOfRange,
            ],
        };
        let found: [(bool, &[Cause]); 3] = [
            (
                self.options,
                &[Cause::Options, Cause::Usage, Cause::Diverged],
            ),
            (self.variable, &[Cause::Environment, Cause::ShadowedLibrary]),
            (self.row, of_row),
        ];
        let found: f64 = found
            .iter()
            .map(|(seen, of)| special(*seen, of, cause))
            .sum();
        let impossible = self.without_options && cause == Cause::Options;
        let possible: f64 = if impossible { IMPOSSIBLE } else { 1.0 };
        (profile.weight * possible).ln() + TEMPER * signs + changes + found
    }

    /// The logarithm of the ratio of a sign, or of its absence, to its background.
    fn of_sign(&self, profile: &Profile, sign: Sign) -> f64 {
        let background = sign.row().background;
        let shown = profile.shows.iter().find(|s| s.0 == sign);
        let p = shown.map_or(background, |s| s.1);
        match self.signs.contains(&sign) {
            true => (p / background).ln(),
            false => ((1.0 - p) / (1.0 - background)).ln(),
        }
    }

    /// How much a run under a change is expected to tell: the expected fall of the entropy over the causes, in bits.
    pub fn information(&self, change: Change) -> f64 {
        let ranking = self.ranking();
        let ends = |r: &Ranked| r.cause.ends(change);
        let p: f64 = ranking.iter().map(|r| r.probability * ends(r)).sum();
        let after = |ended: bool| {
            let likely = |r: &Ranked| if ended { ends(r) } else { 1.0 - ends(r) };
            let sum: f64 = ranking.iter().map(|r| r.probability * likely(r)).sum();
            entropy(ranking.iter().map(|r| r.probability * likely(r) / sum))
        };
        let before = entropy(ranking.iter().map(|r| r.probability));
        (before - p * after(true) - (1.0 - p) * after(false)).max(0.0)
    }
}

/// How likely a series of runs under a change is if this is the cause.
fn likelihood(cause: Cause, change: Change, runs: Rate, base: Rate) -> f64 {
    let ends = cause.ends(change);
    let always = match base.clean() {
        0 => 0.0,
        _ => cause.always_under(change) * (1.0 - ends),
    };
    let unchanged = 1.0 - ends - always;
    ends * runs.likelihood_ended()
        + always * runs.likelihood_always()
        + unchanged * runs.likelihood_unchanged(base)
}

/// What a search beside the changes has found speaks for the cause that it looks for.
/// The first of these causes is not likely where it has found nothing.
fn special(seen: bool, of: &[Cause], cause: Cause) -> f64 {
    match (seen, of.contains(&cause)) {
        (true, true) if of[0] == cause => 0.9_f64.ln(),
        (true, true) => 0.5_f64.ln(),
        (true, false) => 0.03_f64.ln(),
        (false, true) if of[0] == cause => 0.3_f64.ln(),
        (false, _) => 0.0,
    }
}

fn entropy(probabilities: impl Iterator<Item = f64>) -> f64 {
    probabilities
        .filter(|p| *p > 0.0)
        .map(|p| -p * p.log2())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(signs: &[Sign]) -> Evidence {
        Evidence {
            signs: signs.iter().copied().collect(),
            base: Rate { failed: 2, all: 2 },
            ..Evidence::default()
        }
    }

    fn first(evidence: &Evidence) -> Cause {
        evidence.ranking()[0].cause
    }

    const CLEAN: Rate = Rate { failed: 0, all: 1 };
    const FAILS: Rate = Rate { failed: 1, all: 1 };

    #[test]
    fn probabilities_are_a_distribution() {
        let sum: f64 = evidence(&[Sign::Hang])
            .ranking()
            .iter()
            .map(|r| r.probability)
            .sum();
        assert!((sum - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_told_keeps_the_order_and_leaves_room_for_something_else() {
        let ranking = evidence(&[Sign::Exception, Sign::LoaderWorkers]).ranking();
        let told = calibrated(&ranking);
        let sum: f64 = told.iter().map(|r| r.probability).sum();
        assert!((sum - (1.0 - SOMETHING_ELSE)).abs() < 1e-9);
        assert!(told.is_sorted_by(|a, b| a.probability >= b.probability));
        assert!(ranking.iter().zip(&told).all(|(a, b)| a.cause == b.cause));
        assert!(told[0].probability < ranking[0].probability);
        let sure = [Ranked {
            cause: Cause::OwnCode,
            probability: 1.0,
        }];
        assert!((calibrated(&sure)[0].probability - 0.95).abs() < 1e-9);
    }

    #[test]
    fn every_cause_is_first_where_all_that_it_shows_is_seen() {
        for cause in Cause::ALL {
            let profile = cause.row();
            let likely = profile.shows.iter().filter(|s| s.1 >= 0.5).map(|s| s.0);
            let signs: Vec<Sign> = likely.collect();
            let mut evidence = evidence(&signs);
            if signs.contains(&Sign::Flaky) {
                evidence.base = Rate { failed: 3, all: 9 };
            }
            let enough = evidence.base.clean_runs_needed(50).unwrap();
            for change in Change::ALL {
                let ended = cause.ends(*change) >= 0.5;
                let clean = Rate {
                    failed: 0,
                    all: enough,
                };
                evidence
                    .changed
                    .insert(*change, if ended { clean } else { FAILS });
            }
            evidence.options = *cause == Cause::Options;
            evidence.variable = *cause == Cause::Environment;
            evidence.row = *cause == Cause::BadRow;
            let three: Vec<Cause> = evidence.ranking()[..3].iter().map(|r| r.cause).collect();
            assert!(three.contains(cause), "{cause}: {three:?}");
        }
    }

    #[test]
    fn a_change_that_ends_the_failure_moves_the_cause_up() {
        let mut evidence = evidence(&[Sign::Exception, Sign::LoaderWorkers]);
        assert_eq!(first(&evidence), Cause::OwnCode);
        evidence.changed.insert(Change::Workers0, CLEAN);
        assert_eq!(first(&evidence), Cause::LoaderWorker);
        evidence.changed.insert(Change::Workers0, FAILS);
        assert_eq!(first(&evidence), Cause::OwnCode);
    }

    #[test]
    fn a_run_tells_most_where_it_divides_the_likely_causes() {
        let evidence = evidence(&[Sign::Half, Sign::NotFiniteText, Sign::Exception]);
        let (fp32, hash) = (
            evidence.information(Change::Fp32),
            evidence.information(Change::HashSeed),
        );
        assert!(fp32 > 5.0 * hash, "{fp32} {hash}");
    }
}
