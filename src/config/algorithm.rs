//! A sampler or pruner that a program asks for in JSON, by the tables of a configuration's keys.

use serde_json::{Map, Value as Json};

use super::keys::{Algorithm, PRUNERS, SAMPLERS, Setting};
use super::problem::{Source, hint};
use super::settings::option_value;
use super::tree::{Item, Node, parse_value};
use super::{PrunerSpec, SamplerSpec};
use crate::space::{Params, Value};

/// The sampler that `json` asks for: a kind's name, or an object with `kind` and its options.
/// `field` is what messages call it.
///
/// # Errors
/// What is wrong, in words: an unknown kind or option, or a value that the option does not have.
pub fn sampler_from_json(field: &str, json: &Json) -> Result<SamplerSpec, String> {
    let (kind, options) = read(field, json, &SAMPLERS)?;
    Ok(SamplerSpec { kind, options })
}

/// The same for a pruner.
///
/// # Errors
/// See [`sampler_from_json`].
pub fn pruner_from_json(field: &str, json: &Json) -> Result<PrunerSpec, String> {
    let (kind, options) = read(field, json, &PRUNERS)?;
    Ok(PrunerSpec { kind, options })
}

fn read(field: &str, json: &Json, algorithms: &[Algorithm]) -> Result<(String, Params), String> {
    let names: Vec<&str> = algorithms.iter().map(|a| a.name).collect();
    let unknown = |field: &str, found: &Json| {
        let near = hint(found.as_str().unwrap_or_default(), names.iter().copied());
        let names = names.join(", ");
        Err(format!(
            "{field}: found {}, expected one of {names}{near}",
            brief(found)
        ))
    };
    let no_options = Map::new();
    let (field_of_kind, kind, given) = match json {
        Json::Object(given) => match given.get("kind") {
            Some(kind) => (format!("{field}.kind"), kind, given),
            None => return unknown(&format!("{field}.kind"), &Json::Null),
        },
        Json::String(_) => (field.to_owned(), json, &no_options),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) => {
            return unknown(field, json);
        }
    };
    let Some(algorithm) = algorithms.iter().find(|a| kind.as_str() == Some(a.name)) else {
        return unknown(&field_of_kind, kind);
    };
    let stranger = |name: &&String| {
        *name != "kind" && !algorithm.options.iter().any(|o| o.name == name.as_str())
    };
    if let Some(name) = given.keys().find(stranger) {
        let names: Vec<&str> = algorithm.options.iter().map(|o| o.name).collect();
        let near = hint(name, names.iter().copied());
        let expected = match names.as_slice() {
            [] => "no options".to_owned(),
            _ => format!("one of {}{near}", names.join(", ")),
        };
        return Err(format!(
            "{field}: found {}, an option that {} does not have, expected {expected}",
            brief(&name.as_str().into()),
            algorithm.name
        ));
    }
    let mut options = Params::new();
    for setting in algorithm.options {
        if let Some(value) = option(field, setting, given.get(setting.name))? {
            options.insert(setting.name.to_owned(), value);
        }
    }
    Ok((algorithm.name.to_owned(), options))
}

/// The value of an option, or its preset.
fn option(field: &str, setting: &Setting, given: Option<&Json>) -> Result<Option<Value>, String> {
    let source = Source::Flag(field.to_owned());
    let Some(json) = given else {
        // An empty preset is none.
        let preset = Some(setting.preset).filter(|p| !p.is_empty());
        let node = preset.and_then(|p| parse_value(p, &source).ok());
        return Ok(node.and_then(|n| option_value(setting.ty, &n).ok()));
    };
    let wrong = |expected: String| {
        let name = setting.name;
        format!("{field}.{name}: found {}, expected {expected}", brief(json))
    };
    let item = match Value::from_json(json) {
        Some(value) => Item::Scalar(value),
        // No option is a list or a table.
        None => Item::Array(Vec::new()),
    };
    let node = Node {
        item,
        source,
        raw: None,
    };
    option_value(setting.ty, &node).map(Some).map_err(wrong)
}

/// A value as messages show it.
fn brief(json: &Json) -> String {
    let text = json.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_kind_alone_has_the_presets_of_a_configuration() {
        let spec = sampler_from_json("sampler", &json!("tpe")).unwrap();
        assert_eq!(spec.options["n_startup_trials"], Value::Int(10));
        assert_eq!(spec.options["multivariate"], Value::Bool(true));
        let spec = sampler_from_json("sampler", &json!("random")).unwrap();
        assert_eq!((spec.kind.as_str(), spec.options.len()), ("random", 0));
    }

    #[test]
    fn options_are_taken_and_checked_as_in_a_configuration() {
        let asked = json!({"kind": "tpe", "n_startup_trials": 20, "multivariate": false});
        let spec = sampler_from_json("sampler", &asked).unwrap();
        assert_eq!(spec.options["n_startup_trials"], Value::Int(20));
        assert_eq!(spec.options["n_ei_candidates"], Value::Int(24));
        let error = |json: Json| sampler_from_json("sampler", &json).unwrap_err();
        for (json, expected) in [
            (
                json!("tpee"),
                "sampler: found \"tpee\", expected one of auto",
            ),
            (json!(3), "sampler: found 3, expected one of auto"),
            (
                json!({"n_startup_trials": 3}),
                "sampler.kind: found null, expected one of",
            ),
            (
                json!({"kind": "random", "x": 1}),
                "an option that random does not have, expected no options",
            ),
            (
                json!({"kind": "tpe", "n_startup_trial": 1}),
                "did you mean n_startup_trials?",
            ),
            (
                json!({"kind": "tpe", "n_startup_trials": -1}),
                "sampler.n_startup_trials: found -1, expected an integer in 0..=",
            ),
            (
                json!({"kind": "tpe", "multivariate": [1]}),
                "sampler.multivariate: found [1], expected true or false",
            ),
        ] {
            let error = error(json);
            assert!(error.contains(expected), "{error}");
        }
    }
}
