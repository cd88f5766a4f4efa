//! The weights of a checkpoint, from whichever files hold them: which tensors there are, of which
//! shape and type, whether the files are whole, and their bytes. Nothing in a file is executed.

mod entry;
mod pickle;
mod safe;
mod torch;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use super::names::{needed, spellings};
use super::{EncoderConfig, missing, problem};
use config::Problem;
use entry::{Entry, Storage};
use files::{bounded, name};

/// Types of weights that are read; all are converted to 32-bit floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloatType {
    /// 32 bits.
    F32,
    /// 16 bits, IEEE.
    F16,
    /// 16 bits, the upper half of 32.
    Bf16,
    /// 64 bits.
    F64,
}

impl FloatType {
    /// By the word in safetensors' header.
    pub fn of(word: &str) -> Option<FloatType> {
        match word {
            "F32" => Some(FloatType::F32),
            "F16" => Some(FloatType::F16),
            "BF16" => Some(FloatType::Bf16),
            "F64" => Some(FloatType::F64),
            _ => None,
        }
    }
}

/// The files that weights are looked for in, in this order, as transformers does.
pub const WEIGHTS_FILES: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];

/// Longest index of shards that is read, in bytes.
const MAX_INDEX: u64 = 16 << 20;

/// Shards that are opened at most.
const MAX_SHARDS: usize = 1000;

/// What the weights files of a checkpoint hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    /// The file that was found: the weights, or the index of their shards.
    pub file: PathBuf,
    /// Every file that is read; entries name them by index.
    files: Vec<PathBuf>,
    entries: BTreeMap<String, Entry>,
}

/// A tensor's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorValues {
    /// Their type.
    pub precision: FloatType,
    /// Shape.
    pub shape: Vec<usize>,
    /// The values in the order of the shape, little-endian.
    pub bytes: Vec<u8>,
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
        let entries = entries(&file, 0).map_err(|found| damaged(&file, &found, name))?;
        Ok(Weights {
            files: vec![file.clone()],
            file,
            entries,
        })
    }

    /// Every file that is read, an index of shards first.
    pub fn files(&self) -> Vec<&Path> {
        let index = (!self.files.contains(&self.file)).then_some(&self.file);
        index
            .into_iter()
            .chain(&self.files)
            .map(PathBuf::as_path)
            .collect()
    }

    /// Compares the values with the checksums that the files have of them.
    ///
    /// # Errors
    /// One differs, or a file cannot be read.
    pub fn verify(&self, name: &str) -> Result<(), Problem> {
        let mut reader = self.reader();
        for entry in self.entries.values() {
            reader
                .verify(entry)
                .map_err(|error| damaged(&self.files[entry.file], &format!("{error:#}"), name))?;
        }
        Ok(())
    }

    /// Reads values, with the files open as long as it lives.
    pub fn reader(&self) -> Reader<'_> {
        Reader {
            weights: self,
            open: BTreeMap::new(),
            verified: BTreeSet::new(),
        }
    }

    /// The name under which the file holds a tensor.
    pub fn name_in_file(&self, name: &str) -> Option<&str> {
        spellings(name)
            .iter()
            .find_map(|n| self.entries.get_key_value(n).map(|(k, _)| k.as_str()))
    }

    /// Every needed tensor that is absent, misshapen or of a type that is not read; one problem a
    /// kind.
    pub fn check(&self, config: &EncoderConfig, model: &str) -> Vec<Problem> {
        // Every other size is one of a tensor's shape; this one alone makes the list long.
        let (layers, held) = (config.num_hidden_layers, self.entries.len());
        if layers > held {
            return vec![problem(
                &self.file,
                format!("{held} tensors and num_hidden_layers {layers} (model {model})"),
                "several tensors for each layer of config.json".to_owned(),
            )];
        }
        let needed = needed(config);
        let mut absent = Vec::new();
        let mut wrong = Vec::new();
        let mut bytes = 0u64;
        for tensor in &needed {
            let Some(entry) = self
                .name_in_file(&tensor.name)
                .and_then(|name| self.entries.get(name))
            else {
                absent.push(tensor.name.clone());
                continue;
            };
            if entry.shape != tensor.shape || entry.precision().is_none() {
                wrong.push(format!(
                    "{} is {} {:?}, config.json asks for {:?}",
                    tensor.name, entry.dtype, entry.shape, tensor.shape
                ));
            }
            bytes = bytes.saturating_add(entry.bytes().unwrap_or(0));
        }
        let mut problems = Vec::new();
        let mut report = |found: Vec<String>, what: &str, expected: String| {
            if let Some(first) = found.first() {
                problems.push(problem(
                    &self.file,
                    format!("{} {what} (model {model}), first {first}", found.len()),
                    expected,
                ));
            }
        };
        report(
            absent,
            "tensors missing",
            format!(
                "the {} tensors of the encoder {}",
                needed.len(),
                config.architecture.name()
            ),
        );
        report(
            wrong,
            "tensors that do not fit",
            "the shapes of config.json, in F32, F16, BF16 or F64".to_owned(),
        );
        // Tensors may share their values, so that a small file could describe a huge model.
        let lengths = self.files.iter().filter_map(|file| file.metadata().ok());
        let size: u64 = lengths.map(|meta| meta.len()).sum();
        if problems.is_empty() && bytes > size {
            problems.push(problem(
                &self.file,
                format!("tensors of {bytes} bytes in {size} bytes of weights (model {model})"),
                "tensors of an encoder, which do not share their values".to_owned(),
            ));
        }
        problems
    }
}

/// Reads the values of tensors.
pub struct Reader<'a> {
    weights: &'a Weights,
    open: BTreeMap<usize, File>,
    /// Storages whose checksum was found right: file and place.
    verified: BTreeSet<(usize, u64)>,
}

impl Reader<'_> {
    /// The values of a tensor, by its name without prefix.
    ///
    /// # Errors
    /// There is none of that name or its type is not one of weights; the file cannot be read, has
    /// changed since it was looked at, or differs from its checksum.
    pub fn read(&mut self, name: &str) -> anyhow::Result<TensorValues> {
        let entry = self
            .weights
            .name_in_file(name)
            .and_then(|stored| self.weights.entries.get(stored))
            .with_context(|| format!("no tensor {name}"))?;
        let Some(precision) = entry.precision() else {
            bail!("{name} has the type {}", entry.dtype);
        };
        self.verify(entry)?;
        let (from, length) = entry
            .span()
            .with_context(|| format!("the size of {name}"))?;
        let mut span = Vec::new();
        let file = self.file(entry.file)?;
        file.seek(SeekFrom::Start(from))?;
        file.take(length).read_to_end(&mut span)?;
        ensure!(
            span.len() as u64 == length,
            "{name} is cut short: the file has changed since it was checked"
        );
        Ok(TensorValues {
            precision,
            shape: entry.shape.clone(),
            bytes: entry.gather(span),
        })
    }

    /// Compares a tensor's storage with its checksum, once.
    fn verify(&mut self, entry: &Entry) -> anyhow::Result<()> {
        let Storage {
            start,
            bytes,
            checksum: Some(checksum),
        } = entry.storage
        else {
            return Ok(());
        };
        if !self.verified.insert((entry.file, start)) {
            return Ok(());
        }
        let file = self.file(entry.file)?;
        file.seek(SeekFrom::Start(start))?;
        let mut hash = Crc(crc32fast::Hasher::new());
        let read = io::copy(&mut file.take(bytes), &mut hash)?;
        ensure!(
            read == bytes && hash.0.finalize() == checksum,
            "{bytes} bytes from {start} on, whose CRC is wrong"
        );
        Ok(())
    }

    fn file(&mut self, index: usize) -> io::Result<&mut File> {
        use std::collections::btree_map::Entry as Slot;
        match self.open.entry(index) {
            Slot::Occupied(slot) => Ok(slot.into_mut()),
            Slot::Vacant(slot) => Ok(slot.insert(bounded::open(&self.weights.files[index])?)),
        }
    }
}

/// What is written is summed up.
struct Crc(crc32fast::Hasher);

impl io::Write for Crc {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn damaged(file: &Path, found: &str, name: &str) -> Problem {
    problem(
        file,
        format!("{found} (model {name})"),
        "a whole file of weights, plain tensors and nothing else; fetch it again".to_owned(),
    )
}

/// What one file holds; it becomes number `index`.
fn entries(file: &Path, index: usize) -> Result<BTreeMap<String, Entry>, String> {
    let open = bounded::open(file).map_err(|e| e.to_string())?;
    let size = open.metadata().map_err(|e| e.to_string())?.len();
    // What a clone without Git LFS leaves in the place of a large file.
    let mut head = Vec::new();
    let pointer = b"version https://git-lfs";
    (&open)
        .take(pointer.len() as u64)
        .read_to_end(&mut head)
        .and_then(|_| (&open).seek(SeekFrom::Start(0)))
        .map_err(|e| e.to_string())?;
    if head == pointer {
        return Err("a pointer of Git LFS instead of the file".to_owned());
    }
    match file.extension().is_some_and(|e| e == "safetensors") {
        true => safe::entries(&open, size, index),
        false => torch::entries(&open, size, index),
    }
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
    let mut weights = Weights {
        files: Vec::new(),
        entries: BTreeMap::new(),
        file: file.clone(),
    };
    for (number, (shard, placed)) in shards.iter().enumerate() {
        let path = dir.join(shard);
        let held = entries(&path, number).map_err(|found| damaged(&path, &found, name))?;
        if let Some(tensor) = placed.iter().find(|tensor| !held.contains_key(**tensor)) {
            return Err(damaged(
                &path,
                &format!("no tensor {tensor}, which the index places here"),
                name,
            ));
        }
        // What the index does not place here belongs to nobody.
        let placed = held
            .into_iter()
            .filter(|(tensor, _)| placed.contains(tensor.as_str()));
        weights.entries.extend(placed);
        weights.files.push(path);
    }
    Ok(weights)
}

#[cfg(test)]
mod tests;
