//! The suite that every database passes, on a server of PostgreSQL.

// The files are read twice on purpose: once with each kind of database as `Bench`.
#![allow(clippy::duplicate_mod)]

use super::*;

type Bench = BenchOn<postgres::Postgres>;

#[path = "conformance/suite.rs"]
mod suite;
