//! `tune ask-tell` through the real binary.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::common::{Project, signal};
use nix::sys::signal::Signal;
use serde_json::{Value as Json, json};

/// A client.
struct Client {
    child: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Client {
    fn start(project: &Project) -> Client {
        let mut command = project.tune(&["ask-tell"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        Client {
            requests: child.stdin.take(),
            replies: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn send(&mut self, line: &str) {
        let requests = self.requests.as_mut().unwrap();
        requests.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn line(&mut self, line: &str) -> String {
        self.send(line);
        let mut reply = String::new();
        self.replies.read_line(&mut reply).unwrap();
        assert!(reply.ends_with('\n'), "{line}: {reply:?}");
        reply
    }

    fn call(&mut self, request: &Json) -> Json {
        serde_json::from_str(&self.line(&request.to_string())).unwrap()
    }

    fn error(&mut self, request: &Json) -> String {
        let reply = self.call(request);
        reply["error"].as_str().unwrap_or_default().to_owned()
    }

    /// Asks, reports twice and tells; the value is a function of the number.
    fn trial(&mut self, id: u64, state: &str) -> Json {
        let asked = self.call(&json!({"op": "ask"}));
        assert_eq!(asked["id"], id, "{asked}");
        for step in 1..=2 {
            let report = json!({"op": "report", "id": id, "step": step, "value": value(id) + 0.5});
            assert_eq!(self.call(&report), json!({"prune": false}));
        }
        let told = json!({"op": "tell", "id": id, "value": value(id), "state": state});
        assert_eq!(self.call(&told), json!({"ok": true}));
        asked["params"].clone()
    }

    /// Waits for the end: exit code 0, nothing left unread.
    fn end(mut self) {
        self.requests = None;
        let mut rest = String::new();
        self.replies.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

fn value(id: u64) -> f64 {
    (id * 7919 % 31) as f64 / 8.0
}

fn init() -> Json {
    json!({
        "op": "init", "protocol": 1, "seed": 7, "direction": "minimize", "n_evals": 200,
        "max_step": 3, "pruner": "none", "space": [
            {"name": "lr", "type": "float", "low": 1e-5, "high": 0.1, "log": true},
            {"name": "layers", "type": "int", "low": 1, "high": 5, "log": false},
            {"name": "act", "type": "cat", "choices": ["relu", 1, 1.5, true, null]},
            {"name": "slope", "type": "float", "low": 0, "high": 1, "step": 0.25,
             "when": {"param": "act", "in": ["relu", null]}},
        ]
    })
}

fn stored(project: &Project) -> Json {
    let mut init = init();
    init["storage"] = format!("sqlite:///{}", project.database().display()).into();
    init["study"] = "mine".into();
    init
}

#[test]
fn a_session_ends_with_close_or_with_the_input() {
    let project = Project::empty();
    let mut client = Client::start(&project);
    assert_eq!(
        client.line(&init().to_string()),
        format!(
            "{{\"ok\":true,\"name\":\"tune {} auto\"}}\n",
            env!("CARGO_PKG_VERSION")
        )
    );
    client.trial(0, "ok");
    // No reply, and none to the blank lines before.
    client.send(" \r\n\n{\"op\":\"close\"}");
    client.end();
    let mut client = Client::start(&project);
    client.call(&init());
    client.end();
    assert!(!project.database().exists());
}

#[test]
fn two_processes_with_one_seed_reply_byte_for_byte_the_same() {
    let project = Project::empty();
    let play = |seed: u64| {
        let mut client = Client::start(&project);
        let mut init = init();
        init["seed"] = seed.into();
        let mut replies = client.line(&init.to_string());
        for id in 0..60 {
            replies += &client.line(r#"{"op":"ask"}"#);
            let state = ["ok", "ok", "failed", "pruned"][id as usize % 4];
            let told = json!({"op": "tell", "id": id, "value": value(id), "state": state});
            replies += &client.line(&told.to_string());
        }
        client.end();
        replies
    };
    let replies = play(7);
    assert_eq!(replies, play(7));
    assert_ne!(replies, play(8));
}

#[test]
fn what_is_refused_is_answered_and_the_exchange_goes_on() {
    let project = Project::empty();
    let mut client = Client::start(&project);
    assert!(client.error(&json!({"op": "ask"})).contains("before init"));
    client.call(&init());
    for bad in [
        "{",
        "\u{7f}",
        "{\"op\":\"tell\",\"id\":0,\"value\":1e400,\"state\":\"ok\"}",
    ] {
        let reply = client.line(bad);
        assert!(reply.starts_with("{\"error\":\"not JSON: "), "{reply}");
    }
    let requests = client.requests.as_mut().unwrap();
    requests.write_all(b"{\"op\":\"\xff\"}\n").unwrap();
    let long = "x".repeat(3 << 20);
    assert!(client.line(&long).contains("not UTF-8"), "the reply before");
    let mut reply = String::new();
    client.replies.read_line(&mut reply).unwrap();
    assert!(reply.contains("not JSON"), "{reply}");
    client.trial(0, "ok");
    client.end();
}

#[test]
fn a_database_is_named_in_the_request_and_not_on_the_command_line() {
    let project = Project::empty();
    let (_, stderr) = project.expect(2, &["ask-tell", "--storage", "x.db"]);
    assert!(stderr.contains("the field storage"), "{stderr}");
}

#[test]
fn a_study_in_a_database_is_continued_and_read_by_tune() {
    let project = Project::empty();
    let mut client = Client::start(&project);
    assert_eq!(client.call(&stored(&project))["ok"], true);
    let mut points = vec![client.trial(0, "ok"), client.trial(1, "pruned")];
    points.push(client.trial(2, "failed"));
    points.push(client.call(&json!({"op": "ask"}))["params"].clone());
    let mut second = Client::start(&project);
    let held = second.error(&stored(&project));
    assert!(held.contains("the study mine is held by process"), "{held}");
    // Killed with trial 3 outstanding; the other session may go on then.
    client.child.kill().unwrap();
    client.child.wait().unwrap();
    assert_eq!(second.call(&stored(&project))["ok"], true);
    let told = json!({"op": "tell", "id": 3, "value": 1, "state": "ok"});
    assert!(second.error(&told).contains("has ended (FAIL)"));
    points.push(second.trial(4, "ok"));
    points.push(second.call(&json!({"op": "ask"}))["params"].clone());
    second.end();

    let trials = project.trials("mine");
    let states: Vec<&str> = trials
        .iter()
        .map(|t| t["state"].as_str().unwrap())
        .collect();
    assert_eq!(
        states,
        ["COMPLETE", "PRUNED", "FAIL", "FAIL", "COMPLETE", "FAIL"]
    );
    for (id, trial) in trials.iter().enumerate() {
        assert_eq!(
            (&trial["number"], &trial["params"]),
            (&json!(id), &sorted(&points[id]))
        );
    }
    assert_eq!(trials[0]["value"], value(0));
    assert_eq!(
        trials[0]["intermediate"],
        json!({"1": value(0) + 0.5, "2": value(0) + 0.5})
    );
    // A pruned trial's value is what it reported last.
    assert_eq!(trials[1]["value"], value(1) + 0.5);
    for unfinished in [3, 5] {
        let why = trials[unfinished]["attrs"]["error_msg"].as_str().unwrap();
        assert!(why.contains("before it was told"), "{why}");
    }
    project.expect(0, &["status", "mine"]);
    project.expect(0, &["show", "mine", "4"]);
    project.expect(0, &["best", "mine"]);
}

/// `tune trials` gives parameters by name.
fn sorted(params: &Json) -> Json {
    let params: std::collections::BTreeMap<_, _> = params.as_object().unwrap().iter().collect();
    json!(params)
}

#[test]
fn history_in_a_database_is_learned_from() {
    let project = Project::empty();
    let play = |ends: &[u64], stored_in: Option<&str>| {
        let (mut last, mut next) = (Json::Null, 0);
        for &end in ends {
            let mut client = Client::start(&project);
            let mut request = init();
            if let Some(study) = stored_in {
                request = stored(&project);
                request["study"] = study.into();
            }
            assert_eq!(client.call(&request)["ok"], true);
            for id in next..end {
                last = client.trial(id, "ok");
            }
            next = end;
            client.end();
        }
        last
    };
    // The proposal after the random start depends on all that was told before it.
    let whole = play(&[20], None);
    assert_eq!(play(&[20], Some("a")), whole);
    assert_eq!(play(&[7, 13, 20], Some("b")), whole);
}

#[test]
fn a_study_of_other_choices_or_direction_is_refused_and_other_bounds_are_not() {
    let project = Project::synthetic();
    let mut client = Client::start(&project);
    client.call(&stored(&project));
    client.trial(0, "ok");
    client.end();
    let before = project.trials("mine");

    let mut client = Client::start(&project);
    let mut other = stored(&project);
    other["direction"] = "maximize".into();
    let error = client.error(&other);
    assert!(
        error.contains("direction: found maximize, expected minimize"),
        "{error}"
    );
    let mut other = stored(&project);
    other["space"][2]["choices"] = json!(["relu", null]);
    let error = client.error(&other);
    assert!(error.contains("space[2] \"act\": found "), "{error}");
    let mut other = stored(&project);
    other["space"][0]["log"] = false.into();
    assert!(client.error(&other).contains("space[0] \"lr\": found "));
    assert_eq!(project.trials("mine"), before);
    let mut wider = stored(&project);
    wider["space"][0]["high"] = 1.into();
    wider["seed"] = 8.into();
    assert_eq!(client.call(&wider)["ok"], true);
    assert_eq!(client.call(&json!({"op": "ask"}))["id"], 1);
    client.end();

    // What tune trains itself and what is served keep out of each other's studies.
    let (_, stderr) = project.expect(8, &["synthetic", "--study", "mine", "--trials", "1"]);
    assert!(stderr.contains("task.kind"), "{stderr}");
    project.expect(0, &["synthetic", "--trials", "1"]);
    let mut client = Client::start(&project);
    let mut other = stored(&project);
    other["study"] = "synthetic".into();
    let error = client.error(&other);
    assert!(
        error.contains("trained by tune itself (task kind synthetic)"),
        "{error}"
    );
    client.end();
}

#[test]
fn a_database_that_cannot_be_used_is_an_error_reply() {
    let project = Project::empty();
    std::fs::write(project.path().join("text.db"), "no database, but some text").unwrap();
    let mut client = Client::start(&project);
    for (storage, expected) in [
        ("mysql://host/db".to_owned(), "mysql is not supported"),
        (
            project.path().join("text.db").display().to_string(),
            "storage: ",
        ),
    ] {
        let mut request = init();
        request["storage"] = storage.into();
        let error = client.error(&request);
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(client.call(&init())["ok"], true);
    client.end();
}

#[test]
fn a_storage_that_is_refused_leaves_nothing_behind() {
    let project = Project::empty();
    let file = |name: &str| project.path().join(name);
    std::fs::write(file("text.db"), "no database, but some text".repeat(50)).unwrap();
    std::fs::create_dir(file("folder")).unwrap();
    let other = rusqlite::Connection::open(file("other.db")).unwrap();
    other.execute_batch("CREATE TABLE mine (x)").unwrap();
    drop(other);
    let there = || {
        let entries = std::fs::read_dir(project.path()).unwrap().flatten();
        let mut names: Vec<_> = entries.map(|e| e.file_name()).collect();
        names.sort();
        names
    };
    let before = there();
    let mut client = Client::start(&project);
    for (storage, expected) in [
        ("text.db", "no SQLite database"),
        ("other.db", "belongs to another program (tables mine)"),
        ("folder", "this is a directory and no file"),
        (
            "nosuch/deep/x.db",
            "expected a database in a directory that is there",
        ),
        (
            "text.db/x.db",
            "expected a database in a directory that is there",
        ),
    ] {
        let mut request = init();
        request["storage"] = file(storage).display().to_string().into();
        let error = client.error(&request);
        assert!(error.contains(expected) && !error.contains("-C"), "{error}");
        assert_eq!(there(), before, "{storage}");
    }
    // An empty file becomes a database.
    std::fs::write(file("empty.db"), "").unwrap();
    let mut request = init();
    request["storage"] = file("empty.db").display().to_string().into();
    assert_eq!(client.call(&request)["ok"], true);
    client.end();
}

#[test]
fn a_signal_ends_the_session_as_the_end_of_the_input_does() {
    for end in [Signal::SIGTERM, Signal::SIGINT] {
        let project = Project::empty();
        let mut client = Client::start(&project);
        client.call(&stored(&project));
        client.trial(0, "ok");
        client.call(&json!({"op": "ask"}));
        // A part of a line is no request.
        let requests = client.requests.as_mut().unwrap();
        requests.write_all(br#"{"op":"as"#).unwrap();
        signal(client.child.id(), end);
        assert_eq!(client.child.wait().unwrap().code(), Some(4));
        let trials = project.trials("mine");
        assert_eq!(trials.len(), 2);
        assert_eq!(trials[1]["state"], "FAIL");
        let why = trials[1]["attrs"]["error_msg"].as_str().unwrap();
        assert!(why.contains("before it was told"), "{why}");
    }
}

#[test]
fn optuna_reads_a_served_study_and_its_trials_are_taken_in() {
    let here = Path::new(crate::ROOT).join("tests/optuna");
    let made = Command::new("sh")
        .arg(here.join("venv.sh"))
        .arg("5.0.0")
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let interpreter = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let python = |code: &str, project: &Project| -> Json {
        let url = format!("sqlite:///{}", project.database().display());
        let output = Command::new(&interpreter)
            .args(["-W", "ignore", "-c", code, &url])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let project = Project::empty();
    let mut client = Client::start(&project);
    client.call(&stored(&project));
    let points = [
        client.trial(0, "ok"),
        client.trial(1, "pruned"),
        client.trial(2, "failed"),
    ];
    let outstanding = client.call(&json!({"op": "ask"}))["params"].clone();
    // While the session goes on: reads all, ends the outstanding trial, and adds one of its own.
    let read = python(
        r#"
import json, sys, optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.load_study(study_name="mine", storage=sys.argv[1])
print(json.dumps([[t.number, t.state.name, t.value, t.params,
                   {str(k): v for k, v in t.intermediate_values.items()}] for t in study.trials]))
study.tell(3, 0.25)
study.ask()
"#,
        &project,
    );
    let reports = |id| json!({"1": value(id) + 0.5, "2": value(id) + 0.5});
    let expected = json!([
        [0, "COMPLETE", value(0), points[0], reports(0)],
        [1, "PRUNED", value(1) + 0.5, points[1], reports(1)],
        [2, "FAIL", null, points[2], reports(2)],
        [3, "RUNNING", null, outstanding, {}],
    ]);
    assert_eq!(read, expected);
    client.trial(5, "ok");
    let told = json!({"op": "tell", "id": 3, "value": 1, "state": "ok"});
    assert!(client.error(&told).contains("has ended (COMPLETE)"));
    let told = json!({"op": "tell", "id": 4, "value": 1, "state": "ok"});
    assert!(client.error(&told).contains("of another program"));
    client.end();
    let states: Vec<Json> = project
        .trials("mine")
        .iter()
        .map(|t| t["state"].clone())
        .collect();
    // Optuna's own trial is left alone.
    assert_eq!(
        states,
        [
            "COMPLETE", "PRUNED", "FAIL", "COMPLETE", "RUNNING", "COMPLETE"
        ]
    );
}

#[test]
fn the_example_client_finds_the_better_branch() {
    let example = Path::new(crate::ROOT).join("docs/examples/ask_tell_client.py");
    let output = Command::new("python3")
        .arg(example)
        .arg(crate::common::program())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let best: f64 = text.split(' ').next().unwrap().parse().unwrap();
    assert!(best < 0.5 && text.contains("'valley'"), "{text}");
}

#[test]
fn the_session_of_the_documentation_is_what_the_program_says() {
    let page = std::fs::read_to_string(Path::new(crate::ROOT).join("docs/ask-tell.md")).unwrap();
    let session = page.split("```text\n").nth(1).unwrap();
    let session = session.split("```").next().unwrap();
    let project = Project::empty();
    let mut client = Client::start(&project);
    let mut reply = None;
    for line in session.lines() {
        match line.split_at(2) {
            ("> ", request) if request.contains("close") => client.send(request),
            ("> ", request) => reply = Some(client.line(request)),
            ("< ", expected) => assert_eq!(reply.take().unwrap().trim_end(), expected),
            (other, _) => panic!("{other}"),
        }
    }
    assert!(client.child.wait().unwrap().success());
}
