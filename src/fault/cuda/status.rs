//! Status words of the libraries around CUDA: cuBLAS, cuDNN, cuFFT, cuSOLVER, cuSPARSE, cuRAND, NCCL,
//! NVRTC.

/// What a library's status says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The library could not get GPU memory.
    OutOfMemory,
    /// The library could not get host memory.
    HostMemory,
    /// It did not do its work; only the health check can tell whether the context is to blame.
    Ambiguous,
    /// The program passed what the library does not take; the context goes on.
    Refused,
    /// Another process of the group failed first.
    Follower,
}

const PREFIXES: [&str; 10] = [
    "CUBLAS_STATUS_",
    "CUDNN_STATUS_",
    "CUSOLVER_STATUS_",
    "CUSPARSE_STATUS_",
    "CURAND_STATUS_",
    "CUTENSOR_STATUS_",
    "CUFFT_",
    "NVRTC_ERROR_",
    "HIPBLAS_STATUS_",
    "MIOPEN_STATUS_",
];

/// Endings of a status word, the first that fits decides.
const ENDINGS: [(&str, Status); 8] = [
    ("HOST_ALLOCATION_FAILED", Status::HostMemory),
    ("ALLOCATION_FAILED", Status::OutOfMemory),
    ("ALLOC_FAILED", Status::OutOfMemory),
    ("INSUFFICIENT_RESOURCES", Status::OutOfMemory),
    ("ERROR_OUT_OF_MEMORY", Status::HostMemory),
    ("ERROR_COMPILATION", Status::Refused),
    ("ERROR_INVALID_OPTION", Status::Refused),
    ("ERROR_INVALID_INPUT", Status::Refused),
];

/// Names that NCCL gives to its errors.
const NCCL: [(&str, Status); 6] = [
    ("ncclUnhandledCudaError", Status::Ambiguous),
    ("ncclSystemError", Status::Ambiguous),
    ("ncclInternalError", Status::Ambiguous),
    ("ncclInvalidArgument", Status::Refused),
    ("ncclInvalidUsage", Status::Refused),
    ("ncclRemoteError", Status::Follower),
];

/// The first status that a line names, as a whole word: where, which, and what it says.
pub fn status(line: &str) -> Option<(usize, &str, Status)> {
    super::identifiers(line).find_map(|(at, word)| Some((at, word, meaning(word)?)))
}

fn meaning(word: &str) -> Option<Status> {
    if let Some((_, status)) = NCCL.iter().find(|(name, _)| *name == word) {
        return Some(*status);
    }
    let known = |p: &str| word.len() > p.len() && word.starts_with(p);
    if !PREFIXES.iter().any(|p| known(p)) || word.ends_with("_SUCCESS") {
        return None;
    }
    let ending = ENDINGS.iter().find(|(ending, _)| word.ends_with(ending));
    Some(ending.map_or(Status::Ambiguous, |(_, status)| *status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_told_by_its_ending() {
        let of = |line: &'static str| status(line).map(|(_, word, status)| (word, status));
        assert_eq!(
            of("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"),
            Some((
                "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
                Status::HostMemory
            ))
        );
        assert_eq!(
            of("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            Some(("CUBLAS_STATUS_ALLOC_FAILED", Status::OutOfMemory))
        );
        assert_eq!(
            of("cuFFT error: CUFFT_EXEC_FAILED"),
            Some(("CUFFT_EXEC_FAILED", Status::Ambiguous))
        );
        assert_eq!(of("expected CUBLAS_STATUS_SUCCESS"), None);
        assert_eq!(of("MY_CUBLAS_STATUS_ALLOC_FAILED_COUNT = 3"), None);
    }
}
