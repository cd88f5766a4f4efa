//! Files that an earlier version has left, locks and limits of SQLite.

use std::collections::BTreeMap;

use super::*;
use device::GpuMinute;

#[test]
fn a_file_of_the_version_before_has_no_samples() {
    let bench = Bench::new();
    let conn = rusqlite::Connection::open(bench.path()).unwrap();
    conn.execute_batch("DROP TRIGGER tune_sampled_run_deleted; DROP TABLE tune_gpu_samples")
        .unwrap();
    let store = Store::open_read_only(bench.path()).unwrap();
    assert!(store.last_gpu_minutes(bench.run).unwrap().is_empty());
}

#[test]
fn samples_of_the_version_before_are_read_without_what_processes_used() {
    let mut bench = Bench::new();
    let minute = GpuMinute {
        memory_peak: 5,
        processes: BTreeMap::from([(99, 5)]),
        ..GpuMinute::default()
    };
    bench.apply(&[Write::GpuSampled {
        minute: Box::new(minute.clone()),
    }]);
    let conn = rusqlite::Connection::open(bench.path()).unwrap();
    conn.execute_batch("ALTER TABLE tune_gpu_samples DROP COLUMN processes")
        .unwrap();
    let store = Store::open_read_only(bench.path()).unwrap();
    let (_, read) = store.last_gpu_minutes(bench.run).unwrap().remove(0);
    let processes = BTreeMap::new();
    assert_eq!(
        read,
        GpuMinute {
            processes,
            ..minute
        }
    );
}

#[test]
fn a_full_disk_is_transient_and_the_same_batch_succeeds_once_there_is_room() {
    let mut bench = Bench::new();
    bench.start(0);
    let pages: i64 = bench.store.conn.value("PRAGMA page_count", &[]).unwrap();
    let limit = |store: &Store, pages: i64| {
        let sql = format!("PRAGMA max_page_count = {pages}");
        assert!(store.conn.exists(&sql, &[]).unwrap());
    };
    limit(&bench.store, pages);
    let text = "x".repeat(100_000);
    let mut batch = vec![created(1)];
    batch.push(Write::StudyAttributes {
        user_attrs: attrs(json!({"long": text})),
    });
    let error = bench
        .store
        .apply(bench.study, bench.run, &batch)
        .unwrap_err();
    assert!(matches!(error.kind, crate::StoreErrorKind::Full), "{error}");
    assert!(error.transient());
    assert_eq!(bench.store.trials(bench.study).unwrap().len(), 1);
    limit(&bench.store, 1_000_000);
    assert_eq!(bench.apply(&batch), Written::Done);
}

#[test]
fn a_lock_held_by_another_program_is_transient_and_nothing_is_written() {
    let mut bench = Bench::new();
    let other = rusqlite::Connection::open(bench.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = bench
        .store
        .apply(bench.study, bench.run, &[created(0)])
        .unwrap_err();
    assert!(error.transient(), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(bench.apply(&[created(0)]), Written::Done);
}

#[test]
fn a_commit_of_another_connection_is_noticed_and_an_own_one_is_not() {
    let mut bench = Bench::new();
    bench.start(0);
    assert!(!bench.store.foreign_change());
    let mut other = Store::open_existing(bench.path()).unwrap();
    other
        .add_trials(bench.study, &[waiting(&Params::new(), Map::new())])
        .unwrap();
    assert!(bench.store.foreign_change());
    assert!(!bench.store.foreign_change());
}

#[test]
fn a_file_of_the_version_before_has_no_repeats_until_it_is_opened_for_writing() {
    let mut bench = Bench::new();
    bench.start(0);
    let done = finished(0, TrialState::Complete, &[0.5]);
    bench.apply(&[ended(0, 0, "completed", false), done]);
    let (path, study) = (bench.path(), bench.study);
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch(
        "DROP TRIGGER tune_repeated_trial_deleted; DROP TABLE tune_repeat_attempts;
         DROP TABLE tune_repeats; DROP TRIGGER tune_sampled_run_deleted;
         DROP TABLE tune_gpu_samples; DROP TRIGGER tune_measured_trial_deleted;
         DROP TABLE tune_memory; DROP TRIGGER tune_leasing_run_deleted;
         DROP TABLE tune_leases; DELETE FROM tune_migrations WHERE version >= 2",
    )
    .unwrap();
    let before = Store::open_read_only(&path).unwrap();
    assert!(before.memory(study).unwrap().is_empty());
    assert!(before.repeats(study, None).unwrap().is_empty());
    drop((before, conn));
    let mut after = Store::open(&path).unwrap();
    let run = bench.run;
    let repeat = Write::AttemptStarted {
        id: Job::test(0).attempt(0),
        seed: 1,
        worker: 3,
        pid: 99,
        device: "cpu".to_owned(),
        log: "logs/test.log".to_owned(),
    };
    after.apply(study, run, &[repeat]).unwrap();
    assert_eq!(after.repeats(study, None).unwrap().len(), 1);
}

/// Deleted in SQLite's shell, which deletes nothing that refers to what is deleted, and gives the ids again.
#[test]
fn new_rows_begin_without_what_deleted_ones_have_left() {
    let mut bench = Bench::new();
    let finished = Write::TrialFinished {
        number: 0,
        state: TrialState::Complete,
        values: vec![0.5],
        user_attrs: Map::from_iter([("old".into(), true.into())]),
        system_attrs: Map::new(),
    };
    let reported = Write::Reported {
        number: 0,
        step: 1,
        value: 0.5,
    };
    bench.apply(&[created(0), started(0, 0), reported, finished.clone()]);
    let other = bench.other();
    other.batch("DELETE FROM trials").unwrap();
    bench.apply(&[created(0)]);
    let trial = &bench.store.trials(bench.study).unwrap()[0];
    assert_eq!(trial.state, TrialState::Running);
    assert!(trial.values.is_empty() && trial.intermediate.is_empty());
    assert!(!trial.user_attrs.contains_key("old"));

    bench.apply(&[started(0, 0), finished]);
    other.batch("DELETE FROM studies").unwrap();
    let minimize = [search::study::Direction::Minimize];
    let again = bench.store.create_study(
        &NewStudy {
            name: "again",
            directions: &minimize,
            user_attrs: &Map::new(),
            identity: &Map::new(),
        },
        &[],
    );
    assert_eq!(again.unwrap(), bench.study, "the same id");
    assert!(bench.store.trials(bench.study).unwrap().is_empty());
    let values = other.value("SELECT COUNT(*) FROM trial_values", &[]);
    assert_eq!(values.ok(), Some(0));
}
