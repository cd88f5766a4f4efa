//! The study that Optuna 5.0.0 itself has written.

use super::*;
use search::study::FrozenTrial;

const EXAMPLE: &str = include_str!("../../../tests/data/optuna-example.sql");

fn example() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("optuna.db");
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch(EXAMPLE).unwrap();
    drop(conn);
    let store = Store::open(&path).unwrap();
    (dir, store)
}

fn trials(store: &Store, name: &str) -> Vec<FrozenTrial> {
    let study = store.find_study(name).unwrap().unwrap();
    store.trials(study.study_id).unwrap()
}

#[test]
fn studies_are_listed_with_directions_counts_and_attributes() {
    let (_dir, store) = example();
    let studies = store.studies().unwrap();
    assert_eq!(studies[0].name, "s1");
    assert_eq!(studies[0].directions, [Direction::Minimize]);
    let counts = studies[0].counts;
    assert_eq!(
        (
            counts.complete,
            counts.pruned,
            counts.fail,
            counts.running,
            counts.waiting
        ),
        (6, 1, 3, 1, 1)
    );
    assert_eq!(counts.total(), 12);
    assert_eq!(
        studies[0].user_attrs["note"],
        json!({"a": [1, 2.5, null, true, "é"], "nan": "NaN", "inf": "Infinity"})
    );
    assert_eq!(
        studies[0].last_activity.as_deref(),
        Some("2026-11-21 01:34:01.676601")
    );
    assert_eq!(
        studies[1].directions,
        [Direction::Minimize, Direction::Maximize]
    );
    assert_eq!(store.identity(studies[0].study_id).unwrap(), None);
}

#[test]
fn every_state_and_value_is_read() {
    let (_dir, store) = example();
    let trials = trials(&store, "s1");
    let words: Vec<String> = trials.iter().map(|t| t.state.to_string()).collect();
    let expected = "COMPLETE COMPLETE PRUNED FAIL COMPLETE FAIL COMPLETE COMPLETE RUNNING FAIL \
                    COMPLETE WAITING";
    assert_eq!(words.join(" "), expected);
    let numbers: Vec<u64> = trials.iter().map(|t| t.number).collect();
    assert_eq!(numbers, (0..12).collect::<Vec<_>>());
    let values: Vec<Option<f64>> = trials.iter().map(FrozenTrial::value).collect();
    assert_eq!(values[0], Some(0.001_567_667_719_550_606_8));
    assert_eq!(values[2], None);
    assert_eq!(values[4], Some(f64::INFINITY));
    assert_eq!(values[10], Some(f64::NEG_INFINITY));
    assert!(trials[2].intermediate.values().all(|v| v.is_nan()));
    assert_eq!(trials[3].intermediate, [(0, f64::INFINITY)].into());
    assert_eq!(trials[4].intermediate[&3], f64::NEG_INFINITY);
    assert_eq!(trials[9].intermediate, [(1, 3.25)].into());
    assert_eq!(trials[8].datetime_complete, None);
    assert_eq!(trials[11].datetime_start, None);
}

#[test]
fn every_kind_of_parameter_is_read() {
    let (_dir, store) = example();
    let trials = trials(&store, "s1");
    let first = &trials[0];
    assert_eq!(
        first.params["lr"],
        Value::Float(0.001_567_667_719_550_606_8)
    );
    assert_eq!(first.params["mom"], Value::Float(0.8));
    assert!(matches!(first.params["layers"], Value::Int(5)));
    assert!(matches!(first.params["opt"], Value::Null));
    assert!(matches!(trials[9].params["opt"], Value::Int(3)));
    assert!(matches!(trials[4].params["opt"], Value::Float(x) if x == 0.5));
    assert_eq!(
        first.distributions["mom"],
        Domain::Float {
            low: 0.5,
            high: 0.99,
            log: false,
            step: Some(0.01)
        }
    );
    assert_eq!(
        first.distributions["batch"],
        Domain::Int {
            low: 16,
            high: 512,
            log: true,
            step: 1
        }
    );
    assert_eq!(trials[11].params, trials[9].params);
}

#[test]
fn attributes_and_enqueued_parameters_are_read() {
    let (_dir, store) = example();
    let trials = trials(&store, "s1");
    assert_eq!(trials[7].user_attrs, attrs(json!({"memo": "seed"})));
    assert_eq!(
        trials[7].fixed_params(),
        [
            ("lr".to_owned(), Value::Float(0.01)),
            ("layers".to_owned(), Value::Int(3))
        ]
        .into()
    );
    assert_eq!(
        trials[0].system_attrs,
        attrs(json!({"constraints:mem": -1.5}))
    );
    assert_eq!(trials[11].system_attrs["retry_history"], json!([9]));
}

#[test]
fn two_objectives_are_read_in_order() {
    let (_dir, store) = example();
    let trials = trials(&store, "mo");
    assert_eq!(trials[1].values, [0.885_419_403_780_697_4, 2.0]);
}

#[test]
fn the_study_is_continued() {
    let (_dir, mut store) = example();
    let study = store.find_study("s1").unwrap().unwrap().study_id;
    let run = store.begin_run(study, &run_record()).unwrap();
    let claim = Write::TrialClaimed {
        number: 11,
        params: [("lr".to_owned(), Value::Float(0.03))].into(),
        distributions: [("lr".to_owned(), lr())].into(),
        user_attrs: Map::new(),
    };
    let batch = [claim, started(11, 0), created(12), started(12, 0)];
    assert_eq!(store.apply(study, run, &batch).unwrap(), Written::Done);
    let trials = store.trials(study).unwrap();
    assert_eq!(
        trials[11].params,
        [("lr".to_owned(), Value::Float(0.03))].into()
    );
    assert_eq!(trials[12].number, 12);
    let reclaimable = store.reclaimable(study, run).unwrap();
    assert_eq!(
        reclaimable.iter().map(|r| r.number).collect::<Vec<_>>(),
        [11, 12]
    );
}
