//! The view of a run on the run's own terminal: `tune watch` in a process of its own, so that neither a terminal that is
//! held nor an error of the view ever keeps the run waiting. Lines wait until it is left.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::can_show;
use super::screen::{Modes, size};
use crate::RunArgs;
use report::{Event, KeptBack, Sink};
use store::Place;

/// A run that ends within this time, as one whose goal is reached, is told in lines alone.
const SOON: Duration = Duration::from_millis(600);

/// How often it is looked whether the view was left.
const LOOK: Duration = Duration::from_millis(200);

/// A view that has not ended so long after it was asked to is killed: its terminal may be held.
const PATIENCE: Duration = Duration::from_secs(2);

/// The least columns and rows of a terminal on which a run opens the view.
const LEAST: (u16, u16) = (60, 15);

/// Whether a run opens its view: on a terminal, unless lines are asked for.
pub(crate) fn opens(args: &RunArgs) -> bool {
    let lines = args.plain || args.common.json || args.common.quiet || args.common.verbose > 0;
    let fits = || size().is_some_and(|(c, r)| c >= LEAST.0 && r >= LEAST.1);
    !lines && can_show() && io::stderr().is_terminal() && fits()
}

/// Shows a run's events as another sink does, and opens the view once the run has begun.
pub(crate) struct Beside {
    shown: Box<dyn Sink>,
    words: Vec<OsString>,
    view: Option<View>,
}

impl Beside {
    /// `storage` and `study` are the run's.
    pub(crate) fn new(shown: Box<dyn Sink>, storage: &Place, study: &str) -> Beside {
        let words = ["watch", study, "--of-run", "--storage"].map(OsString::from);
        let mut words = words.to_vec();
        words.push(storage.word().into());
        Beside {
            shown,
            words,
            view: None,
        }
    }
}

impl Sink for Beside {
    fn handle(&mut self, event: &Event, time: Timestamp) {
        self.shown.handle(event, time);
        if let Event::RunStarted(_) = event {
            self.view = View::open(self.words.clone());
        }
        if let Event::RunFinished(_) = event {
            self.view = None;
        }
    }
}

/// A view that is open, or was left. Dropping it closes it.
struct View {
    over: Option<Sender<()>>,
    ended: Receiver<()>,
}

impl View {
    /// `None`: there is no thread to be had; lines do.
    fn open(words: Vec<OsString>) -> Option<View> {
        let ((over, run_ended), (tell, ended)) = (mpsc::channel(), mpsc::channel());
        thread::Builder::new()
            .name("view".into())
            .spawn(move || {
                if let Err(error) = show(&words, &run_ended) {
                    tracing::warn!("the view cannot be opened: {error}");
                }
                let _ = tell.send(());
            })
            .ok()?;
        let over = Some(over);
        Some(View { over, ended })
    }
}

impl Drop for View {
    fn drop(&mut self) {
        drop(self.over.take());
        // It ends in time by itself; should it not, the run does.
        let _ = self.ended.recv_timeout(2 * PATIENCE);
    }
}

/// Shows the view until it is left or the run has ended.
fn show(words: &[OsString], run_ended: &Receiver<()>) -> io::Result<()> {
    if run_ended.recv_timeout(SOON) != Err(RecvTimeoutError::Timeout) {
        return Ok(());
    }
    let modes = Modes::now();
    let kept_back = KeptBack::new();
    let mut view = Command::new(std::env::current_exe()?).args(words).spawn()?;
    let status = loop {
        if let Some(status) = view.try_wait()? {
            break status;
        }
        if run_ended.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
            close(&mut view)?;
            break view.wait()?;
        }
    };
    // One that was killed has left the terminal as it was.
    if status.code().is_none() {
        modes.restore();
    }
    drop(kept_back);
    Ok(())
}

/// Asks a view to end; kills one that does not.
fn close(view: &mut Child) -> io::Result<()> {
    let pid = Pid::from_raw(view.id() as i32);
    // It has not been waited for: the number is still its own.
    let _ = kill(pid, Signal::SIGTERM);
    let _ = kill(pid, Signal::SIGCONT);
    let asked = Instant::now();
    while view.try_wait()?.is_none() {
        if asked.elapsed() > PATIENCE {
            return view.kill();
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
