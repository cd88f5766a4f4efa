//! Events that are handled long after they have come: nobody is judged by that.

#![allow(clippy::wildcard_enum_match_arm)]

use super::*;
use protocol::AttemptEvent;
use task::Epoch;

/// A core whose one worker trains trial 0 since the start of the run; 100 s without a step are allowed.
pub(super) fn training() -> (Driven, WorkerId, AttemptId) {
    let mut core = core(spec(3, 1), &Disk::default());
    let (worker, now) = (0, Now::ZERO);
    let hello = hello();
    core.handle(Event::Ticked, now);
    core.handle(Event::Worker(worker, WorkerEvent::Spawned(9)), now);
    for message in [hello, FromWorker::Ready] {
        core.handle(received(worker, message), now);
    }
    core.handle(written(0), now);
    let attempt = core.slots[0].attempt().unwrap();
    (core, worker, attempt)
}

fn seconds(seconds: u64) -> Now {
    Now::from_secs(seconds)
}

#[test]
fn a_worker_is_not_silent_whose_step_waited_to_be_handled() {
    let (mut core, worker, attempt) = training();
    let message = FromWorker::Attempt(attempt, AttemptEvent::Stepped(1));
    let stepped = received(worker, message);
    let terminated =
        |actions: &[Action]| actions.contains(&Action::Worker(worker, WorkerAction::Terminate));
    let actions = core.on_event(stepped, seconds(90), seconds(250));
    assert!(!terminated(&actions), "{actions:?}");
    // Nothing else had come by then.
    assert!(!terminated(&core.on_event(
        Event::Ticked,
        seconds(189),
        seconds(251)
    )));
    assert!(terminated(&core.on_event(
        Event::Ticked,
        seconds(191),
        seconds(252)
    )));
}

#[test]
fn an_attempts_time_ends_when_its_result_came_not_when_it_was_handled() {
    let (mut core, worker, attempt) = training();
    let metrics = Metrics::from([("loss".into(), 0.5)]);
    let epoch = FromWorker::Attempt(
        attempt,
        AttemptEvent::EpochFinished(Epoch { epoch: 1, metrics }),
    );
    let ended = completed(attempt);
    for message in [epoch, ended] {
        core.on_event(received(worker, message), seconds(4), seconds(64));
    }
    // It is written together with the start of the next trial.
    let mut actions = core.start_work(seconds(65));
    let Some(Action::Propose { number, news, seed }) = actions.pop() else {
        panic!("{actions:?}");
    };
    let proposed = core.answer(number, news, seed);
    let actions = core.handle(proposed, seconds(66));
    let mut runtime = None;
    for action in &actions {
        let Action::Write { writes, .. } = action else {
            continue;
        };
        for write in writes {
            if let Write::TrialFinished { user_attrs, .. } = write {
                runtime = user_attrs.get("runtime_s");
            }
        }
    }
    assert_eq!(runtime.and_then(|r| r.as_f64()), Some(4.0), "{actions:?}");
}

#[test]
fn what_an_event_asks_for_comes_before_what_is_started_next() {
    let (mut core, worker, attempt) = training();
    let message = epoch(attempt, 1, 0.5);
    let at_once = core.on_event(received(worker, message), seconds(1), seconds(1));
    let answered = |a: &Action| matches!(a, Action::Worker(_, WorkerAction::Send(_)));
    assert!(at_once.iter().any(answered), "{at_once:?}");
    assert!(!core.start_work(seconds(1)).iter().any(answered));
}

#[test]
fn what_was_proposed_for_a_trial_whose_point_was_given_is_not_the_next_ones_point() {
    let start = start(spec(3, 2), vec![Device::Cpu; 2]);
    let mut core = Driven::new(start, search::sampler::RandomSampler);
    core.points = vec![Params::from([("x".to_owned(), 0.25.into())])];
    let asked = core.one(Event::Ticked, Now::ZERO);
    let question = |actions: &[Action]| {
        actions.iter().find_map(|action| match action {
            Action::Propose { number, news, seed } => Some((*number, news.clone(), *seed)),
            _ => None,
        })
    };
    let (number, news, seed) = question(&asked).unwrap();
    assert_eq!(number, 0);
    let answer = core.answer(number, news, seed);
    core.one(answer, Now::ZERO);
    // The first trial begins; the other worker waits for the second, of which nothing was proposed yet.
    let mut actions = Vec::new();
    for worker in 0..2 {
        core.one(Event::Worker(worker, WorkerEvent::Spawned(9)), Now::ZERO);
        core.one(received(worker, hello()), Now::ZERO);
        actions.extend(core.one(received(worker, FromWorker::Ready), Now::ZERO));
    }
    let (number, news, seed) = question(&actions).unwrap();
    assert_eq!(number, 1);
    let answer = core.answer(number, news, seed);
    let Event::Proposed {
        proposal: Some(second),
        ..
    } = answer.clone()
    else {
        panic!("{answer:?}");
    };
    core.one(answer, Now::ZERO);
    let actions = core.one(written(0), Now::ZERO);
    let made = actions.iter().find_map(|action| match action {
        Action::Write { writes, .. } => writes.iter().find_map(|write| match write {
            Write::TrialCreated { number, params, .. } => Some((*number, params.clone())),
            _ => None,
        }),
        _ => None,
    });
    assert_eq!(made, Some((1, second.params)));
}
