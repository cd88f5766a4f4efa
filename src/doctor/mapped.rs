//! Files that a program has mapped into memory, and that were cut short under it: what is read beyond their end is SIGBUS.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A page of memory, in bytes.
fn page() -> u64 {
    process::host::page().unwrap_or(4096)
}

/// Files to the byte up to which any of these processes has mapped them, a whole number of pages. Added are those that are as
/// long by now: of a library more may be mapped than there is.
pub fn add_mapped(all: &mut BTreeMap<PathBuf, u64>, processes: &[u32]) {
    for pid in processes {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        for (path, end) in maps.lines().filter_map(of_file) {
            let known = all.get(&path).is_some_and(|known| *known >= end);
            let whole = |length: u64| length.next_multiple_of(page()) >= end;
            if !known && length(&path).is_some_and(whole) {
                all.insert(path, end);
            }
        }
    }
}

fn length(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|meta| meta.len())
}

/// The file of a line of `/proc/PID/maps`, and the byte up to which it is mapped. Code is not looked at, and a file that is
/// deleted keeps its length.
fn of_file(line: &str) -> Option<(PathBuf, u64)> {
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let (permissions, rest) = rest.split_once(' ')?;
    let (offset, rest) = rest.split_once(' ')?;
    let path = &rest[rest.find('/')?..];
    let of_code = permissions.contains('x') || path.ends_with(".so") || path.contains(".so.");
    if of_code || path.ends_with(" (deleted)") {
        return None;
    }
    let length = hexadecimal(to)?.checked_sub(hexadecimal(from)?)?;
    Some((path.into(), hexadecimal(offset)? + length))
}

/// The first of these files that is shorter by now: `/w/rows.bin: 81920 bytes are mapped, and it has 4000 now`.
pub fn cut(mapped: &BTreeMap<PathBuf, u64>) -> Option<String> {
    mapped.iter().find_map(|(path, end)| {
        let length = length(path).filter(|length| length.next_multiple_of(page()) < *end)?;
        let path = path.display();
        Some(format!(
            "{path}: {end} bytes are mapped, and it has {length} now"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_data_is_told_from_code_and_from_what_is_no_file() {
        let line = "7f0000000000-7f0000003000 r--s 00001000 fe:00 12345    /w/my rows.bin";
        assert_eq!(of_file(line), Some(("/w/my rows.bin".into(), 0x4000)));
        assert_eq!(of_file(&line.replace("r--s", "r-xp")), None);
        assert_eq!(of_file(&format!("{line} (deleted)")), None);
        assert_eq!(of_file("7f00-7f10 rw-p 00000000 00:00 0 [heap]"), None);
    }

    #[test]
    fn a_file_that_became_shorter_by_a_page_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(10_000).unwrap();
        let mapped = BTreeMap::from([(file.path().to_owned(), 12_288)]);
        assert_eq!(cut(&mapped), None, "the last page is not full");
        file.as_file().set_len(8000).unwrap();
        let told = cut(&mapped).unwrap();
        assert!(
            told.ends_with(": 12288 bytes are mapped, and it has 8000 now"),
            "{told}"
        );
    }
}
