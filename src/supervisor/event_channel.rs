//! What happens comes to the event loop with the time at which it came: a loop that is busy handles it
//! later, and judges nobody by that.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use super::clock::Clock;
use super::{Event, Now};
use messages::exit::Failure;

/// Where events are sent to.
#[derive(Debug, Clone)]
pub struct EventSender {
    clock: Clock,
    sender: Sender<(Now, Event)>,
}

/// Where they come out, in the order in which they were sent.
#[derive(Debug)]
pub struct EventReceiver(Receiver<(Now, Event)>);

/// Nobody takes events any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

/// A clock that begins now, and a channel of events that have its times.
///
/// # Errors
/// The clock's thread cannot be started.
pub fn start() -> Result<(Clock, EventSender, EventReceiver), Failure> {
    let clock =
        Clock::start().map_err(|e| Failure::internal(format!("cannot start threads: {e}")))?;
    let (events, inbox) = channel(clock.clone());
    Ok((clock, events, inbox))
}

/// A channel of events that have the times of this clock.
pub fn channel(clock: Clock) -> (EventSender, EventReceiver) {
    let (sender, receiver) = mpsc::channel();
    (EventSender { clock, sender }, EventReceiver(receiver))
}

impl EventSender {
    /// Sends an event that has come now.
    ///
    /// # Errors
    /// The inbox is gone.
    pub fn send(&self, event: Event) -> Result<(), Closed> {
        let sent = self.sender.send((self.clock.now(), event));
        sent.map_err(|_| Closed)
    }
}

impl EventReceiver {
    /// The next event and when it came.
    ///
    /// # Errors
    /// None came within `wait`, or nobody is left to send one.
    pub fn recv_timeout(&self, wait: Duration) -> Result<(Now, Event), RecvTimeoutError> {
        self.0.recv_timeout(wait)
    }

    /// What is there without waiting.
    #[cfg(test)]
    pub fn drain(&self) -> Vec<Event> {
        self.0.try_iter().map(|(_, event)| event).collect()
    }
}
