//! Conformance tests of the store.

mod example;
mod files;
mod foreign;
mod gpus;
mod import;
mod memory;
mod repeats;
mod speed;
mod studies;
mod writes;

use std::path::PathBuf;

use serde_json::{Map, Value as Json, json};
use tempfile::TempDir;

use super::{AttemptEnd, NewStudy, RunRecord, Store, Write, Written};
use search::space::{Domain, Params, Value};
use search::study::carry::waiting;
use search::study::{Direction, FrozenTrial, Job, TrialState};

/// A store in a directory of its own, with one study and one run.
struct Bench {
    dir: TempDir,
    store: Store,
    study: i64,
    run: i64,
}

impl Bench {
    fn new() -> Bench {
        Bench::with_directions(&[Direction::Minimize])
    }

    fn with_directions(directions: &[Direction]) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("tune.db")).unwrap();
        let study = store
            .create_study(
                &NewStudy {
                    name: "s",
                    directions,
                    user_attrs: &Map::new(),
                    identity: &Map::new(),
                },
                &[],
            )
            .unwrap();
        let run = store.begin_run(study, &run_record()).unwrap();
        Bench {
            dir,
            store,
            study,
            run,
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("tune.db")
    }

    fn apply(&mut self, writes: &[Write]) -> Written {
        self.store.apply(self.study, self.run, writes).unwrap()
    }

    fn error(&mut self, writes: &[Write]) -> String {
        self.store
            .apply(self.study, self.run, writes)
            .unwrap_err()
            .to_string()
    }

    fn start(&mut self, number: u64) {
        let written = self.apply(&[created(number), started(number, 0)]);
        assert_eq!(written, Written::Done);
    }
}

fn run_record() -> RunRecord {
    RunRecord {
        pid: 7,
        host: "here".to_owned(),
        version: "0.1.0".to_owned(),
        command: vec!["tune".to_owned(), "criteria".to_owned()],
        operation: json!({"parallel": 2}),
    }
}

fn lr() -> Domain {
    Domain::Float {
        low: 1e-5,
        high: 0.1,
        log: true,
        step: None,
    }
}

fn created(number: u64) -> Write {
    Write::TrialCreated {
        number,
        params: Params::from([("lr".to_owned(), Value::Float(0.01))]),
        distributions: [("lr".to_owned(), lr())].into(),
        user_attrs: attrs(json!({"seed": 1234})),
        system_attrs: Map::new(),
    }
}

fn started(number: u64, attempt: u32) -> Write {
    Write::AttemptStarted {
        id: Job::trial(number).attempt(attempt),
        seed: 1234,
        worker: 3,
        pid: 99,
        device: "cuda:0".to_owned(),
        log: format!("logs/{number}-{attempt}.log"),
    }
}

fn reported(number: u64, step: i64, value: f64) -> Write {
    Write::Reported {
        number,
        step,
        value,
    }
}

fn ended(number: u64, attempt: u32, outcome: &str, again: bool) -> Write {
    Write::AttemptEnded {
        id: Job::trial(number).attempt(attempt),
        end: AttemptEnd {
            outcome: outcome.to_owned(),
            detail: String::new(),
            again,
        },
    }
}

fn finished(number: u64, state: TrialState, values: &[f64]) -> Write {
    Write::TrialFinished {
        number,
        state,
        values: values.to_vec(),
        user_attrs: Map::new(),
        system_attrs: Map::new(),
    }
}

fn attrs(json: Json) -> Map<String, Json> {
    json.as_object().unwrap().clone()
}
