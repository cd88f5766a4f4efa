//! Sessions at random.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Odd, but legal.
fn odd_space() -> impl Strategy<Value = Json> {
    let bound = prop::sample::select(vec![
        -1e300, -1e150, -1.0, -1e-300, -5e-324, 0.0, 5e-324, 1e-310, 1e-9, 0.1, 1.0, 1e16, 1e300,
    ]);
    let float = (bound.clone(), bound, any::<bool>(), 0u32..4).prop_map(|(a, b, log, steps)| {
        let (low, high) = (f64::min(a, b), f64::max(a, b));
        let log = log && low > 0.0;
        let step = (high - low) / f64::from(steps);
        let step = (!log && step > 0.0 && step.is_finite()).then_some(step);
        json!({"type": "float", "low": low, "high": high, "log": log, "step": step})
    });
    let most = 1i64 << 53;
    let bound = prop::sample::select(vec![-most, 1 - most, -1, 0, 1, 2, 1000, most - 1, most]);
    let step = prop::sample::select(vec![1, 2, 7, most]);
    let int = (bound.clone(), bound, any::<bool>(), step).prop_map(|(a, b, log, step)| {
        let (low, high) = (a.min(b), a.max(b));
        let log = log && low > 0;
        let step = if log { 1 } else { step };
        json!({"type": "int", "low": low, "high": high, "log": log, "step": step})
    });
    let cat =
        (1usize..40).prop_map(|n| json!({"type": "cat", "choices": (0..n).collect::<Vec<_>>()}));
    prop::collection::vec(prop_oneof![float, int, cat], 1..4).prop_map(|entries| {
        let named = entries.into_iter().enumerate();
        named
            .map(|(i, e)| with(e, json!({"name": format!("p{i}")})))
            .collect()
    })
}

fn lies_within(entry: &Json, value: &Json) -> bool {
    match entry["type"].as_str().unwrap() {
        "float" => {
            let x = value.as_f64().filter(|_| value.is_f64()).unwrap();
            x >= entry["low"].as_f64().unwrap() && x <= entry["high"].as_f64().unwrap()
        }
        "int" => {
            let i = value.as_i64().unwrap();
            let (low, step) = (
                entry["low"].as_i64().unwrap(),
                entry["step"].as_i64().unwrap(),
            );
            i >= low && i <= entry["high"].as_i64().unwrap() && (i - low) % step == 0
        }
        _ => entry["choices"].as_array().unwrap().contains(value),
    }
}

/// Lines of every kind: good requests, requests with one field too odd, and junk.
fn any_line() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        (-1i64..12).prop_map(|i| i.to_string()),
        any::<i64>().prop_map(|i| i.to_string()),
        any::<f64>().prop_map(|x| format!("{x:e}")),
        prop::sample::select(vec![
            "null",
            "true",
            "\"x\"",
            "NaN",
            "-Infinity",
            "1e400",
            "[]",
            "{}"
        ])
        .prop_map(str::to_owned),
    ];
    let small = prop_oneof![4 => (0i64..6).prop_map(|i| i.to_string()), 1 => number.clone()];
    let state = prop::sample::select(vec!["\"ok\"", "\"pruned\"", "\"failed\"", "\"x\"", "null"]);
    let started = prop::sample::select(vec![
        init(space()).to_string(),
        with(
            init(space()),
            json!({"max_step": 4, "direction": "maximize"}),
        )
        .to_string(),
        with(init(json!([])), json!({"max_step": 4})).to_string(),
        with(init(space()), json!({"storage": "x"})).to_string(),
        init(json!([{}])).to_string(),
    ]);
    prop_oneof![
        1 => started,
        6 => Just(r#"{"op":"ask"}"#.to_owned()),
        2 => (number.clone(), small.clone()).prop_map(|(lr, layers)| {
            let params = format!(r#"{{"lr":{lr},"layers":{layers},"act":"relu"}}"#);
            format!(r#"{{"op":"add","params":{params}}}"#)
        }),
        4 => (small.clone(), small.clone(), number.clone()).prop_map(|(id, step, value)| {
            format!(r#"{{"op":"report","id":{id},"step":{step},"value":{value}}}"#)
        }),
        4 => (small, number, state).prop_map(|(id, value, state)| {
            format!(r#"{{"op":"tell","id":{id},"value":{value},"state":{state}}}"#)
        }),
        1 => "[\\[\\]{}:,\"\\\\a-eNI0-9 -]{0,40}",
        1 => "\\PC{0,20}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn odd_ranges_are_kept_and_replies_are_plain_json(space in odd_space(), seed: u64) {
        let asked = json!({"seed": seed, "sampler": {"kind": "tpe", "n_startup_trials": 3}});
        let request = with(init(space.clone()), asked);
        let mut session = session();
        let reply = call(&mut session, request);
        if reply.get("error").is_some() {
            // Too wide, or too fine a grid: said so.
            return Ok(());
        }
        for id in 0..30 {
            let reply = line(&mut session, r#"{"op":"ask"}"#);
            let ask: Json = serde_json::from_str(&reply).unwrap();
            for entry in space.as_array().unwrap() {
                let value = &ask["params"][entry["name"].as_str().unwrap()];
                prop_assert!(lies_within(entry, value), "{} {}", entry, value);
            }
            let tell = json!({"op": "tell", "id": id, "value": id * 7919 % 13, "state": "ok"});
            call(&mut session, tell);
        }
    }

    #[test]
    fn every_line_that_is_not_blank_gets_one_reply(
        lines in prop::collection::vec(any_line(), 0..60)
    ) {
        let mut session = session();
        for text in &lines {
            match session.handle(text.as_bytes()) {
                Reply::Line(reply) => {
                    prop_assert!(!reply.contains('\n'));
                    let json: Json = serde_json::from_str(&reply).unwrap();
                    let object = json.as_object().unwrap();
                    let kinds = ["ok", "id", "prune", "error"];
                    prop_assert!(kinds.iter().any(|k| object.contains_key(*k)), "{}", reply);
                }
                Reply::Nothing => prop_assert!(text.trim().is_empty(), "{:?}", text),
                Reply::Closed => prop_assert!(false, "{:?}", text),
            }
        }
    }
}
