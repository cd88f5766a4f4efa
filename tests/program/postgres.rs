//! Studies on a real PostgreSQL server.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value as Json, json};

mod nodes;

use crate::common::optuna::{printed, script};
use crate::common::postgres::Server;
use crate::common::{Project, signal, wait_for};

/// A server with an empty database `studies`.
fn server() -> Server {
    let server = Server::start(Path::new(crate::ROOT), &[]);
    server.sql("postgres", "CREATE DATABASE studies");
    server
}

/// A run of the synthetic task that takes a while, in this project.
fn run<'a>(url: &'a str, trials: &'a str) -> Vec<&'a str> {
    let slow = ["--set", "task.step_ms=5", "--parallel", "2"];
    let asked = ["synthetic", "--storage", url, "--trials", trials];
    [&asked[..], &slow].concat()
}

fn trials(project: &Project, url: &str) -> Vec<Json> {
    let (all, _) = project.expect(0, &["trials", "synthetic", "--json", "--storage", url]);
    serde_json::from_str(&all).unwrap()
}

/// How many trials there are with a result, and that each number is there once.
fn finished(server: &Server) -> u64 {
    let numbers = "SELECT COUNT(*) - COUNT(DISTINCT number) FROM trials";
    assert_eq!(server.sql("studies", numbers), "0", "a number twice");
    let finished = "SELECT COUNT(*) FROM trials WHERE state IN ('COMPLETE', 'PRUNED')";
    server.sql("studies", finished).parse().unwrap()
}

#[test]
fn a_study_on_a_server_is_the_study_of_a_file() {
    let (server, project) = (server(), Project::synthetic());
    let url = &server.url("studies");
    let one = ["synthetic", "--trials", "40", "--parallel", "1"];
    project.expect(0, &one);
    project.expect(0, &[&one[..], &["--storage", url]].concat());
    let results = |trials: &[Json]| crate::common::results(trials);
    assert_eq!(
        results(&trials(&project, url)),
        results(&project.trials("synthetic"))
    );
    let (_, told) = project.expect(0, &["status", "--storage", url]);
    assert!(told.is_empty(), "{told}");
    // Both have a trial 0: neither has the other's files.
    let files = project.path().join("tune.db.d");
    let server_dir = std::fs::read_dir(files.join("servers")).unwrap().next();
    let server_dir = server_dir.unwrap().unwrap().path();
    for dir in [&files, &server_dir] {
        let logs = std::fs::read_dir(dir.join("logs/synthetic")).unwrap();
        let of_runs = logs.filter(|log| {
            let name = log.as_ref().unwrap().file_name();
            name.to_string_lossy().starts_with("run-")
        });
        assert_eq!(of_runs.count(), 1, "{dir:?}");
    }
    // A trigger may change what is written.
    let trigger =
        "CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
        CREATE TRIGGER others BEFORE UPDATE ON trials FOR EACH ROW EXECUTE FUNCTION other()";
    server.sql("studies", trigger);
    let more = ["synthetic", "--trials", "41", "--storage", url];
    let (_, told) = project.expect(7, &more);
    assert!(told.contains("the trigger \"others\" on trials"), "{told}");
    server.sql("studies", "DROP TRIGGER others ON trials");
    // What a command line names wins over the environment.
    let output = project
        .tune(&["best", "--json"])
        .env("TUNE_STORAGE", url)
        .output()
        .unwrap();
    assert!(output.status.success());
    project.expect(0, &["delete", "synthetic", "--yes", "--storage", url]);
    assert_eq!(server.sql("studies", "SELECT COUNT(*) FROM tune_runs"), "0");
}

#[test]
fn a_run_outlives_lost_connections_a_restart_of_the_server_and_its_own_death() {
    let (mut server, project) = (server(), Project::synthetic());
    let url = &server.url("studies");
    let started = |server: &Server, more: u64| {
        wait_for("trials", || server_counts(server) >= more);
    };
    let mut child = project.start(&run(url, "150"));
    started(&server, 5);
    for _ in 0..5 {
        let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = 'tune'";
        server.sql("studies", all);
        std::thread::sleep(Duration::from_millis(100));
    }
    server.restart(2);
    let before = finished(&server);
    started(&server, before + 5);
    signal(child.id(), Signal::SIGKILL);
    child.wait().unwrap();
    project.expect(0, &run(url, "150"));
    assert_eq!(finished(&server), 150);
    let open = "SELECT COUNT(*) FROM tune_attempts WHERE ended IS NULL";
    assert_eq!(server.sql("studies", open), "0");
}

/// Results so far; 0 where there is no table yet.
fn server_counts(server: &Server) -> u64 {
    match server
        .sql("studies", "SELECT to_regclass('tune_trials') IS NULL")
        .as_str()
    {
        "t" => 0,
        _ => finished(server),
    }
}

#[test]
fn optuna_asks_and_tells_into_a_study_that_tune_is_working_on() {
    let (server, project) = (server(), Project::synthetic());
    let url = &server.url("studies");
    let mut child = project.start(&run(url, "100000"));
    wait_for("trials", || server_counts(&server) >= 10);
    let mut script = script("5.0.0", &[], "check_server.py");
    script.args([url, "synthetic", "25"]);
    let read: Json = serde_json::from_str(&printed(script, "on a server")).unwrap();
    signal(child.id(), Signal::SIGINT);
    child.wait().unwrap();
    let ours = trials(&project, url);
    for (i, number) in read["numbers"].as_array().unwrap().iter().enumerate() {
        assert_eq!(number.as_u64(), Some(i as u64), "as Optuna counts them");
    }
    let of_optuna = |t: &&Json| t["attrs"].get("seed").is_none() && t["state"] == "COMPLETE";
    assert_eq!(ours.iter().filter(of_optuna).count(), 25);
    for (number, value) in read["values"].as_object().unwrap() {
        let trial = &ours[number.parse::<usize>().unwrap()];
        assert_eq!(trial["value"], *value, "trial {number}");
    }
}

#[test]
fn bad_urls_and_rights_are_one_clear_error_and_nothing_is_made() {
    let (server, project) = (server(), Project::synthetic());
    server.sql("postgres", "CREATE ROLE reader LOGIN");
    let reader = server.url("studies").replace("postgres@", "reader@");
    let nowhere = server.url("nowhere");
    for (code, url, words) in [
        (2, "postgresql://me:s3cret@db/studies", "PGPASSWORD"),
        (2, "postgresql://me@db", "names no database"),
        (2, "mysql://me@db/studies", "mysql is not supported"),
        (7, nowhere.as_str(), "createdb"),
        (
            7,
            "postgresql://me@/studies?host=/nowhere",
            "cannot be reached",
        ),
        (7, reader.as_str(), "permission denied"),
    ] {
        let (_, why) = project.expect(code, &["synthetic", "--trials", "1", "--storage", url]);
        assert!(why.contains(words) && !why.contains("s3cret"), "{why}");
        let files = project.path().join("tune.db.d");
        assert_eq!(files.exists(), url == reader, "{words}");
    }
    assert_eq!(
        server.sql(
            "studies",
            "SELECT COUNT(*) FROM pg_tables WHERE tablename = 'trials'"
        ),
        "0"
    );
    assert!(!project.database().exists());
}

#[test]
fn a_server_that_is_reached_by_tls_is_verified_and_passwords_are_shown_nowhere() {
    let free = std::net::TcpListener::bind("localhost:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let server = Server::start(Path::new(crate::ROOT), &[&format!("tls={port}")]);
    let project = Project::synthetic();
    let roots = server.socket.join("root.crt");
    let url = format!("postgresql://postgres@localhost:{port}/postgres");
    let trusted = format!("{url}?sslmode=verify-full&sslrootcert={}", roots.display());
    let other_name = trusted.replace("localhost", "127.0.0.1");
    let pass = project.path().join("pass");
    std::fs::write(&pass, format!("localhost:{port}:*:postgres:secret\n")).unwrap();
    std::fs::set_permissions(&pass, PermissionsExt::from_mode(0o600)).unwrap();
    let run = |url: &str, (name, value): (&str, &str)| {
        let mut command = project.tune(&["synthetic", "--trials", "2", "--storage", url]);
        for name in ["PGPASSWORD", "PGPASSFILE", "PGSERVICE", "HOME"] {
            command.env_remove(name);
        }
        let output = command.env(name, value).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), told)
    };
    let pass = pass.to_str().unwrap();
    for (url, variable, word) in [
        (&trusted, ("PGPASSFILE", "/nowhere"), "asks for a password"),
        (&trusted, ("PGPASSWORD", "wrong"), "authentication failed"),
        (&url, ("PGPASSWORD", "secret"), "sslrootcert"),
        (&other_name, ("PGPASSWORD", "secret"), "not valid for name"),
    ] {
        let (code, told) = run(url, variable);
        assert_eq!(code, Some(7), "{told}");
        assert!(told.contains(word) && !told.contains("secret"), "{told}");
    }
    for variable in [("PGPASSWORD", "secret"), ("PGPASSFILE", pass)] {
        let (code, told) = run(&trusted, variable);
        assert_eq!(code, Some(0), "{told}");
    }
    let mut servers = std::fs::read_dir(project.path().join("tune.db.d/servers")).unwrap();
    let server_dir = servers.next().unwrap().unwrap().path();
    let files = std::fs::read_dir(server_dir.join("logs/synthetic")).unwrap();
    for file in files.flatten() {
        let log = std::fs::read_to_string(file.path()).unwrap();
        assert!(!log.contains("secret"), "{:?}", file.path());
    }
    let recorded = "SELECT command_json || operation_json FROM tune_runs";
    let recorded = server.sql("postgres", recorded);
    assert!(
        recorded.contains("sslrootcert") && !recorded.contains("secret"),
        "{recorded}"
    );
}
