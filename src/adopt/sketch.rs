//! A configuration to begin with, from the distributions that a study of Optuna's has used. Pure.

use std::collections::BTreeMap;

use super::worth::is_seed;
use search::space::{Domain, Value};
use search::study::{Direction, FrozenTrial, TrialState};

/// `[task]` and `[objective]` where nothing is known of the program.
pub fn sketched_program(metric: &str, direction: Direction) -> String {
    let metric = quoted(metric);
    format!(
        "[task]\nkind = \"command\"\n\
         run = [\"python\", \"train.py\"]     # parameters: $TUNE_PARAMS_FILE, or \"--lr={{lr}}\" here\n\
         # value = 'score=([0-9.]+)'       # where the value stands in the output, if nothing reports it\n\
         # files = [\"net.py\"]              # more that values depend on than the script itself\n\
         # baseline = 0.5                  # the value of the trivial answer\n\n\
         [objective]\nmetric = {metric}\ndirection = \"{direction}\"\n"
    )
}

/// The text of a task file of kind `command` with the study's space, behind its `[task]` and `[objective]`.
/// What only a person can know is left in comments.
pub fn sketch(study: &str, program: &str, trials: &[FrozenTrial]) -> String {
    let mut text = format!(
        "# Made from the trials of the study {}. Look through it: what the program is, what the\n\
         # metric is called, and what in the space is worth searching.\n\n{program}\n[space]\n",
        study.escape_debug()
    );
    for (name, domain) in domains(trials) {
        let key = quoted(name);
        if is_seed(name) {
            text += &format!(
                "# {key}: to search a seed is to pick lucky runs; each trial gets $TUNE_SEED\n"
            );
        } else if let Some(entry) = entry(&domain) {
            let when = match condition(name, trials) {
                Presence::Always => String::new(),
                Presence::When(parent, values) => {
                    let values: Vec<String> = values.iter().map(literal).collect();
                    format!(
                        ", when = {{ {} = [{}] }}",
                        quoted(parent),
                        values.join(", ")
                    )
                }
                Presence::Unclear(missing) => {
                    text += &format!(
                        "# {missing} complete trials have no {name}: it may want a `when`\n"
                    );
                    String::new()
                }
            };
            text += &format!("{key} = {{ {entry}{when} }}\n");
        } else {
            text += &format!("# {key}: TOML has no null; give its choices other names\n");
        }
    }
    text
}

/// The parameters that not all trials had, where nothing says which: they may want a `when`.
pub fn unclear_conditions(trials: &[FrozenTrial]) -> Vec<String> {
    let unclear = |name: &&str| matches!(condition(name, trials), Presence::Unclear(_));
    let names = domains(trials).into_keys();
    let names = names.filter(|name| !is_seed(name)).filter(unclear);
    names.map(str::to_owned).collect()
}

/// Every parameter with the widest domain that any trial had for it.
fn domains(trials: &[FrozenTrial]) -> BTreeMap<&str, Domain> {
    let mut domains: BTreeMap<&str, Domain> = BTreeMap::new();
    for (name, domain) in trials.iter().flat_map(|t| &t.distributions) {
        match domains.get_mut(name.as_str()) {
            // Of another kind than before: the script has changed, the first kind stands.
            Some(known) => *known = known.widened(domain),
            None => {
                domains.insert(name, domain.clone());
            }
        }
    }
    domains
}

/// The fields of an entry; `None` where a choice cannot be written.
fn entry(domain: &Domain) -> Option<String> {
    let number = |x: f64| literal(&Value::Float(x));
    let (range, log, step) = match domain {
        Domain::Categorical { choices } => {
            let writable = choices.iter().all(|c| *c != Value::Null);
            let all: Vec<String> = choices.iter().map(literal).collect();
            return writable.then(|| format!("choices = [{}]", all.join(", ")));
        }
        Domain::Float {
            low,
            high,
            log,
            step,
        } => (
            format!("low = {}, high = {}", number(*low), number(*high)),
            *log,
            step.map(number),
        ),
        Domain::Int {
            low,
            high,
            log,
            step,
        } => (
            format!("low = {low}, high = {high}, int = true"),
            *log,
            (*step != 1).then(|| step.to_string()),
        ),
    };
    let log = if log { ", log = true" } else { "" };
    let step = step.map_or(String::new(), |s| format!(", step = {s}"));
    Some(format!("{range}{log}{step}"))
}

/// When a parameter exists.
#[derive(Debug, PartialEq)]
enum Presence<'a> {
    /// In every trial.
    Always,
    /// Where this choice or whole number, which all trials have, is one of these.
    When(&'a str, Vec<Value>),
    /// Not in so many trials, and no single choice decides.
    Unclear(usize),
}

fn condition<'a>(name: &str, trials: &'a [FrozenTrial]) -> Presence<'a> {
    // A trial that failed may have ended before it had drawn all its parameters.
    let complete = |t: &&FrozenTrial| t.state == TrialState::Complete && !t.params.is_empty();
    let drawn: Vec<&FrozenTrial> = trials.iter().filter(complete).collect();
    let missing = drawn.iter().filter(|t| !t.params.contains_key(name));
    let missing = missing.count();
    if missing == 0 {
        return Presence::Always;
    }
    let choices = drawn.iter().flat_map(|t| &t.distributions);
    let decider = choices
        .filter(|(_, d)| matches!(d, Domain::Categorical { .. }))
        .filter(|(parent, _)| drawn.iter().all(|t| t.params.contains_key(*parent)))
        .find_map(|(parent, _)| {
            let (mut with, mut without) = (Vec::new(), Vec::new());
            for trial in &drawn {
                let side = if trial.params.contains_key(name) {
                    &mut with
                } else {
                    &mut without
                };
                let value = trial.params.get(parent)?;
                if !side.contains(&value) {
                    side.push(value);
                }
            }
            let decides = !with.is_empty()
                && !with
                    .iter()
                    .any(|v| without.contains(v) || **v == Value::Null);
            decides.then(|| (parent.as_str(), with.into_iter().cloned().collect()))
        });
    match decider.or_else(|| border(name, trials, &drawn)) {
        Some((parent, values)) => Presence::When(parent, values),
        None => Presence::Unclear(missing),
    }
}

/// The parameter whose whole numbers decide, all from one on or up to one: trials with the numbers on both sides of the
/// border show it. The numbers with which `name` was drawn.
fn border<'a>(
    name: &str,
    trials: &'a [FrozenTrial],
    drawn: &[&FrozenTrial],
) -> Option<(&'a str, Vec<Value>)> {
    /// So many values are worth a list.
    const LISTED: usize = 64;
    /// Fewer trials on a side may stand there by chance.
    const SHOWN: usize = 3;
    let parents = domains(trials).into_iter();
    let mut parents = parents.filter(|(parent, _)| !is_seed(parent));
    parents.find_map(|(parent, domain)| {
        let Domain::Int {
            low, high, step, ..
        } = domain
        else {
            return None;
        };
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for trial in drawn {
            let value = trial.params.get(parent)?.as_i64()?;
            match trial.params.contains_key(name) {
                true => with.push(value),
                false => without.push(value),
            }
        }
        let (first, last) = (*with.iter().min()?, *with.iter().max()?);
        let (least, most) = (*without.iter().min()?, *without.iter().max()?);
        let from_on = first == most.saturating_add(step);
        let decides = from_on || least == last.saturating_add(step);
        let shown = with.len().min(without.len()) >= SHOWN;
        let (from, to) = if from_on { (first, high) } else { (low, last) };
        let all = (from..=to).step_by(usize::try_from(step.max(1)).ok()?);
        let values: Vec<Value> = all.take(LISTED + 1).map(Value::Int).collect();
        let whole = values.len() <= LISTED && values.iter().all(|v| domain.contains(v));
        (decides && shown && whole).then_some((parent, values))
    })
}

fn literal(value: &Value) -> String {
    match value {
        Value::Str(text) => quoted(text),
        other @ (Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_)) => {
            other.to_string()
        }
    }
}

/// A string in quotes, as keys and values of TOML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::testing::trial;
    use config::{Input, Overrides, resolve_text};
    use search::study::TrialState::Complete;

    fn with(number: u64, params: &[(&str, Value, Domain)]) -> FrozenTrial {
        let mut trial = trial(number, Complete, Some(0.5), &[]);
        for (name, value, domain) in params {
            trial.params.insert((*name).to_owned(), value.clone());
            trial
                .distributions
                .insert((*name).to_owned(), domain.clone());
        }
        trial
    }

    fn float(low: f64, high: f64) -> Domain {
        Domain::Float {
            low,
            high,
            log: true,
            step: None,
        }
    }

    fn words(words: &[&str]) -> Domain {
        Domain::Categorical {
            choices: words.iter().map(|w| (*w).into()).collect(),
        }
    }

    #[test]
    fn whole_numbers_decide_where_trials_show_their_border() {
        let layers = Domain::int(1, 4);
        let with_units = |number: u64, n: i64, units: bool| {
            let mut trial = with(number, &[("layers", n.into(), layers.clone())]);
            if units {
                let units = with(number, &[("units", 8.into(), Domain::int(4, 16))]);
                trial.params.extend(units.params);
                trial.distributions.extend(units.distributions);
            }
            trial
        };
        let drawn = |without: i64| -> Vec<FrozenTrial> {
            let numbers = [without, without - 1, without, 3, 4, 3];
            let trial = |(at, n): (u64, i64)| with_units(at, n, n >= 3);
            (0..).zip(numbers).map(trial).collect()
        };
        let trials = drawn(2);
        let values: Vec<Value> = vec![3.into(), 4.into()];
        assert_eq!(
            condition("units", &trials),
            Presence::When("layers", values)
        );
        assert!(unclear_conditions(&trials).is_empty());
        for (trials, missing) in [(drawn(1), 3), (drawn(2)[2..].to_vec(), 1)] {
            assert_eq!(condition("units", &trials), Presence::Unclear(missing));
            assert_eq!(unclear_conditions(&trials), ["units"]);
        }
    }

    #[test]
    fn the_sketch_is_a_configuration_with_the_space_that_was_searched() {
        let layers = Domain::Int {
            low: 2,
            high: 8,
            log: false,
            step: 2,
        };
        let names = words(&["sgd", "adam \"w\""]);
        let trials = [
            with(
                0,
                &[
                    ("lr", 1e-4.into(), float(1e-5, 0.1)),
                    ("opt.name", "sgd".into(), names.clone()),
                    ("momentum", 0.5.into(), float(0.1, 0.9)),
                    ("seed", 3.into(), layers.clone()),
                ],
            ),
            with(
                1,
                &[
                    ("lr", 1e-4.into(), float(1e-6, 0.01)),
                    ("opt.name", "adam \"w\"".into(), names.clone()),
                    ("n layers", 4.into(), layers.clone()),
                ],
            ),
        ];
        let text = sketch(
            "my \"study\"",
            &sketched_program("value", Direction::Maximize),
            &trials,
        );
        let file = Path::new("/p/configs/t.toml");
        let input = Input {
            text: &text,
            shown: file,
            absolute: file,
            home: None,
        };
        let spec = resolve_text(&input, &Overrides::default(), &config::kinds::KINDS).unwrap();
        let domain = |name: &str| &spec.space.find(name).unwrap().1.domain;
        assert_eq!(*domain("lr"), float(1e-6, 0.1));
        assert_eq!(*domain("n layers"), layers);
        assert_eq!(*domain("opt.name"), names);
        assert!(spec.space.find("seed").is_none());
        let when = &spec.space.find("momentum").unwrap().1.when;
        assert_eq!(when[0].parent, "opt.name");
        assert_eq!(when[0].values, ["sgd".into()]);
        assert_eq!(spec.objective.direction, Direction::Maximize);
    }
}
