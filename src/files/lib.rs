//! Files that people or later runs read. What makes a path of a name from outside, opens what others may have put in
//! its way, or replaces what is there, does it through here: one place that knows what can go wrong.

pub mod bounded;
pub mod digest;
mod disk;
pub mod name;
pub mod paths;
pub mod plain;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]
pub mod power;
pub mod replace;

use std::fs::FileType;
use std::os::unix::fs::FileTypeExt;

/// What is in a place, for people.
pub fn kind(of: FileType) -> &'static str {
    if of.is_file() {
        "a file"
    } else if of.is_dir() {
        "a directory"
    } else if of.is_symlink() {
        "a link"
    } else if of.is_fifo() {
        "a pipe"
    } else if of.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// What is in a file's place, for people; `None`: a file.
pub fn no_file(there: FileType) -> Option<&'static str> {
    (!there.is_file()).then(|| kind(there))
}
