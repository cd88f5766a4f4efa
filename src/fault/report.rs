//! An error as the process that met it tells it.

use serde::{Deserialize, Serialize};

use crate::ProgramEnd;

/// Where in its life a worker was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Opening the task.
    Opening,
    /// Seeding the generators or checking the context's health, before an attempt.
    Seeding,
    /// In the training loop.
    Training,
}

/// An error as a worker reports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorReport {
    /// Where in its life the worker was.
    pub phase: Phase,
    /// Whether it was a panic.
    pub panic: bool,
    /// The whole text, causes included.
    pub text: String,
    /// Whether the health check after the error passed; `None`: there was none.
    pub healthy: Option<bool>,
    /// The end of the program that the attempt consisted of, where it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramEnd>,
}

impl ErrorReport {
    /// An error that is no panic, after which nothing was checked.
    pub fn new(phase: Phase, text: impl Into<String>) -> ErrorReport {
        ErrorReport {
            phase,
            panic: false,
            text: text.into(),
            healthy: None,
            program: None,
        }
    }
}
