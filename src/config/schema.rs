//! Configurations as a JSON Schema (draft 7), from the same entries as the checks: editors complete keys by it, show what
//! they do, and mark what is wrong.

use serde_json::{Map, Value as Json, json};

use super::document::STRUCTURED;
use super::keys::{PRUNERS, SAMPLERS, SETTINGS};
use super::pruners::{WRAPPED, wraps};
use crate::{Algorithm, Key, KeyType, Preset, Role, TaskKind};
use search::space::Value;

/// The schema of a task file that may be of any of these kinds. Each `task.kind` has a definition of its own; beside them
/// stand all keys of all kinds, for editors that complete without looking at conditions.
pub fn schema(kinds: &[&'static TaskKind]) -> Json {
    let mut definitions = Map::new();
    for (field, _, schema) in of_entries() {
        define(&mut definitions, &format!("entry:{field}"), schema);
    }
    let own: Vec<(String, Json)> = own_keys()
        .iter()
        .map(|(name, key)| (name.clone(), define(&mut definitions, name, of_key(key))))
        .collect();
    let mut any = object();
    for (name, key) in &own {
        put(&mut any, name, key);
    }
    let mut branches = Vec::new();
    for kind in kinds {
        let mut whole = object();
        for (name, key) in &own {
            put(&mut whole, name, key);
        }
        for key in kind.keys {
            let name = format!("{}:{}", kind.name, key.name);
            let value = define(&mut definitions, &name, of_key(key));
            put(&mut whole, key.name, &value);
            put(&mut any, key.name, &json!({"description": key.help}));
        }
        whole["properties"]["space"] = space(kind, &mut definitions);
        add_structured(&mut whole);
        if kind.accepts_any_parameter {
            for section in ["params", "train"] {
                whole["properties"][section] = json!({"type": "object"});
            }
        }
        definitions.insert(kind.name.to_owned(), whole);
        branches.push(json!({
            "if": {
                "properties": {"task": {"properties": {"kind": {"const": kind.name}}, "required": ["kind"]}},
                "required": ["task"],
            },
            "then": reference(kind.name),
        }));
    }
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
    any["properties"]["task"]["properties"]["kind"] =
        json!({"enum": names, "description": "what is trained: the task kind"});
    // A kind's own definition says what is refused.
    open(&mut any);
    any["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    any["title"] = json!(TITLE);
    any["definitions"] = Json::Object(definitions);
    any["allOf"] = Json::Array(branches);
    any
}

/// What the schema is called: a file with this title may be written anew.
pub const TITLE: &str = "A task file of tune";

/// Every key of `tune` itself by its whole name, those of all samplers and pruners among them.
fn own_keys() -> Vec<(String, Key<'static>)> {
    let inner: Vec<Algorithm> = (PRUNERS.iter().copied())
        .filter(|pruner| !wraps(pruner.options))
        .collect();
    let wrapped = format!("pruner.{WRAPPED}");
    let options = [
        ("sampler", merged(&SAMPLERS)),
        ("pruner", merged(&PRUNERS)),
        (wrapped.as_str(), merged(&inner)),
    ];
    let mut keys: Vec<(String, Key)> = SETTINGS.iter().map(|k| (k.name.to_owned(), *k)).collect();
    for (section, options) in options {
        let named = |option: Key<'static>| (format!("{section}.{}", option.name), option);
        keys.extend(options.into_iter().map(named));
    }
    keys
}

/// The options of all these, each once. What one name stands for with some of them is not told of the others.
fn merged(algorithms: &[Algorithm]) -> Vec<Key<'static>> {
    let mut options: Vec<Key<'static>> = Vec::new();
    for option in algorithms.iter().flat_map(|a| a.options) {
        match options.iter_mut().find(|known| known.name == option.name) {
            None => options.push(*option),
            Some(known) => {
                if known.ty != option.ty {
                    known.ty = KeyType::Any;
                }
                if known.preset != option.preset {
                    known.preset = Preset::Optional;
                }
            }
        }
    }
    options
}

fn object() -> Json {
    json!({"type": "object", "properties": {}, "additionalProperties": false})
}

fn reference(name: &str) -> Json {
    json!({"$ref": format!("#/definitions/{name}")})
}

fn define(definitions: &mut Map<String, Json>, name: &str, value: Json) -> Json {
    definitions.insert(name.to_owned(), value);
    reference(name)
}

/// Puts a key where its dotted name says, as nested tables and, as TOML allows both, as one quoted name.
fn put(object: &mut Json, name: &str, value: &Json) {
    let properties = &mut object["properties"];
    if let Some((first, rest)) = name.split_once('.') {
        if properties[first]["properties"].is_null() {
            properties[first] = self::object();
        }
        put(&mut properties[first], rest, value);
    }
    if properties[name].is_null() {
        properties[name] = value.clone();
    }
}

/// Allows what is not named, at every depth.
fn open(object: &mut Json) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    fields.remove("additionalProperties");
    if let Some(Json::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(open);
    }
}

fn add_structured(whole: &mut Json) {
    let when = json!({"type": "object"});
    for section in STRUCTURED {
        let is = match section {
            "models" => {
                json!({"type": "object", "description": "checkpoints by the names that model.name chooses from"})
            }
            "constraints" => json!({
                "type": "array",
                "description": "what every point must satisfy",
                "items": {
                    "type": "object",
                    "properties": {"expr": {"type": "string"}, "when": when},
                    "required": ["expr"],
                    "additionalProperties": false,
                },
            }),
            "points" => {
                json!({"type": "array", "items": {"type": "object"}, "description": "points that are tried first"})
            }
            _ => continue,
        };
        whole["properties"][section] = is;
    }
}

/// `[space]` of a kind: an entry for each key that may be searched.
fn space(kind: &TaskKind, definitions: &mut Map<String, Json>) -> Json {
    let mut space = object();
    for key in kind.keys.iter().filter(|key| key.role == Role::Training) {
        let name = format!("{}:space:{}", kind.name, key.name);
        let value = define(definitions, &name, entry(key));
        put(&mut space, key.name, &value);
    }
    space["description"] = json!("what is searched");
    if kind.accepts_any_parameter {
        open(&mut space);
    }
    space
}

/// What an entry of `[space]` may hold beside `choices` and `default`, and whether only ranges do.
fn of_entries() -> [(&'static str, bool, Json); 8] {
    let number = json!({"type": "number"});
    let bound = json!({
        "type": "object",
        "properties": {"if": {"type": "object"}, "high": number},
        "additionalProperties": false,
    });
    let told = |mut schema: Json, what: &str| {
        schema["description"] = json!(what);
        schema
    };
    let flag = json!({"type": "boolean"});
    let when = "it exists only while each of these keys has one of these values";
    let step = "only low, and multiples of this above it";
    let halve = "batches that do not fit into memory are computed in halves";
    let bounds = json!({"type": "array", "items": bound});
    [
        (
            "low",
            true,
            told(number.clone(), "least value, itself one of them"),
        ),
        (
            "high",
            true,
            told(number.clone(), "greatest value, itself one of them"),
        ),
        (
            "log",
            true,
            told(flag.clone(), "spread evenly by logarithm"),
        ),
        ("step", true, told(number, step)),
        ("int", true, told(flag, "whole numbers only")),
        (
            "high_when",
            true,
            told(bounds, "lower upper bounds under conditions"),
        ),
        ("when", false, told(json!({"type": "object"}), when)),
        (
            "oom",
            false,
            told(json!({"enum": ["alone", "halve"]}), halve),
        ),
    ]
}

/// An entry of `[space]`.
fn entry(key: &Key) -> Json {
    let value = of_type(key.ty);
    let mut entry = object();
    entry["description"] = json!(key.help);
    entry["properties"] = json!({
        "choices": {"type": "array", "minItems": 1, "items": value},
        "default": value,
    });
    for (field, of_ranges, _) in of_entries() {
        if !of_ranges || key.ty.range().is_some() {
            entry["properties"][field] = reference(&format!("entry:{field}"));
        }
    }
    entry
}

fn of_key(key: &Key) -> Json {
    let mut schema = of_type(key.ty);
    let only = key
        .active_when
        .map(|condition| format!("; only where {condition}"));
    schema["description"] = json!(format!("{}{}", key.help, only.unwrap_or_default()));
    if let Some(preset) = key.preset.value() {
        schema["default"] = preset.to_json();
    }
    schema
}

fn of_type(ty: KeyType) -> Json {
    let string = json!({"type": "string"});
    let number = |low: f64, high: f64| {
        let mut number = json!({"type": "number"});
        for (bound, value) in [("minimum", low), ("maximum", high)] {
            if value.is_finite() {
                number[bound] = Value::Float(value).to_json();
            }
        }
        number
    };
    match ty {
        KeyType::Float { low, high } => number(low, high),
        KeyType::Int { low, high } => json!({"type": "integer", "minimum": low, "maximum": high}),
        KeyType::IntOrAuto { low, high } => {
            json!({"anyOf": [of_type(KeyType::Int { low, high }), {"const": "auto"}]})
        }
        KeyType::Bool => json!({"type": "boolean"}),
        KeyType::Choice(words) => json!({"enum": words}),
        KeyType::Any => json!({"type": ["number", "string", "boolean"]}),
        KeyType::List => json!({"type": "array", "items": string}),
        KeyType::Metrics => {
            json!({"anyOf": [string, {"type": "array", "items": string, "minItems": 1}]})
        }
        KeyType::Grid { low, high } => {
            let one = number(low, high);
            json!({"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]})
        }
        KeyType::Path => json!({"type": "string", "minLength": 1}),
        KeyType::Text | KeyType::Duration { .. } | KeyType::Device => string,
        KeyType::DurationOrAuto => json!({"anyOf": [string, {"const": 0}]}),
        KeyType::Size => json!({"anyOf": [string, {"type": "integer", "minimum": 1}]}),
        KeyType::Share => {
            json!({"anyOf": [string, {"type": "number", "exclusiveMinimum": 0, "maximum": 1}]})
        }
    }
}
