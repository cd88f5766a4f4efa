//! Exit codes, and the error type that carries one to `main`.

use std::process::{ExitCode, Termination};

/// What `tune` exits with. Scripts rely on the numbers; they never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[repr(u8)]
pub enum Exit {
    /// Goal reached, or command done.
    Done = 0,
    /// Internal error: a defect of `tune`.
    Internal = 1,
    /// Bad input: usage, configuration, data, checkpoint.
    BadInput = 2,
    /// The budget (`--timeout`) was used up before the goal.
    Budget = 3,
    /// Stopped by a signal; resumable.
    Stopped = 4,
    /// The breaker tripped; resumable.
    Breaker = 5,
    /// The study is held by another process.
    Held = 6,
    /// Storage.
    Storage = 7,
    /// The study differs from what is asked.
    Differs = 8,
    /// No usable device.
    Device = 9,
}

impl Exit {
    /// Every code, in order, with its meaning; the documentation is tested against it.
    pub const ALL: [(Exit, &'static str); 10] = [
        (Exit::Done, "goal reached, or command done"),
        (Exit::Internal, "internal error"),
        (
            Exit::BadInput,
            "bad input: usage, configuration, data, checkpoint",
        ),
        (
            Exit::Budget,
            "budget used up before the goal (--timeout); resumable",
        ),
        (Exit::Stopped, "stopped by a signal; resumable"),
        (
            Exit::Breaker,
            "breaker: trials or workers kept failing; resumable",
        ),
        (Exit::Held, "the study is held by another process"),
        (Exit::Storage, "storage"),
        (Exit::Differs, "the study differs from what is asked"),
        (Exit::Device, "no usable device"),
    ];

    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self.code())
    }
}

/// An error that ends the command, with the exit code it ends with. The text is for people: what
/// was wrong, where, what was found and expected, what to do.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// One or several lines.
    pub message: String,
}

impl Failure {
    /// A failure with any exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure {
            exit,
            message: message.into(),
        }
    }

    /// Bad input (2).
    pub fn input(message: impl Into<String>) -> Failure {
        Failure::new(Exit::BadInput, message)
    }

    /// Storage (7).
    pub fn storage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Storage, message)
    }

    /// A defect of `tune` (1).
    pub fn internal(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Internal, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_every_code_with_its_meaning() {
        let rows: Vec<String> = Exit::ALL
            .iter()
            .map(|(exit, meaning)| format!("| {} | {meaning} |", exit.code()))
            .collect();
        let documented: Vec<&str> = include_str!("../../docs/exit-codes.md")
            .lines()
            .filter(|l| l.starts_with("| ") && !l.starts_with("| code"))
            .collect();
        assert_eq!(documented, rows);
    }
}
