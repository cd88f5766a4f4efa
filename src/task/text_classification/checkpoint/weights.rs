//! The header of `model.safetensors`: which tensors there are, of which shape and type, and whether
//! the file is whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::names::{needed, spellings};
use super::{EncoderConfig, missing, problem};
use crate::config::Problem;

/// Types of weights that are read; all are converted to 32-bit floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 32 bits.
    F32,
    /// 16 bits, IEEE.
    F16,
    /// 16 bits, the upper half of 32.
    Bf16,
}

impl Precision {
    /// By the word in safetensors' header.
    pub fn of(word: &str) -> Option<Precision> {
        match word {
            "F32" => Some(Precision::F32),
            "F16" => Some(Precision::F16),
            "BF16" => Some(Precision::Bf16),
            _ => None,
        }
    }
}

/// A tensor of the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

/// What a weights file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The file.
    pub file: PathBuf,
    entries: BTreeMap<String, Entry>,
}

/// Longest header that is read, in bytes; safetensors' own limit.
const MAX_HEADER: u64 = 100_000_000;

impl Header {
    /// Reads the header and compares the file's size with it.
    ///
    /// # Errors
    /// The file is absent, cut short or no safetensors file.
    pub fn read(file: &Path, name: &str) -> Result<Header, Problem> {
        let bad = |found: String| {
            problem(
                file,
                "model.name",
                format!("{found} (model {name})"),
                "a whole safetensors file; fetch it again".to_owned(),
            )
        };
        let Ok(mut open) = File::open(file) else {
            let dir = file.parent().unwrap_or(Path::new("."));
            return Err(missing(dir, "model.safetensors", name));
        };
        let size = open.metadata().map_err(|e| bad(e.to_string()))?.len();
        let mut length = [0u8; 8];
        open.read_exact(&mut length)
            .map_err(|_| bad(format!("a file of {size} bytes, cut short")))?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER || length + 8 > size {
            return Err(bad(format!(
                "a header of {length} bytes in a file of {size}: cut short, or no safetensors file"
            )));
        }
        let mut text = vec![0u8; length as usize];
        open.read_exact(&mut text).map_err(|e| bad(e.to_string()))?;
        let entries = parse(&text).map_err(|e| bad(format!("a broken header: {e}")))?;
        let end = entries.values().map(|e| e.data_offsets.1).max();
        let expected = length + 8 + end.unwrap_or(0);
        if size != expected {
            let how = if size < expected {
                "cut short"
            } else {
                "with something behind its end"
            };
            return Err(bad(format!("{size} of {expected} bytes, {how}")));
        }
        Ok(Header {
            file: file.to_owned(),
            entries,
        })
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
        let needed = needed(config);
        let mut absent = Vec::new();
        let mut wrong = Vec::new();
        for tensor in &needed {
            let Some(entry) = self
                .name_in_file(&tensor.name)
                .and_then(|name| self.entries.get(name))
            else {
                absent.push(tensor.name.clone());
                continue;
            };
            let width = match Precision::of(&entry.dtype) {
                Some(Precision::F32) => 4,
                Some(Precision::F16 | Precision::Bf16) => 2,
                None => 0,
            };
            let bytes = entry.data_offsets.1.saturating_sub(entry.data_offsets.0);
            let numbers: usize = tensor.shape.iter().product();
            if entry.shape != tensor.shape || width == 0 || bytes != (numbers * width) as u64 {
                wrong.push(format!(
                    "{} is {} {:?} in {bytes} bytes, config.json asks for {:?}",
                    tensor.name, entry.dtype, entry.shape, tensor.shape
                ));
            }
        }
        let mut problems = Vec::new();
        let mut report = |found: Vec<String>, what: &str, expected: String| {
            if let Some(first) = found.first() {
                problems.push(problem(
                    &self.file,
                    "model.name",
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
            "the shapes of config.json, in F32, F16 or BF16".to_owned(),
        );
        problems
    }
}

fn parse(text: &[u8]) -> Result<BTreeMap<String, Entry>, serde_json::Error> {
    let all: BTreeMap<String, serde_json::Value> = serde_json::from_slice(text)?;
    all.into_iter()
        .filter(|(name, _)| name != "__metadata__")
        .map(|(name, entry)| Ok((name, serde_json::from_value(entry)?)))
        .collect()
}
