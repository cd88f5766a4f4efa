//! The writer with a real database, and other programs in its way.

#![allow(clippy::wildcard_enum_match_arm)]

use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use serde_json::{Map, json};

use super::*;
use crate::clock::Clock;
use crate::event_channel::{self, EventReceiver};
use crate::{spool, spool_replay};
use search::space::{Domain, Params};
use search::study::{Direction, FrozenTrial, Job, TrialState};
use store::{AttemptEnd, RunRecord};

/// A writer at work, and the other ends of its channels.
struct Bench {
    dir: tempfile::TempDir,
    study: i64,
    requests: Option<Sender<Request>>,
    events: EventReceiver,
    thread: Option<JoinHandle<()>>,
}

impl Bench {
    /// A study whose trial 0 runs.
    fn new() -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path().join("tune.db")).unwrap();
        let study = store
            .create_study(
                &store::NewStudy {
                    name: "s",
                    directions: &[Direction::Minimize],
                    user_attrs: &Map::new(),
                    identity: &Map::new(),
                },
                &[],
            )
            .unwrap();
        let record = RunRecord {
            pid: 7,
            host: "here".into(),
            version: "0".into(),
            command: vec![],
            operation: json!({}),
        };
        let run_id = store.begin_run(study, &record).unwrap();
        let run = RunId {
            study: "s".into(),
            study_id: study,
            run_id,
            started: store.run_started(study, run_id).unwrap().unwrap(),
            lease: None,
        };
        store.apply(study, run_id, &start(0)).unwrap();
        let spool = Spool::reserve(dir.path(), "s").unwrap();
        let (requests, todo) = mpsc::channel();
        let (answers, events) = event_channel::channel(Clock::start().unwrap());
        let mut seen = KnownTrials::of_run(run_id);
        store.changes(study, &mut seen).unwrap();
        let writer = Writer::new(store, run, seen, spool, answers);
        Bench {
            dir,
            study,
            requests: Some(requests),
            events,
            thread: Some(thread::spawn(move || writer.run(&todo))),
        }
    }

    fn database(&self) -> PathBuf {
        self.dir.path().join("tune.db")
    }

    fn ask(&self, request: Request) {
        self.requests.as_ref().unwrap().send(request).unwrap();
    }

    fn batch(&self, batch: u64, writes: &[&[Write]]) {
        let writes = writes.concat();
        self.ask(Request::Batch { batch, writes });
    }

    /// The next event, other than news of the study.
    fn event(&self) -> Event {
        loop {
            let (_, event) = self.events.recv_timeout(Duration::from_secs(30)).unwrap();
            if !matches!(event, Event::StudyChanged(_)) {
                return event;
            }
        }
    }

    /// The writer comes to its end.
    fn end(&mut self) {
        self.requests = None;
        self.thread.take().unwrap().join().unwrap();
    }

    fn trials(&self) -> Vec<FrozenTrial> {
        let store = Store::open_read_only(self.database()).unwrap();
        store.trials(self.study).unwrap()
    }

    fn spooled(&self) -> Vec<Entry> {
        spool::read(&files::paths::spool_of(self.dir.path(), "s"))
            .unwrap()
            .entries
    }

    /// Takes in the spool as the next start does; gives the warnings.
    fn replay_spool(&self) -> Vec<String> {
        let mut store = Store::open(self.database()).unwrap();
        let mut warnings = vec![];
        let dir = self.dir.path();
        spool_replay::replay_spool(&mut store, self.study, dir, "s", &mut |w| warnings.push(w))
            .unwrap();
        warnings
    }
}

fn start(number: u64) -> [Write; 2] {
    [
        Write::TrialCreated {
            number,
            last: u64::MAX,
            since: number,
            study_seed: None,
            params: Params::new(),
            distributions: [].into(),
            user_attrs: Map::new(),
            system_attrs: Map::new(),
        },
        Write::AttemptStarted {
            id: Job::trial(number).attempt(0),
            seed: 1234,
            worker: 1,
            pid: 9,
            device: "cpu".into(),
            log: "l".into(),
        },
    ]
}

/// The start of a trial that no other is like.
fn start_at_another_point(number: u64) -> [Write; 2] {
    let mut starts = start(number);
    if let Write::TrialCreated {
        params,
        distributions,
        ..
    } = &mut starts[0]
    {
        let choices = vec![1.into(), 2.into()];
        let domain = Domain::Categorical { choices };
        params.insert("x".into(), 2.into());
        distributions.insert("x".into(), domain);
    }
    starts
}

fn end(number: u64, value: f64) -> [Write; 2] {
    [
        ended(number, "completed"),
        Write::TrialFinished {
            number,
            state: TrialState::Complete,
            values: vec![value],
            user_attrs: Map::new(),
            system_attrs: Map::new(),
        },
    ]
}

fn ended(number: u64, outcome: &str) -> Write {
    Write::AttemptEnded {
        id: Job::trial(number).attempt(0),
        end: AttemptEnd {
            outcome: outcome.into(),
            detail: String::new(),
            again: outcome != "completed",
        },
    }
}

fn report(number: u64, value: f64) -> Request {
    Request::Soon(Write::Reported {
        number,
        step: 1,
        value,
    })
}

fn lock(bench: &Bench) -> Connection {
    let other = Connection::open(bench.database()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    other
}

fn failed_and_heals(event: &Event) -> bool {
    match event {
        Event::StorageFailed { heals, .. } => *heals,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lock_that_is_released_delays_batches_and_loses_none() {
    let mut bench = Bench::new();
    let other = lock(&bench);
    bench.ask(report(0, f64::INFINITY));
    bench.batch(1, &[&end(0, 0.5), &start(1)]);
    assert!(failed_and_heals(&bench.event()));
    assert_eq!(bench.event(), Event::Batch(1, BatchEvent::Spooled));
    bench.batch(2, &[&[ended(1, "interrupted")]]);
    assert_eq!(bench.event(), Event::Batch(2, BatchEvent::Spooled));
    let spooled = bench.spooled();
    assert_eq!(spooled.len(), 1, "starts and their ends are not kept");
    assert_eq!(spooled[0].writes[1..], end(0, 0.5));
    assert_eq!(bench.trials().len(), 1);

    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(bench.event(), Event::Batch(1, BatchEvent::Written));
    assert_eq!(bench.event(), Event::Batch(2, BatchEvent::Written));
    assert_eq!(bench.event(), Event::StorageRecovered);
    assert_eq!(bench.spooled(), []);
    let trials = bench.trials();
    assert_eq!(trials[0].values, [0.5]);
    assert_eq!(trials[0].intermediate[&1], f64::INFINITY);
    assert_eq!(trials[1].state, TrialState::Running);
    bench.end();
    assert!(!files::paths::spool_of(bench.dir.path(), "s").exists());
}

#[test]
fn what_a_lock_that_stays_kept_out_is_taken_in_by_the_next_start_once() {
    let mut bench = Bench::new();
    let other = lock(&bench);
    bench.batch(1, &[&end(0, 0.25), &start(1)]);
    assert!(failed_and_heals(&bench.event()));
    assert_eq!(bench.event(), Event::Batch(1, BatchEvent::Spooled));
    let before = bench.spooled();
    bench.batch(2, &[&[Write::RunEnded { exit: 7 }]]);
    assert_eq!(bench.event(), Event::Batch(2, BatchEvent::Spooled));
    bench.end();
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(spool::waiting(bench.dir.path(), "s"), 1);

    let path = files::paths::spool_of(bench.dir.path(), "s");
    let bytes = std::fs::read(&path).unwrap();
    let warnings = bench.replay_spool();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(!path.exists());
    let trials = bench.trials();
    assert_eq!((trials.len(), &trials[0].values[..]), (1, &[0.25][..]));
    let store = Store::open_read_only(bench.database()).unwrap();
    assert_eq!(store.runs(bench.study).unwrap()[0].exit, Some(7));
    let time = before[0].time.to_string();
    let complete = trials[0].datetime_complete.clone().unwrap();
    assert_eq!(complete[11..19], time[11..19], "the time of the result");

    // The process died between the commit and the removal of the spool.
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(bench.replay_spool(), Vec::<String>::new());
    assert_eq!(bench.trials(), trials);
    assert!(!files::paths::rejected_of(bench.dir.path(), "s").exists());
}

#[test]
fn what_follows_from_a_repeat_that_was_taken_in_before_does_not_replace_newer_words() {
    let mut bench = Bench::new();
    bench.batch(1, &[&end(0, 0.25)]);
    assert_eq!(bench.event(), Event::Batch(1, BatchEvent::Written));
    let other = lock(&bench);
    let tested = |value: f64| Write::StudyAttributes {
        user_attrs: Map::from_iter([("test".into(), json!(value))]),
    };
    let repeat = Write::RepeatFinished {
        job: Job::test(0),
        seed: 7,
        state: TrialState::Complete,
        value: Some(0.5),
        user_attrs: Map::new(),
    };
    bench.batch(2, &[&[repeat, tested(0.5)]]);
    assert!(failed_and_heals(&bench.event()));
    assert_eq!(bench.event(), Event::Batch(2, BatchEvent::Spooled));
    bench.end();
    other.execute_batch("ROLLBACK").unwrap();
    let path = files::paths::spool_of(bench.dir.path(), "s");
    let bytes = std::fs::read(&path).unwrap();
    let told = || {
        let store = Store::open_read_only(bench.database()).unwrap();
        store.studies().unwrap()[0].user_attrs["test"].clone()
    };
    bench.replay_spool();
    assert_eq!(told(), 0.5);
    let mut store = Store::open(bench.database()).unwrap();
    let run = store.runs(bench.study).unwrap()[0].run_id;
    store.apply(bench.study, run, &[tested(0.75)]).unwrap();
    std::fs::write(&path, bytes).unwrap();
    bench.replay_spool();
    assert_eq!(told(), 0.75);
}

#[test]
fn a_moved_database_is_not_written_and_is_used_again_when_it_is_put_back() {
    let bench = Bench::new();
    let aside = bench.dir.path().join("aside.db");
    std::fs::rename(bench.database(), &aside).unwrap();
    bench.batch(1, &[&end(0, 0.5)]);
    assert!(!failed_and_heals(&bench.event()));
    assert_eq!(bench.event(), Event::Batch(1, BatchEvent::Spooled));
    std::fs::rename(&aside, bench.database()).unwrap();
    assert_eq!(bench.event(), Event::Batch(1, BatchEvent::Written));
    assert_eq!(bench.event(), Event::StorageRecovered);
}

#[test]
fn a_point_that_another_program_took_during_an_outage_is_refused_and_results_survive() {
    let bench = Bench::new();
    let other = lock(&bench);
    bench.batch(1, &[&end(0, 0.5), &start(1)]);
    bench.batch(2, &[&[ended(1, "interrupted")]]);
    assert!(failed_and_heals(&bench.event()));
    let take = "INSERT INTO trials (number, study_id, state, datetime_start) \
                VALUES (1, 1, 'RUNNING', '2026-01-01 00:00:00.000000'); COMMIT";
    other.execute_batch(take).unwrap();
    for batch in [1, 2] {
        assert_eq!(bench.event(), Event::Batch(batch, BatchEvent::Spooled));
    }
    match bench.event() {
        Event::Batch(1, BatchEvent::Overtaken { late, changes, .. }) => {
            let refused = late.iter().filter_map(Write::trial_started);
            assert_eq!(refused.collect::<Vec<_>>(), [1]);
            assert_eq!(changes.trials[0].number, 1);
        }
        event => panic!("{event:?}"),
    }
    // It speaks of a start that was refused.
    assert!(matches!(
        bench.event(),
        Event::Batch(2, BatchEvent::Overtaken { .. })
    ));
    assert_eq!(bench.event(), Event::StorageRecovered);
    assert_eq!(
        bench.trials()[0].values,
        [0.5],
        "the end in the refused batch"
    );
}

#[test]
fn a_trial_whose_number_another_program_took_during_an_outage_has_the_next_one() {
    let bench = Bench::new();
    let other = lock(&bench);
    bench.batch(1, &[&end(0, 0.5), &start_at_another_point(1)]);
    assert!(failed_and_heals(&bench.event()));
    let take = "INSERT INTO trials (number, study_id, state, datetime_start) \
                VALUES (1, 1, 'RUNNING', '2026-01-01 00:00:00.000000'); COMMIT";
    other.execute_batch(take).unwrap();
    assert_eq!(bench.event(), Event::Batch(1, BatchEvent::Spooled));
    let overtaken = BatchEvent::Overtaken {
        late: Vec::new(),
        renumbered: [(1, 2)].into(),
        changes: Changes::default(),
    };
    assert_eq!(bench.event(), Event::Batch(1, overtaken));
    bench.batch(2, &[&end(2, 0.25)]);
    while bench.event() != Event::Batch(2, BatchEvent::Written) {}
    let values: Vec<Vec<f64>> = bench.trials().into_iter().map(|t| t.values).collect();
    assert_eq!(values, [vec![0.5], vec![], vec![0.25]]);
}

#[test]
fn a_look_after_numbers_were_taken_is_told_though_who_took_them_is_gone() {
    let bench = Bench::new();
    let other = lock(&bench);
    bench.batch(1, &[&end(0, 0.5), &start_at_another_point(1)]);
    assert!(failed_and_heals(&bench.event()));
    let take = "INSERT INTO trials (number, study_id, state, datetime_start) \
                VALUES (1, 1, 'RUNNING', '2026-01-01 00:00:00.000000'); \
                CREATE TRIGGER gone AFTER INSERT ON trials BEGIN DELETE FROM trials WHERE number = 1; END; COMMIT";
    other.execute_batch(take).unwrap();
    while !matches!(
        bench.event(),
        Event::Batch(1, BatchEvent::Overtaken { renumbered, .. }) if renumbered == [(1, 2)].into()
    ) {}
    loop {
        let wait = Duration::from_secs(30);
        if let Event::StudyChanged(changes) = bench.events.recv_timeout(wait).unwrap().1 {
            assert!(changes.is_empty(), "{changes:?}");
            break;
        }
    }
}

#[test]
fn reports_of_a_trial_that_another_program_ended_harm_nothing() {
    let mut bench = Bench::new();
    let other = Connection::open(bench.database()).unwrap();
    other
        .execute_batch("UPDATE trials SET state = 'FAIL' WHERE number = 0")
        .unwrap();
    bench.ask(report(0, 1.0));
    bench.batch(1, &[&start(1), &end(0, 0.5)]);
    match bench.event() {
        Event::Batch(1, BatchEvent::Overtaken { late, changes, .. }) => {
            let refused = late.iter().find_map(Write::trial_started);
            assert_eq!(refused, None, "the start is on record");
            let found: Vec<(u64, TrialState)> =
                changes.trials.iter().map(|t| (t.number, t.state)).collect();
            assert_eq!(
                found,
                [(0, TrialState::Fail)],
                "the other program's word stands"
            );
        }
        event => panic!("{event:?}"),
    }
    let open = "SELECT COUNT(*) FROM tune_attempts WHERE ended IS NULL AND trial_id = 1";
    let open: i64 = other.query_row(open, [], |row| row.get(0)).unwrap();
    assert_eq!(open, 0, "the attempt has ended all the same");
    bench.ask(report(0, 1.0));
    bench.ask(report(9, 1.0));
    bench.end();
    let left = bench.events.drain();
    let failed = |e: &Event| matches!(e, Event::StorageFailed { .. });
    assert!(!left.iter().any(failed), "{left:?}");
}

#[test]
fn what_does_not_fit_the_database_is_kept_aside_with_the_reason() {
    let mut bench = Bench::new();
    let other = lock(&bench);
    bench.batch(1, &[&end(0, 0.25)]);
    assert!(failed_and_heals(&bench.event()));
    assert_eq!(bench.event(), Event::Batch(1, BatchEvent::Spooled));
    bench.end();
    other
        .execute_batch("UPDATE trials SET state = 'FAIL' WHERE number = 0; COMMIT")
        .unwrap();
    let warnings = bench.replay_spool();
    assert!(
        warnings[0].contains("trial 0 is FAIL in the database"),
        "{warnings:?}"
    );
    let rejected = files::paths::rejected_of(bench.dir.path(), "s");
    let text = std::fs::read_to_string(rejected).unwrap();
    let line: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
    let values = &line["entry"]["writes"][1]["values"];
    assert_eq!(values, &json!([0.25]));
    assert!(!files::paths::spool_of(bench.dir.path(), "s").exists());
}

#[test]
fn results_of_a_run_that_the_database_does_not_know_are_kept_aside() {
    let mut bench = Bench::new();
    let other = lock(&bench);
    bench.batch(1, &[&end(0, 0.25)]);
    assert!(failed_and_heals(&bench.event()));
    assert_eq!(bench.event(), Event::Batch(1, BatchEvent::Spooled));
    bench.end();
    // The same number of a run of another database.
    other
        .execute_batch("UPDATE tune_runs SET started = '2020-01-01 00:00:00.000000'; COMMIT")
        .unwrap();
    assert!(bench.replay_spool()[0].contains("does not know the run"));
    assert_eq!(bench.trials()[0].state, TrialState::Running);
}

#[test]
fn a_lock_at_the_start_is_waited_for_and_said_once() {
    let mut warnings = vec![];
    let mut tries = 0;
    let result =
        spool_replay::patiently(Duration::from_secs(60), &mut |w| warnings.push(w), || {
            tries += 1;
            let path = "tune.db".into();
            let kind = store::StoreErrorKind::Locked;
            if tries < 3 {
                Err(StoreError { path, kind })
            } else {
                Ok(tries)
            }
        });
    assert_eq!(result.unwrap(), 3);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let mut tries = 0;
    let result = spool_replay::patiently(Duration::from_millis(1), &mut |_| {}, || {
        tries += 1;
        let path = "tune.db".into();
        let kind = store::StoreErrorKind::Locked;
        Err::<(), _>(StoreError { path, kind })
    });
    assert!(result.is_err() && tries <= 2);
}

#[test]
fn a_study_that_is_deleted_under_a_run_is_an_error_that_says_so() {
    let bench = Bench::new();
    let other = Connection::open(bench.database()).unwrap();
    other
        .execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM trials; DELETE FROM studies")
        .unwrap();
    bench.batch(1, &[&end(0, 0.5)]);
    match bench.event() {
        Event::StorageFailed { error, heals, .. } => {
            assert!(error.contains("deleted by another program"), "{error}");
            assert!(!heals);
        }
        event => panic!("{event:?}"),
    }
    assert_eq!(bench.event(), Event::Batch(1, BatchEvent::Spooled));
}

#[test]
fn the_last_look_at_the_study_comes_before_the_end_of_the_run() {
    let bench = Bench::new();
    // The writer has looked once: what comes now it hears of at the next look.
    bench.batch(1, &[&end(0, 0.5)]);
    assert_eq!(bench.event(), Event::Batch(1, BatchEvent::Written));
    let other = Connection::open(bench.database()).unwrap();
    other
        .execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM trials")
        .unwrap();
    bench.batch(2, &[&[Write::RunEnded { exit: 0 }]]);
    let mut gone = Vec::new();
    loop {
        match bench
            .events
            .recv_timeout(Duration::from_secs(30))
            .unwrap()
            .1
        {
            Event::StudyChanged(changes) => gone.extend(changes.gone),
            Event::Batch(2, BatchEvent::Written) => break,
            _ => {}
        }
    }
    assert_eq!(gone, [0]);
}
