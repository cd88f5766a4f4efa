//! What `tune watch` shows: a state, what keys and new figures make of it, and the screen that it gives. Pure.

mod chart;
mod draw;
mod key;
mod looks;
mod pen;
mod snapshot;
mod state;
#[cfg(test)]
mod tests;

pub use draw::draw;
pub use key::Key;
pub use looks::Looks;
pub use snapshot::{
    Arranged, Column, Detail, FaultLine, Meter, Mood, Running, Section, Snapshot, Sorting, Trials,
};
pub use state::{Effect, Input, State};
