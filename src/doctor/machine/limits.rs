//! Checks of memory, limits and the disk.

use super::disk::quantile;
use super::{Facts, Finding, failed, gb, graded, not_run, passed, some_of, warning};

/// File systems that other machines write to at the same time, or that forward to one: locks and shared memory of a
/// database do not work there as it needs them (sqlite.org/wal.html, "All processes must be on the same host").
const REMOTE: [&str; 12] = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "9p",
    "drvfs",
    "lustre",
    "ceph",
    "glusterfs",
    "beegfs",
    "afs",
    "gpfs",
];

/// No limit, as the kernel writes it.
const UNLIMITED: u64 = libc::RLIM_INFINITY;

fn share(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

pub(super) fn memory(facts: &Facts) -> Finding {
    let Some(memory) = &facts.host.memory else {
        return not_run("/proc/meminfo cannot be read");
    };
    let left = share(memory.available, memory.total);
    let seen = format!(
        "{} of {} available ({left:.0} %)",
        gb(memory.available),
        gb(memory.total)
    );
    let none = left < 5.0 && memory.available < 2 << 30;
    graded(none, left < 10.0, seen)
}

pub(super) fn cgroup_memory(facts: &Facts) -> Finding {
    let kills = facts.host.oom_kills;
    let limits = facts.host.cgroups.iter().filter(|(max, _)| {
        // What is above all memory is how version 1 writes "no limit".
        facts
            .host
            .meminfo
            .get("MemTotal")
            .is_none_or(|all| max < all)
    });
    let tight = limits.min_by_key(|(_, left)| *left);
    let limit = tight.map_or_else(
        || "no limit".to_owned(),
        |(max, left)| format!("{} left of {}", gb(*left), gb(*max)),
    );
    let room = tight.map(|(max, left)| share(*left, *max));
    let seen = match kills {
        Some(kills) if kills > 0 => {
            format!("{limit}; the kernel has killed {kills} processes there for memory")
        }
        Some(_) => format!("{limit}; no process killed"),
        None => limit,
    };
    match (room, kills) {
        (None, None) if facts.host.cgroups.is_empty() => {
            not_run("the memory cgroup cannot be seen")
        }
        (Some(room), _) if room < 5.0 => failed(seen),
        (_, Some(kills)) if kills > 0 => warning(seen),
        _ => passed(seen),
    }
}

pub(super) fn swap(facts: &Facts) -> Finding {
    let of = |name| facts.host.meminfo.get(name).copied();
    match (of("SwapTotal"), of("SwapFree")) {
        (Some(0), _) => passed("none: what does not fit in memory is killed at once"),
        (Some(total), Some(free)) => {
            let used = total.saturating_sub(free);
            let seen = format!("{} of {} used", gb(used), gb(total));
            graded(false, share(used, total) > 50.0, seen)
        }
        _ => not_run("/proc/meminfo cannot be read"),
    }
}

pub(super) fn overcommit(facts: &Facts) -> Finding {
    let Some(mode) = facts.host.overcommit else {
        return not_run("/proc/sys/vm/overcommit_memory cannot be read");
    };
    if mode != 2 {
        return passed(format!("vm.overcommit_memory={mode}"));
    }
    let of = |name| facts.host.meminfo.get(name).copied().unwrap_or(0);
    let left = of("CommitLimit").saturating_sub(of("Committed_AS"));
    let seen = format!(
        "vm.overcommit_memory=2: {} can still be promised of {}",
        gb(left),
        gb(of("CommitLimit"))
    );
    // CUDA reserves address space for all memory of host and cards.
    graded(facts.has_gpu() || left < 4 << 30, true, seen)
}

pub(super) fn shared_memory(facts: &Facts) -> Finding {
    match facts.host.shm {
        None => failed("/dev/shm is not there"),
        Some((total, free)) => {
            let seen = format!("{} free of {}", gb(free), gb(total));
            graded(free < 64 << 20, total < 1 << 30, seen)
        }
    }
}

fn shown(limit: u64) -> String {
    match limit {
        UNLIMITED => "unlimited".to_owned(),
        limit => limit.to_string(),
    }
}

pub(super) fn open_files(facts: &Facts) -> Finding {
    let Some((soft, hard)) = facts.host.files else {
        return not_run("the limit cannot be read");
    };
    let seen = format!("ulimit -n is {}, at most {}", shown(soft), shown(hard));
    graded(soft < 256, soft < 1024, seen)
}

pub(super) fn processes(facts: &Facts) -> Finding {
    let of_user = facts
        .host
        .processes
        .map(|(max, now)| ("ulimit -u", max, now));
    let of_group = facts
        .host
        .pids
        .map(|(max, now)| ("pids.max of the cgroup", max, now));
    let all = [of_user, of_group];
    // The kernel lets root pass.
    let root = facts.host.root;
    let binding = all
        .into_iter()
        .flatten()
        .filter(|(what, ..)| !root || *what != "ulimit -u");
    let tight = binding.min_by_key(|(_, max, now)| max.saturating_sub(*now));
    let Some((what, max, now)) = tight else {
        return match of_user {
            Some((_, _, now)) => passed(format!("no limit; {now} processes and threads")),
            None => not_run("the limits cannot be read"),
        };
    };
    let seen = format!(
        "{what} is {}, {now} processes and threads are there",
        shown(max)
    );
    let left = max.saturating_sub(now);
    graded(left < 100, left < 500, seen)
}

pub(super) fn address_space(facts: &Facts) -> Finding {
    match (facts.host.address_space, facts.host.locked) {
        (None, _) => not_run("the limit cannot be read"),
        (Some(UNLIMITED), locked) => {
            let locked = match locked {
                Some(UNLIMITED) | None => "unlimited".to_owned(),
                Some(bytes) => format!("{} KiB", bytes >> 10),
            };
            passed(format!("ulimit -v unlimited, ulimit -l {locked}"))
        }
        (Some(bytes), _) => {
            let seen = format!("ulimit -v is {}", gb(bytes));
            graded(facts.has_gpu() || bytes < 16 << 30, true, seen)
        }
    }
}

pub(super) fn file_system(facts: &Facts) -> Finding {
    let dir = facts.disk.dir.display();
    let Some((kind, options)) = &facts.disk.kind else {
        return not_run("/proc/self/mountinfo does not tell");
    };
    let seen = format!("{dir} is on {kind}");
    // WSL mounts Windows' disks by 9p, sshfs and the like by fuse.
    let remote = REMOTE.contains(&kind.as_str())
        || kind.starts_with("fuse.")
        || options.contains("aname=drvfs");
    if facts.disk.read_only {
        return failed(format!("{seen}, read-only"));
    }
    graded(false, remote, seen)
}

pub(super) fn disk_space(facts: &Facts) -> Finding {
    let (Some((total, free)), Some((inodes, free_inodes))) = (facts.disk.space, facts.disk.inodes)
    else {
        return not_run("the file system does not tell");
    };
    let counted = match inodes {
        0 => "inodes not counted".to_owned(),
        _ => format!("{free_inodes} of {inodes} inodes free"),
    };
    let seen = format!("{} of {} free, {counted}", gb(free), gb(total));
    let full = free < 100 << 20 || inodes > 0 && free_inodes < 200;
    let nearly = free < 2 << 30 || inodes > 0 && share(free_inodes, inodes) < 2.0;
    graded(full, nearly, seen)
}

pub(super) fn disk_latency(facts: &Facts) -> Finding {
    match &facts.disk.syncs {
        Err(why) => not_run(format!("no write could be timed: {why}")),
        Ok(times) => {
            let p99 = quantile(times, 0.99);
            let seen = format!(
                "a durable write takes {:.1} ms (median), {p99:.1} ms (p99 of {})",
                quantile(times, 0.5),
                times.len()
            );
            graded(false, p99 > 100.0, seen)
        }
    }
}

pub(super) fn kernel_log(facts: &Facts) -> Finding {
    let lines = match &facts.log {
        Ok(lines) => lines,
        Err(why) => return not_run(why.clone()),
    };
    let of = |holds: fn(&str) -> bool| -> Vec<String> {
        lines.iter().filter(|l| holds(l)).cloned().collect()
    };
    let (broken, harmed) = (of(super::kernel_log::broken), of(super::kernel_log::harmed));
    // The latest tell most.
    let latest = |list: &[String]| some_of(&list.iter().rev().cloned().collect::<Vec<_>>());
    match (broken.is_empty(), harmed.is_empty()) {
        (false, _) => failed(latest(&broken)),
        (true, false) => warning(latest(&harmed)),
        (true, true) => passed(format!("{} lines, none of broken hardware", lines.len())),
    }
}
