//! The header of a safetensors file: which tensors there are, and whether the file is whole.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::entry::{Entry, Storage, contiguous, width};

/// Longest header that is read, in bytes. That of a model with 10,000 tensors has 1 MB.
const MAX_HEADER: u64 = 32 << 20;

#[derive(Deserialize)]
struct Stored {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

/// The tensors of the file; `size` is its length in bytes.
///
/// # Errors
/// It is cut short or no safetensors file; says what was found.
pub fn entries(mut file: &File, size: u64) -> Result<BTreeMap<String, Entry>, String> {
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
    if let Some(found) = misplaced(&stored) {
        return Err(format!("a broken header: {found}"));
    }
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
            let bytes = to - from;
            let entry = Entry {
                strides: contiguous(&stored.shape),
                storage: Storage {
                    start: length + 8 + from,
                    bytes,
                    checksum: None,
                },
                offset: 0,
                file: 0,
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

/// The first tensor whose bytes do not begin where those of the one before it end, as the format asks:
/// two that share bytes, or bytes that nobody knows.
fn misplaced(stored: &BTreeMap<String, Stored>) -> Option<String> {
    let mut places: Vec<((u64, u64), &str)> = (stored.iter())
        .map(|(name, stored)| (stored.data_offsets, name.as_str()))
        .collect();
    places.sort_unstable();
    let (mut end, mut before) = (0, "the header");
    for ((from, to), name) in places {
        if to < from {
            return Some(format!("{name} ends before it begins"));
        }
        if from != end {
            let how = if from < end {
                "inside"
            } else {
                "not right behind"
            };
            return Some(format!(
                "{name} begins at byte {from}, {how} {before}, which ends at {end}"
            ));
        }
        (end, before) = (to, name);
    }
    None
}

/// The tensors of a header; metadata are passed over.
struct Header(BTreeMap<String, Stored>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Header, D::Error> {
        from.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut all = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let stored: Stored = map.next_value()?;
            if all.contains_key(&name) {
                return Err(A::Error::custom(format!("two tensors called {name}")));
            }
            all.insert(name, stored);
        }
        Ok(Header(all))
    }
}

fn parse(text: &[u8]) -> Result<BTreeMap<String, Stored>, serde_json::Error> {
    Ok(serde_json::from_slice::<Header>(text)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a file with this header, and so many bytes behind it.
    fn of(header: &str, bytes: usize) -> Result<Vec<String>, String> {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.resize(file.len() + bytes, 0);
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), &file).unwrap();
        let open = File::open(path.path()).unwrap();
        let entries = entries(&open, file.len() as u64)?;
        Ok(entries.into_keys().collect())
    }

    fn tensor(name: &str, shape: &str, from: u64, to: u64) -> String {
        format!("\"{name}\":{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}}")
    }

    fn two(a: (u64, u64), b: (u64, u64)) -> String {
        let (a, b) = (tensor("a", "[1]", a.0, a.1), tensor("b", "[1]", b.0, b.1));
        format!("{{{a},{b}}}")
    }

    #[test]
    fn tensors_lie_one_behind_the_other_in_any_order_of_their_names() {
        for header in [two((0, 4), (4, 8)), two((4, 8), (0, 4))] {
            assert_eq!(of(&header, 8).unwrap(), ["a", "b"]);
        }
        let empty = tensor("a", "[0,7]", 0, 0);
        let meta = r#""__metadata__":{"format":"pt"}"#;
        let header = format!("{{{meta},{empty},{}}}", tensor("b", "[]", 0, 4));
        assert_eq!(of(&header, 4).unwrap(), ["a", "b"]);
    }

    #[test]
    fn tensors_that_share_bytes_or_leave_some_out_are_refused_by_their_names() {
        for (header, bytes, expected) in [
            (two((0, 4), (0, 4)), 4, "b begins at byte 0, inside a"),
            (two((0, 4), (2, 6)), 6, "b begins at byte 2, inside a"),
            (
                two((0, 4), (8, 12)),
                12,
                "b begins at byte 8, not right behind a",
            ),
            (
                two((4, 8), (8, 12)),
                12,
                "a begins at byte 4, not right behind the header",
            ),
            (two((4, 0), (0, 4)), 4, "a ends before it begins"),
            (two((0, 4), (4, u64::MAX)), 8, "cut short"),
            (two((0, 8), (8, 12)), 12, "a is F32 [1] in 8 bytes"),
        ] {
            let error = of(&header, bytes).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_name_that_two_tensors_have_is_refused() {
        let (a, again) = (tensor("a", "[1]", 0, 4), tensor("a", "[1]", 0, 4));
        let error = of(&format!("{{{a},{again}}}"), 4).unwrap_err();
        assert!(error.contains("two tensors called a"), "{error}");
    }
}
