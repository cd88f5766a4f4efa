//! Bayesian optimisation with a Gaussian process over mixed and conditional spaces.
//!
//! The losses of the trials (see `targets`) are modelled by a process with a Matérn 5/2 kernel
//! (`kernel`), its parameters fitted anew at each ask (`fit`) from the history alone; the next
//! point has the highest logarithm of the expected improvement (`improvement`), times the
//! probability that it can be run (`feasibility`), over all of the space (`search`). Trials that
//! run count as having the value that is expected of them, trials that were stopped early as
//! having the value they were heading for, with a doubt of their own (`observations`).

mod feasibility;
mod fit;
mod improvement;
mod kernel;
mod lbfgs;
mod observations;
mod posterior;
mod propose;
mod search;
mod targets;

use super::encoding::Encoding;
use super::{Ask, Sampler, random};
use crate::space::Params;

use self::observations::Observations;

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
}

impl GpSampler {
    /// A sampler with these options.
    pub fn new(options: GpOptions) -> GpSampler {
        GpSampler { options }
    }
}

impl Sampler for GpSampler {
    fn name(&self) -> &'static str {
        "gp"
    }

    fn suggest(&mut self, ask: &Ask) -> Option<Params> {
        let encoding = Encoding::new(ask.space);
        let seen = Observations::new(ask, &encoding);
        let mut rng = ask.rng();
        let point = if seen.points.len() < self.options.n_startup_trials.max(2) {
            propose::start(ask, &encoding, &seen, &mut rng)
        } else {
            propose::improve(&encoding, &seen, self.options.n_exact, &mut rng)
        };
        point
            .map(|point| encoding.params(&point))
            .filter(|params| ask.space.violated(params).is_none())
            .or_else(|| random::draw(ask.space, &mut rng))
    }
}
