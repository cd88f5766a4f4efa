//! Task kind `text-classification`: fine-tunes a Hugging Face encoder on labelled text.
//!
//! Everything that can be wrong is found on the CPU, before a device is touched: `prepare` reads
//! the data, splits it, opens every checkpoint and encodes every row. Training (feature `torch`)
//! then only moves checked numbers.

mod baseline;
pub mod batches;
pub mod checkpoint;
pub mod data;
pub mod destination;
pub mod embedding;
pub mod evaluation;
pub mod export;
pub mod floor;
pub mod head;
pub mod hub;
mod keys;
mod knobs;
mod leakage;
pub mod predict;
mod prepare;
pub mod schedule;
pub mod scores;
mod split;
#[cfg(test)]
mod testing;
pub mod texts;
pub mod tokenizer;
pub mod tokens;
#[cfg(feature = "torch")]
pub mod train;

pub use split::{Part, Split, split};

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::{Key, Metric, Prepared, Task, TaskKind, greatest};
use crate::config::{Problems, StudySpec};
use crate::gpu::Device;
use crate::memory::Floor;
use crate::space::{Params, Value};
use checkpoint::Checkpoint;

/// The kind.
pub struct TextClassification;

impl TaskKind for TextClassification {
    fn name(&self) -> &'static str {
        "text-classification"
    }

    fn keys(&self) -> &'static [Key<'static>] {
        keys::KEYS
    }

    fn metrics(&self) -> &'static [Metric] {
        &keys::METRICS
    }

    fn presets(&self) -> &'static [(&'static str, &'static str)] {
        &[("supervisor.checkpoint", "true")]
    }

    fn keeps_checkpoints(&self) -> bool {
        true
    }

    fn keeps_weights(&self) -> bool {
        true
    }

    fn halves_batches(&self) -> bool {
        true
    }

    /// With folds, what is reported are folds.
    fn last_epoch(&self, spec: &StudySpec) -> Option<u64> {
        let folds = greatest(spec, "data.folds").filter(|folds| *folds > 1);
        folds.or_else(|| greatest(spec, "train.epochs"))
    }

    fn prepare(&self, spec: &StudySpec) -> Result<Prepared, Problems> {
        prepare::prepare(spec)
    }

    fn unchanged(
        &self,
        spec: &StudySpec,
        identity: &Map<String, Json>,
        config: &Params,
    ) -> Result<(), Problems> {
        let name = config.get("model.name").and_then(Value::as_str);
        let checkpoint = Checkpoint::named(name.unwrap_or_default(), &spec.models)?;
        export::unchanged(spec, identity, &checkpoint)
    }

    fn floor(&self, spec: &StudySpec, device: Device) -> Option<Arc<dyn Floor>> {
        floor::floor(spec, device)
    }

    #[cfg(feature = "torch")]
    fn open(&self, spec: &StudySpec, device: Device) -> anyhow::Result<Box<dyn Task>> {
        Ok(Box::new(train::TextTask::open(spec, device)?))
    }

    #[cfg(not(feature = "torch"))]
    fn open(&self, _spec: &StudySpec, _device: Device) -> anyhow::Result<Box<dyn Task>> {
        anyhow::bail!("this `tune` was built without libtorch (feature `torch`): it cannot train")
    }
}

/// Bytes in hexadecimal.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
