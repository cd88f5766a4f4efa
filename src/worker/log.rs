//! The log of an attempt: everything that the process prints while it trains.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use device::Device;
use files::plain;
use task::TrialSpec;

/// A log is never cut below this, whatever the configuration says.
const LEAST: u64 = 4096;

/// Where the output of attempts goes.
pub trait Output {
    /// From now on, output goes to the end of the file at `path`; `head` is printed there first.
    ///
    /// # Errors
    /// The file cannot be opened or written.
    fn begin(&mut self, path: &Path, head: &str) -> io::Result<()>;

    /// From now on, output goes nowhere.
    ///
    /// # Errors
    /// Not even that can be had.
    fn discard(&mut self) -> io::Result<()>;
}

/// Standard output and error of this process, those of libraries and children included.
#[derive(Debug)]
pub struct Stdio;

impl Output for Stdio {
    fn begin(&mut self, path: &Path, head: &str) -> io::Result<()> {
        let file = plain::open(path, plain::For::Appending)?;
        io::stdout().flush()?;
        nix::unistd::dup2_stdout(&file)?;
        nix::unistd::dup2_stderr(&file)?;
        let mut out = io::stdout();
        out.write_all(head.as_bytes())?;
        out.flush()
    }

    fn discard(&mut self) -> io::Result<()> {
        let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
        nix::unistd::dup2_stdout(&nowhere)?;
        nix::unistd::dup2_stderr(&nowhere)?;
        Ok(())
    }
}

unsafe extern "C" {
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
}

/// Makes C's standard output and error unbuffered: what was printed before an `_exit` or a crash
/// is evidence.
pub fn unbuffer() {
    // SAFETY: both are valid streams set up by the C library; called at the process's start,
    // before any other thread and before anything was printed.
    unsafe {
        libc::setvbuf(stdout, std::ptr::null_mut(), libc::_IONBF, 0);
        libc::setvbuf(stderr, std::ptr::null_mut(), libc::_IONBF, 0);
    }
}

/// What stands at the beginning of an attempt's log: a line that names it, then the configuration.
pub fn head(trial: &TrialSpec, device: Device, pid: u32, now: jiff::Timestamp) -> String {
    let mut text = format!(
        "=== {} attempt {} · seed {} · worker pid {pid} · device {device} · {now:.0} ===\n",
        trial.job(),
        trial.attempt,
        trial.seed
    );
    for (key, value) in &trial.config {
        text += &format!("{key} = {value}\n");
    }
    text
}

/// Keeps a log below a size.
#[derive(Debug)]
pub struct Cap {
    path: PathBuf,
    max: u64,
    /// After an error, no further attempt is made: the log would fill with complaints.
    off: bool,
}

impl Cap {
    /// A cap of `max` bytes on the file at `path`, which is open for appending elsewhere.
    pub fn new(path: &Path, max: u64) -> Cap {
        Cap {
            path: path.to_owned(),
            max: max.max(LEAST),
            off: false,
        }
    }

    /// Cuts the middle out of the file if it has grown too large: the beginning names the attempt,
    /// the end is evidence.
    pub fn check(&mut self) {
        if self.off {
            return;
        }
        if let Err(error) = self.cut() {
            self.off = true;
            let _ = writeln!(io::stderr(), "this log is not capped: {error}");
        }
    }

    fn cut(&self) -> io::Result<()> {
        let length = std::fs::metadata(&self.path)?.len();
        if length <= self.max {
            return Ok(());
        }
        let quarter = self.max / 4;
        let mut file = plain::open(&self.path, plain::For::Updating)?;
        let head = read(&mut file, 0, quarter)?;
        let tail = read(&mut file, length - quarter, quarter)?;
        let head = whole_lines_before(&head);
        let tail = whole_lines_after(&tail);
        let gone = length - (head.len() + tail.len()) as u64;
        file.set_len(head.len() as u64)?;
        file.seek(SeekFrom::End(0))?;
        let note = format!(
            "\n=== {gone} bytes were cut out here: the log may have {} bytes ===\n",
            self.max
        );
        file.write_all(note.as_bytes())?;
        file.write_all(tail)
    }
}

fn read(file: &mut File, from: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The bytes up to and with the last line break; all of them where there is none.
fn whole_lines_before(bytes: &[u8]) -> &[u8] {
    match bytes.iter().rposition(|b| *b == b'\n') {
        Some(at) => &bytes[..=at],
        None => bytes,
    }
}

/// The bytes behind the first line break; all of them where nothing would be left.
fn whole_lines_after(bytes: &[u8]) -> &[u8] {
    match bytes.iter().position(|b| *b == b'\n') {
        Some(at) if at + 1 < bytes.len() => &bytes[at + 1..],
        Some(_) | None => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use search::space::Params;
    use search::study::Purpose;

    #[test]
    fn the_head_names_the_attempt_and_the_whole_configuration() {
        let trial = TrialSpec {
            number: 12,
            purpose: Purpose::Search,
            attempt: 0,
            seed: 123,
            params: Params::new(),
            config: Params::from([("optim.lr".into(), 0.1.into()), ("a.b".into(), "x".into())]),
            halvings: 0,
            rehearse: None,
            rows: None,
        };
        assert_eq!(
            head(&trial, Device::Cpu, 7, jiff::Timestamp::UNIX_EPOCH),
            "=== trial 12 attempt 0 · seed 123 · worker pid 7 · device cpu · \
             1970-01-01T00:00:00Z ===\na.b = x\noptim.lr = 0.1\n"
        );
    }

    #[test]
    fn a_log_that_grew_too_large_keeps_both_ends() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let line = |i: u32| format!("line {i:05}\n");
        let text: String = (0..1000).map(line).collect();
        std::fs::write(file.path(), &text).unwrap();
        Cap::new(file.path(), 8000).check();
        let cut = std::fs::read_to_string(file.path()).unwrap();
        assert!(cut.len() < 4200, "{}", cut.len());
        assert!(cut.starts_with(&line(0)) && cut.ends_with(&line(999)));
        assert!(cut.contains("bytes were cut out here"));
        let before = cut.clone();
        Cap::new(file.path(), 8000).check();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), before);
    }

    #[test]
    fn a_log_of_one_endless_line_is_cut_too() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![b'x'; 100_000]).unwrap();
        Cap::new(file.path(), 8000).check();
        let length = std::fs::metadata(file.path()).unwrap().len();
        assert!((4000..4200).contains(&length), "{length}");
    }
}
