//! The suite that every database passes, on a server of PostgreSQL.

// The files are read twice on purpose: once with each kind of database as `Bench`.
#![allow(clippy::duplicate_mod)]

use super::*;

type Bench = BenchOn<postgres::Postgres>;

#[path = "conformance/foreign.rs"]
mod foreign;
#[path = "conformance/gpus.rs"]
mod gpus;
#[path = "conformance/import.rs"]
mod import;
#[path = "conformance/memory.rs"]
mod memory;
#[path = "conformance/repeats.rs"]
mod repeats;
#[path = "conformance/studies.rs"]
mod studies;
#[path = "conformance/writes.rs"]
mod writes;
