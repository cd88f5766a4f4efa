//! Task kind `text-classification`: fine-tunes a Hugging Face encoder on labelled text.

use super::{Key, Metric, Prepared, Task, TaskKind};
use crate::config::{Problems, StudySpec};
use crate::gpu::Device;

/// The kind.
pub struct TextClassification;

impl TaskKind for TextClassification {
    fn name(&self) -> &'static str {
        "text-classification"
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
