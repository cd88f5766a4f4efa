//! A study that Optuna or another program made elsewhere, taken into the project: what it is worth for a task, and
//! its trials as the task's study holds them.
//!
//! ```text
//! source      a copy of the file, taken without touching it (shell)
//! foreign     the studies of other programs, as Optuna's (shell)
//! faults      CUDA and memory errors in the trials' attributes
//! worth       values: the best, the trivial answer, the noise, impossible ones
//! importance  which parameters the values depend on
//! compare     the parameters beside the task's
//! fit         which trials are history for the sampler; how each is stored
//! verdict     all of it in one line
//! ```
//!
//! Everything but these two is pure.

pub mod compare;
pub mod faults;
pub mod fit;
pub mod foreign;
mod sketch;
pub mod source;
#[cfg(test)]
mod testing;
pub mod verdict;
pub mod worth;

use std::collections::{BTreeMap, BTreeSet};

use config::StudySpec;
use search::importance;
use search::space::{Domain, Space, Value};
use search::study::{Direction, FrozenTrial, TrialState};

use config::Baseline;
use config::Prepared;
use config::{Metric, Role};

pub use sketch::{sketch, sketched_program, unclear_conditions};
pub use source::{DatabaseCopy, SignsOfUse, copy};
pub use verdict::{Verdict, Worth};

/// What the task asks of a history.
#[derive(Debug, Clone)]
pub struct TaskRequirements<'a> {
    /// What it searches, and its fixed keys.
    pub space: &'a Space,
    /// The keys that its trainings read.
    pub read: BTreeSet<String>,
    /// Least and greatest value of the objective's metric, where they are known.
    pub range: Option<(f64, f64)>,
    /// Its direction.
    pub direction: Direction,
    /// The trivial answer.
    pub baseline: Option<&'a Baseline>,
    /// The study's seed; permutations are a function of it.
    pub seed: u64,
}

impl<'a> TaskRequirements<'a> {
    /// What a checked configuration asks; `None` where its task kind has no code.
    pub fn new(spec: &'a StudySpec, prepared: &'a Prepared) -> Option<TaskRequirements<'a>> {
        let kind = config::kinds::kind(&spec.kind)?;
        let objective = &spec.objective;
        let named = |m: &&Metric| m.name == objective.metric;
        let declared = kind.keys.iter().map(|k| (k.name, k.role));
        // A kind that passes parameters on reads whatever it is given.
        let passed_on = (spec.fixed.keys().map(String::as_str))
            .chain(spec.space.parameters.iter().map(|p| p.name.as_str()))
            .filter(|name| !kind.keys.iter().any(|k| k.name == *name))
            .map(|name| (name, Role::Training));
        Some(TaskRequirements {
            space: &spec.space,
            read: declared
                .chain(passed_on)
                .filter(|(_, role)| *role == Role::Training)
                .map(|(name, _)| name.to_owned())
                .collect(),
            range: kind.metrics.iter().find(named).and_then(|m| m.range),
            direction: objective.direction,
            baseline: prepared.baseline.as_ref(),
            seed: spec.seed,
        })
    }

    /// Whether the task searches a key, or reads it and gives it a value.
    pub fn knows(&self, name: &str) -> bool {
        self.space.find(name).is_some() || compare::fixed(name, &self.space.fixed, self).is_some()
    }
}

/// A trial that waits with a point that the task cannot take.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Rejected {
    /// Trial number.
    pub number: u64,
    /// Why.
    pub why: String,
}

/// Everything that is told about a history.
#[derive(Debug, Clone, PartialEq)]
pub struct Assessment {
    /// Trials by state.
    pub states: BTreeMap<&'static str, usize>,
    /// Trials that count towards a goal.
    pub counted: usize,
    /// Numbers of the trials left RUNNING.
    pub running: Vec<u64>,
    /// Faults.
    pub faults: faults::Faults,
    /// Values.
    pub values: worth::Values,
    /// Parameters.
    pub parameters: Vec<compare::ParameterComparison>,
    /// Their effects on the values of COMPLETE trials.
    pub effects: BTreeMap<String, importance::Effect>,
    /// COMPLETE trials that the effects were looked for in.
    pub looked_at: usize,
    /// What becomes history.
    pub fit: fit::Fit,
    /// Enqueued points that the task can take.
    pub enqueued: usize,
    /// The trials whose enqueued points it cannot take: they become FAIL.
    pub rejected: Vec<Rejected>,
}

/// Looks at a history; trials ascending by number.
pub fn assess(trials: &[FrozenTrial], asked: &TaskRequirements) -> Assessment {
    let mut states = BTreeMap::new();
    for trial in trials {
        *states.entry(trial.state.optuna()).or_default() += 1;
    }
    let faults = faults::faults(trials);
    let ran: Vec<&FrozenTrial> = trials
        .iter()
        .filter(|t| !faults.victims.contains(&t.number))
        .collect();
    // Impossible values would drown what the others say.
    let scored: Vec<_> = ran
        .iter()
        .filter(|t| t.state == TrialState::Complete)
        .filter_map(|t| Some((&t.params, t.value()?)))
        .filter(|(_, value)| worth::possible(asked.range, *value))
        .collect();
    let in_state = |state| trials.iter().filter(move |t| t.state == state);
    let arrival = fit::Arrival {
        now: "",
        alive: false,
        victims: &faults.victims,
    };
    let rejected: Vec<Rejected> = in_state(TrialState::Waiting)
        .map(|t| fit::adopted(t, asked, &arrival))
        .filter(|t| t.state != TrialState::Waiting)
        .map(|t| {
            let note = t.user_attrs.get(fit::NOTE).and_then(|n| n.as_str());
            let why = note.unwrap_or_default().trim_start_matches("was WAITING; ");
            Rejected {
                number: t.number,
                why: why.to_owned(),
            }
        })
        .collect();
    Assessment {
        states,
        counted: trials.iter().filter(|t| t.counts()).count(),
        running: in_state(TrialState::Running).map(|t| t.number).collect(),
        values: worth::values(&ran, asked.range, asked.direction, asked.baseline),
        parameters: compare::compare(trials, asked),
        effects: importance::effects(&scored, asked.seed),
        looked_at: scored.len(),
        fit: fit::fit(trials, asked, &faults.victims),
        enqueued: in_state(TrialState::Waiting).count() - rejected.len(),
        rejected,
        faults,
    }
}

/// The choice `null` (Python's `None`) becomes the word: TOML, and so a task's space, has no null.
pub fn name_nulls(trials: &mut [FrozenTrial]) {
    const NULL: &str = "null";
    for trial in trials {
        for value in trial.params.values_mut() {
            if *value == Value::Null {
                *value = NULL.into();
            }
        }
        for domain in trial.distributions.values_mut() {
            if let Domain::Categorical { choices } = domain
                && !choices.contains(&NULL.into())
            {
                for choice in choices.iter_mut().filter(|c| **c == Value::Null) {
                    *choice = NULL.into();
                }
            }
        }
        let fixed = trial.system_attrs.get_mut("fixed_params");
        for value in fixed.and_then(|f| f.as_object_mut()).into_iter().flatten() {
            if value.1.is_null() {
                *value.1 = NULL.into();
            }
        }
    }
}

/// Checks that the task has the names that parameters are to be given.
///
/// # Errors
/// It does not have one of them; a text for people.
pub fn check_names(names: &[(String, String)], asked: &TaskRequirements) -> Result<(), String> {
    let Some((old, new)) = names.iter().find(|(_, new)| !asked.knows(new)) else {
        return Ok(());
    };
    let searched = asked.space.parameters.iter().map(|p| p.name.as_str());
    let fixed = asked.space.fixed.keys().map(String::as_str);
    let known: Vec<&str> = searched.chain(fixed.filter(|n| asked.knows(n))).collect();
    Err(format!(
        "{old}={new}: the task has no parameter {new}; it has {}",
        known.join(", ")
    ))
}

/// Gives parameters other names, in values, distributions and enqueued points.
///
/// # Errors
/// No trial has the old name, or one has the new name too; a text for people.
pub fn rename(trials: &mut [FrozenTrial], names: &[(String, String)]) -> Result<(), String> {
    for (old, new) in names {
        let mut found = false;
        for trial in trials.iter_mut() {
            let number = trial.number;
            let Some(value) = trial.params.remove(old) else {
                continue;
            };
            found = true;
            if trial.params.insert(new.clone(), value).is_some() {
                return Err(format!("trial {number} has both {old} and {new}"));
            }
            if let Some(domain) = trial.distributions.remove(old) {
                trial.distributions.insert(new.clone(), domain);
            }
        }
        for trial in trials.iter_mut() {
            let fixed = trial.system_attrs.get_mut("fixed_params");
            if let Some(fixed) = fixed.and_then(|f| f.as_object_mut())
                && let Some(value) = fixed.shift_remove(old)
            {
                found = true;
                fixed.insert(new.clone(), value);
            }
        }
        if !found {
            return Err(format!("no trial has a parameter {old}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::testing::trial;
    use super::*;
    use search::space::Value;
    use serde_json::json;

    #[test]
    fn renamed_parameters_are_renamed_everywhere() {
        let params = [("lr", Value::Float(0.1)), ("x", Value::Int(1))];
        let mut trials = [
            trial(0, TrialState::Complete, Some(0.5), &params),
            trial(1, TrialState::Waiting, None, &[]),
        ];
        let fixed = json!({"lr": 0.2});
        trials[1].system_attrs.insert("fixed_params".into(), fixed);
        let name = |a: &str, b: &str| [(a.to_owned(), b.to_owned())];
        rename(&mut trials, &name("lr", "optim.lr")).unwrap();
        assert_eq!(trials[0].params["optim.lr"], Value::Float(0.1));
        assert!(trials[0].distributions.contains_key("optim.lr"));
        assert_eq!(trials[1].fixed_params()["optim.lr"], Value::Float(0.2));
        assert!(rename(&mut trials, &name("lr", "y")).is_err());
        let space = super::testing::space();
        let asked = super::testing::asked(&space);
        assert_eq!(check_names(&name("x", "lr"), &asked), Ok(()));
        assert_eq!(check_names(&name("x", "width"), &asked), Ok(()));
        let error = check_names(&name("x", "optim.lr"), &asked).unwrap_err();
        assert!(
            error.contains("it has lr, layers, name, momentum"),
            "{error}"
        );
        assert!(rename(&mut trials, &name("x", "optim.lr")).is_err());
    }
}
