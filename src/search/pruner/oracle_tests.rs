//! Decisions against those of Optuna 5 (`tests/data/pruner-oracle.json`, written by
//! `tests/optuna/pruner_oracle.py`).

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::testing::put;
use super::{Horizon, Pruner, pruner};
use crate::pruner::PrunerSpec;
use crate::sampler::testing::trial;
use crate::space::{Params, Space, Value};
use crate::study::{Direction, Entry, History, TrialState};

const ORACLE: &str = include_str!("../../../tests/data/pruner-oracle.json");

fn number(json: &Json) -> f64 {
    match json.as_f64() {
        Some(value) => value,
        None => json.as_str().unwrap().parse().unwrap(),
    }
}

/// A study that goes as Optuna's did.
struct Replay {
    pruner: Box<dyn Pruner>,
    history: History,
    running: BTreeMap<u64, Entry>,
    prunes: usize,
}

impl Replay {
    fn new(case: &Json) -> Replay {
        let given = case["options"].as_object().unwrap();
        let options: Params = given
            .iter()
            .map(|(name, value)| (name.clone(), Value::from_json(value).unwrap()))
            .collect();
        let spec = PrunerSpec {
            kind: case["kind"].as_str().unwrap().to_owned(),
            options,
        };
        let horizon = Horizon {
            max_step: None,
            study: case["study"].as_str().unwrap().to_owned(),
        };
        let direction: Direction = case["direction"].as_str().unwrap().parse().unwrap();
        Replay {
            pruner: pruner(&spec, &horizon).unwrap(),
            history: History::new(vec![direction]),
            running: BTreeMap::new(),
            prunes: 0,
        }
    }

    fn take(&mut self, event: &Json) {
        let trial_number = event[1].as_u64().unwrap();
        let entry = (self.running.entry(trial_number))
            .or_insert_with(|| super::testing::entry(trial_number, TrialState::Running, &[]));
        match event[0].as_str().unwrap() {
            "report" => {
                let step = event[2].as_i64().unwrap();
                entry.intermediate.insert(step, number(&event[3]));
                put(&mut self.history, entry);
                let expected = event[4].as_bool().unwrap();
                let found = self.pruner.should_prune(&self.history, entry);
                assert_eq!(found, expected, "{event}");
                if expected {
                    self.prunes += 1;
                    entry.state = TrialState::Pruned;
                    put(&mut self.history, entry);
                }
            }
            "complete" => {
                let (state, value) = (TrialState::Complete, number(&event[2]));
                let mut told = trial(trial_number, state, Params::new(), Some(value));
                told.intermediate.clone_from(&entry.intermediate);
                self.history.put(&Space::default(), &told);
            }
            "fail" => {
                entry.state = TrialState::Fail;
                put(&mut self.history, entry);
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn decisions_are_those_of_optuna_where_the_rules_are_the_same() {
    let cases: Vec<Json> = serde_json::from_str(ORACLE).unwrap();
    let mut prunes: BTreeMap<String, usize> = BTreeMap::new();
    for case in &cases {
        let mut replay = Replay::new(case);
        for (at, event) in case["events"].as_array().unwrap().iter().enumerate() {
            let context = format!("{} {} event {at}", case["kind"], case["options"]);
            let taken = std::panic::AssertUnwindSafe(|| replay.take(event));
            assert!(
                std::panic::catch_unwind(taken).is_ok(),
                "{context}: {event}"
            );
        }
        *prunes.entry(case["kind"].to_string()).or_default() += replay.prunes;
    }
    assert_eq!(prunes.len(), 7);
    assert!(prunes.values().all(|n| *n >= 9), "{prunes:?}");
}
