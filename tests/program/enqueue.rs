//! Points that people enqueue: run next and as they are, or refused all together.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::common::{Project, signal, wait_for};
use serde_json::{Value as Json, json};

fn enqueued(stdout: &str) -> Json {
    serde_json::from_str(stdout).unwrap()
}

#[test]
fn a_point_is_tried_next_and_the_search_chooses_the_rest() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "3"]);
    let point = [
        "enqueue",
        "synthetic",
        "optim.name=sgd",
        "optim.momentum=0.5",
        "optim.lr=1e-3",
    ];
    let (stdout, _) = project.expect(0, &point);
    assert!(
        stdout.contains("enqueued in synthetic: trial 3\n"),
        "{stdout}"
    );
    let advice = "1 trial waits, and the goal of 3 trials leaves room for 0; to run them all:\n";
    assert!(stdout.contains(advice), "{stdout}");
    let command = format!(
        "tune -C {} synthetic --trials 4\n",
        project.path().display()
    );
    assert!(stdout.ends_with(&command), "{stdout}");
    // The goal is reached: the same line again leaves the point waiting, the one told runs it.
    project.expect(0, &["synthetic", "--trials", "3"]);
    assert_eq!(project.trials("synthetic")[3]["state"], "WAITING");
    project.expect(0, &["synthetic", "--trials", "4"]);
    let trials = project.trials("synthetic");
    assert_eq!(trials.len(), 4);
    let params = trials[3]["params"].as_object().unwrap();
    assert_eq!(
        (&params["optim.name"], &params["optim.momentum"]),
        (&json!("sgd"), &json!(0.5))
    );
    assert_eq!(params["optim.lr"], json!(0.001));
    assert!(params.contains_key("model.layers") && params.contains_key("model.width"));
}

#[test]
fn one_wrong_line_keeps_the_whole_file_out() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "2"]);
    let file = project.path().join("points.jsonl");
    let good = "{\"optim.lr\": 0.01}\n";
    let bad = "{\"optim.lr\": 2}\n{\"optim.lrr\": 0.1, \"optim.name\": \"lion\"}\n\
               {\"optim.momentum\": 0.5, \"optim.name\": \"adam\"}\n{\"train.epochs\": 3}\n";
    fs::write(&file, format!("{good}{bad}")).unwrap();
    let path = file.to_str().unwrap();
    let (stdout, stderr) = project.expect(2, &["enqueue", "synthetic", "--file", path]);
    assert_eq!(stdout, "");
    for part in [
        "5 problems",
        "points.jsonl:2: optim.lr: found 2 (integer), expected a number in 1e-5..1.0 log",
        "points.jsonl:3: optim.lrr: ",
        "(did you mean optim.lr?)",
        "points.jsonl:3: optim.name: found \"lion\"",
        "points.jsonl:4: optim.momentum: found it beside optim.name = adam",
        "points.jsonl:5: train.epochs: found a value for a key that the study fixes at 9",
    ] {
        assert!(stderr.contains(part), "{part} is missing in\n{stderr}");
    }
    assert_eq!(project.trials("synthetic").len(), 2, "nothing is written");

    let mut child = project
        .tune(&["enqueue", "synthetic", "--file", "-", "--json"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = format!("{good}\n{{\"model.layers\": 3}}\n");
    child
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let told = enqueued(&String::from_utf8_lossy(&output.stdout));
    let expected = json!({"version": 1, "study": "synthetic", "numbers": [2, 3], "skipped": []});
    assert_eq!(told, expected);
    let states: Vec<Json> = project
        .trials("synthetic")
        .iter()
        .map(|t| t["state"].clone())
        .collect();
    assert_eq!(states[2..], [json!("WAITING"), json!("WAITING")]);
}

#[test]
fn a_point_that_is_there_is_told_and_left_out_where_that_is_asked_for() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "1"]);
    let point = ["enqueue", "synthetic", "model.layers=3"];
    project.expect(0, &point);
    let (stdout, _) = project.expect(0, &point);
    assert!(
        stdout.contains("the point of trial 2 is that of trial 1"),
        "{stdout}"
    );
    let skip = [&point[..], &["--skip-existing", "--json"]].concat();
    let (stdout, _) = project.expect(0, &skip);
    let expected = json!({"version": 1, "study": "synthetic", "numbers": [], "skipped": [1]});
    assert_eq!(enqueued(&stdout), expected);
    assert_eq!(project.trials("synthetic").len(), 3);
}

#[test]
fn a_run_takes_what_is_enqueued_while_it_works() {
    let project = Project::synthetic();
    let line = [
        "synthetic",
        "--trials",
        "1000000",
        "--set",
        "task.step_ms=5",
    ];
    let mut child = project.start(&line);
    let trials = || project.trials("synthetic");
    wait_for("a trial", || {
        project.database().exists() && {
            let sql = "SELECT COUNT(*) FROM trials WHERE state <> 'RUNNING'";
            let count = project.connect().query_row(sql, [], |r| r.get::<_, u64>(0));
            count.is_ok_and(|n| n > 0)
        }
    });
    let (stdout, _) = project.expect(0, &["enqueue", "synthetic", "optim.lr=0.0123", "--json"]);
    let number = enqueued(&stdout)["numbers"][0].as_u64().unwrap() as usize;
    wait_for("its end", || {
        trials()
            .get(number)
            .is_some_and(|t| t["state"] == "COMPLETE" || t["state"] == "PRUNED")
    });
    assert_eq!(trials()[number]["params"]["optim.lr"], json!(0.0123));
    signal(child.id(), nix::sys::signal::Signal::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

#[test]
fn a_lock_is_waited_for() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "1"]);
    let writer = project.connect();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let child = project
        .tune(&["enqueue", "synthetic", "model.layers=3"])
        .spawn()
        .unwrap();
    // Its note is the sign that it waits.
    let mut child = child;
    let mut note = String::new();
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut stderr, &mut note).unwrap();
    assert!(
        note.contains("another program holds the database's lock"),
        "{note}"
    );
    writer.execute_batch("ROLLBACK").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(project.trials("synthetic").len(), 2);
}

#[test]
fn the_rest_of_a_point_obeys_the_constraints() {
    let project = Project::empty();
    project.config(
        "tight",
        "[task]\nkind = \"synthetic\"\n[space]\n\
         \"model.layers\" = { low = 1, high = 64, default = 1 }\n\
         \"model.width\" = { low = 1, high = 64, default = 1 }\n\
         [[constraints]]\nexpr = \"model.layers * model.width <= 64\"\n",
    );
    project.expect(0, &["tight", "--trials", "1"]);
    let refused = ["enqueue", "tight", "model.layers=64", "model.width=2"];
    let (_, stderr) = project.expect(2, &refused);
    let found = "constraints: found model.layers = 64, model.width = 2";
    assert!(stderr.contains(found), "{stderr}");
    project.expect(0, &["enqueue", "tight", "model.layers=64"]);
    project.expect(0, &["tight", "--trials", "2"]);
    let params = json!({"model.layers": 64, "model.width": 1});
    assert_eq!(project.trials("tight")[1]["params"], params);
    assert_eq!(project.trials("tight")[1]["state"], "COMPLETE");
}

#[test]
fn a_study_of_another_program_is_checked_against_what_its_trials_show() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "2"]);
    let connection = project.connect();
    connection.execute("DELETE FROM tune_studies", []).unwrap();
    connection.execute("DELETE FROM tune_runs", []).unwrap();
    drop(connection);
    let (_, stderr) = project.expect(2, &["enqueue", "synthetic", "model.layers=9"]);
    assert!(stderr.contains("expected an integer in 1..8"), "{stderr}");
    let (stdout, _) = project.expect(0, &["enqueue", "synthetic", "model.layers=8"]);
    let command = stdout.lines().last().unwrap();
    let (tune, rest) = command.split_once(" synthetic ").unwrap();
    assert!(tune.contains("tune -C "), "{stdout}");
    assert_eq!(rest, "--study synthetic --trials 3");
    // The run that takes the study over warns of it, later ones do not.
    let warning = "made by another program: its 2 finished trials count towards the goal";
    let (stdout, _) = project.expect(0, &["synthetic", "--trials", "3"]);
    assert!(stdout.contains(warning), "{stdout}");
    let (stdout, _) = project.expect(0, &["synthetic", "--trials", "4"]);
    assert!(!stdout.contains("another program"), "{stdout}");
    // What was there then is copied nowhere with its value: of four trials, the last one is.
    let from = [
        "synthetic",
        "--study",
        "new",
        "--from",
        "synthetic",
        "--trials",
        "3",
    ];
    let (stdout, _) = project.expect(0, &from);
    assert!(
        stdout.contains("3 for values: of another program"),
        "{stdout}"
    );
    let origin = |t: &Json| Some(t["attrs"].get("copied_from")?["number"].clone());
    let numbers: Vec<Json> = project.trials("new").iter().filter_map(origin).collect();
    assert_eq!(numbers, [3]);
}

#[test]
fn a_study_whose_points_a_program_asks_for_takes_none() {
    let project = Project::empty();
    let mut child = project
        .tune(&["ask-tell"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let init = json!({
        "op": "init", "protocol": 1, "seed": 7, "direction": "minimize", "n_evals": 9,
        "max_step": null, "storage": project.database(), "study": "served",
        "space": [{"name": "lr", "type": "float", "low": 0, "high": 1}],
    });
    let tell = "{\"op\":\"tell\",\"id\":0,\"value\":1,\"state\":\"ok\"}";
    let lines = format!("{init}\n{{\"op\":\"ask\"}}\n{tell}\n");
    let mut requests = child.stdin.take().unwrap();
    requests.write_all(lines.as_bytes()).unwrap();
    drop(requests);
    assert!(child.wait().unwrap().success());
    let (_, stderr) = project.expect(2, &["enqueue", "served", "lr=0.5"]);
    assert!(stderr.contains("asked for by a program"), "{stderr}");
    assert_eq!(project.trials("served").len(), 1);
    // Nor is there anything to train its trials by.
    for args in [
        &["replay", "served", "0"][..],
        &["simplify", "served"],
        &["bisect", "served", "0"],
        &["export", "served", "-o", "w"],
    ] {
        let (_, stderr) = project.expect(2, args);
        assert!(
            stderr.contains("there is no task to train one by"),
            "{stderr}"
        );
    }
}

#[test]
fn quiet_means_that_only_errors_are_told() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "1"]);
    let told = project.expect(0, &["enqueue", "synthetic", "model.layers=3", "-q"]);
    assert_eq!(told, (String::new(), String::new()));
    assert_eq!(project.trials("synthetic").len(), 2);
    let (_, stderr) = project.expect(2, &["enqueue", "synthetic", "model.layers=99", "-q"]);
    assert!(stderr.contains("model.layers"), "{stderr}");
    // Nor do other commands that do something say that they have.
    let script = ["init", "made", "--script", "echo f1=0.5 --lr {lr}", "-q"];
    for args in [
        &["strike", "synthetic", "0", "--why", "wrong", "-q"][..],
        &["rename", "synthetic", "other", "-q"],
        &["delete", "other", "--yes", "-q"],
        &script,
    ] {
        let told = project.expect(0, args);
        assert_eq!(told, (String::new(), String::new()), "{args:?}");
    }
    assert!(project.path().join("configs/made.toml").is_file());
}

#[test]
fn a_byte_order_mark_before_the_points_is_skipped() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "1"]);
    let file = project.path().join("points.jsonl");
    fs::write(&file, "\u{feff}{\"model.layers\": 3}\n").unwrap();
    let path = file.to_str().unwrap();
    project.expect(0, &["enqueue", "synthetic", "--file", path]);
}

#[test]
fn an_unknown_study_and_a_missing_point_are_usage_errors() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "1"]);
    let (_, stderr) = project.expect(2, &["enqueue", "other", "model.layers=3"]);
    assert!(stderr.contains("it holds: synthetic"), "{stderr}");
    project.expect(2, &["enqueue", "synthetic"]);
    project.expect(2, &["enqueue", "synthetic", "model.layers"]);
    project.expect(2, &["enqueue", "synthetic", "--file", "nosuch.jsonl"]);
    let file = project.path().join("empty.jsonl");
    fs::write(&file, "\n").unwrap();
    let path = file.to_str().unwrap();
    let (_, stderr) = project.expect(2, &["enqueue", "synthetic", "--file", path]);
    assert!(stderr.contains("found no line"), "{stderr}");
}

#[test]
fn a_part_of_a_point_is_completed_within_the_constraints() {
    let project = Project::empty();
    // Neither what the sampler proposes nor the default leaves room for width 60 as a rule.
    let text = "[task]\nkind = \"synthetic\"\n[space]\n\
                \"model.width\" = { low = 1, high = 64, int = true, default = 8 }\n\
                \"model.layers\" = { low = 1, high = 64, int = true, default = 8 }\n\
                [[constraints]]\nexpr = \"model.width * model.layers <= 64\"\n";
    project.config("t", text);
    project.expect(0, &["t", "--trials", "1"]);
    for _ in 0..3 {
        project.expect(0, &["enqueue", "t", "model.width=60"]);
    }
    project.expect(0, &["t", "--trials", "4"]);
    for trial in &project.trials("t")[1..] {
        assert_eq!(
            trial["params"],
            json!({"model.width": 60, "model.layers": 1})
        );
        assert_eq!(trial["attrs"].get("infeasible"), None);
    }
}
