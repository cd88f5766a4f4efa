//! Small studies, judged.

use serde_json::json;

use super::*;

fn trial(number: u64, state: &str, value: f64, outcomes: &[&str]) -> Json {
    let attempts: Vec<Json> = outcomes.iter().map(|o| json!({ "outcome": o })).collect();
    json!({
        "number": number, "state": state, "value": value, "params": {}, "intermediate": {},
        "attrs": { "seed": number }, "attempts": attempts,
    })
}

fn peace() -> Vec<Json> {
    (0..3)
        .map(|n| trial(n, "COMPLETE", n as f64, &["completed"]))
        .collect()
}

fn entry(kind: Kind, trial: u64) -> Entry {
    Entry {
        time: "2026-01-01T00:00:00Z".into(),
        trial,
        attempt: 0,
        pid: 7,
        kind,
        culprit: false,
        left: None,
    }
}

fn event(name: &str, second: u32, fields: Json) -> Json {
    let mut event = json!({ "event": name, "time": format!("2026-01-01T00:00:{second:02}Z") });
    let (Some(event_fields), Json::Object(fields)) = (event.as_object_mut(), fields) else {
        panic!("no object");
    };
    event_fields.extend(fields);
    event
}

/// A run in which trial 1 met a fault in worker 0 and ran again in `next`.
fn run(fault: &str, verdict: &str, next: u64) -> Vec<Json> {
    let mut events = vec![
        event("trial_started", 0, json!({ "number": 1, "worker": 0 })),
        event(
            "fault",
            2,
            json!({ "number": 1, "attempt": 0, "worker": 0, "fault": fault, "verdict": verdict }),
        ),
    ];
    if next != 0 {
        events.push(event(
            "worker_stopped",
            2,
            json!({ "worker": 0, "reason": fault }),
        ));
    }
    events.push(event(
        "trial_started",
        3,
        json!({ "number": 1, "worker": next }),
    ));
    events.push(event("epoch_finished", 5, json!({ "number": 1 })));
    events.push(event("trial_finished", 6, json!({ "number": 1 })));
    events
}

fn observed(kind: Kind, events: Vec<Json>) -> Observed {
    Observed {
        events,
        ledger: vec![entry(kind, 1)],
        trials: peace(),
        max_log_bytes: 100,
        goal: 3,
        ..Observed::default()
    }
}

fn judged(observed: &Observed) -> (Row, Vec<String>) {
    let kind = observed.ledger[0].kind;
    let mut rows = BTreeMap::from([(kind, Row::new(kind, Form::Real))]);
    let problems = judge(&peace(), observed, &mut rows);
    (rows.remove(&kind).unwrap(), problems)
}

#[test]
fn a_victim_that_ran_again_on_a_fresh_worker_is_as_it_should_be() {
    let (row, problems) = judged(&observed(Kind::Segv, run("crash", "suspect", 1)));
    assert_eq!(problems, Vec::<String>::new());
    assert!(row.held);
    assert_eq!(row.injected, 1);
    assert_eq!(row.detected, BTreeMap::from([("crash".into(), 1)]));
    assert_eq!(row.action, BTreeMap::from([("suspect, restart".into(), 1)]));
    assert_eq!(row.detection.median(), Some(2.0));
    assert_eq!(row.next_step.median(), Some(5.0));
}

#[test]
fn a_fault_taken_for_another_does_not_hold() {
    let (row, problems) = judged(&observed(Kind::Segv, run("killed", "again", 1)));
    assert!(!row.held);
    assert_eq!(
        problems,
        ["segv, trial 1, attempt 0: detected as killed, expected crash"]
    );
    let (row, _) = judged(&observed(Kind::Spin, vec![]));
    assert!(!row.held && row.detected.contains_key("nothing"));
}

#[test]
fn an_attempt_in_a_process_after_a_sticky_error_is_counted() {
    let (row, problems) = judged(&observed(Kind::Assert, run("cuda_sticky", "suspect", 0)));
    assert_eq!(row.reused, 1);
    assert!(
        problems[0].contains("began in its process afterwards"),
        "{problems:?}"
    );
    let (row, _) = judged(&observed(Kind::Assert, run("cuda_sticky", "suspect", 1)));
    assert_eq!(row.reused, 0);
    // After an error that is not sticky the process may go on.
    let (row, problems) = judged(&observed(Kind::Oom, run("oom", "again", 0)));
    assert_eq!((row.reused, problems.len()), (0, 0));
    assert!(row.action.contains_key("again, continue"));
}

#[test]
fn a_process_that_was_only_not_needed_any_more_went_on() {
    let ending = |later: Option<Json>| {
        let mut events = run("oom", "pruned", 1);
        events.truncate(2);
        events.push(event(
            "worker_stopped",
            3,
            json!({ "worker": 0, "reason": "done" }),
        ));
        events.extend(later);
        judged(&observed(Kind::Oom, events)).0.action
    };
    assert!(ending(None).contains_key("pruned, continue"));
    let replaced = event("worker_started", 4, json!({ "worker": 1 }));
    assert!(ending(Some(replaced)).contains_key("pruned, restart"));
}

#[test]
fn lost_repeated_and_changed_trials_are_found() {
    let good = || observed(Kind::Kill, run("killed", "again", 1));
    let mut lost = good();
    lost.trials[1] = trial(1, "RUNNING", 1.0, &["killed"]);
    let (row, problems) = judged(&lost);
    assert_eq!(row.lost, 1);
    assert!(problems.iter().any(|p| p.contains("trial 1 is lost")));
    let mut missing = good();
    missing.trials.remove(1);
    assert_eq!(judged(&missing).0.lost, 1);
    let mut repeated = good();
    repeated.trials[1] = trial(1, "COMPLETE", 1.0, &["completed", "completed"]);
    assert_eq!(judged(&repeated).0.repeated, 1);
    let mut changed = good();
    changed.trials[2] = trial(2, "COMPLETE", 9.0, &["completed"]);
    assert!(judged(&changed).1[0].starts_with("trial 2 was no culprit"));
}

#[test]
fn culprits_and_trials_that_a_fault_ends_may_differ_but_only_so() {
    let mut failed = observed(Kind::Error, run("task_error", "fail", 1));
    failed.trials[1] = trial(1, "FAIL", 0.0, &["task_error"]);
    failed.goal = 2;
    assert_eq!(judged(&failed).1, Vec::<String>::new());
    failed.trials[1] = trial(1, "COMPLETE", 7.0, &["completed"]);
    assert!(judged(&failed).1[0].contains("expected FAIL"));
    let mut culprit = observed(Kind::Segv, run("crash", "suspect", 1));
    culprit.ledger[0].culprit = true;
    culprit.trials[1] = trial(1, "PRUNED", 0.0, &["crash", "crash"]);
    assert_eq!(judged(&culprit).1, Vec::<String>::new());
}

#[test]
fn strays_and_logs_that_are_too_large_are_found() {
    let mut stray = observed(Kind::Stray, run("killed", "again", 1));
    stray.ledger[0].left = Some(99);
    assert!(judged(&stray).0.held);
    stray.left_over = vec![99];
    assert!(judged(&stray).1[0].contains("outlived the run"));
    let mut flood = observed(Kind::Flood, vec![]);
    flood.logs.insert((1, 0), 100);
    assert!(judged(&flood).0.held);
    flood.logs.insert((1, 0), 101);
    assert!(!judged(&flood).0.held);
}
