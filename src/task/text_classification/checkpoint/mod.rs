//! Checkpoints as Hugging Face writes them: where they lie, and whether they are whole. Nothing
//! here needs libtorch.

mod config;
mod locate;
mod names;
mod raw;
mod weights;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

pub use config::{Activation, Architecture, Convolution, Disentangled, EncoderConfig, Relative};
pub use locate::{cache_directories, locate};
pub use names::{Tensor, needed, optional, projections};
pub use weights::{Header, Precision};

use crate::config::{Problem, Source};

/// A checkpoint whose files were found and checked.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The name that trials use.
    pub name: String,
    /// The directory.
    pub dir: PathBuf,
    /// The architecture.
    pub config: EncoderConfig,
    /// What the weights file holds.
    pub header: Header,
}

impl Checkpoint {
    /// Reads the configuration and the header of the weights and checks every tensor that the
    /// model needs. The weights themselves are not read.
    ///
    /// # Errors
    /// Every problem found; each names its file.
    pub fn open(name: &str, dir: &Path) -> Result<Checkpoint, Vec<Problem>> {
        let mut problems = Vec::new();
        if !dir.is_dir() {
            problems.push(problem(
                dir,
                "model.name",
                format!("no directory for the model {name}"),
                "a directory with config.json, tokenizer.json and model.safetensors".into(),
            ));
            return Err(problems);
        }
        if !dir.join("tokenizer.json").is_file() {
            problems.push(missing(dir, "tokenizer.json", name));
        }
        let config = EncoderConfig::read(&dir.join("config.json"), name);
        let header = Header::read(&dir.join("model.safetensors"), name);
        if let (Ok(config), Ok(header)) = (&config, &header) {
            problems.extend(header.check(config, name));
        }
        match (config, header) {
            (Ok(config), Ok(header)) if problems.is_empty() => Ok(Checkpoint {
                name: name.to_owned(),
                dir: dir.to_owned(),
                config,
                header,
            }),
            (config, header) => {
                problems.extend(config.err());
                problems.extend(header.err());
                Err(problems)
            }
        }
    }
}

impl Checkpoint {
    /// SHA-256 over the files that a trial's values depend on, in hexadecimal.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn fingerprint(&self) -> Result<String, Problem> {
        let mut hash = Sha256::new();
        for file in ["config.json", "tokenizer.json", "model.safetensors"] {
            let path = self.dir.join(file);
            let copied =
                File::open(&path).and_then(|mut f| io::copy(&mut f, &mut Hasher(&mut hash)));
            let length = copied.map_err(|e| {
                problem(&path, "model.name", e.to_string(), "a readable file".into())
            })?;
            hash.update(length.to_le_bytes());
        }
        Ok(super::hex(&hash.finalize()))
    }
}

/// What is written is hashed.
struct Hasher<'a>(&'a mut Sha256);

impl io::Write for Hasher<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A problem with a file of a checkpoint.
fn problem(file: &Path, key: &str, found: String, expected: String) -> Problem {
    Problem {
        source: Source::File(file.to_owned(), None),
        key: Some(key.to_owned()),
        found,
        expected,
    }
}

/// A file that is not there.
fn missing(dir: &Path, file: &str, name: &str) -> Problem {
    let others: Vec<&str> = ["pytorch_model.bin", "model.safetensors.index.json"]
        .into_iter()
        .filter(|f| file == "model.safetensors" && dir.join(f).exists())
        .collect();
    let found = match others.first() {
        None => format!("no {file} for the model {name}"),
        Some(other) => format!("{other} and no {file} for the model {name}"),
    };
    problem(
        &dir.join(file),
        "model.name",
        found,
        format!("{file}, as `save_pretrained` writes it, in one piece"),
    )
}

#[cfg(test)]
mod tests;
