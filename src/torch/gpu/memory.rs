//! A GPU's memory, as libtorch's allocator has it.

use device::Device;

use super::tch_device;

/// Makes the device's context, and takes the first memory of it.
///
/// # Errors
/// What libtorch says: with expandable segments this fails where the driver cannot map memory.
pub fn first_allocation(device: Device) -> anyhow::Result<()> {
    let kind = (tch::Kind::Float, tch_device(device));
    let tensor = tch::Tensor::f_zeros([1 << 20], kind)?;
    anyhow::ensure!(tensor.f_double_value(&[0])? == 0.0, "zero came out wrong");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// 512 MiB of the GPU.
    fn large(device: Device) -> anyhow::Result<()> {
        drop(tch::Tensor::f_zeros(
            [128 * (1 << 20)],
            (tch::Kind::Float, tch_device(device)),
        )?);
        crate::gpu::empty_cache()
    }

    #[test]
    #[ignore = "needs a GPU; tests/gpu.sh runs it"]
    fn a_neighbour_without_a_limit_allocates() {
        crate::gpu::cuda::load(Device::Cuda(0)).unwrap();
        large(Device::Cuda(0)).unwrap();
    }

    #[test]
    #[ignore = "needs a GPU; tests/gpu.sh runs it"]
    fn a_grant_is_the_offenders_limit() {
        let device = Device::Cuda(0);
        crate::gpu::cuda::load(device).unwrap();
        first_allocation(device).unwrap();
        let (_, all) = crate::gpu::memory_info(0).unwrap();
        crate::gpu::set_memory_fraction(0, 256.0 * MIB as f64 / all as f64).unwrap();
        let error = large(device).unwrap_err().to_string();
        assert!(fault::cuda::out_of_memory(&error), "{error}");
        let (free, _) = crate::gpu::memory_info(0).unwrap();
        assert!(free > 1 << 30, "the GPU has room");
        println!("refused after 256 MiB with {} MiB free", free / MIB);
        let neighbour = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["a_neighbour_without_a_limit_allocates", "--ignored"])
            .status()
            .unwrap();
        assert!(neighbour.success());
        crate::gpu::set_memory_fraction(0, 1.0).unwrap();
        large(device).unwrap();
    }
}
