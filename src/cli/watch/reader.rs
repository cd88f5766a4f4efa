//! Reads a study for the view, in a thread of its own: keys are answered whatever the database does, and looking takes a
//! hundredth of a core at most.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use view::{Input, Section};

use crate::logs;
use crate::query::{Context, Watched};
use crate::status::context;
use device::HostSample;
use messages::exit::Failure;
use process::cgroup::OwnCgroup;
use process::host;
use store::{Store, StudySummary};

/// The shortest time between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// The longest, whatever a look costs.
const LONGEST: Duration = Duration::from_secs(15);

/// A look may take this share of the time at most: one part in so many.
const SHARE: u32 = 200;

/// Without a change of the database, the machine and the process that runs the study are looked at this often.
const QUIET: Duration = Duration::from_secs(5);

/// Lines of a log.
const TAIL: usize = 200;

/// The thread that reads.
pub(super) struct Reader {
    wanted: Sender<Option<u64>>,
    inputs: Receiver<Input>,
}

impl Reader {
    /// Starts to read a study.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(super) fn start(store: Store, study: &StudySummary, tune: &str) -> Result<Reader, Failure> {
        let (wanted, asked) = mpsc::channel();
        let (tell, inputs) = mpsc::channel();
        let mut looker = Looker {
            watched: Watched::new(study),
            store,
            tune: tune.to_owned(),
            cgroup: OwnCgroup::own(),
            opened: None,
        };
        thread::Builder::new()
            .name("watch".into())
            .spawn(move || looker.run(&asked, &tell))
            .map_err(|e| Failure::internal(format!("cannot start threads: {e}")))?;
        Ok(Reader { wanted, inputs })
    }

    /// Asks for a trial's page to be read, now and as long as it is shown.
    pub(super) fn want(&self, number: Option<u64>) {
        // A thread that has ended has told why.
        let _ = self.wanted.send(number);
    }

    /// What has been read since.
    pub(super) fn news(&self) -> impl Iterator<Item = Input> {
        self.inputs.try_iter()
    }
}

struct Looker {
    store: Store,
    watched: Watched,
    tune: String,
    cgroup: Option<OwnCgroup>,
    /// The trial whose page is shown, and whether it may still change.
    opened: Option<(u64, bool)>,
}

impl Looker {
    /// Looks until nobody asks or listens any more.
    fn run(&mut self, asked: &Receiver<Option<u64>>, tell: &Sender<Input>) {
        let mut last: Option<Instant> = None;
        let mut next = Instant::now();
        loop {
            match asked.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(number) => {
                    self.opened = number.map(|number| (number, true));
                    if tell_all(tell, self.page()).is_err() {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let start = processor_time();
                    let quiet = last.is_some_and(|last| last.elapsed() < QUIET);
                    if self.store.foreign_change() || !quiet {
                        last = Some(Instant::now());
                        if tell_all(tell, Some(self.look())).is_err() {
                            return;
                        }
                    }
                    if tell_all(tell, self.page()).is_err() {
                        return;
                    }
                    let took = processor_time().saturating_sub(start);
                    next = Instant::now() + (took * SHARE).clamp(EVERY, LONGEST);
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn look(&mut self) -> Result<Input, Failure> {
        let study = self.watched.study(&self.store)?;
        let around = context(&self.store, &study, &self.tune);
        let cgroup = self.cgroup.as_ref();
        let host = |pids: &BTreeSet<u32>| look_at_host(&around, pids, cgroup);
        let snapshot = self.watched.look(&self.store, study, &around, host)?;
        Ok(Input::Snapshot(Arc::new(snapshot)))
    }

    /// The page of the trial that is shown, as long as it may change.
    fn page(&mut self) -> Option<Result<Input, Failure>> {
        let (number, changes) = self.opened?;
        if !changes {
            return None;
        }
        let dir = self.store.place().files();
        let detail = self
            .watched
            .detail(&self.store, number, |log| tail(&dir, log));
        let live = detail.as_ref().is_ok_and(|(_, live)| *live);
        self.opened = Some((number, live));
        Some(detail.map(|(detail, _)| Input::Detail(Arc::new(detail))))
    }
}

/// Tells what was read, or why it could not be; the error: nobody listens.
fn tell_all(
    tell: &Sender<Input>,
    read: Option<Result<Input, Failure>>,
) -> Result<(), mpsc::SendError<Input>> {
    match read {
        None => Ok(()),
        Some(read) => tell.send(read.unwrap_or_else(|e| Input::Unread(e.message))),
    }
}

/// This machine's memory, where the study is run here.
fn look_at_host(
    around: &Context,
    pids: &BTreeSet<u32>,
    cgroup: Option<&OwnCgroup>,
) -> Option<HostSample> {
    let owner = around.owner.as_ref()?;
    owner.is_here().then(|| host::look(pids, cgroup))?
}

/// The end of a log, whose path is relative to where logs lie.
fn tail(dir: &Path, log: &str) -> Section {
    let heading = format!("log ({log})");
    let lines = match logs::end(dir, log, TAIL) {
        Ok(Some(text)) => text.lines().map(str::to_owned).collect(),
        Ok(None) => {
            vec!["the log is not here: it is gone, or with the node that wrote it".to_owned()]
        }
        Err(e) => vec![format!("the log cannot be read: {e}")],
    };
    Section { heading, lines }
}

/// The processor time that this thread has used.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
