//! The supervisor: a pure core that decides, and a driver that carries out.

pub mod core;
mod driver;
mod event;
mod evidence;
mod facts;
mod guardian;
mod hold;
mod launch;
mod replay;
mod signals;
mod spawn;
pub mod spool;
mod strays;
mod take_in;
mod writer;

pub use driver::logs_dir;
pub use event::{Action, Event, Now, WorkerId};
pub use hold::{Hold, Holder, holder};
pub use launch::{Launch, compatible, directory_of, launch};
pub use replay::{End, Played, Replay, replay, replay_log};
