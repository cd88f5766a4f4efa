//! From TOML, environment and command line to one checked whole, the [`StudySpec`]. Nothing later
//! looks at a flag, a file's text or an environment variable again.

mod identity;
mod resolve;
mod spec;

pub use identity::{Difference, differences, identity};
pub use resolve::{Overrides, Problem, Problems, Source, resolve};
pub use spec::{
    DevicePolicy, Objective, Operation, PrunerSpec, SamplerSpec, StudySpec, SupervisorPolicy,
};
