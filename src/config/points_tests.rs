//! Points that people give, against a space with conditions, bounds and a constraint.

use super::*;
use search::space::{Condition, Constraint, HighWhen};

fn is(parent: &str, value: &str) -> Condition {
    Condition {
        parent: parent.into(),
        values: vec![value.into()],
    }
}

fn space() -> Space {
    let choices = |all: Vec<Value>| Domain::Categorical { choices: all };
    let int = |low, high, step| Domain::Int {
        low,
        high,
        log: false,
        step,
    };
    let mut length = Parameter::new("tok.max_length", int(64, 512, 32));
    length.high_when = vec![HighWhen {
        when: vec![is("model.name", "large")],
        high: 384.0,
    }];
    let mut momentum = Parameter::new(
        "optim.momentum",
        Domain::Float {
            low: 0.0,
            high: 0.9,
            log: false,
            step: None,
        },
    );
    momentum.when = vec![is("optim.name", "sgd")];
    Space {
        parameters: vec![
            Parameter::new("model.name", choices(vec!["small".into(), "large".into()])),
            Parameter::new("optim.name", choices(vec!["adam".into(), "sgd".into()])),
            Parameter::new("batch", choices(vec![Value::Int(8), Value::Int(16)])),
            Parameter::new(
                "layers",
                choices(vec!["16".into(), "true".into(), Value::Null]),
            ),
            length,
            momentum,
        ],
        constraints: vec![Constraint {
            expr: "batch * train.accum <= 32".parse().unwrap(),
            when: vec![],
        }],
        fixed: [("train.accum".to_owned(), Value::Int(4))].into(),
    }
}

fn words(text: &str) -> Result<Params, String> {
    let split = |word: &str| {
        let (name, value) = word.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    let words: Vec<(String, String)> = text.split_whitespace().map(split).collect();
    let mut problems = Vec::new();
    let given = point_of_words(&words, &mut problems);
    let checked = check_points(&space(), &[given], problems);
    checked.map(|mut p| p.remove(0)).map_err(|p| p.to_string())
}

fn lines(text: &str) -> Result<Vec<Params>, String> {
    let mut problems = Vec::new();
    let given = points_of_lines(text, Path::new("p.jsonl"), &mut problems);
    check_points(&space(), &given, problems).map_err(|p| p.to_string())
}

#[test]
fn a_part_of_a_point_is_enough_and_values_take_their_domains_types() {
    let point = words("batch=8 tok.max_length=96").unwrap();
    assert!(matches!(point["batch"], Value::Int(8)));
    assert!(matches!(point["tok.max_length"], Value::Int(96)));
    let point = words("optim.name=sgd optim.momentum=0").unwrap();
    assert!(matches!(point["optim.momentum"], Value::Float(0.0)));
    assert_eq!(point.len(), 2);
    let points =
        lines("{\"batch\": 8.0}\n\n{\"layers\": null, \"model.name\": \"small\"}\n").unwrap();
    assert!(matches!(points[0]["batch"], Value::Int(8)));
    assert!(matches!(points[1]["layers"], Value::Null));
}

#[test]
fn a_typed_word_may_be_a_string_that_reads_like_another_type_and_json_says_what_it_means() {
    for (text, value) in [
        ("layers=16", Value::from("16")),
        ("layers=\"16\"", "16".into()),
        ("layers=true", "true".into()),
        ("layers=null", Value::Null),
    ] {
        assert_eq!(words(text).unwrap()["layers"], value, "{text}");
    }
    assert_eq!(
        lines("{\"layers\": \"16\"}").unwrap()[0]["layers"],
        "16".into()
    );
    let error = lines("{\"layers\": 16}").unwrap_err();
    assert_eq!(
        error,
        "p.jsonl:1: layers: found 16 (integer), expected one of \"16\", \"true\", null"
    );
    let error = words("batch=\"8\"").unwrap_err();
    assert_eq!(
        error,
        "batch=\"8\": batch: found \"8\", expected one of 8, 16"
    );
}

#[test]
fn every_problem_of_every_point_is_told_with_its_line_and_key() {
    let text = "{\"batch\": 9}\n{\"btch\": 8, \"tok.max_length\": 100}\nnonsense\n[1]\n{}\n\
                {\"train.accum\": 2}\n{\"batch\": [8]}\n{\"model.name\": \"small\"}";
    let error = lines(text).unwrap_err();
    let expected = [
        "p.jsonl:1: batch: found 9 (integer), expected one of 8, 16",
        "p.jsonl:2: btch: found a parameter that the study does not search",
        "(did you mean batch?)",
        "p.jsonl:2: tok.max_length: found 100 (integer), expected an integer in 64..512 step 32",
        "p.jsonl:3: found no JSON (",
        "p.jsonl:4: found [1], expected a JSON object",
        "p.jsonl:5: found a point without any value",
        "p.jsonl:6: train.accum: found a value for a key that the study fixes at 4",
        "p.jsonl:7: batch: found [8], expected a number",
    ];
    for part in expected {
        assert!(error.contains(part), "{part:?} is missing in\n{error}");
    }
    assert!(!error.contains("p.jsonl:8"), "{error}");
    assert_eq!(error.lines().next(), Some("8 problems:"), "{error}");
    let error = words("batch=8 batch=16").unwrap_err();
    assert!(
        error.contains("batch=16: batch: found it a second time"),
        "{error}"
    );
}

#[test]
fn a_parameter_that_its_parent_rules_out_is_refused() {
    let error = words("optim.momentum=0.5 optim.name=adam").unwrap_err();
    assert_eq!(
        error,
        "optim.momentum=0.5: optim.momentum: found it beside optim.name = adam, \
         expected it only beside optim.name = sgd"
    );
    let error = words("optim.momentum=0.5").unwrap_err();
    assert!(error.contains("found it without optim.name"), "{error}");
    let error = words("tok.max_length=512 model.name=large").unwrap_err();
    assert!(
        error.ends_with("expected an integer in 64..384 step 32 beside model.name = large"),
        "{error}"
    );
    assert!(words("tok.max_length=512 model.name=small").is_ok());
    assert!(words("tok.max_length=512").is_ok());
}

#[test]
fn a_constraint_is_checked_as_far_as_the_point_says() {
    let error = lines("{\"model.name\": \"small\"}\n{\"batch\": 16}\n").unwrap_err();
    assert_eq!(
        error,
        "p.jsonl:2: constraints: found batch = 16, train.accum = 4, \
         expected batch * train.accum <= 32"
    );
}

/// A trial whose only parameter was drawn from this.
fn drawn(name: &str, domain: Domain) -> FrozenTrial {
    let mut trial = search::study::carry::waiting(&Params::new(), serde_json::Map::new());
    trial.distributions = [(name.to_owned(), domain)].into();
    trial
}

#[test]
fn the_space_of_trials_is_the_widest_that_they_show() {
    let float = |low, high| Domain::Float {
        low,
        high,
        log: true,
        step: None,
    };
    let space = space_of_trials(&[
        drawn("lr", float(1e-4, 0.1)),
        drawn("lr", float(1e-5, 0.01)),
    ]);
    assert_eq!(space.parameters, [Parameter::new("lr", float(1e-5, 0.1))]);
}

#[test]
fn a_point_that_a_trial_could_have_had_is_taken_whatever_grid_others_were_drawn_from() {
    let grid = |low, high, step| Domain::Int {
        low,
        high,
        log: false,
        step,
    };
    let space = space_of_trials(&[
        drawn("batch", grid(0, 10, 5)),
        drawn("batch", grid(3, 9, 2)),
    ]);
    for (value, taken) in [(5, true), (3, true), (9, true), (10, true), (11, false)] {
        let words = [("batch".to_owned(), value.to_string())];
        let given = point_of_words(&words, &mut Vec::new());
        let checked = check_points(&space, &[given], Vec::new());
        assert_eq!(checked.is_ok(), taken, "{value}: {checked:?}");
    }
}
