//! What the machine's memory and its GPUs are at, at one moment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One look at the machine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sample {
    /// The host; `None`: not looked at this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSample>,
    /// The GPUs that could be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuSample>,
}

/// The host's memory, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostSample {
    /// What there is for this process: the machine's memory, or the limit of its cgroup.
    pub total: u64,
    /// What can still be had without swapping.
    pub available: u64,
    /// Resident memory of processes, with what they have started, by the process id of a worker.
    pub processes: BTreeMap<u32, u64>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GpuSample {
    /// Its index as [`crate::Device`] has it.
    pub index: usize,
    /// Memory in all, in bytes; 0: NVML does not tell.
    pub memory_total: u64,
    /// Memory that is not free, in bytes: what all processes use, and what the driver keeps.
    pub memory_used: u64,
    /// Memory of processes that compute, in bytes, by process id; those that NVML tells nothing of
    /// (another container's) are missing, their memory counts in `memory_used`.
    pub processes: BTreeMap<u32, u64>,
    /// Share of the time in which a kernel ran, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization: Option<u32>,
    /// Degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<u32>,
    /// Watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<f64>,
    /// Clock of the multiprocessors, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<u32>,
    /// Why it runs slower than it could, in NVML's words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttle: Vec<String>,
    /// Memory errors that could not be corrected since the driver was loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecc_uncorrected: Option<u64>,
    /// Rows of memory that were replaced because of such errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remapped_rows: Option<u32>,
    /// What has to be done to the GPU: `reset`, `reboot`, `drain_p2p`, `drain_and_reset`, as the
    /// driver says; `lost`: it is not there any more; `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_action: Option<String>,
}
