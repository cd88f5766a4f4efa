//! The worker's end of the socket to the supervisor.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, SockType, getsockopt, recv, send, sockopt};

use protocol::{Assembler, AttemptEvent, AttemptId, FromWorker, MAX_PACKET, ToWorker, packets};

/// A connected socket that keeps packet boundaries.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    /// Held while the packets of one message are sent. Nothing that is done under it can panic:
    /// the panic hook takes it too.
    sending: Mutex<()>,
}

impl Link {
    /// Takes the socket from standard input, and leaves `/dev/null` there: what the worker starts
    /// must not hold the socket open.
    ///
    /// # Errors
    /// Standard input is no such socket.
    pub fn take_stdin() -> anyhow::Result<Link> {
        let socket = io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .context("standard input is closed")?;
        let link = Link::new(socket)
            .context("standard input is no socket of `tune`, which alone starts this command")?;
        nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
        Ok(link)
    }

    /// A link over a connected SOCK_SEQPACKET socket, which is made blocking.
    ///
    /// # Errors
    /// It is no such socket.
    pub fn new(socket: OwnedFd) -> anyhow::Result<Link> {
        let kind = getsockopt(&socket, sockopt::SockType)?;
        anyhow::ensure!(
            kind == SockType::SeqPacket,
            "a socket of type {kind:?}, expected SeqPacket"
        );
        let flags = OFlag::from_bits_truncate(fcntl(&socket, FcntlArg::F_GETFL)?);
        fcntl(&socket, FcntlArg::F_SETFL(flags & !OFlag::O_NONBLOCK))?;
        Ok(Link {
            socket,
            sending: Mutex::new(()),
        })
    }

    /// Whether the supervisor has closed its end, or is gone.
    pub fn is_closed(&self) -> bool {
        let mut wanted = [PollFd::new(self.socket.as_fd(), PollFlags::empty())];
        let looked = poll(&mut wanted, PollTimeout::ZERO);
        let found = wanted[0].revents().unwrap_or(PollFlags::empty());
        looked.is_ok() && found.contains(PollFlags::POLLHUP)
    }

    /// Sends a message; waits while the supervisor is busy.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn send(&self, message: &FromWorker) -> anyhow::Result<()> {
        let packets = packets(message)?;
        let _guard = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        for packet in packets {
            loop {
                match send(self.socket.as_raw_fd(), &packet, MsgFlags::MSG_NOSIGNAL) {
                    Ok(_) => break,
                    Err(Errno::EINTR) => {}
                    Err(error) => return Err(error).context("the supervisor is gone"),
                }
            }
        }
        Ok(())
    }

    /// Sends what becomes of an attempt.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn report(&self, attempt: AttemptId, event: AttemptEvent) -> anyhow::Result<()> {
        self.send(&FromWorker::Attempt(attempt, event))
    }

    /// The next message; `None` when the supervisor closed its end.
    fn receive(
        &self,
        assembler: &mut Assembler,
        buffer: &mut [u8],
    ) -> anyhow::Result<Option<ToWorker>> {
        loop {
            match recv(self.socket.as_raw_fd(), buffer, MsgFlags::empty()) {
                Ok(0) => return Ok(None),
                Ok(length) => {
                    if let Some(message) = assembler.push(&buffer[..length])? {
                        return Ok(Some(message));
                    }
                }
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsRawFd for Link {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Reads messages on a thread of its own, also while a trial trains: `hung_up` is called, on that
/// thread, when the supervisor is gone or sends what is no message. Its argument says whether the
/// worker had been told to leave before.
///
/// # Errors
/// The thread cannot be started.
pub fn read(link: Arc<Link>, hung_up: fn(told_to_leave: bool)) -> io::Result<Receiver<ToWorker>> {
    let (sender, receiver) = channel();
    std::thread::Builder::new()
        .name("link".into())
        .spawn(move || {
            let told_to_leave = forward(&link, &sender);
            hung_up(told_to_leave);
        })?;
    Ok(receiver)
}

/// Passes messages on until the link ends; says whether one of them was `Exit`.
fn forward(link: &Link, sender: &Sender<ToWorker>) -> bool {
    let mut assembler = Assembler::default();
    let mut buffer = vec![0; MAX_PACKET];
    let mut told_to_leave = false;
    while let Ok(Some(message)) = link.receive(&mut assembler, &mut buffer) {
        told_to_leave |= message == ToWorker::Exit;
        if sender.send(message).is_err() {
            break;
        }
    }
    told_to_leave
}
