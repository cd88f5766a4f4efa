//! A recorded run, rendered in each mode.

use std::io::Write;
use std::sync::{Arc, Mutex};

use super::*;
use crate::{Best, Counts, Fault, Fork, RunFinished, RunStarted, TrialFinished};
use config::{Baseline, Objective};
use protocol::AttemptId;
use search::space::{Params, Value};
use search::study::carry::{Carried, LeftOut};
use search::study::{Direction, Purpose, TrialState};

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn render(mode: Mode, events: &[Event]) -> String {
    shown(mode, "criteria", events)
}

/// What is printed of a run.
pub fn shown(mode: Mode, study: &str, events: &[Event]) -> String {
    let buffer = Buffer::default();
    let output = Output::to(Box::new(buffer.clone()));
    let mut sink = sink_to(mode, &About::new(study, "tune"), output).unwrap();
    for (i, event) in events.iter().enumerate() {
        sink.handle(
            event,
            Timestamp::from_second(1_700_000_000 + i as i64).unwrap(),
        );
    }
    // Waits until everything is written.
    drop(sink);
    let bytes = buffer.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

fn params() -> Params {
    Params::from([
        ("optim.lr".to_owned(), Value::Float(3e-5)),
        ("model.name".to_owned(), "minilm".into()),
    ])
}

fn baseline() -> Option<Baseline> {
    Some(Baseline {
        value: 0.427,
        what: "always predicting class 1 of status".to_owned(),
    })
}

fn finished(number: u64, state: TrialState, value: Option<f64>, complete: u64) -> Event {
    let attrs = serde_json::json!({ "runtime_s": 61.5 });
    Event::TrialFinished(TrialFinished {
        number,
        state,
        value,
        values: value.into_iter().collect(),
        params: params(),
        attrs: attrs.as_object().unwrap().clone(),
        counts: Counts {
            complete,
            ..Counts::default()
        },
        leads: value.is_some(),
        best: value.map(|value| (number, value)),
    })
}

fn run(best_value: f64, exit: u8, reason: &str) -> Vec<Event> {
    let best = Best {
        number: 0,
        value: Some(best_value),
        values: vec![best_value],
        params: params(),
        adopted_params: None,
    };
    let counts = Counts {
        complete: 1,
        fail: 1,
        ..Counts::default()
    };
    vec![
        Event::RunStarted(Box::new(RunStarted {
            database: "/p/tune.db".to_owned(),
            trials: 2,
            parallel: 1,
            devices: vec!["cpu".to_owned()],
            objective: Objective {
                metric: "macro_f1".to_owned(),
                direction: Direction::Maximize,
            },
            objectives: vec![],
            front: None,
            baseline: baseline(),
            counts: Counts::default(),
            reclaimed: 1,
            best: None,
            sampler: "tpe".to_owned(),
            pruner: "median".to_owned(),
            injected: None,
            defaults: Params::new(),
        })),
        Event::WorkerStarted {
            worker: 0,
            pid: 42,
            device: "cpu".to_owned(),
        },
        Event::TrialStarted {
            number: 0,
            attempt: 0,
            worker: 0,
            params: params(),
        },
        Event::TrialStepped {
            number: 0,
            steps: 9,
        },
        Event::EpochFinished {
            number: 0,
            epoch: 1,
            value: f64::NAN,
            metrics: [("loss".to_owned(), f64::INFINITY)].into(),
        },
        Event::Fault(Fault {
            fault: "killed".to_owned(),
            worker: 0,
            attempt: Some(AttemptId {
                number: 0,
                purpose: Purpose::Search,
                attempt: 0,
            }),
            detail: "SIGKILL\nmore".to_owned(),
            verdict: "again".to_owned(),
        }),
        Event::WorkerStopped {
            worker: 0,
            reason: "killed".to_owned(),
        },
        finished(0, TrialState::Complete, Some(best_value), 1),
        Event::NewBest(best.clone()),
        finished(1, TrialState::Fail, None, 1),
        Event::Warned {
            message: "the disk is slow".to_owned(),
        },
        Event::RunFinished(RunFinished {
            exit,
            reason: reason.to_owned(),
            counts,
            best: Some(best),
            front: None,
            failures: Vec::new(),
            slots_given_up: Vec::new(),
            baseline: baseline(),
            chosen: Box::default(),
        }),
    ]
}

const EXPECTED: &str = "\
22:13:20Z study criteria: maximize macro_f1, 0 of 2 trials finished
  1 in parallel on cpu, sampler tpe, pruner median
  database: /p/tune.db
  trivial answer: macro_f1 0.427: always predicting class 1 of status
  1 trial of an earlier run left unfinished: run again
22:13:25Z fault: killed (trial 0, attempt 0, worker 0): SIGKILL -> the trial runs again
22:13:27Z [1/2] trial 0 COMPLETE macro_f1 0.71234 (best), 1 min 02 s, name=minilm lr=3e-5
22:13:29Z trial 1 FAIL, 1 min 02 s, name=minilm lr=3e-5
22:13:30Z warning: the disk is slow
22:13:31Z study criteria ended: stopped by SIGTERM
  1 of 2 trials finished (1 complete, 0 pruned), 1 failed
  best: macro_f1 0.71234 (trial 0)
    model.name = minilm
    optim.lr   = 3e-5
  trivial answer: macro_f1 0.427: always predicting class 1 of status
  database: /p/tune.db
  to continue: run the same command again
";

#[test]
fn lines_tell_a_run_and_how_to_continue_it() {
    let text = render(Mode::Lines, &run(0.712_344, 4, "stopped by SIGTERM"));
    assert_eq!(text, EXPECTED);
}

#[test]
fn progress_writes_the_same_lines_and_keeps_the_bar_off_stdout() {
    let events = run(0.712_344, 4, "stopped by SIGTERM");
    assert_eq!(render(Mode::Progress, &events), EXPECTED);
}

#[test]
fn a_run_that_does_not_beat_the_trivial_answer_is_warned_about() {
    let text = render(Mode::Lines, &run(0.427, 0, "goal reached"));
    assert!(text.contains(
        "warning: no trial beats the trivial answer (macro_f1 0.427: always predicting class 1"
    ));
    assert!(!text.contains("to continue"));
}

#[test]
fn json_has_one_object_for_each_event_of_the_contract() {
    let text = render(Mode::Json, &run(0.712_344, 4, "stopped"));
    let objects: Vec<serde_json::Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let names: Vec<&str> = objects
        .iter()
        .map(|o| o["event"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "run_started",
            "worker_started",
            "trial_started",
            "epoch_finished",
            "fault",
            "worker_stopped",
            "trial_finished",
            "new_best",
            "trial_finished",
            "warned",
            "run_finished"
        ]
    );
    assert!(objects.iter().all(|o| o["study"] == "criteria"));
    assert_eq!(objects[0]["time"], "2023-11-14T22:13:20Z");
    assert_eq!(objects[0]["direction"], "maximize");
    assert_eq!(objects[3]["value"], "NaN");
    assert_eq!(objects[3]["metrics"]["loss"], "Infinity");
    assert_eq!(objects[6]["state"], "COMPLETE");
    assert_eq!(objects[6]["params"]["model.name"], "minilm");
    assert_eq!(objects[8]["value"], serde_json::Value::Null);
    assert_eq!(objects[10]["exit"], 4);
    assert_eq!(objects[10]["counts"]["fail"], 1);
    assert_eq!(objects[10]["baseline"]["value"], 0.427);
}

#[test]
fn quiet_writes_nothing() {
    assert_eq!(render(Mode::Quiet, &run(0.5, 0, "goal reached")), "");
}

#[test]
fn json_wins_over_quiet_and_a_pipe_gets_lines() {
    assert_eq!(Mode::choose(true, true, true), Mode::Json);
    assert_eq!(Mode::choose(false, true, true), Mode::Quiet);
    assert_eq!(Mode::choose(false, false, true), Mode::Progress);
    assert_eq!(Mode::choose(false, false, false), Mode::Lines);
}

#[test]
fn a_refused_trial_says_why() {
    let why = "model.layers = 99 is outside its range";
    let attrs = serde_json::json!({"infeasible": true, "error_msg": why});
    let event = Event::TrialFinished(TrialFinished {
        number: 4,
        state: TrialState::Pruned,
        value: None,
        values: vec![],
        params: Params::new(),
        attrs: attrs.as_object().unwrap().clone(),
        counts: Counts::default(),
        leads: false,
        best: None,
    });
    let text = render(Mode::Lines, &[event]);
    assert!(
        text.contains(&format!("trial 4 PRUNED (infeasible: {why})")),
        "{text}"
    );
}

#[test]
fn the_best_of_a_node_s_own_trials_is_not_the_study_s() {
    let mut second = finished(2, TrialState::Complete, Some(0.8), 3);
    if let Event::TrialFinished(trial) = &mut second {
        trial.leads = false;
        trial.best = Some((1, 0.9));
    }
    let first = finished(0, TrialState::Complete, Some(0.7), 1);
    let text = render(Mode::Lines, &[first, second]);
    assert_eq!(text.matches("(best)").count(), 1, "{text}");
    assert!(text.contains("trial 2 COMPLETE value 0.8, "), "{text}");
}

#[test]
fn a_fork_says_what_it_took_over_and_why_not_all() {
    let left = |n: u64| LeftOut {
        key: format!("p{n}"),
        why: "outside 1..2".to_owned(),
        trials: 8 - n,
    };
    let fork = |copied, enqueued, reasons| {
        Event::StudyForked(Fork {
            by: "--fork".to_owned(),
            from: vec!["criteria@2".to_owned(), "criteria".to_owned()],
            differences: vec!["study.seed: the study has 0, asked for 1".to_owned()],
            carried: Carried {
                copied,
                enqueued,
                waiting: enqueued,
                left_out: (0..reasons).map(left).collect(),
                waiting_left_out: (0..enqueued).map(left).collect(),
                without_result: enqueued,
            },
        })
    };
    let text = render(Mode::Lines, &[fork(1, 0, 7)]);
    assert_eq!(
        text,
        "22:13:20Z study criteria made from criteria@2, criteria (--fork)\n\
        \x20 study.seed: the study has 0, asked for 1\n\
        \x20 1 trial that fits is copied with its result\n\
        \x20 35 trials left out:\n\
        \x20   8 for p0: outside 1..2\n    7 for p1: outside 1..2\n\
        \x20   6 for p2: outside 1..2\n    5 for p3: outside 1..2\n\
        \x20   4 for p4: outside 1..2\n    2 other reasons\n"
    );
    let text = render(Mode::Lines, &[fork(0, 2, 0)]);
    assert!(
        text.contains("not comparable: the best 2 points that fit are tried again\n"),
        "{text}"
    );
    assert!(
        text.contains("left behind, without a usable result: 2 trials"),
        "{text}"
    );
    assert!(
        text.contains(
            "  2 points that waited wait here\n  15 points that waited do not fit:\n\
             \x20   8 for p0: outside 1..2\n    7 for p1: outside 1..2\n"
        ),
        "{text}"
    );
    let text = render(Mode::Lines, &[fork(0, 0, 0)]);
    assert!(text.contains("no trial fits"), "{text}");
    assert!(!text.contains("waited"), "{text}");
}
