//! Processes on this machine: their cgroups, what they have started, what is left of them, and the
//! guardian that ends them with the supervisor.

pub mod cgroup;
pub mod child;
pub mod evidence;
pub mod guardian;
pub mod host;
pub mod orphans;
