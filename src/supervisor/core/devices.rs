//! Slots and devices that get no more workers, while the others go on.

use super::Core;
use super::slot::{Slot, State};
use device::Device;
use report::SlotGivenUp;
use serde_json::json;
use store::Write;

/// The study's attribute that holds the slots that its last run has given up.
pub const SLOTS_GIVEN_UP: &str = "slots_given_up";

impl Core {
    /// The device is gone or cannot be trusted: its slots finish what they are at and get no more
    /// workers. The CPU is never given up as a device; there, each slot has its own budget.
    pub(super) fn close_device(&mut self, device: Device, why: &str) {
        if device == Device::Cpu {
            return;
        }
        for slot in 0..self.slots.len() {
            if self.slots[slot].device == device {
                self.close_slot(slot, why);
            }
        }
    }

    /// The slot finishes what it is at and gets no more workers.
    pub(super) fn close_slot(&mut self, slot: usize, why: &str) {
        if self.slots[slot].closed.is_some() {
            return;
        }
        self.slots[slot].closed = Some(why.to_owned());
        if !self.slots[slot].spare {
            let given_up = json!(self.slots_given_up());
            let note = Write::study_attribute(SLOTS_GIVEN_UP, given_up);
            self.outbox.push(note);
        }
        let device = self.slots[slot].device;
        self.warn(format!("slot {slot} on {device} is given up: {why}"));
        let slot_is = &mut self.slots[slot];
        if slot_is.empty_until().is_some() {
            slot_is.state = State::Drained;
        } else if slot_is.is_starting() || slot_is.is_idle() {
            self.leave(slot, false);
        }
    }

    /// The slots that get no more workers, those of spare workers left out.
    pub(super) fn slots_given_up(&self) -> Vec<SlotGivenUp> {
        let slots = self.slots.iter().enumerate().filter(|(_, s)| !s.spare);
        let given_up = slots.filter_map(|(slot, s)| {
            Some(SlotGivenUp {
                slot,
                device: s.device.to_string(),
                reason: s.closed.clone()?,
            })
        });
        given_up.collect()
    }

    /// Why no slot gets any more workers; `None` while one does.
    pub(super) fn all_closed(&self) -> Option<String> {
        let slots = || self.slots.iter().filter(|s| !s.spare);
        let all = slots().all(Slot::is_drained);
        if !all {
            return None;
        }
        let mut whys: Vec<String> = Vec::new();
        for slot in slots() {
            let why = slot.closed.as_deref().unwrap_or_default();
            let line = match slot.device {
                Device::Cpu => why.to_owned(),
                Device::Cuda(_) => format!("{}: {why}", slot.device),
            };
            if !whys.contains(&line) {
                whys.push(line);
            }
        }
        Some(whys.join("; "))
    }
}
