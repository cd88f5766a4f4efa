//! The supervisor: a pure core that decides, and a driver that carries out.

pub mod cgroup;
mod clock;
pub mod core;
mod driver;
mod errands;
mod event;
pub mod evidence;
mod facts;
mod guardian;
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
pub mod strays;
mod take_in;
mod writer;

pub use driver::logs_dir;
pub use event::{Action, Event, Now, WorkerId};
pub use hold::{Hold, Holder, holder};
pub use launch::{Launch, directory_of, launch};
pub use open_study::{Held, MADE_FROM, Origin, compatible, settle};
pub use proposer::Proposer;
pub use rehearse::{Rehearsal, memory_total, rehearse};
pub use replay::{End, Played, Replay, replay, replay_log};
pub use spawn::{ALONE, EXPANDABLE};
pub use take_in::patiently;
