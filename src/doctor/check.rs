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

impl Check {
    /// A check that passed.
    pub fn passed(name: &'static str, evidence: impl Into<String>) -> Check {
        Check::new(name, Outcome::Passed, evidence, None)
    }

    /// A check that warns, and what to do.
    pub fn warning(
        name: &'static str,
        evidence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Check {
        Check::new(name, Outcome::Warning, evidence, Some(remedy.into()))
    }

    /// A check that failed, and what to do.
    pub fn failed(
        name: &'static str,
        evidence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Check {
        Check::new(name, Outcome::Failed, evidence, Some(remedy.into()))
    }

    /// A check that could not be run, and why.
    pub fn not_run(name: &'static str, why: impl Into<String>) -> Check {
        Check::new(name, Outcome::NotRun, why, None)
    }

    fn new(
        name: &'static str,
        outcome: Outcome,
        evidence: impl Into<String>,
        remedy: Option<String>,
    ) -> Check {
        Check {
            name,
            outcome,
            evidence: evidence.into(),
            remedy,
        }
    }
}
