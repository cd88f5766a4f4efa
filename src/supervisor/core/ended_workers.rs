//! Workers of this run that have ended, as long as figures of a GPU's memory may still count them.

use std::collections::BTreeMap;

use crate::Now;
use device::Device;
use device::GpuSample;

/// A sample that came this soon after the end of a worker may have been taken before it, or while the
/// driver still took its memory back.
const SETTLES: Now = Now::from_secs(2);

/// Workers that have ended, by GPU.
#[derive(Debug, Default)]
pub(super) struct EndedWorkers {
    /// By GPU and process id: when it ended.
    pids: BTreeMap<(usize, u32), Now>,
    /// When the last worker of a GPU ended.
    last: BTreeMap<usize, Now>,
    /// When a GPU was seen last.
    seen: BTreeMap<usize, Now>,
}

impl EndedWorkers {
    /// A worker is gone from its device.
    pub(super) fn leaves(&mut self, device: Device, pid: u32, now: Now) {
        if let Device::Cuda(gpu) = device {
            self.pids.insert((gpu, pid), now);
            self.last.insert(gpu, now);
        }
    }

    /// A look at a GPU. A process id that is no longer seen there may be anybody's from then on.
    pub(super) fn look(&mut self, sample: &GpuSample, now: Now) {
        self.seen.insert(sample.index, now);
        self.pids.retain(|(gpu, pid), ended| {
            *gpu != sample.index || sample.processes.contains_key(pid) || now <= *ended + SETTLES
        });
    }

    /// Whether the last look at a GPU may count a worker that has ended.
    pub(super) fn blurs(&self, gpu: usize) -> bool {
        let (seen, last) = (self.seen.get(&gpu), self.last.get(&gpu));
        seen.zip(last)
            .is_some_and(|(seen, last)| *seen < *last + SETTLES)
    }

    /// What a look at a GPU counts of workers that have ended, in bytes.
    pub(super) fn counted(&self, sample: &GpuSample) -> u64 {
        let ours = |(pid, _): &(&u32, &u64)| self.pids.contains_key(&(sample.index, **pid));
        sample
            .processes
            .iter()
            .filter(ours)
            .map(|(_, bytes)| bytes)
            .sum()
    }
}
