//! Samplers and pruners with their options, by the tables of keys: from a configuration, or from the
//! JSON in which a program asks for one.

use serde_json::{Map, Value as Json};

use super::document::Document;
use super::keys::{Algorithm, PRUNERS, SAMPLERS};
use super::problem::{Problem, Source, hint};
use super::pruners::{WRAPPED, WRAPPED_KIND, contradiction, wraps};
use super::tree::{Item, Node};
use super::values::{Base, value_of};
use crate::Key;

use search::pruner::PrunerSpec;
use search::sampler::SamplerSpec;
use search::space::{Params, Value};

/// The options of the chosen kind, defaults filled in, those of a wrapped pruner under their prefix.
/// An option of another kind is a problem, unless the kind was chosen on the command line over a
/// file that configures another one.
pub(super) fn read_options(
    section: &str,
    kind: String,
    algorithms: &[Algorithm],
    document: &Document,
    problems: &mut Vec<Problem>,
) -> (String, Params) {
    let chosen = algorithms.iter().find(|a| a.name == kind);
    let options = chosen.map_or(&[][..], |a| a.options);
    let mut params = Params::new();
    for option in options {
        let key = format!("{section}.{}", option.name);
        let mut value = option.preset.value();
        if let Some(node) = document.key(&key) {
            match value_of(option.ty, node, Base::nowhere()) {
                Ok(given) => value = Some(given),
                Err(expected) => problems.push(node.problem(key, node.found(), expected)),
            }
        }
        params.extend(value.map(|value| (option.name.to_owned(), value)));
    }
    refuse_options_of_others(section, &kind, options, algorithms, document, problems);
    if let Some(wrong) = contradiction(&kind, &params) {
        let key = format!("{section}.{}", wrong.option);
        let kind_key = format!("{section}.kind");
        let node = document.key(&key).or_else(|| document.key(&kind_key));
        let source = node.map_or_else(|| document.whole(), |n| n.source.clone());
        problems.push(Problem::new(&source, key, wrong.found, wrong.expected));
    }
    let wrapped = params.get(WRAPPED_KIND);
    if let Some(inner) = wrapped.and_then(Value::as_str).map(str::to_owned) {
        let section = format!("{section}.{WRAPPED}");
        let (_, options) = read_options(&section, inner, algorithms, document, problems);
        let named = |(name, value)| (format!("{WRAPPED}.{name}"), value);
        params.extend(options.into_iter().map(named));
    }
    (kind, params)
}

/// An option of another kind is a problem.
fn refuse_options_of_others(
    section: &str,
    kind: &str,
    options: &[Key],
    algorithms: &[Algorithm],
    document: &Document,
    problems: &mut Vec<Problem>,
) {
    let kind_node = document.key(&format!("{section}.kind"));
    let chosen_outside = kind_node.is_some_and(|n| !n.source.is_file());
    let known = |name: &str| algorithms.iter().any(|a| a.has(name));
    for (key, node) in &document.keys {
        let Some(name) = key.strip_prefix(&format!("{section}.")) else {
            continue;
        };
        // The options of a pruner inside another are looked at on their own.
        let inner = name.strip_prefix(WRAPPED).and_then(|n| n.strip_prefix('.'));
        let inside = inner.is_some_and(known);
        if name == "kind"
            || options.iter().any(|o| o.name == name)
            || (inside && wraps(options))
            || !(inside || known(name))
            || (chosen_outside && node.source.is_file())
        {
            continue;
        }
        let found = format!("an option that {section} {kind} does not have");
        let names: Vec<&str> = options.iter().map(|o| o.name).collect();
        let expected = match names.as_slice() {
            [] => "no options".to_owned(),
            names => format!("one of {}", names.join(", ")),
        };
        problems.push(node.problem(key, found, expected));
    }
}

/// The sampler that `json` asks for: a kind's name, or an object with `kind` and its options.
/// `field` is what messages call it.
///
/// # Errors
/// What is wrong, in words: an unknown kind or option, or a value that the option does not have.
pub fn sampler_from_json(field: &str, json: &Json) -> Result<SamplerSpec, String> {
    let (kind, options) = read_json(field, json, &SAMPLERS)?;
    Ok(SamplerSpec { kind, options })
}

/// The same for a pruner.
///
/// # Errors
/// See [`sampler_from_json`].
pub fn pruner_from_json(field: &str, json: &Json) -> Result<PrunerSpec, String> {
    let (kind, options) = read_json(field, json, &PRUNERS)?;
    Ok(PrunerSpec { kind, options })
}

fn read_json(
    field: &str,
    json: &Json,
    algorithms: &[Algorithm],
) -> Result<(String, Params), String> {
    let no_options = Map::new();
    let (at, kind, given) = match json.as_object() {
        Some(given) => {
            let kind = given.get("kind").unwrap_or(&Json::Null);
            (format!("{field}.kind"), kind, given)
        }
        None => (field.to_owned(), json, &no_options),
    };
    let Some(algorithm) = algorithms.iter().find(|a| kind.as_str() == Some(a.name)) else {
        let names: Vec<&str> = algorithms.iter().map(|a| a.name).collect();
        let near = hint(kind.as_str().unwrap_or_default(), names.iter().copied());
        let expected = format!("one of {}{near}", names.join(", "));
        return Err(wrong(&at, &brief(kind), &expected));
    };
    refuse_strangers(field, algorithm, given)?;
    let mut options = Params::new();
    for setting in algorithm.options {
        if setting.name == WRAPPED_KIND {
            options.extend(wrapped(field, setting, given, algorithms)?);
        } else if let Some(value) = option(field, setting, given.get(setting.name))? {
            options.insert(setting.name.to_owned(), value);
        }
    }
    if let Some(both) = contradiction(algorithm.name, &options) {
        let at = format!("{field}.{}", both.option);
        return Err(wrong(&at, &both.found, both.expected));
    }
    Ok((algorithm.name.to_owned(), options))
}

/// The field of an option: all that a pruner inside another has is one object.
fn field_of(setting: &Key<'static>) -> &'static str {
    match setting.name {
        WRAPPED_KIND => WRAPPED,
        name => name,
    }
}

fn refuse_strangers(
    field: &str,
    algorithm: &Algorithm,
    given: &Map<String, Json>,
) -> Result<(), String> {
    let names: Vec<&str> = algorithm.options.iter().map(field_of).collect();
    let stranger = |name: &&String| *name != "kind" && !names.contains(&name.as_str());
    let Some(name) = given.keys().find(stranger) else {
        return Ok(());
    };
    let near = hint(name, names.iter().copied());
    let expected = match names.as_slice() {
        [] => "no options".to_owned(),
        _ => format!("one of {}{near}", names.join(", ")),
    };
    let (name, kind) = (brief(&name.as_str().into()), algorithm.name);
    let found = format!("{name}, an option that {kind} does not have");
    Err(wrong(field, &found, &expected))
}

/// The pruner inside another: a kind's name, or an object with its options.
fn wrapped(
    field: &str,
    setting: &Key,
    given: &Map<String, Json>,
    algorithms: &[Algorithm],
) -> Result<Params, String> {
    let field = format!("{field}.{WRAPPED}");
    let inner: Vec<Algorithm> = (algorithms.iter().copied())
        .filter(|a| !wraps(a.options))
        .collect();
    let preset = setting.preset.value().map_or(Json::Null, |v| v.to_json());
    let (kind, options) = read_json(&field, given.get(WRAPPED).unwrap_or(&preset), &inner)?;
    let named = |(name, value)| (format!("{WRAPPED}.{name}"), value);
    let mut all: Params = options.into_iter().map(named).collect();
    all.insert(WRAPPED_KIND.to_owned(), Value::Str(kind));
    Ok(all)
}

/// The value of an option, or its default.
fn option(field: &str, option: &Key, given: Option<&Json>) -> Result<Option<Value>, String> {
    let Some(json) = given else {
        return Ok(option.preset.value());
    };
    let item = match Value::from_json(json) {
        Some(value) => Item::Scalar(value),
        // No option is a list or a table.
        None => Item::Array(Vec::new()),
    };
    let node = Node::new(item, Source::Flag(field.to_owned()));
    let at = format!("{field}.{}", option.name);
    value_of(option.ty, &node, Base::nowhere())
        .map(Some)
        .map_err(|expected| wrong(&at, &brief(json), &expected))
}

fn wrong(at: &str, found: &str, expected: &str) -> String {
    format!("{at}: found {found}, expected {expected}")
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

    #[test]
    fn a_wrapped_pruner_is_an_object_of_its_own() {
        let asked = json!({"kind": "patient", "patience": 3,
            "wrapped": {"kind": "hyperband", "min_resource": 3, "max_resource": 100}});
        let spec = pruner_from_json("pruner", &asked).unwrap();
        let options = &spec.options;
        assert_eq!(options["wrapped.kind"], "hyperband".into());
        assert_eq!(options["wrapped.max_resource"], Value::Int(100));
        assert_eq!(options["wrapped.reduction_factor"], Value::Int(3));
        assert_eq!(options["patience"], Value::Int(3));
        let named = json!({"kind": "patient", "wrapped": "asha"});
        let spec = pruner_from_json("pruner", &named).unwrap();
        assert_eq!(spec.options["wrapped.min_resource"], "auto".into());
        let spec = pruner_from_json("pruner", &json!("patient")).unwrap();
        assert_eq!(spec.options["wrapped.kind"], "auto".into());
        assert_eq!(spec.options["wrapped.chance"], Value::Float(0.05));
        let error = |json: Json| pruner_from_json("pruner", &json).unwrap_err();
        for (json, expected) in [
            (
                json!({"kind": "patient", "wrapped": {"kind": "patient"}}),
                "pruner.wrapped.kind: found \"patient\", expected one of auto, none, median,",
            ),
            (
                json!({"kind": "patient", "wrapped": {"kind": "asha", "min_resource": "all"}}),
                "pruner.wrapped.min_resource: found \"all\", expected an integer in 1..=1000000, or auto",
            ),
            (
                json!({"kind": "median", "wrapped": "asha"}),
                "pruner: found \"wrapped\", an option that median does not have",
            ),
            (
                json!({"kind": "patient", "wrapped": {"kind": "threshold"}}),
                "pruner.wrapped.lower: found neither lower nor upper, expected at least one",
            ),
            (
                json!({"kind": "threshold", "lower": 2, "upper": 1}),
                "pruner.lower: found 2, above upper, which is 1, expected",
            ),
            (
                json!({"kind": "hyperband", "min_resource": 9, "max_resource": 3}),
                "pruner.max_resource: found 3, below min_resource, which is 9, expected",
            ),
        ] {
            let error = error(json);
            assert!(error.contains(expected), "{error}");
        }
    }
}
