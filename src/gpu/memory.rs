//! A GPU's memory, as a process that computes on it sees it.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::Device;
use super::probe::nvml;

/// What the driver says of a GPU's memory in use, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InUse {
    /// By this process; `None`: the driver does not tell (another container's numbers).
    pub own: Option<u64>,
    /// By all processes.
    pub all: u64,
}

/// Asks NVML of the GPU with this index; `None` where it does not answer in time: it can hang in the
/// driver.
pub fn in_use(index: usize, patience: Duration) -> Option<InUse> {
    let (tell, told) = mpsc::channel();
    thread::Builder::new()
        .name("nvml".into())
        .spawn(move || {
            let _ = tell.send(ask(index));
        })
        .ok()?;
    told.recv_timeout(patience).ok()?
}

/// `index` as CUDA counts in this process, which sees the GPUs of `CUDA_VISIBLE_DEVICES` alone.
fn ask(index: usize) -> Option<InUse> {
    let nvml = nvml::open().ok()?;
    let gpus = nvml::gpus(&nvml).ok()?;
    let gpu = gpus.iter().find(|gpu| gpu.index == index)?;
    let processes = nvml::processes(&gpu.handle).unwrap_or_default();
    Some(InUse {
        own: processes.get(&std::process::id()).copied(),
        all: nvml::memory(&gpu.handle).ok()?.1,
    })
}

/// More than this is no context, but what somebody else took meanwhile.
const LARGEST_CONTEXT: u64 = 4 << 30;

/// What a context takes: what this process uses less what its allocator has `reserved`. Where the
/// driver does not tell processes apart, what all use more than `before` stands in for it.
pub fn context(before: Option<InUse>, after: InUse, reserved: u64) -> Option<u64> {
    let used = match (after.own, before) {
        (Some(own), _) => own,
        (None, Some(before)) => after.all.saturating_sub(before.all),
        (None, None) => return None,
    };
    let context = used.saturating_sub(reserved);
    (context > 0 && context <= LARGEST_CONTEXT).then_some(context)
}

/// Makes the device's context, and takes the first memory of it.
///
/// # Errors
/// What libtorch says: with expandable segments this fails where the driver cannot map memory.
#[cfg(feature = "torch")]
pub fn first_allocation(device: Device) -> anyhow::Result<()> {
    let kind = (tch::Kind::Float, device.into());
    let tensor = tch::Tensor::f_zeros([1 << 20], kind)?;
    anyhow::ensure!(tensor.f_double_value(&[0])? == 0.0, "zero came out wrong");
    Ok(())
}

/// Without libtorch there is no device.
///
/// # Errors
/// Always.
#[cfg(not(feature = "torch"))]
pub fn first_allocation(device: Device) -> anyhow::Result<()> {
    anyhow::bail!("built without libtorch, which {device} needs")
}

#[cfg(feature = "torch")]
pub use super::shim::{
    AllocatorStats, allocator_stats, memory_info, reset_allocator_stats, set_memory_fraction,
};

#[cfg(not(feature = "torch"))]
pub use without::{
    AllocatorStats, allocator_stats, memory_info, reset_allocator_stats, set_memory_fraction,
};

/// The same names without libtorch: there is nothing to ask.
#[cfg(not(feature = "torch"))]
mod without {
    /// See the build with libtorch.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    #[allow(missing_docs)]
    pub struct AllocatorStats {
        pub allocated: u64,
        pub allocated_peak: u64,
        pub reserved: u64,
        pub reserved_peak: u64,
        pub inactive_split_peak: u64,
        pub retries: u64,
        pub ooms: u64,
    }

    fn nothing<T>() -> anyhow::Result<T> {
        anyhow::bail!("built without libtorch")
    }

    /// # Errors
    /// Always.
    pub fn allocator_stats(_index: usize) -> anyhow::Result<AllocatorStats> {
        nothing()
    }

    /// # Errors
    /// Always.
    pub fn reset_allocator_stats(_index: usize) -> anyhow::Result<()> {
        nothing()
    }

    /// # Errors
    /// Always.
    pub fn memory_info(_index: usize) -> anyhow::Result<(u64, u64)> {
        nothing()
    }

    /// # Errors
    /// Always.
    pub fn set_memory_fraction(_index: usize, _fraction: f64) -> anyhow::Result<()> {
        nothing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn in_use(own: Option<u64>, all: u64) -> InUse {
        InUse {
            own: own.map(|m| m * MIB),
            all: all * MIB,
        }
    }

    #[test]
    fn a_context_is_what_the_process_uses_beyond_its_tensors() {
        let before = Some(in_use(None, 9_000));
        let after = in_use(Some(520), 20_000);
        assert_eq!(context(before, after, 20 * MIB), Some(500 * MIB));
        assert_eq!(context(None, after, 20 * MIB), Some(500 * MIB));
    }

    #[test]
    fn where_processes_are_not_told_apart_the_rise_of_all_counts() {
        let after = in_use(None, 9_420);
        let before = Some(in_use(None, 9_000));
        assert_eq!(context(before, after, 20 * MIB), Some(400 * MIB));
        assert_eq!(context(None, after, 20 * MIB), None);
        let crowded = Some(in_use(None, 1_000));
        assert_eq!(context(crowded, after, 0), None, "a neighbour's training");
        assert_eq!(context(Some(after), after, 0), None);
    }

    /// 512 MiB of the GPU.
    #[cfg(feature = "torch")]
    fn large(device: Device) -> anyhow::Result<()> {
        drop(tch::Tensor::f_zeros(
            [128 * (1 << 20)],
            (tch::Kind::Float, device.into()),
        )?);
        super::super::empty_cache()
    }

    #[cfg(feature = "torch")]
    #[test]
    #[ignore = "needs a GPU; tests/gpu.sh runs it"]
    fn a_neighbour_without_a_limit_allocates() {
        super::super::cuda::load(Device::Cuda(0)).unwrap();
        large(Device::Cuda(0)).unwrap();
    }

    #[cfg(feature = "torch")]
    #[test]
    #[ignore = "needs a GPU; tests/gpu.sh runs it"]
    fn a_grant_is_the_offenders_limit() {
        let device = Device::Cuda(0);
        super::super::cuda::load(device).unwrap();
        first_allocation(device).unwrap();
        let (_, all) = memory_info(0).unwrap();
        set_memory_fraction(0, 256.0 * MIB as f64 / all as f64).unwrap();
        let error = large(device).unwrap_err().to_string();
        assert!(crate::fault::cuda::out_of_memory(&error), "{error}");
        let (free, _) = memory_info(0).unwrap();
        assert!(free > 1 << 30, "the GPU has room");
        println!("refused after 256 MiB with {} MiB free", free / MIB);
        let neighbour = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["a_neighbour_without_a_limit_allocates", "--ignored"])
            .status()
            .unwrap();
        assert!(neighbour.success());
        set_memory_fraction(0, 1.0).unwrap();
        large(device).unwrap();
    }
}
