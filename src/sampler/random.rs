//! Independent uniform sampling (Bergstra and Bengio, "Random Search for Hyper-Parameter
//! Optimization", 2012), with rejection of points that violate a constraint.

use rand_chacha::ChaCha8Rng;

use super::{Ask, Proposal, Sampler};
use crate::space::{Params, Space};

/// Draws every active parameter independently and uniformly (in the logarithm where `log`).
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomSampler;

/// What random points are said to be proposed by.
pub(super) const BY: &str = "random";

/// Draws before a space counts as having no point that satisfies its constraints.
const MAX_DRAWS: usize = 10_000;

impl Sampler for RandomSampler {
    fn name(&self) -> &'static str {
        BY
    }

    fn propose(&mut self, ask: &Ask) -> Option<Proposal> {
        draw(ask.space, &mut ask.rng()).map(Proposal::by(BY))
    }
}

/// A random point that satisfies the constraints; `None` where none was found.
pub(super) fn draw(space: &Space, rng: &mut ChaCha8Rng) -> Option<Params> {
    (0..MAX_DRAWS)
        .map(|_| space.build(|_, _, domain| domain.sample(rng)))
        .find(|params| space.violated(params).is_none())
}
