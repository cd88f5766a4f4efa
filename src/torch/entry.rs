//! The one way into this library: a request in JSON, an exit code, and a text where it failed.

use std::process::ExitCode;
use std::slice;

use messages::{Exit, Failure};
use request::torch_request::{INTERFACE, TorchRequest};

use crate::LIBTORCH;
use crate::commands::{detect, embed, evaluate, evaluate_pages, predict};
use crate::gpu;
use crate::rungs::rung;

/// From which sources the interface of this library comes ([`INTERFACE`]).
#[unsafe(no_mangle)]
pub extern "C" fn tune_torch_interface() -> u64 {
    INTERFACE
}

/// Does what `request`, `length` bytes of JSON ([`TorchRequest`]), says, and gives the exit code. Where it
/// fails, `tell` is called with a text for people before. A worker does not return.
///
/// # Safety
/// `request` points at `length` bytes; `tell` may be called with any UTF-8 text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tune_torch(
    request: *const u8,
    length: usize,
    tell: extern "C" fn(*const u8, usize),
) -> i32 {
    // SAFETY: the caller's promise.
    let bytes = unsafe { slice::from_raw_parts(request, length) };
    match std::panic::catch_unwind(|| serve(bytes)) {
        Ok(Ok(exit)) => i32::from(exit.code()),
        Ok(Err(failure)) => {
            tell(failure.message.as_ptr(), failure.message.len());
            i32::from(failure.exit.code())
        }
        // The panic's own message has been printed.
        Err(_) => i32::from(Exit::Internal.code()),
    }
}

fn serve(request: &[u8]) -> Result<Exit, Failure> {
    let request = serde_json::from_slice(request)
        .map_err(|e| Failure::internal(format!("no request of this build: {e}")))?;
    match request {
        TorchRequest::Worker => {
            let _: ExitCode = worker::main(&LIBTORCH);
            Ok(Exit::Done)
        }
        TorchRequest::Load {
            device,
            fallback_ops,
        } => {
            load(device)?;
            fall_back(&fallback_ops, device).map(|()| Exit::Done)
        }
        TorchRequest::Predict(wanted) => predict(&wanted),
        TorchRequest::Detect(wanted) => detect(&wanted),
        TorchRequest::EvaluatePages(wanted) => evaluate_pages(&wanted),
        TorchRequest::Evaluate(wanted) => evaluate(&wanted),
        TorchRequest::Embed(wanted) => embed(&wanted),
        TorchRequest::Rung(wanted) => rung(&wanted),
    }
}

/// Makes libtorch ready for a device, before any other call of it.
pub fn load(device: device::Device) -> Result<(), Failure> {
    gpu::cuda::load(device).map_err(|e| Failure::new(Exit::Device, format!("{e:#}")))
}

/// Has operations computed on the CPU where the device is a GPU.
pub fn fall_back(operations: &[String], device: device::Device) -> Result<(), Failure> {
    let on_gpu = device != device::Device::Cpu;
    gpu::fallback_ops(operations, on_gpu)
        .map_err(|e| Failure::input(format!("device.fallback_ops: {e:#}")))
}
