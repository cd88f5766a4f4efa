//! The worker: one process, one device context, many trials. It reports, and leaves the process
//! as soon as its context cannot be trusted; what that means for the trial is decided elsewhere.

mod best;
mod budget;
mod checkpoint;
mod crash;
mod guard;
mod inject;
mod libtorch;
mod link;
mod log;
mod memory;
mod reporter;

pub use libtorch::{AllocatorStats, Libtorch, NO_LIBTORCH};

use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use anyhow::Context;

use ::inject::InjectSpec;
use config::{Objective, StudySpec};
use device::Device;
use fault::cuda;
use fault::{ErrorReport, Phase};
use protocol::ALONE;
use protocol::{AttemptEvent, AttemptId, FromWorker, ToWorker, VERSION};
use task::{Ended, Task, TrialSpec};

use best::BestEpochWeights;
use checkpoint::Checkpoints;
pub use guard::{CapturedError, catch};
use link::Link;
use log::Output;
use memory::{Meter, Opened};
use reporter::LiveReporter;

/// After this many CUDA errors in a row the process is replaced, even where it seems healthy.
const MAX_CUDA_ERRORS: u32 = 3;

/// The hidden subcommand `worker`: serves the supervisor at the other end of standard input.
pub fn main(libtorch: &'static Libtorch) -> ExitCode {
    let status = serve(libtorch).unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "worker: {error:#}");
        1
    });
    guard::leave(status)
}

fn serve(libtorch: &'static Libtorch) -> anyhow::Result<i32> {
    log::unbuffer();
    memory::die_first();
    memory::keep_freed();
    let link = Arc::new(Link::take_stdin()?);
    crash::die_of_signals()?;
    guard::install(link.clone())?;
    let trace = std::env::var_os(fault::TRACE_OPERATIONS);
    (libtorch.start)(guard::terminated, trace.as_deref().map(Path::new));
    let inbox = link::read(link.clone(), guard::hung_up)?;
    run(libtorch, &link, &inbox, &mut log::Stdio)
}

/// Serves until told to leave, or until the process has to be replaced; gives its exit status.
fn run(
    libtorch: &'static Libtorch,
    link: &Link,
    inbox: &Receiver<ToWorker>,
    output: &mut dyn Output,
) -> anyhow::Result<i32> {
    guard::enter(Phase::Opening);
    link.send(&FromWorker::Hello {
        protocol: VERSION,
        version: env!("CARGO_PKG_VERSION").into(),
    })?;
    let (spec, device, rehearse) = match inbox.recv()? {
        ToWorker::Open {
            spec,
            device,
            rehearse,
        } => (spec, device, rehearse),
        ToWorker::Exit => return Ok(0),
        other @ (ToWorker::Run { .. } | ToWorker::Decided { .. }) => {
            anyhow::bail!("expected to open a task, was told {other:?}")
        }
    };
    let mut worker = match Worker::open(libtorch, link, inbox, output, &spec, device)? {
        Ok(worker) => worker,
        Err(status) => return Ok(status),
    };
    if let Some(status) = rehearse.map_or(Ok(None), |grant| worker.warm_up(grant))? {
        return Ok(status);
    }
    link.send(&FromWorker::Ready)?;
    loop {
        match inbox.recv()? {
            ToWorker::Run {
                trial,
                log,
                max_log_bytes,
                checkpoint,
                keep_best,
                grant,
            } => {
                let Objective { metric, direction } = &worker.objective;
                let candidates =
                    keep_best.map(|keep| BestEpochWeights::new(keep, &trial, metric, *direction));
                let files = AttemptFiles {
                    log: log.into(),
                    max_log_bytes,
                    checkpoints: checkpoint.map(|dir| Checkpoints::new(dir.into(), &trial)),
                    candidates,
                    grant,
                };
                if let Some(status) = worker.attempt(&trial, files)? {
                    return Ok(status);
                }
            }
            ToWorker::Exit => return Ok(0),
            // The answer to an epoch of a trial that did not wait for it.
            ToWorker::Decided { .. } => {}
            other @ ToWorker::Open { .. } => anyhow::bail!("told twice to open: {other:?}"),
        }
    }
}

fn open(libtorch: &Libtorch, spec: &StudySpec, device: Device) -> anyhow::Result<Box<dyn Task>> {
    let open = task::open(&spec.kind).or_else(|| (libtorch.open)(&spec.kind));
    open.with_context(|| format!("no task kind `{}`", spec.kind))?(spec, device)
}

/// Where an attempt writes, and what it may take.
struct AttemptFiles {
    log: PathBuf,
    max_log_bytes: u64,
    checkpoints: Option<Checkpoints>,
    /// Of weights that are kept.
    candidates: Option<BestEpochWeights>,
    /// What the process may take of its GPU's memory, in bytes.
    grant: Option<u64>,
}

/// An open task and everything that attempts need.
struct Worker<'a> {
    libtorch: &'static Libtorch,
    link: &'a Link,
    inbox: &'a Receiver<ToWorker>,
    output: &'a mut dyn Output,
    /// The device, as the supervisor counts.
    shown: Device,
    /// The device, as CUDA counts in this process.
    device: Device,
    /// Trials compute in this process: it has a context that can be lost.
    in_process: bool,
    meter: Meter,
    task: ManuallyDrop<Box<dyn Task>>,
    inject: Option<InjectSpec>,
    objective: Objective,
    /// In a row.
    cuda_errors: u32,
}

impl<'a> Worker<'a> {
    /// Opens the device and the task; or says with which status the process has to go.
    fn open(
        libtorch: &'static Libtorch,
        link: &'a Link,
        inbox: &'a Receiver<ToWorker>,
        output: &'a mut dyn Output,
        spec: &StudySpec,
        device: Device,
    ) -> anyhow::Result<Result<Worker<'a>, i32>> {
        // What the supervisor calls it stays its name for people.
        let shown = device;
        let device = match std::env::var_os(ALONE) {
            Some(_) => device.alone(),
            None => device,
        };
        let in_process = !spec.runs_programs();
        let opened = guard::catch(|| {
            let fallback_ops = &spec.operation.fallback_ops;
            let meter = match Meter::open(libtorch, device, in_process, fallback_ops)? {
                Opened::Open(meter) => meter,
                Opened::NotExpandable(error) => return Ok(Err(error)),
            };
            if let Some((capacity, context)) = meter.device() {
                link.send(&FromWorker::DeviceOpened { capacity, context })?;
            }
            Ok(Ok((meter, open(libtorch, spec, device)?)))
        });
        let (meter, task) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => {
                link.send(&FromWorker::NotExpandable { error })?;
                return Ok(Err(0));
            }
            Err(captured) => {
                let _ = writeln!(std::io::stderr(), "{}", captured.text);
                link.send(&FromWorker::Fatal(report(captured, Phase::Opening, None)))?;
                return Ok(Err(1));
            }
        };
        Ok(Ok(Worker {
            libtorch,
            link,
            inbox,
            output,
            in_process,
            meter,
            shown,
            device,
            objective: spec.objective.clone(),
            // Its tensors must not be dropped in a broken context; the process ends anyway.
            task: ManuallyDrop::new(task),
            inject: spec.operation.inject.clone(),
            cuda_errors: 0,
        }))
    }

    /// Rehearses before the first attempt, with `grant` bytes of the GPU; gives the exit status where
    /// the process must go. An error is nobody's, and one that the context survives is of no
    /// consequence: the first attempt then waits for what could not be done.
    fn warm_up(&mut self, grant: u64) -> anyhow::Result<Option<i32>> {
        self.meter.begin(Some(grant));
        let task = &mut **self.task;
        let warmed = guard::catch(|| task.warm_up());
        let sticky = |c: &CapturedError| cuda::sticky(&c.text);
        let health = match &warmed {
            Err(captured) if sticky(captured) => None,
            Ok(()) | Err(_) => Some(guard::catch(|| {
                (self.libtorch.empty_cache)()?;
                guard::checked(|| (self.libtorch.health)(self.device))
            })),
        };
        if let Err(captured) = &warmed {
            self.print(captured);
        }
        let lost = match (warmed, health) {
            (Ok(()) | Err(_), Some(Ok(()))) => None,
            (Ok(()) | Err(_), Some(Err(sick))) => Some(sick),
            (Err(captured), None) => Some(captured),
            (Ok(()), None) => None,
        };
        let Some(lost) = lost else {
            self.meter.end(None, true);
            return Ok(None);
        };
        self.die(
            report(lost, Phase::Opening, Some(false)),
            guard::CONTEXT_LOST,
        )
    }

    /// Runs an attempt and reports how it ended; gives the exit status where the process must go.
    fn attempt(&mut self, trial: &TrialSpec, files: AttemptFiles) -> anyhow::Result<Option<i32>> {
        let log = &files.log;
        let id = AttemptId {
            number: trial.number,
            purpose: trial.purpose,
            attempt: trial.attempt,
        };
        guard::enter(Phase::Seeding);
        let head = log::head(
            trial,
            self.shown,
            std::process::id(),
            messages::clock::now(),
        );
        // A disk that is full must not keep anybody from training.
        let begun = self.output.begin(log, &head);
        if let Err(error) = begun.or_else(|_| self.output.discard()) {
            // Neither the trial's fault nor the device's: as if the task could not be opened.
            let captured = CapturedError {
                program: None,
                panic: false,
                text: format!("log {}: {error}", log.display()),
            };
            return self.die(report(captured, Phase::Opening, None), 1);
        }
        let device = self.device;
        if self.in_process
            && let Err(captured) = guard::catch(|| prepare(self.libtorch, device, trial.seed))
        {
            self.print(&captured);
            let error = report(captured, Phase::Seeding, Some(false));
            return self.die(error, guard::CONTEXT_LOST);
        }
        self.meter.begin(files.grant);
        guard::enter(Phase::Training);
        let cap = log::Cap::new(log, files.max_log_bytes);
        let scene = inject::FaultContext {
            libtorch: self.libtorch,
            device,
            socket: self.link.as_raw_fd(),
        };
        let mut reporter = LiveReporter::new(
            self.link,
            self.inbox,
            id,
            cap,
            files.checkpoints,
            files.candidates,
            inject::Injected::of(self.inject.as_ref(), trial, scene),
        );
        let task = &mut **self.task;
        let result = guard::catch(|| {
            let ended = task.run(trial, &mut reporter)?;
            reporter.trained().map(|()| ended)
        });
        let told_to_leave = reporter.finish();
        if told_to_leave {
            return Ok(Some(0));
        }
        let leave = match result {
            Ok(ended) => self.ended(id, ended)?,
            Err(captured) => self.failed(id, captured)?,
        };
        guard::enter(Phase::Seeding);
        Ok(leave)
    }

    fn ended(&mut self, attempt: AttemptId, ended: Ended) -> anyhow::Result<Option<i32>> {
        self.cuda_errors = 0;
        self.measured(attempt, true)?;
        self.link.report(attempt, AttemptEvent::Ended(ended))?;
        Ok(None)
    }

    fn failed(
        &mut self,
        attempt: AttemptId,
        captured: CapturedError,
    ) -> anyhow::Result<Option<i32>> {
        self.print(&captured);
        if !self.in_process {
            self.measured(attempt, false)?;
            let error = report(captured, Phase::Training, None);
            self.link.report(attempt, AttemptEvent::Failed(error))?;
            return Ok(None);
        }
        if cuda::sticky(&captured.text) {
            // Nothing may touch the device any more, not even to ask how it is.
            self.measured(attempt, false)?;
            let error = report(captured, Phase::Training, None);
            return self.die(error, guard::CONTEXT_LOST);
        }
        // Out of memory is an answer of a context that works.
        let out_of_memory = cuda::out_of_memory(&captured.text);
        self.cuda_errors += u32::from(cuda::cuda_text(&captured.text) && !out_of_memory);
        let health = guard::catch(|| {
            if out_of_memory {
                (self.libtorch.empty_cache)()?;
            }
            guard::checked(|| (self.libtorch.health)(self.device))
        });
        if let Err(sick) = &health {
            self.print(sick);
        }
        self.measured(attempt, health.is_ok())?;
        // A check that found no memory has found a full device, not a lost context.
        let healthy = match &health {
            Ok(()) => Some(true),
            Err(sick) if cuda::out_of_memory(&sick.text) => None,
            Err(_) => Some(false),
        };
        let error = report(captured, Phase::Training, healthy);
        if health.is_err() || self.cuda_errors >= MAX_CUDA_ERRORS {
            return self.die(error, guard::CONTEXT_LOST);
        }
        self.link.report(attempt, AttemptEvent::Failed(error))?;
        Ok(None)
    }

    /// Tells what the attempt has used; the device is asked only where it is known to work.
    fn measured(&mut self, attempt: AttemptId, device_works: bool) -> anyhow::Result<()> {
        let program = self.task.peak_memory_mb();
        let usage = self.meter.end(program, device_works);
        self.link.report(attempt, AttemptEvent::Measured(usage))
    }

    /// Tells why the process leaves; gives its exit status.
    fn die(&self, error: ErrorReport, status: i32) -> anyhow::Result<Option<i32>> {
        self.link.send(&FromWorker::Fatal(error))?;
        Ok(Some(status))
    }

    /// The panic hook has printed panics already.
    fn print(&self, captured: &CapturedError) {
        if !captured.panic {
            let _ = writeln!(std::io::stderr(), "error: {}", captured.text);
        }
    }
}

/// What comes before a training: only a context that was broken already can fail here. It is
/// checked before the seeding, whose errors tch could only abort at, and after it, at the start of
/// the training.
fn prepare(libtorch: &Libtorch, device: Device, seed: u64) -> anyhow::Result<()> {
    guard::checked(|| (libtorch.health)(device))?;
    guard::checked(|| (libtorch.seed)(seed)).context("seeding")?;
    guard::checked(|| (libtorch.health)(device)).context("start of the training")
}

fn report(captured: CapturedError, phase: Phase, healthy: Option<bool>) -> ErrorReport {
    ErrorReport {
        phase,
        panic: captured.panic,
        text: captured.text,
        healthy,
        program: captured.program,
    }
}

#[cfg(test)]
mod tests;
