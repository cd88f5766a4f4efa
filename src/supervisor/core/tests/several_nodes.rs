//! Several cores on one study, each with a writer of its own, in any order: leases end while their nodes work, nodes are
//! killed, looks are old when they arrive.

#![allow(clippy::wildcard_enum_match_arm)]

use std::collections::VecDeque;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::refused_starts::RefusedStarts;
use crate::{BatchEvent, WorkerAction};
use protocol::ToWorker;
use search::sampler::RandomSampler;
use search::study::Updates;
use store::{AttemptRecord, Changes, HeldBy, KnownTrials, OtherNodes, Reclaimable, TrialSummary};

/// What is durable of a trial.
struct Row {
    trial: FrozenTrial,
    /// The node that holds it.
    holder: usize,
    attempts: Vec<AttemptRecord>,
}

/// What all share.
#[derive(Default)]
struct Server {
    rows: Vec<Row>,
    /// The nodes whose leases go on.
    live: BTreeSet<usize>,
}

impl Server {
    fn glimpse(&self, number: u64, asks: usize) -> Option<TrialSummary> {
        let row = self.rows.get(number as usize)?;
        let held_by = match row.holder {
            holder if holder == asks => HeldBy::Run,
            // A finished trial is never a node's.
            holder if self.live.contains(&holder) && !row.trial.state.finished() => HeldBy::Node,
            _ => HeldBy::Nobody,
        };
        Some(TrialSummary {
            state: row.trial.state,
            held_by,
            struck: false,
        })
    }

    /// What a look finds, of all trials or of the recent ones.
    fn changes(&self, node: &mut Node, whole: bool) -> Changes {
        let at = node.at;
        let first = if whole { 0 } else { node.seen.first_open() };
        let numbers = 0..self.rows.len() as u64;
        let now = |n| Some((n, self.glimpse(n, at)?));
        let compared = node.seen.update(
            first,
            numbers
                .clone()
                .skip(first as usize)
                .filter_map(now)
                .collect(),
        );
        let row = |number: u64| &self.rows[number as usize];
        let running = |by: HeldBy| {
            let is = move |n: &u64| {
                let trial = self.glimpse(*n, at).unwrap();
                trial.state == TrialState::Running && trial.held_by == by
            };
            numbers.clone().filter(is)
        };
        let left = running(HeldBy::Nobody).map(|number| {
            let attempts = row(number).attempts.clone();
            (row(number).trial.clone(), Reclaimable { number, attempts })
        });
        let nodes = OtherNodes {
            running: running(HeldBy::Node).map(Job::trial).collect(),
            left: left.collect(),
            repeats: Vec::new(),
        };
        let told = (nodes != node.told).then(|| nodes.clone());
        node.told = nodes;
        Changes {
            gone: compared.gone,
            lost: compared.lost,
            trials: compared
                .read
                .iter()
                .map(|n| row(*n).trial.clone())
                .collect(),
            nodes: told,
        }
    }

    /// Carries out what nobody got ahead of. Gives what was left out, and the numbers that new trials got.
    fn carry_out(&mut self, writes: &[Write], node: &mut Node) -> (Vec<Write>, BTreeMap<u64, u64>) {
        let (mut late, mut renumbered) = (Vec::new(), BTreeMap::new());
        for write in writes {
            let next = match write {
                Write::TrialReclaimed { number, .. } => {
                    self.rows[*number as usize].attempts.len() as u64
                }
                _ => self.rows.len() as u64,
            };
            let twin = matches!(write, Write::TrialCreated { since, params, .. }
                if self.rows[*since as usize..].iter().any(|row| row.trial.params == *params));
            if !twin && let Some(asked) = node.seen.renumbered(write, next) {
                renumbered.insert(asked, next);
            }
            let given = write.number().and_then(|n| renumbered.get(&n));
            let now = given.map_or_else(|| write.clone(), |number| write.under(*number));
            let trial = now.number().and_then(|n| self.glimpse(n, node.at));
            if twin || store::overtaken(&now, trial, None, next) {
                late.push(write.clone());
            } else {
                self.apply(&now, node.at);
                node.seen.note(&now);
            }
        }
        (late, renumbered)
    }

    fn apply(&mut self, write: &Write, by: usize) {
        let number = write.number().unwrap_or_default() as usize;
        match write {
            Write::TrialCreated { number, params, .. } => {
                assert_eq!(*number, self.rows.len() as u64, "numbers have no gaps");
                self.rows.push(Row {
                    trial: FrozenTrial::new(*number, TrialState::Running, params.clone()),
                    holder: by,
                    attempts: Vec::new(),
                });
            }
            Write::TrialReclaimed { .. } => self.rows[number].holder = by,
            Write::AttemptStarted { id, .. } => {
                let attempts = &mut self.rows[number].attempts;
                assert_eq!(attempts.len(), id.attempt as usize, "attempts have no gaps");
                attempts.push(attempt(id.attempt, by));
            }
            Write::TrialFinished { state, values, .. } => {
                let trial = &mut self.rows[number].trial;
                trial.state = trial.state.next(*state).unwrap();
                trial.values = values.clone();
            }
            Write::RunEnded { .. } => _ = self.live.remove(&by),
            _ => {}
        }
    }
}

fn attempt(attempt: u32, by: usize) -> AttemptRecord {
    AttemptRecord {
        attempt,
        run_id: by as i64,
        worker: 0,
        pid: 1,
        device: "cpu".into(),
        log: String::new(),
        started: String::new(),
        ended: None,
        outcome: None,
        detail: String::new(),
        again: false,
    }
}

/// A node: its core, its writer and its workers.
struct Node {
    at: usize,
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
    workers: BTreeMap<WorkerId, Option<AttemptId>>,
    finished: Option<Exit>,
}

impl Node {
    fn joins(at: usize, spec: StudySpec, server: &mut Server) -> Node {
        let slots = spec.operation.parallel.slots(&[Device::Cpu], 1);
        server.live.insert(at);
        let begin = start(spec, vec![Device::Cpu; slots]);
        let mut node = Node {
            at,
            core: Driven::new(begin, RandomSampler),
            seen: KnownTrials::of_run(at as i64),
            told: OtherNodes::default(),
            refused: RefusedStarts::default(),
            unwritten: VecDeque::new(),
            awaited: false,
            question: None,
            events: [Event::Ticked].into(),
            workers: BTreeMap::new(),
            finished: None,
        };
        let all = server.changes(&mut node, true);
        let begin = Start {
            node: Some(at as i64),
            nodes: all.nodes,
            trials: all.trials,
            ..start(node.core.spec.clone(), vec![Device::Cpu; slots])
        };
        node.core = Driven::new(begin, RandomSampler);
        node
    }

    fn takes(&mut self, event: Event) {
        for action in self.core.one(event, Now::ZERO) {
            match action {
                Action::Worker(worker, WorkerAction::Spawn(_)) => {
                    self.workers.insert(worker, None);
                    let spawned = Event::Worker(worker, WorkerEvent::Spawned(7));
                    let says = [hello(), FromWorker::Ready].map(|m| received(worker, m));
                    self.events.extend([spawned].into_iter().chain(says));
                }
                Action::Worker(worker, WorkerAction::Send(ToWorker::Run { trial, .. })) => {
                    let attempt = trial.job().attempt(trial.attempt);
                    if let Some(at) = self.workers.get_mut(&worker) {
                        assert_eq!(at.replace(attempt), None, "one attempt at a time");
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
                Action::Worker(..)
                | Action::WriteSoon(_)
                | Action::KeepWeights(_)
                | Action::Forget(_)
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
    fn writes(&mut self, server: &mut Server) {
        let Some((batch, all)) = self.unwritten.pop_front() else {
            return;
        };
        // The lease is renewed before.
        server.live.insert(self.at);
        if all.iter().any(|w| matches!(w, Write::RunEnded { .. })) {
            self.looks(server, true);
        }
        let (writes, mut late) = self.refused.without(&all);
        let (refused, renumbered) = server.carry_out(&writes, self);
        late.extend(refused);
        self.refused.recorded(&writes);
        self.refused.given(renumbered.values());
        self.refused.add(&late);
        self.awaited |= !renumbered.is_empty();
        let event = match late.is_empty() && renumbered.is_empty() {
            true => BatchEvent::Written,
            false => BatchEvent::Overtaken {
                refused: RefusedStarts::of(&late),
                renumbered,
                changes: match late.is_empty() {
                    true => Changes::default(),
                    false => server.changes(self, false),
                },
            },
        };
        self.events.push_back(Event::Batch(batch, event));
    }

    fn looks(&mut self, server: &Server, whole: bool) {
        let changes = server.changes(self, whole);
        if std::mem::take(&mut self.awaited) || !changes.is_empty() {
            self.events.push_back(Event::StudyChanged(changes));
        }
    }

    /// A worker comes to the end of what it trains.
    fn trains(&mut self, rng: &mut ChaCha8Rng) {
        let busy = self.workers.iter_mut().filter(|(_, at)| at.is_some());
        let mut busy: Vec<_> = busy.collect();
        if busy.is_empty() {
            return;
        }
        let (worker, at) = busy.swap_remove(rng.random_range(0..busy.len()));
        let attempt = at.take().unwrap();
        let loss = rng.random_range(0.0..1.0);
        let says = [epoch(attempt, 1, loss), completed(attempt)];
        self.events.extend(says.map(|m| received(*worker, m)));
    }

    /// What happens next on it.
    fn goes_on(&mut self, server: &mut Server, rng: &mut ChaCha8Rng) {
        match rng.random_range(0..10) {
            0..4 => match self.events.pop_front() {
                Some(event) => self.takes(event),
                None => self.takes(Event::Ticked),
            },
            4..6 => self.writes(server),
            6 => self.looks(server, rng.random_bool(0.1)),
            7 => self.trains(rng),
            8 => {
                if let Some((number, news, seed)) = self.question.take() {
                    let answer = self.core.answer(number, news, seed);
                    self.events.push_back(answer);
                }
            }
            // Nothing is heard of it for a while.
            _ if rng.random_bool(0.02) => _ = server.live.remove(&self.at),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn nodes_make_exactly_the_trials_of_the_goal_and_none_twice(
        seed in 0u64..u64::MAX, nodes in 2usize..5, slots in 1usize..4, kills in 0u32..3,
    ) {
        const GOAL: u64 = 20;
        let mut rng = study::rng(seed, 0, "nodes");
        let mut server = Server::default();
        let mut working = Vec::new();
        let mut joining: Vec<usize> = (1..=nodes).collect();
        let mut kills = kills;
        for _ in 0..200_000 {
            if !joining.is_empty() && rng.random_bool(0.02) {
                working.push(Node::joins(joining.remove(0), spec(GOAL, slots), &mut server));
            }
            if kills > 0 && working.len() > 1 && rng.random_bool(0.002) {
                kills -= 1;
                let killed = working.swap_remove(rng.random_range(0..working.len()));
                server.live.remove(&killed.at);
            }
            if working.is_empty() {
                continue;
            }
            let at = rng.random_range(0..working.len());
            if working[at].finished.is_none() {
                working[at].goes_on(&mut server, &mut rng);
            }
            if joining.is_empty() && working.iter().all(|n| n.finished.is_some()) {
                break;
            }
        }
        for node in &working {
            prop_assert_eq!(node.finished, Some(Exit::Done), "node {}", node.at);
        }
        let trials = || server.rows.iter().map(|row| &row.trial);
        let open = trials().find(|t| t.state != TrialState::Complete);
        prop_assert_eq!(open, None);
        prop_assert_eq!(server.rows.len() as u64, GOAL);
        let points: BTreeSet<u64> = trials()
            .map(|t| t.params["x"].as_f64().unwrap().to_bits())
            .collect();
        prop_assert_eq!(points.len() as u64, GOAL, "points that were tried twice");
    }
}
