//! The queries on the study that Optuna has written, and on one of our own.

mod events;
mod hostile;
mod views;

use std::path::Path;

use serde_json::{Map, Value as Json, json};
use tempfile::TempDir;

use super::*;
use messages::exit::Exit;
use report::{Best, Chosen, Counts, Event, Fork, Selected, Tested};
use report::{event_json, left_out_json};
use search::space::{Domain, Params, Value};
use search::study::carry::{Carried, LeftOut};
use search::study::selection::{self, Leader, Next};
use search::study::{Direction, Job, TrialState};
use store::{AttemptEnd, RunRecord, Write};
use supervisor::LockOwner;

const EXAMPLE: &str = include_str!("../../../tests/data/optuna-example.sql");
const TRIALS: &str = include_str!("../../../docs/schemas/trials.schema.json");
const EVENT: &str = include_str!("../../../docs/schemas/event.schema.json");

fn example() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("optuna.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch(EXAMPLE)
        .unwrap();
    let store = Store::open_read_only(&path).unwrap();
    (dir, store)
}

fn object(json: Json) -> Map<String, Json> {
    json.as_object().unwrap().clone()
}

/// A study of three trials, the first of which an out-of-memory error has interrupted.
fn own(path: &Path, baseline: f64) -> Store {
    let start: jiff::Timestamp = "2026-11-21T03:00:00Z".parse().unwrap();
    let ticks = std::sync::atomic::AtomicI64::new(0);
    let mut store = Store::open(path).unwrap().with_clock(move || {
        let tick = ticks.fetch_add(90, std::sync::atomic::Ordering::Relaxed);
        start + jiff::SignedDuration::from_secs(tick)
    });
    let attributes = object(json!({"baseline": {"value": baseline, "what": "always class 0"}}));
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
    let record = RunRecord {
        pid: 1,
        host: "h".to_owned(),
        version: "0".to_owned(),
        command: vec!["tune".to_owned()],
        operation: json!({"trials": 300}),
    };
    let run = store.begin_run(study, &record).unwrap();
    for number in 0..3 {
        store.apply(study, run, &start_of(number)).unwrap();
        store.apply(study, run, &end_of(number)).unwrap();
    }
    store
        .apply(study, run, &[Write::RunEnded { exit: 4 }])
        .unwrap();
    store
}

fn attempt(number: u64, attempt: u32) -> Write {
    Write::AttemptStarted {
        id: Job::trial(number).attempt(attempt),
        seed: 1234,
        worker: 1,
        pid: 4711,
        device: "cuda:0".to_owned(),
        log: format!("logs/{number}.{attempt}.log"),
    }
}

fn ended(number: u64, attempt: u32, outcome: &str) -> Write {
    let end = AttemptEnd {
        outcome: outcome.to_owned(),
        detail: "CUDA out of memory\n\u{1b}[2J".to_owned(),
        again: outcome == "oom",
    };
    Write::AttemptEnded {
        id: Job::trial(number).attempt(attempt),
        end,
    }
}

fn start_of(number: u64) -> Vec<Write> {
    let choices = vec![Value::from("a,\"b\""), Value::Null];
    let lr = Domain::Float {
        low: 1e-5,
        high: 0.1,
        log: true,
        step: None,
    };
    let mut params: Params = [("optim.lr".to_owned(), Value::Float(0.000_123_456_789))].into();
    if number > 0 {
        let choice = choices[number as usize - 1].clone();
        params.insert("model.name".to_owned(), choice);
    }
    let domain = Domain::Categorical { choices };
    vec![
        Write::TrialCreated {
            number,
            last: u64::MAX,
            since: number,
            study_seed: None,
            params,
            distributions: [
                ("optim.lr".to_owned(), lr),
                ("model.name".to_owned(), domain),
            ]
            .into(),
            user_attrs: object(json!({"seed": 7})),
            system_attrs: object(json!({"sampler": "spread"})),
        },
        attempt(number, 0),
    ]
}

fn end_of(number: u64) -> Vec<Write> {
    let (state, values) = match number {
        0 => (TrialState::Complete, vec![0.5]),
        1 => (TrialState::Complete, vec![0.75]),
        _ => (TrialState::Fail, vec![]),
    };
    let last = u32::from(number == 0);
    let mut writes = Vec::new();
    if number == 0 {
        writes.extend([ended(0, 0, "oom"), attempt(0, 1)]);
    }
    writes.extend([
        Write::Reported {
            number,
            step: 1,
            value: f64::NAN,
        },
        ended(
            number,
            last,
            if number == 2 { "panic" } else { "completed" },
        ),
        Write::TrialFinished {
            number,
            state,
            values,
            user_attrs: object(json!({"metric.loss": "Infinity", "fault": "oom"})),
            system_attrs: Map::new(),
        },
    ]);
    writes
}

fn context() -> Context {
    Context {
        now: "2026-11-21T04:00:00Z".parse().unwrap(),
        owner: None,
        suspended: false,
        spooled: supervisor::spool::Waiting::default(),
        tune: "tune".into(),
    }
}

fn validate(schema: &str, instance: &Json) -> Result<(), String> {
    let schema: Json = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    validator.validate(instance).map_err(|e| e.to_string())
}

#[test]
fn a_trial_in_the_list_is_what_it_is_alone() {
    let (_dir, example) = example();
    let dir = tempfile::tempdir().unwrap();
    let mut own = own(&dir.path().join("tune.db"), 0.5);
    let study = own.studies().unwrap().remove(0);
    let run = own.runs(study.study_id).unwrap()[0].run_id;
    // What Python and JSON write differently, and what must not break a line.
    let odd = json!({
        "nan": [1, "NaN", {"deep": "-Infinity"}], "text": "é \u{1f600} \"quoted\"\n\\u0041", "none": null,
    });
    let user_attrs = object(odd.clone());
    let note = Write::TrialNoted {
        number: 1,
        user_attrs,
    };
    own.apply(study.study_id, run, &[note]).unwrap();
    for (store, name) in [(&example, "s1"), (&example, "mo"), (&own, "criteria")] {
        let study = store.find_study(name).unwrap().unwrap();
        let attempts = store.all_attempts(study.study_id).unwrap();
        let trials = store.trials(study.study_id).unwrap();
        let alone = trials.iter().map(|trial| {
            let own = attempts.get(&trial.number).map_or(&[][..], Vec::as_slice);
            json!(trials::TrialJson::new(
                trial,
                own,
                &std::collections::BTreeMap::new()
            ))
        });
        let text = trials_json(store, &choose(store, Some(name)).unwrap(), &everything()).unwrap();
        let json: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(json, Json::Array(alone.collect()), "{name}");
        assert_eq!(text.lines().count(), trials.len() + 2, "one line each");
    }
    let text = trials_json(&own, &choose(&own, None).unwrap(), &everything()).unwrap();
    let json: Json = serde_json::from_str(&text).unwrap();
    assert_eq!(json[1]["attrs"]["text"], odd["text"]);
    assert_eq!(json[1]["attrs"]["nan"], odd["nan"]);
}

#[test]
fn trials_as_json_obey_their_schema() {
    let (_dir, store) = example();
    for study in ["s1", "mo"] {
        let text =
            trials_json(&store, &choose(&store, Some(study)).unwrap(), &everything()).unwrap();
        let json: Json = serde_json::from_str(&text).unwrap();
        validate(TRIALS, &json).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let store = own(&dir.path().join("tune.db"), 0.5);
    let json: Json = serde_json::from_str(
        &trials_json(&store, &choose(&store, None).unwrap(), &everything()).unwrap(),
    )
    .unwrap();
    validate(TRIALS, &json).unwrap();
    assert_eq!(json[0]["attempts"][0]["outcome"], json!("oom"));
    assert_eq!(json[0]["attempts"][1]["log"], json!("logs/0.1.log"));
    assert_eq!(json[0]["intermediate"], json!({"1": "NaN"}));
    assert_eq!(json[0]["value"], json!(0.5));
    assert_eq!(json[2]["value"], Json::Null);
    assert_eq!(
        json[0]["datetime_start"],
        json!("2026-11-21T03:03:00.000000Z")
    );
    for (pointer, wrong) in [
        ("/0/state", json!("OOM")),
        ("/0/value", json!("nan")),
        ("/0/attempts", json!(1)),
        ("/0/datetime_start", json!("2026-11-21 03:00:00")),
    ] {
        let mut changed = json.clone();
        *changed.pointer_mut(pointer).unwrap() = wrong;
        assert!(validate(TRIALS, &changed).is_err(), "{pointer}");
    }
}

fn selection() -> Selected {
    let leader = |number, value| Leader {
        number,
        value,
        params: Params::new(),
    };
    let outcomes = [
        ((0, 1), Some(0.5)),
        ((0, 2), Some(0.75)),
        ((1, 1), None),
        ((1, 2), None),
    ];
    let leaders = [leader(0, 0.25), leader(1, 0.5)];
    match selection::next(&leaders, &outcomes.into(), 2, Direction::Minimize) {
        Next::Done(selection) => Selected::new(selection, 3),
        Next::Run(jobs) => panic!("{jobs:?}"),
    }
}

#[test]
fn csv_has_a_column_a_parameter_and_survives_commas_and_quotes() {
    let dir = tempfile::tempdir().unwrap();
    let store = own(&dir.path().join("tune.db"), 0.5);
    let text = trials_csv(&store, &choose(&store, None).unwrap(), &everything()).unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let heading: Vec<&str> = reader.headers().unwrap().iter().collect();
    assert_eq!(
        heading.join(" "),
        "number state value datetime_start datetime_complete params.model.name params.optim.lr attrs"
    );
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let cells = |i: usize| [&rows[i][1], &rows[i][2], &rows[i][5], &rows[i][6]];
    assert_eq!(cells(0), ["COMPLETE", "0.5", "", "0.000123456789"]);
    assert_eq!(cells(1), ["COMPLETE", "0.75", "a,\"b\"", "0.000123456789"]);
    assert_eq!(cells(2), ["FAIL", "", "null", "0.000123456789"]);
    let attrs: Json = serde_json::from_str(&rows[0][7]).unwrap();
    assert_eq!(
        attrs,
        json!({"seed": 7, "metric.loss": "Infinity", "fault": "oom"})
    );
}

#[test]
fn the_table_has_a_line_a_trial_and_the_columns_that_fit() {
    let dir = tempfile::tempdir().unwrap();
    let store = own(&dir.path().join("tune.db"), 0.5);
    let text =
        |width| trials_table(&store, &choose(&store, None).unwrap(), &everything(), width).unwrap();
    assert_eq!(
        text(Width::Any),
        "trial  state     value  time        attempts  name         lr  reason\n    \
         0  COMPLETE    0.5  1 min 30 s         2         1.235e-4\n    \
         1  COMPLETE   0.75  1 min 30 s         1  a,\"b\"  1.235e-4\n    \
         2  FAIL             1 min 30 s         1  null   1.235e-4  oom\n"
    );
    assert_eq!(
        text(Width::Of(60)),
        "trial  state     value  time        attempts  name   reason\n    \
         0  COMPLETE    0.5  1 min 30 s         2\n    \
         1  COMPLETE   0.75  1 min 30 s         1  a,\"b\"\n    \
         2  FAIL             1 min 30 s         1  null   oom\n\
         +1 more column (--columns all)\n"
    );
}

fn everything() -> Selection {
    Selection::default()
}

#[test]
fn the_status_names_what_people_ask_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = own(&dir.path().join("tune.db"), 0.6);
    let of = |context: &Context| status(&store, choose(&store, None).unwrap(), context).unwrap();
    assert_eq!(
        of(&context()).text(),
        "study          criteria: maximize value\n\
         state          stopped at 2026-11-21 03:12:00 UTC; the same command goes on\n\
         trials         2 of 300 finished (2 complete); 1 failed\n\
         best           value 0.75 (trial 1)\n\
         baseline       0.6 (always class 0)\n\
         failed         oom (trial 2): no message was recorded\n\
         faults         oom 1, panic 1\n\
         last activity  2026-11-21 03:12:00 UTC (48 min 00 s ago)\n"
    );
    let json = json!(of(&context()));
    assert_eq!(json["counts"]["complete"], json!(2));
    assert_eq!(json["best"]["number"], json!(1));
    assert_eq!(json["faults"], json!({"oom": 1, "panic": 1}));
    assert_eq!(json["state"], json!("stopped"));
    assert_eq!(json["failures"][0]["fault"], json!("oom"));
    assert_eq!(json["failures"][0]["trials"], json!([2]));
    assert_eq!(json["holder"]["live"], json!(false));
    assert_eq!(
        (&json["goal"], &json["last_exit"]),
        (&json!(300), &json!(4))
    );
}

#[test]
fn the_best_trial_stands_beside_the_baseline_and_warns_below_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = own(&dir.path().join("tune.db"), 0.75);
    let text = best(&store, None).unwrap().text();
    assert!(text.contains("value       0.75\n"), "{text}");
    assert!(
        text.ends_with("\nwarning: no trial beats the baseline; always class 0 scores 0.75\n"),
        "{text}"
    );
    let json = json!(best(&store, None).unwrap());
    assert_eq!(json["beats_baseline"], json!(false));
    let dir = tempfile::tempdir().unwrap();
    let store = own(&dir.path().join("tune.db"), 0.7);
    assert!(!best(&store, None).unwrap().text().contains("warning"));
    let json = json!(best(&store, None).unwrap());
    assert_eq!(json["beats_baseline"], json!(true));
    assert_eq!(
        json["baseline"],
        json!({"value": 0.7, "what": "always class 0"})
    );
}

#[test]
fn a_trial_is_shown_with_attempts_and_logs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tune.db");
    let store = own(&path, 0.5);
    let text = show(&store, Some("criteria"), 0).unwrap().text();
    for part in [
        "state    COMPLETE",
        "took     1 min 30 s",
        "1.235e-4  1e-5 to 0.1, log",
        "attempt 0\n  outcome  oom, then again",
        "CUDA out of memory\n",
        "attempt 1",
        "reports\n  1  NaN",
        "system attributes\n  sampler  spread",
        &format!("{}.d/logs/0.1.log", path.display()),
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    assert!(!text.contains('\u{1b}'));
    let json = json!(show(&store, Some("criteria"), 1).unwrap());
    assert_eq!(
        json["distributions"]["model.name"],
        json!("one of a,\"b\", null")
    );
    let failure = show(&store, Some("criteria"), 9).err().unwrap();
    assert_eq!(failure.exit, Exit::BadInput);
    assert!(
        failure.message.contains("its trials are 0 to 2"),
        "{failure}"
    );
}

#[test]
fn without_a_name_the_study_with_the_latest_activity_is_meant() {
    let (_dir, store) = example();
    assert_eq!(choose(&store, None).unwrap().name, "s1");
    let failure = show(&store, Some("s11"), 0).err().unwrap();
    assert_eq!(failure.exit, Exit::BadInput);
    let part = "called \"s11\" (did you mean s1?); it holds: s1, mo";
    assert!(failure.message.contains(part), "{failure}");
    let front = best(&store, Some("mo")).unwrap().text();
    assert!(front.contains("minimize value 0"), "{front}");
    assert!(
        best(&store, Some("s1"))
            .unwrap()
            .text()
            .contains("-Infinity")
    );
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("tune.db")).unwrap();
    assert!(
        best(&store, None)
            .err()
            .unwrap()
            .message
            .contains("no study yet")
    );
}

#[test]
fn tasks_and_studies_are_listed() {
    let (_dir, store) = example();
    let tasks = [TaskLine {
        name: "criteria".to_owned(),
        what: "text-classification, macro_f1".to_owned(),
        file: "/p/configs/criteria.toml".into(),
    }];
    assert_eq!(
        list(tasks.to_vec(), Some(&store)).unwrap().text(),
        "task      what\ncriteria  text-classification, macro_f1\n\n\
         study  objective                           trials  complete  pruned  failed  last activity\n\
         s1     minimize value                          12         6       1       3  2026-11-21 01:34:01 UTC\n\
         mo     minimize value 0, maximize value 1       2         2       0       0  2026-11-21 01:33:58 UTC\n"
    );
    assert_eq!(
        super::tasks(tasks.to_vec()).text(),
        "task      what                           file\n\
         criteria  text-classification, macro_f1  /p/configs/criteria.toml\n"
    );
    assert!(
        list(vec![], None)
            .unwrap()
            .text()
            .contains("no studies yet")
    );
    let json = json!(list(tasks.to_vec(), Some(&store)).unwrap());
    assert_eq!(json["studies"][1]["counts"]["complete"], json!(2));
}

#[test]
fn the_winner_by_repeats_is_the_best_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = own(&dir.path().join("tune.db"), 0.5);
    let study = store.studies().unwrap().remove(0);
    let before = json!(best(&store, None).unwrap());
    assert_eq!(before["selection"], Json::Null);
    let number = before["best"]["number"].as_u64().unwrap();
    let run = store.runs(study.study_id).unwrap()[0].run_id;
    let mut chosen = json!(selection());
    chosen["winner"]["number"] = number.into();
    let test = json!({"number": number + 1, "metric": "loss", "value": 0.75, "looks": 2});
    let user_attrs = object(json!({"selection": chosen, "test": test}));
    let writes = [Write::StudyAttributes { user_attrs }];
    store.apply(study.study_id, run, &writes).unwrap();
    let json = json!(best(&store, None).unwrap());
    assert_eq!(json["best"]["number"], number);
    assert_eq!(json["selection"]["winner"]["mean"], 0.625);
    assert_eq!(json["test"]["value"], 0.75);
    let text = best(&store, None).unwrap().text();
    for part in [
        "winner by repeats: trial",
        "mean of 2 repeats",
        "optimistic by 0.375",
        "2 repeats failed for good and count as missing",
        "test split: trial",
        "has been used for 2 trials",
        "wins now and has no test value",
    ] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
}
