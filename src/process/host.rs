//! The host's memory: what there is for this process, and what some processes use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use nix::unistd::{SysconfVar, sysconf};

use crate::cgroup::OwnCgroup;
use crate::stat::{self, Stat};
use device::HostSample;

/// The memory that there is for this process, in bytes; `None` where `/proc` tells nothing.
pub fn memory_total() -> Option<u64> {
    Some(look(&BTreeSet::new(), OwnCgroup::own().as_ref())?.total)
}

/// One look, by the limits of this process's cgroups; `None` where `/proc` tells nothing.
pub fn look(workers: &BTreeSet<u32>, own: Option<&OwnCgroup>) -> Option<HostSample> {
    let told = fs::read_to_string("/proc/meminfo").ok()?;
    let mut sample = HostSample {
        total: size(&told, "MemTotal")?,
        available: size(&told, "MemAvailable")?,
        processes: BTreeMap::new(),
    };
    for (limit, room) in own.map(OwnCgroup::limits).unwrap_or_default() {
        sample.total = sample.total.min(limit);
        sample.available = sample.available.min(room);
    }
    if !workers.is_empty() {
        sample.processes = resident(workers, &stat::all(), page()?);
    }
    Some(sample)
}

/// What a process, its descendants and its process group use, by one look. Of those that have ended nothing is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Family {
    /// Which they are; empty where there is no such process.
    pub pids: Vec<u32>,
    /// Resident memory, in bytes. Pages that they share count in each of them.
    pub memory: u64,
    /// Processor time so far, in the kernel's ticks.
    pub ticks: u64,
    /// One of them wants a processor, or waits for a disk: on a busy machine it may get neither.
    pub wants: bool,
}

impl Family {
    /// A process with all that it has started.
    pub fn of(pid: u32) -> Family {
        Family::among(&stat::all(), pid)
    }

    fn among(table: &BTreeMap<u32, Stat>, pid: u32) -> Family {
        let (workers, page) = (BTreeSet::from([pid]), page().unwrap_or(0));
        let mut family = Family::default();
        for process in table.values() {
            if worker_of(process, &workers, table).is_some() {
                family.pids.push(process.pid);
                family.memory += process.pages * page;
                family.ticks += process.ticks;
                family.wants |= process.wants();
            }
        }
        family
    }
}

/// Bytes of a page of memory.
pub fn page() -> Option<u64> {
    u64::try_from(sysconf(SysconfVar::PAGE_SIZE).ok()??).ok()
}

/// Processor time of a process alone, and after how much of it the kernel ends the process (`RLIMIT_CPU`, the lower limit),
/// both in whole seconds; `None`: there is no limit.
pub fn limited_time(pid: u32) -> Option<(u64, u64)> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let mut lines = limits.lines();
    let line = lines.find_map(|line| line.strip_prefix("Max cpu time"))?;
    let limit = line.split_whitespace().next()?.parse().ok()?;
    Some((stat::of(pid)?.ticks / stat::ticks_a_second()?, limit))
}

/// A size in bytes, of the line `NAME: N kB` of a text like `/proc/meminfo` and `/proc/PID/status`.
pub fn size(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let rest = lines.find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Resident memory of workers, each with its descendants and its process group, in bytes. Pages
/// that processes share count in each of them.
fn resident(workers: &BTreeSet<u32>, table: &BTreeMap<u32, Stat>, page: u64) -> BTreeMap<u32, u64> {
    let mut sums = BTreeMap::new();
    for process in table.values() {
        if let Some(worker) = worker_of(process, workers, table) {
            *sums.entry(worker).or_default() += process.pages * page;
        }
    }
    sums
}

/// The worker that a process belongs to.
fn worker_of(process: &Stat, workers: &BTreeSet<u32>, table: &BTreeMap<u32, Stat>) -> Option<u32> {
    let mut at = process;
    // The table was not read at one instant: parents could go round in it.
    for _ in 0..table.len() {
        if let Some(worker) = workers.get(&at.pid).or_else(|| workers.get(&at.group)) {
            return Some(*worker);
        }
        at = table.get(&at.parent)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::tests::sleeping;

    #[test]
    fn sizes_are_read_as_the_kernel_writes_them() {
        let text = "Name:\ttune\nMemTotal:       16 kB\nVmHWM:\t    2048 kB\n";
        assert_eq!(size(text, "MemTotal"), Some(16 << 10));
        assert_eq!(size(text, "VmHWM"), Some(2 << 20));
        assert_eq!(size(text, "Mem"), None);
        assert_eq!(size(text, "Name"), None);
    }

    #[test]
    fn a_worker_counts_with_its_descendants_and_its_group() {
        let of = |pid, parent, group| Stat {
            group,
            pages: 1,
            ticks: 1,
            ..sleeping(pid, parent)
        };
        let table = [
            of(1, 0, 1),
            of(10, 1, 10),  // a worker
            of(11, 10, 11), // what it started, in a group of its own
            of(12, 11, 12), // what that started
            of(13, 1, 10),  // its parent has died
            of(20, 1, 20),  // another worker
            of(30, 1, 30),  // a stranger
        ];
        let table = table.map(|process| (process.pid, process)).into();
        let workers = BTreeSet::from([10, 20, 99]);
        let sums = resident(&workers, &table, 4096);
        assert_eq!(sums, BTreeMap::from([(10, 4 * 4096), (20, 4096)]));
        let family = Family {
            pids: vec![10, 11, 12, 13],
            memory: 4 * page().unwrap(),
            ticks: 4,
            wants: false,
        };
        assert_eq!(Family::among(&table, 10), family);
        assert_eq!(Family::among(&table, 99), Family::default());
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let own = std::process::id();
        let sample = look(&BTreeSet::from([own]), None).unwrap();
        assert!(sample.total > 0 && sample.available <= sample.total);
        assert!(sample.processes[&own] > 1 << 20);
    }
}
