//! `--track` and `[track]`: what MLflow, TensorBoard and W&B read of a run while it goes on, at its end, and when it goes on
//! the next day, is what the database has.

use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::Value as Json;

use super::export_trials::{read, same_trials};
use crate::common::{Project, python, signal, wait_for};

/// A configuration with all three trackers.
const TRACK: &str =
    "\n[track]\nmlflow = \"mlruns\"\ntensorboard = \"runs\"\nwandb = \"../offline\"\n";

fn tracked() -> Project {
    let project = Project::synthetic();
    let file = project.path().join("configs/synthetic.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text + TRACK).unwrap();
    project
}

/// The three directories with their programs.
fn directories(project: &Project) -> [(&'static str, std::path::PathBuf); 3] {
    [
        ("mlflow", project.path().join("configs/mlruns")),
        ("tensorboard", project.path().join("configs/runs/synthetic")),
        ("wandb", project.path().join("offline")),
    ]
}

fn all_have(project: &Project) {
    let trials = project.trials("synthetic");
    for (form, dir) in directories(project) {
        let told = read(form, &dir);
        same_trials(&told, &trials, form == "tensorboard");
        for (read, trial) in told["trials"].as_array().unwrap().iter().zip(&trials) {
            if let Some(state) = read.get("state") {
                assert_eq!(state, &trial["state"], "{form}");
            }
        }
        if form == "tensorboard" {
            // The page of hyperparameters finds out by itself what there is.
            let groups = told["groups"].as_object().unwrap();
            assert_eq!(groups.len(), trials.len());
            for (group, trial) in groups.values().zip(&trials) {
                let value = trial["value"].as_f64().map(|x| f64::from(x as f32));
                let shown = group.as_array().unwrap().iter().filter_map(Json::as_f64);
                assert!(
                    value.is_none_or(|x| shown.clone().any(|y| x == y)),
                    "{group}"
                );
            }
        }
    }
}

#[test]
fn trackers_have_all_of_a_study_that_goes_on_the_next_day() {
    let project = tracked();
    // Some trials are there before anybody tracks them.
    let begun = ["synthetic", "--trials", "6", "--seed", "3"];
    let untracked = |dir: &Path| {
        let file = dir.join("configs/synthetic.toml");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace(TRACK, "")).unwrap();
        text
    };
    let text = untracked(project.path());
    project.expect(0, &begun);
    fs::write(project.path().join("configs/synthetic.toml"), text).unwrap();
    let run = "synthetic --trials 20 --parallel 2 --seed 3 --inject error:2,segv:2,kill:1";
    project.expect(0, &run.split(' ').collect::<Vec<_>>());
    all_have(&project);
    let shown = project.expect(0, &["config", "show", "synthetic"]).0;
    let store = project.path().join("configs/mlruns");
    assert!(
        shown.contains(&format!("mlflow = \"{}\"", store.display())),
        "{shown}"
    );
    // What is there already is left as it is.
    let file = directories(&project)[2].1.join("wandb");
    let times = || {
        let mut times: Vec<_> = (fs::read_dir(&file).unwrap())
            .map(|e| e.unwrap().path())
            .map(|dir| (dir.clone(), fs::metadata(dir).unwrap().modified().unwrap()))
            .collect();
        times.sort();
        times
    };
    let before = times();
    project.expect(0, &["synthetic", "--trials", "26", "--seed", "3"]);
    let after = times();
    all_have(&project);
    assert!(before.iter().all(|dir| after.contains(dir)));
    // One place more, by a flag: a directory that others use, too.
    let store = project.path().join("store");
    fs::create_dir_all(store.join("1")).unwrap();
    fs::write(store.join("1/mine"), "mine").unwrap();
    let flag = format!("mlflow:{}", store.display());
    let goes_on = [
        "synthetic",
        "--trials",
        "28",
        "--seed",
        "3",
        "--track",
        &flag,
    ];
    project.expect(0, &goes_on);
    assert_eq!(fs::read_to_string(store.join("1/mine")).unwrap(), "mine");
    fs::remove_dir_all(store.join("1")).unwrap();
    same_trials(&read("mlflow", &store), &project.trials("synthetic"), false);
}

#[test]
fn a_curve_grows_while_its_trial_runs() {
    let project = tracked();
    // Before the trial begins: installing them takes minutes on a fresh machine.
    python::readers();
    let mut child = project.start(&[
        "synthetic",
        "--trials",
        "1000",
        "--set",
        "task.step_ms=300",
        "--set",
        "train.epochs=10000",
        "--pruner",
        "none",
        "--grace",
        "0",
    ]);
    let length = |form: &str, dir: &Path| {
        if !dir.exists() {
            return 0;
        }
        let told = read(form, dir);
        let Some(trial) = told["trials"].get(0) else {
            return 0;
        };
        assert_eq!(trial["number"], 0, "{form}");
        assert!(trial["values"].as_array().unwrap().is_empty());
        trial["curve"].as_array().unwrap().len()
    };
    for (form, dir) in &directories(&project)[..2] {
        wait_for("a curve", || length(form, dir) > 0);
        let first = length(form, dir);
        wait_for("more of the curve", || length(form, dir) > first);
    }
    let (form, dir) = &directories(&project)[0];
    assert_eq!(read(form, dir)["trials"][0]["status"], "RUNNING");
    signal(child.id(), Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

#[test]
fn a_tracker_that_cannot_be_written_disturbs_nothing() {
    let project = Project::synthetic();
    let file = project.path().join("mine");
    fs::write(&file, "mine").unwrap();
    let run = |flag: &str, exit: i32| {
        let args = ["synthetic", "--trials", "3", "--track", flag];
        project.expect(exit, &args).1
    };
    let error = run(&format!("mlflow:{}", file.display()), 2);
    assert!(
        error.contains("expected a directory that is there or can be made"),
        "{error}"
    );
    assert!(!project.path().join("tune.db").exists());
    for flag in ["mlflow", "mlflow:", "neptune:x"] {
        let error = run(flag, 2);
        assert!(
            error.contains("expected KIND:DIR with mlflow, tensorboard, wandb for KIND"),
            "{error}"
        );
    }
    // A file lies where the study's directory is to be.
    fs::create_dir(project.path().join("runs")).unwrap();
    fs::write(project.path().join("runs/synthetic"), "mine").unwrap();
    let flag = format!("tensorboard:{}", project.path().join("runs").display());
    let error = run(&flag, 0);
    assert_eq!(
        error.matches(&format!("--track {flag}: trial 0: ")).count(),
        1,
        "{error}"
    );
    assert_eq!(project.trials("synthetic").len(), 3);
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}
