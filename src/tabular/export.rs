//! A trained model of a table as a directory of its own.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::Value as Json;

use super::{Description, Feature};
use config::Problems;
use config::kinds::shared::THRESHOLD;
use files::bounded;
use task::{ExportedModel, TrainedModel};
pub use training::exported::{TABLE_FILE, WEIGHTS_FILE};
use training::exported::{described, problem};

/// See [`task::Preparation::export`].
pub(super) fn write(
    model: &TrainedModel<'_>,
    to: (&Path, bool),
    told: &mut dyn FnMut(u64),
) -> Result<ExportedModel> {
    let mut about: Description = serde_json::from_value(Json::Object(model.about.clone()))?;
    let post = model.about.get("post");
    about.threshold = post.and_then(|post| post.get(THRESHOLD)?.as_f64());
    let json = serde_json::to_value(&about)?;
    described((TABLE_FILE, &json), model, to, told)?;
    Ok(ExportedModel {
        labels: about.labels,
        transformers: None,
        note: format!("{TABLE_FILE} says what the weights are of"),
    })
}

/// A directory that `tune export` wrote, checked; the weights are not read.
#[derive(Debug, Clone)]
pub struct ExportedTable {
    /// Where it lies.
    pub dir: PathBuf,
    /// What it is.
    pub description: Description,
}

impl ExportedTable {
    /// Reads a directory.
    ///
    /// # Errors
    /// The problem found, with its file.
    pub fn open(dir: &Path) -> Result<ExportedTable, Problems> {
        let file = dir.join(TABLE_FILE);
        let wrong = |found: String| {
            let expected = "the description of a table's model, as `tune export` writes it";
            Problems(vec![problem(&file, None, found, expected)])
        };
        let bytes = bounded::read(&file, bounded::DESCRIPTION).map_err(|e| wrong(e.to_string()))?;
        let description: Description =
            serde_json::from_slice(&bytes).map_err(|e| wrong(e.to_string()))?;
        let (labels, scale) = (description.labels.len(), description.scale.is_some());
        if description.format != 1
            || scale != (labels == 0)
            || labels == 1
            || description.encoding.0.is_empty()
        {
            let found = format!(
                "format {}, {labels} labels, {} columns",
                description.format,
                description.encoding.0.len()
            );
            return Err(wrong(found));
        }
        Ok(ExportedTable {
            dir: dir.to_owned(),
            description,
        })
    }

    /// The columns that it reads; those of `numbers` alone.
    pub fn columns(&self, numbers: bool) -> Vec<String> {
        let features = self.description.encoding.0.iter();
        let wanted = |feature: &&Feature| !numbers || matches!(feature, Feature::Numeric { .. });
        features
            .filter(wanted)
            .map(|feature| feature.name().to_owned())
            .collect()
    }
}
