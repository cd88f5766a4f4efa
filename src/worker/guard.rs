//! The last line of defence: the panic hook, and the ways out of the process that run no
//! destructor. Destructors of tensors in a lost CUDA context throw, and that aborts.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::RefCell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{getpgrp, getpid};

use super::link::Link;
use crate::fault::cuda;
use crate::protocol::{AttemptId, ErrorReport, FromWorker, Phase};

/// Exit status of a worker whose CUDA context is lost (`EX_SOFTWARE`).
pub const CONTEXT_LOST: i32 = 70;

/// How long a worker that was told to leave may take after the supervisor hung up.
const LEAVE: Duration = Duration::from_secs(1);

/// Where the worker is, for the hook.
static PLACE: Mutex<(Option<AttemptId>, Phase)> = Mutex::new((None, Phase::Opening));

thread_local! {
    /// What the hook noted of the last panic of this thread.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes where the worker is.
pub fn enter(attempt: Option<AttemptId>, phase: Phase) {
    *PLACE.lock().unwrap_or_else(PoisonError::into_inner) = (attempt, phase);
}

/// Installs the panic hook.
pub fn install(link: Arc<Link>) {
    std::panic::set_hook(Box::new(move |info| hook(&link, info)));
}

fn hook(link: &Link, info: &PanicHookInfo<'_>) {
    let text = describe(info);
    let _ = writeln!(std::io::stderr(), "{text}");
    if cuda::sticky(&text) {
        let (attempt, phase) = *PLACE.lock().unwrap_or_else(PoisonError::into_inner);
        let error = ErrorReport {
            phase,
            panic: true,
            text,
            healthy: None,
        };
        let _ = link.send(&FromWorker::Dying { attempt, error });
        leave(CONTEXT_LOST);
    }
    // Fails only while this thread is being torn down; nobody would read it then.
    let _ = PANIC.try_with(|slot| slot.replace(Some(text)));
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let mut text = format!("panicked: {}", message(info.payload()));
    if let Some(location) = info.location() {
        text += &format!("\nat {location}");
    }
    if host_memory(&text) {
        // Symbols are read into memory that there is not; the failure within would deadlock.
        return text;
    }
    // Captured only where RUST_BACKTRACE asks for it.
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        text += &format!("\n{backtrace}");
    }
    text
}

/// Whether the text is of libtorch's allocator for the CPU.
fn host_memory(text: &str) -> bool {
    text.contains("DefaultCPUAllocator: can't allocate memory")
}

fn message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("(no message)")
}

/// An error or a panic, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caught {
    /// Whether it was a panic.
    pub panic: bool,
    /// The whole text: causes, or message and place.
    pub text: String,
}

/// Runs `work`; a panic becomes an error like any other.
///
/// # Errors
/// Those of `work`, and its panics.
pub fn catch<T>(work: impl FnOnce() -> anyhow::Result<T>) -> Result<T, Caught> {
    PANIC.with(|slot| slot.replace(None));
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Caught {
            panic: false,
            text: format!("{error:#}"),
        }),
        Err(payload) => Err(Caught {
            panic: true,
            text: PANIC
                .with(|slot| slot.replace(None))
                .unwrap_or_else(|| format!("panicked: {}", message(&*payload))),
        }),
    }
}

/// Ends the process at once; no destructor and no exit handler runs.
pub fn leave(status: i32) -> ! {
    // SAFETY: `_exit` has no preconditions and does not return.
    unsafe { libc::_exit(status) }
}

/// The supervisor is gone: ends this process and what it started. A worker that was told to leave
/// may finish by itself first.
pub fn hung_up(told_to_leave: bool) {
    if told_to_leave {
        std::thread::sleep(LEAVE);
    }
    // A process that leads no group of its own would kill whoever started it.
    if getpgrp() == getpid() {
        let _ = killpg(getpgrp(), Signal::SIGKILL);
    }
    leave(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn errors_carry_their_causes() {
        let caught = catch::<()>(|| Err(anyhow::anyhow!("inner")).context("outer")).unwrap_err();
        assert_eq!(caught.text, "outer: inner");
        assert!(!caught.panic);
    }

    #[test]
    fn panics_become_errors() {
        let caught = catch::<()>(|| panic!("shape {}", 3)).unwrap_err();
        assert!(caught.panic && caught.text.contains("shape 3"));
        assert_eq!(catch(|| Ok(1)), Ok(1));
    }
}
