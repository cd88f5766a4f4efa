//! Conditions of parameters and constraints: parents, their values, and the order that puts
//! parents first.

use std::collections::{BTreeMap, BTreeSet};

use super::document::flat_entries;
use super::problem::{Problem, hint};
use super::tree::Node;
use super::values::{Base, value_of};
use crate::{Key, KeyType};
use search::space::{Condition, Domain, HighWhen, Parameter, Params, Value};

/// A searched parameter as conditions see it.
#[derive(Debug)]
pub(super) struct Searched {
    /// `None` where its own entry has problems: nothing more is said about it then.
    pub domain: Option<Domain>,
    /// Whether an override changed the entry; conditions in the file may then name values that
    /// are gone.
    pub overridden: bool,
}

/// What conditions and constraints may name.
pub(super) struct Scope<'a> {
    pub keys: &'a [Key<'a>],
    pub searched: BTreeMap<String, Searched>,
    pub fixed: &'a Params,
    /// Fixed keys whose value comes from an override.
    pub overridden: BTreeSet<String>,
    pub base: Base<'a>,
}

/// What conditions are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// `when` of a parameter: one that can never hold makes a dead knob.
    Activates,
    /// Conditional bounds and constraints.
    Narrows,
}

impl Scope<'_> {
    /// The key called `name`, if conditions and constraints may name it.
    pub fn key(&self, name: &str) -> Option<&Key<'_>> {
        self.keys
            .iter()
            .find(|k| k.name == name && !k.ty.is_list() && k.ty != KeyType::Path)
    }

    /// ` (did you mean X?)` among all keys.
    pub fn hint(&self, name: &str) -> String {
        hint(name, self.keys.iter().map(|k| k.name))
    }

    /// Reads a table of conditions: parent = value or list of values.
    pub fn conditions(
        &self,
        owner: &str,
        node: &Node,
        purpose: Purpose,
        problems: &mut Vec<Problem>,
    ) -> Vec<Condition> {
        let Some(entries) = flat_entries(node) else {
            let found = format!("a condition that is {}", node.found());
            let expected = "a table such as { \"model.name\" = [\"minilm\"] }";
            problems.push(node.problem(owner, found, expected));
            return Vec::new();
        };
        let read = |(parent, node): &(String, Node)| {
            self.condition(owner, parent, node, purpose, problems)
        };
        entries.iter().filter_map(read).collect()
    }

    fn condition(
        &self,
        owner: &str,
        parent: &str,
        node: &Node,
        purpose: Purpose,
        problems: &mut Vec<Problem>,
    ) -> Option<Condition> {
        let Some(key) = self.key(parent) else {
            let found = format!("a condition on {parent}, which the task does not read");
            let expected = format!("a parameter or a fixed training key{}", self.hint(parent));
            problems.push(node.problem(owner, found, expected));
            return None;
        };
        let searched = self.searched.get(parent);
        let continuous = match searched {
            Some(s) => matches!(s.domain, Some(Domain::Float { .. })),
            None => match (key.ty, self.fixed.get(parent)) {
                (KeyType::Any, Some(value)) => matches!(value, Value::Float(_)),
                (ty, _) => matches!(ty, KeyType::Float { .. }),
            },
        };
        if continuous {
            let found = format!("a condition on {parent}, a float");
            let expected = "a parent with choices, a boolean or an integer";
            problems.push(node.problem(owner, found, expected));
            return None;
        }
        let nodes = node.array().unwrap_or(std::slice::from_ref(node));
        let before = problems.len();
        let mut values = Vec::new();
        for node in nodes {
            match self.parent_value(owner, key, node) {
                Ok(value) => values.push(value),
                Err(problem) => problems.push(problem),
            }
        }
        if nodes.is_empty() {
            let found = format!("a condition on {parent} without values");
            problems.push(node.problem(owner, found, "one value or more"));
        }
        if problems.len() > before {
            return None;
        }
        if purpose == Purpose::Activates && searched.is_none() {
            problems.extend(self.never(owner, parent, node, &values));
        }
        Some(Condition {
            parent: parent.to_owned(),
            values,
        })
    }

    fn parent_value(&self, owner: &str, key: &Key, node: &Node) -> Result<Value, Problem> {
        let expected = match value_of(key.ty, node, self.base) {
            Ok(value) => match self.searched.get(key.name) {
                Some(Searched {
                    domain: Some(domain),
                    overridden: false,
                }) if !domain.contains(&value) => domain.to_string(),
                Some(_) | None => return Ok(value),
            },
            Err(expected) => expected,
        };
        let found = format!("a condition on {} = {}", key.name, node.found());
        let expected = format!("a value that {} can have: {expected}", key.name);
        Err(node.problem(owner, found, expected))
    }

    /// The problem of a parameter that exists only beside values which a fixed parent never has.
    fn never(&self, owner: &str, parent: &str, node: &Node, values: &[Value]) -> Option<Problem> {
        let fixed = self.fixed.get(parent);
        if self.overridden.contains(parent) || fixed.is_some_and(|v| values.contains(v)) {
            return None;
        }
        let found = match fixed {
            Some(value) => format!("a parameter that never exists: {parent} is fixed at {value}"),
            None => format!("a parameter that never exists: {parent} has no value"),
        };
        let expected = "a condition that can hold, or no such parameter";
        Some(node.problem(owner, found, expected))
    }

    /// Reads `high_when = [{ if = {...}, high = ... }]`.
    pub fn high_when(
        &self,
        owner: &str,
        node: &Node,
        domain: &Domain,
        problems: &mut Vec<Problem>,
    ) -> Vec<HighWhen> {
        let Some(nodes) = node.array() else {
            let found = format!("high_when = {}", node.found());
            let expected = "a list such as [{ if = { \"model.name\" = [\"large\"] }, high = 384 }]";
            problems.push(node.problem(owner, found, expected));
            return Vec::new();
        };
        let mut bounds = Vec::new();
        for node in nodes {
            let unknown = node.table().into_iter().flatten();
            for (name, entry) in unknown.filter(|(k, _)| k != "if" && k != "high") {
                let found = format!("unknown {name} in high_when");
                problems.push(entry.problem(owner, found, "if and high"));
            }
            let (Some(condition), Some(high)) = (node.get("if"), node.get("high")) else {
                let found = "a conditional bound without if or high";
                problems.push(node.problem(owner, found, "if and high"));
                continue;
            };
            let when = self.conditions(owner, condition, Purpose::Narrows, problems);
            match conditional_high(high, domain) {
                Ok(Some(high)) => bounds.push(HighWhen { when, high }),
                Ok(None) => {}
                Err(expected) => {
                    let found = format!("high = {} in high_when", high.found());
                    problems.push(high.problem(owner, found, expected));
                }
            }
        }
        bounds
    }
}

/// The bound; `None` where the domain has none. The error says what was expected.
fn conditional_high(node: &Node, domain: &Domain) -> Result<Option<f64>, String> {
    let (low, high, int) = match domain {
        Domain::Float { low, high, .. } => (*low, *high, false),
        Domain::Int { low, high, .. } => (*low as f64, *high as f64, true),
        Domain::Categorical { .. } => return Ok(None),
    };
    let value = match node.scalar() {
        Some(Value::Float(_)) if int => None,
        value => value.and_then(Value::as_f64),
    };
    // The bound itself may stand above a range that was narrowed from outside or moved to its grid.
    match value.filter(|x| *x >= low && x.is_finite()) {
        Some(x) => Ok(Some(x.min(high))),
        None => {
            let what = if int { "an integer" } else { "a number" };
            Err(format!("{what} of at least low = {low}"))
        }
    }
}

/// Parents before their children, else in the given order; `Err` names the parameters of a cycle.
pub(super) fn parents_first(parameters: Vec<Parameter>) -> Result<Vec<Parameter>, Vec<String>> {
    let mut waiting = parameters;
    let mut sorted: Vec<Parameter> = Vec::new();
    while !waiting.is_empty() {
        let ready = waiting.iter().position(|p| {
            parents(p).all(|parent| parent == p.name || !waiting.iter().any(|w| w.name == parent))
                && !parents(p).any(|parent| parent == p.name)
        });
        match ready {
            Some(index) => sorted.push(waiting.remove(index)),
            None => return Err(cycle(&waiting)),
        }
    }
    Ok(sorted)
}

/// The conditions of a parameter, those of its bounds included.
pub(super) fn conditions_of(parameter: &Parameter) -> impl Iterator<Item = &Condition> {
    let bounds = parameter.high_when.iter().flat_map(|h| &h.when);
    parameter.when.iter().chain(bounds)
}

/// The parameters that these conditions are about.
pub(super) fn parents(parameter: &Parameter) -> impl Iterator<Item = &str> {
    conditions_of(parameter).map(|c| c.parent.as_str())
}

/// `minilm | large`.
pub(super) fn alternatives(values: &[Value]) -> String {
    let values: Vec<String> = values.iter().map(Value::to_string).collect();
    values.join(" | ")
}

/// A value as it stands in a file.
pub(super) fn quoted(value: &Value) -> String {
    match value.as_str() {
        Some(text) => format!("{text:?}"),
        None => value.to_string(),
    }
}

/// Follows parents that wait until one comes up again.
fn cycle(waiting: &[Parameter]) -> Vec<String> {
    let mut path: Vec<&str> = Vec::new();
    let mut next = waiting.first();
    while let Some(parameter) = next {
        if let Some(start) = path.iter().position(|n| *n == parameter.name) {
            return path[start..].iter().map(|n| (*n).to_owned()).collect();
        }
        path.push(&parameter.name);
        next = parents(parameter).find_map(|name| waiting.iter().find(|w| w.name == name));
    }
    path.iter().map(|n| (*n).to_owned()).collect()
}
