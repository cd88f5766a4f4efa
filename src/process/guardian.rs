//! The guardian: a small process that outlives the supervisor for an instant, to end what its
//! workers have left behind.
//!
//! A worker ends by itself when the supervisor is gone, and takes along what it has started. One that
//! was killed, that hangs or whose memory is broken does not. So one more process holds the other end of
//! a socket to the supervisor: when that closes, for whatever reason, it ends all members of the run's
//! [`ProcessMark`] that are still there, removes their cgroup and leaves.
//!
//! It is a fork without an exec: it is there within a millisecond or two, shares nearly all of its pages with
//! the supervisor, and needs no file, which may have been replaced meanwhile. What makes that safe: all signals are
//! blocked before the fork, so that no handler of the supervisor ever runs in the child; it closes
//! every descriptor but its socket (the study's lock and the terminal among them); until the socket
//! closes it only waits; then it reads `/proc`, sends signals and removes directories, with no lock but that of glibc's
//! allocator, which glibc itself keeps usable across a fork; and it leaves by `_exit`, so that
//! nothing of the supervisor's is dropped, flushed or unwound twice.
//!
//! It leads a session of its own and so is not hit by a terminal's signals, nor by a `kill` of the
//! supervisor's group. Its name and its command line are its own too: who ends `tune` by its name
//! or by its command line does not end the guardian with it. When it is ended by force,
//! the supervisor makes another one; when it is stopped, the supervisor tells it to go on, and the
//! kernel does when the supervisor ends. When supervisor, guardian and a worker are ended at once, the
//! next run of the study finds what they left.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::socket::{
    AddressFamily, MsgFlags, Shutdown, SockFlag, SockType, recv, shutdown, socketpair,
};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use super::orphans::{self, ProcessMark};
use super::{cgroup, stat};

/// How long the guardian tries to end what is left: milliseconds as a rule, but on a crowded machine
/// a single look at all processes may take seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long workers are given to end by themselves, with what they have started. Who stops this process
/// after that, between its first signals to them and its last ones, leaves them stopped.
const HEAD_START: Duration = Duration::from_millis(500);

/// The wait before a guardian that was ended is replaced: the first one, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest such wait; a guardian that has lived for longer than this was no failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The guardian of a run. Dropping it ends what is left of the run's workers, and waits for that.
pub struct Guardian {
    link: Arc<Mutex<Link>>,
    wake: Option<Sender<()>>,
    watcher: Option<JoinHandle<()>>,
}

/// The supervisor's end of the socket.
#[derive(Default)]
struct Link {
    ending: bool,
    socket: Option<Arc<OwnedFd>>,
}

impl Guardian {
    /// Starts a guardian that ends the processes of `mark` when this process ends. Where it cannot be started,
    /// this is warned of and tried again for as long as the run lasts.
    pub fn start(mark: ProcessMark) -> Guardian {
        // Here rather than on the watcher: before any other thread, the fork copies less that changes.
        let first = make(&mark);
        let link = Arc::new(Mutex::new(Link::default()));
        let (wake, woken) = mpsc::channel();
        let shared = Arc::clone(&link);
        let watcher = thread::Builder::new()
            .name("guardian".into())
            .spawn(move || watch(&shared, &mark, first, &woken));
        if let Err(error) = &watcher {
            tracing::warn!(%error, "no thread for the guardian: if this process is killed, what its workers have started may live on");
        }
        Guardian {
            link,
            wake: Some(wake),
            watcher: watcher.ok(),
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.wake = None;
        hang_up(&self.link);
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

/// From now on the guardian's end is no surprise; it ends when it finds its socket closed.
fn hang_up(link: &Mutex<Link>) {
    let mut link = link.lock().unwrap_or_else(PoisonError::into_inner);
    link.ending = true;
    if let Some(socket) = &link.socket {
        let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
    }
}

/// Waits for the guardian's end, and replaces it until the run is over.
fn watch(
    link: &Mutex<Link>,
    mark: &ProcessMark,
    first: io::Result<(Pid, OwnedFd)>,
    woken: &Receiver<()>,
) {
    let mut made = first;
    let mut pause = FIRST_PAUSE;
    let mut warned = false;
    loop {
        let since = Instant::now();
        let what = match made {
            Ok((pid, socket)) => {
                if serve(link, pid, socket) {
                    return;
                }
                "the guardian was ended".to_owned()
            }
            Err(error) => format!("the guardian could not be started ({error})"),
        };
        if since.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        if !warned {
            tracing::warn!("{what}; it is started again");
            warned = true;
        } else {
            tracing::info!("{what}; it is started again");
        }
        if woken.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
        made = make(mark);
    }
}

/// Waits for the end of this guardian; says whether the run is ending.
fn serve(link: &Mutex<Link>, pid: Pid, socket: OwnedFd) -> bool {
    let socket = Arc::new(socket);
    let lock = || link.lock().unwrap_or_else(PoisonError::into_inner);
    lock().socket = Some(Arc::clone(&socket));
    if lock().ending {
        hang_up(link);
    }
    loop {
        match waitpid(pid, Some(WaitPidFlag::WUNTRACED)) {
            // One that stands still would keep the end of the run waiting, and guards nothing.
            Ok(WaitStatus::Stopped(..)) => {
                let _ = kill(pid, Signal::SIGCONT);
            }
            Err(Errno::EINTR) => {}
            Ok(_) | Err(_) => break,
        }
    }
    let mut link = lock();
    link.socket = None;
    link.ending
}

/// Forks a guardian.
fn make(mark: &ProcessMark) -> io::Result<(Pid, OwnedFd)> {
    let (ours, theirs) = socketpair(
        AddressFamily::Unix,
        SockType::Stream,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?;
    // In the child they stay blocked: only SIGKILL ends it, or its own work.
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    // SAFETY: the child does what the module's documentation says, and never returns from here.
    let child = match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            drop(ours);
            guard(&theirs, mark)
        }
        Ok(ForkResult::Parent { child }) => Ok(child),
        Err(error) => Err(error),
    };
    mask.thread_set_mask()?;
    Ok((child?, ours))
}

/// The guardian's whole life.
fn guard(socket: &OwnedFd, mark: &ProcessMark) -> ! {
    // A panic must not unwind into the supervisor's code.
    let done = catch_unwind(AssertUnwindSafe(|| {
        detach(socket.as_raw_fd());
        wait_for_hang_up(socket.as_raw_fd());
        orphans::wait_for_all(mark, HEAD_START);
        orphans::end(mark, PATIENCE);
        if let Some(group) = mark.cgroup() {
            cgroup::clear(group);
        }
    }));
    // SAFETY: `_exit` has no preconditions and does not return.
    unsafe { libc::_exit(i32::from(done.is_err())) }
}

/// Lets go of everything that is the supervisor's. Each step is of use without the others.
fn detach(socket: RawFd) {
    // A stopped process does not see that its socket closes: the kernel wakes it.
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGCONT);
    let _ = nix::unistd::setsid();
    close_all_but(socket);
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdin(&null);
        let _ = nix::unistd::dup2_stdout(&null);
        let _ = nix::unistd::dup2_stderr(&null);
    }
    let _ = nix::unistd::chdir("/");
    let _ = nix::sys::prctl::set_name(c"guardian");
    rename(b"tune guardian");
}

/// Closes every descriptor but one; standard input and output are replaced later.
fn close_all_but(kept: RawFd) {
    let kept = kept as libc::c_uint;
    let close = |first: libc::c_uint, last: libc::c_uint| {
        // SAFETY: three integers; of what is closed here, this process uses nothing any more.
        first > last || unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0
    };
    // The socket is no standard stream: those are always open.
    if close(3, kept.saturating_sub(1)) && close(kept + 1, libc::c_uint::MAX) {
        return;
    }
    // A kernel without that call (before 5.9).
    let open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2 && *fd as libc::c_uint != kept)
        .collect();
    for fd in open {
        // SAFETY: as above.
        unsafe { libc::close(fd) };
    }
}

/// Returns when the other end is gone.
fn wait_for_hang_up(socket: RawFd) {
    let mut byte = [0];
    while recv(socket, &mut byte, MsgFlags::empty()) == Err(Errno::EINTR) {}
}

/// Shows `title` as this process's command line, as far as the old one's room suffices: two
/// processes with the same line would look like a run that was started twice.
fn rename(title: &[u8]) {
    let Some((start, end)) = arguments() else {
        return;
    };
    let room = end.saturating_sub(start);
    for at in 0..room {
        // The last byte stays 0: otherwise the kernel goes on into the environment.
        let byte = if at + 1 < room { title.get(at) } else { None };
        // SAFETY: the kernel put the arguments there, on the stack of the first thread, which is
        // writable and lives as long as the process; this process reads its arguments no more.
        unsafe { ((start + at) as *mut u8).write_volatile(byte.copied().unwrap_or(0)) };
    }
}

/// Where the kernel has put this process's arguments; `None` where it does not tell.
fn arguments() -> Option<(usize, usize)> {
    let (start, end) = stat::own()?.arguments;
    (start != 0).then_some((start as usize, end as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command};

    fn sleep(mark: &ProcessMark) -> Child {
        Command::new("sleep")
            .arg("1000")
            .env(orphans::VARIABLE, mark.variable(None))
            .spawn()
            .unwrap()
    }

    #[test]
    fn a_guardian_that_is_dropped_ends_marked_processes_first() {
        let mark = ProcessMark::study((u64::from(std::process::id()), 100)).this_run();
        let guardian = Guardian::start(mark.clone());
        let mut orphan = sleep(&mark);
        drop(guardian);
        let start = Instant::now();
        let status = loop {
            if let Some(status) = orphan.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > Duration::from_secs(30) {
                orphan.kill().unwrap();
                panic!("the orphan lives on");
            }
            thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(status.signal(), Some(9));
    }

    #[test]
    fn the_place_of_the_arguments_is_that_of_this_process() {
        let (start, end) = arguments().unwrap();
        // SAFETY: the arguments of the test's own process, which nobody changes.
        let seen = unsafe { std::slice::from_raw_parts(start as *const u8, end - start) };
        assert_eq!(seen, std::fs::read("/proc/self/cmdline").unwrap());
    }
}
