//! libtorch for a worker.

use std::path::Path;

use device::Device;
use inject::Kind;
use task::{Open, Task};
use worker::{AllocatorStats, Libtorch};

use crate::train::detection::DetectionTask;
use crate::train::tabular::TabularTask;
use crate::train::text::TextTask;
use crate::{faults, gpu};
use config::kinds::{detection, tabular, text_classification};

/// libtorch.
pub struct LinkedLibtorch;

impl Libtorch for LinkedLibtorch {
    fn start(&self, terminated: fn(&str), trace: Option<&Path>) {
        // Trials use one operation at a time; the threads within one are set by the environment that
        // the supervisor gives the process.
        tch::set_num_interop_threads(1);
        gpu::on_terminate(terminated);
        if let Some(file) = trace {
            // Without it the training goes on, and nobody knows the operation.
            let _ = gpu::trace_operations(file);
        }
    }

    fn open(&self, kind: &str) -> Option<Open> {
        let opens: [(&str, Open); 3] = [
            (text_classification::KIND.name, |spec, device| {
                Ok(Box::new(TextTask::open(spec, device)?) as Box<dyn Task>)
            }),
            (tabular::KIND.name, |spec, device| {
                Ok(Box::new(TabularTask::open(spec, device)?) as Box<dyn Task>)
            }),
            (detection::KIND.name, |spec, device| {
                Ok(Box::new(DetectionTask::open(spec, device)?) as Box<dyn Task>)
            }),
        ];
        let of_kind = opens.into_iter().find(|(name, _)| *name == kind);
        of_kind.map(|(_, open)| open)
    }

    fn load(&self, device: Device, fallback_ops: &[String]) -> anyhow::Result<()> {
        gpu::cuda::load(device)?;
        gpu::fallback_ops(fallback_ops, device != Device::Cpu)
    }

    fn first_allocation(&self, device: Device) -> anyhow::Result<()> {
        gpu::memory::first_allocation(device)
    }

    fn health(&self, device: Device) -> anyhow::Result<()> {
        gpu::health(device)
    }

    fn seed(&self, seed: u64) -> anyhow::Result<()> {
        gpu::seed(seed)
    }

    fn empty_cache(&self) -> anyhow::Result<()> {
        gpu::empty_cache()
    }

    fn allocator_stats(&self, index: usize) -> anyhow::Result<AllocatorStats> {
        gpu::allocator_stats(index)
    }

    fn reset_allocator_stats(&self, index: usize) -> anyhow::Result<()> {
        gpu::reset_allocator_stats(index)
    }

    fn memory_info(&self, index: usize) -> anyhow::Result<(u64, u64)> {
        gpu::memory_info(index)
    }

    fn set_memory_fraction(&self, index: usize, fraction: f64) -> anyhow::Result<()> {
        gpu::set_memory_fraction(index, fraction)
    }

    fn make_fault(&self, kind: Kind, device: Device) -> bool {
        faults::make(kind, device)
    }

    fn take_all_memory(&self) {
        faults::take_all_memory();
    }
}
