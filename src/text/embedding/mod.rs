//! What an encoder makes of texts, written to a safetensors file.
//!
//! `last_hidden_state` `[n, L, H]` (zeros behind a row's end), `attention_mask` `[n, L]`, `pooled`
//! `[n, H]`; n rows, L tokens of the longest. Batches are written where they belong as they come, so
//! that the file may be larger than the memory.

mod file;
mod tokens;

use serde::{Deserialize, Serialize};
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};

pub use file::Output;
pub use tokens::tokens;

/// How a row's hidden states become one vector.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    EnumMessage,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EmbeddingPooling {
    /// The model's own: tanh of a linear layer on the first token.
    Pooler,
    /// The mean over the tokens.
    Mean,
    /// The first token.
    Cls,
}

impl EmbeddingPooling {
    /// In one word.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What happens on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmbeddingStep {
    /// The sizes are known.
    Began {
        /// Rows.
        rows: usize,
        /// Size of the file.
        bytes: u64,
    },
    /// So many rows more are done.
    Computed(usize),
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embedded {
    /// Rows.
    pub rows: usize,
    /// Tokens of the longest row.
    pub length: usize,
    /// Width of a hidden state.
    pub hidden: usize,
    /// Rows that were cut.
    pub cut: usize,
    /// What `pooled` is.
    pub pooling: EmbeddingPooling,
    /// Size of the file.
    pub bytes: u64,
}
