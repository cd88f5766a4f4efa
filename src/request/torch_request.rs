//! What the library that has libtorch is asked to do, once everything that can be checked without it has been:
//! JSON across one C function, so that nothing but bytes passes between two separately linked programs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use config::StudySpec;
use device::Device;

use crate::predict::{AnswerFormat, TextColumns, Wanted};
use text::embedding::EmbeddingPooling;

/// The name of the C function: `int32_t tune_torch(const uint8_t *request, size_t length, tell)`, whose
/// last argument is called with a text where the request failed. It gives the exit code.
pub const ENTRY: &std::ffi::CStr = c"tune_torch";

/// The name of the C function that gives the library's [`INTERFACE`], a `uint64_t`.
pub const INTERFACE_OF: &std::ffi::CStr = c"tune_torch_interface";

/// A checksum of the sources of this crate and of all that it uses: both sides must be built from the same.
pub const INTERFACE: u64 = include!(concat!(env!("OUT_DIR"), "/interface"));

/// A request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum TorchRequest {
    /// Be a worker, until the supervisor at the other end of standard input is done with it.
    Worker,
    /// Make libtorch ready for a device, and say why it cannot be.
    Load {
        /// The device.
        device: Device,
        /// `device.fallback_ops`
        fallback_ops: Vec<String>,
    },
    /// Answer rows.
    Predict(Predict),
    /// Find texts in pictures.
    Detect(Detect),
    /// Score a model on labelled rows.
    Evaluate(Evaluate),
    /// Score a text detector on pages whose texts are known.
    EvaluatePages(EvaluatePages),
    /// Write what an encoder makes of texts.
    Embed(Embed),
    /// Try one part of a device or of a task, and print what was found.
    Rung(Rung),
}

/// Rows for a model.
#[derive(Debug, Serialize, Deserialize)]
pub struct ModelAndRows {
    /// A directory that an export has written.
    pub model: PathBuf,
    /// The file of the rows.
    pub file: PathBuf,
    /// What people call it.
    pub name: String,
    /// What is read of each.
    pub wanted: Wanted,
    /// Rows in the file.
    pub count: usize,
    /// Rows that are computed at a time; `None`: by their tokens.
    pub batch_size: Option<usize>,
    /// Where it is computed.
    pub device: Device,
    /// Whether a bar is drawn.
    pub bar: bool,
}

/// `tune predict`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Predict {
    /// The rows.
    pub rows: ModelAndRows,
    /// The columns of the file.
    pub columns: Vec<String>,
    /// Where to; `None`: standard output.
    pub out: Option<PathBuf>,
    /// How answers are written.
    pub shape: AnswerFormat,
}

/// `tune predict` of a text detector.
#[derive(Debug, Serialize, Deserialize)]
pub struct Detect {
    /// A directory that an export has written.
    pub model: PathBuf,
    /// Files of pictures.
    pub pictures: Vec<PathBuf>,
    /// The directory that is written; `None`: lines of JSON on standard output.
    pub out: Option<PathBuf>,
    /// Where it is computed.
    pub device: Device,
    /// Whether a bar is drawn.
    pub bar: bool,
}

/// `tune evaluate`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Evaluate {
    /// The rows.
    pub rows: ModelAndRows,
    /// Whether the scores are printed as JSON.
    pub json: bool,
}

/// `tune evaluate` of a text detector.
#[derive(Debug, Serialize, Deserialize)]
pub struct EvaluatePages {
    /// A directory that an export has written.
    pub model: PathBuf,
    /// The pages, as `data.path` has them.
    pub pages: PathBuf,
    /// Where it is computed.
    pub device: Device,
    /// Whether a bar is drawn.
    pub bar: bool,
    /// Whether the scores are printed as JSON.
    pub json: bool,
}

/// `tune embed`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Embed {
    /// A name among `models`, a model in the local cache, or a directory.
    pub model: String,
    /// Names of models to directories.
    pub models: BTreeMap<String, PathBuf>,
    /// The file of the texts.
    pub file: PathBuf,
    /// Its columns.
    pub columns: TextColumns,
    /// The safetensors file.
    pub out: PathBuf,
    /// Longer rows are cut to so many tokens.
    pub max_length: usize,
    /// Rows that are computed at once.
    pub batch_size: usize,
    /// `None`: the model's pooler where it has one, else the mean.
    pub pooling: Option<EmbeddingPooling>,
    /// Where it is computed.
    pub device: Device,
    /// Whether what was done is printed as JSON.
    pub json: bool,
    /// Whether progress is shown.
    pub loud: bool,
}

/// `tune rung`, where it needs libtorch.
#[derive(Debug, Serialize, Deserialize)]
pub struct Rung {
    /// The part.
    pub part: RungPart,
    /// Where it is computed.
    pub device: Device,
    /// Decides what is made up.
    pub seed: u64,
    /// `device.fallback_ops`
    pub fallback_ops: Vec<String>,
}

/// What is tried.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RungPart {
    /// The libraries load, and the device gives memory.
    Environment,
    /// Constants and sequences.
    Fill,
    /// A product of matrices.
    MatrixProduct,
    /// A convolution and a transposed one.
    Convolution,
    /// Patterns up to this share of the device's free memory.
    Memory {
        /// In (0, 1].
        share: f64,
    },
    /// A part of the task's default point.
    Task(Box<StudySpec>, TaskPart),
}

/// A part of a task's default point.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskPart {
    /// The model, forward, on made-up rows.
    Model,
    /// A loss alone.
    Loss {
        /// One that the kind's preparation names.
        form: String,
        /// With the labels of the rows; else with made-up ones.
        real: bool,
    },
    /// A part of the model that the kind's preparation names, there and back.
    Backward(String),
    /// One pass over these rows of the data, from 0, operation by operation.
    Trace(Vec<usize>),
}
