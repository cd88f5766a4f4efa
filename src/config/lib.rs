//! From TOML, environment and command line to one checked whole, the [`StudySpec`]. Nothing later
//! looks at a flag, a file's text or an environment variable again.
//!
//! ```text
//! key          what is said of a key, in one entry: type, default, role, help, condition
//! keys         the entries of tune itself and of samplers; pruners and kinds have the others
//! tree         TOML with the line of every value
//! document     its parts, with the overrides applied
//! values       values of keys, read and checked by their entries
//! settings     how a run is operated, by the values of tune's own keys
//! algorithm    samplers and pruners with their options
//! unknown      sections and keys that nobody reads
//! space        [space], [[constraints]], [[points]]: entry (one domain), conditions
//! active_when  where searched parameters act, by what the task kind declares
//! points       points that people enqueue
//! satisfiable  whether any point satisfies the constraints
//! resolve      all of it, to a StudySpec or every problem at once
//! show         what was resolved, each value with where it comes from
//! schema       the entries of all keys as a JSON Schema, for editors
//! ```

pub mod active_when;
mod algorithm;
mod conditions;
mod document;
mod entry;
mod halving;
mod identity;
mod key;
mod keys;
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
pub mod server_url;
mod settings;
mod show;
mod space;
mod spec;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]
pub mod testing;
#[cfg(test)]
mod tests;
mod tree;
mod unknown;
mod values;

pub use active_when::{ActiveWhen, Is};
pub use algorithm::{pruner_from_json, sampler_from_json};
pub use identity::{Difference, comparable, differences, identity, lacks_program, space_of};
pub use key::{Key, KeyType, Preset, Role};
pub use keys::{Algorithm, PRUNERS, SAMPLERS};
pub use kind::{BATCH_SIZE, Baseline, Metric, Prepared, TaskKind, TestSplit, test_metric};
pub use overrides::{
    Overrides, assignment, overrides_from_environment, text_of, toml_text, unknown_variables,
    variables_set,
};
pub use problem::{Problem, Problems, Source, hint, nearest_command};
pub use resolve::{
    Input, check_name, resolve, resolve_and_show, resolve_partly, resolve_text, shown_name,
};
pub use schema::{TITLE, schema};
pub use show::{Shown, as_json, as_toml};
pub use values::{CENTURY, duration};

pub use spec::{
    Deadline, Objective, Operation, Parallel, Standby, StudySpec, SupervisorPolicy, TestPolicy,
};
