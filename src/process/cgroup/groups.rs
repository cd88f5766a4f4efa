//! A cgroup for each worker of a run, in one for all of them: `tune-PID/worker-N` below the cgroup of
//! the supervisor.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::counts;
use super::place::{OwnCgroup, Version};

/// What the name of a run's cgroup begins with; the supervisor's process id follows.
const NAME: &str = "tune-";

/// What the supervisor moves to where it may not stay beside the workers' cgroups.
const LEAF: &str = "supervisor";

/// The members of a cgroup; who writes 0 moves itself there.
const PROCS: &str = "cgroup.procs";

/// Which controllers the cgroups below have, version 2.
const ENABLED: &str = "cgroup.subtree_control";

/// How long processes that were killed are waited for before a cgroup is left behind.
const PATIENCE: Duration = Duration::from_secs(1);

/// The cgroup of a run. Dropping it removes it and those in it, as far as nothing is left there.
#[derive(Debug)]
pub struct RunCgroup {
    version: Version,
    dir: PathBuf,
    /// Undone once the cgroup is gone.
    _moved: Option<Moved>,
}

impl RunCgroup {
    /// Makes one with a limit for all that is in it: this part of what memory there is for this
    /// process. Removes those that killed supervisors have left beside it. `None` where none can be
    /// had; why is logged.
    pub fn make(part: f64) -> Option<Arc<RunCgroup>> {
        let most = crate::host::memory_total().map(|total| (total as f64 * part) as u64);
        match make(most) {
            Ok(groups) => {
                tracing::debug!(dir = %groups.dir.display(), limit = most, "workers have cgroups of their own");
                Some(Arc::new(groups))
            }
            Err(reason) => {
                tracing::debug!(reason, "workers have no cgroups of their own");
                None
            }
        }
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the cgroup of a worker; `None` where that fails, which is logged.
    pub fn worker(&self, worker: u64) -> Option<WorkerCgroup> {
        let dir = self.dir.join(format!("worker-{worker}"));
        if let Err(error) = fs::create_dir(&dir) {
            tracing::debug!(worker, %error, "a worker has no cgroup of its own");
            return None;
        }
        if self.version == Version::Two {
            // A worker without its program, or a program without its worker, is of no use. Kernels
            // before 4.19 end one process.
            let _ = put(&dir.join("memory.oom.group"), "1");
        }
        let version = self.version;
        Some(WorkerCgroup { version, dir })
    }
}

impl Drop for RunCgroup {
    fn drop(&mut self) {
        leave_none(&self.dir);
    }
}

/// The cgroup of a worker. Dropping it removes it, if nothing is left there.
#[derive(Debug)]
pub struct WorkerCgroup {
    version: Version,
    dir: PathBuf,
}

impl WorkerCgroup {
    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A file that moves a process here when the process writes 0 to it.
    ///
    /// # Errors
    /// What the system says.
    pub fn procs_file(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.dir.join(PROCS))
    }

    /// OOM kills so far; `None` where the kernel does not count them (before 4.13).
    pub fn oom_kills(&self) -> Option<u64> {
        counts::oom_kills(self.version, &self.dir)
    }
}

impl Drop for WorkerCgroup {
    fn drop(&mut self) {
        remove(&self.dir);
    }
}

/// Removes a cgroup and those in it; waits a moment for what is about to end there. Says whether it is
/// gone. Nothing is logged here: it also runs in the guardian.
pub fn clear(dir: &Path) -> bool {
    let start = Instant::now();
    loop {
        if remove(dir) {
            return true;
        }
        if start.elapsed() >= PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The processes in a cgroup and in those in it, as far as they have a number here.
pub fn members(dir: &Path) -> BTreeSet<u32> {
    let text = fs::read_to_string(dir.join(PROCS)).unwrap_or_default();
    // Processes of other containers are 0.
    let pids = text.lines().filter_map(|l| l.parse().ok());
    let mut found: BTreeSet<u32> = pids.filter(|pid| *pid != 0).collect();
    for inner in inner(dir) {
        found.append(&mut members(&inner));
    }
    found
}

/// Makes the cgroup of a run, or says why there is none.
fn make(most: Option<u64>) -> Result<RunCgroup, String> {
    let place = OwnCgroup::own().ok_or("the memory cgroup of this process cannot be seen")?;
    let own = std::process::id();
    clear_dead(&place.dir, own);
    let procs = read(&place.dir, PROCS);
    if !procs.lines().any(|pid| pid == own.to_string()) {
        return Err(format!(
            "{} does not list this process",
            place.dir.display()
        ));
    }
    let moved = match place.version {
        Version::One => None,
        Version::Two => prepare(&place.dir, &procs, own)?,
    };
    let dir = place.dir.join(format!("{NAME}{own}"));
    fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let groups = RunCgroup {
        version: place.version,
        dir,
        _moved: moved,
    };
    let limit = match groups.version {
        Version::One => {
            // Kernels before 5.11 can count the cgroups below apart.
            if read(&groups.dir, "memory.use_hierarchy").trim() == "0" {
                put(&groups.dir.join("memory.use_hierarchy"), "1")?;
            }
            "memory.limit_in_bytes"
        }
        Version::Two => {
            put(&groups.dir.join(ENABLED), "+memory")?;
            "memory.max"
        }
    };
    if let Some(most) = most {
        put(&groups.dir.join(limit), &most.to_string())?;
    }
    Ok(groups)
}

/// Removes what supervisors have left that are dead; who lives may be about to use an empty one.
fn clear_dead(dir: &Path, own: u32) {
    for group in inner(dir) {
        let name = group.file_name().and_then(|n| n.to_str());
        let pid = name.and_then(|n| n.strip_prefix(NAME)?.parse::<u32>().ok());
        let dead = |pid| pid == own || !Path::new(&format!("/proc/{pid}")).exists();
        if pid.is_some_and(dead) {
            remove(&group);
        }
    }
}

/// What has to be done before a cgroup of version 2 can have others in it whose memory is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Plan {
    /// Nothing.
    Ready,
    /// The controller has to be handed down.
    Enable,
    /// This process has to leave it first.
    Leave,
    /// It cannot be.
    Never(String),
}

/// Decides that. `kind` is `cgroup.type`, empty for the root of all; then which controllers there
/// are, which are handed down, and who is in it.
fn plan(kind: &str, there: &str, enabled: &str, procs: &str, own: u32) -> Plan {
    let has = |controllers: &str| controllers.split_whitespace().any(|c| c == "memory");
    let root = kind.trim().is_empty();
    if !root && kind.trim() != "domain" {
        return Plan::Never(format!("the cgroup is {}", kind.trim()));
    }
    if !has(there) {
        return Plan::Never("the cgroup does not have the controller memory".to_owned());
    }
    if has(enabled) {
        return Plan::Ready;
    }
    // Only the root may have processes beside cgroups with controllers.
    let alone = procs.lines().all(|pid| pid == own.to_string());
    match (root, alone) {
        (true, _) => Plan::Enable,
        (false, true) => Plan::Leave,
        (false, false) => Plan::Never(
            "other processes are in the same cgroup; `systemd-run --user --scope -p Delegate=yes` \
             gives tune one of its own"
                .to_owned(),
        ),
    }
}

/// Hands the controller down from the cgroup of this process, which may have to leave it for that.
fn prepare(dir: &Path, procs: &str, own: u32) -> Result<Option<Moved>, String> {
    let (there, enabled) = (read(dir, "cgroup.controllers"), read(dir, ENABLED));
    match plan(&read(dir, "cgroup.type"), &there, &enabled, procs, own) {
        Plan::Ready => Ok(None),
        Plan::Enable => put(&dir.join(ENABLED), "+memory").map(|()| None),
        Plan::Leave => Moved::out_of(dir).map(Some),
        Plan::Never(reason) => Err(format!("{}: {reason}", dir.display())),
    }
}

/// This process has left its cgroup for one in it. Dropping this moves it back.
#[derive(Debug)]
struct Moved {
    from: PathBuf,
}

impl Moved {
    fn out_of(dir: &Path) -> Result<Moved, String> {
        let leaf = dir.join(LEAF);
        match fs::create_dir(&leaf) {
            // A supervisor that was killed has left it.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(format!("{}: {error}", leaf.display()));
            }
            Ok(()) | Err(_) => {}
        }
        let from = dir.to_owned();
        // What fails from here on is undone with it.
        let moved = Moved { from };
        put(&leaf.join(PROCS), "0")?;
        put(&dir.join(ENABLED), "+memory")?;
        Ok(moved)
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        let back = put(&self.from.join(ENABLED), "-memory")
            .and_then(|()| put(&self.from.join(PROCS), "0"));
        if let Err(reason) = back {
            tracing::debug!(reason, "the supervisor stays in a cgroup of its own");
        }
        leave_none(&self.from.join(LEAF));
    }
}

/// The same, with a word about a cgroup that is left behind.
fn leave_none(dir: &Path) {
    if !clear(dir) {
        tracing::debug!(dir = %dir.display(), members = ?members(dir), "a cgroup is left behind");
    }
}

/// Removes a cgroup and those in it; says whether it is gone. The kernel keeps what has members.
fn remove(dir: &Path) -> bool {
    for inner in inner(dir) {
        remove(&inner);
    }
    match fs::remove_dir(dir) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// The cgroups in one.
fn inner(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    dirs.map(|e| e.path()).collect()
}

fn read(dir: &Path, file: &str) -> String {
    fs::read_to_string(dir.join(file)).unwrap_or_default()
}

/// Writes to a file of the kernel's, which is there or is not.
fn put(path: &Path, text: &str) -> Result<(), String> {
    let written = OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()));
    written.map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_leaves_its_cgroup_only_where_it_is_alone() {
        let plan = |kind, enabled, procs| plan(kind, "cpu memory pids\n", enabled, procs, 7);
        assert_eq!(plan("domain\n", "", "7\n"), Plan::Leave);
        assert_eq!(plan("", "cpu\n", "1\n7\n8\n"), Plan::Enable);
        assert_eq!(plan("", "cpu memory\n", "1\n7\n8\n"), Plan::Ready);
        for (kind, procs) in [
            ("domain\n", "7\n8\n"),
            ("domain\n", "0\n7\n"),
            ("threaded\n", "7\n"),
            ("domain threaded\n", "7\n"),
        ] {
            let plan = plan(kind, "", procs);
            assert!(matches!(plan, Plan::Never(_)), "{kind}{procs}{plan:?}");
        }
    }

    #[test]
    fn without_the_controller_there_are_no_groups() {
        for there in ["", "cpu pids\n", "memory_recursiveprot\n"] {
            let plan = plan("domain\n", there, "", "7\n", 7);
            assert!(matches!(plan, Plan::Never(_)), "{there}{plan:?}");
        }
    }

    #[test]
    fn what_dead_supervisors_have_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        // The largest process id that a kernel gives is 2^22.
        for name in [
            "tune-4194305/worker-0/inner",
            "tune-1/worker-0",
            "tune-7",
            "tune-x",
            "user.slice",
        ] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        // Stands for a process that is still there.
        fs::create_dir(dir.path().join("tune-4194306")).unwrap();
        fs::write(dir.path().join("tune-4194306/cgroup.procs"), "1").unwrap();
        clear_dead(dir.path(), 7);
        let mut left: Vec<PathBuf> = inner(dir.path());
        left.sort();
        let wanted = ["tune-1", "tune-4194306", "tune-x", "user.slice"];
        assert_eq!(left, wanted.map(|name| dir.path().join(name)));
    }

    #[test]
    fn members_are_those_of_inner_groups_too() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("worker-1")).unwrap();
        fs::write(dir.path().join(PROCS), "12\n0\n").unwrap();
        fs::write(dir.path().join("worker-1").join(PROCS), "4\n9\n").unwrap();
        assert_eq!(members(dir.path()), BTreeSet::from([4, 9, 12]));
    }
}
