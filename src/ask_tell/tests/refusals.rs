//! What is refused, and with which words.

use serde_json::json;

use super::*;

fn parameter(entry: &str) -> String {
    init(json!([]))
        .to_string()
        .replace("[]", &format!("[{entry}]"))
}

#[test]
fn what_is_no_request_is_refused_with_what_is_wrong() {
    let mut session = session();
    for (request, expected) in [
        ("nonsense", "not JSON: "),
        ("{\"op\":\"ask\"", "not JSON: "),
        ("{\"op\":\"ask\"} {}", "not JSON: "),
        (
            "{\"op\":\"tell\",\"id\":0,\"value\":1e400,\"state\":\"ok\"}",
            "not JSON: number out of range",
        ),
        ("[]", "request: found an empty list, expected an object"),
        ("\"ask\"", "request: found \"ask\", expected an object"),
        (
            "{}",
            "op: found nothing, expected init, ask, add, report, tell or close",
        ),
        (r#"{"op":3}"#, "op: found 3, "),
        (r#"{"op":-Infinity}"#, "op: found -Infinity, "),
        (r#"{"op":"NaN"}"#, "op: found \"NaN\", "),
        (r#"{"op":"Ask"}"#, "op: found \"Ask\", "),
        (
            r#"{"op":"ask","n":1}"#,
            "\"n\": found an unknown field, expected op",
        ),
        (r#"{"op":"close","n":1}"#, "unknown field"),
        (r#"{"op":"ask"}"#, "op: found ask before init"),
        (r#"{"op":"add","params":{}}"#, "op: found add before init"),
        (
            r#"{"op":"add"}"#,
            "params: found nothing, expected an object with the value of each parameter",
        ),
        (r#"{"op":"add","params":[1]}"#, "params: found a list, "),
        (
            r#"{"op":"add","params":{"lr":NaN}}"#,
            "add: found NaN, an infinity or half of a surrogate pair, expected none",
        ),
        (
            r#"{"op":"report","id":0,"step":1,"value":1}"#,
            "op: found report before init",
        ),
        (
            r#"{"op":"tell","id":0,"value":1,"state":"ok"}"#,
            "op: found tell before init",
        ),
        (
            r#"{"op":"tell","id":-1,"value":1,"state":"ok"}"#,
            "id: found -1, expected the id",
        ),
        (
            r#"{"op":"tell","id":0.0,"value":1,"state":"ok"}"#,
            "id: found 0.0, ",
        ),
        (
            r#"{"op":"tell","id":"0","value":1,"state":"ok"}"#,
            "id: found \"0\", ",
        ),
        (
            r#"{"op":"tell","value":1,"state":"ok"}"#,
            "id: found nothing, ",
        ),
        (
            r#"{"op":"tell","id":0,"value":1}"#,
            "state: found nothing, expected ok, pruned",
        ),
        (
            r#"{"op":"tell","id":0,"value":1,"state":"OK"}"#,
            "state: found \"OK\", ",
        ),
        (
            r#"{"op":"tell","id":0,"state":"ok"}"#,
            "value: found nothing, ",
        ),
        (
            r#"{"op":"tell","id":0,"value":null,"state":"ok"}"#,
            "value: found null, ",
        ),
        (
            r#"{"op":"tell","id":0,"value":NaN,"state":"ok"}"#,
            "value: found NaN, ",
        ),
        (
            r#"{"op":"tell","id":0,"value":"0.5","state":"ok"}"#,
            "value: found \"0.5\", ",
        ),
        (
            r#"{"op":"tell","id":0,"value":true,"state":"pruned"}"#,
            "value: found true, ",
        ),
        (
            r#"{"op":"report","id":0,"step":1.5,"value":1}"#,
            "step: found 1.5, ",
        ),
        (
            r#"{"op":"report","id":0,"step":9223372036854775808,"value":1}"#,
            "step: found 9223372036854775808, ",
        ),
        (
            r#"{"op":"report","id":0,"step":2147483648,"value":1}"#,
            "step: found 2147483648, expected an integer of at most 32 bits",
        ),
        (
            r#"{"op":"report","id":0,"step":1,"value":null}"#,
            "value: found null, ",
        ),
        (
            r#"{"op":"report","id":0,"step":1}"#,
            "value: found nothing, ",
        ),
    ] {
        let error = error(&mut session, request);
        assert!(error.contains(expected), "{request}: {error}");
    }
    let Reply::Line(reply) = session.handle(b"{\"op\":\"a\xffk\"}") else {
        panic!("no reply");
    };
    assert_eq!(reply, r#"{"error":"not UTF-8: wrong byte at 9"}"#);
    let long = format!("{{\"op\":\"{}\"}}", "x".repeat(1 << 20));
    assert!(error(&mut session, &long).len() < 200);
    let deep = "[".repeat(100_000);
    assert!(error(&mut session, &deep).contains("recursion limit"));
}

#[test]
fn lines_that_no_client_writes_get_few_words_and_change_nothing() {
    let mut session = session();
    let many = |item: &str| {
        format!(
            "{{\"op\":\"init\",\"space\":[{}]}}",
            [item; 20_000].join(",")
        )
    };
    let object = format!("{{{}}}", "\"op\":\"ask\",".repeat(20_000));
    let nested = |n| format!("{{\"op\":{}{}}}", "[".repeat(n), "]".repeat(n));
    for line in [
        many("NaN").into_bytes(),
        many("[]").into_bytes(),
        many("{\"name\":\"x\",\"type\":\"float\",\"low\":NaN,\"high\":1}").into_bytes(),
        object.into_bytes(),
        nested(100).into_bytes(),
        nested(10_000).into_bytes(),
        "\"\\ud800\"".repeat(10_000).into_bytes(),
        format!("{{\"op\":\"{}\"}}", "\\ud800".repeat(10_000)).into_bytes(),
        format!("{{\"op\":\"tell\",\"id\":{}}}", "9".repeat(10_000)).into_bytes(),
        b"{\"op\":\"\x00\x1b[2J\"}".to_vec(),
        (0..=255).cycle().take(100_000).collect(),
        vec![0; 100_000],
        vec![0xff; 100_000],
    ] {
        let Reply::Line(reply) = session.handle(&line) else {
            panic!("no reply to {} bytes", line.len());
        };
        let said: Json = serde_json::from_str(&reply).unwrap();
        let begin = String::from_utf8_lossy(&line[..line.len().min(20)]);
        assert!(
            said["error"].is_string() && reply.len() < 400,
            "{begin}: {reply}"
        );
        assert!(!reply.contains(char::is_control), "{begin}: {reply:?}");
    }
    call(&mut session, init(space()));
    assert_eq!(call(&mut session, json!({"op": "ask"}))["id"], 0);
}

#[test]
fn every_field_of_init_is_needed_and_checked() {
    let mut session = session();
    for name in [
        "protocol",
        "seed",
        "direction",
        "n_evals",
        "max_step",
        "space",
    ] {
        let mut request = init(space());
        request.as_object_mut().unwrap().shift_remove(name);
        let error = error(&mut session, &request.to_string());
        assert!(
            error.starts_with(&format!("{name}: found nothing, expected ")),
            "{error}"
        );
    }
    for (changes, expected) in [
        (json!({"protocol": 2}), "protocol: found 2, expected 1"),
        (json!({"protocol": "1"}), "protocol: found \"1\", "),
        (json!({"seed": -1}), "seed: found -1, "),
        (json!({"seed": 0.5}), "seed: found 0.5, "),
        (
            json!({"direction": "min"}),
            "direction: found \"min\", expected minimize or maximize",
        ),
        (
            json!({"n_evals": 0}),
            "n_evals: found 0, expected an integer of at least 1, or null",
        ),
        (json!({"max_step": "9"}), "max_step: found \"9\", "),
        (json!({"max_step": 1.0}), "max_step: found 1.0, "),
        (
            json!({"space": {}}),
            "space: found an object, expected a list of parameters",
        ),
        (
            json!({"sampler": "tpee"}),
            "sampler: found \"tpee\", expected one of ",
        ),
        (
            json!({"sampler": {"kind": "tpe", "n": 1}}),
            "sampler: found \"n\", an option that tpe ",
        ),
        (
            json!({"pruner": {"kind": "median", "interval_steps": 0}}),
            "pruner.interval_steps: found 0, ",
        ),
        (json!({"pruner": 1}), "pruner: found 1, "),
        (
            json!({"study": "s"}),
            "storage: found nothing, expected a database for the study",
        ),
        (json!({"storage": 1}), "storage: found 1, "),
        (
            json!({"storage": "x.db", "study": "a/b"}),
            "study: found \"a/b\", expected a name without",
        ),
        (json!({"storage": "x.db"}), "no database"),
        (
            json!({"seeds": 1}),
            "\"seeds\": found an unknown field, expected op, protocol, seed, ",
        ),
    ] {
        let error = error(&mut session, &with(init(space()), changes).to_string());
        assert!(error.contains(expected), "{error}");
    }
    let huge = init(space())
        .to_string()
        .replace("\"seed\":7", "\"seed\":18446744073709551616");
    assert!(error(&mut session, &huge).starts_with("seed: found 1.8446744073709552e+19, "));
    assert_eq!(call(&mut session, init(space()))["ok"], true);
    let second = error(&mut session, &init(space()).to_string());
    assert!(second.contains("a second init"), "{second}");
}

#[test]
fn a_parameter_that_makes_no_sense_is_refused_by_name() {
    let mut session = session();
    for (entry, expected) in [
        ("3", "space[0]: found 3, expected an object"),
        (
            r#"{"type":"float","low":0,"high":1}"#,
            "space[0], name: found nothing, ",
        ),
        (
            r#"{"name":"a"}"#,
            "space[0] \"a\", type: found nothing, expected float, int or cat",
        ),
        (
            r#"{"name":"a","type":"bool"}"#,
            "space[0] \"a\", type: found \"bool\", ",
        ),
        (
            r#"{"name":"a","type":"float","low":0}"#,
            "space[0] \"a\", high: found nothing, ",
        ),
        (
            r#"{"name":"a","type":"float","low":0,"high":"1"}"#,
            "high: found \"1\", ",
        ),
        (
            r#"{"name":"a","type":"float","low":1,"high":0.5}"#,
            "low: found 1, expected at most high",
        ),
        (
            r#"{"name":"a","type":"float","low":-Infinity,"high":0.5}"#,
            "low: found -Infinity, ",
        ),
        (
            r#"{"name":"a","type":"float","low":0,"high":NaN}"#,
            "high: found NaN, ",
        ),
        (
            r#"{"name":"a","type":"float","low":0,"high":1e301}"#,
            "high: found 1e+301, ",
        ),
        (
            r#"{"name":"a","type":"float","low":0,"high":1,"log":true}"#,
            "low: found 0, expected a number above 0",
        ),
        (
            r#"{"name":"a","type":"float","low":0,"high":1,"log":1}"#,
            "log: found 1, expected true or false",
        ),
        (
            r#"{"name":"a","type":"float","low":0,"high":1,"step":0}"#,
            "step: found 0, ",
        ),
        (
            r#"{"name":"a","type":"float","low":0,"high":1,"step":-0.1}"#,
            "step: found -0.1, ",
        ),
        (
            r#"{"name":"a","type":"float","low":0,"high":1,"step":1e-300}"#,
            "step: found 1e-300, ",
        ),
        (
            r#"{"name":"a","type":"float","low":1,"high":2,"step":0.1,"log":true}"#,
            "step: found 0.1, expected no step",
        ),
        (
            r#"{"name":"a","type":"float","low":1,"high":2,"choices":[1]}"#,
            "space[0] \"a\", \"choices\": found an unknown field",
        ),
        (
            r#"{"name":"a","type":"int","low":0.0,"high":1}"#,
            "low: found 0.0, expected an integer",
        ),
        (
            r#"{"name":"a","type":"int","low":0,"high":9223372036854775808}"#,
            "high: found 9223372036854775808, ",
        ),
        (
            r#"{"name":"a","type":"int","low":-9223372036854775808,"high":9223372036854775807}"#,
            "low: found -9223372036854775808, expected an integer between -2^53 and 2^53",
        ),
        (
            r#"{"name":"a","type":"int","low":2,"high":1}"#,
            "low: found 2, expected at most high, which is 1",
        ),
        (
            r#"{"name":"a","type":"int","low":0,"high":8,"log":true}"#,
            "low: found 0, ",
        ),
        (
            r#"{"name":"a","type":"int","low":1,"high":8,"step":0}"#,
            "step: found 0, ",
        ),
        (
            r#"{"name":"a","type":"int","low":1,"high":8,"step":2,"log":true}"#,
            "step: found 2, ",
        ),
        (r#"{"name":"a","type":"cat"}"#, "choices: found nothing, "),
        (
            r#"{"name":"a","type":"cat","choices":[]}"#,
            "choices: found an empty list, ",
        ),
        (
            r#"{"name":"a","type":"cat","choices":{}}"#,
            "choices: found an object, ",
        ),
        (
            r#"{"name":"a","type":"cat","choices":["x",[1]]}"#,
            "choices[1]: found a list, expected a string, a number",
        ),
        (
            r#"{"name":"a","type":"cat","choices":["x","y","x"]}"#,
            "choices[2]: found \"x\", expected each choice once",
        ),
        (
            r#"{"name":"a","type":"cat","choices":[1,1.0]}"#,
            "choices[1]: found 1.0, expected each choice once",
        ),
        (
            r#"{"name":"a","type":"cat","choices":[null,null]}"#,
            "choices[1]: found null, ",
        ),
        (
            r#"{"name":"a","type":"cat","choices":["x",NaN]}"#,
            "init: found NaN",
        ),
        (
            r#"{"name":"a","type":"cat","choices":["x","\ud800"]}"#,
            "half of a surrogate pair",
        ),
        (
            r#"{"name":"a","type":"cat","choices":[9223372036854775808]}"#,
            "choices[0]: found 9223372036854775808, expected no integer beyond",
        ),
        (
            r#"{"name":"a","type":"cat","choices":[1,-100000000000000000000000000000000000000000]}"#,
            "choices[1]: found -1e+41, expected no integer beyond",
        ),
        (
            r#"{"name":"a","type":"cat","choices":[1],"low":1}"#,
            "\"low\": found an unknown field",
        ),
        (
            r#"{"name":"a","type":"cat","choices":[1]},{"name":"a","type":"cat","choices":[1]}"#,
            "space[1] \"a\", name: found \"a\", expected another name: space[0] has",
        ),
    ] {
        let error = error(&mut session, &parameter(entry));
        assert!(error.contains(expected), "{entry}: {error}");
    }
}

#[test]
fn a_condition_names_a_categorical_parameter_above_and_its_choices() {
    let mut session = session();
    let condition = |when: &str| {
        parameter(&format!(
            r#"{{"name":"c","type":"cat","choices":["x",1,true]}},{{"name":"f","type":"float","low":0,"high":1}},
            {{"name":"p","type":"cat","choices":[1,2],"when":{when}}},{{"name":"q","type":"cat","choices":[1]}}"#
        )).replace('\n', " ")
    };
    for (when, expected) in [
        ("3", "space[2] \"p\", when: found 3, expected an object"),
        (r#"{"in":["x"]}"#, "when.param: found nothing, "),
        (
            r#"{"param":"c"}"#,
            "when.in: found nothing, expected a list of choices of \"c\"",
        ),
        (r#"{"param":"c","in":[]}"#, "when.in: found an empty list, "),
        (r#"{"param":"c","in":"x"}"#, "when.in: found \"x\", "),
        (
            r#"{"param":"c","in":["x","z"]}"#,
            "when.in[1]: found \"z\", expected a choice of \"c\"",
        ),
        (
            r#"{"param":"c","in":["true"]}"#,
            "when.in[0]: found \"true\", ",
        ),
        (
            r#"{"param":"c","in":[["x"]]}"#,
            "when.in[0]: found a list, ",
        ),
        (
            r#"{"param":"c","in":["x"],"or":1}"#,
            "when.\"or\": found an unknown field",
        ),
        (
            r#"{"param":"d","in":["x"]}"#,
            "when.param: found \"d\", expected the name of a categorical parameter above; there is no such",
        ),
        (r#"{"param":"q","in":[1]}"#, "this one is not above"),
        (r#"{"param":"p","in":[1]}"#, "this one is not above"),
        (r#"{"param":"f","in":[1]}"#, "this one has no choices"),
    ] {
        let error = error(&mut session, &condition(when));
        assert!(error.contains(expected), "{when}: {error}");
    }
    let reply = line(
        &mut session,
        &condition(r#"{"param":"c","in":["x",1.0,true]}"#),
    );
    assert!(reply.contains("\"ok\""), "{reply}");
}
