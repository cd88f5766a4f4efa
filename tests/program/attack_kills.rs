//! Kills and stops of everything at once, at random moments: supervisor, guardian and workers of runs
//! whose programs start daemons. Whatever is left alive ends the rest.
//!
//! `TUNE_KILLS` sets how many: few in `make test`, many in `make soak`.

use std::process::Child;
use std::time::Duration;

use crate::common::{Project, guardian, signal, wait_for};
use nix::sys::signal::Signal;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A program that leaves behind all kinds of processes and then goes on for ever: one in a session of
/// its own, one that has lost its parent, one without any environment, and one below such a one, so
/// that its own parent lives.
const PROGRAM: &str = r#"
setsid sleep 1000 &
(setsid sleep 1000 &)
(env -i setsid sh -c 'sleep 1000' &)
(env -i setsid sh -c '(sleep 1000 &); sleep 1000; :' &)
echo ready
exec sleep 1000
"#;

/// How many processes a program comes to at least, with itself: some shells become their last command.
const PROCESSES: usize = 7;

const CONFIG: &str = r#"
[task]
kind = "command"
run = ["sh", "program.sh"]
dir = ".."

[objective]
metric = "value"
direction = "minimize"

[space]
x = { low = 0.0, high = 1.0 }
"#;

/// A run of two such programs.
struct Run {
    project: Project,
    supervisor: Child,
}

impl Run {
    fn start() -> Run {
        let project = Project::empty();
        std::fs::write(project.path().join("program.sh"), PROGRAM).unwrap();
        project.config("daemons", CONFIG);
        let supervisor = project.start(&[
            "daemons",
            "--trials",
            "10",
            "--parallel",
            "2",
            "--grace",
            "0",
        ]);
        Run {
            project,
            supervisor,
        }
    }

    /// What programs have started: their working directory is the project's, and that of all that they
    /// have started.
    fn programs(&self) -> Vec<u32> {
        let home = self.project.path().canonicalize().unwrap();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry.file_name().to_str().and_then(|n| n.parse().ok());
            let at = std::fs::read_link(entry.path().join("cwd"));
            if let (Some(pid), Ok(at)) = (pid, at)
                && at == home
            {
                found.push(pid);
            }
        }
        found
    }

    fn wait_for_programs(&self) {
        wait_for("the programs and their daemons", || {
            self.programs().len() >= 2 * PROCESSES
        });
    }

    fn guardian(&self) -> Option<u32> {
        guardian(self.supervisor.id())
    }

    /// Waits for the end of everything, which nobody is left to ask for.
    fn wait_for_the_end(&mut self, what: &str) {
        self.supervisor.wait().unwrap();
        wait_for(&format!("all to be gone: {what}"), || {
            self.programs().is_empty() && self.project.workers().is_empty()
        });
    }
}

impl Drop for Run {
    /// A failed test leaves nothing behind.
    fn drop(&mut self) {
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
        for pid in self.programs() {
            signal(pid, Signal::SIGKILL);
        }
    }
}

#[test]
fn supervisor_and_guardian_that_are_killed_at_once_leave_no_daemon() {
    let mut run = Run::start();
    run.wait_for_programs();
    let guardian = run.guardian().unwrap();
    // One that stands still replaces no guardian.
    signal(run.supervisor.id(), Signal::SIGSTOP);
    signal(guardian, Signal::SIGKILL);
    signal(run.supervisor.id(), Signal::SIGKILL);
    run.wait_for_the_end("supervisor and guardian killed");
}

#[test]
fn a_stopped_worker_ends_with_what_it_has_started_where_nobody_else_is_left() {
    let mut run = Run::start();
    run.wait_for_programs();
    let guardian = run.guardian().unwrap();
    // In this order nobody tells the workers to go on.
    signal(run.supervisor.id(), Signal::SIGSTOP);
    for worker in run.project.workers() {
        signal(worker, Signal::SIGSTOP);
    }
    signal(guardian, Signal::SIGKILL);
    signal(run.supervisor.id(), Signal::SIGKILL);
    run.wait_for_the_end("supervisor and guardian killed, workers stopped");
}

#[test]
fn a_stopped_guardian_does_not_keep_the_run_from_its_end() {
    let mut run = Run::start();
    run.wait_for_programs();
    signal(run.guardian().unwrap(), Signal::SIGSTOP);
    signal(run.supervisor.id(), Signal::SIGTERM);
    assert_eq!(run.supervisor.wait().unwrap().code(), Some(4));
    assert!(run.programs().is_empty());
}

/// What is done to whom, in a random order with random pauses between.
#[derive(Debug, Clone, Copy)]
enum Blow {
    KillSupervisor,
    StopSupervisor,
    KillGuardian,
    StopGuardian,
    StopWorker,
}

#[test]
fn kills_and_stops_at_random_moments_leave_nothing_behind() {
    let storms: u64 = match std::env::var("TUNE_KILLS") {
        Ok(text) => text.parse::<u64>().unwrap().div_ceil(4),
        Err(_) => 6,
    };
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for storm in 0..storms {
        let mut run = Run::start();
        if rng.random_bool(0.7) {
            run.wait_for_programs();
        } else {
            std::thread::sleep(Duration::from_millis(rng.random_range(0..300)));
        }
        let mut blows = Vec::new();
        for _ in 0..rng.random_range(1..6) {
            let others = [
                Blow::StopSupervisor,
                Blow::KillGuardian,
                Blow::StopGuardian,
                Blow::StopWorker,
            ];
            blows.push(*others.choose(&mut rng).unwrap());
        }
        blows.push(Blow::KillSupervisor);
        let known = run.guardian();
        for blow in &blows {
            let guardian = run.guardian().or(known);
            match blow {
                Blow::KillSupervisor => signal(run.supervisor.id(), Signal::SIGKILL),
                Blow::StopSupervisor => signal(run.supervisor.id(), Signal::SIGSTOP),
                Blow::KillGuardian => guardian.iter().for_each(|g| signal(*g, Signal::SIGKILL)),
                Blow::StopGuardian => guardian.iter().for_each(|g| signal(*g, Signal::SIGSTOP)),
                Blow::StopWorker => {
                    if let Some(worker) = run.project.workers().choose(&mut rng) {
                        signal(*worker, Signal::SIGSTOP);
                    }
                }
            }
            std::thread::sleep(Duration::from_micros(rng.random_range(0..20_000)));
        }
        run.wait_for_the_end(&format!("storm {storm}: {blows:?}"));
    }
}
