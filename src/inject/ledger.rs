//! What was really done, and when: a line of JSON for each fault, durable before the fault happens.
//! No part of a run reads it; the drill compares it with what the supervisor noticed.

use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Kind;
use files::plain;

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// RFC 3339, just before the fault.
    pub time: String,
    /// Trial number.
    pub trial: u64,
    /// Attempt, from 0.
    pub attempt: u32,
    /// Process id of the worker.
    pub pid: u32,
    /// What was done.
    pub kind: Kind,
    /// Whether it is done in every attempt of the trial.
    pub culprit: bool,
    /// Process id of a process that was left behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
}

/// Appends an entry and waits until it is durable. Lines of several workers stay whole.
///
/// # Errors
/// Whatever keeps it from being written.
pub fn append(path: &Path, entry: &Entry) -> io::Result<()> {
    let mut line = serde_json::to_string(entry)?;
    line.push('\n');
    let mut file = plain::open(path, plain::For::Appending)?;
    file.write_all(line.as_bytes())?;
    file.sync_data()
}

/// Every entry, in order; none where there is no ledger. A line that was cut off is left out: its
/// fault did not happen.
pub fn read(path: &Path) -> Vec<Entry> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let entries = text.lines().map(serde_json::from_str);
    entries.filter_map(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn entries_are_read_as_they_were_written_and_a_cut_line_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("injected/s.jsonl");
        assert_eq!(read(&path), []);
        let entry = Entry {
            time: "2026-01-02T03:04:05.678Z".into(),
            trial: 3,
            attempt: 1,
            pid: 42,
            kind: Kind::StackOverflow,
            culprit: true,
            left: None,
        };
        let stray = Entry {
            kind: Kind::Stray,
            left: Some(43),
            ..entry.clone()
        };
        append(&path, &entry).unwrap();
        append(&path, &stray).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"time\":\"20").unwrap();
        assert_eq!(read(&path), [entry, stray]);
    }
}
