//! Standard input that a signal ends: outstanding trials are settled then as at the end of the input.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signal_hook::consts::{SIGINT, SIGTERM};

use messages::exit::Exit;

/// The kind of the error that reading gives once a signal has come. Not `Interrupted`, after which
/// readers try again.
pub(super) const STOPPED: ErrorKind = ErrorKind::ConnectionAborted;

/// A file that is read until its end or a signal.
#[derive(Debug)]
pub struct Input {
    file: File,
    /// Has something to read once a signal has come.
    signals: UnixStream,
}

impl Input {
    /// Standard input, until SIGINT or SIGTERM. The second signal ends the process at once, for the
    /// case that replies are not read or a disk does not answer.
    ///
    /// # Errors
    /// The handlers could not be installed.
    pub fn until_signal() -> io::Result<Input> {
        let (signals, wake) = UnixStream::pair()?;
        let came = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            let exit = i32::from(Exit::Stopped.code());
            // In this order: the first signal finds the flag down.
            signal_hook::flag::register_conditional_shutdown(signal, exit, came.clone())?;
            signal_hook::flag::register(signal, came.clone())?;
            signal_hook::low_level::pipe::register(signal, wake.try_clone()?)?;
        }
        // Not `Stdin`, which may have read what `poll` then waits for.
        let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Input { file, signals })
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if signalled(self.signals.as_fd(), self.file.as_fd())? {
            return Err(io::Error::new(STOPPED, "stopped by a signal"));
        }
        self.file.read(buffer)
    }
}

/// Waits until one of both can be read; whether it is the first.
fn signalled(signals: BorrowedFd, file: BorrowedFd) -> io::Result<bool> {
    let mut both = [
        PollFd::new(signals, PollFlags::POLLIN),
        PollFd::new(file, PollFlags::POLLIN),
    ];
    loop {
        match poll(&mut both, PollTimeout::NONE) {
            Ok(_) => return Ok(both[0].any().unwrap_or(true)),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
