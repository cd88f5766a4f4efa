//! Carries out what the core decides: processes, sockets, the clock, the writer, the report.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::clock::Clock;
use super::core::Core;
use super::disk_tasks::{DiskTask, DiskThread, RunFiles};
use super::event_channel::{EventReceiver, EventSender};
use super::machine::Machine;
use super::proposer::{Proposer, ProposerThread};
use super::run_processes::RunProcesses;
use super::spawn::{Process, environment};
use super::spool::Spool;
use super::watchdog::Watchdog;
use super::writer::{Request, RunId, Writer};
use super::{Action, Event, WorkerAction, WorkerEvent, WorkerId, WorkerOptions};
use files::paths::logs_dir;
use files::watched::WatchedFile;
use messages::exit::{Exit, Failure};
use protocol::{KeepBest, ToWorker};
use report::Sink;
use store::{KnownTrials, Store};

/// What a run needs beside its core.
pub struct Driver {
    /// Where its files are.
    pub files: RunFiles,
    /// What is recorded of it.
    pub run: RunId,
    /// Whether any slot has a GPU.
    pub gpus: bool,
    /// Whether trials compute in the workers themselves.
    pub in_process: bool,
    /// The library that has libtorch, where workers need it.
    pub library: Option<PathBuf>,
    /// What surrounds its workers.
    pub processes: Arc<RunProcesses>,
    /// Files that end the run where they change.
    pub watched: Vec<WatchedFile>,
    /// Where events go.
    pub sink: Box<dyn Sink>,
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
        proposer: Proposer,
        (store, seen, spool): (Store, KnownTrials, Spool),
        clock: Clock,
        (events, inbox): (EventSender, EventReceiver),
    ) -> Result<Exit, Failure> {
        let internal = |e: std::io::Error| Failure::internal(format!("cannot start threads: {e}"));
        let (requests, todo) = mpsc::channel();
        let writer = Writer::new(store, self.run.clone(), seen, spool, events.clone());
        let writing = thread::Builder::new()
            .name("writer".into())
            .spawn(move || writer.run(&todo))
            .map_err(internal)?;
        let disk = DiskThread::start(self.files.clone()).map_err(internal)?;
        let proposer = ProposerThread::start(proposer, events.clone()).map_err(internal)?;
        let mut executor = Executor {
            disk,
            proposer,
            clock,
            machine: Machine::watch(self.gpus, &events),
            driver: self,
            workers: BTreeMap::new(),
            events,
            requests: Some(requests),
        };
        let (exit, reason) = executor.work(&mut core, &inbox);
        executor.requests = None;
        let _ = writing.join();
        // What is left to do on the disk is done before the run ends.
        drop(executor);
        if matches!(exit, Exit::Done | Exit::Stopped | Exit::Budget) {
            return Ok(exit);
        }
        Err(Failure::new(exit, reason))
    }
}

struct Executor {
    driver: Driver,
    clock: Clock,
    machine: Machine,
    disk: DiskThread,
    proposer: ProposerThread,
    workers: BTreeMap<WorkerId, Process>,
    events: EventSender,
    requests: Option<Sender<Request>>,
}

impl Executor {
    fn work(&mut self, core: &mut Core, inbox: &EventReceiver) -> (Exit, String) {
        let (mut came, mut event) = (self.clock.now(), Event::Ticked);
        let mut watchdog = Watchdog::begin();
        loop {
            watchdog.alive(self.clock.now());
            if let Event::Worker(worker, WorkerEvent::Exited(_)) = &event {
                self.drop_worker(*worker);
            }
            core.suspended(self.clock.away());
            // What the event itself asks for does not wait for what is started next.
            let at_once = core.on_event(event, came, self.clock.now());
            if let Some(end) = self.perform_all(at_once) {
                return end;
            }
            if let Some(changed) = self.files_changed() {
                let now = self.clock.now();
                let asked = core.on_event(changed, now, now);
                if let Some(end) = self.perform_all(asked) {
                    return end;
                }
            }
            let next = core.start_work(self.clock.now());
            if let Some(end) = self.perform_all(next) {
                return end;
            }
            if self.proposer.is_gone() {
                return (Exit::Internal, "the sampler has panicked".into());
            }
            let now = self.clock.now();
            let wait = core
                .next_deadline()
                .map_or(TICK, |at| at.saturating_sub(now).min(TICK));
            (came, event) = match inbox.recv_timeout(wait) {
                Ok(next) => next,
                // Nothing that came is left unheard: time may be judged by.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    (self.clock.now(), Event::Ticked)
                }
            };
        }
    }

    /// Which of the files that trials depend on have changed since they were read; told once.
    fn files_changed(&mut self) -> Option<Event> {
        let changed = self
            .driver
            .watched
            .iter_mut()
            .filter_map(|file| file.has_changed().then(|| file.name.clone()));
        let files: Vec<String> = changed.collect();
        if files.is_empty() {
            return None;
        }
        self.driver.watched.clear();
        Some(Event::FilesChanged { files })
    }

    /// Carries actions out in their order; how the run ends, if one of them says so.
    fn perform_all(&mut self, actions: Vec<Action>) -> Option<(Exit, String)> {
        actions.into_iter().find_map(|action| self.perform(action))
    }

    fn perform(&mut self, action: Action) -> Option<(Exit, String)> {
        match action {
            Action::Worker(worker, action) => self.act_on(worker, action),
            Action::KeepWeights(leaders, unheard) => {
                self.disk.ask(DiskTask::KeepWeights(leaders, unheard));
            }
            Action::Forget(job) => self.disk.ask(DiskTask::Forget(job)),
            Action::Write { batch, writes } => self.ask(Request::Batch { batch, writes }),
            Action::WriteSoon(write) => self.ask(Request::Soon(write)),
            Action::Propose { number, news, seed } => self.proposer.ask(number, news, seed),
            Action::Report(event) => self.report(&event),
            Action::Finish { exit, reason } => {
                tracing::info!(exit = exit.code(), reason, "run finished");
                return Some((exit, reason));
            }
        }
        None
    }

    fn act_on(&mut self, worker: WorkerId, action: WorkerAction) {
        match action {
            WorkerAction::Spawn(options) => self.spawn(worker, options),
            WorkerAction::Send(message) => self.send(worker, message),
            WorkerAction::Terminate => self.signal(worker, Process::terminate),
            WorkerAction::Kill => self.signal(worker, Process::kill),
            WorkerAction::Continue => self.signal(worker, Process::resume),
            WorkerAction::Abandon => self.drop_worker(worker),
        }
    }

    fn signal(&self, worker: WorkerId, signal: fn(&Process)) {
        self.workers.get(&worker).map(signal);
    }

    fn spawn(&mut self, worker: WorkerId, options: WorkerOptions) {
        let library = self.driver.library.as_deref();
        let environment = environment(options, self.driver.in_process, library);
        let log = self.worker_log(worker);
        self.disk.ask(DiskTask::LogBegins(log.clone()));
        let (mark, group) = self.driver.processes.worker(worker);
        let event = match Process::spawn(worker, &environment, &log, mark, group, &self.events) {
            Ok(process) => {
                let pid = process.pid();
                self.machine.started(pid);
                self.workers.insert(worker, process);
                Event::Worker(worker, WorkerEvent::Spawned(pid))
            }
            Err(error) => {
                self.disk.ask(DiskTask::LogEnds(log));
                Event::Worker(
                    worker,
                    WorkerEvent::SpawnFailed(format!(
                        "a worker process could not be started: {error}"
                    )),
                )
            }
        };
        let _ = self.events.send(event);
    }

    fn drop_worker(&mut self, worker: WorkerId) {
        self.disk.ask(DiskTask::LogEnds(self.worker_log(worker)));
        if let Some(process) = self.workers.remove(&worker) {
            self.disk.ask(DiskTask::LogEnds(process.log()));
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
                let absolute = |path: &str| self.driver.files.dir.join(path);
                let log = absolute(&log);
                self.disk.ask(DiskTask::LogBegins(log.clone()));
                let before = process.begin(log.clone());
                // Where it printed before its first attempt, it may print until its end.
                if before != self.worker_log(worker) {
                    self.disk.ask(DiskTask::LogEnds(before));
                }
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
        process.send(message);
    }

    fn ask(&mut self, request: Request) {
        if let Some(requests) = &self.requests {
            // The writer lives until the requests end.
            let _ = requests.send(request);
        }
    }

    fn report(&mut self, event: &report::Event) {
        log_event(event);
        self.driver.sink.handle(event, messages::clock::now());
    }

    /// Where a worker prints before its first attempt.
    fn worker_log(&self, worker: WorkerId) -> PathBuf {
        let name = format!("run-{}-worker-{worker}.log", self.driver.run.run_id);
        logs_dir(&self.driver.files.dir, &self.driver.files.study).join(name)
    }
}

/// Notes a routine event, of which people are not told, for `-v` and the run's log.
pub(super) fn log_event(event: &report::Event) {
    use report::Event::{EpochFinished, GpuSampled, TrialStepped};
    match report::routine_text(event) {
        Some(text)
            if matches!(
                event,
                EpochFinished { .. } | TrialStepped { .. } | GpuSampled(_)
            ) =>
        {
            tracing::debug!("{text}");
        }
        Some(text) => tracing::info!("{text}"),
        None => {}
    }
}
