//! Independent uniform sampling.

use super::{Ask, Sampler};
use crate::space::Params;

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
        let mut rng = ask.rng();
        (0..MAX_DRAWS)
            .map(|_| ask.space.build(|_, _, domain| domain.sample(&mut rng)))
            .find(|params| ask.space.violated(params).is_none())
    }
}
