//! The default: a portfolio of the Gaussian process and the tree-structured Parzen estimator.
//!
//! The Gaussian process finds the best values within the first hundreds of trials, but its cost
//! grows with their number, and where the function is not what its kernel expects it stays in one
//! place; the Parzen estimator expects little and costs little. Measured in
//! `docs/search-quality.md`.

use super::encoding::Encoding;
use super::gp::{GpOptions, GpSampler};
use super::outcome::Outcome;
use super::tpe::{TpeOptions, TpeSampler};
use super::{Ask, Sampler};
use crate::space::{Params, Space};

/// Every so many trials one is the Parzen estimator's, in a study of few trials: the models of
/// conditional spaces err more often.
const OTHER: u64 = 8;
const OTHER_IF_CONDITIONAL: u64 = 5;

/// Other trials before the Parzen estimator has a turn.
const UNTIL: usize = 16;

/// Most trials that the Gaussian process holds here: it costs some tens of milliseconds then.
const HELD: usize = 300;

/// From so many trials on (in thousands), a Gaussian process proposes one of so many.
const RARER: [(usize, u64); 3] = [(300, 2), (1000, 4), (3000, 8)];

/// Chooses and mixes by what the study holds.
#[derive(Debug, Clone)]
pub struct AutoSampler {
    gp: GpSampler,
    tpe: TpeSampler,
}

/// Who proposes a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Gp,
    Tpe,
}

impl AutoSampler {
    /// A sampler whose parts have these options; the Gaussian process takes the number of startup
    /// trials.
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
    pub fn plan(space: &Space) -> String {
        let active = space.parameters.iter().filter(|p| !p.domain.single());
        let conditional = active.clone().filter(|p| !p.when.is_empty()).count();
        let spaces = match conditional {
            0 => format!("{} parameters", active.count()),
            n => format!("{} parameters, {n} of them conditional", active.count()),
        };
        let choices = match Encoding::new(space).forks().is_empty() {
            true => "",
            false => ", some go to choices that are not the best ones",
        };
        format!(
            "after some spread points a Gaussian process ({spaces}); every {}th trial is TPE's{choices}: \
             no model is right everywhere; from {} trials on more and more are TPE's, which costs \
             less; once a trial was infeasible all are the Gaussian process's, which learns where",
            other(space),
            RARER[0].0,
        )
    }
}

impl Sampler for AutoSampler {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn suggest(&mut self, ask: &Ask) -> Option<Params> {
        let direction = ask.history.direction();
        // Running trials cost the Gaussian process as much as ended ones.
        let (mut held, mut infeasible) = (0, false);
        for entry in ask.history.entries() {
            match Outcome::of(entry, direction) {
                _ if entry.number == ask.number => {}
                Outcome::Finished { .. } | Outcome::Stopped { .. } | Outcome::Pending => held += 1,
                Outcome::Infeasible => infeasible = true,
                Outcome::Waiting => {}
            }
        }
        let every = other(ask.space);
        match turn(ask.number, held, infeasible, every) {
            Turn::Gp => self.gp.suggest(ask),
            Turn::Tpe => self.tpe.suggest(ask),
        }
    }
}

/// Every how many trials one is the Parzen estimator's.
fn other(space: &Space) -> u64 {
    match space.parameters.iter().any(|p| !p.when.is_empty()) {
        true => OTHER_IF_CONDITIONAL,
        false => OTHER,
    }
}

/// Whose turn trial `number` is after so many others. Beside infeasible regions it is always
/// the Gaussian process's, which knows of them what can be known.
fn turn(number: u64, others: usize, infeasible: bool, other: u64) -> Turn {
    if infeasible {
        return Turn::Gp;
    }
    let rarer = RARER.iter().rev().find(|(trials, _)| others >= *trials);
    match rarer {
        Some((_, every)) if number.is_multiple_of(*every) => Turn::Gp,
        Some(_) => Turn::Tpe,
        None if number % other == other - 1 && others >= UNTIL => Turn::Tpe,
        None => Turn::Gp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parzen_estimator_takes_over_as_trials_become_many() {
        let share = |ended: usize| {
            let turns = (0..800).map(|number| turn(number, ended, false, OTHER));
            turns.filter(|t| *t == Turn::Gp).count()
        };
        assert_eq!(
            [0, 50, 300, 1000, 5000].map(share),
            [800, 700, 400, 200, 100]
        );
        assert!((0..20).all(|number| turn(number, 5000, true, OTHER) == Turn::Gp));
    }
}
