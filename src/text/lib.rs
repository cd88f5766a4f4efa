//! Text classification without libtorch: task kind `text-classification` fine-tunes a Hugging Face encoder on labelled text.
//!
//! Everything that can be wrong is found on the CPU, before a device is touched: `prepare` reads
//! the data, splits it, opens every checkpoint and encodes every row. Training then only moves
//! checked numbers.

pub mod checkpoint;
pub mod data;
pub mod embedding;
pub mod export;
pub mod floor;
pub mod head;
pub mod hub;
mod knobs;
mod leakage;
mod made_up;
pub mod parts;
#[cfg(test)]
mod prediction_tests;
pub mod prepare;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]
pub mod testing;
pub mod tokenizer;
pub mod tokens;

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use checkpoint::Checkpoint;
use config::kinds::text_classification;
use config::{Prepared, Problems, StudySpec, TaskKind};
use device::Device;
use memory::Floor;
use search::space::{Params, Value};
use task::{ExportedModel, ModelParts, Preparation, ReadRows, TrainedModel, TrainingRows};
use training::division;

/// The kind.
pub struct TextClassification;

impl Preparation for TextClassification {
    fn kind(&self) -> &'static TaskKind {
        &text_classification::KIND
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

    fn training_rows(&self, spec: &StudySpec) -> Result<Option<TrainingRows>, Problems> {
        let (data, split) = prepare::load(spec)?;
        Ok(Some(division::training_rows(spec, &data.samples, &split)))
    }

    fn parts(&self, spec: &StudySpec) -> ModelParts {
        let losses = spec.possible("loss.cls.type");
        let layers = parts::default_model(spec).map_or(0, |model| model.config.num_hidden_layers);
        ModelParts {
            parts: parts::names(layers),
            losses: (losses.iter().filter_map(Value::as_str))
                .map(str::to_owned)
                .collect(),
        }
    }

    fn read_all(
        &self,
        spec: &StudySpec,
        // Of the library that makes tokens, which its process is told by the environment.
        _threads: usize,
        at: &dyn Fn(&str),
    ) -> anyhow::Result<ReadRows> {
        parts::read_all(spec, at)
    }

    fn make_up(&self, spec: &mut StudySpec, dir: &Path) -> anyhow::Result<()> {
        let columns = data::Columns::of(&spec.fixed);
        // Texts of one word are there more than once.
        let allowed = Value::from("allow");
        spec.fixed.insert("data.duplicates".to_owned(), allowed);
        made_up::write(spec, dir, &columns)
    }

    fn export(
        &self,
        spec: &StudySpec,
        model: &TrainedModel<'_>,
        to: (&Path, bool),
        told: &mut dyn FnMut(u64),
    ) -> anyhow::Result<ExportedModel> {
        let name = model.config.get("model.name").and_then(Value::as_str);
        let checkpoint = Checkpoint::named(name.unwrap_or_default(), &spec.models)?;
        export::same_model(&checkpoint, model)?;
        let written = export::write(&checkpoint, model, to, told)?;
        let note = match &written.transformers {
            Some(class) => format!("transformers loads it as {class}"),
            None => "transformers has no such head: AutoModel loads the encoder".to_owned(),
        };
        Ok(ExportedModel {
            labels: written.labels,
            transformers: written.transformers,
            note,
        })
    }

    fn floor(&self, spec: &StudySpec, device: Device) -> Option<Arc<Floor>> {
        floor::floor(spec, device)
    }
}
