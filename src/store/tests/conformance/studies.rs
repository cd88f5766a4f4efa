//! Studies that are deleted and renamed.

use super::*;
use crate::StoreErrorKind;

/// How many rows of a table there are.
fn rows(bench: &Bench, table: &str) -> i64 {
    let count = format!("SELECT COUNT(*) FROM {table}");
    bench.other().value(&count, &[]).unwrap()
}

fn another(bench: &mut Bench, name: &str) -> i64 {
    let study = NewStudy {
        name,
        directions: &[Direction::Minimize],
        user_attrs: &json!({"a": 1}).as_object().unwrap().clone(),
        identity: &Map::new(),
    };
    bench.store.create_study(&study, &[]).unwrap()
}

#[test]
fn a_deleted_study_leaves_no_row_and_takes_none_of_another_one() {
    let mut bench = Bench::new();
    bench.start(0);
    let kept = another(&mut bench, "kept");
    let run = bench.store.begin_run(kept, &run_record()).unwrap();
    bench
        .store
        .apply(kept, run, &[created(0), started(0, 0)])
        .unwrap();
    bench.store.delete_study(bench.study).unwrap();
    for table in [
        "studies",
        "trials",
        "tune_studies",
        "tune_runs",
        "tune_trials",
        "tune_attempts",
    ] {
        assert_eq!(rows(&bench, table), 1, "{table}");
    }
    assert_eq!(rows(&bench, "study_directions"), 1);
    assert_eq!(bench.store.trials(kept).unwrap().len(), 1);
    let error = bench.store.delete_study(bench.study).unwrap_err();
    assert!(
        matches!(error.kind, StoreErrorKind::UnknownStudy(_)),
        "{error}"
    );
}

#[test]
fn a_renamed_study_keeps_its_rows_and_its_logs_move() {
    let mut bench = Bench::new();
    bench.apply(&[created(0)]);
    let mut start = started(0, 0);
    if let Write::AttemptStarted { log, .. } = &mut start {
        *log = "logs/s/trial-000000-attempt-0.log".to_owned();
    }
    bench.apply(&[start]);
    another(&mut bench, "taken");
    let error = bench.store.rename_study(bench.study, "taken").unwrap_err();
    assert!(
        matches!(error.kind, StoreErrorKind::StudyExists(_)),
        "{error}"
    );
    bench.store.rename_study(bench.study, "t").unwrap();
    assert_eq!(bench.store.find_study("s").unwrap(), None);
    let study = bench.store.find_study("t").unwrap().unwrap();
    assert_eq!(study.study_id, bench.study);
    let attempts = bench.store.attempts(bench.study, 0).unwrap();
    assert_eq!(attempts[0].log, "logs/t/trial-000000-attempt-0.log");
}
