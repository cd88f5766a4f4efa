//! What a process's line of `/proc/PID/stat` tells. It can be read without waiting for any lock of the process, and
//! by the guardian, a bare fork: nothing here logs or takes a lock.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};

use nix::unistd::{SysconfVar, sysconf};

/// A process that has begun to exit, in the flags.
const PF_EXITING: u64 = 0x4;

/// Kernel threads, in the flags.
const PF_KTHREAD: u64 = 0x0020_0000;

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub pid: u32,
    /// The letter of proc(5): `S` sleeps, `T` was stopped by a signal, `t` by a debugger, `Z` is a zombie.
    pub state: u8,
    pub parent: u32,
    /// Process group.
    pub group: u32,
    pub flags: u64,
    pub threads: u64,
    /// Processor time, in the kernel's ticks.
    pub ticks: u64,
    /// Start, in the kernel's ticks since boot.
    pub start: u64,
    /// Resident memory, in pages.
    pub pages: u64,
    /// From where to where its arguments were in its memory; zeros where that is not told.
    pub arguments: (u64, u64),
    /// The same of its environment.
    pub environment: (u64, u64),
}

impl Stat {
    /// Neither a zombie nor a thread of the kernel.
    pub fn alive(&self) -> bool {
        // The first thread can be a zombie while others are still on their way out.
        let gone = matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1;
        !gone && self.flags & PF_KTHREAD == 0
    }

    /// It was stopped by a signal, as Ctrl-Z does, or by a debugger.
    pub fn suspended(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    /// It runs, waits for a processor, or for a disk.
    pub fn wants(&self) -> bool {
        matches!(self.state, b'R' | b'D')
    }

    /// It has begun to exit.
    pub fn exiting(&self) -> bool {
        self.flags & PF_EXITING != 0
    }

    /// It had an environment, or the kernel does not know yet where that ends. Where none is read then, another
    /// program is just being loaded into it, which takes a while where that has to be read from a disk first, or its
    /// memory is gone already.
    pub fn may_have_environment(&self) -> bool {
        let (start, end) = self.environment;
        end == 0 || start < end
    }
}

/// All processes that can be seen, by process id.
pub(super) fn all() -> BTreeMap<u32, Stat> {
    let mut buffer = Vec::with_capacity(4096);
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, with_buffer(pid, &mut buffer)?)))
        .collect()
}

/// A process; `None` where there is none of this number.
pub(super) fn of(pid: u32) -> Option<Stat> {
    with_buffer(pid, &mut Vec::new())
}

/// This process; `None` where `/proc` does not tell.
pub(super) fn own() -> Option<Stat> {
    let mut buffer = Vec::new();
    // Its number may be another one where `/proc` is another namespace's.
    read("/proc/self/stat", &mut buffer).ok()?;
    parse(std::process::id(), &buffer)
}

/// How many of the kernel's ticks make a second; `None` where the system does not tell.
pub(super) fn ticks_a_second() -> Option<u64> {
    u64::try_from(sysconf(SysconfVar::CLK_TCK).ok()??)
        .ok()
        .filter(|ticks| *ticks > 0)
}

/// When a process was started, in the kernel's ticks since boot; `None` where there is none.
pub(super) fn start_of(pid: u32) -> Option<u64> {
    Some(of(pid)?.start)
}

/// Like [`of`]; the line is read into `buffer`.
pub(super) fn with_buffer(pid: u32, buffer: &mut Vec<u8>) -> Option<Stat> {
    read(&format!("/proc/{pid}/stat"), buffer).ok()?;
    parse(pid, buffer)
}

/// Reads a file of `/proc`, in place of what is in `buffer`.
pub(super) fn read(path: &str, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.clear();
    // `take` hides that this is a file: else its size and position would be asked for, each time.
    File::open(path)?.take(u64::MAX).read_to_end(buffer)?;
    Ok(())
}

/// Reads a line; the name before the last bracket may hold anything.
fn parse(pid: u32, line: &[u8]) -> Option<Stat> {
    let end = line.iter().rposition(|b| *b == b')')?;
    let fields: Vec<&str> = std::str::from_utf8(&line[end + 1..])
        .ok()?
        .split_ascii_whitespace()
        .collect();
    // Fields are counted from 1 in proc(5), and the third one, the state, is the first here.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        pid,
        state: *fields.first()?.as_bytes().first()?,
        parent: u32::try_from(number(4)?).ok()?,
        group: u32::try_from(number(5)?).ok()?,
        flags: number(9)?,
        threads: number(20)?,
        ticks: number(14)? + number(15)?,
        start: number(22)?,
        pages: number(24)?,
        arguments: (number(48)?, number(49)?),
        environment: (number(50)?, number(51)?),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A process that sleeps.
    pub fn sleeping(pid: u32, parent: u32) -> Stat {
        Stat {
            pid,
            state: b'S',
            parent,
            group: pid,
            flags: 0,
            threads: 1,
            ticks: 0,
            start: 0,
            pages: 0,
            arguments: (0, 0),
            environment: (0, 0),
        }
    }

    #[test]
    fn a_process_is_read_behind_any_name() {
        let line = |state: &str, flags: u64, threads: u64, environment: u64| {
            let first = format!(
                "7 (a) Z 1 2) {state} 3 8 7 0 -1 {flags} 1 0 0 0 10 20 0 0 20 0 {threads} 0"
            );
            format!(
                "{first} 555 4096 33 18446744073709551615 {} 5 6 8 {environment} 0\n",
                ["1"; 22].join(" ")
            )
        };
        let read = |text: String| parse(7, text.as_bytes()).unwrap();
        let process = read(line("S", 0x40_0000, 1, 9));
        let expected = Stat {
            group: 8,
            flags: 0x40_0000,
            ticks: 30,
            start: 555,
            pages: 33,
            arguments: (5, 6),
            environment: (8, 9),
            ..sleeping(7, 3)
        };
        assert_eq!(process, expected);
        assert!(process.alive() && process.may_have_environment());
        assert!(!process.suspended() && !process.wants() && !process.exiting());
        assert!(!read(line("Z", 0, 1, 9)).alive());
        assert!(read(line("Z", 4, 2, 9)).alive(), "a thread is still there");
        assert!(
            !read(line("S", 0x20_8040, 1, 0)).alive(),
            "one of the kernel's"
        );
        assert!(read(line("D", 4, 1, 0)).exiting());
        let running = read(line("R", 0, 1, 0));
        assert!(running.wants() && running.may_have_environment());
        assert!(!read(line("R", 0, 1, 8)).may_have_environment());
        for state in ["T", "t"] {
            assert!(read(line(state, 0, 1, 9)).suspended());
        }
        assert_eq!(parse(7, b"7 (cut off"), None);
        assert_eq!(parse(7, b"7 (tune) S 7"), None);
    }
}
