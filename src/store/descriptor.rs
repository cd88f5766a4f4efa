//! Descriptors of files that SQLite locks.
//!
//! SQLite's locks belong to the process: closing any descriptor of a file gives up all of them at
//! once, whoever opened it. So a descriptor that we open ourselves is never closed. One that is not
//! needed any more is kept for the next who asks for the same file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::file::FileId;

/// A descriptor of a file that SQLite may have open, too.
#[derive(Debug)]
pub struct Descriptor(&'static Opened);

#[derive(Debug)]
struct Opened {
    file: File,
    id: FileId,
    writable: bool,
}

static SPARE: Mutex<Vec<&'static Opened>> = Mutex::new(Vec::new());

impl Descriptor {
    /// A descriptor of the file at `path`, which is no link. With `make` it can be written, and an
    /// empty file is made where there is none.
    ///
    /// # Errors
    /// What the system says; also where there is no plain file.
    pub fn of(path: &Path, make: bool) -> io::Result<Descriptor> {
        if let Some(id) = FileId::of(path)
            && let Some(spare) = spare(id, make)
        {
            return Ok(Descriptor(spare));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(make)
            .create(make)
            // As SQLite makes its files.
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let opened = Opened {
            file,
            id: FileId(meta.dev(), meta.ino()),
            writable: make,
        };
        Ok(Descriptor(Box::leak(Box::new(opened))))
    }

    /// Whether the file is still the one at `path`.
    pub fn is_at(&self, path: &Path) -> bool {
        FileId::of(path) == Some(self.0.id)
    }

    /// Reads so many bytes from there on.
    ///
    /// # Errors
    /// What the system says; also where the file ends before.
    pub fn read_at(&self, bytes: &mut [u8], from: u64) -> io::Result<()> {
        self.0.file.read_exact_at(bytes, from)
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.file.as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let mut spares = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        spares.push(self.0);
    }
}

/// One that nobody uses, of this file.
fn spare(id: FileId, writable: bool) -> Option<&'static Opened> {
    let mut spares = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = |spare: &&Opened| spare.id == id && (spare.writable || !writable);
    let at = spares.iter().position(fits)?;
    Some(spares.swap_remove(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock of SQLite's kind on the file, as this process's `/proc/locks` shows them.
    fn locked(path: &Path) -> bool {
        let inode = std::fs::metadata(path).unwrap().ino();
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        let ours = format!(" {} ", std::process::id());
        locks.lines().any(|line| {
            line.contains("POSIX") && line.contains(&ours) && line.contains(&format!(":{inode} "))
        })
    }

    #[test]
    fn sqlites_locks_outlive_a_descriptor_that_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let first = Descriptor::of(&path, true).unwrap();
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute_batch("CREATE TABLE t (x); BEGIN; INSERT INTO t VALUES (1)")
            .unwrap();
        assert!(locked(&path));
        drop(first);
        drop(Descriptor::of(&path, false).unwrap());
        assert!(locked(&path));
        // What tells: a descriptor that is closed gives the locks up.
        drop(File::open(&path).unwrap());
        assert!(!locked(&path));
    }

    #[test]
    fn a_descriptor_is_used_again_for_the_same_file_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let number = |d: &Descriptor| {
            use std::os::fd::AsRawFd;
            d.as_fd().as_raw_fd()
        };
        let first = Descriptor::of(&a, true).unwrap();
        let was = number(&first);
        drop(first);
        assert_eq!(number(&Descriptor::of(&a, false).unwrap()), was);
        assert_ne!(number(&Descriptor::of(&b, true).unwrap()), was);
        std::fs::rename(&b, &a).unwrap();
        let replaced = Descriptor::of(&a, true).unwrap();
        assert_ne!(number(&replaced), was);
        assert!(replaced.is_at(&a) && !replaced.is_at(&b));
    }
}
