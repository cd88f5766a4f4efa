//! Task kind `synthetic`: a known function with learning curves, no libtorch.

use super::{Key, Metric, Prepared, Task, TaskKind};
use crate::config::{Problems, StudySpec};
use crate::gpu::Device;

/// The kind.
pub struct Synthetic;

impl TaskKind for Synthetic {
    fn name(&self) -> &'static str {
        "synthetic"
    }
    fn keys(&self) -> &'static [Key] {
        &[]
    }
    fn metrics(&self) -> &'static [Metric] {
        &[]
    }
    fn prepare(&self, _spec: &StudySpec) -> Result<Prepared, Problems> {
        Ok(Prepared::default())
    }
    fn open(&self, _spec: &StudySpec, _device: Device) -> anyhow::Result<Box<dyn Task>> {
        anyhow::bail!("not yet")
    }
}
