//! Hostile text in every field of every event: nothing of it reaches a terminal as more than text.

use serde_json::{Value as Json, json};

use super::sink::tests::shown;
use super::*;
use config::Baseline;
use config::Objective;
use messages::testing::{HOSTILE, harmful_in};
use protocol::AttemptId;
use search::space::{Params, Value};
use search::study::carry::{Carried, LeftOut};
use search::study::selection::{self, Leader, Next};
use search::study::{Direction, Job, Purpose, TrialState};

/// What is printed of a run in which every text is this one.
fn printed(mode: Mode, text: &str) -> String {
    shown(mode, text, &events(text))
}

fn best(text: &str) -> Best {
    Best {
        number: 7,
        value: Some(0.5),
        values: vec![0.5],
        params: Params::new(),
        adopted_params: Some(params(text)),
    }
}

fn params(text: &str) -> Params {
    Params::from([(format!("{text}.{text}"), Value::from(text))])
}

fn baseline(text: &str) -> Option<Baseline> {
    Some(Baseline {
        value: 0.4,
        what: text.to_owned(),
    })
}

fn selection(text: &str) -> Selected {
    let leader = Leader {
        number: 7,
        value: 0.5,
        params: params(text),
    };
    let outcomes = [((7, 1), Some(0.5)), ((7, 2), Some(0.25))];
    match selection::next(&[leader], &outcomes.into(), 2, Direction::Maximize) {
        Next::Done(selection) => Selected::new(selection, 9),
        Next::Run(jobs) => panic!("{jobs:?}"),
    }
}

fn events(text: &str) -> Vec<Event> {
    let own = || text.to_owned();
    let left = || LeftOut {
        key: own(),
        why: own(),
        trials: 1,
    };
    let attrs = json!({ "fault": text, "infeasible": true, "error_msg": text, text: text });
    let attrs = attrs.as_object().unwrap().clone();
    let counts = Counts::default();
    let fault = |attempt| {
        Event::Fault(Fault {
            fault: own(),
            worker: 1,
            attempt,
            detail: own(),
            verdict: own(),
        })
    };
    vec![
        Event::StudyForked(Fork {
            by: own(),
            from: vec![own(), own()],
            differences: vec![own()],
            carried: Carried {
                copied: 1,
                enqueued: 0,
                waiting: 1,
                left_out: vec![left()],
                waiting_left_out: vec![left()],
                without_result: 1,
            },
        }),
        Event::RunStarted(Box::new(RunStarted {
            database: "/p/tune.db".to_owned(),
            trials: 9,
            parallel: 1,
            devices: vec![own()],
            objective: Objective {
                metric: own(),
                direction: Direction::Maximize,
            },
            objectives: vec![
                Objective {
                    metric: own(),
                    direction: Direction::Maximize,
                },
                Objective {
                    metric: own(),
                    direction: Direction::Minimize,
                },
            ],
            front: Some(vec![best(text)]),
            baseline: baseline(text),
            counts,
            reclaimed: 1,
            best: Some(best(text)),
            sampler: own(),
            pruner: own(),
            injected: Some(own()),
            defaults: Default::default(),
        })),
        Event::WorkerStarted {
            worker: 1,
            pid: 2,
            device: own(),
        },
        Event::TrialStarted {
            number: 1,
            attempt: 0,
            worker: 1,
            params: params(text),
        },
        Event::EpochFinished {
            number: 1,
            epoch: 1,
            value: 0.5,
            metrics: [(own(), 0.5)].into(),
        },
        fault(None),
        fault(Some(AttemptId {
            number: 1,
            purpose: Purpose::Search,
            attempt: 0,
        })),
        Event::TrialFinished(TrialFinished {
            number: 1,
            state: TrialState::Complete,
            value: Some(0.5),
            values: vec![0.5, 0.5],
            params: params(text),
            attrs: attrs.clone(),
            counts,
            leads: true,
            best: Some((1, 0.5)),
        }),
        Event::RepeatStarted {
            job: Job::repeat(7, 1),
            attempt: 0,
            worker: 1,
            seed: 1,
            params: params(text),
        },
        Event::RepeatFinished(RepeatFinished {
            job: Job::repeat(7, 1),
            state: TrialState::Complete,
            value: Some(0.5),
            seed: 1,
            attrs,
        }),
        Event::NewBest(best(text)),
        Event::WinnerSelected(Box::new(selection(text))),
        Event::WorkerStopped {
            worker: 1,
            reason: own(),
        },
        Event::Warned { message: own() },
        Event::RunFinished(RunFinished {
            exit: 5,
            reason: own(),
            counts,
            best: Some(best(text)),
            front: None,
            failures: Vec::new(),
            slots_given_up: Vec::new(),
            baseline: baseline(text),
            chosen: Box::new(Chosen {
                selection: Some(selection(text)),
                test: Some(Tested {
                    number: 7,
                    metric: own(),
                    value: None,
                    validation: Some(0.5),
                    baseline: None,
                    looks: 1,
                    error: Some(own()),
                }),
            }),
        }),
    ]
}

#[test]
fn no_text_of_an_event_drives_the_terminal_or_makes_a_line_of_its_own() {
    for mode in [Mode::Lines, Mode::Progress, Mode::Json] {
        let (hostile, plain) = (printed(mode, HOSTILE), printed(mode, "plain"));
        assert_eq!(harmful_in(&hostile), [], "{mode:?}: {hostile}");
        assert!(plain.lines().count() > 10, "{mode:?}: {plain}");
        let counts = [&hostile, &plain].map(|text| text.lines().count());
        assert_eq!(counts[0], counts[1], "{mode:?}:\n{hostile}\n{plain}");
    }
}

#[test]
fn json_tells_hostile_text_as_it_was() {
    let printed = printed(Mode::Json, HOSTILE);
    for line in printed.lines() {
        let event: Json = serde_json::from_str(line).unwrap();
        assert_eq!(event["study"], HOSTILE);
        if event["event"] == "warned" {
            assert_eq!(event["message"], HOSTILE);
        }
    }
}
