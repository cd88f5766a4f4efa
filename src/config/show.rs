//! A configuration as it was resolved, each value with where it comes from. As text it is a task file of its own, that
//! resolves to the same study wherever it lies.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};
use toml_edit::{Array, InlineTable, Value as Toml};

use super::document::Document;
use super::keys::SETTINGS;
use super::problem::Source;
use super::tree::{Item, Node};
use super::values::{Base, value_of};
use crate::{KeyType, StudySpec};
use search::space::{Params, Value};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    /// Nobody gave one.
    Default,
    /// Nobody gave one, and this kind of task has a default of its own.
    OfKind(String),
    /// It was written here; of a table there may be several places.
    Written(Vec<Source>),
}

/// A key with its value.
#[derive(Debug, Clone)]
pub struct Shown {
    section: String,
    /// Below the section.
    name: String,
    value: Toml,
    origin: Origin,
}

/// Everything that a study was resolved to, in the order of the documentation. Keys without a value are left out.
pub(super) fn show(document: &Document, spec: &StudySpec) -> Vec<Shown> {
    let mut all = Vec::new();
    let origin = |key: &str| origin(document, spec, key);
    for key in SETTINGS {
        let value = match document.key(key.name) {
            Some(node) if key.ty.is_list() => Some(written(node)),
            Some(_) if key.ty == KeyType::Path => resolved(spec, key.name).map(Toml::from),
            Some(node) => value_of(key.ty, node, Base::nowhere())
                .ok()
                .map(|v| toml(&v)),
            None => (resolved(spec, key.name).map(Toml::from))
                .or_else(|| key.preset.value().map(|v| toml(&v))),
        };
        let (section, name) = key.name.split_once('.').unwrap_or((key.name, ""));
        all.extend(value.map(|value| shown(section, name, value, origin(key.name))));
    }
    let options = [
        ("sampler", &spec.operation.sampler.options),
        ("pruner", &spec.operation.pruner.options),
    ];
    for (section, options) in options {
        for (name, value) in options {
            let origin = origin(&format!("{section}.{name}"));
            all.push(shown(section, name, toml(value), origin));
        }
    }
    all.extend(of_the_task(document, spec));
    for (name, path) in &spec.models {
        let node = super::tree::find(&document.models, name);
        let path = path.to_string_lossy().into_owned();
        all.push(shown(
            "models",
            name,
            path.into(),
            node.map_or(Origin::Default, places),
        ));
    }
    for (name, node) in &document.space {
        all.push(shown("space", name, written(node), places(node)));
    }
    for node in &document.constraints {
        all.push(shown("constraints", "", written(node), places(node)));
    }
    for point in &spec.points {
        let sources = document.points.iter().map(|node| node.source.clone());
        let origin = Origin::Written(sources.take(1).collect());
        all.push(shown("points", "", table(point).into(), origin));
    }
    all
}

fn shown(section: &str, name: &str, value: Toml, origin: Origin) -> Shown {
    Shown {
        section: section.to_owned(),
        name: name.to_owned(),
        value,
        origin,
    }
}

/// What the task kind reads, and what it passes on.
fn of_the_task(document: &Document, spec: &StudySpec) -> Vec<Shown> {
    let declared = |name: &str| document.declared.iter().any(|d| d == name);
    let lists = spec.lists.keys().filter_map(|name| {
        let node = document.key(name)?;
        Some((name, written(node)))
    });
    let single = spec.fixed.iter().map(|(name, value)| (name, toml(value)));
    let mut all: Vec<Shown> = single
        .chain(lists)
        .map(|(name, value)| {
            let (section, below) = match name.split_once('.') {
                Some(parts) if parts.0 == "train" || !declared(name) => parts,
                Some(_) | None => ("params", name.as_str()),
            };
            shown(section, below, value, origin(document, spec, name))
        })
        .collect();
    all.sort_by(|a, b| (&a.section, &a.name).cmp(&(&b.section, &b.name)));
    all
}

/// What a key of `tune`'s own was resolved to that nobody gave a value and that has no default of its own, or that is a path.
fn resolved(spec: &StudySpec, key: &str) -> Option<String> {
    match key {
        "study.name" => Some(spec.study.clone()),
        "objective.metric" if spec.further.is_empty() => Some(spec.objective.metric.clone()),
        "objective.direction" if spec.further.is_empty() => {
            Some(spec.objective.direction.to_string())
        }
        _ => {
            let dir = spec.operation.track.get(key.strip_prefix("track.")?)?;
            Some(dir.to_string_lossy().into_owned())
        }
    }
}

fn origin(document: &Document, spec: &StudySpec, key: &str) -> Origin {
    match document.key(key) {
        None => Origin::Default,
        // A kind's own defaults are read as if they stood in the file, on no line of it.
        Some(node) if matches!(node.source, Source::File(_, None)) => {
            Origin::OfKind(spec.kind.clone())
        }
        Some(node) => places(node),
    }
}

/// Where a value was written, and what of it is from elsewhere.
fn places(node: &Node) -> Origin {
    fn add(node: &Node, sources: &mut Vec<Source>) {
        if !node.source.is_file() && !sources.contains(&node.source) {
            sources.push(node.source.clone());
        }
        match &node.item {
            Item::Scalar(_) => {}
            Item::Array(nodes) => nodes.iter().for_each(|node| add(node, sources)),
            Item::Table(table) => table.iter().for_each(|(_, node)| add(node, sources)),
        }
    }
    let mut sources = vec![node.source.clone()];
    add(node, &mut sources);
    Origin::Written(sources)
}

fn toml(value: &Value) -> Toml {
    match value {
        // TOML has no word for it; no key's value is null.
        Value::Null => "".into(),
        Value::Bool(b) => (*b).into(),
        Value::Int(i) => (*i).into(),
        Value::Float(x) => (*x).into(),
        Value::Str(text) => text.as_str().into(),
    }
}

fn written(node: &Node) -> Toml {
    match &node.item {
        Item::Scalar(value) => toml(value),
        Item::Array(nodes) => nodes.iter().map(written).collect::<Array>().into(),
        Item::Table(entries) => {
            let entries = entries
                .iter()
                .map(|(name, node)| (name.as_str(), written(node)));
            entries.collect::<InlineTable>().into()
        }
    }
}

fn table(point: &Params) -> InlineTable {
    point
        .iter()
        .map(|(name, value)| (name.as_str(), toml(value)))
        .collect()
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::OfKind(kind) => write!(f, "default of {kind}"),
            Origin::Written(sources) => {
                let sources: Vec<String> = sources.iter().map(ToString::to_string).collect();
                f.write_str(&sources.join(", "))
            }
        }
    }
}

/// The widest value beside which a comment stands on its line.
const BESIDE: usize = 48;

/// As a task file, with a comment behind each value that says where it comes from.
pub fn as_toml(all: &[Shown]) -> String {
    let mut sections: Vec<&str> = Vec::new();
    for shown in all {
        if !sections.contains(&shown.section.as_str()) {
            sections.push(&shown.section);
        }
    }
    let mut text = String::new();
    for section in sections {
        let members = all.iter().filter(|shown| shown.section == section);
        let tables = section == "constraints" || section == "points";
        if !tables {
            let _ = writeln!(text, "[{section}]");
        }
        for shown in members {
            let lines = match (&shown.value, tables) {
                (Toml::InlineTable(entries), true) => {
                    let entries = entries.iter().map(|(name, value)| line(name, value));
                    entries.collect::<Vec<_>>().join("\n")
                }
                (value, _) => line(&shown.name, value),
            };
            if tables {
                let _ = writeln!(text, "[[{section}]]    # {}\n{lines}", shown.origin);
            } else if lines.chars().count() > BESIDE {
                let _ = writeln!(text, "# {}\n{lines}", shown.origin);
            } else {
                let _ = writeln!(text, "{lines:BESIDE$}  # {}", shown.origin);
            }
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// A name with dots is one key: sections in sections mean the same.
fn line(name: &str, value: &Toml) -> String {
    format!(
        "{} = {}",
        toml_edit::Key::new(name).display_repr(),
        value.to_string().trim()
    )
}

/// For scripts: a list of keys, each with `key`, `value`, `from` (`default`, `kind`, `file`, `flag` or `environment`) and
/// `where`, for people.
pub fn as_json(all: &[Shown]) -> Json {
    let from = |origin: &Origin| match origin {
        Origin::Default => "default",
        Origin::OfKind(_) => "kind",
        Origin::Written(sources) => match sources.last() {
            Some(Source::Flag(_)) => "flag",
            Some(Source::Environment(_)) => "environment",
            Some(Source::File(_, _)) | None => "file",
        },
    };
    let one = |shown: &Shown| {
        let dot = if shown.name.is_empty() { "" } else { "." };
        json!({
            "key": format!("{}{dot}{}", shown.section, shown.name),
            "value": json_of(&shown.value),
            "from": from(&shown.origin),
            "where": shown.origin.to_string(),
        })
    };
    all.iter().map(one).collect()
}

fn json_of(value: &Toml) -> Json {
    match value {
        Toml::String(text) => json!(text.value()),
        Toml::Integer(i) => json!(i.value()),
        Toml::Float(x) => messages::json_number(*x.value()),
        Toml::Boolean(b) => json!(b.value()),
        Toml::Datetime(time) => json!(time.value().to_string()),
        Toml::Array(array) => array.iter().map(json_of).collect(),
        Toml::InlineTable(table) => {
            let entries = table
                .iter()
                .map(|(name, value)| (name.to_owned(), json_of(value)));
            Json::Object(entries.collect())
        }
    }
}
