//! Search spaces, samplers and pruners, with ask and tell: see [`Study`].
//!
//! Everything is a function of its arguments: randomness comes from seeds, and no clock, file or process is looked at.

mod ask_tell;
pub mod importance;
pub mod pruner;
pub mod sampler;
pub mod space;
pub mod study;

pub use ask_tell::{Outcome, Study, TrialError};
