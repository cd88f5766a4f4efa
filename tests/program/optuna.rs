//! Real Optuna and the store on one database: each reads and continues what the other has written.
//!
//! The versions are those of `TUNE_OPTUNA_VERSIONS`, else 5.0.0. `TUNE_OPTUNA_FULL=1` adds importances by
//! fANOVA and plots. `TUNE_OPTUNA_SECONDS` is how long both work on the same studies, 10 by default.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::optuna::{printed, script, versions};
use crate::common::postgres::Server;
use crate::common::python::{said, venv};
use crate::common::{Project, wait_for};
use messages::json_number;
use search::space::{Domain, Params, Value, distribution_to_json};
use search::study::carry::waiting;
use search::study::{Direction, FrozenTrial, Job, TrialState};
use serde_json::{Map, Value as Json, json};
use store::{Place, RunRecord, Store, Write, Written};

/// A version of Optuna, and an empty database that it shares with the store.
struct Shared<'a> {
    version: &'a str,
    place: Place,
}

/// Does something with every version of Optuna, with a file and with a server.
fn with_each(what: impl Fn(&Shared)) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(Path::new(crate::ROOT), &[]);
    for (i, version) in versions().iter().enumerate() {
        let place = Place::from(dir.path().join(format!("{i}.db")));
        what(&Shared { version, place });
        let database = format!("studies{i}");
        server.sql("postgres", &format!("CREATE DATABASE {database}"));
        let url = server.url(&database);
        let place = Place::named(&url, &dir.path().join("tune.db"), "node").unwrap();
        what(&Shared { version, place });
    }
}

impl Shared<'_> {
    fn python(&self, command: &str, study: &str) -> Json {
        python(self.version, &[], command, &self.place, study)
    }
}

/// Runs `check_optuna.py`. The time zone is far from UTC, so that a local time shows.
fn python(version: &str, kind: &[&str], command: &str, place: &Place, study: &str) -> Json {
    let mut script = script(version, kind, "check_optuna.py");
    script.args([command, &place.word(), study]);
    script.env("TZ", "Asia/Tokyo");
    serde_json::from_str(&printed(script, &format!("{version}, {command}"))).unwrap()
}

/// A trial as `check_optuna.py` prints it.
fn as_python(trial: &FrozenTrial) -> Json {
    let params: Map<String, Json> = trial
        .params
        .iter()
        .map(|(k, v)| (k.clone(), v.to_json()))
        .collect();
    let distributions: Map<String, Json> = trial
        .distributions
        .iter()
        .map(|(k, d)| {
            (
                k.clone(),
                serde_json::from_str(&distribution_to_json(d)).unwrap(),
            )
        })
        .collect();
    let intermediate: Map<String, Json> = trial
        .intermediate
        .iter()
        .map(|(s, v)| (s.to_string(), json_number(*v)))
        .collect();
    json!({
        "number": trial.number,
        "trial_id": trial.trial_id,
        "state": trial.state,
        "values": trial.values.iter().map(|v| json_number(*v)).collect::<Vec<_>>(),
        "params": params,
        "distributions": distributions,
        "intermediate": intermediate,
        "user_attrs": trial.user_attrs,
        "system_attrs": trial.system_attrs,
        "datetime_start": trial.datetime_start,
        "datetime_complete": trial.datetime_complete,
    })
}

fn object(json: Json) -> Map<String, Json> {
    json.as_object().unwrap().clone()
}

fn float(low: f64, high: f64, log: bool, step: Option<f64>) -> Domain {
    Domain::Float {
        low,
        high,
        log,
        step,
    }
}

fn int(low: i64, high: i64, log: bool, step: i64) -> Domain {
    Domain::Int {
        low,
        high,
        log,
        step,
    }
}

/// The space of `check_optuna.py`.
fn distributions() -> BTreeMap<String, Domain> {
    let choices = vec![
        "adam".into(),
        "sgd".into(),
        Value::Null,
        Value::Bool(true),
        Value::Int(3),
        Value::Float(0.5),
        "é".into(),
    ];
    [
        ("lr", float(1e-5, 0.1, true, None)),
        ("dropout", float(0.0, 0.5, false, None)),
        ("momentum", float(0.5, 0.99, false, Some(0.01))),
        ("layers", int(1, 8, false, 1)),
        ("batch", int(16, 512, true, 1)),
        ("width", int(64, 1024, false, 64)),
        ("opt", Domain::Categorical { choices }),
    ]
    .map(|(name, domain)| (name.to_owned(), domain))
    .into()
}

/// A point of that space, different for each number.
fn params(number: u64) -> Params {
    let unit = (number as f64 * 0.618_033_988_75).fract();
    distributions()
        .into_iter()
        .enumerate()
        .map(|(i, (name, domain))| (name, domain.from_unit((unit + i as f64 * 0.137).fract())))
        .collect()
}

fn created(number: u64) -> Write {
    Write::TrialCreated {
        number,
        last: u64::MAX,
        since: number,
        study_seed: None,
        params: params(number),
        distributions: distributions(),
        user_attrs: object(json!({"seed": i64::MAX, "attempts": 1})),
        system_attrs: Map::new(),
    }
}

fn finished(number: u64, state: TrialState, values: &[f64]) -> Write {
    Write::TrialFinished {
        number,
        state,
        values: values.to_vec(),
        user_attrs: Map::new(),
        system_attrs: Map::new(),
    }
}

fn reported(number: u64, step: i64, value: f64) -> Write {
    Write::Reported {
        number,
        step,
        value,
    }
}

fn attempt(number: u64) -> Write {
    Write::AttemptStarted {
        id: Job::trial(number).attempt(0),
        seed: 1234,
        worker: 1,
        pid: 2,
        device: "cpu".to_owned(),
        log: "x.log".to_owned(),
    }
}

fn begin(store: &mut Store, study: i64) -> i64 {
    let run = RunRecord {
        pid: 1,
        host: "h".to_owned(),
        version: "0".to_owned(),
        command: Vec::new(),
        operation: Json::Null,
    };
    store.begin_run(study, &run).unwrap()
}

/// A study with every kind of value, written by our store.
fn write_study(place: &Place) -> (Store, i64) {
    let mut store = Store::open(place).unwrap();
    let attributes = object(json!({"baseline": {"value": 0.25, "what": "always é"}, "nan": "NaN"}));
    let study = store
        .create_study(
            &store::NewStudy {
                name: "criteria",
                directions: &[Direction::Maximize],
                user_attrs: &attributes,
                identity: &Map::new(),
            },
            &[],
        )
        .unwrap();
    let run = begin(&mut store, study);
    let mut batch = vec![
        created(0),
        attempt(0),
        reported(0, 1, f64::NAN),
        reported(0, 2, f64::INFINITY),
        reported(0, 3, f64::NEG_INFINITY),
        reported(0, 4, 0.1 + 0.2),
        Write::TrialFinished {
            number: 0,
            state: TrialState::Complete,
            values: vec![0.1 + 0.2],
            user_attrs: object(json!({
                "metric.loss": "NaN", "oom_config": {"batch_size": 4, "x": ["Infinity", null]},
                "text": "Zeile\n\"ü\" 😀 \\", "big": 1e300, "long": "é".repeat(5000),
            })),
            system_attrs: object(json!({"constraints:gpu_memory": -0.5})),
        },
        created(1),
        finished(1, TrialState::Complete, &[f64::NEG_INFINITY]),
        created(2),
        reported(2, 1, 0.75),
        reported(2, 2, f64::NAN),
        Write::TrialFinished {
            number: 2,
            state: TrialState::Pruned,
            values: Vec::new(),
            user_attrs: object(json!({"oom": true})),
            system_attrs: object(json!({"constraints:gpu_memory": 1.0})),
        },
        created(3),
        finished(3, TrialState::Pruned, &[]),
        created(4),
        finished(4, TrialState::Fail, &[]),
        created(5),
        attempt(5),
    ];
    for number in 6..30 {
        batch.extend([
            created(number),
            finished(number, TrialState::Complete, &[number as f64 / 100.0]),
        ]);
    }
    assert_eq!(store.apply(study, run, &batch).unwrap(), Written::Done);
    let fixed = [
        ("lr".to_owned(), Value::Float(0.02)),
        ("opt".to_owned(), Value::Null),
    ]
    .into();
    store
        .add_trials(study, &[waiting(&fixed, object(json!({"memo": "später"})))])
        .unwrap();
    (store, study)
}

/// Everything that Optuna has printed is what our store reads.
fn equal(printed: &Json, store: &Store, study: i64) {
    let ours = store.trials(study).unwrap();
    let theirs = printed["trials"].as_array().unwrap();
    assert_eq!(theirs.len(), ours.len());
    for (theirs, ours) in theirs.iter().zip(&ours) {
        let (theirs, ours) = (object(theirs.clone()), object(as_python(ours)));
        for (field, value) in &ours {
            assert_eq!(theirs[field], *value, "{field} of trial {}", ours["number"]);
        }
        assert_eq!(theirs.len(), ours.len());
    }
}

#[test]
fn optuna_reads_every_field_of_our_study_and_adds_to_it() {
    with_each(|shared| {
        let place = &shared.place;
        let (mut store, study) = write_study(place);
        let printed = shared.python("dump", "criteria");
        assert_eq!(printed["optuna"], json!(shared.version));
        assert_eq!(printed["best"], json!(0));
        assert_eq!(printed["directions"], json!(["MAXIMIZE"]));
        assert_eq!(printed["user_attrs"]["nan"], json!("NaN"));
        equal(&printed, &store, study);
        // The same once more by hand, so that a mistake on both sides shows.
        let first = &printed["trials"][0];
        assert_eq!(first["values"], json!([0.30000000000000004]));
        assert_eq!(
            first["intermediate"],
            json!({"1": "NaN", "2": "Infinity", "3": "-Infinity", "4": 0.30000000000000004})
        );
        assert_eq!(first["user_attrs"]["text"], json!("Zeile\n\"ü\" 😀 \\"));
        assert_eq!(first["user_attrs"]["metric.loss"], json!("NaN"));
        assert_eq!(first["user_attrs"]["seed"], json!(i64::MAX));
        assert_eq!(printed["trials"][1]["values"], json!(["-Infinity"]));
        assert_eq!(printed["trials"][2]["state"], json!("PRUNED"));
        assert_eq!(printed["trials"][2]["values"], json!([0.75]));
        assert_eq!(printed["trials"][3]["values"], json!([]));
        assert_eq!(printed["trials"][4]["state"], json!("FAIL"));
        assert_eq!(printed["trials"][5]["state"], json!("RUNNING"));
        assert_eq!(
            printed["trials"][30]["system_attrs"],
            json!({"fixed_params": {"lr": 0.02, "opt": null}})
        );

        // On a server commits of its own may look like those of others.
        assert!(place.is_shared() || !store.foreign_change());
        let printed = shared.python("add", "criteria");
        assert!(store.foreign_change());
        equal(&printed, &store, study);
        let trials = store.trials(study).unwrap();
        let running = trials
            .iter()
            .filter(|t| t.state == TrialState::Running)
            .count();
        assert!(running >= 2, "one of ours and one that Optuna asked for");
        assert_eq!(
            trials.last().map(FrozenTrial::fixed_params),
            Some([("layers".to_owned(), Value::Int(3))].into())
        );

        let next = trials.len() as u64;
        let run = begin(&mut store, study);
        let reclaimable = store.reclaimable(study, run).unwrap();
        assert_eq!(
            reclaimable.iter().map(|r| r.number).collect::<Vec<_>>(),
            [5]
        );
        let batch = [created(next), finished(next, TrialState::Complete, &[0.9])];
        assert_eq!(store.apply(study, run, &batch).unwrap(), Written::Done);
        let printed = shared.python("dump", "criteria");
        assert_eq!(printed["best"], json!(next));
        equal(&printed, &store, study);
        importances(shared);
    });
}

fn importances(shared: &Shared) {
    let mut found = vec![shared.python("importances", "criteria")];
    if std::env::var_os("TUNE_OPTUNA_FULL").is_some() {
        let full = python(shared.version, &["full"], "full", &shared.place, "criteria");
        found.push(full);
    }
    for printed in found {
        assert_eq!(
            printed["importances"].as_object().unwrap().len(),
            7,
            "{printed}"
        );
    }
}

#[test]
fn a_study_of_optuna_is_read_and_continued() {
    with_each(|shared| {
        let place = &shared.place;
        let printed = shared.python("write", "theirs");
        let reader = Store::open_read_only(place).unwrap();
        let summary = reader.find_study("theirs").unwrap().unwrap();
        assert_eq!(summary.directions, [Direction::Maximize]);
        assert_eq!(
            printed["user_attrs"],
            Json::Object(summary.user_attrs.clone())
        );
        equal(&printed, &reader, summary.study_id);
        drop(reader);

        let mut store = Store::open(place).unwrap();
        let study = summary.study_id;
        let run = begin(&mut store, study);
        let next = summary.counts.total();
        let waiting = store.trials(study).unwrap();
        let waiting = waiting
            .iter()
            .find(|t| t.state == TrialState::Waiting)
            .unwrap();
        let claim = Write::TrialClaimed {
            number: waiting.number,
            params: params(7),
            distributions: distributions(),
            user_attrs: object(json!({"seed": 1})),
        };
        let batch = [
            created(next),
            attempt(next),
            reported(next, 1, 0.5),
            finished(next, TrialState::Pruned, &[]),
            claim,
            attempt(waiting.number),
            finished(waiting.number, TrialState::Complete, &[f64::INFINITY]),
        ];
        assert_eq!(store.apply(study, run, &batch).unwrap(), Written::Done);
        let printed = shared.python("add", "theirs");
        assert_eq!(printed["best"], json!(waiting.number));
        equal(&printed, &store, study);
    });
}

#[test]
fn optuna_reads_a_fork_and_points_that_wait_in_it() {
    for version in versions() {
        let project = Project::synthetic();
        project.expect(0, &["synthetic", "--trials", "20"]);
        let choices = "space.optim.name.choices=[\"sgd\", \"adam\"]";
        let line = ["synthetic", "--fork", "--trials", "22", "--set", choices];
        project.expect(0, &line);
        project.expect(0, &["enqueue", "synthetic@2", "optim.name=sgd"]);
        let path = project.database();
        let store = Store::open_read_only(&path).unwrap();
        let study = store.find_study("synthetic@2").unwrap().unwrap();
        let place = Place::from(&path);
        let printed = python(&version, &[], "dump", &place, "synthetic@2");
        equal(&printed, &store, study.study_id);
        assert_eq!(printed["metric_names"], json!(["loss"]));
        let trials = printed["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 23);
        let name = json!({
            "name": "CategoricalDistribution", "attributes": {"choices": ["sgd", "adam"]},
        });
        assert!(
            trials[..22]
                .iter()
                .all(|t| t["distributions"]["optim.name"] == name)
        );
        let copied = |t: &&Json| t["user_attrs"].get("copied_from").is_some();
        let copies = trials.iter().filter(copied).count() as u64;
        assert_eq!(
            study.user_attrs["made_from"],
            json!({
                "by": "--fork", "studies": ["synthetic"], "copied": copies, "enqueued": 0,
                "waiting": 0,
            })
        );
        let fixed = json!({"fixed_params": {"optim.name": "sgd"}});
        assert_eq!(trials[22]["system_attrs"], fixed);
        let printed = python(&version, &[], "importances", &place, "synthetic@2");
        assert!(!printed["importances"].as_object().unwrap().is_empty());
    }
}

#[test]
fn a_study_that_optuna_deletes_leaves_nothing_of_ours_behind() {
    with_each(|shared| {
        let place = &shared.place;
        let (mut store, study) = write_study(place);
        shared.python("delete", "criteria");
        assert!(store.studies().unwrap().is_empty());
        let again = store
            .create_study(
                &store::NewStudy {
                    name: "again",
                    directions: &[Direction::Minimize],
                    user_attrs: &Map::new(),
                    identity: &Map::new(),
                },
                &[],
            )
            .unwrap();
        // A file gives the number once more.
        assert_eq!(again == study, !place.is_shared());
        assert!(store.all_attempts(again).unwrap().is_empty());
        assert!(store.runs(again).unwrap().is_empty());
    });
}

/// How long tune and Optuna work on the same studies, in seconds, for all versions together.
fn time_beside() -> u64 {
    let given = std::env::var("TUNE_OPTUNA_SECONDS").ok();
    given.map_or(10, |seconds| seconds.parse().unwrap())
}

/// One study of ours beside Optuna, which is told to end when we have; what Optuna did.
fn beside(version: &str, seed: u64) -> Json {
    let (goal, slots) = (40 + 10 * (seed % 4), 1 + seed % 8);
    let project = Project::synthetic();
    let mut other = script(version, &[], "beside.py")
        .arg(project.database())
        .args(["synthetic", &seed.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut heard = BufReader::new(other.stdout.take().unwrap());
    // Optuna takes longer to start than a study of ours to end.
    heard.read_line(&mut String::new()).unwrap();
    let (trials, parallel) = (goal.to_string(), slots.to_string());
    let mut run = vec!["synthetic", "--trials", &trials, "--parallel", &parallel];
    run.extend(["--sampler", "random", "--set", "task.step_ms=5", "--quiet"]);
    project.expect(0, &run);
    drop(other.stdin.take());
    let mut done = String::new();
    heard.read_to_string(&mut done).unwrap();
    assert!(other.wait().unwrap().success());
    let database = project.connect();
    let count = |sql: &str| -> u64 { database.query_row(sql, [], |row| row.get(0)).unwrap() };
    let ours = "FROM trials t JOIN tune_trials o ON o.trial_id = t.trial_id";
    let left = format!("SELECT COUNT(*) {ours} WHERE t.state IN ('RUNNING', 'WAITING')");
    assert_eq!(count(&left), 0, "a trial of ours is left, seed {seed}");
    let open = "SELECT COUNT(*) FROM tune_attempts WHERE ended IS NULL";
    assert_eq!(count(open), 0, "an attempt is left open, seed {seed}");
    let twice = "SELECT COUNT(*) FROM (SELECT trial_id FROM tune_attempts
                 WHERE outcome = 'completed' GROUP BY trial_id HAVING COUNT(*) > 1)";
    assert_eq!(count(twice), 0, "a trial was trained twice, seed {seed}");
    let finished = "SELECT COUNT(*) FROM trials WHERE state IN ('COMPLETE', 'PRUNED')";
    // Optuna may have deleted one after our last look.
    assert!(
        count(finished) + 2 >= goal,
        "{} of {goal}, seed {seed}",
        count(finished)
    );
    serde_json::from_str(&done).unwrap()
}

#[test]
fn beside_optuna_no_trial_of_ours_is_lost_or_run_twice() {
    let versions = versions();
    let end = Instant::now() + Duration::from_secs(time_beside());
    let mut did = BTreeMap::new();
    for seed in 0.. {
        let version = &versions[seed as usize % versions.len()];
        let done = beside(version, seed);
        for (what, times) in done.as_object().unwrap() {
            *did.entry(what.clone()).or_insert(0) += times.as_u64().unwrap();
        }
        *did.entry("studies".to_owned()).or_insert(0) += 1;
        // A study of ours may end before a slow machine's Optuna has asked.
        let asked = did.get("asked").is_some_and(|n| *n > 0);
        if Instant::now() >= end && (asked || seed >= 50) {
            break;
        }
    }
    println!("{did:?}");
    assert!(did.get("asked").is_some_and(|n| *n > 0), "Optuna was there");
}

/// What optuna-dashboard answers about all studies, the first of them and its importances, and what its page is.
const DASHBOARD: &str = r#"
import json, sys
from wsgiref.util import setup_testing_defaults
from optuna_dashboard import wsgi

app = wsgi(sys.argv[1])

def ask(path):
    environ, told = {}, []
    setup_testing_defaults(environ)
    environ["PATH_INFO"] = path
    body = b"".join(app(environ, lambda status, headers, exc_info=None: told.append(status)))
    assert told[0].startswith("200"), (path, told, body)
    return body

asked = {part: json.loads(ask("/api/studies" + path)) for part, path in
         {"all": "", "one": "/1", "importances": "/1/param_importances"}.items()}
assert b"<html" in ask("/dashboard")
print(json.dumps(asked))
"#;

#[test]
fn optuna_dashboard_opens_a_study_that_goes_on() {
    let python = venv(
        "dashboard-0.21.0-psycopg2",
        "optuna_dashboard,psycopg2",
        &[
            "optuna==5.0.0",
            "optuna-dashboard==0.21.0",
            "sqlalchemy>=2,<2.1",
            "psycopg2-binary==2.9.12",
        ],
    );
    let server = Server::start(Path::new(crate::ROOT), &[]);
    server.sql("postgres", "CREATE DATABASE studies");
    let project = Project::synthetic();
    let file = format!("sqlite:///{}", project.database().display());
    for url in [file, server.url("studies")] {
        dashboard_opens(&python, &project, &url);
    }
}

fn dashboard_opens(python: &Path, project: &Project, url: &str) {
    let trials = || -> Vec<Json> {
        let asked = ["trials", "synthetic", "--json", "--storage", url];
        serde_json::from_str(&project.expect(0, &asked).0).unwrap()
    };
    project.expect(0, &["synthetic", "--trials", "20", "--storage", url]);
    let on = "synthetic --trials 1000 --set task.step_ms=100 --storage";
    let on: Vec<&str> = on.split(' ').chain([url]).collect();
    let mut run = project.tune(&on).spawn().unwrap();
    wait_for("a trial that runs", || {
        let trials = trials();
        trials.len() > 20 && trials.iter().any(|t| t["state"] == "RUNNING")
    });
    let told = said(python, DASHBOARD, &[Path::new(url)]);
    run.kill().unwrap();
    run.wait().unwrap();
    let told: Json = serde_json::from_str(&told).unwrap();
    assert_eq!(told["all"]["study_summaries"][0]["study_name"], "synthetic");
    assert!(
        !told["importances"]["param_importances"][0]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let shown = told["one"]["trials"].as_array().unwrap();
    assert!(shown.iter().any(|trial| trial["state"] == "Running"));
    let ours = trials();
    assert!(ours.len() >= shown.len());
    for (shown, ours) in shown.iter().zip(&ours).take(20) {
        assert_eq!(shown["number"], ours["number"]);
        match ours["state"].as_str().unwrap() {
            "COMPLETE" => assert_eq!(shown["values"][0], ours["value"]),
            _ => assert_eq!(shown["state"], "Pruned"),
        }
    }
}
