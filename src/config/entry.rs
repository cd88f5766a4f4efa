//! One entry of `[space]`: its domain and its default.

use super::document::ENTRY_KEYS;
use super::problem::{Problem, hint};
use super::tree::Node;
use super::values::{Base, value_of};
use crate::{Key, KeyType};
use search::space::{Domain, Value};

/// Reads the domain and the default of an entry; `None` where there are problems.
pub(super) fn read(
    key: &Key,
    node: &Node,
    base: Base,
    problems: &mut Vec<Problem>,
) -> Option<(Domain, Option<Value>)> {
    let before = problems.len();
    let mut entry = Entry {
        key,
        node,
        base,
        problems,
    };
    entry.refuse_unknown();
    let choices = node.get("choices");
    let range = node.get("low").is_some() || node.get("high").is_some();
    let domain = match (choices, range) {
        (Some(_), true) => {
            entry.problem(node, "both choices and a range", "choices, or low and high");
            None
        }
        (Some(choices), false) => entry.choices(choices),
        (None, true) => entry.range(),
        (None, false) => {
            entry.problem(
                node,
                "neither choices nor a range",
                "choices, or low and high",
            );
            None
        }
    };
    let default = domain.as_ref().and_then(|d| entry.default(d));
    let failed = problems.len() > before;
    domain.filter(|_| !failed).map(|d| (d, default))
}

struct Entry<'a> {
    key: &'a Key<'a>,
    node: &'a Node,
    base: Base<'a>,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Entry<'a> {
    fn problem(&mut self, at: &Node, found: impl Into<String>, expected: impl Into<String>) {
        self.problems
            .push(at.problem(self.key.name, found, expected));
    }

    fn problem_with(&mut self, field: &str, node: &Node, expected: impl Into<String>) {
        self.problem(node, format!("{field} = {}", node.found()), expected);
    }

    /// A field, or the entry where it has none of this name.
    fn field(&self, name: &str) -> &'a Node {
        self.node.get(name).unwrap_or(self.node)
    }

    fn refuse_unknown(&mut self) {
        for (name, node) in self.node.table().into_iter().flatten() {
            if !ENTRY_KEYS.contains(&name.as_str()) {
                let near = hint(name, ENTRY_KEYS);
                let expected = format!("one of {}{near}", ENTRY_KEYS.join(", "));
                self.problem(node, format!("unknown {name}"), expected);
            }
        }
    }

    fn choices(&mut self, node: &Node) -> Option<Domain> {
        for field in ["log", "step", "int", "high_when"] {
            if let Some(other) = self.node.get(field) {
                let found = format!("{field} beside choices");
                self.problem(other, found, "it with a range only");
            }
        }
        let Some(nodes) = node.array().filter(|a| !a.is_empty()) else {
            self.problem_with("choices", node, "a list of values");
            return None;
        };
        let mut choices: Vec<Value> = Vec::new();
        for node in nodes {
            match value_of(self.key.ty, node, self.base) {
                Ok(value) if choices.contains(&value) => {
                    let found = format!("the choice {} a second time", node.found());
                    self.problem(node, found, "each choice once");
                }
                Ok(value) => choices.push(value),
                Err(expected) => {
                    self.problem(node, format!("the choice {}", node.found()), expected);
                }
            }
        }
        (!choices.is_empty()).then_some(Domain::Categorical { choices })
    }

    fn range(&mut self) -> Option<Domain> {
        let flag = self.flag("int");
        let log = self.flag("log").unwrap_or(false);
        if self.key.ty.range().is_none() {
            let expected = format!("choices, each {}", self.key.ty);
            self.problem(self.node, "a range", expected);
            return None;
        }
        let integer = matches!(self.key.ty, KeyType::Int { .. });
        if integer && flag == Some(false) {
            let expected = "int = true: the key is an integer";
            self.problem(self.node, "int = false", expected);
            return None;
        }
        let int = integer || flag.unwrap_or(false);
        let (low, high) = (self.number("low", int), self.number("high", int));
        let step = match self.node.get("step") {
            Some(_) => Some(self.number("step", int)?),
            None => None,
        };
        let (low, high) = (low?, high?);
        let before = self.problems.len();
        self.check_bounds(&low, &high);
        self.check_scale((&low, &high), step.as_ref(), log, int);
        let domain = build(&low, &high, step.as_ref(), log, int)?;
        match domain.check() {
            Ok(()) => Some(domain.on_grid()),
            // The checks above name the field at fault; what is left is about the whole range.
            Err(unsound) => {
                if self.problems.len() == before {
                    self.problem(self.node, unsound.found, unsound.expected);
                }
                None
            }
        }
    }

    fn check_bounds(&mut self, low: &Value, high: &Value) {
        let (Some(a), Some(b)) = (low.as_f64(), high.as_f64()) else {
            return;
        };
        if a > b {
            let at = self.field("low");
            let found = format!("low = {low} above high = {high}");
            self.problem(at, found, "low <= high");
        }
        let Some((least, most)) = self.key.ty.range() else {
            return;
        };
        for (name, value, x) in [("low", low, a), ("high", high, b)] {
            if x < least || x > most {
                let at = self.field(name);
                let expected = format!("a range within the key's bounds: {}", self.key.ty);
                self.problem(at, format!("{name} = {value}"), expected);
            }
        }
    }

    fn check_scale(
        &mut self,
        (low, high): (&Value, &Value),
        step: Option<&Value>,
        log: bool,
        int: bool,
    ) {
        if log && low.as_f64().is_some_and(|x| x <= 0.0) {
            let at = self.field("low");
            let found = format!("log = true with low = {low}");
            self.problem(at, found, "low above 0 on a logarithmic scale");
        }
        let Some(step) = step else { return };
        let at = self.field("step");
        if step.as_f64().is_some_and(|x| x <= 0.0) {
            self.problem(at, format!("step = {step}"), "a step above 0");
        } else if log && !(int && *step == Value::Int(1)) {
            let found = format!("step = {step} with log = true");
            self.problem(at, found, "either a step or a logarithmic scale");
        } else if let (Some(step), Some(low), Some(high)) =
            (step.as_f64(), low.as_f64(), high.as_f64())
            && low < high
            && step * (1.0 - 1e-9) > high - low
        {
            let found = format!("step = {step} in a range from {low} to {high}");
            self.problem(at, found, "a step that fits into the range");
        }
    }

    fn number(&mut self, field: &str, int: bool) -> Option<Value> {
        let expected = if int { "an integer" } else { "a finite number" };
        let Some(node) = self.node.get(field) else {
            let other = if field == "low" { "high" } else { "low" };
            let found = format!("{other} without {field}");
            self.problem(self.node, found, format!("{field}, {expected}"));
            return None;
        };
        match (node.scalar(), int) {
            (Some(Value::Int(i)), true) => Some(Value::Int(*i)),
            (Some(value @ (Value::Int(_) | Value::Float(_))), false)
                if value.as_f64().is_some_and(f64::is_finite) =>
            {
                value.as_f64().map(Value::Float)
            }
            (Some(_) | None, _) => {
                self.problem_with(field, node, expected);
                None
            }
        }
    }

    fn flag(&mut self, field: &str) -> Option<bool> {
        let node = self.node.get(field)?;
        let flag = node.scalar().and_then(Value::as_bool);
        if flag.is_none() {
            self.problem_with(field, node, "true or false");
        }
        flag
    }

    fn default(&mut self, domain: &Domain) -> Option<Value> {
        let node = self.node.get("default")?;
        match value_of(self.key.ty, node, self.base) {
            Ok(value) if domain.contains(&value) => domain.clamp(&value),
            // Choices narrowed from outside (a script's HPO_MODEL_CHOICES) may leave the file's
            // default behind; the first choice stands in for it.
            Ok(_) if node.source.is_file() && self.node.overridden() => None,
            Ok(_) => {
                let expected = format!("a default within {domain}");
                self.problem_with("default", node, expected);
                None
            }
            Err(expected) => {
                self.problem_with("default", node, expected);
                None
            }
        }
    }
}

fn build(low: &Value, high: &Value, step: Option<&Value>, log: bool, int: bool) -> Option<Domain> {
    Some(if int {
        Domain::Int {
            low: low.as_i64()?,
            high: high.as_i64()?,
            log,
            step: step.and_then(Value::as_i64).unwrap_or(1),
        }
    } else {
        Domain::Float {
            low: low.as_f64()?,
            high: high.as_f64()?,
            log,
            step: step.and_then(Value::as_f64),
        }
    })
}
