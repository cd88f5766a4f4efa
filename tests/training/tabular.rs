//! The shipped task of a table, by the real program: searched, killed, repeated with folds, exported, asked for answers.

use std::fs;
use std::path::Path;

use crate::common::{Project, results, signal, valid, wait_for};
use nix::sys::signal::Signal;
use serde_json::Value as Json;

const RUN: [&str; 9] = [
    "tabular",
    "--device",
    "cpu",
    "--set",
    "run.threads=1",
    "--set",
    "train.patience=0",
    "--trials",
    "3",
];

/// A project with the shipped task and its rows; `regression`: with the other target.
fn project(regression: bool) -> Project {
    let project = Project::empty();
    let shipped = Path::new(crate::ROOT).join("configs");
    let mut text = fs::read_to_string(shipped.join("tabular.toml")).unwrap();
    if regression {
        for (from, to) in [
            ("problem = \"classification\"", "problem = \"regression\""),
            ("target = \"late\"", "target = \"minutes\""),
            ("ignore = [\"minutes\"]", "ignore = [\"late\"]"),
            ("metric = \"macro_f1\"", "metric = \"rmse\""),
        ] {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        let dropped =
            |line: &&str| !line.starts_with("threshold") && !line.starts_with("\"loss.cls");
        text = text.lines().filter(dropped).collect::<Vec<_>>().join("\n");
    }
    fs::create_dir_all(project.path().join("configs/data")).unwrap();
    let rows = "data/deliveries.csv";
    fs::copy(
        shipped.join(rows),
        project.path().join("configs").join(rows),
    )
    .unwrap();
    project.config("tabular", &text);
    project
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn a_study_of_a_table_goes_on_after_kills_and_beats_the_trivial_answer_by_far() {
    let run = [&RUN[..], &["--epochs", "300", "--pruner=none"]].concat();
    let undisturbed = project(false);
    undisturbed.expect(0, &run);
    let killed = project(false);
    let mut child = killed.start(&run);
    let checkpoint = killed
        .path()
        .join("tune.db.d/checkpoints/tabular/trial-000000/checkpoint.json");
    wait_for("a checkpoint of trial 0", || checkpoint.is_file());
    let workers = killed.workers();
    signal(child.id(), Signal::SIGKILL);
    workers.iter().for_each(|pid| signal(*pid, Signal::SIGKILL));
    child.wait().unwrap();
    killed.expect(0, &run);
    let trials = killed.trials("tabular");
    assert_eq!(results(&trials), results(&undisturbed.trials("tabular")));
    let best = json(&killed.expect(0, &["best", "tabular", "--json"]).0);
    assert!(best["best"]["value"].as_f64().unwrap() > 0.8, "{best}");
    assert!(
        trials[0]["attrs"]["metric.post.threshold"].is_number(),
        "{}",
        trials[0]
    );
    let check = json(&killed.expect(0, &["check", "tabular", "--json"]).0);
    valid("check", &check);
    assert_eq!(check["post"].as_array().unwrap().len(), 5);
}

#[test]
fn a_run_ends_when_the_rows_change_under_it() {
    let project = project(false);
    let rows = project.path().join("configs/data/deliveries.csv");
    let more = ["--epochs", "20", "--set", "supervisor.recycle_after=1"];
    let mut run = [&RUN[..RUN.len() - 1], &["200"], &more].concat();
    let mut child = project.start(&run);
    wait_for("a trial", || {
        let output = project.run(&["trials", "tabular", "--json"]);
        let trials = serde_json::from_slice(&output.stdout).unwrap_or(Json::Null);
        trials.as_array().is_some_and(|trials| !trials.is_empty())
    });
    let text = fs::read_to_string(&rows).unwrap();
    fs::write(&rows, format!("{text}{}\n", text.lines().last().unwrap())).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(8));
    // With the rows that the study is of, it goes on.
    fs::write(&rows, text).unwrap();
    let trials = (project.trials("tabular").len() + 1).to_string();
    run[RUN.len() - 1] = &trials;
    project.expect(0, &run);
}

#[test]
fn the_winner_answers_as_it_was_scored_and_says_what_is_wrong_with_rows() {
    for (regression, metric) in [(false, "macro_f1"), (true, "rmse")] {
        let project = project(regression);
        project.expect(0, &[&RUN[..], &["--epochs", "20"]].concat());
        let rows = project.path().join("configs/data/deliveries.csv");
        let out = |name: &str| project.path().join(name).to_str().unwrap().to_owned();
        let (kept, again, rows) = (out("kept"), out("again"), rows.to_str().unwrap().to_owned());
        let (told, notes) = project.expect(0, &["export", "tabular", "-o", &kept]);
        assert!(!told.contains("again") && notes.is_empty(), "{told}{notes}");
        project.expect(0, &["export", "tabular", "-o", &again, "--retrain"]);
        for name in ["model.safetensors", "tabular.json"] {
            let of = |dir: &str| fs::read(Path::new(dir).join(name)).unwrap();
            assert!(of(&kept) == of(&again), "{name}");
        }
        let scores = json(&project.expect(0, &["evaluate", &kept, &rows, "--json"]).0);
        let value = scores["metrics"][metric].as_f64().unwrap();
        let trivial = scores["baseline"][metric]["value"].as_f64().unwrap();
        assert!(
            if regression {
                value < trivial / 2.0
            } else {
                value > trivial + 0.2
            },
            "{scores}"
        );
        let answers = project.path().join("answers.jsonl");
        project.expect(
            0,
            &["predict", &kept, &rows, "-o", answers.to_str().unwrap()],
        );
        let answers = fs::read_to_string(answers).unwrap();
        let (mut off, mut count) = (0.0, 0.0);
        for line in answers.lines().map(json) {
            valid("predict", &line);
            assert_eq!(line["prediction"].is_number(), regression, "{line}");
            off += match regression {
                true => {
                    let truth: f64 = line["minutes"].as_str().unwrap().parse().unwrap();
                    (line["prediction"].as_f64().unwrap() - truth).powi(2)
                }
                false => f64::from(line["prediction"] == line["late"]),
            };
            count += 1.0;
        }
        let (found, told) = match regression {
            true => ((off / count).sqrt(), value),
            false => (off / count, scores["metrics"]["accuracy"].as_f64().unwrap()),
        };
        assert!((found - told).abs() < 1e-9, "{found} {told}");
        let wrong = project.path().join("wrong.csv");
        let text = fs::read_to_string(&rows).unwrap();
        fs::write(&wrong, text.replacen(",3.17,", ",far,", 1)).unwrap();
        let (stdout, stderr) = project.expect(2, &["predict", &kept, wrong.to_str().unwrap()]);
        assert_eq!(stdout, "");
        assert!(
            stderr.contains("wrong.csv:2") && stderr.contains("column km"),
            "{stderr}"
        );
        let mut of_texts = project.tune(&["predict", &kept, "-", "--format", "txt"]);
        let output = of_texts.stdin(fs::File::open(&rows).unwrap()).output();
        let stderr = String::from_utf8(output.unwrap().stderr).unwrap();
        assert!(
            stderr.contains("standard input: columns: found a file of texts"),
            "{stderr}"
        );
        assert!(!stderr.contains("stdin.txt"), "{stderr}");
    }
}

#[test]
fn folds_repeats_and_the_test_of_the_winner_work_on_tables() {
    let project = project(true);
    let more = ["--epochs", "5", "--folds", "3", "--repeats", "2"];
    let told = project.expect(0, &[&RUN[..], &more].concat());
    assert!(
        told.0.contains("test split") || told.1.contains("test split"),
        "{told:?}"
    );
    let trials = project.trials("tabular");
    assert!(
        trials[0]["attrs"]["metric.fold_std"].as_f64().unwrap() > 0.0,
        "{}",
        trials[0]
    );
    assert_eq!(
        trials[0]["intermediate"]
            .as_object()
            .map(|steps| steps.len()),
        Some(3)
    );
}
