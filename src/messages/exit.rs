//! Exit codes, and the error type that carries one to `main`.

use std::process::{ExitCode, Termination};

crate::table! {
    /// What `tune` exits with: the place in the table. Scripts rely on the numbers; they never change.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
    #[repr(u8)]
    pub enum Exit;

    /// What is told of an exit code.
    pub struct Row {
        /// What it means; the documentation is tested against it.
        pub meaning: &'static str,
        /// How a run that ended with it goes on, where that is not plain.
        pub resume: Option<&'static str>,
    }

    Done("goal reached, or command done", None);
    /// A defect of `tune`.
    Internal("internal error", None);
    BadInput("bad input: usage, configuration, data, checkpoint", None);
    Budget("budget used up before the goal (--timeout); resumable",
        Some("to continue: run the same command again; it gets a new time budget"));
    Stopped("stopped by a signal; resumable", Some("to continue: run the same command again"));
    Breaker("breaker: trials or workers kept failing; resumable",
        Some("to continue: remove the cause named above, then run the same command again"));
    Held("the study is held by another process", None);
    Storage("storage", None);
    Differs("the study differs from what is asked",
        Some("to continue: put the files back, then run the same command again; if the change is of a program, and does \
              not alter what a value means, add --same-program"));
    Device("no usable device", None);
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The one with this number.
    pub fn of_code(code: u8) -> Option<Exit> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// What a number means, `unknown` where it is none of these.
    pub fn meaning_of(code: u8) -> &'static str {
        Self::of_code(code).map_or("unknown", |exit| exit.row().meaning)
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
            .map(|exit| format!("| {} | {} |", exit.code(), exit.row().meaning))
            .collect();
        let documented: Vec<&str> = include_str!("../../docs/exit-codes.md")
            .lines()
            .filter(|l| l.starts_with("| ") && !l.starts_with("| code"))
            .collect();
        assert_eq!(documented, rows);
        for exit in Exit::ALL {
            assert_eq!(Exit::of_code(exit.code()), Some(*exit));
        }
        assert_eq!(Exit::of_code(10), None);
    }
}
