//! What the kernel tells of the host: processor, memory, limits, processes, pressure.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;

use device::HostSample;
use process::cgroup::{OwnCgroup, entry, own_oom_kills};

/// How often the process table is looked at for processes that wait in the kernel, and how long between: what reads a
/// disk waits there for milliseconds.
const LOOKS: (u32, Duration) = (4, Duration::from_millis(60));

/// A thread of the kernel, in the flags of `/proc/PID/stat`.
const PF_KTHREAD: u64 = 0x0020_0000;

/// The host. What could not be read is `None` or empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Host {
    /// The processor's features, as `/proc/cpuinfo` names them; empty where it names none.
    pub features: BTreeSet<String>,
    /// The machine runs on this architecture: `x86_64`.
    pub architecture: &'static str,
    /// Processors that this process may run on.
    pub cores: Option<usize>,
    /// Of those, as many as its cgroup lets it use at once.
    pub usable: Option<usize>,
    /// How often a cgroup had used up its share of a period, out of so many periods.
    pub throttled: Option<(u64, u64)>,
    /// Memory in all and available, with the limits of the cgroups.
    pub memory: Option<HostSample>,
    /// The limits of the cgroups and what is left, in bytes, the innermost first.
    pub cgroups: Vec<(u64, u64)>,
    /// Processes that the kernel has killed for memory in the cgroup of this process.
    pub oom_kills: Option<u64>,
    /// `/proc/meminfo`, in bytes.
    pub meminfo: BTreeMap<String, u64>,
    /// `vm.overcommit_memory`.
    pub overcommit: Option<u8>,
    /// Soft limit and hard limit of open files.
    pub files: Option<(u64, u64)>,
    /// Soft limit of this user's processes and threads, and how many there are.
    pub processes: Option<(u64, u64)>,
    /// The most processes and threads in the cgroup, and how many there are.
    pub pids: Option<(u64, u64)>,
    /// Whether this is root, whom some limits do not bind.
    pub root: bool,
    /// Limit of locked memory, in bytes.
    pub locked: Option<u64>,
    /// Limit of the address space, in bytes.
    pub address_space: Option<u64>,
    /// `/dev/shm` in all and free, in bytes.
    pub shm: Option<(u64, u64)>,
    /// The clock source in use, and those that there are.
    pub clock: Option<(String, String)>,
    /// Processes that have waited in the kernel all the time of several looks.
    pub stuck: Vec<String>,
    /// Processes that have ended and that nobody has waited for.
    pub zombies: Vec<String>,
    /// Share of the last 10 s in which some and all tasks waited for `cpu`, `memory` and `io`, in percent.
    pub pressure: BTreeMap<&'static str, (f64, f64)>,
    /// Whether this is WSL.
    pub wsl: bool,
}

fn text(path: impl AsRef<Path>) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Looks at the host; takes a quarter of a second.
pub fn look() -> Host {
    let own = OwnCgroup::own();
    let (stuck, zombies) = processes();
    let limit = |resource| getrlimit(resource).ok();
    let user = nix::unistd::getuid().as_raw();
    Host {
        features: features(&text("/proc/cpuinfo")),
        architecture: std::env::consts::ARCH,
        cores: count(&text("/proc/self/status")),
        usable: std::thread::available_parallelism().ok().map(usize::from),
        throttled: throttled(own.as_ref()),
        memory: process::host::look(&BTreeSet::new(), own.as_ref()),
        cgroups: own.as_ref().map(OwnCgroup::limits).unwrap_or_default(),
        oom_kills: own_oom_kills(),
        meminfo: meminfo(&text("/proc/meminfo")),
        overcommit: text("/proc/sys/vm/overcommit_memory").trim().parse().ok(),
        files: limit(Resource::RLIMIT_NOFILE),
        processes: limit(Resource::RLIMIT_NPROC).map(|(soft, _)| (soft, threads_of(user))),
        pids: pids(own.as_ref()),
        root: nix::unistd::geteuid().is_root(),
        locked: limit(Resource::RLIMIT_MEMLOCK).map(|(soft, _)| soft),
        address_space: limit(Resource::RLIMIT_AS).map(|(soft, _)| soft),
        shm: space(Path::new("/dev/shm")),
        clock: clock(),
        stuck,
        zombies,
        pressure: ["cpu", "memory", "io"]
            .into_iter()
            .filter_map(|what| Some((what, pressure(&text(format!("/proc/pressure/{what}")))?)))
            .collect(),
        wsl: wsl(),
    }
}

/// Whether Windows' own words stand in the kernel's version.
pub(super) fn wsl() -> bool {
    text("/proc/version").to_lowercase().contains("microsoft")
}

/// Bytes in all and free for us in a file system.
pub fn space(path: &Path) -> Option<(u64, u64)> {
    let found = statvfs(path).ok()?;
    let unit = found.fragment_size();
    Some((found.blocks() * unit, found.blocks_available() * unit))
}

/// What `/proc/cpuinfo` says that the first processor can.
fn features(cpuinfo: &str) -> BTreeSet<String> {
    let line = cpuinfo
        .lines()
        .find(|l| l.starts_with("flags") || l.starts_with("Features"));
    let list = line
        .and_then(|l| l.split_once(':'))
        .map_or("", |(_, list)| list);
    list.split_whitespace().map(str::to_owned).collect()
}

/// How many processors `/proc/self/status` allows: `0-3,8`.
fn count(status: &str) -> Option<usize> {
    let list = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))?;
    let parts = list.trim().split(',').map(|part| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(to.parse::<usize>().ok()? + 1 - from.parse::<usize>().ok()?)
    });
    parts.sum()
}

fn throttled(own: Option<&OwnCgroup>) -> Option<(u64, u64)> {
    let own = own.map(|own| text(own.dir.join("cpu.stat")));
    let places = ["/sys/fs/cgroup/cpu/cpu.stat", "/sys/fs/cgroup/cpu.stat"];
    let stats = own.into_iter().chain(places.map(text));
    stats
        .into_iter()
        .find_map(|stat| Some((entry(&stat, "nr_throttled ")?, entry(&stat, "nr_periods ")?)))
}

/// The most processes in the innermost cgroup that limits them, and how many there are.
fn pids(own: Option<&OwnCgroup>) -> Option<(u64, u64)> {
    let own = own.map(|own| own.dir.clone());
    let dirs = own.into_iter().chain(["/sys/fs/cgroup/pids".into()]);
    let number = |path| text(path).trim().parse::<u64>().ok();
    dirs.into_iter().find_map(|dir| {
        Some((
            number(dir.join("pids.max"))?,
            number(dir.join("pids.current"))?,
        ))
    })
}

/// `/proc/meminfo` in bytes.
fn meminfo(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let kib: u64 = rest.split_whitespace().next()?.parse().ok()?;
        Some((name.to_owned(), kib * 1024))
    };
    text.lines().filter_map(line).collect()
}

fn clock() -> Option<(String, String)> {
    let dir = Path::new("/sys/devices/system/clocksource/clocksource0");
    let read = |name| text(dir.join(name)).trim().to_owned();
    let now = read("current_clocksource");
    (!now.is_empty()).then(|| (now, read("available_clocksource")))
}

/// `avg10` of the lines `some` and `full`; kernels before 5.13 have no `full` for processors.
fn pressure(text: &str) -> Option<(f64, f64)> {
    let of = |kind: &str| {
        let line = text.lines().find(|l| l.starts_with(kind))?;
        let field = line
            .split_whitespace()
            .find_map(|f| f.strip_prefix("avg10="))?;
        field.parse().ok()
    };
    Some((of("some")?, of("full").unwrap_or(0.0)))
}

/// A process: its state, whether it is the kernel's own or a child of this one, which may well read a disk just now, and
/// how it is shown.
fn process(stat: &str) -> Option<(char, bool, String)> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, fields) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let flags: u64 = fields.get(6)?.parse().ok()?;
    let state = fields.first()?.chars().next()?;
    let child = fields.get(1)?.parse() == Ok(std::process::id());
    Some((
        state,
        child || flags & PF_KTHREAD != 0,
        format!("{name} ({pid})"),
    ))
}

fn pids_seen() -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|e| e.file_name().into_string().ok());
    names
        .filter(|n| n.bytes().all(|b| b.is_ascii_digit()))
        .collect()
}

/// Processes that are stuck, and zombies.
fn processes() -> (Vec<String>, Vec<String>) {
    let (looks, between) = LOOKS;
    let mut stuck: Option<BTreeSet<String>> = None;
    let mut zombies: Option<BTreeSet<String>> = None;
    for look in 0..looks {
        if look > 0 {
            std::thread::sleep(between);
        }
        let stats = pids_seen();
        let all: Vec<_> = stats
            .iter()
            .filter_map(|pid| process(&text(format!("/proc/{pid}/stat"))))
            .collect();
        let of = |state: char| -> BTreeSet<String> {
            let those = all.iter().filter(|p| p.0 == state && !p.1);
            those.map(|p| p.2.clone()).collect()
        };
        let keep = |former: Option<BTreeSet<String>>, now: BTreeSet<String>| match former {
            Some(former) => former.intersection(&now).cloned().collect(),
            None => now,
        };
        stuck = Some(keep(stuck, of('D')));
        zombies = Some(keep(zombies, of('Z')));
    }
    let list = |set: Option<BTreeSet<String>>| set.into_iter().flatten().collect();
    (list(stuck), list(zombies))
}

/// Threads of all processes of a user: what `ulimit -u` counts.
fn threads_of(user: u32) -> u64 {
    let of = |pid: &String| {
        let status = text(format!("/proc/{pid}/status"));
        let uid = status.lines().find_map(|l| l.strip_prefix("Uid:"))?;
        let own = uid.split_whitespace().next()?.parse() == Ok(user);
        own.then(|| entry(&status, "Threads:")).flatten()
    };
    pids_seen().iter().filter_map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        assert!(features("processor : 0\nflags\t\t: fpu avx2 fma\n").contains("avx2"));
        assert_eq!(count("Cpus_allowed_list:\t0-3,8\n"), Some(5));
        let text = "some avg10=3.06 avg60=4.41 total=9\nfull avg10=1.50 avg60=0.00 total=0\n";
        assert_eq!(pressure(text), Some((3.06, 1.5)));
        assert_eq!(meminfo("MemTotal:  16 kB\n")["MemTotal"], 16 << 10);
        let stat = "12 (a) R b) D 7 8 9 0 -1 2097152 0";
        assert_eq!(process(stat), Some(('D', true, "a) R b (12)".to_owned())));
    }

    #[test]
    fn this_host_can_be_looked_at() {
        let host = look();
        assert!(
            host.cores >= host.usable && host.usable > Some(0),
            "{host:?}"
        );
        assert!(host.memory.is_some_and(|m| m.available > 0));
        assert!(host.files.is_some_and(|(soft, hard)| soft <= hard));
        assert!(host.processes.is_some_and(|(_, now)| now > 0));
        assert!(host.meminfo["MemTotal"] > 0);
    }
}
