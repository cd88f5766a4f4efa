//! Samplers: which point to try next. One file an algorithm, one interface, one shared test suite
//! (`conformance`). Pure: a proposal is a function of the [`Ask`] alone.

mod random;
mod tpe;

use rand_chacha::ChaCha8Rng;

use crate::space::{Params, Space};
use crate::study::{self, History};

pub use random::RandomSampler;
pub use tpe::TpeSampler;

/// What a proposal may depend on, and nothing else may enter it.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The space.
    pub space: &'a Space,
    /// The results told before the ask, and the pending trials.
    pub history: &'a History,
    /// The number of the trial that is asked for.
    pub number: u64,
    /// The study's seed.
    pub seed: u64,
}

impl Ask<'_> {
    /// The generator of this ask.
    pub fn rng(&self) -> ChaCha8Rng {
        study::rng(self.seed, self.number, "sampler")
    }
}

/// A search algorithm. `&mut self` is for caches alone: the same [`Ask`] always gives the same
/// answer, whatever was asked before.
pub trait Sampler: Send {
    /// The name in configurations (`sampler.kind`).
    fn name(&self) -> &'static str;

    /// Proposes a point: exactly the active parameters, each in its active domain, no declared
    /// constraint violated. `None` where no point that satisfies the constraints was found.
    fn suggest(&mut self, ask: &Ask) -> Option<Params>;
}

/// A sampler.
pub fn sampler(spec: &crate::config::SamplerSpec) -> Option<Box<dyn Sampler>> {
    (spec.kind == "random" || spec.kind == "auto")
        .then(|| Box::new(RandomSampler) as Box<dyn Sampler>)
}
