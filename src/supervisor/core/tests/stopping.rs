//! The wish to stop: what runs may come to its end; and trials that run for too long.

#![allow(clippy::wildcard_enum_match_arm)]

use super::late::training;
use super::world::Life;
use super::*;
use fault::ProgramEnd;
use std::collections::VecDeque;
use store::StopAsked;

/// A world in which at least so many trials are running, and what is known of trials by then.
fn busy(spec: StudySpec, running: usize) -> World {
    let mut world = World::new(spec, Disk::default(), 3, 0.0);
    let ended = |world: &World| world.core.counts().finished();
    while world.core.slots.iter().filter(|s| s.is_busy()).count() < running || ended(&world) == 0 {
        let most = world.events + 2;
        world.run(most);
        assert!(world.finished.is_none());
    }
    world
}

fn states(world: &World) -> Vec<TrialState> {
    world.disk.trials.values().map(|t| t.state).collect()
}

/// Outcomes of all attempts.
fn words(world: &World) -> Vec<&str> {
    let attempts = world.disk.attempts.values().flatten();
    attempts.map(|a| a.as_deref().unwrap_or("open")).collect()
}

#[test]
fn the_first_signal_lets_running_trials_end_and_starts_nothing() {
    let mut world = busy(spec(30, 3), 2);
    world.stop_asked = true;
    world.event(STOP);
    world.run(10_000);
    assert_eq!(world.finished, Some(Exit::Stopped));
    assert_eq!(world.spawns_after_stop, 0);
    assert!(
        !states(&world).contains(&TrialState::Running) || words(&world).contains(&"interrupted")
    );
    let completed = words(&world).iter().filter(|w| **w == "completed").count();
    assert!(completed >= 3, "{:?}", words(&world));
}

#[test]
fn the_second_signal_and_a_grace_of_none_put_running_trials_back() {
    let mut twice = busy(spec(30, 3), 2);
    twice.event(STOP);
    twice.event(STOP);
    twice.run(10_000);
    let mut spec = spec(30, 3);
    spec.operation.grace = Some(Now::ZERO);
    let mut at_once = busy(spec, 2);
    at_once.event(STOP);
    at_once.run(10_000);
    for world in [twice, at_once] {
        assert_eq!(world.finished, Some(Exit::Stopped));
        let running = states(&world)
            .iter()
            .filter(|s| **s == TrialState::Running)
            .count();
        assert!(running >= 2, "{:?}", states(&world));
        assert!(words(&world).contains(&"interrupted"));
    }
}

#[test]
fn a_run_whose_last_trials_end_while_it_winds_down_has_reached_its_goal() {
    let mut spec = spec(2, 1);
    spec.operation.grace = Some(Duration::from_secs(3600));
    let mut world = busy(spec, 1);
    world.event(STOP);
    world.run(10_000);
    assert_eq!(states(&world), [TrialState::Complete; 2]);
    assert_eq!(world.finished, Some(Exit::Done));
}

#[test]
fn a_trial_that_takes_longer_than_the_budget_comes_to_its_end() {
    let (mut core, worker, attempt) = training();
    core.spec.operation.timeout = Some(Duration::from_secs(10));
    let late = core.handle(Event::Ticked, Duration::from_secs(11));
    let told = late.iter().find_map(|action| match action {
        Action::Report(report::Event::StopRequested(stop)) => Some(stop.clone()),
        _ => None,
    });
    let told = told.unwrap();
    assert_eq!(told.waits_for, [Job::trial(0)]);
    assert_eq!((told.expected_s, told.most_s), (None, 600.0));
    let terminate = Action::Worker(worker, WorkerAction::Terminate);
    assert!(!late.contains(&terminate), "{late:?}");
    core.handle(
        received(worker, epoch(attempt, 1, 0.5)),
        Duration::from_secs(20),
    );
    let ended = core.handle(
        received(worker, completed(attempt)),
        Duration::from_secs(30),
    );
    let exit = Action::Worker(worker, WorkerAction::Send(ToWorker::Exit));
    assert!(ended.contains(&exit), "{ended:?}");
}

#[test]
fn a_program_is_put_back_after_a_step_only_where_it_was_seen_to_keep_its_state() {
    let (mut core, worker, attempt) = training();
    core.spec.kind = "command".into();
    core.spec.operation.supervisor.checkpoint = true;
    core.handle(STOP, Duration::from_secs(1));
    let told = |event| FromWorker::Attempt(attempt, event);
    let terminate = Action::Worker(worker, WorkerAction::Terminate);
    let mut step = |number: u32, before: Option<AttemptEvent>| {
        let at = Duration::from_secs(10 * u64::from(number));
        if let Some(before) = before {
            core.handle(received(worker, told(before)), at);
        }
        core.handle(received(worker, epoch(attempt, number, 0.5)), at);
        let lives = received(worker, told(AttemptEvent::Stepped(1)));
        core.handle(lives, at).contains(&terminate)
    };
    assert!(!step(1, None), "all that it has done would be lost");
    assert!(step(2, Some(AttemptEvent::KeepsState)));
}

#[test]
fn a_training_is_waited_for_where_that_was_asked_for_and_nobody_knows_how_long_it_takes() {
    let (mut core, worker, attempt) = training();
    core.spec.kind = "text-classification".into();
    core.spec.operation.supervisor.checkpoint = true;
    core.spec.operation.grace = Some(Duration::from_secs(60));
    core.handle(STOP, Duration::from_secs(1));
    core.handle(
        received(worker, epoch(attempt, 1, 0.5)),
        Duration::from_secs(10),
    );
    let lives = FromWorker::Attempt(attempt, AttemptEvent::Stepped(1));
    let lives = core.handle(received(worker, lives), Duration::from_secs(11));
    let terminate = Action::Worker(worker, WorkerAction::Terminate);
    assert!(!lives.contains(&terminate), "{lives:?}");
}

#[test]
fn what_has_not_ended_in_time_is_put_back() {
    let (mut core, worker, _) = training();
    core.handle(STOP, Duration::from_secs(1));
    core.spec.operation.supervisor.deadline = config::Deadline::Off;
    let terminate = Action::Worker(worker, WorkerAction::Terminate);
    let at = |core: &mut Driven, s| core.handle(Event::Ticked, Duration::from_secs(s));
    assert!(!at(&mut core, 600).contains(&terminate));
    assert_eq!(core.next_deadline(), Some(Duration::from_secs(601)));
    assert!(at(&mut core, 601).contains(&terminate));
}

#[test]
fn a_trial_that_is_cut_short_again_is_told_of() {
    let (mut core, worker, attempt) = training();
    core.active
        .get_mut(&attempt.job())
        .unwrap()
        .tally
        .interrupted = 1;
    core.handle(STOP, Now::ZERO);
    core.handle(STOP, Now::ZERO);
    let actions = core.handle(exited(worker, Death::Signaled(15)), Now::ZERO);
    let told = actions.iter().any(|action| match action {
        Action::Report(report::Event::Warned { message }) => {
            message.contains("trial 0 was cut short again, 2 times by now")
        }
        _ => false,
    });
    assert!(told, "{actions:?}");
}

#[test]
fn a_trial_beyond_its_limit_is_pruned_with_its_last_value_and_costs_no_slot() {
    let mut spec = spec(20, 1);
    spec.operation.trial_limit = Some(Duration::from_secs(60));
    spec.operation.supervisor.deadline = config::Deadline::Off;
    let mut world = World::new(spec, Disk::default(), 1, 0.0);
    while world.finished.is_none() {
        assert!(world.events < 20_000, "{:?}", world.disk.attempts);
        world.run(world.events + 2);
        let stuck = world.workers.iter().find_map(|(worker, life)| match life {
            Life::Training(trial, 1) if trial.number > 0 => Some(*worker),
            _ => None,
        });
        if let Some(worker) = stuck {
            world.workers.insert(worker, Life::Hung);
        }
    }
    assert_eq!(world.finished, Some(Exit::Done));
    assert!(world.core.slots[0].closed.is_none());
    for trial in world.disk.trials.values().skip(1) {
        assert_eq!(trial.state, TrialState::Pruned);
        assert_eq!(trial.user_attrs["time_limit"], true);
        assert_eq!(
            world.disk.attempts[&trial.number],
            [Some("time_limit".to_owned())]
        );
    }
}

#[test]
fn a_step_that_comes_after_the_limit_is_answered_so_that_its_worker_hears_of_the_end() {
    let (mut core, worker, attempt) = training();
    core.spec.operation.trial_limit = Some(Duration::from_secs(60));
    let late = core.handle(Event::Ticked, Duration::from_secs(61));
    let terminate = Action::Worker(worker, WorkerAction::Terminate);
    assert!(late.contains(&terminate), "{late:?}");
    let step = received(worker, epoch(attempt, 7, 0.5));
    let answered = core.handle(step, Duration::from_secs(61));
    let decided = ToWorker::Decided { prune: true };
    let decided = Action::Worker(worker, WorkerAction::Send(decided));
    assert!(answered.contains(&decided), "{answered:?}");
    assert!(core.active[&attempt.job()].epochs.is_empty());
    let ended = core.handle(exited(worker, Death::Signaled(15)), Duration::from_secs(62));
    let pruned = ended.iter().any(|action| match action {
        Action::Report(report::Event::Fault(fault)) => fault.fault == "time_limit",
        _ => false,
    });
    assert!(pruned, "{ended:?}");
}

#[test]
fn a_program_that_crashes_costs_its_slot_nothing() {
    let mut world = programs(15, 1);
    fail_all(&mut world, |number| number > 0, Death::Signaled(11), "");
    assert_eq!(world.finished, Some(Exit::Done));
    assert!(world.core.slots[0].closed.is_none());
    for trial in world.disk.trials.values().skip(1) {
        assert_eq!(trial.user_attrs["fault"], "crash");
        assert!(!trial.user_attrs.contains_key("cuda_error"), "on the CPU");
    }
}

#[test]
fn a_request_to_put_back_now_never_kills_however_the_run_is_at_it() {
    let now = || Event::StopRequested { now: true };
    let terminate = Action::Worker(0, WorkerAction::Terminate);
    let kill = Action::Worker(0, WorkerAction::Kill);
    // While it runs.
    let (mut core, ..) = training();
    let first = core.handle(now(), Now::ZERO);
    assert!(first.contains(&terminate), "{first:?}");
    assert!(!core.handle(now(), Now::ZERO).contains(&kill));
    assert!(core.handle(STOP, Now::ZERO).contains(&kill));
    // While it winds down at the end of its time budget.
    let (mut core, ..) = training();
    core.spec.operation.timeout = Some(Duration::from_secs(10));
    let late = core.handle(Event::Ticked, Duration::from_secs(11));
    assert!(!late.contains(&terminate), "{late:?}");
    let asked = core.handle(now(), Duration::from_secs(12));
    assert!(
        asked.contains(&terminate) && !asked.contains(&kill),
        "{asked:?}"
    );
    // While it puts them back by itself.
    let (mut core, ..) = training();
    core.spec.operation.timeout = Some(Duration::from_secs(10));
    core.spec.operation.grace = Some(Now::ZERO);
    let late = core.handle(Event::Ticked, Duration::from_secs(11));
    assert!(late.contains(&terminate), "{late:?}");
    let asked = core.handle(now(), Duration::from_secs(11));
    assert!(!asked.contains(&kill), "{asked:?}");
}

#[test]
fn a_request_from_another_node_is_no_step_further() {
    let soon = || Event::StopAsked(StopAsked::Soon);
    let now = || Event::StopAsked(StopAsked::Now);
    let terminate = Action::Worker(0, WorkerAction::Terminate);
    let kill = Action::Worker(0, WorkerAction::Kill);
    // A signal has asked before: its trial is waited for, however often others ask.
    let (mut core, ..) = training();
    core.handle(STOP, Now::ZERO);
    for _ in 0..3 {
        let asked = core.handle(soon(), Now::ZERO);
        assert!(!asked.contains(&terminate), "{asked:?}");
    }
    assert!(core.handle(now(), Now::ZERO).contains(&terminate));
    for event in [soon(), now()] {
        let asked = core.handle(event, Now::ZERO);
        assert!(!asked.contains(&kill), "{asked:?}");
    }
    // Nobody has.
    let (mut core, ..) = training();
    let asked = core.handle(soon(), Now::ZERO);
    assert!(!asked.contains(&terminate), "{asked:?}");
    let asked = core.handle(STOP, Now::ZERO);
    assert!(asked.contains(&terminate), "{asked:?}");
    let (mut core, ..) = training();
    assert!(core.handle(now(), Now::ZERO).contains(&terminate));
}

#[test]
fn a_run_that_another_node_has_asked_to_stop_ends_as_by_a_signal_and_says_who_asked() {
    let mut world = busy(spec(30, 3), 2);
    world.stop_asked = true;
    world.event(Event::StopAsked(StopAsked::Soon));
    world.run(10_000);
    assert_eq!(world.finished, Some(Exit::Stopped));
    assert_eq!(world.spawns_after_stop, 0);
    let (mut core, ..) = training();
    let asked = core.handle(Event::StopAsked(StopAsked::Soon), Now::ZERO);
    let told = asked.iter().find_map(|action| match action {
        Action::Report(report::Event::StopRequested(stop)) => Some(stop.reason.clone()),
        _ => None,
    });
    let told = told.unwrap();
    assert!(told.contains("tune stop --all"), "{told}");
}

/// The next signal is the second one only where there was a first.
#[test]
fn the_end_of_the_time_budget_is_no_signal() {
    let by_signal = |event: Event, at: u64| {
        let (mut core, ..) = training();
        core.spec.operation.timeout = Some(Duration::from_secs(10));
        let actions = core.handle(event, Duration::from_secs(at));
        actions.iter().find_map(|action| match action {
            Action::Report(report::Event::StopRequested(stop)) => Some(stop.by_signal),
            _ => None,
        })
    };
    assert_eq!(by_signal(Event::Ticked, 11), Some(false));
    assert_eq!(by_signal(STOP, 1), Some(true));
    let elsewhere = Event::StopAsked(StopAsked::Soon);
    assert_eq!(by_signal(elsewhere, 1), Some(false));
}

#[test]
fn a_run_that_was_asked_to_stop_does_not_go_on_where_others_take_trials_away() {
    let (mut core, worker, attempt) = training();
    core.spec.operation.trials = 1;
    let mut events = VecDeque::from([
        STOP,
        received(worker, epoch(attempt, 1, 0.5)),
        received(worker, completed(attempt)),
        exited(worker, Death::Exited(0)),
        Event::Ticked,
        Event::Ticked,
        Event::Ticked,
    ]);
    let mut ends = Vec::new();
    while let Some(event) = events.pop_front() {
        for action in core.handle(event, Now::ZERO) {
            match action {
                Action::Write { batch, writes } => {
                    let end = writes.iter().find_map(|write| match write {
                        Write::RunEnded { exit } => Some(*exit),
                        _ => None,
                    });
                    // Ahead of what has not come yet: the last look at the study, then the answer.
                    events.push_front(written(batch));
                    if end == Some(0) {
                        let gone = vec![0];
                        let trials = vec![];
                        events.push_front(Event::StudyChanged(store::Changes {
                            gone,
                            trials,
                            ..store::Changes::default()
                        }));
                    }
                    ends.extend(end);
                }
                Action::Worker(_, WorkerAction::Spawn(_)) => panic!("the run goes on"),
                Action::Finish { exit, .. } => ends.push(exit.code()),
                _ => {}
            }
        }
    }
    assert_eq!(ends, [0, 4, 4], "two records, and the exit");
}

#[test]
fn a_program_that_changes_ends_the_run_before_it_trains_a_trial() {
    let changed = |files: &[&str]| Event::FilesChanged {
        files: files.iter().map(|&file| file.to_owned()).collect(),
    };
    let mut world = busy(spec(30, 3), 2);
    world.stop_asked = true;
    world.event(changed(&["train.py", "net.py"]));
    world.run(10_000);
    assert_eq!(world.finished, Some(Exit::Differs));
    assert_eq!(world.spawns_after_stop, 0);
    assert!(world.disk.trials.len() < 30);
    // What runs was started with the old program, and comes to its end.
    assert!(states(&world).contains(&TrialState::Complete));
}

/// Ends the world's trainings of these trials as a program does that says so much, until the run has ended.
fn fail_all(world: &mut World, fails: impl Fn(u64) -> bool, death: Death, output: &str) {
    fail_all_after(0, world, fails, death, output);
}

/// The same after so many steps of each.
fn fail_all_after(
    steps: u32,
    world: &mut World,
    fails: impl Fn(u64) -> bool,
    death: Death,
    output: &str,
) {
    world.event(Event::Ticked);
    while world.finished.is_none() {
        assert!(world.events < 20_000, "{:?}", world.disk.attempts);
        let training = world.workers.iter().find_map(|(worker, life)| match life {
            Life::Training(trial, at) if *at == steps && fails(trial.number) => {
                Some((*worker, trial.clone()))
            }
            _ => None,
        });
        let Some((worker, trial)) = training else {
            world.step();
            continue;
        };
        let mut error = setup::error(fault::Phase::Training, &fault::describe_program(death));
        error.healthy = None;
        error.program = Some(ProgramEnd {
            death,
            stopped: false,
            oom_kills: 0,
            output: output.into(),
        });
        let attempt = AttemptId {
            number: trial.number,
            purpose: Purpose::Search,
            attempt: trial.attempt,
        };
        world.workers.insert(worker, Life::Idle);
        let message = FromWorker::Attempt(attempt, AttemptEvent::Failed(error));
        world.event(received(worker, message));
    }
}

fn programs(trials: u64, slots: usize) -> World {
    let mut spec = spec(trials, slots);
    spec.kind = "command".into();
    World::new(spec, Disk::default(), 1, 0.0)
}

#[test]
fn programs_of_which_none_works_end_the_run_whatever_they_die_of() {
    let oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
    for (death, output, fault) in [
        (Death::Exited(1), oom, "oom"),
        (Death::Signaled(9), "", "killed"),
        (Death::Signaled(11), "", "crash"),
        (Death::Exited(1), "no", "task_error"),
    ] {
        let mut world = programs(30, 1);
        fail_all(&mut world, |_| true, death, output);
        assert_eq!(world.finished, Some(Exit::Breaker), "{fault}");
        let faults = world.disk.trials.values().map(|t| &t.user_attrs["fault"]);
        assert_eq!(faults.collect::<Vec<_>>(), [fault; 3]);
    }
}

#[test]
fn steps_of_trials_that_fail_alike_at_their_end_do_not_show_that_something_works() {
    let mut world = programs(30, 1);
    fail_all_after(3, &mut world, |_| true, Death::Exited(1), "no");
    assert_eq!(world.finished, Some(Exit::Breaker));
    assert_eq!(states(&world), [TrialState::Fail; 3]);
}

#[test]
fn a_trial_that_still_runs_may_show_that_something_works() {
    let mut world = programs(12, 4);
    fail_all(
        &mut world,
        |number| (1..4).contains(&number),
        Death::Exited(1),
        "no",
    );
    assert_eq!(world.finished, Some(Exit::Done));
    assert_eq!(world.disk.trials[&0].state, TrialState::Complete);
    assert_eq!(states(&world).len(), 15, "three do not count");
}
