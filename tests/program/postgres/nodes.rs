//! Several nodes on one study, each with a project of its own.

use std::process::{Child, Output, Stdio};

use super::*;
use crate::common::valid;
use search::study::{AttemptId, Purpose, TrialState};
use store::{AttemptEnd, Place, Store, Write};
use supervisor::spool::{Entry, Spool};

/// A node: a project, and a run in it.
struct Node {
    project: Project,
    child: Child,
}

impl Node {
    /// Two slots on the study, whose epochs take `step_ms`.
    fn start(url: &str, name: &str, trials: &str, step_ms: &str, more: &[&str]) -> Node {
        let project = Project::synthetic();
        let step = format!("task.step_ms={step_ms}");
        let lease = ["--set", "storage.lease=3s", "--set", &step];
        let asked = [
            "synthetic",
            "--storage",
            url,
            "--trials",
            trials,
            "--parallel",
            "2",
        ];
        let child = project
            .tune(&[&asked[..], &lease, more].concat())
            .env("TUNE_NODE", name)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Node { project, child }
    }

    /// What it says at its end, and its project, for that long.
    fn end(self) -> (Output, Project) {
        (self.child.wait_with_output().unwrap(), self.project)
    }

    /// What it says, once it has ended well.
    fn done(self) -> String {
        let (output, _project) = self.end();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{out}\n{told}");
        out + &told
    }
}

/// How many rows there are of this.
fn count(server: &Server, from: &str) -> u64 {
    let count = server.sql("studies", &format!("SELECT COUNT(*) FROM {from}"));
    count.parse().unwrap()
}

/// What every study must be that nodes have made to its goal.
fn must_be_whole(server: &Server, goal: u64) {
    assert_eq!(finished(server), goal);
    assert_eq!(count(server, "trials WHERE state = 'RUNNING'"), 0, "lost");
    assert_eq!(count(server, "tune_attempts WHERE ended IS NULL"), 0);
    let completed = "(SELECT trial_id FROM tune_attempts WHERE outcome IN ('completed', 'pruned')
         GROUP BY trial_id HAVING COUNT(*) > 1) twice";
    assert_eq!(count(server, completed), 0, "trained to the end twice");
    let twins = "(SELECT points.point FROM
             (SELECT string_agg(param_name || param_value, ' ' ORDER BY param_name) point
              FROM trial_params GROUP BY trial_id) points
         GROUP BY points.point HAVING COUNT(*) > 1) twins";
    assert_eq!(count(server, twins), 0, "points that were tried twice");
}

#[test]
fn nodes_make_one_study_and_take_over_what_a_killed_one_leaves() {
    let server = server();
    let url = &server.url("studies");
    let repeats = ["--set", "run.repeats=3"];
    let mut nodes: Vec<Node> = ["a", "b", "c", "d"]
        .map(|name| Node::start(url, name, "60", "60", &repeats))
        .into();
    wait_for("trials", || server_counts(&server) >= 8);
    let mut killed = nodes.pop().unwrap();
    signal(killed.child.id(), Signal::SIGKILL);
    killed.child.wait().unwrap();
    let project = Project::synthetic();
    let (json, _) = project.expect(0, &["nodes", "--json", "--storage", url]);
    let json: Json = serde_json::from_str(&json).unwrap();
    valid("nodes", &json);
    assert_eq!(json["nodes"].as_array().unwrap().len(), 4);
    let (status, _) = project.expect(0, &["status", "--json", "--storage", url]);
    let status: Json = serde_json::from_str(&status).unwrap();
    valid("statuses", &status);
    assert_eq!(status["state"], "running");
    let (status, _) = project.expect(0, &["status", "--storage", url]);
    assert!(status.contains("running on "), "{status}");
    let (running, _) = project.expect(0, &["trials", "--running", "--storage", url]);
    assert!(running.contains("RUNNING"), "{running}");

    let told: Vec<String> = nodes.into_iter().map(Node::done).collect();
    must_be_whole(&server, 60);
    for told in &told {
        assert!(told.contains("winner by repeats"), "{told}");
    }
    let runs = "(SELECT DISTINCT run_id FROM tune_trials) runs";
    assert!(count(&server, runs) >= 3, "all have made trials");
    assert_eq!(count(&server, "tune_repeats WHERE purpose = 'test'"), 1);
    let open = "tune_repeats WHERE state = 'RUNNING'";
    assert_eq!(count(&server, open), 0);
}

#[test]
fn a_node_that_comes_back_after_its_lease_leaves_its_trials_to_others_and_goes_on() {
    let server = server();
    let url = &server.url("studies");
    let away = Node::start(url, "away", "30", "150", &[]);
    wait_for("trials", || server_counts(&server) >= 2);
    signal(away.child.id(), Signal::SIGSTOP);
    let stays = Node::start(url, "stays", "30", "150", &[]);
    let taken = "tune_attempts WHERE outcome = 'interrupted' AND again";
    wait_for("trials taken over", || count(&server, taken) >= 1);
    signal(away.child.id(), Signal::SIGCONT);
    let (away, stays) = (away.done(), stays.done());
    must_be_whole(&server, 30);
    assert!(away.contains("another node has taken trial"), "{away}");
    assert!(
        stays.contains("is taken over from a node that is gone"),
        "{stays}"
    );
}

#[test]
fn what_waits_for_a_node_is_taken_in_by_another_one_of_its_directory() {
    let server = server();
    let url = &server.url("studies");
    let Node { project, mut child } = Node::start(url, "away", "4", "300", &[]);
    wait_for("trials", || server_counts(&server) >= 1);
    signal(child.id(), Signal::SIGKILL);
    child.wait().unwrap();
    // As if the trial had ended while the server was away.
    let place = Place::named(url, &project.database(), "away").unwrap();
    let store = Store::open_read_only(&place).unwrap();
    let study = store::choose(&store, None).unwrap().study_id;
    let run = store.last_run(study).unwrap().unwrap();
    let trials = store.trials(study).unwrap();
    let open = trials.iter().find(|t| t.state == TrialState::Running);
    let number = open.unwrap().number;
    let id = AttemptId {
        number,
        purpose: Purpose::Search,
        attempt: 0,
    };
    let end = AttemptEnd {
        outcome: "completed".into(),
        detail: String::new(),
        again: false,
    };
    let finished = Write::TrialFinished {
        number,
        state: TrialState::Complete,
        values: vec![0.125],
        user_attrs: serde_json::Map::new(),
        system_attrs: serde_json::Map::new(),
    };
    let mut spool = Spool::reserve(&place.own_files(), "synthetic").unwrap();
    spool
        .append(&Entry {
            study: "synthetic".into(),
            run: run.run_id,
            started: run.started,
            batch: None,
            time: messages::clock::now(),
            writes: vec![Write::AttemptEnded { id, end }, finished],
        })
        .unwrap();
    spool.close();
    let (status, _) = project.expect(0, &["status", "--storage", url]);
    let waits = "1 result of the node away waits outside the database";
    assert!(status.contains(waits), "{status}");

    let asked = ["synthetic", "--storage", url, "--trials", "4"];
    let mut other = project.tune(&asked);
    let other = other.env("TUNE_NODE", "other").output().unwrap();
    let told = String::from_utf8_lossy(&other.stderr).into_owned()
        + &String::from_utf8_lossy(&other.stdout);
    assert!(other.status.success(), "{told}");
    assert!(told.contains("taken in from "), "{told}");
    let trial = &super::trials(&project, url)[number as usize];
    assert_eq!(trial["value"], 0.125);
    assert_eq!(trial["attempts"].as_array().unwrap().len(), 1, "{trial}");
}

#[test]
fn a_study_that_nodes_work_on_is_not_deleted_and_each_has_a_name_of_its_own() {
    let server = server();
    let url = &server.url("studies");
    let mut node = Node::start(url, "one", "100000", "5", &[]);
    wait_for("trials", || server_counts(&server) >= 3);
    let (output, _project) = Node::start(url, "one", "100000", "5", &[]).end();
    let why = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{why}");
    assert!(why.contains("TUNE_NODE"), "{why}");
    let other = Project::synthetic();
    let delete = ["delete", "synthetic", "--yes", "--storage", url];
    let (_, why) = other.expect(6, &delete);
    assert!(why.contains("nodes work on"), "{why}");
    let (_, why) = other.expect(6, &["stop", "synthetic", "--storage", url]);
    assert!(why.contains("node one (process"), "{why}");
    signal(node.child.id(), Signal::SIGKILL);
    node.child.wait().unwrap();
    let (_, why) = other.expect(2, &["nodes", "--forget", "two", "--storage", url]);
    assert!(why.contains("expected one of one"), "{why}");
    let (told, _) = other.expect(0, &["nodes", "--forget", "one", "--storage", url]);
    assert!(
        told.contains("lost") && told.contains("others take its trials over"),
        "{told}"
    );
    other.expect(0, &delete);
    let (_, why) = other.expect(2, &["nodes"]);
    assert!(why.contains("the studies are in a file"), "{why}");
}

#[test]
fn all_nodes_of_a_study_are_stopped_from_anywhere() {
    let server = server();
    let url = &server.url("studies");
    let stop = ["stop", "synthetic", "--storage", url, "--all"];
    let asked = |project: &Project| {
        let (json, _) = project.expect(0, &[&stop[..], &["--json"]].concat());
        let json: Json = serde_json::from_str(&json).unwrap();
        valid("stop", &json);
        json
    };
    let nodes = ["one", "two"].map(|name| Node::start(url, name, "100000", "50", &[]));
    let working = "(SELECT run_id FROM tune_trials GROUP BY run_id) runs";
    wait_for("trials", || server_counts(&server) >= 1);
    wait_for("both nodes' trials", || count(&server, working) == 2);
    let elsewhere = Project::synthetic();
    let stopped = asked(&elsewhere);
    let mut ended = stopped["nodes"].as_array().unwrap().clone();
    ended.sort_by_key(|node| node["name"].to_string());
    let names: Vec<&Json> = ended.iter().map(|node| &node["name"]).collect();
    assert_eq!(names, ["one", "two"]);
    for (node, told) in nodes.into_iter().zip(&ended) {
        assert_eq!(told["pid"], node.child.id());
        assert_eq!(told["exit"], 4);
        assert_eq!(node.end().0.status.code(), Some(4));
    }
    assert_eq!(count(&server, "tune_attempts WHERE ended IS NULL"), 0);
    assert_eq!(asked(&elsewhere)["nodes"], json!([]));
    // One whose trials would take for ever puts them back; an earlier request is not in its way.
    let slow = Node::start(url, "one", "100000", "600000", &[]);
    let running = "tune_attempts WHERE ended IS NULL";
    wait_for("its trials", || count(&server, running) == 2);
    let (stopped, told) = elsewhere.expect(0, &[&stop[..], &["--now"]].concat());
    assert!(stopped.contains("has ended with exit code 4"), "{stopped}");
    assert!(told.contains(", which runs 2 trials, was asked"), "{told}");
    assert_eq!(slow.end().0.status.code(), Some(4));
}

/// How the node of this name stands.
fn state(project: &Project, url: &str, name: &str) -> Json {
    let (json, _) = project.expect(0, &["nodes", "--json", "--storage", url]);
    let json: Json = serde_json::from_str(&json).unwrap();
    let mut nodes = json["nodes"].as_array().unwrap().iter();
    let node = nodes.find(|node| node["node"] == name);
    node.map_or(Json::Null, |node| node["state"].clone())
}

#[test]
fn a_node_that_begins_while_all_are_stopped_is_named_and_one_that_waits_goes_on_to_wait() {
    let server = server();
    let url = &server.url("studies");
    let stop = ["stop", "synthetic", "--storage", url, "--all"];
    let slow = Node::start(url, "slow", "100000", "600000", &["--grace", "600s"]);
    let there = "SELECT to_regclass('tune_attempts') IS NOT NULL";
    wait_for("tables", || server.sql("studies", there) == "t");
    let running = "tune_attempts WHERE ended IS NULL";
    wait_for("its trials", || count(&server, running) == 2);
    // A request there, and one from elsewhere: its trials are waited for still.
    signal(slow.child.id(), Signal::SIGINT);
    let quick = Node::start(url, "quick", "100000", "50", &[]);
    let working = "(SELECT run_id FROM tune_trials GROUP BY run_id) runs";
    wait_for("both nodes' trials", || count(&server, working) == 2);
    let elsewhere = Project::synthetic();
    let asks = (elsewhere.tune(&[&stop[..], &["--json"]].concat()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(quick.end().0.status.code(), Some(4));
    let again = Node::start(url, "quick", "100000", "50", &[]);
    wait_for("the node again", || count(&server, working) == 3);
    assert_eq!(state(&elsewhere, url, "slow"), "working");
    assert_eq!(
        count(&server, "tune_attempts WHERE outcome = 'interrupted'"),
        0
    );
    signal(slow.child.id(), Signal::SIGINT);
    assert_eq!(slow.end().0.status.code(), Some(4));
    let asked = asks.wait_with_output().unwrap();
    let why = String::from_utf8_lossy(&asked.stderr);
    assert_eq!(asked.status.code(), Some(6), "{why}");
    assert!(why.contains("node quick (process"), "{why}");
    let told: Json = serde_json::from_slice(&asked.stdout).unwrap();
    valid("stop", &told);
    let nodes = told["nodes"].as_array().unwrap();
    let exits: Vec<Option<u64>> = nodes.iter().map(|node| node["exit"].as_u64()).collect();
    assert_eq!(exits, [Some(4), Some(4)]);
    elsewhere.expect(0, &stop);
    assert_eq!(again.end().0.status.code(), Some(4));
}

#[test]
fn a_node_that_is_not_heard_of_is_named_and_stops_when_it_comes_back() {
    let server = server();
    let url = &server.url("studies");
    let stop = ["stop", "synthetic", "--storage", url, "--all"];
    let away = Node::start(url, "away", "100000", "50", &[]);
    wait_for("trials", || server_counts(&server) >= 1);
    let elsewhere = Project::synthetic();
    // By an older version nothing would come of it.
    let as_version = |version: &str| {
        let set = format!("UPDATE tune_runs SET version = '{version}'");
        server.sql("studies", &set);
    };
    as_version("0.0.9");
    let (_, why) = elsewhere.expect(6, &stop);
    assert!(why.contains("node away (process"), "{why}");
    assert!(why.contains("an older version"), "{why}");
    assert_eq!(count(&server, "tune_leases WHERE stop IS NOT NULL"), 0);
    as_version(env!("CARGO_PKG_VERSION"));
    signal(away.child.id(), Signal::SIGSTOP);
    wait_for("the end of its lease", || {
        state(&elsewhere, url, "away") == "lost"
    });
    let (json, _) = elsewhere.expect(0, &[&stop[..], &["--json"]].concat());
    let json: Json = serde_json::from_str(&json).unwrap();
    valid("stop", &json);
    assert_eq!(json["nodes"][0]["name"], "away");
    assert_eq!(json["nodes"][0]["exit"], Json::Null);
    let (told, _) = elsewhere.expect(0, &stop);
    assert!(told.contains("Should it come back, it stops"), "{told}");
    signal(away.child.id(), Signal::SIGCONT);
    assert_eq!(away.end().0.status.code(), Some(4));
}

#[test]
fn a_node_whose_machine_is_gone_has_its_name_again_once_the_server_knows_that() {
    let server = server();
    let url = &server.url("studies");
    let mut gone = Node::start(url, "one", "12", "150", &[]);
    wait_for("trials", || server_counts(&server) >= 2);
    signal(gone.child.id(), Signal::SIGSTOP);
    let mut back = Node::start(url, "one", "12", "5", &[]);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(back.child.try_wait().unwrap(), None, "it waits");
    signal(gone.child.id(), Signal::SIGKILL);
    gone.child.wait().unwrap();
    let told = back.done();
    assert!(told.contains("waiting for at most"), "{told}");
    must_be_whole(&server, 12);
}
