//! Workers that cannot open their GPU for want of its memory: they have not died of anything, and their
//! slot tries again when there may be room.

use super::Core;
use super::slot::{Slot, State};
use crate::Now;
use device::Device;
use fault::{Fault, FaultKind, cuda};
use memory::size as bytes;

/// The pause after the first try; doubled with each further one.
const FIRST: Now = Now::from_secs(5);

/// The longest pause.
const LONGEST: Now = Now::from_secs(60);

/// Between two words about the same wait.
pub(super) const TOLD_EVERY: Now = Now::from_secs(600);

/// Where other programs use less than one part in so many of a GPU, they are not why a worker finds no
/// room: what the driver keeps counts as theirs.
const LITTLE: u64 = 20;

/// A slot that has found no room on its device, since its last finished epoch.
#[derive(Debug, Clone, Copy)]
pub struct Shortage {
    tries: u32,
    last: Now,
}

impl Core {
    /// Whether it was only room on the device that the slot's worker lacked, which others use.
    pub(super) fn lacks_room(&self, slot: usize, fault: &Fault) -> bool {
        let starting = || self.slots[slot].is_starting();
        let before_training =
            fault.kind == FaultKind::Poisoned || fault.kind == FaultKind::Oom && starting();
        before_training && cuda::out_of_memory(&fault.text) && self.others_fill(slot)
    }

    /// Whether others than the slot's worker, ours or not, may use the memory of its GPU.
    fn others_fill(&self, slot: usize) -> bool {
        let device = self.slots[slot].device;
        let unknown = device != Device::Cpu && self.used_by_others(device).is_none();
        unknown || self.seen_to_be_filled(slot)
    }

    /// Whether they were seen to.
    pub(super) fn seen_to_be_filled(&self, slot: usize) -> bool {
        let others = self.used_by_others(self.slots[slot].device);
        let much = others.is_some_and(|(used, total)| used >= total / LITTLE);
        much || self.slots[slot].device != Device::Cpu && self.shares_device(slot)
    }

    /// What may be other people's of a GPU's memory, and its memory in all; `None`: nobody knows.
    fn used_by_others(&self, device: Device) -> Option<(u64, u64)> {
        let Device::Cuda(index) = device else {
            return None;
        };
        let gpu = self.machine.gpu(index).filter(|g| g.memory_total > 0)?;
        let here = self.slots.iter().filter(|s| s.device == device);
        let seen = here.filter_map(|s| self.seen(device, s.worker()?.pid));
        let own = seen.sum::<u64>() + self.ended_workers.counted(gpu);
        let used = match self.memory.used_before(index) {
            Some(before) if own == 0 => before,
            Some(_) | None => gpu.memory_used.saturating_sub(own),
        };
        Some((used, gpu.memory_total))
    }

    /// The slot's worker has found no room: the slot waits for it. Gives nobody a death.
    pub(super) fn wait_for_room(&mut self, slot: usize, fault: &Fault) {
        let tries = self.slots[slot].shortage.map_or(0, |s| s.tries);
        let pause = (FIRST * 2u32.saturating_pow(tries)).min(LONGEST);
        self.slots[slot].shortage = Some(Shortage {
            tries: (tries + 1).min(16),
            last: self.now,
        });
        self.slots[slot].rest = self.now + pause;
        // A spare worker is wanted only where there is room.
        if !self.slots[slot].spare {
            self.tell_of_shortage(slot, fault, pause);
        }
    }

    fn tell_of_shortage(&mut self, slot: usize, fault: &Fault, pause: Now) {
        let device = self.slots[slot].device;
        let told = self.memory.short.get(&device).copied();
        if told.is_some_and(|at| self.now < at + TOLD_EVERY) {
            return;
        }
        self.memory.short.insert(device, self.now);
        let worker = self.slots[slot].worker().map_or(0, |w| w.id);
        let others = self.used_by_others(device).filter(|(used, _)| *used > 0);
        let (pause, detail) = (pause.as_secs(), &fault.detail);
        let later = match pause < LONGEST.as_secs() {
            true => format!("in {pause} s, later at longer intervals"),
            false => format!("every {pause} s"),
        };
        let (by, next) = match (self.shares_device(slot), others) {
            (true, _) => (
                "other workers of this run use it".to_owned(),
                format!("when one of their trials ends, or {later}"),
            ),
            (false, Some((used, total))) => (
                format!("other processes use {} of {}", bytes(used), bytes(total)),
                later,
            ),
            (false, None) => (
                "nothing of this run uses it, so other programs must".to_owned(),
                later,
            ),
        };
        self.warn(format!(
            "slot {slot} waits for memory of {device}: worker {worker} found no room to open it \
             ({detail}); {by}. It tries again {next}"
        ));
    }

    /// A worker of ours has given memory of its device back: who waits for room there tries again,
    /// unless it has done so just now.
    pub(super) fn room_was_made(&mut self, device: Device) {
        for slot in self.slots.iter_mut().filter(|s| s.device == device) {
            let earliest = slot.shortage.map(|s| s.last + FIRST);
            if let (State::Empty { not_before }, Some(earliest)) = (&mut slot.state, earliest) {
                *not_before = (*not_before).min(earliest);
            }
        }
    }

    /// The slot has got its worker: who has to wait after this is told of again.
    pub(super) fn room_was_found(&mut self, slot: usize) {
        let device = self.slots[slot].device;
        if self.slots[slot].shortage.is_some() {
            self.memory.short.remove(&device);
        }
    }
}

impl Slot {
    /// Whether it is empty for want of room on its device, and will be for a while.
    pub(super) fn waits_for_room(&self, now: Now) -> bool {
        self.shortage.is_some() && self.empty_until().is_some_and(|at| at > now)
    }
}
