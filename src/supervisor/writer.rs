//! The thread that writes: a slow disk never looks like a silent worker.
//!
//! While the database cannot be written, batches queue up in their order. After a moment the core
//! is told, and from then on what has happened is kept in the spool, too. The database is tried
//! again, ever more slowly; when it is back, the queue is written and the spool is emptied.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::Event;
use super::facts::Unstarted;
use super::spool::{Entry, Spool};
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

/// Failures that pass within this time are nobody's business.
const QUIET: Duration = Duration::from_secs(1);

/// Pauses between tries while the database cannot be written.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The run that is written.
#[derive(Debug, Clone)]
pub struct RunId {
    /// The study's name.
    pub study: String,
    /// The study's row.
    pub study_id: i64,
    /// The run's row.
    pub run_id: i64,
    /// When the run was recorded, as the database has it.
    pub started: String,
}

/// The writer.
pub struct Writer {
    /// The store; nobody else in this process writes.
    store: Store,
    run: RunId,
    spool: Spool,
    events: Sender<Event>,
    /// Reports that go with the next batch.
    soon: Vec<Write>,
    /// What is to be written, in order.
    queue: VecDeque<Item>,
    /// Starts that the database refused.
    refused: Unstarted,
    /// Another program has changed the study, and its trials could not be read yet.
    stale: bool,
    outage: Option<Outage>,
}

/// A batch in the queue.
struct Item {
    batch: Option<u64>,
    /// How many reports come before the batch itself.
    reports: usize,
    writes: Vec<Write>,
    time: jiff::Timestamp,
    /// Its facts were offered to the spool.
    offered: bool,
}

/// The database cannot be written.
struct Outage {
    since: Instant,
    /// When to try again; `None`: never.
    next: Option<Instant>,
    pause: Duration,
    told: Option<Told>,
    /// Starts that are not in the database, so that the spool must not speak of them.
    unstarted: Unstarted,
}

/// What the core was told.
#[derive(PartialEq)]
enum Told {
    /// Trying again may help.
    MayHeal,
    /// It does not.
    Lasting,
}

impl Writer {
    /// A writer of a run that has been recorded; `events` is where its answers go.
    pub fn new(store: Store, run: RunId, spool: Spool, events: Sender<Event>) -> Writer {
        Writer {
            store,
            run,
            spool,
            events,
            soon: Vec::new(),
            queue: VecDeque::new(),
            refused: Unstarted::default(),
            stale: false,
            outage: None,
        }
    }

    /// Runs until the requests end.
    pub fn run(mut self, requests: &Receiver<Request>) {
        let mut look = Instant::now() + SOON;
        loop {
            let due = match &self.outage {
                Some(outage) => outage.next,
                None => Some(look),
            };
            // Without anything due, any long time will do.
            let wait = due.map_or(LONGEST_PAUSE, |at| {
                at.saturating_duration_since(Instant::now())
            });
            match requests.recv_timeout(wait) {
                Ok(Request::Soon(write)) => self.soon.push(write),
                Ok(Request::Batch { batch, writes }) => {
                    self.enqueue(Some(batch), writes);
                    match &self.outage {
                        None => self.work(),
                        Some(outage) if outage.told.is_some() => self.keep(),
                        Some(_) => {}
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.finish(),
            }
            if due.is_some_and(|at| Instant::now() >= at) {
                if self.outage.is_none() {
                    self.enqueue(None, Vec::new());
                }
                self.work();
                look = Instant::now() + SOON;
            }
        }
    }

    /// Nothing more is asked. What cannot be written now waits in the spool for the next run.
    fn finish(mut self) {
        self.enqueue(None, Vec::new());
        let told = self.outage.as_ref().is_some_and(|o| o.told.is_some());
        if !told {
            self.work();
        }
        if !self.queue.is_empty() {
            self.keep();
        }
        self.spool.close();
    }

    /// Puts a batch at the end of the queue, and the reports that came before it with it.
    fn enqueue(&mut self, batch: Option<u64>, writes: Vec<Write>) {
        let mut all = std::mem::take(&mut self.soon);
        let reports = all.len();
        all.extend(writes);
        if batch.is_some() || !all.is_empty() {
            self.queue.push_back(Item {
                batch,
                reports,
                writes: all,
                time: self.store.time(),
                offered: false,
            });
        }
    }

    /// Writes the queue, then looks for what other programs did.
    fn work(&mut self) {
        while !self.queue.is_empty() {
            if let Err(error) = self.write_first() {
                return self.failed(&error);
            }
        }
        if self.outage.is_some()
            && let Err(error) = self.spool.empty()
        {
            // No harm: the next run finds its entries in the database.
            tracing::warn!(%error, "the spool could not be emptied");
        }
        match self.look_for_changes() {
            Ok(()) => self.recovered(),
            Err(error) => self.failed(&error),
        }
    }

    /// Writes the first batch of the queue and answers it. After an error it is still there.
    fn write_first(&mut self) -> Result<(), StoreError> {
        let Some(item) = self.queue.front() else {
            return Ok(());
        };
        let writes = self.refused.without(&item.writes);
        let (batch, reports, time) = (item.batch, item.reports, item.time);
        let event = match self.apply(time, &writes) {
            Ok(Written::Done) => batch.map(|batch| Event::Written { batch }),
            // Another program ended a trial of ours: like a taken number, this is decided again.
            Ok(Written::Conflict)
            | Err(StoreError::Transition { .. } | StoreError::UnknownTrial { .. }) => {
                self.write_reports(reports)?;
                match batch {
                    Some(batch) => Some(Event::Refused {
                        batch,
                        trials: self.store.trials(self.run.study_id)?,
                    }),
                    None => None,
                }
            }
            Err(error) => return Err(error),
        };
        self.queue.pop_front();
        let refused = matches!(event, Some(Event::Refused { .. }));
        if refused {
            self.refused.refused(&writes);
        }
        if let Some(outage) = &mut self.outage {
            if refused {
                outage.unstarted.refused(&writes);
            } else {
                outage.unstarted.recorded(&writes);
            }
        }
        if let Some(event) = event {
            let _ = self.events.send(event);
        }
        Ok(())
    }

    /// Writes the reports of the first batch by themselves; those of trials that another program
    /// has ended or deleted are of no use any more.
    fn write_reports(&mut self, reports: usize) -> Result<(), StoreError> {
        let Some(item) = self.queue.front() else {
            return Ok(());
        };
        let (time, writes) = (item.time, item.writes[..reports].to_vec());
        for write in self.refused.without(&writes) {
            match self.apply(time, &[write]) {
                Ok(Written::Done | Written::Conflict)
                | Err(StoreError::Transition { .. } | StoreError::UnknownTrial { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn apply(&mut self, time: jiff::Timestamp, writes: &[Write]) -> Result<Written, StoreError> {
        let (study_id, run_id) = (self.run.study_id, self.run.run_id);
        self.store.apply_as_of(study_id, run_id, time, writes)
    }

    /// Reads the study again when another program has written to the database.
    fn look_for_changes(&mut self) -> Result<(), StoreError> {
        self.stale |= self.store.foreign_change();
        if self.stale {
            let trials = self.store.trials(self.run.study_id)?;
            self.stale = false;
            let _ = self.events.send(Event::TrialsFound { trials });
        }
        Ok(())
    }

    /// Plans the next try, and after a moment tells the core and keeps what waits.
    fn failed(&mut self, error: &StoreError) {
        let now = Instant::now();
        let outage = self.outage.get_or_insert_with(|| Outage {
            since: now,
            next: None,
            pause: FIRST_PAUSE,
            told: None,
            unstarted: self.refused.clone(),
        });
        // What is damaged is not written to again.
        outage.next = (!error.damaged()).then(|| now + outage.pause);
        outage.pause = (outage.pause * 2).min(LONGEST_PAUSE);
        let tell = if error.transient() {
            Told::MayHeal
        } else {
            Told::Lasting
        };
        if tell == Told::MayHeal && now.duration_since(outage.since) < QUIET {
            return;
        }
        if outage.told.is_none() || (tell == Told::Lasting && outage.told != Some(Told::Lasting)) {
            let _ = self.events.send(Event::StorageFailed {
                error: error.to_string(),
                heals: tell == Told::MayHeal,
                spool: self.spool.path().display().to_string(),
            });
            outage.told = Some(tell);
        }
        self.keep();
    }

    fn recovered(&mut self) {
        if let Some(outage) = self.outage.take()
            && outage.told.is_some()
        {
            let _ = self.events.send(Event::StorageRecovered);
        }
    }

    /// Puts what the queue tells of facts into the spool, and answers.
    fn keep(&mut self) {
        let mut refused = self.refused.clone();
        let unstarted = match &mut self.outage {
            Some(outage) => &mut outage.unstarted,
            None => &mut refused,
        };
        for item in self.queue.iter_mut().filter(|item| !item.offered) {
            item.offered = true;
            let writes = unstarted.facts(&item.writes);
            let kept = if writes.is_empty() {
                Ok(())
            } else {
                self.spool.append(&Entry {
                    study: self.run.study.clone(),
                    run: self.run.run_id,
                    started: self.run.started.clone(),
                    batch: item.batch,
                    time: item.time,
                    writes,
                })
            };
            if let Err(error) = &kept {
                tracing::error!(%error, "the spool cannot be written");
            }
            if let Some(batch) = item.batch {
                let _ = self.events.send(match kept {
                    Ok(()) => Event::Spooled { batch },
                    Err(error) => Event::SpoolFailed {
                        batch,
                        error: error.to_string(),
                    },
                });
            }
        }
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
