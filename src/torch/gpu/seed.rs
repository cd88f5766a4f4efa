//! Seeding every device's generator.

/// Held by tests that draw from libtorch's default generator: it is one for the whole process.
#[cfg(test)]
pub static GENERATOR: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Seeds the default generators of the CPU and of every accelerator that is loaded.
///
/// # Errors
/// The exception that libtorch threw: a device's context is broken.
pub fn seed(seed: u64) -> anyhow::Result<()> {
    super::shim::seed(seed)
}
