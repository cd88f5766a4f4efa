//! What attempts use of memory, on its way into the ledger; what their workers hold on to; and how
//! workers' allocators are set up.

use std::collections::BTreeMap;

use super::Core;
use super::active_trial::ActiveTrial;
use device::Device;
use device::Sample;
use memory::{Entry, Usage, drift};
use protocol::AttemptId;
use store::Write;

/// What a training is expected to take at most, once its first epoch has shown what it takes: so many
/// times as much.
const SETTLED: f64 = 1.05;

/// What workers have found of the devices' memory, whatever they were at.
#[derive(Debug)]
pub(super) struct DeviceFacts {
    /// The devices' memory in all, in bytes.
    pub(super) capacities: BTreeMap<Device, u64>,
    /// Whether workers' allocators use expandable segments.
    segments: Segments,
}

impl DeviceFacts {
    pub(super) fn new() -> DeviceFacts {
        DeviceFacts {
            capacities: BTreeMap::new(),
            segments: Segments::Used,
        }
    }

    /// Whether the next worker's allocator is to use expandable segments.
    pub(super) fn expandable(&self) -> bool {
        matches!(self.segments, Segments::Used)
    }
}

/// What is known of expandable segments.
#[derive(Debug)]
enum Segments {
    /// Nothing speaks against them.
    Used,
    /// A first allocation was refused with them, for this reason; the next worker goes without, and
    /// decides whether it was they.
    Doubted(String),
    /// Refused with them, granted without: no worker tries them again.
    Refused,
}

/// What a worker holds on to.
#[derive(Debug, Default)]
pub struct HeldMemory {
    /// Attempts that it has measured.
    measured: u32,
    /// What it held of the host's memory after its first attempt.
    settled: Option<u64>,
    /// It was started without expandable segments.
    pub(super) plain: bool,
    /// Its device is open.
    opened: bool,
    /// Why it should be replaced.
    pub drift: Option<String>,
}

impl ActiveTrial {
    /// A new attempt begins: nothing was measured of it yet.
    pub(super) fn forget_memory(&mut self) {
        self.usage = None;
        self.seen = Usage::default();
        self.epoch_over = false;
        self.settled = None;
        self.peak_memory_mb = None;
    }

    /// What the current attempt counts for on its device, in bytes. After its first epoch that is
    /// what its process has taken of a GPU, where that is known: libtorch's allocator keeps what
    /// it once had, and the first epoch has seen the largest batch. One that has to be alone stays it.
    pub(super) fn reserved_bytes(&self) -> u64 {
        let known = self.settled.filter(|_| !self.alone());
        let known = known.map(|bytes| (bytes as f64 * SETTLED) as u64);
        known.map_or(self.reservation.reserved, |known| {
            known.min(self.reservation.reserved)
        })
    }

    /// Everything that is known of the current attempt, by whoever has measured it.
    pub(super) fn used(&self) -> Usage {
        let measured = self.usage.unwrap_or_default();
        Usage {
            process: measured.process.max(self.seen.process),
            resident: measured.resident.or(self.seen.resident),
            ..measured
        }
    }
}

impl Core {
    /// A worker that computes on a device says what the device has.
    pub(super) fn on_device_opened(&mut self, slot: usize, capacity: u64) {
        let device = self.slots[slot].device;
        self.device_facts.capacities.insert(device, capacity);
        let Some(worker) = self.slots[slot].worker_mut() else {
            return;
        };
        worker.held.opened = true;
        if worker.held.plain
            && let Segments::Doubted(error) = &self.device_facts.segments
        {
            let error = error.clone();
            self.device_facts.segments = Segments::Refused;
            self.warn(format!(
                "libtorch's expandable segments do not work here ({error}); workers go on without \
                 them, and fragment the GPU's memory more"
            ));
        }
    }

    /// A first allocation was refused in a way that speaks against expandable segments: the next
    /// worker tries the same without. The one that found out leaves, and has not died of anything.
    pub(super) fn on_not_expandable(&mut self, slot: usize, error: &str) {
        if self.device_facts.expandable() {
            self.device_facts.segments = Segments::Doubted(error.to_owned());
        }
        self.leave(slot, false);
    }

    /// The slot's worker is dead. Where it did not get memory without expandable segments either, they
    /// were not what was wrong.
    pub(super) fn note_unopened(&mut self, slot: usize) {
        let held = self.slots[slot].worker().map(|w| &w.held);
        let failed = held.is_some_and(|h| h.plain && !h.opened);
        if failed && matches!(self.device_facts.segments, Segments::Doubted(_)) {
            self.device_facts.segments = Segments::Used;
        }
    }

    /// A worker has measured its attempt.
    pub(super) fn note_usage(&mut self, slot: usize, attempt: AttemptId, usage: Usage) {
        let device = self.slots[slot].device;
        if let Some(active) = self.active.get_mut(&attempt.job()) {
            active.usage = Some(usage);
            let peak = active.used().peak(device);
            active.peak_memory_mb = peak.map(|bytes| mib(bytes as f64));
        }
        let capacity = self.device_facts.capacities.get(&device).copied();
        if let Some(worker) = self.slots[slot].worker_mut() {
            let held = &mut worker.held;
            held.measured += 1;
            if held.measured == 2 {
                held.settled = usage.resident_before;
            }
            held.drift = drift(held.settled, &usage, capacity);
        }
    }

    /// A look at the machine: what the attempts' workers use just now.
    pub(super) fn note_sample(&mut self, sample: &Sample) {
        let capacities = &mut self.device_facts.capacities;
        capacities.extend(sample.host.iter().map(|h| (Device::Cpu, h.total)));
        let gpus = sample.gpus.iter();
        capacities.extend(gpus.map(|g| (Device::Cuda(g.index), g.memory_total)));
        for slot in &self.slots {
            let Some(worker) = slot.worker().filter(|_| slot.is_busy()) else {
                continue;
            };
            let Some(active) = slot.attempt().and_then(|a| self.active.get_mut(&a.job())) else {
                continue;
            };
            let host = sample.host.as_ref();
            let resident = host.and_then(|h| h.processes.get(&worker.pid).copied());
            active.seen.resident = active.seen.resident.max(resident);
            let gpu = sample
                .gpus
                .iter()
                .find(|g| Device::Cuda(g.index) == slot.device);
            let process = gpu.and_then(|g| g.processes.get(&worker.pid).copied());
            active.seen.process = active.seen.process.max(process);
            if active.epoch_over {
                active.settled = active.settled.max(process);
            }
        }
    }

    /// Enters an attempt that ends into the ledger, as far as anything is known of it.
    pub(super) fn note_memory(&mut self, attempt: AttemptId, outcome: &str) {
        let Some(active) = self.active.get(&attempt.job()) else {
            return;
        };
        let usage = active.used();
        if usage == Usage::default() && active.predicted.is_none() {
            return;
        }
        let place = active.place.as_ref();
        let Some(device) = place.and_then(|(device, _)| device.parse().ok()) else {
            return;
        };
        let entry = Box::new(Entry {
            device,
            capacity: self.device_facts.capacities.get(&device).copied(),
            usage,
            grant: active.reservation.grant,
            predicted: active.predicted,
            halvings: active.halvings,
            outcome: outcome.to_owned(),
        });
        self.outbox.push(Write::MemoryUsed { id: attempt, entry });
    }

    /// Whether the slot's worker should be replaced, because of what it holds on to.
    pub(super) fn drifts(&self, slot: usize) -> bool {
        let worker = self.slots[slot].worker();
        worker.is_some_and(|w| w.held.drift.is_some())
    }

    /// Why the slot's worker was told to leave.
    pub(super) fn why_it_left(&self, slot: usize) -> String {
        let worker = self.slots[slot].worker().filter(|w| w.recycled);
        match worker.map(|w| &w.held.drift) {
            Some(Some(why)) => format!("recycled: {why}"),
            Some(None) => "recycled".into(),
            None => "done".into(),
        }
    }
}

/// MiB with three digits behind the point.
fn mib(bytes: f64) -> f64 {
    (bytes / 1024.0 / 1024.0 * 1e3).round() / 1e3
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
