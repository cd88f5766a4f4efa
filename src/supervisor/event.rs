//! What happens to the supervisor, and what it wants done.

use std::time::Duration;

use crate::facts::Unstarted;
use device::Device;
use device::Sample;
use fault::Death;
use messages::exit::Exit;
use protocol::{FromWorker, ToWorker};
use search::sampler::Proposal;
use search::study::{Job, News};
use store::{Changes, Write};
use weights::Leader;

/// Monotonic time since the run began.
pub type Now = Duration;

/// A worker's number, unique within a run.
pub type WorkerId = u64;

/// Something happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The process was started.
    Spawned {
        /// Which.
        worker: WorkerId,
        /// Process id.
        pid: u32,
    },
    /// The process could not be started.
    SpawnFailed {
        /// Which.
        worker: WorkerId,
        /// Why.
        error: String,
    },
    /// A worker sent a message.
    Received {
        /// Which.
        worker: WorkerId,
        /// The message.
        message: FromWorker,
    },
    /// A worker sent what is no message.
    Garbled {
        /// Which.
        worker: WorkerId,
        /// What was wrong.
        error: String,
    },
    /// A worker closed its end of the socket. Its process may live on.
    HungUp {
        /// Which.
        worker: WorkerId,
    },
    /// A worker's process was stopped (SIGSTOP, a debugger).
    Stopped {
        /// Which.
        worker: WorkerId,
    },
    /// A worker's process is gone, and so is its process group. Its messages came before.
    Exited {
        /// Which.
        worker: WorkerId,
        /// How.
        death: Death,
        /// The end of what it printed.
        tail: String,
        /// It was in state T when it was told to end.
        stopped: bool,
        /// OOM kills in its cgroup since it was started.
        oom_kills: u64,
    },
    /// A batch is durable.
    Written {
        /// Which.
        batch: u64,
    },
    /// A batch is durable, but for what another program got ahead of: it had taken a trial's number,
    /// claimed a waiting trial, ended a trial of ours or deleted it.
    Overtaken {
        /// Which.
        batch: u64,
        /// The starts among its writes that are not on record.
        unstarted: Unstarted,
        /// What others had done to the study by then.
        changes: Changes,
    },
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
    /// What a batch tells of the past is durable in the spool; its starts are not.
    Spooled {
        /// Which.
        batch: u64,
    },
    /// A batch is only in memory, because the spool cannot be written either.
    SpoolFailed {
        /// Which.
        batch: u64,
        /// The system's error.
        error: String,
    },
    /// The database can be written again, and every batch has been answered by `Written` or
    /// `Overtaken`.
    StorageRecovered,
    /// Other programs have changed the study.
    StudyChanged {
        /// How.
        changes: Changes,
    },
    /// A look at the machine.
    Sampled {
        /// What was seen.
        sample: Sample,
    },
    /// The driver reported an Xid error of a GPU.
    Xid {
        /// NVML's index of the GPU.
        gpu: usize,
        /// The code.
        code: u64,
    },
    /// NVML is absent, hangs or has failed: no samples of GPUs come (any more).
    ProbeLost {
        /// Why.
        reason: String,
    },
    /// The answer to [`Action::Propose`].
    Proposed {
        /// The number of the trial that it was asked for.
        number: u64,
        /// The point; `None` where none was found that satisfies the constraints.
        proposal: Option<Proposal>,
        /// Every point that the sampler would propose had been tried or was pending.
        exhausted: bool,
    },
    /// SIGINT or SIGTERM.
    StopRequested,
    /// Nothing but time.
    Ticked,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Start a worker.
    Spawn {
        /// Its number.
        worker: WorkerId,
        /// Its device.
        device: Device,
        /// libtorch threads.
        threads: usize,
        /// With blocking launches and full stacks, to find the place of a fault.
        forensic: bool,
        /// With an allocator that uses expandable segments, unless the user says otherwise.
        expandable: bool,
    },
    /// Send a message.
    Send {
        /// To whom.
        worker: WorkerId,
        /// What.
        message: ToWorker,
    },
    /// SIGTERM to the worker's process group.
    Terminate {
        /// Which.
        worker: WorkerId,
    },
    /// SIGKILL to the worker's process group.
    Kill {
        /// Which.
        worker: WorkerId,
    },
    /// SIGCONT to the worker's process group.
    Continue {
        /// Which.
        worker: WorkerId,
    },
    /// The process does not die: waits for it no longer. `Exited` may never come.
    Abandon {
        /// Which.
        worker: WorkerId,
    },
    /// Keep the weights of these trials, the best first, as far as they are there, and no others.
    /// Comes before the `Forget` of a trial that is one of them.
    KeepWeights {
        /// All have ended durably.
        leaders: Vec<Leader>,
    },
    /// The trial or repeat has ended, durably: deletes its checkpoint and what else it has left.
    Forget {
        /// Which.
        job: Job,
    },
    /// Write a batch durably; answered by `Written` or `Overtaken` once the database can be
    /// written.
    Write {
        /// Its number; batches are written in order.
        batch: u64,
        /// What.
        writes: Vec<Write>,
    },
    /// Write with the next batch, or within a fraction of a second.
    WriteSoon {
        /// What.
        write: Write,
    },
    /// Ask the sampler for a point; answered by `Proposed`.
    Propose {
        /// The number of the trial.
        number: u64,
        /// What has become of the study's trials since the question before.
        news: News,
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
