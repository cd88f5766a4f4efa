//! Runs of the real binary on the synthetic task: goals, resumption, kills, stops.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::common::{Project, results, signal, wait_for};
use nix::sys::signal::Signal;
use rand::{RngExt, SeedableRng};

/// A trial takes about 0.36 s.
const SLOW: [&str; 4] = ["--set", "task.step_ms=8", "--set", "task.steps=5"];

fn with(args: &[&'static str], more: &[&'static str]) -> Vec<&'static str> {
    [args, more].concat()
}

fn open_attempts(project: &Project) -> i64 {
    project
        .connect()
        .query_row(
            "SELECT count(*) FROM tune_attempts a JOIN trials t USING (trial_id) \
             WHERE t.state = 'RUNNING' AND a.ended IS NULL",
            [],
            |row| row.get(0),
        )
        .unwrap_or(0)
}

#[test]
fn a_study_reaches_its_goal_and_the_same_command_again_is_done_at_once() {
    let project = Project::synthetic();
    let run = ["synthetic", "--trials", "12", "--parallel", "2"];
    let (stdout, _) = project.expect(0, &run);
    assert!(stdout.contains("12"), "{stdout}");
    let trials = project.trials("synthetic");
    assert_eq!(trials.len(), 12);
    assert!(
        trials
            .iter()
            .all(|t| t["state"] == "COMPLETE" || t["state"] == "PRUNED")
    );
    let before = results(&trials);
    project.expect(0, &run);
    assert_eq!(results(&project.trials("synthetic")), before);
    project.expect(0, &["synthetic", "--trials", "15", "--parallel", "2"]);
    assert_eq!(project.trials("synthetic").len(), 15);
}

#[test]
fn a_grid_ends_the_run_when_all_has_been_tried_and_says_so() {
    let project = Project::empty();
    let config = r#"
        task.kind = "synthetic"
        [space]
        "optim.lr" = { low = 1e-4, high = 1e-2, log = true }
        "optim.name" = { choices = ["adam", "sgd"] }
        "optim.momentum" = { low = 0.0, high = 0.8, step = 0.4, when = { "optim.name" = ["sgd"] } }
        [sampler]
        kind = "grid"
        n_points = 3
    "#;
    project.config("grid", config);
    let run = ["grid", "--trials", "1000", "--parallel", "2"];
    let (stdout, stderr) = project.expect(0, &run);
    let said = format!("{stdout}{stderr}");
    assert!(
        said.contains("every point of the grid has been tried"),
        "{said}"
    );
    let trials = project.trials("grid");
    let points: BTreeSet<String> = trials.iter().map(|t| t["params"].to_string()).collect();
    assert_eq!((trials.len(), points.len()), (12, 12));
    project.expect(0, &run);
    assert_eq!(project.trials("grid").len(), 12);
    // Other samplers go on.
    project.expect(0, &["grid", "--trials", "14", "--sampler", "sobol"]);
    assert_eq!(project.trials("grid").len(), 14);
}

#[test]
fn a_study_killed_at_random_moments_ends_with_the_trials_of_an_undisturbed_one() {
    let reference = Project::synthetic();
    let run = with(&["synthetic", "--trials", "20", "--parallel", "1"], &SLOW);
    let begun = Instant::now();
    let mut undisturbed = reference.start(&run);
    wait_for("the first attempt", || {
        reference.database().exists() && open_attempts(&reference) > 0
    });
    // Loading libtorch takes most of it, and longer where other tests run.
    let mut start = begun.elapsed();
    assert_eq!(undisturbed.wait().unwrap().code(), Some(0));

    let mut project = Project::synthetic();
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    let (mut kills, mut inside) = (0, 0);
    while (kills < 10 || inside < 5) && start > Duration::from_millis(1) {
        let mut child = project.start(&run);
        let lived = start.mul_f64(rng.random_range(0.1..2.0));
        std::thread::sleep(lived);
        if child.try_wait().unwrap().is_some() {
            // The first start was slow, because other tests ran: a study that ended unhurt is no test.
            start /= 4;
            project = Project::synthetic();
            (kills, inside) = (0, 0);
            continue;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        if project.database().exists() {
            let began = open_attempts(&project) > 0;
            inside += i32::from(began);
            // It may have taken long the first time only: the study must not end before it has been killed enough.
            // Or the machine is slower now than it was.
            start = if began {
                start.min(lived)
            } else {
                start.mul_f64(1.1)
            };
        }
        wait_for("the workers to be gone", || project.workers().is_empty());
    }
    assert!(
        kills >= 10 && inside >= 5,
        "{kills} kills, {inside} inside an attempt"
    );
    project.expect(0, &run);
    assert_eq!(
        results(&project.trials("synthetic")),
        results(&reference.trials("synthetic"))
    );
}

#[test]
fn a_worker_that_is_killed_is_replaced_and_its_trial_runs_again() {
    let project = Project::synthetic();
    let mut child = project.start(&with(
        &["synthetic", "--trials", "14", "--parallel", "2"],
        &SLOW,
    ));
    for _ in 0..3 {
        // Both are at work, so that whichever is killed leaves a trial behind.
        wait_for("two trials to run", || {
            project.database().exists() && open_attempts(&project) == 2
        });
        if let Some(&pid) = project.workers().first() {
            signal(pid, Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let trials = project.trials("synthetic");
    assert_eq!(trials.len(), 14);
    assert!(trials.iter().all(|t| t["state"] != "FAIL"));
    let again: usize = trials
        .iter()
        .map(|t| t["attempts"].as_array().unwrap().len() - 1)
        .sum();
    assert!(again >= 1, "no trial ran again");
    assert!(project.workers().is_empty());
}

#[test]
fn a_signal_stops_within_seconds_and_puts_running_trials_back() {
    let project = Project::synthetic();
    let at_once = ["--parallel", "2", "--grace", "0"];
    let run = with(&with(&["synthetic", "--trials", "8"], &at_once), &SLOW);
    let mut child = project.start(&run);
    wait_for("an attempt", || {
        project.database().exists() && open_attempts(&project) > 0
    });
    let start = Instant::now();
    signal(child.id(), Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(project.workers().is_empty());
    project.expect(0, &run);
    let trials = project.trials("synthetic");
    assert_eq!(trials.len(), 8, "nothing is lost, nothing is repeated");
}

#[test]
fn a_time_budget_ends_the_run_with_its_own_exit_code() {
    let project = Project::synthetic();
    project.expect(
        3,
        &with(
            &["synthetic", "--trials", "500", "--timeout", "1500ms"],
            &SLOW,
        ),
    );
    project.expect(0, &["status", "synthetic"]);
}

#[test]
fn a_held_study_names_its_holder() {
    let project = Project::synthetic();
    let run = with(&["synthetic", "--trials", "100"], &SLOW);
    let mut child = project.start(&run);
    wait_for("workers", || !project.workers().is_empty());
    let (_, stderr) = project.expect(6, &run);
    assert!(
        stderr.contains(&format!("process {}", child.id())),
        "{stderr}"
    );
    signal(child.id(), Signal::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

#[test]
fn a_hung_worker_is_noticed_and_the_trial_is_suspected_then_pruned() {
    let project = Project::synthetic();
    // One step takes 3 s, the deadline is 1 s: every attempt hangs.
    let (stdout, _) = project.expect(
        0,
        &[
            "synthetic",
            "--trials",
            "1",
            "--json",
            "--deadline",
            "1s",
            "--set",
            "task.step_ms=3000",
            "--set",
            "supervisor.grace=500ms",
        ],
    );
    let events: Vec<serde_json::Value> = stdout
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let faults: Vec<_> = events.iter().filter(|e| e["event"] == "fault").collect();
    assert_eq!(faults.len(), 2, "{stdout}");
    assert!(faults.iter().all(|f| f["fault"] == "hang"));
    let trials = project.trials("synthetic");
    assert_eq!(trials[0]["state"], "PRUNED");
    assert_eq!(trials[0]["attrs"]["hang"], true);
    assert_eq!(trials[0]["attempts"].as_array().unwrap().len(), 2);
}

#[test]
fn the_event_stream_is_one_object_a_line_from_start_to_finish() {
    let project = Project::synthetic();
    let (stdout, _) = project.expect(0, &["synthetic", "--trials", "3", "--json"]);
    let events: Vec<serde_json::Value> = stdout
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let names: Vec<&str> = events
        .iter()
        .map(|e| e["event"].as_str().unwrap())
        .collect();
    assert_eq!(names.first(), Some(&"run_started"));
    assert_eq!(names.last(), Some(&"run_finished"));
    assert_eq!(names.iter().filter(|n| **n == "trial_finished").count(), 3);
    assert!(
        events
            .iter()
            .all(|e| e["study"] == "synthetic" && e["time"].is_string())
    );
    assert_eq!(events.last().unwrap()["exit"], 0);
    let schema =
        serde_json::from_str(include_str!("../../docs/schemas/event.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for event in &events {
        if let Err(error) = validator.validate(event) {
            panic!("{event} does not obey its schema: {error}");
        }
    }
}

#[test]
fn while_the_supervisor_is_stopped_nobody_is_judged_silent() {
    let project = Project::synthetic();
    let run = with(&["synthetic", "--trials", "6", "--deadline", "1s"], &SLOW);
    let mut child = project.start(&run);
    wait_for("an attempt", || {
        project.database().exists() && open_attempts(&project) > 0
    });
    for _ in 0..2 {
        signal(child.id(), Signal::SIGSTOP);
        std::thread::sleep(Duration::from_secs(3));
        signal(child.id(), Signal::SIGCONT);
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for trial in project.trials("synthetic") {
        assert_eq!(trial["attempts"].as_array().unwrap().len(), 1, "{trial}");
    }
}

/// Two trials, of which the first one's worker is meddled with; gives the number of attempts of
/// each.
fn attempts_when(meddle: impl Fn(&Project, u32)) -> Vec<usize> {
    let project = Project::synthetic();
    let mut child = project.start(&with(&["synthetic", "--trials", "2"], &SLOW));
    wait_for("an attempt", || {
        project.database().exists() && open_attempts(&project) > 0
    });
    meddle(&project, project.workers()[0]);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let trials = project.trials("synthetic");
    assert!(
        trials.iter().all(|t| t["attrs"].get("fault").is_none()),
        "{trials:?}"
    );
    assert!(project.workers().is_empty());
    trials
        .iter()
        .map(|t| t["attempts"].as_array().unwrap().len())
        .collect()
}

#[test]
fn a_worker_that_is_stopped_is_told_to_go_on() {
    let attempts = attempts_when(|_, pid| signal(pid, Signal::SIGSTOP));
    assert_eq!(attempts, [1, 1]);
}

#[test]
fn a_worker_that_is_stopped_again_and_again_is_replaced_and_its_trial_not_blamed() {
    let attempts = attempts_when(|project, pid| {
        wait_for("the worker to be replaced", || {
            signal(pid, Signal::SIGSTOP);
            !project.workers().contains(&pid)
        });
    });
    assert_eq!(attempts, [2, 1]);
}

#[test]
fn a_trial_goes_on_from_its_checkpoint_and_ends_as_if_undisturbed() {
    let args = [
        "synthetic",
        "--trials",
        "1",
        "--epochs",
        "30",
        "--set",
        "task.steps=10",
        "--set",
        "task.noise=0.05",
        "--set",
        "task.step_ms=5",
        "--set",
        "train.patience=25",
        "--set",
        "supervisor.checkpoint=true",
    ];
    let undisturbed = Project::synthetic();
    undisturbed.expect(0, &args);
    let project = Project::synthetic();
    let checkpoint = project
        .path()
        .join("tune.db.d/checkpoints/synthetic/trial-000000/checkpoint.json");
    let mut child = project.start(&args);
    wait_for("a checkpoint", || checkpoint.exists());
    signal(project.workers()[0], Signal::SIGKILL);
    wait_for("the next worker", || !project.workers().is_empty());
    wait_for("a later checkpoint", || {
        std::fs::read_to_string(&checkpoint).is_ok_and(|text| text.contains("epoch-12.state"))
    });
    signal(child.id(), Signal::SIGKILL);
    child.wait().unwrap();
    project.expect(0, &args);
    assert_eq!(
        results(&project.trials("synthetic")),
        results(&undisturbed.trials("synthetic"))
    );
    let log = |attempt: u32| {
        let name = format!("tune.db.d/logs/synthetic/trial-000000-attempt-{attempt}.log");
        std::fs::read_to_string(project.path().join(name)).unwrap()
    };
    assert!(log(1).contains("goes on after epoch"), "{}", log(1));
    let resumed_at: u32 = log(2)
        .lines()
        .find_map(|l| l.strip_prefix("goes on after epoch "))
        .unwrap()
        .parse()
        .unwrap();
    assert!(resumed_at >= 12, "{resumed_at}");
    assert!(
        !checkpoint.parent().unwrap().exists(),
        "deleted with the trial's end"
    );
}

#[test]
fn different_slots_and_a_changed_space_are_told_apart() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "2"]);
    // Operational keys may change.
    project.expect(
        0,
        &[
            "synthetic",
            "--trials",
            "3",
            "--parallel",
            "2",
            "--sampler",
            "random",
        ],
    );
    // What values depend on may not.
    let (_, stderr) = project.expect(8, &["synthetic", "--trials", "4", "--epochs", "5"]);
    assert!(stderr.contains("train.epochs"), "{stderr}");
    let (_, stderr) = project.expect(8, &["synthetic", "--trials", "4", "--seed", "9"]);
    assert!(stderr.contains("seed"), "{stderr}");
    assert_eq!(project.trials("synthetic").len(), 3);
}

#[test]
fn a_worker_dies_of_one_segmentation_fault_that_was_sent_from_outside() {
    let project = Project::synthetic();
    let mut child = project.start(&with(&["synthetic", "--trials", "6"], &SLOW));
    wait_for("a trial to run", || {
        project.database().exists() && open_attempts(&project) == 1
    });
    signal(project.workers()[0], Signal::SIGSEGV);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let crashes: i64 = project
        .connect()
        .query_row(
            "SELECT count(*) FROM tune_attempts WHERE outcome = 'crash' AND detail LIKE '%SIGSEGV%'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(crashes, 1);
}
