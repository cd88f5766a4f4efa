//! Why a machine, a task or a program fails.

pub mod bisect;
pub mod bundle;
pub mod caught;
pub mod causes;
pub mod change;
pub mod check;
mod crossed_locks;
mod ctypes;
pub mod examine;
pub mod failed_at;
pub mod hypothesis;
pub mod inside;
pub mod ladder;
pub mod leftovers;
pub mod lifetimes;
pub mod links;
pub mod machine;
mod mapped;
pub mod matrix;
mod noted;
pub mod notes;
pub mod options;
mod pipes;
pub mod rank;
pub mod run;
mod series;
pub mod signature;
pub mod signs;
pub mod silent;
pub mod statistics;
pub mod texts;

#[cfg(test)]
mod recorded_tests;

pub use check::{Check, Outcome};
