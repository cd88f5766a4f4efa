//! Task files as editors and people see them: `tune config schema`, `tune config show`, and what `tune init` writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;

use crate::common::python::{said, venv};
use crate::common::{Project, valid};

/// Every task file that the project ships.
fn shipped() -> Vec<PathBuf> {
    let folders = [
        "configs",
        "docs/examples",
        "docs/examples/optuna",
        "docs/pictures/configs",
    ];
    let files = folders.iter().flat_map(|folder| {
        let entries = fs::read_dir(Path::new(crate::ROOT).join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path())
    });
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    files
}

/// A file's TOML as JSON, as Python reads it.
fn json_of(file: &Path) -> Json {
    let script =
        "import json, sys, tomllib; print(json.dumps(tomllib.load(open(sys.argv[1], 'rb'))))";
    serde_json::from_str(&said(Path::new("python3"), script, &[file])).unwrap()
}

#[test]
fn shipped_task_files_are_valid_by_the_schema_and_wrong_ones_are_not() {
    let project = Project::synthetic();
    let (schema, _) = project.expect(0, &["config", "schema"]);
    let schema: Json = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let files = shipped();
    assert!(files.len() >= 10, "{files:?}");
    for file in files {
        let wrong: Vec<String> = (validator.iter_errors(&json_of(&file)))
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{}: {wrong:#?}", file.display());
    }
    for (wrong, refused) in [
        ("[task]\nkind = \"text\"", true),
        ("[task]\nkind = \"synthetic\"\nstep_ms = \"fast\"", true),
        ("[task]\nkind = \"synthetic\"\n[run]\ntrials = 0", true),
        ("[task]\nkind = \"synthetic\"\n[run]\nparalel = 2", true),
        ("[task]\nkind = \"synthetic\"\n[more]\nx = 2", true),
        (
            "[task]\nkind = \"synthetic\"\n[space]\n\"optim.lr\" = { low = 0.1, logg = true }",
            true,
        ),
        (
            "[task]\nkind = \"synthetic\"\n[space]\n\"task.kind\" = { low = 1, high = 2 }",
            true,
        ),
        (
            "[task]\nkind = \"synthetic\"\n[space.optim]\nlr = { low = 0.1, high = 1 }",
            false,
        ),
        (
            "[task]\nkind = \"command\"\nrun = [\"a\"]\n[space]\nany = { low = 0.1, high = 1 }",
            false,
        ),
        ("[task]\nkind = \"command\"\nrun = \"a\"", true),
        (
            "[task]\nkind = \"synthetic\"\n[pruner]\nkind = \"patient\"\n[pruner.wrapped]\nkind = \"median\"\nn_startup_trials = 3",
            false,
        ),
    ] {
        let file = project.path().join("wrong.toml");
        fs::write(&file, wrong).unwrap();
        assert_eq!(!validator.is_valid(&json_of(&file)), refused, "{wrong}");
    }
}

#[test]
fn an_editor_finds_the_schema_beside_what_init_writes() {
    let project = Project::empty();
    let script = project.path().join("train.py");
    fs::write(&script, "print('loss: 1.5')\n").unwrap();
    let line = format!("python3 {} --lr {{lr}}", script.display());
    project.expect(0, &["init", "mine", "--script", &line]);
    let configs = project.path().join("configs");
    let task = configs.join("mine.toml");
    let text = fs::read_to_string(&task).unwrap();
    assert!(text.starts_with("#:schema ./tune.schema.json\n"), "{text}");
    let python = venv("taplo-0.9.3", "sys", &["taplo==0.9.3"]);
    let lint = || {
        let taplo = python.with_file_name("taplo");
        let output = Command::new(taplo).arg("lint").arg(&task).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), told)
    };
    let (good, told) = lint();
    assert!(good, "{told}");
    fs::write(&task, text.replace("[task]", "[task]\nkinds = 3")).unwrap();
    let (good, told) = lint();
    assert!(!good && told.contains("kinds"), "{told}");
    // A file of that name that is something else is left alone.
    let schema = configs.join("tune.schema.json");
    fs::write(&schema, "{\"title\": \"mine\"}").unwrap();
    project.expect(0, &["init", "other", "--script", &line]);
    let kept = fs::read_to_string(&schema).unwrap();
    assert_eq!(kept, "{\"title\": \"mine\"}");
}

/// The keys and values that a task was resolved to, with where they are from.
fn shown(project: &Project, args: &[&str]) -> Vec<(String, Json, String)> {
    let (json, _) = project.expect(0, &[&["config", "show"], args, &["--json"]].concat());
    let json: Json = serde_json::from_str(&json).unwrap();
    valid("config", &json);
    let text = |value: &Json| value.as_str().unwrap().to_owned();
    let values = json["values"].as_array().unwrap().iter();
    let values = values.map(|v| (text(&v["key"]), v["value"].clone(), text(&v["from"])));
    values.collect()
}

#[test]
fn what_a_task_comes_to_is_a_task_file_of_its_own_for_the_same_study() {
    let project = Project::empty();
    for file in shipped() {
        let task = file.to_str().unwrap();
        let (text, _) = project.expect(0, &["config", "show", task]);
        let whole = project.path().join("whole.toml");
        fs::write(&whole, &text).unwrap();
        let values = |task: &str| -> Vec<(String, Json)> {
            let shown = shown(&project, &[task]);
            shown
                .into_iter()
                .map(|(key, value, _)| (key, value))
                .collect()
        };
        assert_eq!(values(whole.to_str().unwrap()), values(task), "{text}");
    }
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "3"]);
    let (text, _) = project.expect(0, &["config", "show", "synthetic"]);
    project.config("whole", &text);
    // The same study: it goes on.
    project.expect(0, &["whole", "--trials", "5"]);
    assert_eq!(project.trials("synthetic").len(), 5);
}

#[test]
fn each_value_tells_where_it_comes_from() {
    let project = Project::synthetic();
    let set = [
        "synthetic",
        "--set",
        "space.optim.lr.high=0.5",
        "--trials",
        "7",
    ];
    let from = |shown: &[(String, Json, String)], key: &str| {
        let found = shown.iter().find(|(k, _, _)| k == key);
        found.map(|(_, value, from)| (value.clone(), from.clone()))
    };
    let all = shown(&project, &set);
    let of = |key: &str| from(&all, key).unwrap();
    assert_eq!(of("run.trials"), (7.into(), "flag".to_owned()));
    assert_eq!(of("task.steps"), (1.into(), "file".to_owned()));
    assert_eq!(of("supervisor.grace"), ("5s".into(), "default".to_owned()));
    let (entry, whose) = of("space.optim.lr");
    assert_eq!((&entry["high"], whose.as_str()), (&0.5.into(), "flag"));
    let mut output = project.tune(&["config", "show", "synthetic"]);
    let output = output.env("HPO_EPOCHS", "4").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with("epochs = 4"));
    assert!(
        line.is_some_and(|line| line.ends_with("# HPO_EPOCHS")),
        "{text}"
    );
    let bad = ["config", "show", "synthetic", "--set", "train.epoch=3"];
    let (_, why) = project.expect(2, &bad);
    assert!(
        why.contains("train.epoch") && why.contains("did you mean"),
        "{why}"
    );
}
