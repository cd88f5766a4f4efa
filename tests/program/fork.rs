//! A study whose space or conditions changed: refused, forked, continued; and a new study that
//! begins with another's trials.

use crate::common::{Project, results};
use serde_json::{Value as Json, json};

const OTHER_MODELS: &str = "space.optim.name.choices=[\"sgd\", \"adam\"]";

fn database(project: &Project) -> Vec<Json> {
    let (stdout, _) = project.expect(0, &["list", "--json"]);
    let list: Json = serde_json::from_str(&stdout).unwrap();
    list["studies"].as_array().unwrap().clone()
}

fn names(project: &Project) -> Vec<String> {
    let name = |study: &Json| study["name"].as_str().unwrap().to_owned();
    database(project).iter().map(name).collect()
}

/// The events of a run with `--json`, by their names.
fn events(stdout: &str) -> Vec<Json> {
    stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn forked(events: &[Json]) -> Option<&Json> {
    events.iter().find(|e| e["event"] == "study_forked")
}

/// The trials of a study that were copied from `study`, each beside its original.
fn pairs(project: &Project, study: &str, from: &str) -> Vec<(Json, Json)> {
    let originals = project.trials(from);
    let copied = |trial: Json| {
        let origin = &trial["attrs"]["copied_from"];
        let number = origin["number"].as_u64()?;
        (origin["study"] == from).then(|| (trial.clone(), originals[number as usize].clone()))
    };
    project
        .trials(study)
        .into_iter()
        .filter_map(copied)
        .collect()
}

#[test]
fn a_changed_list_of_choices_is_refused_then_forked_then_continued() {
    let project = Project::synthetic();
    // With noise a result is the seed's, too.
    let noise = ["--set", "task.noise=0.01", "--pruner", "none"];
    project.expect(0, &[&["synthetic", "--trials", "25"], &noise[..]].concat());
    let before = project.trials("synthetic");
    let line = ["synthetic", "--trials", "28", "--set", OTHER_MODELS];
    let line = [&line[..], &noise[..]].concat();
    let (stdout, stderr) = project.expect(8, &line);
    assert_eq!(stdout, "");
    for part in [
        "optim.name was searched in adam | sgd | rmsprop",
        "--fork",
        "synthetic@2",
        "--study NAME",
    ] {
        assert!(stderr.contains(part), "{part} is missing in\n{stderr}");
    }

    let fork = [&line[..], &["--fork", "--json"]].concat();
    let (stdout, _) = project.expect(0, &fork);
    let told = events(&stdout);
    let event = forked(&told).unwrap();
    assert_eq!(
        (&event["study"], &event["from"]),
        (&json!("synthetic@2"), &json!(["synthetic"]))
    );
    let fitting: Vec<&Json> = before
        .iter()
        .filter(|t| t["params"]["optim.name"] != "rmsprop")
        .collect();
    assert!(!fitting.is_empty() && fitting.len() < before.len());
    assert_eq!(event["copied"], json!(fitting.len()));
    let left = json!([{
        "key": "optim.name", "why": "rmsprop is no choice now",
        "trials": before.len() - fitting.len(),
    }]);
    assert_eq!(event["left_out"], left);

    let pairs = pairs(&project, "synthetic@2", "synthetic");
    assert_eq!(pairs.len(), fitting.len());
    for (copy, original) in &pairs {
        for field in ["state", "value", "params", "intermediate", "datetime_start"] {
            assert_eq!(copy[field], original[field], "{field}");
        }
        assert_eq!(copy["attrs"]["seed"], original["attrs"]["seed"]);
        assert_eq!(copy["attempts"], json!([]));
    }
    let after = project.trials("synthetic@2");
    assert_eq!(after.len(), 28, "copies count towards the goal");
    assert_eq!(after[0]["params"], before[0]["params"], "the defaults");
    assert_eq!(project.trials("synthetic"), before, "the old study stays");

    let (stdout, _) = project.expect(0, &fork);
    assert!(forked(&events(&stdout)).is_none(), "nothing new is made");
    assert_eq!(names(&project), ["synthetic", "synthetic@2"]);
    assert_eq!(project.trials("synthetic@2"), after);
    let (_, stderr) = project.expect(8, &line);
    assert!(
        stderr.contains("The study synthetic@2 is what is asked"),
        "{stderr}"
    );
    let by_name = [&line[..], &["--study", "synthetic@2"]].concat();
    project.expect(0, &by_name);

    let (text, _) = project.expect(0, &["status", "synthetic@2"]);
    assert!(text.contains("made from      synthetic (--fork)"), "{text}");
    let copy = pairs[1].0["number"].to_string();
    let (text, _) = project.expect(0, &["show", "synthetic@2", &copy]);
    let original = format!("trial {} of synthetic\n", pairs[1].1["number"]);
    assert!(text.contains(&original), "{text}");
    let (text, _) = project.expect(0, &["replay", "synthetic@2", &copy, "--json"]);
    let replayed: Json = serde_json::from_str(&text).unwrap();
    assert_eq!(
        replayed["value"], pairs[1].1["value"],
        "trained with its own seed"
    );
}

#[test]
fn what_is_asked_before_is_gone_on_with_whatever_came_between() {
    let project = Project::synthetic();
    let ask = |trials: &str, set: &str| {
        let line = [
            "synthetic",
            "--fork",
            "--json",
            "--trials",
            trials,
            "--set",
            set,
        ];
        let (stdout, _) = project.expect(0, &line);
        let started = events(&stdout);
        let run = started.iter().find(|e| e["event"] == "run_started");
        let study = run.unwrap()["study"].as_str().unwrap().to_owned();
        (study, forked(&started).cloned())
    };
    let (wide, narrow) = ("space.optim.lr.high=0.9", "space.optim.lr.high=0.01");
    assert_eq!(ask("12", wide).0, "synthetic", "nothing to fork yet");
    assert_eq!(ask("12", narrow).0, "synthetic@2");
    assert_eq!(ask("13", wide).0, "synthetic");
    assert_eq!(ask("13", narrow).0, "synthetic@2");
    // The third takes from both, and what came to the second from the first only once.
    let (study, fork) = ask("14", "space.optim.lr.high=0.5");
    assert_eq!(study, "synthetic@3");
    let fork = fork.unwrap();
    assert_eq!(fork["from"], json!(["synthetic@2", "synthetic"]));
    let copies =
        pairs(&project, &study, "synthetic").len() + pairs(&project, &study, "synthetic@2").len();
    assert_eq!(fork["copied"], json!(copies));
    let mut points: Vec<String> = project
        .trials(&study)
        .iter()
        .filter(|t| t["attrs"].get("copied_from").is_some())
        .map(|t| t["params"].to_string())
        .collect();
    points.sort();
    let all = points.len();
    points.dedup();
    assert_eq!(points.len(), all, "no trial came twice");
    assert_eq!(ask("14", narrow).0, "synthetic@2");
    assert_eq!(names(&project).len(), 3);
}

#[test]
fn where_values_are_not_comparable_only_points_come_and_are_tried_first() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "25", "--pruner", "none"]);
    let mut old = project.trials("synthetic");
    let line = [
        "synthetic",
        "--fork",
        "--json",
        "--trials",
        "12",
        "--epochs",
        "4",
    ];
    let (stdout, _) = project.expect(0, &[&line[..], &["--pruner", "none"]].concat());
    let told = events(&stdout);
    let event = forked(&told).unwrap();
    assert_eq!(
        (&event["copied"], &event["enqueued"]),
        (&json!(0), &json!(10))
    );
    let differences = json!(["train.epochs was 9; now it is 4"]);
    assert_eq!(event["differences"], differences);
    let new = project.trials("synthetic@2");
    assert_eq!(
        new[0]["params"], old[0]["params"],
        "the point of the defaults"
    );
    old.retain(|t| t["state"] == "COMPLETE");
    old.sort_by(|a, b| {
        a["value"]
            .as_f64()
            .unwrap()
            .total_cmp(&b["value"].as_f64().unwrap())
    });
    old.truncate(10);
    // The point of the defaults has its place at the front anyway.
    old.sort_by_key(|t| t["params"] != new[0]["params"]);
    let points: Vec<&Json> = new[..11]
        .iter()
        .filter(|t| t["attrs"].get("point_from").is_some())
        .collect();
    assert_eq!(points.len(), 10);
    for (point, best) in points.iter().zip(&old) {
        assert_eq!(point["params"], best["params"]);
        assert_eq!(point["attrs"]["point_from"]["number"], best["number"]);
        assert_eq!(point["intermediate"].as_object().unwrap().len(), 4);
        assert_ne!(point["value"], best["value"]);
    }
}

#[test]
fn command_lines_at_the_same_time_make_one_fork() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "8"]);
    let line = [
        "synthetic",
        "--fork",
        "--trials",
        "9",
        "--set",
        OTHER_MODELS,
    ];
    let mut children: Vec<_> = (0..4).map(|_| project.start(&line)).collect();
    let codes: Vec<_> = children
        .iter_mut()
        .map(|c| c.wait().unwrap().code())
        .collect();
    assert!(codes.contains(&Some(0)), "{codes:?}");
    // Who comes while another holds the fork is told so.
    assert!(codes.iter().all(|c| matches!(c, Some(0 | 6))), "{codes:?}");
    assert_eq!(names(&project), ["synthetic", "synthetic@2"]);
    assert_eq!(project.trials("synthetic@2").len(), 9);
}

#[test]
fn a_new_study_begins_with_another_and_the_same_line_continues_it() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "10"]);
    let line = [
        "synthetic",
        "--study",
        "warm",
        "--from",
        "synthetic",
        "--trials",
        "12",
    ];
    project.expect(0, &line);
    let trials = project.trials("warm");
    assert_eq!(pairs(&project, "warm", "synthetic").len(), 10);
    assert_eq!(
        results(&trials)[..10],
        results(&project.trials("synthetic"))[..]
    );
    project.expect(0, &line);
    assert_eq!(project.trials("warm"), trials);
    // As long as it is what is asked.
    let (_, stderr) = project.expect(8, &[&line[..], &["--seed", "3"]].concat());
    assert!(stderr.contains("study.seed"), "{stderr}");
    let other = ["synthetic", "--study", "warm", "--from", "other"];
    let (_, stderr) = project.expect(8, &other);
    assert!(stderr.contains("made from synthetic (--from)"), "{stderr}");
    project.expect(0, &["synthetic", "--study", "plain", "--trials", "1"]);
    let plain = ["synthetic", "--study", "plain", "--from", "synthetic"];
    let (_, stderr) = project.expect(8, &plain);
    assert!(stderr.contains("made from no other"), "{stderr}");
}

#[test]
fn a_study_to_begin_with_must_be_there() {
    let project = Project::synthetic();
    let line = ["synthetic", "--study", "new", "--from", "nosuch"];
    let (_, stderr) = project.expect(2, &line);
    assert!(stderr.contains("no database"), "{stderr}");
    assert!(!project.database().exists());
    project.expect(0, &["synthetic", "--trials", "1"]);
    let (_, stderr) = project.expect(2, &line);
    assert!(stderr.contains("it holds: synthetic"), "{stderr}");
    let (_, stderr) = project.expect(2, &["synthetic", "--from", "synthetic"]);
    assert!(stderr.contains("the study itself"), "{stderr}");
    project.expect(2, &["synthetic", "--from", "synthetic", "--fork"]);
    assert_eq!(names(&project), ["synthetic"]);
}

#[test]
fn a_study_of_another_program_gives_its_best_points() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--study", "theirs", "--trials", "6"]);
    // As Optuna alone would have left it.
    let connection = project.connect();
    for table in ["tune_studies", "tune_runs", "study_user_attributes"] {
        connection
            .execute(&format!("DELETE FROM {table}"), [])
            .unwrap();
    }
    drop(connection);
    let line = ["synthetic", "--from", "theirs", "--trials", "3", "--json"];
    let (stdout, _) = project.expect(0, &line);
    let told = events(&stdout);
    let event = forked(&told).unwrap();
    assert_eq!(
        (&event["copied"], &event["differences"]),
        (&json!(0), &json!([]))
    );
    assert!(event["enqueued"].as_u64() > Some(0));
}

#[test]
fn a_fork_of_disturbed_trials_says_so_too() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "5", "--inject", "panic:1"]);
    project.expect(0, &["synthetic", "--trials", "5", "--fork", "--seed", "1"]);
    let plans = |study: &str| {
        let sql = "SELECT value_json FROM study_user_attributes JOIN studies USING (study_id) \
                   WHERE key = 'injected_faults' AND study_name = ?1";
        let row = project
            .connect()
            .query_row(sql, [study], |r| r.get::<_, String>(0));
        row.unwrap()
    };
    assert_eq!(plans("synthetic@2"), plans("synthetic"));
}
