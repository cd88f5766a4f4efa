//! What `tune check` points out in a configuration in which nothing is wrong.

use config::StudySpec;
use report::format::plural;
use search::space::{Domain, Parameter};

/// What may not be meant.
pub fn notes(spec: &StudySpec) -> Vec<String> {
    let parameters = spec.space.parameters.iter();
    let whole = parameters
        .clone()
        .filter(|p| spec.runs_programs() && has_whole_ends(&p.domain))
        .map(|p| {
            format!(
                "{} is searched with decimals; `int = true` is for whole numbers alone",
                p.name
            )
        });
    let objectives = spec.objectives();
    let named = |p: &&Parameter| {
        p.name == "value"
            || objectives
                .iter()
                .any(|objective| objective.metric == p.name)
    };
    let named = parameters.filter(named).map(|p| {
        format!(
            "the parameter {} is called as the objective is: `tune trials` filters and sorts by the objective under that \
             name",
            p.name
        )
    });
    whole.chain(named).chain(used_up(spec)).collect()
}

/// A range of numbers as one writes it for whole ones: at least 2 wide, so that a share from 0 to 1 is none.
fn has_whole_ends(domain: &Domain) -> bool {
    match domain {
        Domain::Float {
            low,
            high,
            step: None,
            log: false,
        } => low.fract() == 0.0 && high.fract() == 0.0 && high - low >= 2.0,
        Domain::Float { .. } | Domain::Int { .. } | Domain::Categorical { .. } => false,
    }
}

/// That the space has fewer points than the goal has trials.
fn used_up(spec: &StudySpec) -> Option<String> {
    let goal = spec.operation.trials;
    let parameters = &spec.space.parameters;
    let mut sizes = parameters.iter().map(|p| size(&p.domain));
    let points = sizes.try_fold(1u64, |points, size| points.checked_mul(size?))?;
    if parameters.is_empty() || points >= goal {
        return None;
    }
    let then = match spec.operation.sampler.kind.as_str() {
        "grid" => "the search ends once all are tried",
        _ => "points come again",
    };
    let points = plural(points, "point");
    Some(format!(
        "the space has at most {points}, and the goal is {goal} trials: {then}"
    ))
}

/// How many values a domain has; `None`: more than can be counted.
fn size(domain: &Domain) -> Option<u64> {
    match domain {
        Domain::Float {
            low,
            high,
            step: Some(step),
            ..
        } => Some(((high - low) / step + 1e-9).floor() as u64 + 1),
        Domain::Float { low, high, .. } => (low == high).then_some(1),
        Domain::Int {
            low, high, step, ..
        } => {
            let width = high.checked_sub(*low)?;
            u64::try_from(width / step).ok()?.checked_add(1)
        }
        Domain::Categorical { choices } => Some(choices.len() as u64),
    }
}
