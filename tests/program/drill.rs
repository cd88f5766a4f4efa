//! Faults made on purpose, and the drill, by the real binary.

use crate::common::{Project, results};
use serde_json::Value as Json;

/// Proposals that do not depend on results, and hangs that are noticed soon.
const STEADY: [&str; 8] = [
    "--sampler",
    "random",
    "--pruner",
    "none",
    "--deadline",
    "1s",
    "--set",
    "supervisor.grace=200ms",
];

fn events(stdout: &str) -> Vec<Json> {
    let events = stdout.lines().map(serde_json::from_str);
    events.collect::<Result<_, _>>().unwrap()
}

fn faults(events: &[Json]) -> Vec<&str> {
    let faults = events.iter().filter(|e| e["event"] == "fault");
    faults.map(|e| e["fault"].as_str().unwrap()).collect()
}

#[test]
fn a_small_drill_reports_what_was_done_and_what_was_noticed() {
    let project = Project::empty();
    let plan = "kill:2,segv,garbage,error,flood,assert";
    let (stdout, _) = project.expect(0, &["drill", "--inject", plan, "--json"]);
    let report: Json = serde_json::from_str(&stdout).unwrap();
    crate::common::valid("drill", &report);
    assert_eq!(report["held"], true, "{stdout}");
    assert_eq!(
        report["injected"], 14,
        "seven faults with one slot, seven with two"
    );
    for zero in ["lost", "repeated", "context_reused"] {
        assert_eq!(report[zero], 0);
    }
    let expected = [
        ("kill", 4, "killed", "again, restart", "real"),
        ("segv", 2, "crash", "suspect, restart", "real"),
        ("garbage", 2, "protocol", "suspect, restart", "real"),
        ("flood", 2, "nothing", "goes on", "real"),
        ("error", 2, "task_error", "fail, continue", "real"),
        ("assert", 2, "cuda_sticky", "suspect, restart", "text_only"),
    ];
    let rows = report["faults"].as_array().unwrap();
    assert_eq!(rows.len(), expected.len());
    for (row, (fault, injected, detected, action, form)) in rows.iter().zip(expected) {
        assert_eq!(
            (row["fault"].as_str(), row["form"].as_str()),
            (Some(fault), Some(form))
        );
        assert_eq!(row["injected"], injected, "{fault}");
        assert_eq!(row["detected_as"][detected], injected, "{fault}");
        assert_eq!(row["action"][action], injected, "{fault}");
        let measured = if fault == "flood" { 0 } else { injected };
        assert_eq!(row["detection_s"]["count"], measured, "{fault}");
    }
    assert!(
        !project.database().exists(),
        "a drill has a place of its own"
    );
}

#[test]
fn a_study_with_faults_is_marked_for_good_and_its_victims_are_as_without() {
    let peace = Project::synthetic();
    let run = [&["synthetic", "--trials", "8"], &STEADY[..]].concat();
    peace.expect(0, &run);
    let project = Project::synthetic();
    let with = |plan: &'static str| [&run[..], &["--json", "--inject", plan]].concat();
    let (stdout, _) = project.expect(0, &with("kill:2,abort"));
    let events = events(&stdout);
    assert_eq!(events[0]["injected"], "kill:2,abort:1");
    let mut faults = faults(&events);
    faults.sort_unstable();
    assert_eq!(faults, ["crash", "killed", "killed"]);
    assert_eq!(
        results(&project.trials("synthetic")),
        results(&peace.trials("synthetic"))
    );
    project.expect(0, &with("term"));
    let marks: String = project
        .connect()
        .query_row(
            "SELECT value_json FROM study_user_attributes WHERE key = 'injected_faults'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(
        serde_json::from_str::<Json>(&marks).unwrap(),
        serde_json::json!(["kill:2,abort:1", "term:1"])
    );
    let (stdout, _) = project.expect(0, &["synthetic", "--trials", "9", "--inject", "term"]);
    assert!(
        stdout.contains("faults are injected on purpose: term:1"),
        "{stdout}"
    );
}

#[test]
fn a_trial_that_is_hit_in_every_attempt_is_the_culprit() {
    let project = Project::synthetic();
    let run = [
        &["synthetic", "--trials", "3", "--inject", "abort!:1"],
        &STEADY[..],
    ]
    .concat();
    project.expect(0, &run);
    let pruned: Vec<Json> = project
        .trials("synthetic")
        .into_iter()
        .filter(|t| t["state"] == "PRUNED")
        .collect();
    assert_eq!(pruned.len(), 1);
    assert_eq!(pruned[0]["attrs"]["fault"], "crash");
    assert_eq!(pruned[0]["attempts"].as_array().unwrap().len(), 2);
}

#[test]
fn faults_that_are_unknown_or_impossible_are_refused_before_anything_is_written() {
    let project = Project::synthetic();
    for (plan, says) in [
        ("kil:3", "there are: all, kill, term"),
        ("spin-kernel", "there is no GPU"),
        ("kill:2.5", "NAME:RATE"),
    ] {
        for command in ["synthetic", "drill"] {
            let args = [command, "--inject", plan, "--device", "cpu"];
            let (_, stderr) = project.expect(2, &args);
            assert!(stderr.contains(says), "{stderr}");
        }
    }
    assert!(!project.database().exists());
}

#[test]
fn a_drill_of_a_task_that_does_not_run_says_so() {
    let project = Project::synthetic();
    let (_, stderr) = project.expect(2, &["drill", "nothing"]);
    assert!(stderr.contains("there are: synthetic"), "{stderr}");
    let (_, stderr) = project.expect(2, &["drill", "--set", "train.epochz=3"]);
    assert!(stderr.contains("train.epochz"), "{stderr}");
}

#[test]
#[ignore = "a minute"]
fn the_whole_drill_holds() {
    let project = Project::empty();
    let (stdout, _) = project.expect(0, &["drill", "--count", "1", "--json"]);
    let report: Json = serde_json::from_str(&stdout).unwrap();
    assert!(report["faults"].as_array().unwrap().len() >= 25, "{stdout}");
    assert!(
        report["scenarios"].as_array().unwrap().len() >= 7,
        "{stdout}"
    );
}
