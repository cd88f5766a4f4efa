//! Trainings of a tiny model that are killed in their middle go on, and end as if nothing had been: values
//! and kept weights, bit for bit.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Project, results, signal, tiny, wait_for};
use nix::sys::signal::Signal;
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

const BASE: [&str; 12] = [
    "tiny",
    "--device",
    "cpu",
    "--set",
    "model.dropout=0.2",
    "--set",
    "train.grad_accum=2",
    "--set",
    "run.threads=1",
    "--set",
    "train.patience=0",
    "--pruner=none",
];

fn arguments<'a>(trials: &'a str, epochs: &'a str) -> Vec<&'a str> {
    [&BASE[..], &["--trials", trials, "--epochs", epochs]].concat()
}

fn files(project: &Project) -> PathBuf {
    project.path().join("tune.db.d")
}

/// The last epoch of a trial's checkpoint; 0: there is none.
fn checkpointed(project: &Project, trial: u64) -> u64 {
    let dir = files(project).join(format!("checkpoints/tiny/trial-{trial:06}"));
    let text = fs::read(dir.join("checkpoint.json")).unwrap_or_default();
    let json: Json = serde_json::from_slice(&text).unwrap_or_default();
    let last = json["epochs"].as_array().and_then(|e| e.last().cloned());
    last.map_or(0, |e| e["epoch"].as_u64().unwrap())
}

fn directories(of: &Path) -> Vec<String> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Which weights are kept: trial, epoch and SHA-256 of the file, which its description must name.
fn kept(project: &Project) -> Vec<(String, u64, String)> {
    let dir = files(project).join("kept/tiny");
    let of = |name: String| {
        let weights = fs::read(dir.join(&name).join("weights.safetensors")).unwrap();
        let text = fs::read(dir.join(&name).join("kept.json")).unwrap();
        let json: Json = serde_json::from_slice(&text).unwrap();
        let digest = Sha256::digest(&weights);
        let hex: String = digest.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(json["sha256"], hex.as_str());
        (name, json["epoch"].as_u64().unwrap(), hex)
    };
    directories(&dir).into_iter().map(of).collect()
}

/// The log of an attempt.
fn log(project: &Project, trial: u64, attempt: u32) -> String {
    let name = format!("logs/tiny/trial-{trial:06}-attempt-{attempt}.log");
    fs::read_to_string(files(project).join(name)).unwrap_or_default()
}

fn assert_like(project: &Project, undisturbed: &Project) {
    let trials = project.trials("tiny");
    assert_eq!(results(&trials), results(&undisturbed.trials("tiny")));
    assert_eq!(kept(project), kept(undisturbed));
    let left = directories(&files(project).join("checkpoints/tiny"));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_trial_whose_processes_are_killed_goes_on_and_ends_as_if_nothing_had_been() {
    let run = arguments("2", "40");
    let undisturbed = tiny::project(480);
    undisturbed.expect(0, &run);
    let best = undisturbed.trials("tiny");
    let kept_there = kept(&undisturbed);
    assert_eq!(kept_there.len(), 1, "{kept_there:?}");
    let winner = best
        .iter()
        .max_by(|a, b| {
            a["value"]
                .as_f64()
                .partial_cmp(&b["value"].as_f64())
                .unwrap()
        })
        .unwrap();
    let name = format!("trial-{:06}", winner["number"].as_u64().unwrap());
    let epoch = winner["attrs"]["best_epoch"].as_u64().unwrap();
    assert_eq!((&kept_there[0].0, kept_there[0].1), (&name, epoch));

    let worker = tiny::project(480);
    let mut child = worker.start(&run);
    wait_for("a checkpoint of trial 0", || checkpointed(&worker, 0) >= 3);
    let pids = worker.workers();
    pids.iter().for_each(|pid| signal(*pid, Signal::SIGKILL));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let noted = log(&worker, 0, 1);
    assert!(noted.contains("goes on after epoch"), "{noted}");
    assert_like(&worker, &undisturbed);

    let both = tiny::project(480);
    let mut child = both.start(&run);
    wait_for("a checkpoint of trial 1", || checkpointed(&both, 1) >= 3);
    let pids = both.workers();
    signal(child.id(), Signal::SIGKILL);
    pids.iter().for_each(|pid| signal(*pid, Signal::SIGKILL));
    child.wait().unwrap();
    both.expect(0, &run);
    let noted = log(&both, 1, 1);
    assert!(noted.contains("goes on after epoch"), "{noted}");
    assert_like(&both, &undisturbed);
}

#[test]
fn where_nothing_can_be_written_beside_the_database_trials_end_all_the_same() {
    let whole = tiny::project(120);
    let run = arguments("2", "4");
    whole.expect(0, &run);
    let without = tiny::project(120);
    fs::create_dir(files(&without)).unwrap();
    for name in ["checkpoints", "kept"] {
        fs::write(files(&without).join(name), "in the way").unwrap();
    }
    without.expect(0, &run);
    assert_eq!(
        results(&without.trials("tiny")),
        results(&whole.trials("tiny"))
    );
}

#[test]
fn as_many_weights_are_kept_as_are_wanted_now() {
    let project = tiny::project(120);
    let run = |keep: &str, trials: &str| {
        let keep = format!("run.keep_best={keep}");
        let run = [&arguments(trials, "4")[..], &["--set", &keep]].concat();
        project.expect(0, &run);
        kept(&project).len()
    };
    assert_eq!(run("3", "4"), 3);
    assert_eq!(run("3", "6"), 3);
    let trials = project.trials("tiny");
    let mut best: Vec<(f64, u64)> = (trials.iter())
        .map(|t| (-t["value"].as_f64().unwrap(), t["number"].as_u64().unwrap()))
        .collect();
    best.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let mut expected: Vec<String> = (best.iter().take(3))
        .map(|(_, n)| format!("trial-{n:06}"))
        .collect();
    expected.sort();
    let names: Vec<String> = kept(&project).into_iter().map(|k| k.0).collect();
    assert_eq!(names, expected);
    assert_eq!(
        run("1", "6"),
        1,
        "the goal is reached: only the number is another one"
    );
    assert_eq!(run("0", "6"), 0);
}
