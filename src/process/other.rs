//! A process that this one has not started.

use std::io;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::orphans::{pidfd, send_to};
use super::stat::{self, start_of};

/// How long a process has lived; `None` where there is none with this id.
pub fn age(pid: u32) -> Option<Duration> {
    let ticks = start_of(pid)?;
    let started = Duration::from_secs_f64(ticks as f64 / stat::ticks_a_second()? as f64);
    let now = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?);
    Some(now.saturating_sub(started))
}

/// Whether a process was stopped by a signal, as by Ctrl-Z, and does nothing until SIGCONT.
pub fn suspended(pid: u32) -> bool {
    stat::of(pid).is_some_and(|process| process.suspended())
}

/// Sends a signal to a process. `meant` is asked once the process is opened, so that no other one that has got its id
/// meanwhile is hit; `false`: it said no, or there is no such process.
///
/// # Errors
/// The process belongs to another user.
pub fn send(pid: u32, signal: Signal, meant: impl FnOnce() -> bool) -> io::Result<bool> {
    let opened = pidfd(pid as libc::pid_t);
    if !meant() {
        return Ok(false);
    }
    if opened.is_some_and(|fd| send_to(&fd, signal)) {
        return Ok(true);
    }
    // A kernel without these calls (before 5.3), no descriptor left, or not allowed: this says which.
    match nix::sys::signal::kill(Pid::from_raw(pid as libc::pid_t), signal) {
        Ok(()) => Ok(true),
        Err(nix::errno::Errno::ESRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_process_that_is_meant_gets_the_signal() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let pid = child.id();
        assert!(age(pid).unwrap() < age(1).unwrap());
        assert!(!send(pid, Signal::SIGKILL, || false).unwrap());
        assert!(child.try_wait().unwrap().is_none());
        assert!(!suspended(pid));
        assert!(send(pid, Signal::SIGSTOP, || true).unwrap());
        while !suspended(pid) {
            std::thread::yield_now();
        }
        assert!(send(pid, Signal::SIGKILL, || true).unwrap());
        child.wait().unwrap();
        assert_eq!(age(pid), None);
        assert!(!send(pid, Signal::SIGKILL, || true).unwrap());
    }
}
