//! Several cores on one study, each with a writer of its own, in any order: leases end while their nodes work, nodes are
//! killed, looks are old when they arrive, trainings fail and their processes crash.

#![allow(clippy::wildcard_enum_match_arm)]

use std::collections::VecDeque;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::disk::{Disk, Repeat};
use super::setup::error;
use super::world::{failed, finished, id};
use super::*;
use crate::refused_starts::RefusedStarts;
use crate::{BatchEvent, WorkerAction};
use config::TestSplit;
use fault::Phase;
use protocol::{AttemptEvent, ToWorker};
use search::sampler::RandomSampler;
use search::study::selection::{self, Next};
use search::study::{Direction, History, Purpose, Updates};
use store::{AttemptRecord, Changes, HeldBy, KnownTrials, OtherNodes, Reclaimable, RepeatRecord};
use task::TrialSpec;

/// What nodes do beside this one, as the store finds it.
fn others(disk: &Disk, asks: i64) -> OtherNodes {
    let running = |by: HeldBy| {
        let is = move |n: &u64| {
            let trial = disk.glimpse(*n, Some(asks)).unwrap();
            trial.state == TrialState::Running && trial.held_by == by
        };
        disk.trials.keys().copied().filter(is)
    };
    let left = running(HeldBy::Nobody).map(|number| {
        let attempts = records(&disk.attempts[&number], disk.holders[&number]);
        (
            disk.trials[&number].clone(),
            Reclaimable { number, attempts },
        )
    });
    let at = |repeat: &Repeat| {
        repeat.ended.is_none() && repeat.holder != asks && disk.live.contains(&repeat.holder)
    };
    let at_repeats = disk.repeats.iter().filter(|(_, repeat)| at(repeat));
    let repeats = disk.repeats.iter().map(|(job, repeat)| RepeatRecord {
        job: *job,
        seed: repeat.seed,
        state: match &repeat.ended {
            None => TrialState::Running,
            Some(outcome) if outcome.value.is_some() => TrialState::Complete,
            Some(_) => TrialState::Fail,
        },
        value: repeat.ended.as_ref().and_then(|outcome| outcome.value),
        attrs: repeat.ended.clone().unwrap_or_default().attrs,
        started: String::new(),
        ended: None,
        attempts: records(&repeat.attempts, repeat.holder),
    });
    OtherNodes {
        running: (running(HeldBy::Node).map(Job::trial))
            .chain(at_repeats.map(|(job, _)| *job))
            .collect(),
        left: left.collect(),
        repeats: repeats.collect(),
    }
}

/// Attempts as the database has them; whose the last was is all that is asked of whose they were.
pub(super) fn records(outcomes: &[Option<String>], holder: i64) -> Vec<AttemptRecord> {
    let record = |(attempt, outcome): (usize, &Option<String>)| AttemptRecord {
        attempt: attempt as u32,
        run_id: holder,
        worker: 0,
        pid: 1,
        device: "cpu".into(),
        log: String::new(),
        started: String::new(),
        ended: None,
        outcome: outcome.clone(),
        detail: String::new(),
        again: false,
    };
    outcomes.iter().enumerate().map(record).collect()
}

/// A node: its core, its writer and its workers.
struct Node {
    run: i64,
    core: Driven,
    /// The writer's: what the core knows of the study, or will once it has had its events.
    seen: KnownTrials,
    told: OtherNodes,
    refused: RefusedStarts,
    unwritten: VecDeque<(u64, Vec<Write>)>,
    /// New trials have got other numbers: the next look is told whatever it finds.
    awaited: bool,
    question: Option<(u64, Updates, u64)>,
    events: VecDeque<Event>,
    /// What each of its workers trains.
    workers: BTreeMap<WorkerId, Option<Box<TrialSpec>>>,
    finished: Option<Exit>,
}

impl Node {
    fn joins(run: i64, spec: StudySpec, disk: &mut Disk) -> Node {
        disk.live.insert(run);
        let mut seen = KnownTrials::of_run(run);
        let all = disk.changes(&mut seen, 0, Some(run));
        let told = others(disk, run);
        let slots = spec.operation.parallel.slots(&[Device::Cpu], 1);
        let begin = Start {
            node: Some(run),
            nodes: Some(told.clone()),
            trials: all.trials,
            repeats: disk.repeated(),
            selected: disk.attributes.get("selection").cloned(),
            test: Some(TestSplit::default()),
            ..start(spec, vec![Device::Cpu; slots])
        };
        Node {
            run,
            core: Driven::new(begin, RandomSampler),
            seen,
            told,
            refused: RefusedStarts::default(),
            unwritten: VecDeque::new(),
            awaited: false,
            question: None,
            events: [Event::Ticked].into(),
            workers: BTreeMap::new(),
            finished: None,
        }
    }

    fn takes(&mut self, event: Event, now: Now, disk: &Disk) {
        for action in self.core.one(event, now) {
            match action {
                Action::Worker(worker, WorkerAction::Spawn(_)) => {
                    self.workers.insert(worker, None);
                    let spawned = Event::Worker(worker, WorkerEvent::Spawned(7));
                    let says = [hello(), FromWorker::Ready].map(|m| received(worker, m));
                    self.events.extend([spawned].into_iter().chain(says));
                }
                Action::Worker(worker, WorkerAction::Send(ToWorker::Run { trial, .. })) => {
                    if let Some(at) = self.workers.get_mut(&worker) {
                        assert!(at.replace(trial).is_none(), "one attempt at a time");
                    }
                }
                Action::Worker(worker, WorkerAction::Send(ToWorker::Exit)) => {
                    self.ends(worker, Death::Exited(0));
                }
                Action::Worker(worker, WorkerAction::Terminate | WorkerAction::Kill) => {
                    self.ends(worker, Death::Signaled(9));
                }
                Action::Write { batch, writes } => self.unwritten.push_back((batch, writes)),
                Action::Propose { number, news, seed } => {
                    self.question = Some((number, news, seed));
                }
                Action::Finish { exit, .. } => self.finished = Some(exit),
                Action::Forget(job) => {
                    let holder = disk.open_holder(job);
                    assert!(
                        holder.is_none_or(|run| run == self.run),
                        "{job} is {holder:?}'s"
                    );
                }
                Action::Worker(..)
                | Action::WriteSoon(_)
                | Action::KeepWeights(..)
                | Action::Report(_) => {}
            }
        }
    }

    fn ends(&mut self, worker: WorkerId, death: Death) {
        if self.workers.remove(&worker).is_some() {
            self.events.push_back(exited(worker, death));
        }
    }

    /// Does what the writer does with the oldest batch.
    fn writes(&mut self, disk: &mut Disk) {
        let Some((batch, all)) = self.unwritten.pop_front() else {
            return;
        };
        // The lease is renewed before.
        disk.live.insert(self.run);
        if all.iter().any(|w| matches!(w, Write::RunEnded { .. })) {
            self.looks(disk, true);
        }
        let (writes, mut late) = self.refused.without(&all);
        let carried = disk.carry_out(&writes, &mut self.seen, Some(self.run));
        late.extend(carried.late);
        self.refused.recorded(&writes);
        self.refused.given(carried.renumbered.values());
        self.refused.add(&late);
        self.awaited |= !carried.renumbered.is_empty();
        let event = match late.is_empty() && carried.renumbered.is_empty() {
            true => BatchEvent::Written,
            false => BatchEvent::Overtaken {
                renumbered: carried.renumbered,
                changes: match late.is_empty() {
                    true => Changes::default(),
                    false => self.finds(disk, false),
                },
                late,
            },
        };
        self.events.push_back(Event::Batch(batch, event));
    }

    /// What a look finds, at all trials or at the recent ones.
    fn finds(&mut self, disk: &Disk, whole: bool) -> Changes {
        let first = if whole { 0 } else { self.seen.first_open() };
        let changes = disk.changes(&mut self.seen, first, Some(self.run));
        let nodes = others(disk, self.run);
        let told = std::mem::replace(&mut self.told, nodes.clone());
        Changes {
            nodes: (nodes != told).then_some(nodes),
            ..changes
        }
    }

    fn looks(&mut self, disk: &Disk, whole: bool) {
        let changes = self.finds(disk, whole);
        if std::mem::take(&mut self.awaited) || !changes.is_empty() {
            self.events.push_back(Event::StudyChanged(changes));
        }
    }

    /// A worker comes to the end of what it trains, one way or another.
    fn trains(&mut self, faults: f64, rng: &mut ChaCha8Rng) {
        let busy = self.workers.iter_mut().filter(|(_, at)| at.is_some());
        let mut busy: Vec<_> = busy.collect();
        if busy.is_empty() {
            return;
        }
        let (worker, at) = busy.swap_remove(rng.random_range(0..busy.len()));
        let (worker, trial) = (*worker, at.take().unwrap());
        if rng.random_bool(faults) {
            match rng.random_range(0..3) {
                0 => self.ends(worker, Death::Signaled(11)),
                1 => {
                    let text = "CUDA error: an illegal memory access";
                    let fatal = FromWorker::Fatal(error(Phase::Training, text));
                    self.events.push_back(received(worker, fatal));
                    self.ends(worker, Death::Exited(70));
                }
                _ => {
                    let failed = failed(&trial, "index out of range");
                    self.events.push_back(received(worker, failed));
                }
            }
            return;
        }
        let mut epoch = finished(&trial, 3);
        // What is trained twice does not give the same twice.
        let luck = rng.random_range(0.0..0.1);
        epoch.metrics.values_mut().for_each(|value| *value += luck);
        let epoch = FromWorker::Attempt(id(&trial), AttemptEvent::EpochFinished(epoch));
        let says = [epoch, completed(id(&trial))];
        self.events.extend(says.map(|m| received(worker, m)));
    }

    /// What happens next on it.
    fn goes_on(&mut self, disk: &mut Disk, faults: f64, now: Now, rng: &mut ChaCha8Rng) {
        match rng.random_range(0..10) {
            0..4 => {
                let event = self.events.pop_front();
                self.takes(event.unwrap_or(Event::Ticked), now, disk);
            }
            4..6 => self.writes(disk),
            6 => self.looks(disk, rng.random_bool(0.1)),
            7 => self.trains(faults, rng),
            8 => {
                if let Some((number, news, seed)) = self.question.take() {
                    let answer = self.core.answer(number, news, seed);
                    self.events.push_back(answer);
                }
            }
            // Nothing is heard of it for a while.
            _ if rng.random_bool(0.02) => _ = disk.live.remove(&self.run),
            _ => {}
        }
    }
}

/// Several nodes on one study, to the end: what is durable then, and how those ended that were not killed.
fn nodes_on(
    spec: &StudySpec,
    seed: u64,
    nodes: usize,
    kills: u32,
    faults: f64,
) -> (Disk, Vec<Option<Exit>>) {
    let mut rng = study::rng(seed, 0, "nodes");
    let mut disk = Disk::default();
    let mut working = Vec::new();
    let mut joining: VecDeque<i64> = (1..=nodes as i64).collect();
    let mut kills = kills;
    let mut now = Now::ZERO;
    for _ in 0..200_000 {
        now += Duration::from_millis(rng.random_range(1..200));
        if rng.random_bool(0.02)
            && let Some(run) = joining.pop_front()
        {
            working.push(Node::joins(run, spec.clone(), &mut disk));
        }
        if kills > 0 && working.len() > 1 && rng.random_bool(0.002) {
            kills -= 1;
            let killed = working.swap_remove(rng.random_range(0..working.len()));
            disk.live.remove(&killed.run);
        }
        if working.is_empty() {
            continue;
        }
        let at = rng.random_range(0..working.len());
        if working[at].finished.is_none() {
            working[at].goes_on(&mut disk, faults, now, &mut rng);
        }
        if joining.is_empty() && working.iter().all(|n| n.finished.is_some()) {
            break;
        }
    }
    (disk, working.iter().map(|node| node.finished).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn nodes_make_exactly_the_trials_of_the_goal_and_none_twice(
        seed in 0u64..u64::MAX, nodes in 2usize..5, slots in 1usize..4, kills in 0u32..3,
    ) {
        const GOAL: usize = 20;
        let (disk, exits) = nodes_on(&spec(GOAL as u64, slots), seed, nodes, kills, 0.0);
        prop_assert!(exits.iter().all(|exit| *exit == Some(Exit::Done)), "{exits:?}");
        let open = disk.trials.values().find(|t| t.state != TrialState::Complete);
        prop_assert_eq!(open, None);
        prop_assert_eq!(disk.trials.len(), GOAL);
        let points: BTreeSet<u64> = (disk.trials.values())
            .map(|t| t.params["x"].as_f64().unwrap().to_bits())
            .collect();
        prop_assert_eq!(points.len(), GOAL, "points that were tried twice");
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn nodes_reach_the_goal_choose_one_winner_and_test_it_once_whatever_their_workers_do(
        seed in 0u64..u64::MAX, nodes in 2usize..5, slots in 1usize..4, kills in 0u32..3, faults in 0.0..0.1,
    ) {
        const GOAL: usize = 12;
        let mut spec = spec(GOAL as u64, slots);
        spec.operation.repeats = 4;
        spec.operation.supervisor.checkpoint = true;
        let (disk, exits) = nodes_on(&spec, seed, nodes, kills, faults);
        let ends: BTreeSet<_> = exits.iter().map(|exit| exit.map(Exit::code)).collect();
        prop_assert_eq!(ends.len(), 1, "{:?}", exits);
        prop_assert!(matches!(exits[0], Some(Exit::Done | Exit::Breaker)), "{:?}", exits);
        if exits[0] == Some(Exit::Breaker) {
            return Ok(());
        }
        let of = |state| disk.trials.values().filter(|t| t.state == state).count();
        let finished = of(TrialState::Complete) + of(TrialState::Pruned);
        prop_assert_eq!((of(TrialState::Running), finished), (0, GOAL));
        let outcomes = disk.repeats.iter().filter_map(|(job, repeat)| match job.purpose {
            Purpose::Repeat(r) => Some(((job.number, r), repeat.ended.as_ref()?.value)),
            _ => None,
        });
        let outcomes = outcomes.collect();
        let mut history = History::new(vec![Direction::Minimize]);
        disk.trials.values().for_each(|trial| history.put(&spec.space, trial));
        let leaders = selection::leaders(history.entries(), Direction::Minimize, |_| true);
        // A node that is killed may leave one of a trial that does not lead any more, which nobody needs.
        let open = disk.repeats.iter().filter(|(_, repeat)| repeat.ended.is_none());
        let needed = open.map(|(job, _)| job.number).find(|n| leaders.iter().any(|l| l.number == *n));
        prop_assert_eq!(needed, None);
        let Next::Done(selection) = selection::next(&leaders, &outcomes, 4, Direction::Minimize) else {
            panic!("repeats are missing: {outcomes:?}");
        };
        let winner = selection.winner().map(|winner| winner.number);
        let tested: Vec<u64> = (disk.repeats.keys())
            .filter(|job| job.purpose == Purpose::Test)
            .map(|job| job.number)
            .collect();
        prop_assert_eq!(tested, Vec::from_iter(winner));
        let told = disk.attributes["selection"]["winner"]["number"].as_u64();
        prop_assert_eq!(told, winner);
    }
}
