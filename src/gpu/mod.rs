//! Devices: which there are, and what libtorch needs beside tch to use them.

pub mod cuda;
mod device;
mod health;
pub mod probe;
#[cfg(feature = "torch")]
mod seed;

pub use device::Device;
pub use health::health;
#[cfg(feature = "torch")]
pub use seed::seed;
