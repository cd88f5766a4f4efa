//! Looks at the host's memory while a run lasts.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use device::Sample;
use process::cgroup::OwnCgroup;
use process::host::look;

use crate::Event;
use crate::event_channel::EventSender;

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// A look may take this share of the time at most, whatever the number of processes: one part in so
/// many.
const SHARE: u32 = 400;

/// A worker comes or goes.
pub enum Worker {
    /// With this process id.
    Started(u32),
    /// The one with this process id.
    Ended(u32),
}

/// Samples until the sender of `inbox` is gone.
pub fn watch(inbox: &Receiver<Worker>, events: &EventSender) {
    let own = OwnCgroup::own();
    let mut workers = BTreeSet::new();
    let mut next = Instant::now();
    loop {
        match inbox.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(Worker::Started(pid)) => {
                workers.insert(pid);
            }
            Ok(Worker::Ended(pid)) => {
                workers.remove(&pid);
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let start = Instant::now();
                let sample = Sample {
                    host: look(&workers, own.as_ref()),
                    gpus: Vec::new(),
                };
                if sample.host.is_some() && events.send(Event::Sampled(sample)).is_err() {
                    return;
                }
                let took = start.elapsed();
                next = Instant::now() + INTERVAL.max(took * SHARE);
            }
        }
    }
}
