//! Repeats, the winner and its test split, with the real binary: undisturbed, killed, out of time,
//! with faults, and asked for again.

use crate::common::{Project, results, wait_for};
use serde_json::Value as Json;

/// A noisy search whose trials do not depend on their order, with these arguments besides.
fn noisy<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec![
        "synthetic",
        "--set",
        "task.noise=0.3",
        "--set",
        "sampler.kind=random",
        "--set",
        "pruner.kind=none",
    ];
    args.extend(more);
    args
}

fn events(stdout: &str) -> Vec<Json> {
    stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn named<'a>(events: &'a [Json], name: &str) -> Vec<&'a Json> {
    events.iter().filter(|e| e["event"] == name).collect()
}

fn json(project: &Project, args: &[&str]) -> Json {
    serde_json::from_str(&project.expect(0, args).0).unwrap()
}

/// What the study says of its selection and its test.
fn outcome(project: &Project) -> (Json, Json) {
    let best = json(project, &["best", "synthetic", "--json"]);
    (best["selection"].clone(), best["test"].clone())
}

/// Repeats and tests that have ended.
fn ended(project: &Project) -> u64 {
    let sql = "SELECT COUNT(*) FROM tune_repeats WHERE ended IS NOT NULL";
    let conn = project.connect();
    conn.query_row(sql, [], |row| row.get(0)).unwrap_or(0)
}

#[test]
fn the_leaders_run_again_the_best_mean_wins_and_is_tested_once() {
    let project = Project::synthetic();
    let args = noisy(&[
        "--trials",
        "20",
        "--parallel",
        "2",
        "--repeats",
        "3",
        "--pruner",
        "median",
        "--json",
    ]);
    let (stdout, _) = project.expect(0, &args);
    let events = events(&stdout);
    let schema: Json =
        serde_json::from_str(include_str!("../../docs/schemas/event.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for event in &events {
        assert!(validator.is_valid(event), "{event}");
    }
    let started = named(&events, "repeat_started");
    let mut seeds: Vec<u64> = started
        .iter()
        .map(|e| e["seed"].as_u64().unwrap())
        .collect();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(
        seeds.len(),
        started.len(),
        "every repeat has a seed of its own"
    );
    // Eight leaders twice, the better four once more, and the test.
    assert_eq!(started.len(), 8 * 2 + 4 + 1);
    let ended = named(&events, "repeat_finished");
    assert!(ended.iter().all(|e| e["state"] == "COMPLETE"), "no pruner");
    let selected = named(&events, "winner_selected");
    let finished = named(&events, "run_finished");
    assert_eq!((selected.len(), finished.len()), (1, 1));
    let (selection, test) = outcome(&project);
    assert_eq!(finished[0]["selection"], selection);
    assert_eq!(finished[0]["test"], test);
    assert_eq!(finished[0]["front"], Json::Null);
    let winner = &selection["winner"];
    assert_eq!(winner["values"].as_array().unwrap().len(), 3);
    let number = |key: &str| winner[key].as_f64().unwrap();
    assert!(number("low") < number("mean") && number("mean") < number("high"));
    assert_eq!(test["number"], winner["number"]);
    assert_ne!(test["value"], test["validation"]);
    assert!(test["baseline"]["value"].as_f64().unwrap() > 2.0);
    let trials = project.trials("synthetic");
    assert_eq!(trials.len(), 20, "repeats are no trials");
    let noted = &trials[winner["number"].as_u64().unwrap() as usize]["attrs"];
    assert_eq!(noted["repeats.mean"], winner["mean"]);
    let shown = project
        .expect(0, &["show", "synthetic", &winner["number"].to_string()])
        .0;
    assert!(shown.contains("repeat 3") && shown.contains("-repeat-1-attempt-0.log"));
    let text = project.expect(0, &["best", "synthetic"]).0;
    assert!(text.contains("winner by repeats: trial") && text.contains("test split: trial"));
}

#[test]
fn the_same_line_again_runs_nothing_and_shows_the_stored_test() {
    let project = Project::synthetic();
    let args = noisy(&["--trials", "10", "--repeats", "2", "--json"]);
    project.expect(0, &args);
    let before = outcome(&project);
    let (stdout, _) = project.expect(0, &args);
    let events = events(&stdout);
    for name in ["worker_started", "repeat_started", "winner_selected"] {
        assert!(named(&events, name).is_empty(), "{name}");
    }
    let finished = named(&events, "run_finished")[0];
    assert_eq!(finished["test"], before.1);
    assert_eq!(outcome(&project), before);
    // A run that repeats nothing tells the same winner, as `tune best` does.
    let (stdout, _) = project.expect(0, &noisy(&["--trials", "10", "--json"]));
    let finished = self::events(&stdout).pop().unwrap();
    assert_eq!(finished["selection"], before.0);
    let (line, _) = project.expect(0, &noisy(&["--trials", "10"]));
    let winner = format!("winner by repeats trial {}", before.0["winner"]["number"]);
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.contains(&winner), "{line}");
}

#[test]
fn the_search_is_the_same_with_repeats_and_without() {
    let (plain, repeated) = (Project::synthetic(), Project::synthetic());
    plain.expect(0, &noisy(&["--trials", "8"]));
    repeated.expect(0, &noisy(&["--trials", "8", "--repeats", "2"]));
    plain.expect(0, &noisy(&["--trials", "14", "--sampler", "tpe"]));
    repeated.expect(
        0,
        &noisy(&["--trials", "14", "--sampler", "tpe", "--repeats", "2"]),
    );
    let [plain, repeated] = [plain, repeated].map(|p| results(&p.trials("synthetic")));
    assert_eq!(plain, repeated);
}

#[test]
fn a_run_that_is_killed_in_the_middle_of_its_repeats_comes_to_the_same_winner() {
    let undisturbed = Project::synthetic();
    let slow = ["--trials", "10", "--repeats", "4", "--parallel", "2"];
    let args = noisy(&slow);
    undisturbed.expect(0, &args);
    let project = Project::synthetic();
    project.expect(0, &noisy(&["--trials", "10"]));
    let mut args = args;
    args.extend(["--set", "task.step_ms=8"]);
    for least in [1, 4, 9, 14] {
        let mut child = project.start(&args);
        wait_for("repeats", || {
            ended(&project) >= least && !project.workers().is_empty()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        wait_for("the workers to be gone", || project.workers().is_empty());
    }
    project.expect(0, &args);
    assert_eq!(
        results(&undisturbed.trials("synthetic")),
        results(&project.trials("synthetic"))
    );
    assert_eq!(outcome(&undisturbed), outcome(&project));
    let interrupted: u64 = project
        .connect()
        .query_row(
            "SELECT COUNT(*) FROM tune_repeat_attempts WHERE outcome = 'interrupted'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert!(interrupted >= 1, "a repeat was cut short and ran again");
}

#[test]
fn faults_and_the_end_of_the_time_budget_change_no_repeat() {
    let undisturbed = Project::synthetic();
    undisturbed.expect(0, &noisy(&["--trials", "8", "--repeats", "3"]));
    let project = Project::synthetic();
    project.expect(0, &noisy(&["--trials", "8"]));
    let slow = [
        "--trials",
        "8",
        "--repeats",
        "3",
        "--set",
        "task.step_ms=30",
    ];
    let mut short = noisy(&slow);
    short.extend(["--timeout", "700ms", "--grace", "0"]);
    project.expect(3, &short);
    let open = ended(&project);
    let mut faulty = noisy(&["--trials", "8", "--repeats", "3", "--json"]);
    faulty.extend([
        "--inject",
        "kill:0.3,segv:0.2",
        "--set",
        "supervisor.backoff=10ms",
    ]);
    let (stdout, _) = project.expect(0, &faulty);
    let events = events(&stdout);
    let faults = named(&events, "fault");
    assert!(!faults.is_empty());
    assert!(faults.iter().all(|e| e["purpose"] != "search"));
    assert!(ended(&project) > open);
    assert_eq!(outcome(&undisturbed), outcome(&project));
}

#[test]
fn the_test_split_is_used_for_a_second_winner_only_where_that_is_asked_for() {
    let project = Project::synthetic();
    project.expect(0, &noisy(&["--trials", "3", "--test"]));
    let first = outcome(&project).1;
    assert_eq!(first["looks"], 1);
    let (stdout, _) = project.expect(0, &noisy(&["--trials", "60", "--test"]));
    let best = json(&project, &["best", "synthetic", "--json"]);
    assert_ne!(
        best["best"]["number"], first["number"],
        "a better one was found"
    );
    assert_eq!(best["test"], first, "the stored value stands");
    assert!(stdout.contains("has been used for trial"), "{stdout}");
    assert!(
        stdout.contains("wins now and has no test value"),
        "{stdout}"
    );
    let (stdout, _) = project.expect(0, &noisy(&["--trials", "60", "--test=again"]));
    assert!(stdout.contains("has been used for 2 trials"), "{stdout}");
    let second = outcome(&project).1;
    assert_eq!(
        (&second["number"], &second["looks"]),
        (&best["best"]["number"], &2.into())
    );
}

#[test]
fn a_program_is_repeated_with_other_seeds_and_has_no_test_split_of_ours() {
    let project = Project::empty();
    project.config(
        "noise",
        r#"
        [task]
        kind = "command"
        run = ["sh", "-c", "echo \"{\\\"loss\\\": 0.${TUNE_SEED}}\""]
        [objective]
        metric = "loss"
        direction = "minimize"
        [space]
        "x" = { low = 0.0, high = 1.0 }
        "#,
    );
    let (_, stderr) = project.expect(2, &["noise", "--trials", "4", "--test"]);
    assert!(stderr.contains("the program's own affair"), "{stderr}");
    project.expect(0, &["noise", "--trials", "4", "--repeats", "2"]);
    let best = json(&project, &["best", "noise", "--json"]);
    let values = best["selection"]["winner"]["values"].as_array().unwrap();
    assert_eq!(values.len(), 2);
    assert_ne!(values[0], values[1]);
    assert_eq!(best["test"], Json::Null);
}

#[test]
fn a_grid_that_has_been_tried_out_is_followed_by_its_repeats() {
    let project = Project::empty();
    let config = r#"
        task = { kind = "synthetic", noise = 0.3 }
        [space]
        "optim.lr" = { low = 1e-4, high = 1e-2, log = true }
        "optim.name" = { choices = ["adam", "sgd"] }
        [sampler]
        kind = "grid"
        n_points = 3
    "#;
    project.config("grid", config);
    let run = ["grid", "--trials", "1000", "--repeats", "2", "--json"];
    let (stdout, _) = project.expect(0, &run);
    let events = events(&stdout);
    assert_eq!(named(&events, "trial_started").len(), 6);
    assert_eq!(named(&events, "repeat_started").len(), 6 * 2 + 1);
    let finished = named(&events, "run_finished")[0];
    assert_eq!(finished["reason"], "every point of the grid has been tried");
    assert_eq!(
        finished["test"]["number"],
        finished["selection"]["winner"]["number"]
    );
}

#[test]
fn a_repeat_that_fails_for_good_counts_as_missing() {
    let project = Project::empty();
    // A repeat has a name of its own for its checkpoints: there the program fails.
    project.config(
        "fails",
        r#"
        [task]
        kind = "command"
        run = ["sh", "-c", "if [ \"$TUNE_PARAM_X\" = a ] && [ \"$TUNE_TRIAL\" != \"\" ] && [ -e again ]; then exit 3; fi; case $TUNE_PARAM_X in a) echo '{\"loss\": 1.0}';; *) echo '{\"loss\": 2.0}';; esac"]
        [objective]
        metric = "loss"
        direction = "minimize"
        [space]
        "x" = { choices = ["a", "b"] }
        "#,
    );
    project.expect(0, &["fails", "--trials", "8", "--sampler", "random"]);
    std::fs::write(project.path().join("again"), "").unwrap();
    let (stdout, _) = project.expect(
        0,
        &[
            "fails",
            "--trials",
            "8",
            "--sampler",
            "random",
            "--repeats",
            "2",
        ],
    );
    assert!(stdout.contains("2 repeats failed for good"), "{stdout}");
    let best = json(&project, &["best", "fails", "--json"]);
    assert_eq!(best["selection"]["missing"], 2);
    assert_eq!(best["best"]["params"]["x"], "b");
    assert_eq!(best["selection"]["naive"]["optimism"], Json::Null);
}
