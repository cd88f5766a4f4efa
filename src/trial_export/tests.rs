//! Exports as their readers see them: values, times and hostile text.

#![allow(clippy::unwrap_used)]

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::RowAccessor;
use messages::testing::{HOSTILE, harmful_in};
use search::space::{Params, Value};
use search::study::{FrozenTrial, TrialState};
use serde_json::json;

use super::*;

fn trial(number: u64, params: &[(&str, Value)]) -> FrozenTrial {
    let params = params
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()));
    let mut trial = FrozenTrial::new(number, TrialState::Complete, params.collect::<Params>());
    trial.values = vec![0.5 + number as f64];
    trial.intermediate = [(1, 0.75), (2, 0.5)].into();
    trial.datetime_start = Some("2026-11-21 20:00:00.000000".to_owned());
    trial.datetime_complete = Some("2026-11-21 20:30:00.250000".to_owned());
    trial
}

fn study<'a>(trials: &'a [FrozenTrial], metrics: &'a [String]) -> Trials<'a> {
    Trials {
        study: "s",
        metrics,
        trials,
    }
}

#[test]
fn a_parameter_gets_the_narrowest_type_that_holds_all_its_values() {
    let trials = [
        trial(
            0,
            &[
                ("a", Value::Int(1)),
                ("b", Value::Int(1)),
                ("c", Value::Bool(true)),
                ("d", Value::Int(1)),
            ],
        ),
        trial(
            1,
            &[
                ("a", Value::Int(2)),
                ("b", Value::Float(0.5)),
                ("d", Value::from("x")),
            ],
        ),
    ];
    let metrics = ["loss".to_owned()];
    let file = parquet(&study(&trials, &metrics)).unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
    let rows: Vec<_> = reader
        .get_row_iter(None)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let names: Vec<String> = rows[0]
        .get_column_iter()
        .map(|(name, _)| name.clone())
        .collect();
    let expected = "number state value datetime_start datetime_complete params.a params.b params.c params.d attrs";
    assert_eq!(names.join(" "), expected);
    assert_eq!(rows[1].get_long(5).unwrap(), 2);
    assert_eq!(rows[0].get_double(6).unwrap(), 1.0);
    assert!(rows[0].get_bool(7).unwrap() && rows[1].get_bool(7).is_err());
    assert_eq!(rows[0].get_string(8).unwrap(), "1");
}

#[test]
fn hostile_texts_are_names_and_values_that_harm_nothing() {
    let hostile = HOSTILE.replace('\0', "");
    let long = "x".repeat(10_000);
    let names = [
        "../../etc/passwd",
        "..",
        "a/b",
        "a_b",
        hostile.as_str(),
        "<script>",
        "",
    ];
    let params: Vec<(&str, Value)> = names
        .iter()
        .map(|name| (*name, Value::from(long.as_str())))
        .collect();
    let mut one = trial(0, &params);
    one.user_attrs.insert(hostile.clone(), json!(hostile));
    one.user_attrs
        .insert(format!("metric.{hostile}"), json!("NaN"));
    let metrics = [hostile.clone()];
    let trials = [one];
    let study = Trials {
        study: &hostile,
        ..study(&trials, &metrics)
    };
    let dir = tempfile::tempdir().unwrap();
    mlflow(&study, &dir.path().join("m"), dir.path()).unwrap();
    tensorboard(&study, dir.path()).unwrap();
    parquet(&study).unwrap();
    let mut folders = vec![dir.path().to_owned()];
    let mut params = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.file_name().unwrap().to_str().unwrap();
            assert_eq!(harmful_in(name), Vec::<char>::new());
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            if !name.contains("tfevents") {
                assert_eq!(harmful_in(&text), Vec::<char>::new(), "{name}: {text:?}");
            }
            if path.parent().unwrap().ends_with("params") {
                assert_eq!(text.len(), 6000);
                params.push(name.to_owned());
            }
        }
    }
    assert_eq!(params.len(), names.len(), "no two in one file: {params:?}");
}

#[test]
fn the_names_of_values_do_not_hide_each_other() {
    let (one, two) = (["value".to_owned()], ["loss".to_owned(), "cost".to_owned()]);
    let trials = [];
    assert_eq!(study(&trials, &one).curve_name(), "intermediate");
    assert_eq!(study(&trials, &two).curve_name(), "loss");
    assert_eq!(study(&trials, &two).value_names(), ["values_0", "values_1"]);
}
