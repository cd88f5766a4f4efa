//! Which trials are asked for, and in which order.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use serde_json::Value as Json;

use super::columns::order_of_parameters;
use super::key::Key;
use super::objectives::Objectives;
use super::reason;
use super::trials::{RUNTIME, parameter_names};
use crate::commands::whole;
use config::hint;
use messages::exit::Failure;
use messages::number_from_json;
use search::space::{Domain, Value};
use search::study::{Direction, FrozenTrial, TrialState, pareto};
use store::{Store, StudySummary};

/// Which trials of a study; by default all, ascending by number.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct Selection {
    /// Only the N best, the best first
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    pub top: Option<usize>,
    /// Only those in this state: complete, pruned, fail, running, waiting; repeatable
    #[arg(long, value_name = "STATE", value_parser = trial_state)]
    pub state: Vec<TrialState>,
    /// Only those that failed
    #[arg(long)]
    pub failed: bool,
    /// Only those that run now
    #[arg(long)]
    pub running: bool,
    /// Only those of which this is true: optim.lr<1e-4, state=pruned, reason!=oom; repeatable, all must be true
    #[arg(long = "where", value_name = "CONDITION")]
    pub conditions: Vec<String>,
    /// Sort by a parameter, an attribute, number, state, value, duration, attempts or reason; -KEY: descending
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// The other way round
    #[arg(long)]
    pub reverse: bool,
    /// These columns, separated by commas, or all [default: as many as the line holds]
    #[arg(
        long,
        value_name = "KEYS",
        conflicts_with = "json",
        value_delimiter = ','
    )]
    pub columns: Vec<String>,
    /// Whether a process works on the study: if not, nobody runs what its last run has left RUNNING.
    #[arg(skip)]
    pub live: bool,
}

fn trial_state(word: &str) -> Result<TrialState, String> {
    word.to_uppercase()
        .parse()
        .map_err(|()| "expected complete, pruned, fail, running or waiting".to_owned())
}

/// The trials that were asked for, in order.
pub(super) struct Selected {
    pub(super) trials: Vec<FrozenTrial>,
    /// Attempts by trial, of those that have had one.
    pub(super) attempts: BTreeMap<u64, u32>,
    /// What `--columns` names.
    pub(super) columns: Option<Vec<Key>>,
    /// The parameters of all trials of the study.
    pub(super) parameters: BTreeSet<String>,
    /// The same, those first that tell most.
    pub(super) order: Vec<String>,
    /// As in [`Selection`].
    pub(super) running: bool,
    /// As in [`Selection`].
    pub(super) live: bool,
}

impl Selection {
    /// Whether all trials are meant, in their own order.
    pub(super) fn is_everything(&self) -> bool {
        let Selection { columns, live, .. } = self.clone();
        *self
            == Selection {
                columns,
                live,
                ..Selection::default()
            }
    }

    fn is_in_state(&self, state: TrialState) -> bool {
        let failed = self.failed && state == TrialState::Fail;
        let runs = self.running && self.live && state == TrialState::Running;
        let any = self.state.is_empty() && !self.failed && !self.running;
        any || self.state.contains(&state) || failed || runs
    }

    /// Whether no column is to be left out.
    pub fn all_columns(&self) -> bool {
        self.columns == ["all"]
    }

    /// The keys of the columns, in order; `None`: as many as fit, or all of them.
    pub(super) fn chosen_columns(&self) -> Option<Vec<&str>> {
        let chosen = !self.columns.is_empty() && !self.all_columns();
        chosen.then(|| self.columns.iter().map(|key| key.trim()).collect())
    }

    /// Selects.
    ///
    /// # Errors
    /// A condition that is none, a key that no trial has, a value that a parameter never has (2); reading failed (7).
    pub(super) fn of(&self, store: &Store, study: &StudySummary) -> Result<Selected, Failure> {
        let id = study.study_id;
        let wrong = |why: String| Failure::input(format!("--where{why}"));
        let conditions = self.conditions.iter().map(|text| condition(text));
        let conditions: Vec<Condition<'_>> = conditions.collect::<Result<_, _>>().map_err(wrong)?;
        let sort = self
            .sort
            .as_deref()
            .map(|s| (s.trim_start_matches('-'), s.starts_with('-')));
        let columns = self.chosen_columns();
        let named = conditions
            .iter()
            .map(|c| c.0)
            .chain(sort.iter().map(|s| s.0));
        let asked: Vec<&str> = named.chain(columns.iter().flatten().copied()).collect();
        let read: Vec<&str> = [&reason::KEYS, &[RUNTIME][..], &asked].concat();
        let attempts = store.attempt_counts(id)?;
        let mut trials = store.overviews(id, None, &read)?;
        let parameters = parameter_names(trials.iter().map(|t| &t.params));
        let order = order_of_parameters(&trials, &parameters, &study.directions);
        let attributes = match asked.is_empty() {
            false => store.attribute_names(id)?,
            true => BTreeSet::new(),
        };
        let objectives = Objectives::of(study);
        let key = |name: &str| {
            Key::named(name, objectives.names(), &parameters, &attributes).map_err(Failure::input)
        };
        let wanted = conditions
            .into_iter()
            .map(|c| Wanted::of(c, key(c.0)?, &trials).map_err(wrong));
        let wanted: Vec<Wanted<'_>> = wanted.collect::<Result<_, _>>()?;
        trials.retain(|t| {
            let attempts = attempts.get(&t.number).copied();
            wanted.iter().all(|wanted| wanted.holds(t, attempts))
        });
        trials.retain(|t| self.is_in_state(t.state));
        if let Some(top) = self.top {
            trials = best(store, study, trials, top)?;
        }
        if let Some((name, down)) = sort {
            let (key, down) = (key(name)?, down != self.reverse);
            trials.sort_by(|a, b| {
                let values = [a, b].map(|t| key.value(t, attempts.get(&t.number).copied()));
                by_value(values[0].as_ref(), values[1].as_ref(), down)
            });
        } else if self.reverse {
            trials.reverse();
        }
        let columns = columns.map(|names| names.into_iter().map(&key).collect());
        Ok(Selected {
            columns: columns.transpose()?,
            trials,
            attempts,
            parameters,
            order,
            running: self.running,
            live: self.live,
        })
    }
}

/// The name of a key, a comparison and what to compare with.
type Condition<'a> = (&'a str, Comparison, &'a str);

/// Reads a condition.
///
/// # Errors
/// It is none; the text goes on behind what asked for it.
pub(super) fn condition(text: &str) -> Result<Condition<'_>, String> {
    let Some((key, comparison, value)) = parsed(text) else {
        return Err(format!(
            " '{text}': expected KEY<VALUE, with one of < <= > >= = == !="
        ));
    };
    match comparison.orders() && value.parse::<f64>().is_err() {
        true => Err(format!(
            " '{text}': {value} is no number, and other values are compared by = and != only (the key stands first; \
             each further condition has a --where of its own)"
        )),
        false => Ok((key, comparison, value)),
    }
}

/// A condition on a key that trials have.
pub(super) struct Wanted<'a> {
    key: Key,
    comparison: Comparison,
    given: &'a str,
}

impl<'a> Wanted<'a> {
    /// `key` is the one that the condition names.
    ///
    /// # Errors
    /// No trial can have what is given; the text goes on behind what asked for it.
    pub(super) fn of(
        (_, comparison, given): Condition<'a>,
        key: Key,
        trials: &[FrozenTrial],
    ) -> Result<Wanted<'a>, String> {
        match never(&key, given, trials) {
            Some(why) => Err(format!(": {why}")),
            None => Ok(Wanted {
                key,
                comparison,
                given,
            }),
        }
    }

    pub(super) fn holds(&self, trial: &FrozenTrial, attempts: Option<u32>) -> bool {
        let value = self.key.value(trial, attempts);
        value.is_some_and(
            |value| match (&self.key, trial.user_attrs.get(reason::FAULT)) {
                (Key::Reason, Some(word)) => self.comparison.holds_of(&[&value, word], self.given),
                (_, _) => self.comparison.holds(&value, self.given),
            },
        )
    }
}

/// Why no value of a parameter can be what was given, by all that trials have drawn it from.
fn unheard_of(name: &str, given: &str, trials: &[FrozenTrial]) -> Option<String> {
    let is_given = |choice: &Value| Comparison::Equal.holds(&choice.to_json(), given);
    let mut choices: Vec<String> = Vec::new();
    let mut range = None;
    for domain in trials.iter().filter_map(|t| t.distributions.get(name)) {
        match domain {
            Domain::Float { .. } | Domain::Int { .. } if given.parse::<f64>().is_ok() => {
                return None;
            }
            Domain::Float { .. } | Domain::Int { .. } => range = Some(domain),
            Domain::Categorical { choices: these } => {
                if these.iter().any(is_given) {
                    return None;
                }
                let texts = these.iter().map(Value::to_string);
                choices.extend(
                    texts
                        .filter(|text| !choices.contains(text))
                        .collect::<Vec<_>>(),
                );
            }
        }
    }
    match (range, choices.as_slice()) {
        (None, []) => None,
        (Some(range), []) => Some(format!(
            "{name} cannot be {given}: it is a number in {range}"
        )),
        (_, choices) => {
            let hint = hint(given, choices.iter().map(String::as_str));
            let choices = choices.join(", ");
            Some(format!(
                "{name} is never {given}{hint}; its choices are {choices}"
            ))
        }
    }
}

/// Why no trial can have what was given.
fn never(key: &Key, given: &str, trials: &[FrozenTrial]) -> Option<String> {
    match key {
        Key::Parameter(name) => unheard_of(name, given, trials),
        Key::State => no_state(given),
        Key::Number
        | Key::Value(_)
        | Key::Duration
        | Key::Attempts
        | Key::Reason
        | Key::Attribute(_) => None,
    }
}

/// Why no trial's state can be what was given.
fn no_state(given: &str) -> Option<String> {
    let states = ["complete", "pruned", "fail", "running", "waiting"];
    if given.to_uppercase().parse::<TrialState>().is_ok() {
        return None;
    }
    let hint = hint(&given.to_lowercase(), states);
    let states = states.join(", ");
    Some(format!(
        "state is never {given}{hint}; the states are {states}"
    ))
}

/// The best of the trials, the best first.
fn best(
    store: &Store,
    study: &StudySummary,
    trials: Vec<FrozenTrial>,
    top: usize,
) -> Result<Vec<FrozenTrial>, Failure> {
    let wanted: BTreeSet<u64> = trials.iter().map(|t| t.number).collect();
    let outlines = store.outlines(study.study_id)?;
    let outlines: Vec<FrozenTrial> = outlines
        .into_iter()
        .filter(|t| wanted.contains(&t.number))
        .collect();
    let order = best_first(&study.directions, &outlines, top);
    let mut trials: BTreeMap<u64, FrozenTrial> =
        trials.into_iter().map(|t| (t.number, t)).collect();
    Ok(order
        .iter()
        .filter_map(|number| trials.remove(number))
        .collect())
}

/// The numbers of the best trials, the best first: of several objectives front after front, within one by the first
/// objective.
pub(super) fn best_first(directions: &[Direction], trials: &[FrozenTrial], top: usize) -> Vec<u64> {
    let able = trials
        .iter()
        .filter_map(|t| Some((t.number, t.result(directions.len())?)));
    let able: Vec<(u64, &[f64])> = able.collect();
    if let [direction] = directions {
        let mut values: Vec<(f64, u64)> = able.iter().map(|(n, v)| (v[0], *n)).collect();
        values.sort_by(|a, b| direction.order(*a, *b));
        return values.into_iter().take(top).map(|(_, n)| n).collect();
    }
    let points: Vec<Vec<f64>> = able
        .iter()
        .map(|(_, v)| pareto::losses(directions, v))
        .collect();
    let best = pareto::in_order(&points).into_iter().take(top);
    best.map(|i| able[i].0).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Unequal,
}

/// Two letters before one.
const COMPARISONS: [(&str, Comparison); 7] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("!=", Comparison::Unequal),
    ("==", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::More),
    ("=", Comparison::Equal),
];

/// Key, comparison and value of a condition.
fn parsed(text: &str) -> Option<(&str, Comparison, &str)> {
    let at = text.find(['<', '>', '=', '!'])?;
    let (key, rest) = text.split_at(at);
    let (word, comparison) = COMPARISONS
        .iter()
        .find(|(word, _)| rest.starts_with(word))?;
    let (key, value) = (key.trim(), rest[word.len()..].trim());
    (!key.is_empty() && !value.is_empty()).then_some((key, *comparison, value))
}

impl Comparison {
    /// Whether it is about more and less.
    fn orders(self) -> bool {
        match self {
            Comparison::Less | Comparison::AtMost | Comparison::More | Comparison::AtLeast => true,
            Comparison::Equal | Comparison::Unequal => false,
        }
    }

    /// Whether one of several names of a thing is what was given, or none of them is.
    fn holds_of(self, names: &[&Json], given: &str) -> bool {
        match self {
            Comparison::Unequal => names.iter().all(|name| self.holds(name, given)),
            Comparison::Equal
            | Comparison::Less
            | Comparison::AtMost
            | Comparison::More
            | Comparison::AtLeast => names.iter().any(|name| self.holds(name, given)),
        }
    }

    /// Whether a value compares so with what was given.
    fn holds(self, value: &Json, given: &str) -> bool {
        if let (Some(x), Ok(y)) = (number_from_json(value), given.parse::<f64>()) {
            return match self {
                Comparison::Less => x < y,
                Comparison::AtMost => x <= y,
                Comparison::More => x > y,
                Comparison::AtLeast => x >= y,
                Comparison::Equal => x == y,
                Comparison::Unequal => x != y,
            };
        }
        let same = match value {
            Json::String(text) => text.eq_ignore_ascii_case(given),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
                let shown = value.to_string();
                shown == given
            }
        };
        match self {
            Comparison::Equal => same,
            Comparison::Unequal => !same,
            Comparison::Less | Comparison::AtMost | Comparison::More | Comparison::AtLeast => false,
        }
    }
}

/// Numbers before text; what is not there comes last, also where the rest is turned round.
pub(super) fn by_value(a: Option<&Json>, b: Option<&Json>, down: bool) -> Ordering {
    let (Some(a), Some(b)) = (a, b) else {
        return b.is_some().cmp(&a.is_some());
    };
    let order = match (number_from_json(a), number_from_json(b)) {
        (Some(x), Some(y)) => x.total_cmp(&y),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => match (a.as_str(), b.as_str()) {
            (Some(a), Some(b)) => a.cmp(b),
            (_, _) => a.to_string().cmp(&b.to_string()),
        },
    };
    if down { order.reverse() } else { order }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_condition_is_a_key_a_comparison_and_a_value() {
        assert_eq!(
            parsed("optim.lr<1e-4"),
            Some(("optim.lr", Comparison::Less, "1e-4"))
        );
        assert_eq!(parsed("a >= b"), Some(("a", Comparison::AtLeast, "b")));
        assert_eq!(parsed("a!=b=c"), Some(("a", Comparison::Unequal, "b=c")));
        assert_eq!(parsed("a==1"), Some(("a", Comparison::Equal, "1")));
        for wrong in ["", "a", "a!b", "<1", "a<", "= 3"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_are_compared_as_numbers_and_the_rest_by_its_text() {
        let holds = |value: Json, text: &str| {
            let (_, comparison, given) = parsed(text).unwrap();
            comparison.holds(&value, given)
        };
        assert!(holds(json!(1e-5), "x<1e-4") && !holds(json!(1e-4), "x<0.0001"));
        assert!(holds(json!(16), "x=16.0") && holds(json!("Infinity"), "x>5"));
        assert!(holds(json!("adam"), "x=adam") && holds(json!("COMPLETE"), "state=complete"));
        assert!(holds(json!("sgd"), "x!=adam") && !holds(json!("sgd"), "x<5"));
        assert!(holds(json!(true), "x=true") && holds(json!(null), "x=null"));
        assert!(!holds(json!("NaN"), "x<5") && holds(json!("NaN"), "x!=5"));
    }

    #[test]
    fn a_reason_is_named_by_its_fault_too() {
        let names = [&json!("oom: out of memory"), &json!("oom")];
        for (text, holds) in [
            ("x=oom", true),
            ("x=oom: out of memory", true),
            ("x=hang", false),
            ("x!=oom", false),
            ("x!=hang", true),
        ] {
            let (_, comparison, given) = parsed(text).unwrap();
            assert_eq!(comparison.holds_of(&names, given), holds, "{text}");
        }
    }

    #[test]
    fn what_is_not_there_comes_last_in_both_directions() {
        let sorted = |down| {
            let mut all = [
                None,
                Some(json!("b")),
                Some(json!(10)),
                Some(json!("a")),
                Some(json!(9)),
            ];
            all.sort_by(|a, b| by_value(a.as_ref(), b.as_ref(), down));
            json!(all)
        };
        assert_eq!(sorted(false), json!([9, 10, "a", "b", null]));
        assert_eq!(sorted(true), json!(["b", "a", 10, 9, null]));
    }

    #[test]
    fn the_best_are_those_that_can_be_the_best() {
        let trial = |number, state, values: &[f64]| {
            let mut trial = FrozenTrial::new(number, state, Default::default());
            trial.values = values.to_vec();
            trial
        };
        let complete = TrialState::Complete;
        let trials = [
            trial(0, complete, &[0.5]),
            trial(1, TrialState::Pruned, &[0.1]),
            trial(2, complete, &[0.2]),
            trial(3, complete, &[0.2]),
            trial(4, TrialState::Fail, &[]),
        ];
        assert_eq!(best_first(&[Direction::Minimize], &trials, 2), [2, 3]);
        assert_eq!(best_first(&[Direction::Maximize], &trials, 9), [0, 2, 3]);
        let two = [
            trial(0, complete, &[1.0, 1.0]),
            trial(1, complete, &[2.0, 2.0]),
        ];
        let both = [Direction::Minimize, Direction::Minimize];
        assert_eq!(best_first(&both, &two, 5), [0, 1]);
    }
}
