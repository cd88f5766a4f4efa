//! What is seen of the machine, and what follows from it: GPUs that are given up, Xids that explain
//! a worker's end, and figures that are kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::{Core, Mode, remember};
use crate::{Action, Now};
use device::Device;
use device::{GpuMinute, GpuSample, HostSample, Sample};
use fault::{FaultKind, GPU_LOST, text};
use search::study::Job;
use store::Write;

/// An Xid and the end of a worker that are not further apart than this belong together.
const APART: Duration = Duration::from_secs(10);

/// The driver may tell of an Xid this long after the worker that it is about has told of its error.
const LATE: Duration = Duration::from_secs(2);

/// What is kept of a GPU's samples is written this often.
const MINUTE: Duration = Duration::from_secs(60);

/// The most Xids and ends that are remembered: a storm of one says no more than its beginning and
/// its end.
const REMEMBERED: usize = 256;

/// The machine as it was seen last.
#[derive(Debug, Default)]
pub struct Machine {
    host: Option<HostSample>,
    gpus: BTreeMap<usize, GpuSample>,
    /// People were told that there are no samples of GPUs.
    told: bool,
    /// When, of which GPU, which code.
    xids: VecDeque<(Now, usize, u32)>,
    /// GPUs that the driver has lost.
    lost: BTreeSet<usize>,
    /// Ends of attempts on GPUs after which the trial runs again: when, where, which, of what.
    ends: VecDeque<(Now, usize, Job, FaultKind)>,
    /// When a worker lost its context, by its own account or by an Xid, and on which GPU.
    contexts_lost: VecDeque<(Now, usize)>,
    minutes: BTreeMap<usize, Minute>,
}

/// Samples that are not written yet.
#[derive(Debug)]
struct Minute {
    since: Now,
    samples: Vec<GpuSample>,
}

impl Machine {
    /// The host, once it was looked at.
    pub fn host(&self) -> Option<&HostSample> {
        self.host.as_ref()
    }

    /// A GPU by its index; `None`: there are no samples of it, or none any more.
    pub fn gpu(&self, index: usize) -> Option<&GpuSample> {
        self.gpus.get(&index)
    }

    /// Takes a sample of a GPU in; gives what is to be written.
    fn keep(&mut self, sample: GpuSample, now: Now) -> Option<GpuMinute> {
        self.gpus.insert(sample.index, sample.clone());
        let index = sample.index;
        let Some(minute) = self.minutes.get_mut(&index) else {
            // The first one at once: who asks for the status within the first minute sees it.
            let row = GpuMinute::of(&[sample]);
            let samples = Vec::new();
            let since = now;
            self.minutes.insert(index, Minute { since, samples });
            return row;
        };
        minute.samples.push(sample);
        if now.saturating_sub(minute.since) < MINUTE {
            return None;
        }
        minute.since = now;
        GpuMinute::of(&std::mem::take(&mut minute.samples))
    }

    /// What was not written yet.
    fn rest(&mut self) -> Vec<GpuMinute> {
        let minutes = std::mem::take(&mut self.minutes);
        let rows = minutes.values().map(|m| GpuMinute::of(&m.samples));
        rows.flatten().collect()
    }

    /// Xids of a GPU that came since then, or just now, and that are not about the end of another
    /// worker; or that took the GPU away: whatever fails on it after that, fails for want of it.
    fn xids(&self, gpu: usize, since: Now, now: Now) -> Vec<u32> {
        let counts = |at: Now, xid| {
            let may_be = at >= since || at + APART >= now;
            text::takes_the_gpu(xid) || (may_be && !self.is_spoken_for(gpu, at))
        };
        let xids = self.xids.iter().filter(|x| x.1 == gpu);
        let xids = xids.filter(|x| counts(x.0, x.2));
        xids.map(|x| x.2).collect()
    }

    /// Whether an Xid of that instant has explained the end of a worker already: one is about one
    /// context.
    fn is_spoken_for(&self, gpu: usize, at: Now) -> bool {
        let mut ends = self.contexts_lost.iter().filter(|end| end.1 == gpu);
        ends.any(|end| at + APART >= end.0 && at <= end.0 + LATE)
    }
}

impl Core {
    pub(super) fn on_sampled(&mut self, sample: Sample) {
        self.note_sample(&sample);
        if let Some(host) = sample.host {
            self.machine.host = Some(host);
        }
        for gpu in sample.gpus {
            self.ended_workers.look(&gpu, self.heard);
            self.note_use_before(&gpu);
            self.look_at_recovery(&gpu);
            let row = self.machine.keep(gpu, self.now);
            if let Some(row) = &row {
                self.report(report::Event::GpuSampled(Box::new(row.clone())));
            }
            let ending = matches!(self.mode, Mode::Closing { .. } | Mode::Finished);
            // While the database is away, room in the spool is for results.
            if let Some(row) = row.filter(|_| !ending && self.outage.is_none()) {
                let write = minute(row);
                self.actions.push(Action::WriteSoon(write));
            }
        }
    }

    /// A GPU that needs a reset is given up before it takes trials with it.
    fn look_at_recovery(&mut self, gpu: &GpuSample) {
        let why = match gpu.recovery_action.as_deref() {
            Some("reset" | "drain_and_reset") => "the driver says that the GPU needs a reset",
            Some("reboot") => "the driver says that the machine needs a reboot",
            Some("drain_p2p") => "the driver says that the GPU is to be drained",
            Some("lost") => {
                self.machine.lost.insert(gpu.index);
                return self.took_the_gpu(gpu.index, GPU_LOST);
            }
            // What a newer driver may say: nothing is known of it.
            Some(_) | None => return,
        };
        self.give_up(gpu.index, why);
    }

    fn give_up(&mut self, gpu: usize, why: &str) {
        if self.mode == Mode::Running {
            self.close_device(Device::Cuda(gpu), why);
        }
    }

    /// An Xid explains the end of a worker on its GPU, whichever comes first. One that takes the GPU
    /// away closes it.
    pub(super) fn on_xid(&mut self, gpu: usize, code: u64) {
        let Ok(xid) = u32::try_from(code) else {
            return;
        };
        remember(&mut self.machine.xids, REMEMBERED, (self.now, gpu, xid));
        if !text::takes_the_gpu(xid) {
            return;
        }
        self.took_the_gpu(gpu, &text::describe_xid(xid));
    }

    /// The GPU is gone, and with it what runs on it.
    fn took_the_gpu(&mut self, gpu: usize, why: &str) {
        self.give_up(gpu, why);
        // Who died just before it did so for want of the GPU: it is no suspect.
        let ends = std::mem::take(&mut self.machine.ends);
        for (at, on, job, kind) in ends {
            if on == gpu
                && at + APART >= self.now
                && let Some(active) = self.active.get_mut(&job)
            {
                active.tally.forgive(kind);
            }
        }
    }

    /// Notes the end of an attempt after which its trial runs again.
    pub(super) fn note_end(&mut self, slot: usize, job: Job, kind: FaultKind) {
        if let Device::Cuda(gpu) = self.slots[slot].device {
            remember(
                &mut self.machine.ends,
                REMEMBERED,
                (self.now, gpu, job, kind),
            );
        }
    }

    /// Notes that the slot's worker has lost its context.
    pub(super) fn note_lost_context(&mut self, slot: usize) {
        if let Device::Cuda(gpu) = self.slots[slot].device {
            remember(&mut self.machine.contexts_lost, REMEMBERED, (self.now, gpu));
        }
    }

    /// The Xids that may explain what becomes of the slot's worker.
    pub(super) fn xids(&self, slot: usize) -> Vec<u32> {
        match self.slots[slot].device {
            Device::Cpu => Vec::new(),
            Device::Cuda(gpu) => {
                let since = self.slots[slot].worker().map_or(self.now, |w| w.since);
                self.machine.xids(gpu, since, self.now)
            }
        }
    }

    /// Whether the driver has lost the slot's GPU.
    pub(super) fn gpu_lost(&self, slot: usize) -> bool {
        matches!(self.slots[slot].device, Device::Cuda(gpu) if self.machine.lost.contains(&gpu))
    }

    pub(super) fn on_probe_lost(&mut self, reason: &str) {
        // Old figures are worse than none.
        self.machine.gpus.clear();
        if !std::mem::replace(&mut self.machine.told, true) {
            self.warn(format!(
                "NVML cannot be used: {reason}; going on without GPU samples"
            ));
        }
    }

    /// The samples that are not written yet, at the end of the run.
    pub(super) fn last_minutes(&mut self) {
        let rows = self.machine.rest();
        self.outbox.extend(rows.into_iter().map(minute));
    }
}

fn minute(row: GpuMinute) -> Write {
    Write::GpuSampled {
        minute: Box::new(row),
    }
}
