//! A parameter's value, as it stands in configurations, in trials and in JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// Parameter values by name, ordered by name so that every walk over them is deterministic.
pub type Params = BTreeMap<String, Value>;

/// The different ones of many names: those of a study's trials are nearly all the same few, and
/// only these are copied.
pub fn distinct_names<'a>(all: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for name in all {
        if !names.contains(name) {
            names.insert(name.clone());
        }
    }
    names
}

/// A value: a number, or a choice of any of the types that Optuna allows.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// JSON `null`, Python `None`.
    Null,
    /// A boolean choice.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float; never NaN.
    Float(#[serde(serialize_with = "messages::any_float::serialize")] f64),
    /// A string choice.
    Str(String),
}

impl Value {
    /// The number, of an integer or float.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Int(i) => Some(*i as f64),
            Value::Float(f) => Some(*f),
            Value::Null | Value::Bool(_) | Value::Str(_) => None,
        }
    }

    /// The integer; a float counts where it is whole.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(i) => Some(*i),
            Value::Float(f) if f.fract() == 0.0 && f.abs() < 9e15 => Some(*f as i64),
            Value::Float(_) | Value::Null | Value::Bool(_) | Value::Str(_) => None,
        }
    }

    /// The string, of a string choice.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(s) => Some(s),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => None,
        }
    }

    /// The boolean, of a boolean choice.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            Value::Null | Value::Int(_) | Value::Float(_) | Value::Str(_) => None,
        }
    }

    /// The value as JSON; non-finite floats become the strings of the contract.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Null => serde_json::Value::Null,
            Value::Bool(b) => (*b).into(),
            Value::Int(i) => (*i).into(),
            Value::Float(f) => messages::json_number(*f),
            Value::Str(s) => s.as_str().into(),
        }
    }

    /// Reads a JSON scalar; `None` for arrays and objects.
    pub fn from_json(json: &serde_json::Value) -> Option<Value> {
        match json {
            serde_json::Value::Null => Some(Value::Null),
            serde_json::Value::Bool(b) => Some(Value::Bool(*b)),
            serde_json::Value::Number(n) => match n.as_i64() {
                Some(i) => Some(Value::Int(i)),
                None => n.as_f64().map(Value::Float),
            },
            serde_json::Value::String(s) => Some(Value::Str(s.clone())),
            serde_json::Value::Array(_) | serde_json::Value::Object(_) => None,
        }
    }

    /// The type's name, for messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) => "integer",
            Value::Float(_) => "float",
            Value::Str(_) => "string",
        }
    }
}

/// Numbers are equal when they denote the same number, as in Python: `3 == 3.0`.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Str(a), Value::Str(b)) => a == b,
            (a, b) => matches!((a.as_f64(), b.as_f64()), (Some(x), Some(y)) if x == y),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Int(i) => write!(f, "{i}"),
            Value::Float(x) => write!(f, "{x:?}"),
            Value::Str(s) => f.write_str(s),
        }
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Value {
        Value::Str(s.to_owned())
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Value {
        Value::Int(i)
    }
}

impl From<f64> for Value {
    fn from(f: f64) -> Value {
        Value::Float(f)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Value {
        Value::Bool(b)
    }
}
