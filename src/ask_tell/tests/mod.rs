//! Sessions, request by request.

mod archive;
mod random;
mod refusals;

use serde_json::{Value as Json, json};

use super::*;
use search::study::TrialState;

fn session() -> Session {
    Session::new(Box::new(|_, _| Err("no database".to_owned())))
}

fn line(session: &mut Session, line: &str) -> String {
    match session.handle(line.as_bytes()) {
        Reply::Line(reply) => reply,
        other @ (Reply::Nothing | Reply::Closed) => panic!("{line}: {other:?}"),
    }
}

fn call(session: &mut Session, request: Json) -> Json {
    serde_json::from_str(&line(session, &request.to_string())).unwrap()
}

fn error(session: &mut Session, request: &str) -> String {
    let reply: Json = serde_json::from_str(&line(session, request)).unwrap();
    let object = reply.as_object().unwrap();
    assert_eq!(object.len(), 1, "{request}: {reply}");
    object["error"].as_str().unwrap_or_default().to_owned()
}

fn init(space: Json) -> Json {
    json!({"op": "init", "protocol": 1, "seed": 7, "direction": "minimize", "n_evals": 200,
        "max_step": null, "space": space})
}

/// `init` with some fields changed; `null` stands for itself.
fn with(mut request: Json, changes: Json) -> Json {
    for (name, value) in changes.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

fn started(request: Json) -> Session {
    let mut session = session();
    let reply = call(&mut session, request);
    assert_eq!(reply["ok"], true, "{reply}");
    session
}

fn space() -> Json {
    json!([
        {"name": "lr", "type": "float", "low": 1e-5, "high": 0.1, "log": true},
        {"name": "layers", "type": "int", "low": 1, "high": 5, "log": null},
        {"name": "act", "type": "cat", "choices": ["relu", "tanh"]},
    ])
}

#[test]
fn a_session_has_the_replies_of_the_protocol() {
    let mut session = session();
    let reply = line(&mut session, &init(space()).to_string());
    let name = format!("tune {} auto", env!("CARGO_PKG_VERSION"));
    assert_eq!(reply, format!("{{\"ok\":true,\"name\":\"{name}\"}}"));
    let reply = line(&mut session, r#"{"op":"ask"}"#);
    assert!(reply.starts_with(r#"{"id":0,"params":{"lr":"#), "{reply}");
    let ask: Json = serde_json::from_str(&reply).unwrap();
    let names: Vec<&String> = ask["params"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["lr", "layers", "act"]);
    let told = line(
        &mut session,
        r#"{"op":"tell","id":0,"value":0.41,"state":"ok"}"#,
    );
    assert_eq!(told, r#"{"ok":true}"#);
    assert_eq!(session.handle(b" \r\n"), Reply::Nothing);
    assert_eq!(session.handle(br#"{"op":"close"}"#), Reply::Closed);
}

/// Which points are proposed is the sampler's affair, and may change with it.
fn without_values(reply: &str) -> String {
    reply.split("\"params\"").next().unwrap_or_default().into()
}

#[test]
fn the_session_in_the_documentation_is_a_real_one() {
    let document = include_str!("../../../docs/ask-tell.md");
    let mut session = session();
    let mut replies = std::collections::VecDeque::new();
    for text in document.lines() {
        if let Some(request) = text.strip_prefix("> ") {
            assert!(replies.is_empty(), "{replies:?}");
            match session.handle(request.as_bytes()) {
                Reply::Line(reply) => replies.push_back(reply),
                Reply::Nothing | Reply::Closed => {}
            }
        } else if let Some(expected) = text.strip_prefix("< ") {
            let reply = replies.pop_front().unwrap_or_default();
            let expected = expected.replace("0.1.0", env!("CARGO_PKG_VERSION"));
            assert_eq!(without_values(&reply), without_values(&expected));
        }
    }
    assert_eq!(session.handle(br#"{"op":"close"}"#), Reply::Closed);
    assert!(
        session
            .study
            .is_some_and(|study| study.entries().len() == 3)
    );
}

#[test]
fn values_come_back_as_the_types_of_the_space() {
    let choices = r#"[1, 2.0, "1", true, null, "é\"\u0007", -0.5, 1e300]"#;
    let choices: Vec<Json> = serde_json::from_str(choices).unwrap();
    let mut session = started(init(json!([
        {"name": "whole", "type": "float", "low": 2, "high": 2},
        {"name": "grid", "type": "float", "low": 0, "high": 1, "step": 0.25},
        {"name": "large", "type": "float", "low": 1e20, "high": 1e21},
        {"name": "even", "type": "int", "low": -5, "high": 6, "step": 2},
        {"name": "a \"b\"", "type": "cat", "choices": choices},
    ])));
    let mut seen = Vec::new();
    for id in 0..200 {
        let reply = line(&mut session, r#"{"op":"ask"}"#);
        let params = serde_json::from_str::<Json>(&reply).unwrap()["params"].clone();
        assert!(reply.contains("\"whole\":2.0,"), "{reply}");
        assert!(params["large"].is_f64(), "{reply}");
        let steps = params["grid"].as_f64().unwrap() / 0.25;
        assert!(params["grid"].is_f64() && steps.fract() == 0.0 && steps <= 4.0);
        assert_eq!((params["even"].as_i64().unwrap() + 5) % 2, 0);
        assert!((-5..=5).contains(&params["even"].as_i64().unwrap()));
        seen.push(params["a \"b\""].to_string());
        call(
            &mut session,
            json!({"op": "tell", "id": id, "value": steps, "state": "ok"}),
        );
    }
    let choices: Vec<String> = choices.iter().map(Json::to_string).collect();
    assert!(choices.iter().all(|choice| seen.contains(choice)));
    assert!(seen.iter().all(|value| choices.contains(value)));
}

#[test]
fn params_are_exactly_the_active_ones_in_the_order_of_the_list() {
    let mut session = started(init(json!([
        {"name": "z", "type": "cat", "choices": ["gbtree", "dart", "none"]},
        {"name": "y", "type": "cat", "choices": [1, 2], "when": {"param": "z", "in": ["gbtree", "dart"]}},
        {"name": "x", "type": "float", "low": 0, "high": 1, "when": {"param": "y", "in": [2]}},
        {"name": "w", "type": "int", "low": 0, "high": 9},
    ])));
    let mut seen = std::collections::BTreeSet::new();
    for id in 0..100 {
        let reply = call(&mut session, json!({"op": "ask"}));
        let params = reply["params"].as_object().unwrap();
        let names: Vec<&str> = params.keys().map(String::as_str).collect();
        let expected = match (params["z"].as_str().unwrap(), &params.get("y")) {
            ("none", _) => vec!["z", "w"],
            (_, Some(y)) if **y == json!(2) => vec!["z", "y", "x", "w"],
            _ => vec!["z", "y", "w"],
        };
        assert_eq!(names, expected);
        seen.insert(names.len());
        call(
            &mut session,
            json!({"op": "tell", "id": id, "value": id, "state": "ok"}),
        );
    }
    assert_eq!(seen.len(), 3);
}

#[test]
fn the_seed_decides_every_reply() {
    let replies = |seed: u64| {
        let mut session = started(with(init(space()), json!({"seed": seed, "max_step": 3})));
        let mut replies = String::new();
        for id in 0..60 {
            replies += &line(&mut session, r#"{"op":"ask"}"#);
            let value = f64::from(id * 7919 % 31);
            for step in 1..=3 {
                let report = json!({"op": "report", "id": id, "step": step, "value": value});
                replies += &line(&mut session, &report.to_string());
            }
            let state = ["ok", "failed", "ok", "pruned"][id as usize % 4];
            let tell = json!({"op": "tell", "id": id, "value": value, "state": state});
            replies += &line(&mut session, &tell.to_string());
        }
        replies
    };
    assert_eq!(replies(7), replies(7));
    assert_ne!(replies(7), replies(8));
}

#[test]
fn trials_are_told_once_and_report_before_that_in_order() {
    let mut session = started(with(init(space()), json!({"max_step": 5})));
    for _ in 0..2 {
        call(&mut session, json!({"op": "ask"}));
    }
    let report = |step: i64| json!({"op": "report", "id": 0, "step": step, "value": 0.5});
    assert_eq!(call(&mut session, report(2)), json!({"prune": false}));
    for (request, expected) in [
        (report(0), "step: found 0, expected 1 to 5"),
        (report(-3), "step: found -3, expected 1 to 5"),
        (report(6), "step: found 6, expected 1 to 5"),
        (report(2), "step: found 2, expected one after 2, "),
        (report(1), "step: found 1, expected one after 2, "),
        (
            with(report(1), json!({"id": 2})),
            "id: found 2, which no trial has, ",
        ),
        (
            json!({"op": "tell", "id": 2, "value": 1, "state": "ok"}),
            "id: found 2, which no trial has, ",
        ),
    ] {
        let error = error(&mut session, &request.to_string());
        assert!(error.contains(expected), "{request}: {error}");
    }
    assert_eq!(call(&mut session, report(5)), json!({"prune": false}));
    let tell = json!({"op": "tell", "id": 0, "value": 1, "state": "ok"});
    assert_eq!(call(&mut session, tell.clone()), json!({"ok": true}));
    for request in [tell, report(3)] {
        let error = error(&mut session, &request.to_string());
        assert!(
            error.contains("id: found 0, a trial that has ended (COMPLETE)"),
            "{error}"
        );
    }
    let report = json!({"op": "report", "id": 1, "step": 1, "value": f64::MAX});
    assert_eq!(call(&mut session, report), json!({"prune": false}));
    let nan = r#"{"op":"report","id":1,"step":2,"value":NaN}"#;
    assert_eq!(line(&mut session, nan), r#"{"prune":false}"#);
}

#[test]
fn without_steps_a_report_is_refused_and_pruned_trials_may_still_be_told() {
    let mut session = started(init(space()));
    call(&mut session, json!({"op": "ask"}));
    let report = r#"{"op":"report","id":0,"step":1,"value":1}"#;
    assert!(error(&mut session, report).contains("expected no report, as max_step is null"));
    let told = json!({"op": "tell", "id": 0, "value": null, "state": "pruned"});
    assert_eq!(call(&mut session, told), json!({"ok": true}));
}

#[test]
fn points_of_the_client_are_trials_like_those_asked_for() {
    let mut session = started(with(init(space()), json!({"max_step": 5})));
    let add = json!({"op": "add", "params": {"act": "tanh", "layers": 4, "lr": 0.01}});
    assert_eq!(call(&mut session, add.clone()), json!({"id": 0}));
    assert_eq!(call(&mut session, json!({"op": "ask"}))["id"], 1);
    assert_eq!(call(&mut session, add), json!({"id": 2}));
    let report = json!({"op": "report", "id": 2, "step": 1, "value": 0.5});
    assert_eq!(call(&mut session, report), json!({"prune": false}));
    for id in 0..3 {
        let tell = json!({"op": "tell", "id": id, "value": 1, "state": "ok"});
        assert_eq!(call(&mut session, tell), json!({"ok": true}));
    }
    let study = session.study.as_ref().unwrap();
    let params: Vec<String> = study.entries()[0]
        .params
        .iter()
        .map(|(name, value)| format!("{name} {value:?}"))
        .collect();
    assert_eq!(
        params,
        ["act Str(\"tanh\")", "layers Int(4)", "lr Float(0.01)"]
    );
    assert_eq!(study.entries()[2].intermediate.len(), 1);
}

#[test]
fn the_sampler_learns_from_points_of_the_client() {
    let space = json!([{"name": "x", "type": "float", "low": 0, "high": 1}]);
    let asked = |added: bool| {
        let mut session = started(init(space.clone()));
        for i in 0..40 {
            if added {
                let x = f64::from(i) / 39.0;
                call(&mut session, json!({"op": "add", "params": {"x": x}}));
                let value = (x - 0.7).powi(2);
                let tell = json!({"op": "tell", "id": i, "value": value, "state": "ok"});
                call(&mut session, tell);
            }
        }
        let ask = call(&mut session, json!({"op": "ask"}));
        (ask["params"]["x"].as_f64().unwrap() - 0.7).abs()
    };
    assert!(asked(true) < 0.03, "{}", asked(true));
    assert!(asked(false) > 0.03);
}

#[test]
fn a_point_of_the_client_lies_in_the_space() {
    let mut session = started(init(json!([
        {"name": "booster", "type": "cat", "choices": ["gbtree", "linear"]},
        {"name": "depth", "type": "int", "low": 2, "high": 10, "when": {"param": "booster", "in": ["gbtree"]}},
        {"name": "lr", "type": "float", "low": 0.1, "high": 1, "step": 0.1},
    ])));
    for (params, expected) in [
        (
            json!({"booster": "linear", "lr": 0.2, "a": 1}),
            "params \"a\": found a value, expected none: the space has no such parameter",
        ),
        (
            json!({"lr": 0.2}),
            "params \"booster\": found nothing, expected one of \"gbtree\", \"linear\"",
        ),
        (
            json!({"booster": "linear", "depth": 3, "lr": 0.2}),
            "params \"depth\": found 3, expected none: the parameter is not active at this point",
        ),
        (
            json!({"booster": "gbtree", "depth": 1, "lr": 0.2}),
            "params \"depth\": found 1, expected an integer in 2..10",
        ),
        (
            json!({"booster": "gbtree", "depth": 2.5, "lr": 0.2}),
            "params \"depth\": found 2.5, expected an integer in 2..10",
        ),
        (
            json!({"booster": "linear", "lr": [0.2]}),
            "params \"lr\": found a list, expected a number in 0.1..1",
        ),
        (
            json!({"booster": "linear", "lr": 0.25}),
            "params \"lr\": found 0.25, expected a number in 0.1..1",
        ),
    ] {
        let request = json!({"op": "add", "params": params}).to_string();
        let error = error(&mut session, &request);
        assert!(error.contains(expected), "{request}: {error}");
    }
    // A float of another program's arithmetic is the grid's own.
    let add = json!({"op": "add", "params": {"booster": "linear", "lr": 0.30000000000000004}});
    assert_eq!(call(&mut session, add), json!({"id": 0}));
    let study = session.study.as_ref().unwrap();
    assert_eq!(
        study.entries()[0].params["lr"].as_f64(),
        Some(0.1 + 2.0 * 0.1)
    );
}

#[test]
fn the_pruner_ends_what_is_worse_than_the_median() {
    let asked = json!({"max_step": 3, "pruner": {"kind": "median", "n_startup_trials": 1}});
    let mut session = started(with(init(space()), asked));
    for id in 0..4 {
        call(&mut session, json!({"op": "ask"}));
        for step in 1..=3 {
            let value = if id < 3 { 1.0 } else { 2.0 };
            let report = json!({"op": "report", "id": id, "step": step, "value": value});
            assert_eq!(call(&mut session, report), json!({"prune": id == 3}));
        }
        let state = if id < 3 { "ok" } else { "pruned" };
        call(
            &mut session,
            json!({"op": "tell", "id": id, "value": 1.0, "state": state}),
        );
    }
}

#[test]
fn results_of_every_kind_are_learned_from_or_not() {
    let mut session = started(with(init(space()), json!({"max_step": 2})));
    let tells = [
        r#""value":1.5,"state":"ok""#,
        r#""value":Infinity,"state":"ok""#,
        r#""value":"-Infinity","state":"ok""#,
        r#""value":9.0,"state":"pruned""#,
        r#""value":null,"state":"failed""#,
        r#""state":"failed""#,
    ];
    for (id, tell) in tells.iter().enumerate() {
        call(&mut session, json!({"op": "ask"}));
        call(
            &mut session,
            json!({"op": "report", "id": id, "step": 1, "value": 0.25}),
        );
        let reply = line(
            &mut session,
            &format!("{{\"op\":\"tell\",\"id\":{id},{tell}}}"),
        );
        assert_eq!(reply, r#"{"ok":true}"#, "{tell}");
    }
    let study = session.study.as_ref().unwrap();
    let found: Vec<(TrialState, Option<f64>)> = study
        .entries()
        .iter()
        .map(|e| (e.state, e.value()))
        .collect();
    use TrialState::{Complete, Fail, Pruned};
    assert_eq!(
        found,
        [
            (Complete, Some(1.5)),
            (Complete, Some(f64::INFINITY)),
            (Complete, Some(f64::NEG_INFINITY)),
            // The reports say what the last value was.
            (Pruned, Some(0.25)),
            (Fail, None),
            (Fail, None),
        ]
    );
    assert!(study.entries().iter().all(|e| e.intermediate.len() == 1));
}

#[test]
fn many_trials_may_be_outstanding_and_are_told_in_any_order() {
    let mut session = started(init(space()));
    let mut points = std::collections::BTreeSet::new();
    for id in 0..1000 {
        let reply = call(&mut session, json!({"op": "ask"}));
        assert_eq!(reply["id"], id);
        points.insert(reply["params"].to_string());
        if id % 40 == 39 {
            // Some are told meanwhile, so that the model has something to go by.
            let tell = json!({"op": "tell", "id": id - 20, "value": id, "state": "ok"});
            assert_eq!(call(&mut session, tell)["ok"], true);
        }
    }
    assert_eq!(points.len(), 1000);
    for id in (0..1000).rev().filter(|id| id % 40 != 19) {
        let tell = json!({"op": "tell", "id": id, "value": 0, "state": "ok"});
        assert_eq!(call(&mut session, tell)["ok"], true, "{id}");
    }
}

#[test]
fn what_is_refused_leaves_no_trace() {
    let replies = |disturbed: bool| {
        let mut session = session();
        let mut replies = Vec::new();
        let disturb = |session: &mut Session| {
            if disturbed {
                for bad in [
                    "{",
                    r#"{"op":"tell","id":0,"value":3,"state":"no"}"#,
                    r#"{"op":"report","id":0,"step":99,"value":3}"#,
                    r#"{"op":"ask","x":1}"#,
                    r#"{"op":"add","params":{"lr":3}}"#,
                    r#"{"op":"tell","id":999,"value":3,"state":"ok"}"#,
                    r#"{"op":"init"}"#,
                ] {
                    error(session, bad);
                }
            }
        };
        disturb(&mut session);
        call(&mut session, with(init(space()), json!({"max_step": 2})));
        for id in 0..40 {
            disturb(&mut session);
            replies.push(line(&mut session, r#"{"op":"ask"}"#));
            disturb(&mut session);
            let report = json!({"op": "report", "id": id, "step": 1, "value": id % 7});
            replies.push(line(&mut session, &report.to_string()));
            disturb(&mut session);
            let tell = json!({"op": "tell", "id": id, "value": id % 7, "state": "ok"});
            replies.push(line(&mut session, &tell.to_string()));
        }
        replies
    };
    assert_eq!(replies(false), replies(true));
}
