//! Where the database lies: local disk or network file system, and whether it is still there.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statfs::statfs;

/// The directory that holds `path`, for system calls.
pub(super) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

/// The name of the network file system on which `path` lies, if it lies on one. The write-ahead
/// log needs memory shared between all its users, so they must be on one machine.
pub(super) fn network_file_system(path: &Path) -> Option<&'static str> {
    let place = if path.exists() { path } else { directory(path) };
    let magic = statfs(place).ok()?.filesystem_type().0;
    network_name(magic as u64 & 0xffff_ffff)
}

/// Magic numbers of `statfs(2)` whose file systems are shared between machines.
fn network_name(magic: u64) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x564c => "NCP",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        _ => return None,
    })
}

/// Device and inode of a file: its identity while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId(pub(super) u64, pub(super) u64);

impl FileId {
    /// The identity of what lies at `path` now. A stat only: opening and closing the file here
    /// would drop SQLite's locks on it.
    pub(super) fn of(path: &Path) -> Option<FileId> {
        let meta = std::fs::metadata(path).ok()?;
        Some(FileId(meta.dev(), meta.ino()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_told_from_local_ones() {
        assert_eq!(network_name(0x6969), Some("NFS"));
        assert_eq!(network_name(0xff53_4d42), Some("SMB"));
        let local = [
            0xef53,
            0x0102_1994,
            0x5846_5342,
            0x9123_683e,
            0x794c_7630,
            0x2fc1_2fc1,
        ];
        assert!(local.into_iter().all(|magic| network_name(magic).is_none()));
        assert_eq!(network_file_system(Path::new("tune.db")), None);
    }

    #[test]
    fn a_bare_file_name_lies_in_the_current_directory() {
        assert_eq!(directory(Path::new("tune.db")), Path::new("."));
        assert_eq!(directory(Path::new("/a/tune.db")), Path::new("/a"));
    }
}
