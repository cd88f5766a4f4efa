//! libtorch for a worker.

use std::path::Path;

use anyhow::Result;
use device::Device;
use task::{Open, Task};
use worker::Libtorch;

use crate::train::detection::DetectionKind;
use crate::train::tabular::TabularKind;
use crate::train::text::TextKind;
use crate::train::{Kind, TorchTask};
use crate::{faults, gpu};
use config::StudySpec;
use config::kinds::{detection, tabular, text_classification};

/// libtorch.
pub static LIBTORCH: Libtorch = Libtorch {
    start,
    open,
    load: |device, fallback_ops| {
        gpu::cuda::load(device)?;
        gpu::fallback_ops(fallback_ops, device != Device::Cpu)
    },
    first_allocation: gpu::memory::first_allocation,
    health: gpu::health,
    seed: gpu::seed,
    empty_cache: gpu::empty_cache,
    allocator_stats: gpu::allocator_stats,
    reset_allocator_stats: gpu::reset_allocator_stats,
    memory_info: gpu::memory_info,
    set_memory_fraction: gpu::set_memory_fraction,
    make_fault: faults::make,
    take_all_memory: faults::take_all_memory,
};

fn start(terminated: fn(&str), trace: Option<&Path>) {
    // Trials use one operation at a time; the threads within one are set by the environment that
    // the supervisor gives the process.
    tch::set_num_interop_threads(1);
    gpu::on_terminate(terminated);
    if let Some(file) = trace {
        // Without it the training goes on, and nobody knows the operation.
        let _ = gpu::trace_operations(file);
    }
}

fn open(kind: &str) -> Option<Open> {
    let opens: [(&str, Open); 3] = [
        (text_classification::KIND.name, opened::<TextKind>),
        (tabular::KIND.name, opened::<TabularKind>),
        (detection::KIND.name, opened::<DetectionKind>),
    ];
    let of_kind = opens.into_iter().find(|(name, _)| *name == kind);
    of_kind.map(|(_, open)| open)
}

fn opened<K: Kind + 'static>(spec: &StudySpec, device: Device) -> Result<Box<dyn Task>> {
    Ok(Box::new(TorchTask::<K>::open(spec, device)?))
}
