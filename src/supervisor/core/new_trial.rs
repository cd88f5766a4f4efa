//! The numbers of new trials. A new trial asks for the number after the highest known one. Where another program was
//! faster, the store gives it the next one: the trial and what is known of it go on under that number.
//!
//! One new trial at a time is on its way, because the number of one is known only when those before it have theirs. What
//! is to be written of it meanwhile is held back, so that no batch speaks of a number that is another trial's.

use std::collections::BTreeMap;

use super::Core;
use crate::WorkerId;
use protocol::AttemptId;
use search::study::Job;
use store::Write;

/// A batch that is held back, with the attempt that is sent to this worker when it is durable.
#[derive(Debug)]
pub(super) struct HeldBack {
    writes: Vec<Write>,
    sends: Option<(WorkerId, AttemptId)>,
}

/// The number that a new trial asks for.
pub(super) fn created(write: &Write) -> Option<u64> {
    match matches!(write, Write::TrialCreated { .. }) {
        true => write.number(),
        false => None,
    }
}

impl Core {
    /// The new trial that has been sent to the store, and whose number is not known yet.
    pub(super) fn new_on_its_way(&self) -> Option<u64> {
        let mut writes = self.pending.values().flat_map(|p| &p.writes);
        writes.find_map(created)
    }

    /// Whether a new trial has its number: there is none on its way or about to be.
    pub(super) fn numbers_are_known(&self) -> bool {
        self.new_on_its_way().is_none() && !self.outbox.iter().any(|w| created(w).is_some())
    }

    /// What of the outbox can be sent now, with the attempt that is sent once that is durable.
    pub(super) fn hold_back(
        &mut self,
        sends: Option<(WorkerId, AttemptId)>,
    ) -> (Vec<Write>, Option<(WorkerId, AttemptId)>) {
        let all = std::mem::take(&mut self.outbox);
        let new = self.new_on_its_way();
        let of_new = |number: Option<u64>| new.is_some() && number == new;
        let (writes, now): (Vec<Write>, _) = all.into_iter().partition(|w| of_new(w.number()));
        let waits = of_new(sends.map(|(_, attempt)| attempt.number));
        if !writes.is_empty() {
            let sends = sends.filter(|_| waits);
            self.held_back.push(HeldBack { writes, sends });
        }
        (now, sends.filter(|_| !waits))
    }

    /// Sends what was held back, once the new trial has its number.
    pub(super) fn send_held_back(&mut self) {
        if self.held_back.is_empty() || self.new_on_its_way().is_some() {
            return;
        }
        let rest = std::mem::take(&mut self.outbox);
        for HeldBack { writes, sends } in std::mem::take(&mut self.held_back) {
            self.outbox = writes;
            self.send_batch(sends);
        }
        self.outbox.splice(0..0, rest);
    }

    /// New trials of a batch that is durable got other numbers than they asked for; by the number asked for.
    pub(super) fn renumber(&mut self, batch: u64, renumbered: &BTreeMap<u64, u64>) {
        for (from, to) in renumbered {
            let (before, now) = (Job::trial(*from), Job::trial(*to));
            self.history.renumber(*from, *to);
            self.progress.renumber(*from, *to);
            let unseen = (*from..*to).filter(|number| !self.progress.knows(*number));
            self.nodes.unseen.extend(unseen);
            if let Some(mut active) = self.active.remove(&before) {
                active.trial.number = *to;
                let (seed, attrs) = self.seed_of(*to);
                active.seed = seed;
                active.trial.user_attrs.extend(attrs);
                self.active.insert(now, active);
            }
            for jobs in [&mut self.retry, &mut self.memory.held] {
                if jobs.remove(&before) {
                    jobs.insert(now);
                }
            }
            let job = |job: &mut Job| {
                if *job == before {
                    *job = now;
                }
            };
            let attempt = |attempt: &mut AttemptId| {
                if attempt.job() == before {
                    attempt.number = *to;
                }
            };
            let write = |write: &mut Write| {
                if write.number() == Some(*from) {
                    *write = write.under(*to);
                }
            };
            self.memory.clearing.values_mut().for_each(job);
            for slot in &mut self.slots {
                slot.recorded_mut().into_iter().for_each(attempt);
                let reserved = slot.worker_mut().and_then(|w| w.reserved.as_mut());
                reserved.into_iter().for_each(job);
            }
            if let Some(pending) = self.pending.get_mut(&batch) {
                pending.ends.iter_mut().for_each(job);
                pending.sends.iter_mut().for_each(|(_, a)| attempt(a));
            }
            for batch in &mut self.held_back {
                batch.writes.iter_mut().for_each(write);
                batch.sends.iter_mut().for_each(|(_, a)| attempt(a));
            }
            self.outbox.iter_mut().for_each(write);
        }
    }
}
