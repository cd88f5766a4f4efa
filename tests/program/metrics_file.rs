//! `--metrics-file`: what Prometheus' own parser reads of a run, while it goes on and at its end.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::common::{Project, python, wait_for};

/// Family by family: its type, and a pair of labels and value for each sample.
const READ: &str = "
import json, sys
from prometheus_client.parser import text_string_to_metric_families as families
text = open(sys.argv[1]).read()
told = {f.name: {'type': f.type, 'help': f.documentation, 'samples': [[s.name, s.labels, s.value] for s in f.samples]}
        for f in families(text)}
print(json.dumps(told))
";

fn read(file: &Path) -> Json {
    serde_json::from_str(&python::said(&python::readers(), READ, &[file])).unwrap()
}

/// The value of the sample with these labels beside that of the study.
fn sample(told: &Json, family: &str, labels: &Json) -> f64 {
    let samples = told[family]["samples"].as_array().unwrap();
    let mut asked = labels.clone();
    asked["study"] = "synthetic".into();
    let found = samples.iter().find(|s| s[1] == asked);
    found.unwrap_or_else(|| panic!("{family} {asked}: {told:#}"))[2]
        .as_f64()
        .unwrap()
}

#[test]
fn prometheus_reads_what_the_database_has() {
    let project = Project::synthetic();
    let file = project.path().join("tune.prom");
    let run = format!(
        "synthetic --trials 12 --parallel 2 --seed 3 --inject segv:2,kill:1,error:1 --metrics-file {}",
        file.display()
    );
    project.expect(0, &run.split(' ').collect::<Vec<_>>());
    let told = read(&file);
    for family in told.as_object().unwrap().values() {
        assert!(family["help"].as_str().unwrap().ends_with('.'), "{family}");
        assert!(["gauge", "counter"].contains(&family["type"].as_str().unwrap()));
    }
    let trials = project.trials("synthetic");
    let of = |state: &str| trials.iter().filter(|t| t["state"] == state).count() as f64;
    for state in ["complete", "pruned", "fail"] {
        let n = sample(&told, "tune_trials", &json!({"state": state}));
        assert_eq!(n, of(&state.to_uppercase()), "{state}");
    }
    let attempts: Vec<&Json> = trials
        .iter()
        .flat_map(|t| t["attempts"].as_array().unwrap())
        .collect();
    for kind in ["crash", "killed", "task_error", "hang"] {
        let n = attempts.iter().filter(|a| a["outcome"] == kind).count() as f64;
        assert_eq!(
            sample(&told, "tune_faults", &json!({"kind": kind})),
            n,
            "{kind}"
        );
    }
    let best: Json = serde_json::from_str(&project.expect(0, &["best", "--json"]).0).unwrap();
    let metric = json!({"metric": "loss"});
    assert_eq!(
        sample(&told, "tune_best_value", &metric),
        best["best"]["value"].as_f64().unwrap()
    );
    assert_eq!(
        sample(&told, "tune_baseline_value", &metric),
        best["baseline"]["value"].as_f64().unwrap()
    );
    let none = json!({});
    for (family, value) in [
        ("tune_run_active", 0.0),
        ("tune_run_exit_code", 0.0),
        ("tune_slots", 2.0),
        ("tune_trials_running", 0.0),
    ] {
        assert_eq!(sample(&told, family, &none), value, "{family}");
    }
    let total = sample(&told, "tune_host_memory_bytes", &none);
    assert!(sample(&told, "tune_host_memory_available_bytes", &none) <= total);
    // The collector is another user.
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o644);
}

#[test]
fn the_file_is_there_while_the_run_goes_on_and_is_replaced_by_the_next() {
    let project = Project::synthetic();
    let file = project.path().join("x.prom");
    let mut child = project.start(&[
        "synthetic",
        "--trials",
        "1000",
        "--set",
        "task.step_ms=50",
        "--metrics-file",
        file.to_str().unwrap(),
    ]);
    wait_for("the file", || file.exists());
    let told = read(&file);
    assert_eq!(sample(&told, "tune_run_active", &json!({})), 1.0);
    assert_eq!(sample(&told, "tune_trials_goal", &json!({})), 1000.0);
    crate::common::signal(child.id(), nix::sys::signal::Signal::SIGINT);
    crate::common::signal(child.id(), nix::sys::signal::Signal::SIGINT);
    assert_eq!(child.wait().unwrap().code(), Some(4));
    assert_eq!(sample(&read(&file), "tune_run_exit_code", &json!({})), 4.0);
    fs::write(&file, "mine\n").unwrap();
    let (_, error) = project.expect(2, &["synthetic", "--metrics-file", file.to_str().unwrap()]);
    assert!(error.contains("tune has not made it"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine\n");
}

#[test]
fn a_file_that_cannot_be_written_is_told_of_once_and_disturbs_nothing() {
    let project = Project::synthetic();
    let run = [
        "synthetic",
        "--trials",
        "3",
        "--metrics-file",
        "/nowhere/x.prom",
    ];
    let (_, error) = project.expect(0, &run);
    assert_eq!(
        error.matches("--metrics-file /nowhere/x.prom: ").count(),
        1,
        "{error}"
    );
    assert_eq!(project.trials("synthetic").len(), 3);
}
