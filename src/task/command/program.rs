//! The process of a program: starting it, reading what it says, ending it and all that it started.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socketpair};

use process::child::{self, ChildEnd, ChildState, GroupLeader};
use process::orphans::{self, ProcessMark};

/// Bytes of one read.
const CHUNK: usize = 64 * 1024;

/// A descriptor whose number is kept for programs to report their metrics on. It is taken once,
/// early in the worker's life: shells can name descriptors up to 9 only.
#[derive(Debug)]
pub struct Reserved(OwnedFd);

impl Reserved {
    /// The lowest number that is free.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Reserved> {
        Ok(Reserved(OwnedFd::from(std::fs::File::open("/dev/null")?)))
    }

    /// Its number.
    pub fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Makes the number mean `what`; not for programs that are started meanwhile, unless they ask.
    fn point_to(&mut self, what: &impl AsFd) -> nix::Result<()> {
        nix::unistd::dup3(what, &mut self.0, OFlag::O_CLOEXEC)
    }
}

/// Something that a program said.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// On standard output.
    Out(Vec<u8>),
    /// On standard error.
    Err(Vec<u8>),
    /// On the descriptor for metrics.
    Metrics(Vec<u8>),
}

/// A running program, in a process group of its own. It dies with the thread that started it.
#[derive(Debug)]
pub struct Program {
    leader: GroupLeader,
    out: Option<OwnedFd>,
    err: Option<OwnedFd>,
    metrics: Option<OwnedFd>,
}

impl Program {
    /// Starts a program. It finds the descriptor for metrics under the number of `reserved`.
    ///
    /// # Errors
    /// What the system says.
    pub fn spawn(command: Command, reserved: &mut Reserved) -> io::Result<Program> {
        let (ours, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::Stream,
            None,
            SockFlag::SOCK_CLOEXEC,
        )?;
        reserved.point_to(&theirs)?;
        drop(theirs);
        let child = start(command, reserved.number());
        // Nobody but the program may hold the other end, or its end would not be seen.
        reserved.point_to(&std::fs::File::open("/dev/null")?)?;
        let mut child = child?;
        let program = Program {
            leader: GroupLeader::new(&child),
            out: child.stdout.take().map(OwnedFd::from),
            err: child.stderr.take().map(OwnedFd::from),
            metrics: Some(ours),
        };
        for fd in [&program.out, &program.err, &program.metrics] {
            let flags = FcntlArg::F_SETFL(OFlag::O_NONBLOCK);
            fd.as_ref().map_or(Ok(0), |fd| fcntl(fd, flags))?;
        }
        Ok(program)
    }

    /// Waits until it says something, one of `wakers` can be read, or the time is over; gives what it
    /// said.
    pub fn listen(&mut self, wakers: [&OwnedFd; 2], timeout: Duration) -> Vec<Output> {
        let open = [&self.out, &self.err, &self.metrics];
        let mut wanted: Vec<PollFd> = open
            .into_iter()
            .flatten()
            .chain(wakers)
            .map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN))
            .collect();
        let timeout = u16::try_from(timeout.as_millis()).unwrap_or(u16::MAX);
        let _ = poll(&mut wanted, timeout);
        self.read()
    }

    /// What it has said and nobody has read yet; at most one read of each kind.
    pub fn read(&mut self) -> Vec<Output> {
        let mut said = Vec::new();
        said.extend(read(&mut self.out).map(Output::Out));
        said.extend(read(&mut self.err).map(Output::Err));
        said.extend(read(&mut self.metrics).map(Output::Metrics));
        said
    }

    /// Whether it has closed everything on which it could say something.
    pub fn silent(&self) -> bool {
        self.out.is_none() && self.err.is_none() && self.metrics.is_none()
    }

    /// Answers on the descriptor for metrics. A program that does not read its answers loses them.
    pub fn answer(&self, line: &str) {
        if let Some(socket) = &self.metrics {
            let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
            let _ = send(socket.as_raw_fd(), format!("{line}\n").as_bytes(), flags);
        }
    }

    /// Looks whether it runs.
    pub fn look(&self) -> ChildState {
        self.leader.look()
    }

    /// Sends a signal to its process group.
    pub fn signal(&self, signal: Signal) {
        self.leader.signal(signal);
    }

    /// After [`ChildState::Ended`]: ends all that it has left behind, and lets its number go.
    pub fn end(&mut self) -> ChildEnd {
        let (end, _) = self.leader.end(ProcessMark::of_this_worker());
        orphans::reap_all();
        end
    }
}

impl Drop for Program {
    /// Whatever went wrong: it does not outlive its attempt.
    fn drop(&mut self) {
        if !self.leader.is_reaped() {
            self.end();
        }
    }
}

fn start(mut command: Command, metrics: RawFd) -> io::Result<std::process::Child> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: fcntl is async-signal-safe.
    unsafe {
        child::lead_group(&mut command, Signal::SIGKILL, move || {
            let metrics = BorrowedFd::borrow_raw(metrics);
            fcntl(metrics, FcntlArg::F_SETFD(FdFlag::empty()))?;
            Ok(())
        });
    }
    command.spawn()
}

/// One read; closes the descriptor at its end.
fn read(fd: &mut Option<OwnedFd>) -> Option<Vec<u8>> {
    let mut buffer = vec![0; CHUNK];
    match nix::unistd::read(fd.as_ref()?, &mut buffer) {
        Ok(length) if length > 0 => {
            buffer.truncate(length);
            Some(buffer)
        }
        Err(Errno::EAGAIN | Errno::EINTR) => None,
        Ok(_) | Err(_) => {
            *fd = None;
            None
        }
    }
}

/// A pipe that can be read once a signal has come.
///
/// # Errors
/// What the system says.
pub fn signal_pipe(signal: i32) -> io::Result<OwnedFd> {
    let (ours, theirs) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
    signal_hook::low_level::pipe::register(signal, theirs)?;
    Ok(ours)
}

/// Takes what is in such a pipe; says whether the signal had come.
pub fn has_come(pipe: &OwnedFd) -> bool {
    let mut buffer = [0; 64];
    nix::unistd::read(pipe, &mut buffer).is_ok_and(|length| length > 0)
}
