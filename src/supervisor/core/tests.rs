//! The core against a simulated world: workers that train, die, hang and babble at random moments.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::config::{Objective, Operation};
use crate::fault::Death;
use crate::protocol::{ErrorReport, FromWorker, Phase, ToWorker, VERSION};
use crate::pruner::NoPruner;
use crate::sampler::RandomSampler;
use crate::space::{Domain, Parameter, Space, Value};
use crate::store::Write;
use crate::study::Direction;
use crate::task::{Ended, Metrics, TrialSpec};

pub(super) fn spec(trials: u64, slots: usize) -> StudySpec {
    let x = Parameter {
        name: "x".into(),
        domain: Domain::Float {
            low: 0.0,
            high: 1.0,
            log: false,
            step: None,
        },
        when: vec![],
        high_when: vec![],
        default: Some(Value::Float(0.5)),
    };
    let mut operation = Operation::sample(trials);
    operation.parallel = slots;
    operation.supervisor.recycle_after = 7;
    operation.supervisor.deadline = Some(Duration::from_secs(100));
    StudySpec {
        task: "t".into(),
        kind: "synthetic".into(),
        file: "t.toml".into(),
        study: "t".into(),
        objective: Objective {
            metric: "loss".into(),
            direction: Direction::Minimize,
        },
        seed: 0,
        space: Space {
            parameters: vec![x],
            ..Space::default()
        },
        fixed: Params::new(),
        models: BTreeMap::new(),
        points: vec![],
        operation,
    }
}

pub(super) fn core(spec: StudySpec, disk: &Disk) -> Core {
    let devices = vec![Device::Cpu; spec.operation.parallel];
    Core::new(Start {
        trials: disk.trials.values().cloned().collect(),
        reclaimed: disk.reclaimable(),
        spec,
        devices,
        threads: 1,
        baseline: None,
        sampler: Box::new(RandomSampler),
        pruner: Box::new(NoPruner),
    })
}

/// What is durable.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Disk {
    trials: BTreeMap<u64, FrozenTrial>,
    /// Attempts by trial: the outcome, once there is one.
    attempts: BTreeMap<u64, Vec<Option<String>>>,
    ended: Option<u8>,
}

impl Disk {
    fn reclaimable(&self) -> Vec<Reclaimed> {
        self.trials
            .values()
            .filter(|t| t.state == TrialState::Running)
            .map(|t| {
                let attempts = self.attempts.get(&t.number).cloned().unwrap_or_default();
                let mut tally = Tally::default();
                attempts.iter().flatten().for_each(|w| tally.add_word(w));
                Reclaimed {
                    number: t.number,
                    attempt: attempts.len() as u32,
                    tally,
                }
            })
            .collect()
    }

    fn apply(&mut self, write: &Write) {
        match write {
            Write::TrialCreated {
                number,
                params,
                distributions,
                user_attrs,
            } => {
                assert_eq!(*number, self.trials.len() as u64, "numbers have no gaps");
                let trial = FrozenTrial {
                    trial_id: 0,
                    number: *number,
                    state: TrialState::Running,
                    params: params.clone(),
                    distributions: distributions.clone(),
                    values: vec![],
                    intermediate: BTreeMap::new(),
                    user_attrs: user_attrs.clone(),
                    system_attrs: serde_json::Map::new(),
                    datetime_start: None,
                    datetime_complete: None,
                };
                self.trials.insert(*number, trial);
            }
            Write::AttemptStarted {
                number, attempt, ..
            } => {
                let attempts = self.attempts.entry(*number).or_default();
                assert_eq!(attempts.len(), *attempt as usize, "attempts have no gaps");
                attempts.push(None);
                self.trials.get_mut(number).unwrap().intermediate.clear();
            }
            Write::AttemptEnded {
                number,
                attempt,
                end,
            } => {
                let slot = &mut self.attempts.get_mut(number).unwrap()[*attempt as usize];
                assert_eq!(*slot, None, "an attempt ends once");
                *slot = Some(end.outcome.clone());
            }
            Write::Reported {
                number,
                step,
                value,
            } => {
                let trial = self.trials.get_mut(number).unwrap();
                trial.intermediate.insert(*step, *value);
            }
            Write::TrialFinished {
                number,
                state,
                values,
                user_attrs,
                ..
            } => {
                let trial = self.trials.get_mut(number).unwrap();
                trial.state = trial.state.next(*state).unwrap();
                trial.values = values.clone();
                trial.user_attrs.extend(user_attrs.clone());
            }
            Write::RunEnded { exit } => self.ended = Some(*exit),
            Write::TrialClaimed { .. } | Write::StudyAttributes { .. } => unreachable!(),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Life {
    Opening,
    Idle,
    Training(TrialSpec, u32),
    Hung,
}

/// The world around a core: processes, the disk, the clock.
struct World {
    core: Core,
    disk: Disk,
    soon: Vec<Write>,
    unwritten: Vec<(u64, Vec<Write>)>,
    workers: BTreeMap<WorkerId, Life>,
    dead: BTreeSet<WorkerId>,
    now: Now,
    rng: ChaCha8Rng,
    faults: f64,
    finished: Option<Exit>,
    stop_asked: bool,
    spawns_after_stop: u32,
    events: u32,
}

impl World {
    fn new(spec: StudySpec, disk: Disk, seed: u64, faults: f64) -> World {
        World {
            core: core(spec, &disk),
            disk,
            soon: vec![],
            unwritten: vec![],
            workers: BTreeMap::new(),
            dead: BTreeSet::new(),
            now: Now::ZERO,
            rng: study::rng(seed, 0, "world"),
            faults,
            finished: None,
            stop_asked: false,
            spawns_after_stop: 0,
            events: 0,
        }
    }

    fn run(&mut self, most: u32) {
        self.event(Event::Ticked);
        while self.finished.is_none() && self.events < most {
            self.now += Duration::from_millis(self.rng.random_range(1..2_000));
            let event = self.next_event();
            self.event(event);
        }
    }

    fn event(&mut self, event: Event) {
        self.events += 1;
        for action in self.core.handle(event, self.now) {
            self.perform(action);
        }
        self.check_invariants();
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Spawn { worker, .. } => {
                self.spawns_after_stop += u32::from(self.stop_asked);
                self.workers.insert(worker, Life::Opening);
            }
            Action::Send { worker, message } => self.receive(worker, message),
            Action::Terminate { worker } => {
                if self.rng.random_bool(0.8) {
                    self.kill(worker, 15);
                }
            }
            Action::Kill { worker } => self.kill(worker, 9),
            Action::Write { batch, writes } => self.unwritten.push((batch, writes)),
            Action::WriteSoon { write } => self.soon.push(write),
            Action::Report(_) => {}
            Action::Finish { exit, .. } => {
                assert!(self.workers.is_empty(), "no worker outlives the run");
                assert!(self.unwritten.is_empty(), "nothing is left unwritten");
                self.finished = Some(exit);
            }
        }
    }

    fn receive(&mut self, worker: WorkerId, message: ToWorker) {
        let Some(life) = self.workers.get_mut(&worker) else {
            return;
        };
        match message {
            ToWorker::Open { .. } | ToWorker::Decided { .. } => {}
            ToWorker::Run { trial, .. } => {
                assert_eq!(*life, Life::Idle, "one attempt at a time");
                let recorded = self.disk.attempts[&trial.number].len() as u32;
                assert_eq!(recorded, trial.attempt + 1, "recorded before it is sent");
                *life = Life::Training(*trial, 0);
            }
            ToWorker::Exit => {
                self.workers.remove(&worker);
                self.dead.insert(worker);
            }
        }
    }

    fn kill(&mut self, worker: WorkerId, _signal: i32) {
        if self.workers.remove(&worker).is_some() {
            self.dead.insert(worker);
        }
    }

    fn next_event(&mut self) -> Event {
        if let Some(worker) = self.dead.pop_first() {
            return exited(worker, Death::Signaled(9));
        }
        if !self.unwritten.is_empty() && self.rng.random_bool(0.7) {
            let (batch, writes) = self.unwritten.remove(0);
            for write in self.soon.drain(..).chain(writes) {
                self.disk.apply(&write);
            }
            return Event::Written { batch };
        }
        let workers: Vec<WorkerId> = self.workers.keys().copied().collect();
        if workers.is_empty() {
            return Event::Ticked;
        }
        let worker = workers[self.rng.random_range(0..workers.len())];
        if self.rng.random_bool(self.faults) {
            return self.fault(worker);
        }
        self.progress(worker)
    }

    fn progress(&mut self, worker: WorkerId) -> Event {
        let life = self.workers.get_mut(&worker).unwrap();
        let message = match life {
            Life::Opening => {
                *life = Life::Idle;
                let hello = FromWorker::Hello {
                    protocol: VERSION,
                    version: env!("CARGO_PKG_VERSION").into(),
                };
                self.event(Event::Spawned { worker, pid: 7 });
                self.event(Event::Received {
                    worker,
                    message: hello,
                });
                FromWorker::Ready
            }
            Life::Training(trial, epoch) if *epoch < 3 => {
                *epoch += 1;
                let x = trial.config["x"].as_f64().unwrap();
                FromWorker::EpochFinished {
                    attempt: id(trial),
                    epoch: *epoch,
                    metrics: Metrics::from([("loss".into(), x + f64::from(3 - *epoch))]),
                }
            }
            Life::Training(trial, _) => {
                let attempt = id(trial);
                *life = Life::Idle;
                FromWorker::Ended {
                    attempt,
                    ended: Ended::Completed,
                    peak_memory_mb: 1.0,
                }
            }
            Life::Idle | Life::Hung => return Event::Ticked,
        };
        Event::Received { worker, message }
    }

    fn fault(&mut self, worker: WorkerId) -> Event {
        let life = self.workers[&worker].clone();
        match (self.rng.random_range(0..5), life) {
            (0, Life::Training(..)) => {
                self.workers.insert(worker, Life::Hung);
                Event::Ticked
            }
            (1, Life::Training(trial, _)) => {
                self.workers.insert(worker, Life::Idle);
                let error = ErrorReport {
                    phase: Phase::Training,
                    panic: false,
                    text: "index out of range".into(),
                    healthy: Some(true),
                };
                let message = FromWorker::Failed {
                    attempt: id(&trial),
                    error,
                };
                Event::Received { worker, message }
            }
            (2, _) => Event::Garbled {
                worker,
                error: "no message".into(),
            },
            (3, _) => {
                self.workers.remove(&worker);
                exited(worker, Death::Signaled(11))
            }
            (_, _) => {
                self.workers.remove(&worker);
                exited(worker, Death::Signaled(9))
            }
        }
    }

    fn check_invariants(&self) {
        let mut held: Vec<AttemptId> = Vec::new();
        for slot in &self.core.slots {
            if let State::Recording(_, a) | State::Busy(_, a) = &slot.state {
                held.push(*a);
            }
        }
        let numbers: BTreeSet<u64> = held.iter().map(|a| a.number).collect();
        assert_eq!(numbers.len(), held.len(), "one live attempt a trial");
        for a in &held {
            assert!(self.core.live.contains_key(&a.number) && !self.core.retry.contains(&a.number));
        }
        for number in self.core.live.keys() {
            let waits = self.core.retry.contains(number);
            assert!(
                waits != numbers.contains(number),
                "a live trial waits or runs"
            );
        }
        let goal = self.core.spec.operation.trials;
        let counts = self.core.counts();
        assert!(counts.finished() + self.core.live.len() as u64 <= goal.max(counts.finished()));
    }
}

fn id(trial: &TrialSpec) -> AttemptId {
    AttemptId {
        number: trial.number,
        attempt: trial.attempt,
    }
}

pub(super) fn exited(worker: WorkerId, death: Death) -> Event {
    Event::Exited {
        worker,
        death,
        tail: String::new(),
        stopped: false,
        oom_kills: 0,
    }
}

/// Number, parameters and values of the trials on disk.
fn results(disk: &Disk) -> Vec<(u64, TrialState, Params, Vec<f64>)> {
    disk.trials
        .values()
        .map(|t| (t.number, t.state, t.params.clone(), t.values.clone()))
        .collect()
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
                Action::Spawn { worker, .. } => {
                    spawned.push(now);
                    next = exited(worker, Death::Exited(1));
                }
                Action::Write { batch, .. } => next = Event::Written { batch },
                Action::Finish { exit: code, .. } => exit = Some(code),
                Action::Send { .. }
                | Action::Terminate { .. }
                | Action::Kill { .. }
                | Action::WriteSoon { .. }
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
    let before = world.core.live.clone();
    let stale = FromWorker::EpochFinished {
        attempt: AttemptId {
            number: 0,
            attempt: 9,
        },
        epoch: 1,
        metrics: Metrics::from([("loss".into(), -100.0)]),
    };
    let worker = *world.workers.keys().next().unwrap();
    let actions = world.core.handle(
        Event::Received {
            worker,
            message: stale,
        },
        world.now,
    );
    assert!(actions.is_empty(), "{actions:?}");
    assert_eq!(before.len(), world.core.live.len());
}

#[test]
fn a_second_stop_kills_at_once() {
    let mut core = core(spec(5, 1), &Disk::default());
    core.handle(Event::Ticked, Now::ZERO);
    let first = core.handle(Event::StopRequested, Now::ZERO);
    assert_eq!(first, [Action::Terminate { worker: 0 }]);
    let second = core.handle(Event::StopRequested, Now::ZERO);
    assert_eq!(second, [Action::Kill { worker: 0 }]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_workers_do_every_trial_ends_once(seed in 0u64..u64::MAX, slots in 1usize..5) {
        let mut world = World::new(spec(30, slots), Disk::default(), seed, 0.03);
        world.run(50_000);
        prop_assert!(matches!(world.finished, Some(Exit::Done | Exit::Breaker)));
        if world.finished == Some(Exit::Done) {
            let done = world.disk.trials.values().filter(|t| t.counts()).count();
            prop_assert!(done >= 30);
            prop_assert!(world.disk.trials.values().all(|t| t.state.finished()));
        }
    }

    #[test]
    fn a_run_cut_at_any_moment_and_resumed_ends_with_the_same_trials(
        seed in 0u64..u64::MAX, cuts in proptest::collection::vec(1u32..60, 1..12),
    ) {
        let mut undisturbed = World::new(spec(12, 1), Disk::default(), 1, 0.0);
        undisturbed.run(10_000);
        let mut disk = Disk::default();
        for cut in cuts {
            let mut world = World::new(spec(12, 1), disk, seed, 0.0);
            world.run(cut);
            disk = world.disk;
        }
        let mut last = World::new(spec(12, 1), disk, seed, 0.0);
        last.run(10_000);
        prop_assert_eq!(last.finished, Some(Exit::Done));
        prop_assert_eq!(results(&last.disk), results(&undisturbed.disk));
    }

    #[test]
    fn after_a_stop_nothing_is_started_and_running_trials_stay_to_be_resumed(
        seed in 0u64..u64::MAX, at in 1u32..200, slots in 1usize..4,
    ) {
        let mut world = World::new(spec(30, slots), Disk::default(), seed, 0.02);
        world.run(at);
        prop_assume!(world.finished.is_none());
        world.stop_asked = true;
        world.event(Event::StopRequested);
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
