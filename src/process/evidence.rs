//! What the system knows about a worker's end.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::{cgroup, stat};
use files::plain;

/// How much of a log's end is evidence, in bytes.
const TAIL: u64 = 64 * 1024;

/// The end of what a worker printed; empty where there is no log.
pub fn tail(log: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = plain::open(log, plain::For::Reading)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_or_else(
        |_| String::new(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

/// Whether the process is in state T: stopped by a signal, and not by a debugger.
pub fn is_stopped(pid: u32) -> bool {
    stat::of(pid).is_some_and(|process| process.state == b'T')
}

/// OOM kills so far in this process's cgroup, or on the machine where there is no such counter. They
/// may be of processes that the worker has nothing to do with.
pub fn oom_kills() -> u64 {
    let machine = || {
        let text = fs::read_to_string("/proc/vmstat").ok()?;
        cgroup::entry(&text, "oom_kill ")
    };
    cgroup::own_oom_kills().or_else(machine).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_long_log_is_its_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("{}end", "x".repeat(100_000))).unwrap();
        let tail = tail(file.path());
        assert_eq!(tail.len() as u64, TAIL);
        assert!(tail.ends_with("end"));
    }
}
