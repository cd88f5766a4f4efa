//! Why a machine, a task or a program fails.

pub mod check;

pub use check::{Check, Outcome};
