//! Spare workers: ready before they are needed, so that a death or a planned replacement costs a
//! slot nothing but the change of hands.

use super::Core;
use super::slot::{Slot, State, Worker};
use config::{Standby, StudySpec};
use device::Device;

/// The slots of a run: one a device given, and behind them one for a spare worker on each device
/// that is to have one.
pub(super) fn slots(devices: Vec<Device>, spec: &StudySpec) -> Vec<Slot> {
    let mut spares: Vec<Device> = devices
        .iter()
        .copied()
        .filter(|device| match spec.operation.standby {
            Standby::Auto => *device != Device::Cpu,
            Standby::On => true,
            Standby::Off => false,
        })
        .collect();
    spares.sort_unstable();
    spares.dedup();
    let spares = spares.into_iter().map(Slot::spare);
    devices.into_iter().map(Slot::new).chain(spares).collect()
}

impl Core {
    /// Puts ready spare workers where workers are wanted: into empty slots, and into those whose
    /// worker is leaving.
    pub(super) fn promote_spares(&mut self) {
        for spare in 0..self.slots.len() {
            if !self.ready_spare(spare) || self.workers_needed() == 0 {
                continue;
            }
            let device = self.slots[spare].device;
            let suspects = self.suspects_without_a_worker().count();
            let free = |slot: &Slot| match slot.empty_until() {
                // The first empty slots are for the suspects' own workers.
                Some(not_before) => {
                    // One that is there needs no more room.
                    let rested = not_before <= self.now || slot.shortage.is_some();
                    rested && suspects == 0
                }
                None => slot.is_leaving(),
            };
            let wanting = self
                .slots
                .iter()
                .position(|s| !s.spare && s.device == device && s.closed.is_none() && free(s));
            let Some(slot) = wanting.filter(|_| self.staying() < self.concurrency.limit()) else {
                continue;
            };
            let not_before = self.now;
            let fresh = &mut self.slots[spare].state;
            let fresh = std::mem::replace(fresh, State::Empty { not_before });
            self.slots[spare].state = std::mem::replace(&mut self.slots[slot].state, fresh);
        }
    }

    /// Starts spare workers where there is memory for one and work that it may have to take over,
    /// once the slots have theirs. Sends them away where memory is wanted for a trial.
    pub(super) fn spawn_spares(&mut self) {
        for slot in 0..self.slots.len() {
            if !self.slots[slot].spare || self.slots[slot].closed.is_some() {
                continue;
            }
            let device = self.slots[slot].device;
            let wanted = self.spare_wanted();
            let busy = self.busy_on(device) > 0;
            if self.slots[slot]
                .empty_until()
                .is_some_and(|at| at <= self.now)
            {
                let alone = self.runs_alone(device) || self.cleared_for(device).is_some();
                if busy && wanted && !alone && self.room_for_spare(device) {
                    self.spawn(slot, None);
                }
            } else if self.slots[slot].is_idle() && (!wanted || !(busy || self.asked())) {
                // Between two trials, the next of which is being proposed, it stays.
                self.leave(slot, false);
            }
        }
    }

    /// Whether there is memory for spare workers: nothing waits for it, and the host has not run out of
    /// its own.
    fn spare_wanted(&self) -> bool {
        self.memory.held.is_empty() && !self.concurrency.lowered()
    }

    /// Whether a slot holds a ready worker that is nobody's yet.
    fn ready_spare(&self, slot: usize) -> bool {
        let slot = &self.slots[slot];
        slot.spare && slot.is_idle() && slot.worker().is_some_and(Worker::healthy)
    }
}
