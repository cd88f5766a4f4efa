//! Programs that fail, crash or take too long: what becomes of their runs, and what people are told.

use crate::command::{outcomes, shell};
use crate::common::{signal, wait_for};
use nix::sys::signal::Signal;
use serde_json::{Value as Json, json};

/// Crashes are the program's: they cost no slot. On the CPU nothing is called an error of CUDA.
#[test]
fn a_program_that_keeps_crashing_costs_no_slot_and_the_goal_is_reached() {
    let script = "case $TUNE_TRIAL in 0|9) echo 1 ;; *) kill -SEGV $$ ;; esac";
    let project = shell(script, "");
    let (printed, _) = project.expect(0, &["t", "--trials", "10"]);
    let trials = project.trials("t");
    assert_eq!(trials[9]["state"], "COMPLETE");
    let crashed = &trials[1..9];
    assert!(crashed.iter().all(|t| t["attrs"]["fault"] == "crash"));
    assert!(crashed.iter().all(|t| outcomes(t) == ["crash", "crash"]));
    for name in ["cuda_error", "cuda_error_type", "cuda_error_msg"] {
        assert!(trials.iter().all(|t| t["attrs"][name].is_null()), "{name}");
    }
    let message = "the program was ended by SIGSEGV";
    assert_eq!(trials[1]["attrs"]["error_msg"], message);
    assert!(printed.contains("8 trials (crash): the program was ended by SIGSEGV"));
    assert!(!printed.contains("given up"), "{printed}");
}

#[test]
fn three_trials_that_fail_alike_end_a_run_in_which_nothing_has_worked() {
    let script = "echo \"ValueError: x is $1, no good\" >&2; exit 1";
    let project = shell(script, "");
    let (printed, last_words) = project.expect(5, &["t", "--trials", "10"]);
    assert!(
        last_words.contains("doctor t` looks closer"),
        "{last_words}"
    );
    assert_eq!(project.trials("t").len(), 3);
    assert!(printed.contains("no trial has worked yet, and the first 3 failed alike"));
    assert!(
        printed.contains("3 trials (task_error): ValueError: x is"),
        "{printed}"
    );
    let here = project.path().display();
    assert!(printed.contains(&format!("tune -C {here} show t 2\n")));
    assert!(printed.contains("tune explain "));
    // Another start of the same costs three more; once one has worked, it takes 20 in a row.
    project.expect(5, &["t", "--trials", "10"]);
    assert_eq!(project.trials("t").len(), 6);
    std::fs::write(project.path().join("t.sh"), "[ $TUNE_TRIAL = 6 ] && echo 1").unwrap();
    project.expect(5, &["t", "--trials", "10"]);
    assert_eq!(project.trials("t").len(), 27);
}

#[test]
fn trials_that_fail_each_in_its_own_way_are_given_twenty_in_a_row() {
    let words = "set -- a b c d e f g h i j k l m n o p q r s t; shift $TUNE_TRIAL";
    let project = shell(&format!("{words}; echo \"no $1\" >&2; exit 1"), "");
    let (printed, _) = project.expect(5, &["t", "--trials", "10"]);
    assert_eq!(project.trials("t").len(), 20);
    assert!(
        printed.contains(&format!(
            "and 17 other failures: tune -C {} failures t",
            project.path().display()
        )),
        "{printed}"
    );
}

#[test]
fn a_failure_names_the_line_of_the_users_own_code() {
    let script = "echo 'Traceback (most recent call last):' >&2\n\
                  echo '  File \"net.py\", line 7, in forward' >&2\n\
                  echo '  File \"/usr/lib/python3/dist-packages/numpy/a.py\", line 2, in f' >&2\n\
                  echo 'ValueError: no' >&2; exit 1";
    let project = shell(script, "");
    let (printed, _) = project.expect(5, &["t", "--trials", "10"]);
    assert!(printed.contains("  at net.py:7 in forward\n"), "{printed}");
    let trial = &project.trials("t")[0];
    assert_eq!(trial["attrs"]["error_place"], "net.py:7 in forward");
}

#[test]
fn trials_that_take_longer_than_the_budget_come_to_their_ends() {
    let project = shell("sleep 2.5; echo 1", "");
    let run = ["t", "--trials", "2", "--timeout", "2s"];
    let (printed, _) = project.expect(3, &run);
    assert!(
        printed.contains("waiting for trial 0, at most 10 min"),
        "{printed}"
    );
    // The last one that was missing: the goal is reached.
    project.expect(0, &run);
    let trials = project.trials("t");
    assert!(trials.iter().all(|t| outcomes(t) == ["completed"]));
    // By its own word a run puts them back at once, and says so the second time.
    let slow = shell("sleep 100000.8", "");
    let cut = ["t", "--timeout", "2s", "--grace", "0"];
    slow.expect(3, &cut);
    let (printed, _) = slow.expect(3, &cut);
    assert!(
        printed.contains("trial 0 was cut short again, 2 times by now"),
        "{printed}"
    );
}

#[test]
fn the_first_signal_waits_for_the_program_and_the_second_puts_its_trial_back() {
    let script = "touch started; until [ -f go ]; do sleep 0.05; done; echo 1";
    for twice in [false, true] {
        let project = shell(script, "");
        let mut child = project.start(&["t", "--trials", "3"]);
        wait_for("the program", || project.path().join("started").exists());
        signal(child.id(), Signal::SIGINT);
        if twice {
            signal(child.id(), Signal::SIGTERM);
        } else {
            std::fs::write(project.path().join("go"), "").unwrap();
        }
        assert_eq!(child.wait().unwrap().code(), Some(4));
        let trials = project.trials("t");
        let (state, outcome) = match twice {
            true => ("RUNNING", "interrupted"),
            false => ("COMPLETE", "completed"),
        };
        assert_eq!(trials.len(), 1);
        assert_eq!(trials[0]["state"], state);
        assert_eq!(outcomes(&trials[0]), [outcome]);
    }
}

#[test]
fn a_program_beyond_the_limit_of_a_trial_is_ended_and_pruned_with_its_last_value() {
    let script = "echo '{\"step\": 1, \"value\": 5}' >&$TUNE_METRICS_FD; sleep 100000.7";
    let project = shell(script, "");
    let (printed, _) = project.expect(0, &["t", "--trials", "2", "--trial-limit", "300ms"]);
    for trial in project.trials("t") {
        assert_eq!(trial["state"], "PRUNED");
        assert_eq!(trial["value"], 5.0);
        assert_eq!(trial["attrs"]["time_limit"], true);
        assert_eq!(outcomes(&trial), ["time_limit"]);
    }
    assert!(printed.contains("(--trial-limit)"), "{printed}");
}

#[test]
fn why_trials_failed_is_told_by_failures() {
    let script = "if [ $TUNE_TRIAL = 0 ]; then echo 1; else echo \"no file /tmp/$TUNE_TRIAL/x\" >&2; exit 1; fi";
    let project = shell(script, "");
    project.expect(5, &["t", "--trials", "9"]);
    let (told, _) = project.expect(0, &["failures", "t"]);
    assert!(told.starts_with("t: 20 failed trials\n20 trials (task_error): the program exited with status 1: no file /tmp/20/x\n"));
    assert!(
        told.contains(&format!(
            "  trials 1, 2, 3, 4, 5 and 15 more\n  tune -C {} show t 20\n",
            project.path().display()
        )),
        "{told}"
    );
    let (json, _) = project.expect(0, &["failures", "--json"]);
    let json: Json = serde_json::from_str(&json).unwrap();
    let schema = include_str!("../../docs/schemas/failures.schema.json");
    let schema: Json = serde_json::from_str(schema).unwrap();
    let checked = jsonschema::validate(&schema, &json);
    assert!(checked.is_ok(), "{checked:?}");
    assert_eq!(
        (&json["failed"], &json["failures"][0]["count"]),
        (&json!(20), &json!(20))
    );
    let log = json["failures"][0]["log"].as_str().unwrap();
    let (explained, _) = project.expect(0, &["explain", log]);
    assert!(explained.contains("fault     task_error"), "{explained}");
}

#[test]
fn a_goal_that_is_reached_already_is_one_line() {
    let project = shell("echo 1", "");
    project.expect(0, &["t", "--trials", "2"]);
    let (printed, errors) = project.expect(0, &["t", "--trials", "2"]);
    assert_eq!(printed.lines().count(), 1, "{printed}");
    assert!(
        printed.contains("study t: 2 of 2 trials finished, best value 1 (trial 0)"),
        "{printed}"
    );
    assert_eq!(errors, "");
    let (events, _) = project.expect(0, &["t", "--trials", "2", "--json"]);
    let names: Vec<Json> = events
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let names: Vec<&str> = names.iter().map(|e| e["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["run_started", "run_finished"]);
}

#[test]
fn a_study_of_trials_without_a_finite_value_says_so_everywhere() {
    let project = shell("echo nan", "");
    let (printed, _) = project.expect(0, &["t", "--trials", "3"]);
    let why = "no trial came to its end with a finite value: 3 of 3 diverged";
    assert!(printed.contains(&format!("warning: {why}")), "{printed}");
    for command in ["status", "failures"] {
        let (printed, _) = project.expect(0, &[command, "t"]);
        assert!(printed.contains(why), "{printed}");
        assert!(printed.contains("logs t 2"), "{printed}");
    }
    let (_, stderr) = project.expect(2, &["best", "t"]);
    assert!(stderr.contains("tune status t says more"), "{stderr}");
    let (printed, _) = project.expect(0, &["failures", "t", "--json"]);
    let failures: Json = serde_json::from_str(&printed).unwrap();
    assert_eq!(failures["diverged"], 3);
    // By the word of the fault, too.
    let (printed, _) = project.expect(0, &["trials", "t", "--json", "--where", "reason=diverged"]);
    let found: Vec<Json> = serde_json::from_str(&printed).unwrap();
    assert_eq!(found.len(), 3);
    let (printed, _) = project.expect(0, &["trials", "t", "--json", "--where", "reason!=diverged"]);
    assert_eq!(
        serde_json::from_str::<Vec<Json>>(&printed).unwrap(),
        Vec::<Json>::new()
    );
}

#[test]
fn so_does_one_of_several_objectives() {
    let project = shell("echo '{\"loss\": NaN, \"cost\": 1}'", "");
    let objectives = ["--objective", "loss:min", "--objective", "cost:min"];
    project.expect(0, &[&["t", "--trials", "2"], &objectives[..]].concat());
    let (printed, _) = project.expect(0, &["status", "t"]);
    let why = "none: no trial came to its end with a finite value: 2 of 2 diverged";
    assert!(printed.contains(why), "{printed}");
}

#[test]
fn a_value_on_standard_error_is_told_of() {
    let project = shell("echo value=0.5 >&2", "");
    let file = project.path().join("configs/t.toml");
    let task = std::fs::read_to_string(&file).unwrap();
    let task = task.replace("[objective]", "value = 'value=([0-9.]+)'\n[objective]");
    std::fs::write(&file, task).unwrap();
    let (printed, _) = project.expect(5, &["t", "--trials", "3"]);
    assert!(
        printed.contains("but a line on standard error does"),
        "{printed}"
    );
}
