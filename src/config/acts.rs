//! Where parameters act: what task kinds declare of their keys, held against the space. A parameter
//! that is searched where it changes nothing makes the sampler model noise; of a value that somebody
//! wrote where it changes nothing, they are told.

use std::collections::BTreeSet;

use super::StudySpec;
use super::document::Document;
use super::problem::Problem;
use super::tree::find;
use crate::{Acts, Key, KeyType};
use search::space::{Condition, Domain, Parameter, Params, Space, Value};

/// Integers of a range that are all looked at; of a larger one only those that conditions name, the
/// bounds, and those around a limit.
const ALL: i64 = 64;

/// Combinations of parents' values that are looked at.
const COMBINATIONS: usize = 200_000;

/// What a key is compared with at a point; `None`: it is not known.
pub type Limit<'a> = dyn Fn(&Params) -> Option<i64> + 'a;

/// The values of a condition's key beside which a parameter exists.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Beside {
    /// Those for which the condition holds.
    pub alive: Vec<Value>,
    /// Those for which it does not: the parameter changes nothing there.
    pub dead: Vec<Value>,
}

impl Beside {
    /// The values for which it always holds, or at least sometimes.
    fn best(&self) -> Vec<Value> {
        let always = self.alive.iter().filter(|v| !self.dead.contains(v));
        let always: Vec<Value> = always.cloned().collect();
        if always.is_empty() {
            self.alive.clone()
        } else {
            always
        }
    }
}

/// Refuses parameters that exist where a declared condition on a value does not hold; nothing is
/// said of those whose own or whose parents' entries have problems. Conditions on what is not known
/// yet ([`Acts::Below`]) are left to the task kind, and those on the parameter's own value
/// ([`Acts::Beyond`]) make it dead nowhere.
pub(super) fn refuse_dead(
    document: &Document,
    keys: &[Key],
    space: &Space,
    problems: &mut Vec<Problem>,
) {
    let broken: BTreeSet<String> = problems.iter().filter_map(|p| p.key.clone()).collect();
    for parameter in &space.parameters {
        for acts in acts_of(keys, &parameter.name) {
            let names = relevant(space, parameter, &[acts.key()]);
            let unread = |name: &String| {
                broken.contains(name)
                    || (find(&document.space, name).is_some() && space.find(name).is_none())
            };
            let apart = matches!(acts, Acts::Below { .. } | Acts::Beyond { .. });
            if apart || names.iter().any(unread) {
                continue;
            }
            let beside = beside(space, keys, parameter, acts, &[], &|_| None);
            let entry = find(&document.space, &parameter.name);
            if let (false, Some(entry)) = (beside.dead.is_empty(), entry) {
                let (found, expected) = told(space, parameter, acts, &beside);
                let source = entry.source.clone();
                problems.push(Problem::new(&source, &parameter.name, found, expected));
            }
        }
    }
}

/// What to tell of fixed values that somebody wrote although they act at no point of the space: one
/// line each. Conditions on what `limit` alone knows ([`Acts::Below`], see [`beside`]) are looked at
/// where it is given, all others where it is not.
pub fn idle(
    spec: &StudySpec,
    keys: &[Key],
    further: &[&str],
    limit: Option<&Limit<'_>>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for name in &spec.written {
        let Some(value) = spec.fixed.get(name) else {
            continue;
        };
        let parameter = Parameter {
            name: name.clone(),
            domain: Domain::Categorical {
                choices: vec![value.clone()],
            },
            when: vec![],
            high_when: vec![],
            default: None,
        };
        for acts in acts_of(keys, name) {
            let beyond = |_: &Params| match acts {
                Acts::Beyond { by, .. } => value.as_i64()?.checked_add(*by),
                Acts::Words { .. }
                | Acts::AtLeast { .. }
                | Acts::Below { .. }
                | Acts::Without { .. } => None,
            };
            let limit = match (acts, limit) {
                (Acts::Below { .. }, Some(limit)) => limit,
                (Acts::Below { .. }, None) | (_, Some(_)) => continue,
                (_, None) => &beyond,
            };
            let beside = beside(&spec.space, keys, &parameter, acts, further, limit);
            if beside.alive.is_empty() && !beside.dead.is_empty() {
                let dead: Vec<String> = beside.dead.iter().map(Value::to_string).collect();
                lines.push(format!(
                    "{name} = {value} changes nothing, for {} is {}: it acts only where {acts}",
                    acts.key(),
                    dead.join(" | ")
                ));
            }
        }
    }
    lines
}

/// The conditions that a kind declares for a key.
pub fn acts_of(keys: &[Key], name: &str) -> &'static [Acts] {
    let key = keys.iter().find(|k| k.name == name);
    key.map_or(&[], |k| k.acts)
}

/// Where a key is dead, in words behind its condition.
pub fn dead_where(keys: &[Key], acts: &Acts) -> String {
    match acts {
        Acts::Words { key, words } => {
            let others = match keys.iter().find(|k| k.name == *key).map(|k| k.ty) {
                Some(KeyType::Choice(all)) => all.iter().filter(|w| !words.contains(w)).copied(),
                Some(_) | None => return "dead elsewhere".into(),
            };
            format!(
                "dead where it is {}",
                others.collect::<Vec<_>>().join(" or ")
            )
        }
        Acts::AtLeast { least, .. } => format!("dead below {least}"),
        Acts::Below { .. } => "dead from there on".into(),
        Acts::Beyond { .. } => "dead below that".into(),
        Acts::Without { .. } => "dead beside it".into(),
    }
}

/// For which values of its key a condition holds, and for which not, at the points where `parameter`
/// exists. `limit` gives the limit of [`Acts::Below`], and of [`Acts::Beyond`], beside values of the
/// parameters named by `further`, where it is known.
pub fn beside(
    space: &Space,
    keys: &[Key],
    parameter: &Parameter,
    acts: &Acts,
    further: &[&str],
    limit: &Limit<'_>,
) -> Beside {
    let start: Vec<&str> = further.iter().copied().chain([acts.key()]).collect();
    let names = relevant(space, parameter, &start);
    let walked: Vec<&Parameter> = space
        .parameters
        .iter()
        .filter(|p| names.contains(&p.name))
        .collect();
    let preset = keys.iter().find(|k| k.name == acts.key());
    let preset = preset.and_then(|k| k.preset.value());
    let absent = matches!(acts, Acts::Without { .. }).then_some(Value::Null);
    let mut beside = Beside::default();
    let mut left = COMBINATIONS;
    let mut visit = |params: &Params| {
        if !space.all_hold(&parameter.when, params) || space.violated(params).is_some() {
            return;
        }
        let given = params.get(acts.key());
        let given = given
            .or_else(|| space.fixed.get(acts.key()))
            .or(preset.as_ref());
        let Some(value) = given.or(absent.as_ref()) else {
            return;
        };
        let list = match holds(acts, value, limit(params)) {
            true => &mut beside.alive,
            false => &mut beside.dead,
        };
        if !list.contains(value) {
            list.push(value.clone());
        }
    };
    walk(
        space,
        &walked,
        acts,
        &mut Params::new(),
        &mut left,
        &mut visit,
    );
    beside
}

/// What is wrong, and what to write instead.
pub fn told(
    space: &Space,
    parameter: &Parameter,
    acts: &Acts,
    beside: &Beside,
) -> (String, String) {
    let key = acts.key();
    let values: Vec<String> = beside.dead.iter().map(Value::to_string).collect();
    let found = match space.find(key) {
        Some(_) => format!(
            "it searched where it changes nothing: {key} = {}",
            values.join(" | ")
        ),
        None => format!(
            "a parameter that changes nothing: {key} is {}",
            values.join(" | ")
        ),
    };
    let listed = match space.find(key).map(|(_, p)| &p.domain) {
        Some(Domain::Int {
            low, high, step, ..
        }) => (high - low) / step < ALL,
        Some(Domain::Categorical { .. }) => true,
        Some(Domain::Float { .. }) | None => false,
    };
    let expected = match (beside.alive.is_empty(), listed) {
        (false, true) => format!(
            "it only where {acts}: {}",
            when_line(parameter, key, beside)
        ),
        (false, false) => format!("it only where {acts}"),
        (true, _) => format!("no such parameter, or another {key}: it acts only where {acts}"),
    };
    (found, expected)
}

/// The parameter's conditions with one more, as they stand in a file.
fn when_line(parameter: &Parameter, key: &str, beside: &Beside) -> String {
    let mut all: Vec<Condition> = parameter.when.clone();
    all.retain(|c| c.parent != key);
    all.push(Condition {
        parent: key.to_owned(),
        values: beside.best(),
    });
    let value = |value: &Value| match value {
        Value::Str(text) => format!("{text:?}"),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => value.to_string(),
    };
    let one = |c: &Condition| {
        let values: Vec<String> = c.values.iter().map(value).collect();
        format!("{:?} = [{}]", c.parent, values.join(", "))
    };
    let conditions: Vec<String> = all.iter().map(one).collect();
    format!("when = {{ {} }}", conditions.join(", "))
}

fn holds(acts: &Acts, value: &Value, limit: Option<i64>) -> bool {
    match acts {
        Acts::Words { words, .. } => value.as_str().is_none_or(|w| words.contains(&w)),
        Acts::AtLeast { least, .. } => value.as_i64().is_none_or(|i| i >= *least),
        Acts::Below { .. } => match (value.as_i64(), limit) {
            (Some(value), Some(limit)) => value < limit,
            (Some(_) | None, _) => true,
        },
        Acts::Beyond { .. } => match (value.as_i64(), limit) {
            (Some(value), Some(limit)) => value >= limit,
            (Some(_) | None, _) => true,
        },
        Acts::Without { .. } => *value == Value::Null,
    }
}

/// The parameters that decide whether `parameter` exists and what those of `start` are.
fn relevant(space: &Space, parameter: &Parameter, start: &[&str]) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let parents = |p: &Parameter| {
        let bounds = p.high_when.iter().flat_map(|h| &h.when);
        let all: Vec<String> = p
            .when
            .iter()
            .chain(bounds)
            .map(|c| c.parent.clone())
            .collect();
        all
    };
    let mut waiting: Vec<String> = start.iter().map(|s| (*s).to_owned()).collect();
    waiting.extend(parameter.when.iter().map(|c| c.parent.clone()));
    while let Some(name) = waiting.pop() {
        if names.insert(name.clone())
            && let Some((_, p)) = space.find(&name)
        {
            waiting.extend(parents(p));
        }
    }
    names
}

/// Visits every combination of the parameters' values, parents first.
fn walk(
    space: &Space,
    parameters: &[&Parameter],
    acts: &Acts,
    params: &mut Params,
    left: &mut usize,
    visit: &mut dyn FnMut(&Params),
) {
    let Some((first, rest)) = parameters.split_first() else {
        *left = left.saturating_sub(1);
        return visit(params);
    };
    let Some(domain) = space.active_domain(first, params) else {
        return walk(space, rest, acts, params, left, visit);
    };
    for value in values(space, &first.name, &domain, acts) {
        if *left == 0 {
            break;
        }
        params.insert(first.name.clone(), value);
        walk(space, rest, acts, params, left, visit);
    }
    params.remove(&first.name);
}

/// Values of a domain between which no condition tells a difference.
fn values(space: &Space, name: &str, domain: &Domain, acts: &Acts) -> Vec<Value> {
    let (low, high, step) = match domain {
        Domain::Categorical { choices } => return choices.clone(),
        Domain::Float { .. } => return vec![domain.middle()],
        Domain::Int {
            low, high, step, ..
        } => (*low, *high, *step),
    };
    if (high - low) / step < ALL {
        let steps = 0..=(high - low) / step;
        return steps.map(|k| Value::Int(low + k * step)).collect();
    }
    let conditions = space.parameters.iter().flat_map(|p| {
        let bounds = p.high_when.iter().flat_map(|h| &h.when);
        p.when.iter().chain(bounds)
    });
    let named = conditions.filter(|c| c.parent == name);
    let named = named.flat_map(|c| c.values.iter().filter_map(Value::as_i64));
    let around = match acts {
        Acts::AtLeast { least, .. } => vec![least - 1, *least],
        Acts::Words { .. } | Acts::Below { .. } | Acts::Beyond { .. } | Acts::Without { .. } => {
            vec![]
        }
    };
    let mut all: Vec<i64> = named.chain(around).chain([low, low + step, high]).collect();
    all.sort_unstable();
    all.dedup();
    let all = all.into_iter().map(Value::Int);
    all.filter(|v| domain.contains(v)).collect()
}

#[cfg(test)]
#[path = "acts_tests.rs"]
mod tests;
