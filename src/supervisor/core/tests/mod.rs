//! The core against a simulated world: workers that train, die, hang and babble at random moments.

mod card;
mod disk;
mod driven;
mod foreign;
mod gpu;
mod late;
mod machine;
mod nodes;
mod repeats;
mod search_end;
mod setup;
mod several_nodes;
mod stopping;
mod waiting;
mod world;

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::WorkerEvent;
use config::Standby;
pub(super) use disk::Disk;
pub(super) use driven::Driven;
use driven::Learns;
use fault::Death;
use protocol::{AttemptEvent, FromWorker};
use search::space::Value;
use search::study::Purpose;
pub(super) use setup::{
    STOP, completed, core, epoch, exited, hello, received, spec, start, written,
};
use task::{Epoch, Metrics};
use world::{World, results};

#[test]
fn a_trial_says_which_method_proposed_it_and_a_given_point_says_none() {
    let mut world = World::new(spec(3, 1), Disk::default(), 1, 0.0);
    world.run(10_000);
    let by = |number: u64| world.disk.trials[&number].system_attrs.get("sampler");
    assert_eq!(by(0), None, "the point of the defaults");
    assert_eq!([by(1).unwrap(), by(2).unwrap()], ["random", "random"]);
}

#[test]
fn a_quiet_run_reaches_its_goal_and_the_value_is_the_best_epochs() {
    let mut world = World::new(spec(20, 2), Disk::default(), 1, 0.0);
    world.run(10_000);
    assert_eq!(world.finished, Some(Exit::Done));
    assert_eq!(world.disk.ended, Some(0));
    assert_eq!(world.disk.trials.len(), 20);
    let first = &world.disk.trials[&0];
    assert_eq!(
        first.params["x"],
        Value::Float(0.5),
        "trial 0 is the point of the defaults"
    );
    assert_eq!(first.values, [0.5]);
    assert_eq!(first.user_attrs["best_epoch"], 3);
    assert_eq!(world.disk.memory.len(), 20, "a line an attempt");
    assert_eq!(world.disk.memory[&(Job::trial(0), 0)].outcome, "completed");
}

#[test]
fn a_goal_that_is_reached_already_starts_nothing() {
    let mut world = World::new(spec(3, 1), Disk::default(), 1, 0.0);
    world.run(10_000);
    let mut again = World::new(spec(3, 1), world.disk.clone(), 2, 0.0);
    again.run(10);
    assert_eq!(again.finished, Some(Exit::Done));
    assert_eq!(again.core.next_worker, 0);
}

#[test]
fn a_spare_worker_stays_while_the_next_trial_is_proposed() {
    let mut spec = spec(30, 1);
    spec.operation.standby = Standby::On;
    spec.operation.supervisor.recycle_after = 0;
    let mut world = World::new(spec, Disk::default(), 1, 0.0);
    world.late = true;
    world.run(10_000);
    assert_eq!(world.finished, Some(Exit::Done));
    assert_eq!(world.core.next_worker, 2, "one that trains, and its spare");
}

#[test]
fn a_grid_that_has_been_visited_ends_the_run_whatever_the_goal_and_with_disturbances() {
    for (slots, faults) in [(1, 0.0), (3, 0.0), (3, 0.03), (4, 0.03)] {
        for seed in 0..5 {
            let mut world = World::new(spec(1000, slots), Disk::default(), seed, faults);
            world.late = seed % 2 == 0;
            world.core.search_by(search::sampler::GridSampler::new(9));
            world.run(100_000);
            assert_eq!(
                world.finished,
                Some(Exit::Done),
                "{slots} slots, seed {seed}"
            );
            let mut tried = BTreeMap::new();
            for trial in world.disk.trials.values() {
                let (done, failed): &mut (u32, u32) =
                    tried.entry(trial.params["x"].to_string()).or_default();
                *done += u32::from(trial.state != TrialState::Fail);
                *failed += u32::from(trial.state == TrialState::Fail);
            }
            assert_eq!(tried.len(), 9);
            let once =
                |&(done, failed): &(u32, u32)| done == 1 && failed <= 1 || (done, failed) == (0, 2);
            assert!(tried.values().all(once), "{tried:?}");
        }
    }
}

#[test]
fn a_slot_whose_workers_keep_dying_trips_the_breaker_with_growing_pauses() {
    let mut core = core(spec(3, 1), &Disk::default());
    let mut now = Now::ZERO;
    let mut spawned = Vec::new();
    let mut exit = None;
    let mut event = Event::Ticked;
    for _ in 0..200 {
        let mut next = Event::Ticked;
        for action in core.handle(event, now) {
            match action {
                Action::Worker(worker, WorkerAction::Spawn(_)) => {
                    spawned.push(now);
                    next = exited(worker, Death::Exited(1));
                }
                Action::Write { batch, .. } => next = written(batch),
                Action::Finish { exit: code, .. } => exit = Some(code),
                Action::Worker(_, WorkerAction::Send(_) | WorkerAction::Terminate)
                | Action::Worker(
                    _,
                    WorkerAction::Kill | WorkerAction::Continue | WorkerAction::Abandon,
                )
                | Action::KeepWeights(..)
                | Action::Forget(_)
                | Action::WriteSoon(_)
                | Action::Propose { .. }
                | Action::Report(_) => {}
            }
        }
        event = next;
        now += Duration::from_millis(100);
    }
    assert_eq!(exit, Some(Exit::Breaker));
    assert_eq!(spawned.len(), 6, "more than 5 deaths: {spawned:?}");
    let gaps: Vec<Duration> = spawned.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps[4] > gaps[2], "pauses grow: {gaps:?}");
}

#[test]
fn messages_of_a_stale_attempt_change_nothing() {
    let mut world = World::new(spec(50, 1), Disk::default(), 1, 0.0);
    world.run(12);
    let before = world.core.active.clone();
    let stale = FromWorker::Attempt(
        AttemptId {
            number: 0,
            purpose: Purpose::Search,
            attempt: 9,
        },
        AttemptEvent::EpochFinished(Epoch {
            epoch: 1,
            metrics: Metrics::from([("loss".into(), -100.0)]),
        }),
    );
    let worker = *world.workers.keys().next().unwrap();
    let actions = world.core.handle(received(worker, stale), world.now);
    assert!(actions.is_empty(), "{actions:?}");
    assert_eq!(before.len(), world.core.active.len());
}

#[test]
fn a_second_stop_kills_at_once() {
    let mut core = core(spec(5, 1), &Disk::default());
    core.handle(Event::Ticked, Now::ZERO);
    let first = core.handle(STOP, Now::ZERO);
    assert_eq!(first, [Action::Worker(0, WorkerAction::Terminate)]);
    let second = core.handle(STOP, Now::ZERO);
    assert_eq!(second, [Action::Worker(0, WorkerAction::Kill)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn whatever_workers_do_every_trial_ends_once(
        seed in 0u64..u64::MAX, slots in 1usize..5, faults in 0.01..0.15, checkpoint: bool, spare: bool,
    ) {
        let mut spec = spec(30, slots);
        if spare {
            spec.operation.standby = Standby::On;
        }
        spec.operation.supervisor.checkpoint = checkpoint;
        let mut world = World::new(spec, Disk::default(), seed, faults);
        world.late = seed % 2 == 0;
        world.run(50_000);
        prop_assert!(matches!(world.finished, Some(Exit::Done | Exit::Breaker)));
        if world.finished == Some(Exit::Done) {
            let done = world.disk.trials.values().filter(|t| t.counts()).count();
            prop_assert!(done >= 30);
            prop_assert!(world.disk.trials.values().all(|t| t.state.finished()));
        }
    }

    #[test]
    fn a_broken_gpu_is_given_up_and_the_others_go_on(seed in 0u64..u64::MAX) {
        let mut world = World::new(spec(20, 2), Disk::default(), seed, 0.0);
        world.core.slots[0].device = Device::Cuda(0);
        world.core.slots[1].device = Device::Cuda(1);
        world.run(30 + (seed % 50) as u32);
        prop_assume!(world.finished.is_none());
        prop_assume!(world.core.slots[0].attempt().is_some());
        let worker = world.core.slots[0].worker().unwrap().id;
        world.workers.insert(worker, world::Life::Wedged);
        world.run(20_000);
        prop_assert_eq!(world.finished, Some(Exit::Done));
        prop_assert_eq!(world.disk.trials.len(), 20);
        prop_assert!(world.core.slots[0].is_drained());
    }

    #[test]
    fn workers_that_find_no_room_cost_no_slot_and_the_goal_is_reached(
        seed in 0u64..u64::MAX, slots in 1usize..5, crowded in 0.1..0.9, spares: bool,
    ) {
        let mut spec = spec(10, slots);
        spec.operation.standby = if spares { Standby::On } else { Standby::Off };
        let mut world = World::new(spec, Disk::default(), seed, 0.0);
        for slot in &mut world.core.slots {
            slot.device = Device::Cuda(0);
        }
        world.crowded = crowded;
        world.run(50_000);
        prop_assert_eq!(world.finished, Some(Exit::Done));
        prop_assert!(world.core.slots.iter().all(|s| s.closed.is_none()));
    }

    #[test]
    fn a_run_cut_at_any_moment_and_resumed_ends_with_the_same_trials(
        seed in 0u64..u64::MAX, cuts in proptest::collection::vec(1u32..60, 1..12),
    ) {
        let mut undisturbed = World::new(spec(12, 1), Disk::default(), 1, 0.0);
        undisturbed.core.search_by(Learns);
        undisturbed.run(10_000);
        let mut disk = Disk::default();
        for cut in cuts {
            let mut world = World::new(spec(12, 1), disk, seed, 0.0);
            world.core.search_by(Learns);
            world.late = seed % 2 == 0;
            world.run(cut);
            disk = world.disk;
        }
        let mut last = World::new(spec(12, 1), disk, seed, 0.0);
        last.core.search_by(Learns);
        last.late = seed % 2 == 0;
        last.run(10_000);
        prop_assert_eq!(last.finished, Some(Exit::Done));
        prop_assert_eq!(results(&last.disk), results(&undisturbed.disk));
    }

    #[test]
    fn after_a_stop_nothing_is_started_and_running_trials_stay_to_be_resumed(
        seed in 0u64..u64::MAX, at in 1u32..200, slots in 1usize..4,
    ) {
        let mut world = World::new(spec(30, slots), Disk::default(), seed, 0.02);
        world.late = seed % 2 == 0;
        world.run(at);
        prop_assume!(world.finished.is_none());
        world.stop_asked = true;
        world.event(STOP);
        world.run(100_000);
        prop_assert!(matches!(
            world.finished,
            Some(Exit::Done | Exit::Stopped | Exit::Breaker)
        ));
        prop_assert_eq!(world.spawns_after_stop, 0);
        let mut resumed = World::new(spec(30, slots), world.disk.clone(), seed, 0.0);
        resumed.run(50_000);
        prop_assert_eq!(resumed.finished, Some(Exit::Done));
    }
}

/// The study with weights that are kept.
fn keeping(trials: u64, most: usize) -> StudySpec {
    let mut spec = spec(trials, 2);
    spec.kind = "text-classification".into();
    spec.operation.supervisor.checkpoint = true;
    spec.operation.keep_best = most;
    spec
}

/// The best trials of the disk, the best first.
fn best(disk: &Disk, spec: &StudySpec, most: usize) -> Vec<u64> {
    let mut trials: Vec<(f64, u64)> = (disk.trials.values())
        .filter(|t| t.state == TrialState::Complete)
        .filter_map(|t| Some((spec.objective.direction.loss(t.value()?), t.number)))
        .collect();
    trials.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    trials.into_iter().take(most).map(|(_, n)| n).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_weights_of_the_best_trials_are_kept_whenever_a_run_is_cut(
        seed in 0u64..u64::MAX, most in 1usize..4, cuts in proptest::collection::vec(1u32..80, 0..8),
        faults in 0.0..0.05,
    ) {
        let spec = keeping(15, most);
        let (mut disk, mut files, mut kept) = <(Disk, BTreeMap<_, _>, _)>::default();
        for cut in cuts.into_iter().chain([50_000]) {
            let mut world = World::new(spec.clone(), disk, seed, faults);
            (world.candidates, world.weights) = (files, kept);
            world.keep_weights_at_start();
            world.run(cut);
            (disk, files, kept) = (world.disk, world.candidates, world.weights);
            if world.finished == Some(Exit::Done) {
                let expected: BTreeSet<u64> = best(&disk, &spec, most).into_iter().collect();
                prop_assert_eq!(&kept, &expected);
                prop_assert!(files.is_empty());
            }
        }
    }
}

/// Cuts the run after each of its events, and lets the next run finish it.
#[test]
fn a_run_cut_at_every_event_loses_and_repeats_nothing() {
    for checkpoint in [false, true] {
        let mut spec = spec(6, 1);
        spec.operation.supervisor.checkpoint = checkpoint;
        let mut undisturbed = World::new(spec.clone(), Disk::default(), 1, 0.0);
        undisturbed.run(10_000);
        assert_eq!(undisturbed.finished, Some(Exit::Done));
        for cut in 1..undisturbed.events {
            let mut first = World::new(spec.clone(), Disk::default(), 1, 0.0);
            first.run(cut);
            let mut second = World::new(spec.clone(), first.disk, 2, 0.0);
            second.kept = first.kept;
            second.trained = first.trained;
            second.run(10_000);
            assert_eq!(second.finished, Some(Exit::Done), "cut at {cut}");
            assert_eq!(
                results(&second.disk),
                results(&undisturbed.disk),
                "cut at {cut}"
            );
            let epochs: u32 = second.trained.values().sum();
            if checkpoint {
                assert_eq!(epochs, 6 * 3, "no epoch is trained twice, cut at {cut}");
                assert!(second.kept.is_empty(), "checkpoints end with their trials");
            }
        }
    }
}

#[test]
fn a_worker_that_is_stopped_is_continued_once_and_then_replaced() {
    let mut world = World::new(spec(5, 1), Disk::default(), 1, 0.0);
    world.run(8);
    let worker = *world.workers.keys().next().unwrap();
    let first = world
        .core
        .handle(Event::Worker(worker, WorkerEvent::Stopped), world.now);
    assert_eq!(first[0], Action::Worker(worker, WorkerAction::Continue));
    let second = world
        .core
        .handle(Event::Worker(worker, WorkerEvent::Stopped), world.now);
    assert_eq!(second, [Action::Worker(worker, WorkerAction::Kill)]);
    world.workers.clear();
    world.event(exited(worker, Death::Signaled(9)));
    world.run(10_000);
    assert_eq!(world.disk.attempts[&0][0].as_deref(), Some("interrupted"));
    assert_eq!(world.finished, Some(Exit::Done));
}

#[test]
fn a_trial_that_another_program_ended_first_is_not_ended_again() {
    let mut world = World::new(spec(3, 1), Disk::default(), 1, 0.0);
    let ends = |writes: &[Write]| {
        writes
            .iter()
            .any(|w| matches!(w, Write::TrialFinished { .. }))
    };
    let mut most = 1;
    while !world.unwritten.iter().any(|(_, writes)| ends(writes)) {
        world.run(most);
        most += 2;
    }
    world.foreign = Some(foreign::Foreign::idle());
    world.disk.trials.get_mut(&0).unwrap().state = TrialState::Fail;
    world.run(10_000);
    assert_eq!(world.finished, Some(Exit::Done));
    let states: Vec<TrialState> = world.disk.trials.values().map(|t| t.state).collect();
    assert_eq!(
        states[0],
        TrialState::Fail,
        "the other program's word stands"
    );
    assert_eq!(states[1..], [TrialState::Complete; 3], "{states:?}");
    assert_ne!(world.core.best().unwrap().number, 0);
}

/// The program of a trial crashes twice: the trial's end and its worker's go together.
#[test]
fn an_attempt_that_ends_with_its_worker_is_ended_once() {
    let mut world = World::new(spec(2, 1), Disk::default(), 1, 0.0);
    while world.finished.is_none() {
        assert!(world.events < 5_000, "{:?}", world.disk.attempts);
        world.run(world.events + 2);
        let training = world.workers.iter().find_map(|(worker, life)| match life {
            world::Life::Training(trial, 0) if trial.number == 0 => Some((*worker, trial.attempt)),
            world::Life::Training(..)
            | world::Life::Opening
            | world::Life::Idle
            | world::Life::Hung
            | world::Life::Wedged => None,
        });
        if let Some((worker, attempt)) = training {
            let text = "CUDA error: an illegal memory access was encountered";
            let mut error = setup::error(fault::Phase::Training, text);
            error.healthy = Some(false);
            let attempt = AttemptId {
                number: 0,
                purpose: Purpose::Search,
                attempt,
            };
            world.workers.insert(worker, world::Life::Idle);
            let message = FromWorker::Attempt(attempt, AttemptEvent::Failed(error));
            world.event(received(worker, message));
        }
    }
    assert_eq!(world.finished, Some(Exit::Done));
    assert_eq!(world.disk.trials[&0].state, TrialState::Pruned);
    assert_eq!(world.disk.attempts[&0].len(), 2);
}

#[test]
fn the_goal_that_is_reached_ends_the_run_well_whatever_failed_beside_it() {
    let mut spec = spec(1, 1);
    spec.operation.supervisor.max_failures = 1;
    let mut world = World::new(spec, Disk::default(), 1, 0.0);
    let mut failed = world.core.progress.clone();
    let mut trial = foreign::trial(0, TrialState::Fail);
    failed.put(&trial);
    failed.ended(&trial, Some("no"));
    trial.number = 1;
    trial.state = TrialState::Complete;
    trial.values = vec![0.5];
    failed.put(&trial);
    world.core.progress = failed;
    world.run(1_000);
    assert_eq!(
        world.finished,
        Some(Exit::Done),
        "the breaker is for searches"
    );
}

#[test]
fn what_a_worker_says_after_its_garbage_frees_no_slot() {
    let mut world = World::new(spec(5, 1), Disk::default(), 1, 0.0);
    world.run(9);
    let attempt = world.core.slots[0].attempt().unwrap();
    let worker = world.core.slots[0].worker().unwrap().id;
    world.workers.insert(worker, world::Life::Wedged);
    world.event(Event::Worker(
        worker,
        WorkerEvent::Garbled("no message".into()),
    ));
    let message = FromWorker::Attempt(attempt, AttemptEvent::Ended(task::Ended::Completed));
    world.event(received(worker, message));
    assert_eq!(world.core.slots[0].attempt(), Some(attempt));
    world.workers.clear();
    world.event(exited(worker, Death::Signaled(9)));
    world.run(10_000);
    assert_eq!(world.finished, Some(Exit::Done));
    let words: Vec<_> = world.disk.attempts[&attempt.number]
        .iter()
        .flatten()
        .collect();
    assert_eq!(words, ["protocol", "completed"]);
}

/// On the CPU there is no device to give up: the slot's budget ends it.
#[test]
fn a_device_that_is_said_to_be_gone_costs_the_slots_budget() {
    let mut world = World::new(spec(3, 1), Disk::default(), 1, 0.0);
    let mut most = 1;
    while world.finished.is_none() {
        most += 2;
        assert!(most < 5_000, "{} workers", world.core.next_worker);
        world.run(most);
        let held = world.core.slots[0].attempt();
        let (Some(attempt), Some(worker)) = (held, world.core.slots[0].worker()) else {
            continue;
        };
        let worker = worker.id;
        if matches!(
            world.workers.get(&worker),
            Some(world::Life::Training(_, 0))
        ) {
            let error = setup::error(fault::Phase::Training, "No CUDA GPUs are available");
            world.workers.insert(worker, world::Life::Idle);
            let message = FromWorker::Attempt(attempt, AttemptEvent::Failed(error));
            world.event(received(worker, message));
        }
    }
    assert_eq!(world.finished, Some(Exit::Breaker));
    assert!(
        world.core.next_worker < 40,
        "{} workers",
        world.core.next_worker
    );
}
