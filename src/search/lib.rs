//! Hyperparameter search by ask and tell: a [`Study`] proposes points of a [`space::Space`], and learns from what is
//! told of them.
//!
//! * [`space`]: parameters (floats, integers, choices), conditions under which they exist, and constraints that every
//!   proposal satisfies.
//! * [`sampler`]: which point is tried next. By itself a study mixes a Gaussian process and the tree-structured Parzen
//!   estimator ([`sampler::AutoSampler`]); for several objectives there is NSGA-II ([`sampler::Nsga2Sampler`]).
//! * [`pruner`]: which running trials are not worth going on with, from the values that they report.
//! * [`study`]: trials, their states, and the history that samplers and pruners read; Pareto fronts.
//! * [`importance`]: which parameters the values depend on, and how much.
//! * [`outlook`]: what more trials would likely bring.
//! * [`simplify`]: the plainest point that is no worse than the best one.
//!
//! The folder `examples` minimises a function, and ends trials early. Everything is a function of its arguments:
//! randomness comes from seeds, and no clock, file or process is looked at, so that the same seed and results always
//! give the same proposals.

mod ask_tell;
pub mod importance;
mod options;
pub mod outlook;
pub mod pruner;
pub mod sampler;
pub mod simplify;
pub mod space;
pub mod study;

pub use ask_tell::{Outcome, Study, TrialError};
