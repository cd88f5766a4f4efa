//! While the database cannot be written: trials that run go on to their end and their results are
//! kept in the spool, but nothing is started, because a start needs a durable record first.

use super::{Core, Mode, Slot};
use crate::{BatchEvent, Now, spool};
use messages::exit::Exit;
use store::Changes;

/// The database cannot be written.
#[derive(Debug)]
pub(super) struct StorageOutage {
    since: Now,
    error: String,
    /// Whether it may pass by itself.
    heals: bool,
    /// The file in which results are kept.
    spool: String,
    /// Results that were put there.
    spooled: u64,
}

/// Where a batch is while the database cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BatchState {
    /// In memory; it is being dealt with.
    Waiting,
    /// Its facts are durable in the spool.
    Spooled,
    /// In memory, because the spool cannot be written for this reason.
    Unsaved(String),
}

impl Core {
    pub(super) fn on_storage_failed(&mut self, error: String, heals: bool, spool: String) {
        if let Some(outage) = &mut self.outage {
            outage.heals = heals;
            outage.error = error;
            return;
        }
        let next = if heals {
            "no trial starts until the database can be written again"
        } else {
            "no further trial starts"
        };
        self.warn(format!(
            "{error}. Trials that run go on and their results are kept in {spool}; {next}"
        ));
        self.outage = Some(StorageOutage {
            since: self.now,
            error,
            heals,
            spool,
            spooled: 0,
        });
    }

    pub(super) fn on_batch(&mut self, batch: u64, event: BatchEvent) {
        let Some(pending) = self.pending.get_mut(&batch) else {
            return;
        };
        match event {
            BatchEvent::Spooled => {
                pending.state = BatchState::Spooled;
                if let Some(outage) = &mut self.outage {
                    outage.spooled += spool::results(&pending.writes);
                }
            }
            BatchEvent::SpoolFailed(error) => pending.state = BatchState::Unsaved(error),
            BatchEvent::Written => {
                self.on_written(batch, &[], Changes::default());
            }
            BatchEvent::Overtaken {
                late,
                renumbered,
                changes,
            } => {
                self.renumber(batch, &renumbered);
                self.on_written(batch, &late, changes);
            }
        }
    }

    pub(super) fn on_storage_recovered(&mut self) {
        if let Some(outage) = self.outage.take() {
            let after = self.now.saturating_sub(outage.since).as_secs_f64();
            let results = match outage.spooled {
                0 => String::new(),
                n => format!("; it now has the {} that waited", spool::count_text(n)),
            };
            self.warn(format!(
                "the database can be written again after {after:.0} s{results}"
            ));
        }
    }

    /// Gives up once nothing runs any more, if waiting does not help or was long enough.
    pub(super) fn check_storage(&mut self) {
        let Some(outage) = &self.outage else { return };
        if self.mode != Mode::Running || self.slots.iter().any(Slot::is_busy) {
            return;
        }
        if !outage.heals || self.now >= self.patience_ends(outage) {
            let reason = outage.error.clone();
            self.stop(Exit::Storage, reason);
        }
    }

    /// When waiting for the database ends.
    pub(super) fn storage_deadline(&self) -> Option<Now> {
        let outage = self.outage.as_ref()?;
        let at = self.patience_ends(outage);
        // Once it has passed, the end of the last running trial is what counts.
        (self.mode == Mode::Running && outage.heals && at > self.now).then_some(at)
    }

    fn patience_ends(&self, outage: &StorageOutage) -> Now {
        let operation = &self.spec.operation;
        let patience = operation.supervisor.storage_patience;
        // A node that is cut off for longer than its lease goes on when it comes back: it does not give up before.
        let patience = match self.nodes.shared() {
            true => patience.max(operation.lease * 2),
            false => patience,
        };
        outage.since + patience
    }

    /// Whether every batch is where it will be found again.
    pub(super) fn settled(&self) -> bool {
        self.pending
            .values()
            .all(|p| p.state != BatchState::Waiting)
    }

    /// How a run ends that was going to end like this, in view of what could not be written.
    pub(super) fn with_storage(&self, exit: Exit, reason: String) -> (Exit, String) {
        let Some(outage) = &self.outage else {
            return (exit, reason);
        };
        let (mut waiting, mut unsaved, mut why) = (0, 0, "");
        for pending in self.pending.values() {
            match &pending.state {
                BatchState::Waiting => {}
                BatchState::Spooled => waiting += spool::results(&pending.writes),
                BatchState::Unsaved(error) => {
                    unsaved += spool::results(&pending.writes);
                    why = error;
                }
            }
        }
        // A log that was cut short held results that were safe already.
        if exit != Exit::Storage && waiting + unsaved == 0 && outage.heals {
            return (exit, reason);
        }
        let mut text = reason;
        if exit != Exit::Storage {
            text.push_str(&format!(", and {}", outage.error));
        }
        if waiting > 0 {
            let start = match self.nodes.shared() {
                true => {
                    "next start in this directory, which is to come before nodes elsewhere start"
                }
                false => "next start",
            };
            text.push_str(&format!(
                "; waiting in {}, to be taken in at the {start}: {}",
                outage.spool,
                spool::count_text(waiting)
            ));
        }
        if unsaved > 0 {
            text.push_str(&format!(
                "; lost, because {} cannot be written either ({why}): {}; run again at the next \
                 start",
                outage.spool,
                spool::count_text(unsaved)
            ));
        }
        (Exit::Storage, text)
    }
}

#[cfg(test)]
#[path = "storage_tests.rs"]
mod tests;
