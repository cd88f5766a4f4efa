//! The figures in messages about memory.

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use crate::pattern;

/// What a message about memory tells, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Memory {
    /// What could not be had.
    pub tried: Option<u64>,
    /// What the device has in all.
    pub total: Option<u64>,
    /// What was free on the device.
    pub free: Option<u64>,
    /// What tensors of this process hold.
    pub allocated: Option<u64>,
    /// What this process's allocator holds without using it: fragmentation, if it is much.
    pub reserved_unallocated: Option<u64>,
}

/// A size: number and unit; without a unit, bytes.
const SIZE: &str = r"([\d][\d,]*(?:\.\d+)?)\s*([KMGT]i?B|[Bb]ytes?|B\b)?";

/// How messages write each figure.
struct Patterns {
    tried: Vec<Regex>,
    total: Vec<Regex>,
    free: Vec<Regex>,
    allocated: Vec<Regex>,
    unused: Vec<Regex>,
    reserved: Vec<Regex>,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| Patterns {
    tried: with_size(&[
        r"(?i)tried to allocate\s+#",
        r"(?i)(?:trying to allocate|out of memory allocating|failed to allocate(?: request for)?|unable to allocate)\s+#",
        r"(?i)memory allocation of\s+#",
        r"(?i)\brequested\s*:\s*#",
    ]),
    total: with_size(&[
        r"total capaci?ty of\s+#",
        r"#\s+total capacity",
        r"Device limit\s*:\s*#",
    ]),
    free: with_size(&[
        r"of which\s+#\s+is free",
        r"#\s+free\b",
        r"Free \(according to CUDA\)\s*:\s*#",
    ]),
    allocated: with_size(&[
        r"#\s+is allocated by PyTorch",
        r"#\s+already allocated",
        r"Currently allocated\s*:\s*#",
        r"allocated so far:\s*#",
    ]),
    unused: with_size(&[r"#\s+is reserved by PyTorch but unallocated"]),
    reserved: with_size(&[r"#\s+reserved in total by PyTorch", r"#\s+cached"]),
});

/// Patterns in which `#` stands for a size.
fn with_size(texts: &[&str]) -> Vec<Regex> {
    let one = |text: &&str| pattern(&text.replace('#', SIZE));
    texts.iter().map(one).collect()
}

/// The figures of a message; `None` where it has none.
pub fn figures(text: &str) -> Option<Memory> {
    let allocated = first(&PATTERNS.allocated, text);
    // Older versions give what is reserved in all, or call the unused part cached.
    let reserved =
        first(&PATTERNS.reserved, text).map(|r| r.saturating_sub(allocated.unwrap_or(0)));
    let memory = Memory {
        tried: first(&PATTERNS.tried, text),
        total: first(&PATTERNS.total, text),
        free: first(&PATTERNS.free, text),
        allocated,
        reserved_unallocated: first(&PATTERNS.unused, text).or(reserved),
    };
    (memory != Memory::default()).then_some(memory)
}

fn first(patterns: &[Regex], text: &str) -> Option<u64> {
    patterns.iter().find_map(|p| {
        let found = p.captures(text)?;
        let number: f64 = found.get(1)?.as_str().replace(',', "").parse().ok()?;
        let unit = found.get(2).map_or("", |u| u.as_str());
        Some((number * scale(unit)).round() as u64)
    })
}

fn scale(unit: &str) -> f64 {
    let binary = unit.contains('i');
    let step: f64 = if binary { 1024.0 } else { 1000.0 };
    match unit.chars().next() {
        Some('K') => step,
        Some('M') => step.powi(2),
        Some('G') => step.powi(3),
        Some('T') => step.powi(4),
        Some(_) | None => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn mib(x: f64) -> Option<u64> {
        Some((x * MIB as f64).round() as u64)
    }

    #[test]
    fn todays_figures_are_read() {
        let text = "CUDA out of memory. Tried to allocate 16.00 MiB. GPU 0 has a total capacity of 23.56 GiB of which 33.56 MiB is free. Including non-PyTorch memory, this process has 23.50 GiB memory in use. Of the allocated memory 21.13 GiB is allocated by PyTorch, and 1.41 GiB is reserved by PyTorch but unallocated.";
        let expected = Memory {
            tried: mib(16.0),
            total: mib(23.56 * 1024.0),
            free: mib(33.56),
            allocated: mib(21.13 * 1024.0),
            reserved_unallocated: mib(1.41 * 1024.0),
        };
        assert_eq!(figures(text), Some(expected));
    }

    #[test]
    fn older_figures_are_read() {
        let text = "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity; 9.00 GiB already allocated; 13.56 MiB free; 9.50 GiB reserved in total by PyTorch)";
        let found = figures(text).unwrap();
        assert_eq!(found.allocated, mib(9.0 * 1024.0));
        assert_eq!(found.reserved_unallocated, mib(512.0));
        assert_eq!(found.free, mib(13.56));
    }

    #[test]
    fn plain_bytes_are_read() {
        let found = figures(
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 68719476736 bytes. Error code 12",
        );
        assert_eq!(found.unwrap().tried, Some(68_719_476_736));
        let found = figures("RESOURCE_EXHAUSTED: Out of memory allocating 8,000 bytes.");
        assert_eq!(found.unwrap().tried, Some(8000));
        assert_eq!(figures("RuntimeError: shape mismatch"), None);
    }
}
