//! Signals to the supervisor.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use super::Event;
use super::event_channel::EventSender;
use messages::exit::Exit;

/// A write beyond a file-size limit fails with an error that can be told, instead of ending the
/// process. Child processes are not affected.
///
/// # Errors
/// The handler could not be installed.
pub fn outlive_file_size_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    Ok(())
}

/// Whether SIGINT or SIGTERM has come.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Whether the run was asked to stop; for waits before the core is there to be told.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Trials may end, they are put back, their processes are killed: one signal for each.
const STEPS: u32 = 3;

/// Turns SIGINT and SIGTERM into events. One more than there are steps of stopping ends the process at
/// once, for the case that a worker cannot be killed. SIGQUIT does what the second one does, however
/// often it comes. After SIGHUP (the terminal is gone) the run goes on.
///
/// # Errors
/// The handlers could not be installed.
pub fn listen(events: EventSender) -> io::Result<()> {
    outlive_file_size_limit()?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGQUIT, SIGHUP])?;
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let mut requests = 0;
            for signal in signals.forever() {
                if signal == SIGHUP {
                    if events.send(Event::TerminalClosed).is_err() {
                        return;
                    }
                    continue;
                }
                REQUESTED.store(true, Ordering::Relaxed);
                let upto = if signal == SIGQUIT { 2 } else { requests + 1 };
                if upto > STEPS {
                    std::process::exit(i32::from(Exit::Stopped.code()));
                }
                while requests < upto {
                    requests += 1;
                    if events.send(Event::StopRequested).is_err() {
                        return;
                    }
                }
            }
        })?;
    Ok(())
}
