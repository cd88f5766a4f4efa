//! The database: Optuna's RDB schema in SQLite, and our own tables prefixed `tune_`.

mod python_json;
mod write;

pub use python_json::python_json;
pub use write::{AttemptEnd, RunRecord, Write, Written};
