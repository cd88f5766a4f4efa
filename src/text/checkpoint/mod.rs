//! Checkpoints as Hugging Face writes them: where they lie, and whether they are whole. Nothing
//! here needs libtorch.

mod config;
mod locate;
mod names;
mod raw;
mod weights;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

pub use config::{Activation, Architecture, Convolution, Disentangled, EncoderConfig, Relative};
pub use locate::{ModelPlaces, cache_directories, cache_folder, locate};
pub use names::{needed, optional, projections};
pub use weights::{MAX_INDEX, WEIGHTS_FILES, Weights};

use crate::tokenizer::TokenizerFiles;
use ::config::{Problem, Problems};
use files::bounded;
use training::Hasher;
use training::hex;

/// A checkpoint whose files were found and checked.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The name that trials use.
    pub name: String,
    /// The directory.
    pub dir: PathBuf,
    /// The architecture.
    pub config: EncoderConfig,
    /// What the weights files hold.
    pub weights: Weights,
    /// The tokeniser's files.
    pub tokenizer: TokenizerFiles,
}

impl Checkpoint {
    /// Opens the checkpoint of this name, among `models` or in the caches.
    ///
    /// # Errors
    /// It is not found, or see [`Checkpoint::open`].
    pub fn named(name: &str, models: &BTreeMap<String, PathBuf>) -> Result<Checkpoint, Problems> {
        let dir = locate(name, models, &cache_directories())?;
        Checkpoint::open(name, &dir)
    }

    /// Reads the configuration and the header of the weights and checks every tensor that the
    /// model needs. The weights themselves are not read.
    ///
    /// # Errors
    /// Every problem found; each names its file.
    pub fn open(name: &str, dir: &Path) -> Result<Checkpoint, Problems> {
        let mut problems = Vec::new();
        if !dir.is_dir() {
            problems.push(problem(
                dir,
                format!("no directory for the model {name}"),
                "a directory with config.json, tokenizer.json and model.safetensors",
            ));
            return Err(Problems(problems));
        }
        let tokenizer = TokenizerFiles::find(dir);
        for file in tokenizer.as_ref().err().into_iter().flatten() {
            problems.push(problem(
                dir,
                format!("no {file} for the model {name}"),
                "the files of a tokeniser, as `save_pretrained` writes them",
            ));
        }
        let config = EncoderConfig::read(&dir.join("config.json"), name);
        let weights = Weights::find(dir, name);
        if let (Ok(config), Ok(weights)) = (&config, &weights) {
            problems.extend(weights.check(config, name));
        }
        match (config, weights, tokenizer) {
            (Ok(config), Ok(weights), Ok(tokenizer)) if problems.is_empty() => Ok(Checkpoint {
                name: name.to_owned(),
                dir: dir.to_owned(),
                config,
                weights,
                tokenizer,
            }),
            (config, weights, _) => {
                problems.extend(config.err());
                problems.extend(weights.err());
                Err(Problems(problems))
            }
        }
    }

    /// Every file that is read.
    pub fn files(&self) -> Vec<PathBuf> {
        let config = self.dir.join("config.json");
        let tokenizer = self.tokenizer.files.iter().cloned();
        let weights = self.weights.files().into_iter().map(Path::to_owned);
        [config]
            .into_iter()
            .chain(tokenizer)
            .chain(weights)
            .collect()
    }

    /// SHA-256 over the files that a trial's values depend on, in hexadecimal. The weights are
    /// compared with their checksums, where a file has such.
    ///
    /// # Errors
    /// A file cannot be read, or a checksum is wrong.
    pub fn fingerprint(&self) -> Result<String, Problem> {
        let mut hash = Hasher(Sha256::new());
        for path in self.files() {
            let copied = bounded::open(&path).and_then(|mut file| io::copy(&mut file, &mut hash));
            let length = copied.map_err(|e| problem(&path, e.to_string(), "a readable file"))?;
            hash.0.update(length.to_le_bytes());
        }
        // The files were just read: this costs no disk.
        self.weights.verify(&self.name)?;
        Ok(hex(&hash.0.finalize()))
    }
}

/// A problem with a file of a checkpoint.
fn problem(file: &Path, found: String, expected: impl Into<String>) -> Problem {
    Problem::in_file(file, "model.name", found, expected)
}

/// A file that is not there.
fn missing(dir: &Path, file: &str, name: &str) -> Problem {
    let others = match file {
        "model.safetensors" => format!(", or {}", WEIGHTS_FILES[1..].join(", ")),
        _ => String::new(),
    };
    problem(
        &dir.join(file),
        format!("no {file} for the model {name}"),
        format!("{file}, as `save_pretrained` writes it{others}"),
    )
}

#[cfg(test)]
mod tests;
