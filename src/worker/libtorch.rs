//! What a worker needs of libtorch. It is another library's to give ([`Libtorch`]): a worker whose trials need none
//! goes without.

use std::path::Path;

use device::Device;
use inject::Kind;
use task::Open;

/// libtorch, as far as a worker itself uses it. What is not said here of a function is as without libtorch: there is
/// nothing that could be broken, and no device but the CPU.
pub trait Libtorch: Sync {
    /// Makes libtorch ready for a worker, before anything else; `terminated` is called with the text of a C++
    /// exception that nobody catches. Each operation is noted in the file `trace` before it is begun.
    fn start(&self, _terminated: fn(&str), _trace: Option<&Path>) {}

    /// How a task of this kind is opened, where libtorch trains it.
    fn open(&self, _kind: &str) -> Option<Open> {
        None
    }

    /// Loads what a device needs, and has these operations computed on the CPU where the device is a GPU. It makes no
    /// CUDA context.
    ///
    /// # Errors
    /// A library is missing, or one of the operations.
    fn load(&self, device: Device, _fallback_ops: &[String]) -> anyhow::Result<()> {
        match device {
            Device::Cpu => Ok(()),
            Device::Cuda(_) => without(),
        }
    }

    /// Makes the device's context, and takes the first memory of it.
    ///
    /// # Errors
    /// What libtorch says: with expandable segments this fails where the driver cannot map memory.
    fn first_allocation(&self, _device: Device) -> anyhow::Result<()> {
        without()
    }

    /// Computes something known on a device.
    ///
    /// # Errors
    /// The device gives an error or a wrong result.
    fn health(&self, _device: Device) -> anyhow::Result<()> {
        Ok(())
    }

    /// Seeds libtorch's generators.
    ///
    /// # Errors
    /// A device's error.
    fn seed(&self, _seed: u64) -> anyhow::Result<()> {
        Ok(())
    }

    /// Gives what the allocator keeps back to the driver.
    ///
    /// # Errors
    /// A device's error.
    fn empty_cache(&self) -> anyhow::Result<()> {
        Ok(())
    }

    /// The allocator's statistics of the GPU with this index.
    ///
    /// # Errors
    /// The device has no context yet.
    fn allocator_stats(&self, _index: usize) -> anyhow::Result<AllocatorStats> {
        without()
    }

    /// Lets the peaks and counts of [`Libtorch::allocator_stats`] start anew.
    ///
    /// # Errors
    /// See there.
    fn reset_allocator_stats(&self, _index: usize) -> anyhow::Result<()> {
        without()
    }

    /// A GPU's memory in bytes: free, and in all.
    ///
    /// # Errors
    /// The device's context is broken.
    fn memory_info(&self, _index: usize) -> anyhow::Result<(u64, u64)> {
        without()
    }

    /// Which part of a GPU's memory the allocator may take, above 0 and up to 1.
    ///
    /// # Errors
    /// The device has no context yet.
    fn set_memory_fraction(&self, _index: usize, _fraction: f64) -> anyhow::Result<()> {
        without()
    }

    /// Makes a fault of C++ or of a GPU on purpose; false: it cannot.
    fn make_fault(&self, _kind: Kind, _device: Device) -> bool {
        false
    }

    /// Takes memory of the host, 64 MiB at a time, until there is none.
    fn take_all_memory(&self) {
        let mut kept = Vec::new();
        loop {
            kept.push(std::hint::black_box(vec![1u8; 64 << 20]));
        }
    }
}

/// A worker without libtorch.
pub struct NoLibtorch;

impl Libtorch for NoLibtorch {}

fn without<T>() -> anyhow::Result<T> {
    anyhow::bail!("a worker without libtorch has no GPU")
}

/// What libtorch's allocator says of a GPU, in bytes but for the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AllocatorStats {
    /// In tensors now.
    pub allocated: u64,
    /// Most in tensors since the last reset.
    pub allocated_peak: u64,
    /// Taken from the driver now.
    pub reserved: u64,
    /// Most taken since the last reset.
    pub reserved_peak: u64,
    /// Most in free parts of blocks in use since the last reset.
    pub inactive_split_peak: u64,
    /// Allocations since the last reset that went well only after the cache had been emptied.
    pub retries: u64,
    /// Allocations since the last reset that failed.
    pub ooms: u64,
}
