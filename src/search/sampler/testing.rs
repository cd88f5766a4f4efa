//! Spaces and histories for the tests of samplers.

use super::random;
use crate::space::{Condition, Constraint, Domain, HighWhen, Parameter, Params, Space, Value};
use crate::study::{self, Direction, FrozenTrial, History, TrialState};

pub fn parameter(name: &str, domain: Domain) -> Parameter {
    Parameter::new(name, domain)
}

pub fn float(low: f64, high: f64) -> Domain {
    Domain::float(low, high)
}

pub fn log_float(low: f64, high: f64) -> Domain {
    Domain::log_float(low, high)
}

pub fn int(low: i64, high: i64, log: bool, step: i64) -> Domain {
    Domain::Int {
        low,
        high,
        log,
        step,
    }
}

pub fn categorical(choices: &[Value]) -> Domain {
    Domain::Categorical {
        choices: choices.to_vec(),
    }
}

pub fn when(parent: &str, values: &[&str]) -> Condition {
    Condition {
        parent: parent.into(),
        values: values.iter().map(|&v| v.into()).collect(),
    }
}

/// Every kind of domain, single-valued ones and choices of every type included.
pub fn mixed_space() -> Space {
    let step = Domain::Float {
        low: 0.5,
        high: 0.99,
        log: false,
        step: Some(0.01),
    };
    Space {
        parameters: vec![
            parameter("lr", log_float(1e-5, 0.1)),
            parameter("dropout", float(0.0, 0.6)),
            parameter("twin", float(0.0, 0.6)),
            parameter("momentum", step),
            parameter("layers", int(1, 8, false, 1)),
            parameter("width", int(64, 1024, false, 64)),
            parameter("batch", int(1, 512, true, 1)),
            parameter("offset", float(-3.0, 3.0)),
            parameter(
                "choice",
                categorical(&[
                    Value::Null,
                    true.into(),
                    3.into(),
                    0.5.into(),
                    "relu".into(),
                ]),
            ),
            parameter("one_float", float(0.25, 0.25)),
            parameter("one_int", int(7, 7, false, 1)),
            parameter("one_choice", categorical(&["only".into()])),
        ],
        ..Space::default()
    }
}

/// Nested conditions, a conditional bound and a constraint that cuts off a part.
pub fn conditional_space() -> Space {
    let models: Vec<Value> = ["small", "large", "tree"].map(Value::from).to_vec();
    let mut length = parameter("length", int(64, 512, false, 32));
    length.high_when = vec![HighWhen {
        when: vec![when("model", &["large", "tree"])],
        high: 384.0,
    }];
    let mut depth = parameter("depth", int(1, 16, true, 1));
    depth.when = vec![when("model", &["large", "tree"])];
    let mut booster = parameter("booster", categorical(&["gbtree".into(), "dart".into()]));
    booster.when = vec![when("model", &["tree", "large"])];
    let mut rate = parameter("rate", float(0.0, 1.0));
    rate.when = vec![when("booster", &["dart"])];
    let mut drop = parameter("drop", float(0.0, 1.0));
    drop.when = vec![when("booster", &["dart"])];
    Space {
        parameters: vec![
            parameter("model", categorical(&models)),
            length,
            parameter("lr", log_float(1e-5, 1e-1)),
            depth,
            booster,
            rate,
            drop,
        ],
        constraints: vec![Constraint {
            expr: "length * depth <= limit".parse().unwrap(),
            when: vec![when("model", &["large"])],
        }],
        fixed: [("limit".to_owned(), Value::Int(2048))].into(),
    }
}

pub fn trial(number: u64, state: TrialState, params: Params, value: Option<f64>) -> FrozenTrial {
    FrozenTrial {
        trial_id: number as i64 + 1,
        values: value.into_iter().collect(),
        ..FrozenTrial::new(number, state, params)
    }
}

/// `n` random COMPLETE trials; values are a function of the point.
pub fn random_history(space: &Space, n: u64, seed: u64) -> History {
    let mut history = History::new(vec![Direction::Minimize]);
    for number in 0..n {
        let params = random::draw(space, &mut study::rng(seed, number, "test")).unwrap();
        let code = space.encode(&params);
        let value = code.iter().filter(|c| !c.is_nan()).map(|c| c.sin()).sum();
        history.put(
            space,
            &trial(number, TrialState::Complete, params, Some(value)),
        );
    }
    history
}
