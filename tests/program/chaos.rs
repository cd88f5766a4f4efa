//! Random kill -9s and faults of every kind against the real binary: nothing is lost, nothing is
//! repeated, and what was only disturbed ends as if it had been left in peace.
//!
//! `TUNE_KILLS` and `TUNE_FAULT_TRIALS` set the sizes: small in `make test`, larger in `make
//! test-all`, largest in `make soak`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Child;
use std::time::Duration;

use crate::common::{Project, results, signal, wait_for};
use nix::sys::signal::Signal;
use rand::{RngExt, SeedableRng};
use serde_json::Value as Json;

fn size(name: &str, preset: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => preset,
    }
}

/// Trials by number, as `tune trials` has them.
fn by_number(trials: &[Json]) -> BTreeMap<u64, &Json> {
    let numbered: BTreeMap<u64, &Json> = trials
        .iter()
        .map(|t| (t["number"].as_u64().unwrap(), t))
        .collect();
    assert_eq!(numbered.len(), trials.len(), "no number twice");
    assert!(
        numbered.keys().copied().eq(0..trials.len() as u64),
        "no number is missing"
    );
    numbered
}

/// The words of a trial's attempts.
fn outcomes(trial: &Json) -> Vec<&str> {
    trial["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["outcome"].as_str().unwrap_or("open"))
        .collect()
}

/// Kills the supervisor or one of its workers at random moments, and starts the same command again.
struct Killer<'a> {
    project: &'a Project,
    args: &'a [&'a str],
    child: Child,
    rng: rand_chacha::ChaCha8Rng,
    supervisors: u64,
    workers: u64,
}

impl Killer<'_> {
    /// Kills once; false when the study was done before.
    fn kill(&mut self) -> bool {
        // One kill in five may come before there are workers.
        if self.rng.random_bool(0.8) {
            wait_for("workers", || {
                !self.project.workers().is_empty() || self.child.try_wait().unwrap().is_some()
            });
        }
        let pause = self.rng.random_range(20..260);
        std::thread::sleep(Duration::from_millis(pause));
        if let Some(status) = self.child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(0), "a run ends by its goal alone");
            return false;
        }
        let workers = self.project.workers();
        if workers.is_empty() || self.rng.random_bool(0.5) {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
            self.supervisors += 1;
            wait_for("the workers to be gone", || {
                self.project.workers().is_empty()
            });
            self.child = self.project.start(self.args);
        } else {
            signal(
                workers[self.rng.random_range(0..workers.len())],
                Signal::SIGKILL,
            );
            self.workers += 1;
        }
        true
    }
}

#[test]
fn random_kills_of_supervisor_and_workers_lose_and_repeat_nothing() {
    let kills = size("TUNE_KILLS", 30);
    // More trials than can be done between the kills.
    let trials = (40 + kills * 8).to_string();
    let args = [
        "synthetic",
        "--trials",
        &trials,
        "--parallel",
        "2",
        "--sampler",
        "random",
        "--pruner",
        "none",
        "--set",
        "task.step_ms=5",
        "--set",
        "task.noise=0.1",
    ];
    let peace = Project::synthetic();
    peace.expect(0, &args);
    let project = Project::synthetic();
    let mut killer = Killer {
        child: project.start(&args),
        project: &project,
        args: &args,
        rng: rand_chacha::ChaCha8Rng::seed_from_u64(11),
        supervisors: 0,
        workers: 0,
    };
    for _ in 0..kills {
        if !killer.kill() {
            break;
        }
    }
    assert_eq!(killer.supervisors + killer.workers, kills);
    assert!(killer.supervisors > kills / 10 && killer.workers > kills / 10);
    assert_eq!(killer.child.wait().unwrap().code(), Some(0));
    project.expect(0, &args);
    assert!(project.workers().is_empty());

    let disturbed = project.trials("synthetic");
    let undisturbed = peace.trials("synthetic");
    let undisturbed = by_number(&undisturbed);
    assert_eq!(disturbed.len() as u64, trials.parse::<u64>().unwrap());
    for (number, trial) in by_number(&disturbed) {
        let words = outcomes(trial);
        // The contract's third time: not to be expected often, and not an error.
        if words.iter().filter(|w| **w == "killed").count() >= 3 {
            assert_eq!(trial["state"], "PRUNED", "{trial}");
            continue;
        }
        let (mine, other) = ([trial.clone()], [undisturbed[&number].clone()]);
        assert_eq!(results(&mine), results(&other));
        assert_eq!(
            words.iter().filter(|w| **w == "completed").count(),
            1,
            "done once: {trial}"
        );
    }
}

/// What was injected, by trial: kind and whether every attempt was hit.
fn injected(project: &Project) -> BTreeMap<u64, String> {
    let ledger = project.path().join("tune.db.d/injected/synthetic.jsonl");
    std::fs::read_to_string(ledger)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap())
        .map(|entry| {
            (
                entry["trial"].as_u64().unwrap(),
                entry["kind"].as_str().unwrap().to_owned(),
            )
        })
        .collect()
}

/// The faults after which a trial ends by what the contract says, not by its own result.
const ENDS_THE_TRIAL: [&str; 4] = ["panic", "exception", "error", "cublas"];

#[test]
fn faults_of_every_kind_in_one_trial_of_ten_change_nothing_but_the_culprits() {
    let goal = size("TUNE_FAULT_TRIALS", 400);
    let trials = goal.to_string();
    let quiet = [
        "synthetic",
        "--trials",
        &trials,
        "--sampler",
        "random",
        "--pruner",
        "none",
        "--deadline",
        "3s",
        "--set",
        "supervisor.grace=200ms",
        "--set",
        "task.noise=0.1",
    ];
    let peace = Project::synthetic();
    peace.expect(0, &quiet);
    let project = Project::synthetic();
    let loud = [&quiet[..], &["--inject", "all:0.1"]].concat();
    project.expect(0, &loud);
    assert!(project.workers().is_empty());

    let undisturbed = peace.trials("synthetic");
    let undisturbed = by_number(&undisturbed);
    let disturbed = project.trials("synthetic");
    let disturbed = by_number(&disturbed);
    let hit = injected(&project);
    let kinds: BTreeSet<&String> = hit.values().collect();
    assert!(kinds.len() >= 20, "only {kinds:?}");
    let rate = hit.len() as f64 / disturbed.len() as f64;
    assert!((0.05..0.15).contains(&rate), "{} of {goal}", hit.len());
    let finished = disturbed
        .values()
        .filter(|t| t["state"] == "COMPLETE" || t["state"] == "PRUNED")
        .count();
    assert_eq!(finished as u64, goal);
    for (number, trial) in &disturbed {
        let kind = hit.get(number).map(String::as_str);
        if kind.is_some_and(|k| ENDS_THE_TRIAL.contains(&k)) {
            assert_ne!(trial["state"], "COMPLETE", "{kind:?}: {trial}");
            continue;
        }
        // Trials that failed do not count: as many were added.
        let Some(other) = undisturbed.get(number) else {
            assert!(*number >= goal);
            continue;
        };
        let (mine, other) = ([(*trial).clone()], [(*other).clone()]);
        assert_eq!(results(&mine), results(&other), "{kind:?}: {trial}");
        let words = outcomes(trial);
        assert_eq!(
            words.iter().filter(|w| **w == "completed").count(),
            1,
            "{kind:?}: {words:?}"
        );
        if kind.is_none() {
            assert_eq!(words, ["completed"], "nobody else was disturbed: {trial}");
        }
    }
}

#[test]
fn victims_leave_no_trace_in_what_a_sampler_with_a_memory_proposes() {
    let quiet = [
        "synthetic",
        "--trials",
        "60",
        "--deadline",
        "3s",
        "--set",
        "supervisor.grace=200ms",
        "--set",
        "supervisor.checkpoint=true",
    ];
    let peace = Project::synthetic();
    peace.expect(0, &quiet);
    let project = Project::synthetic();
    let plan = "kill:4,segv:3,abort:2,stop:2,garbage:2,spin:1,stray:2,memory:1,exit:2";
    project.expect(0, &[&quiet[..], &["--inject", plan]].concat());
    assert_eq!(injected(&project).len(), 19);
    assert_eq!(
        results(&project.trials("synthetic")),
        results(&peace.trials("synthetic"))
    );
}
