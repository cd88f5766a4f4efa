//! A sampler and its options, by name.

use serde::{Deserialize, Serialize};

use crate::space::Params;

/// The sampler and its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplerSpec {
    /// Which: a word of `sampler.kind`, such as `auto`.
    pub kind: String,
    /// Options by name, without the `sampler.` prefix; all present, defaults filled in.
    pub options: Params,
}
