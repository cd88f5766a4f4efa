//! `tune adopt`: studies that real Optuna has made, taken in, continued by `tune`, then by Optuna.
//!
//! The versions of Optuna are those of `TUNE_OPTUNA_VERSIONS`, as in `optuna.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::common::Project;
use crate::common::optuna::{printed, script, versions};

const EXAMPLE: &str = include_str!("../data/optuna-example.sql");

/// Runs `adopt_study.py` with a version of Optuna; gives what it prints.
fn python(version: &str, command: &str, database: &Path, study: &str) -> String {
    let mut script = script(version, &[], "adopt_study.py");
    script.args([command.as_ref(), database.as_os_str(), study.as_ref()]);
    printed(script, &format!("{version}, {command}"))
}

/// Every file of a directory with its content.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .map(|p| (p.clone(), std::fs::read(&p).unwrap()))
        .collect()
}

/// The shipped dump: study `s1` of one objective, study `mo` of two.
fn example(dir: &Path) -> PathBuf {
    let path = dir.join("optuna.db");
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch(EXAMPLE).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_script_s_study_is_adopted_continued_and_continued_again_by_optuna() {
    for version in versions() {
        let elsewhere = tempfile::tempdir().unwrap();
        let source = elsewhere.path().join("optuna.db");
        python(&version, "make", &source, "sweep");
        let before = contents(elsewhere.path());
        let project = Project::synthetic();
        let file = format!("sqlite:///{}", source.display());
        let (report, _) = project.expect(0, &["adopt", &file, "--task", "synthetic"]);
        assert_eq!(contents(elsewhere.path()), before);
        for part in [
            "64 (49 complete, 8 pruned, 3 failed, 2 running, 2 waiting)",
            "2 trials are RUNNING",
            "cuda_sticky (cudaErrorAssert) of 8 trials, first in trial 52",
            "oom of 3 trials",
            "lost at trial 52: 8 trials in a row failed, nothing worked",
            "1 value cannot be loss (trial 3)",
            "NaN was reported by trial 9",
            "sgd | adam | adamw",
            "7 ended in a CUDA context that was lost before",
            "a seed: to search it",
            "1 enqueued point runs first",
            "1 trial is WAITING with a point that the task cannot take: it becomes FAIL",
            "trial 63: the task cannot take optim.name = adamw",
        ] {
            assert!(report.contains(part), "{part}\n{report}");
        }
        let command = report.lines().last().unwrap().trim();
        assert!(command.ends_with("synthetic --study sweep"), "{command}");

        adopted_trials(&project);
        let (shown, _) = project.expect(0, &["show", "sweep", "53"]);
        assert!(
            shown.contains("parameters that its study cannot hold"),
            "{shown}"
        );
        let goal = 57 + 3;
        let go_on = ["synthetic", "--study", "sweep", "--trials"];
        project.expect(0, &[&go_on[..], &[&goal.to_string()]].concat());
        let trials = project.trials("sweep");
        assert_eq!(trials.len(), 64 + 2);
        // The enqueued point goes first.
        assert_eq!(trials[62]["state"], json!("COMPLETE"));
        assert_eq!(trials[62]["params"]["optim.lr"], json!(0.01));

        let (_, refused) = project.expect(2, &["replay", "sweep", "53"]);
        assert!(refused.contains("was adopted with parameters"), "{refused}");

        let printed = json(&python(&version, "continue", &project.database(), "sweep"));
        read_by_optuna(&printed, &version);
        project.expect(0, &[&go_on[..], &["69"]].concat());
        assert_eq!(project.trials("sweep").len(), 66 + 6 + 3);
    }
}

/// What the project holds right after the adoption.
fn adopted_trials(project: &Project) {
    let trials = project.trials("sweep");
    assert_eq!(trials.len(), 64);
    let one = |n: usize| &trials[n];
    let attr = |n: usize, key: &str| one(n)["attrs"][key].clone();
    assert_eq!(one(0)["intermediate"].as_object().unwrap().len(), 2);
    assert_eq!(one(9)["intermediate"]["2"], json!("NaN"));
    assert_eq!(one(3)["value"], json!("Infinity"));
    assert_eq!(one(5)["state"], json!("FAIL"));
    assert_eq!(attr(5, "oom"), json!(true));
    for zombie in [60, 61] {
        assert_eq!(one(zombie)["state"], json!("FAIL"));
        assert_eq!(attr(zombie, "adopted_state"), json!("RUNNING"));
    }
    assert_eq!(one(62)["state"], json!("WAITING"));
    assert_eq!(one(63)["state"], json!("FAIL"));
    // The victims of a lost context keep no parameter, its culprit does.
    assert!(one(52)["params"]["optim.lr"].is_f64());
    assert_eq!(one(53)["params"], json!({}));
    assert!(attr(53, "adopted_params")["optim.lr"].is_f64());
    for (number, trial) in trials.iter().enumerate().take(52) {
        let moved = trial["attrs"]["adopted_params"].as_object().unwrap();
        assert!(moved.contains_key("seed") && moved.contains_key("head.dropout"));
        assert!(!moved.contains_key("model.width"), "trial {number}");
        let adamw = moved.get("optim.name") == Some(&json!("adamw"));
        assert_eq!(adamw, trial["params"].get("optim.name").is_none());
    }
    let (best, _) = project.expect(0, &["best", "sweep", "--json"]);
    assert!(json(&best)["best"]["value"].is_f64());
}

fn read_by_optuna(printed: &Json, version: &str) {
    assert_eq!(printed["optuna"], json!(version));
    assert_eq!(printed["before"], json!(66));
    assert_eq!(printed["states"].as_array().unwrap().len(), 72);
    assert_ne!(printed["best"], json!(3));
    let attrs = &printed["attrs"];
    assert_eq!(attrs["task"], json!("synthetic"));
    let from = &attrs["adopted_from"];
    assert_eq!(from["study"], json!("sweep"));
    assert_eq!(from["optuna"], json!(version));
    assert_eq!(from["user_attrs"], json!({"task": "theirs"}));
    assert_eq!(
        printed["moved"][0]["head.pooling"]
            .as_str()
            .map(|p| &p[..2]),
        Some("[\"")
    );
}

#[test]
fn a_dry_run_writes_nothing_and_the_json_is_that_of_its_schema() {
    let project = Project::synthetic();
    let elsewhere = tempfile::tempdir().unwrap();
    let source = example(elsewhere.path());
    let args = [
        "adopt",
        text(&source),
        "--study",
        "s1",
        "--task",
        "synthetic",
        "--json",
    ];
    let schema = json(include_str!("../../docs/schemas/adopt.schema.json"));
    let validator = jsonschema::validator_for(&schema).unwrap();
    let valid = |text: &str| {
        let json = json(text);
        let errors: Vec<String> = validator
            .iter_errors(&json)
            .map(|e| e.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}");
        json
    };
    let rename = ["--rename", "lr=optim.lr", "--as", "new"];
    let before = contents(project.path().join("configs").as_path());
    let (told, _) = project.expect(0, &[&args[..], &rename[..], &["--dry-run"]].concat());
    assert_eq!(valid(&told)["adopted"], json!(false));
    assert!(!project.database().exists());
    assert_eq!(std::fs::read_dir(project.path()).unwrap().count(), 1);
    assert_eq!(contents(project.path().join("configs").as_path()), before);
    let (told, _) = project.expect(0, &[&args[..], &rename[..]].concat());
    let told = valid(&told);
    assert_eq!(told["adopted"], json!(true));
    assert_eq!(told["name"], json!("new"));
    assert_eq!(told["trials"]["COMPLETE"], json!(6));
    let command = told["command"].as_str().unwrap();
    assert!(command.contains("synthetic --study new"), "{command}");
    assert!(project.trials("new")[0]["params"]["optim.lr"].is_f64());
}

#[test]
fn what_cannot_be_adopted_is_refused_and_nothing_is_written() {
    let project = Project::synthetic();
    let elsewhere = tempfile::tempdir().unwrap();
    let source = example(elsewhere.path());
    let refused = |code: i32, args: &[&str], part: &str| {
        let all = [&["adopt"], args, &["--task", "synthetic"]].concat();
        let (_, stderr) = project.expect(code, &all);
        assert!(stderr.contains(part), "{part}\n{stderr}");
    };
    let file = text(&source);
    refused(
        2,
        &[file],
        "choose one with --study NAME:\n  s1 (12 trials)\n  mo (2 trials)",
    );
    refused(2, &[file, "--study", "s2"], "no study called \"s2\"");
    refused(2, &[file, "--study", "mo"], "has 2 objectives");
    refused(2, &[file, "--study", "s1", "--as", "a/b"], "--as");
    refused(
        2,
        &[file, "--study", "s1", "--rename", "nosuch=optim.lr"],
        "no trial has a parameter nosuch",
    );
    refused(
        2,
        &[file, "--study", "s1", "--rename", "lr=optim.lrr"],
        "the task has no parameter optim.lrr; it has optim.lr",
    );
    refused(
        2,
        &[file, "--study", "s1", "--metric", "foo:max"],
        "expected no --metric",
    );
    let sketch = ["adopt", file, "--study", "s1", "--sketch", "--json"];
    let (printed, error) = project.expect(2, &sketch);
    assert!(
        printed.is_empty() && error.contains("--json: found beside --sketch"),
        "{error}"
    );
    refused(2, &["mysql://host/db"], "optuna.copy_study");
    refused(2, &["gone.db"], "there is no such file");
    refused(2, &[file, "--study", "s1", "--set", "x.y=1"], "x.y");
    let accuracy = [
        "--set",
        "objective.metric=accuracy",
        "--set",
        "objective.direction=maximize",
    ];
    refused(
        8,
        &[&[file, "--study", "s1"], &accuracy[..]].concat(),
        "objective.direction: the study \"s1\" has minimize",
    );
    assert_eq!(std::fs::read_dir(project.path()).unwrap().count(), 1);
    assert_eq!(contents(elsewhere.path()).len(), 1);
}

#[test]
fn a_name_that_is_taken_or_held_is_refused() {
    let project = Project::synthetic();
    let elsewhere = tempfile::tempdir().unwrap();
    let source = example(elsewhere.path());
    let args = [
        "adopt",
        text(&source),
        "--study",
        "s1",
        "--task",
        "synthetic",
    ];
    let me = supervisor::LockOwner::this_process();
    let hold = supervisor::StudyLock::take(&project.database().into(), "s1", &me);
    let hold = hold.unwrap();
    project.expect(6, &args);
    assert_eq!(std::fs::metadata(project.database()).unwrap().len(), 0);
    drop(hold);
    assert!(!project.database().exists(), "nothing was written to it");
    project.expect(0, &args);
    let (report, stderr) = project.expect(8, &args);
    assert!(report.contains("verdict"));
    assert!(stderr.contains("--as NEW"), "{stderr}");
    let own = project.database();
    let (_, stderr) = project.expect(2, &["adopt", text(&own), "--task", "synthetic"]);
    assert!(stderr.contains("the project's own database"), "{stderr}");
    project.expect(0, &[&args[..], &["--as", "again"]].concat());
    assert_eq!(project.trials("again").len(), 12);
}

#[test]
fn an_experiment_of_ray_tune_is_adopted_and_continued() {
    let project = Project::synthetic();
    let experiment = Path::new(crate::ROOT).join("tests/data/ray-experiment");
    let before = contents(&experiment.join("f_221fb_00000"));
    let file = text(&experiment);
    // Without a task, nothing says which number is meant.
    let (_, error) = project.expect(2, &["adopt", file, "--sketch"]);
    assert!(error.contains("there are acc, loss"), "{error}");
    let (sketch, _) = project.expect(0, &["adopt", file, "--sketch", "--metric", "acc:max"]);
    for part in [
        "metric = \"acc\"",
        "direction = \"maximize\"",
        "\"name\" = { choices = [\"adam\", \"sgd\"] }",
        "\"optim.lr\" = { low = 0.00014612884744536622, high = 0.0846965211712539, log = true }",
    ] {
        assert!(sketch.contains(part), "{part}: {sketch}");
    }
    let names = [
        "--rename",
        "name=optim.name",
        "--rename",
        "layers=model.layers",
    ];
    let adopt = [
        &["adopt", file, "--task", "synthetic", "--as", "ray"],
        &names[..],
    ]
    .concat();
    let (report, _) = project.expect(0, &adopt);
    for part in [
        "4 (3 complete, 1 failed)",
        "made with Ray Tune",
        "cuda_sticky (cudaErrorAssert) of 1 trial, first in trial 3",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let trials = project.trials("ray");
    let values: Vec<&Json> = trials.iter().map(|t| &t["value"]).collect();
    let (first, stopped) = (json!(0.12509709877669115), json!(0.6002402803693939));
    assert_eq!(values[..2], [&first, &stopped]);
    assert_eq!(values[3], &Json::Null);
    let steps = |trial: &Json| trial["intermediate"].as_object().unwrap().len();
    assert_eq!((steps(&trials[0]), steps(&trials[1])), (8, 2));
    assert_eq!(trials[0]["params"]["optim.name"], "adam");
    assert_eq!(trials[0]["attrs"]["metric.acc"], 0.5);
    assert_eq!(contents(&experiment.join("f_221fb_00000")), before);
    project.expect(0, &["synthetic", "--study", "ray", "--trials", "6"]);
    assert_eq!(project.trials("ray").len(), 7);
}

#[test]
fn pickled_trials_of_hyperopt_are_adopted_and_continued() {
    let project = Project::synthetic();
    let pickle = Path::new(crate::ROOT).join("tests/data/hyperopt/0.3.0-protocol-4.pkl");
    let file = text(&pickle);
    // Hyperopt minimizes the loss; a choice is kept as its place.
    let (sketch, _) = project.expect(0, &["adopt", file, "--sketch"]);
    for part in [
        "metric = \"loss\"",
        "direction = \"minimize\"",
        "\"opt\" = { low = 0, high = 1, int = true }",
        "\"layers\" = { low = 2, high = 8, int = true }",
    ] {
        assert!(sketch.contains(part), "{part}: {sketch}");
    }
    let (_, error) = project.expect(2, &["adopt", file, "--sketch", "--metric", "f2:max"]);
    assert!(error.contains("there are acc, loss, more.f1"), "{error}");
    // What the sketch says of the value is what the trials have.
    std::fs::write(project.path().join("train.py"), "").unwrap();
    project.config("sketched", &sketch);
    let again = ["adopt", file, "--task", "sketched", "--dry-run"];
    let (report, _) = project.expect(0, &again);
    assert!(report.contains("6 (4 complete, 2 failed)"), "{report}");
    let renamed = ["opt=optim.name", "layers=model.layers", "lr=optim.lr"];
    let renamed = renamed.iter().flat_map(|pair| ["--rename", pair]);
    let adopt = [
        &["adopt", file, "--task", "synthetic", "--as", "hyperopt"][..],
        &[
            "--metric",
            "loss:min",
            "--set",
            "objective.direction=minimize",
        ],
        &renamed.collect::<Vec<_>>(),
    ]
    .concat();
    let (report, _) = project.expect(0, &adopt);
    for part in [
        "6 (4 complete, 2 failed)",
        "made with Hyperopt",
        "cuda_sticky (cudaErrorAssert) of 1 trial, first in trial 5",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let trials = project.trials("hyperopt");
    let names: Vec<&Json> = trials.iter().map(|t| &t["params"]["optim.name"]).collect();
    assert_eq!(names[0], names[1]);
    assert!(names[0].is_string() && names[4].is_string() && names[0] != names[4]);
    assert_eq!(trials[0]["attrs"]["metric.more.f1"], 0.25);
}

#[test]
fn a_table_of_trials_is_adopted_by_the_columns_that_the_task_knows() {
    let project = Project::synthetic();
    let file = project.path().join("runs.csv");
    std::fs::write(
        &file,
        "\"Name\",\"State\",\"Created\",\"Runtime\",\"optim.lr\",\"notes\",\"loss\",\"val/loss\"\n\
         \"b\",\"crashed\",\"2026-11-01T10:10:00.000Z\",\"20\",\"0.05\",\"x\",\"\",\"\"\n\
         \"a\",\"finished\",\"2026-11-01T10:00:00.000Z\",\"100\",\"0.002\",\"y\",\"0.5\",\"0.6\"\n",
    )
    .unwrap();
    let adopt = |more: &[&str], exit: i32| {
        let args = [&["adopt", text(&file), "--task", "synthetic"], more].concat();
        project.expect(exit, &args)
    };
    let (_, error) = adopt(&["--metric", "f1"], 2);
    assert!(error.contains("no trial has reported \"f1\""), "{error}");
    let (_, error) = adopt(&["--metric", "loss:max"], 8);
    assert!(error.contains("objective.direction"), "{error}");
    let (answer, _) = adopt(&["--metric", "val.loss", "--json"], 0);
    assert_eq!(json(&answer)["origin"], "table");
    let trials = project.trials("runs");
    assert_eq!(
        (&trials[0]["state"], &trials[0]["value"]),
        (&json!("COMPLETE"), &json!(0.6))
    );
    assert_eq!(trials[0]["params"]["optim.lr"], 0.002);
    assert_eq!(
        trials[0]["datetime_complete"],
        "2026-11-01T10:01:40.000000Z"
    );
    assert_eq!(trials[1]["state"], "FAIL");
    for bad in ["", "lr,loss\n"] {
        std::fs::write(&file, bad).unwrap();
        let (_, error) = adopt(&["--as", "other"], 2);
        assert!(error.contains("the table has no row"), "{error}");
    }
}

#[test]
fn a_table_whose_columns_something_else_separates_is_told_as_init_tells_it() {
    let project = Project::synthetic();
    let file = project.path().join("runs.csv");
    for (table, told) in [
        ("optim.lr;loss\n0.01;0.5\n", "delimiter=';'"),
        ("optim.lr;loss\n0,01;0,5\n", r"r'\1.\2'"),
        ("optim.lr\tloss\n0.01\t0.5\n", r"delimiter='\t'"),
    ] {
        std::fs::write(&file, table).unwrap();
        let args = ["adopt", text(&file), "--task", "synthetic"];
        let (_, error) = project.expect(2, &args);
        let expected =
            "found a header of one column, expected columns that are separated by commas";
        assert!(error.contains(expected) && error.contains(told), "{error}");
        let args = ["adopt", text(&file), "--sketch", "--metric", "loss:min"];
        let (_, error) = project.expect(2, &args);
        assert!(error.contains(told), "{error}");
    }
    std::fs::write(&file, "optim.lr,optim.lr,loss\n0.01,0.02,0.5\n").unwrap();
    let (_, error) = project.expect(2, &["adopt", text(&file), "--task", "synthetic"]);
    assert!(error.contains("two columns \"optim.lr\""), "{error}");
}

#[test]
fn a_table_that_tune_has_written_comes_back() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--study", "a", "--trials", "8"]);
    let (csv, _) = project.expect(0, &["trials", "a", "--csv"]);
    let file = project.path().join("b.csv");
    std::fs::write(&file, csv).unwrap();
    let metric = ["--metric", "value"];
    let args = ["adopt", text(&file), "--task", "synthetic"];
    project.expect(0, &[&args[..], &metric[..]].concat());
    let (before, after) = (project.trials("a"), project.trials("b"));
    for (before, after) in before.iter().zip(&after) {
        for key in ["number", "state", "value", "params", "datetime_start"] {
            assert_eq!(before[key], after[key], "{key} of {before}");
        }
    }
    assert_eq!(before.len(), after.len());
}
