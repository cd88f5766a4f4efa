//! Writing to the terminal without ever failing: a reader that has gone away (`tune trials | head`,
//! a closed terminal) must neither stop nor panic anything.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use messages::printable_lines;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A stream that falls silent at its first error.
pub struct Output {
    writer: Option<Box<dyn Write + Send>>,
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Output {
        Output::to(Box::new(io::stdout()))
    }

    /// Any stream.
    pub fn to(writer: Box<dyn Write + Send>) -> Output {
        Output {
            writer: Some(writer),
        }
    }

    /// Writes lines, of which the last has no end yet, and flushes. They drive no terminal.
    pub fn lines(&mut self, text: &str) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        // One write, so that lines of several programs in one file stay whole.
        let written = writer
            .write_all(format!("{}\n", printable_lines(text)).as_bytes())
            .and_then(|()| writer.flush());
        if written.is_err() {
            self.writer = None;
        }
    }
}

/// Writes text for people, or JSON, to standard output, so that it drives no terminal. A reader that
/// has gone away is no error; any other failure (a full disk) is.
///
/// # Errors
/// Whatever keeps the text from being written, a broken pipe excepted.
pub fn out(text: &str) -> io::Result<()> {
    ignoring_broken_pipe(&mut io::stdout().lock(), &printable_lines(text))
}

/// Writes data in a format of others (CSV, TOML) to standard output: as it is, but for a terminal.
///
/// # Errors
/// See [`out`].
pub fn data(text: &str) -> io::Result<()> {
    if io::stdout().is_terminal() {
        return out(text);
    }
    ignoring_broken_pipe(&mut io::stdout().lock(), text)
}

/// Waits for so long, unless the reader of standard output goes away before, and says whether it is still there. What shows
/// things as they come would go on for nobody: to write is no error then, and there may be nothing to write.
pub fn wait_while_read(time: Duration) -> bool {
    is_read(io::stdout().as_fd(), time)
}

fn is_read(stream: BorrowedFd<'_>, time: Duration) -> bool {
    // Of a reader that has gone away a stream tells unasked; a file never does.
    let mut stream = [PollFd::new(stream, PollFlags::empty())];
    let time = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
    matches!(poll(&mut stream, time), Ok(0) | Err(_))
}

/// Writes lines to standard error, so that they drive no terminal; nothing can be done where that
/// fails.
pub fn err(text: &str) {
    writeln!(io::stderr().lock(), "{}", printable_lines(text)).ok();
}

fn ignoring_broken_pipe(writer: &mut dyn Write, text: &str) -> io::Result<()> {
    let written = writer
        .write_all(text.as_bytes())
        .and_then(|()| writer.flush());
    match written {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Broken(io::ErrorKind, Arc<AtomicUsize>);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_output_falls_silent_at_its_first_error() {
        let writes = Arc::new(AtomicUsize::new(0));
        let broken = Broken(io::ErrorKind::BrokenPipe, Arc::clone(&writes));
        let mut output = Output::to(Box::new(broken));
        output.lines("a");
        output.lines("b");
        assert_eq!(writes.load(Ordering::Relaxed), 1);
    }

    /// Everything else passes its text to this module, and so through [`printable_lines`]. Logs of attempts keep
    /// bytes as they are; the view has a pen of its own; the probe, a rung of the ladder and `ask-tell` speak to programs.
    #[test]
    fn nothing_else_writes_to_the_terminal() {
        let writers = [
            "report/output.rs",
            "report/outlet.rs",
            "worker/",
            "task/command/attempt.rs",
            "device/probe/",
            "torch/rungs/",
            "cli/ask_tell.rs",
            "cli/watch/screen.rs",
            // A program of its own.
            "search/examples/",
        ];
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .unwrap()
            .to_owned();
        let mut folders = vec![root.clone()];
        let mut looked_at = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
                let text = std::fs::read_to_string(&path).unwrap();
                looked_at += 1;
                let found = text.lines().find(|line| {
                    let writes = ["io::stdout()", "io::stderr", "/dev/tty"];
                    writes.iter().any(|w| line.contains(w)) && !line.contains("is_terminal()")
                });
                let allowed = writers.iter().any(|w| name.starts_with(w));
                assert!(
                    found.is_none() || allowed,
                    "{name}: {}",
                    found.unwrap_or("")
                );
            }
        }
        assert!(looked_at > 300, "{looked_at}");
    }

    #[test]
    fn who_waits_is_told_that_the_reader_has_gone_away() {
        let (reader, writer) = io::pipe().unwrap();
        assert!(is_read(writer.as_fd(), Duration::ZERO));
        drop(reader);
        assert!(!is_read(writer.as_fd(), Duration::from_secs(60)));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(is_read(file.as_fd(), Duration::ZERO));
    }

    #[test]
    fn a_reader_that_has_gone_away_is_no_error_and_a_full_disk_is() {
        let count = Arc::new(AtomicUsize::new(0));
        let mut pipe = Broken(io::ErrorKind::BrokenPipe, Arc::clone(&count));
        assert!(ignoring_broken_pipe(&mut pipe, "x").is_ok());
        let mut disk = Broken(io::ErrorKind::StorageFull, count);
        assert!(ignoring_broken_pipe(&mut disk, "x").is_err());
    }
}
