//! The weights of a checkpoint, from whichever files hold them: which tensors there are, of which
//! shape and type, whether the files are whole, and their bytes. Nothing in a file is executed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::names::{needed, spellings};
use super::{EncoderConfig, missing, problem};
use config::Problem;
use files::{bounded, name};
use training::tensors::{Reader, TensorFiles};

/// The files that weights are looked for in, in this order, as transformers does.
pub const WEIGHTS_FILES: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];

/// Longest index of shards that is read, in bytes.
pub const MAX_INDEX: u64 = 16 << 20;

/// Shards that are opened at most.
const MAX_SHARDS: usize = 1000;

/// What the weights files of a checkpoint hold.
#[derive(Debug, Clone)]
pub struct Weights {
    /// The file that was found: the weights, or the index of their shards.
    pub file: PathBuf,
    tensors: TensorFiles,
}

impl Weights {
    /// Finds the weights in a directory and reads what they hold; the values are not read.
    ///
    /// # Errors
    /// There are none, a shard is missing, or a file is cut short, damaged, of another kind, or
    /// holds something else than tensors.
    pub fn find(dir: &Path, name: &str) -> Result<Weights, Problem> {
        let found = WEIGHTS_FILES.iter().find(|file| dir.join(file).is_file());
        let Some(found) = found else {
            return Err(missing(dir, "model.safetensors", name));
        };
        let file = dir.join(found);
        if found.ends_with(".index.json") {
            return sharded(file, dir, name);
        }
        let tensors = TensorFiles::open(&file, spellings);
        let tensors = tensors.map_err(|found| damaged(&file, &found, name))?;
        Ok(Weights { file, tensors })
    }

    /// Every file that is read, an index of shards first.
    pub fn files(&self) -> Vec<&Path> {
        let files = self.tensors.files();
        let index = (!files.contains(&self.file)).then_some(&self.file);
        (index.into_iter().chain(files))
            .map(PathBuf::as_path)
            .collect()
    }

    /// Compares the values with the checksums that the files have of them.
    ///
    /// # Errors
    /// One differs, or a file cannot be read.
    pub fn verify(&self, name: &str) -> Result<(), Problem> {
        (self.tensors.verify()).map_err(|(file, found)| damaged(file, &found, name))
    }

    /// Reads values by their names without prefix, with the files open as long as it lives.
    pub fn reader(&self) -> Reader<'_> {
        self.tensors.reader()
    }

    /// The name under which the file holds a tensor.
    pub fn name_in_file(&self, name: &str) -> Option<&str> {
        self.tensors.name_in_file(name)
    }

    /// Every needed tensor that is absent, misshapen or of a type that is not read; one problem a
    /// kind.
    pub fn check(&self, config: &EncoderConfig, model: &str) -> Vec<Problem> {
        // Every other size is one of a tensor's shape; this one alone makes the list long.
        let (layers, held) = (config.num_hidden_layers, self.tensors.held().count());
        if layers > held {
            return vec![problem(
                &self.file,
                format!("{held} tensors and num_hidden_layers {layers} (model {model})"),
                "several tensors for each layer of config.json".to_owned(),
            )];
        }
        let whose = format!("the encoder {}", config.architecture.name());
        let misfits = (self.tensors).misfits(&needed(config), &whose, "config.json");
        let told = misfits.into_iter().map(|misfit| {
            let found = format!("{} (model {model})", misfit.found);
            problem(&self.file, found, misfit.expected)
        });
        told.collect()
    }
}

fn damaged(file: &Path, found: &str, name: &str) -> Problem {
    problem(
        file,
        format!("{found} (model {name})"),
        "a whole file of weights, plain tensors and nothing else; fetch it again".to_owned(),
    )
}

/// The index of shards: which file holds which tensor.
#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

fn sharded(file: PathBuf, dir: &Path, name: &str) -> Result<Weights, Problem> {
    let bad = |found: String| damaged(&file, &found, name);
    let text = bounded::read(&file, MAX_INDEX).map_err(|e| bad(e.to_string()))?;
    let index: Index =
        serde_json::from_slice(&text).map_err(|e| bad(format!("a broken index: {e}")))?;
    let mut shards: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (tensor, shard) in &index.weight_map {
        shards.entry(shard).or_default().insert(tensor);
    }
    if shards.is_empty() || shards.len() > MAX_SHARDS {
        return Err(bad(format!("an index of {} shards", shards.len())));
    }
    for shard in shards.keys() {
        name::check(shard).map_err(|why| bad(format!("the shard {shard:?}: {why}")))?;
    }
    let absent: Vec<&str> = (shards.keys().copied())
        .filter(|shard| !dir.join(shard).is_file())
        .collect();
    if !absent.is_empty() {
        return Err(problem(
            &file,
            format!(
                "shards that are not there: {} (model {name})",
                absent.join(", ")
            ),
            format!("all {} shards in {}", shards.len(), dir.display()),
        ));
    }
    let mut tensors = TensorFiles::none(spellings);
    for (shard, placed) in &shards {
        let path = dir.join(shard);
        let held = TensorFiles::open(&path, spellings);
        let held = held.map_err(|found| damaged(&path, &found, name))?;
        if let Some(tensor) = placed.iter().find(|tensor| !held.holds(tensor)) {
            return Err(damaged(
                &path,
                &format!("no tensor {tensor}, which the index places here"),
                name,
            ));
        }
        // What the index does not place here belongs to nobody.
        tensors.append(held, &|tensor| placed.contains(tensor));
    }
    Ok(Weights { file, tensors })
}

#[cfg(test)]
mod tests;
