//! Orphans: processes that workers have started, wherever those have got to since.
//!
//! A worker leads a process group, but what it starts may leave the group (`setsid`) and its
//! parents (a double fork). The environment stays: every worker carries a mark, and all that
//! descends from it inherits the mark. A scan of `/proc` finds the carriers and everything that
//! descends from a carrier, so that a child with an environment of its own is found as long as its
//! parent lives.
//!
//! The mark begins with device and inode of the study's lock file: who holds that lock is alone
//! entitled to end what carries it, and the same path in another container is another file.
//!
//! A process that has both lost its parents and wiped its environment is found where its worker has
//! a cgroup of its own. That cannot be had from a login session or in most containers; there it is
//! not found, nor are processes of other users. A supervisor that adopts orphans
//! (`PR_SET_CHILD_SUBREAPER`) was weighed: it could not tell a worker's from those of background jobs that the
//! shell had before it became `tune` by `exec`, and ending a stranger is worse than leaving an
//! orphan. A worker that starts programs has no other children, and does adopt ([`adopt_orphans`]).
//!
//! Nothing here logs or takes a lock: it also runs in the guardian, a bare fork.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use super::cgroup;
use super::stat::{self, Stat, read, start_of, with_buffer};

/// The environment variable that carries the mark; marks of runs within runs are separated by
/// commas.
pub const VARIABLE: &str = "TUNE_WORKER_OF";

/// How often processes are stopped before they are ended all the same: enough for any tree, and an
/// end where they multiply faster than they can be stopped.
const STOPS: u32 = 8;

/// The longest wait between two looks at the process table.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The processes of a study, of a run, or of a worker: a mark, or the beginning of marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessMark {
    /// Parts that each end with a colon, so that no part is the beginning of another.
    prefix: String,
    /// No member was started before this, in the kernel's ticks since boot.
    since: u64,
    /// All that descends from this process belongs to it, marked or not.
    descendants: bool,
    /// All that is in this cgroup belongs to it, marked or not.
    cgroup: Option<PathBuf>,
}

impl ProcessMark {
    /// All that workers of this study have started, whichever run they belonged to; `lock` is
    /// device and inode of its lock file.
    pub fn study(lock: (u64, u64)) -> ProcessMark {
        ProcessMark {
            prefix: format!("{:x}-{:x}:", lock.0, lock.1),
            since: 0,
            descendants: false,
            cgroup: None,
        }
    }

    /// Of those, what belongs to the run of this process.
    pub fn this_run(&self) -> ProcessMark {
        let pid = std::process::id();
        let start = start_of(pid).unwrap_or(0);
        ProcessMark {
            prefix: format!("{}{pid}:{start}:", self.prefix),
            since: start,
            descendants: false,
            cgroup: None,
        }
    }

    /// Of those, a worker and what it starts.
    pub fn worker(&self, worker: u64) -> ProcessMark {
        ProcessMark {
            prefix: format!("{}{worker}:", self.prefix),
            since: self.since,
            descendants: false,
            cgroup: None,
        }
    }

    /// What this process starts, if it is a worker; else `None`. With [`adopt_orphans`] nothing
    /// escapes it.
    pub fn of_this_worker() -> Option<ProcessMark> {
        let marks = std::env::var(VARIABLE).ok()?;
        let mark = marks.rsplit(',').next().filter(|m| !m.is_empty())?;
        Some(ProcessMark {
            prefix: mark.to_owned(),
            since: 0,
            descendants: true,
            cgroup: None,
        })
    }

    /// The same, with all that is in this cgroup of its own, or in one below it.
    pub fn in_cgroup(mut self, dir: Option<&Path>) -> ProcessMark {
        self.cgroup = dir.map(Path::to_owned);
        self
    }

    /// The cgroup of its own, where it has one.
    pub fn cgroup(&self) -> Option<&Path> {
        self.cgroup.as_deref()
    }

    /// The same, known to have begun with this process.
    pub fn beginning_with(mut self, pid: u32) -> ProcessMark {
        self.since = start_of(pid).unwrap_or(self.since);
        self
    }

    /// What [`VARIABLE`] has to be in a member, where it is `inherited` here.
    pub fn variable(&self, inherited: Option<&str>) -> String {
        match inherited {
            Some(outer) if !outer.is_empty() => format!("{outer},{}", self.prefix),
            Some(_) | None => self.prefix.clone(),
        }
    }

    /// Whether an environment, as `/proc/PID/environ` has it, is that of a member.
    fn marks(&self, environment: &[u8]) -> bool {
        marks_in(environment).any(|mark| mark.starts_with(self.prefix.as_bytes()))
    }
}

/// The marks in an environment, as `/proc/PID/environ` has it; of runs within runs the outermost comes first.
fn marks_in(environment: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    let value = environment.split(|b| *b == 0).find_map(|entry| {
        entry
            .strip_prefix(VARIABLE.as_bytes())?
            .strip_prefix(b"=".as_slice())
    });
    value
        .unwrap_or_default()
        .split(|b| *b == b',')
        .filter(|mark| !mark.is_empty())
}

/// Whether a process is a worker, or was started by one, whose supervisor is gone. Of one in another namespace, where numbers
/// of processes mean others, that is not known: false.
pub fn outlives_its_supervisor(pid: u32) -> bool {
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    namespace(&pid.to_string()) == namespace("self")
        && supervisor(&environment).is_some_and(|(pid, start)| start_of(pid) != Some(start))
}

/// The supervisor that the innermost mark in an environment names, and its start.
fn supervisor(environment: &[u8]) -> Option<(u32, u64)> {
    let mark = std::str::from_utf8(marks_in(environment).next_back()?).ok()?;
    let mut parts = mark.split(':').skip(1);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// A process; the time of its start tells it from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Orphan {
    /// Process id.
    pub pid: u32,
    /// Start, in the kernel's ticks since boot.
    start: u64,
}

impl Orphan {
    fn of(process: &Stat) -> Orphan {
        Orphan {
            pid: process.pid,
            start: process.start,
        }
    }
}

/// What came of ending orphans.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ended {
    /// How many are gone.
    pub gone: usize,
    /// Which could not be ended in time: a process in the kernel's state D does not even die.
    pub left: Vec<u32>,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ended", self.gone)?;
        if !self.left.is_empty() {
            write!(f, ", still there: {:?}", self.left)?;
        }
        Ok(())
    }
}

/// Has the kernel send `signal` to this process when the thread that started it ends. For the moment
/// between fork and exec: nothing here allocates.
///
/// # Errors
/// `parent` is gone already (ESRCH), or what the system says.
pub fn signal_at_end_of(parent: Pid, signal: Signal) -> io::Result<()> {
    nix::sys::prctl::set_pdeathsig(signal)?;
    child_of(parent)
}

/// Whether `parent` is the parent of this process still; it may have ended before the kernel was told
/// to tell of it.
fn child_of(parent: Pid) -> io::Result<()> {
    if nix::unistd::getppid() == parent {
        return Ok(());
    }
    // Not by `io::Error::other`, which allocates: another thread may have held the lock for that.
    Err(io::Error::from_raw_os_error(libc::ESRCH))
}

/// From now on, descendants of this process that lose their parents become its children, whatever
/// environment they have. For a worker that starts programs: it has no other children.
///
/// # Errors
/// What the system says.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

/// Lets go of every child that has ended.
pub fn reap_all() {
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        if status == nix::sys::wait::WaitStatus::StillAlive {
            return;
        }
    }
}

/// Ends all processes of a mark, and waits until they are gone, at most about as long as
/// `patience`. They are stopped first: what stands still neither starts others nor leaves its
/// children to strangers.
pub fn end(mark: &ProcessMark, patience: Duration) -> Ended {
    let start = Instant::now();
    let mut known = BTreeSet::new();
    let mut pause = Duration::from_millis(1);
    let mut stops = 0;
    loop {
        let found = find(mark, &known);
        let over = found.members.is_empty() && !found.unsure;
        if over || start.elapsed() >= patience {
            reap(&known);
            let left: Vec<u32> = found.members.iter().map(|s| s.pid).collect();
            known.extend(found.members);
            return Ended {
                gone: known.len() - left.len(),
                left,
            };
        }
        let mut new = found.members.clone();
        new.retain(|s| known.insert(*s));
        if !new.is_empty() && stops < STOPS {
            stops += 1;
            new.iter().for_each(|s| send(*s, Signal::SIGSTOP));
            continue;
        }
        found.members.iter().for_each(|s| send(*s, Signal::SIGKILL));
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Waits while there are processes of a mark, at most about as long as `patience`.
pub fn wait_for_all(mark: &ProcessMark, patience: Duration) {
    let start = Instant::now();
    while start.elapsed() < patience && !find(mark, &BTreeSet::new()).members.is_empty() {
        thread::sleep(LONGEST_PAUSE);
    }
}

/// Like [`end`], on a thread of its own that is left behind where it does not come back: reading
/// another process's environment waits for a lock that a process stuck in a driver may hold.
pub fn end_or_give_up(mark: &ProcessMark, patience: Duration) -> Option<Ended> {
    let (done, result) = mpsc::channel();
    let mark = mark.clone();
    thread::Builder::new()
        .name("orphans".into())
        .spawn(move || done.send(end(&mark, patience)))
        .ok()?;
    result.recv_timeout(patience * 2).ok()
}

/// Waits while one of these processes is about to exit, at most as long as `patience`. It has no
/// environment any more by which it could be found, but perhaps still memory of a GPU.
pub fn wait_for_exits(pids: &[u32], patience: Duration) {
    let start = Instant::now();
    let mut buffer = Vec::new();
    while start.elapsed() < patience
        && pids
            .iter()
            .filter_map(|pid| with_buffer(*pid, &mut buffer))
            .any(|p| p.alive() && p.exiting())
    {
        thread::sleep(Duration::from_millis(5));
    }
}

/// What a look at the process table shows of a mark.
struct MarkedProcesses {
    /// Its members that live, but for this process and those that it descends from.
    members: Vec<Orphan>,
    /// There are processes whose environment is not there yet, because they are within `exec`.
    unsure: bool,
}

/// Looks for the processes of a mark; those that were `known` as such stay members, also when they
/// are about to exit and show no environment any more.
fn find(mark: &ProcessMark, known: &BTreeSet<Orphan>) -> MarkedProcesses {
    let table = stat::all();
    let spared = spared(&table);
    let grouped = mark.cgroup().map(cgroup::members).unwrap_or_default();
    let mut buffer = Vec::with_capacity(4096);
    let mut unsure = false;
    let mut carriers = Vec::new();
    for process in table.values() {
        if !process.alive() || process.start < mark.since || spared.contains(&process.pid) {
            continue;
        }
        let carries = known.contains(&Orphan::of(process))
            || grouped.contains(&process.pid)
            || mark.descendants && process.parent == std::process::id()
            || read(&format!("/proc/{}/environ", process.pid), &mut buffer).is_ok_and(|()| {
                unsure |= buffer.is_empty() && process.may_have_environment() && !process.exiting();
                mark.marks(&buffer)
            });
        if carries {
            carriers.push(process.pid);
        }
    }
    MarkedProcesses {
        members: with_descendants(&table, carriers, &spared),
        unsure,
    }
}

/// This process and those that it descends from.
fn spared(table: &BTreeMap<u32, Stat>) -> BTreeSet<u32> {
    let mut spared = BTreeSet::new();
    let mut pid = std::process::id();
    while spared.insert(pid) {
        match table.get(&pid) {
            Some(process) => pid = process.parent,
            None => break,
        }
    }
    spared
}

/// The carriers and all that descends from them, but for those that are spared.
fn with_descendants(
    table: &BTreeMap<u32, Stat>,
    carriers: Vec<u32>,
    spared: &BTreeSet<u32>,
) -> Vec<Orphan> {
    if carriers.is_empty() {
        return vec![];
    }
    let mut children: BTreeMap<u32, Vec<&Stat>> = BTreeMap::new();
    for process in table.values().filter(|p| p.alive()) {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = BTreeMap::new();
    let mut todo: Vec<&Stat> = carriers.iter().filter_map(|pid| table.get(pid)).collect();
    while let Some(process) = todo.pop() {
        if spared.contains(&process.pid) || found.insert(process.pid, Orphan::of(process)).is_some()
        {
            continue;
        }
        let own = children.get(&process.pid).into_iter().flatten();
        // Who is older than its parent had another one when the table was read.
        todo.extend(own.filter(|child| child.start >= process.start));
    }
    found.into_values().collect()
}

/// Sends a signal to this very process, or to none.
fn send(orphan: Orphan, signal: Signal) {
    let pid = orphan.pid as libc::pid_t;
    // What was opened before the start time is compared cannot become another process after it.
    let opened = pidfd(pid);
    if start_of(orphan.pid) != Some(orphan.start) {
        return;
    }
    if !opened.is_some_and(|fd| send_to(&fd, signal)) {
        // A kernel without these calls (before 5.3), or no descriptor left.
        let _ = nix::sys::signal::kill(Pid::from_raw(pid), signal);
    }
}

pub(super) fn pidfd(pid: libc::pid_t) -> Option<OwnedFd> {
    // SAFETY: the call takes two integers and touches no memory.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the kernel has just made this descriptor for us.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn send_to(process: &OwnedFd, signal: Signal) -> bool {
    // SAFETY: the descriptor is open, and a null `siginfo` means the one that `kill` sends.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal as i32,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    result == 0
}

/// Lets go of ended orphans that have become children of this process, which then is the first of
/// its container.
fn reap(ended: &BTreeSet<Orphan>) {
    let mut buffer = Vec::new();
    for orphan in ended {
        let zombie = with_buffer(orphan.pid, &mut buffer);
        if zombie.is_some_and(|p| p.start == orphan.start && p.parent == std::process::id()) {
            let pid = Pid::from_raw(orphan.pid as libc::pid_t);
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        }
    }
}

#[cfg(test)]
#[path = "orphans_tests.rs"]
mod tests;
