//! The Rust side of `shim.cpp`.

use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tch::Tensor;

unsafe extern "C" {
    fn tune_on_terminate(handler: extern "C" fn(*const c_char));
    fn tune_compute_on_gpus(message: *mut c_char, capacity: usize) -> c_int;
    fn tune_fallback_ops(
        names: *const *const c_char,
        count: usize,
        apply: c_int,
        message: *mut c_char,
        capacity: usize,
    ) -> c_int;
    fn tune_trace_operations(path: *const c_char, message: *mut c_char, capacity: usize) -> c_int;
    fn tune_empty_cache(message: *mut c_char, capacity: usize) -> c_int;
    fn tune_memory_stats(
        device: c_int,
        out: *mut i64,
        message: *mut c_char,
        capacity: usize,
    ) -> c_int;
    fn tune_reset_memory_stats(device: c_int, message: *mut c_char, capacity: usize) -> c_int;
    fn tune_memory_info(
        device: c_int,
        out: *mut u64,
        message: *mut c_char,
        capacity: usize,
    ) -> c_int;
    fn tune_set_memory_fraction(
        device: c_int,
        fraction: f64,
        message: *mut c_char,
        capacity: usize,
    ) -> c_int;
    fn tune_seed(seed: u64, message: *mut c_char, capacity: usize) -> c_int;
    fn tune_autocast(cuda: c_int, enabled: c_int, message: *mut c_char, capacity: usize) -> c_int;
    fn tune_adamw_step(
        params: *const *mut torch_tensor,
        means: *const *mut torch_tensor,
        squares: *const *mut torch_tensor,
        count: usize,
        step: *mut torch_tensor,
        sizes: *const usize,
        lrs: *const f64,
        decays: *const f64,
        groups: usize,
        beta1: f64,
        beta2: f64,
        eps: f64,
        max_norm: f64,
        message: *mut c_char,
        capacity: usize,
    ) -> c_int;
}

/// An `at::Tensor`.
#[allow(non_camel_case_types)]
pub(super) type torch_tensor = std::ffi::c_void;

/// An exception that libtorch threw.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ShimError {
    /// The accelerator's error code where the exception carries one (a CUDA error: > 0).
    pub code: Option<i32>,
    /// The accelerator's memory was exhausted.
    pub out_of_memory: bool,
    /// The exception's text.
    pub message: String,
}

/// Seeds the default generators of the CPU and of every accelerator that is loaded. Reports what
/// tch's `manual_seed` aborts at.
///
/// # Errors
/// The exception, where a device's context is broken.
pub fn seed(seed: u64) -> anyhow::Result<()> {
    // SAFETY: the message buffer is as long as it is said to be.
    call(|message, capacity| unsafe { tune_seed(seed, message, capacity) })?;
    Ok(())
}

/// Settles how libtorch computes on GPUs in this process: each run alike, and without kernels that are
/// planned anew for each shape of a batch. Makes no context.
///
/// # Errors
/// libtorch throws.
pub fn compute_on_gpus() -> anyhow::Result<()> {
    // SAFETY: the message buffer is as long as it is said to be.
    call(|message, capacity| unsafe { tune_compute_on_gpus(message, capacity) })?;
    Ok(())
}

/// Has operations such as `aten::mm` or `aten::add.Tensor` computed on the CPU wherever their tensors are on a GPU, for the
/// rest of the process; their gradients are as they were. Without `apply` their names are looked at only.
///
/// # Errors
/// There is no such operation, or it cannot be computed elsewhere.
pub fn fallback_ops(names: &[String], apply: bool) -> anyhow::Result<()> {
    let names: Result<Vec<CString>, _> = names
        .iter()
        .map(|name| CString::new(name.as_str()))
        .collect();
    let names = names?;
    let pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    // SAFETY: as many C strings as are said, which outlive the call; the message buffer is as long as it is said to be.
    call(|message, capacity| unsafe {
        let (names, count) = (pointers.as_ptr(), pointers.len());
        tune_fallback_ops(names, count, c_int::from(apply), message, capacity)
    })?;
    Ok(())
}

/// Has every operation of this process noted in a file before it is begun, over the one before.
///
/// # Errors
/// The file cannot be written.
pub fn trace_operations(file: &Path) -> anyhow::Result<()> {
    let path = CString::new(file.as_os_str().as_bytes())?;
    // SAFETY: a C string that outlives the call; the message buffer is as long as it is said to be.
    call(|message, capacity| unsafe { tune_trace_operations(path.as_ptr(), message, capacity) })?;
    Ok(())
}

/// Gives cached device memory back to the driver; nothing where no accelerator is loaded.
///
/// # Errors
/// The exception, where a device's context is broken.
pub fn empty_cache() -> anyhow::Result<()> {
    // SAFETY: the message buffer is as long as it is said to be.
    call(|message, capacity| unsafe { tune_empty_cache(message, capacity) })?;
    Ok(())
}

/// The allocator's statistics of the GPU with this index.
///
/// # Errors
/// libtorch's CUDA part is not loaded, or the device has no context yet.
pub fn allocator_stats(index: usize) -> anyhow::Result<worker::AllocatorStats> {
    let mut out = [0i64; 8];
    let device = c_int::try_from(index)?;
    // SAFETY: the shim writes eight numbers; the message buffer is as long as it is said to be.
    call(|message, capacity| unsafe {
        tune_memory_stats(device, out.as_mut_ptr(), message, capacity)
    })?;
    let [
        allocated,
        allocated_peak,
        reserved,
        reserved_peak,
        _split,
        inactive_split_peak,
        retries,
        ooms,
    ] = out.map(|n| u64::try_from(n).unwrap_or(0));
    Ok(worker::AllocatorStats {
        allocated,
        allocated_peak,
        reserved,
        reserved_peak,
        inactive_split_peak,
        retries,
        ooms,
    })
}

/// Lets the peaks and counts of [`allocator_stats`] start anew.
///
/// # Errors
/// See [`allocator_stats`].
pub fn reset_allocator_stats(index: usize) -> anyhow::Result<()> {
    let device = c_int::try_from(index)?;
    // SAFETY: the message buffer is as long as it is said to be.
    call(|message, capacity| unsafe { tune_reset_memory_stats(device, message, capacity) })?;
    Ok(())
}

/// A GPU's memory in bytes: free, and in all.
///
/// # Errors
/// libtorch's CUDA part is not loaded, or the device's context is broken.
pub fn memory_info(index: usize) -> anyhow::Result<(u64, u64)> {
    let mut out = [0u64; 2];
    let device = c_int::try_from(index)?;
    // SAFETY: the shim writes two numbers; the message buffer is as long as it is said to be.
    call(|message, capacity| unsafe {
        tune_memory_info(device, out.as_mut_ptr(), message, capacity)
    })?;
    Ok((out[0], out[1]))
}

/// Limits what libtorch's allocator may take of a GPU to a part of its memory, above 0 and up to 1:
/// what goes beyond is out of memory for this process, however much is free.
///
/// # Errors
/// libtorch's CUDA part is not loaded, or the device has no context yet.
pub fn set_memory_fraction(index: usize, fraction: f64) -> anyhow::Result<()> {
    let device = c_int::try_from(index)?;
    // SAFETY: the message buffer is as long as it is said to be.
    call(|message, capacity| unsafe {
        tune_set_memory_fraction(device, fraction, message, capacity)
    })?;
    Ok(())
}

/// What is called by C++'s `std::terminate`.
static ON_TERMINATE: std::sync::OnceLock<fn(&str)> = std::sync::OnceLock::new();

/// Has `handler` called with the exception's text when C++ code ends in `std::terminate`; the
/// process aborts when it returns. The first handler stays.
pub fn on_terminate(handler: fn(&str)) {
    extern "C" fn forward(text: *const c_char) {
        // SAFETY: the shim gives a string that ends with 0 and lives during the call.
        let text = unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy();
        if let Some(handler) = ON_TERMINATE.get() {
            handler(&text);
        }
    }
    let _ = ON_TERMINATE.set(handler);
    // SAFETY: `forward` is a function and stays one.
    unsafe { tune_on_terminate(forward) }
}

/// While it lives, this thread's operations on a device compute in 16-bit brain floats where
/// autocast takes that for safe. What it cast of the weights is forgotten at its end.
#[derive(Debug)]
pub struct Autocast {
    cuda: bool,
}

impl Autocast {
    /// On the CPU, or on the GPUs. Only one lives at a time.
    ///
    /// # Errors
    /// libtorch throws.
    pub fn new(device: tch::Device) -> anyhow::Result<Autocast> {
        let cuda = matches!(device, tch::Device::Cuda(_));
        autocast(cuda, true)?;
        Ok(Autocast { cuda })
    }
}

impl Drop for Autocast {
    fn drop(&mut self) {
        if let Err(error) = autocast(self.cuda, false) {
            tracing::error!("autocast stays on: {error}");
        }
    }
}

fn autocast(cuda: bool, enabled: bool) -> Result<(), ShimError> {
    // SAFETY: the message buffer is as long as it is said to be.
    call(|message, capacity| unsafe {
        tune_autocast(c_int::from(cuda), c_int::from(enabled), message, capacity)
    })
}

/// What an AdamW step is made with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamW {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// Gradients are scaled down to this global L2 norm of all groups together; 0: never.
    pub max_norm: f64,
}

/// Parameters that follow one another and are moved alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ParameterGroup {
    /// How many.
    pub count: usize,
    /// Learning rate of this step.
    pub lr: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
}

/// One fused AdamW step: updates `params`, both moments and `step` (a float scalar) in place and
/// releases the gradients. The groups hold all parameters; all lists are equally long.
///
/// # Errors
/// The lists' lengths differ, a parameter has no gradient, or libtorch throws.
pub fn adamw_step(
    params: &[Tensor],
    means: &[Tensor],
    squares: &[Tensor],
    step: &Tensor,
    groups: &[ParameterGroup],
    with: AdamW,
) -> anyhow::Result<()> {
    let count = params.len();
    let sizes: Vec<usize> = groups.iter().map(|g| g.count).collect();
    let lrs: Vec<f64> = groups.iter().map(|g| g.lr).collect();
    let decays: Vec<f64> = groups.iter().map(|g| g.weight_decay).collect();
    let grouped: usize = sizes.iter().sum();
    anyhow::ensure!(
        means.len() == count && squares.len() == count && grouped == count,
        "{count} parameters, {} and {} moments, {grouped} in groups",
        means.len(),
        squares.len()
    );
    let (params, means, squares) = (pointers(params), pointers(means), pointers(squares));
    // SAFETY: the pointers are those of live tensors, `count` in each list; those of groups are as
    // many as said, and hold `count` together; the message buffer is as long as it is said to be.
    call(|message, capacity| unsafe {
        tune_adamw_step(
            params.as_ptr(),
            means.as_ptr(),
            squares.as_ptr(),
            count,
            step.as_ptr() as *mut torch_tensor,
            sizes.as_ptr(),
            lrs.as_ptr(),
            decays.as_ptr(),
            sizes.len(),
            with.beta1,
            with.beta2,
            with.eps,
            with.max_norm,
            message,
            capacity,
        )
    })?;
    Ok(())
}

fn pointers(tensors: &[Tensor]) -> Vec<*mut torch_tensor> {
    tensors
        .iter()
        .map(|t| t.as_ptr() as *mut torch_tensor)
        .collect()
}

/// Calls a function of the shim with a buffer for its message.
pub(super) fn call(function: impl FnOnce(*mut c_char, usize) -> c_int) -> Result<(), ShimError> {
    let mut buffer = [0u8; 4096];
    let code = function(buffer.as_mut_ptr().cast(), buffer.len());
    if code == 0 {
        return Ok(());
    }
    let end = buffer.iter().position(|b| *b == 0).unwrap_or(buffer.len());
    Err(ShimError {
        code: (code > 0).then_some(code),
        out_of_memory: code == -2,
        message: String::from_utf8_lossy(&buffer[..end]).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    #[test]
    fn equal_seeds_draw_equal_numbers() {
        let _alone = crate::gpu::GENERATOR.lock();
        let draw = || {
            seed(7).unwrap();
            Tensor::rand([4], (Kind::Float, Device::Cpu))
        };
        assert!(draw().equal(&draw()));
    }

    /// A step of one parameter.
    fn step_alone(p: &Tensor, m: &Tensor, v: &Tensor, step: &Tensor) -> anyhow::Result<()> {
        let one = std::slice::from_ref;
        let group = ParameterGroup {
            count: 1,
            lr: 0.1,
            weight_decay: 0.5,
        };
        let with = AdamW {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            max_norm: 1.0,
        };
        adamw_step(one(p), one(m), one(v), step, &[group], with)
    }

    #[test]
    fn products_are_in_sixteen_bits_while_autocast_lives() {
        let x = Tensor::ones([2, 2], (Kind::Float, Device::Cpu));
        {
            let _autocast = Autocast::new(Device::Cpu).unwrap();
            assert_eq!(x.matmul(&x).kind(), Kind::BFloat16);
        }
        assert_eq!(x.matmul(&x).kind(), Kind::Float);
    }

    #[test]
    fn a_step_follows_adamw_by_hand() {
        let one = |x: f32| Tensor::from_slice(&[x]);
        let p = one(2.0).set_requires_grad(true);
        (&p * 3.0).sum(Kind::Float).backward();
        let (m, v, step) = (one(0.0), one(0.0), Tensor::from(0f32));
        step_alone(&p, &m, &v, &step).unwrap();
        // Decay: 2 - 0.1 * 0.5 * 2 = 1.9; the first step of Adam moves by the learning rate.
        assert!((p.double_value(&[0]) - 1.8).abs() < 1e-5);
        // The gradient 3 was clipped to 1.
        assert!((m.double_value(&[0]) - 0.1).abs() < 1e-5);
        assert!(!p.grad().defined());
        assert_eq!(step.double_value(&[]), 1.0);
    }

    /// The allocator of CUDA's part of libtorch can be asked without any GPU; that this very function
    /// of it answers shows that it is found at its place.
    #[test]
    fn the_memory_fraction_reaches_the_allocators_own_function() {
        let library = c"libc10_cuda.so";
        // SAFETY: the library's constructors are made to run at load time on any thread.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        assert!(!handle.is_null(), "it comes with libtorch");
        let error = set_memory_fraction(0, 0.5).unwrap_err().to_string();
        assert!(error.starts_with("Allocator not initialized"), "{error}");
        let error = allocator_stats(0).unwrap_err().to_string();
        assert!(error.contains("not loaded"), "{error}");
    }

    #[test]
    fn what_libtorch_throws_comes_back_as_an_error() {
        let p = Tensor::from_slice(&[1f32]);
        let error = step_alone(&p, &p, &p, &Tensor::from(0f32)).unwrap_err();
        assert!(error.to_string().contains("no gradient"), "{error}");
    }
}
