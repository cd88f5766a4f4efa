//! Workers in memory cgroups of their own, where this machine lets them; else the run without.

use std::fs::File;
use std::path::PathBuf;
use std::process::Child;

use crate::common::{Project, signal, wait_for};
use nix::sys::signal::Signal;
use process::cgroup::OwnCgroup;
use serde_json::Value as Json;

const MIB: u64 = 1 << 20;

/// What all workers may take together, in MiB.
const LIMIT: u64 = 400;

/// What the large program takes, in MiB.
const LARGE: u64 = 700;

/// A program that takes memory once the small ones run, and small ones that wait until they may end.
const SCRIPT: &str = "
    touch started.$1
    if [ $1 -gt 2 ]; then
        until [ -e started.1 ] && [ -e started.2 ]; do sleep 0.02; done
        dd if=/dev/zero of=/dev/null bs=$1M count=1 2> /dev/null || exit $?
    else
        [ ! -e stray ] || env -i setsid sleep \"$(cat stray)\" < /dev/null > /dev/null 2>&1 &
        until [ -e go ]; do sleep 0.02; done
    fi
    echo $1
";

/// A run of three programs at a time, and where the cgroup of its workers is, if it has one.
struct Run {
    project: Project,
    supervisor: Child,
    group: Option<PathBuf>,
}

impl Run {
    /// With `stray`, small programs begin with a `sleep` for so long that loses its parents and its
    /// environment.
    fn start(stray: Option<&str>) -> Run {
        let project = Project::empty();
        if let Some(time) = stray {
            std::fs::write(project.path().join("stray"), time).unwrap();
        }
        std::fs::write(project.path().join("t.sh"), SCRIPT).unwrap();
        let config = format!(
            "task = {{ kind = \"command\", run = [\"sh\", \"t.sh\", \"{{x}}\"] }}\n\
             objective = {{ direction = \"minimize\" }}\n\
             space = {{ x = {{ choices = [{LARGE}, 1, 2] }} }}\n"
        );
        project.config("t", &config);
        let part = format!("host.memory={}", (LIMIT * MIB) as f64 / memory() as f64);
        let args = ["-vv", "t", "--sampler", "grid", "--trials", "3"];
        let more = ["--parallel", "3", "--set", &part];
        let log = File::create(project.path().join("stderr")).unwrap();
        let mut command = project.tune(&[&args[..], &more].concat());
        let supervisor = command.stderr(log).spawn().unwrap();
        let started = |x| project.path().join(format!("started.{x}")).exists();
        wait_for("the programs", || {
            started(1) && started(2) && started(LARGE)
        });
        // The supervisor is where this test is: it cannot leave a cgroup in which it is not alone.
        let group = OwnCgroup::own().map(|p| p.dir.join(format!("tune-{}", supervisor.id())));
        Run {
            group: group.filter(|dir| dir.exists()),
            project,
            supervisor,
        }
    }

    /// Waits for its end, and gives its trials.
    fn end(&mut self) -> Vec<Json> {
        File::create(self.project.path().join("go")).unwrap();
        assert_eq!(self.supervisor.wait().unwrap().code(), Some(0));
        self.project.trials("t")
    }

    fn stderr(&self) -> String {
        std::fs::read_to_string(self.project.path().join("stderr")).unwrap()
    }

    /// The process of the worker that runs this trial.
    fn worker(&self, number: &Json) -> u32 {
        let conn = self.project.connect();
        let sql = "SELECT a.pid FROM tune_attempts a JOIN trials t ON t.trial_id = a.trial_id
                   WHERE t.number = ?";
        let number = number.as_u64().unwrap();
        conn.query_row(sql, [number], |row| row.get(0)).unwrap()
    }
}

impl Drop for Run {
    /// A failed test leaves no run behind.
    fn drop(&mut self) {
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
    }
}

/// The memory that there is for this process, in bytes.
fn memory() -> u64 {
    supervisor::memory_total(device::Device::Cpu).unwrap()
}

/// Whether the kernel would rather swap than kill.
fn swaps() -> bool {
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    swaps.lines().count() > 1
}

fn with(trials: &[Json], x: u64) -> Json {
    let trial = trials.iter().find(|t| t["params"]["x"] == x);
    trial.unwrap().clone()
}

fn outcomes(trial: &Json) -> Vec<&str> {
    let attempts = trial["attempts"].as_array().unwrap().iter();
    attempts.filter_map(|a| a["outcome"].as_str()).collect()
}

#[test]
fn a_program_that_takes_too_much_is_killed_in_its_own_cgroup_and_nobody_is_accused_for_it() {
    let mut run = Run::start(None);
    let Some(group) = run.group.clone().filter(|_| !swaps()) else {
        let trials = run.end();
        let stderr = run.stderr();
        if run.group.is_none() {
            assert!(
                trials.iter().all(|t| t["state"] == "COMPLETE"),
                "{trials:?}"
            );
            assert!(
                stderr.contains("workers have no cgroups of their own reason="),
                "{stderr}"
            );
        }
        return;
    };
    let large = || with(&run.project.trials("t"), LARGE);
    wait_for("the kill", || outcomes(&large()) == ["host_oom"]);
    // Somebody else kills a worker in which the kernel has killed nothing.
    let first = with(&run.project.trials("t"), 1);
    signal(run.worker(&first["number"]), Signal::SIGKILL);
    let killed = || outcomes(&with(&run.project.trials("t"), 1)) == ["killed"];
    wait_for("the other death", killed);

    let trials = run.end();
    let large = with(&trials, LARGE);
    assert_eq!(outcomes(&large), ["host_oom", "host_oom"]);
    assert_eq!(
        (&large["state"], &large["attrs"]["oom"]),
        (&"PRUNED".into(), &true.into())
    );
    let [first, second] = [1, 2].map(|x| with(&trials, x));
    assert_eq!(outcomes(&first), ["killed", "completed"]);
    assert_eq!(outcomes(&second), ["completed"]);
    assert!(!group.exists(), "{}", group.display());
}

/// Processes that sleep for so long.
fn sleeping(time: &str) -> Vec<u32> {
    let wanted = format!("sleep\0{time}\0").into_bytes();
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter(|e| std::fs::read(e.path().join("cmdline")).is_ok_and(|l| l == wanted))
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .collect()
}

#[test]
fn the_cgroup_of_a_killed_supervisor_is_removed_with_all_that_is_in_it() {
    let time = format!("100000.{}", std::process::id());
    let mut run = Run::start(Some(&time));
    wait_for("the strays", || sleeping(&time).len() == 2);
    run.supervisor.kill().unwrap();
    run.supervisor.wait().unwrap();
    match &run.group {
        Some(group) => {
            wait_for("the cgroup to be gone", || !group.exists());
            assert!(sleeping(&time).is_empty());
        }
        // Nothing leads to them: this test ends them itself.
        None => {
            let strays = sleeping(&time);
            strays.iter().for_each(|s| signal(*s, Signal::SIGKILL));
        }
    }
    wait_for("the workers to be gone", || {
        run.project.workers().is_empty()
    });
}
