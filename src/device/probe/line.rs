//! What the streaming probe says, a line of JSON each.

use serde::{Deserialize, Serialize};

use crate::GpuSample;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeLine {
    /// A look at all GPUs that can be read.
    Sampled(Vec<GpuSample>),
    /// The driver has reported an error of a GPU.
    Xid {
        /// Its index, as in the samples.
        gpu: usize,
        /// The code.
        code: u64,
    },
    /// NVML cannot be used (any more). The last line.
    Lost {
        /// Why, for people.
        reason: String,
    },
}
