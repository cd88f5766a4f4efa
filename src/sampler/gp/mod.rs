//! Bayesian optimisation with a Gaussian process over mixed and conditional spaces.
//!
//! The losses of the trials (see `targets`) are modelled by a process with a Matérn 5/2 kernel
//! and additive kernel (`kernel`), its parameters fitted (`fit`) to the history alone; the next
//! point has the highest logarithm of the expected improvement (`improvement`), times the
//! probability that it can be run (`feasibility`), over all of the space (`search`). Trials that
//! run count as having the value that is expected of them, trials that were stopped early as
//! having the value they were heading for, with a doubt of their own (`observations`).

mod acquisition;
mod feasibility;
mod fit;
mod improvement;
mod kernel;
mod lanes;
mod lbfgs;
mod model;
mod observations;
mod posterior;
mod propose;
mod search;
mod targets;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::encoding::Encoding;
use super::sobol::SPREAD;
use super::{Ask, Proposal, Sampler, random};
use crate::study;

use self::feasibility::Borders;
use self::model::Fits;
use self::observations::Observations;
use self::propose::{Branches, Known};

/// What points of a choice that is not the best one are said to be proposed by.
const CHALLENGER: &str = "gp-challenger";

/// Where there are choices, one trial in so many is that of a choice which is not the best one.
const CHALLENGE: u32 = 6;

/// The same while nothing better is found.
const CHALLENGE_IF_STAGNANT: u32 = 3;

/// Points in a row that could not be run, after which the model is doubted.
const STREAK: usize = 3;

/// The share of spread points while nothing better is found.
const SPREAD_IF_STAGNANT: f64 = 0.1;

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

/// What need not be computed again.
#[derive(Debug, Clone, Default)]
struct Memory {
    fits: Fits,
    borders: Borders,
}

/// A Gaussian process and the logarithm of the expected improvement.
#[derive(Debug, Clone, Default)]
pub struct GpSampler {
    options: GpOptions,
    memory: Memory,
}

impl GpSampler {
    /// A sampler with these options.
    pub fn new(options: GpOptions) -> GpSampler {
        GpSampler {
            options,
            memory: Memory::default(),
        }
    }
}

impl Sampler for GpSampler {
    fn name(&self) -> &'static str {
        "gp"
    }

    fn propose(&mut self, ask: &Ask) -> Option<Proposal> {
        let encoding = Encoding::new(ask.space);
        let seen = Observations::new(ask, &encoding, usize::MAX);
        let mut rng = ask.rng();
        let trials = seen.points.len();
        let (point, by) = if spreads(&seen, &mut study::rng(ask.seed, ask.number, "spread")) {
            (propose::spread(ask, &encoding, ask.number), SPREAD)
        } else if trials < self.options.n_startup_trials.max(2) {
            let borders = &mut self.memory.borders;
            let point = propose::start(ask, &encoding, &seen, borders, &mut rng);
            (point, SPREAD)
        } else {
            let known = Known {
                encoding: &encoding,
                earlier: Observations::new(ask, &encoding, model::settled(trials)),
                seen,
                most: self.options.n_exact,
            };
            let branches = turn(&known, &mut study::rng(ask.seed, ask.number, "challenge"));
            let challenged = branches
                .and_then(|branches| known.challenge(&branches, &mut self.memory, &mut rng));
            match challenged {
                Some(point) => (Some(point), CHALLENGER),
                None => (known.improve(&mut self.memory, &mut rng), self.name()),
            }
        };
        point
            .map(|point| encoding.params(&point))
            .filter(|params| ask.space.violated(params).is_none())
            .map(Proposal::by(by))
            .or_else(|| random::draw(ask.space, &mut rng).map(Proposal::by(random::BY)))
    }
}

/// Whether a trial is for a point that no model chose: the more often, the less a model can know.
fn spreads(seen: &Observations, rng: &mut ChaCha8Rng) -> bool {
    let share = if seen.flat() {
        1.0
    } else if seen.streak() >= STREAK {
        0.5
    } else if seen.stagnant() {
        SPREAD_IF_STAGNANT
    } else {
        0.0
    };
    rng.random::<f64>() < share
}

/// The parameter whose choices are challenged by a trial, if it is the turn of one.
fn turn(known: &Known, rng: &mut ChaCha8Rng) -> Option<Branches> {
    let every = match known.seen.stagnant() {
        true => CHALLENGE_IF_STAGNANT,
        false => CHALLENGE,
    };
    let mut forks = known.encoding.forks();
    if forks.is_empty() || rng.random_range(0..every) != 0 {
        return None;
    }
    let fork = rng.random_range(0..forks.len());
    Some(forks.swap_remove(fork))
}
