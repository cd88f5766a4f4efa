//! Signals of a crash that somebody sent: Rust's own handler takes them for faults.
//!
//! That handler is there to name a stack that has overflowed. Where it has not, it restores the default
//! action and returns, expecting the faulting instruction to fault again. A signal that was sent does not
//! come again: the process would go on as if nothing had happened, and the next one would kill it.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

use libc::{c_int, c_void, sigaction, siginfo_t};

/// The signals that Rust's runtime handles.
const HANDLED: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// What handled each of them before.
static BEFORE: OnceLock<[sigaction; 2]> = OnceLock::new();

/// Has the process die of each signal of a crash, whoever sent it. A fault of the process's own goes to
/// the handler that was there before.
///
/// # Errors
/// The system refuses a handler.
pub fn die_of_signals() -> io::Result<()> {
    let mut before = [action(); 2];
    for (signal, before) in HANDLED.iter().zip(&mut before) {
        // SAFETY: a null pointer asks for the present action alone, which is written to `before`.
        answer(unsafe { libc::sigaction(*signal, ptr::null(), before) })?;
    }
    if BEFORE.set(before).is_err() {
        return Ok(());
    }
    let mut ours = action();
    ours.sa_sigaction = handle as *const () as usize;
    // On the alternative stack, where there is one: the own one may have overflowed.
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    for signal in HANDLED {
        // SAFETY: `ours` is a whole action, whose handler makes async-signal-safe calls only.
        answer(unsafe { libc::sigaction(signal, &ours, ptr::null_mut()) })?;
    }
    Ok(())
}

/// The default action.
fn action() -> sigaction {
    // SAFETY: all zeros are the default action with an empty mask.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn answer(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs in the signal's context: reads an atomic, and calls `sigaction` and `raise`.
extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a whole `siginfo_t` to a handler with SA_SIGINFO.
    let sent = unsafe { (*info).si_code } <= 0;
    let at = HANDLED.iter().position(|s| *s == signal);
    let before = at.and_then(|at| BEFORE.get()?.get(at));
    let before = before.filter(|b| !sent && b.sa_flags & libc::SA_SIGINFO != 0);
    let Some(before) = before else {
        // SAFETY: the default action is a whole one. The signal is blocked while this runs, and kills the
        // process once it returns; a fault comes again by itself.
        unsafe {
            libc::sigaction(signal, &action(), ptr::null_mut());
            libc::raise(signal);
        }
        return;
    };
    // SAFETY: an action with SA_SIGINFO holds a function of this type.
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
        unsafe { std::mem::transmute(before.sa_sigaction) };
    handler(signal, info, context);
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    const CHILD: &str = "TUNE_TEST_CRASH";

    /// Runs this test binary again, with one test that does `what`; gives the signal of its end and what
    /// it printed.
    fn child(what: &str) -> (Option<i32>, String) {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["crash::tests::child_process", "--exact", "--nocapture"])
            .env(CHILD, what)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.signal(), printed)
    }

    /// Does nothing but in a child process.
    #[test]
    fn child_process() {
        let Ok(what) = std::env::var(CHILD) else {
            return;
        };
        die_of_signals().unwrap();
        let send = |signal| {
            // SAFETY: both take numbers alone.
            unsafe { libc::kill(libc::getpid(), signal) };
            std::thread::sleep(Duration::from_secs(20));
        };
        match what.as_str() {
            "sent" => send(libc::SIGSEGV),
            "bus" => send(libc::SIGBUS),
            // SAFETY: it is not: that is what the test wants.
            "fault" => unsafe { ptr::null_mut::<u8>().write_volatile(1) },
            _ => drop(overflow(u64::MAX)),
        }
        std::process::exit(0);
    }

    #[expect(unconditional_recursion, reason = "that is what the test wants")]
    #[allow(clippy::only_used_in_recursion)]
    fn overflow(depth: u64) -> [u64; 64] {
        let mut here = [depth; 64];
        std::hint::black_box(&mut here);
        let below = overflow(depth - 1);
        here[0] ^= std::hint::black_box(below)[1];
        here
    }

    #[test]
    fn one_signal_from_outside_ends_the_process() {
        assert_eq!(child("sent").0, Some(libc::SIGSEGV));
        assert_eq!(child("bus").0, Some(libc::SIGBUS));
    }

    #[test]
    fn a_fault_of_its_own_does_too_and_a_stack_that_overflowed_is_still_named() {
        assert_eq!(child("fault").0, Some(libc::SIGSEGV));
        let (signal, printed) = child("overflow");
        assert_eq!(signal, Some(libc::SIGABRT), "{printed}");
        assert!(printed.contains("has overflowed its stack"), "{printed}");
    }
}
