//! `tune doctor --run` around programs that need nothing but Python.

use std::path::Path;

use serde_json::Value as Json;

use crate::common::{Project, valid};

/// What doctor finds of this program, in a project with these files.
fn examined(program: &str, files: &[(&str, &str)]) -> Json {
    examined_within("10m", program, files)
}

/// The same where a run that takes longer than a deadline hangs.
fn examined_within(deadline: &str, program: &str, files: &[(&str, &str)]) -> Json {
    examined_beside(deadline, program, files, None)
}

/// The same beside another file, which is copied.
fn examined_beside(
    deadline: &str,
    program: &str,
    files: &[(&str, &str)],
    other: Option<&Path>,
) -> Json {
    let project = Project::empty();
    if let Some(other) = other {
        std::fs::copy(other, project.path().join(other.file_name().unwrap())).unwrap();
    }
    for (path, text) in [("train.py", program)].iter().chain(files) {
        let path = project.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let args = [
        "doctor",
        "--json",
        "--quiet",
        "--budget",
        "1m",
        "--deadline",
        deadline,
        "--run",
        "python3",
        "train.py",
    ];
    let output = project
        .tune(&args)
        .current_dir(project.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let answer: Json = serde_json::from_slice(&output.stdout).expect(&errors);
    assert_eq!(output.status.code(), Some(5), "{answer:#} {errors}");
    valid("doctor", &answer);
    answer["run"].clone()
}

#[test]
fn a_timer_that_the_program_has_set_and_not_taken_back_is_named() {
    let hub = "import signal\n\
        def fetch():\n    signal.alarm(9)\n    signal.alarm(0)\n    signal.setitimer(signal.ITIMER_REAL, 1)\n";
    let program = "import hub, time\nhub.fetch()\nfor step in range(600):\n    time.sleep(0.01)\n";
    let run = examined(program, &[("hub.py", hub)]);
    let first = &run["hypotheses"][0];
    assert_eq!(first["cause"], "time_limit", "{run:#}");
    assert!(
        first["evidence_for"]
            .to_string()
            .contains("hub.py:5 in fetch"),
        "{run:#}"
    );
    assert!(
        first["remedy"]
            .as_str()
            .unwrap()
            .contains("signal.alarm(0)"),
        "{run:#}"
    );
}

#[test]
fn a_timer_whose_handler_raises_an_error_is_named_where_it_was_set() {
    let guard = "import signal\n\
        def late(number, frame):\n    raise TimeoutError('no answer within 1 s')\n\
        def ask(rare):\n    signal.signal(signal.SIGALRM, late)\n    signal.setitimer(signal.ITIMER_REAL, 1)\n\
        \x20   if rare:\n        return 0\n    signal.setitimer(signal.ITIMER_REAL, 0)\n";
    let program = "import guard, signal, time\nguard.ask(True)\n\
        try:\n    for step in range(600):\n        time.sleep(0.01)\n\
        finally:\n    signal.setitimer(signal.ITIMER_REAL, 0)\n";
    let run = examined(program, &[("guard.py", guard)]);
    let first = &run["hypotheses"][0];
    assert_eq!(first["cause"], "time_limit", "{run:#}");
    let told = first["evidence_for"].to_string();
    assert!(told.contains("guard.py:6 in ask"), "{run:#}");
}

#[test]
fn a_program_whose_errors_nobody_reads_is_named() {
    let clean = "import sys\nfor line in sys.stdin:\n    sys.stderr.write('odd ' * 1000)\n    print(line, flush=True)\n";
    let program = "import subprocess, sys\nfrom subprocess import PIPE\n\
        other = subprocess.Popen([sys.executable, 'clean.py'], stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True)\n\
        for row in range(100):\n    print(row, file=other.stdin, flush=True)\n    other.stdout.readline()\n";
    let run = examined_within("6s", program, &[("clean.py", clean)]);
    let first = &run["hypotheses"][0];
    assert_eq!(first["cause"], "unread_output", "{run:#}");
    let told = first["evidence_for"].to_string();
    assert!(
        told.contains("clean.py waits to write to its standard error, which"),
        "{run:#}"
    );
}

#[test]
fn a_database_of_earlier_runs_is_left_out_and_named() {
    let program = "import sqlite3\ntables = sqlite3.connect('trials.db')\n\
        tables.execute('CREATE TABLE IF NOT EXISTS kept (batch INTEGER)')\n\
        [(batch,)] = tables.execute('SELECT MAX(batch) FROM kept').fetchall()\n\
        tables.execute('INSERT INTO kept VALUES (?)', (48,))\ntables.commit()\n\
        assert batch is None, 'the batch size has changed'\n";
    let made = [
        "-c",
        "import sqlite3; t = sqlite3.connect('trials.db'); t.execute('CREATE TABLE kept (batch)'); t.execute('INSERT INTO kept VALUES (32)'); t.commit()",
    ];
    let folder = tempfile::tempdir().unwrap();
    let earlier = std::process::Command::new("python3")
        .args(made)
        .current_dir(folder.path())
        .status();
    assert!(earlier.unwrap().success());
    let run = examined_beside("10m", program, &[], Some(&folder.path().join("trials.db")));
    let first = &run["hypotheses"][0];
    assert_eq!(first["cause"], "left_behind", "{run:#}");
    assert!(
        first["what"].as_str().unwrap().contains("trials.db"),
        "{run:#}"
    );
}

#[test]
fn data_in_several_parts_is_nothing_that_earlier_runs_have_left() {
    let program = "import pathlib\n\
        rows = [float(line) for part in sorted(pathlib.Path('shards').iterdir()) for line in open(part)]\n";
    let parts = [
        ("shards/part-00000.txt", "1\n2\n"),
        ("shards/part-00001.txt", "3\nfour\n"),
    ];
    let run = examined(program, &parts);
    assert_eq!(run["hypotheses"][0]["cause"], "bad_value", "{run:#}");
    let tried = run["changes"].as_array().unwrap();
    assert!(
        tried.iter().all(|change| change["name"] != "no_leftovers"),
        "{run:#}"
    );
}

#[test]
fn the_file_that_was_opened_last_is_named_where_one_is_broken() {
    let program = "import json, pathlib\n\
        rows = [json.loads(path.read_text()) for path in sorted(pathlib.Path('rows').iterdir())]\n";
    let files = [
        ("rows/a.json", "[1, 2]"),
        ("rows/b.json", "[1, 2"),
        ("rows/c.json", "[3]"),
    ];
    let run = examined(program, &files);
    let first = &run["hypotheses"][0];
    assert_eq!(first["cause"], "broken_file", "{run:#}");
    assert!(
        first["evidence_for"]
            .to_string()
            .contains("opened last: rows/b.json"),
        "{run:#}"
    );
}

#[test]
fn a_task_that_cannot_be_read_is_told_before_anything_is_run() {
    let project = Project::synthetic();
    let wrong = ["--set", "train.epoch=3", "--budget", "20s"];
    let asked = [&["doctor", "synthetic", "--differential"], &wrong[..]].concat();
    let (_, stderr) = project.expect(2, &asked);
    assert!(stderr.contains("train.epoch"), "{stderr}");
    assert!(!stderr.contains("[1] as it is"), "{stderr}");
}
