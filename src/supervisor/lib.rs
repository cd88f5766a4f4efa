//! The supervisor: a pure core that decides, and a driver that carries out.

mod clock;
pub mod core;
mod driver;
mod errands;
mod event;
mod facts;
mod hold;
mod launch;
mod machine;
mod open_study;
mod post;
mod proposer;
mod rehearse;
mod replay;
mod signals;
mod spawn;
pub mod spool;
mod take_in;
mod writer;

pub use event::{
    Action, BatchEvent, Event, ExitInfo, Now, WorkerAction, WorkerEvent, WorkerId, WorkerOptions,
};
pub use hold::{Hold, Holder, holder};
pub use launch::{Launch, launch};
pub use open_study::{Held, MADE_FROM, Origin, compatible, settle};
pub use proposer::Proposer;
pub use rehearse::{Rehearsal, memory_total, rehearse};
pub use replay::{End, Played, Replay, replay, replay_log};
pub use take_in::patiently;
