//! Memory cgroups: where this process's is, what it says, and one for each worker where they can be
//! had.
//!
//! In a group of its own, a worker is counted with all that it has started, and the kernel's count of
//! OOM kills there is about nobody else. All workers of a run together have a limit, so that what
//! takes too much memory ends a worker, and neither the supervisor nor a stranger's process.
//!
//! Version 1 (a hierarchy for the controller `memory` alone) and version 2 (one for all controllers)
//! differ in names and rules; hybrid systems have both, with `memory` in the first. Where no group can
//! be had, as in most containers and plain login sessions, everything goes on without.

mod counts;
mod groups;
mod place;

pub use counts::{entry, own_oom_kills};
pub use groups::{RunCgroup, WorkerCgroup, clear, members};
pub use place::{OwnCgroup, Version, unescaped};
