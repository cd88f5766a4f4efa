//! Values of the keys that a task kind declares.

use std::path::{Component, Path, PathBuf};

use super::problem::hint;
use super::tree::{Item, Node};
use crate::{Key, KeyType};
use search::space::Value;

/// What relative paths and `~` start at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Base<'a> {
    /// The configuration's directory, absolute.
    pub dir: &'a Path,
    /// The home directory, where known.
    pub home: Option<&'a Path>,
}

impl Base<'_> {
    /// The absolute path that `text` means.
    pub fn expand(&self, text: &str) -> PathBuf {
        let path = match (text.strip_prefix('~'), self.home) {
            (Some(""), Some(home)) => home.to_owned(),
            (Some(rest), Some(home)) if rest.starts_with('/') => {
                home.join(rest.trim_start_matches('/'))
            }
            (Some(_) | None, _) => self.dir.join(text),
        };
        let mut clean = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                // A symbolic link may lead elsewhere: `..` after one stays as it is.
                Component::ParentDir if !clean.is_symlink() && clean.file_name().is_some() => {
                    clean.pop();
                }
                Component::ParentDir
                | Component::Prefix(_)
                | Component::RootDir
                | Component::Normal(_) => clean.push(part),
            }
        }
        clean
    }
}

/// The value of a key; the error says what was expected.
pub(super) fn value_of(key: &Key, node: &Node, base: Base) -> Result<Value, String> {
    let value = node.scalar();
    let text = match &node.item {
        Item::Scalar(Value::Str(text)) => Some(text.as_str()),
        Item::Scalar(_) => node.raw.as_deref(),
        Item::Array(_) | Item::Table(_) => None,
    };
    let found = match key.ty {
        KeyType::Float { low, high } => value
            .and_then(Value::as_f64)
            .filter(|x| x.is_finite() && *x >= low && *x <= high)
            .map(Value::Float),
        KeyType::Int { low, high } => match value {
            Some(Value::Int(i)) if (low..=high).contains(i) => Some(Value::Int(*i)),
            Some(_) | None => None,
        },
        KeyType::Bool => value.and_then(Value::as_bool).map(Value::Bool),
        KeyType::Text => text.map(Value::from),
        KeyType::Choice(words) => text.filter(|t| words.contains(t)).map(Value::from),
        KeyType::Any => value.cloned(),
        // Read elsewhere: it is no single value.
        KeyType::List => None,
        KeyType::Path => text
            .filter(|t| !t.is_empty())
            .map(|t| base.expand(t).to_string_lossy().as_ref().into()),
    };
    found.ok_or_else(|| match (key.ty, text) {
        (KeyType::Choice(words), Some(t)) => describe(key.ty) + &hint(t, words.iter().copied()),
        (ty, _) => describe(ty),
    })
}

/// The strings of a list; the error says what was expected.
pub(super) fn list_of(node: &Node) -> Result<Vec<String>, String> {
    let texts = node.array().map(|nodes| {
        nodes
            .iter()
            .map(|n| n.scalar().and_then(Value::as_str).map(str::to_owned))
            .collect::<Option<Vec<_>>>()
    });
    texts.flatten().ok_or_else(|| describe(KeyType::List))
}

/// A type for people: `an integer in 1..=64`.
pub(super) fn describe(ty: KeyType) -> String {
    match ty {
        KeyType::Float { low, high } => {
            let low = low.is_finite().then(|| Value::Float(low).to_string());
            let high = high.is_finite().then(|| Value::Float(high).to_string());
            format!("a number{}", bounds(low, high))
        }
        KeyType::Int { low, high } => {
            let low = (low != i64::MIN).then(|| low.to_string());
            let high = (high != i64::MAX).then(|| high.to_string());
            format!("an integer{}", bounds(low, high))
        }
        KeyType::Bool => "true or false".into(),
        KeyType::Text => "a string".into(),
        KeyType::Choice(words) => format!("one of {}", words.join(", ")),
        KeyType::Any => "a number, a string, true or false".into(),
        KeyType::List => "a list of strings".into(),
        KeyType::Path => "a path".into(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_start_at_the_file_or_at_home() {
        let base = Base {
            dir: Path::new("/p/configs"),
            home: Some(Path::new("/home/me")),
        };
        let expand = |text: &str| base.expand(text).to_string_lossy().into_owned();
        assert_eq!(expand("data/a.csv"), "/p/configs/data/a.csv");
        assert_eq!(expand("../data/./a.csv"), "/p/data/a.csv");
        assert_eq!(expand("~/m"), "/home/me/m");
        assert_eq!(expand("~"), "/home/me");
        assert_eq!(expand("~other/m"), "/p/configs/~other/m");
        assert_eq!(expand("/abs"), "/abs");
    }

    #[test]
    fn types_are_described_with_their_bounds() {
        let float = |low, high| describe(KeyType::Float { low, high });
        assert_eq!(float(0.0, 0.5), "a number in 0.0..=0.5");
        assert_eq!(float(0.0, f64::INFINITY), "a number, at least 0.0");
        let int = |low, high| describe(KeyType::Int { low, high });
        assert_eq!(int(i64::MIN, 3), "an integer, at most 3");
        assert_eq!(int(i64::MIN, i64::MAX), "an integer");
    }
}
