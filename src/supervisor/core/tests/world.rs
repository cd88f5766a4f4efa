//! The world around a core: processes, the disk, the clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::super::*;
use super::disk::Disk;
use super::driven::Driven;
use super::foreign::Foreign;
use super::setup::{completed, core, error, exited, hello, received, written};
use crate::refused_starts::RefusedStarts;
use crate::{BatchEvent, ExitInfo, WorkerEvent, WorkerOptions};
use fault::Death;
use fault::Phase;
use memory::Usage;
use protocol::{AttemptEvent, FromWorker, KeepBest, ToWorker};
use search::study::{Job, Purpose, Updates};
use store::{Changes, KnownTrials};
use task::Epoch;
use task::{Metrics, TrialSpec};
use weights::{Leader, Leaders};

#[derive(Debug, Clone, PartialEq)]
pub enum Life {
    Opening,
    Idle,
    Training(TrialSpec, u32),
    Hung,
    /// In the kernel: nothing ends it.
    Wedged,
}

/// A core and all that it talks to.
pub struct World {
    pub core: Driven,
    pub disk: Disk,
    /// Who else writes to the disk.
    pub foreign: Option<Foreign>,
    /// Whether proposals take their time, and the question that is on its way.
    pub late: bool,
    question: Option<(u64, Updates, u64)>,
    /// The writer's: the study as the core knows it, and starts that others got ahead of.
    seen: KnownTrials,
    refused: RefusedStarts,
    soon: Vec<Write>,
    pub unwritten: Vec<(u64, Vec<Write>)>,
    pub workers: BTreeMap<WorkerId, Life>,
    /// What workers answer at once to what the core has them told.
    answers: VecDeque<Event>,
    /// Processes that have ended, and of what.
    dead: BTreeMap<WorkerId, Event>,
    /// Workers that were started with blocking launches.
    forensic: BTreeSet<WorkerId>,
    /// Workers that were given a trial.
    used: BTreeSet<WorkerId>,
    /// Epochs that checkpoints hold, by trial; they survive everything.
    pub kept: BTreeMap<Job, u32>,
    /// Weights of the best epochs of trials that have not been forgotten, by epoch and value; and
    /// trials whose weights are kept. They survive everything.
    pub candidates: BTreeMap<u64, (u32, f64)>,
    pub weights: BTreeSet<u64>,
    /// What workers were told of weights in their last attempt.
    keeps: BTreeMap<WorkerId, Option<KeepBest>>,
    /// Epochs trained, by trial and repeat.
    pub trained: BTreeMap<Job, u32>,
    /// When workers were started since the last finished epoch.
    starts: Vec<Now>,
    pub now: Now,
    rng: ChaCha8Rng,
    faults: f64,
    /// How often a worker finds no room on its device.
    pub crowded: f64,
    pub finished: Option<Exit>,
    pub stop_asked: bool,
    pub spawns_after_stop: u32,
    pub events: u32,
}

impl World {
    pub fn new(spec: StudySpec, mut disk: Disk, seed: u64, faults: f64) -> World {
        disk.begin_run();
        let mut seen = KnownTrials::default();
        disk.changes(&mut seen, 0, None);
        World {
            core: core(spec, &disk),
            disk,
            foreign: None,
            late: false,
            question: None,
            seen,
            refused: RefusedStarts::default(),
            soon: vec![],
            unwritten: vec![],
            workers: BTreeMap::new(),
            answers: VecDeque::new(),
            dead: BTreeMap::new(),
            forensic: BTreeSet::new(),
            used: BTreeSet::new(),
            kept: BTreeMap::new(),
            candidates: BTreeMap::new(),
            weights: BTreeSet::new(),
            keeps: BTreeMap::new(),
            trained: BTreeMap::new(),
            starts: vec![],
            now: Now::ZERO,
            rng: study::rng(seed, 0, "world"),
            faults,
            crowded: 0.0,
            finished: None,
            stop_asked: false,
            spawns_after_stop: 0,
            events: 0,
        }
    }

    /// What a run does before its core is made.
    pub fn keep_weights_at_start(&mut self) {
        if let Some(most) = weights_kept(&self.core.spec) {
            let trials: Vec<FrozenTrial> = self.disk.trials.values().cloned().collect();
            let leaders = Leaders::new(self.core.spec.directions(), most, &trials);
            self.keep_weights(leaders.best());
        }
        let running = |n: &u64| !self.disk.trials[n].state.finished();
        self.candidates.retain(|n, _| running(n));
    }

    fn keep_weights(&mut self, leaders: &[Leader]) {
        let there = leaders.iter().filter(|leader| {
            assert!(self.disk.trials[&leader.number].state.finished(), "durably");
            let (Some(epoch), Some(value)) = (leader.epoch, leader.values.first()) else {
                panic!("{leader:?}")
            };
            self.weights.contains(&leader.number)
                || self.candidates.get(&leader.number) == Some(&(epoch, *value))
        });
        self.weights = there.map(|leader| leader.number).collect();
    }

    pub fn run(&mut self, most: u32) {
        self.event(Event::Ticked);
        while self.finished.is_none() && self.events < most {
            self.step();
        }
    }

    /// What happens next.
    pub fn step(&mut self) {
        self.now += Duration::from_millis(self.rng.random_range(1..2_000));
        let event = self.next_event();
        self.event(event);
    }

    pub fn event(&mut self, event: Event) {
        self.events += 1;
        let actions = match self.late {
            true => self.core.one(event, self.now),
            false => self.core.handle(event, self.now),
        };
        actions.into_iter().for_each(|action| self.perform(action));
        self.check_invariants();
        if let Some(answer) = self.answers.pop_front() {
            self.event(answer);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Worker(worker, WorkerAction::Spawn(WorkerOptions { forensic, .. })) => {
                self.spawns_after_stop += u32::from(self.stop_asked);
                self.workers.insert(worker, Life::Opening);
                if forensic {
                    self.forensic.insert(worker);
                }
                self.starts.push(self.now);
            }
            Action::Worker(worker, WorkerAction::Send(message)) => self.receive(worker, message),
            Action::Worker(worker, WorkerAction::Terminate) => {
                if self.rng.random_bool(0.8) {
                    self.kill(worker, 15);
                }
            }
            Action::Worker(worker, WorkerAction::Kill) => self.kill(worker, 9),
            Action::Worker(_, WorkerAction::Continue) => {}
            Action::Worker(worker, WorkerAction::Abandon) => {
                assert_eq!(self.workers.remove(&worker), Some(Life::Wedged));
            }
            Action::KeepWeights(leaders, _) => self.keep_weights(&leaders),
            Action::Forget(job) => {
                let durably = match job.searches() {
                    true => {
                        let trial = self.disk.glimpse(job.number, None);
                        trial.is_none_or(|t| t.state.finished() || t.held_by != store::HeldBy::Run)
                    }
                    false => self.disk.repeats[&job].ended.is_some(),
                };
                assert!(durably, "ended durably");
                self.kept.remove(&job);
                self.candidates.remove(&job.number);
            }
            Action::Write { batch, writes } => {
                let starts = |w: &Write| matches!(w, Write::TrialCreated { .. });
                if writes.iter().any(starts) {
                    let active = self.core.active.keys().filter(|j| j.searches()).count() as u64;
                    let sure = self.core.counts().finished() + active;
                    assert!(
                        sure <= self.core.spec.operation.trials,
                        "not beyond the goal"
                    );
                }
                self.unwritten.push((batch, writes));
            }
            Action::WriteSoon(write) => self.soon.push(write),
            Action::Propose { number, news, seed } => {
                let before = self.question.replace((number, news, seed));
                assert!(before.is_none(), "one question at a time");
            }
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
        if *life == Life::Wedged {
            return;
        }
        match message {
            ToWorker::Open { .. } | ToWorker::Decided { .. } => {}
            ToWorker::Run {
                trial,
                checkpoint,
                keep_best,
                ..
            } => {
                self.keeps.insert(worker, keep_best);
                assert_eq!(*life, Life::Idle, "one attempt at a time");
                let attempts = self.disk.attempts_of(trial.job());
                if !trial.job().searches() {
                    assert_eq!(trial.seed, self.disk.repeats[&trial.job()].seed);
                }
                assert_eq!(
                    attempts.len() as u32,
                    trial.attempt + 1,
                    "recorded before it is sent"
                );
                let mut tally = Tally::default();
                attempts.iter().flatten().for_each(|w| tally.add_word(w));
                let fresh = self.used.insert(worker);
                assert!(fresh || trial.attempt == 0, "again: on a fresh worker");
                let forensic = self.forensic.contains(&worker);
                assert_eq!(forensic, tally.suspected > 0, "suspects and nobody else");
                if tally.oom > 0 {
                    let others = self.core.others_on_device_of(worker);
                    let others = others.filter(|w| self.workers.contains_key(w)).count();
                    assert_eq!(others, 0, "alone on the device, idle workers included");
                }
                let from = checkpoint.and_then(|_| self.kept.get(&trial.job()));
                let from = from.copied().unwrap_or(0);
                let resumed = FromWorker::Attempt(
                    id(&trial),
                    AttemptEvent::Resumed((1..=from).map(|e| finished(&trial, e)).collect()),
                );
                self.workers.insert(worker, Life::Training(*trial, from));
                if from > 0 {
                    self.answers.push_back(received(worker, resumed));
                }
            }
            ToWorker::Exit => {
                self.workers.remove(&worker);
                self.dead.insert(worker, exited(worker, Death::Exited(0)));
            }
        }
    }

    fn kill(&mut self, worker: WorkerId, signal: i32) {
        if self.workers.get(&worker) == Some(&Life::Wedged) {
            return;
        }
        if self.workers.remove(&worker).is_some() {
            let event = exited(worker, Death::Signaled(signal));
            self.dead.insert(worker, event);
        }
    }

    fn next_event(&mut self) -> Event {
        if let Some((_, event)) = self.dead.pop_first() {
            return event;
        }
        if let Some(foreign) = &mut self.foreign {
            foreign.act(&mut self.disk);
            if self.rng.random_bool(0.1) {
                let changes = self.disk.changes(&mut self.seen, 0, None);
                return Event::StudyChanged(changes);
            }
        }
        if self.question.is_some()
            && self.rng.random_bool(0.3)
            && let Some((number, news, seed)) = self.question.take()
        {
            return self.core.answer(number, news, seed);
        }
        if !self.unwritten.is_empty() && self.rng.random_bool(0.7) {
            return self.write();
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

    /// Does what the writer does with the oldest batch.
    fn write(&mut self) -> Event {
        let (batch, writes) = self.unwritten.remove(0);
        if writes.iter().any(|w| matches!(w, Write::RunEnded { .. })) {
            let changes = self.disk.changes(&mut self.seen, 0, None);
            self.event(Event::StudyChanged(changes));
        }
        let all: Vec<Write> = self.soon.drain(..).chain(writes).collect();
        let (writes, mut late) = self.refused.without(&all);
        let carried = self.disk.carry_out(&writes, &mut self.seen, None);
        late.extend(carried.late);
        self.refused.given(carried.renumbered.values());
        self.refused.add(&late);
        if late.is_empty() && carried.renumbered.is_empty() {
            return written(batch);
        }
        assert!(self.foreign.is_some(), "nobody else is there: {late:?}");
        let changes = match late.is_empty() {
            true => Changes::default(),
            false => self.disk.changes(&mut self.seen, 0, None),
        };
        Event::Batch(
            batch,
            BatchEvent::Overtaken {
                late,
                renumbered: carried.renumbered,
                changes,
            },
        )
    }

    fn progress(&mut self, worker: WorkerId) -> Event {
        if self.crowded > 0.0
            && self.workers[&worker] == Life::Opening
            && self.rng.random_bool(self.crowded)
        {
            self.workers.remove(&worker);
            self.dead.insert(worker, exited(worker, Death::Exited(1)));
            let error = error(
                Phase::Opening,
                "CUDA out of memory. Tried to allocate 20.00 MiB",
            );
            let message = FromWorker::Fatal(error);
            return received(worker, message);
        }
        let life = self.workers.get_mut(&worker).unwrap();
        let message = match life {
            Life::Opening => {
                *life = Life::Idle;
                let hello = hello();
                self.event(Event::Worker(worker, WorkerEvent::Spawned(7)));
                self.event(received(worker, hello));
                FromWorker::Ready
            }
            Life::Training(trial, epoch) if *epoch < 3 => {
                *epoch += 1;
                *self.trained.entry(trial.job()).or_default() += 1;
                if self.core.spec.operation.supervisor.checkpoint {
                    self.kept.insert(trial.job(), *epoch);
                }
                self.starts.clear();
                let Epoch { epoch, metrics } = finished(trial, *epoch);
                // Each epoch is the best so far.
                let passes = |keep: &KeepBest| keep.better_than.is_none_or(|b| metrics["loss"] < b);
                if self.keeps[&worker].as_ref().is_some_and(passes) {
                    self.candidates
                        .insert(trial.number, (epoch, metrics["loss"]));
                }
                FromWorker::Attempt(
                    id(trial),
                    AttemptEvent::EpochFinished(Epoch { epoch, metrics }),
                )
            }
            Life::Training(trial, _) => {
                let attempt = id(trial);
                *life = Life::Idle;
                let usage = Usage {
                    resident: Some(1 << 20),
                    ..Usage::default()
                };
                self.event(received(
                    worker,
                    FromWorker::Attempt(attempt, AttemptEvent::Measured(usage)),
                ));
                completed(attempt)
            }
            Life::Idle | Life::Hung | Life::Wedged => return Event::Ticked,
        };
        received(worker, message)
    }

    fn fault(&mut self, worker: WorkerId) -> Event {
        let life = self.workers[&worker].clone();
        if life == Life::Wedged {
            return Event::Ticked;
        }
        let received = |message| received(worker, message);
        match (self.rng.random_range(0..11), life) {
            (0, Life::Training(..)) => {
                self.workers.insert(worker, Life::Hung);
                Event::Ticked
            }
            (1, Life::Training(trial, _)) => {
                self.workers.insert(worker, Life::Idle);
                received(failed(&trial, "index out of range"))
            }
            (2, Life::Training(trial, _)) => {
                self.workers.insert(worker, Life::Idle);
                received(failed(
                    &trial,
                    "CUDA out of memory. Tried to allocate 16.00 MiB",
                ))
            }
            (3, Life::Training(..)) => {
                self.workers.remove(&worker);
                self.dead.insert(worker, exited(worker, Death::Exited(70)));
                received(FromWorker::Fatal(error(
                    Phase::Seeding,
                    "CUDA error: an illegal memory access",
                )))
            }
            (4, Life::Training(..)) => {
                self.workers.insert(worker, Life::Wedged);
                Event::Ticked
            }
            (5, _) => Event::Worker(worker, WorkerEvent::Garbled("no message".into())),
            (6, _) => Event::Worker(worker, WorkerEvent::Stopped),
            (7, _) => Event::Worker(worker, WorkerEvent::HungUp),
            (8, _) => {
                self.workers.remove(&worker);
                exited(worker, Death::Signaled(11))
            }
            (9, _) => {
                self.workers.remove(&worker);
                let oom_kills = 1;
                let info = ExitInfo {
                    oom_kills,
                    ..ExitInfo::of(Death::Signaled(9))
                };
                Event::Worker(worker, WorkerEvent::Exited(info))
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
            held.extend(slot.attempt());
        }
        let jobs: BTreeSet<Job> = held.iter().map(|a| a.job()).collect();
        assert_eq!(jobs.len(), held.len(), "one live attempt a trial");
        for a in &held {
            let job = a.job();
            let active = self.core.active.contains_key(&job);
            assert!(active || self.foreign.is_some());
            assert!(!self.core.retry.contains(&job));
        }
        self.check_nothing_forgotten();
        for slot in &self.core.slots {
            let active = slot.attempt().and_then(|a| self.core.active.get(&a.job()));
            if let Some(worker) = slot
                .worker()
                .filter(|_| active.is_some_and(ActiveTrial::alone))
            {
                let others: Vec<_> = self.core.others_on_device_of(worker.id).collect();
                assert_eq!(
                    others, [0; 0],
                    "beside a trial that has the device to itself"
                );
            }
        }
        for job in self.core.active.keys() {
            let waits = self.core.retry.contains(job);
            assert!(waits != jobs.contains(job), "a live trial waits or runs");
        }
        if self.core.slots.len() == 1 && !self.core.spec.runs_programs() {
            let recent = |t: &&Now| self.now.saturating_sub(**t) <= Duration::from_secs(60);
            let starts = self.starts.iter().filter(recent).count();
            // Besides deaths, a suspect's worker and the one after it cost a start each.
            assert!(starts <= 9, "restarts within budget: {:?}", self.starts);
        }
        let goal = self.core.spec.operation.trials;
        let counts = self.core.counts();
        let active = self.core.active.keys().filter(|j| j.searches()).count() as u64;
        if self.foreign.is_none() {
            assert!(counts.finished() + active <= goal.max(counts.finished()));
        }
        if self.core.active.len() as u64 > active {
            assert_eq!(active, 0, "repeats come after the search");
        }
    }
}

impl World {
    /// A trial of ours that runs on disk is known to the core, or its end is on its way.
    fn check_nothing_forgotten(&self) {
        let ends = |write: &Write, n: u64| matches!(write, Write::TrialFinished { number, .. } if *number == n);
        for number in self.disk.holders.keys() {
            if self.disk.trials[number].state == TrialState::Running {
                let active = self.core.active.contains_key(&Job::trial(*number));
                let sent = self.unwritten.iter().flat_map(|(_, writes)| writes);
                let mut coming = sent.chain(&self.core.outbox);
                let ended = coming.any(|w| ends(w, *number));
                assert!(active || ended, "trial {number} is forgotten");
            }
        }
    }
}

/// What a trial reports at an epoch.
pub fn finished(trial: &TrialSpec, epoch: u32) -> Epoch {
    let x = trial.config["x"].as_f64().unwrap();
    // The search's own values are lucky or not; repeats differ by their seeds.
    let noise = match trial.purpose {
        Purpose::Search => 0.0,
        Purpose::Repeat(_) | Purpose::Test => (trial.seed % 1000) as f64 / 1e4,
    };
    let loss = x + noise + f64::from(3 - epoch);
    let mut metrics = Metrics::from([("loss".into(), loss)]);
    if trial.tests() {
        metrics.insert("test.loss".into(), loss + 1.0);
    }
    Epoch { epoch, metrics }
}

/// A trial has failed with an error that its worker has survived.
pub fn failed(trial: &TrialSpec, text: &str) -> FromWorker {
    FromWorker::Attempt(
        id(trial),
        AttemptEvent::Failed(error(Phase::Training, text)),
    )
}

/// The attempt that a worker is told to make.
pub fn id(trial: &TrialSpec) -> AttemptId {
    AttemptId {
        number: trial.number,
        purpose: trial.purpose,
        attempt: trial.attempt,
    }
}

/// Number, parameters and values of the trials on disk.
pub fn results(disk: &Disk) -> Vec<(u64, TrialState, Params, Vec<f64>)> {
    disk.trials
        .values()
        .map(|t| (t.number, t.state, t.params.clone(), t.values.clone()))
        .collect()
}

impl Core {
    /// Workers, spare ones included, that are on the same device as this one.
    pub fn others_on_device_of(&self, worker: WorkerId) -> impl Iterator<Item = WorkerId> {
        let device = self.slot_of(worker).map(|s| self.slots[s].device);
        let there = self.slots.iter().filter(move |s| Some(s.device) == device);
        let there = there.filter_map(|s| Some(s.worker()?.id));
        there.filter(move |w| *w != worker)
    }
}
