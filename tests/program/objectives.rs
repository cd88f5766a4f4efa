//! Several objectives, through the real binary: values of one epoch, the front, what is refused,
//! and real Optuna on the same database.

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::Project;
use crate::common::optuna::{printed, script, versions};
use serde_json::{Value as Json, json};

/// Small models cost little, large ones learn more.
const TWO: [&str; 4] = ["--objective", "loss", "--objective", "cost:min"];

fn run<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let common = ["synthetic", "--trials", "30", "--parallel", "2"];
    [&common, more].concat()
}

fn values(trial: &Json) -> Option<(f64, f64)> {
    let values = trial.get("values")?.as_array()?;
    Some((values[0].as_f64()?, values[1].as_f64()?))
}

/// By definition, from all trials: both objectives are made small.
fn front_of(trials: &[Json]) -> BTreeSet<u64> {
    let all: Vec<(u64, (f64, f64))> = trials
        .iter()
        .filter(|t| t["state"] == "COMPLETE")
        .map(|t| (t["number"].as_u64().unwrap(), values(t).unwrap()))
        .collect();
    let beaten = |(_, (a, b)): &(u64, (f64, f64))| {
        all.iter()
            .any(|(_, (x, y))| x <= a && y <= b && (x < a || y < b))
    };
    all.iter().filter(|t| !beaten(t)).map(|t| t.0).collect()
}

fn numbers(front: &Json) -> BTreeSet<u64> {
    let front = front.as_array().unwrap();
    front
        .iter()
        .map(|t| t["number"].as_u64().unwrap())
        .collect()
}

#[test]
fn a_run_ends_with_the_front_and_every_command_tells_the_same_one() {
    let project = Project::synthetic();
    let (stdout, _) = project.expect(0, &run(&[&TWO[..], &["--json"]].concat()));
    let events: Vec<Json> = stdout
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let schema: Json =
        serde_json::from_str(include_str!("../../docs/schemas/event.schema.json")).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    for event in &events {
        assert!(schema.is_valid(event), "{event}");
    }
    let trials = project.trials("synthetic");
    let front = front_of(&trials);
    assert!(front.len() > 1 && front.len() < 30, "{front:?}");
    let last = events.last().unwrap();
    assert_eq!(numbers(&last["front"]), front);
    for none in ["best", "selection", "test"] {
        assert_eq!(last[none], Json::Null, "{none}");
    }
    let (best, _) = project.expect(0, &["best", "--json"]);
    let best: Json = serde_json::from_str(&best).unwrap();
    assert_eq!(numbers(&best["front"]), front);
    let (status, _) = project.expect(0, &["status", "synthetic", "--json"]);
    let status: Json = serde_json::from_str(&status).unwrap();
    assert_eq!(numbers(&status["front"]), front);
    let (table, _) = project.expect(0, &["best"]);
    assert!(table.contains("minimize loss, minimize cost"), "{table}");
    // What was told to be new on the front was so at that time.
    let announced = events.iter().filter(|e| e["event"] == "new_best");
    assert!(front.is_subset(&announced.map(|e| e["number"].as_u64().unwrap()).collect()));
}

#[test]
fn all_values_of_a_trial_are_those_of_the_epoch_that_is_best_by_the_first_objective() {
    let project = Project::synthetic();
    let noisy = [
        "--set",
        "task.noise=0.5",
        "--objective",
        "loss",
        "--objective",
        "accuracy",
    ];
    project.expect(0, &run(&noisy));
    for trial in project.trials("synthetic") {
        if trial["state"] != "COMPLETE" {
            continue;
        }
        let (loss, accuracy) = values(&trial).unwrap();
        let reports = trial["intermediate"].as_object().unwrap();
        let least = reports
            .values()
            .map(|v| v.as_f64().unwrap())
            .fold(f64::INFINITY, f64::min);
        assert_eq!(loss, least);
        assert!((accuracy - (-loss.max(0.0)).exp()).abs() < 1e-12);
        assert_eq!(trial["value"], Json::Null);
    }
}

#[test]
fn what_the_supervisor_measures_is_an_objective_and_nothing_is_pruned() {
    let project = Project::synthetic();
    let measured = ["loss", "runtime_s", "peak_memory_mb:min"];
    let flags: Vec<&str> = measured.iter().flat_map(|m| ["--objective", m]).collect();
    project.expect(0, &run(&flags));
    let trials = project.trials("synthetic");
    for trial in trials.iter().filter(|t| t["state"] == "COMPLETE") {
        let values = trial["values"].as_array().unwrap();
        assert_eq!(values[1], trial["attrs"]["runtime_s"]);
        assert_eq!(values[2], trial["attrs"]["peak_memory_mb"]);
    }
    // What diverged is PRUNED, without values.
    let pruned: Vec<&Json> = trials.iter().filter(|t| t["state"] == "PRUNED").collect();
    assert!(
        pruned
            .iter()
            .all(|t| t["attrs"]["diverged"] == true && t.get("values").is_none())
    );
    let directions: i64 = project
        .connect()
        .query_row("SELECT count(*) FROM study_directions", [], |r| r.get(0))
        .unwrap();
    assert_eq!(directions, 3);
}

#[test]
fn the_objectives_belong_to_the_study_and_the_sampler_does_not() {
    let project = Project::synthetic();
    project.expect(0, &run(&TWO));
    let (_, stderr) = project.expect(8, &["synthetic", "--trials", "40"]);
    for part in [
        "objective.metric was [\"loss\",\"cost\"]; now it is loss",
        "--fork",
    ] {
        assert!(stderr.contains(part), "{stderr}");
    }
    let other = ["--objective", "loss", "--objective", "cost:max"];
    let (_, stderr) = project.expect(8, &run(&other));
    assert!(stderr.contains("objective.direction"), "{stderr}");
    for sampler in ["random", "sobol", "grid", "tpe", "nsga2"] {
        let more = project.trials("synthetic").len() + 3;
        let more = more.to_string();
        let flags = ["synthetic", "--trials", &more, "--sampler", sampler];
        project.expect(0, &[&flags[..], &TWO].concat());
    }
    // A fork for one objective begins with points of the front.
    project.expect(0, &["synthetic", "--trials", "12", "--fork"]);
    let front = front_of(&project.trials("synthetic"));
    let from = project.trials("synthetic@2")[1]["attrs"]["point_from"].clone();
    assert!(front.contains(&from["number"].as_u64().unwrap()), "{from}");
}

#[test]
fn objectives_in_a_file_and_what_is_wrong_with_them() {
    let project = Project::empty();
    let config = |objective: &str| {
        project.config("t", &format!("task.kind = \"synthetic\"\n{objective}\n[space]\n\"optim.lr\" = {{ low = 1e-4, high = 1.0, log = true }}\n"));
    };
    config("[objective]\nmetrics = [\"accuracy:maximize\", \"cost\"]");
    let (check, _) = project.expect(0, &["check", "t"]);
    assert!(
        check.contains("maximize accuracy, minimize cost"),
        "{check}"
    );
    assert!(check.contains("sampler        nsga2"), "{check}");
    assert!(check.contains("pruner         none"), "{check}");
    // A flag of this run wins over the file, in both forms.
    let (check, _) = project.expect(0, &["check", "t", "--set", "objective.metric=loss"]);
    assert!(check.contains("objective      minimize loss"), "{check}");
    for (metrics, flags, expected) in [
        (
            "[\"runtime_s\"]",
            &[][..],
            "runtime_s as the first objective",
        ),
        ("[\"loss\", \"loss:max\"]", &[], "loss twice"),
        ("[\"loss\", \"costs\"]", &[], "did you mean cost?"),
        ("[\"loss\", 3]", &[], "a list of strings"),
        ("[]", &[], "a list of strings"),
        (
            "[\"loss\", \"cost\"]\nmetric = \"loss\"",
            &[],
            "objective.metric beside it",
        ),
        (
            "[\"loss\", \"cost\"]",
            &["--set", "pruner.kind=median"],
            "none or auto",
        ),
        (
            "[\"loss\", \"cost\"]",
            &["--sampler", "gp"],
            "sampler.kind: found gp beside several objectives",
        ),
        (
            "[\"loss\", \"cost\"]",
            &["--set", "sampler.n_startup_trials=20"],
            "sampler.n_startup_trials: found an option of auto beside several objectives",
        ),
        (
            "[\"loss\", \"cost\"]",
            &["--pruner", "auto", "--set", "pruner.chance=0.5"],
            "pruner.chance: found an option of auto beside several objectives",
        ),
        (
            "[\"loss\", \"cost\"]",
            &["--set", "run.repeats=3"],
            "run.repeats: found 3 beside several objectives in objective.metrics",
        ),
        (
            "[\"loss\", \"cost\"]",
            &["--set", "run.test=again"],
            "run.test: found again beside several objectives in objective.metrics",
        ),
    ] {
        config(&format!("[objective]\nmetrics = {metrics}"));
        let (_, stderr) = project.expect(2, &[&["check", "t"], flags].concat());
        assert!(stderr.contains(expected), "{metrics}: {stderr}");
    }
}

#[test]
fn a_program_reports_several_objectives_in_its_metric_lines_or_its_last_line() {
    let project = Project::empty();
    let config = |run: &str| {
        format!(
            "[task]\nkind = \"command\"\nrun = [\"sh\", \"-c\", '{run}']\n\
             [objective]\nmetrics = [\"f1:max\", \"size:min\"]\n\
             [space]\nn = {{ low = 1, high = 9, int = true }}\n"
        )
    };
    project.config("last", &config(r#"echo "{\"f1\": 0.{n}, \"size\": {n}}""#));
    project.config("without", &config("echo 0.{n}"));
    project.expect(0, &["last", "--trials", "9", "--sampler", "random"]);
    for trial in project.trials("last") {
        let n = trial["params"]["n"].as_f64().unwrap();
        assert_eq!(trial["values"], json!([n / 10.0, n]));
    }
    project.expect(
        5,
        &[
            "without",
            "--trials",
            "3",
            "--set",
            "supervisor.max_failures=2",
        ],
    );
    let failed = &project.trials("without")[0];
    let message = failed["attrs"]["error_msg"].as_str().unwrap();
    assert!(
        message.contains("no value of the objective size"),
        "{failed}"
    );
}

#[test]
fn a_study_with_several_objectives_goes_on_after_a_point_was_enqueued() {
    let project = Project::synthetic();
    project.expect(0, &run(&TWO));
    project.expect(0, &["enqueue", "synthetic", "optim.lr=0.02"]);
    project.expect(0, &[&["synthetic", "--trials", "31"], &TWO[..]].concat());
    let last = project.trials("synthetic").pop().unwrap();
    assert_eq!(last["params"]["optim.lr"], 0.02);
    assert!(values(&last).is_some());
    project.expect(0, &["replay", "synthetic", "30"]);
}

/// Loaded, and asked and told on, by every version in `TUNE_OPTUNA_VERSIONS`, else 5.0.0.
#[test]
fn the_front_is_optunas_best_trials_and_its_trials_are_ours() {
    for version in versions() {
        let project = Project::synthetic();
        project.expect(0, &run(&TWO));
        let printed = optuna(&version, "dump", &project.database());
        assert_eq!(printed["directions"], json!(["MINIMIZE", "MINIMIZE"]));
        let best = |printed: &Json| -> BTreeSet<u64> {
            let front = printed["front"].as_array().unwrap();
            front.iter().map(|n| n.as_u64().unwrap()).collect()
        };
        let trials = project.trials("synthetic");
        assert_eq!(best(&printed), front_of(&trials), "Optuna {version}");
        for (theirs, ours) in printed["trials"].as_array().unwrap().iter().zip(&trials) {
            let ours = ours.get("values").cloned().unwrap_or_else(|| json!([]));
            assert_eq!(theirs["values"], ours);
        }
        let printed = optuna(&version, "add-several", &project.database());
        assert_eq!(best(&printed), BTreeSet::from([30]));
        let (best, _) = project.expect(0, &["best", "--json"]);
        let best: Json = serde_json::from_str(&best).unwrap();
        assert_eq!(numbers(&best["front"]), [30].into());
        project.expect(0, &[&["synthetic", "--trials", "35"], &TWO[..]].concat());
    }
}

fn optuna(version: &str, command: &str, database: &Path) -> Json {
    let mut script = script(version, &[], "check_optuna.py");
    script.args([command.as_ref(), database.as_os_str(), "synthetic".as_ref()]);
    serde_json::from_str(&printed(script, &format!("{version}, {command}"))).unwrap()
}
