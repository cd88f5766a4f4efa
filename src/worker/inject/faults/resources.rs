//! Resources used up: memory, descriptors, the log; and a process left behind.

use std::fs::File;
use std::io::Write;
use std::ops::RangeInclusive;

use crate::Libtorch;
use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Room left below the lowered limit of the address space, in bytes.
const ROOM: u64 = 256 << 20;

/// Descriptors left below the lowered limit.
const FREE_DESCRIPTORS: u64 = 32;

/// What a flood prints, in bytes.
const FLOOD: usize = 100_000_000;

/// A stray process ends by itself after so many seconds: a drill that fails leaves nothing for
/// ever.
const STRAY_SECONDS: libc::c_uint = 120;

/// Lowers the limit of the address space and allocates until it is reached: libtorch then throws,
/// Rust aborts.
pub fn memory(libtorch: &Libtorch) {
    let limit = address_space() + ROOM;
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_AS) {
        let _ = setrlimit(Resource::RLIMIT_AS, limit.min(hard), hard);
    }
    (libtorch.take_all_memory)();
}

/// The size of this process's address space, in bytes.
fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    pages.unwrap_or(0) * process::host::page().unwrap_or(4096)
}

/// Opens files until there is no descriptor left, keeps them, and then fails to read one more.
///
/// # Errors
/// EMFILE, as the system words it.
pub fn descriptors() -> anyhow::Result<()> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let limit = soft.min(open + FREE_DESCRIPTORS);
        let _ = setrlimit(Resource::RLIMIT_NOFILE, limit, hard);
    }
    let mut leaked = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        leaked.push(file);
    }
    // Kept: a leak lasts as long as its process.
    std::mem::forget(leaked);
    File::open("/proc/self/statm").context("reading the next batch")?;
    Ok(())
}

/// Prints more than any log may hold.
pub fn flood() {
    let line = format!("{}\n", "all work and no play ".repeat(3));
    let block = line.repeat(1024);
    let mut out = std::io::stdout();
    for _ in 0..FLOOD / block.len() {
        if out.write_all(block.as_bytes()).is_err() {
            return;
        }
    }
}

/// Starts a process that leaves the group and the session, ignores signals and holds every
/// descriptor of this one, the socket to the supervisor included; gives its id.
pub fn orphan() -> Option<u32> {
    // SAFETY: the child of a process with threads makes only async-signal-safe calls and never
    // returns.
    unsafe {
        match libc::fork() {
            -1 => None,
            0 => roam(),
            child => {
                // Killed before it has left the group, it would be no stray.
                const TRIES: RangeInclusive<u32> = 1..=1_000_000;
                for _ in TRIES {
                    if libc::getsid(child) == child {
                        break;
                    }
                    std::thread::yield_now();
                }
                u32::try_from(child).ok()
            }
        }
    }
}

/// # Safety
/// Only for the child of a fork.
unsafe fn roam() -> ! {
    // SAFETY: async-signal-safe calls without pointers.
    unsafe {
        for ignored in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::signal(ignored, libc::SIG_IGN);
        }
        libc::setsid();
        let mut left = STRAY_SECONDS;
        while left > 0 {
            left = libc::sleep(left);
        }
        libc::_exit(0)
    }
}
