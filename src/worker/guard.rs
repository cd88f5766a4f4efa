//! The last line of defence: the panic hook, and the ways out of the process that run no
//! destructor. Destructors of tensors in a lost CUDA context throw, and that aborts.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::RefCell;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{getpgrp, getpid, getppid};

use super::link::Link;
use fault::{ErrorReport, Phase};
use fault::{ProgramEnd, cuda};
use process::orphans::{self, ProcessMark};
use protocol::FromWorker;
use task::ProgramFailed;

/// Exit status of a worker whose CUDA context is lost (`EX_SOFTWARE`).
pub const CONTEXT_LOST: i32 = 70;

/// How long a worker that was told to leave may take after the supervisor hung up.
const LEAVE: Duration = Duration::from_secs(1);

/// How long what this process has started is given to end, once the supervisor is gone.
const ORPHANS: Duration = Duration::from_secs(5);

/// After this many seconds without the supervisor the kernel ends the process: more than leaving may
/// take, and twice the time for orphans.
const LAST: u32 = 15;

/// A check of the device's health that takes longer than this has failed.
const HEALTH: Duration = Duration::from_secs(30);

/// How often the watchdog looks.
const WATCH: Duration = Duration::from_secs(1);

/// When the check that is going on must be done, in milliseconds after [`START`]; 0: none is.
static DUE: AtomicU64 = AtomicU64::new(0);

/// An arbitrary instant.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Where the hook and the watchdog report fatal errors to.
static LINK: OnceLock<Arc<Link>> = OnceLock::new();

/// What the worker is at, for the hook.
static PHASE: Mutex<Phase> = Mutex::new(Phase::Opening);

thread_local! {
    /// What the hook noted of the last panic of this thread.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes what the worker is at.
pub fn enter(phase: Phase) {
    *PHASE.lock().unwrap_or_else(PoisonError::into_inner) = phase;
}

/// Installs what watches over the process: the panic hook, the handler of C++'s `std::terminate`,
/// and the watchdog of health checks.
///
/// # Errors
/// The watchdog's thread cannot be started.
pub fn install(link: Arc<Link>) -> io::Result<()> {
    let _ = LINK.set(link);
    outlive_nobody()?;
    std::panic::set_hook(Box::new(hook));
    std::thread::Builder::new()
        .name("watchdog".into())
        .spawn(|| {
            loop {
                std::thread::sleep(WATCH);
                let due = DUE.load(Ordering::Relaxed);
                if due != 0 && START.elapsed() > Duration::from_millis(due) {
                    let limit = humantime::format_duration(HEALTH);
                    report_fatal(
                        format!("the health check gave no answer within {limit}"),
                        false,
                    );
                }
            }
        })?;
    Ok(())
}

/// Runs a check of the device's health. The process leaves if it hangs.
pub fn checked<T>(check: impl FnOnce() -> T) -> T {
    let due = (START.elapsed() + HEALTH).as_millis() as u64;
    let _over = Watched::until(&DUE, due.max(1));
    check()
}

/// A check that is going on. It is over when this is dropped, which a panic does, too: the worker
/// goes on after one, and the watchdog would end it later for a check that nobody waits for.
struct Watched(&'static AtomicU64);

impl Watched {
    fn until(due: &'static AtomicU64, time: u64) -> Watched {
        due.store(time, Ordering::Relaxed);
        Watched(due)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Tells the supervisor why the process leaves, and leaves.
fn report_fatal(text: String, panic: bool) -> ! {
    let _ = writeln!(io::stderr(), "{text}");
    let phase = *PHASE.lock().unwrap_or_else(PoisonError::into_inner);
    let error = ErrorReport {
        panic,
        healthy: Some(false),
        ..ErrorReport::new(phase, text)
    };
    if let Some(link) = LINK.get() {
        let _ = link.send(&FromWorker::Fatal(error));
    }
    print_stack(&Backtrace::capture());
    leave(CONTEXT_LOST)
}

/// Prints a stack to the attempt's log, where RUST_BACKTRACE asks for stacks. It is no part of the
/// error's text: names of functions would be taken for what they do not say.
fn print_stack(stack: &Backtrace) {
    if stack.status() == BacktraceStatus::Captured {
        let _ = writeln!(io::stderr(), "stack:\n{stack}");
    }
}

fn hook(info: &PanicHookInfo<'_>) {
    let text = describe(info);
    if cuda::sticky(&text) {
        report_fatal(text, true);
    }
    let _ = writeln!(io::stderr(), "{text}");
    // Without memory there is none for symbols either, and the failure within would deadlock.
    if !host_memory(&text) {
        print_stack(&Backtrace::capture());
    }
    // Fails only while this thread is being torn down; nobody would read it then.
    let _ = PANIC.try_with(|slot| slot.replace(Some(text)));
}

/// C++ gives up: an exception left a destructor or a thread. With a sticky CUDA error the process
/// leaves like after a panic; otherwise it aborts, as it would have without this handler.
pub fn terminated(text: &str) {
    let text = format!("std::terminate: {text}");
    if cuda::sticky(&text) {
        report_fatal(text, false);
    }
    let _ = writeln!(io::stderr(), "{text}");
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let mut text = format!("panicked: {}", message(info.payload()));
    if let Some(location) = info.location() {
        text += &format!("\nat {location}");
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
pub struct CapturedError {
    /// Whether it was a panic.
    pub panic: bool,
    /// The whole text: causes, or message and place.
    pub text: String,
    /// The end of the program that the attempt consisted of.
    pub program: Option<ProgramEnd>,
}

/// Runs `work`; a panic becomes an error like any other.
///
/// # Errors
/// Those of `work`, and its panics.
pub fn catch<T>(work: impl FnOnce() -> anyhow::Result<T>) -> Result<T, CapturedError> {
    PANIC.with(|slot| slot.replace(None));
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            let text = format!("{error:#}");
            // Of a program that failed, our own stack says nothing.
            let program = error.downcast_ref().map(|f: &ProgramFailed| f.end.clone());
            if !host_memory(&text) && program.is_none() {
                print_stack(error.backtrace());
            }
            Err(CapturedError {
                panic: false,
                text,
                program,
            })
        }
        Err(payload) => Err(CapturedError {
            panic: true,
            text: PANIC
                .with(|slot| slot.replace(None))
                .unwrap_or_else(|| format!("panicked: {}", message(&*payload))),
            program: None,
        }),
    }
}

/// Ends the process at once; no destructor and no exit handler runs. Whoever notices first that the
/// supervisor is gone, by a message that cannot be sent or by the end of the socket, comes here.
pub fn leave(status: i32) -> ! {
    if LINK.get().is_some_and(|link| link.is_closed()) {
        end_with_all();
    }
    exit(status)
}

/// The supervisor is gone: ends this process and what it started. A worker that was told to leave
/// may finish by itself first.
pub fn hung_up(told_to_leave: bool) {
    if told_to_leave {
        std::thread::sleep(LEAVE);
    }
    end_with_all();
}

/// Ends what this process has started, and then this process: supervisor and guardian may have been
/// killed together, and nobody else knows what is whose.
fn end_with_all() -> ! {
    static ENDING: Mutex<()> = Mutex::new(());
    // Who comes second waits here for the end.
    let _ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(mark) = ProcessMark::of_this_worker() {
        orphans::end_or_give_up(&mark, ORPHANS);
    }
    // A process that leads no group of its own would kill whoever started it.
    if getpgrp() == getpid() {
        let _ = killpg(getpgrp(), Signal::SIGKILL);
    }
    exit(1)
}

fn exit(status: i32) -> ! {
    // SAFETY: `_exit` has no preconditions and does not return.
    unsafe { libc::_exit(status) }
}

/// Has the kernel end this process some time after its parent has ended, should it not be able to do
/// that by itself: its memory may be broken, or a lock held for ever. The supervisor has asked for
/// SIGCONT at its end, because that wakes a process that is stopped, too.
fn outlive_nobody() -> io::Result<()> {
    let parent = getppid();
    let woken = move || {
        if getppid() != parent {
            // SAFETY: `alarm` takes a number. Nobody else uses it here; SIGALRM ends the process.
            unsafe { libc::alarm(LAST) };
        }
    };
    // SAFETY: `getppid` and `alarm` are async-signal-safe.
    unsafe { signal_hook::low_level::register(signal_hook::consts::SIGCONT, woken) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn errors_carry_their_causes() {
        let captured = catch::<()>(|| Err(anyhow::anyhow!("inner")).context("outer")).unwrap_err();
        assert_eq!(captured.text, "outer: inner");
        assert!(!captured.panic);
    }

    #[test]
    fn the_watchdog_waits_for_no_check_that_panicked() {
        static OWN: AtomicU64 = AtomicU64::new(0);
        let captured = catch::<()>(|| {
            let _over = Watched::until(&OWN, 7);
            assert_eq!(OWN.load(Ordering::Relaxed), 7);
            panic!("the device is gone")
        });
        assert!(captured.unwrap_err().text.contains("the device is gone"));
        assert_eq!(OWN.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn panics_become_errors() {
        let captured = catch::<()>(|| panic!("shape {}", 3)).unwrap_err();
        assert!(captured.panic && captured.text.contains("shape 3"));
        assert_eq!(catch(|| Ok(1)), Ok(1));
    }
}
