//! Bayesian optimisation with a Gaussian process over mixed and conditional spaces.
//!
//! The losses of the trials (see `targets`) are modelled by a process with a Matérn 5/2 kernel
//! (`kernel`), its parameters fitted anew at each ask (`fit`) from the history alone; the next
//! point has the highest logarithm of the expected improvement (`improvement`), times the
//! probability that it can be run (`feasibility`), over all of the space (`search`). Trials that
//! run count as having the value that is expected of them, trials that were stopped early as
//! having the value they were heading for, with a doubt of their own (`observations`).

mod acquisition;
mod feasibility;
mod fit;
mod improvement;
mod kernel;
mod lbfgs;
mod model;
mod observations;
mod posterior;
mod propose;
mod search;
mod targets;

use super::encoding::Encoding;
use super::{Ask, Sampler, random};
use crate::space::Params;

use self::model::Fits;
use self::observations::Observations;
use self::propose::{Branches, Known};

/// Where there are choices, every so many trials one is that of a choice which is not the best one.
const CHALLENGE: u64 = 6;

/// The same while nothing better is found.
const CHALLENGE_IF_STAGNANT: u64 = 3;

/// Options of [`GpSampler`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpOptions {
    /// Trials spread over the space before the model is used.
    pub n_startup_trials: usize,
    /// Most trials that the model holds; of more the best, the latest and some of the others.
    pub n_exact: usize,
}

impl Default for GpOptions {
    fn default() -> GpOptions {
        GpOptions {
            n_startup_trials: 8,
            n_exact: 1000,
        }
    }
}

/// A Gaussian process and the logarithm of the expected improvement.
#[derive(Debug, Clone, Default)]
pub struct GpSampler {
    options: GpOptions,
    fits: Fits,
}

impl GpSampler {
    /// A sampler with these options.
    pub fn new(options: GpOptions) -> GpSampler {
        GpSampler {
            options,
            fits: Fits::default(),
        }
    }
}

impl Sampler for GpSampler {
    fn name(&self) -> &'static str {
        "gp"
    }

    fn suggest(&mut self, ask: &Ask) -> Option<Params> {
        let encoding = Encoding::new(ask.space);
        let seen = Observations::new(ask, &encoding, usize::MAX);
        let mut rng = ask.rng();
        let trials = seen.points.len();
        let point = if trials < self.options.n_startup_trials.max(2) {
            propose::start(ask, &encoding, &seen, &mut rng)
        } else {
            let known = Known {
                encoding: &encoding,
                earlier: Observations::new(ask, &encoding, model::settled(trials)),
                seen,
                most: self.options.n_exact,
            };
            let branches = turn(&known, ask.number);
            branches
                .and_then(|branches| known.challenge(&branches, &mut self.fits, &mut rng))
                .or_else(|| known.improve(&mut self.fits, &mut rng))
        };
        point
            .map(|point| encoding.params(&point))
            .filter(|params| ask.space.violated(params).is_none())
            .or_else(|| random::draw(ask.space, &mut rng))
    }
}

/// The parameter whose choices are challenged by a trial, if it is the turn of one.
fn turn(known: &Known, number: u64) -> Option<Branches> {
    let every = match known.seen.stagnant() {
        true => CHALLENGE_IF_STAGNANT,
        false => CHALLENGE,
    };
    let mut forks = known.encoding.forks();
    if forks.is_empty() || number % every != every - 1 {
        return None;
    }
    let turn = (number / every) as usize % forks.len();
    Some(forks.swap_remove(turn))
}
