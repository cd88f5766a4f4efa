//! TOML and overrides to a [`StudySpec`], all problems at once.

use std::fmt;
use std::path::PathBuf;

use super::StudySpec;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file, with the line (from 1) where known.
    File(PathBuf, Option<usize>),
    /// A command-line flag, as typed: `--set train.epochs=x`.
    Flag(String),
    /// An environment variable.
    Environment(String),
}

/// One thing wrong with the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub source: Source,
    /// The dotted key, the column or the row, where there is one.
    pub key: Option<String>,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

/// All problems of an input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems(pub Vec<Problem>);

/// Values that win over the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// `(key, TOML text of the value or a bare word, source)`, applied in order.
    pub set: Vec<(String, String, Source)>,
}

/// Reads and checks a configuration.
///
/// # Errors
/// All problems found.
pub fn resolve(_file: &std::path::Path, _overrides: &Overrides) -> Result<StudySpec, Problems> {
    Err(Problems::default())
}

impl fmt::Display for Problems {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl std::error::Error for Problems {}
