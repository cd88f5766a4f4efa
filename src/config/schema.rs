//! How a task kind declares the keys that it reads.

use search::space::Value;

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
    /// A list of strings, fixed only; kept in [`StudySpec::lists`](crate::StudySpec::lists).
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

/// A condition on another key of the same kind, under which a key acts: where it does not hold, the
/// key's value changes nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Acts {
    /// Where `key` has one of these words.
    Words {
        /// A key with words for values.
        key: &'static str,
        /// The words.
        words: &'static [&'static str],
    },
    /// Where the integer `key` is at least `least`.
    AtLeast {
        /// A key with an integer.
        key: &'static str,
        /// The least such value.
        least: i64,
    },
    /// Where the integer `key` is below something that is known only once data and models are read:
    /// the kind itself looks after it, when it prepares.
    Below {
        /// A key with an integer.
        key: &'static str,
        /// What it is compared with, for people.
        limit: &'static str,
    },
    /// Where the integer `key` exceeds the key's own value by at least `by`. No space is refused for
    /// it: of a searched key some values are dead, not the key.
    Beyond {
        /// A key with an integer.
        key: &'static str,
        /// The least difference.
        by: i64,
    },
    /// Where `key` has no value.
    Without {
        /// A key without a default, which cannot be searched.
        key: &'static str,
    },
}

impl Acts {
    /// The key that it is about.
    pub fn key(&self) -> &'static str {
        match self {
            Acts::Words { key, .. }
            | Acts::AtLeast { key, .. }
            | Acts::Below { key, .. }
            | Acts::Beyond { key, .. }
            | Acts::Without { key } => key,
        }
    }
}

/// `loss.cls.type is focal`, `head.layers is at least 2`.
impl std::fmt::Display for Acts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Acts::Words { key, words } => write!(f, "{key} is {}", words.join(" or ")),
            Acts::AtLeast { key, least } => write!(f, "{key} is at least {least}"),
            Acts::Below { key, limit } => write!(f, "{key} is below {limit}"),
            Acts::Beyond { key, by } => write!(f, "{key} is at least {by} more"),
            Acts::Without { key } => write!(f, "{key} is left out"),
        }
    }
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
    /// It acts only where all of these hold; empty: everywhere.
    pub acts: &'static [Acts],
}

impl<'a> Key<'a> {
    /// The same key, which acts only where all of these hold.
    pub const fn only_where(self, acts: &'static [Acts]) -> Key<'a> {
        Key { acts, ..self }
    }

    /// A key that the configuration itself declares, for task kinds that pass on whatever they are
    /// given ([`TaskKind::accepts_any_parameter`](super::TaskKind::accepts_any_parameter)).
    pub fn passed_on(name: &'a str) -> Key<'a> {
        Key {
            name,
            ty: KeyType::Any,
            preset: Preset::Optional,
            role: Role::Training,
            help: "passed on as it is",
            acts: &[],
        }
    }
}
