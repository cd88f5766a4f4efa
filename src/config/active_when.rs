//! Where parameters act: what task kinds declare of their keys, held against the space. A parameter
//! that is searched where it changes nothing makes the sampler model noise; of a value that somebody
//! wrote where it changes nothing, they are told.

use std::collections::BTreeSet;
use std::fmt;

use super::StudySpec;
use super::conditions::{alternatives, conditions_of, parents, quoted};
use super::document::Document;
use super::problem::Problem;
use super::tree::find;
use crate::{Key, KeyType};
use search::space::{Condition, Domain, Parameter, Params, Space, Value};

/// A condition on another key of the same kind, under which a key acts: where it does not hold, the
/// key's value changes nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ActiveWhen {
    /// The other key.
    pub key: &'static str,
    /// What it has to be.
    pub is: Is,
}

/// What a condition asks of its key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Is {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// An integer of at least this.
    AtLeast(i64),
    /// An integer below something, named here, that is known only once data and models are read: the
    /// kind itself looks after it, when it prepares.
    Below(&'static str),
    /// An integer that exceeds the value of the key which acts by at least this. No space is refused
    /// for it: of a searched key some values are dead, not the key.
    Beyond(i64),
    /// Left out: a key without a default, which cannot be searched.
    LeftOut,
}

/// The condition that a key is such.
pub(super) const fn when(key: &'static str, is: Is) -> ActiveWhen {
    ActiveWhen { key, is }
}

/// `loss.cls.type is focal`, `head.layers is at least 2`.
impl fmt::Display for ActiveWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key;
        match self.is {
            Is::OneOf(words) => write!(f, "{key} is {}", words.join(" or ")),
            Is::AtLeast(least) => write!(f, "{key} is at least {least}"),
            Is::Below(limit) => write!(f, "{key} is below {limit}"),
            Is::Beyond(by) => write!(f, "{key} is at least {by} more"),
            Is::LeftOut => write!(f, "{key} is left out"),
        }
    }
}

/// Integers of a range that are all looked at; of a larger one only those that conditions name, the
/// bounds, and those around a limit.
const ALL: i64 = 64;

/// Combinations of parents' values that are looked at.
const COMBINATIONS: usize = 200_000;

/// What a key is compared with at a point; `None`: it is not known.
pub type Limit<'a> = dyn Fn(&Params) -> Option<i64> + 'a;

/// The values of a condition's key beside which a parameter exists.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ConditionValues {
    /// Those for which the condition holds.
    pub alive: Vec<Value>,
    /// Those for which it does not: the parameter changes nothing there.
    pub dead: Vec<Value>,
}

impl ConditionValues {
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
/// yet ([`Is::Below`]) are left to the task kind, and those on the parameter's own value
/// ([`Is::Beyond`]) make it dead nowhere.
pub(super) fn refuse_dead(
    document: &Document,
    keys: &[Key],
    space: &Space,
    problems: &mut Vec<Problem>,
) {
    let broken: BTreeSet<String> = problems.iter().filter_map(|p| p.key.clone()).collect();
    for parameter in &space.parameters {
        let Some(condition) = condition_of(keys, &parameter.name) else {
            continue;
        };
        let names = relevant(space, parameter, &[condition.key]);
        let unread = |name: &String| {
            broken.contains(name)
                || (find(&document.space, name).is_some() && space.find(name).is_none())
        };
        let apart = matches!(condition.is, Is::Below(_) | Is::Beyond(_));
        if apart || names.iter().any(unread) {
            continue;
        }
        let values = condition_values(space, keys, parameter, condition, &[], &|_| None);
        let entry = find(&document.space, &parameter.name);
        if let (false, Some(entry)) = (values.dead.is_empty(), entry) {
            let (found, expected) = explain_dead(space, parameter, condition, &values);
            problems.push(entry.problem(&parameter.name, found, expected));
        }
    }
}

/// What to tell of fixed values that somebody wrote although they act at no point of the space: one
/// line each. Conditions on what `limit` alone knows ([`Is::Below`], see
/// [`condition_values`]) are looked at where it is given, all others where it is not.
pub fn inactive_values(
    spec: &StudySpec,
    keys: &[Key],
    further: &[&str],
    limit: Option<&Limit<'_>>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for name in spec.sources.keys() {
        let (Some(value), Some(condition)) = (spec.fixed.get(name), condition_of(keys, name))
        else {
            continue;
        };
        let choices = vec![value.clone()];
        let parameter = Parameter::new(name, Domain::Categorical { choices });
        let beyond = |_: &Params| {
            let Is::Beyond(by) = condition.is else {
                return None;
            };
            value.as_i64()?.checked_add(by)
        };
        let limit = match (condition.is, limit) {
            (Is::Below(_), Some(limit)) => limit,
            (Is::Below(_), None) | (_, Some(_)) => continue,
            (_, None) => &beyond,
        };
        let values = condition_values(&spec.space, keys, &parameter, condition, further, limit);
        if values.alive.is_empty() && !values.dead.is_empty() {
            lines.push(format!(
                "{name} = {value} changes nothing, for {} is {}: it acts only where {condition}",
                condition.key,
                alternatives(&values.dead)
            ));
        }
    }
    lines
}

/// The condition that a kind declares for a key.
pub fn condition_of(keys: &[Key], name: &str) -> Option<ActiveWhen> {
    keys.iter().find(|k| k.name == name)?.active_when
}

/// Where a key is dead, in words behind its condition.
pub fn dead_where(keys: &[Key], condition: ActiveWhen) -> String {
    match condition.is {
        Is::OneOf(words) => {
            let key = keys.iter().find(|k| k.name == condition.key);
            let Some(KeyType::Choice(all)) = key.map(|k| k.ty) else {
                return "dead elsewhere".into();
            };
            let others = all.iter().copied().filter(|w| !words.contains(w));
            let others: Vec<&str> = others.collect();
            format!("dead where it is {}", others.join(" or "))
        }
        Is::AtLeast(least) => format!("dead below {least}"),
        Is::Below(_) => "dead from there on".into(),
        Is::Beyond(_) => "dead below that".into(),
        Is::LeftOut => "dead beside it".into(),
    }
}

/// For which values of its key a condition holds, and for which not, at the points where `parameter`
/// exists. `limit` gives the limit of [`Is::Below`], and of [`Is::Beyond`], beside values of the
/// parameters named by `further`, where it is known.
pub fn condition_values(
    space: &Space,
    keys: &[Key],
    parameter: &Parameter,
    condition: ActiveWhen,
    further: &[&str],
    limit: &Limit<'_>,
) -> ConditionValues {
    let key = condition.key;
    let start: Vec<&str> = further.iter().copied().chain([key]).collect();
    let names = relevant(space, parameter, &start);
    let walked = space.parameters.iter();
    let walked: Vec<&Parameter> = walked.filter(|p| names.contains(&p.name)).collect();
    let preset = keys.iter().find(|k| k.name == key);
    let preset = preset.and_then(|k| k.preset.value());
    let absent = (condition.is == Is::LeftOut).then_some(Value::Null);
    let mut values = ConditionValues::default();
    let mut left = COMBINATIONS;
    let mut visit = |params: &Params| {
        if !space.all_hold(&parameter.when, params) || space.violated(params).is_some() {
            return;
        }
        let given = params.get(key).or_else(|| space.fixed.get(key));
        let Some(value) = given.or(preset.as_ref()).or(absent.as_ref()) else {
            return;
        };
        let list = match holds(condition.is, value, limit(params)) {
            true => &mut values.alive,
            false => &mut values.dead,
        };
        if !list.contains(value) {
            list.push(value.clone());
        }
    };
    walk(
        space,
        &walked,
        condition,
        &mut Params::new(),
        &mut left,
        &mut visit,
    );
    values
}

/// What is wrong, and what to write instead.
pub fn explain_dead(
    space: &Space,
    parameter: &Parameter,
    condition: ActiveWhen,
    values: &ConditionValues,
) -> (String, String) {
    let key = condition.key;
    let dead = alternatives(&values.dead);
    let found = match space.find(key) {
        Some(_) => format!("it searched where it changes nothing: {key} = {dead}"),
        None => format!("a parameter that changes nothing: {key} is {dead}"),
    };
    let listed = match space.find(key).map(|(_, p)| &p.domain) {
        Some(Domain::Int {
            low, high, step, ..
        }) => (high - low) / step < ALL,
        Some(Domain::Categorical { .. }) => true,
        Some(Domain::Float { .. }) | None => false,
    };
    let expected = match (values.alive.is_empty(), listed) {
        (false, true) => {
            let when = when_line(parameter, key, values);
            format!("it only where {condition}: {when}")
        }
        (false, false) => format!("it only where {condition}"),
        (true, _) => format!("no such parameter, or another {key}: it acts only where {condition}"),
    };
    (found, expected)
}

/// The parameter's conditions with one more, as they stand in a file.
fn when_line(parameter: &Parameter, key: &str, values: &ConditionValues) -> String {
    let mut all: Vec<Condition> = parameter.when.clone();
    all.retain(|c| c.parent != key);
    all.push(Condition {
        parent: key.to_owned(),
        values: values.best(),
    });
    let one = |c: &Condition| {
        let values: Vec<String> = c.values.iter().map(quoted).collect();
        format!("{:?} = [{}]", c.parent, values.join(", "))
    };
    let conditions: Vec<String> = all.iter().map(one).collect();
    format!("when = {{ {} }}", conditions.join(", "))
}

fn holds(is: Is, value: &Value, limit: Option<i64>) -> bool {
    let number = value.as_i64();
    match is {
        Is::OneOf(words) => value.as_str().is_none_or(|w| words.contains(&w)),
        Is::AtLeast(least) => number.is_none_or(|i| i >= least),
        Is::Below(_) => number.zip(limit).is_none_or(|(i, limit)| i < limit),
        Is::Beyond(_) => number.zip(limit).is_none_or(|(i, limit)| i >= limit),
        Is::LeftOut => *value == Value::Null,
    }
}

/// The parameters that decide whether `parameter` exists and what those of `start` are.
fn relevant(space: &Space, parameter: &Parameter, start: &[&str]) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut waiting: Vec<String> = start.iter().map(|s| (*s).to_owned()).collect();
    waiting.extend(parameter.when.iter().map(|c| c.parent.clone()));
    while let Some(name) = waiting.pop() {
        if names.insert(name.clone())
            && let Some((_, p)) = space.find(&name)
        {
            waiting.extend(parents(p).map(str::to_owned));
        }
    }
    names
}

/// Visits every combination of the parameters' values, parents first.
fn walk(
    space: &Space,
    parameters: &[&Parameter],
    condition: ActiveWhen,
    params: &mut Params,
    left: &mut usize,
    visit: &mut dyn FnMut(&Params),
) {
    let Some((first, rest)) = parameters.split_first() else {
        *left = left.saturating_sub(1);
        return visit(params);
    };
    let Some(domain) = space.active_domain(first, params) else {
        return walk(space, rest, condition, params, left, visit);
    };
    for value in values(space, &first.name, &domain, condition) {
        if *left == 0 {
            break;
        }
        params.insert(first.name.clone(), value);
        walk(space, rest, condition, params, left, visit);
    }
    params.remove(&first.name);
}

/// Values of a domain between which no condition tells a difference.
fn values(space: &Space, name: &str, domain: &Domain, condition: ActiveWhen) -> Vec<Value> {
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
    let named = space.parameters.iter().flat_map(conditions_of);
    let named = named.filter(|c| c.parent == name);
    let named = named.flat_map(|c| c.values.iter().filter_map(Value::as_i64));
    let around = if let Is::AtLeast(least) = condition.is {
        vec![least - 1, least]
    } else {
        vec![]
    };
    let mut all: Vec<i64> = named.chain(around).chain([low, low + step, high]).collect();
    all.sort_unstable();
    all.dedup();
    let all = all.into_iter().map(Value::Int);
    all.filter(|v| domain.contains(v)).collect()
}

#[cfg(test)]
#[path = "active_when_tests.rs"]
mod tests;
