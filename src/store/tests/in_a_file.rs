//! The suite that every database passes, in a file of SQLite.

use super::*;

type Bench = BenchOn<File>;

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
