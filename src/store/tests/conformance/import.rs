//! Studies that are made with trials from elsewhere.

use super::*;

const DIRECTIONS: [Direction; 1] = [Direction::Minimize];

/// Trials of every state that may arrive, as another study holds them.
fn foreign() -> Vec<FrozenTrial> {
    let mut bench = Bench::new();
    for number in 0..3 {
        bench.apply(&[created(number), reported(number, 1, 0.5)]);
    }
    bench.apply(&[
        finished(0, TrialState::Complete, &[1.0]),
        reported(1, 2, f64::NAN),
        finished(1, TrialState::Pruned, &[]),
        finished(2, TrialState::Fail, &[]),
    ]);
    let fixed = Params::from([("choice".to_owned(), Value::from("NaN"))]);
    bench
        .store
        .add_trials(
            bench.study,
            &[waiting(&fixed, attrs(json!({"note": "try this"})))],
        )
        .unwrap();
    bench.store.trials(bench.study).unwrap()
}

fn take(bench: &mut Bench, trials: &[FrozenTrial]) -> Result<i64, crate::StoreError> {
    let study = NewStudy {
        name: "taken",
        directions: &DIRECTIONS,
        user_attrs: &attrs(json!({"from": "elsewhere"})),
        identity: &Map::new(),
    };
    bench.store.create_study(&study, trials)
}

#[test]
fn trials_arrive_with_everything_they_had() {
    let mut bench = Bench::new();
    let trials = foreign();
    let id = take(&mut bench, &trials).unwrap();
    let mut arrived = bench.store.trials(id).unwrap();
    assert_eq!(arrived.len(), 4);
    for (there, here) in trials.iter().zip(&mut arrived) {
        here.trial_id = there.trial_id;
        // NaN is not equal to itself.
        assert_eq!(format!("{here:?}"), format!("{there:?}"));
    }
    assert_eq!(arrived[3].fixed_params()["choice"], Value::from("NaN"));
    let study = bench.store.find_study("taken").unwrap().unwrap();
    assert_eq!(study.user_attrs["from"], json!("elsewhere"));
}

#[test]
fn one_trial_that_cannot_arrive_keeps_the_whole_study_out() {
    let mut bench = Bench::new();
    let mut trials = foreign();
    trials[2].state = TrialState::Running;
    let error = take(&mut bench, &trials).unwrap_err().to_string();
    assert!(error.contains("trial 2 is still RUNNING"), "{error}");
    trials[2].state = TrialState::Complete;
    let error = take(&mut bench, &trials).unwrap_err().to_string();
    assert!(error.contains("0 values for 1 objectives"), "{error}");
    assert!(bench.store.find_study("taken").unwrap().is_none());
}

#[test]
fn points_are_enqueued_together_or_not_at_all() {
    let mut bench = Bench::new();
    bench.apply(&[created(0)]);
    let point = |name: &str| Params::from([("choice".to_owned(), Value::from(name))]);
    let points = [point("a"), point("b"), point("c")];
    let trials = points
        .each_ref()
        .map(|point| waiting(point, attrs(json!({"by": "hand"}))));
    let study = bench.study;
    let mut one_is_wrong = trials.clone();
    one_is_wrong[2].state = TrialState::Running;
    bench.store.add_trials(study, &one_is_wrong).unwrap_err();
    assert_eq!(bench.store.trials(study).unwrap().len(), 1);
    let numbers = bench.store.add_trials(study, &trials).unwrap();
    assert_eq!(numbers, 1..4);
    let trials = bench.store.trials(study).unwrap();
    for (trial, point) in trials[1..].iter().zip(&points) {
        assert_eq!(trial.fixed_params(), *point);
        assert_eq!(trial.user_attrs["by"], json!("hand"));
    }
}
