//! The disk of the project: file system, space, and how long it takes to make a write durable.

use std::fs;
use std::io::{self, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::statvfs::{FsFlags, statvfs};

use process::cgroup::unescaped;

/// How many writes are timed, and for how long at most.
const WRITES: (usize, Duration) = (200, Duration::from_millis(700));

/// After so many writes it begins at the front again: the sizes of files may be limited (`ulimit -f`).
const ROUND: usize = 16;

/// What a write is that is timed: a page of a database.
const PAGE: [u8; 4096] = [0; 4096];

/// The disk that the project is on, or would be.
#[derive(Debug, Clone, PartialEq)]
pub struct Disk {
    /// The project's directory, or the nearest one above it that is there.
    pub dir: PathBuf,
    /// Type and options of its file system, as the kernel names them: `nfs4`.
    pub kind: Option<(String, String)>,
    /// Bytes in all and free.
    pub space: Option<(u64, u64)>,
    /// Inodes in all and free; 0 in all: the file system does not count them.
    pub inodes: Option<(u64, u64)>,
    /// Whether it is mounted read-only.
    pub read_only: bool,
    /// How long each write took, in milliseconds, sorted; or why there was none.
    pub syncs: Result<Vec<f64>, String>,
}

/// Looks at the disk of a directory that need not be there; `timed`: times writes, for under a second.
pub fn look(project: &Path, timed: bool) -> Disk {
    let there = project.ancestors().find(|dir| dir.is_dir());
    let dir = there.unwrap_or(Path::new("/")).to_owned();
    let dir = dir.canonicalize().unwrap_or(dir);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let stat = statvfs(&dir).ok();
    Disk {
        kind: file_system(&mounts, &dir),
        space: super::host::space(&dir),
        inodes: stat.map(|s| (s.files(), s.files_available())),
        read_only: stat.is_some_and(|s| s.flags().contains(FsFlags::ST_RDONLY)),
        syncs: match timed {
            true => syncs(&dir).map_err(|e| e.to_string()),
            false => Err("it takes too long here".to_owned()),
        },
        dir,
    }
}

/// Times writes to a file without a name, which is gone with this process.
fn syncs(dir: &Path) -> io::Result<Vec<f64>> {
    let mut file = tempfile::tempfile_in(dir)?;
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < WRITES.0 && start.elapsed() < WRITES.1 {
        let begun = Instant::now();
        if times.len() % ROUND == 0 {
            file.rewind()?;
        }
        file.write_all(&PAGE)?;
        file.sync_data()?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// The value that this share of sorted ones does not exceed (nearest rank).
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

/// Type and options of the file system of a path, of `/proc/self/mountinfo`: of the longest mount point that leads to it,
/// the last one mounted there.
fn file_system(mounts: &str, path: &Path) -> Option<(String, String)> {
    let mount = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let at = unescaped(left.split(' ').nth(4)?);
        let mut fields = right.split(' ');
        let kind = fields.next()?.to_owned();
        let options = fields.collect::<Vec<_>>().join(" ");
        let depth = at.components().count();
        path.starts_with(&at).then_some((depth, (kind, options)))
    };
    let found = mounts
        .lines()
        .filter_map(mount)
        .max_by_key(|(depth, _)| *depth);
    found.map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_that_of_the_last_and_longest_mount() {
        let mounts = "1 0 254:0 / / rw - ext4 /dev/vda rw\n\
                      2 1 0:5 / /mnt/a\\040b rw - ext4 /dev/vdb rw\n\
                      3 1 0:6 / /mnt/a\\040b rw,noatime - nfs4 host:/x rw,vers=4.2\n\
                      4 1 0:7 / /mnt/a\\011b\\134040c rw - xfs /dev/vdc rw\n";
        let kind = |path: &str| file_system(mounts, Path::new(path)).unwrap().0;
        assert_eq!(kind("/mnt/a b/c"), "nfs4");
        assert_eq!(kind("/mnt/a bc"), "ext4");
        assert_eq!(kind("/mnt/a\tb\\040c/d"), "xfs");
        assert_eq!(kind("/"), "ext4");
    }

    #[test]
    fn quantiles_are_by_rank() {
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 4.0], 0.99), 4.0);
        assert_eq!(quantile(&[], 0.99), 0.0);
    }

    #[test]
    fn a_project_that_is_not_there_yet_is_judged_by_what_is_above() {
        let dir = tempfile::tempdir().unwrap();
        let disk = look(&dir.path().join("a/b"), true);
        assert_eq!(disk.dir, dir.path().canonicalize().unwrap());
        assert!(disk.kind.is_some() && disk.space.is_some_and(|(_, free)| free > 0));
        assert!(disk.syncs.is_ok_and(|times| !times.is_empty()));
        assert_eq!(
            dir.path().read_dir().unwrap().count(),
            0,
            "it leaves no file"
        );
    }
}
