//! What `tune check` shows: the resolved study, before anything is started.

use serde_json::{Value as Json, json};

use crate::check_notes::notes;
use config::StudySpec;
use config::active_when::{condition_of, dead_where};
use config::kinds::keys_of;
use config::{KeyType, Prepared};
use messages::printable;
use report::format::plural;
use report::format::value;
use report::param_lines;
use search::sampler::plan;
use search::space::{Condition, Domain, Parameter, Value};

/// The report for people.
pub fn check_report(spec: &StudySpec, prepared: &Prepared) -> String {
    let operation = &spec.operation;
    let mut lines = vec![
        format!("configuration  {}", spec.file.display()),
        format!("task           {} ({})", spec.task, spec.kind),
        format!("study          {}, seed {}", spec.study, spec.seed),
        objective_line(spec),
        format!("goal           {} trials", operation.trials),
    ];
    lines.extend(sampler(spec));
    lines.push(format!("pruner         {}", pruner(spec)));
    lines.extend(
        prepared
            .facts
            .iter()
            .map(|(heading, fact)| format!("{heading:<14} {fact}")),
    );
    lines.push(match &prepared.baseline {
        Some(b) => format!(
            "trivial answer {} {}: {}",
            spec.objective.metric,
            value(b.value),
            b.what
        ),
        None => "trivial answer none".to_owned(),
    });
    lines.extend(prepared.warnings.iter().map(|w| format!("warning: {w}")));
    lines.extend(notes(spec).iter().map(|note| format!("note: {note}")));
    space_lines(spec, &mut lines);
    condition_lines(spec, &mut lines);
    if !spec.fixed.is_empty() {
        lines.extend(["".to_owned(), "fixed".to_owned()]);
        lines.extend(param_lines(&spec.fixed, "  "));
    }
    let grids = grids(spec);
    if !grids.is_empty() {
        lines.extend(["".to_owned(), "after training".to_owned()]);
        let best =
            |(name, list): (&str, &[String])| format!("  {name}  the best of {}", list.join(", "));
        lines.extend(grids.into_iter().map(best));
    }
    let lines: Vec<_> = lines.iter().map(|line| printable(line)).collect();
    lines.join("\n") + "\n"
}

/// What each epoch takes the best of.
fn grids(spec: &StudySpec) -> Vec<(&str, &[String])> {
    let keys = keys_of(&spec.kind).iter();
    let grids = keys.filter(|key| matches!(key.ty, KeyType::Grid { .. }));
    let lists = grids.filter_map(|key| Some((key.name, spec.lists.get(key.name)?.as_slice())));
    lists.collect()
}

/// The report for scripts.
pub fn check_json(spec: &StudySpec, prepared: &Prepared) -> Json {
    let space: Vec<Json> = spec
        .space
        .parameters
        .iter()
        .map(|p| {
            json!({
                "name": p.name, "domain": domain(&p.domain),
                "default": p.default.as_ref().map(Value::to_json),
                "conditions": conditions(p), "acts_where": acts_where(spec, p).as_slice(),
            })
        })
        .collect();
    let facts: Vec<Json> = prepared
        .facts
        .iter()
        .map(|(heading, fact)| json!({ "heading": heading, "fact": fact }))
        .collect();
    let mut json = json!({
        "file": spec.file.display().to_string(), "task": spec.task, "kind": spec.kind,
        "study": spec.study, "seed": spec.seed,
        "objective": { "metric": spec.objective.metric, "direction": spec.objective.direction },
        "trials": spec.operation.trials,
        "sampler": spec.operation.sampler.kind, "pruner": spec.operation.pruner.kind,
        "sampler_plan": plan(&spec.operation.sampler, &spec.space),
        "pruner_options": spec.operation.pruner.options,
        "last_epoch": spec.horizon().max_step,
        "data_fingerprint": prepared.data_fingerprint,
        "split_fingerprint": prepared.split_fingerprint,
        "facts": facts, "warnings": prepared.warnings, "notes": notes(spec), "baseline": prepared.baseline,
        "space": space, "constraints": constraints(spec),
        "points": spec.points,
        "fixed": spec.fixed,
    });
    if !spec.further.is_empty() {
        json["objectives"] = spec.objectives().iter().map(|o| json!(o)).collect();
    }
    if !grids(spec).is_empty() {
        json["post"] = json!(spec.post());
    }
    json
}

fn objective_line(spec: &StudySpec) -> String {
    let all: Vec<String> = spec.objectives().iter().map(ToString::to_string).collect();
    match all.len() {
        1 => format!("objective      {}", all.join("")),
        _ => format!("objectives     {}", all.join(", ")),
    }
}

fn sampler(spec: &StudySpec) -> Vec<String> {
    let sampler = &spec.operation.sampler;
    let text = match plan(sampler, &spec.space) {
        Some(plan) => format!("{}: {plan}", sampler.kind),
        None => sampler.kind.clone(),
    };
    let parts = text.split_inclusive("; ").map(str::trim_end).enumerate();
    parts
        .map(|(at, part)| format!("{:<14} {part}", if at == 0 { "sampler" } else { "" }))
        .collect()
}

/// The pruner, its options, and what it takes a whole trial to be.
fn pruner(spec: &StudySpec) -> String {
    let pruner = &spec.operation.pruner;
    if pruner.kind == "none" {
        return pruner.kind.clone();
    }
    let mut parts: Vec<String> = (pruner.options.iter())
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    parts.extend(
        spec.horizon()
            .max_step
            .map(|last| format!("at most {last} epochs")),
    );
    match parts.as_slice() {
        [] => pruner.kind.clone(),
        _ => format!("{}: {}", pruner.kind, parts.join(", ")),
    }
}

fn space_lines(spec: &StudySpec, lines: &mut Vec<String>) {
    let parameters = &spec.space.parameters;
    lines.push(String::new());
    lines.push(format!(
        "space: {}",
        plural(parameters.len() as u64, "parameter")
    ));
    let rows: Vec<[String; 4]> = parameters
        .iter()
        .map(|p| {
            let default = p.default.as_ref().map(|d| format!("default {d}"));
            [
                p.name.clone(),
                domain(&p.domain),
                default.unwrap_or_default(),
                conditions(p).join("; "),
            ]
        })
        .collect();
    let width = |column: usize| {
        rows.iter()
            .map(|r| r[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let (a, b, c) = (width(0), width(1), width(2));
    for [name, domain, default, conditions] in &rows {
        let row = format!("  {name:a$}  {domain:b$}  {default:c$}  {conditions}");
        lines.push(row.trim_end().to_owned());
    }
    for constraint in constraints(spec) {
        lines.push(format!("  constraint: {constraint}"));
    }
    for (i, point) in spec.points.iter().enumerate() {
        lines.push(format!("point {}", i + 1));
        lines.extend(param_lines(point, "  "));
    }
}

/// Where the searched parameters act, and what makes them dead.
fn condition_lines(spec: &StudySpec, lines: &mut Vec<String>) {
    let all = spec.space.parameters.iter();
    let bound: Vec<(&str, String)> = all
        .filter_map(|p| Some((p.name.as_str(), acts_where(spec, p)?)))
        .collect();
    if bound.is_empty() {
        return;
    }
    lines.extend(["".to_owned(), "where parameters act".to_owned()]);
    let width = bound.iter().map(|(name, _)| name.chars().count());
    let width = width.max().unwrap_or(0);
    let rows = bound
        .iter()
        .map(|(name, acts)| format!("  {name:width$}  {acts}"));
    lines.extend(rows);
    lines.push(format!("  {:width$}  everywhere", "the others"));
}

fn acts_where(spec: &StudySpec, parameter: &Parameter) -> Option<String> {
    let keys = keys_of(&spec.kind);
    let condition = condition_of(keys, &parameter.name)?;
    let dead = dead_where(keys, condition);
    Some(format!("where {condition}; {dead}"))
}

fn constraints(spec: &StudySpec) -> Vec<String> {
    let text = |c: &search::space::Constraint| match all(&c.when) {
        when if when.is_empty() => c.expr.to_string(),
        when => format!("{} if {when}", c.expr),
    };
    spec.space.constraints.iter().map(text).collect()
}

fn domain(domain: &Domain) -> String {
    let options = |log: bool, step: Option<String>| {
        let log = if log { ", log" } else { "" };
        step.map_or(log.to_owned(), |s| format!("{log}, step {s}"))
    };
    match domain {
        Domain::Float {
            low,
            high,
            log,
            step,
        } => format!(
            "{} .. {}{}",
            value(*low),
            value(*high),
            options(*log, step.map(value))
        ),
        Domain::Int {
            low,
            high,
            log,
            step,
        } => {
            let step = (*step != 1).then(|| step.to_string());
            format!("{low} .. {high}, int{}", options(*log, step))
        }
        Domain::Categorical { choices } => choice_list(choices),
    }
}

fn conditions(parameter: &Parameter) -> Vec<String> {
    let own = all(&parameter.when);
    let own = (!own.is_empty()).then(|| format!("if {own}"));
    let bounds = parameter
        .high_when
        .iter()
        .map(|h| format!("at most {} if {}", value(h.high), all(&h.when)));
    own.into_iter().chain(bounds).collect()
}

fn all(conditions: &[Condition]) -> String {
    let one = |c: &Condition| match c.values.as_slice() {
        [only] => format!("{} is {only}", c.parent),
        values => format!("{} is one of {}", c.parent, choice_list(values)),
    };
    conditions.iter().map(one).collect::<Vec<_>>().join(" and ")
}

fn choice_list(values: &[Value]) -> String {
    let texts: Vec<String> = values.iter().map(Value::to_string).collect();
    format!("{{{}}}", texts.join(", "))
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
