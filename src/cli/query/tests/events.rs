//! One event of each kind, against the schema.

use super::*;
use config::{Baseline, Objective};
use report::{Fault, RepeatFinished, RunFinished, RunStarted, TrialFinished};

fn fork() -> Fork {
    let left_out = LeftOut {
        key: "model.name".to_owned(),
        why: "b is no choice now".to_owned(),
        trials: 3,
    };
    Fork {
        by: "--fork".to_owned(),
        from: vec!["criteria@2".to_owned(), "criteria".to_owned()],
        differences: vec!["space.model.name: the study has a | b, asked for a".to_owned()],
        carried: Carried {
            copied: 1,
            enqueued: 0,
            waiting: 1,
            left_out: vec![left_out.clone()],
            waiting_left_out: vec![left_out],
            without_result: 2,
        },
    }
}

fn events() -> Vec<Event> {
    let params: Params = [
        ("lr".to_owned(), Value::Float(0.1)),
        ("c".to_owned(), Value::Null),
    ]
    .into();
    let best = Best {
        number: 3,
        value: Some(f64::INFINITY),
        values: vec![f64::INFINITY],
        params: Params::new(),
        adopted_params: Some(params.clone()),
    };
    let baseline = Some(Baseline {
        value: 0.5,
        what: "always 0".to_owned(),
    });
    let counts = Counts::default();
    vec![
        Event::RunStarted(Box::new(RunStarted {
            database: "/p/tune.db".to_owned(),
            trials: 300,
            parallel: 2,
            devices: vec!["cpu".to_owned()],
            objective: Objective {
                metric: "macro_f1".to_owned(),
                direction: Direction::Maximize,
            },
            objectives: vec![],
            front: None,
            baseline: baseline.clone(),
            counts,
            reclaimed: 1,
            best: None,
            sampler: "tpe".to_owned(),
            pruner: "median".to_owned(),
            injected: None,
            defaults: Params::new(),
        })),
        Event::StudyForked(fork()),
        Event::WorkerStarted {
            worker: 1,
            pid: 2,
            device: "cpu".to_owned(),
        },
        Event::TrialStarted {
            number: 0,
            attempt: 0,
            worker: 1,
            params: params.clone(),
        },
        Event::EpochFinished {
            number: 0,
            epoch: 1,
            value: f64::NAN,
            metrics: [("loss".to_owned(), f64::NEG_INFINITY)].into(),
        },
        Event::TrialFinished(TrialFinished {
            number: 0,
            state: TrialState::Fail,
            value: None,
            values: vec![],
            params,
            attrs: object(json!({"seed": 1})),
            counts,
            leads: false,
            best: None,
        }),
        Event::Fault(Fault {
            fault: "killed".to_owned(),
            worker: 1,
            attempt: None,
            detail: String::new(),
            verdict: "again".to_owned(),
        }),
        Event::RepeatStarted {
            job: Job::repeat(0, 1),
            attempt: 0,
            worker: 1,
            seed: 7,
            params: Params::new(),
        },
        Event::RepeatFinished(RepeatFinished {
            job: Job::test(0),
            state: TrialState::Fail,
            value: None,
            seed: 7,
            attrs: object(json!({"fault": "hang"})),
        }),
        Event::WinnerSelected(Box::new(selection())),
        Event::WorkerStopped {
            worker: 1,
            reason: "done".to_owned(),
        },
        // Without what need not be there.
        Event::NewBest(Best {
            adopted_params: None,
            ..best.clone()
        }),
        Event::Warned {
            message: "m".to_owned(),
        },
        Event::RunFinished(RunFinished {
            exit: 0,
            reason: "goal reached".to_owned(),
            counts,
            best: Some(best),
            front: None,
            failures: Vec::new(),
            slots_given_up: Vec::new(),
            baseline,
            chosen: Box::new(Chosen {
                selection: Some(selection()),
                test: Some(Tested {
                    number: 0,
                    metric: "loss".to_owned(),
                    value: Some(0.75),
                    validation: Some(0.5),
                    baseline: None,
                    looks: 1,
                    error: None,
                }),
            }),
        }),
    ]
}

/// Trial 0 won with two repeats; trial 1 has none.
#[test]
fn every_event_obeys_its_schema() {
    for event in events() {
        let json = event_json(&event, context().now, "criteria").unwrap();
        validate(EVENT, &json).unwrap_or_else(|e| panic!("{json}: {e}"));
        for key in json.as_object().unwrap().keys() {
            let mut less = json.clone();
            less.as_object_mut().unwrap().remove(key);
            assert!(validate(EVENT, &less).is_err(), "{json} without {key}");
        }
    }
    let left_out = left_out_json(12, context().now, "criteria");
    validate(EVENT, &left_out).unwrap();
    let unknown = json!({"event": "nonsense", "time": "2026-11-21T03:00:00Z", "study": "s"});
    assert!(validate(EVENT, &unknown).is_err());
}
