//! Watching the machine while a run lasts: the GPUs through a probe, the host through `/proc`.
//!
//! Each has a thread that only sends events. Nobody waits for either: a probe may hang in the
//! driver, and a look at `/proc` behind a process that does.

mod host;
mod probe;

use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Sender};
use std::thread;

use super::Event;
use super::event_channel::EventSender;
use device::probe::LIBRARY;
use host::Worker;

/// The watchers of a run. They end when this is dropped.
pub struct Machine {
    /// Which workers there are, for the host's watcher, which ends without it.
    workers: Sender<Worker>,
    /// The probe's watcher ends when this closes.
    _running: Option<OwnedFd>,
}

impl Machine {
    /// Starts to watch, the GPUs only where the run has any (or [`LIBRARY`] is set). What cannot be
    /// watched is missing, and no reason not to run.
    pub fn watch(gpus: bool, events: &EventSender) -> Machine {
        let (workers, inbox) = mpsc::channel();
        let sender = events.clone();
        let started = thread::Builder::new()
            .name("host".into())
            .spawn(move || host::watch(&inbox, &sender));
        if let Err(error) = started {
            tracing::warn!(%error, "no thread to watch the host's memory");
        }
        let wanted = gpus || std::env::var_os(LIBRARY).is_some();
        Machine {
            workers,
            _running: wanted.then(|| watch_gpus(events)).flatten(),
        }
    }

    /// A worker was started.
    pub fn started(&self, pid: u32) {
        let _ = self.workers.send(Worker::Started(pid));
    }

    /// A worker is gone, or was given up.
    pub fn ended(&self, pid: u32) {
        let _ = self.workers.send(Worker::Ended(pid));
    }
}

fn watch_gpus(events: &EventSender) -> Option<OwnedFd> {
    let lost = |error: std::io::Error| {
        let reason = format!("the probe cannot be started: {error}");
        let _ = events.send(Event::ProbeLost(reason));
    };
    let (over, running) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
        .map_err(|errno| lost(errno.into()))
        .ok()?;
    let events_of_probe = events.clone();
    thread::Builder::new()
        .name("probe".into())
        .spawn(move || probe::watch(&over, &events_of_probe))
        .map_err(lost)
        .ok()?;
    Some(running)
}
