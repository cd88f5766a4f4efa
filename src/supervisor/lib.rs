//! The supervisor: a pure core that decides, and a driver that carries out.

mod clock;
pub mod core;
mod disk_tasks;
mod driver;
mod earlier_files;
mod event;
mod event_channel;
mod launch;
mod machine;
mod open_study;
mod proposer;
mod refused_starts;
mod rehearse;
mod replay;
mod run_processes;
mod signals;
mod spawn;
pub mod spool;
mod spool_replay;
mod stop;
mod study_lock;
mod watchdog;
mod writer;

pub use event::{
    Action, BatchEvent, Event, ExitInfo, Now, WorkerAction, WorkerEvent, WorkerId, WorkerOptions,
};
pub use launch::{Launch, launch};
pub use open_study::{LockedStudy, MADE_FROM, Origin, lock_study, task_attributes};
pub use proposer::Proposer;
pub use rehearse::{Rehearsal, memory_total, rehearse};
pub use replay::{Bounds, Replay, ReplayEnd, ReplayResult, replay, replay_log};
pub use spool_replay::patiently;
pub use stop::{ask_to_stop, suspended};
pub use study_lock::{LockOwner, Stopping, StudyLock, lock_owner, this_host};
