//! What trainings use of memory: what was measured, what is predicted, what the machine has.
//!
//! All sizes are bytes. On a GPU they mean the device's memory, on the CPU the process's resident
//! memory, so that everything built on them works on both.

mod drift;
mod entry;
mod predict;
pub mod rehearsal;
pub mod review;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]
pub mod simulated;

pub use drift::drift;
pub use entry::Entry;
pub use predict::Predictor;

use serde::{Deserialize, Serialize};

use device::Device;
use search::space::Params;

/// What one attempt used, as far as it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Peak that libtorch's allocator had given to tensors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<u64>,
    /// Peak that libtorch's allocator had taken from the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<u64>,
    /// What the allocator still held after the attempt, its cache emptied, without a tensor in it:
    /// fragmentation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unallocated: Option<u64>,
    /// Peak of free parts of blocks that are in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inactive_split: Option<u64>,
    /// Allocations that went well only after the cache had been emptied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    /// Allocations that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ooms: Option<u64>,
    /// Peak of the process on its device, as NVML says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u64>,
    /// What the device context takes of the device before any tensor is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
    /// Peak resident memory of the process in this attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident: Option<u64>,
    /// Resident memory of the process before the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_before: Option<u64>,
}

impl Usage {
    /// Peak of the whole process where it trains, context included: what neighbours feel.
    pub fn peak(&self, device: Device) -> Option<u64> {
        match device {
            Device::Cpu => self.resident,
            Device::Cuda(_) => {
                let counted = self.reserved.map(|r| r + self.context.unwrap_or(0));
                self.process.max(counted)
            }
        }
    }
}

/// A prediction of a trial's peak ([`Usage::peak`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// One trial in forty uses less.
    pub lower: u64,
    /// The median.
    pub expected: u64,
    /// One trial in fifty uses more.
    pub upper: u64,
}

/// What is known of one training's peak.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Everything that the training read.
    pub config: Params,
    /// Its peak, or what it had used when memory ran out.
    pub peak: u64,
    /// Memory ran out: its true peak is larger.
    pub censored: bool,
}

/// A size for people: `13.2 GiB`, `512 MiB`.
pub fn size(bytes: u64) -> String {
    let mib = bytes as f64 / 1048576.0;
    match mib {
        _ if mib >= 1024.0 => format!("{:.1} GiB", mib / 1024.0),
        _ if mib >= 10.0 => format!("{mib:.0} MiB"),
        _ => format!("{mib:.1} MiB"),
    }
}

/// What a task knows of a training's peak beforehand, from the sizes of its tensors alone: the bytes that a training of this
/// configuration cannot do without, the context and what the libraries take left out; `None`: nothing is known.
pub type Floor = dyn Fn(&Params) -> Option<u64> + Send + Sync;
