//! The devices that trials train on, and what NVML says of GPUs.

mod context;
mod device;
mod libraries;
mod minute;
mod policy;
pub mod probe;
mod sample;

pub use context::{InUse, context, in_use};
pub use device::Device;
pub use libraries::{libtorch, search_path, site_packages};
pub use minute::GpuMinute;
pub use policy::{DEVICES, DevicePolicy};
pub use sample::{GpuSample, HostSample, Sample};
