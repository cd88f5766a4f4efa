//! The parameters of a study from elsewhere beside those of the task.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{TaskRequirements, worth};
use search::space::{Domain, Params, Space, Value};
use search::study::FrozenTrial;

/// How a parameter of the study is related to the task's.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// In both, with the same domain.
    Same,
    /// In both, numbers with other bounds, another step or another scale.
    #[serde(rename = "other_bounds")]
    Bounds,
    /// In both, with other choices.
    #[serde(rename = "other_choices")]
    Choices,
    /// In both, but one has choices where the other has numbers, or floats where it has integers.
    #[serde(rename = "other_kind")]
    Kind,
    /// The task reads it, but does not search it: it has this value.
    #[serde(rename = "fixed_in_task")]
    Fixed(#[serde(skip)] Value),
    /// The task does not read it.
    NotRead,
    /// The task searches it, and no trial has it.
    #[serde(rename = "only_in_task")]
    Missing,
}

/// A parameter of the study beside the task's of the same name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParameterComparison {
    /// Name.
    pub name: String,
    /// How the two are related.
    pub relation: Relation,
    /// The domains that its values were drawn from, for people.
    pub there: Vec<String>,
    /// The task's domain, where it is searched.
    #[serde(rename = "task")]
    pub here: Option<String>,
    /// Trials that have it.
    pub trials: usize,
    /// Trials whose value lies in the task's domain, or equals the task's fixed value.
    pub inside: usize,
    /// Whether it is a seed, by its name.
    pub seed: bool,
    /// A parameter of the task that no trial has and that is called alike.
    pub alike: Option<String>,
}

/// Every parameter of either side: the task's in its order, then the others by name.
pub fn compare(trials: &[FrozenTrial], asked: &TaskRequirements) -> Vec<ParameterComparison> {
    let mut domains: BTreeMap<&str, Vec<&Domain>> = BTreeMap::new();
    for trial in trials {
        for (name, domain) in &trial.distributions {
            let seen = domains.entry(name).or_default();
            if !seen.contains(&domain) {
                seen.push(domain);
            }
        }
    }
    let searched: Vec<&str> = names(asked.space).collect();
    let missing: BTreeSet<&str> = searched
        .iter()
        .copied()
        .filter(|n| !domains.contains_key(n))
        .collect();
    let others = domains.keys().filter(|n| asked.space.find(n).is_none());
    searched
        .iter()
        .copied()
        .chain(others.copied())
        .map(|name| {
            let there: Vec<Domain> = domains
                .get(name)
                .into_iter()
                .flatten()
                .map(|d| (*d).clone())
                .collect();
            let here = asked.space.find(name).map(|(_, p)| p.domain.clone());
            let relation = relation(name, &there, here.as_ref(), asked);
            let values = || trials.iter().filter_map(|t| t.params.get(name));
            let inside = |v: &&Value| match (&here, &relation) {
                (Some(domain), _) => domain.contains(v),
                (None, Relation::Fixed(value)) => value == *v,
                (
                    None,
                    Relation::Same
                    | Relation::Bounds
                    | Relation::Choices
                    | Relation::Kind
                    | Relation::NotRead
                    | Relation::Missing,
                ) => false,
            };
            ParameterComparison {
                trials: values().count(),
                inside: values().filter(inside).count(),
                seed: worth::is_seed(name),
                alike: (relation == Relation::NotRead)
                    .then(|| alike(name, &missing))
                    .flatten(),
                name: name.to_owned(),
                there: there.iter().map(ToString::to_string).collect(),
                here: here.as_ref().map(ToString::to_string),
                relation,
            }
        })
        .collect()
}

fn names(space: &Space) -> impl Iterator<Item = &str> {
    space.parameters.iter().map(|p| p.name.as_str())
}

fn relation(
    name: &str,
    there: &[Domain],
    here: Option<&Domain>,
    asked: &TaskRequirements,
) -> Relation {
    let Some(here) = here else {
        return match fixed(name, &asked.space.fixed, asked) {
            Some(value) => Relation::Fixed(value.clone()),
            None => Relation::NotRead,
        };
    };
    if there.is_empty() {
        return Relation::Missing;
    }
    let on_grid = here.clone().on_grid();
    if there.iter().all(|d| d.clone().on_grid() == on_grid) {
        return Relation::Same;
    }
    // The worst of the differences.
    let differs = |d: &Domain| match (d, here) {
        (Domain::Float { .. }, Domain::Float { .. }) | (Domain::Int { .. }, Domain::Int { .. }) => {
            Relation::Bounds
        }
        (Domain::Categorical { .. }, Domain::Categorical { .. }) => Relation::Choices,
        (Domain::Float { .. } | Domain::Int { .. } | Domain::Categorical { .. }, _) => {
            Relation::Kind
        }
    };
    let kind = there.iter().map(differs).find(|r| *r == Relation::Kind);
    kind.unwrap_or_else(|| differs(&there[0]))
}

/// The value that the task gives a key that it reads, but does not search.
pub(super) fn fixed<'a>(
    name: &str,
    fixed: &'a Params,
    asked: &TaskRequirements,
) -> Option<&'a Value> {
    fixed.get(name).filter(|_| asked.read.contains(name))
}

/// `lr` may be the task's `optim.lr`, and `optim/lr` too.
fn alike(name: &str, missing: &BTreeSet<&str>) -> Option<String> {
    let last = |n: &str| {
        let part = n.rsplit(['.', '/', ':']).next().unwrap_or(n);
        part.to_lowercase().replace('-', "_")
    };
    let full = |n: &str| n.to_lowercase().replace(['.', '/', ':', '-'], "_");
    let found: Vec<&&str> = missing
        .iter()
        .filter(|m| last(m) == last(name) || full(m) == full(name))
        .collect();
    match found[..] {
        [one] => Some((*one).to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{asked, space, trial};
    use super::*;
    use search::study::TrialState::Complete;

    #[test]
    fn each_relation_is_told() {
        let space = space();
        let trials = [
            trial(
                0,
                Complete,
                Some(0.5),
                &[
                    ("lr", Value::Float(0.5)),
                    ("layers", Value::Float(2.0)),
                    ("name", "rmsprop".into()),
                    ("width", Value::Int(64)),
                    ("head.layers", Value::Int(3)),
                    ("optim_momentum", Value::Float(0.1)),
                    ("opt.momentum", Value::Float(0.1)),
                    ("random_seed", Value::Int(7)),
                ],
            ),
            trial(1, Complete, Some(0.6), &[("lr", Value::Float(1.5))]),
        ];
        let lines = compare(&trials, &asked(&space));
        let line = |name: &str| lines.iter().find(|l| l.name == name).unwrap();
        assert_eq!(line("lr").relation, Relation::Bounds);
        assert_eq!((line("lr").trials, line("lr").inside), (2, 1));
        assert_eq!(line("layers").relation, Relation::Kind);
        assert_eq!(line("layers").inside, 1);
        assert_eq!(line("name").relation, Relation::Choices);
        assert_eq!(line("name").inside, 0);
        assert_eq!(line("momentum").relation, Relation::Missing);
        assert_eq!(line("width").relation, Relation::Fixed(Value::Int(64)));
        assert_eq!(line("width").inside, 1);
        assert_eq!(line("head.layers").relation, Relation::NotRead);
        assert_eq!(line("head.layers").alike, None);
        assert_eq!(line("opt.momentum").alike.as_deref(), Some("momentum"));
        assert!(line("random_seed").seed);
        let order: Vec<&str> = lines.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(order[..4], ["lr", "layers", "name", "momentum"]);
        assert!(order[4..].is_sorted());
    }

    #[test]
    fn the_same_domain_on_either_side_is_the_same_also_off_its_grid() {
        let mut space = space();
        let grid = |high| Domain::Int {
            low: 64,
            high,
            log: false,
            step: 32,
        };
        space.parameters[1].domain = grid(512);
        let mut one = trial(0, Complete, Some(0.5), &[("layers", Value::Int(96))]);
        one.distributions.insert("layers".to_owned(), grid(520));
        let lines = compare(&[one], &asked(&space));
        assert_eq!(lines[1].relation, Relation::Same);
    }
}
