//! What runs leave is read as it was noted.

use super::*;

#[test]
fn notes_are_read_and_rows_are_those_of_the_sampler() {
    let dir = tempfile::tempdir().unwrap();
    let lines = r#"{"what": "torch", "version": "2.11.0", "cuda": false}
{"what": "loader", "number": 0, "workers": 2, "batch_size": 4, "rows": 64}
{"what": "changed", "change": "workers_0", "was": 2}
{"what": "fork_with_threads", "threads": 3, "python": 1}
{"what": "learning_rate", "optimizer": "SGD", "value": "nan"}
{"what": "batch_not_finite", "taken": 1, "loader": 0, "batch": 0, "rows": [8, 2], "tensors": [{"shape": [2], "dtype": "float32", "not_finite": [0]}]}
no note
"#;
    fs::write(dir.path().join("notes"), lines).unwrap();
    for mark in ["main", STEP] {
        fs::write(dir.path().join(mark), "").unwrap();
    }
    let batch = r#"{"taken": 3, "loader": 0, "batch": 2, "rows": [9, 17, 4, 30],
        "tensors": [{"shape": [4, 3], "dtype": "float32", "not_finite": [1], "low": 0.0, "high": 1.0}]}"#;
    fs::write(dir.path().join("batch"), batch.replace('\n', "")).unwrap();
    let notes = read(dir.path());
    assert!(notes.python && notes.changed.contains("workers_0"));
    assert_eq!((notes.loader_workers(), notes.batch_size()), (2, 4));
    assert!(!notes.at_smaller_batch());
    assert_eq!(notes.forked_with_threads, Some(3));
    assert!(notes.stepped);
    let last = notes.spoiled(true).map(Batch::rows_not_finite);
    assert_eq!(last, Some(vec![17]));
    let mut at_last = notes.clone();
    at_last.batch.as_mut().unwrap().rows.as_mut().unwrap().pop();
    assert!(at_last.at_smaller_batch());
    let without = Notes {
        batch: None,
        ..notes.clone()
    };
    let first = without.spoiled(true).map(Batch::rows_not_finite);
    assert_eq!(first, Some(vec![8]));
    assert_eq!(without.spoiled(false), None);
    let rate = notes.learning_rate.as_ref();
    assert_eq!(rate, Some(&("SGD".to_owned(), "nan".to_owned())));
    assert_eq!(batches(dir.path()), 3);
}

#[test]
fn a_row_of_a_part_is_told_as_the_whole_dataset_numbers_it() {
    let batch = |rows: &[u64], dataset_rows: &[u64]| Batch {
        taken: 1,
        loader: 2,
        batch: 0,
        rows: Some(rows.to_vec()),
        dataset_rows: dataset_rows.to_vec(),
        tensors: Vec::new(),
    };
    let notes = Notes {
        batch: Some(batch(&[4, 0], &[71, 9])),
        batch_not_finite: Some(batch(&[5], &[12])),
        ..Notes::default()
    };
    assert_eq!(notes.dataset_row(2, 0), Some(9));
    assert_eq!(notes.dataset_row(2, 5), Some(12));
    assert_eq!(notes.dataset_row(1, 0), None);
    assert_eq!(notes.dataset_row(2, 3), None);
    let whole = Notes {
        batch: Some(batch(&[4, 0], &[])),
        ..Notes::default()
    };
    assert_eq!(whole.dataset_row(2, 4), None);
}

#[test]
fn a_program_that_is_not_python_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(read(dir.path()), Notes::default());
}
