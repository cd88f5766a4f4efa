//! What a batch of writes does, and what it refuses.

use super::*;
use crate::sql::Row;
use search::study::violation;

#[test]
fn a_trial_is_read_as_it_was_written() {
    let mut bench = Bench::new();
    let choices = vec![
        Value::Null,
        Value::Bool(true),
        Value::Int(3),
        Value::Float(0.5),
        "é".into(),
    ];
    let distributions: std::collections::BTreeMap<String, Domain> = [
        ("lr".to_owned(), lr()),
        (
            "n".to_owned(),
            Domain::Int {
                low: 2,
                high: 8,
                log: false,
                step: 2,
            },
        ),
        ("c".to_owned(), Domain::Categorical { choices }),
    ]
    .into();
    let params: Params = [
        ("lr".to_owned(), Value::Float(0.1 + 0.2)),
        ("n".to_owned(), Value::Int(4)),
        ("c".to_owned(), Value::from("é")),
    ]
    .into();
    let user = attrs(json!({"a": [1, "NaN", null, {"deep": "-Infinity"}], "text": "line\n\"ü\""}));
    bench.apply(&[
        Write::TrialCreated {
            number: 0,
            last: u64::MAX,
            since: 0,
            study_seed: None,
            params: params.clone(),
            distributions: distributions.clone(),
            user_attrs: user.clone(),
            system_attrs: attrs(json!({"sampler": "gp"})),
        },
        reported(0, 1, f64::NAN),
        reported(0, 2, f64::INFINITY),
        reported(0, 2, -1.5),
        Write::TrialFinished {
            number: 0,
            state: TrialState::Complete,
            values: vec![f64::NEG_INFINITY],
            user_attrs: attrs(json!({"text": "changed"})),
            system_attrs: attrs(json!({"constraints:gpu_memory": -1.5})),
        },
    ]);
    let trial = bench.store.trial(bench.study, 0).unwrap().unwrap();
    assert_eq!(trial.state, TrialState::Complete);
    assert_eq!(trial.params, params);
    assert_eq!(trial.distributions, distributions);
    assert_eq!(trial.values, [f64::NEG_INFINITY]);
    assert!(trial.intermediate[&1].is_nan());
    assert_eq!(trial.intermediate[&2], -1.5);
    assert_eq!(trial.user_attrs["a"], user["a"]);
    assert_eq!(trial.user_attrs["text"], json!("changed"));
    let system = json!({"sampler": "gp", "constraints:gpu_memory": -1.5});
    assert_eq!(Json::Object(trial.system_attrs), system);
}

#[test]
fn an_outline_has_what_decides_which_trial_is_best_and_nothing_else() {
    let mut bench = Bench::new();
    let end = |number, state, values: &[f64], user: Json, system: Json| Write::TrialFinished {
        number,
        state,
        values: values.to_vec(),
        user_attrs: attrs(user),
        system_attrs: attrs(system),
    };
    let other = json!({"constraints:gpu_memory": -1.0, "else": 1});
    bench.apply(&[
        created(0),
        created(1),
        created(2),
        reported(0, 1, 2.0),
        end(
            0,
            TrialState::Complete,
            &[1.5],
            json!({"oom": false}),
            other,
        ),
        end(
            1,
            TrialState::Complete,
            &[0.5],
            json!({}),
            json!({"constraints:gpu_memory": 2.0}),
        ),
        end(
            2,
            TrialState::Pruned,
            &[],
            json!({"infeasible": true}),
            json!({}),
        ),
    ]);
    let lists = [
        json!([-1.0, 0.5]),
        json!([-1.0]),
        json!(["NaN"]),
        json!(null),
    ];
    for (number, list) in (3..).zip(lists) {
        let list = json!({"constraints": list, "constraint": 1.0, "else": 1});
        let complete = TrialState::Complete;
        bench.apply(&[
            created(number),
            end(number, complete, &[0.1], json!({}), list),
        ]);
    }
    let outlines = bench.store.outlines(bench.study).unwrap();
    let whole = bench.store.trials(bench.study).unwrap();
    let decides = |trials: &[FrozenTrial]| -> Vec<_> {
        let one = |t: &FrozenTrial| {
            (
                t.number,
                t.state,
                t.values.clone(),
                violation(t),
                t.counts(),
            )
        };
        trials.iter().map(one).collect()
    };
    assert_eq!(decides(&outlines), decides(&whole));
    assert_eq!(
        decides(&outlines)
            .iter()
            .map(|d| (d.3, d.4))
            .collect::<Vec<_>>(),
        [
            (Some(-1.0), true),
            (Some(2.0), true),
            (None, false),
            (Some(0.5), true),
            (Some(-1.0), true),
            (Some(f64::INFINITY), true),
            (Some(f64::INFINITY), true)
        ]
    );
    assert!(
        outlines
            .iter()
            .all(|t| t.params.is_empty() && t.intermediate.is_empty())
    );
    assert!(outlines[0].user_attrs.is_empty() && outlines[0].system_attrs.len() == 1);
}

#[test]
fn times_are_naive_utc_with_microseconds() {
    let mut bench = Bench::new();
    let time: jiff::Timestamp = "2026-11-21T03:04:05.000678+02:00".parse().unwrap();
    bench.store = bench.store.with_clock(move || time);
    bench.apply(&[created(0), finished(0, TrialState::Complete, &[1.0])]);
    let trial = bench.store.trial(bench.study, 0).unwrap().unwrap();
    let expected = Some("2026-11-21 01:04:05.000678".to_owned());
    assert_eq!(trial.datetime_start, expected);
    assert_eq!(trial.datetime_complete, expected);
}

#[test]
fn a_taken_number_is_a_conflict_and_nothing_of_the_batch_is_written() {
    let mut bench = Bench::new();
    bench.start(0);
    let batch = [finished(0, TrialState::Complete, &[1.0]), created(0)];
    assert_eq!(bench.apply(&batch), Written::Conflict);
    assert_eq!(bench.apply(&[created(2)]), Written::Conflict);
    let trials = bench.store.trials(bench.study).unwrap();
    assert_eq!(trials.len(), 1);
    assert_eq!(trials[0].state, TrialState::Running);
    assert_eq!(bench.apply(&[created(1)]), Written::Done);
}

#[test]
fn a_waiting_trial_is_claimed_once() {
    let mut bench = Bench::new();
    let params: Params = [
        ("lr".to_owned(), Value::Float(0.02)),
        ("s".to_owned(), "NaN".into()),
    ]
    .into();
    let trial = waiting(&params, attrs(json!({"memo": "x"})));
    let number = bench.store.add_trials(bench.study, &[trial]).unwrap().start;
    let waiting = bench.store.trial(bench.study, number).unwrap().unwrap();
    assert_eq!(waiting.state, TrialState::Waiting);
    assert_eq!(waiting.fixed_params(), params);
    assert_eq!(waiting.datetime_start, None);
    let claim = Write::TrialClaimed {
        number,
        params: [("lr".to_owned(), Value::Float(0.02))].into(),
        distributions: [("lr".to_owned(), lr())].into(),
        user_attrs: attrs(json!({"seed": 5})),
    };
    assert_eq!(bench.apply(std::slice::from_ref(&claim)), Written::Done);
    assert_eq!(bench.apply(&[claim]), Written::Conflict);
    let trial = bench.store.trial(bench.study, number).unwrap().unwrap();
    assert_eq!(trial.state, TrialState::Running);
    assert_eq!(trial.user_attrs, attrs(json!({"memo": "x", "seed": 5})));
    assert!(trial.datetime_start.is_some());
}

#[test]
fn a_new_attempt_forgets_reports_and_closes_what_was_interrupted() {
    let batches = [
        vec![created(0), started(0, 0)],
        vec![reported(0, 1, 1.0), reported(0, 2, 2.0)],
        vec![started(0, 1), reported(0, 1, 5.0)],
        vec![
            ended(0, 1, "completed", false),
            finished(0, TrialState::Complete, &[5.0]),
        ],
    ];
    // One after the other, and all in one, as after an outage.
    for batches in [&batches[..], &[batches.concat()]] {
        let mut bench = Bench::new();
        for batch in batches {
            bench.apply(batch);
        }
        let trial = bench.store.trial(bench.study, 0).unwrap().unwrap();
        assert_eq!(trial.intermediate, [(1, 5.0)].into());
        let attempts = bench.store.attempts(bench.study, 0).unwrap();
        let outcomes: Vec<_> = attempts.iter().map(|a| a.outcome.as_deref()).collect();
        assert_eq!(outcomes, [Some("interrupted"), Some("completed")]);
        assert!(attempts[0].again && attempts[0].ended.is_some());
        assert_eq!(
            attempts[1].log,
            "logs/of trial-000000/trial-000000-attempt-1.log"
        );
        let all = bench.store.all_attempts(bench.study).unwrap();
        assert_eq!(all, [(0, attempts)].into());
    }
}

#[test]
fn a_pruned_trial_without_a_value_takes_the_last_report_that_is_a_number() {
    for (reports, expected) in [
        (vec![1.0, 3.0, f64::NAN], vec![3.0]),
        (vec![1.0, f64::NEG_INFINITY], vec![f64::NEG_INFINITY]),
        (vec![f64::NAN], vec![]),
        (vec![], vec![]),
    ] {
        let mut bench = Bench::new();
        bench.start(0);
        for (step, value) in reports.into_iter().enumerate() {
            bench.apply(&[reported(0, step as i64 + 1, value)]);
        }
        bench.apply(&[finished(0, TrialState::Pruned, &[])]);
        assert_eq!(bench.store.trials(bench.study).unwrap()[0].values, expected);
    }
}

#[test]
fn values_that_optuna_does_not_allow_are_refused() {
    let mut bench = Bench::new();
    bench.start(0);
    for (state, values) in [
        (TrialState::Complete, vec![f64::NAN]),
        (TrialState::Pruned, vec![f64::NAN]),
        (TrialState::Complete, vec![]),
        (TrialState::Fail, vec![1.0]),
    ] {
        let error = bench.error(&[reported(0, 1, 1.0), finished(0, state, &values)]);
        assert!(error.contains("makes no sense"), "{error}");
    }
    let two = bench.error(&[finished(0, TrialState::Complete, &[1.0, 2.0])]);
    assert!(two.contains("has 1 directions"), "{two}");
    assert!(
        bench.store.trials(bench.study).unwrap()[0]
            .intermediate
            .is_empty()
    );
    assert_eq!(
        bench.apply(&[finished(0, TrialState::Fail, &[])]),
        Written::Done
    );
}

#[test]
fn two_objectives_need_two_values() {
    let mut bench = Bench::with_directions(&[Direction::Minimize, Direction::Maximize]);
    bench.start(0);
    assert!(
        bench
            .error(&[finished(0, TrialState::Complete, &[1.0])])
            .contains("1 values")
    );
    bench.apply(&[finished(0, TrialState::Complete, &[1.0, f64::INFINITY])]);
    assert_eq!(
        bench.store.trials(bench.study).unwrap()[0].values,
        [1.0, f64::INFINITY]
    );
}

#[test]
fn a_trial_that_another_program_ended_cannot_end_again() {
    let mut bench = Bench::new();
    bench.start(0);
    bench.apply(&[finished(0, TrialState::Fail, &[])]);
    for write in [
        finished(0, TrialState::Complete, &[1.0]),
        reported(0, 1, 1.0),
        started(0, 1),
    ] {
        let error = bench
            .store
            .apply(bench.study, bench.run, &[write])
            .unwrap_err();
        assert!(
            matches!(error.kind, crate::StoreErrorKind::Transition(0, ..)),
            "{error}"
        );
        assert!(!error.transient());
    }
    let error = bench.error(&[reported(8, 1, 1.0)]);
    assert!(error.contains("no trial 8"), "{error}");
}

#[test]
fn writes_that_make_no_sense_are_refused() {
    let mut bench = Bench::new();
    bench.start(0);
    assert!(
        bench
            .error(&[started(0, 0)])
            .contains("before it has started")
    );
    assert!(
        bench
            .error(&[ended(0, 7, "killed", true)])
            .contains("not under way")
    );
    let outside = Write::TrialCreated {
        number: 1,
        last: u64::MAX,
        since: 1,
        study_seed: None,
        params: [("c".to_owned(), Value::from("x"))].into(),
        distributions: [(
            "c".to_owned(),
            Domain::Categorical {
                choices: vec!["y".into()],
            },
        )]
        .into(),
        user_attrs: Map::new(),
        system_attrs: serde_json::Map::new(),
    };
    assert!(
        bench
            .error(&[outside])
            .contains("does not lie in its distribution")
    );
}

#[test]
fn only_trials_of_tune_are_reclaimed() {
    let mut bench = Bench::new();
    bench.apply(&[created(0)]);
    bench.apply(&[created(1), started(1, 0)]);
    bench.apply(&[created(2), started(2, 0), ended(2, 0, "killed", true)]);
    bench.apply(&[
        created(3),
        started(3, 0),
        finished(3, TrialState::Complete, &[1.0]),
    ]);
    let add = "INSERT INTO trials (number, study_id, state) VALUES (4, 1, 'RUNNING')";
    bench.other().batch(add).unwrap();
    let next = bench.store.begin_run(bench.study, &run_record()).unwrap();
    let of = |run| bench.store.reclaimable(bench.study, run).unwrap();
    assert!(of(bench.run).is_empty(), "the next run has taken them over");
    let found = of(next);
    let brief: Vec<_> = found
        .iter()
        .map(|r| {
            let last = r.attempts.last();
            (
                r.number,
                r.next_attempt(),
                last.and_then(|a| a.outcome.as_deref()),
            )
        })
        .collect();
    assert_eq!(
        brief,
        [
            (0, 0, None),
            (1, 1, Some("interrupted")),
            (2, 1, Some("killed"))
        ]
    );
    assert_eq!(found[1].attempts[0].pid, 99);
}

#[test]
fn what_a_run_left_ended_when_it_was_last_heard_of_and_not_before_it_began() {
    let ended = |heard: fn(&str) -> String| {
        let mut bench = Bench::new();
        bench.apply(&[created(0), started(0, 0)]);
        let attempt = |bench: &Bench| bench.store.attempts(bench.study, 0).unwrap().remove(0);
        let began = attempt(&bench).started;
        let heard = heard(&began);
        let (study, run) = (bench.study, run_record());
        bench.store.begin_run_after(study, &run, &heard).unwrap();
        let attempt = attempt(&bench);
        assert_eq!(attempt.outcome.as_deref(), Some("interrupted"));
        (began, attempt.ended.unwrap())
    };
    let (began, end) = ended(|_| "2000-01-01 00:00:00.000000".to_owned());
    assert_eq!(end, began);
    let (began, end) = ended(|began| format!("{began}1"));
    assert_eq!(end, format!("{began}1"));
    let (_, end) = ended(|_| "2200-01-01 00:00:00.000000".to_owned());
    assert!(*end < *"2200", "what is to come was not heard yet");
}

#[test]
fn what_comes_out_later_is_noted_on_a_trial_that_has_ended() {
    let mut bench = Bench::new();
    let number = 0;
    bench.apply(&[
        created(number),
        Write::TrialFinished {
            number,
            state: TrialState::Complete,
            values: vec![0.5],
            user_attrs: attrs(json!({"attempts": 1})),
            system_attrs: Map::new(),
        },
        Write::TrialNoted {
            number,
            user_attrs: attrs(json!({"suspect": "why"})),
        },
    ]);
    let trial = bench.store.trial(bench.study, number).unwrap().unwrap();
    assert_eq!(
        trial.user_attrs,
        attrs(json!({"attempts": 1, "seed": 1234, "suspect": "why"}))
    );
    assert_eq!(trial.value(), Some(0.5));
}

#[test]
fn runs_and_study_attributes_are_kept() {
    let mut bench = Bench::new();
    let user_attrs = attrs(json!({"baseline": {"value": 0.5, "what": "always 0"}}));
    bench.apply(&[
        Write::StudyAttributes {
            user_attrs: user_attrs.clone(),
        },
        Write::RunEnded { exit: 4 },
    ]);
    let runs = bench.store.runs(bench.study).unwrap();
    assert_eq!(runs[0].record, run_record());
    assert_eq!(runs[0].exit, Some(4));
    assert!(runs[0].ended.is_some());
    let study = bench.store.find_study("s").unwrap().unwrap();
    assert_eq!(study.user_attrs, user_attrs);
    assert_eq!(study.last_activity, runs[0].ended);
    assert_eq!(bench.store.find_study("t").unwrap(), None);
}

#[test]
fn the_identity_of_a_study_survives_and_its_name_is_unique() {
    let mut bench = Bench::new();
    let identity = attrs(json!({"space.lr.high": 0.1, "train.epochs": 4}));
    let id = bench
        .store
        .create_study(
            &NewStudy {
                name: "t",
                directions: &[Direction::Maximize],
                user_attrs: &Map::new(),
                identity: &identity,
            },
            &[],
        )
        .unwrap();
    assert_eq!(bench.store.identity(id).unwrap(), Some(identity));
    let claimed = attrs(json!({"claimed": 3}));
    bench.store.claim(id, &Map::new(), &claimed).unwrap();
    assert_eq!(bench.store.identity(id).unwrap(), Some(Map::new()));
    let found = bench.store.find_study("t").unwrap().unwrap();
    assert_eq!(found.user_attrs["claimed"], 3);
    assert!(bench.store.claim(99, &Map::new(), &claimed).is_err());
    let again = bench.store.create_study(
        &NewStudy {
            name: "t",
            directions: &[Direction::Maximize],
            user_attrs: &Map::new(),
            identity: &Map::new(),
        },
        &[],
    );
    assert!(again.unwrap_err().to_string().contains("already"));
    assert_eq!(bench.store.studies().unwrap().len(), 2);
}

#[test]
fn the_objectives_of_a_study_are_named_once_and_other_names_are_kept() {
    let mut bench = Bench::new();
    let mut named = |name: &str| {
        bench
            .store
            .name_metrics(bench.study, &[name, "time"])
            .unwrap();
        let text = "SELECT key, value_json FROM study_system_attributes";
        let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        bench.store.conn.first(text, &[], row).unwrap().unwrap()
    };
    let expected = (
        "study:metric_names".to_owned(),
        r#"["loss", "time"]"#.to_owned(),
    );
    assert_eq!(named("loss"), expected);
    assert_eq!(named("other"), expected);
    assert!(bench.store.name_metrics(99, &["loss"]).is_err());
}

#[test]
fn what_we_keep_of_a_study_goes_when_optuna_deletes_it() {
    let mut bench = Bench::new();
    bench.start(0);
    let delete = format!("{DELETE_TRIALS}; DELETE FROM study_directions; DELETE FROM studies");
    bench.other().batch(&delete).unwrap();
    let id = bench
        .store
        .create_study(
            &NewStudy {
                name: "new",
                directions: &[Direction::Minimize],
                user_attrs: &Map::new(),
                identity: &Map::new(),
            },
            &[],
        )
        .unwrap();
    let again = bench.store.conn.gives_ids_again();
    assert_eq!(id == bench.study, again, "SQLite hands the id out again");
    assert_eq!(bench.store.identity(id).unwrap(), Some(Map::new()));
    assert!(bench.store.runs(id).unwrap().is_empty());
    assert!(bench.store.all_attempts(id).unwrap().is_empty());
}

#[test]
fn statements_that_nobody_waits_for_are_carried_out_in_order_and_fail_the_whole_transaction() {
    let mut bench = Bench::new();
    let add = "INSERT INTO studies (study_name) VALUES (?1)";
    let rename = "UPDATE studies SET study_name = ?2 WHERE study_name = ?1";
    let many = 40;
    bench
        .store
        .write(|conn| {
            conn.send(add, &[&"0"])?;
            (0..many).try_for_each(|n| conn.send(rename, &[&n.to_string(), &(n + 1).to_string()]))
        })
        .unwrap();
    let names = |bench: &Bench| -> Vec<String> {
        let studies = bench.store.studies().unwrap().into_iter();
        studies.map(|study| study.name).collect()
    };
    assert_eq!(names(&bench), ["s", "40"]);
    for asked in [true, false] {
        let twice = bench.store.write(|conn| {
            conn.send(add, &[&"another"])?;
            conn.send(add, &[&"s"])?;
            conn.send(add, &[&"a third"])?;
            match asked {
                true => conn.value::<i64>("SELECT COUNT(*) FROM studies", &[]),
                false => Ok(0),
            }
        });
        let error = twice.unwrap_err().to_string().to_lowercase();
        assert!(error.contains("unique"), "{error}");
        assert_eq!(names(&bench), ["s", "40"]);
    }
    bench.start(0);
}
