//! From TOML, environment and command line to one checked whole, the [`StudySpec`]. Nothing later
//! looks at a flag, a file's text or an environment variable again.
//!
//! ```text
//! tree       TOML with the line of every value
//! document   its parts, with the overrides applied
//! settings   tune's own keys, by the tables in `keys`
//! fixed      the task kind's keys that are not searched
//! space      [space], [[constraints]], [[points]]: entry (one domain), conditions
//! acts       where searched parameters act, by what the task kind declares
//! points     points that people enqueue
//! satisfiable  whether any point satisfies the constraints
//! resolve    all of it, to a StudySpec or every problem at once
//! ```

pub mod acts;
mod algorithm;
mod conditions;
mod document;
mod entry;
mod fixed;
mod halving;
mod identity;
pub mod keys;
mod kind;
pub mod kinds;
pub mod objectives;
mod overrides;
pub mod places;
pub mod points;
mod problem;
mod pruners;
mod resolve;
mod satisfiable;
mod schema;
mod settings;
mod space;
mod spec;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]
pub mod testing;
#[cfg(test)]
mod tests;
mod tree;
mod values;

pub use algorithm::{pruner_from_json, sampler_from_json};
pub use identity::{Difference, comparable, differences, identity, identity_of, space_of};
pub use kind::{
    BATCH_SIZE, Baseline, Metric, Prepared, TaskKind, TestSplit, greatest, test_metric,
};
pub use overrides::{ENVIRONMENT, Overrides, overrides_from_environment, text_of};
pub use problem::{Problem, Problems, Source, hint};
pub use resolve::{Input, check_name, resolve, resolve_text};
pub use schema::{Acts, Key, KeyType, Preset, Role};
pub use spec::{
    Deadline, Objective, Operation, Parallel, Standby, StudySpec, SupervisorPolicy, TestPolicy,
};
