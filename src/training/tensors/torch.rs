//! Files of `torch.save`: a zip archive since PyTorch 1.6, pickles and raw bytes before. Only the
//! description of the tensors is read here, by [`super::described`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use zip::{CompressionMethod, ZipArchive};

use pickle::{Refused, Value};

use super::described::{self, Described, MAX_PICKLE, TensorRef};
use super::entry::{Entry, Storage, width};

/// What every file of `torch.save` before 1.6 begins with: a pickle of its magic number.
const LEGACY: [u8; 13] = [
    0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, b'.',
];

/// The version of that format.
const LEGACY_VERSION: i64 = 1001;

/// The tensors of the file; `size` is its length in bytes.
///
/// # Errors
/// It is damaged, of another kind, or holds more than tensors; says what was found.
pub fn entries(file: &File, size: u64) -> Result<BTreeMap<String, Entry>, String> {
    let mut head = Vec::new();
    let mut from = BufReader::new(file);
    let read = |from: &mut BufReader<&File>, head: &mut Vec<u8>, limit| {
        from.take(limit)
            .read_to_end(head)
            .map_err(|e| e.to_string())
    };
    read(&mut from, &mut head, 16)?;
    if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        return archive(file, size);
    }
    // A protocol mark of two bytes, then the magic number; 15 bytes in all.
    if head.len() > 15 && head[0] == 0x80 && head[2..15] == LEGACY[..] {
        read(&mut from, &mut head, MAX_PICKLE)?;
        return legacy(&head, file, size);
    }
    Err(match size {
        0 => "an empty file".to_owned(),
        _ => format!("{size} bytes that `torch.save` did not write"),
    })
}

fn told(refused: Refused) -> String {
    match refused {
        Refused::Global(name) => format!(
            "a pickle that asks for {name}, which is no part of a tensor: nothing of it was executed"
        ),
        Refused::Broken(what) => format!("a broken pickle: {what}"),
    }
}

/// Tensors as entries, from where their storages lie.
fn placed(
    tensors: BTreeMap<String, TensorRef>,
    storage: impl Fn(&TensorRef) -> Result<Storage, String>,
) -> Result<BTreeMap<String, Entry>, String> {
    let mut all = BTreeMap::new();
    for (name, tensor) in tensors {
        let storage = storage(&tensor).map_err(|e| format!("{name}: {e}"))?;
        let shape: Option<Vec<usize>> = (tensor.shape.iter())
            .map(|d| usize::try_from(*d).ok())
            .collect();
        let entry = Entry {
            dtype: tensor.storage.dtype.to_owned(),
            shape: shape.ok_or_else(|| format!("{name}: a size that is none"))?,
            file: 0,
            storage,
            offset: tensor.offset.saturating_add(tensor.storage.skipped),
            strides: tensor.strides,
        };
        if let Some(misfit) = entry.misfit() {
            return Err(format!("{name}: {misfit}, which do not fit"));
        }
        all.insert(name, entry);
    }
    Ok(all)
}

fn tensors(pickle: &Described) -> Result<BTreeMap<String, TensorRef>, String> {
    match pickle.tensors() {
        Some(tensors) => Ok(tensors),
        None => Err("a pickle of something else than a dictionary of tensors".to_owned()),
    }
}

fn archive(file: &File, size: u64) -> Result<BTreeMap<String, Entry>, String> {
    let damaged = |e: zip::result::ZipError| format!("a zip archive, cut short or damaged: {e}");
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(damaged)?;
    let mut places = BTreeMap::new();
    let mut numbers = BTreeMap::new();
    for number in 0..archive.len() {
        let entry = archive.by_index_raw(number).map_err(damaged)?;
        let name = entry.name().map_err(damaged)?.into_owned();
        let bytes = entry.size();
        if entry.compression() != CompressionMethod::Stored || entry.encrypted() {
            return Err(format!(
                "a zip archive whose {name} is compressed or encrypted; `torch.save` does neither"
            ));
        }
        let storage = Storage {
            start: entry.data_start().unwrap_or(u64::MAX),
            bytes,
            checksum: Some(entry.crc32()),
        };
        let end = storage.start.checked_add(bytes);
        if end.is_none_or(|end| end > size) {
            return Err(format!(
                "a zip archive of {size} bytes whose {name} is said to have {bytes}: cut short or \
                 damaged"
            ));
        }
        numbers.insert(name.clone(), number);
        if places.insert(name.clone(), storage).is_some() {
            return Err(format!("a zip archive with two entries {name}"));
        }
    }
    let mut pickles = places.keys().filter_map(|n| n.strip_suffix("/data.pkl"));
    let Some(root) = pickles.next().filter(|root| !root.contains('/')) else {
        return Err("a zip archive without data.pkl, so not one of `torch.save`".to_owned());
    };
    // Reading through the archive checks the CRC.
    let mut read = |name: &str, limit: u64| -> Result<Option<Vec<u8>>, String> {
        let Some(number) = numbers.get(&format!("{root}/{name}")) else {
            return Ok(None);
        };
        let entry = archive.by_index(*number).map_err(damaged)?;
        if entry.size() > limit {
            return Err(format!("a {name} of {} bytes", entry.size()));
        }
        let mut bytes = Vec::new();
        let read = entry.take(limit).read_to_end(&mut bytes);
        read.map_err(|e| format!("a damaged {name}: {e}"))?;
        Ok(Some(bytes))
    };
    if let Some(order) = read("byteorder", 16)?.filter(|order| order != b"little") {
        let order = String::from_utf8_lossy(&order).into_owned();
        return Err(format!("values in the byte order {order:?}"));
    }
    let bytes = read("data.pkl", MAX_PICKLE)?.unwrap_or_default();
    let pickle = described::read(&bytes).map_err(told)?;
    placed(tensors(&pickle)?, |tensor| {
        let key = &tensor.storage.key;
        let storage = places
            .get(&format!("{root}/data/{key}"))
            .ok_or_else(|| format!("no storage {key} in the archive"))?;
        let width = width(tensor.storage.dtype).unwrap_or(1);
        match tensor.storage.numel.checked_mul(width) == Some(storage.bytes) {
            true => Ok(*storage),
            false => Err(format!(
                "storage {key} has {} bytes instead of {} values of {}",
                storage.bytes, tensor.storage.numel, tensor.storage.dtype
            )),
        }
    })
}

/// Five pickles (magic number, version, machine, tensors, the storages' order), then each storage
/// as its number of values in 8 bytes and the values.
fn legacy(head: &[u8], mut file: &File, size: u64) -> Result<BTreeMap<String, Entry>, String> {
    let mut at = LEGACY.len() + 2;
    let mut next = || -> Result<Described, String> {
        let pickle = described::read(&head[at..]).map_err(told)?;
        at += pickle.length;
        Ok(pickle)
    };
    let version = next()?.value;
    if version != Value::Int(LEGACY_VERSION) {
        return Err(format!("version {version:?} of the format of `torch.save`"));
    }
    let machine = next()?;
    let little = machine.objects.field(machine.value, "little_endian");
    if little != Some(Value::Bool(true)) {
        return Err("values in big-endian byte order".to_owned());
    }
    let pickle = next()?;
    let tensors = tensors(&pickle)?;
    let order = next()?;
    let keys = order.objects.members(order.value).unwrap_or_default();
    let widths: BTreeMap<&str, (u64, u64)> = (pickle.storages())
        .map(|s| (s.key.as_str(), (s.numel, width(s.dtype).unwrap_or(1))))
        .collect();
    let mut places = BTreeMap::new();
    let mut start = at as u64;
    for key in keys {
        let key = order.objects.text(*key).unwrap_or_default();
        let (values, width) = widths
            .get(key)
            .ok_or_else(|| format!("a storage {key} of no tensor"))?;
        let mut count = [0u8; 8];
        let read = file.seek(SeekFrom::Start(start)).map(|_| ());
        read.and_then(|()| file.read_exact(&mut count))
            .map_err(|_| format!("{size} bytes, cut short before storage {key}"))?;
        if u64::from_le_bytes(count) != *values {
            return Err(format!("storage {key} is not of the {values} values told"));
        }
        start += 8;
        let end = values
            .checked_mul(*width)
            .and_then(|n| n.checked_add(start));
        let Some(end) = end.filter(|end| *end <= size) else {
            return Err(format!("{size} bytes, cut short in storage {key}"));
        };
        let storage = Storage {
            start,
            bytes: end - start,
            checksum: None,
        };
        places.insert(key.to_owned(), storage);
        start = end;
    }
    if start != size {
        return Err(format!("{size} bytes, of which {start} are told of"));
    }
    placed(tensors, |tensor| {
        let key = &tensor.storage.key;
        let place = places.get(key).copied();
        place.ok_or_else(|| format!("no storage {key}"))
    })
}
