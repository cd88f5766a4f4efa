//! Signals to the supervisor.

use std::io;
use std::sync::mpsc::Sender;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

use super::Event;
use crate::exit::Exit;

/// Turns SIGINT and SIGTERM into events. The third one ends the process at once, for the case that
/// a worker cannot be killed. SIGHUP (the terminal is gone) and SIGXFSZ (a file-size limit; the
/// write then fails with an error that can be told) are ignored.
///
/// # Errors
/// The handlers could not be installed.
pub fn listen(events: Sender<Event>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGXFSZ])?;
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let mut requests = 0;
            for signal in signals.forever() {
                if signal == SIGHUP || signal == SIGXFSZ {
                    continue;
                }
                requests += 1;
                if requests > 2 {
                    std::process::exit(i32::from(Exit::Stopped.code()));
                }
                if events.send(Event::StopRequested).is_err() {
                    return;
                }
            }
        })?;
    Ok(())
}
