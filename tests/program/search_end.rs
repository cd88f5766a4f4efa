//! Searches that end before their goal, and pruning that is looked at, with the real binary.

use std::process::Command;

use crate::common::Project;
use serde_json::Value as Json;

const RANDOM: [&str; 5] = ["synthetic", "--sampler", "random", "--pruner", "none"];

fn events(stdout: &str) -> Vec<Json> {
    let lines = stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn named<'a>(events: &'a [Json], name: &str) -> Vec<&'a Json> {
    events.iter().filter(|e| e["event"] == name).collect()
}

fn answer(project: &Project, args: &[&str]) -> Json {
    serde_json::from_str(&project.expect(0, args).0).unwrap()
}

#[test]
fn a_search_ends_where_more_would_hardly_gain_and_the_same_line_again_trains_nothing() {
    let project = Project::synthetic();
    let flat = [
        "--trials",
        "3000",
        "--until-flat=10%",
        "--repeats",
        "2",
        "--json",
    ];
    let line = [&RANDOM[..], &flat[..]].concat();
    let told = events(&project.expect(0, &line).0);
    let [ended] = named(&told, "search_ended")[..] else {
        panic!("{told:?}")
    };
    assert_eq!(ended["outlook"]["trials"], 100);
    let finished = &named(&told, "run_finished")[0];
    assert!(
        finished["reason"]
            .as_str()
            .unwrap()
            .contains("before its goal")
    );
    let complete = finished["counts"]["complete"].as_u64().unwrap();
    assert!((40..3000).contains(&complete), "{complete}");
    assert!(finished["selection"]["winner"].is_object(), "{finished}");
    let again = events(&project.expect(0, &line).0);
    assert_eq!(named(&again, "trial_started").len(), 0);
    let (status, _) = project.expect(0, &["status", "synthetic"]);
    assert!(status.contains("--until-flat"), "{status}");
}

#[test]
fn a_run_by_a_time_has_its_winner_by_then() {
    let project = Project::synthetic();
    let args = ["-d", "+15 seconds", "+%H:%M:%S"];
    let by = Command::new("date").args(args).output().unwrap();
    let by = String::from_utf8(by.stdout).unwrap();
    let more = [
        "--trials",
        "1000000",
        "--repeats",
        "2",
        "--json",
        "--by",
        by.trim(),
    ];
    let (out, _) = project.expect(3, &[&RANDOM[..], &more[..]].concat());
    let told = events(&out);
    assert_eq!(named(&told, "search_ended").len(), 1);
    let finished = named(&told, "run_finished")[0];
    assert!(finished["selection"]["winner"].is_object(), "{finished}");
    for wrong in ["morning", "8", "2020-01-01T08:00"] {
        let (_, says) = project.expect(2, &["synthetic", "--by", wrong]);
        assert!(says.contains(&format!("--by {wrong}")), "{says}");
    }
}

#[test]
fn some_trials_that_would_be_pruned_go_on_and_the_report_says_what_became_of_them() {
    let project = Project::synthetic();
    let run = "synthetic --trials 300 --sampler random --pruner median --set pruner.audit=10% -q";
    project.expect(0, &run.split(' ').collect::<Vec<_>>());
    let trials = answer(&project, &["trials", "synthetic", "--json"]);
    let trials = trials.as_array().unwrap();
    let epochs = |t: &&Json| t["intermediate"].as_object().unwrap().len() as u64;
    let all: u64 = trials.iter().map(|t| epochs(&t)).sum();
    let told = |t: &&Json| t["attrs"]["pruner.audited"].is_u64();
    let audited: Vec<&Json> = trials.iter().filter(told).collect();
    assert!(audited.iter().all(|t| t["state"] == "COMPLETE"));
    let extra = audited
        .iter()
        .map(|t| epochs(t) - t["attrs"]["pruner.audited"].as_u64().unwrap());
    let share = extra.sum::<u64>() as f64 / all as f64;
    assert!((0.03..=0.1).contains(&share), "{share}");
    let report = answer(&project, &["report", "synthetic", "--json"]);
    assert_eq!(report["audit"]["audited"], audited.len());
    let verdict = report["verdict"].as_array().unwrap();
    assert!(
        verdict.iter().any(|v| v["about"] == "pruning"),
        "{verdict:?}"
    );
}
