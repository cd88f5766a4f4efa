//! CUDA runtime errors: which of them leave the context unusable.
//!
//! Source: the CUDA 13.0 runtime header's description of `cudaError_t`.

/// What an error means for the process that got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// Sticky: every later call fails; only a new process helps.
    Lost,
    /// The context goes on.
    Alive,
    /// The environment is at fault (driver, no device); a restart rarely helps.
    Environment,
}

/// One CUDA runtime error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CudaError {
    /// `cudaError_t`.
    pub code: u32,
    /// The enumerator, as libtorch prints it between backtick and quote.
    pub name: &'static str,
    /// The text of `cudaGetErrorString`.
    pub text: &'static str,
    /// What it does to the context.
    pub context: Context,
}

const fn error(code: u32, name: &'static str, text: &'static str, context: Context) -> CudaError {
    CudaError {
        code,
        name,
        text,
        context,
    }
}

/// Every error that a training has been seen or is expected to meet.
pub const ERRORS: &[CudaError] = &[
    error(
        1,
        "cudaErrorInvalidValue",
        "invalid argument",
        Context::Alive,
    ),
    error(
        2,
        "cudaErrorMemoryAllocation",
        "out of memory",
        Context::Alive,
    ),
    error(
        3,
        "cudaErrorInitializationError",
        "initialization error",
        Context::Environment,
    ),
    error(
        4,
        "cudaErrorCudartUnloading",
        "driver shutting down",
        Context::Lost,
    ),
    error(
        9,
        "cudaErrorInvalidConfiguration",
        "invalid configuration argument",
        Context::Alive,
    ),
    error(
        35,
        "cudaErrorInsufficientDriver",
        "CUDA driver version is insufficient for CUDA runtime version",
        Context::Environment,
    ),
    error(
        46,
        "cudaErrorDevicesUnavailable",
        "CUDA-capable device(s) is/are busy or unavailable",
        Context::Environment,
    ),
    error(
        98,
        "cudaErrorInvalidDeviceFunction",
        "invalid device function",
        Context::Alive,
    ),
    error(
        100,
        "cudaErrorNoDevice",
        "no CUDA-capable device is detected",
        Context::Environment,
    ),
    error(
        101,
        "cudaErrorInvalidDevice",
        "invalid device ordinal",
        Context::Environment,
    ),
    error(
        201,
        "cudaErrorDeviceUninitialized",
        "invalid device context",
        Context::Lost,
    ),
    error(
        209,
        "cudaErrorNoKernelImageForDevice",
        "no kernel image is available for execution on the device",
        Context::Alive,
    ),
    error(
        214,
        "cudaErrorECCUncorrectable",
        "uncorrectable ECC error encountered",
        Context::Lost,
    ),
    error(
        220,
        "cudaErrorNvlinkUncorrectable",
        "uncorrectable NVLink error detected during the execution",
        Context::Lost,
    ),
    error(
        222,
        "cudaErrorUnsupportedPtxVersion",
        "the provided PTX was compiled with an unsupported toolchain.",
        Context::Environment,
    ),
    error(
        226,
        "cudaErrorContained",
        "Invalid access of peer GPU memory over nvlink or a hardware error",
        Context::Lost,
    ),
    error(
        400,
        "cudaErrorInvalidResourceHandle",
        "invalid resource handle",
        Context::Alive,
    ),
    error(600, "cudaErrorNotReady", "device not ready", Context::Alive),
    error(
        700,
        "cudaErrorIllegalAddress",
        "an illegal memory access was encountered",
        Context::Lost,
    ),
    error(
        701,
        "cudaErrorLaunchOutOfResources",
        "too many resources requested for launch",
        Context::Alive,
    ),
    error(
        702,
        "cudaErrorLaunchTimeout",
        "the launch timed out and was terminated",
        Context::Lost,
    ),
    error(
        709,
        "cudaErrorContextIsDestroyed",
        "context is destroyed",
        Context::Lost,
    ),
    error(
        710,
        "cudaErrorAssert",
        "device-side assert triggered",
        Context::Lost,
    ),
    error(
        712,
        "cudaErrorHostMemoryAlreadyRegistered",
        "part or all of the requested memory range is already mapped",
        Context::Alive,
    ),
    error(
        713,
        "cudaErrorHostMemoryNotRegistered",
        "pointer does not correspond to a registered memory region",
        Context::Alive,
    ),
    error(
        714,
        "cudaErrorHardwareStackError",
        "hardware stack error",
        Context::Lost,
    ),
    error(
        715,
        "cudaErrorIllegalInstruction",
        "an illegal instruction was encountered",
        Context::Lost,
    ),
    error(
        716,
        "cudaErrorMisalignedAddress",
        "misaligned address",
        Context::Lost,
    ),
    error(
        717,
        "cudaErrorInvalidAddressSpace",
        "operation not supported on global/shared address space",
        Context::Lost,
    ),
    error(
        718,
        "cudaErrorInvalidPc",
        "invalid program counter",
        Context::Lost,
    ),
    error(
        719,
        "cudaErrorLaunchFailure",
        "unspecified launch failure",
        Context::Lost,
    ),
    error(
        721,
        "cudaErrorTensorMemoryLeak",
        "tensor memory not completely freed",
        Context::Lost,
    ),
    error(
        801,
        "cudaErrorNotSupported",
        "operation not supported",
        Context::Alive,
    ),
    error(
        802,
        "cudaErrorSystemNotReady",
        "system not yet initialized",
        Context::Environment,
    ),
    error(
        803,
        "cudaErrorSystemDriverMismatch",
        "system has unsupported display driver / cuda driver combination",
        Context::Environment,
    ),
    error(
        804,
        "cudaErrorCompatNotSupportedOnDevice",
        "forward compatibility was attempted on non supported HW",
        Context::Environment,
    ),
    error(
        806,
        "cudaErrorMpsRpcFailure",
        "MPS client failed to communicate with the MPS control daemon or server",
        Context::Lost,
    ),
    error(
        810,
        "cudaErrorMpsClientTerminated",
        "the MPS client has been terminated",
        Context::Lost,
    ),
    error(
        911,
        "cudaErrorExternalDevice",
        "an async error has occurred in external entity outside of CUDA",
        Context::Lost,
    ),
    error(999, "cudaErrorUnknown", "unknown error", Context::Lost),
];

/// Finds the CUDA error that a text of libtorch names: by the enumerator (stable between
/// versions), else by the words behind `CUDA error:` or `CUDA driver error:`.
pub fn find(text: &str) -> Option<&'static CudaError> {
    if let Some(error) = ERRORS.iter().find(|e| mentions(text, e.name)) {
        return Some(error);
    }
    let words = text
        .split_once("CUDA error: ")
        .or_else(|| text.split_once("CUDA driver error: "))?
        .1;
    ERRORS.iter().find(|e| words.starts_with(e.text))
}

/// Whether `text` has `name` as a whole word.
fn mentions(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        !text[at + name.len()..]
            .chars()
            .next()
            .is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Whether a text is an out-of-GPU-memory error in one of libtorch's or cuBLAS's forms.
pub fn out_of_memory(text: &str) -> bool {
    [
        "CUDA out of memory",
        "CUDA error: out of memory",
        "CUDA driver error: out of memory",
        "CUBLAS_STATUS_ALLOC_FAILED",
        "CUDNN_STATUS_ALLOC_FAILED",
    ]
    .iter()
    .any(|needle| text.contains(needle))
        || (text.contains("NVML_SUCCESS") && text.contains("CUDACachingAllocator"))
        || find(text).is_some_and(|e| e.code == 2)
}

/// Whether a text comes from CUDA or one of its libraries at all.
pub fn cuda_text(text: &str) -> bool {
    find(text).is_some()
        || [
            "CUDA error",
            "CUDA driver error",
            "CUBLAS_STATUS_",
            "cuDNN error",
            "CUDNN_STATUS_",
            "CUDACachingAllocator",
            "Unknown CUDA graph CaptureStatus",
            "FIND was unable to find an engine",
            "handles_.at(i)",
        ]
        .iter()
        .any(|needle| text.contains(needle))
}

/// Whether the context is certainly lost: decided from the text alone, without touching CUDA.
pub fn sticky(text: &str) -> bool {
    find(text).is_some_and(|e| e.context == Context::Lost) || text.contains("!handles_.at(i)")
}

/// PyTorch's class of the error, as in the attribute `cuda_error_type`.
pub fn python_class(text: &str) -> &'static str {
    if out_of_memory(text) {
        "OutOfMemoryError"
    } else if text.contains("CUDA error: ") {
        "AcceleratorError"
    } else {
        "RuntimeError"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSERT: &str = "CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in https://docs.nvidia.com/ for more information.\nException raised from fn at file:line";

    #[test]
    fn libtorchs_assert_is_sticky() {
        assert_eq!(find(ASSERT).unwrap().code, 710);
        assert!(sticky(ASSERT));
        assert_eq!(python_class(ASSERT), "AcceleratorError");
    }

    #[test]
    fn out_of_memory_is_not_sticky() {
        let text = "CUDA out of memory. Tried to allocate 16.00 MiB. GPU 0 has a total capacity of 23.56 GiB";
        assert!(out_of_memory(text) && !sticky(text));
        assert_eq!(python_class(text), "OutOfMemoryError");
        assert!(out_of_memory("CUDA error: out of memory"));
    }

    #[test]
    fn an_enumerator_is_found_as_a_whole_word_only() {
        assert_eq!(find("cudaErrorInvalidDeviceFunction").unwrap().code, 98);
        assert_eq!(find("`cudaErrorInvalidDevice'").unwrap().code, 101);
        assert_eq!(find("no CUDA here: out of memory"), None);
        assert!(!cuda_text("shape mismatch"));
    }
}
