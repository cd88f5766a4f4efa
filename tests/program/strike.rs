//! Results that people declare invalid, and trials that failed tried again.

use serde_json::{Value as Json, json};

use crate::common::optuna::{printed, script, versions};
use crate::common::{Project, valid, wait_for};

fn ask(project: &Project, args: &[&str]) -> Json {
    let args = [args, &["--json"]].concat();
    serde_json::from_str(&project.expect(0, &args).0).unwrap()
}

fn best(project: &Project) -> String {
    ask(project, &["best", "synthetic"])["best"]["number"].to_string()
}

#[test]
fn a_result_that_was_struck_leads_nowhere_until_it_is_valid_again() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "8", "--pruner", "none"]);
    let first = best(&project);
    let strike = ["strike", "synthetic", &first];
    let why = [&strike[..], &["--why", "trained on the test split"]].concat();
    let struck = ask(&project, &why);
    valid("strike", &struck);
    assert_eq!(struck["why"], "trained on the test split");
    let second = best(&project);
    assert_ne!(first, second);
    let (top, _) = project.expect(0, &["trials", "synthetic", "--top", "8"]);
    assert_eq!(
        top.lines().count(),
        8,
        "a heading and the seven that are valid: {top}"
    );
    let (all, _) = project.expect(0, &["trials", "synthetic"]);
    assert!(all.contains("struck: trained on the test split"), "{all}");
    for version in versions() {
        let mut optuna = script(&version, &[], "check_optuna.py");
        let database = project.database();
        optuna.args(["dump".as_ref(), database.as_os_str(), "synthetic".as_ref()]);
        let told: Json = serde_json::from_str(&printed(optuna, &version)).unwrap();
        if version.starts_with('5') {
            assert_eq!(told["best"].to_string(), second, "Optuna {version}");
        }
    }
    // It counts as before, and so the goal stays reached.
    let (again, _) = project.expect(0, &["synthetic", "--trials", "8"]);
    assert!(again.contains("8 of 8 trials finished"), "{again}");
    assert!(again.contains(&format!("(trial {second})")), "{again}");
    project.expect(0, &[&strike[..], &["--undo"]].concat());
    assert_eq!(best(&project), first);
}

#[test]
fn a_run_that_goes_on_forgets_a_result_that_is_struck() {
    let project = Project::synthetic();
    let slow = ["--set", "task.step_ms=5", "--pruner", "none"];
    let run = [&["synthetic", "--trials", "1000000", "--json"][..], &slow].concat();
    let child = project.tune(&run).spawn().unwrap();
    let finished = || {
        let asked = project.run(&["status", "synthetic", "--json"]);
        let told: Json = serde_json::from_slice(&asked.stdout).unwrap_or_default();
        told["finished"].as_u64().unwrap_or(0)
    };
    wait_for("some trials", || finished() >= 3);
    let first = best(&project);
    project.expect(0, &["strike", "synthetic", &first, "--why", "wrong"]);
    let at = finished();
    wait_for("more trials", || finished() > at + 3);
    project.expect(0, &["stop", "synthetic", "--now"]);
    let output = child.wait_with_output().unwrap();
    let events = String::from_utf8(output.stdout).unwrap();
    let last: Json = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "run_finished");
    assert_ne!(last["best"]["number"].to_string(), first);
}

#[test]
fn only_a_trial_that_has_ended_can_be_struck_and_for_a_reason() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "1"]);
    project.expect(0, &["enqueue", "synthetic", "model.layers=3"]);
    for (args, says) in [
        (&["9", "--why", "x"][..], "has no trial 9"),
        (&["1", "--why", "x"], "is WAITING"),
        (&["0", "--why", " "], "expected a reason"),
        (&["0"], "--why"),
        (&["0", "--undo"], "is not struck"),
    ] {
        let (_, error) = project.expect(2, &[&["strike", "synthetic"], args].concat());
        assert!(error.contains(says), "{args:?}: {error}");
    }
}

#[test]
fn trials_that_failed_are_tried_again_unless_another_has_their_point() {
    let project = Project::empty();
    let run = json!(["sh", "-c", "[ -e fixed ] || exit 3; echo v={x}"]);
    project.config(
        "t",
        &format!(
            "[task]\nkind = \"command\"\nrun = {run}\nvalue = 'v=([0-9.]+)'\n\
             [objective]\ndirection = \"minimize\"\n\
             [space]\nx = {{ low = 0.1, high = 0.9 }}\n"
        ),
    );
    // Three that fail alike end the run.
    project.expect(5, &["t", "--trials", "3"]);
    let failed = project.trials("t");
    let enqueued = ask(&project, &["enqueue", "t", "--failed"]);
    valid("enqueue", &enqueued);
    let (old, new) = (failed.len() as u64, 2 * failed.len() as u64);
    assert_eq!(enqueued["numbers"], json!((old..new).collect::<Vec<_>>()));
    std::fs::write(project.path().join("fixed"), "").unwrap();
    project.expect(0, &["t", "--trials", &old.to_string()]);
    let trials = project.trials("t");
    for (before, after) in failed.iter().zip(&trials[old as usize..]) {
        assert_eq!(after["state"], "COMPLETE");
        assert_eq!(after["params"], before["params"]);
    }
    let again = ask(&project, &["enqueue", "t", "--failed"]);
    assert_eq!(again["numbers"], json!([]));
    assert_eq!(again["skipped"], enqueued["numbers"]);
}

#[test]
fn the_copies_of_a_struck_trial_are_named() {
    let project = Project::synthetic();
    let run = ["synthetic", "--trials", "6", "--pruner", "none"];
    project.expect(0, &run);
    // All points of the narrower space that follows are points of this one: what fits is copied.
    for (trials, momentum) in [("8", "0.98"), ("10", "0.97")] {
        let high = format!("space.optim.momentum.high={momentum}");
        let fork = [
            "synthetic",
            "--fork",
            "--trials",
            trials,
            "--pruner",
            "none",
        ];
        project.expect(0, &[&fork[..], &["--set", &high]].concat());
    }
    let copied = |study: &str, of: (&str, u64)| {
        let from = json!({"study": of.0, "number": of.1});
        let trials = project.trials(study);
        let copy = trials.iter().find(|t| t["attrs"]["copied_from"] == from);
        copy.unwrap()["number"].as_u64().unwrap()
    };
    // Trial 0 has the defaults.
    let second = copied("synthetic@2", ("synthetic", 0));
    let third = copied("synthetic@3", ("synthetic@2", second));
    let why = ["strike", "synthetic", "0", "--why", "wrong file"];
    let (text, _) = project.expect(0, &why);
    for (study, number) in [("synthetic@2", second), ("synthetic@3", third)] {
        let command = format!("strike {study} {number} --why 'wrong file'\n");
        assert!(text.contains(&command), "{command}{text}");
    }
    let number = second.to_string();
    let of_copy = ["strike", "synthetic@2", &number, "--why", "wrong file"];
    project.expect(0, &of_copy);
    let struck = ask(&project, &why);
    valid("strike", &struck);
    let left = json!([{"study": "synthetic@3", "number": third}]);
    assert_eq!(struck["copies"], left);
    let valid_again = ask(&project, &["strike", "synthetic", "0", "--undo"]);
    let left = json!([{"study": "synthetic@2", "number": second}]);
    assert_eq!(valid_again["copies"], left);
}
