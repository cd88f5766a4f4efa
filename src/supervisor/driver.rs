//! Carries out what the core decides: processes, sockets, the clock, the writer, the report.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::cgroup::Groups;
use super::core::{Core, checkpoint_name};
use super::machine::Machine;
use super::spawn::{Process, Setting, environment};
use super::spool::Spool;
use super::strays::Family;
use super::writer::{Request, RunId, Writer};
use super::{Action, Event, Now, WorkerId};
use crate::exit::{Exit, Failure};
use crate::kept;
use crate::protocol::{KeepBest, ToWorker};
use crate::report::{self, Sink};
use crate::store::Store;
use crate::study::Job;

/// What a run needs beside its core.
pub struct Driver {
    /// `tune.db.d`.
    pub dir: PathBuf,
    /// The study's name.
    pub study: String,
    /// The study's row.
    pub study_id: i64,
    /// The run's row.
    pub run_id: i64,
    /// All kept weights together, in bytes.
    pub max_kept_bytes: u64,
    /// Whether any slot has a GPU.
    pub gpus: bool,
    /// Whether trials compute in the workers themselves.
    pub in_process: bool,
    /// What its workers, and all that they start, are known by.
    pub family: Family,
    /// Their cgroup, where they have one.
    pub groups: Option<Arc<Groups>>,
    /// When the run was recorded.
    pub started: String,
    /// Where events go.
    pub sink: Box<dyn Sink>,
}

/// Time since the run began, without the times in which this process did not run (SIGSTOP, a
/// suspended machine): the workers' messages of these times are still unread, and none of them was
/// silent.
struct Clock {
    last: Instant,
    now: Now,
}

/// A longer pause than this between two looks at the clock, which a tick separates, means that the
/// process did not run.
const STOPPED: Duration = Duration::from_millis(1_500);

/// What such a pause counts for.
const CREEP: Duration = Duration::from_millis(100);

impl Clock {
    fn new() -> Clock {
        Clock {
            last: Instant::now(),
            now: Now::ZERO,
        }
    }

    /// The time now, and how long the process did not run since the last look.
    fn now(&mut self) -> (Now, Now) {
        let passed = self.last.elapsed();
        self.last += passed;
        if passed < STOPPED {
            self.now += passed;
            return (self.now, Now::ZERO);
        }
        tracing::warn!(?passed, "the supervisor did not run");
        // A little, so that time goes on even where every look comes late.
        self.now += CREEP;
        (self.now, passed - CREEP)
    }
}

/// The longest wait between two looks at the clock.
const TICK: Duration = Duration::from_secs(1);

impl Driver {
    /// Runs the core to its end.
    ///
    /// # Errors
    /// Storage failed, the breaker tripped, or the threads that a run needs could not be made.
    pub fn run(
        self,
        mut core: Core,
        store: Store,
        spool: Spool,
        (events, inbox): (Sender<Event>, Receiver<Event>),
    ) -> Result<Exit, Failure> {
        let internal = |e: std::io::Error| Failure::internal(format!("cannot start threads: {e}"));
        let (requests, todo) = mpsc::channel();
        let run = RunId {
            study: self.study.clone(),
            study_id: self.study_id,
            run_id: self.run_id,
            started: self.started.clone(),
        };
        let writer = Writer::new(store, run, spool, events.clone());
        let writing = thread::Builder::new()
            .name("writer".into())
            .spawn(move || writer.run(&todo))
            .map_err(internal)?;
        let mut hands = Hands {
            machine: Machine::watch(self.gpus, &events),
            driver: self,
            workers: BTreeMap::new(),
            events,
            requests: Some(requests),
        };
        let (exit, reason) = hands.work(&mut core, &inbox);
        hands.requests = None;
        let _ = writing.join();
        match exit {
            Exit::Done | Exit::Stopped | Exit::Budget => Ok(exit),
            Exit::Internal
            | Exit::BadInput
            | Exit::Breaker
            | Exit::Held
            | Exit::Storage
            | Exit::Differs
            | Exit::Device => Err(Failure::new(exit, reason)),
        }
    }
}

struct Hands {
    driver: Driver,
    machine: Machine,
    workers: BTreeMap<WorkerId, Process>,
    events: Sender<Event>,
    requests: Option<Sender<Request>>,
}

impl Hands {
    fn work(&mut self, core: &mut Core, inbox: &Receiver<Event>) -> (Exit, String) {
        let mut clock = Clock::new();
        let mut event = Event::Ticked;
        loop {
            if let Event::Exited { worker, .. } = &event {
                self.let_go(*worker);
                self.drop_empty_log(*worker);
            }
            let (now, slept) = clock.now();
            core.slept(slept);
            for action in core.handle(event, now) {
                if let Some(end) = self.perform(action) {
                    return end;
                }
            }
            let wait = core
                .next_deadline()
                .map_or(TICK, |at| at.saturating_sub(now).min(TICK));
            event = match inbox.recv_timeout(wait) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Event::Ticked,
            };
        }
    }

    fn perform(&mut self, action: Action) -> Option<(Exit, String)> {
        match action {
            Action::Spawn {
                worker,
                device,
                threads,
                forensic,
                expandable,
            } => {
                let setting = Setting {
                    device,
                    threads,
                    forensic,
                    in_process: self.driver.in_process,
                    expandable,
                };
                self.spawn(worker, &environment(setting));
            }
            Action::Send { worker, message } => self.send(worker, message),
            Action::Terminate { worker } => {
                if let Some(process) = self.workers.get(&worker) {
                    process.terminate();
                }
            }
            Action::Kill { worker } => {
                if let Some(process) = self.workers.get(&worker) {
                    process.kill();
                }
            }
            Action::Continue { worker } => {
                if let Some(process) = self.workers.get(&worker) {
                    process.go_on();
                }
            }
            Action::Abandon { worker } => self.let_go(worker),
            Action::KeepWeights { leaders } => kept::settle(
                &self.driver.dir,
                &self.driver.study,
                &leaders,
                self.driver.max_kept_bytes,
            ),
            Action::Forget { job } => self.forget(job),
            Action::Write { batch, writes } => self.ask(Request::Batch { batch, writes }),
            Action::WriteSoon { write } => self.ask(Request::Soon(write)),
            Action::Report(event) => self.report(&event),
            Action::Finish { exit, reason } => {
                tracing::info!(exit = exit.code(), reason, "run finished");
                return Some((exit, reason));
            }
        }
        None
    }

    fn spawn(&mut self, worker: WorkerId, environment: &[(String, String)]) {
        let log = self.worker_log(worker);
        let family = self.driver.family.worker(worker);
        let group = self.driver.groups.as_ref().and_then(|g| g.worker(worker));
        let event = match Process::spawn(worker, environment, &log, family, group, &self.events) {
            Ok(process) => {
                let pid = process.pid();
                self.machine.started(pid);
                self.workers.insert(worker, process);
                Event::Spawned { worker, pid }
            }
            Err(error) => Event::SpawnFailed {
                worker,
                error: format!("a worker process could not be started: {error}"),
            },
        };
        let _ = self.events.send(event);
    }

    fn let_go(&mut self, worker: WorkerId) {
        if let Some(process) = self.workers.remove(&worker) {
            self.machine.ended(process.pid());
        }
    }

    fn send(&mut self, worker: WorkerId, message: ToWorker) {
        let Some(process) = self.workers.get(&worker) else {
            return;
        };
        let message = match message {
            ToWorker::Run {
                trial,
                log,
                max_log_bytes,
                checkpoint,
                keep_best,
                grant,
            } => {
                let absolute = |path: &str| self.driver.dir.join(path);
                let log = absolute(&log);
                process.begin(log.clone());
                ToWorker::Run {
                    trial,
                    log: log.to_string_lossy().into_owned(),
                    max_log_bytes,
                    checkpoint: checkpoint.map(|c| absolute(&c).to_string_lossy().into_owned()),
                    keep_best: keep_best.map(|keep| KeepBest {
                        directory: absolute(&keep.directory).to_string_lossy().into_owned(),
                        ..keep
                    }),
                    grant,
                }
            }
            other @ (ToWorker::Open { .. } | ToWorker::Decided { .. } | ToWorker::Exit) => other,
        };
        if let Err(error) = process.send(&message) {
            // A closed socket means that the process is ending, which is an event of its own; a
            // full one that it does not read.
            tracing::warn!(worker, %error, "a message could not be sent");
            if error.kind() == std::io::ErrorKind::WouldBlock {
                let error = "it does not read its messages".to_owned();
                let _ = self.events.send(Event::Garbled { worker, error });
            }
        }
    }

    fn forget(&self, job: Job) {
        let checkpoint = self
            .driver
            .dir
            .join(checkpoint_name(&self.driver.study, job));
        match std::fs::remove_dir_all(&checkpoint) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(?checkpoint, %error, "a checkpoint could not be deleted"),
        }
    }

    fn ask(&mut self, request: Request) {
        if let Some(requests) = &self.requests {
            // The writer lives until the requests end.
            let _ = requests.send(request);
        }
    }

    fn report(&mut self, event: &report::Event) {
        match event {
            // Their trial's end says it all again.
            report::Event::TrialStepped { .. }
            | report::Event::EpochFinished { .. }
            | report::Event::TrialStarted { .. }
            | report::Event::RepeatStarted { .. } => tracing::debug!(?event),
            report::Event::RunStarted { .. }
            | report::Event::WorkerStarted { .. }
            | report::Event::TrialFinished { .. }
            | report::Event::RepeatFinished { .. }
            | report::Event::WinnerSelected { .. }
            | report::Event::Fault { .. }
            | report::Event::WorkerStopped { .. }
            | report::Event::NewBest(_)
            | report::Event::Warned { .. }
            | report::Event::StudyForked(_)
            | report::Event::RunFinished { .. } => tracing::info!(?event),
        }
        self.driver.sink.handle(event, jiff::Timestamp::now());
    }

    /// Where a worker prints before its first attempt.
    fn worker_log(&self, worker: WorkerId) -> PathBuf {
        let name = format!("run-{}-worker-{worker}.log", self.driver.run_id);
        logs_dir(&self.driver.dir, &self.driver.study).join(name)
    }

    /// A worker that had nothing to say leaves nothing behind.
    fn drop_empty_log(&self, worker: WorkerId) {
        let log = self.worker_log(worker);
        if std::fs::metadata(&log).is_ok_and(|m| m.len() == 0) {
            let _ = std::fs::remove_file(log);
        }
    }
}

/// Where a study's logs are.
pub fn logs_dir(dir: &Path, study: &str) -> PathBuf {
    dir.join("logs").join(study)
}
