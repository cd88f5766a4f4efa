//! Worker processes: starting them, talking to them, watching them end.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, MsgFlags, Shutdown, SockFlag, SockType, recv, send, shutdown, socketpair,
};

use super::event_channel::EventSender;
use super::{Event, ExitInfo, WorkerEvent, WorkerId, WorkerOptions};
use device::Device;
use fault::Death;
use files::plain;
use process::cgroup::WorkerCgroup;
use process::child::{self, GroupLeader};
use process::evidence;
use process::orphans::{self, Ended, ProcessMark};
use protocol::{
    ALONE, Assembler, EXPANDABLE, FromWorker, MAX_PACKET, NEEDS_LIBTORCH, ToWorker, packets,
};

/// A worker that has not read for this long, in milliseconds, never will.
const DEAF: u16 = 2_000;

/// A running worker, as the driver holds it.
pub struct Process {
    watched: Arc<Watched>,
    /// What it is to be sent.
    tell: Sender<ToWorker>,
    watcher: Option<JoinHandle<()>>,
}

/// What the process and the thread that waits for its end share.
struct Watched {
    leader: GroupLeader,
    /// Its own cgroup, where it has one.
    group: Option<WorkerCgroup>,
    notes: Mutex<Notes>,
}

/// What is known of a worker before its end.
struct Notes {
    /// Where it prints to now.
    log: PathBuf,
    /// It was found stopped when it was told to end.
    stopped: bool,
    /// OOM kills in its cgroup before its present attempt.
    oom_kills: u64,
}

impl Watched {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How its process ended, after `death`.
    fn exit_info(&self, death: Death) -> ExitInfo {
        let notes = self.notes();
        ExitInfo {
            death: Some(death),
            tail: evidence::tail(&notes.log),
            stopped: notes.stopped,
            oom_kills: oom_kills(self.group.as_ref()).saturating_sub(notes.oom_kills),
        }
    }
}

impl Process {
    /// Starts a worker whose output goes to `log` until its first attempt, in `group` if it can be
    /// put there. Call this from the thread that lives longest: the kernel tells the worker when the
    /// thread that started it ends.
    ///
    /// # Errors
    /// What the system says.
    pub fn spawn(
        worker: WorkerId,
        environment: &[(String, String)],
        log: &Path,
        mark: ProcessMark,
        group: Option<WorkerCgroup>,
        events: &EventSender,
    ) -> io::Result<Process> {
        let (ours, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )?;
        let mut command = command(environment, open_log(log)?, theirs, &mark);
        let (child, group) = start(&mut command, group)?;
        let mark = mark.in_cgroup(group.as_ref().map(WorkerCgroup::dir));
        let (tell, told) = mpsc::channel();
        let mut process = Process {
            watched: Arc::new(Watched {
                leader: GroupLeader::new(&child),
                notes: Mutex::new(Notes {
                    log: log.to_owned(),
                    stopped: false,
                    oom_kills: oom_kills(group.as_ref()),
                }),
                group,
            }),
            tell,
            watcher: None,
        };
        match process.watch(worker, mark, (Arc::new(ours), told), events) {
            Ok(watcher) => {
                process.watcher = Some(watcher);
                Ok(process)
            }
            Err(error) => {
                // Nobody would see its end.
                process.kill();
                process.watched.leader.reap();
                Err(error)
            }
        }
    }

    /// Starts the threads that read the worker's messages, send it ours, and wait for its end.
    fn watch(
        &self,
        worker: WorkerId,
        mark: ProcessMark,
        (socket, told): (Arc<OwnedFd>, Receiver<ToWorker>),
        events: &EventSender,
    ) -> io::Result<JoinHandle<()>> {
        let start = |name: &str| thread::Builder::new().name(format!("{name}-{worker}"));
        let (reads, heard) = (Arc::clone(&socket), events.clone());
        let reader = start("reader").spawn(move || read_messages(worker, &reads, &heard))?;
        let (sends, failed) = (Arc::clone(&socket), events.clone());
        start("sender").spawn(move || send_messages(worker, &sends, &told, &failed))?;
        let (watched, events) = (Arc::clone(&self.watched), events.clone());
        start("watcher").spawn(move || {
            let tell = |event| {
                let _ = events.send(Event::Worker(worker, event));
            };
            let death = wait_for_end(worker, &watched.leader, mark, || tell(WorkerEvent::Stopped));
            // Packets that are in the socket already can still be read after this.
            let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
            let _ = reader.join();
            tell(WorkerEvent::Exited(watched.exit_info(death)));
        })
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.watched.leader.pid()
    }

    /// Sends a message, from another thread: nobody waits here for a worker that does not read. That
    /// one is told of as [`Event::Garbled`].
    pub fn send(&self, message: ToWorker) {
        // The thread has ended where the socket is closed: the process is ending, an event of its own.
        let _ = self.tell.send(message);
    }

    /// An attempt begins: from now on it prints there, and only what the kernel kills from now on
    /// can explain its end. Gives where it printed before.
    pub fn begin(&self, log: PathBuf) -> PathBuf {
        let mut notes = self.watched.notes();
        notes.oom_kills = oom_kills(self.watched.group.as_ref());
        std::mem::replace(&mut notes.log, log)
    }

    /// Where it prints now.
    pub fn log(&self) -> PathBuf {
        self.watched.notes().log.clone()
    }

    /// SIGTERM to the group. A stopped process is woken, or the signal would never reach it; that
    /// it was stopped is kept as evidence.
    pub fn terminate(&self) {
        if evidence::is_stopped(self.pid()) {
            self.watched.notes().stopped = true;
        }
        self.watched.leader.signal(Signal::SIGTERM);
        self.watched.leader.signal(Signal::SIGCONT);
    }

    /// SIGCONT to the group.
    pub fn resume(&self) {
        self.watched.leader.signal(Signal::SIGCONT);
    }

    /// SIGKILL to the group.
    pub fn kill(&self) {
        self.watched.leader.signal(Signal::SIGKILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher.take()
            && watcher.is_finished()
        {
            let _ = watcher.join();
        }
    }
}

/// How a worker is started, but for its last steps.
fn command(
    environment: &[(String, String)],
    output: File,
    socket: OwnedFd,
    mark: &ProcessMark,
) -> Command {
    let inherited = std::env::var(orphans::VARIABLE).ok();
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("tune")
        .arg("worker")
        .stdin(Stdio::from(socket))
        .stdout(
            output
                .try_clone()
                .map_or_else(|_| Stdio::null(), Stdio::from),
        )
        .stderr(Stdio::from(output))
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .env(orphans::VARIABLE, mark.variable(inherited.as_deref()));
    command
}

/// Starts the process in its cgroup, before it executes anything: so all that it starts is inside.
/// Where it cannot be put there, it is started without, and the cgroup is dropped.
fn start(
    command: &mut Command,
    group: Option<WorkerCgroup>,
) -> io::Result<(Child, Option<WorkerCgroup>)> {
    const NONE: RawFd = -1;
    let procs_file = group.as_ref().and_then(|g| g.procs_file().ok());
    let enter = Arc::new(AtomicI32::new(
        procs_file.as_ref().map_or(NONE, File::as_raw_fd),
    ));
    let entered = Arc::clone(&enter);
    let enter_cgroup = move || {
        let procs_file = entered.load(Ordering::Relaxed);
        if procs_file != NONE {
            // SAFETY: the descriptor is open for as long as its number is there.
            nix::unistd::write(unsafe { BorrowedFd::borrow_raw(procs_file) }, b"0")?;
        }
        Ok(())
    };
    // It ends by itself once its socket closes, with what it has started. A process that is stopped
    // would not notice, but for SIGCONT.
    // SAFETY: write is async-signal-safe.
    unsafe { child::lead_group(command, Signal::SIGCONT, enter_cgroup) };
    let group = group.filter(|_| procs_file.is_some());
    match command.spawn() {
        Err(error) if group.is_some() => {
            tracing::debug!(%error, "a worker could not be started in its cgroup");
            enter.store(NONE, Ordering::Relaxed);
            Ok((command.spawn()?, None))
        }
        started => Ok((started?, group)),
    }
}

/// OOM kills so far that may have hit a worker: in its own cgroup, or where others are, too.
fn oom_kills(group: Option<&WorkerCgroup>) -> u64 {
    let own = group.and_then(WorkerCgroup::oom_kills);
    own.unwrap_or_else(evidence::oom_kills)
}

/// The log, or /dev/null where it cannot be written: a full disk must not keep workers from
/// starting.
fn open_log(path: &Path) -> io::Result<File> {
    let open = plain::open(path, plain::For::Appending);
    open.or_else(|_| std::fs::OpenOptions::new().write(true).open("/dev/null"))
}

/// Which GPUs CUDA shows to a process, and in which order.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// libtorch's settings of its allocator, by their new and their old name.
const ALLOCATOR: [&str; 2] = ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"];

/// What a worker's environment has beyond ours. A forensic one finds the place of a fault: each
/// CUDA call waits for its kernels, so that an error is reported where it was made, and stacks are
/// kept whole. `library` is the one that has libtorch, where the worker needs it. Where trials do not
/// compute in the worker itself (`in_process`), the programs that it starts keep our search path for
/// libraries: they may bring a libtorch of their own.
pub fn environment(
    options: WorkerOptions,
    in_process: bool,
    library: Option<&Path>,
) -> Vec<(String, String)> {
    let WorkerOptions {
        device,
        threads,
        forensic,
        expandable,
    } = options;
    let mut env = vec![
        // Read when libtorch's thread pools are made, which happens before a worker can set them.
        ("OMP_NUM_THREADS".to_owned(), threads.to_string()),
        ("MKL_NUM_THREADS".to_owned(), threads.to_string()),
        // Threads that spin while they wait starve the other workers: on two crowded cores a
        // training step took ten times as long.
        ("OMP_WAIT_POLICY".to_owned(), "passive".to_owned()),
    ];
    if forensic {
        for name in ["CUDA_LAUNCH_BLOCKING", "TORCH_SHOW_CPP_STACKTRACES"] {
            env.push((name.to_owned(), "1".to_owned()));
        }
        env.push(("RUST_BACKTRACE".to_owned(), "full".to_owned()));
    }
    if let Device::Cuda(_) = device {
        // So that CUDA counts as NVML does, by whose index the device was chosen.
        env.push(("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".to_owned()));
    }
    // No library makes a context on a GPU that is another worker's.
    let ours = std::env::var(VISIBLE).ok();
    if in_process && let Some(alone) = device.visible(ours.as_deref()) {
        env.push((VISIBLE.to_owned(), alone));
        env.push((ALONE.to_owned(), "1".to_owned()));
    }
    let free = ALLOCATOR
        .iter()
        .all(|name| std::env::var_os(name).is_none());
    if let Device::Cuda(_) = device
        && expandable
        && free
    {
        let value = "expandable_segments:True".to_owned();
        env.push(("PYTORCH_CUDA_ALLOC_CONF".to_owned(), value));
        if in_process {
            env.push((EXPANDABLE.to_owned(), "1".to_owned()));
        }
    }
    if let Some(library) = library {
        env.push((NEEDS_LIBTORCH.to_owned(), library.display().to_string()));
    }
    if in_process {
        env.extend(device::search_path());
    }
    env
}

/// Sends what it is told, one message after the other, until the worker's end, or until it turns out
/// not to read.
fn send_messages(
    worker: WorkerId,
    socket: &OwnedFd,
    told: &Receiver<ToWorker>,
    events: &EventSender,
) {
    while let Ok(message) = told.recv() {
        let Err(error) = send_whole(socket, &message) else {
            continue;
        };
        // A closed socket means that the process is ending, which is an event of its own; a full one
        // that it does not read.
        tracing::warn!(worker, %error, "a message could not be sent");
        if error.kind() == io::ErrorKind::WouldBlock {
            let error = "it does not read its messages".to_owned();
            let _ = events.send(Event::Worker(worker, WorkerEvent::Garbled(error)));
        }
        return;
    }
}

/// Sends a message. A worker reads at all times, so that this waits for a moment at most.
///
/// # Errors
/// The socket is closed, or full and the worker does not read ([`io::ErrorKind::WouldBlock`]).
fn send_whole(socket: &OwnedFd, message: &ToWorker) -> io::Result<()> {
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    for packet in packets(message).map_err(io::Error::other)? {
        loop {
            match send(socket.as_raw_fd(), &packet, flags) {
                Ok(_) => break,
                Err(Errno::EAGAIN) if has_room(socket) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Whether the socket takes more before the worker counts as deaf.
fn has_room(socket: &OwnedFd) -> bool {
    let mut wanted = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
    poll(&mut wanted, DEAF).is_ok_and(|ready| ready > 0)
}

fn read_messages(worker: WorkerId, socket: &OwnedFd, events: &EventSender) {
    let mut buffer = vec![0u8; MAX_PACKET];
    let mut assembler = Assembler::default();
    loop {
        let event = match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Ok(0) => {
                let _ = events.send(Event::Worker(worker, WorkerEvent::HungUp));
                return;
            }
            Ok(length) => match assembler.push::<FromWorker>(&buffer[..length]) {
                Ok(Some(message)) => Event::Worker(worker, WorkerEvent::Received(message)),
                Ok(None) => continue,
                Err(error) => Event::Worker(worker, WorkerEvent::Garbled(error.to_string())),
            },
            Err(Errno::EINTR) => continue,
            Err(_) => return,
        };
        if events.send(event).is_err() {
            return;
        }
    }
}

/// Waits until the process has ended, and ends what it has left behind: no attempt of the next worker
/// runs beside that.
fn wait_for_end(
    worker: WorkerId,
    leader: &GroupLeader,
    mark: ProcessMark,
    stopped: impl Fn(),
) -> Death {
    leader.wait_for_end(stopped);
    let (end, left) = leader.end(Some(mark));
    let pid = leader.pid();
    match left {
        Some(ended) if ended == Ended::default() => {}
        Some(ended) => tracing::warn!(worker, %pid, "processes that a worker left behind: {ended}"),
        None => tracing::warn!(worker, %pid, "what a worker left could not be looked for in time"),
    }
    end.death
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::event_channel;
    use std::time::Duration;

    #[test]
    fn a_worker_that_does_not_read_is_told_of_and_nobody_waits_for_it() {
        let (event_channel, inbox) = event_channel::channel(Clock::start().unwrap());
        let kind = SockType::SeqPacket;
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC).unwrap();
        let (tell, told) = mpsc::channel();
        // More than any socket holds: all of it is taken at once, although nobody reads.
        for _ in 0..100_000 {
            tell.send(ToWorker::Decided { prune: false }).unwrap();
        }
        let sender = thread::spawn(move || send_messages(3, &ours, &told, &event_channel));
        let (_, event) = inbox.recv_timeout(Duration::from_secs(30)).unwrap();
        let error = "it does not read its messages".to_owned();
        assert_eq!(event, Event::Worker(3, WorkerEvent::Garbled(error)));
        sender.join().unwrap();
        drop(theirs);
    }
}
