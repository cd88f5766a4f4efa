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
/// once, for the case that a worker cannot be killed. SIGQUIT puts back what runs, however often it comes.
/// After SIGHUP (the terminal is gone) the run goes on.
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
                if signal != SIGHUP {
                    REQUESTED.store(true, Ordering::Relaxed);
                }
                let Some(event) = asked(signal, &mut requests) else {
                    std::process::exit(i32::from(Exit::Stopped.code()));
                };
                if events.send(event).is_err() {
                    return;
                }
            }
        })?;
    Ok(())
}

/// What a signal asks for, after so many steps of stopping; `None`: that the process ends at once.
fn asked(signal: i32, requests: &mut u32) -> Option<Event> {
    match signal {
        SIGHUP => Some(Event::TerminalClosed),
        SIGQUIT => {
            *requests = (*requests).max(STEPS - 1);
            Some(Event::StopRequested { now: true })
        }
        _ => {
            *requests += 1;
            (*requests <= STEPS).then_some(Event::StopRequested { now: false })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_one_request_and_only_those_of_the_terminal_add_up_to_the_end_of_the_process() {
        let all = |signals: &[i32]| {
            let mut requests = 0;
            let asked = signals.iter().map(|signal| asked(*signal, &mut requests));
            asked.collect::<Vec<_>>()
        };
        let step = Some(Event::StopRequested { now: false });
        let now = Some(Event::StopRequested { now: true });
        assert_eq!(
            all(&[SIGINT, SIGTERM, SIGINT, SIGINT]),
            [step.clone(), step.clone(), step.clone(), None]
        );
        assert_eq!(
            all(&[SIGQUIT; 5]),
            [const { Some(Event::StopRequested { now: true }) }; 5]
        );
        assert_eq!(all(&[SIGQUIT, SIGINT, SIGINT]), [now, step, None]);
        assert_eq!(all(&[SIGHUP]), [Some(Event::TerminalClosed)]);
    }
}
