//! Conformance tests of the store.

mod example;
mod files;
mod in_a_file;
#[cfg(feature = "postgres")]
mod on_a_server;
#[cfg(feature = "postgres")]
mod postgres;
mod versions;

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};
use tempfile::TempDir;

use super::sql::Connection;
use super::{AttemptEnd, NewStudy, Place, RunRecord, Store, Write, Written};
use search::space::{Domain, Params, Value};
use search::study::carry::waiting;
use search::study::{Direction, FrozenTrial, Job, TrialState};

/// Deletes all trials, as Optuna does: what refers to them first.
const DELETE_TRIALS: &str = "DELETE FROM trial_params; DELETE FROM trial_values;
    DELETE FROM trial_intermediate_values; DELETE FROM trial_user_attributes;
    DELETE FROM trial_system_attributes; DELETE FROM trials";

/// A kind of database.
trait Database {
    /// An empty one.
    fn place(dir: &Path) -> Place;

    /// Another program's connection to it.
    fn other(place: &Place) -> Connection;
}

/// SQLite.
struct File;

impl Database for File {
    fn place(dir: &Path) -> Place {
        dir.join("tune.db").into()
    }

    /// As Optuna opens it: without foreign keys.
    fn other(place: &Place) -> Connection {
        let conn = rusqlite::Connection::open(place.file()).unwrap();
        conn.pragma_update(None, "foreign_keys", false).unwrap();
        Connection::Sqlite(conn)
    }
}

/// What the tests of files use.
type Bench = BenchOn<File>;

/// A database of its own, with one study and one run.
struct BenchOn<D: Database> {
    dir: TempDir,
    place: Place,
    store: Store,
    study: i64,
    run: i64,
    kind: PhantomData<D>,
}

impl<D: Database> BenchOn<D> {
    fn new() -> BenchOn<D> {
        BenchOn::with_directions(&[Direction::Minimize])
    }

    fn with_directions(directions: &[Direction]) -> BenchOn<D> {
        let dir = tempfile::tempdir().unwrap();
        let place = D::place(dir.path());
        let mut store = Store::open(&place).unwrap();
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
        BenchOn {
            dir,
            place,
            store,
            study,
            run,
            kind: PhantomData,
        }
    }

    fn other(&self) -> Connection {
        D::other(&self.place)
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
    created_at(number, 0.01)
}

fn created_at(number: u64, at: f64) -> Write {
    Write::TrialCreated {
        number,
        last: u64::MAX,
        since: number,
        study_seed: None,
        params: Params::from([("lr".to_owned(), Value::Float(at))]),
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
        log: format!("logs/of trial-000000/trial-{number:06}-attempt-{attempt}.log"),
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
