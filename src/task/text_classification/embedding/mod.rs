//! What an encoder makes of texts, written to a safetensors file.
//!
//! `last_hidden_state` `[n, L, H]` (zeros behind a row's end), `attention_mask` `[n, L]`, `pooled`
//! `[n, H]`; n rows, L tokens of the longest. Batches are written where they belong as they come, so
//! that the file may be larger than the memory.

#[cfg(any(feature = "torch", test))]
mod file;
#[cfg(feature = "torch")]
mod tokens;

use std::path::Path;

use super::checkpoint::Checkpoint;
use super::texts::Text;
use crate::exit::Failure;
use crate::gpu::Device;
#[cfg(feature = "torch")]
pub use file::Output;
#[cfg(feature = "torch")]
pub use tokens::tokens;

/// How a row's hidden states become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// The model's own pooler.
    Pooler,
    /// The mean over the row's tokens.
    Mean,
    /// The first token.
    Cls,
}

impl Pooling {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Pooling::Pooler => "pooler",
            Pooling::Mean => "mean",
            Pooling::Cls => "cls",
        }
    }
}

/// What is to be done.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The model.
    pub checkpoint: &'a Checkpoint,
    /// The texts.
    pub rows: &'a [Text],
    /// Longer rows are cut to so many tokens, at most the model's limit.
    pub max_length: usize,
    /// Rows that are computed at once, at least 1.
    pub batch_size: usize,
    /// `None`: the model's pooler where it has one, else the mean.
    pub pooling: Option<Pooling>,
    /// Where it is computed.
    pub device: Device,
    /// The file, which is replaced as a whole at the end.
    pub out: &'a Path,
}

/// What happens on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
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
    pub pooling: Pooling,
    /// Size of the file.
    pub bytes: u64,
}

/// Computes and writes.
///
/// # Errors
/// A row cannot be encoded, the model has no pooler that was asked for, the file cannot be written,
/// or libtorch throws.
#[cfg(feature = "torch")]
pub fn embed(plan: &Plan<'_>, told: &mut dyn FnMut(Step)) -> Result<Embedded, Failure> {
    super::train::embed(plan, told)
}

/// Needs libtorch.
///
/// # Errors
/// Always: this build has none.
#[cfg(not(feature = "torch"))]
pub fn embed(_plan: &Plan<'_>, _told: &mut dyn FnMut(Step)) -> Result<Embedded, Failure> {
    Err(Failure::input(
        "this `tune` was built without libtorch (feature `torch`): it cannot compute",
    ))
}
