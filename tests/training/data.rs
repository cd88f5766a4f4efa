//! Rows, splits, folds, windows and metrics through the real binary, on a tiny random model.

use std::fs;

use crate::common::tiny;
use serde_json::Value as Json;

const RUN: [&str; 5] = ["tiny", "--device", "cpu", "--trials", "2"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&RUN[..], more].concat()
}

fn number(value: &Json) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

#[test]
fn a_trial_with_folds_is_worth_their_mean_and_shows_each_fold_as_a_step() {
    let project = tiny::project(120);
    let (stdout, _) = project.expect(0, &["check", "tiny", "--folds", "3"]);
    assert!(stdout.contains("3 folds of"), "{stdout}");
    assert!(stdout.contains("the mean over 3 folds"), "{stdout}");
    project.expect(0, &with(&["--folds", "3", "--test=on"]));
    let trials = project.trials("tiny");
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        let folds: Vec<f64> = ["1", "2", "3"]
            .iter()
            .map(|k| number(&trial["intermediate"][k]))
            .collect();
        assert_eq!(trial["intermediate"].as_object().unwrap().len(), 3);
        let mean = folds.iter().sum::<f64>() / 3.0;
        assert!((number(&trial["value"]) - mean).abs() < 1e-12, "{trial}");
        let attrs = &trial["attrs"];
        assert_eq!(number(&attrs["last_value"]), folds[2]);
        let best = number(&attrs["best_epoch"]) as usize;
        assert!(
            folds.iter().all(|value| *value <= folds[best - 1]),
            "{trial}"
        );
        for name in ["fold_std", "fold_epoch", "auroc", "mcc", "train_loss"] {
            assert!(
                attrs[format!("metric.{name}")].is_number(),
                "{name}: {trial}"
            );
        }
    }
    let (json, _) = project.expect(0, &["best", "tiny", "--json"]);
    let best: Json = serde_json::from_str(&json).unwrap();
    assert!(
        (0.0..=1.0).contains(&number(&best["test"]["value"])),
        "{json}"
    );
    // The same study without folds is another one.
    let (_, stderr) = project.expect(8, &RUN);
    assert!(stderr.contains("data.folds was 3; now it is 0"), "{stderr}");
    let (_, stderr) = project.expect(2, &with(&["--folds", "200"]));
    assert!(
        stderr.contains("200 folds") && stderr.contains("expected at most"),
        "{stderr}"
    );
}

#[test]
fn the_same_text_in_two_parts_ends_in_an_error_that_says_where_and_what_to_do() {
    let project = tiny::project(120);
    let rows = project.path().join("configs/rows.csv");
    let mut text = fs::read_to_string(&rows).unwrap();
    let first = text.lines().nth(1).unwrap().to_owned();
    let (words, _) = first.split_once(',').unwrap();
    for group in 100..120 {
        text.push_str(&format!("\" {}  \",1,{group}\n", words.replace(' ', "  ")));
    }
    fs::write(&rows, text).unwrap();
    for command in [&["check", "tiny"][..], &RUN] {
        let (_, stderr) = project.expect(2, command);
        for part in [
            "rows.csv:2",
            "1 text in two parts",
            "(21 rows)",
            "line 2 (",
            "data.group",
        ] {
            assert!(stderr.contains(part), "{part} is missing in\n{stderr}");
        }
    }
    assert!(!project.database().exists());
    let (stdout, _) = project.expect(0, &["check", "tiny", "--set", "data.duplicates=together"]);
    assert!(!stdout.contains("warning: 1 text in two"), "{stdout}");
    assert!(
        stdout.contains("20 rows repeat the text of an earlier one"),
        "{stdout}"
    );
    let allowed = ["--set", "data.duplicates=allow"];
    let (stdout, _) = project.expect(0, &[&["check", "tiny"], &allowed[..]].concat());
    assert!(stdout.contains("warning: 1 text in two parts"), "{stdout}");
    let (stdout, stderr) = project.expect(0, &with(&allowed));
    assert!((stdout + &stderr).contains("1 text in two parts"));
}

#[test]
fn any_metric_can_be_the_objective_and_all_are_kept() {
    let names = [
        "macro_f1",
        "f1",
        "accuracy",
        "balanced_accuracy",
        "mcc",
        "auroc",
        "auprc",
        "log_loss",
        "loss",
    ];
    for (objective, least, most) in [("mcc", -1.0, 1.0), ("log_loss", 0.0, 40.0)] {
        let project = tiny::project(80);
        let metric = format!("objective.metric={objective}");
        project.expect(
            0,
            &["tiny", "--device", "cpu", "--trials", "1", "--set", &metric],
        );
        let trial = &project.trials("tiny")[0];
        let value = number(&trial["value"]);
        assert!((least..=most).contains(&value), "{trial}");
        for name in names.iter().filter(|name| **name != objective) {
            assert!(
                trial["attrs"][format!("metric.{name}")].is_number(),
                "{name}: {trial}"
            );
        }
    }
}

#[test]
fn long_documents_become_windows_where_a_stride_is_set() {
    let project = tiny::project(120);
    let (stdout, _) = project.expect(0, &["check", "tiny"]);
    assert!(
        stdout.contains("tok.max_length 16 cuts 40 of 120 rows"),
        "{stdout}"
    );
    let windows = ["--set", "tok.doc_stride=4"];
    let (stdout, _) = project.expect(0, &[&["check", "tiny"], &windows[..]].concat());
    assert!(
        stdout.contains("40 of 120 rows (33.3 %) have more than one window"),
        "{stdout}"
    );
    project.expect(0, &RUN);
    let cut = project.trials("tiny");
    let (_, stderr) = project.expect(8, &with(&windows));
    assert!(stderr.contains("tok.doc_stride"), "{stderr}");
    project.expect(
        0,
        &with(&["--set", "tok.doc_stride=4", "--study", "windows"]),
    );
    let laid_out = project.trials("windows");
    assert_ne!(
        cut[0]["attrs"]["metric.loss"],
        laid_out[0]["attrs"]["metric.loss"]
    );
    let (_, stderr) = project.expect(2, &["check", "tiny", "--set", "tok.doc_stride=14"]);
    assert!(stderr.contains("fewer than 14"), "{stderr}");
}

#[test]
fn a_column_can_give_the_split_and_is_checked_for_groups_in_two_parts() {
    let project = tiny::project(120);
    let rows = project.path().join("configs/rows.csv");
    let text = fs::read_to_string(&rows).unwrap();
    let part = |group: usize| ["train", "train", "dev", "test"][group % 4];
    let given: String = (text.lines().enumerate())
        .map(|(i, line)| match i {
            0 => format!("{line},set\n"),
            _ => format!("{line},{}\n", part((i - 1) / 4)),
        })
        .collect();
    fs::write(&rows, &given).unwrap();
    let column = ["check", "tiny", "--set", "data.split.column=set"];
    let (stdout, _) = project.expect(0, &column);
    assert!(stdout.contains("train: 64 rows"), "{stdout}");
    assert!(stdout.contains("validation: 28 rows"), "{stdout}");
    fs::write(&rows, given.replacen("train\n", "test\n", 1)).unwrap();
    let (_, stderr) = project.expect(2, &column);
    assert!(stderr.contains("1 group in two parts"), "{stderr}");
    assert!(stderr.contains("data.split.column"), "{stderr}");
}
