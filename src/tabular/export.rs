//! A trained model of a table as a directory of its own.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::Value as Json;

use super::{Description, Feature};
use config::Problems;
use config::kinds::shared::THRESHOLD;
use task::{ExportedModel, TrainedModel};
pub use training::exported::{TABLE_FILE, WEIGHTS_FILE};
use training::exported::{described, read_description};

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
    described((TABLE_FILE, &json), about.labels, model, to, told)
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
        let expected = "the description of a table's model, as `tune export` writes it";
        let misfit = |about: &Description| {
            let (labels, columns) = (about.labels.len(), about.encoding.0.len());
            let of_number = about.scale.is_some();
            let fits = of_number == (labels == 0) && labels != 1 && columns > 0;
            (about.format != 1 || !fits).then(|| {
                let format = about.format;
                format!("format {format}, {labels} labels, {columns} columns")
            })
        };
        let description = read_description(&dir.join(TABLE_FILE), expected, misfit)?;
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
