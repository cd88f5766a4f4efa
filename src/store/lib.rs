//! The database: Optuna's RDB schema in SQLite or on a PostgreSQL server, and our own tables prefixed `tune_`.
//!
//! [`Store`] is the only thing that touches the file. Reading returns plain values, writing takes
//! a batch of [`Write`]s and is one transaction: all of it is durable (WAL, `synchronous=FULL`),
//! or nothing happened. Times are naive UTC with microseconds, as Optuna 5 has them.

mod apply;
mod attempts;
mod changes;
mod choose;
mod consistency;
mod descriptor;
mod error;
mod file;
mod foreign;
mod glimpse;
mod gpus;
mod leases;
mod listing;
mod log;
mod memory;
mod migrate;
mod open;
mod place;
mod read;
mod repeats;
mod replay;
mod rows;
mod runs;
mod schema;
mod sql;
mod strike;
mod studies;
#[cfg(test)]
mod tests;
mod write;

pub use attempts::{AttemptRecord, Reclaimable};
pub use changes::{
    CarriedOut, Changes, KnownTrials, OtherNodes, RepeatSummary, TrialSummary, follows_from_late,
    overtaken,
};
pub use choose::choose;
pub use descriptor::Descriptor;
pub use error::{StoreError, StoreErrorKind};
pub use file::{is_empty_database, lockable, looked_at};
pub use leases::{HeldBy, Node, RunNode, StopAsked};
pub use listing::Members;
pub use log::is_damaged;
pub use memory::{MemoryObservation, MemoryRecord};
pub use open::{LOCK_PATIENCE, Store};
pub use place::Place;
pub use repeats::RepeatRecord;
pub use replay::Replayed;
pub use runs::RunEntry;
pub use schema::{OPTUNA_LIBRARY, SCHEMA_VERSION};
pub use strike::STRUCK_WHY;
pub use studies::{Counts, NewStudy, StudySummary};
pub use write::{AttemptEnd, RunRecord, Write, Written};
