//! What one check has found.

use serde::Serialize;
use strum::Display;

/// How a check came out. A check that passed says nothing beyond what it looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Display)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// What it looked at is in order.
    #[strum(serialize = "passed")]
    Passed,
    /// It costs time or safety, but does not explain a crash by itself.
    #[strum(serialize = "warning")]
    Warning,
    /// What it looked at is wrong.
    #[strum(serialize = "failed")]
    Failed,
    /// It could not be run, which says nothing about what it would have looked at.
    #[strum(serialize = "could not be run")]
    NotRun,
}

/// A check with its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its name, for scripts: `shm_size`, `driver_versions`.
    pub name: &'static str,
    /// How it came out.
    pub outcome: Outcome,
    /// What was seen, with figures and units; of a check that could not be run, why.
    pub evidence: String,
    /// What to do about it; nothing where nothing is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}
