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

impl Device {
    /// The value of `CUDA_VISIBLE_DEVICES` for a process that is to see this GPU alone, where `ours`
    /// is our own: of the devices that we may use ourselves, the one with this index. `None`: there is no
    /// such GPU.
    pub fn visible(self, ours: Option<&str>) -> Option<String> {
        let Device::Cuda(index) = self else {
            return None;
        };
        match ours.filter(|list| !list.trim().is_empty()) {
            Some(list) => list.split(',').nth(index).map(|d| d.trim().to_owned()),
            None => Some(index.to_string()),
        }
    }

    /// The same device in a process that sees it alone, if it is a GPU.
    pub fn alone(self) -> Device {
        match self {
            Device::Cpu => Device::Cpu,
            Device::Cuda(_) => Device::Cuda(0),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(i) => write!(f, "cuda:{i}"),
        }
    }
}

/// The inverse of [`fmt::Display`].
impl std::str::FromStr for Device {
    type Err = ();

    fn from_str(text: &str) -> Result<Device, ()> {
        match text.strip_prefix("cuda:") {
            Some(index) => index.parse().map(Device::Cuda).map_err(|_| ()),
            None if text == "cpu" => Ok(Device::Cpu),
            None => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_read_as_it_is_shown() {
        for device in [Device::Cpu, Device::Cuda(0), Device::Cuda(11)] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        assert_eq!(Device::Cuda(3).visible(None).as_deref(), Some("3"));
        assert_eq!(Device::Cuda(1).visible(Some("6, 4")).as_deref(), Some("4"));
        assert_eq!(Device::Cuda(2).visible(Some("6,4")), None);
        assert_eq!(Device::Cpu.visible(None), None);
        for other in ["cuda", "cuda:", "cuda:x", "CPU", ""] {
            assert_eq!(other.parse::<Device>(), Err(()));
        }
    }
}
