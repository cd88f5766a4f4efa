//! What the library that has libtorch is asked to do, once everything that can be checked without it has been:
//! JSON across one C function, so that nothing but bytes passes between two separately linked programs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use device::Device;

use crate::embedding::Pooling;
use crate::predict::{Shape, TextColumns, Wanted};

/// The name of the C function: `int32_t tune_torch(const uint8_t *request, size_t length, tell)`, whose
/// last argument is called with a text where the request failed. It gives the exit code.
pub const ENTRY: &std::ffi::CStr = c"tune_torch";

/// The name of the C function that gives the library's [`INTERFACE`], a `uint64_t`.
pub const INTERFACE_OF: &std::ffi::CStr = c"tune_torch_interface";

/// A checksum (FNV-1a) of the sources that say what passes between the two: both sides must be built from the same.
pub const INTERFACE: u64 = {
    let sources: [&[u8]; 10] = [
        include_bytes!("request.rs"),
        include_bytes!("predict/input.rs"),
        include_bytes!("predict/output.rs"),
        include_bytes!("../protocol/lib.rs"),
        include_bytes!("../config/spec.rs"),
        include_bytes!("../task/lib.rs"),
        include_bytes!("../inject/plan.rs"),
        include_bytes!("../memory/lib.rs"),
        include_bytes!("../fault/report.rs"),
        include_bytes!("../search/space/mod.rs"),
    ];
    let mut sum = 0xcbf2_9ce4_8422_2325;
    let mut file = 0;
    while file < sources.len() {
        let mut at = 0;
        while at < sources[file].len() {
            sum = (sum ^ sources[file][at] as u64).wrapping_mul(0x100_0000_01b3);
            at += 1;
        }
        file += 1;
    }
    sum
};

/// A request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Be a worker, until the supervisor at the other end of standard input is done with it.
    Worker,
    /// Make libtorch ready for a device, and say why it cannot be.
    Load {
        /// The device.
        device: Device,
    },
    /// Answer rows.
    Predict(Predict),
    /// Score a model on labelled rows.
    Evaluate(Evaluate),
    /// Write what an encoder makes of texts.
    Embed(Embed),
}

/// Rows for a model.
#[derive(Debug, Serialize, Deserialize)]
pub struct Rows {
    /// A directory that an export has written.
    pub model: PathBuf,
    /// The file of the rows.
    pub file: PathBuf,
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
    pub rows: Rows,
    /// The columns of the file.
    pub columns: Vec<String>,
    /// Where to; `None`: standard output.
    pub out: Option<PathBuf>,
    /// How answers are written.
    pub shape: Shape,
}

/// `tune evaluate`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Evaluate {
    /// The rows.
    pub rows: Rows,
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
    pub pooling: Option<Pooling>,
    /// Where it is computed.
    pub device: Device,
    /// Whether what was done is printed as JSON.
    pub json: bool,
    /// Whether progress is shown.
    pub loud: bool,
}
