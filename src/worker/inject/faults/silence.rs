//! Processes that live and do nothing of use.

use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal, raise, signal};

/// A busy loop.
pub fn spin() {
    loop {
        std::hint::spin_loop();
    }
}

/// A busy loop in a process that only SIGKILL can end.
pub fn deaf() {
    for ignored in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        // SAFETY: ignoring a signal installs no handler.
        let _ = unsafe { signal(ignored, SigHandler::SigIgn) };
    }
    spin();
}

/// A wait without end.
pub fn sleep() {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// Stops, and stops again as often as it is woken.
pub fn stop() {
    loop {
        let _ = raise(Signal::SIGSTOP);
    }
}
