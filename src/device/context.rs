//! A GPU's memory, as NVML tells it a process that computes there.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::probe::nvml;

/// What the driver says of a GPU's memory in use, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InUse {
    /// By this process; `None`: the driver does not tell (another container's numbers).
    pub own: Option<u64>,
    /// By all processes.
    pub all: u64,
}

/// Asks NVML of the GPU with this index; `None` where it does not answer in time: it can hang in the
/// driver.
pub fn in_use(index: usize, patience: Duration) -> Option<InUse> {
    let (tell, told) = mpsc::channel();
    thread::Builder::new()
        .name("nvml".into())
        .spawn(move || {
            let _ = tell.send(ask(index));
        })
        .ok()?;
    told.recv_timeout(patience).ok()?
}

/// `index` as CUDA counts in this process, which sees the GPUs of `CUDA_VISIBLE_DEVICES` alone.
fn ask(index: usize) -> Option<InUse> {
    let nvml = nvml::open().ok()?;
    let gpus = nvml::gpus(&nvml).ok()?;
    let gpu = gpus.iter().find(|gpu| gpu.index == index)?;
    let processes = nvml::processes(&gpu.handle).unwrap_or_default();
    Some(InUse {
        own: processes.get(&std::process::id()).copied(),
        all: nvml::memory(&gpu.handle).ok()?.1,
    })
}

/// More than this is no context, but what somebody else took meanwhile.
const LARGEST_CONTEXT: u64 = 4 << 30;

/// What a context takes: what this process uses less what its allocator has `reserved`. Where the
/// driver does not tell processes apart, what all use more than `before` stands in for it.
pub fn context(before: Option<InUse>, after: InUse, reserved: u64) -> Option<u64> {
    let used = match (after.own, before) {
        (Some(own), _) => own,
        (None, Some(before)) => after.all.saturating_sub(before.all),
        (None, None) => return None,
    };
    let context = used.saturating_sub(reserved);
    (context > 0 && context <= LARGEST_CONTEXT).then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn in_use(own: Option<u64>, all: u64) -> InUse {
        InUse {
            own: own.map(|m| m * MIB),
            all: all * MIB,
        }
    }

    #[test]
    fn a_context_is_what_the_process_uses_beyond_its_tensors() {
        let before = Some(in_use(None, 9_000));
        let after = in_use(Some(520), 20_000);
        assert_eq!(context(before, after, 20 * MIB), Some(500 * MIB));
        assert_eq!(context(None, after, 20 * MIB), Some(500 * MIB));
    }

    #[test]
    fn where_processes_are_not_told_apart_the_rise_of_all_counts() {
        let after = in_use(None, 9_420);
        let before = Some(in_use(None, 9_000));
        assert_eq!(context(before, after, 20 * MIB), Some(400 * MIB));
        assert_eq!(context(None, after, 20 * MIB), None);
        let crowded = Some(in_use(None, 1_000));
        assert_eq!(context(crowded, after, 0), None, "a neighbour's training");
        assert_eq!(context(Some(after), after, 0), None);
    }
}
