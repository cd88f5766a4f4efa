//! What people and scripts see: the only module that writes to the terminal.

mod event;
mod json;

pub use event::{Best, Counts, Event};
pub use json::{json_number, number_from_json};
mod sink;
pub use sink::Sink;
