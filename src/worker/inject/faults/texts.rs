//! Errors of a GPU where there is none: the texts alone, as libtorch 2.11 words them, raised as
//! tch raises them. What the classification makes of a text can be seen on any machine.

use ::inject::Kind;

/// Panics with the error's text, as a call of tch does that cannot return it.
pub fn raise(kind: Kind) {
    if kind == Kind::Assert {
        // A kernel prints where its assertion failed before anything else notices.
        print(
            "/pytorch/aten/src/ATen/native/cuda/ScatterGatherKernel.cu:163: operator(): block: \
             [0,0,0], thread: [5,0,0] Assertion `idx_dim >= 0 && idx_dim < index_size && \"index \
             out of bounds\"` failed.\n",
        );
    }
    let error: Result<(), Torch> = Err(Torch(text(kind)));
    if let Err(error) = error {
        panic!("called `Result::unwrap()` on an `Err` value: {error:?}");
    }
}

/// Prints as tch's error does.
#[derive(Debug)]
#[allow(dead_code)] // Read by its Debug alone.
struct Torch(String);

fn print(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// The text of each of them; the empty one of a kind that a plan for this machine cannot hold.
fn text(kind: Kind) -> String {
    if kind == Kind::Assert {
        cuda("device-side assert triggered", "cudaErrorAssert")
    } else if kind == Kind::IllegalAddress {
        let what = "an illegal memory access was encountered";
        cuda(what, "cudaErrorIllegalAddress")
    } else if kind == Kind::Misaligned {
        cuda("misaligned address", "cudaErrorMisalignedAddress")
    } else if kind == Kind::Cublas {
        CUBLAS.to_owned()
    } else if kind == Kind::Oom {
        OOM.to_owned()
    } else {
        String::new()
    }
}

const CUBLAS: &str = "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( \
    handle, opa, opb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc)`";

const OOM: &str = "CUDA out of memory. Tried to allocate 16.00 MiB. GPU 0 has a total capacity of \
    23.56 GiB of which 33.56 MiB is free. Including non-PyTorch memory, this process has 23.52 GiB \
    memory in use. Of the allocated memory 21.13 GiB is allocated by PyTorch, and 1.41 GiB is \
    reserved by PyTorch but unallocated.";

fn cuda(what: &str, name: &str) -> String {
    format!(
        "CUDA error: {what}\nSearch for `{name}' in https://docs.nvidia.com/cuda/cuda-runtime-api/\
         group__CUDART__TYPES.html for more information.\nCUDA kernel errors might be \
         asynchronously reported at some other API call, so the stacktrace below might be \
         incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with \
         `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use fault::cuda::{out_of_memory, sticky};

    #[test]
    fn the_texts_are_what_they_stand_for() {
        for kind in [Kind::Assert, Kind::IllegalAddress, Kind::Misaligned] {
            assert!(sticky(&text(kind)), "{kind}");
        }
        assert!(out_of_memory(&text(Kind::Oom)));
        assert!(!sticky(&text(Kind::Cublas)) && !out_of_memory(&text(Kind::Cublas)));
    }
}
