//! How a task kind declares the keys that it reads.

use crate::space::Value;

/// The type of a key's value. Bounds are inclusive; searched ranges must lie within them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum KeyType {
    /// A float (integers are accepted).
    Float {
        /// Least value.
        low: f64,
        /// Greatest value.
        high: f64,
    },
    /// An integer.
    Int {
        /// Least value.
        low: i64,
        /// Greatest value.
        high: i64,
    },
    /// `true` or `false`.
    Bool,
    /// Any string.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any scalar: the task kind does not know the key, it passes it on.
    Any,
    /// A list of strings, fixed only; kept in [`StudySpec::lists`](crate::config::StudySpec::lists).
    List,
    /// A file; relative paths start at the configuration's directory, `~` is the home directory.
    Path,
}

/// What stands in for a key that is neither fixed nor searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Preset {
    /// Nothing: leaving the key out is an error.
    Required,
    /// Nothing: the key may be absent.
    Optional,
    /// A float.
    Float(f64),
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Text(&'static str),
}

impl Preset {
    /// The value, where there is one.
    pub fn value(self) -> Option<Value> {
        match self {
            Preset::Required | Preset::Optional => None,
            Preset::Float(x) => Some(Value::Float(x)),
            Preset::Int(i) => Some(Value::Int(i)),
            Preset::Bool(b) => Some(Value::Bool(b)),
            Preset::Text(s) => Some(s.into()),
        }
    }
}

/// What a key is to a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Fixed or searched; part of the study's identity.
    Training,
    /// Fixed only; part of the study's identity (by the data's fingerprint where it is a path).
    Data,
    /// Fixed only; may change at any resume.
    Operational,
}

/// A key that a task kind reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key<'a> {
    /// Dotted name: the first part is the section of the configuration.
    pub name: &'a str,
    /// Type and bounds.
    pub ty: KeyType,
    /// Value when left out.
    pub preset: Preset,
    /// Role.
    pub role: Role,
    /// One line for people: what it does, in which unit.
    pub help: &'static str,
}

impl<'a> Key<'a> {
    /// A key that the configuration itself declares, for task kinds that pass on whatever they are
    /// given ([`TaskKind::passes_on`](super::TaskKind::passes_on)).
    pub fn passed_on(name: &'a str) -> Key<'a> {
        Key {
            name,
            ty: KeyType::Any,
            preset: Preset::Optional,
            role: Role::Training,
            help: "passed on as it is",
        }
    }
}
