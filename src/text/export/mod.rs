//! A trial's model as a directory of its own, in Hugging Face's layout: written by `tune export`,
//! read by `tune predict` and `tune evaluate`. Nothing here needs libtorch.
//!
//! The encoder lies there as transformers writes it. `head.json` describes the head and what the
//! model reads; `tune.json` says where it comes from.

mod form;
mod settings;
mod unchanged;
mod weights;
mod write;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::checkpoint::Checkpoint;
use super::head::HeadConfig;
use config::{Problem, Problems};
use files::bounded;

pub use form::{HeadForm, Layer, form, loadable, prefix};
pub use training::exported::{HEAD_FILE, ORIGIN_FILE};
pub use unchanged::{same_model, unchanged};
pub use write::write;

/// The version of `head.json` that is written; another one is refused.
pub const FORMAT: u32 = 1;

/// What `head.json` says: everything that predictions need beside the encoder and its tokeniser.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// [`FORMAT`].
    pub format: u32,
    /// The head.
    pub head: HeadConfig,
    /// Its weights in `model.safetensors`.
    pub weights: HeadWeights,
    /// The classes, in the order of the logits.
    pub labels: Vec<String>,
    /// The columns that were trained on.
    pub columns: ReadColumns,
    /// Tokens of a row at most, special ones included.
    pub max_length: usize,
    /// Tokens that neighbouring windows of a long row share, at most `max_length`: half of a window
    /// where it has no room for so many; 0: long rows are cut.
    #[serde(default)]
    pub doc_stride: usize,
    /// What the encoder computes with: `fp32` or `bf16`.
    pub precision: String,
    /// Rows trained on, a class: what the trivial answer knows.
    pub train_rows: Vec<usize>,
    /// Of two classes, the probability from which on the second is predicted; `None`: where it is the more probable one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// transformers' class that computes the same logits; `None`: it has none.
    pub transformers: Option<String>,
}

/// The head's weights by their names in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeadWeights {
    /// Linear layers, the first one first.
    pub layers: Vec<Layer>,
    /// The learned query of the pooling `attn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}

/// Columns of the data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadColumns {
    /// The text.
    pub text: String,
    /// The second text, where pairs were trained on.
    pub text_pair: Option<String>,
    /// The class.
    pub label: String,
}

/// A directory that `tune export` wrote, checked.
#[derive(Debug, Clone)]
pub struct Exported {
    /// Encoder and tokeniser.
    pub checkpoint: Checkpoint,
    /// The rest.
    pub description: Description,
}

impl Exported {
    /// Reads a directory. The weights themselves are not read.
    ///
    /// # Errors
    /// Every problem found, with its file.
    pub fn open(dir: &Path) -> Result<Exported, Problems> {
        let file = dir.join(HEAD_FILE);
        if !file.is_file() {
            let found = match dir.is_dir() {
                true => format!("no {HEAD_FILE} in {}", dir.display()),
                false => format!("no directory {}", dir.display()),
            };
            let expected = "a directory that `tune export` has written";
            return Err(Problem::of_file(&file, found, expected).into());
        }
        let name = dir.display().to_string();
        let description = read(&file).map_err(Problems::from);
        let checkpoint = Checkpoint::open(&name, dir);
        let (description, checkpoint) = match (description, checkpoint) {
            (Ok(description), Ok(checkpoint)) => (description, checkpoint),
            (Err(mut found), Err(more)) => {
                found.0.extend(more.0);
                return Err(found);
            }
            (Err(found), Ok(_)) | (Ok(_), Err(found)) => return Err(found),
        };
        let exported = Exported {
            checkpoint,
            description,
        };
        Problems(exported.misfits(&file)).or(exported)
    }

    /// Where it lies.
    pub fn dir(&self) -> &PathBuf {
        &self.checkpoint.dir
    }

    /// What does not fit together.
    fn misfits(&self, file: &Path) -> Vec<Problem> {
        let (about, config) = (&self.description, &self.checkpoint.config);
        let classes = about.head.classes;
        let mut distinct = about.labels.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let of_two = |threshold: f64| classes == 2 && (0.0..=1.0).contains(&threshold);
        let layers = about.weights.layers.len();
        let limit = config.max_tokens().unwrap_or(usize::MAX);
        let checks = [
            (
                about.head.input == config.hidden_size,
                "head.input",
                about.head.input.to_string(),
                format!("{}, hidden_size of config.json", config.hidden_size),
            ),
            (
                classes >= 2 && about.labels.len() == classes && distinct.len() == classes,
                "labels",
                format!("{} labels", about.labels.len()),
                format!("head.classes = {classes} different ones, at least 2"),
            ),
            (
                layers > 0 && layers == about.head.layers,
                "weights.layers",
                format!("{layers} layers"),
                format!("head.layers = {}, at least 1", about.head.layers),
            ),
            (
                about.weights.query.is_some() != about.head.pooling.is_fixed(),
                "weights.query",
                format!("{:?}", about.weights.query),
                "a tensor with the pooling attn, and with it alone".to_owned(),
            ),
            (
                ["fp32", "bf16"].contains(&about.precision.as_str()),
                "precision",
                about.precision.clone(),
                "fp32 or bf16".to_owned(),
            ),
            (
                about.train_rows.len() == classes,
                "train_rows",
                format!("{} numbers", about.train_rows.len()),
                format!("{classes}, one a class"),
            ),
            (
                about.threshold.is_none_or(of_two),
                "threshold",
                format!("{:?} with {classes} classes", about.threshold),
                "a probability, and two classes".to_owned(),
            ),
            (
                about.max_length <= limit,
                "max_length",
                about.max_length.to_string(),
                format!("at most {limit}, what the encoder reads"),
            ),
            (
                about.doc_stride <= about.max_length,
                "doc_stride",
                about.doc_stride.to_string(),
                format!("at most max_length = {}", about.max_length),
            ),
        ];
        let wrong = checks.into_iter().filter(|(fits, ..)| !fits);
        wrong
            .map(|(_, key, found, expected)| Problem::in_file(file, key, found, expected))
            .collect()
    }
}

/// Reads `head.json`.
fn read(file: &Path) -> Result<Description, Problem> {
    let expected = "the description of a head, as `tune export` writes it";
    let bad = |found: String| Problem::of_file(file, found, expected);
    let bytes = bounded::read(file, bounded::DESCRIPTION).map_err(|e| bad(e.to_string()))?;
    let json: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|e| bad(format!("broken JSON: {e}")))?;
    match json.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format == u64::from(FORMAT) => {}
        other => {
            let found = other.map_or("no format".to_owned(), |n| format!("format {n}"));
            let expected = "format 1; a later one needs a later tune";
            return Err(Problem::in_file(file, "format", found, expected));
        }
    }
    serde_json::from_value(json).map_err(|e| bad(e.to_string()))
}
