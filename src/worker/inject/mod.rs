//! Faults made on purpose, as [`::inject`] has them planned: a worker really does to itself what a fault's name says.
//! What follows is the supervisor's business, and it learns of it only through the evidence that a real fault leaves.

mod faults;
mod live;

pub use faults::FaultContext;
pub use live::Injected;
