//! `[space]`, `[[constraints]]` and `[[points]]` to a [`Space`] and the points tried first.

use std::collections::{BTreeMap, BTreeSet};

use super::conditions::{Purpose, Scope, Searched, parents_first};
use super::document::{Document, flat_entries};
use super::points::named_values;
use super::problem::{Problem, hint};
use super::tree::Node;
use super::values::{Base, value_of};
use crate::{Key, KeyType, Role, TaskKind};
use search::space::{Constraint, Domain, Expr, Parameter, Params, Space, Value};

/// Reads what is searched; `fixed` are all other keys of the task kind.
pub(super) fn read(
    document: &Document,
    kind: &'static TaskKind,
    keys: &[Key],
    fixed: &Params,
    base: Base,
    problems: &mut Vec<Problem>,
) -> (Space, Vec<Params>) {
    let before = problems.len();
    let mut drafts = Vec::new();
    let mut searched = BTreeMap::new();
    for (name, node) in &document.space {
        let draft = draft(kind, keys, name, node, base, problems);
        let entry = Searched {
            domain: draft.as_ref().map(|d| d.domain.clone()),
            overridden: node.overridden(),
        };
        searched.insert(name.clone(), entry);
        drafts.extend(draft.map(|d| (d, node)));
    }
    let outside = document.keys.iter().filter(|(_, n)| !n.source.is_file());
    let scope = Scope {
        keys,
        searched,
        fixed,
        overridden: outside.map(|(k, _)| k.clone()).collect::<BTreeSet<_>>(),
        base,
    };
    let parameters = conditional(drafts, document, &scope, problems);
    let (constraints, nodes): (Vec<_>, Vec<_>) =
        constraints(document, &scope, problems).into_iter().unzip();
    let parameters = with_stand_ins(parameters, kind, &scope);
    let space = Space {
        parameters,
        constraints,
        fixed: fixed.clone(),
    };
    let points = points(document, &scope, problems);
    if problems.len() == before {
        refuse_violations(&space, &nodes, &points, document, problems);
    }
    (space, points.into_iter().map(|(p, _)| p).collect())
}

fn draft(
    kind: &'static TaskKind,
    keys: &[Key],
    name: &str,
    node: &Node,
    base: Base,
    problems: &mut Vec<Problem>,
) -> Option<Parameter> {
    let Some(key) = keys.iter().find(|k| k.name == name) else {
        let readable = keys.iter().filter(|k| k.role == Role::Training);
        let names: Vec<&str> = readable.map(|k| k.name).collect();
        let near = hint(name, names.iter().copied());
        let found = format!("a parameter that task kind {} does not read", kind.name);
        let expected = format!("one of {}{near}", names.join(", "));
        problems.push(node.problem(name, found, expected));
        return None;
    };
    if key.role != Role::Training {
        let section = name.split('.').next().unwrap_or_default();
        let what = match key.role {
            Role::Training => "training",
            Role::Data => "data",
            Role::Operational => "operational",
        };
        let found = format!("a searched {what} key");
        let expected = format!("a fixed value in [{section}]");
        problems.push(node.problem(name, found, expected));
        return None;
    }
    if node.table().is_none() {
        let expected = "a table such as { low = 0.0, high = 0.5 } or { choices = [8, 16] }";
        problems.push(node.problem(name, node.found(), expected));
        return None;
    }
    let (domain, default) = super::entry::read(key, node, base, problems)?;
    Some(Parameter {
        default,
        ..Parameter::new(name, domain)
    })
}

/// Adds a parameter without a value for each entry that is wrong, where a program's placeholders name what
/// is searched: that there is such a parameter is known all the same. A study with one never starts.
fn with_stand_ins(
    mut parameters: Vec<Parameter>,
    kind: &TaskKind,
    scope: &Scope,
) -> Vec<Parameter> {
    if kind.accepts_any_parameter {
        let known: BTreeSet<String> = parameters.iter().map(|p| p.name.clone()).collect();
        let lacking = scope.searched.keys().filter(|name| !known.contains(*name));
        let nothing = || Domain::Categorical {
            choices: Vec::new(),
        };
        parameters.extend(lacking.map(|name| Parameter::new(name, nothing())));
    }
    parameters
}

/// Adds the conditions and sorts parents first.
fn conditional(
    drafts: Vec<(Parameter, &Node)>,
    document: &Document,
    scope: &Scope,
    problems: &mut Vec<Problem>,
) -> Vec<Parameter> {
    let mut parameters = Vec::new();
    for (mut parameter, node) in drafts {
        let name = parameter.name.clone();
        if let Some(when) = node.get("when") {
            parameter.when = scope.conditions(&name, when, Purpose::Activates, problems);
        }
        if let Some(bounds) = node.get("high_when") {
            parameter.high_when = scope.high_when(&name, bounds, &parameter.domain, problems);
        }
        parameters.push(parameter);
    }
    match parents_first(parameters) {
        Ok(sorted) => sorted,
        Err(cycle) => {
            let first = cycle.first().cloned().unwrap_or_default();
            let entry = super::tree::find(&document.space, &first);
            let source = entry.map_or_else(|| document.whole(), |n| n.source.clone());
            let found = format!("a cycle of conditions: {} -> {first}", cycle.join(" -> "));
            let expected = "parents that do not depend on their children";
            problems.push(Problem::new(&source, first, found, expected));
            Vec::new()
        }
    }
}

fn constraints<'a>(
    document: &'a Document,
    scope: &Scope,
    problems: &mut Vec<Problem>,
) -> Vec<(Constraint, &'a Node)> {
    let mut read = Vec::new();
    for (index, node) in document.constraints.iter().enumerate() {
        let owner = format!("constraints[{index}]");
        for (name, entry) in node.table().into_iter().flatten() {
            if name != "expr" && name != "when" {
                let found = format!("unknown {name}");
                problems.push(entry.problem(&owner, found, "expr and when"));
            }
        }
        let Some(expr) = node.get("expr") else {
            let expected = "expr, such as \"train.batch_size * train.grad_accum <= 64\"";
            problems.push(node.problem(&owner, "no expr", expected));
            continue;
        };
        let parsed = expression(&owner, expr, scope, problems);
        let when = match node.get("when") {
            Some(when) => scope.conditions(&owner, when, Purpose::Narrows, problems),
            None => Vec::new(),
        };
        read.extend(parsed.map(|parsed| (Constraint { expr: parsed, when }, expr)));
    }
    read
}

fn expression(
    owner: &str,
    node: &Node,
    scope: &Scope,
    problems: &mut Vec<Problem>,
) -> Option<Expr> {
    let Some(Value::Str(text)) = node.scalar() else {
        let expected = "a string with a comparison";
        problems.push(node.problem(owner, node.found(), expected));
        return None;
    };
    let expr: Expr = match text.parse::<Expr>() {
        Ok(expr) => expr,
        Err(e) => {
            let found = format!("{text:?}, at character {} {}", e.at, e.found);
            problems.push(node.problem(owner, found, e.expected));
            return None;
        }
    };
    let mut sound = true;
    for name in expr.names() {
        let found = match scope.key(name) {
            Some(_) if scope.numeric(name) => continue,
            Some(_) => format!("{name}, which is no number, in a constraint"),
            None => format!("{name}, which the task does not read, in a constraint"),
        };
        let expected = format!("numbers and keys with numbers{}", scope.hint(name));
        problems.push(node.problem(owner, found, expected));
        sound = false;
    }
    sound.then_some(expr)
}

impl Scope<'_> {
    /// Whether a key's values are numbers.
    fn numeric(&self, name: &str) -> bool {
        let searched = self.searched.get(name);
        if searched.is_some_and(|s| s.domain.is_none()) {
            // What is wrong with its range was told.
            return true;
        }
        let domain = searched.and_then(|s| s.domain.as_ref());
        match (domain, self.key(name).map(|k| k.ty)) {
            (Some(Domain::Categorical { choices }), _) => {
                choices.iter().all(|c| c.as_f64().is_some())
            }
            (Some(Domain::Float { .. } | Domain::Int { .. }), _) => true,
            (None, Some(KeyType::Any)) => {
                let value = self.fixed.get(name);
                value.is_some_and(|v| v.as_f64().is_some())
            }
            (None, ty) => ty.is_some_and(|ty| ty.range().is_some()),
        }
    }
}

/// The points tried first. A point of the file that overrides made impossible is left out.
fn points<'a>(
    document: &'a Document,
    scope: &Scope,
    problems: &mut Vec<Problem>,
) -> Vec<(Params, &'a Node)> {
    let mut points = Vec::new();
    for (index, node) in document.points.iter().enumerate() {
        let owner = format!("points[{index}]");
        let Some(entries) = flat_entries(node) else {
            let expected = "a table of parameters and values";
            problems.push(node.problem(&owner, node.found(), expected));
            continue;
        };
        let mut point = Params::new();
        let mut possible = true;
        for (name, node) in &entries {
            match coordinate(name, node, scope) {
                Ok(Coordinate::Value(value)) => {
                    point.insert(name.clone(), value);
                }
                Ok(Coordinate::Implied) => {}
                Ok(Coordinate::Impossible) => possible = false,
                Err((found, expected)) => {
                    problems.push(node.problem(&owner, found, expected));
                    possible = false;
                }
            }
        }
        if possible {
            points.push((point, node));
        }
    }
    points
}

/// One value of a point.
enum Coordinate {
    /// It belongs to the point.
    Value(Value),
    /// It is the value that an override fixed anyway.
    Implied,
    /// The point cannot be tried.
    Impossible,
}

/// One value of a point; else what was found and expected.
fn coordinate(name: &str, node: &Node, scope: &Scope) -> Result<Coordinate, (String, String)> {
    let key = scope.keys.iter().find(|k| k.name == name);
    let value = key.map(|key| value_of(key.ty, node, scope.base));
    match (scope.searched.get(name), value) {
        (Some(Searched { domain: None, .. }), _) => Ok(Coordinate::Impossible),
        (
            Some(Searched {
                domain: Some(domain),
                overridden,
            }),
            Some(value),
        ) => {
            let inside = value.ok().filter(|v| domain.contains(v));
            match inside.and_then(|v| domain.clamp(&v)) {
                Some(value) => Ok(Coordinate::Value(value)),
                None if *overridden && node.source.is_file() => Ok(Coordinate::Impossible),
                None => {
                    let found = format!("{name} = {}", node.found());
                    Err((found, format!("a value within {domain}")))
                }
            }
        }
        (None, Some(value)) if scope.overridden.contains(name) => Ok(match value {
            Ok(value) if scope.fixed.get(name) == Some(&value) => Coordinate::Implied,
            Ok(_) | Err(_) => Coordinate::Impossible,
        }),
        (Some(_), None) | (None, Some(_) | None) => {
            let near = hint(name, scope.searched.keys().map(String::as_str));
            let found = format!("{name}, which is not searched");
            Err((found, format!("parameters of [space]{near}")))
        }
    }
}

/// Points that are tried first must satisfy the constraints: they are refused before they start
/// otherwise.
fn refuse_violations(
    space: &Space,
    nodes: &[&Node],
    points: &[(Params, &Node)],
    document: &Document,
    problems: &mut Vec<Problem>,
) {
    let violated = |point: &Params, constraint: &Constraint| {
        let violated = space.violations(point).any(|v| std::ptr::eq(v, constraint));
        violated.then(|| named_values(&constraint.expr, space, point))
    };
    let expected = "a point that satisfies the constraint, or another constraint";
    for (constraint, node) in space.constraints.iter().zip(nodes) {
        if space.has_defaults()
            && let Some(values) = violated(&space.point(&Params::new()), constraint)
        {
            let expr = &constraint.expr;
            let found = format!("{expr} violated at the point of the defaults: {values}");
            problems.push(node.problem("constraints", found, expected));
        }
    }
    for (point, node) in points {
        let index = document.points.iter().position(|p| std::ptr::eq(p, *node));
        let owner = format!("points[{}]", index.unwrap_or_default());
        for constraint in &space.constraints {
            if let Some(values) = violated(&space.point(point), constraint) {
                let found = format!("{} violated: {values}", constraint.expr);
                problems.push(node.problem(owner.clone(), found, expected));
            }
        }
    }
}
