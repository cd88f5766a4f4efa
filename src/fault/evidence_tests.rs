//! What evidence comes to, case by case.

use super::*;

fn error(phase: Phase, text: &str, healthy: Option<bool>) -> Evidence {
    Evidence {
        error: Some(ErrorReport {
            healthy,
            ..ErrorReport::new(phase, text)
        }),
        phase: Some(phase),
        ..Evidence::default()
    }
}

fn died(signal: i32) -> Evidence {
    Evidence {
        death: Some(Death::Signaled(signal)),
        phase: Some(Phase::Training),
        ..Evidence::default()
    }
}

#[test]
fn signals_from_outside_and_crashes_are_told_apart() {
    assert_eq!(classify(&died(9)).kind, FaultKind::Killed);
    for signal in [15, 1, 2, 3] {
        let kind = classify(&died(signal)).kind;
        assert_eq!(kind, FaultKind::Interrupted, "{signal}");
    }
    for signal in [4, 6, 7, 8, 10, 11, 14, 25] {
        assert_eq!(classify(&died(signal)).kind, FaultKind::Crash, "{signal}");
    }
    let exited = Evidence {
        death: Some(Death::Exited(3)),
        ..Evidence::default()
    };
    assert_eq!(classify(&exited).kind, FaultKind::Crash);
}

#[test]
fn the_kernels_oom_counter_tells_an_oom_kill_from_any_other() {
    let evidence = Evidence {
        oom_kills: 1,
        ..died(9)
    };
    assert_eq!(classify(&evidence).kind, FaultKind::HostOom);
    let evidence = Evidence {
        oom_kills: 1,
        ..died(11)
    };
    assert_eq!(classify(&evidence).kind, FaultKind::Crash);
}

#[test]
fn what_tune_did_itself_wins_over_all_but_a_lost_gpu() {
    let asked = Evidence {
        asked: true,
        ..died(15)
    };
    assert_eq!(classify(&asked).kind, FaultKind::Interrupted);
    let hung = Evidence {
        silent: Some(Duration::from_secs(600)),
        ..died(9)
    };
    assert_eq!(classify(&hung).kind, FaultKind::Hang);
    let gone = Evidence {
        xids: vec![79],
        silent: Some(Duration::from_secs(600)),
        ..died(9)
    };
    assert_eq!(classify(&gone).kind, FaultKind::DeviceLost);
    let stopped = Evidence {
        stopped: true,
        silent: Some(Duration::from_secs(600)),
        ..died(9)
    };
    assert_eq!(classify(&stopped).kind, FaultKind::Interrupted);
}

#[test]
fn a_cuda_error_before_the_first_step_is_not_the_trials_fault() {
    let assert = "CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in";
    assert_eq!(
        classify(&error(Phase::Seeding, assert, None)).kind,
        FaultKind::Poisoned
    );
    assert_eq!(
        classify(&error(Phase::Training, assert, None)).kind,
        FaultKind::CudaSticky
    );
    assert_eq!(
        classify(&error(
            Phase::Training,
            "CUDA error: invalid argument",
            Some(true)
        ))
        .kind,
        FaultKind::CudaTransient
    );
    assert_eq!(
        classify(&error(
            Phase::Training,
            "cuDNN error: CUDNN_STATUS_X",
            Some(false)
        ))
        .kind,
        FaultKind::CudaSticky
    );
}

#[test]
fn the_detail_of_a_panic_is_one_line_that_names_the_error() {
    let text = "panicked: called `Result::unwrap()` on an `Err` value: Torch(\"CUDA error: \
                device-side assert triggered\\nSearch for `cudaErrorAssert' in https\\n\")\nat a.rs:1:1";
    let sticky = classify(&error(Phase::Training, text, None));
    assert_eq!(
        sticky.detail,
        "CUDA error: device-side assert triggered (cudaErrorAssert, 710)"
    );
    assert!(
        sticky
            .text
            .starts_with("CUDA error: device-side assert triggered\nSearch")
    );
    let shapes = "panicked: called `Result::unwrap()` on an `Err` value: Torch(\"mat1 and mat2 \
                  shapes cannot be multiplied (2x3 and 4x5)\\nException raised from f at x.cpp\")";
    let shapes = classify(&error(Phase::Training, shapes, Some(true)));
    assert_eq!(
        shapes.detail,
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"
    );
}

#[test]
fn memory_that_is_gone_before_the_training_is_not_the_trials_fault() {
    let text = "CUDA out of memory. Tried to allocate 16.00 MiB";
    let kind = |phase| classify(&error(phase, text, None)).kind;
    assert_eq!(kind(Phase::Seeding), FaultKind::Poisoned);
    assert_eq!(kind(Phase::Training), FaultKind::Oom);
}

#[test]
fn an_error_of_the_tasks_own_is_not_blamed_on_the_device() {
    let evidence = error(Phase::Training, "index out of range", Some(true));
    assert_eq!(classify(&evidence).kind, FaultKind::TaskError);
    let opening = error(Phase::Opening, "no such file", None);
    assert_eq!(classify(&opening).kind, FaultKind::OpenFailed);
}

#[test]
fn a_worker_that_finds_no_device_has_lost_it_in_whatever_words() {
    let kind = |text| classify(&error(Phase::Opening, text, None)).kind;
    for text in [
        "No CUDA GPUs are available",
        "CUDA error: no CUDA-capable device is detected",
        "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing \
         env variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to \
         be zero.",
        "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling \
         NumCudaDevices() that might have already set an error? Error 803: system has unsupported \
         display driver / cuda driver combination",
    ] {
        assert_eq!(kind(text), FaultKind::DeviceLost, "{text}");
    }
    // The same number in a context that was there: a fresh process may do better.
    assert_eq!(kind("CUDA error: unknown error"), FaultKind::Poisoned);
}

#[test]
fn a_printed_sticky_error_explains_an_abort() {
    let evidence = Evidence {
        tail: "terminate called\n  what(): CUDA error: an illegal memory access was encountered\n"
            .into(),
        ..died(6)
    };
    let fault = classify(&evidence);
    assert_eq!(fault.kind, FaultKind::CudaSticky);
    assert!(fault.detail.contains("illegal memory access"));
}

const PRINTED: &str = "/p/Loss.cu:245: f: block: [0,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed.\n";

#[test]
fn the_place_of_an_assertion_comes_from_what_was_printed() {
    let evidence = Evidence {
        tail: format!("epoch 1\n{PRINTED}{PRINTED}"),
        ..error(
            Phase::Training,
            "CUDA error: device-side assert triggered",
            None,
        )
    };
    let fault = classify(&evidence);
    assert_eq!((fault.kind, fault.code), (FaultKind::CudaSticky, Some(710)));
    assert_eq!(fault.place.unwrap().line, Some(245));
}

#[test]
fn what_was_printed_never_overrides_a_reported_error() {
    let evidence = Evidence {
        tail: "Killed\nCUDA out of memory. Tried to allocate 1.00 GiB\nSegmentation fault\n".into(),
        ..error(Phase::Training, "index out of range", Some(true))
    };
    assert_eq!(classify(&evidence).kind, FaultKind::TaskError);
    let evidence = Evidence {
        tail: PRINTED.into(),
        ..error(Phase::Training, "index out of range", Some(true))
    };
    let fault = classify(&evidence);
    assert_eq!((fault.kind, fault.place), (FaultKind::TaskError, None));
}

#[test]
fn a_kill_from_outside_is_explained_by_a_sticky_error_only() {
    let killed = |tail: &str| Evidence {
        tail: tail.into(),
        ..died(9)
    };
    let oom = killed("CUDA out of memory. Tried to allocate 1.00 GiB\n");
    assert_eq!(classify(&oom).kind, FaultKind::Killed);
    assert_eq!(classify(&killed(PRINTED)).kind, FaultKind::CudaSticky);
}

#[test]
fn the_last_words_explain_a_crash() {
    let aborted = |tail: String| Evidence { tail, ..died(6) };
    let words = "terminate called after throwing an instance of 'c10::OutOfMemoryError'\n  what():  CUDA out of memory. Tried to allocate 1.00 GiB\n";
    assert_eq!(classify(&aborted(words.into())).kind, FaultKind::Oom);
    let long_ago = format!("{words}{}", "step\n".repeat(100));
    assert_eq!(classify(&aborted(long_ago)).kind, FaultKind::Crash);
    assert_eq!(
        classify(&aborted("memory allocation of 8 bytes failed\n".into())).kind,
        FaultKind::HostOom
    );
}

#[test]
fn the_health_check_decides_about_every_status_of_a_library() {
    let kind = |text: &str, healthy| classify(&error(Phase::Training, text, healthy)).kind;
    for status in [
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
        "cusolver error: CUSOLVER_STATUS_NOT_INITIALIZED, when calling `cusolverDnCreate(handle)`",
    ] {
        assert_eq!(kind(status, Some(false)), FaultKind::CudaSticky, "{status}");
        assert_eq!(kind(status, None), FaultKind::CudaUnclear, "{status}");
        assert_eq!(
            kind(status, Some(true)),
            FaultKind::CudaTransient,
            "{status}"
        );
    }
    for status in [
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    ] {
        assert_eq!(kind(status, Some(false)), FaultKind::CudaSticky, "{status}");
        assert_eq!(kind(status, None), FaultKind::Oom, "{status}");
        assert_eq!(kind(status, Some(true)), FaultKind::Oom, "{status}");
    }
    let sure =
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB";
    assert_eq!(kind(sure, Some(false)), FaultKind::Oom, "a full device");
}

#[test]
fn host_memory_that_cannot_be_pinned_is_no_gpu_memory() {
    let kind = |text: &str| classify(&error(Phase::Training, text, Some(true))).kind;
    let said = "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/ for more information.\n";
    let stack = |frame: &str| {
        format!(
            "{said}\nException raised from c10_cuda_check_implementation at CUDAException.cpp:43 (most recent call first):\nframe #0: c10::Error::Error\nframe #2: {frame}"
        )
    };
    assert_eq!(kind(said), FaultKind::Oom);
    assert_eq!(kind(&stack("at::native::copy_kernel_cuda")), FaultKind::Oom);
    let pinned = stack("at::cuda::CUDACachingHostAllocatorImpl::allocate_host_memory");
    assert_eq!(kind(&pinned), FaultKind::HostOom);
    let python = format!(
        "Traceback (most recent call last):\n  File \"torch/utils/data/_utils/pin_memory.py\", line 98, in pin_memory\n    return data.pin_memory(device)\ntorch.AcceleratorError: {said}"
    );
    let found = super::super::diagnose(&python).unwrap();
    assert_eq!(
        (found.kind, found.context),
        (FaultKind::HostOom, super::super::table::Survival::Alive)
    );
    let of_the_gpu = python.replace(
        "torch.AcceleratorError: CUDA error: out of memory",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    );
    let of_the_gpu =
        super::super::diagnose(&of_the_gpu.replace("cudaErrorMemoryAllocation", "x")).unwrap();
    assert_eq!(of_the_gpu.kind, FaultKind::Oom);
}

#[test]
fn the_health_check_decides_about_an_ambiguous_error() {
    let text = "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(...)`";
    let kind = |healthy| classify(&error(Phase::Training, text, healthy)).kind;
    assert_eq!(kind(Some(true)), FaultKind::CudaTransient);
    assert_eq!(kind(Some(false)), FaultKind::CudaSticky);
    assert_eq!(kind(None), FaultKind::CudaUnclear);
}

#[test]
fn the_drivers_word_that_the_gpu_is_gone_wins_over_the_workers() {
    let evidence = Evidence {
        xids: vec![43, 79],
        ..error(Phase::Training, "CUDA error: unknown error", None)
    };
    assert_eq!(classify(&evidence).kind, FaultKind::DeviceLost);
}

#[test]
fn an_xid_of_a_lost_context_explains_a_crash_and_no_kill() {
    let with = |xids: &[u32], evidence: Evidence| {
        let xids = xids.to_vec();
        classify(&Evidence { xids, ..evidence })
    };
    let fault = with(&[94], died(6));
    assert_eq!(fault.kind, FaultKind::CudaSticky);
    assert!(fault.detail.contains("Xid 94: contained ECC error"));
    assert_eq!(with(&[94], died(9)).kind, FaultKind::Killed);
    assert_eq!(with(&[43, 63], died(6)).kind, FaultKind::Crash);
}

#[test]
fn a_program_that_fails_while_its_gpu_is_lost_is_not_to_blame() {
    let ended = |death, xids: &[u32]| {
        let mut evidence = error(Phase::Training, "sh ended with exit status 1", None);
        if let Some(error) = &mut evidence.error {
            error.program = Some(crate::ProgramEnd {
                death,
                stopped: false,
                oom_kills: 0,
                output: String::new(),
            });
        }
        evidence.xids = xids.to_vec();
        classify(&evidence)
    };
    let fault = ended(Death::Exited(1), &[119]);
    assert_eq!(fault.kind, FaultKind::DeviceLost);
    assert!(fault.detail.contains("Xid 119"), "{}", fault.detail);
    assert_eq!(ended(Death::Exited(1), &[94]).kind, FaultKind::TaskError);
    let crash = ended(Death::Signaled(11), &[94]);
    assert_eq!(crash.kind, FaultKind::CudaSticky);
}

#[test]
fn descriptors_that_ran_out_are_no_ordinary_io_error() {
    let kind = |text| classify(&error(Phase::Training, text, Some(true))).kind;
    assert_eq!(
        kind("x.csv: Too many open files (os error 24)"),
        FaultKind::Descriptors
    );
    assert_eq!(
        kind("x.csv: No space left on device (os error 28)"),
        FaultKind::TaskError
    );
}
