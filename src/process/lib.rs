//! Processes on this machine: their cgroups, what they have started, what is left of them, and the
//! guardian that ends them with the supervisor.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "tune runs on Linux only: it needs the system calls of Linux. On Windows, build it inside WSL2."
);

pub mod cgroup;
pub mod child;
pub mod evidence;
pub mod guardian;
pub mod host;
pub mod orphans;
pub mod other;
mod stat;
