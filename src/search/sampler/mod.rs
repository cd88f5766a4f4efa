//! Samplers: which point to try next. One file an algorithm, one interface, one shared test suite
//! (`conformance`). Pure: a proposal is a function of the [`Ask`] alone.

mod auto;
mod elite;
mod encoding;
mod gp;
mod grid;
mod nsga2;
mod outcome;
mod pruned;
mod random;
mod sobol;
mod spec;
mod tpe;

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod pitfalls_tests;
#[cfg(test)]
mod pruned_tests;
#[cfg(test)]
mod quality_tests;
#[cfg(test)]
mod several_tests;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]
pub mod testing;
#[cfg(test)]
mod trajectory_tests;

use rand_chacha::ChaCha8Rng;

use crate::options::Options;
use crate::space::{Params, Space};
use crate::study::{self, History};

pub use auto::AutoSampler;
pub use gp::{GpOptions, GpSampler};
pub use grid::GridSampler;
pub use nsga2::{Nsga2Options, Nsga2Sampler};
pub use random::RandomSampler;
pub use sobol::{SobolSampler, sobol_point};
pub use spec::SamplerSpec;
pub use tpe::{TpeOptions, TpeSampler};

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

/// A point to try, and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The point.
    pub params: Params,
    /// The method that found it: the sampler's own name, or that of the part of it that was at
    /// work (`spread`, `random`, ...).
    pub by: &'static str,
}

impl Proposal {
    /// Makes proposals of a method's points.
    fn by(by: &'static str) -> impl Fn(Params) -> Proposal {
        move |params| Proposal { params, by }
    }
}

/// The system attribute of a trial that names the method which proposed it (`by` of a [`Proposal`]).
pub const PROPOSED_BY: &str = "sampler";

/// A search algorithm. `&mut self` is for caches alone: the same [`Ask`] always gives the same
/// answer, whatever was asked before.
pub trait Sampler: Send {
    /// The name in configurations (`sampler.kind`).
    fn name(&self) -> &'static str;

    /// What the algorithm by itself proposes: exactly the active parameters, each in its active domain,
    /// no declared constraint violated. `None` where no point that satisfies the constraints was found.
    fn candidate(&mut self, ask: &Ask) -> Option<Proposal>;

    /// The same, but for points where a trial was pruned already: those are left out while another one
    /// is found.
    fn propose(&mut self, ask: &Ask) -> Option<Proposal> {
        pruned::avoided(ask, |ask| self.candidate(ask))
    }

    /// The point alone.
    fn suggest(&mut self, ask: &Ask) -> Option<Params> {
        self.propose(ask).map(|proposal| proposal.params)
    }

    /// Whether every point that it would propose has been tried or is pending: a run has then
    /// nothing more to do. Only a grid has an end.
    fn exhausted(&mut self, _: &Ask) -> bool {
        false
    }
}

/// The sampler that a configuration asks for; `None` for an unknown kind.
/// Missing options take their defaults.
pub fn sampler(spec: &SamplerSpec) -> Option<Box<dyn Sampler>> {
    let options = Options(&spec.options);
    Some(match spec.kind.as_str() {
        "random" => Box::new(RandomSampler),
        "auto" => Box::new(AutoSampler::new(TpeOptions {
            n_startup_trials: gp_options(options).n_startup_trials,
            ..tpe_options(options)
        })),
        "gp" => Box::new(GpSampler::new(gp_options(options))),
        "sobol" => Box::new(SobolSampler),
        "grid" => Box::new(GridSampler::new(options.count("n_points", 5))),
        "tpe" => Box::new(TpeSampler::new(tpe_options(options))),
        "nsga2" => Box::new(Nsga2Sampler::new(nsga2_options(options))),
        _ => return None,
    })
}

/// What a sampler that chooses and mixes will do in a space, and why, for people; `None` for one
/// that does one thing.
pub fn plan(spec: &SamplerSpec, space: &Space) -> Option<String> {
    match spec.kind.as_str() {
        "auto" => Some(AutoSampler::plan(
            &gp_options(Options(&spec.options)),
            space,
        )),
        "nsga2" => Some(Nsga2Sampler::plan(&nsga2_options(Options(&spec.options)))),
        _ => None,
    }
}

fn gp_options(options: Options) -> GpOptions {
    let default = GpOptions::default();
    GpOptions {
        n_startup_trials: options.count("n_startup_trials", default.n_startup_trials),
        n_exact: options.count("n_exact", default.n_exact),
    }
}

fn nsga2_options(options: Options) -> Nsga2Options {
    let default = Nsga2Options::default();
    let population = options.number("population_size");
    Nsga2Options {
        population_size: population.map_or(default.population_size, |n| n as usize),
        mutation_prob: options.number("mutation_prob"),
        crossover_prob: options.float("crossover_prob", default.crossover_prob),
        swapping_prob: options.float("swapping_prob", default.swapping_prob),
    }
}

fn tpe_options(options: Options) -> TpeOptions {
    let default = TpeOptions::default();
    TpeOptions {
        n_startup_trials: options.count("n_startup_trials", default.n_startup_trials),
        n_ei_candidates: options.count("n_ei_candidates", default.n_ei_candidates),
        multivariate: options.flag("multivariate", default.multivariate),
        constant_liar: options.flag("constant_liar", default.constant_liar),
    }
}
