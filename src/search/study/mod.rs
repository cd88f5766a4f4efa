//! Studies and trials as values: what a trial is, which states it takes, and the history that
//! samplers and pruners read. Pure.

pub mod carry;
mod family;
mod history;
mod job;
pub mod pareto;
mod seed;
pub mod selection;
mod trial;
mod violation;

pub use family::{family, next_fork};
pub use history::{Entry, History, News};
pub use job::{AttemptId, Job, Purpose};
pub use seed::{derive_seed, rng};
pub use trial::{Direction, FrozenTrial, IllegalTransition, TrialState};
pub use violation::{is_constraint, violation};
