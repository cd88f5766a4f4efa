//! Lines on their way to a terminal or a pipe, written by a thread of their own: a terminal that is
//! held (Ctrl-S) or a pipe whose reader does not read keeps nobody else waiting, and takes no more
//! memory than the queue may have.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;

use super::output::Output;
use messages::printable;

/// So many bytes may wait to be written.
const MOST: usize = 32 << 20;

/// Lines that tell of what is under way are left out once so many bytes wait.
const ROUTINE: usize = 8 << 20;

/// A reader that has read nothing for this long reads nothing more.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a line is worth where not all of them can be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    /// It tells of what is under way, and a later line says how that ended.
    Routine,
    /// Results, faults, warnings: left out last, the oldest first.
    Lasting,
}

/// How far a progress bar is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub length: u64,
    pub position: u64,
    pub message: String,
    /// The bar is to be cleared.
    pub over: bool,
}

/// What is to be written next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Lines(String),
    /// So many lines were left out since this was said last.
    LeftOut(u64),
    Bar(Standing),
}

/// What waits to be written. Pure.
#[derive(Debug, Default)]
struct Queue {
    /// The lines of an event each.
    lines: VecDeque<String>,
    bytes: usize,
    left_out: u64,
    /// Of the states of the bar only the latest is worth showing.
    bar: Option<Standing>,
}

impl Queue {
    fn push(&mut self, lines: String, worth: Worth) {
        if worth == Worth::Routine && self.bytes + size(&lines) > ROUTINE {
            self.left_out += count(&lines);
            return;
        }
        self.bytes += size(&lines);
        self.lines.push_back(lines);
        while self.bytes > MOST
            && let Some(oldest) = self.lines.pop_front()
        {
            self.bytes -= size(&oldest);
            self.left_out += count(&oldest);
        }
    }

    fn take(&mut self) -> Option<Next> {
        // A bar that is drawn once more for each line after the end would only flicker.
        if let Some(bar) = self.bar.take_if(|bar| bar.over) {
            return Some(Next::Bar(bar));
        }
        if self.left_out > 0 {
            return Some(Next::LeftOut(std::mem::take(&mut self.left_out)));
        }
        if let Some(lines) = self.lines.pop_front() {
            self.bytes -= size(&lines);
            return Some(Next::Lines(lines));
        }
        self.bar.take().map(Next::Bar)
    }
}

/// What lines take while they wait.
fn size(lines: &str) -> usize {
    lines.len() + size_of::<String>()
}

fn count(lines: &str) -> u64 {
    1 + lines.matches('\n').count() as u64
}

/// The queue, and what both sides tell each other.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: Queue,
    /// Nothing more will come.
    closed: bool,
    /// Everything was written.
    done: bool,
    /// What was taken and written so far.
    written: u64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits for what is to be written next; `None`: there is nothing left.
    fn next(&self) -> Option<Next> {
        let mut state = self.lock();
        loop {
            if let Some(next) = state.queue.take() {
                return Some(next);
            }
            if state.closed {
                return None;
            }
            state = (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Takes lines and never waits. Dropping it waits until all are written, as long as somebody reads.
pub(super) struct Outlet {
    shared: Arc<Shared>,
}

impl Outlet {
    /// Starts to write to `output`, and to draw `bar` where there is one. `left_out` makes the line that
    /// says how many lines were left out.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(super) fn new(
        mut output: Output,
        bar: Option<ProgressBar>,
        left_out: impl Fn(u64) -> String + Send + 'static,
    ) -> io::Result<Outlet> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        if let Some(bar) = &bar {
            *drawn() = Some(bar.clone());
        }
        thread::Builder::new()
            .name("report".into())
            .spawn(move || {
                while let Some(next) = theirs.next() {
                    KeptBack::wait();
                    let around = bar.clone().or_else(|| drawn().clone());
                    match next {
                        Next::Lines(lines) => write(&mut output, around.as_ref(), &lines),
                        Next::LeftOut(n) => {
                            write(&mut output, around.as_ref(), &printable(&left_out(n)));
                        }
                        Next::Bar(standing) => draw(bar.as_ref(), standing),
                    }
                    theirs.change(|state| state.written += 1);
                }
                if let Some(bar) = &bar {
                    // A run that ends by an error leaves no half-drawn bar behind.
                    bar.finish_and_clear();
                }
                theirs.change(|state| state.done = true);
            })?;
        Ok(Outlet { shared })
    }

    /// Takes the lines of an event. Whatever a text is, it stays one line.
    pub(super) fn lines(&self, lines: &[String], worth: Worth) {
        if lines.is_empty() {
            return;
        }
        let lines: Vec<_> = lines.iter().map(|line| printable(line)).collect();
        let lines = lines.join("\n");
        self.shared.change(|state| state.queue.push(lines, worth));
    }

    /// Takes the bar's state, in the place of one that was not drawn yet.
    pub(super) fn bar(&self, standing: Standing) {
        self.shared.change(|state| state.queue.bar = Some(standing));
    }

    /// Waits until all is written, or nothing was for too long.
    pub(super) fn flush(&self) {
        let mut state = self.shared.lock();
        state.closed = true;
        self.shared.changed.notify_all();
        while !state.done {
            let before = state.written;
            let waited = self
                .shared
                .changed
                .wait_timeout_while(state, PATIENCE, |s| !s.done && s.written == before);
            let (now, over) = waited.unwrap_or_else(PoisonError::into_inner);
            if over.timed_out() {
                return;
            }
            state = now;
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.flush();
    }
}

/// As long as one lives, no line is written: something else has the terminal. What is told meanwhile waits, as it does for a
/// reader that does not read.
pub struct KeptBack(());

/// How many there are.
static KEPT_BACK: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

impl KeptBack {
    /// From now on.
    #[allow(clippy::new_without_default)] // It is made for what it does, not for what it holds.
    pub fn new() -> KeptBack {
        KeptBack::change(|n| n + 1);
        KeptBack(())
    }

    fn change(change: impl Fn(usize) -> usize) {
        let mut many = KEPT_BACK.0.lock().unwrap_or_else(PoisonError::into_inner);
        *many = change(*many);
        KEPT_BACK.1.notify_all();
    }

    /// Waits until there is none.
    fn wait() {
        let many = KEPT_BACK.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(KEPT_BACK.1.wait_while(many, |many| *many > 0));
    }
}

impl Drop for KeptBack {
    fn drop(&mut self) {
        KeptBack::change(|n| n - 1);
    }
}

/// The bar that this process draws: log records, which have an outlet of their own, are not to land in it.
static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn drawn() -> MutexGuard<'static, Option<ProgressBar>> {
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(output: &mut Output, bar: Option<&ProgressBar>, lines: &str) {
    // One that was not drawn yet is not drawn by a line either.
    match bar.filter(|bar| bar.length() > Some(0)) {
        Some(bar) => bar.suspend(|| output.lines(lines)),
        None => output.lines(lines),
    }
}

fn draw(bar: Option<&ProgressBar>, standing: Standing) {
    let Some(bar) = bar else {
        return;
    };
    bar.set_length(standing.length);
    bar.set_position(standing.position);
    if standing.over {
        bar.finish_and_clear();
    } else {
        bar.set_message(printable(&standing.message).into_owned());
    }
}

/// Log records on their way to a stream: one line each.
pub struct Records(Outlet);

impl Records {
    /// To standard error.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn stderr() -> io::Result<Records> {
        let output = Output::to(Box::new(io::stderr()));
        let left_out = |n| format!("{n} log lines were left out: nobody read them");
        Ok(Records(Outlet::new(output, None, left_out)?))
    }

    /// Waits until all is written, as long as somebody reads; nothing is written afterwards.
    pub fn flush(&self) {
        self.0.flush();
    }
}

impl Write for &Records {
    /// Takes a whole record.
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(record);
        self.0.lines(&[line.trim_end().to_owned()], Worth::Lasting);
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "outlet_tests.rs"]
mod tests;
