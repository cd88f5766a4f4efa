//! A device as a worker uses it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a worker trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// The CPU.
    Cpu,
    /// The GPU with this index, as CUDA counts in the order of the bus: as NVML does, but only
    /// those, and in the order, that `CUDA_VISIBLE_DEVICES` names where it is set.
    Cuda(usize),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(i) => write!(f, "cuda:{i}"),
        }
    }
}

#[cfg(feature = "torch")]
impl From<Device> for tch::Device {
    fn from(device: Device) -> tch::Device {
        match device {
            Device::Cpu => tch::Device::Cpu,
            Device::Cuda(i) => tch::Device::Cuda(i),
        }
    }
}
