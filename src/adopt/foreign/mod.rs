//! Studies that other programs than Optuna have left, as Optuna's: Ray Tune's directory of an experiment, Hyperopt's pickled
//! trials, a table of trials as W&B exports it. From there on they are adopted as any study is.
//!
//! What these formats do not tell is filled in with the least that explains the trials: a parameter's domain reaches from
//! its least to its greatest value, on a logarithmic scale where all are positive and the greatest is a hundred times the
//! least; texts and truth values are choices.

mod hyperopt;
mod ray;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::fit;
use files::bounded;
use messages::clock::to_store;
use messages::exit::Failure;
use search::space::{Domain, Params, Value};
use search::study::{Direction, FrozenTrial, TrialState};

pub use hyperopt::choose_by_place;

/// Values whose greatest is so many times the least are taken for ones on a logarithmic scale.
const LOGARITHMIC: f64 = 100.0;

/// So many metrics are named where none is the one that was asked for.
const NAMED: usize = 12;

/// Which of the metrics that a program has kept is the value of its trials.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedValue {
    /// Its name there; parts may be joined by `.` or by `/`.
    pub metric: String,
    /// Its direction.
    pub direction: Direction,
}

/// Where a study comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Optuna's database.
    Optuna,
    /// Ray Tune's directory of an experiment.
    Ray,
    /// Hyperopt's trials in a pickle.
    Hyperopt,
    /// A table of trials: CSV.
    Table,
}

impl Origin {
    /// What a file or directory looks like.
    pub fn of(path: &Path) -> Origin {
        let extension = path.extension().and_then(|e| e.to_str());
        let extension = extension.unwrap_or_default().to_ascii_lowercase();
        let pickled = || {
            let mut head = [0; 2];
            let read = bounded::open(path).and_then(|mut file| file.read_exact(&mut head));
            read.is_ok() && hyperopt::begins(head)
        };
        match extension.as_str() {
            _ if path.is_dir() => Origin::Ray,
            "csv" => Origin::Table,
            "pkl" | "pickle" => Origin::Hyperopt,
            _ if pickled() => Origin::Hyperopt,
            _ => Origin::Optuna,
        }
    }

    /// Which number is the value of a trial, where the program has a word for it.
    pub fn value(self) -> Option<WantedValue> {
        (self == Origin::Hyperopt).then(|| WantedValue {
            metric: "loss".to_owned(),
            direction: Direction::Minimize,
        })
    }

    /// What reads its trials; `None`: it is a database of Optuna's.
    pub(crate) fn reader(self) -> Option<Reader> {
        match self {
            Origin::Optuna => None,
            Origin::Ray => Some(ray::read),
            Origin::Hyperopt => Some(hyperopt::read),
            Origin::Table => Some(table::read),
        }
    }

    /// What it is called in answers for programs.
    pub fn word(self) -> &'static str {
        match self {
            Origin::Optuna => "optuna",
            Origin::Ray => "ray",
            Origin::Hyperopt => "hyperopt",
            Origin::Table => "table",
        }
    }

    /// For people, as part of a sentence.
    pub fn text(self) -> &'static str {
        match self {
            Origin::Optuna => "made with Optuna",
            Origin::Ray => "made with Ray Tune",
            Origin::Hyperopt => "made with Hyperopt",
            Origin::Table => "from a table",
        }
    }
}

/// Reads what lies at a path; the error says what is wrong with it.
pub(crate) type Reader = fn(&Path) -> Result<Vec<Record>, String>;

/// A trial as a program has kept it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Record {
    /// What names it there.
    name: String,
    params: Params,
    /// Every number that it reported, step by step; of a table only the last one, at step 0.
    metrics: BTreeMap<String, BTreeMap<i64, f64>>,
    state: State,
    start: Option<Timestamp>,
    end: Option<Timestamp>,
    /// What it died of.
    error: Option<String>,
}

/// How it ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Ended,
    /// It was stopped early because others were better.
    Pruned,
    Failed,
    /// It runs, or was left by a program that died.
    Open,
    /// It has not begun.
    Waiting,
}

/// A study.
#[derive(Debug)]
pub(crate) struct Foreign {
    /// Called as the file or directory is.
    pub name: String,
    pub direction: Direction,
    pub trials: Vec<FrozenTrial>,
}

/// Reads a study of any but Optuna's origin; `shown` is the path as it was given. Without a value that is wanted, the program's.
///
/// # Errors
/// It cannot be read, holds no trials, or not the value that is wanted (2).
pub(crate) fn read(
    origin: Origin,
    records: Reader,
    path: &Path,
    shown: &Path,
    wanted: Option<&WantedValue>,
) -> Result<Foreign, Failure> {
    let failed = |why: String| Failure::input(format!("{}: {why}", shown.display()));
    let records = records(path).map_err(failed)?;
    let metrics = records.iter().flat_map(|r| r.metrics.keys());
    let metrics: BTreeSet<&str> = metrics.map(String::as_str).collect();
    let usual = origin.value();
    let Some(wanted) = wanted.or(usual.as_ref()) else {
        return Err(failed(format!(
            "nothing in it says which number is the value of a trial: say it with --metric NAME:min or NAME:max; there are {}",
            listed(&metrics)
        )));
    };
    let named = |name: &&&str| same_name(name, &wanted.metric);
    let Some(metric) = metrics.iter().find(named) else {
        return Err(failed(format!(
            "no trial has reported {:?}: say which number is the value with --metric NAME:min or NAME:max; there are {}",
            wanted.metric,
            listed(&metrics)
        )));
    };
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(Foreign {
        name: name.into_owned(),
        direction: wanted.direction,
        trials: trials(&records, metric),
    })
}

fn same_name(one: &str, other: &str) -> bool {
    one.replace('/', ".") == other.replace('/', ".")
}

fn listed(names: &BTreeSet<&str>) -> String {
    let mut all: Vec<&str> = names.iter().copied().take(NAMED).collect();
    if names.len() > NAMED {
        all.push("...");
    }
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.join(", "),
    }
}

/// Said of a trial that ran while its records were written.
const STILL_RUNNING: &str = "was running when its records were written; settled when adopted";

/// Said of a trial that nobody had begun then.
const STILL_WAITING: &str = "was waiting when its records were written; settled when adopted";

/// The trials that ran while their records were written, by their numbers.
pub fn still_running(trials: &[FrozenTrial]) -> Vec<u64> {
    let running = |trial: &&FrozenTrial| {
        let note = trial.user_attrs.get(fit::NOTE).and_then(Json::as_str);
        note == Some(STILL_RUNNING)
    };
    trials.iter().filter(running).map(|t| t.number).collect()
}

/// Trials of Optuna's, in the order of the records.
fn trials(records: &[Record], metric: &str) -> Vec<FrozenTrial> {
    let domains = domains(records.iter().map(|r| &r.params));
    let trial = |(number, record): (u64, &Record)| {
        let curve = record.metrics.get(metric);
        let last = curve.and_then(|curve| curve.values().next_back().copied());
        let state = match record.state {
            // What is read is a copy of what its program wrote: nobody goes on with it.
            State::Open | State::Waiting | State::Failed => TrialState::Fail,
            State::Pruned => TrialState::Pruned,
            State::Ended if last.is_none_or(f64::is_nan) => TrialState::Fail,
            State::Ended => TrialState::Complete,
        };
        let mut trial = FrozenTrial::new(number, state, record.params.clone());
        trial.params.remove(metric);
        let drawn = |name: &String| Some((name.clone(), domains.get(name.as_str())?.clone()));
        trial.distributions = trial.params.keys().filter_map(drawn).collect();
        if state != TrialState::Fail {
            // Optuna, too, gives a trial that was stopped early the last value that it reported.
            trial.values = last.into_iter().filter(|x| !x.is_nan()).collect();
        }
        // One value alone is no curve.
        let steps = curve.filter(|curve| curve.len() > 1);
        trial.intermediate = steps.cloned().unwrap_or_default();
        trial.datetime_start = record.start.map(to_store);
        trial.datetime_complete = record.end.filter(|_| state.finished()).map(to_store);
        let attrs = &mut trial.user_attrs;
        attrs.insert("name".to_owned(), record.name.as_str().into());
        let unfinished = match record.state {
            State::Open => Some((TrialState::Running, STILL_RUNNING)),
            State::Waiting => Some((TrialState::Waiting, STILL_WAITING)),
            State::Ended | State::Pruned | State::Failed => None,
        };
        if let Some((was, note)) = unfinished {
            attrs.insert(fit::STATE.to_owned(), was.optuna().into());
            attrs.insert(fit::NOTE.to_owned(), note.into());
        }
        attrs.extend(
            record
                .error
                .as_ref()
                .map(|e| ("error".to_owned(), e.as_str().into())),
        );
        let other = |name: &String| name != metric && !record.params.contains_key(name);
        for (name, steps) in record.metrics.iter().filter(|(name, _)| other(name)) {
            let last = steps.values().next_back();
            attrs.extend(last.map(|x| (format!("metric.{name}"), messages::json_number(*x))));
        }
        trial
    };
    (0..).zip(records).map(trial).collect()
}

/// The narrowest domain of each parameter that has all its values.
fn domains<'a>(points: impl Iterator<Item = &'a Params>) -> BTreeMap<&'a str, Domain> {
    let mut values: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for (name, value) in points.flatten() {
        values.entry(name).or_default().push(value);
    }
    let of = |(name, values): (&'a str, Vec<&Value>)| (name, domain(&values));
    values.into_iter().map(of).collect()
}

fn domain(values: &[&Value]) -> Domain {
    let numbers: Option<Vec<f64>> = values.iter().map(|v| v.as_f64()).collect();
    let Some(numbers) = numbers else {
        let mut choices: Vec<Value> = Vec::new();
        for value in values {
            if !choices.contains(value) {
                choices.push(Value::clone(value));
            }
        }
        choices.sort_by_key(ToString::to_string);
        return Domain::Categorical { choices };
    };
    let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let log = low > 0.0 && high / low >= LOGARITHMIC;
    let whole: Option<Vec<i64>> = values.iter().map(|v| v.as_i64()).collect();
    match whole {
        Some(whole) => Domain::Int {
            low: whole.iter().copied().min().unwrap_or(0),
            high: whole.iter().copied().max().unwrap_or(0),
            log,
            step: 1,
        },
        None => Domain::Float {
            low,
            high,
            log,
            step: None,
        },
    }
}

/// The single values of a configuration by dotted names; what is no single value is the text of its JSON.
fn flattened(json: &Json) -> BTreeMap<String, Json> {
    let mut flat = BTreeMap::new();
    let mut left = vec![(String::new(), json)];
    while let Some((name, json)) = left.pop() {
        match json {
            Json::Object(members) if !members.is_empty() || name.is_empty() => {
                let dot = if name.is_empty() { "" } else { "." };
                let below = members.iter();
                left.extend(below.map(|(key, json)| (format!("{name}{dot}{key}"), json)));
            }
            Json::Object(_) | Json::Array(_) => _ = flat.insert(name, json.to_string().into()),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {
                flat.insert(name, json.clone());
            }
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn domains_are_as_narrow_as_the_values() {
        let of = |values: &[Value]| domain(&values.iter().collect::<Vec<_>>());
        let (float, int) = (Value::Float, Value::Int);
        assert_eq!(of(&[float(0.5), int(2)]), Domain::float(0.5, 2.0));
        assert_eq!(
            of(&[float(1e-4), float(0.1)]),
            Domain::Float {
                low: 1e-4,
                high: 0.1,
                log: true,
                step: None
            }
        );
        assert_eq!(of(&[int(3), int(1), float(2.0)]), Domain::int(1, 3));
        let choices = ["a", "b"].map(Value::from).to_vec();
        assert_eq!(
            of(&[Value::from("b"), Value::from("a"), Value::from("b")]),
            Domain::Categorical { choices }
        );
    }

    #[test]
    fn configurations_become_flat() {
        let flat = flattened(&json!({"a": {"b": 1, "c": {"d": [1, 2]}}, "e": null}));
        let expected = [
            ("a.b", json!(1)),
            ("a.c.d", json!("[1,2]")),
            ("e", json!(null)),
        ];
        assert_eq!(flat, expected.map(|(n, v)| (n.to_owned(), v)).into());
    }

    #[test]
    fn a_trial_that_ended_without_its_value_failed() {
        let metrics = |x: f64| BTreeMap::from([("loss".to_owned(), BTreeMap::from([(0, x)]))]);
        let records = [
            Record {
                metrics: metrics(0.5),
                ..Record::default()
            },
            Record {
                metrics: metrics(f64::NAN),
                ..Record::default()
            },
            Record::default(),
            Record {
                state: State::Open,
                ..Record::default()
            },
        ];
        let found = trials(&records, "loss");
        use TrialState::{Complete, Fail};
        let states: Vec<TrialState> = found.iter().map(|t| t.state).collect();
        assert_eq!(states, [Complete, Fail, Fail, Fail]);
        assert_eq!(found[3].user_attrs[fit::STATE], "RUNNING");
        assert_eq!(still_running(&found), [3]);
    }
}
