//! The view on the terminal: keys and news in, screens out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::getppid;
use signal_hook::consts::SIGHUP;
use view::{Effect, Input, Looks, State, draw};

use super::reader::Reader;
use super::screen::{Said, Screen};
use crate::replay::stopped_by_signals;
use messages::exit::{Exit, Failure};

/// How long a screen may lack what was read meanwhile. Keys are answered at once.
const PATIENCE: Duration = Duration::from_millis(100);

/// Shows what is read until a key or a signal ends it. `of_run`: this process's parent is the run that is shown, which
/// keys may ask to stop, and which stops and goes on together with the view.
pub(super) fn until_left(reader: &Reader, looks: Looks, of_run: bool) -> Result<Exit, Failure> {
    let ended = stopped_by_signals()?;
    // There is no terminal any more to be given back.
    let gone = Arc::new(AtomicBool::new(true));
    signal_hook::flag::register_conditional_shutdown(SIGHUP, 0, gone)
        .map_err(|e| Failure::internal(format!("no signal handler can be set: {e}")))?;
    let mut screen = Screen::take()?;
    let mut state = State::new(messages::clock::now(), of_run);
    let run = getppid();
    let over = || ended.load(Ordering::Relaxed) || of_run && getppid() != run;
    let signal = |signal: Signal| {
        if of_run && getppid() == run {
            // It may have ended just now.
            let _ = kill(run, signal);
        }
    };
    match turns(reader, &mut screen, &mut state, looks, over, signal) {
        Ok(()) if over() => Ok(Exit::Stopped),
        // A terminal that is gone ends the view, and nothing else.
        Ok(()) | Err(_) => Ok(Exit::Done),
    }
}

/// One turn after the other until the view is left or it is over. `signal` signals the run on whose terminal it is.
///
/// # Errors
/// The terminal is gone.
fn turns(
    reader: &Reader,
    screen: &mut Screen,
    state: &mut State,
    looks: Looks,
    over: impl Fn() -> bool,
    signal: impl Fn(Signal),
) -> io::Result<()> {
    let mut wanted = state.wanted();
    let mut drawn: Option<Timestamp> = None;
    let mut fresh = false;
    while !over() {
        for input in reader.news() {
            state.update(input);
            fresh = true;
        }
        let now = messages::clock::now();
        // Ages change once a second.
        if fresh || drawn.is_none_or(|then| then.as_second() != now.as_second()) {
            state.update(Input::Time(now));
            screen
                .terminal
                .draw(|frame| draw(state, looks, frame.buffer_mut()))?;
            drawn = Some(now);
            fresh = false;
        }
        match screen.listen(PATIENCE)? {
            Said::Nothing => continue,
            Said::Changed => {}
            Said::Key(key) => match state.update(Input::Key(key)) {
                Effect::Nothing => {}
                Effect::Leave => return Ok(()),
                Effect::Stop => signal(Signal::SIGINT),
                Effect::Suspend => {
                    signal(Signal::SIGTSTP);
                    screen.suspend()?;
                }
            },
        }
        fresh = true;
        if state.wanted() != wanted {
            wanted = state.wanted();
            reader.want(wanted);
        }
    }
    Ok(())
}
