//! `tune bisect`: from a trial that crashed to the parameters that make it crash, through the real program.

use std::fs;

use crate::common::{Project, signal, valid, wait_for};
use nix::sys::signal::Signal;
use serde_json::{Value as Json, json};

/// Twelve parameters, one of which exists beside `mode = b` alone.
const SPACE: &str = "[objective]\ndirection = \"minimize\"\n[space]\n\
    mode = { choices = [\"a\", \"b\"], default = \"a\" }\n\
    depth = { low = 1, high = 9, int = true, default = 2, when = { mode = [\"b\"] } }\n\
    rate = { low = 0.1, high = 1.0, default = 1.0 }\n";

/// The point of trial 1, which differs from the defaults in everything.
const FAILING: [&str; 12] = [
    "mode=b", "depth=8", "rate=0.5", "p1=9", "p2=9", "p3=9", "p4=9", "p5=9", "p6=9", "p7=9",
    "p8=9", "p9=9",
];

/// A study `t` whose trial 0 is the point of the defaults, and has worked, and whose trial 1 is [`FAILING`]. The program
/// is a shell script that ends with `failure` where `condition` holds.
fn study(condition: &str, failure: &str) -> Project {
    let project = Project::empty();
    let letters = "m=$TUNE_PARAM_MODE d=${TUNE_PARAM_DEPTH:-0} r=$TUNE_PARAM_RATE";
    let script = format!("{letters}\nif {condition}; then {failure}; fi\necho 1\n");
    fs::write(project.path().join("t.sh"), script).unwrap();
    let numbers: String = (1..10)
        .map(|i| format!("p{i} = {{ low = 0, high = 9, int = true, default = 0 }}\n"))
        .collect();
    let task = "[task]\nkind = \"command\"\nrun = [\"sh\", \"t.sh\"]\n";
    project.config("t", &format!("{task}{SPACE}{numbers}"));
    project.expect(0, &["t", "--trials", "1"]);
    let enqueue = [&["enqueue", "t"][..], &FAILING].concat();
    project.expect(0, &enqueue);
    project.expect(0, &["t", "--trials", "2"]);
    project
}

const SEGV: &str = "kill -SEGV $$";

/// What `tune bisect t 1 --json` finds, checked against the schema.
fn bisected(project: &Project, code: i32) -> Json {
    let (stdout, _) = project.expect(code, &["bisect", "t", "1", "--json"]);
    let found: Json = serde_json::from_str(&stdout).unwrap();
    valid("bisect", &found);
    found
}

fn names(found: &Json) -> Vec<&str> {
    let cause = found["cause"].as_array().unwrap();
    cause.iter().map(|m| m["name"].as_str().unwrap()).collect()
}

#[test]
fn a_crash_of_one_two_and_three_parameters_is_told_by_exactly_these() {
    for (condition, cause, sentence) in [
        ("[ $TUNE_PARAM_P4 -ge 6 ]", &["p4"][..], "p4 >= 6"),
        (
            "[ $m = b ] && [ $TUNE_PARAM_P7 -gt 2 ]",
            &["mode", "p7"],
            "mode = b together with p7 >= 3",
        ),
        (
            "[ $TUNE_PARAM_P1 = 9 ] && [ $TUNE_PARAM_P5 -gt 4 ] && [ $r != 1.0 ]",
            &["rate", "p1", "p5"],
            "rate < 1 together with p1 >= 9 together with p5 >= 5",
        ),
    ] {
        let project = study(condition, SEGV);
        let found = bisected(&project, 0);
        assert_eq!(names(&found), cause, "{found:#}");
        assert_eq!(found["sentence"], sentence, "{found:#}");
        assert_eq!(found["fault"]["fault"], "crash");
        assert_eq!(found["rate"], json!({"failed": 3, "runs": 3}));
        assert_eq!(
            (&found["against"], &found["differ"]),
            (&json!(0), &json!(12))
        );
        // Three for the rate, and five for each threshold, which are no part of the search.
        let k = cause.len() as f64;
        let bound = 2.0 * k * 12f64.log2() + k + 3.0 + 5.0 * k;
        assert!(found["runs"].as_f64().unwrap() <= bound, "{found:#}");
        // Nothing is recorded, and one log is left.
        assert_eq!(project.trials("t").len(), 2);
        assert!(fs::exists(found["log"].as_str().unwrap()).unwrap());
        let logs = fs::read_dir(project.path().join("tune.db.d/logs/t")).unwrap();
        let replays = logs.filter(|l| {
            l.as_ref()
                .unwrap()
                .path()
                .to_string_lossy()
                .contains("replay")
        });
        assert_eq!(replays.count(), 1);
    }
}

#[test]
fn what_the_nearest_survivor_shares_is_found_by_another_that_has_the_rest() {
    let project = study("[ $m = b ] && [ $TUNE_PARAM_P4 -ge 6 ]", SEGV);
    let near = FAILING.map(|value| if value == "p4=9" { "p4=1" } else { value });
    let mut another = FAILING.to_vec();
    another.retain(|value| !value.starts_with("depth"));
    another[0] = "mode=a";
    for point in [&near[..], &another] {
        project.expect(0, &[&["enqueue", "t"], point].concat());
    }
    project.expect(0, &["t", "--trials", "4"]);
    let found = bisected(&project, 0);
    assert_eq!(found["against"], 2, "{found:#}");
    assert_eq!(found["contradicted"], json!([3]));
    assert_eq!(found["sentence"], "p4 >= 6 together with mode = b");
}

#[test]
fn a_parameter_that_exists_only_beside_another_value_is_told_with_it() {
    let project = study("[ $d -gt 4 ]", SEGV);
    let (stdout, _) = project.expect(0, &["bisect", "t", "1"]);
    assert!(stdout.contains("run 1  trial 1: failed, "), "{stdout}");
    assert!(
        stdout.contains("compared with trial 0, 12 values apart"),
        "{stdout}"
    );
    assert!(
        stdout.contains("cause: mode = b together with depth = 8\n"),
        "{stdout}"
    );
    assert!(
        stdout.contains("depth = 8: does not exist in the survivor"),
        "{stdout}"
    );
    assert!(stdout.contains("next: tune explain "), "{stdout}");
}

#[test]
fn a_traceback_is_told_by_the_line_of_the_program_and_other_faults_on_the_way_are_told_apart() {
    let traceback = |line: u32, error: &str| {
        format!(
            "printf 'Traceback (most recent call last):\\n  File \"net.py\", line {line}, in fit\\n{error}\\n' >&2; exit 1"
        )
    };
    let both = "[ $TUNE_PARAM_P2 = 9 ]";
    // With p2 but without p3 it fails in another way.
    let failure = format!(
        "if [ $TUNE_PARAM_P3 = 9 ]; then {}; else {}; fi",
        traceback(7, "ValueError: no"),
        traceback(9, "KeyError: a")
    );
    let project = study(both, &failure);
    let found = bisected(&project, 0);
    assert_eq!(found["fault"]["place"], "net.py:7 in fit", "{found:#}");
    assert_eq!(names(&found), ["p2", "p3"]);
    assert_eq!(found["others"][0]["fault"], "task_error");
    let detail = found["others"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("KeyError"), "{found:#}");
}

#[test]
fn a_fault_that_comes_three_times_in_ten_is_found_by_repeats() {
    let count = "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; \
                 case $((n % 10)) in 0|3|7) echo 'ValueError: sometimes' >&2; exit 1;; esac";
    let project = study("[ $TUNE_PARAM_P6 = 9 ] && [ $m = b ]", count);
    let found = bisected(&project, 0);
    assert_eq!(names(&found), ["mode", "p6"], "{found:#}");
    let rate = &found["rate"];
    assert_eq!(rate["failed"], json!(4));
    assert!(rate["runs"].as_u64() > Some(6), "{found:#}");
}

#[test]
fn what_does_not_fail_any_more_or_fails_otherwise_is_said() {
    let failure =
        format!("if [ -e fixed ]; then :; elif [ -e other ]; then exit 3; else {SEGV}; fi");
    let project = study("[ $TUNE_PARAM_P1 = 9 ]", &failure);
    fs::write(project.path().join("fixed"), "").unwrap();
    let found = bisected(&project, 5);
    assert_eq!(found["outcome"], "gone");
    assert_eq!(found["runs"], json!(10));
    assert!(
        found["sentence"]
            .as_str()
            .unwrap()
            .contains("above 26 % is excluded"),
        "{found:#}"
    );
    fs::remove_file(project.path().join("fixed")).unwrap();
    fs::write(project.path().join("other"), "").unwrap();
    let found = bisected(&project, 5);
    assert_eq!(
        (&found["outcome"], &found["runs"]),
        (&json!("otherwise"), &json!(3))
    );
    let (_, stderr) = project.expect(2, &["bisect", "t", "0"]);
    assert!(
        stderr.contains("trial 0 is COMPLETE: it did not fail"),
        "{stderr}"
    );
}

#[test]
fn where_every_point_fails_no_parameter_is_blamed() {
    // The trial's number is no parameter.
    let project = study("[ $TUNE_TRIAL = 1 ]", SEGV);
    let found = bisected(&project, 5);
    assert_eq!(found["outcome"], "no_parameter");
    assert_eq!(
        (&found["fail_too"], &found["runs"]),
        (&json!([0]), &json!(4)),
        "{found:#}"
    );
}

#[test]
fn a_budget_and_a_signal_end_it_with_what_is_known_until_then() {
    let project = study("[ $TUNE_PARAM_P1 = 9 ]", SEGV);
    let (stdout, _) = project.expect(3, &["bisect", "t", "1", "--budget", "1ms"]);
    assert!(stdout.contains("cause: not known yet\n"), "{stdout}");
    assert!(stdout.contains("bisect t 1 --budget 2h\n"), "{stdout}");
    let slow = format!("if [ -e slow ]; then : > started; exec sleep 1000.3; else {SEGV}; fi");
    let project = study("[ $TUNE_PARAM_P1 = 9 ]", &slow);
    fs::write(project.path().join("slow"), "").unwrap();
    let mut bisect = project.start(&["bisect", "t", "1"]);
    wait_for("a run", || project.path().join("started").exists());
    signal(bisect.id(), Signal::SIGINT);
    assert_eq!(bisect.wait().unwrap().code(), Some(4));
    assert!(project.workers().is_empty());
}

#[test]
fn a_row_of_the_file_that_a_program_is_given_is_named_with_its_line() {
    let project = Project::empty();
    // A record of two lines stands before the one that it dies of.
    let mut rows = String::from("text,label\n\"first\nof two lines\",0\n");
    for row in 2..=40 {
        let word = if row == 23 { "poison" } else { "word" };
        rows.push_str(&format!("{word} {row},{}\n", row % 2));
    }
    fs::write(project.path().join("rows.csv"), rows).unwrap();
    let script = "head -1 \"$1\" | grep -q text || exit 3\nif [ $TUNE_PARAM_P -gt 4 ] && grep -q poison \"$1\"; then kill -SEGV $$; fi\necho 1\n";
    fs::write(project.path().join("t.sh"), script).unwrap();
    let task = "[task]\nkind = \"command\"\nrun = [\"sh\", \"t.sh\", \"rows.csv\"]\n\
        [objective]\ndirection = \"minimize\"\n[space]\np = { low = 0, high = 9, int = true, default = 0 }\n";
    project.config("t", task);
    project.expect(0, &["t", "--trials", "1"]);
    project.expect(0, &["enqueue", "t", "p=9"]);
    project.expect(0, &["t", "--trials", "2"]);
    let found = bisected(&project, 0);
    assert_eq!(
        found["sentence"], "p >= 5; row 23 (line 25 of rows.csv)",
        "{found:#}"
    );
    assert_eq!(found["rows"]["of"], 40);
}
