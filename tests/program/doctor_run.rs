//! `tune doctor --run` around programs that need nothing but Python.

use serde_json::Value as Json;

use crate::common::{Project, valid};

/// What doctor finds of this program, in a project with these files.
fn examined(program: &str, files: &[(&str, &str)]) -> Json {
    let project = Project::empty();
    for (path, text) in [("train.py", program)].iter().chain(files) {
        let path = project.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let args = [
        "doctor", "--json", "--quiet", "--budget", "1m", "--run", "python3", "train.py",
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
