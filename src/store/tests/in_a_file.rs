//! The suite that every database passes, in a file of SQLite.

use super::*;

type Bench = BenchOn<File>;

#[path = "conformance/suite.rs"]
mod suite;
