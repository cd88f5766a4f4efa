//! Bringing libtorch's CUDA part alive. This library is linked to the CPU part only; the rest
//! is loaded when a GPU is used, so that one build runs everywhere.

use std::ffi::CStr;

use device::Device;

const LIBRARY: &CStr = c"libtorch_cuda.so";

/// Loads libtorch's CUDA library for a CUDA device; must come before any other libtorch call of
/// the process, which would note for good that there is no CUDA. Settles how it computes. Makes no
/// CUDA context.
///
/// # Errors
/// The library or one that it needs is missing; the text names it.
pub fn load(device: Device) -> anyhow::Result<()> {
    match device {
        Device::Cpu => Ok(()),
        Device::Cuda(_) => {
            open(LIBRARY)?;
            super::shim::compute_on_gpus()
        }
    }
}

fn open(library: &CStr) -> anyhow::Result<()> {
    // SAFETY: `library` is a C string; libtorch's constructors, which run here, are made to run
    // at load time on any thread. The handle is never closed.
    let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if !handle.is_null() {
        return Ok(());
    }
    // SAFETY: called right after the failed `dlopen` on the same thread.
    let message = unsafe { libc::dlerror() };
    let reason = if message.is_null() {
        "unknown reason".into()
    } else {
        // SAFETY: `dlerror` gives a C string that lives until this thread's next `dl` call.
        unsafe { CStr::from_ptr(message) }.to_string_lossy()
    };
    anyhow::bail!(
        "libtorch's CUDA library ({}) cannot be loaded: {reason}",
        library.to_string_lossy()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_missing_library() {
        let error = open(c"libno_such_thing.so.7").unwrap_err().to_string();
        assert!(
            error.contains("libno_such_thing.so.7: cannot open"),
            "{error}"
        );
    }

    #[test]
    fn the_cpu_needs_nothing() {
        load(Device::Cpu).unwrap();
    }
}
