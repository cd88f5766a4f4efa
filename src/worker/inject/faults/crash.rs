//! Deaths: by a signal, by an exit, by a panic.

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::ptr;

use nix::sys::signal::{Signal, raise};

/// SIGKILL to itself; to the supervisor it looks like one from outside.
pub fn kill() {
    let _ = raise(Signal::SIGKILL);
}

/// SIGTERM from a process that this one starts; waits for it.
pub fn term() {
    let _ = Command::new("/bin/sh")
        .args(["-c", "kill -TERM $PPID"])
        .stdin(Stdio::null())
        .status();
    // The signal may arrive a moment after the child's end.
    super::silence::sleep();
}

/// A write to the first page, which no process has.
pub fn segv() {
    // Not to address zero itself, at which checks of debug builds would panic first.
    let nowhere = ptr::without_provenance_mut::<u32>(black_box(16));
    // SAFETY: none; the fault is the purpose.
    unsafe { nowhere.write_volatile(1) }
}

/// A write to a mapped page behind the end of its file.
pub fn bus() {
    // SAFETY: the file is new and empty; the write to its mapping raises SIGBUS, which is the
    // purpose, and touches nothing.
    unsafe {
        let file = libc::memfd_create(c"mapped".as_ptr(), 0);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let page = libc::mmap(ptr::null_mut(), 4096, access, libc::MAP_SHARED, file, 0);
        if page != libc::MAP_FAILED {
            page.cast::<u32>().write_volatile(1);
        }
    }
}

/// An undefined instruction.
pub fn ill() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction raises SIGILL and does nothing else.
    unsafe {
        std::arch::asm!("ud2")
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = raise(Signal::SIGILL);
}

/// A division by zero that the processor notices; Rust's own division would panic.
pub fn fpe() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction raises SIGFPE; the registers it would change are declared.
    unsafe {
        std::arch::asm!(
            "div {zero:e}",
            zero = in(reg) 0,
            inout("eax") 1 => _,
            inout("edx") 0 => _,
        )
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = raise(Signal::SIGFPE);
}

/// An index out of bounds.
pub fn panic() {
    let rows = black_box(vec![0u8; 4]);
    black_box(rows[black_box(7)]);
}

/// A recursion that needs more stack than there is.
pub fn stack_overflow() {
    black_box(deeper(black_box(1)));
}

fn deeper(depth: u64) -> u64 {
    let frame = black_box([depth; 256]);
    if depth == 0 {
        return 0;
    }
    // Used after the call, or the call would become a jump.
    deeper(depth + 1) + black_box(frame[(depth % 256) as usize])
}
