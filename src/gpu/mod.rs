//! Devices: which there are, and what libtorch needs beside tch to use them.

mod device;

pub use device::Device;
