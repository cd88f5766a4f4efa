//! The thread that writes: a slow disk never looks like a silent worker.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::Event;
use crate::report;
use crate::store::{Store, StoreError, Write, Written};

/// What the writer is asked to do, in order.
pub enum Request {
    /// A batch, answered by an event.
    Batch {
        /// Its number.
        batch: u64,
        /// What to write.
        writes: Vec<Write>,
    },
    /// A write that may wait a little for the next batch.
    Soon(Write),
}

/// A write that may wait is written after this time at the latest. Foreign changes are looked for
/// as often.
const SOON: Duration = Duration::from_millis(200);

/// How long a write that fails for a passing reason is tried again.
const PATIENCE: Duration = Duration::from_secs(8);

/// The writer.
pub struct Writer {
    /// The store; nobody else in this process writes.
    pub store: Store,
    /// The study.
    pub study_id: i64,
    /// The run.
    pub run_id: i64,
    /// Where answers go.
    pub events: Sender<Event>,
    /// Where warnings go.
    pub warn: Box<dyn Fn(String) + Send>,
}

impl Writer {
    /// Runs until the requests end.
    pub fn run(mut self, requests: &Receiver<Request>) {
        let mut waiting: Vec<Write> = Vec::new();
        loop {
            let result = match requests.recv_timeout(SOON) {
                Ok(Request::Soon(write)) => {
                    waiting.push(write);
                    continue;
                }
                Ok(Request::Batch { batch, writes }) => {
                    self.batch(batch, std::mem::take(&mut waiting), writes)
                }
                Err(RecvTimeoutError::Timeout) => self.idle(std::mem::take(&mut waiting)),
                Err(RecvTimeoutError::Disconnected) => {
                    let _ = self.apply(&waiting);
                    return;
                }
            };
            if let Err(error) = result {
                let _ = self.events.send(Event::WriteFailed {
                    error: error.to_string(),
                });
                return;
            }
        }
    }

    fn batch(
        &mut self,
        batch: u64,
        earlier: Vec<Write>,
        writes: Vec<Write>,
    ) -> Result<(), StoreError> {
        let kept = earlier.len();
        let mut all = earlier;
        all.extend(writes);
        let written = match self.apply(&all) {
            // Another program ended a trial of ours: like a taken number, this is decided again.
            Err(StoreError::Transition { .. }) => Written::Conflict,
            result => result?,
        };
        let event = match written {
            Written::Done => Event::Written { batch },
            Written::Conflict => {
                self.apply(&all[..kept])?;
                Event::Refused {
                    batch,
                    trials: self.store.trials(self.study_id)?,
                }
            }
        };
        let _ = self.events.send(event);
        self.look_for_changes()
    }

    fn idle(&mut self, waiting: Vec<Write>) -> Result<(), StoreError> {
        self.apply(&waiting)?;
        self.look_for_changes()
    }

    /// Reads the study again when another program has written to the database.
    fn look_for_changes(&mut self) -> Result<(), StoreError> {
        if self.store.foreign_change() {
            let trials = self.store.trials(self.study_id)?;
            let _ = self.events.send(Event::TrialsFound { trials });
        }
        Ok(())
    }

    /// Writes, with patience where trying again can help.
    fn apply(&mut self, writes: &[Write]) -> Result<Written, StoreError> {
        if writes.is_empty() {
            return Ok(Written::Done);
        }
        let start = Instant::now();
        let mut pause = Duration::from_millis(20);
        loop {
            match self.store.apply(self.study_id, self.run_id, writes) {
                Err(error) if error.transient() && start.elapsed() < PATIENCE => {
                    if pause > Duration::from_millis(500) {
                        (self.warn)(format!("{error}; trying again"));
                    }
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
                result => return result,
            }
        }
    }
}

/// A warning as an event for people.
pub fn warning(message: String) -> report::Event {
    report::Event::Warned { message }
}
