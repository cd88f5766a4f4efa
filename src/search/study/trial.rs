//! A trial, its states and their legal transitions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::{STRUCK, ranking, violation};
use crate::space::{Domain, Params, Value};

/// Whether the objective is to be made small or large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Smaller is better.
    Minimize,
    /// Larger is better.
    Maximize,
}

impl Direction {
    /// Whether `a` is strictly better than `b`. NaN is worse than everything.
    pub fn better(self, a: f64, b: f64) -> bool {
        if a.is_nan() || b.is_nan() {
            return !a.is_nan() && b.is_nan();
        }
        match self {
            Direction::Minimize => a < b,
            Direction::Maximize => a > b,
        }
    }

    /// The item with the best value; among equals the first.
    pub fn best<T>(self, all: impl IntoIterator<Item = (T, f64)>) -> Option<(T, f64)> {
        all.into_iter()
            .reduce(|best, next| match self.better(next.1, best.1) {
                true => next,
                false => best,
            })
    }

    /// The order of values with their trials' numbers: the best first, among equals the earliest.
    pub fn order(self, (a, i): (f64, u64), (b, j): (f64, u64)) -> Ordering {
        (self.loss(a).total_cmp(&self.loss(b))).then(i.cmp(&j))
    }

    /// The value as a loss: smaller is better.
    pub fn loss(self, value: f64) -> f64 {
        match self {
            Direction::Minimize => value,
            Direction::Maximize => -value,
        }
    }

    /// The word in Optuna's `study_directions` table.
    pub fn optuna(self) -> &'static str {
        match self {
            Direction::Minimize => "MINIMIZE",
            Direction::Maximize => "MAXIMIZE",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Minimize => "minimize",
            Direction::Maximize => "maximize",
        })
    }
}

impl FromStr for Direction {
    type Err = ();
    fn from_str(s: &str) -> Result<Direction, ()> {
        match s {
            "minimize" | "MINIMIZE" | "min" => Ok(Direction::Minimize),
            "maximize" | "MAXIMIZE" | "max" => Ok(Direction::Maximize),
            _ => Err(()),
        }
    }
}

/// A trial's state, as Optuna has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum TrialState {
    /// Enqueued, not started.
    Waiting,
    /// Started; between two attempts of one trial, too.
    Running,
    /// Ended with a value.
    Complete,
    /// Ended early: by the pruner, or by a fault that the trial caused.
    Pruned,
    /// Ended by an error of the task's own code or data.
    Fail,
}

/// A transition that no trial may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a trial cannot go from {from} to {to}")]
pub struct IllegalTransition {
    /// The state it is in.
    pub from: TrialState,
    /// The state that was asked for.
    pub to: TrialState,
}

impl TrialState {
    /// Whether the trial has ended.
    pub fn finished(self) -> bool {
        match self {
            TrialState::Complete | TrialState::Pruned | TrialState::Fail => true,
            TrialState::Waiting | TrialState::Running => false,
        }
    }

    /// The next state, if the transition is legal: a trial is started once and ends once.
    pub fn next(self, to: TrialState) -> Result<TrialState, IllegalTransition> {
        let legal = match self {
            TrialState::Waiting => to == TrialState::Running || to.finished(),
            TrialState::Running => to.finished(),
            TrialState::Complete | TrialState::Pruned | TrialState::Fail => false,
        };
        if legal {
            Ok(to)
        } else {
            Err(IllegalTransition { from: self, to })
        }
    }

    /// The word in Optuna's `trials` table; anything else makes Optuna's load fail.
    pub fn optuna(self) -> &'static str {
        match self {
            TrialState::Waiting => "WAITING",
            TrialState::Running => "RUNNING",
            TrialState::Complete => "COMPLETE",
            TrialState::Pruned => "PRUNED",
            TrialState::Fail => "FAIL",
        }
    }
}

impl fmt::Display for TrialState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.optuna())
    }
}

impl FromStr for TrialState {
    type Err = ();
    fn from_str(s: &str) -> Result<TrialState, ()> {
        Ok(match s {
            "WAITING" => TrialState::Waiting,
            "RUNNING" => TrialState::Running,
            "COMPLETE" => TrialState::Complete,
            "PRUNED" => TrialState::Pruned,
            "FAIL" => TrialState::Fail,
            _ => return Err(()),
        })
    }
}

/// A trial as the store holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct FrozenTrial {
    /// Row id in the database; unique over all studies.
    pub trial_id: i64,
    /// Number within the study, from 0.
    pub number: u64,
    /// State.
    pub state: TrialState,
    /// Parameter values.
    pub params: Params,
    /// The distribution each value was drawn from.
    pub distributions: BTreeMap<String, Domain>,
    /// One value an objective; empty without a result. Infinite values are legal, NaN is not.
    pub values: Vec<f64>,
    /// Reported values by step; infinite and NaN values are legal.
    pub intermediate: BTreeMap<i64, f64>,
    /// User attributes (JSON as Python writes it is mapped to the strings of the contract).
    pub user_attrs: Map<String, Json>,
    /// Optuna's attributes.
    pub system_attrs: Map<String, Json>,
    /// Naive UTC, `YYYY-MM-DD HH:MM:SS.ffffff`.
    pub datetime_start: Option<String>,
    /// Naive UTC.
    pub datetime_complete: Option<String>,
}

/// User attribute: the epoch at which the pruner would have ended the trial, which went on to show whether that had been
/// right.
pub const AUDITED: &str = "pruner.audited";

impl FrozenTrial {
    /// A trial with nothing but its point, which is in no database.
    pub fn new(number: u64, state: TrialState, params: Params) -> FrozenTrial {
        FrozenTrial {
            trial_id: 0,
            number,
            state,
            params,
            distributions: BTreeMap::new(),
            values: Vec::new(),
            intermediate: BTreeMap::new(),
            user_attrs: Map::new(),
            system_attrs: Map::new(),
            datetime_start: None,
            datetime_complete: None,
        }
    }

    /// The objective's value, of a single-objective trial that has one.
    pub fn value(&self) -> Option<f64> {
        self.values.first().copied()
    }

    /// Whether it has ended with a value: what trains it works.
    pub fn gave_value(&self) -> bool {
        self.state.finished() && !self.values.is_empty()
    }

    /// The value of a trial that has one; none with several objectives.
    pub fn only_value(&self) -> Option<f64> {
        self.value().filter(|_| self.values.len() == 1)
    }

    /// The values of an enqueued trial that are fixed beforehand (Optuna's `fixed_params`).
    pub fn fixed_params(&self) -> Params {
        let Some(Json::Object(fixed)) = self.system_attrs.get("fixed_params") else {
            return Params::new();
        };
        fixed
            .iter()
            .filter_map(|(k, v)| Some((k.clone(), Value::from_json(v)?)))
            .collect()
    }

    /// Its values, if it can be one of the best of a study with so many objectives.
    pub fn result(&self, objectives: usize) -> Option<&[f64]> {
        ranking::result(self.state, &self.values, objectives).filter(|_| self.feasible())
    }

    /// Whether it violates no constraint (see [`violation`]).
    pub fn feasible(&self) -> bool {
        violation(self).is_none_or(|v| v <= 0.0)
    }

    /// Whether somebody has declared its result invalid: it neither leads nor teaches.
    pub fn struck(&self) -> bool {
        self.system_attrs.contains_key(STRUCK)
    }

    /// Whether it counts towards `--trials`: COMPLETE, or PRUNED after having been started (an
    /// `infeasible` trial never was).
    pub fn counts(&self) -> bool {
        match self.state {
            TrialState::Complete => true,
            TrialState::Pruned => self.user_attrs.get("infeasible") != Some(&Json::Bool(true)),
            TrialState::Fail | TrialState::Waiting | TrialState::Running => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_ends_once() {
        for state in [TrialState::Complete, TrialState::Pruned, TrialState::Fail] {
            for to in [
                TrialState::Waiting,
                TrialState::Running,
                TrialState::Complete,
                TrialState::Pruned,
                TrialState::Fail,
            ] {
                assert_eq!(state.next(to), Err(IllegalTransition { from: state, to }));
            }
        }
        assert!(TrialState::Running.next(TrialState::Pruned).is_ok());
        assert!(TrialState::Running.next(TrialState::Waiting).is_err());
    }

    #[test]
    fn nan_is_never_better() {
        for direction in [Direction::Minimize, Direction::Maximize] {
            assert!(!direction.better(f64::NAN, 1.0));
            assert!(direction.better(1.0, f64::NAN));
            assert!(!direction.better(f64::NAN, f64::NAN));
            assert!(!direction.better(1.0, 1.0));
        }
    }
}
