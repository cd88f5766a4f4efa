//! Files that people or later runs read. What makes a path of a name from outside, opens what others may have put in
//! its way, or replaces what is there, does it through here: one place that knows what can go wrong.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "tune runs on Linux only: it needs the system calls of Linux. On Windows, build it inside WSL2."
);

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
pub mod watched;

use std::fs::FileType;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The directory that holds `path`, for system calls.
pub fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

/// The file beside another one whose name is that one's and this at its end: `tune.db-wal`.
pub fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_file_name_lies_in_the_current_directory() {
        assert_eq!(directory(Path::new("tune.db")), Path::new("."));
        assert_eq!(directory(Path::new("/a/tune.db")), Path::new("/a"));
    }
}
