//! Memory that a worker does not give back: a reason to replace it before its time.

use super::Usage;

/// Part of the device that may stay reserved without a tensor in it.
const UNALLOCATED: f64 = 0.1;

/// What a process's resident memory may grow by from trial to trial, in bytes ...
const GROWTH: u64 = 1 << 30;

/// ... and as a part of what it was.
const GROWTH_PART: f64 = 0.5;

const MIB: u64 = 1 << 20;

/// Why a worker should be replaced, if it should; `capacity` is its device's memory in bytes, as far
/// as it is known. Between trials a worker holds what it held after its first one: `resident_before`
/// of the attempt that followed it is `settled`. `now` is the last attempt's.
pub fn drift(settled: Option<u64>, now: &Usage, capacity: Option<u64>) -> Option<String> {
    let unallocated = now.unallocated.unwrap_or(0);
    if capacity.is_some_and(|all| unallocated as f64 > UNALLOCATED * all as f64) {
        return Some(format!(
            "its allocator keeps {} MiB without a tensor in it",
            unallocated / MIB
        ));
    }
    let (settled, resident) = (settled?, now.resident_before?);
    let grown = resident.saturating_sub(settled);
    (grown > GROWTH && grown as f64 > GROWTH_PART * settled as f64).then(|| {
        format!(
            "it holds {} MiB between trials, {} MiB after its first",
            resident / MIB,
            settled / MIB
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn reason(settled: u64, resident: u64, unallocated: u64) -> Option<String> {
        let now = Usage {
            resident_before: Some(resident),
            unallocated: Some(unallocated),
            ..Usage::default()
        };
        drift(Some(settled), &now, Some(24 * GIB))
    }

    #[test]
    fn fragmentation_beyond_a_tenth_of_the_device_is_a_reason() {
        assert_eq!(reason(GIB, GIB, 2 * GIB), None);
        assert!(reason(GIB, GIB, 3 * GIB).unwrap().contains("3072 MiB"));
        let usage = Usage {
            unallocated: Some(3 * GIB),
            ..Usage::default()
        };
        assert_eq!(drift(None, &usage, None), None, "a tenth of what?");
    }

    #[test]
    fn resident_memory_must_grow_by_much_and_by_a_large_part() {
        assert_eq!(reason(GIB / 2, GIB + GIB / 4, 0), None, "large part only");
        assert_eq!(reason(8 * GIB, 10 * GIB, 0), None, "much only");
        let both = reason(GIB, 3 * GIB, 0).unwrap();
        assert!(both.contains("3072") && both.contains("1024"), "{both}");
        assert_eq!(reason(3 * GIB, GIB, 0), None, "it may shrink");
    }
}
