//! The file of metrics, which a program appends to, or writes anew for each step.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::lines::PartialLine;
use files::{bounded, kind, plain};

/// How much of what was read last is compared, in bytes, to see whether the file is another one.
const COMPARED: usize = 256;

/// So many bytes are read at a time: a file may be of any length, and grow faster than it is read.
const CHUNK: u64 = 64 * 1024;

/// A file whose new lines are wanted.
pub struct Follow {
    path: PathBuf,
    /// The file as it was last seen: inode, size, time of change in seconds and nanoseconds.
    seen: Option<(u64, u64, i64, i64)>,
    /// What was read of it, in bytes.
    position: u64,
    /// The end of that.
    before: Vec<u8>,
    partial: PartialLine,
    has_more: bool,
}

impl Follow {
    /// Makes the file, empty.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path) -> io::Result<Follow> {
        plain::write(path, b"")?;
        Ok(Follow {
            path: path.to_owned(),
            seen: None,
            position: 0,
            before: Vec::new(),
            partial: PartialLine::default(),
            has_more: false,
        })
    }

    /// The next lines that were completed since the last call. Of a file that was written anew, all of
    /// them, one call after the other. What cannot be read now may be read next time.
    ///
    /// # Errors
    /// There is something else than a file: what, for people.
    pub fn lines(&mut self) -> Result<Vec<String>, String> {
        self.has_more = false;
        let Ok(meta) = std::fs::metadata(&self.path) else {
            return Ok(Vec::new());
        };
        // Opening a pipe waits, a device has no end, and either may have come from a link.
        if !meta.is_file() {
            return Err(format!(
                "found {} at {} (TUNE_METRICS_FILE), expected a regular file",
                kind(meta.file_type()),
                self.path.display()
            ));
        }
        if Some(state(&meta)) == self.seen {
            return Ok(Vec::new());
        }
        let bytes = self.read().unwrap_or_default();
        self.before.extend_from_slice(&bytes);
        let surplus = self.before.len().saturating_sub(COMPARED);
        self.before.drain(..surplus);
        Ok(self.partial.take(&bytes))
    }

    /// Whether the last call of [`Follow::lines`] has left something that can be read at once.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// A last line that has no end.
    pub fn rest(&mut self) -> Vec<u8> {
        self.partial.rest()
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        // It may have become a pipe meanwhile.
        let mut file = bounded::open(&self.path)?;
        let meta = file.metadata()?;
        let known = self.before.len() as u64;
        let bytes = chunk(&mut file, self.position - known, known + CHUNK)?;
        let new = bytes.strip_prefix(self.before.as_slice());
        let grown = new.filter(|new| !new.is_empty()).map(<[u8]>::to_vec);
        let new = match grown {
            Some(new) => new,
            // Changed, but not longer, or with another beginning.
            None => {
                self.position = 0;
                self.before.clear();
                self.partial = PartialLine::default();
                chunk(&mut file, 0, CHUNK)?
            }
        };
        self.position += new.len() as u64;
        self.has_more = self.position < meta.size() && !new.is_empty();
        self.seen = (!self.has_more).then(|| state(&meta));
        Ok(new)
    }
}

/// At most so many bytes of a file, from a place on.
fn chunk(file: &mut File, from: u64, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn state(meta: &Metadata) -> (u64, u64, i64, i64) {
    (meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use nix::sys::stat::Mode;

    use super::*;

    /// All lines that are there now.
    fn all(follow: &mut Follow) -> Vec<String> {
        let mut lines = follow.lines().unwrap();
        while follow.has_more() {
            lines.extend(follow.lines().unwrap());
        }
        lines
    }

    #[test]
    fn a_file_is_followed_line_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics");
        let mut follow = Follow::create(&path).unwrap();
        assert!(all(&mut follow).is_empty());
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(all(&mut follow), ["one"]);
        file.write_all(b"o\n").unwrap();
        assert_eq!(all(&mut follow), ["two"]);
        file.write_all(b"three").unwrap();
        assert!(all(&mut follow).is_empty());
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
            assert_eq!(all(&mut follow), [text.trim()]);
        }
        std::fs::write(&path, "cc 1\n").unwrap();
        assert_eq!(all(&mut follow), ["cc 1"]);
    }

    #[test]
    fn a_file_of_any_length_is_read_in_parts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics");
        let mut follow = Follow::create(&path).unwrap();
        let written: Vec<String> = (0..30_000).map(|n| format!("line {n}")).collect();
        std::fs::write(&path, written.join("\n") + "\n").unwrap();
        let first = follow.lines().unwrap();
        assert!(!first.is_empty() && first.len() < 10_000 && follow.has_more());
        let rest = all(&mut follow);
        assert_eq!([first, rest].concat(), written);
        assert!(all(&mut follow).is_empty());
    }

    #[test]
    fn a_file_without_a_line_takes_bounded_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics");
        let mut follow = Follow::create(&path).unwrap();
        // A hole: no disk has room for it.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let lines = (0..).find_map(|_| follow.lines().unwrap().pop());
        assert!(lines.unwrap().contains("without a line's end"));
        assert!(follow.has_more());
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics");
        let mut follow = Follow::create(&path).unwrap();
        let in_its_place = |make: &dyn Fn()| {
            std::fs::remove_file(&path).unwrap();
            make();
        };
        in_its_place(&|| std::os::unix::fs::symlink("/dev/zero", &path).unwrap());
        assert!(follow.lines().unwrap_err().contains("found a device"));
        in_its_place(&|| nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap());
        assert!(follow.lines().unwrap_err().contains("found a pipe"));
        in_its_place(&|| std::fs::create_dir(&path).unwrap());
        let error = follow.lines().unwrap_err();
        assert!(error.contains("found a directory") && error.contains("expected a regular file"));
        // One that is not there may come back.
        std::fs::remove_dir(&path).unwrap();
        assert!(all(&mut follow).is_empty());
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!(all(&mut follow), ["one"]);
    }
}
