//! Tensors in files: which there are, of which shape and type, whether the files are whole, and their values. Files are
//! safetensors, or what `torch.save` writes; nothing in them is executed.

mod described;
mod entry;
mod safe;
#[cfg(test)]
mod tests;
mod torch;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use sha2::{Digest, Sha256};
use strum::EnumString;

use crate::{Hasher, hex};
use entry::{Entry, Storage};
use files::bounded;

/// Types of weights that are read, by the words in safetensors' header; all are converted to 32-bit floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "UPPERCASE")]
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
        word.parse().ok()
    }
}

/// A tensor that a model needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// The model's name for it.
    pub name: String,
    /// Shape.
    pub shape: Vec<usize>,
}

/// The names under which files may hold a tensor of a model's name, the first one first.
pub type Spellings = fn(&str) -> Vec<String>;

/// What files hold.
#[derive(Debug, Clone)]
pub struct TensorFiles {
    /// Every file that is read; entries name them by index.
    files: Vec<PathBuf>,
    entries: BTreeMap<String, Entry>,
    spellings: Spellings,
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

/// Why the tensors of a file are not those that a model needs: what was found, and what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl TensorFiles {
    /// No files.
    pub fn none(spellings: Spellings) -> TensorFiles {
        TensorFiles {
            files: Vec::new(),
            entries: BTreeMap::new(),
            spellings,
        }
    }

    /// Reads what a file holds; the values are not read. What is not called `.safetensors` is one of `torch.save`.
    ///
    /// # Errors
    /// It is cut short, damaged, of another kind, or holds something else than tensors; says what was found.
    pub fn open(file: &Path, spellings: Spellings) -> Result<TensorFiles, String> {
        Ok(TensorFiles {
            files: vec![file.to_owned()],
            entries: entries(file)?,
            spellings,
        })
    }

    /// Takes in those tensors of another file that it is to have.
    pub fn append(&mut self, other: TensorFiles, wanted: &dyn Fn(&str) -> bool) {
        let before = self.files.len();
        for (name, mut entry) in other.entries {
            if wanted(&name) {
                entry.file += before;
                self.entries.insert(name, entry);
            }
        }
        self.files.extend(other.files);
    }

    /// Every file that is read.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The names in the files, with type, in safetensors' words, and shape.
    pub fn held(&self) -> impl Iterator<Item = (&str, &str, &[usize])> {
        let of = |(name, entry)| {
            let (name, entry): (&String, &Entry) = (name, entry);
            (name.as_str(), entry.dtype.as_str(), entry.shape.as_slice())
        };
        self.entries.iter().map(of)
    }

    /// Whether a file holds a tensor under this very name.
    pub fn holds(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The name under which a file holds a tensor.
    pub fn name_in_file(&self, name: &str) -> Option<&str> {
        (self.spellings)(name)
            .iter()
            .find_map(|n| self.entries.get_key_value(n).map(|(k, _)| k.as_str()))
    }

    /// Compares the values with the checksums that the files have of them.
    ///
    /// # Errors
    /// One differs, or a file cannot be read: which, and what was found.
    pub fn verify(&self) -> Result<(), (&Path, String)> {
        let mut reader = self.reader();
        for entry in self.entries.values() {
            reader
                .verify(entry)
                .map_err(|error| (self.files[entry.file].as_path(), format!("{error:#}")))?;
        }
        Ok(())
    }

    /// SHA-256 over the files, in hexadecimal, once the values are compared with their checksums.
    ///
    /// # Errors
    /// See [`TensorFiles::verify`].
    pub fn fingerprint(&self) -> Result<String, (&Path, String)> {
        self.verify()?;
        let mut hash = Hasher(Sha256::new());
        for path in &self.files {
            let copied = bounded::open(path).and_then(|mut file| io::copy(&mut file, &mut hash));
            copied.map_err(|error| (path.as_path(), error.to_string()))?;
        }
        Ok(hex(&hash.0.finalize()))
    }

    /// Reads values, with the files open as long as it lives.
    pub fn reader(&self) -> Reader<'_> {
        Reader {
            tensors: self,
            open: BTreeMap::new(),
            verified: BTreeSet::new(),
        }
    }

    /// Needed tensors that are absent, misshapen or of a type that is not read, one misfit a kind. `whose` is the model,
    /// `shapes` is what says how they are shaped.
    pub fn misfits(&self, needed: &[Tensor], whose: &str, shapes: &str) -> Vec<Misfit> {
        let (mut absent, mut wrong, mut bytes) = (Vec::new(), Vec::new(), 0u64);
        for tensor in needed {
            let stored = self.name_in_file(&tensor.name);
            let Some(entry) = stored.and_then(|name| self.entries.get(name)) else {
                absent.push(tensor.name.clone());
                continue;
            };
            if entry.shape != tensor.shape || entry.precision().is_none() {
                wrong.push(format!(
                    "{} is {} {:?}, {shapes} asks for {:?}",
                    tensor.name, entry.dtype, entry.shape, tensor.shape
                ));
            }
            bytes = bytes.saturating_add(entry.bytes().unwrap_or(0));
        }
        let count = needed.len();
        let mut misfits = Vec::new();
        let mut report = |found: Vec<String>, what: &str, expected: String| {
            if let Some(first) = found.first() {
                let found = format!("{} {what}, first {first}", found.len());
                misfits.push(Misfit { found, expected });
            }
        };
        let all = format!("the {count} tensors of {whose}");
        report(absent, "tensors missing", all);
        let fitting = format!("the shapes of {shapes}, in F32, F16, BF16 or F64");
        report(wrong, "tensors that do not fit", fitting);
        // Tensors may share their values, so that a small file could describe a huge model.
        let lengths = self.files.iter().filter_map(|file| file.metadata().ok());
        let size: u64 = lengths.map(|meta| meta.len()).sum();
        if misfits.is_empty() && bytes > size {
            misfits.push(Misfit {
                found: format!("tensors of {bytes} bytes in {size} bytes of weights"),
                expected: format!("tensors of {whose}, which do not share their values"),
            });
        }
        misfits
    }
}

/// Reads the values of tensors.
pub struct Reader<'a> {
    tensors: &'a TensorFiles,
    open: BTreeMap<usize, File>,
    /// Storages whose checksum was found right: file and place.
    verified: BTreeSet<(usize, u64)>,
}

impl Reader<'_> {
    /// The values of a tensor, by the name that a model has for it.
    ///
    /// # Errors
    /// There is none of that name or its type is not one of weights; the file cannot be read, has
    /// changed since it was looked at, or differs from its checksum.
    pub fn read(&mut self, name: &str) -> anyhow::Result<TensorValues> {
        let entry = self
            .tensors
            .name_in_file(name)
            .and_then(|stored| self.tensors.entries.get(stored))
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
            Slot::Vacant(slot) => Ok(slot.insert(bounded::open(&self.tensors.files[index])?)),
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

/// What one file holds.
fn entries(file: &Path) -> Result<BTreeMap<String, Entry>, String> {
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
        true => safe::entries(&open, size),
        false => torch::entries(&open, size),
    }
}
