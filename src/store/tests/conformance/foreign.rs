//! Other programs that write to the same file.

use super::*;
use crate::{CarriedOut, Changes, KnownTrials};

impl Bench {
    fn seen(&self) -> KnownTrials {
        let mut seen = KnownTrials::default();
        self.store.changes(self.study, &mut seen).unwrap();
        seen
    }

    fn carry_out(&mut self, writes: &[Write], seen: &mut KnownTrials) -> CarriedOut {
        let time = self.store.time();
        let ids = (self.study, self.run);
        self.store.carry_out(ids, time, writes, seen).unwrap()
    }

    /// Gives what was left out.
    fn late(&mut self, writes: &[Write], seen: &mut KnownTrials) -> Vec<Write> {
        let carried = self.carry_out(writes, seen);
        assert!(carried.renumbered.is_empty(), "{:?}", carried.renumbered);
        carried.late
    }
}

/// A trial of another program.
fn asks(other: &Connection, study: i64, number: u64, state: &str) {
    let sql = "INSERT INTO trials (number, study_id, state) VALUES (?1, ?2, ?3)";
    other.execute(sql, &[&number, &study, &state]).unwrap();
}

fn numbers(changes: &Changes) -> (Vec<u64>, Vec<u64>) {
    let trials = changes.trials.iter().map(|t| t.number).collect();
    (changes.gone.clone(), trials)
}

#[test]
fn what_others_change_in_this_study_is_found_once_and_what_we_wrote_is_not() {
    let mut bench = Bench::new();
    let mut seen = bench.seen();
    let late = bench.late(&[created(0), started(0, 0), created(1)], &mut seen);
    assert_eq!(late, []);
    let mut changes = || numbers(&bench.store.changes(bench.study, &mut seen).unwrap());
    assert_eq!(changes(), (vec![], vec![]), "our own");
    let other = bench.other();
    asks(&other, bench.study, 2, "WAITING");
    asks(&other, bench.study, 3, "COMPLETE");
    other
        .batch("UPDATE trials SET state = 'FAIL' WHERE number = 1")
        .unwrap();
    assert_eq!(changes(), (vec![], vec![1, 2, 3]));
    assert_eq!(changes(), (vec![], vec![]));
    asks(&other, bench.study, 4, "RUNNING");
    assert_eq!(changes(), (vec![], vec![4]));
    assert_eq!(changes(), (vec![], vec![]));
    let report = "INSERT INTO trial_intermediate_values
        (trial_id, step, intermediate_value, intermediate_value_type)
        SELECT trial_id, 1, 0.5, 'FINITE' FROM trials WHERE number = 4";
    other.batch(report).unwrap();
    assert_eq!(changes(), (vec![], vec![4]), "it has reported");
    other
        .batch("DELETE FROM trial_intermediate_values; DELETE FROM trials WHERE number IN (2, 4)")
        .unwrap();
    assert_eq!(changes(), (vec![2, 4], vec![]));
}

#[test]
fn another_study_of_the_file_is_nobodys_business() {
    let mut bench = Bench::new();
    bench.start(0);
    let mut seen = bench.seen();
    let other = bench
        .store
        .create_study(
            &NewStudy {
                name: "t",
                directions: &[Direction::Minimize],
                user_attrs: &Map::new(),
                identity: &Map::new(),
            },
            &[],
        )
        .unwrap();
    asks(&bench.other(), other, 0, "RUNNING");
    assert!(bench.store.foreign_change());
    let changes = bench.store.changes(bench.study, &mut seen).unwrap();
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn a_trial_with_the_number_of_a_deleted_one_is_another_trial() {
    let mut bench = Bench::new();
    let mut seen = bench.seen();
    bench.carry_out(&[created(0), started(0, 0)], &mut seen);
    let other = bench.other();
    other.batch(DELETE_TRIALS).unwrap();
    asks(&other, bench.study, 0, "RUNNING");
    let ends = [
        ended(0, 0, "completed", false),
        finished(0, TrialState::Complete, &[0.5]),
    ];
    assert_eq!(bench.late(&ends, &mut seen).len(), 2, "not of that one");
    let changes = bench.store.changes(bench.study, &mut seen).unwrap();
    assert_eq!(numbers(&changes), (vec![0], vec![0]));
    assert_eq!(changes.trials[0].state, TrialState::Running);
    other.batch("UPDATE trials SET state = 'WAITING'").unwrap();
    assert_eq!(bench.late(&ends, &mut seen).len(), 2, "enqueued by others");
}

#[test]
fn a_batch_is_written_but_for_what_others_got_ahead_of() {
    let mut bench = Bench::new();
    let mut seen = bench.seen();
    bench.carry_out(
        &[
            created(0),
            started(0, 0),
            created_at(1, 0.05),
            started(1, 0),
        ],
        &mut seen,
    );
    let other = bench.other();
    other
        .batch("UPDATE trials SET state = 'COMPLETE' WHERE number = 1")
        .unwrap();
    let late = bench.late(
        &[
            ended(0, 0, "completed", false),
            finished(0, TrialState::Complete, &[0.5]),
            reported(1, 1, 0.25),
            ended(1, 0, "completed", false),
            finished(1, TrialState::Complete, &[0.25]),
        ],
        &mut seen,
    );
    let expected = [
        reported(1, 1, 0.25),
        finished(1, TrialState::Complete, &[0.25]),
    ];
    assert_eq!(late, expected);
    let trials = bench.store.trials(bench.study).unwrap();
    assert_eq!(trials[0].values, [0.5]);
    assert!(trials[1].values.is_empty(), "somebody else's end stands");
    let attempts = bench.store.attempts(bench.study, 1).unwrap();
    assert!(
        attempts[0].ended.is_some(),
        "an attempt ends whoever ended its trial"
    );
}

#[test]
fn a_new_trial_whose_number_somebody_else_got_has_the_next_one_with_all_that_is_said_of_it() {
    let mut bench = Bench::new();
    let mut seen = bench.seen();
    asks(&bench.other(), bench.study, 0, "RUNNING");
    let carried = bench.carry_out(&[created_at(0, 0.05), started(0, 0)], &mut seen);
    assert_eq!(carried.late, []);
    assert_eq!(carried.renumbered, [(0, 1)].into());
    let trials = bench.store.trials(bench.study).unwrap();
    assert!(trials[0].params.is_empty(), "somebody else's trial");
    assert_eq!(trials[1].params["lr"], Value::Float(0.05));
    assert!(bench.store.attempts(bench.study, 0).unwrap().is_empty());
    let log = &bench.store.attempts(bench.study, 1).unwrap()[0].log;
    assert_eq!(log, "logs/of trial-000000/trial-000001-attempt-0.log");
    let changes = bench.store.changes(bench.study, &mut seen).unwrap();
    assert_eq!(
        numbers(&changes),
        (vec![], vec![0]),
        "the other one is ours"
    );
    // Its number may be one that is to be written of as that of a deleted trial.
    bench.other().batch(DELETE_TRIALS).unwrap();
    bench.store.changes(bench.study, &mut seen).unwrap();
    let next = [created_at(2, 0.02)];
    assert_eq!(bench.late(&next, &mut seen), next);
    assert_eq!(bench.late(&[created_at(0, 0.02)], &mut seen), []);
}

#[test]
fn a_look_at_what_is_recent_finds_what_others_made_before_an_own_trial_that_got_a_later_number() {
    let mut bench = Bench::new();
    let other = bench.other();
    asks(&other, bench.study, 0, "COMPLETE");
    let mut seen = bench.seen();
    asks(&other, bench.study, 1, "RUNNING");
    asks(&other, bench.study, 2, "COMPLETE");
    let carried = bench.carry_out(&[created_at(1, 0.05)], &mut seen);
    assert_eq!(carried.renumbered, [(1, 3)].into());
    let recent = bench.store.recent_changes(bench.study, &mut seen).unwrap();
    assert_eq!(numbers(&recent), (vec![], vec![1, 2]));
}

#[test]
fn a_point_that_somebody_else_tries_since_it_was_proposed_is_not_tried_again() {
    let mut bench = Bench::new();
    let mut seen = bench.seen();
    bench.carry_out(&[created_at(0, 0.05), created_at(1, 0.02)], &mut seen);
    let twin = [created_at(1, 0.02)];
    let late = bench.late(&twin, &mut KnownTrials::default());
    assert_eq!(late, twin);
    let before = [created_at(1, 0.05)];
    let carried = bench.carry_out(&before, &mut seen);
    assert_eq!(carried.renumbered, [(1, 2)].into(), "it knew of trial 0");
    // It asks for the right number, but knew of no trial before it: its own trials got later numbers than they asked for.
    let mut blind = created_at(3, 0.05);
    if let Write::TrialCreated { since, .. } = &mut blind {
        *since = 2;
    }
    assert_eq!(bench.late(&[blind.clone()], &mut seen), [blind]);
    // With two trials of others, the goal is reached.
    let mut beyond = created_at(1, 0.03);
    if let Write::TrialCreated { last, .. } = &mut beyond {
        *last = 2;
    }
    assert_eq!(bench.late(&[beyond.clone()], &mut seen), [beyond]);
}

#[test]
fn a_run_that_begins_ends_what_a_killed_one_left_open() {
    let mut bench = Bench::new();
    bench.start(0);
    bench.start(1);
    bench
        .other()
        .batch("UPDATE trials SET state = 'FAIL' WHERE number = 0")
        .unwrap();
    bench.store.begin_run(bench.study, &run_record()).unwrap();
    let attempts = |number| bench.store.attempts(bench.study, number).unwrap();
    for (number, again) in [(0, false), (1, true)] {
        let attempt = &attempts(number)[0];
        assert_eq!(attempt.outcome.as_deref(), Some("interrupted"));
        assert_eq!(attempt.again, again, "trial {number}");
    }
}

#[test]
fn a_deleted_study_is_said_to_be_deleted() {
    let mut bench = Bench::new();
    let mut seen = bench.seen();
    bench.carry_out(&[created(0)], &mut seen);
    bench
        .other()
        .batch(&format!(
            "{DELETE_TRIALS}; DELETE FROM study_directions; DELETE FROM studies"
        ))
        .unwrap();
    let error = bench.store.changes(bench.study, &mut seen).unwrap_err();
    assert!(error.to_string().contains("deleted by another program"));
    let (ids, time) = ((bench.study, bench.run), bench.store.time());
    let error = bench.store.carry_out(ids, time, &[created(1)], &mut seen);
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("deleted by another")
    );
    assert_ne!(seen, KnownTrials::default(), "as it was");
}

#[test]
fn attributes_are_read_by_keys_that_look_like_parts_of_a_query() {
    let mut bench = Bench::new();
    let all = json!({"what?1": 1, "b?7": 2, "it's": 3, "a\"b": 4, "other": 5});
    bench.apply(&[
        created(0),
        Write::TrialNoted {
            number: 0,
            user_attrs: attrs(all),
        },
    ]);
    let keys = ["what?1", "b?7", "it's", "a\"b", "c?0", "' OR '1' = '1"];
    let expected = attrs(json!({"what?1": 1, "b?7": 2, "it's": 3, "a\"b": 4}));
    let found = bench.store.attributes(bench.study, &[0], &keys).unwrap();
    assert_eq!(found[&0], expected);
    let found = bench.store.overviews(bench.study, None, &keys).unwrap();
    assert_eq!(found[0].user_attrs, expected);
    let none = bench.store.overviews(bench.study, None, &[]).unwrap();
    assert!(none[0].user_attrs.is_empty());
}
