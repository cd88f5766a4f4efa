//! The task people run, on real text and a real checkpoint, cut down to seconds.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::{Project, results, wait_for};
use rand::{RngExt, SeedableRng};

fn model() -> PathBuf {
    let cache = std::env::var("TUNE_CACHE")
        .unwrap_or_else(|_| format!("{}/.cache/tune", std::env::var("HOME").unwrap()));
    let dir = PathBuf::from(cache).join("models/minilm");
    assert!(
        dir.join("model.safetensors").exists(),
        "{} is missing: run `make model`",
        dir.display()
    );
    dir
}

/// The shipped sweep on the first `groups` reviews.
fn project(groups: u32) -> Project {
    let project = Project::empty();
    let shipped = Path::new(crate::ROOT).join("configs");
    let text = fs::read_to_string(shipped.join("criteria.toml")).unwrap();
    let text = text.replace("~/.cache/tune/models/minilm", model().to_str().unwrap());
    project.config("criteria", &text);
    let mut reader = csv::Reader::from_path(shipped.join("data/reviews.csv")).unwrap();
    fs::create_dir(project.path().join("configs/data")).unwrap();
    let mut writer =
        csv::Writer::from_path(project.path().join("configs/data/reviews.csv")).unwrap();
    let headers = reader.headers().unwrap().clone();
    let review = headers.iter().position(|h| h == "review").unwrap();
    writer.write_record(&headers).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for record in reader.records() {
        let record = record.unwrap();
        seen.insert(record[review].to_owned());
        if seen.len() > groups as usize {
            break;
        }
        writer.write_record(&record).unwrap();
    }
    writer.flush().unwrap();
    project
}

const QUICK: [&str; 8] = [
    "--epochs",
    "2",
    "--device",
    "cpu",
    "--set",
    "train.freeze_encoder_layers=5",
    "--set",
    "tok.max_length=64",
];

#[test]
fn trials_of_a_real_model_fill_a_study_and_the_best_stands_beside_the_baseline() {
    let project = project(30);
    let run = [
        &["criteria", "--trials", "4", "--parallel", "2"],
        &QUICK[..],
    ]
    .concat();
    let (stdout, _) = project.expect(0, &run);
    assert!(
        stdout.contains("macro_f1") && stdout.contains("always predicting"),
        "{stdout}"
    );
    let trials = project.trials("criteria");
    assert_eq!(trials.len(), 4);
    for trial in &trials {
        assert!(
            trial["value"]
                .as_f64()
                .is_some_and(|v| (0.0..=1.0).contains(&v)),
            "{trial}"
        );
        assert!(trial["attrs"]["metric.loss"].is_number(), "{trial}");
    }
    let log = project
        .path()
        .join("tune.db.d/logs/criteria/trial-000000-attempt-0.log");
    let log = fs::read_to_string(log).unwrap();
    assert!(log.starts_with("=== trial 0 attempt 0"), "{log}");
    assert!(log.contains("optim.lr = "), "{log}");
    project.expect(0, &run);
}

#[test]
fn the_winner_of_a_real_sweep_is_chosen_by_repeats_and_tested_once() {
    let project = project(30);
    let run = [&["criteria", "--trials", "2", "--repeats", "2"], &QUICK[..]].concat();
    let (stdout, _) = project.expect(0, &run);
    assert!(stdout.contains("winner by repeats: trial"), "{stdout}");
    assert!(stdout.contains("test split: trial"), "{stdout}");
    let (json, _) = project.expect(0, &["best", "criteria", "--json"]);
    let best: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        best["test"]["number"],
        best["selection"]["winner"]["number"]
    );
    let part = |key: &str| best["test"][key].as_f64();
    assert!(
        part("value").is_some_and(|v| (0.0..=1.0).contains(&v)),
        "{json}"
    );
    assert!(part("validation").is_some(), "{json}");
    assert!(best["test"]["baseline"]["value"].is_number(), "{json}");
    let trials = project.trials("criteria");
    assert_eq!(trials.len(), 2);
    let tested = |t: &serde_json::Value| t["attrs"]["metric.test.macro_f1"].is_number();
    assert!(
        !trials.iter().any(tested),
        "no trial has seen the test split"
    );
    let (again, _) = project.expect(0, &run);
    assert!(!again.contains("COMPLETE"), "nothing runs again: {again}");
}

#[test]
fn a_sweep_killed_three_times_ends_with_the_trials_of_an_undisturbed_one() {
    let run = [
        &["criteria", "--trials", "3", "--parallel", "1"],
        &QUICK[..],
    ]
    .concat();
    let reference = project(16);
    reference.expect(0, &run);
    let project = project(16);
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
    for _ in 0..3 {
        let mut child = project.start(&run);
        std::thread::sleep(Duration::from_millis(rng.random_range(900..3_500)));
        child.kill().unwrap();
        child.wait().unwrap();
        wait_for("the workers to be gone", || project.workers().is_empty());
    }
    project.expect(0, &run);
    assert_eq!(
        results(&project.trials("criteria")),
        results(&reference.trials("criteria"))
    );
}

#[test]
fn checking_the_task_shows_space_split_baseline_and_model_and_writes_nothing() {
    let project = project(30);
    let (stdout, _) = project.expect(0, &["check", "criteria"]);
    for part in [
        "optim.lr",
        "train",
        "validation",
        "test",
        "trivial answer",
        "minilm",
    ] {
        assert!(stdout.contains(part), "{part} is missing in\n{stdout}");
    }
    assert!(!project.database().exists());
}

#[test]
fn missing_data_and_a_corrupt_checkpoint_are_told_together_before_anything_starts() {
    let project = project(30);
    fs::remove_file(project.path().join("configs/data/reviews.csv")).unwrap();
    let (_, stderr) = project.expect(2, &["criteria", "--trials", "1"]);
    assert!(stderr.contains("reviews.csv"), "{stderr}");

    let broken = project.path().join("broken");
    fs::create_dir(&broken).unwrap();
    for file in ["config.json", "tokenizer.json"] {
        fs::copy(model().join(file), broken.join(file)).unwrap();
    }
    let weights = fs::read(model().join("model.safetensors")).unwrap();
    fs::write(
        broken.join("model.safetensors"),
        &weights[..weights.len() / 2],
    )
    .unwrap();
    let text = fs::read_to_string(project.path().join("configs/criteria.toml")).unwrap();
    let text = text.replace(model().to_str().unwrap(), broken.to_str().unwrap());
    project.config("criteria", &text);
    let (_, stderr) = project.expect(2, &["criteria", "--trials", "1"]);
    assert!(
        stderr.contains("model.safetensors") && stderr.contains("reviews.csv"),
        "{stderr}"
    );
    assert!(!project.database().exists());
}
