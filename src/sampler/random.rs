//! Independent uniform sampling (Bergstra and Bengio, "Random Search for Hyper-Parameter
//! Optimization", 2012), with rejection of points that violate a constraint.

use rand_chacha::ChaCha8Rng;

use super::{Ask, Sampler};
use crate::space::{Params, Space};

/// Draws every active parameter independently and uniformly (in the logarithm where `log`).
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomSampler;

/// Draws before a space counts as having no point that satisfies its constraints.
const MAX_DRAWS: usize = 10_000;

impl Sampler for RandomSampler {
    fn name(&self) -> &'static str {
        "random"
    }

    fn suggest(&mut self, ask: &Ask) -> Option<Params> {
        draw(ask.space, &mut ask.rng())
    }
}

/// A random point that satisfies the constraints; `None` where none was found.
pub(super) fn draw(space: &Space, rng: &mut ChaCha8Rng) -> Option<Params> {
    (0..MAX_DRAWS)
        .map(|_| space.build(|_, _, domain| domain.sample(rng)))
        .find(|params| space.violated(params).is_none())
}
