//! Devices: which there are, and what libtorch needs beside tch to use them.

pub mod cuda;
mod device;
mod health;
#[cfg(feature = "torch")]
mod linear;
pub mod memory;
pub mod probe;
#[cfg(feature = "torch")]
mod seed;
#[cfg(feature = "torch")]
mod shim;

pub use device::Device;
pub use health::health;
#[cfg(feature = "torch")]
pub use linear::linear;
#[cfg(all(feature = "torch", test))]
pub(crate) use seed::GENERATOR;
#[cfg(feature = "torch")]
pub use seed::seed;
#[cfg(feature = "torch")]
pub use shim::{AdamW, Autocast, ParameterGroup, ShimError, adamw_step, empty_cache, on_terminate};

/// Without libtorch nothing is cached.
///
/// # Errors
/// None.
#[cfg(not(feature = "torch"))]
pub fn empty_cache() -> anyhow::Result<()> {
    Ok(())
}
