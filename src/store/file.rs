//! The file of a database, and those of SQLite beside it, looked at from outside: what would be harmed or waited for by
//! opening it is refused before.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::statfs::statfs;

use super::descriptor::Descriptor;
use super::{Place, StoreError, StoreErrorKind as Kind};
use files::{beside, directory, no_file, plain};

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

/// A descriptor of the database for locks; an empty file is made where there is none.
///
/// # Errors
/// What [`crate::Store::open`] would refuse before it looks into the file.
pub fn lockable(place: &Place) -> Result<Descriptor, StoreError> {
    let path = &plain::real(&place.held());
    if !place.is_shared() {
        must_be_local(path)?;
    }
    looks_whole(path)?;
    make_directory(path)?;
    let descriptor = Descriptor::of(path, true).map_err(|error| {
        let kind = match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EACCES | Errno::EPERM | Errno::EROFS) => Kind::ReadOnly,
            Some(_) | None => Kind::Io(error.to_string()),
        };
        kind.at(path)
    })?;
    // Nothing is put beside a file that is none of ours.
    let mut start = [0; 16];
    let begun = descriptor.read_at(&mut start, 0).is_ok();
    match begun && start != *b"SQLite format 3\0" {
        true => Err(Kind::NotADatabase.at(path)),
        false => Ok(descriptor),
    }
}

/// Whether the file is there and nothing was ever written to the database.
pub fn is_empty_database(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() == 0) && !has_log(path)
}

/// A descriptor of the database to look for locks; `None` where there is no file that this user can
/// read.
pub fn looked_at(path: &Path) -> Option<Descriptor> {
    looks_whole(path).ok()?;
    Descriptor::of(path, false).ok()
}

pub(super) fn make_directory(path: &Path) -> Result<(), StoreError> {
    if path.exists() || path.is_symlink() {
        return Ok(());
    }
    std::fs::create_dir_all(directory(path))
        .map_err(|e| Kind::Io(format!("cannot make its directory: {e}")).at(path))
}

pub(super) fn must_be_local(path: &Path) -> Result<(), StoreError> {
    match network_file_system(path) {
        None => Ok(()),
        Some(system) => Err(Kind::Network(system).at(path)),
    }
}

/// An empty file is what a run that has only begun has made: no database yet.
pub(super) fn must_exist(path: &Path) -> Result<(), StoreError> {
    match std::fs::metadata(path) {
        Ok(meta) if meta.len() > 0 || !meta.is_file() || has_log(path) => Ok(()),
        Err(_) if path.is_symlink() => Ok(()),
        Ok(_) | Err(_) => Err(Kind::NotFound.at(path)),
    }
}

/// A database with two names has two places for a log, and whoever opens it by the one knows
/// nothing of what was committed by the other.
pub(super) fn must_have_one_name(path: &Path) -> Result<(), StoreError> {
    match std::fs::metadata(path).map_or(1, |meta| meta.nlink()) {
        0 | 1 => Ok(()),
        names => Err(Kind::Names(names).at(path)),
    }
}

/// What a look from outside tells, before SQLite touches anything.
pub(super) fn looks_whole(path: &Path) -> Result<(), StoreError> {
    let not_a_file = |path: &Path, found: String| Err(Kind::NotAFile(found).at(path));
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        // SQLite would make the file that the link names, on whatever lies under a mount point.
        Err(_) if path.is_symlink() => {
            let target = std::fs::read_link(path).unwrap_or_default();
            let found = format!("a link to {}, which is not there", target.display());
            return not_a_file(path, found);
        }
        Err(_) => return Ok(()),
    };
    if let Some(found) = no_file(meta.file_type()) {
        return not_a_file(path, found.to_owned());
    }
    // SQLite would wait for a pipe.
    for part in ["-wal", "-shm", "-journal"] {
        let beside = beside(path, part);
        let Ok(there) = std::fs::symlink_metadata(&beside) else {
            continue;
        };
        if let Some(found) = no_file(there.file_type()) {
            return not_a_file(&beside, found.to_owned());
        }
        must_have_one_name(&beside)?;
    }
    match meta.len() {
        // SQLite throws the log of an empty file away.
        0 if has_log(path) => {
            let what = "the file is empty, but its write-ahead log is not";
            Err(Kind::Corrupt(what.to_owned()).at(path))
        }
        // SQLite takes a file of a single byte for an empty one and would overwrite it; no
        // database is smaller than its smallest page.
        1..512 => Err(Kind::NotADatabase.at(path)),
        _ => Ok(()),
    }
}

/// The write-ahead log of a database.
pub(super) fn log_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

/// Whether a write-ahead log with content lies beside the database.
pub(super) fn has_log(path: &Path) -> bool {
    std::fs::metadata(log_of(path)).is_ok_and(|m| m.len() > 0)
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
}
