//! What surrounds the workers of a run: their cgroups, and the guardian that ends what they leave.

use std::sync::Arc;

use process::cgroup::{RunCgroup, WorkerCgroup};
use process::guardian::Guardian;
use process::orphans::ProcessMark;

/// The processes of a run. Dropping this ends what is left of them.
pub struct RunProcesses {
    /// What they are known by.
    mark: ProcessMark,
    /// Dropped before the cgroups, which are removed when nothing is left there.
    _guardian: Guardian,
    groups: Option<Arc<RunCgroup>>,
}

impl RunProcesses {
    /// Makes cgroups for the workers of a run, with this part of the host's memory, and starts the
    /// guardian. `study` is what the processes of all its runs are known by.
    pub fn start(study: &ProcessMark, host_memory: f64) -> RunProcesses {
        // Before the guardian, which is where the supervisor is, and gone after it.
        let groups = RunCgroup::make(host_memory);
        let mark = study.this_run();
        let mark = mark.in_cgroup(groups.as_ref().map(|g| g.dir()));
        RunProcesses {
            _guardian: Guardian::start(mark.clone()),
            mark,
            groups,
        }
    }

    /// What a worker is known by, and its cgroup where it can have one.
    pub fn worker(&self, worker: u64) -> (ProcessMark, Option<WorkerCgroup>) {
        let group = self.groups.as_ref().and_then(|g| g.worker(worker));
        (self.mark.worker(worker), group)
    }
}
