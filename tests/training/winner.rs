//! The winner is usable: exported, asked for answers, and scored, through the real binary.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::common::{Project, tiny, valid};
use serde_json::Value as Json;

const RUN: [&str; 5] = ["tiny", "--device", "cpu", "--trials", "2"];

/// A study of two trials, with one thread as anywhere.
fn searched(keep: &str) -> Project {
    let project = tiny::project(120);
    let keep = format!("run.keep_best={keep}");
    let more = ["--set", &keep, "--set", "run.threads=1"];
    project.expect(0, &[&RUN[..], &more].concat());
    project
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn file(path: &Path) -> Json {
    json(&fs::read_to_string(path).unwrap())
}

/// What `--json` prints, checked against its schema.
pub(crate) fn checked(text: &str, schema: &str) -> Json {
    let docs = Path::new(crate::ROOT).join("docs/schemas");
    let schema = file(&docs.join(schema));
    let validator = jsonschema::validator_for(&schema).unwrap();
    let value = json(text);
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}: {text}");
    value
}

/// `tune export tiny ... -o out --json`.
fn export(project: &Project, out: &Path, more: &[&str]) -> Json {
    let out = out.to_str().unwrap();
    let (stdout, stderr) = project.expect(
        0,
        &[&["export", "tiny", "-o", out, "--json"], more].concat(),
    );
    assert_eq!(stderr, "");
    checked(&stdout, "export.schema.json")
}

#[test]
fn kept_weights_and_those_of_a_second_training_are_the_same_model() {
    let project = searched("1");
    let (kept, again) = (project.path().join("kept"), project.path().join("again"));
    let best = json(&project.expect(0, &["best", "tiny", "--json"]).0);
    let told = export(&project, &kept, &[]);
    assert_eq!(told["weights"]["from"], "kept");
    assert_eq!(told["trial"], best["best"]["number"]);
    // What an export that was killed has left; no process has this number.
    let left = project.path().join(".again.training-4194304-x");
    fs::create_dir(&left).unwrap();
    let told = export(&project, &again, &["--retrain"]);
    assert_eq!(told["weights"]["from"], "retrained");
    assert_eq!(told["weights"]["reproduced"], true);
    for name in ["model.safetensors", "config.json", "head.json"] {
        let of = |dir: &Path| fs::read(dir.join(name)).unwrap();
        assert!(of(&kept) == of(&again), "{name}");
    }
    let origin = file(&kept.join("tune.json"));
    assert_eq!(origin["study"], "tiny");
    assert_eq!(origin["value"], told["weights"]["value"]);
    assert_eq!(origin["metrics"]["macro_f1"], origin["value"]);
    let mode = |name: &str| fs::metadata(kept.join(name)).unwrap().permissions().mode();
    assert_eq!(mode("model.safetensors"), mode("config.json"));
    assert_eq!(origin["config"]["tok.max_length"], 16);
    for fingerprint in [
        "/data/fingerprint",
        "/data/split_fingerprint",
        "/model/fingerprint",
    ] {
        assert!(origin.pointer(fingerprint).unwrap().is_string(), "{origin}");
    }
    assert!(!project.path().join("kept.partial").exists());
    // No second training is left behind.
    assert_eq!(second_trainings(&project), 0);
}

/// Directories of second trainings beside exports.
fn second_trainings(project: &Project) -> usize {
    let entries = fs::read_dir(project.path()).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains(".training-")).count()
}

#[test]
fn a_trial_whose_weights_were_not_kept_is_trained_again() {
    let project = searched("0");
    // Nothing can be written to the project's own place for logs.
    let logs = project.path().join("tune.db.d/logs");
    fs::remove_dir_all(&logs).unwrap();
    fs::write(&logs, "").unwrap();
    let told = export(&project, &project.path().join("out"), &["1"]);
    assert_eq!(
        (&told["trial"], &told["weights"]["from"]),
        (&1.into(), &"retrained".into())
    );
    assert_eq!(told["weights"]["reproduced"], true);
    assert_eq!(second_trainings(&project), 0);
}

#[test]
fn a_second_training_on_other_inputs_is_refused_before_it_begins() {
    let project = searched("1");
    let out = project.path().join("out");
    let refused = |expected: &[&str]| {
        let out = out.to_str().unwrap();
        for args in [
            &["export", "tiny", "-o", out, "--retrain"][..],
            &["replay", "tiny", "1"],
        ] {
            let (stdout, stderr) = project.expect(2, args);
            assert_eq!(stdout, "");
            for part in expected {
                assert!(stderr.contains(part), "{part:?} is not in: {stderr}");
            }
        }
    };
    let with = |path: &Path, change: &dyn Fn(&str) -> String, expected: &[&str]| {
        let text = fs::read_to_string(path).unwrap();
        fs::write(path, change(&text)).unwrap();
        refused(expected);
        fs::write(path, text).unwrap();
    };
    with(
        &project.path().join("model/config.json"),
        &|text| text.replace("1e-12", "1e-11"),
        &["the model tiny has changed", "fingerprint", "then"],
    );
    let rows = project.path().join("configs/rows.csv");
    with(
        &rows,
        &|text| text.replacen("phone", "screen", 1),
        &["rows.csv", "the data have changed", "fingerprint", "then"],
    );
    with(
        &rows,
        &|text| text.replacen("text,", "body,", 1),
        &["rows.csv", "text"],
    );
    fs::remove_file(&rows).unwrap();
    refused(&["rows.csv"]);
    assert!(!out.exists());
    assert_eq!(second_trainings(&project), 0);
    let logs = fs::read_dir(project.path().join("tune.db.d/logs/tiny")).unwrap();
    let mut logs = logs.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    assert!(!logs.any(|name| name.contains("replay")));
    // What was kept needs no rows.
    export(&project, &out, &[]);
}

#[test]
fn answers_and_scores_are_those_of_the_rows() {
    let project = searched("1");
    let out = project.path().join("out");
    export(&project, &out, &[]);
    let (dir, rows) = (
        out.to_str().unwrap(),
        project.path().join("configs/rows.csv"),
    );
    let rows = rows.to_str().unwrap();
    let (text, _) = project.expect(0, &["evaluate", dir, rows]);
    assert!(
        text.contains("macro_f1") && text.contains("class \\ predicted"),
        "{text}"
    );
    let scores = project.expect(0, &["evaluate", dir, rows, "--json"]).0;
    let scores = checked(&scores, "evaluation.schema.json");
    assert_eq!(scores["rows"], 120);
    let answers = project.path().join("answers.jsonl");
    project.expect(0, &["predict", dir, rows, "-o", answers.to_str().unwrap()]);
    let nowhere = project.path().join("none/answers.jsonl");
    let (_, error) = project.expect(2, &["predict", dir, rows, "-o", nowhere.to_str().unwrap()]);
    assert!(
        error.contains("--out ") && error.contains("there is no directory "),
        "{error}"
    );
    let (mut right, mut count) = (0, 0);
    for line in fs::read_to_string(&answers).unwrap().lines() {
        let answer = json(line);
        let p = |label: &str| answer[format!("probability.{label}")].as_f64().unwrap();
        assert!((p("0") + p("1") - 1.0).abs() < 1e-9, "{line}");
        assert_eq!(answer["prediction"] == "1", p("1") > p("0"), "{line}");
        right += u32::from(answer["prediction"] == answer["status"]);
        count += 1;
    }
    let accuracy = scores["metrics"]["accuracy"].as_f64().unwrap();
    assert!((accuracy - f64::from(right) / f64::from(count)).abs() < 1e-12);
    // The same rows as texts, from standard output.
    let texts = project.path().join("texts.txt");
    let mut reader = csv::Reader::from_path(rows).unwrap();
    let column: Vec<String> = reader.records().map(|r| r.unwrap()[0].to_owned()).collect();
    fs::write(&texts, column.join("\n")).unwrap();
    let (csv, _) = project.expect(0, &["predict", dir, texts.to_str().unwrap()]);
    assert_eq!(
        csv.lines().next(),
        Some("text,prediction,probability.0,probability.1")
    );
    assert_eq!(csv.lines().count(), 121);
    let (jsonl, _) = project.expect(0, &["predict", dir, texts.to_str().unwrap(), "--json"]);
    let first = json(jsonl.lines().next().unwrap());
    valid("predict", &first);
    let filed = json(
        fs::read_to_string(&answers)
            .unwrap()
            .lines()
            .next()
            .unwrap(),
    );
    assert_eq!(first["probability.1"], filed["probability.1"]);
}

#[test]
fn an_exported_model_is_a_model_for_embed_and_for_further_studies() {
    let project = searched("1");
    let out = project.path().join("out");
    export(&project, &out, &[]);
    let (dir, rows) = (
        out.to_str().unwrap(),
        project.path().join("configs/rows.csv"),
    );
    let to = project.path().join("hidden.safetensors");
    let (rows, to) = (rows.to_str().unwrap(), to.to_str().unwrap());
    let embed = ["embed", dir, rows, "-o", to, "--device", "cpu", "--json"];
    let (embedded, _) = project.expect(0, &embed);
    valid("embed", &json(&embedded));
    assert!(Path::new(to).exists());
    let config = tiny::CONFIG.replace("../model", dir);
    project.config("further", &config);
    let (check, _) = project.expect(0, &["check", "further", "--set", "head.pooling=cls"]);
    assert!(
        check.contains("transformers loads heads of pooling cls"),
        "{check}"
    );
    project.expect(0, &["further", "--device", "cpu", "--trials", "1"]);
    assert_eq!(project.trials("further")[0]["state"], "COMPLETE");
}

#[test]
fn what_cannot_be_done_is_refused_and_leaves_nothing() {
    let project = searched("1");
    let path = |name: &str| project.path().join(name).to_str().unwrap().to_owned();
    let out = path("out");
    let refused = |args: &[&str], expected: &[&str]| {
        let (stdout, stderr) = project.expect(2, args);
        assert_eq!(stdout, "");
        for part in expected {
            assert!(stderr.contains(part), "{part:?} is not in: {stderr}");
        }
    };
    refused(&["export", "tiny", "7", "-o", &out], &["7"]);
    refused(&["export", "tony", "-o", &out], &["tony", "tiny"]);
    refused(
        &["predict", &path("model"), &path("configs/rows.csv")],
        &["head.json"],
    );
    export(&project, Path::new(&out), &[]);
    refused(&["export", "tiny", "-o", &out], &["not empty", "--force"]);
    export(&project, Path::new(&out), &["--force"]);
    let (bad, answers) = (path("bad.csv"), path("answers.csv"));
    fs::write(
        &bad,
        "text,status\nthe phone is good,1\n ,0\nit was bad,maybe\n",
    )
    .unwrap();
    refused(
        &["predict", &out, &bad, "-o", &answers],
        &["bad.csv:3", "row 2", "no text"],
    );
    refused(&["evaluate", &out, &bad], &["row 3", "maybe", "0, 1"]);
    refused(
        &["predict", &out, &bad, "-o", &path("answers.xls")],
        &["answers.xls", ".csv"],
    );
    refused(
        &["predict", &out, &bad, "--text", "body"],
        &["no column body", "--text"],
    );
    refused(
        &["predict", &out, &bad, "--text-pair", "status"],
        &["single texts"],
    );
    assert!(!Path::new(&answers).exists());
    // The rows are not lost to their answers, under whichever name.
    let (rows, linked) = (path("configs/rows.csv"), path("linked.csv"));
    std::os::unix::fs::symlink(&rows, &linked).unwrap();
    let before = fs::read(&rows).unwrap();
    for same in [&rows, &linked, &path("configs/../configs/rows.csv")] {
        refused(&["predict", &out, &rows, "-o", same], &["file of the rows"]);
        refused(&["embed", &out, &rows, "-o", same], &["file of the texts"]);
    }
    // Nor is the model lost to them.
    for name in ["head.json", "tune.json"] {
        let same = format!("{out}/{name}");
        refused(
            &["predict", &out, &rows, "-o", &same],
            &["file of the model"],
        );
    }
    let weights = format!("{out}/../out/model.safetensors");
    refused(
        &["embed", &out, &rows, "-o", &weights],
        &["file of the model"],
    );
    assert!(fs::read(&rows).unwrap() == before);
    let about = format!("{out}/head.json");
    let right = file(Path::new(&about));
    for (key, value, expected) in [
        ("max_length", 4900, "at most 64"),
        ("max_length", 2, "more than 2"),
        ("doc_stride", 99_999, "at most max_length = 16"),
    ] {
        let mut wrong = right.clone();
        wrong[key] = value.into();
        fs::write(&about, wrong.to_string()).unwrap();
        for command in ["predict", "evaluate"] {
            refused(&[command, &out, &rows], &["head.json", key, expected]);
        }
    }
    fs::write(&about, right.to_string()).unwrap();
    // The frozen parts are the checkpoint's: another one is not what was trained.
    let config = path("model/config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("1e-12", "1e-11")).unwrap();
    refused(
        &["export", "tiny", "-o", &out, "--force"],
        &["has changed since"],
    );
    assert!(Path::new(&out).join("head.json").exists());
}

#[test]
fn trials_of_other_kinds_are_not_exported() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "1", "--device", "cpu"]);
    let out = project.path().join("out");
    let (_, stderr) = project.expect(2, &["export", "synthetic", "-o", out.to_str().unwrap()]);
    assert!(stderr.contains("expected text-classification"), "{stderr}");
}
