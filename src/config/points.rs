//! Points that people enqueue: `KEY=VALUE` words or lines of JSON to checked points of a study's
//! space, or every problem of all of them at once.

use std::path::Path;

use serde_json::Value as Json;

use super::problem::{Problem, Problems, Source, hint};
use super::tree::parse_value;
use search::space::{Domain, Parameter, Params, Space, Value};
use search::study::FrozenTrial;

/// A point as it was given; all or some of its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    source: Source,
    /// What could be read of it.
    entries: Vec<Entry>,
    /// Nothing was given.
    empty: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    name: String,
    value: Value,
    /// The value as typed on the command line, where a number can stand for a string.
    raw: Option<String>,
    source: Source,
}

/// One point from the words of a command line, each `KEY=VALUE`; values are as in `--set`.
pub fn point_of_words(words: &[(String, String)], problems: &mut Vec<Problem>) -> Given {
    let mut entries: Vec<Entry> = Vec::new();
    for (name, text) in words {
        let source = Source::Flag(format!("{name}={text}"));
        if entries.iter().any(|e| e.name == *name) {
            problems.push(Problem::new(&source, name, "it a second time", "it once"));
            continue;
        }
        let node = parse_value(text, &source).map_err(|error| format!("{text} ({error})"));
        let value = node.and_then(|n| n.scalar().cloned().ok_or_else(|| n.found()));
        match value {
            Ok(value) => entries.push(Entry {
                name: name.clone(),
                value,
                raw: Some(text.clone()),
                source,
            }),
            Err(found) => {
                let expected = "a number, true, false or a word";
                problems.push(Problem::new(&source, name, found, expected));
            }
        }
    }
    Given {
        source: Source::Flag("the point".into()),
        empty: words.is_empty(),
        entries,
    }
}

/// Problems after which no further line is looked at.
const TOLD: usize = 100;

/// One point a line, each a JSON object; empty lines are skipped, and so is a byte order mark at
/// the beginning. `shown` is the file's name.
pub fn points_of_lines(text: &str, shown: &Path, problems: &mut Vec<Problem>) -> Vec<Given> {
    let mut points = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate() {
        let source = Source::File(shown.to_owned(), Some(index + 1));
        if line.trim().is_empty() {
            continue;
        }
        if problems.len() >= TOLD {
            break;
        }
        let expected = "a JSON object such as {\"optim.lr\": 0.001}";
        match serde_json::from_str(line) {
            Ok(Json::Object(object)) => {
                points.push(point_of_object(&object, source, problems));
            }
            Ok(other) => problems.push(Problem {
                source,
                key: None,
                found: other.to_string(),
                expected: expected.into(),
            }),
            Err(error) => problems.push(Problem {
                source,
                key: None,
                found: format!("no JSON ({error})"),
                expected: expected.into(),
            }),
        }
    }
    points
}

fn point_of_object(
    object: &serde_json::Map<String, Json>,
    source: Source,
    problems: &mut Vec<Problem>,
) -> Given {
    let mut entries = Vec::new();
    for (name, json) in object {
        match Value::from_json(json) {
            Some(value) => entries.push(Entry {
                name: name.clone(),
                value,
                raw: None,
                source: source.clone(),
            }),
            None => {
                let expected = "a number, true, false, null or a string";
                problems.push(Problem::new(&source, name, json.to_string(), expected));
            }
        }
    }
    Given {
        source,
        entries,
        empty: object.is_empty(),
    }
}

/// Checks points against a space. What a point leaves out is chosen when its trial is started.
///
/// # Errors
/// All problems of all points, those found before included.
pub fn check_points(
    space: &Space,
    points: &[Given],
    mut problems: Vec<Problem>,
) -> Result<Vec<Params>, Problems> {
    let checked = points
        .iter()
        .map(|given| point(space, given, &mut problems))
        .collect();
    if problems.is_empty() {
        Ok(checked)
    } else {
        Err(Problems(problems).sorted())
    }
}

fn point(space: &Space, given: &Given, problems: &mut Vec<Problem>) -> Params {
    let before = problems.len();
    let mut params = Params::new();
    let mut known: Vec<(&Entry, &Parameter)> = Vec::new();
    for entry in &given.entries {
        match value(space, entry) {
            Ok((parameter, value)) => {
                params.insert(entry.name.clone(), value);
                known.push((entry, parameter));
            }
            Err(problem) => problems.push(problem),
        }
    }
    if given.empty {
        problems.push(Problem {
            source: given.source.clone(),
            key: None,
            found: "a point without any value".into(),
            expected: "at least one parameter".into(),
        });
    }
    for (entry, parameter) in known {
        problems.extend(beside_others(space, entry, parameter, &params));
    }
    if problems.len() == before {
        problems.extend(space.violations(&params).map(|constraint| {
            let names = constraint.expr.names();
            let value = |n: &&str| params.get(*n).or_else(|| space.fixed.get(*n));
            let values: Vec<String> = names
                .iter()
                .filter_map(|n| value(n).map(|v| format!("{n} = {v}")))
                .collect();
            let found = values.join(", ");
            let expected = constraint.expr.to_string();
            Problem::new(&given.source, "constraints", found, expected)
        }));
    }
    params
}

/// The parameter and its value in the widest domain that the parameter can have.
fn value<'a>(space: &'a Space, entry: &Entry) -> Result<(&'a Parameter, Value), Problem> {
    let problem =
        |found: String, expected: String| Problem::new(&entry.source, &entry.name, found, expected);
    let Some((_, parameter)) = space.find(&entry.name) else {
        let names = || space.parameters.iter().map(|p| p.name.as_str());
        if let Some(fixed) = space.fixed.get(&entry.name) {
            let found = format!("a value for a key that the study fixes at {fixed}");
            return Err(problem(found, "a searched parameter".into()));
        }
        let near = hint(&entry.name, names());
        let all: Vec<&str> = names().collect();
        return Err(problem(
            "a parameter that the study does not search".into(),
            format!("one of {}{near}", all.join(", ")),
        ));
    };
    match taken(&parameter.domain, entry) {
        Some(value) => Ok((parameter, value)),
        None => Err(problem(shown(entry), expected(&parameter.domain))),
    }
}

/// The domain's own value that is meant: a bare word may also name a choice that is a string and
/// reads like a number.
fn taken(domain: &Domain, entry: &Entry) -> Option<Value> {
    if domain.contains(&entry.value) {
        return domain.clamp(&entry.value);
    }
    let raw = entry.raw.as_deref()?;
    let typed = Value::from(raw);
    let null = raw == "null" && domain.contains(&Value::Null);
    match domain {
        Domain::Categorical { .. } if null => Some(Value::Null),
        Domain::Categorical { .. } => domain.clamp(&typed),
        Domain::Float { .. } | Domain::Int { .. } => None,
    }
}

fn shown(entry: &Entry) -> String {
    match &entry.value {
        Value::Str(text) => format!("{text:?}"),
        other @ (Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_)) => {
            format!("{other} ({})", other.type_name())
        }
    }
}

fn expected(domain: &Domain) -> String {
    match domain {
        Domain::Float { .. } => format!("a number in {domain}"),
        Domain::Int { .. } => format!("an integer in {domain}"),
        Domain::Categorical { choices } => {
            let all: Vec<String> = choices.iter().map(choice).collect();
            format!("one of {}", all.join(", "))
        }
    }
}

fn choice(value: &Value) -> String {
    match value.as_str() {
        Some(text) => format!("{text:?}"),
        None => value.to_string(),
    }
}

/// What is wrong with a value beside the point's others: a parameter that does not exist there, or
/// one whose range is narrower there.
fn beside_others(
    space: &Space,
    entry: &Entry,
    parameter: &Parameter,
    params: &Params,
) -> Option<Problem> {
    let given = |name: &str| params.get(name).or_else(|| space.fixed.get(name));
    for condition in &parameter.when {
        let parent = &condition.parent;
        let found = match given(parent) {
            Some(v) if condition.values.contains(v) => continue,
            Some(v) => format!("it beside {parent} = {v}"),
            None => format!("it without {parent}"),
        };
        let values: Vec<String> = condition.values.iter().map(Value::to_string).collect();
        let expected = format!("it only beside {parent} = {}", values.join(" | "));
        return Some(Problem::new(&entry.source, &entry.name, found, expected));
    }
    let domain = space.active_domain(parameter, params)?;
    let value = params.get(&entry.name).filter(|v| !domain.contains(v))?;
    let narrow = parameter.high_when.iter();
    let narrow = narrow.filter(|h| space.all_hold(&h.when, params));
    let mut beside: Vec<String> = narrow
        .flat_map(|h| &h.when)
        .filter_map(|c| Some(format!("{} = {}", c.parent, given(&c.parent)?)))
        .collect();
    beside.dedup();
    Some(Problem::new(
        &entry.source,
        &entry.name,
        value.to_string(),
        format!("{} beside {}", expected(&domain), beside.join(", ")),
    ))
}

/// The space that trials were drawn from, as far as they show it: every parameter that any of them
/// has, with the widest range.
pub fn space_of_trials<'a>(trials: impl IntoIterator<Item = &'a FrozenTrial>) -> Space {
    let mut space = Space::default();
    for (name, domain) in trials.into_iter().flat_map(|t| &t.distributions) {
        match space.parameters.iter_mut().find(|p| p.name == *name) {
            // The later one says of which kind the parameter is now.
            Some(parameter) => parameter.domain = domain.widened(&parameter.domain),
            None => space.parameters.push(Parameter {
                name: name.clone(),
                domain: domain.clone(),
                when: Vec::new(),
                high_when: Vec::new(),
                default: None,
            }),
        }
    }
    space
}

#[cfg(test)]
#[path = "points_tests.rs"]
mod tests;
