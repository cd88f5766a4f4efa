//! Studies and trials as values: what a trial is, which states it takes, and the history that
//! samplers and pruners read. Pure.

pub mod carry;
mod history;
mod job;
mod lineage;
pub mod noise;
pub mod pareto;
mod ranking;
mod seed;
pub mod selection;
mod trial;
mod violation;

pub use history::{Entry, History, Updates};
pub use job::{AttemptId, Job, Purpose};
pub use lineage::{lineage, next_fork};
pub use seed::{derive_seed, rng};
pub use trial::AUDITED;
pub use trial::{Direction, FrozenTrial, IllegalTransition, TrialState};
pub use violation::{STRUCK, is_constraint, violation};
