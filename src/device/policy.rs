//! Which devices a run asks for.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// `--device`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DevicePolicy {
    /// Every NVIDIA GPU there is, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// These GPUs, by index; empty: all of them, and it is an error if there is none.
    Cuda(Vec<usize>),
}

/// What names devices.
pub const DEVICES: &str = "auto, cpu, cuda, or GPUs by index such as \"cuda:0,1\"";

impl FromStr for DevicePolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<DevicePolicy, String> {
        read(text).ok_or_else(|| format!("expected {DEVICES}"))
    }
}

fn read(text: &str) -> Option<DevicePolicy> {
    match text {
        "auto" => Some(DevicePolicy::Auto),
        "cpu" => Some(DevicePolicy::Cpu),
        "cuda" => Some(DevicePolicy::Cuda(Vec::new())),
        other => {
            let mut indices = Vec::new();
            for index in other.strip_prefix("cuda:")?.split(',') {
                let index = index.trim().parse().ok()?;
                if indices.contains(&index) {
                    return None;
                }
                indices.push(index);
            }
            Some(DevicePolicy::Cuda(indices))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_by_kind_or_index() {
        assert_eq!(read("auto"), Some(DevicePolicy::Auto));
        assert_eq!(read("cuda"), Some(DevicePolicy::Cuda(vec![])));
        assert_eq!(read("cuda:0,2"), Some(DevicePolicy::Cuda(vec![0, 2])));
        assert_eq!(read("cuda:0,0"), None);
        assert_eq!(read("cuda:"), None);
        assert_eq!(read("tpu"), None);
    }
}
