//! Repeats of trials, in tables of their own.

use super::*;
use crate::Replayed;
use search::study::Purpose;

fn repeat_started(purpose: Purpose, attempt: u32) -> Write {
    let job = Job { number: 0, purpose };
    Write::AttemptStarted {
        id: job.attempt(attempt),
        seed: 77,
        worker: 3,
        pid: 99,
        device: "cpu".to_owned(),
        log: format!("logs/{attempt}.log"),
    }
}

fn repeat_ended(purpose: Purpose, attempt: u32, outcome: &str) -> Write {
    let job = Job { number: 0, purpose };
    Write::AttemptEnded {
        id: job.attempt(attempt),
        end: AttemptEnd {
            outcome: outcome.to_owned(),
            detail: String::new(),
            again: false,
        },
    }
}

fn repeat_finished(purpose: Purpose, state: TrialState, value: Option<f64>) -> Write {
    Write::RepeatFinished {
        job: Job { number: 0, purpose },
        seed: 77,
        state,
        value,
        user_attrs: attrs(json!({"best_epoch": 2})),
    }
}

/// A study whose only trial is complete.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.start(0);
    bench.apply(&[
        ended(0, 0, "completed", false),
        finished(0, TrialState::Complete, &[0.5]),
    ]);
    bench
}

#[test]
fn a_repeat_is_read_as_it_was_written_and_the_trial_stays_as_it_was() {
    let mut bench = bench();
    let before = bench.store.trials(bench.study).unwrap();
    let purpose = Purpose::Repeat(1);
    bench.apply(&[repeat_started(purpose, 0)]);
    let open = bench.store.repeats(bench.study, None).unwrap();
    assert_eq!(open[0].state, TrialState::Running);
    bench.apply(&[repeat_started(purpose, 1)]);
    bench.apply(&[
        repeat_ended(purpose, 1, "completed"),
        repeat_finished(purpose, TrialState::Complete, Some(0.1 + 0.2)),
        repeat_started(Purpose::Test, 0),
    ]);
    let stored = bench.store.repeats(bench.study, Some(0)).unwrap();
    let jobs: Vec<Job> = stored.iter().map(|r| r.job).collect();
    assert_eq!(jobs, [Job::repeat(0, 1), Job::test(0)]);
    let first = &stored[0];
    assert_eq!((first.state, first.seed), (TrialState::Complete, 77));
    assert_eq!(first.value, Some(0.1 + 0.2));
    assert_eq!(first.attrs["best_epoch"], 2);
    let outcomes: Vec<Option<&str>> = first
        .attempts
        .iter()
        .map(|a| a.outcome.as_deref())
        .collect();
    assert_eq!(outcomes, [Some("interrupted"), Some("completed")]);
    assert_eq!(bench.store.trials(bench.study).unwrap(), before);
    assert!(
        bench
            .store
            .reclaimable(bench.study, bench.run)
            .unwrap()
            .is_empty()
    );
    assert!(
        bench
            .store
            .repeats(bench.study, Some(1))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_repeat_ends_once_and_only_of_a_complete_trial() {
    let mut bench = bench();
    let purpose = Purpose::Repeat(2);
    bench.apply(&[
        repeat_started(purpose, 0),
        repeat_ended(purpose, 0, "hang"),
        repeat_finished(purpose, TrialState::Pruned, None),
    ]);
    let again = repeat_finished(purpose, TrialState::Complete, Some(1.0));
    assert!(bench.error(&[again]).contains("has ended before"));
    assert!(
        bench
            .error(&[repeat_started(purpose, 1)])
            .contains("has ended")
    );
    let other = Purpose::Repeat(3);
    let infinite = repeat_finished(other, TrialState::Complete, Some(f64::INFINITY));
    assert!(bench.error(&[infinite]).contains("repeat 3"));
    assert!(
        bench
            .error(&[repeat_ended(other, 0, "x")])
            .contains("not under way")
    );
    let none = repeat_finished(Purpose::Search, TrialState::Fail, None);
    assert!(bench.error(&[none]).contains("no repeat"));
    bench.start(1);
    let mut running = repeat_started(other, 0);
    if let Write::AttemptStarted { id, .. } = &mut running {
        id.number = 1;
    }
    assert!(bench.error(&[running]).contains("RUNNING"));
}

#[test]
fn ends_that_waited_in_a_spool_are_taken_in_once() {
    let mut bench = bench();
    let purpose = Purpose::Repeat(1);
    bench.apply(&[repeat_started(purpose, 0)]);
    let writes = [
        repeat_ended(purpose, 0, "completed"),
        repeat_finished(purpose, TrialState::Complete, Some(1.0)),
    ];
    let (study, run) = (bench.study, bench.run);
    let time = jiff::Timestamp::UNIX_EPOCH;
    let mut take = |writes: &[Write]| bench.store.replay(study, run, time, writes).unwrap();
    assert_eq!(take(&writes), Replayed::Written);
    assert_eq!(take(&writes), Replayed::Before);
    let other = [repeat_finished(purpose, TrialState::Fail, None)];
    assert!(matches!(take(&other), Replayed::Refused(_)));
    // One whose start could not be recorded is made by its end.
    let unstarted = [repeat_finished(Purpose::Test, TrialState::Fail, None)];
    assert_eq!(take(&unstarted), Replayed::Written);
}

#[test]
fn an_end_that_an_earlier_version_has_spooled_is_the_same_end() {
    let purpose = Purpose::Repeat(1);
    let spooled = json!({
        "write": "repeat_attempt_ended", "number": 0, "purpose": {"repeat": 1}, "attempt": 0,
        "end": {"outcome": "completed", "detail": "", "again": false},
    });
    let read: Write = serde_json::from_value(spooled).unwrap();
    assert_eq!(read, repeat_ended(purpose, 0, "completed"));
    let trials = json!({
        "write": "attempt_ended", "number": 0, "attempt": 0,
        "end": {"outcome": "completed", "detail": "", "again": false},
    });
    let read: Write = serde_json::from_value(trials).unwrap();
    assert_eq!(read, repeat_ended(Purpose::Search, 0, "completed"));
}

#[test]
fn a_row_among_the_repeats_that_is_for_the_search_is_an_error() {
    let mut bench = bench();
    bench.apply(&[repeat_started(Purpose::Repeat(1), 0)]);
    let wrong = "UPDATE tune_repeats SET purpose = 'search'";
    bench.other().batch(wrong).unwrap();
    let error = bench.store.repeats(bench.study, None).unwrap_err();
    assert!(error.to_string().contains("is for \"search\""), "{error}");
}

#[test]
fn repeats_go_with_their_trial_whoever_deletes_it() {
    let mut bench = bench();
    bench.apply(&[repeat_started(Purpose::Repeat(1), 0)]);
    let other = bench.other();
    other.batch(DELETE_TRIALS).unwrap();
    let count = "SELECT (SELECT COUNT(*) FROM tune_repeats)
             + (SELECT COUNT(*) FROM tune_repeat_attempts)";
    let left: u64 = other.value(count, &[]).unwrap();
    assert_eq!(left, 0);
}
