//! Search spaces, samplers and pruners.

pub mod importance;
pub mod pruner;
pub mod sampler;
pub mod space;
pub mod study;
