//! The default: a portfolio of the Gaussian process and the tree-structured Parzen estimator.
//!
//! The Gaussian process finds the best values within the first hundreds of trials, but its cost
//! grows with their number, and where the function is not what its kernel expects it stays in one
//! place; the Parzen estimator expects little and costs little. Measured in
//! `docs/search-quality.md`.

use rand::RngExt;

use super::encoding::Encoding;
use super::gp::{GpOptions, GpSampler};
use super::outcome::Outcome;
use super::tpe::{TpeOptions, TpeSampler};
use super::{Ask, Proposal, Sampler};
use crate::space::Space;
use crate::study;

/// Every so many trials one is the Parzen estimator's, in a study of few trials: the models of
/// conditional spaces err more often.
const OTHER: u64 = 8;
const OTHER_IF_CONDITIONAL: u64 = 5;

/// Other trials before the Parzen estimator has a turn.
const UNTIL: usize = 16;

/// Most trials that the Gaussian process holds here: it costs some tens of milliseconds then.
const HELD: usize = 300;

/// From so many trials on, a Gaussian process proposes one of so many.
const RARER: [(usize, u64); 3] = [(300, 2), (1000, 4), (3000, 8)];

/// Latest trials that are looked at for those that could not be run.
const LATEST: usize = 40;

/// The share of them that needs no attention.
const ACCIDENTS: f64 = 0.05;

/// Chooses and mixes by what the study holds.
#[derive(Debug, Clone)]
pub struct AutoSampler {
    gp: GpSampler,
    tpe: TpeSampler,
}

impl AutoSampler {
    /// A sampler whose parts have these options; both take the number of startup trials.
    pub fn new(options: TpeOptions) -> AutoSampler {
        AutoSampler {
            gp: GpSampler::new(GpOptions {
                n_startup_trials: options.n_startup_trials,
                n_exact: HELD,
            }),
            tpe: TpeSampler::new(options),
        }
    }

    /// What it will do in a space, and why, for people: clauses with semicolons between them.
    pub fn plan(options: &GpOptions, space: &Space) -> String {
        let choices = match Encoding::new(space).conditional_branches().is_empty() {
            true => "",
            false => "; some trials try a choice that is not the best so far",
        };
        format!(
            "starts with {} spread-out points, then mostly a Gaussian process; one trial in {} comes from TPE, \
             because no model is right everywhere{choices}; from {} trials on more and more come from TPE, which costs less time; \
             trials that cannot be run (infeasible) teach it where not to search; a trial that still runs counts with \
             the value that is expected of it",
            options.n_startup_trials.max(2),
            other(space),
            RARER[0].0,
        )
    }
}

impl Sampler for AutoSampler {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn candidate(&mut self, ask: &Ask) -> Option<Proposal> {
        let direction = ask.history.direction();
        // Running trials cost the Gaussian process as much as ended ones.
        let (mut held, mut ran) = (0, Vec::new());
        for entry in ask.history.entries() {
            match Outcome::of(entry, direction) {
                _ if entry.number == ask.number => {}
                Outcome::Finished { .. } | Outcome::Stopped { .. } => {
                    held += 1;
                    ran.push(true);
                }
                Outcome::Pending => held += 1,
                Outcome::Infeasible => ran.push(false),
                Outcome::Waiting => {}
            }
        }
        let share = share(held, wasteful(&ran), other(ask.space));
        let mut rng = study::rng(ask.seed, ask.number, "turn");
        if rng.random::<f64>() < share {
            self.gp.candidate(ask)
        } else {
            self.tpe.candidate(ask)
        }
    }
}

/// Whether more of the latest trials could not be run than happens by accident.
fn wasteful(ran: &[bool]) -> bool {
    let latest = &ran[ran.len().saturating_sub(LATEST)..];
    let wasted = latest.iter().filter(|ran| !**ran).count();
    wasted as f64 > ACCIDENTS * latest.len() as f64
}

/// Every how many trials one is the Parzen estimator's.
fn other(space: &Space) -> u64 {
    match space.parameters.iter().any(|p| !p.when.is_empty()) {
        true => OTHER_IF_CONDITIONAL,
        false => OTHER,
    }
}

/// The probability that a trial after so many others is the Gaussian process's. Where many of the
/// latest trials could not be run it is 1: it knows of that what can be known.
fn share(others: usize, wasteful: bool, other: u64) -> f64 {
    let rarer = RARER.iter().rev().find(|(trials, _)| others >= *trials);
    match rarer {
        _ if wasteful => 1.0,
        Some((_, every)) => 1.0 / *every as f64,
        None if others >= UNTIL => 1.0 - 1.0 / other as f64,
        None => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parzen_estimator_takes_over_as_trials_become_many() {
        let shares = [0, 50, 300, 1000, 5000].map(|others| share(others, false, OTHER));
        assert_eq!(shares, [1.0, 0.875, 0.5, 0.25, 0.125]);
        assert_eq!(share(5000, true, OTHER), 1.0);
    }
}
