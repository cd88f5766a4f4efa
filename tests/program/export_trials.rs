//! `tune export-trials`: what pandas, MLflow, TensorBoard and W&B read of an export is what the database has.

use std::fs;
use std::path::{Path, PathBuf};

use messages::testing::{HOSTILE, harmful_in};
use search::space::{Domain, Value};
use search::study::{Direction, FrozenTrial, TrialState};
use serde_json::{Map, Value as Json, json};
use store::{NewStudy, Store};

use crate::common::{Project, python, valid};

/// What the program that an export is for reads of it.
pub(crate) fn read(form: &str, path: &Path) -> Json {
    read_curve(form, path, "loss")
}

/// The same, with the name of the curve.
fn read_curve(form: &str, path: &Path, curve: &str) -> Json {
    let script = Path::new(crate::ROOT).join("tests/export/read.py");
    let mut command = std::process::Command::new(python::readers());
    command
        .args(["-W", "ignore"])
        .arg(script)
        .arg(form)
        .arg(path)
        .arg(curve);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{form}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn export(project: &Project, form: &str) -> PathBuf {
    let out = project.path().join(form);
    let args = [
        "export-trials",
        "synthetic",
        "--to",
        form,
        "-o",
        out.to_str().unwrap(),
        "--json",
    ];
    let answer: Json = serde_json::from_str(&project.expect(0, &args).0).unwrap();
    valid("export_trials", &answer);
    assert_eq!(
        (&answer["format"], &answer["trials"]),
        (&json!(form), &json!(project.trials("synthetic").len()))
    );
    out
}

/// A study with all that there is: pruned and failed trials, faults, conditional parameters.
fn studied() -> Project {
    let project = Project::synthetic();
    let run = "synthetic --trials 30 --parallel 2 --seed 3 --inject error:2,segv:2";
    project.expect(0, &run.split(' ').collect::<Vec<_>>());
    project
}

/// A number as the reader has it: TensorBoard has 32 bits of it.
fn near(read: &Json, x: &Json, single: bool) -> bool {
    match (read.as_f64(), x.as_f64()) {
        (Some(read), Some(x)) => read == if single { f64::from(x as f32) } else { x },
        (_, _) => read == x,
    }
}

/// The second metric is that of the database; 1 and 1.0 are one number.
fn same_cost(read: &Json, trial: &Json) {
    if let Some(cost) = trial["attrs"].get("metric.cost") {
        assert!(near(&read["metrics"]["cost"], cost, false), "{read} {cost}");
    }
}

/// Values, curve and length of each trial are those of the database.
pub(crate) fn same_trials(told: &Json, trials: &[Json], single: bool) {
    let read = told["trials"].as_array().unwrap();
    assert_eq!(read.len(), trials.len());
    for (read, trial) in read.iter().zip(trials) {
        assert_eq!(read["number"], trial["number"]);
        let values = read["values"].as_array().unwrap();
        match &trial["value"] {
            Json::Null => assert!(values.is_empty(), "{read}"),
            value => assert!(near(&values[0], value, single), "{read} {value}"),
        }
        let time = |key: &str| {
            let text = trial[key].as_str().unwrap();
            let stored = text.trim_end_matches('Z').replace('T', " ");
            messages::clock::stored(&stored).unwrap().as_microsecond()
        };
        let length = (time("datetime_complete") - time("datetime_start")) as f64 / 1e6;
        // W&B is told when a run began, not when it ended.
        let seconds = read.get("seconds").map(|s| s.as_f64().unwrap());
        assert!(seconds.is_none_or(|s| (s - length).abs() < 2e-3), "{read}");
        let Some(curve) = read.get("curve") else {
            continue;
        };
        let steps = trial["intermediate"].as_object().unwrap();
        assert_eq!(curve.as_array().unwrap().len(), steps.len());
        for point in curve.as_array().unwrap() {
            assert!(
                near(&point[1], &steps[&point[0].to_string()], single),
                "{point}"
            );
        }
    }
}

#[test]
fn pandas_reads_the_tables() {
    let project = studied();
    let trials = project.trials("synthetic");
    for form in ["csv", "parquet"] {
        let told = read(form, &export(&project, form));
        same_trials(&told, &trials, false);
        for (read, trial) in told["trials"].as_array().unwrap().iter().zip(&trials) {
            assert_eq!(read["state"], trial["state"]);
            assert_eq!(read["attrs"], trial["attrs"]);
            let params = trial["params"].as_object().unwrap();
            assert_eq!(
                read["params"].as_object().unwrap().len(),
                params.len(),
                "{read}"
            );
            for (name, value) in params {
                assert!(near(&read["params"][name], value, false), "{name}: {read}");
            }
        }
        if form == "parquet" {
            for (name, ty) in [
                ("number", "int64"),
                ("value", "double"),
                ("datetime_start", "timestamp[us, tz=UTC]"),
                ("params.model.layers", "int64"),
                ("params.optim.lr", "double"),
                ("params.optim.name", "string"),
            ] {
                assert_eq!(told["types"][name], ty, "{name}");
            }
        }
    }
}

#[test]
fn mlflow_reads_an_experiment_with_a_run_a_trial() {
    let project = studied();
    let trials = project.trials("synthetic");
    let told = read("mlflow", &export(&project, "mlflow"));
    assert_eq!(told["experiment"], "synthetic");
    same_trials(&told, &trials, false);
    for (read, trial) in told["trials"].as_array().unwrap().iter().zip(&trials) {
        let status = match trial["state"].as_str().unwrap() {
            "COMPLETE" => "FINISHED",
            "PRUNED" => "KILLED",
            _ => "FAILED",
        };
        assert_eq!(
            (&read["state"], &read["status"]),
            (&trial["state"], &json!(status))
        );
        assert_eq!(read["name"], format!("trial {}", trial["number"]));
        for (name, value) in trial["params"].as_object().unwrap() {
            let text = read["params"][name].as_str().unwrap();
            match value.as_f64() {
                Some(x) => assert_eq!(text.parse::<f64>().unwrap(), x),
                None => assert_eq!(text, value.as_str().unwrap()),
            }
        }
        assert_eq!(read["attrs"]["seed"], trial["attrs"]["seed"].to_string());
        same_cost(read, trial);
    }
}

#[test]
fn tensorboard_reads_scalars_and_hyperparameters() {
    let project = studied();
    let trials = project.trials("synthetic");
    let told = read("tensorboard", &export(&project, "tensorboard"));
    same_trials(&told, &trials, true);
    assert_eq!(told["metrics"], json!(["value"]));
    assert_eq!(
        (&told["hparams"]["optim.name"], &told["hparams"]["optim.lr"]),
        (&json!(1), &json!(3))
    );
    for (read, trial) in told["trials"].as_array().unwrap().iter().zip(&trials) {
        let params = trial["params"].as_object().unwrap();
        assert_eq!(read["params"].as_object().unwrap().len(), params.len());
        assert!(
            params
                .iter()
                .all(|(name, value)| near(&read["params"][name], value, false)),
            "{read}"
        );
        assert_eq!(read["status"], if trial["state"] == "FAIL" { 2 } else { 1 });
    }
    // The page of hyperparameters has them all.
    let groups = told["groups"].as_object().unwrap();
    assert_eq!(groups.len(), trials.len());
    assert!(
        near(&groups["trial-00"][0], &trials[0]["value"], true),
        "{groups:?}"
    );
}

#[test]
fn wandb_sends_what_the_database_has() {
    let project = studied();
    let mut store = Store::open(project.database()).unwrap();
    // A curve that takes several blocks of the file, and numbers that JSON has none for.
    let mut long = FrozenTrial::new(0, TrialState::Complete, [].into());
    let ends = [(3_000, f64::NAN), (3_001, f64::INFINITY)];
    let steps = (0..3_000).map(|step| (step, f64::from(step as i32) / 7.0));
    long.intermediate = steps.chain(ends).collect();
    long.values = vec![0.5];
    long.datetime_start = Some("2026-11-21 01:00:00.000000".to_owned());
    long.datetime_complete = Some("2026-11-21 01:00:02.000000".to_owned());
    let study = NewStudy {
        name: "a/long one",
        directions: &[Direction::Minimize],
        user_attrs: &Map::new(),
        identity: &Map::new(),
    };
    store.create_study(&study, &[long]).unwrap();
    drop(store);
    let trials = project.trials("synthetic");
    let told = read("wandb", &export(&project, "wandb"));
    same_trials(&told, &trials, false);
    for (read, trial) in told["trials"].as_array().unwrap().iter().zip(&trials) {
        assert_eq!(read["name"], format!("trial {}", trial["number"]));
        assert_eq!(read["project"], "synthetic");
        assert_eq!(read["state"], trial["state"]);
        assert_eq!(read["exit"], i32::from(trial["state"] == "FAIL"));
        let params = trial["params"].as_object().unwrap();
        assert_eq!(read["params"].as_object().unwrap().len(), params.len());
        for (name, value) in params {
            assert!(near(&read["params"][name], value, false), "{name}: {read}");
        }
        same_cost(read, trial);
    }
    let out = project.path().join("long");
    let to = ["--to", "wandb", "-o", out.to_str().unwrap()];
    project.expect(0, &[&["export-trials", "a/long one"], &to[..]].concat());
    let told = read_curve("wandb", &out, "intermediate");
    assert_eq!(told["trials"][0]["project"], "a_long one");
    let curve = told["trials"][0]["curve"].as_array().unwrap();
    assert_eq!(curve.len(), 3_002);
    assert_eq!(curve[2_999], json!([2_999, 2_999.0 / 7.0]));
    assert_eq!(
        curve[3_000..],
        [json!([3_000, "NaN"]), json!([3_001, "Infinity"])]
    );
}

#[test]
fn hostile_texts_come_back_from_every_reader() {
    let project = Project::empty();
    // No argument of a program can have a NUL in it.
    let name = HOSTILE.replace('\0', "");
    let harmless = [
        "=1+1",
        "a, \"b\"; 'c'",
        "<script>alert(1)</script>",
        "NaN",
        "-5",
        "é 漢",
    ];
    let long = "x, ".repeat(3_400);
    let lines = "two\nlines\r\n\"quoted\"\n";
    let texts = [&harmless[..], &[&long, lines, &name]].concat();
    let domain = Domain::choices(texts.iter().copied());
    let trials: Vec<FrozenTrial> = (0..)
        .zip(&texts)
        .map(|(number, text)| {
            let names = ["plain", &name];
            let params = names.map(|n| (n.to_owned(), Value::from(*text)));
            let mut trial = FrozenTrial::new(number, TrialState::Complete, params.into());
            trial.distributions = names.map(|n| (n.to_owned(), domain.clone())).into();
            trial.values = vec![0.5];
            trial.datetime_start = Some("2026-11-21 01:00:00.000000".to_owned());
            trial.datetime_complete = Some("2026-11-21 01:00:02.000000".to_owned());
            trial.user_attrs.insert(name.clone(), json!(text));
            trial
        })
        .collect();
    let study = NewStudy {
        name: &name,
        directions: &[Direction::Minimize],
        user_attrs: &Map::new(),
        identity: &Map::new(),
    };
    let mut store = Store::open(project.database()).unwrap();
    store.create_study(&study, &trials).unwrap();
    drop(store);
    for form in ["csv", "parquet", "mlflow", "tensorboard", "wandb"] {
        let out = project.path().join(form);
        let out = out.to_str().unwrap();
        project.expect(0, &["export-trials", &name, "--to", form, "-o", out]);
        let told = read(form, Path::new(out));
        let read = told["trials"].as_array().unwrap();
        assert_eq!(read.len(), texts.len(), "{form}");
        for (read, text) in read.iter().zip(&texts) {
            let plain = read["params"]["plain"].as_str().unwrap();
            if ["csv", "parquet"].contains(&form) {
                assert_eq!(plain, *text, "{form}");
                assert_eq!(read["params"][&name], **text, "{form}");
                assert_eq!(read["attrs"][&name], **text, "{form}");
            } else if harmless.contains(text) {
                assert_eq!(plain, *text, "{form}");
            } else {
                // They have less room, and what they read reaches terminals.
                assert_eq!(harmful_in(plain), Vec::<char>::new(), "{form}");
                assert!(
                    text.starts_with(&plain[..1]) && plain.len() <= 6_000,
                    "{form}"
                );
            }
        }
    }
}

#[test]
fn nothing_of_others_is_replaced() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "3"]);
    let out = project.path().join("out");
    let refused = |args: &[&str], why: &str| {
        let args = [
            &["export-trials", "-o", out.to_str().unwrap(), "--to"],
            args,
        ]
        .concat();
        let (_, error) = project.expect(2, &args);
        assert!(error.contains(why), "{error}");
    };
    let written = |args: &[&str]| {
        project.expect(
            0,
            &[
                &["export-trials", "-o", out.to_str().unwrap(), "--to"],
                args,
            ]
            .concat(),
        );
    };
    fs::write(&out, "mine").unwrap();
    refused(&["csv"], "this file is there already; --force replaces it");
    refused(&["mlflow", "--force"], "this is no directory");
    assert_eq!(fs::read_to_string(&out).unwrap(), "mine");
    written(&["parquet", "--force"]);
    assert!(fs::read(&out).unwrap().starts_with(b"PAR1"));
    fs::remove_file(&out).unwrap();
    fs::create_dir(&out).unwrap();
    written(&["mlflow"]);
    refused(
        &["tensorboard"],
        "an earlier export is there; --force replaces it",
    );
    refused(&["csv", "--force"], "this is a directory");
    written(&["tensorboard", "--force"]);
    assert!(out.join("trial-0").is_dir() && !out.join(".trash").exists());
    fs::remove_file(out.join("tune-export.json")).unwrap();
    refused(
        &["tensorboard", "--force"],
        "has other files than those of an export",
    );
    refused(&["excel"], "invalid value 'excel'");
    let left = fs::read_dir(project.path()).unwrap();
    let left = left.filter(|e| {
        e.as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .contains("export-")
    });
    assert_eq!(left.count(), 0, "no work is left behind");
}
