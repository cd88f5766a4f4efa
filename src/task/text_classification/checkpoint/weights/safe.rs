//! The header of a safetensors file: which tensors there are, and whether the file is whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use serde::Deserialize;

use super::entry::{Entry, Storage, contiguous, width};

/// Longest header that is read, in bytes; safetensors' own limit.
const MAX_HEADER: u64 = 100_000_000;

#[derive(Deserialize)]
struct Stored {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

/// The tensors of the file, which is number `index`; `size` is its length in bytes.
///
/// # Errors
/// It is cut short or no safetensors file; says what was found.
pub fn entries(
    mut file: &File,
    size: u64,
    index: usize,
) -> Result<BTreeMap<String, Entry>, String> {
    let mut length = [0u8; 8];
    file.read_exact(&mut length)
        .map_err(|_| format!("a file of {size} bytes, cut short"))?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER || length + 8 > size {
        return Err(format!(
            "a header of {length} bytes in a file of {size}: cut short, or no safetensors file"
        ));
    }
    let mut text = vec![0u8; length as usize];
    file.read_exact(&mut text).map_err(|e| e.to_string())?;
    let stored = parse(&text).map_err(|e| format!("a broken header: {e}"))?;
    let end = stored.values().map(|e| e.data_offsets.1).max();
    let expected = end.unwrap_or(0).saturating_add(length + 8);
    if size != expected {
        let how = if size < expected {
            "cut short"
        } else {
            "with something behind its end"
        };
        return Err(format!("{size} of {expected} bytes, {how}"));
    }
    stored
        .into_iter()
        .map(|(name, stored)| {
            let (from, to) = stored.data_offsets;
            let bytes = to
                .checked_sub(from)
                .ok_or_else(|| format!("a broken header: {name} ends before it begins"))?;
            let entry = Entry {
                strides: contiguous(&stored.shape),
                storage: Storage {
                    start: length + 8 + from,
                    bytes,
                    checksum: None,
                },
                offset: 0,
                file: index,
                dtype: stored.dtype,
                shape: stored.shape,
            };
            // Of a tensor that is in nobody's view, all bytes are its values.
            let whole = width(&entry.dtype)
                .is_none_or(|w| entry.count().and_then(|n| n.checked_mul(w)) == Some(bytes));
            match whole {
                true => Ok((name, entry)),
                false => Err(format!(
                    "a broken header: {name} is {} {:?} in {bytes} bytes",
                    entry.dtype, entry.shape
                )),
            }
        })
        .collect()
}

fn parse(text: &[u8]) -> Result<BTreeMap<String, Stored>, serde_json::Error> {
    let all: BTreeMap<String, serde_json::Value> = serde_json::from_slice(text)?;
    all.into_iter()
        .filter(|(name, _)| name != "__metadata__")
        .map(|(name, entry)| Ok((name, serde_json::from_value(entry)?)))
        .collect()
}
