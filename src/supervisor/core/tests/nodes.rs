//! Other nodes on the same study.

#![allow(clippy::wildcard_enum_match_arm)]

use super::late::training;
use super::setup::error;
use super::*;
use crate::BatchEvent;
use fault::Phase;
use search::sampler::RandomSampler;
use store::{Changes, OtherNodes, Reclaimable};

/// A core of one slot that shares its study, whose goal is 3 trials, and that knows of these.
fn sharing(trials: Vec<FrozenTrial>, nodes: OtherNodes) -> Driven {
    sharing_with((3, 1), trials, nodes)
}

/// The same with another goal and more slots.
fn sharing_with(
    (goal, slots): (u64, usize),
    trials: Vec<FrozenTrial>,
    nodes: OtherNodes,
) -> Driven {
    let start = Start {
        node: Some(7),
        nodes: Some(nodes),
        trials,
        ..start(spec(goal, slots), vec![Device::Cpu; slots])
    };
    Driven::new(start, RandomSampler)
}

fn running(number: u64) -> FrozenTrial {
    let x = Params::from([("x".to_owned(), 0.25.into())]);
    FrozenTrial::new(number, TrialState::Running, x)
}

fn ended(number: u64) -> FrozenTrial {
    let mut trial = running(number);
    trial.state = TrialState::Complete;
    trial.values = vec![0.5];
    trial
}

fn elsewhere(numbers: &[u64]) -> OtherNodes {
    OtherNodes {
        running: numbers.iter().map(|n| Job::trial(*n)).collect(),
        ..OtherNodes::default()
    }
}

fn changed(changes: Changes) -> Event {
    Event::StudyChanged(changes)
}

/// A new trial got this number in the place of the one that it asked for.
fn renumbered(asked: u64, given: u64) -> BatchEvent {
    BatchEvent::Overtaken {
        late: Vec::new(),
        renumbered: [(asked, given)].into(),
        changes: Changes::default(),
    }
}

/// The starts among what is written.
fn starts(actions: &[Action]) -> Vec<&Write> {
    let writes = actions.iter().filter_map(|action| match action {
        Action::Write { writes, .. } => Some(writes),
        _ => None,
    });
    let all = writes.flatten();
    all.filter(|w| w.trial_started().is_some() || w.attempt_started().is_some())
        .collect()
}

/// The worker of the only slot gets ready.
fn ready(core: &mut Driven) -> Vec<Action> {
    let mut actions = core.handle(Event::Ticked, Now::ZERO);
    actions.extend(core.handle(Event::Worker(0, WorkerEvent::Spawned(9)), Now::ZERO));
    for message in [hello(), FromWorker::Ready] {
        actions.extend(core.handle(received(0, message), Now::ZERO));
    }
    actions
}

#[test]
fn what_others_run_counts_towards_the_goal_and_is_waited_for() {
    let trials = vec![ended(0), running(1), running(2)];
    let mut core = sharing(trials, elsewhere(&[1, 2]));
    let actions = ready(&mut core);
    assert!(starts(&actions).is_empty(), "{actions:?}");
    assert!(!core.done(), "others may not come to their end");
    let done = Changes {
        trials: vec![ended(1), ended(2)],
        nodes: Some(OtherNodes::default()),
        ..Changes::default()
    };
    core.handle(changed(done), Now::ZERO);
    assert!(core.done());
}

#[test]
fn what_a_lost_node_leaves_is_taken_over_with_its_next_attempt() {
    let left = Reclaimable {
        number: 1,
        attempts: Vec::new(),
    };
    let nodes = OtherNodes {
        left: vec![(running(1), left)],
        ..elsewhere(&[2])
    };
    let trials = vec![ended(0), running(1), running(2)];
    let mut core = sharing(trials, nodes);
    let actions = ready(&mut core);
    let [
        Write::TrialReclaimed {
            number: 1,
            attempt: 0,
        },
        Write::AttemptStarted { id, .. },
    ] = starts(&actions)[..]
    else {
        panic!("{actions:?}");
    };
    assert_eq!(*id, Job::trial(1).attempt(0));
    // Another one was faster: the trial stays what it was, and runs there.
    let mut refused = Vec::new();
    for (batch, writes) in batches(&actions) {
        let taken = Changes {
            nodes: Some(elsewhere(&[1, 2])),
            ..Changes::default()
        };
        let event = BatchEvent::Overtaken {
            late: writes.clone(),
            renumbered: BTreeMap::new(),
            changes: taken,
        };
        refused.extend(core.handle(Event::Batch(batch, event), Now::ZERO));
    }
    assert!(starts(&refused).is_empty(), "{refused:?}");
    assert!(core.active.is_empty());
    assert_eq!(core.progress.next_number(), 3);
}

#[test]
fn a_look_from_before_a_take_over_does_not_make_it_be_taken_over_twice() {
    let left = || OtherNodes {
        left: vec![(
            running(1),
            Reclaimable {
                number: 1,
                attempts: Vec::new(),
            },
        )],
        ..elsewhere(&[2])
    };
    let mut core = sharing_with((3, 2), vec![ended(0), running(1), running(2)], left());
    let begun = ready(&mut core);
    assert_eq!(starts(&begun).len(), 2, "taken over, and begun");
    let look = Changes {
        nodes: Some(left()),
        ..Changes::default()
    };
    let actions = core.handle(changed(look), Now::ZERO);
    assert!(starts(&actions).is_empty(), "{actions:?}");
    assert!(core.active.contains_key(&Job::trial(1)));
    let (batch, _) = batches(&begun)[0];
    core.handle(Event::Batch(batch, BatchEvent::Written), Now::ZERO);
    assert_eq!(core.nodes.trials(), 1, "what runs elsewhere");
}

#[test]
fn a_trial_that_another_node_has_taken_ends_here_and_its_files_stay() {
    let (mut core, worker, attempt) = training();
    core.spec.operation.supervisor.checkpoint = true;
    let number = attempt.number;
    let taken = Changes {
        lost: vec![number],
        trials: vec![running(number)],
        nodes: Some(elsewhere(&[number])),
        ..Changes::default()
    };
    let actions = core.handle(changed(taken), Now::ZERO);
    assert!(actions.contains(&Action::Worker(worker, WorkerAction::Kill)));
    assert!(
        !actions.contains(&Action::Forget(attempt.job())),
        "a checkpoint is the other's"
    );
    assert!(!core.active.contains_key(&attempt.job()));
    assert_eq!(core.history.get(number).unwrap().state, TrialState::Running);
}

#[test]
fn files_of_a_trial_go_that_another_program_has_ended_just_before() {
    for (theirs, goes) in [(ended as fn(u64) -> FrozenTrial, true), (running, false)] {
        let mut core = sharing(Vec::new(), OtherNodes::default());
        core.spec.operation.supervisor.checkpoint = true;
        let begun = ready(&mut core);
        core.handle(written(batches(&begun)[0].0), Now::ZERO);
        let attempt = core.slots[0].attempt().unwrap();
        core.handle(received(0, epoch(attempt, 1, 0.25)), Now::ZERO);
        let actions = core.handle(received(0, completed(attempt)), Now::ZERO);
        let (batch, writes) = batches(&actions)[0];
        let event = BatchEvent::Overtaken {
            late: writes
                .iter()
                .filter(|w| w.job_ended().is_some())
                .cloned()
                .collect(),
            renumbered: BTreeMap::new(),
            changes: Changes {
                trials: vec![theirs(attempt.number)],
                ..Changes::default()
            },
        };
        let actions = core.handle(Event::Batch(batch, event), Now::ZERO);
        let forgotten = actions.contains(&Action::Forget(attempt.job()));
        assert_eq!(forgotten, goes, "{actions:?}");
    }
}

#[test]
fn failures_and_successes_of_other_nodes_count_for_the_breaker_though_nobody_saw_them_run() {
    let mut core = sharing_with((50, 1), Vec::new(), OtherNodes::default());
    ready(&mut core);
    let failed = |number| {
        let mut trial = running(number);
        trial.state = TrialState::Fail;
        trial.user_attrs =
            serde_json::from_str(r#"{"fault": "task_error", "error_msg": "no such file"}"#)
                .unwrap();
        trial
    };
    let found = |trials| {
        changed(Changes {
            trials,
            ..Changes::default()
        })
    };
    core.handle(found(vec![failed(5), failed(6)]), Now::ZERO);
    assert_eq!(core.progress.failures_in_row(), 2);
    core.handle(found(vec![ended(7)]), Now::ZERO);
    assert_eq!(core.progress.failures_in_row(), 0);
    core.handle(found((8..28).map(failed).collect()), Now::ZERO);
    let Mode::Stopping { exit, reason } = &core.mode else {
        panic!("{:?}", core.mode);
    };
    assert_eq!(*exit, Exit::Breaker);
    assert!(
        reason.contains("task_error: no such file"),
        "the last of them: {reason}"
    );
}

#[test]
fn a_failed_trial_is_not_replaced_before_its_end_is_durable_for_another_node_may_have_it() {
    let (mut core, worker, attempt) = training();
    core.nodes.own = Some(7);
    core.spec.operation.trials = 1;
    let failed = AttemptEvent::Failed(error(Phase::Training, "index out of range"));
    let failed = received(worker, FromWorker::Attempt(attempt, failed));
    let actions = core.handle(failed, Now::ZERO);
    assert_eq!(core.counts().fail, 1);
    assert!(starts(&actions).is_empty(), "{actions:?}");
    let (batch, _) = batches(&actions)[0];
    let durable = Event::Batch(batch, BatchEvent::Written);
    let actions = core.handle(durable, Now::ZERO);
    assert_eq!(starts(&actions).len(), 2, "a trial and its attempt");
}

#[test]
fn a_point_that_another_node_has_tried_since_is_not_tried_again() {
    let mut core = sharing(Vec::new(), OtherNodes::default());
    let actions = ready(&mut core);
    let [Write::TrialCreated { params, .. }, ..] = starts(&actions)[..] else {
        panic!("{actions:?}");
    };
    let theirs = FrozenTrial::new(0, TrialState::Running, params.clone());
    let (batch, writes) = batches(&actions)[0];
    let event = BatchEvent::Overtaken {
        late: writes.clone(),
        renumbered: BTreeMap::new(),
        changes: Changes {
            trials: vec![theirs],
            nodes: Some(elsewhere(&[0])),
            ..Changes::default()
        },
    };
    let actions = core.handle(Event::Batch(batch, event), Now::ZERO);
    let [
        Write::TrialCreated {
            number,
            params: second,
            ..
        },
        ..,
    ] = starts(&actions)[..]
    else {
        panic!("{actions:?}");
    };
    assert_eq!(*number, 1);
    assert_ne!(second, params);
}

#[test]
fn a_proposal_on_its_way_that_another_node_has_tried_meanwhile_is_made_again() {
    let mut core = sharing(vec![running(0)], elsewhere(&[0]));
    core.handle(Event::Ticked, Now::ZERO);
    core.handle(Event::Worker(0, WorkerEvent::Spawned(9)), Now::ZERO);
    core.handle(received(0, hello()), Now::ZERO);
    // What was proposed at the beginning is of no use any more.
    let mut reported = running(0);
    reported.intermediate.insert(1, 0.5);
    let report = Changes {
        trials: vec![reported],
        ..Changes::default()
    };
    core.handle(changed(report), Now::ZERO);
    let asked = core.one(received(0, FromWorker::Ready), Now::ZERO);
    let question = asked.into_iter().find_map(|action| match action {
        Action::Propose { number, news, seed } => Some((number, news, seed)),
        _ => None,
    });
    let (number, news, seed) = question.unwrap();
    assert_eq!(number, 1);
    let answer = core.answer(1, news, seed);
    let Event::Proposed {
        proposal: Some(proposal),
        ..
    } = &answer
    else {
        panic!("{answer:?}");
    };
    // Their trial 1 is at the very point, and is heard of before the answer.
    let point = proposal.params.clone();
    let theirs = FrozenTrial::new(1, TrialState::Running, point.clone());
    let news = Changes {
        trials: vec![theirs],
        nodes: Some(elsewhere(&[0, 1])),
        ..Changes::default()
    };
    core.one(changed(news), Now::ZERO);
    let actions = core.handle(answer, Now::ZERO);
    let [
        Write::TrialCreated {
            number: 2, params, ..
        },
        ..,
    ] = starts(&actions)[..]
    else {
        panic!("{actions:?}");
    };
    assert_ne!(*params, point);
}

#[test]
fn a_trial_whose_number_another_node_was_faster_to_take_runs_under_the_next_one() {
    let mut core = sharing(Vec::new(), OtherNodes::default());
    let actions = ready(&mut core);
    let (batch, writes) = batches(&actions)[0];
    let point = writes.iter().find_map(|w| match w {
        Write::TrialCreated {
            number: 0, params, ..
        } => Some(params.clone()),
        _ => None,
    });
    // What is known of the trial before its number is: its worker dies.
    let died = core.handle(exited(0, Death::Signaled(9)), Now::ZERO);
    let of_it = |w: &Write| w.number() == Some(0);
    assert!(
        !batches(&died).iter().any(|(_, ws)| ws.iter().any(of_it)),
        "{died:?}"
    );
    let given = renumbered(0, 4);
    let actions = core.handle(Event::Batch(batch, given), Now::ZERO);
    let sent = batches(&actions);
    let ended = Job::trial(4).attempt(0);
    let ends = |w: &&Write| matches!(w, Write::AttemptEnded { id, .. } if *id == ended);
    assert_eq!(
        sent.iter().flat_map(|(_, ws)| *ws).filter(ends).count(),
        1,
        "{sent:?}"
    );
    assert_eq!(core.progress.next_number(), 5);
    let entry = core.history.get(4).unwrap();
    assert_eq!(Some(&entry.params), point.as_ref());
    assert!(core.history.get(0).is_none());
    assert_eq!(core.active.keys().collect::<Vec<_>>(), [&Job::trial(4)]);
}

#[test]
fn what_others_were_faster_with_counts_towards_the_goal_before_it_is_seen() {
    let mut core = sharing(Vec::new(), OtherNodes::default());
    let actions = ready(&mut core);
    let (batch, _) = batches(&actions)[0];
    let given = renumbered(0, 2);
    core.handle(Event::Batch(batch, given), Now::ZERO);
    assert_eq!(
        core.new_trials_wanted(),
        0,
        "its own, and two that it has not seen"
    );
    let mut failed = running(1);
    failed.state = TrialState::Fail;
    let seen = Changes {
        trials: vec![ended(0), failed],
        ..Changes::default()
    };
    core.handle(changed(seen), Now::ZERO);
    assert_eq!(core.new_trials_wanted(), 1, "one has failed");
}

#[test]
fn a_point_that_was_proposed_without_knowing_of_trials_says_so() {
    let mut core = sharing_with((9, 2), Vec::new(), OtherNodes::default());
    let actions = ready(&mut core);
    let (batch, _) = batches(&actions)[0];
    let given = renumbered(0, 2);
    core.handle(Event::Batch(batch, given), Now::ZERO);
    core.handle(Event::Worker(1, WorkerEvent::Spawned(10)), Now::ZERO);
    core.handle(received(1, hello()), Now::ZERO);
    let actions = core.handle(received(1, FromWorker::Ready), Now::ZERO);
    let [Write::TrialCreated { number, since, .. }, ..] = starts(&actions)[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(
        (*number, *since),
        (3, 0),
        "of trials 0 and 1 nothing is known"
    );
    // They are found.
    let (batch, _) = batches(&actions)[0];
    core.handle(Event::Batch(batch, BatchEvent::Written), Now::ZERO);
    assert_eq!(core.nodes.first_unknown(4), 0);
    let seen = Changes {
        trials: vec![running(0), running(1)],
        nodes: Some(elsewhere(&[0, 1])),
        ..Changes::default()
    };
    core.handle(changed(seen), Now::ZERO);
    assert_eq!(core.nodes.first_unknown(4), 4);
}

/// The batches that are to be written.
fn batches<'a>(actions: &'a [Action]) -> Vec<(u64, &'a Vec<Write>)> {
    let batch = |action: &'a Action| match action {
        Action::Write { batch, writes } => Some((*batch, writes)),
        _ => None,
    };
    actions.iter().filter_map(batch).collect()
}
