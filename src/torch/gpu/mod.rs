//! libtorch on a device, beside what tch has of it.

pub mod cuda;
mod health;
mod linear;
pub mod memory;
mod seed;
mod shim;

pub use health::health;
pub use linear::linear;
#[cfg(test)]
pub use seed::GENERATOR;
pub use seed::seed;
pub use shim::{
    AdamW, Autocast, ParameterGroup, ShimError, adamw_step, allocator_stats, empty_cache,
    memory_info, on_terminate, reset_allocator_stats, set_memory_fraction,
};

use device::Device;

/// A device as tch has it.
pub fn tch_device(device: Device) -> tch::Device {
    match device {
        Device::Cpu => tch::Device::Cpu,
        Device::Cuda(index) => tch::Device::Cuda(index),
    }
}
