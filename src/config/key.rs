//! A key of a configuration. All that is said of it stands in one entry, whether `tune` itself, a
//! sampler, a pruner or a kind of task reads it; checks, messages, defaults and the tables of the
//! documentation follow from it.

use std::fmt;
use std::time::Duration;

use search::space::Value;

use crate::ActiveWhen;

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
    /// An integer, or `auto`.
    IntOrAuto {
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
    /// A list of metrics; one alone may stand without brackets.
    Metrics,
    /// A number, or a list of numbers of which each epoch takes the best without training again; fixed only; kept in
    /// [`StudySpec::lists`](crate::StudySpec::lists), see [`StudySpec::post`](crate::StudySpec::post).
    Grid {
        /// Least value.
        low: f64,
        /// Greatest value.
        high: f64,
    },
    /// A file; relative paths start at the configuration's directory, `~` is the home directory.
    Path,
    /// A time, such as `10m` or `7h30m`, or one of these words.
    Duration {
        /// Shortest time.
        least: Duration,
        /// Such as `auto` and `off`.
        words: &'static [&'static str],
    },
    /// A time, 0 included, or `auto`.
    DurationOrAuto,
    /// A size in bytes, such as `64MiB`.
    Size,
    /// A part of the whole, such as `80%` or 0.8.
    Share,
    /// `auto`, `cpu`, `cuda` or `cuda:0,1`.
    Device,
}

impl KeyType {
    /// Least and greatest value of a type whose values can be searched as a range.
    pub(super) fn range(self) -> Option<(f64, f64)> {
        match self {
            KeyType::Float { low, high } => Some((low, high)),
            KeyType::Int { low, high } => Some((low as f64, high as f64)),
            KeyType::Any => Some((f64::NEG_INFINITY, f64::INFINITY)),
            KeyType::IntOrAuto { .. }
            | KeyType::Bool
            | KeyType::Text
            | KeyType::Choice(_)
            | KeyType::List
            | KeyType::Metrics
            | KeyType::Grid { .. }
            | KeyType::Path
            | KeyType::Duration { .. }
            | KeyType::DurationOrAuto
            | KeyType::Size
            | KeyType::Share
            | KeyType::Device => None,
        }
    }

    /// Whether a value is a list.
    pub(super) fn is_list(self) -> bool {
        matches!(
            self,
            KeyType::List | KeyType::Metrics | KeyType::Grid { .. }
        )
    }
}

/// What errors expect: `an integer in 1..=64`.
impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            KeyType::Float { low, high } => {
                let bound = |x: f64| x.is_finite().then(|| Value::Float(x).to_string());
                write!(f, "a number{}", bounds(bound(low), bound(high)))
            }
            KeyType::Int { low, high } => {
                let low = (low != i64::MIN).then(|| low.to_string());
                let high = (high != i64::MAX).then(|| high.to_string());
                write!(f, "an integer{}", bounds(low, high))
            }
            KeyType::IntOrAuto { low, high } => {
                write!(f, "{}, or auto", KeyType::Int { low, high })
            }
            KeyType::Bool => f.write_str("true or false"),
            KeyType::Text => f.write_str("a string"),
            KeyType::Choice(words) => write!(f, "one of {}", words.join(", ")),
            KeyType::Any => f.write_str("a number, a string, true or false"),
            KeyType::List => f.write_str("a list of strings"),
            KeyType::Metrics => {
                f.write_str(r#"a list of strings such as ["macro_f1:max", "runtime_s"]"#)
            }
            KeyType::Grid { low, high } => {
                let number = KeyType::Float { low, high };
                write!(f, "{number}, or a list of such: [0.3, 0.5]")
            }
            KeyType::Path => f.write_str("a path"),
            KeyType::Duration { least, words } => {
                f.write_str("a time")?;
                if !least.is_zero() {
                    write!(f, " of at least {}", humantime::format_duration(least))?;
                }
                f.write_str(r#" such as "10m" or "7h30m""#)?;
                words
                    .iter()
                    .try_for_each(|word| write!(f, r#", or "{word}""#))
            }
            KeyType::DurationOrAuto => f.write_str(r#"a time such as "10m", 0, or "auto""#),
            KeyType::Size => f.write_str(r#"a size such as "64MiB""#),
            KeyType::Share => {
                f.write_str(r#"a part above 0, such as "80%" or 0.8, at most "100%""#)
            }
            KeyType::Device => f.write_str(device::DEVICES),
        }
    }
}

fn bounds(low: Option<String>, high: Option<String>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!(" in {low}..={high}"),
        (Some(low), None) => format!(", at least {low}"),
        (None, Some(high)) => format!(", at most {high}"),
        (None, None) => String::new(),
    }
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

/// A key that `tune` or a task kind reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key<'a> {
    /// Dotted name: the first part is the section of the configuration. Of an option of a sampler or
    /// pruner, what follows `sampler.` or `pruner.`.
    pub name: &'a str,
    /// Type and bounds.
    pub ty: KeyType,
    /// Value when left out.
    pub preset: Preset,
    /// Role.
    pub role: Role,
    /// One line for people: what it does, in which unit.
    pub help: &'static str,
    /// It acts only where this holds; `None`: everywhere.
    pub active_when: Option<ActiveWhen>,
}

impl<'a> Key<'a> {
    const fn new(name: &'a str, ty: KeyType, preset: Preset, role: Role) -> Key<'a> {
        Key {
            name,
            ty,
            preset,
            role,
            help: "",
            active_when: None,
        }
    }

    /// The same key with its line for people.
    pub const fn help(self, help: &'static str) -> Key<'a> {
        Key { help, ..self }
    }

    /// The same key, which acts only where this holds.
    pub const fn only_where(self, condition: ActiveWhen) -> Key<'a> {
        let active_when = Some(condition);
        Key {
            active_when,
            ..self
        }
    }

    /// A key that the configuration itself declares, for task kinds that pass on whatever they are
    /// given ([`TaskKind::accepts_any_parameter`](crate::TaskKind::accepts_any_parameter)).
    pub fn passed_on(name: &'a str) -> Key<'a> {
        training(name, KeyType::Any, Preset::Optional).help("passed on as it is")
    }
}

/// A key of the training: it may be searched.
pub const fn training(name: &str, ty: KeyType, preset: Preset) -> Key<'_> {
    Key::new(name, ty, preset, Role::Training)
}

/// A fixed key that values depend on.
pub const fn data(name: &str, ty: KeyType, preset: Preset) -> Key<'_> {
    Key::new(name, ty, preset, Role::Data)
}

/// A fixed key that no value depends on.
pub const fn operational(name: &str, ty: KeyType, preset: Preset) -> Key<'_> {
    Key::new(name, ty, preset, Role::Operational)
}

/// The type of an integer within bounds.
pub const fn int(low: i64, high: i64) -> KeyType {
    KeyType::Int { low, high }
}

/// The type of an integer within bounds, or `auto`.
pub const fn int_or_auto(low: i64, high: i64) -> KeyType {
    KeyType::IntOrAuto { low, high }
}

/// The type of a float within bounds.
pub const fn float(low: f64, high: f64) -> KeyType {
    KeyType::Float { low, high }
}

/// A share or a probability.
pub const FRACTION: KeyType = float(0.0, 1.0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_described_with_their_bounds() {
        let float = |low, high| float(low, high).to_string();
        assert_eq!(float(0.0, 0.5), "a number in 0.0..=0.5");
        assert_eq!(float(0.0, f64::INFINITY), "a number, at least 0.0");
        let int = |low, high| int(low, high).to_string();
        assert_eq!(int(i64::MIN, 3), "an integer, at most 3");
        assert_eq!(int(i64::MIN, i64::MAX), "an integer");
    }
}
