//! Points that people enqueue: `KEY=VALUE` words or lines of JSON to checked points of a study's
//! space, or every problem of all of them at once.

use std::path::Path;

use serde_json::Value as Json;

use super::conditions::{alternatives, quoted};
use super::problem::{Problem, Problems, Source, hint};
use super::tree::{Item, Node, Table, find, parse_value};
use search::space::{Domain, Expr, Parameter, Params, Space, Value};
use search::study::FrozenTrial;

/// A point as it was given; all or some of its parameters.
#[derive(Debug, Clone)]
pub struct Given {
    source: Source,
    /// What could be read of it: single values.
    entries: Table,
    /// Nothing was given.
    empty: bool,
}

/// One point from the words of a command line, each `KEY=VALUE`; values are as in `--set`.
pub fn point_of_words(words: &[(String, String)], problems: &mut Vec<Problem>) -> Given {
    let mut entries = Table::new();
    for (name, text) in words {
        let source = Source::Flag(format!("{name}={text}"));
        if find(&entries, name).is_some() {
            problems.push(Problem::new(&source, name, "it a second time", "it once"));
            continue;
        }
        let found = match parse_value(text, &source) {
            Ok(node) if node.scalar().is_some() => {
                entries.push((name.clone(), node));
                continue;
            }
            Ok(node) => node.found(),
            Err(error) => format!("{text} ({error})"),
        };
        let expected = "a number, true, false or a word";
        problems.push(Problem::new(&source, name, found, expected));
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
        let found = match serde_json::from_str(line) {
            Ok(Json::Object(object)) => {
                points.push(point_of_object(&object, source, problems));
                continue;
            }
            Ok(other) => other.to_string(),
            Err(error) => format!("no JSON ({error})"),
        };
        let expected = "a JSON object such as {\"optim.lr\": 0.001}";
        problems.push(Problem::without_key(source, found, expected));
    }
    points
}

fn point_of_object(
    object: &serde_json::Map<String, Json>,
    source: Source,
    problems: &mut Vec<Problem>,
) -> Given {
    let mut entries = Table::new();
    for (name, json) in object {
        match Value::from_json(json) {
            Some(value) => {
                entries.push((name.clone(), Node::new(Item::Scalar(value), source.clone())))
            }
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
    Problems(problems).sorted().or(checked)
}

fn point(space: &Space, given: &Given, problems: &mut Vec<Problem>) -> Params {
    let before = problems.len();
    let mut params = Params::new();
    let mut known: Vec<(&Node, &Parameter)> = Vec::new();
    for (name, node) in &given.entries {
        match value(space, name, node) {
            Ok((parameter, value)) => {
                params.insert(name.clone(), value);
                known.push((node, parameter));
            }
            Err((found, expected)) => problems.push(node.problem(name, found, expected)),
        }
    }
    if given.empty {
        let found = "a point without any value";
        let source = given.source.clone();
        problems.push(Problem::without_key(
            source,
            found,
            "at least one parameter",
        ));
    }
    for (node, parameter) in known {
        problems.extend(beside_others(space, node, parameter, &params));
    }
    if problems.len() == before {
        problems.extend(space.violations(&params).map(|constraint| {
            let found = named_values(&constraint.expr, space, &params);
            let expected = constraint.expr.to_string();
            Problem::new(&given.source, "constraints", found, expected)
        }));
    }
    params
}

/// What an expression compares, at a point: `a = 1, b = 2`.
pub(super) fn named_values(expr: &Expr, space: &Space, point: &Params) -> String {
    let value = |name: &str| point.get(name).or_else(|| space.fixed.get(name));
    let names = expr.names().into_iter();
    let values = names.filter_map(|name| Some(format!("{name} = {}", value(name)?)));
    values.collect::<Vec<_>>().join(", ")
}

/// The parameter and its value in the widest domain that the parameter can have; else what was found
/// and expected.
fn value<'a>(
    space: &'a Space,
    name: &str,
    node: &Node,
) -> Result<(&'a Parameter, Value), (String, String)> {
    if let Some((_, parameter)) = space.find(name) {
        let domain = &parameter.domain;
        let value = within(domain, node).ok_or_else(|| (node.found(), expected(domain)))?;
        return Ok((parameter, value));
    }
    if let Some(fixed) = space.fixed.get(name) {
        let found = format!("a value for a key that the study fixes at {fixed}");
        return Err((found, "a searched parameter".into()));
    }
    let all: Vec<&str> = space.parameters.iter().map(|p| p.name.as_str()).collect();
    let near = hint(name, all.iter().copied());
    let found = "a parameter that the study does not search".into();
    Err((found, format!("one of {}{near}", all.join(", "))))
}

/// The domain's own value that is meant: a bare word may also name a choice that is a string and
/// reads like a number.
fn within(domain: &Domain, node: &Node) -> Option<Value> {
    let value = node.scalar()?;
    if domain.contains(value) {
        return domain.clamp(value);
    }
    let raw = node.raw.as_deref()?;
    match domain {
        Domain::Categorical { .. } if raw == "null" && domain.contains(&Value::Null) => {
            Some(Value::Null)
        }
        Domain::Categorical { .. } => domain.clamp(&Value::from(raw)),
        Domain::Float { .. } | Domain::Int { .. } => None,
    }
}

/// What a value of a domain is, in words: `a number in ...`, `one of ...`.
pub fn expected(domain: &Domain) -> String {
    match domain {
        Domain::Float { .. } => format!("a number in {domain}"),
        Domain::Int { .. } => format!("an integer in {domain}"),
        Domain::Categorical { choices } => {
            let all: Vec<String> = choices.iter().map(quoted).collect();
            format!("one of {}", all.join(", "))
        }
    }
}

/// What is wrong with a value beside the point's others: a parameter that does not exist there, or
/// one whose range is narrower there.
fn beside_others(
    space: &Space,
    node: &Node,
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
        let values = alternatives(&condition.values);
        let expected = format!("it only beside {parent} = {values}");
        return Some(node.problem(&parameter.name, found, expected));
    }
    let domain = space.active_domain(parameter, params)?;
    let value = params
        .get(&parameter.name)
        .filter(|v| !domain.contains(v))?;
    let narrow = parameter.high_when.iter();
    let narrow = narrow.filter(|h| space.all_hold(&h.when, params));
    let mut beside: Vec<String> = narrow
        .flat_map(|h| &h.when)
        .filter_map(|c| Some(format!("{} = {}", c.parent, given(&c.parent)?)))
        .collect();
    beside.dedup();
    let expected = format!("{} beside {}", expected(&domain), beside.join(", "));
    Some(node.problem(&parameter.name, value.to_string(), expected))
}

/// The space that trials were drawn from, as far as they show it: every parameter that any of them
/// has, with the widest range.
pub fn space_of_trials<'a>(trials: impl IntoIterator<Item = &'a FrozenTrial>) -> Space {
    let mut space = Space::default();
    for (name, domain) in trials.into_iter().flat_map(|t| &t.distributions) {
        match space.parameters.iter_mut().find(|p| p.name == *name) {
            // The later one says of which kind the parameter is now.
            Some(parameter) => parameter.domain = domain.widened(&parameter.domain),
            None => space.parameters.push(Parameter::new(name, domain.clone())),
        }
    }
    space
}

#[cfg(test)]
#[path = "points_tests.rs"]
mod tests;
