//! One trial again, outside its study: in a worker of its own, with nothing recorded.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use super::clock::Clock;
use super::event_channel::{self, EventReceiver};
use super::run_processes::RunProcesses;
use super::spawn::{Process, environment};
use super::{Event, Now, WorkerEvent, WorkerOptions};
use config::{Deadline, StudySpec};
use device::Device;
use fault::{ErrorReport, Phase};
use fault::{Evidence, Fault, FaultKind};
use files::plain;
use memory::Usage;
use messages::exit::Failure;
use process::orphans::ProcessMark;
use protocol::{AttemptEvent, AttemptId, FromWorker, KeepBest, ToWorker};
use task::Epoch;
use task::{Ended, Metrics, TrialSpec};

/// What is replayed, and how.
pub struct Replay {
    /// The study, as its last run resolved it.
    pub spec: StudySpec,
    /// The trial.
    pub trial: TrialSpec,
    /// Where to train.
    pub device: Device,
    /// libtorch threads.
    pub threads: usize,
    /// With blocking launches and full stacks, as a suspect's second attempt.
    pub blocking: bool,
    /// Where the worker prints.
    pub log: PathBuf,
    /// Where the weights of the best epoch go, in a directory of their own
    /// ([`ReplayResult::kept`]); `None`: they are not kept.
    pub keep: Option<PathBuf>,
    /// The library that has libtorch, where the worker needs it.
    pub library: Option<PathBuf>,
    /// What ends it before its own end.
    pub bounds: Bounds,
}

impl Replay {
    /// On the CPU with one thread, to its own end, and nothing is kept.
    pub fn new(spec: StudySpec, trial: TrialSpec, log: PathBuf) -> Replay {
        Replay {
            spec,
            trial,
            device: Device::Cpu,
            threads: 1,
            blocking: false,
            log,
            keep: None,
            library: None,
            bounds: Bounds::default(),
        }
    }
}

/// What ends a replay before its own end: by default nothing.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    /// How long it may take in all: then it ends with [`FaultKind::TimeLimit`].
    pub limit: Option<Duration>,
    /// Once it is true, the replay ends with [`FaultKind::Interrupted`].
    pub stop: Option<Arc<AtomicBool>>,
}

/// How it went.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayResult {
    /// Epochs reported, in order; no pruner ends a replay.
    pub epochs: Vec<Epoch>,
    /// A result of the task's own, which is no epoch's.
    pub returned: Option<Metrics>,
    /// What the training used of memory.
    pub usage: Option<Usage>,
    /// How many training steps the whole training takes, as far as the task says.
    pub planned: Option<u64>,
    /// The directory of the best epoch's weights and their description ([`weights::read`]), where
    /// they were to be kept and could be.
    pub kept: Option<PathBuf>,
    /// From the first training step to the end, and the steps of that time.
    pub speed: Option<(Duration, u64)>,
    /// The end.
    pub end: ReplayEnd,
}

/// How a replay ended.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplayEnd {
    /// By its own result.
    Completed,
    /// By a fault.
    Fault(Box<Fault>),
}

/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(3);

/// Runs the trial once; `heard` is called at each epoch.
///
/// # Errors
/// The worker cannot be started.
pub fn replay(replay: &Replay, heard: &mut dyn FnMut(&Epoch)) -> Result<ReplayResult, Failure> {
    let processes = RunProcesses::start(&mark(&replay.log)?, replay.spec.operation.host_memory);
    let (clock, events, inbox) = event_channel::start()?;
    let in_process = !replay.spec.runs_programs();
    let options = WorkerOptions {
        device: replay.device,
        threads: replay.threads,
        forensic: replay.blocking,
        // It has one worker: none could go on without them.
        expandable: false,
    };
    let environment = environment(options, in_process, replay.library.as_deref());
    let (mark, group) = processes.worker(0);
    let process = Process::spawn(0, &environment, &replay.log, mark, group, &events)
        .map_err(|e| Failure::internal(format!("a worker process could not be started: {e}")))?;
    let mut player = Replayer {
        replay,
        process,
        phase: Phase::Opening,
        heard,
        epochs: Vec::new(),
        ended: None,
        returned: None,
        usage: None,
        planned: None,
        first: None,
        speed: None,
        error: None,
        garbage: None,
        silent: None,
        hung_up: None,
        began: clock.now(),
        ended_early: None,
        clock,
    };
    let end = player.play(&inbox);
    Ok(ReplayResult {
        epochs: player.epochs,
        returned: player.returned,
        usage: player.usage,
        planned: player.planned,
        speed: player.speed,
        kept: replay.keep.as_deref().and_then(best_kept),
        end,
    })
}

/// The weights of the last epoch that was the best so far.
fn best_kept(dir: &Path) -> Option<PathBuf> {
    let best = weights::candidates(dir).into_iter().max_by_key(|f| f.epoch);
    best.map(|found| found.path)
}

/// What the worker starts is known by the log, which is this replay's own: the study may be running
/// at the same time.
fn mark(log: &Path) -> Result<ProcessMark, Failure> {
    let made = || -> std::io::Result<(u64, u64)> {
        let meta = plain::open(log, plain::For::Appending)?.metadata()?;
        Ok((meta.dev(), meta.ino()))
    };
    let id = made().map_err(|e| Failure::storage(format!("{}: {e}", log.display())))?;
    Ok(ProcessMark::study(id))
}

struct Replayer<'a> {
    replay: &'a Replay,
    process: Process,
    phase: Phase,
    heard: &'a mut dyn FnMut(&Epoch),
    epochs: Vec<Epoch>,
    ended: Option<Ended>,
    returned: Option<Metrics>,
    usage: Option<Usage>,
    planned: Option<u64>,
    /// When the first step was heard of, and how many had been done.
    first: Option<(Instant, u64)>,
    speed: Option<(Duration, u64)>,
    error: Option<ErrorReport>,
    garbage: Option<String>,
    silent: Option<Duration>,
    hung_up: Option<Now>,
    began: Now,
    /// When it was ended by its bounds.
    ended_early: Option<Now>,
    clock: Clock,
}

impl Replayer<'_> {
    fn play(&mut self, inbox: &EventReceiver) -> ReplayEnd {
        let mut since = self.clock.now();
        loop {
            let (came, event) = match inbox.recv_timeout(Duration::from_secs(1)) {
                Ok((came, event)) => (came, Ok(event)),
                Err(none) => (self.clock.now(), Err(none)),
            };
            self.keep_bounds(came);
            match event {
                Ok(Event::Worker(_, WorkerEvent::Received(message))) => {
                    since = came;
                    self.take(message);
                }
                Ok(Event::Worker(_, WorkerEvent::Garbled(error))) => {
                    self.garbage = Some(error);
                    self.process.kill();
                }
                Ok(Event::Worker(_, WorkerEvent::Exited(info))) => {
                    return self.judge(Evidence {
                        death: info.death,
                        tail: info.tail,
                        stopped: info.stopped,
                        oom_kills: info.oom_kills,
                        ..Evidence::default()
                    });
                }
                Ok(Event::Worker(_, WorkerEvent::Stopped)) => self.process.resume(),
                Ok(Event::Worker(_, WorkerEvent::HungUp)) => self.hung_up = Some(came),
                Ok(_) | Err(RecvTimeoutError::Timeout) => self.watch(since, came),
                Err(RecvTimeoutError::Disconnected) => return self.judge(Evidence::default()),
            }
        }
    }

    /// Ends a worker that has used up its time, or is not wanted any more.
    fn keep_bounds(&mut self, now: Now) {
        match self.ended_early {
            Some(at) if now.saturating_sub(at) > GRACE => self.process.kill(),
            Some(_) => {}
            None if self.overtime(now).is_some() || self.stopped() => {
                self.ended_early = Some(now);
                self.process.terminate();
            }
            None => {}
        }
    }

    /// The limit, where it is used up.
    fn overtime(&self, now: Now) -> Option<Duration> {
        let limit = self.replay.bounds.limit;
        limit.filter(|limit| now.saturating_sub(self.began) > *limit)
    }

    fn stopped(&self) -> bool {
        let stop = self.replay.bounds.stop.as_ref();
        stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Ends a worker that is silent for too long, by what has come until now.
    fn watch(&mut self, since: Now, now: Now) {
        let silence = now.saturating_sub(since);
        let hung_up = |at: Now| now.saturating_sub(at) > GRACE;
        if self.hung_up.is_some_and(hung_up) && self.garbage.is_none() {
            self.garbage = Some("it closed its socket and lived on".into());
            self.process.kill();
        }
        let policy = &self.replay.spec.operation.supervisor;
        let limit = match policy.deadline {
            _ if self.phase == Phase::Opening => Some(policy.start_deadline),
            Deadline::Off => None,
            Deadline::Fixed(limit) => Some(limit),
            Deadline::Learned { ceiling, .. } => Some(ceiling),
        };
        let Some(limit) = limit else { return };
        if silence > limit + GRACE {
            self.process.kill();
        } else if silence > limit && self.silent.is_none() {
            self.silent = Some(silence);
            self.process.terminate();
        }
    }

    fn take(&mut self, message: FromWorker) {
        let answer = match message {
            FromWorker::Hello { .. } => Some(ToWorker::Open {
                spec: Box::new(self.replay.spec.clone()),
                device: self.replay.device,
                rehearse: None,
            }),
            FromWorker::Ready => {
                self.phase = Phase::Training;
                self.process.begin(self.replay.log.clone());
                Some(ToWorker::Run {
                    trial: Box::new(self.replay.trial.clone()),
                    log: self.replay.log.to_string_lossy().into_owned(),
                    max_log_bytes: self.replay.spec.operation.max_log_bytes,
                    checkpoint: None,
                    keep_best: self.replay.keep.as_deref().map(|dir| KeepBest {
                        directory: dir.to_string_lossy().into_owned(),
                        better_than: None,
                    }),
                    grant: None,
                })
            }
            FromWorker::Attempt(_, event) => self.on_attempt(event),
            FromWorker::Fatal(error) => {
                self.error = Some(error);
                None
            }
            FromWorker::DeviceOpened { .. } | FromWorker::NotExpandable { .. } => None,
        };
        if let Some(answer) = answer {
            self.process.send(answer);
        }
    }

    /// Notes what has become of the attempt; gives the answer.
    fn on_attempt(&mut self, event: AttemptEvent) -> Option<ToWorker> {
        match event {
            AttemptEvent::EpochFinished(epoch) => {
                (self.heard)(&epoch);
                self.epochs.push(epoch);
                return Some(ToWorker::Decided { prune: false });
            }
            AttemptEvent::Ended(ended) => {
                let steps = self.replay.trial.rehearse.map(u64::from);
                if let (Some((at, done)), Some(steps)) = (self.first, steps) {
                    self.speed = Some((at.elapsed(), steps.saturating_sub(done)));
                }
                self.ended = Some(ended);
                return Some(ToWorker::Exit);
            }
            AttemptEvent::Failed(error) => {
                self.error = Some(error);
                return Some(ToWorker::Exit);
            }
            AttemptEvent::Stepped(steps) => {
                self.first.get_or_insert((Instant::now(), steps));
            }
            AttemptEvent::Planned(steps) => self.planned = Some(steps),
            AttemptEvent::Measured(usage) => self.usage = Some(usage),
            AttemptEvent::Resumed(_) | AttemptEvent::KeepsState | AttemptEvent::Warned(_) => {}
        }
        None
    }

    fn judge(&mut self, evidence: Evidence) -> ReplayEnd {
        match self.ended.take() {
            Some(Ended::Returned { metrics }) => {
                self.returned = Some(metrics);
                ReplayEnd::Completed
            }
            Some(Ended::Completed | Ended::Pruned) => ReplayEnd::Completed,
            Some(Ended::Diverged { at }) => {
                ReplayEnd::Fault(Box::new(Fault::new(FaultKind::Diverged, at)))
            }
            None => ReplayEnd::Fault(Box::new(fault::classify(&Evidence {
                error: self.error.take(),
                garbage: self.garbage.take(),
                silent: self.silent,
                asked: self.ended_early.is_some() && self.stopped(),
                overtime: self.ended_early.and_then(|at| self.overtime(at)),
                phase: Some(self.phase),
                ..evidence
            }))),
        }
    }
}

/// Where a replay of an attempt prints.
pub fn replay_log(logs: &Path, attempt: AttemptId, time: jiff::Timestamp) -> PathBuf {
    let time = time.strftime("%Y%m%dT%H%M%SZ");
    logs.join(format!("trial-{:06}-replay-{time}.log", attempt.number))
}
