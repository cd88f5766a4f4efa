//! A child and the process group that it leads: how it is started, looked at, signalled and ended with
//! all that it has started.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::orphans::{self, Ended, ProcessMark};
use fault::Death;

/// How long processes that a child has left behind are given to end.
const ORPHANS: Duration = Duration::from_secs(1);

/// Has a command lead a process group of its own, and get `signal` when the thread that starts it
/// ends. `before_exec` runs in the child between fork and exec.
///
/// # Safety
/// `before_exec` makes async-signal-safe calls only, and does not allocate.
pub unsafe fn lead_group(
    command: &mut Command,
    signal: Signal,
    before_exec: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) {
    let parent = nix::unistd::getpid();
    command.process_group(0);
    // SAFETY: prctl and getppid are async-signal-safe; the caller vouches for the rest.
    unsafe {
        command.pre_exec(move || {
            orphans::signal_at_end_of(parent, signal)?;
            before_exec()
        });
    }
}

/// What a look at a child shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildState {
    /// It runs.
    Running,
    /// It was just found stopped by a signal.
    Stopped,
    /// It has ended, but is still there to be waited for: its number is nobody else's.
    Ended,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChildEnd {
    /// Exit status or signal.
    pub death: Death,
    /// Peak resident memory in MiB, of it or of the largest process that it waited for.
    pub peak_memory_mb: f64,
}

/// A child that leads a process group. Once it was waited for, its number may be anybody's: from then
/// on nothing is sent to it.
#[derive(Debug)]
pub struct GroupLeader {
    pid: Pid,
    reaped: Mutex<bool>,
}

impl GroupLeader {
    /// A child whose command was prepared by [`lead_group`].
    pub fn new(child: &Child) -> GroupLeader {
        GroupLeader {
            pid: Pid::from_raw(child.id() as i32),
            reaped: Mutex::new(false),
        }
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw() as u32
    }

    /// Sends a signal to the group; false where the child has been waited for.
    pub fn signal(&self, signal: Signal) -> bool {
        let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped {
            let _ = killpg(self.pid, signal);
        }
        !*reaped
    }

    /// Looks whether it runs.
    pub fn look(&self) -> ChildState {
        self.state(WaitPidFlag::WNOHANG)
    }

    /// Waits until it has ended; calls `stopped` each time it is stopped.
    pub fn wait_for_end(&self, stopped: impl Fn()) {
        loop {
            match self.state(WaitPidFlag::empty()) {
                ChildState::Running => {}
                ChildState::Stopped => stopped(),
                ChildState::Ended => return,
            }
        }
    }

    fn state(&self, flags: WaitPidFlag) -> ChildState {
        let flags = flags | WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED;
        match waitid(Id::Pid(self.pid), flags | WaitPidFlag::WNOWAIT) {
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => ChildState::Running,
            Ok(WaitStatus::Stopped(..)) => {
                // Takes the notice away, which was only looked at so far.
                let take = WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG;
                match waitid(Id::Pid(self.pid), take) {
                    Ok(WaitStatus::Stopped(..)) => ChildState::Stopped,
                    Ok(_) | Err(_) => ChildState::Running,
                }
            }
            Ok(_) | Err(_) => ChildState::Ended,
        }
    }

    /// Ends what is left of its group and all that carries its mark, and only then lets its number
    /// go. Gives its end, and what came of the processes that it had left behind; `None`: those could
    /// not be looked for in time.
    pub fn end(&self, mark: Option<ProcessMark>) -> (ChildEnd, Option<Ended>) {
        self.signal(Signal::SIGKILL);
        let ended = match mark {
            Some(mark) => orphans::end_or_give_up(&mark.beginning_with(self.pid()), ORPHANS),
            None => Some(Ended::default()),
        };
        (self.reap(), ended)
    }

    /// Whether it was waited for.
    pub fn is_reaped(&self) -> bool {
        *self.reaped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for it, which is about to end or has ended, with what the kernel knows of its memory.
    pub fn reap(&self) -> ChildEnd {
        let mut reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        let mut status = 0;
        // SAFETY: an all-zero `rusage` is a valid value of it.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        let found = loop {
            // SAFETY: both pointers are to values that outlive the call.
            let found =
                unsafe { libc::wait4(self.pid.as_raw(), &raw mut status, 0, &raw mut usage) };
            if found >= 0 || Errno::last() != Errno::EINTR {
                break found;
            }
        };
        *reaped = true;
        // Not by way of `nix`, which knows no real-time signals.
        let death = if found < 0 {
            Death::Unknown
        } else if libc::WIFEXITED(status) {
            Death::Exited(libc::WEXITSTATUS(status))
        } else {
            Death::Signaled(libc::WTERMSIG(status))
        };
        ChildEnd {
            death,
            peak_memory_mb: usage.ru_maxrss as f64 / 1024.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::zombie_processes)] // It is waited for by its number.
    fn nothing_is_sent_to_the_number_of_a_process_that_was_waited_for() {
        let child = Command::new("true").process_group(0).spawn().unwrap();
        let leader = GroupLeader::new(&child);
        assert!(leader.signal(Signal::SIGCONT));
        assert_eq!(leader.reap().death, Death::Exited(0));
        assert!(!leader.signal(Signal::SIGKILL));
    }
}
