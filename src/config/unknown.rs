//! Sections and keys that nobody reads are refused: no dead knobs.

use super::document::{Document, STRUCTURED};
use super::keys::{Algorithm, PRUNERS, SAMPLERS};
use super::problem::{Problem, hint};
use crate::{Key, TaskKind};

/// Refuses sections and keys that neither `tune` nor the task kind reads.
pub(super) fn refuse_unknown(
    document: &Document,
    kind: Option<&'static TaskKind>,
    keys: &[Key],
    problems: &mut Vec<Problem>,
) {
    let own = super::keys::names();
    let declared = |name: &str| document.declared.iter().any(|d| d == name);
    let names = own.iter().map(String::as_str);
    let names: Vec<&str> = names.chain(keys.iter().map(|k| k.name)).collect();
    let open = kind.is_some_and(|k| k.accepts_any_parameter);
    let params = open.then_some(["params", "train"]);
    let mut sections: Vec<&str> = Vec::new();
    for section in (names.iter().filter(|name| !declared(name)))
        .map(|name| section_of(name))
        .chain(STRUCTURED)
        .chain(params.into_iter().flatten())
    {
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    let mut reported = Vec::new();
    for (section, source) in &document.sections {
        let plain = document.key(section).is_some();
        if !plain && !sections.contains(&section.as_str()) && kind.is_some() {
            let near = hint(section, sections.iter().copied());
            let expected = format!("one of {}{near}", sections.join(", "));
            let found = "an unknown section";
            problems.push(Problem::new(source, section, found, expected));
            reported.push(section.as_str());
        }
    }
    // Without a kind it is not known what a task's sections may hold.
    let judged = |section: &str| {
        kind.is_some() || (section != "task" && own.iter().any(|n| section_of(n) == section))
    };
    for (key, node) in &document.keys {
        let section = section_of(key);
        if names.contains(&key.as_str()) || reported.contains(&section) || !judged(section) {
            continue;
        }
        let siblings = names.iter().filter(|name| section_of(name) == section);
        let siblings: Vec<&str> = siblings.copied().collect();
        let options = options_of(document, section);
        let near = match &options {
            Some(options) => hint(key, options.iter().map(String::as_str)),
            None => hint(key, names.iter().copied()),
        };
        let expected = match siblings.as_slice() {
            [] => format!("a key in one of the sections {}{near}", sections.join(", ")),
            siblings => format!("one of {}{near}", siblings.join(", ")),
        };
        problems.push(node.problem(key, "an unknown key", expected));
    }
}

/// The options of the sampler or pruner that the configuration names; `None`: the section is another one, or none is named.
fn options_of(document: &Document, section: &str) -> Option<Vec<String>> {
    let algorithms: &[Algorithm] = match section {
        "sampler" => &SAMPLERS,
        "pruner" => &PRUNERS,
        _ => return None,
    };
    let kind = document.key(&format!("{section}.kind"))?;
    let kind = kind.scalar()?.as_str()?;
    let algorithm = algorithms.iter().find(|a| a.name == kind)?;
    let options = algorithm.options.iter();
    Some(options.map(|o| format!("{section}.{}", o.name)).collect())
}

fn section_of(key: &str) -> &str {
    key.split('.').next().unwrap_or_default()
}
