//! The task kind's keys that are not searched.

use std::collections::{BTreeMap, BTreeSet};

use super::document::{Document, STRUCTURED};
use super::problem::{Problem, hint};
use super::tree::find;
use super::values::{Base, list_of, value_of};
use crate::{Key, KeyType, Preset, Role, TaskKind};
use search::space::Params;

/// Refuses sections and keys that neither `tune` nor the task kind reads.
pub(super) fn refuse_unknown(
    document: &Document,
    kind: Option<&'static TaskKind>,
    keys: &[Key],
    problems: &mut Vec<Problem>,
) {
    let mut known = super::settings::names();
    known.extend(keys.iter().map(|k| k.name.to_owned()));
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let mut sections: Vec<&str> = Vec::new();
    let open = kind.is_some_and(|k| k.accepts_any_parameter);
    let params = open.then_some(["params", "train"]);
    for name in names
        .iter()
        .filter(|n| !document.declared.iter().any(|d| d == *n))
        .filter_map(|n| n.split('.').next())
        .chain(STRUCTURED)
        .chain(params.into_iter().flatten())
    {
        if !sections.contains(&name) {
            sections.push(name);
        }
    }
    let own = |section: &str| {
        super::settings::names()
            .iter()
            .any(|n| n.split('.').next() == Some(section) && section != "task")
    };
    let mut reported = BTreeSet::new();
    for (section, source) in &document.sections {
        let plain = document.key(section).is_some();
        if !plain && !sections.contains(&section.as_str()) && kind.is_some() {
            let expected = format!("one of {}", sections.join(", "));
            let near = hint(section, sections.iter().copied());
            let problem = Problem::new(source, section, "an unknown section", expected + &near);
            problems.push(problem);
            reported.insert(section.as_str());
        }
    }
    for (key, node) in &document.keys {
        let section = key.split('.').next().unwrap_or_default();
        if names.contains(&key.as_str())
            || reported.contains(section)
            || (kind.is_none() && !own(section))
        {
            continue;
        }
        let siblings: Vec<&str> = names
            .iter()
            .copied()
            .filter(|n| n.split('.').next() == Some(section))
            .collect();
        let expected = if siblings.is_empty() {
            format!("a key in one of the sections {}", sections.join(", "))
        } else {
            format!("one of {}", siblings.join(", "))
        };
        let near = hint(key, names.iter().copied());
        let problem = Problem::new(&node.source, key, "an unknown key", expected + &near);
        problems.push(problem);
    }
}

/// Settles keys that are both fixed and searched: an override wins over the file, and among
/// overrides the fixed value does. Two in the file are a problem.
pub(super) fn settle(document: &mut Document, problems: &mut Vec<Problem>) {
    let both: Vec<String> = document
        .space
        .iter()
        .filter(|(name, _)| document.key(name).is_some())
        .map(|(name, _)| name.clone())
        .collect();
    for name in both {
        let (Some(fixed), Some(entry)) = (document.key(&name), find(&document.space, &name)) else {
            continue;
        };
        if !fixed.source.is_file() {
            document.space.retain(|(k, _)| *k != name);
        } else if entry.overridden() {
            document.keys.retain(|(k, _)| *k != name);
        } else {
            let found = format!("{} beside an entry in [space]", fixed.found());
            let expected = "either a fixed value or a searched parameter";
            problems.push(Problem::new(&fixed.source, &name, found, expected));
        }
    }
}

/// The lists among the keys.
pub(super) fn lists(
    document: &Document,
    keys: &[Key],
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, Vec<String>> {
    let mut lists = BTreeMap::new();
    for key in keys.iter().filter(|k| k.ty == KeyType::List) {
        match document.key(key.name).map(|node| (node, list_of(node))) {
            Some((_, Ok(list))) => {
                lists.insert(key.name.to_owned(), list);
            }
            Some((node, Err(expected))) => {
                let problem = Problem::new(&node.source, key.name, node.found(), expected);
                problems.push(problem);
            }
            None if key.preset == Preset::Required => problems.push(missing(document, key)),
            None => {}
        }
    }
    lists
}

/// The values of all keys that are not searched, defaults filled in.
pub(super) fn read(
    document: &Document,
    keys: &[Key],
    base: Base,
    problems: &mut Vec<Problem>,
) -> Params {
    let mut fixed = Params::new();
    for key in keys.iter().filter(|k| k.ty != KeyType::List) {
        if find(&document.space, key.name).is_some() {
            continue;
        }
        match (document.key(key.name), key.preset) {
            (Some(node), _) => match value_of(key, node, base) {
                Ok(value) => {
                    fixed.insert(key.name.to_owned(), value);
                }
                Err(expected) => {
                    let problem = Problem::new(&node.source, key.name, node.found(), expected);
                    problems.push(problem);
                }
            },
            (None, Preset::Required) => problems.push(missing(document, key)),
            (None, preset) => {
                fixed.extend(preset.value().map(|value| (key.name.to_owned(), value)));
            }
        }
    }
    fixed
}

fn missing(document: &Document, key: &Key) -> Problem {
    let section = key.name.split('.').next().unwrap_or_default();
    let source = document
        .sections
        .iter()
        .find(|(name, _)| name == section)
        .map_or_else(|| document.whole(), |(_, source)| source.clone());
    let what = super::values::describe(key.ty);
    let place = match key.role {
        Role::Training => format!("in [{section}] or in [space]"),
        Role::Data | Role::Operational => format!("in [{section}]"),
    };
    let expected = format!("{what} {place}: {}", key.help);
    Problem::new(&source, key.name, "nothing", expected)
}
