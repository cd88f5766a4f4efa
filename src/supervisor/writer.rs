//! The thread that writes: a slow disk never looks like a silent worker.
//!
//! While the database cannot be written, batches queue up in their order. After a moment the core
//! is told, and from then on what has happened is kept in the spool, too. The database is tried
//! again, ever more slowly; when it is back, the queue is written and the spool is emptied.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::clock::since_boot;
use super::event_channel::EventSender;
use super::refused_starts::RefusedStarts;
use super::spool::{Entry, Spool};
use super::{BatchEvent, Event};
use store::{Changes, KnownTrials, StopAsked, Store, StoreError, Write};

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

/// A write that may wait is written after this time at the latest. What other programs did is looked
/// for as often.
const SOON: Duration = Duration::from_millis(200);

/// A look at a study costs this part of the writer's time at most, however busy others are in the file, unless it takes longer
/// than half a second.
const LOOKING: u32 = 20;

/// The next one is no later than this: one that took long may only have waited, for a server or for a process that was stopped.
const LONGEST_WITHOUT_LOOK: Duration = Duration::from_secs(10);

/// On a server, where every node looks at every write, all of a study is looked at no more often.
const WHOLE: Duration = Duration::from_secs(5);

/// How often a lease is renewed before it would end.
const RENEWALS: u32 = 5;

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
    /// How long a node that is not heard of holds its trials; `None`: the run has the study to itself.
    pub lease: Option<Duration>,
}

/// The writer.
pub struct Writer {
    /// The store; nobody else in this process writes.
    store: Store,
    run: RunId,
    spool: Spool,
    events: EventSender,
    /// Reports that go with the next batch.
    soon: Vec<Write>,
    /// What is to be written, in order.
    queue: VecDeque<Item>,
    /// Starts that other programs got ahead of.
    refused: RefusedStarts,
    /// The study as the core knows it, but for what is in the queue.
    seen: KnownTrials,
    /// Another program has written to the file since the last look.
    stale: bool,
    /// And since the last look at all of the study.
    stale_as_a_whole: bool,
    /// Another program had taken numbers of new trials: the core waits for a look, whatever it finds.
    awaited: bool,
    /// Not before this time the next look is at all of the study.
    whole_after: Instant,
    /// The next look is not before this time.
    look_after: Instant,
    /// When the lease of a node is renewed next, counted from the machine's boot.
    renew_at: Duration,
    /// The run has recorded its end, and with it that of its lease.
    over: bool,
    /// What was asked for from another node, and passed on.
    stop: Option<StopAsked>,
    outage: Option<WriteOutage>,
}

/// A batch in the queue, with the reports that came before it.
struct Item {
    batch: Option<u64>,
    writes: Vec<Write>,
    time: jiff::Timestamp,
    /// Its facts were offered to the spool.
    offered: bool,
}

/// The database cannot be written.
struct WriteOutage {
    since: Instant,
    /// When to try again; `None`: never.
    next: Option<Instant>,
    pause: Duration,
    told: Option<Told>,
    /// Starts that are not in the database, so that the spool must not speak of them.
    refused: RefusedStarts,
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
    /// A writer of a run that has been recorded; `seen` is the study as the core knows it, `events`
    /// is where the answers go.
    pub fn new(
        store: Store,
        run: RunId,
        seen: KnownTrials,
        spool: Spool,
        events: EventSender,
    ) -> Writer {
        Writer {
            store,
            run,
            spool,
            events,
            soon: Vec::new(),
            queue: VecDeque::new(),
            refused: RefusedStarts::default(),
            seen,
            // What others did between the reading of the study and now.
            stale: true,
            stale_as_a_whole: true,
            awaited: false,
            whole_after: Instant::now(),
            look_after: Instant::now(),
            renew_at: Duration::ZERO,
            over: false,
            stop: None,
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
        all.extend(writes);
        if batch.is_some() || !all.is_empty() {
            self.queue.push_back(Item {
                batch,
                writes: all,
                time: self.store.time(),
                offered: false,
            });
        }
    }

    /// Renews the lease, if it is time to: by a clock that goes on while the machine sleeps, as the server's does.
    fn renew(&mut self) -> Result<(), StoreError> {
        let now = since_boot();
        let due = |_: &Duration| !self.over && now >= self.renew_at;
        if let Some(lease) = self.run.lease.filter(due) {
            self.store.renew(self.run.run_id, lease)?;
            self.renew_at = now + lease / RENEWALS;
        }
        Ok(())
    }

    /// Writes the queue, then looks for what other programs did.
    fn work(&mut self) {
        // First: what is written then is not of a node that others take for lost.
        if let Err(error) = self.renew() {
            return self.failed(&error);
        }
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
        match self.look_in_time() {
            Ok(()) => self.recovered(),
            Err(error) => self.failed(&error),
        }
    }

    /// Writes the first batch of the queue and answers it. After an error it is still there.
    fn write_first(&mut self) -> Result<(), StoreError> {
        let Some(item) = self.queue.front() else {
            return Ok(());
        };
        let (batch, time) = (item.batch, item.time);
        let (writes, mut late) = self.refused.clone().without(&item.writes);
        let ends = |write: &Write| matches!(write, Write::RunEnded { .. });
        if writes.iter().any(ends) {
            // Whether the goal is still reached is for the core to say.
            self.whole_after = Instant::now();
            self.look()?;
        }
        let run = (self.run.study_id, self.run.run_id);
        let carried = self.store.carry_out(run, time, &writes, &mut self.seen)?;
        late.extend(carried.late);
        if self.run.lease.is_some() && !writes.is_empty() {
            let was_over = std::mem::replace(&mut self.over, writes.iter().any(ends));
            if was_over && !self.over {
                self.renew_at = Duration::ZERO;
            }
        }
        let outage = self.outage.as_mut().map(|outage| &mut outage.refused);
        for refused in [Some(&mut self.refused), outage].into_iter().flatten() {
            refused.recorded(&writes);
            refused.given(carried.renumbered.values());
            refused.add(&late);
        }
        self.queue.pop_front();
        self.awaited |= !carried.renumbered.is_empty();
        let Some(batch) = batch else { return Ok(()) };
        let event = match late.is_empty() && carried.renumbered.is_empty() {
            true => Event::Batch(batch, BatchEvent::Written),
            false => {
                self.stale = true;
                let changes = match late.is_empty() {
                    // The trial can start: who was faster is soon enough known.
                    true => Changes::default(),
                    // It is durable. What cannot be read now is found at a later look.
                    false => self.changes().unwrap_or_default(),
                };
                let overtaken = BatchEvent::Overtaken {
                    late,
                    renumbered: carried.renumbered,
                    changes,
                };
                Event::Batch(batch, overtaken)
            }
        };
        let _ = self.events.send(event);
        Ok(())
    }

    /// Tells what other programs have done, not more often than is worth it.
    fn look_in_time(&mut self) -> Result<(), StoreError> {
        let start = Instant::now();
        if start < self.look_after {
            return Ok(());
        }
        self.look()?;
        let pause = SOON.max(start.elapsed() * LOOKING);
        self.look_after = Instant::now() + pause.min(LONGEST_WITHOUT_LOOK);
        Ok(())
    }

    fn look(&mut self) -> Result<(), StoreError> {
        self.stale |= self.store.foreign_change();
        if self.stale && self.run.lease.is_some() {
            self.pass_on_stop()?;
        }
        let whole = self.stale_as_a_whole && Instant::now() >= self.whole_after;
        if self.stale || whole || self.awaited {
            let changes = self.changes()?;
            let awaited = std::mem::take(&mut self.awaited);
            if awaited || !changes.is_empty() {
                let _ = self.events.send(Event::StudyChanged(changes));
            }
        }
        Ok(())
    }

    /// Tells the core when the run is asked to stop by `tune stop --all`, once for each kind of request.
    fn pass_on_stop(&mut self) -> Result<(), StoreError> {
        let asked = self.store.stop_asked(self.run.run_id)?;
        if asked > self.stop {
            self.stop = asked;
            if let Some(asked) = asked {
                let _ = self.events.send(Event::StopAsked(asked));
            }
        }
        Ok(())
    }

    /// What other programs have done since it was last asked.
    fn changes(&mut self) -> Result<Changes, StoreError> {
        self.stale_as_a_whole |= self.stale;
        let now = Instant::now();
        let (study, seen) = (self.run.study_id, &mut self.seen);
        let changes = match self.run.lease {
            Some(_) if now < self.whole_after => self.store.recent_changes(study, seen)?,
            Some(_) | None => {
                let changes = self.store.changes(study, seen)?;
                self.whole_after = now + WHOLE;
                self.stale_as_a_whole = false;
                changes
            }
        };
        self.stale = false;
        Ok(changes)
    }

    /// Plans the next try, and after a moment tells the core and keeps what waits.
    fn failed(&mut self, error: &StoreError) {
        let now = Instant::now();
        let outage = self.outage.get_or_insert_with(|| WriteOutage {
            since: now,
            next: None,
            pause: FIRST_PAUSE,
            told: None,
            refused: self.refused.clone(),
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
        let refused = match &mut self.outage {
            Some(outage) => &mut outage.refused,
            None => &mut refused,
        };
        for item in self.queue.iter_mut().filter(|item| !item.offered) {
            item.offered = true;
            let writes = refused.facts(&item.writes);
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
                    Ok(()) => Event::Batch(batch, BatchEvent::Spooled),
                    Err(error) => Event::Batch(batch, BatchEvent::SpoolFailed(error.to_string())),
                });
            }
        }
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
