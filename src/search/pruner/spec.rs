//! A pruner and its options, by name.

use serde::{Deserialize, Serialize};

use crate::space::Params;

/// The pruner and its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PrunerSpec {
    /// A word of `pruner.kind`.
    pub kind: String,
    /// Options by name, without the `pruner.` prefix; all present, defaults filled in. Those of the
    /// pruner inside `patient` have names that begin with `wrapped.`.
    pub options: Params,
}
