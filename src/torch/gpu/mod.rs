//! libtorch on a device, beside what tch has of it.

pub mod cuda;
mod health;
mod linear;
pub mod memory;
mod shim;

pub use health::health;
pub use linear::linear;
pub use shim::{
    AdamW, Autocast, ParameterGroup, ShimError, adamw_step, allocator_stats, empty_cache,
    fallback_ops, memory_info, on_terminate, reset_allocator_stats, seed, set_memory_fraction,
    trace_operations,
};

use device::Device;

/// Held by tests that draw from libtorch's default generator: it is one for the whole process.
#[cfg(test)]
pub static GENERATOR: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// A device as tch has it.
pub fn tch_device(device: Device) -> tch::Device {
    match device {
        Device::Cpu => tch::Device::Cpu,
        Device::Cuda(index) => tch::Device::Cuda(index),
    }
}
