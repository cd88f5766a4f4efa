//! The file of metrics, which a program appends to, or writes anew for each step.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::attempt::whole_lines;

/// How much of what was read last is compared, in bytes, to see whether the file is another one.
const COMPARED: usize = 256;

/// A file whose new lines are wanted.
pub struct Follow {
    path: PathBuf,
    /// The file as it was last seen: inode, size, time of change in seconds and nanoseconds.
    seen: Option<(u64, u64, i64, i64)>,
    /// What was read of it, in bytes.
    position: u64,
    /// The end of that.
    before: Vec<u8>,
    partial: Vec<u8>,
}

impl Follow {
    /// Makes the file, empty.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path) -> io::Result<Follow> {
        File::create(path)?;
        Ok(Follow {
            path: path.to_owned(),
            seen: None,
            position: 0,
            before: Vec::new(),
            partial: Vec::new(),
        })
    }

    /// The lines that were completed since the last call. Of a file that was written anew, all of
    /// them.
    pub fn lines(&mut self) -> Vec<String> {
        let state = |m: Metadata| (m.ino(), m.size(), m.mtime(), m.mtime_nsec());
        let now = std::fs::metadata(&self.path).ok().map(state);
        if now.is_none() || now == self.seen {
            return Vec::new();
        }
        self.seen = now;
        // What cannot be read now may be read next time.
        let bytes = self.read().unwrap_or_default();
        self.before.extend_from_slice(&bytes);
        let surplus = self.before.len().saturating_sub(COMPARED);
        self.before.drain(..surplus);
        whole_lines(&mut self.partial, &bytes)
    }

    /// A last line that has no end.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.partial)
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut file = File::open(&self.path)?;
        let known = self.before.len() as u64;
        file.seek(SeekFrom::Start(self.position - known))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let new = bytes.strip_prefix(self.before.as_slice());
        let grown = new.filter(|new| !new.is_empty()).map(<[u8]>::to_vec);
        let new = match grown {
            Some(new) => new,
            // Changed, but not longer, or with another beginning.
            None => {
                self.position = 0;
                self.before.clear();
                self.partial.clear();
                let mut all = Vec::new();
                file.seek(SeekFrom::Start(0))?;
                file.read_to_end(&mut all)?;
                all
            }
        };
        self.position += new.len() as u64;
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_is_followed_line_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics");
        let mut follow = Follow::create(&path).unwrap();
        assert!(follow.lines().is_empty());
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(follow.lines(), ["one"]);
        file.write_all(b"o\n").unwrap();
        assert_eq!(follow.lines(), ["two"]);
        file.write_all(b"three").unwrap();
        assert!(follow.lines().is_empty());
        assert_eq!(follow.rest(), b"three");
    }

    #[test]
    fn a_file_that_is_written_anew_is_read_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics");
        let mut follow = Follow::create(&path).unwrap();
        for text in ["a 1\n", "a 2\n", "bb 333\n", "c\n"] {
            // Times of files are coarse: another inode stands for a later time.
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, text).unwrap();
            let _other = File::create(dir.path().join(text.trim())).unwrap();
            assert_eq!(follow.lines(), [text.trim()]);
        }
        std::fs::write(&path, "cc 1\n").unwrap();
        assert_eq!(follow.lines(), ["cc 1"]);
    }
}
