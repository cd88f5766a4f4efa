//! A program that waits until somebody reads what it prints.

use std::fs;
use std::path::{Path, PathBuf};

/// Of these processes, the first that waits in a write to a pipe that only others of them could read: to its output or its
/// error output (`python clean.py waits to write to its standard error, which python train.py does not read`), or to another
/// one, as of a queue, while its reader waits for a process to end.
pub fn unread(processes: &[u32]) -> Option<String> {
    let waits = |pid: &u32| {
        let fd = written_to(*pid)?;
        let pipe = pipe_of(*pid, fd)?;
        // Processes that are forked have the reading end of a queue, too.
        let is_asked = |other: u32| fd <= 2 || waits_for_an_end(other);
        let reader = processes
            .iter()
            .find(|other| *other != pid && reads(**other, &pipe) && is_asked(**other))?;
        let (writer, reader) = (name(*pid), name(*reader));
        Some(match fd {
            1 => format!(
                "{writer} waits to write to its standard output, which {reader} does not read"
            ),
            2 => format!(
                "{writer} waits to write to its standard error, which {reader} does not read"
            ),
            _ => format!(
                "{writer} waits to write to a queue or pipe, and {reader}, which is to read it, waits for a process to end"
            ),
        })
    };
    processes.iter().find_map(waits)
}

/// Whether the first thread of a process waits until a process that it has started ends.
fn waits_for_an_end(pid: u32) -> bool {
    let syscall = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let number = syscall
        .split_whitespace()
        .next()
        .and_then(|n| n.parse().ok());
    number.is_some_and(|number: i64| [libc::SYS_wait4, libc::SYS_waitid].contains(&number))
}

/// What a thread of a process is writing to.
fn written_to(pid: u32) -> Option<u32> {
    let mut tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    tasks.find_map(|task| write(&fs::read_to_string(task.path().join("syscall")).ok()?))
}

/// The file of a write, of `/proc/PID/syscall`: its number, then its arguments.
fn write(syscall: &str) -> Option<u32> {
    let mut fields = syscall.split_whitespace();
    let number: i64 = fields.next()?.parse().ok()?;
    let fd = u32::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok()?;
    let writes = [libc::SYS_write, libc::SYS_writev].contains(&number);
    (writes && fd > 0).then_some(fd)
}

fn pipe_of(pid: u32, fd: u32) -> Option<PathBuf> {
    let target = fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
    target.to_str()?.starts_with("pipe:").then_some(target)
}

/// Whether a process has the end of a pipe that is read.
fn reads(pid: u32, pipe: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    let is_it = |fd: &fs::DirEntry| fs::read_link(fd.path()).is_ok_and(|target| target == pipe);
    let mut ends = open.into_iter().flatten().flatten().filter(is_it);
    ends.any(|fd| {
        let info = Path::new("/proc").join(pid.to_string()).join("fdinfo");
        let info = fs::read_to_string(info.join(fd.file_name())).unwrap_or_default();
        is_for_reading(&info)
    })
}

/// By the access mode in `/proc/PID/fdinfo/FD`, which is octal.
fn is_for_reading(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_ACCMODE == libc::O_RDONLY)
}

/// Its command without the program's folder, or the beginning of it.
fn name(pid: u32) -> String {
    const MOST: usize = 80;
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let (program, arguments) = command.split_once(' ').unwrap_or((&command, ""));
    let program = program.rsplit('/').next().unwrap_or_default();
    let command = format!("{program} {}", arguments.trim_end());
    command.chars().take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::thread::sleep;
    use std::time::Duration;

    #[test]
    fn a_write_to_a_standard_stream_is_told_from_other_calls() {
        let call = |number: i64, fd: &str| write(&format!("{number} {fd} 0x7f 0x10 0x0 0x0 0x0"));
        assert_eq!(call(libc::SYS_write, "0x2"), Some(2));
        assert_eq!(call(libc::SYS_write, "0x5"), Some(5));
        assert_eq!(call(libc::SYS_read, "0x1"), None);
        assert_eq!(write("running"), None);
        assert!(is_for_reading("pos:\t0\nflags:\t02000000\n"));
        assert!(!is_for_reading("pos:\t0\nflags:\t0100001\n"));
    }

    #[test]
    fn a_program_whose_output_nobody_reads_is_found() {
        let mut child = Command::new("sh")
            .args(["-c", "while :; do echo word; done"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let own = std::process::id();
        let found = (0..200).find_map(|_| {
            sleep(Duration::from_millis(20));
            unread(&[child.id(), own])
        });
        let alone = unread(&[child.id()]);
        child.kill().unwrap();
        child.wait().unwrap();
        let found = found.unwrap();
        assert!(
            found.starts_with(
                "sh -c while :; do echo word; done waits to write to its standard output, which "
            ),
            "{found}"
        );
        assert_eq!(alone, None, "whoever is to read it is no part of the run");
    }

    #[test]
    fn a_queue_is_found_whose_reader_waits_for_the_writer_to_end() {
        let program = "import os\nr, w = os.pipe()\np = os.fork()\n\
                       os.write(w, bytes(1 << 20)) if p == 0 else os.waitpid(p, 0)";
        let mut parent = Command::new("python3")
            .args(["-c", program])
            .spawn()
            .unwrap();
        let found = (0..500).find_map(|_| {
            sleep(Duration::from_millis(20));
            let family = process::host::Family::of(parent.id());
            let found = unread(&family.pids)?;
            Some((family.pids, found))
        });
        let (pids, found) = found.unwrap();
        for pid in pids {
            let _ = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(pid as i32),
                nix::sys::signal::SIGKILL,
            );
        }
        parent.wait().unwrap();
        assert!(
            found.contains("to a queue or pipe, and python3 -c "),
            "{found}"
        );
    }
}
