//! What a worker needs of libtorch. It is another library's to give ([`Libtorch`]): a worker whose trials need none
//! goes without.

use std::path::Path;

use device::Device;
use inject::Kind;
use task::Open;

/// libtorch, as far as a worker itself uses it.
pub struct Libtorch {
    /// Makes libtorch ready for a worker, before anything else; the function is called with the text of a C++
    /// exception that nobody catches. Each operation is noted in the file, if there is one, before it is begun.
    pub start: fn(fn(&str), Option<&Path>),
    /// How a task of this kind is opened, where libtorch trains it.
    pub open: fn(&str) -> Option<Open>,
    /// Loads what a device needs, and has these operations computed on the CPU where the device is a GPU. It makes no
    /// CUDA context. Fails where a library is missing, or one of the operations.
    pub load: fn(Device, &[String]) -> anyhow::Result<()>,
    /// Makes the device's context, and takes the first memory of it; with expandable segments this fails where the
    /// driver cannot map memory.
    pub first_allocation: fn(Device) -> anyhow::Result<()>,
    /// Computes something known on a device; fails where that gives an error or a wrong result.
    pub health: fn(Device) -> anyhow::Result<()>,
    /// Seeds libtorch's generators.
    pub seed: fn(u64) -> anyhow::Result<()>,
    /// Gives what the allocator keeps back to the driver.
    pub empty_cache: fn() -> anyhow::Result<()>,
    /// The allocator's statistics of the GPU with this index; fails where that has no context yet.
    pub allocator_stats: fn(usize) -> anyhow::Result<AllocatorStats>,
    /// Lets the peaks and counts of [`Libtorch::allocator_stats`] start anew.
    pub reset_allocator_stats: fn(usize) -> anyhow::Result<()>,
    /// A GPU's memory in bytes: free, and in all; fails where the device's context is broken.
    pub memory_info: fn(usize) -> anyhow::Result<(u64, u64)>,
    /// Which part of a GPU's memory the allocator may take, above 0 and up to 1; fails where the device has no context
    /// yet.
    pub set_memory_fraction: fn(usize, f64) -> anyhow::Result<()>,
    /// Makes a fault of C++ or of a GPU on purpose; false: it cannot.
    pub make_fault: fn(Kind, Device) -> bool,
    /// Takes memory of the host, 64 MiB at a time, until there is none.
    pub take_all_memory: fn(),
}

/// A worker without libtorch: there is nothing that could be broken, and no device but the CPU.
pub static NO_LIBTORCH: Libtorch = Libtorch {
    start: |_, _| {},
    open: |_| None,
    load: |device, _| match device {
        Device::Cpu => Ok(()),
        Device::Cuda(_) => without(),
    },
    first_allocation: |_| without(),
    health: |_| Ok(()),
    seed: |_| Ok(()),
    empty_cache: || Ok(()),
    allocator_stats: |_| without(),
    reset_allocator_stats: |_| without(),
    memory_info: |_| without(),
    set_memory_fraction: |_, _| without(),
    make_fault: |_, _| false,
    take_all_memory,
};

fn take_all_memory() {
    let mut kept = Vec::new();
    loop {
        kept.push(std::hint::black_box(vec![1u8; 64 << 20]));
    }
}

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
