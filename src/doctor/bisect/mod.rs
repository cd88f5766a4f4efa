//! The smallest part of a failing input that still fails: of the parameters in which a trial differs from one that
//! survived, of the rows that it was trained on.

mod halve;
mod point;
mod smallest;
#[cfg(test)]
mod tests;
mod threshold;

pub use halve::{Culprits, culprits, halved};
pub use point::{Between, distance};
pub use smallest::{Answer, End, Oracle, Parts, smallest};
pub use threshold::{Threshold, threshold};
