//! What people see of studies from a second terminal, and what they do to them there.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output};

use serde_json::{Value as Json, json};

use crate::common::{Project, program, valid, wait_for};

fn ask(project: &Project, args: &[&str]) -> Json {
    let args = [args, &["--json"]].concat();
    serde_json::from_str(&project.expect(0, &args).0).unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A task whose trials take long enough to be looked at: a program that says a step and waits for a file.
fn waiting() -> Project {
    let project = Project::empty();
    let go = project.path().join("go");
    let script = format!(
        "echo loss=0.5; while [ ! -e {} ]; do sleep 0.02; done; echo loss=0.25",
        go.display()
    );
    let run = json!(["sh", "-c", script, "{lr}"]);
    project.config(
        "slow",
        &format!(
            "[task]\nkind = \"command\"\nrun = {run}\nvalue = 'loss=([0-9.]+)'\n\
             [objective]\nmetric = \"loss\"\ndirection = \"minimize\"\n\
             [space]\nlr = {{ low = 0.1, high = 1.0 }}\n"
        ),
    );
    project
}

/// Starts the slow task and waits until its first trial has printed something.
fn started(project: &Project) -> std::process::Child {
    let child = project.start(&["slow", "--trials", "2"]);
    wait_for("a trial", || {
        let output = project.run(&["logs", "slow", "0"]);
        stdout(&output).contains("loss=0.5")
    });
    child
}

#[test]
fn every_answer_obeys_its_schema() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "4", "--seed", "3"]);
    project.expect(0, &["synthetic", "--trials", "3", "--study", "other"]);
    let two = [
        "synthetic",
        "--study",
        "two",
        "--trials",
        "3",
        "--objective",
        "loss:min",
        "--objective",
        "cost:min",
    ];
    project.expect(0, &two);
    valid("list", &ask(&project, &["list"]));
    valid("tasks", &ask(&project, &["tasks"]));
    let all = ask(&project, &["status"]);
    valid("statuses", &all);
    assert_eq!(all["studies"].as_array().map(Vec::len), Some(3));
    for study in ["synthetic", "two"] {
        let status = ask(&project, &["status", study]);
        valid("status", &status);
        assert_eq!(
            (&status["state"], &status["study"]),
            (&json!("finished"), &json!(study))
        );
        valid("best", &ask(&project, &["best", study]));
        valid("show", &ask(&project, &["show", study, "1"]));
        valid("check", &ask(&project, &["check", "synthetic"]));
    }
    let script = ["init", "made", "--script", "echo val_f1=0.5 --lr {lr}"];
    valid("init", &ask(&project, &script));
    let replay = ["replay", "synthetic", "0"];
    valid("replay", &ask(&project, &replay));
    valid("rehearse", &ask(&project, &["rehearse", "synthetic"]));
    valid("logs", &ask(&project, &["logs", "synthetic", "0"]));
    valid("logs", &ask(&project, &["logs", "synthetic"]));
    valid(
        "enqueue",
        &ask(&project, &["enqueue", "synthetic", "optim.lr=0.1"]),
    );
    valid("stop", &ask(&project, &["stop", "synthetic"]));
    valid("rename", &ask(&project, &["rename", "other", "another"]));
    valid("delete", &ask(&project, &["delete", "another", "--yes"]));
}

#[test]
fn a_live_run_is_seen_followed_and_stopped_from_outside() {
    let project = waiting();
    let mut child = started(&project);
    let status = ask(&project, &["status", "slow"]);
    valid("status", &status);
    assert_eq!(status["state"], "running");
    assert_eq!(status["holder"]["pid"], child.id());
    assert_eq!(status["holder"]["live"], true);
    assert_eq!(status["running"][0]["number"], 0);
    let (text, _) = project.expect(0, &["status", "slow"]);
    let part = format!("(pid {} on ", child.id());
    assert!(
        text.contains("running since ") && text.contains(&part),
        "{text}"
    );
    // While it runs nothing is taken away from it.
    project.expect(6, &["delete", "slow", "--yes"]);
    project.expect(6, &["rename", "slow", "fast"]);
    let watch = project
        .tune(&["status", "slow", "--watch", "0.1", "--json"])
        .spawn()
        .unwrap();
    let follow = project
        .tune(&["logs", "slow", "0", "--follow"])
        .spawn()
        .unwrap();
    let stopped = ask(&project, &["stop", "slow", "--now"]);
    valid("stop", &stopped);
    assert_eq!(
        (&stopped["pid"], &stopped["exit"]),
        (&json!(child.id()), &json!(4))
    );
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let watched = stdout(&watch.wait_with_output().unwrap());
    let last: Json = serde_json::from_str(watched.lines().last().unwrap()).unwrap();
    assert_eq!(last["state"], "stopped");
    let followed = stdout(&follow.wait_with_output().unwrap());
    assert!(followed.contains("loss=0.5"), "{followed}");
    let (text, _) = project.expect(0, &["status", "slow"]);
    assert!(text.contains("the same command goes on"), "{text}");
    let nothing = project.expect(0, &["stop", "slow"]).0;
    assert!(nothing.starts_with("nothing to stop"), "{nothing}");
}

#[test]
fn what_is_shown_as_it_comes_ends_with_its_reader() {
    let project = waiting();
    let mut child = started(&project);
    let follow = ["logs", "slow", "0", "--follow"];
    let watch = ["status", "slow", "--watch", "0.1", "--json"];
    for args in [&follow[..], &watch[..]] {
        let mut shows = project.tune(args).spawn().unwrap();
        let mut reader = BufReader::new(shows.stdout.take().unwrap());
        reader.read_line(&mut String::new()).unwrap();
        drop(reader);
        // The trial has nothing more to say, and the run goes on.
        wait_for("the end of what nobody reads", || {
            shows.try_wait().unwrap().is_some()
        });
        assert_eq!(shows.wait().unwrap().code(), Some(0), "{args:?}");
    }
    project.expect(0, &["stop", "slow", "--now"]);
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

#[test]
fn a_run_that_is_asked_to_stop_starts_nothing_new() {
    let project = waiting();
    let mut child = started(&project);
    let mut stop = project.tune(&["stop", "slow"]).spawn().unwrap();
    let mut asked = String::new();
    let mut stderr = BufReader::new(stop.stderr.take().unwrap());
    stderr.read_line(&mut asked).unwrap();
    assert!(asked.contains("was asked to stop"), "{asked}");
    stderr.read_line(&mut asked).unwrap();
    assert!(
        asked.contains("it waits for 1 trial, at most until"),
        "{asked}"
    );
    let status = ask(&project, &["status", "slow"]);
    valid("status", &status);
    assert_eq!(status["state"], "stopping");
    // The running trial may end.
    fs::write(project.path().join("go"), "").unwrap();
    let stopped = stdout(&stop.wait_with_output().unwrap());
    assert!(stopped.contains("has ended with exit code 4"), "{stopped}");
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert_eq!(project.trials("slow").len(), 1, "nothing new was started");
}

#[test]
fn a_run_with_nothing_to_do_changes_nothing_of_what_is_shown() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "2"]);
    project.expect(0, &["synthetic", "--trials", "1", "--study", "other"]);
    let seen = || {
        let mut status = ask(&project, &["status", "synthetic"]);
        status.as_object_mut().unwrap().remove("runs");
        let log = project.expect(0, &["logs", "synthetic"]).0;
        (status, log, ask(&project, &["best"]))
    };
    let before = seen();
    assert!(before.1.contains("trial 0"), "{}", before.1);
    project.expect(0, &["synthetic", "--trials", "2", "--parallel", "2"]);
    assert_eq!(seen(), before);
}

#[test]
fn a_suspended_run_is_told_of_and_can_be_stopped() {
    let project = waiting();
    let mut child = started(&project);
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    wait_for("it to be suspended", || {
        ask(&project, &["status", "slow"])["state"] == "suspended"
    });
    let (text, _) = project.expect(0, &["status", "slow"]);
    let go_on = format!("fg or kill -CONT {pid} lets it go on");
    assert!(text.contains(&go_on), "{text}");
    let (_, stderr) = project.expect(0, &["stop", "slow", "--now"]);
    assert!(stderr.contains("was suspended"), "{stderr}");
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

#[test]
fn a_log_that_is_not_here_is_told_where_it_was_written() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "1"]);
    let log = &ask(&project, &["logs", "synthetic", "0"])["logs"][0];
    assert_eq!(log["host"], json!(null));
    std::fs::remove_file(log["path"].as_str().unwrap()).unwrap();
    let (_, text) = project.expect(2, &["logs", "synthetic", "0"]);
    assert!(text.contains("is gone"), "{text}");
    let moved = "UPDATE tune_runs SET host = 'gpu2'";
    project.connect().execute_batch(moved).unwrap();
    let (_, text) = project.expect(2, &["logs", "synthetic", "0"]);
    assert!(text.contains(" is on gpu2: ask there"), "{text}");
    let (logs, _) = project.expect(2, &["logs", "synthetic", "0", "--json"]);
    let logs: Json = serde_json::from_str(&logs).unwrap();
    valid("logs", &logs);
    assert_eq!(logs["logs"][0]["host"], "gpu2");
}

#[test]
fn a_renamed_study_has_its_logs_and_goes_on_and_a_deleted_one_leaves_nothing() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "2"]);
    project.expect(0, &["synthetic", "--trials", "2", "--study", "kept"]);
    let (text, _) = project.expect(0, &["rename", "synthetic", "first"]);
    assert!(text.contains("--study first"), "{text}");
    let (log, _) = project.expect(0, &["logs", "first", "1"]);
    assert!(log.starts_with("=== trial 1 attempt 0"), "{log}");
    project.expect(2, &["status", "synthetic"]);
    project.expect(2, &["rename", "first", "kept"]);
    project.expect(2, &["rename", "first", "a/b"]);
    project.expect(0, &["synthetic", "--study", "first", "--trials", "3"]);
    assert_eq!(project.trials("first").len(), 3);
    // Whoever cannot be asked has to say it.
    let (_, stderr) = project.expect(2, &["delete", "first"]);
    assert!(stderr.contains("--yes"), "{stderr}");
    project.expect(0, &["delete", "first", "--yes"]);
    let connection = project.connect();
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%trial%'";
    let mut tables = connection.prepare(tables).unwrap();
    let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let kept: i64 = connection
        .query_row("SELECT COUNT(*) FROM trials", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, 2);
    for table in tables.map(Result::unwrap) {
        let left = format!(
            "SELECT COUNT(*) FROM {table} WHERE trial_id NOT IN (SELECT trial_id FROM trials)"
        );
        let left: i64 = connection.query_row(&left, [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "{table}");
    }
    let files = project.path().join("tune.db.d");
    for place in [
        "logs/first",
        "kept/first",
        "checkpoints/first",
        "spool/first.jsonl",
        "locks/first.lock",
    ] {
        assert!(!files.join(place).exists(), "{place}");
    }
    assert!(files.join("logs/kept").is_dir());
    assert_eq!(project.trials("kept").len(), 2);
}

#[test]
fn a_mistyped_word_is_told_what_was_probably_meant() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "1"]);
    let told = |args: &[&str]| project.expect(2, args).1;
    assert!(told(&["statsu"]).contains("did you mean `tune status`?"));
    assert!(told(&["statsu", "synthetic"]).contains("Did you mean `tune status`?"));
    assert!(told(&["synthetik"]).contains("did you mean synthetic?"));
    assert!(told(&["resume", "synthetic"]).contains("run the same command again"));
    assert!(told(&["best", "syntetic"]).contains("did you mean synthetic?"));
    let flagged = "a study stands without a flag here: `tune best synthetic`";
    assert!(told(&["best", "--study", "synthetic"]).contains(flagged));
    assert!(told(&["best", "--study=synthetic", "--json"]).contains(flagged));
    let train = project.path().join("configs/train.toml");
    fs::copy(project.path().join("configs/synthetic.toml"), &train).unwrap();
    assert!(told(&["trails"]).contains("did you mean `tune trials`?"));
    assert!(told(&["trian"]).contains("did you mean train?"));
    fs::remove_file(train).unwrap();
    let alone = Command::new(program()).output().unwrap();
    assert_eq!(alone.status.code(), Some(2));
    let help = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert!(help.contains("tune status [STUDY]"), "{help}");
    let told_of = |args: &[&str]| project.expect(0, args).0;
    let tail = told_of(&["logs", "synthetic", "0", "--tail", "1"]);
    assert_eq!(told_of(&["logs", "synthetic", "0", "-n", "1"]), tail);
    assert!(told(&["trials", "--where", "optim.lf<1"]).contains("did you mean optim.lr?"));
    fs::write(project.path().join("sim.toml"), "").unwrap();
    let output = project
        .tune(&["sim"])
        .current_dir(project.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        stderr.contains("did you mean `tune ./sim.toml`?"),
        "{stderr}"
    );
    let nowhere = project.path().join("none");
    let at = nowhere.to_str().unwrap();
    let output = project.tune(&["list", "-C", at]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let storage = nowhere.join("x.db");
    for command in [
        &["status"][..],
        &["trials"],
        &["list"],
        &["stop", "x"],
        &["delete", "x", "--yes"],
    ] {
        let _ = project.run(&[command, &["--storage", storage.to_str().unwrap()]].concat());
        assert!(!nowhere.exists(), "{command:?}");
    }
}

/// A task whose value depends on `strong` alone: a program that computes it with the shell.
fn one_of_three_matters() -> Project {
    let project = Project::empty();
    let script = "echo \"loss=$(awk -v x=$0 'BEGIN { print (x - 0.3) * (x - 0.3) }')\"";
    let run = json!(["sh", "-c", script, "{strong}", "{dead}", "{other}"]);
    let range = "{ low = 0.0, high = 1.0 }";
    project.config(
        "t",
        &format!(
            "[task]\nkind = \"command\"\nrun = {run}\nvalue = 'loss=([0-9.e-]+)'\n\
             [objective]\nmetric = \"loss\"\ndirection = \"minimize\"\n\
             [space]\nstrong = {range}\ndead = {range}\nother = {range}\n"
        ),
    );
    project
}

#[test]
fn the_parameter_that_matters_comes_first_and_dead_ones_show_no_effect() {
    let project = one_of_three_matters();
    project.expect(0, &["t", "--trials", "5", "--sampler", "random"]);
    let (_, stderr) = project.expect(2, &["importance"]);
    assert!(stderr.contains("5 complete trials"), "{stderr}");
    project.expect(0, &["t", "--trials", "60", "--sampler", "random"]);
    let answer = ask(&project, &["importance", "t"]);
    valid("importance", &answer);
    let parameters = &answer["importance"][0]["parameters"];
    assert_eq!(parameters[0]["name"], "strong", "{answer:#}");
    assert_eq!(parameters[0]["effect"], "shows");
    assert_eq!(parameters[1]["effect"], "none_seen", "{answer:#}");
    assert_eq!(parameters[2]["effect"], "none_seen", "{answer:#}");
    let sum: f64 = (0..3)
        .map(|at| parameters[at]["importance"].as_f64().unwrap())
        .sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    let (told, _) = project.expect(0, &["importance"]);
    assert!(told.contains("shows an effect (p < 0.001)"), "{told}");
}

#[test]
fn each_objective_has_importances_of_its_own() {
    let project = Project::synthetic();
    let args = [
        "synthetic",
        "--trials",
        "40",
        "--sampler",
        "random",
        "--objective",
        "loss:min",
        "--objective",
        "cost:min",
    ];
    project.expect(0, &args);
    let answer = ask(&project, &["importance"]);
    valid("importance", &answer);
    assert_eq!(answer["importance"][0]["metric"], "loss");
    assert_eq!(answer["importance"][1]["metric"], "cost");
    assert_ne!(
        answer["importance"][0]["parameters"],
        answer["importance"][1]["parameters"]
    );
}
