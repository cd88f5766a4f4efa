//! Writing to the terminal without ever failing: a reader that has gone away (`tune trials | head`,
//! a closed terminal) must neither stop nor panic anything.

use std::io::{self, Write};

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

    /// Writes a line and flushes.
    pub fn line(&mut self, text: &str) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        // One write a line, so that lines of several programs in one file stay whole.
        let written = writer
            .write_all(format!("{text}\n").as_bytes())
            .and_then(|()| writer.flush());
        if written.is_err() {
            self.writer = None;
        }
    }
}

/// Writes `text` to standard output as it is. A reader that has gone away is no error; any other
/// failure (a full disk) is.
///
/// # Errors
/// Whatever keeps the text from being written, a broken pipe excepted.
pub fn out(text: &str) -> io::Result<()> {
    ignoring_broken_pipe(&mut io::stdout().lock(), text)
}

/// Writes a line to standard error; nothing can be done where that fails.
pub fn err(text: &str) {
    writeln!(io::stderr().lock(), "{text}").ok();
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
        output.line("a");
        output.line("b");
        assert_eq!(writes.load(Ordering::Relaxed), 1);
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
