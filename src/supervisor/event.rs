//! What happens to the supervisor, and what it wants done.

use std::time::Duration;

use std::collections::BTreeMap;

use device::{Device, Sample};
use fault::Death;
use messages::exit::Exit;
use protocol::{FromWorker, ToWorker};
use search::sampler::Proposal;
use search::study::{Job, Updates};
use store::{Changes, StopAsked, Write};
use weights::{Leader, Unheard};

/// Monotonic time since the run began.
pub type Now = Duration;

/// A worker's number, unique within a run.
pub type WorkerId = u64;

/// Something happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// To a worker.
    Worker(WorkerId, WorkerEvent),
    /// To a batch of writes, by its number.
    Batch(u64, BatchEvent),
    /// The database cannot be written. From now on each batch that cannot be written is answered
    /// by `Spooled` or `SpoolFailed`, too.
    StorageFailed {
        /// The storage's error.
        error: String,
        /// Whether it may pass by itself.
        heals: bool,
        /// The file in which results are kept meanwhile.
        spool: String,
    },
    /// The database can be written again, and every batch has been answered by `Written` or
    /// `Overtaken`.
    StorageRecovered,
    /// Other programs have changed the study. Also that they have not, at the first look after they had taken numbers.
    StudyChanged(Changes),
    /// A look at the machine.
    Sampled(Sample),
    /// The driver reported an Xid error of a GPU.
    Xid {
        /// NVML's index of the GPU.
        gpu: usize,
        /// The code.
        code: u64,
    },
    /// NVML is absent, hangs or has failed, for this reason: no samples of GPUs come (any more).
    ProbeLost(String),
    /// The answer to [`Action::Propose`].
    Proposed {
        /// The number of the trial that it was asked for.
        number: u64,
        /// The point; `None` where none was found that satisfies the constraints.
        proposal: Option<Proposal>,
        /// Every point that the sampler would propose had been tried or was pending.
        exhausted: bool,
    },
    /// A signal asks to stop.
    StopRequested {
        /// What runs is put back at once, and more is not asked for (SIGQUIT); else each request (SIGINT, SIGTERM) is
        /// a step further.
        now: bool,
    },
    /// `tune stop --all` asks to stop, through the database. However often: it is no step further, as a signal is.
    StopAsked(StopAsked),
    /// Files have changed that trials are still to be trained with: the program's, or those of rows.
    FilesChanged {
        /// Their names.
        files: Vec<String>,
    },
    /// SIGHUP: the terminal is gone.
    TerminalClosed,
    /// Nothing but time.
    Ticked,
}

/// What happens to a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerEvent {
    /// The process was started, with this process id.
    Spawned(u32),
    /// The process could not be started, for this reason.
    SpawnFailed(String),
    /// It sent a message.
    Received(FromWorker),
    /// It sent what is no message, or does not read ours; what was wrong.
    Garbled(String),
    /// It closed its end of the socket. Its process may live on.
    HungUp,
    /// Its process was stopped (SIGSTOP, a debugger).
    Stopped,
    /// Its process is gone, and so is its process group. Its messages came before.
    Exited(ExitInfo),
}

/// What the system says about the end of a process.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExitInfo {
    /// How it ended; `None`: it was not observed to end.
    pub death: Option<Death>,
    /// The end of what it printed.
    pub tail: String,
    /// It was in state T when it was told to end.
    pub stopped: bool,
    /// OOM kills in its cgroup since it was started.
    pub oom_kills: u64,
}

impl ExitInfo {
    /// A death of which nothing else is known.
    pub fn of(death: Death) -> ExitInfo {
        ExitInfo {
            death: Some(death),
            ..ExitInfo::default()
        }
    }
}

/// What happens to a batch of writes.
#[derive(Debug, Clone, PartialEq)]
pub enum BatchEvent {
    /// It is durable.
    Written,
    /// It is durable, but not as it was asked for, because of what another program got ahead of: it had taken a trial's
    /// number, claimed a waiting trial, ended a trial of ours or deleted it.
    Overtaken {
        /// The writes that were left out.
        late: Vec<Write>,
        /// New trials that got other numbers, by the number asked for.
        renumbered: BTreeMap<u64, u64>,
        /// What others had done to the study by then.
        changes: Changes,
    },
    /// What it tells of the past is durable in the spool; its starts are not.
    Spooled,
    /// It is only in memory, because the spool cannot be written either, with this error.
    SpoolFailed(String),
}

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// With a worker.
    Worker(WorkerId, WorkerAction),
    /// Keep the weights of these trials, the best first, as far as they are there, and no others but what another node may
    /// have kept. All have ended durably. Comes before the `Forget` of a trial that is one of them.
    KeepWeights(Vec<Leader>, Unheard),
    /// The trial or repeat has ended, durably: delete its checkpoint and what else it has left.
    Forget(Job),
    /// Write a batch durably; answered by `Written` or `Overtaken` once the database can be
    /// written.
    Write {
        /// Its number; batches are written in order.
        batch: u64,
        /// What to write.
        writes: Vec<Write>,
    },
    /// Write with the next batch, or within a fraction of a second.
    WriteSoon(Write),
    /// Ask the sampler for a point; answered by `Proposed`.
    Propose {
        /// The number of the trial.
        number: u64,
        /// What has become of the study's trials since the question before.
        news: Updates,
        /// The seed of the sampler's generators.
        seed: u64,
    },
    /// Tell people.
    Report(report::Event),
    /// The run is over.
    Finish {
        /// Exit code.
        exit: Exit,
        /// Why, in words.
        reason: String,
    },
}

/// What is done with a worker. Signals go to its whole process group.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerAction {
    /// Start it.
    Spawn(WorkerOptions),
    /// Send it a message.
    Send(ToWorker),
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
    /// SIGCONT.
    Continue,
    /// The process does not die: wait for it no longer. `Exited` may never come.
    Abandon,
}

/// How a worker is to be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerOptions {
    /// Where it trains.
    pub device: Device,
    /// libtorch threads.
    pub threads: usize,
    /// With blocking launches and full stacks, to find the place of a fault.
    pub forensic: bool,
    /// With an allocator that uses expandable segments, unless the user says otherwise.
    pub expandable: bool,
}
