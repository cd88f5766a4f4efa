//! What a study's values depend on.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value as Json};

use super::StudySpec;
use super::conditions::alternatives;
use super::spec::possible_values;
use super::values::defaults;
use crate::kind::with_passed_on;
use crate::kinds::command::{FILES, RUN};
use crate::kinds::keys_of;
use crate::{Key, KeyType, Prepared, Role};
use search::space::{Condition, Constraint, Parameter, Space, Value};

/// One difference between two identities.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Dotted key; that of a parameter without `space.`.
    pub key: String,
    /// What differs where it is a file's content or the data's, for people: `train.py`.
    pub content: Option<String>,
    /// The study's value, as text; `None` where the study has none.
    pub was: Option<String>,
    /// The value asked for.
    pub asked: Option<String>,
}

impl Difference {
    /// Whether a file of a program has changed: the script that `task.run` names, or one of `task.files`.
    pub fn is_of_program(&self) -> bool {
        program_file(&self.key).is_some()
    }
}

/// `train.epochs was 4; now it is 5`, `train.py has changed (task.run.train.py)`.
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.content, &self.was, &self.asked) {
            (Some(content), Some(_), Some(_)) => write!(f, "{content} has changed ({})", self.key),
            (Some(content), None, _) => write!(f, "{content} is new ({})", self.key),
            (Some(content), Some(_), None) => write!(f, "{content} is gone ({})", self.key),
            (None, was, asked) => {
                let was = was.as_deref().unwrap_or("not set");
                let asked = asked.as_deref().unwrap_or("not set");
                write!(f, "{} was {was}; now it is {asked}", self.key)
            }
        }
    }
}

/// The identity of a study: what its values depend on, as a flat map from dotted key to JSON.
/// Operational keys are not in it, nor are paths of fingerprinted data.
pub fn identity(spec: &StudySpec, prepared: &Prepared) -> Map<String, Json> {
    let fixed: Vec<String> = spec.fixed.keys().cloned().collect();
    identity_of(spec, &with_passed_on(keys_of(&spec.kind), &fixed), prepared)
}

/// [`identity`] with the task kind's keys as an argument.
pub(super) fn identity_of(
    spec: &StudySpec,
    keys: &[Key],
    prepared: &Prepared,
) -> Map<String, Json> {
    let mut map = Map::new();
    let mut put = |key: &str, value: Json| {
        map.insert(key.to_owned(), value);
    };
    put("task.kind", spec.kind.as_str().into());
    put("study.seed", spec.seed.into());
    match spec.further.as_slice() {
        [] => {
            put("objective.metric", spec.objective.metric.as_str().into());
            put("objective.direction", json_of(&spec.objective.direction));
        }
        [_, ..] => {
            let metrics = spec.objectives().into_iter().map(|o| o.metric.as_str());
            put("objective.metric", metrics.collect::<Json>());
            put("objective.direction", json_of(&spec.directions()));
        }
    }
    let known = [
        ("data.fingerprint", &prepared.data_fingerprint),
        ("data.split.fingerprint", &prepared.split_fingerprint),
    ];
    for (key, fingerprint) in known {
        if let Some(fingerprint) = fingerprint {
            put(key, fingerprint.as_str().into());
        }
    }
    for (key, fingerprint) in &prepared.fingerprints {
        put(key, fingerprint.as_str().into());
    }
    for key in keys {
        let fingerprinted = key.ty == KeyType::Path
            && (prepared.data_fingerprint.is_some()
                || prepared
                    .fingerprints
                    .iter()
                    .any(|(k, _)| k.starts_with(key.name)));
        match (key.role, spec.fixed.get(key.name)) {
            (Role::Training | Role::Data, Some(value)) if !fingerprinted => {
                put(key.name, value.to_json());
            }
            (Role::Training | Role::Data | Role::Operational, _) => {}
        }
    }
    for (name, list) in &spec.lists {
        put(name, list.as_slice().into());
    }
    for parameter in &spec.space.parameters {
        put(&format!("space.{}", parameter.name), definition(parameter));
    }
    if !spec.space.constraints.is_empty() {
        put("constraints", json_of(&spec.space.constraints));
    }
    map
}

/// A value of our own types as JSON; they all have one.
fn json_of(value: &impl serde::Serialize) -> Json {
    serde_json::to_value(value).unwrap_or(Json::Null)
}

/// A parameter's full definition, without its name.
fn definition(parameter: &Parameter) -> Json {
    let mut json = json_of(parameter);
    if let Some(object) = json.as_object_mut() {
        object.shift_remove("name");
    }
    json
}

/// The space that an identity describes, parents first; `fixed` are its other values, those of
/// fingerprinted paths excepted.
pub fn space_of(identity: &Map<String, Json>) -> Space {
    let mut space = Space::default();
    for (key, json) in identity {
        if let Some(name) = key.strip_prefix("space.") {
            space.parameters.extend(parameter(name, json));
        } else if key == "constraints" {
            space.constraints = serde_json::from_value(json.clone()).unwrap_or_default();
        } else if let Some(value) = Value::from_json(json) {
            space.fixed.insert(key.clone(), value);
        }
    }
    space
}

/// Whether values of studies with these identities can stand side by side: they differ only in
/// what is searched, in the constraints and in the seed. A key that one of them fixes and the
/// other searches is searched differently, and a model that only one of them can choose says
/// nothing about the values of the others.
pub fn comparable(was: &Map<String, Json>, asked: &Map<String, Json>) -> bool {
    let (old, new) = (space_of(was), space_of(asked));
    changed_keys(was, asked).into_iter().all(|key| {
        let searched = |space: &Space| space.find(key).is_some();
        let chosen = |space: &Space| {
            key.split_once('.').is_some_and(|(section, choice)| {
                possible_values(space, &space.fixed, &format!("{section}.name"))
                    .contains(&Value::from(choice))
            })
        };
        key.starts_with("space.")
            || key == "constraints"
            || key == "study.seed"
            || match (was.contains_key(key), asked.contains_key(key)) {
                (false, true) => searched(&old) || (chosen(&new) && !chosen(&old)),
                (true, false) => searched(&new) || (chosen(&old) && !chosen(&new)),
                (true, true) | (false, false) => false,
            }
    })
}

/// The inverse of [`definition`].
fn parameter(name: &str, json: &Json) -> Option<Parameter> {
    let mut object = json.as_object()?.clone();
    object.insert("name".into(), name.into());
    serde_json::from_value(Json::Object(object)).ok()
}

/// Everything in which two identities differ, in the order of the keys; a parameter's range and its fixed value are
/// one thing. A key that only one of them has is no difference where the other has its default.
pub fn differences(was: &Map<String, Json>, asked: &Map<String, Json>) -> Vec<Difference> {
    let keys: BTreeSet<&str> = (changed_keys(was, asked).into_iter())
        .map(|key| key.strip_prefix("space.").unwrap_or(key))
        .collect();
    keys.into_iter()
        .map(|key| Difference {
            key: key.to_owned(),
            content: content(key, asked.get(key).or_else(|| was.get(key))),
            was: side(was, asked, key),
            asked: side(asked, was, key),
        })
        .collect()
}

/// What has a fingerprint under this key, for people.
fn content(key: &str, value: Option<&Json>) -> Option<String> {
    let digest = |text: &str| text.len() >= 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let has_digest = value.and_then(Json::as_str).is_some_and(digest);
    match key {
        "data.fingerprint" => Some("the data".to_owned()),
        "data.split.fingerprint" => Some("the split of the data".to_owned()),
        _ => match (program_file(key), key.strip_prefix("model.")) {
            (Some(file), _) => Some(file.to_owned()),
            (None, Some(name)) if has_digest => Some(format!("the model {name}")),
            (None, Some(_) | None) => None,
        },
    }
}

/// The file of a program whose fingerprint stands under this key.
fn program_file(key: &str) -> Option<&str> {
    let of = |list: &str| key.strip_prefix(list)?.strip_prefix('.');
    of(RUN).or_else(|| of(FILES))
}

/// What one identity has under a key, where the other one may search it.
fn side(of: &Map<String, Json>, other: &Map<String, Json>, key: &str) -> Option<String> {
    let searched = format!("space.{key}");
    if let Some(json) = of.get(&searched) {
        return Some(format!("searched in {}", text(&searched, json)));
    }
    let value = text(key, of.get(key)?);
    Some(match other.contains_key(&searched) {
        true => format!("fixed at {value}"),
        false => value,
    })
}

/// Every key under which two identities differ, in order.
///
/// A study may be older than a key of its task kind. It was trained as the key's default has it,
/// so that a key which only one identity has is no difference where the other one has the default.
/// Nor is it one where a study from before programs' own files had fingerprints has none of them.
fn changed_keys<'a>(was: &'a Map<String, Json>, asked: &'a Map<String, Json>) -> Vec<&'a str> {
    let kind = asked.get("task.kind").and_then(Json::as_str);
    let defaults = defaults(keys_of(kind.unwrap_or_default()));
    let value = |map: &Map<String, Json>, key: &str| match map.get(key) {
        None if !map.contains_key(&format!("space.{key}")) => defaults.get(key).map(Value::to_json),
        // One fold is no division: one model is trained, as without.
        Some(folds) if key == "data.folds" && folds.as_i64() == Some(1) => Some(0.into()),
        found => found.cloned(),
    };
    let has_program = |map: &Map<String, Json>| map.keys().any(|k| of_program(k));
    let known = has_program(was) && has_program(asked);
    let keys: BTreeSet<&String> = was.keys().chain(asked.keys()).collect();
    keys.into_iter()
        .map(String::as_str)
        .filter(|key| !same(value(was, key).as_ref(), value(asked, key).as_ref()))
        .filter(|key| known || !of_program(key))
        .collect()
}

/// Whether a study is from before programs' own files had fingerprints, and `asked` has them.
pub fn lacks_program(was: &Map<String, Json>, asked: &Map<String, Json>) -> bool {
    let has = |map: &Map<String, Json>| map.keys().any(|k| of_program(k));
    has(asked) && !has(was)
}

/// Whether a key has the fingerprint of what `task.run` names.
fn of_program(key: &str) -> bool {
    key.strip_prefix(RUN)
        .is_some_and(|rest| rest.starts_with('.'))
}

fn same(a: Option<&Json>, b: Option<&Json>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => same_json(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Equality in which 3 and 3.0 are the same number, and the order of an object's keys is nothing.
fn same_json(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(x), Json::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Json::Array(x), Json::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same_json(x, y))
        }
        (Json::Object(x), Json::Object(y)) => {
            x.len() == y.len()
                && x.iter()
                    .all(|(k, v)| y.get(k).is_some_and(|w| same_json(v, w)))
        }
        (a, b) => a == b,
    }
}

/// A value of an identity, for people.
fn text(key: &str, json: &Json) -> String {
    if let Some(name) = key.strip_prefix("space.") {
        if let Some(text) = parameter_text(name, json) {
            return text;
        }
    } else if key == "constraints"
        && let Ok(constraints) = serde_json::from_value::<Vec<Constraint>>(json.clone())
    {
        let all: Vec<String> = constraints
            .iter()
            .map(|c| c.expr.to_string() + &conditions_text(" when ", &c.when))
            .collect();
        return all.join("; ");
    }
    json.as_str()
        .map_or_else(|| json.to_string(), str::to_owned)
}

fn parameter_text(name: &str, json: &Json) -> Option<String> {
    let parameter = parameter(name, json)?;
    let mut text = parameter.domain.to_string();
    if let Some(default) = &parameter.default {
        text += &format!(", default {default}");
    }
    text += &conditions_text(", when ", &parameter.when);
    for bound in &parameter.high_when {
        text += &format!(
            ", at most {}{}",
            bound.high,
            conditions_text(" when ", &bound.when)
        );
    }
    Some(text)
}

fn conditions_text(prefix: &str, conditions: &[Condition]) -> String {
    if conditions.is_empty() {
        return String::new();
    }
    let all: Vec<String> = conditions
        .iter()
        .map(|c| format!("{} = {}", c.parent, alternatives(&c.values)))
        .collect();
    format!("{prefix}{}", all.join(" and "))
}
