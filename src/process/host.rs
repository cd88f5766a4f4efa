//! The host's memory: what there is for this process, and what some processes use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;

use crate::cgroup::OwnCgroup;
use device::HostSample;

/// The memory that there is for this process, in bytes; `None` where `/proc` tells nothing.
pub fn memory_total() -> Option<u64> {
    Some(look(&BTreeSet::new(), OwnCgroup::own().as_ref())?.total)
}

/// One look, by the limits of this process's cgroups; `None` where `/proc` tells nothing.
pub fn look(workers: &BTreeSet<u32>, own: Option<&OwnCgroup>) -> Option<HostSample> {
    let (total, available) = machine(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let mut sample = HostSample {
        total,
        available,
        processes: BTreeMap::new(),
    };
    for (limit, room) in own.map(OwnCgroup::limits).unwrap_or_default() {
        sample.total = sample.total.min(limit);
        sample.available = sample.available.min(room);
    }
    if !workers.is_empty() {
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
        let page = page.ok().flatten().and_then(|p| u64::try_from(p).ok())?;
        sample.processes = resident(workers, &table(), page);
    }
    Some(sample)
}

/// A process, its descendants and its process group.
pub fn family(pid: u32) -> Vec<u32> {
    let (workers, table) = (BTreeSet::from([pid]), table());
    let of =
        |(pid, process): &(&u32, &Process)| worker_of(**pid, process, &workers, &table).is_some();
    table.iter().filter(of).map(|(pid, _)| *pid).collect()
}

/// The processor time that a process, its descendants and its process group have used so far, in the kernel's ticks (100 a
/// second). Of those that have ended nothing is counted.
pub fn activity(pid: u32) -> Activity {
    let workers = BTreeSet::from([pid]);
    let table = table();
    let of =
        |(pid, process): &(&u32, &Process)| worker_of(**pid, process, &workers, &table).is_some();
    let own = table.iter().filter(of);
    own.fold(Activity::default(), |sum, (_, process)| Activity {
        ticks: sum.ticks + process.ticks,
        wants: sum.wants || process.wants,
    })
}

/// Processor time of a process alone, in the kernel's ticks, and after how many seconds of it the kernel ends the process
/// (`RLIMIT_CPU`, the lower limit); `None`: there is no limit.
pub fn limited_time(pid: u32) -> Option<(u64, u64)> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let mut lines = limits.lines();
    let line = lines.find_map(|line| line.strip_prefix("Max cpu time"))?;
    let limit = line.split_whitespace().next()?.parse().ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some((process(&stat)?.ticks, limit))
}

/// What a process and all that it has started do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// Processor time, in the kernel's ticks.
    pub ticks: u64,
    /// One of them wants a processor, or waits for a disk: on a busy machine it may get neither.
    pub wants: bool,
}

/// Bytes in all and available, of `/proc/meminfo`.
fn machine(meminfo: &str) -> Option<(u64, u64)> {
    let bytes = |name: &str| {
        let line = meminfo.lines().find_map(|l| l.strip_prefix(name))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    };
    Some((bytes("MemTotal:")?, bytes("MemAvailable:")?))
}

/// A process, of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: u32,
    group: u32,
    /// Resident memory, in pages.
    pages: u64,
    /// Processor time, in the kernel's ticks.
    ticks: u64,
    /// It runs, waits for a processor, or for a disk (states R and D).
    wants: bool,
}

/// All processes that can be seen. The line is used that can be read without waiting for any lock
/// of the process.
fn table() -> BTreeMap<u32, Process> {
    let mut buffer = Vec::with_capacity(1024);
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        buffer.clear();
        let file = File::open(format!("/proc/{pid}/stat")).ok()?;
        // `take` hides that this is a file: else its size would be asked for, each time.
        file.take(u64::MAX).read_to_end(&mut buffer).ok()?;
        Some((pid, process(&String::from_utf8_lossy(&buffer))?))
    })
    .collect()
}

/// The name in brackets may hold anything; the state behind it is field 3.
fn process(stat: &str) -> Option<Process> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Process {
        parent: u32::try_from(number(4)?).ok()?,
        group: u32::try_from(number(5)?).ok()?,
        pages: number(24)?,
        ticks: number(14)? + number(15)?,
        wants: matches!(fields.first(), Some(&("R" | "D"))),
    })
}

/// Resident memory of workers, each with its descendants and its process group, in bytes. Pages
/// that processes share count in each of them.
fn resident(
    workers: &BTreeSet<u32>,
    table: &BTreeMap<u32, Process>,
    page: u64,
) -> BTreeMap<u32, u64> {
    let mut sums = BTreeMap::new();
    for (pid, process) in table {
        if let Some(worker) = worker_of(*pid, process, workers, table) {
            *sums.entry(worker).or_default() += process.pages * page;
        }
    }
    sums
}

/// The worker that a process belongs to.
fn worker_of(
    pid: u32,
    process: &Process,
    workers: &BTreeSet<u32>,
    table: &BTreeMap<u32, Process>,
) -> Option<u32> {
    let (mut pid, mut at) = (pid, *process);
    // The table was not read at one instant: parents could go round in it.
    for _ in 0..table.len() {
        if let Some(worker) = workers.get(&pid).or_else(|| workers.get(&at.group)) {
            return Some(*worker);
        }
        pid = at.parent;
        at = *table.get(&pid)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_memory_is_read() {
        let text = "MemTotal:       16 kB\nMemFree:  1 kB\nMemAvailable:   8 kB\n";
        assert_eq!(machine(text), Some((16 << 10, 8 << 10)));
        assert_eq!(machine("MemTotal: 16 kB\n"), None);
    }

    #[test]
    fn a_process_is_read_behind_any_name() {
        let fields = "S 7 8 9 0 -1 0 0 0 0 0 10 20 0 0 20 0 1 0 99 4096 33 18446744073709551615";
        let wanted = Process {
            parent: 7,
            group: 8,
            pages: 33,
            ticks: 30,
            wants: false,
        };
        assert_eq!(process(&format!("12 (a) R b) {fields}")), Some(wanted));
        let running = process(&format!("12 (a) {}", fields.replacen("S", "R", 1)));
        assert!(running.is_some_and(|p| p.wants));
        assert_eq!(process("12 (tune) S 7"), None);
    }

    #[test]
    fn a_worker_counts_with_its_descendants_and_its_group() {
        let of = |parent, group| Process {
            parent,
            group,
            pages: 1,
            ticks: 1,
            wants: false,
        };
        let table = BTreeMap::from([
            (1, of(0, 1)),
            (10, of(1, 10)),  // a worker
            (11, of(10, 11)), // what it started, in a group of its own
            (12, of(11, 12)), // what that started
            (13, of(1, 10)),  // its parent has died
            (20, of(1, 20)),  // another worker
            (30, of(1, 30)),  // a stranger
        ]);
        let workers = BTreeSet::from([10, 20, 99]);
        let sums = resident(&workers, &table, 4096);
        assert_eq!(sums, BTreeMap::from([(10, 4 * 4096), (20, 4096)]));
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let own = std::process::id();
        let sample = look(&BTreeSet::from([own]), None).unwrap();
        assert!(sample.total > 0 && sample.available <= sample.total);
        assert!(sample.processes[&own] > 1 << 20);
    }
}
