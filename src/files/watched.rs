//! Files that must not change while something depends on them.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::bounded;
use crate::digest::Hashing;

/// A file as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedFile {
    /// Its name for people.
    pub name: String,
    /// SHA-256 of its content, in hexadecimal; empty where it is not read.
    pub hash: String,
    path: PathBuf,
    stamp: Stamp,
}

/// What changes with every ordinary change of a file: its inode, size in bytes, and times of change in ns.
type Stamp = (u64, u64, i64, i64, i64);

fn stamp(of: &Metadata) -> Stamp {
    let (modified, changed) = (
        of.mtime_nsec(),
        of.ctime() * 1_000_000_000 + of.ctime_nsec(),
    );
    (of.ino(), of.size(), of.mtime(), modified, changed)
}

/// Of a stamp what its content has to do with: not its rights and names.
fn written(of: &Metadata) -> Stamp {
    (0, of.size(), of.mtime(), of.mtime_nsec(), 0)
}

impl WatchedFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no regular file.
    pub fn read(name: &str, path: &Path) -> io::Result<WatchedFile> {
        let mut file = bounded::open(path)?;
        let stamp = stamp(&file.metadata()?);
        let mut hashing = Hashing::new(io::sink());
        io::copy(&mut file, &mut hashing)?;
        Ok(WatchedFile {
            name: name.to_owned(),
            hash: hashing.finish()?.1,
            path: path.to_owned(),
            stamp,
        })
    }

    /// A large file, of which nothing is read: to write it anew is to change it.
    ///
    /// # Errors
    /// There is no such file.
    pub fn unread(path: &Path) -> io::Result<WatchedFile> {
        Ok(WatchedFile {
            name: path.display().to_string(),
            hash: String::new(),
            path: path.to_owned(),
            stamp: written(&std::fs::metadata(path)?),
        })
    }

    /// Whether its content is another now. A file that cannot be read may be one that is being written anew: that is
    /// no change yet. As cheap as a look at the file's times where they are as before.
    pub fn has_changed(&mut self) -> bool {
        let of = if self.hash.is_empty() { written } else { stamp };
        let Ok(now) = std::fs::metadata(&self.path).map(|meta| of(&meta)) else {
            return false;
        };
        if now == self.stamp || self.hash.is_empty() {
            return now != self.stamp;
        }
        let Ok(read) = WatchedFile::read(&self.name, &self.path) else {
            return false;
        };
        self.stamp = read.stamp;
        read.hash != self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_read_has_changed_where_it_is_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        std::fs::write(&path, "a").unwrap();
        let mut watched = WatchedFile::unread(&path).unwrap();
        assert!(!watched.has_changed());
        std::fs::hard_link(&path, dir.path().join("another name")).unwrap();
        assert!(!watched.has_changed(), "only its names have");
        std::fs::remove_file(&path).unwrap();
        assert!(!watched.has_changed(), "it is about to be written");
        std::fs::write(&path, "ab").unwrap();
        assert!(watched.has_changed());
    }

    #[test]
    fn another_content_is_a_change_and_the_same_written_again_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("train.py");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        write("a");
        let mut watched = WatchedFile::read("train.py", &path).unwrap();
        assert!(!watched.has_changed());
        write("a");
        assert!(!watched.has_changed());
        std::fs::remove_file(&path).unwrap();
        assert!(!watched.has_changed(), "an editor is about to write it");
        write("b");
        assert!(watched.has_changed());
        write("a");
        assert!(!watched.has_changed(), "it was put back");
    }
}
