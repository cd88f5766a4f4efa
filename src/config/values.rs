//! Values of keys: read from the document by what their entries say, checked, defaults filled in.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::document::Document;
use super::problem::{Problem, hint};
use super::tree::Node;
use crate::{Key, KeyType, Preset, Role};
use device::DevicePolicy;
use search::space::{Params, Value};

/// What relative paths and `~` start at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Base<'a> {
    /// The configuration's directory, absolute.
    pub dir: &'a Path,
    /// The home directory, where known.
    pub home: Option<&'a Path>,
}

impl Base<'_> {
    /// For keys that are no paths.
    pub fn nowhere() -> Base<'static> {
        let (dir, home) = (Path::new("/"), None);
        Base { dir, home }
    }

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

/// The value of a key; the error says what was expected. Times, sizes, shares and devices are
/// checked and stay as they are written.
pub(super) fn value_of(ty: KeyType, node: &Node, base: Base) -> Result<Value, String> {
    let (value, text) = (node.scalar(), node.text());
    let float = |low, high| {
        let number = value.and_then(Value::as_f64).filter(|x| x.is_finite());
        number
            .filter(|x| (low..=high).contains(x))
            .map(Value::Float)
    };
    let int = |low, high| match value {
        Some(Value::Int(i)) if (low..=high).contains(i) => Some(Value::Int(*i)),
        Some(_) | None => None,
    };
    let text_if = |test: &dyn Fn(&str) -> bool| text.filter(|t| test(t)).map(Value::from);
    let found = match ty {
        KeyType::Float { low, high } => float(low, high),
        KeyType::Int { low, high } => int(low, high),
        KeyType::IntOrAuto { low, high } => text_if(&|t| t == "auto").or_else(|| int(low, high)),
        KeyType::Bool => value.and_then(Value::as_bool).map(Value::Bool),
        KeyType::Text => text_if(&|_| true),
        KeyType::Choice(words) => text_if(&|t| words.contains(&t)),
        KeyType::Any => value.cloned(),
        // Read elsewhere: they are no single values.
        KeyType::List | KeyType::Metrics | KeyType::Grid { .. } => None,
        KeyType::Path => text
            .filter(|t| !t.is_empty())
            .map(|t| base.expand(t).to_string_lossy().as_ref().into()),
        KeyType::Duration { least, words } => {
            text_if(&|t| words.contains(&t) || duration(t).is_some_and(|d| d >= least))
        }
        KeyType::DurationOrAuto => match value {
            Some(Value::Int(0)) => Some("0s".into()),
            Some(_) | None => text_if(&|t| t == "auto" || duration(t).is_some()),
        },
        KeyType::Size => {
            let size_of = |value: Value| size(&value).map(|_| value);
            value
                .cloned()
                .and_then(size_of)
                .or_else(|| size_of(text?.into()))
        }
        KeyType::Share => value.filter(|v| share(v).is_some()).cloned(),
        KeyType::Device => text_if(&|t| t.parse::<DevicePolicy>().is_ok()),
    };
    found.ok_or_else(|| match (ty, text) {
        (KeyType::Choice(words), Some(t)) => format!("{ty}{}", hint(t, words.iter().copied())),
        (ty @ (KeyType::Duration { .. } | KeyType::DurationOrAuto), Some(t))
            if humantime::parse_duration(t).is_ok_and(|time| time > CENTURY) =>
        {
            format!("{ty}, and no more than 100 years")
        }
        (ty, _) => ty.to_string(),
    })
}

/// The strings of a list; the error says what was expected.
fn list_of(ty: KeyType, node: &Node) -> Result<Vec<String>, String> {
    if let KeyType::Grid { low, high } = ty {
        let number = |node: &Node| {
            let number = node.scalar()?.as_f64()?;
            let inside = (low..=high).contains(&number);
            inside.then(|| Value::Float(number).to_string())
        };
        let numbers: Option<Vec<String>> = match node.array() {
            Some(nodes) => nodes.iter().map(number).collect(),
            None => number(node).map(|one| vec![one]),
        };
        let some = numbers.filter(|numbers| !numbers.is_empty());
        return some.ok_or_else(|| ty.to_string());
    }
    let text = |node: &Node| node.scalar()?.as_str().map(str::to_owned);
    let list = match (ty, node.array()) {
        (KeyType::Metrics, Some([])) => None,
        (KeyType::Metrics, None) => text(node).map(|one| vec![one]),
        (_, Some(nodes)) => nodes.iter().map(text).collect(),
        (_, None) => None,
    };
    list.ok_or_else(|| ty.to_string())
}

/// The values of keys, as a configuration and their defaults have them.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// Single values, by dotted name.
    pub single: Params,
    /// Lists of strings, by dotted name.
    pub lists: BTreeMap<String, Vec<String>>,
}

impl Values {
    /// Reads keys that are not searched: their values in the document, else their defaults. A key
    /// with a problem has no value.
    pub fn read<'a>(
        keys: impl IntoIterator<Item = &'a Key<'a>>,
        document: &Document,
        base: Base,
        problems: &mut Vec<Problem>,
    ) -> Values {
        let mut values = Values::default();
        for key in keys {
            match document.key(key.name) {
                Some(node) => {
                    if let Err(expected) = values.take(key, node, base) {
                        problems.push(node.problem(key.name, node.found(), expected));
                    }
                }
                None if key.preset == Preset::Required => problems.push(missing(document, key)),
                None => values.single.extend(default_of(key)),
            }
        }
        values
    }

    fn take(&mut self, key: &Key, node: &Node, base: Base) -> Result<(), String> {
        let name = key.name.to_owned();
        if key.ty.is_list() {
            self.lists.insert(name, list_of(key.ty, node)?);
        } else {
            self.single.insert(name, value_of(key.ty, node, base)?);
        }
        Ok(())
    }
}

/// The defaults of keys that have one.
pub(super) fn defaults(keys: &[Key]) -> Params {
    keys.iter().filter_map(default_of).collect()
}

fn default_of(key: &Key) -> Option<(String, Value)> {
    Some((key.name.to_owned(), key.preset.value()?))
}

fn missing(document: &Document, key: &Key) -> Problem {
    let section = key.name.split('.').next().unwrap_or_default();
    let source = document.source_of_section(section);
    let place = match key.role {
        Role::Training => format!("in [{section}] or in [space]"),
        Role::Data | Role::Operational => format!("in [{section}]"),
    };
    let expected = format!("{} {place}: {}", key.ty, key.help);
    Problem::new(&source, key.name, "nothing", expected)
}

/// A hundred years: of a longer time the end may be later than a clock can tell.
pub const CENTURY: Duration = Duration::from_secs(100 * 31_557_600);

/// `10m`, `7h30m`; no more than [`CENTURY`].
pub fn duration(text: &str) -> Option<Duration> {
    let time = humantime::parse_duration(text).ok()?;
    (time <= CENTURY).then_some(time)
}

/// The bytes of a size: `64MiB`, `4 GB`, 1000.
pub(super) fn size(value: &Value) -> Option<u64> {
    let text = match value {
        Value::Int(bytes) if *bytes > 0 => return Some(*bytes as u64),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => return None,
        Value::Str(text) => text,
    };
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let factor = match unit.trim() {
        "" | "B" => 1.0,
        "KB" | "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * factor;
    (1.0..1e18).contains(&bytes).then_some(bytes as u64)
}

/// A part of the whole, above 0 and up to 1: `80%`, 0.8.
pub(super) fn share(value: &Value) -> Option<f64> {
    let percent = |text: &str| text.strip_suffix('%')?.trim().parse::<f64>().ok();
    let part = (value.as_f64()).or_else(|| percent(value.as_str()?).map(|x| x / 100.0));
    part.filter(|x| *x > 0.0 && *x <= 1.0)
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
    fn the_end_of_every_time_can_be_told() {
        assert_eq!(duration("7h30m"), Some(Duration::from_secs(27_000)));
        assert_eq!(duration("100y"), Some(CENTURY));
        for long in ["101y", "584000000000y", "18446744073709551615s"] {
            assert_eq!(duration(long), None, "{long}");
        }
    }

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        let size = |text: &str| size(&text.into());
        assert_eq!(size("64MiB"), Some(64 << 20));
        assert_eq!(size("1.5 GB"), Some(1_500_000_000));
        assert_eq!(size("1000"), Some(1000));
        assert_eq!(size("0B"), None);
        assert_eq!(size("5 apples"), None);
        assert_eq!(size("MiB"), None);
    }
}
