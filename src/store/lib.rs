//! The database: Optuna's RDB schema in SQLite, and our own tables prefixed `tune_`.
//!
//! [`Store`] is the only thing that touches the file. Reading returns plain values, writing takes
//! a batch of [`Write`]s and is one transaction: all of it is durable (WAL, `synchronous=FULL`),
//! or nothing happened. Times are naive UTC with microseconds, as Optuna 5 has them.

mod apply;
mod attempts;
mod changes;
mod choose;
mod descriptor;
mod enqueue;
mod error;
mod foreign;
mod fresh;
mod gpus;
mod import;
mod listing;
mod log;
mod memory;
mod migrate;
mod open;
mod place;
mod read;
mod repeats;
mod schema;
mod sense;
mod studies;
mod take_in;
#[cfg(test)]
mod tests;
mod write;

pub use attempts::{AttemptRecord, Reclaimable, RunEntry};
pub use changes::{Changes, Glimpse, Seen, overtaken};
pub use choose::choose;
pub use descriptor::Descriptor;
pub use error::{Shown, StoreError};
pub use import::NewStudy;
pub use listing::Members;
pub use log::is_damaged;
pub use memory::{MemoryObservation, MemoryRecord};
pub use open::{LOCK_PATIENCE, Store, is_empty_database, lockable, looked_at};
pub use repeats::RepeatRecord;
pub use studies::{Counts, StudySummary};
pub use take_in::TakenIn;
pub use write::{AttemptEnd, RunRecord, Write, Written};
