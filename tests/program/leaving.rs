//! A machine that is taken away at a known time (`--leave-in`).

use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::common::Project;

/// Words of the attempts of all trials, and how many trials are RUNNING.
fn attempts(project: &Project) -> (Vec<String>, u64) {
    let conn = project.connect();
    let mut outcomes = conn
        .prepare("SELECT outcome FROM tune_attempts ORDER BY trial_id, attempt")
        .unwrap();
    let words = outcomes.query_map([], |row| row.get(0)).unwrap();
    let running = "SELECT COUNT(*) FROM trials WHERE state = 'RUNNING'";
    let running = conn.query_row(running, [], |row| row.get(0)).unwrap();
    (words.map(Result::unwrap).collect(), running)
}

#[test]
fn what_would_not_end_in_time_is_not_started() {
    let project = Project::synthetic();
    let slow = ["--set", "task.step_ms=200", "--pruner", "none"];
    let run = ["synthetic", "--trials", "1000", "--leave-in", "24s"];
    let start = Instant::now();
    let (out, err) = project.expect(4, &[&run[..], &slow].concat());
    assert!(start.elapsed() < Duration::from_secs(24));
    assert!((out.clone() + &err).contains("run.leave_in"), "{out}{err}");
    let (words, running) = attempts(&project);
    assert!(
        !words.is_empty() && words.iter().all(|w| w == "completed"),
        "{words:?}"
    );
    assert_eq!(running, 0);
}

#[test]
fn a_training_leaves_after_an_epoch_and_goes_on_from_there() {
    let project = Project::synthetic();
    let slow = [
        "--set",
        "task.step_ms=1500",
        "--set",
        "supervisor.checkpoint=true",
    ];
    let more = ["--pruner", "none", "--trials", "1"];
    let run = ["synthetic", "--leave-in", "21s"];
    let start = Instant::now();
    project.expect(4, &[&run[..], &slow, &more].concat());
    assert!(start.elapsed() < Duration::from_secs(15), "within the lead");
    let (words, running) = attempts(&project);
    assert_eq!((words, running), (vec!["interrupted".to_owned()], 1));
    let (json, _) = project.expect(0, &[&["synthetic", "--json"], &slow[..], &more].concat());
    let events = json
        .lines()
        .map(|l| serde_json::from_str::<Json>(l).unwrap());
    let epochs: Vec<u64> = events
        .filter(|e| e["event"] == "epoch_finished")
        .map(|e| e["epoch"].as_u64().unwrap())
        .collect();
    assert!(epochs.len() < 9 && epochs.last() == Some(&9), "{epochs:?}");
}
