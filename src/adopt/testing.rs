//! Trials and spaces for the tests of this module.

use super::TaskRequirements;
use search::space::{Condition, Domain, Parameter, Space, Value};
use search::study::{Direction, FrozenTrial, TrialState};

/// The domain that values of tests come from.
fn drawn_from(value: &Value) -> Domain {
    match value {
        Value::Float(_) => float(-1e9, 1e9),
        Value::Int(_) => int(-1000, 1000),
        Value::Null | Value::Bool(_) | Value::Str(_) => Domain::Categorical {
            choices: vec!["other".into(), value.clone()],
        },
    }
}

pub fn float(low: f64, high: f64) -> Domain {
    Domain::Float {
        low,
        high,
        log: false,
        step: None,
    }
}

pub fn int(low: i64, high: i64) -> Domain {
    Domain::Int {
        low,
        high,
        log: false,
        step: 1,
    }
}

pub fn choices(words: &[&str]) -> Domain {
    Domain::Categorical {
        choices: words.iter().map(|w| Value::from(*w)).collect(),
    }
}

pub fn trial(
    number: u64,
    state: TrialState,
    value: Option<f64>,
    params: &[(&str, Value)],
) -> FrozenTrial {
    let name = |k: &&str| (*k).to_owned();
    let point = params.iter().map(|(k, v)| (name(k), v.clone())).collect();
    FrozenTrial {
        trial_id: number as i64 + 1,
        distributions: params
            .iter()
            .map(|(k, v)| (name(k), drawn_from(v)))
            .collect(),
        values: value.into_iter().collect(),
        datetime_start: Some("2026-01-02 03:04:05.000000".to_owned()),
        ..FrozenTrial::new(number, state, point)
    }
}

/// `lr` 0 to 1, `layers` 1 to 8, `name` of adam and sgd, `momentum` 0 to 1 with sgd; `epochs` is 9
/// and `width` 64.
pub fn space() -> Space {
    let mut momentum = Parameter::new("momentum", float(0.0, 1.0));
    momentum.when = vec![Condition {
        parent: "name".to_owned(),
        values: vec!["sgd".into()],
    }];
    Space {
        parameters: vec![
            Parameter::new("lr", float(0.0, 1.0)),
            Parameter::new("layers", int(1, 8)),
            Parameter::new("name", choices(&["adam", "sgd"])),
            momentum,
        ],
        constraints: Vec::new(),
        fixed: [("epochs", 9), ("width", 64)]
            .map(|(k, v)| (k.to_owned(), Value::Int(v)))
            .into(),
    }
}

/// An accuracy to be maximised in [`space`].
pub fn asked(space: &Space) -> TaskRequirements<'_> {
    TaskRequirements {
        space,
        read: ["lr", "layers", "name", "momentum", "epochs", "width"]
            .map(str::to_owned)
            .into(),
        range: Some((0.0, 1.0)),
        direction: Direction::Maximize,
        baseline: None,
        seed: 0,
    }
}
