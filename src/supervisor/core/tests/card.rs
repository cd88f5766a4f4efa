//! Several workers on one GPU, step by step: who may be on it, and what becomes of those that find no
//! room there.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::super::*;
use super::disk::Disk;
use super::driven::Driven;
use super::setup::{completed, error, exited, hello, received, spec, start, written};
use crate::WorkerEvent;
use config::Standby;
use device::{GpuSample, Sample};
use fault::Death;
use fault::Phase;
use protocol::{AttemptEvent, FromWorker, ToWorker};
use search::sampler::RandomSampler;
use task::{Epoch, Metrics, TrialSpec};

const GPU: Device = Device::Cuda(0);
const GIB: u64 = 1 << 30;
const OUT_OF_MEMORY: &str = "CUDA out of memory. Tried to allocate 16.00 MiB. GPU 0 has a total \
                             capacity of 900.00 MiB of which 3.56 MiB is free.";

/// A core whose slots share a GPU, and all that it has done.
pub struct Card {
    pub core: Driven,
    now: Now,
    disk: Disk,
    /// Workers that live, and what they train.
    workers: BTreeMap<WorkerId, Option<TrialSpec>>,
    /// Those of them that were told to leave.
    leaving: Vec<WorkerId>,
    started: u64,
    terminated: Vec<WorkerId>,
    said: Vec<String>,
    exit: Option<Exit>,
}

impl Card {
    fn new(slots: usize, spares: Standby) -> Card {
        let mut card = Card::before_its_run(slots, spares);
        card.event(Event::Ticked);
        card
    }

    fn before_its_run(slots: usize, spares: Standby) -> Card {
        Card::of(Card::start(slots, spares))
    }

    pub fn start(slots: usize, spares: Standby) -> Start {
        let mut spec = spec(50, slots);
        spec.operation.standby = spares;
        start(spec, vec![GPU; slots])
    }

    pub fn of(start: Start) -> Card {
        let stored = start.trials.iter().map(|t| (t.number, t.clone()));
        let disk = Disk {
            trials: stored.collect(),
            ..Disk::default()
        };
        Card {
            core: Driven::new(start, RandomSampler),
            now: Now::ZERO,
            disk,
            workers: BTreeMap::new(),
            leaving: vec![],
            started: 0,
            terminated: vec![],
            said: vec![],
            exit: None,
        }
    }

    /// An event and all that follows from it at once: the disk writes, processes are there.
    pub fn event(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for action in self.core.handle(event, self.now) {
                self.perform(action, &mut events);
            }
        }
    }

    fn perform(&mut self, action: Action, events: &mut VecDeque<Event>) {
        match action {
            Action::Worker(worker, WorkerAction::Spawn(_)) => {
                self.started += 1;
                self.workers.insert(worker, None);
                let pid = pid(worker);
                events.push_back(Event::Worker(worker, WorkerEvent::Spawned(pid)));
            }
            Action::Write { batch, writes } => {
                writes.iter().for_each(|w| self.disk.apply(w, 0));
                events.push_back(written(batch));
            }
            Action::Worker(worker, WorkerAction::Send(message)) => match message {
                ToWorker::Run { trial, .. } => {
                    self.workers.insert(worker, Some(*trial));
                }
                ToWorker::Exit => self.leaving.push(worker),
                ToWorker::Open { .. } | ToWorker::Decided { .. } => {}
            },
            Action::Worker(worker, WorkerAction::Terminate) => self.terminated.push(worker),
            Action::Report(report::Event::Warned { message }) => self.said.push(message),
            Action::Finish { exit, .. } => self.exit = Some(exit),
            Action::Worker(
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

    fn say(&mut self, worker: WorkerId, message: FromWorker) {
        self.event(received(worker, message));
    }

    fn says_hello(&mut self, worker: WorkerId) {
        self.say(worker, hello());
    }

    pub fn opens(&mut self, worker: WorkerId) {
        self.says_hello(worker);
        self.opens_device(worker);
        self.say(worker, FromWorker::Ready);
    }

    fn opens_device(&mut self, worker: WorkerId) {
        let capacity = 24 * GIB;
        let context = None;
        self.say(worker, FromWorker::DeviceOpened { capacity, context });
    }

    fn goes(&mut self, worker: WorkerId, death: Death) {
        self.workers.remove(&worker);
        self.leaving.retain(|w| *w != worker);
        self.event(exited(worker, death));
    }

    /// Those that were told to leave have left.
    pub fn all_leave(&mut self) {
        while let Some(worker) = self.leaving.first().copied() {
            self.goes(worker, Death::Exited(0));
        }
    }

    fn dies_opening(&mut self, worker: WorkerId, text: &str) {
        let error = error(Phase::Opening, text);
        self.says_hello(worker);
        self.say(worker, FromWorker::Fatal(error));
        self.goes(worker, Death::Exited(1));
    }

    fn attempt(&mut self, worker: WorkerId) -> AttemptId {
        let trial = self.workers.insert(worker, None).flatten().unwrap();
        AttemptId {
            number: trial.number,
            purpose: trial.purpose,
            attempt: trial.attempt,
        }
    }

    fn runs_out_of_memory(&mut self, worker: WorkerId) {
        let attempt = self.attempt(worker);
        let error = error(Phase::Training, OUT_OF_MEMORY);
        self.say(
            worker,
            FromWorker::Attempt(attempt, AttemptEvent::Failed(error)),
        );
    }

    pub fn completes(&mut self, worker: WorkerId) {
        let attempt = self.attempt(worker);
        let metrics = Metrics::from([("loss".into(), 0.5)]);
        let epoch = FromWorker::Attempt(
            attempt,
            AttemptEvent::EpochFinished(Epoch { epoch: 1, metrics }),
        );
        let ended = completed(attempt);
        self.say(worker, epoch);
        self.say(worker, ended);
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        self.event(Event::Ticked);
    }

    /// A look at the GPU: what is in use of it, in MiB, and by which processes.
    pub fn look(&mut self, used: u64, processes: &[(u32, u64)]) {
        let gpu = GpuSample {
            memory_total: 1024 << 20,
            memory_used: used << 20,
            processes: processes
                .iter()
                .map(|(pid, mib)| (*pid, mib << 20))
                .collect(),
            ..GpuSample::default()
        };
        let (host, gpus) = (None, vec![gpu]);
        let sample = Sample { host, gpus };
        self.event(Event::Sampled(sample));
    }

    /// What other people's processes use, in MiB, as far as the core knows.
    fn foreign(&self) -> u64 {
        self.core.device_memory(GPU, None).foreign >> 20
    }

    fn last(&self) -> WorkerId {
        self.started - 1
    }

    /// Workers and the trials that they train.
    pub fn training(&self) -> Vec<(WorkerId, u64, u32)> {
        let trains = |(worker, trial): (&WorkerId, &Option<TrialSpec>)| {
            trial.as_ref().map(|t| (*worker, t.number, t.attempt))
        };
        self.workers.iter().filter_map(trains).collect()
    }

    fn open_slots(&self) -> usize {
        let open = |s: &&Slot| s.closed.is_none();
        self.core.slots.iter().filter(open).count()
    }
}

fn pid(worker: WorkerId) -> u32 {
    worker as u32 + 100
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_trial_that_is_to_be_alone_shares_the_gpu_with_no_worker_at_all() {
    for spares in [Standby::Off, Standby::Auto] {
        let mut card = Card::new(2, spares);
        while card.training().len() < 2 || card.core.slots.iter().any(|s| !settled(s)) {
            let opening = (card.core.slots.iter()).find(|s| s.is_starting());
            let worker = opening.unwrap().worker().unwrap().id;
            card.opens(worker);
        }
        card.runs_out_of_memory(0);
        card.completes(1);
        // Whoever is told to leave leaves, whoever is started opens, until the trial runs again.
        for _ in 0..10 {
            card.all_leave();
            if card.training().iter().any(|(.., attempt)| *attempt == 1) {
                break;
            }
            let starting = |s: &&Slot| s.is_starting();
            let worker = card
                .core
                .slots
                .iter()
                .find(starting)
                .and_then(|s| s.worker());
            if let Some(worker) = worker.map(|w| w.id) {
                card.opens(worker);
            }
        }
        let again = card.training();
        assert_eq!(again.len(), 1, "{spares:?}");
        let (worker, number, attempt) = again[0];
        assert_eq!((number, attempt), (0, 1), "{spares:?}");
        assert_eq!(
            card.workers.len(),
            1,
            "{spares:?}: nobody else has a context"
        );
        card.pass(seconds(50));
        assert_eq!(card.workers.len(), 1, "{spares:?}: nor gets one meanwhile");
        card.completes(worker);
        assert!(card.workers.len() > 1, "{spares:?}: others come after it");
    }
}

/// Whether a slot holds a worker that is in an attempt, or a spare one that is ready.
fn settled(slot: &Slot) -> bool {
    slot.is_busy() || (slot.is_idle() && slot.spare)
}

#[test]
fn the_memory_of_a_worker_that_has_ended_is_never_another_programs() {
    // NVML tells processes apart, and where it does not.
    for told_apart in [true, false] {
        let mut card = Card::before_its_run(1, Standby::Off);
        card.look(20, &[]);
        card.opens(0);
        card.pass(seconds(5));
        let own = [(pid(0), 363)];
        let listed: &[(u32, u64)] = if told_apart { &own } else { &[] };
        card.look(383, listed);
        assert_eq!(card.foreign(), 20, "told apart: {told_apart}");
        card.runs_out_of_memory(0);
        card.all_leave();
        assert_eq!(
            card.foreign(),
            20,
            "the figure is of before its end: {told_apart}"
        );
        card.now += Duration::from_millis(500);
        card.look(383, listed);
        assert_eq!(card.foreign(), 20, "the driver is slow: {told_apart}");
        card.now += Duration::from_millis(500);
        card.look(20, &[]);
        assert_eq!(card.foreign(), 20, "told apart: {told_apart}");
        assert_eq!(card.said, [""; 0]);
        if told_apart {
            // A neighbour comes, with the number of the one that has ended.
            card.now += seconds(5);
            card.look(20, &[]);
            card.look(530, &[(pid(0), 500), (pid(1), 10)]);
            assert_eq!(card.foreign(), 520);
        }
    }
}

#[test]
fn without_a_device_the_gpu_is_given_up_at_once() {
    for text in [
        "No CUDA GPUs are available",
        "CUDA unknown error - this may be due to an incorrectly",
    ] {
        let mut card = Card::new(2, Standby::Auto);
        card.dies_opening(0, text);
        card.all_leave();
        card.pass(seconds(60));
        assert_eq!(card.started, 2, "nobody tries again: {text}");
        assert_eq!(card.exit, Some(Exit::Breaker));
        let given_up = |w: &&String| w.contains("is given up");
        assert_eq!(
            card.said.iter().filter(given_up).count(),
            3,
            "{:?}",
            card.said
        );
        assert!(
            !card.said.iter().any(|w| w.contains("segments")),
            "{:?}",
            card.said
        );
    }
}

#[test]
fn an_unknown_error_of_a_context_costs_the_budget_and_nothing_else() {
    let mut card = Card::new(1, Standby::Off);
    card.dies_opening(0, "CUDA error: unknown error");
    card.pass(seconds(5));
    assert_eq!((card.started, card.exit), (2, None));
    assert_eq!(card.core.slots[0].deaths(), 1);
}

#[test]
fn a_worker_that_finds_no_room_beside_our_own_trials_waits_and_nothing_is_given_up() {
    let mut card = Card::new(2, Standby::Off);
    card.opens(0);
    let text = "CUDA error: out of memory";
    let mut tried = vec![];
    for _ in 0..600 {
        let opening = card.workers.keys().find(|w| **w != 0).copied();
        if let Some(worker) = opening {
            tried.push(card.now.as_secs());
            card.dies_opening(worker, text);
        }
        let attempt = card.core.slots[0].attempt().unwrap();
        card.say(0, FromWorker::Attempt(attempt, AttemptEvent::Stepped(1)));
        card.pass(seconds(1));
    }
    assert_eq!(tried[..6], [0, 5, 15, 35, 75, 135]);
    assert_eq!((card.open_slots(), card.exit), (2, None));
    assert_eq!(card.core.slots[1].deaths(), 0);
    assert_eq!(card.said.len(), 1, "{:?}", card.said);
    let said = "slot 1 waits for memory of cuda:0: worker 1 found no room to open it (CUDA error: out \
                of memory (cudaErrorMemoryAllocation, 2)); other workers of this run use it. It tries \
                again when one of their trials ends, or in 5 s, later at longer intervals";
    assert_eq!(card.said[0], said);
    // The trial ends: there may be room.
    let before = card.started;
    card.completes(0);
    assert_eq!(card.started, before + 1);
    card.opens(before);
    assert_eq!(card.training().len(), 2);
}

#[test]
fn a_spare_worker_that_finds_no_room_is_no_news() {
    let mut card = Card::new(1, Standby::Auto);
    card.opens(0);
    for _ in 0..3 {
        let spare = card.last();
        assert_ne!(spare, 0);
        card.dies_opening(spare, OUT_OF_MEMORY);
        card.pass(seconds(20));
    }
    assert_eq!((card.open_slots(), card.exit), (2, None));
    assert_eq!(card.said, [""; 0]);
}

#[test]
fn what_other_programs_fill_is_waited_for_until_the_runs_time_is_up() {
    for seen in [true, false] {
        let mut card = Card::new(1, Standby::Off);
        card.core.spec.operation.timeout = Some(seconds(3_600));
        let mut tries = 0;
        while card.exit.is_none() {
            if seen {
                card.look(1000, &[(1, 1000)]);
            }
            if let Some(worker) = card.workers.keys().next().copied() {
                tries += 1;
                card.dies_opening(worker, OUT_OF_MEMORY);
            }
            if let Some(next) = card.core.next_deadline() {
                assert!(next > card.now, "it sleeps until then");
                card.pass(next - card.now);
            }
        }
        assert_eq!(card.exit, Some(Exit::Budget));
        assert!((60..70).contains(&tries), "{tries}");
        assert!(
            (6..=7).contains(&card.said.len()),
            "every ten minutes: {:?}",
            card.said
        );
        let other = "other processes use 1000 MiB of 1.0 GiB. It tries again in 5 s";
        assert_eq!(card.said[0].contains(other), seen, "{:?}", card.said);
    }
}

#[test]
fn a_gpu_that_is_too_small_for_a_worker_alone_is_not_waited_for() {
    let mut card = Card::new(1, Standby::Off);
    while card.exit.is_none() {
        card.look(20, &[]);
        if let Some(worker) = card.workers.keys().next().copied() {
            card.dies_opening(worker, OUT_OF_MEMORY);
        }
        card.pass(seconds(1));
    }
    assert_eq!((card.exit, card.started), (Some(Exit::Breaker), 6));
}

#[test]
fn a_first_allocation_without_room_says_nothing_about_segments() {
    let mut card = Card::new(2, Standby::Off);
    card.opens(0);
    card.dies_opening(1, OUT_OF_MEMORY);
    assert!(card.core.device_facts.expandable());
    assert_eq!(card.core.slots[1].deaths(), 0);
    assert!(
        card.said[0].starts_with("slot 1 waits for memory"),
        "{:?}",
        card.said
    );
}

#[test]
fn a_gpu_that_hangs_while_it_is_opened_is_told_of_and_does_not_cost_ten_minutes() {
    let mut card = Card::new(1, Standby::Off);
    card.says_hello(0);
    card.pass(seconds(3));
    card.opens_device(0);
    card.pass(seconds(1));
    card.say(0, FromWorker::Ready);
    card.goes(0, Death::Signaled(9));
    card.says_hello(1);
    card.pass(Duration::from_millis(9_900));
    assert_eq!(card.said, [""; 0]);
    for _ in 0..40 {
        card.pass(seconds(1));
    }
    let said = "slot 0: worker 1 has been opening cuda:0 for 10s (making its context); it is ended \
                after 1m";
    assert_eq!(card.said, [said], "once");
    assert!(card.terminated.is_empty());
    card.pass(seconds(11));
    assert_eq!(card.terminated, [1]);
}

#[test]
fn a_first_worker_has_the_configured_time_and_a_slow_machine_more_than_the_least() {
    let mut card = Card::new(2, Standby::Off);
    card.pass(seconds(30));
    card.opens(0);
    card.pass(seconds(569));
    assert!(
        !card.terminated.contains(&1),
        "20 times 30 s, and no more than was set"
    );
    card.pass(seconds(2));
    assert!(card.terminated.contains(&1));
    let told: Vec<bool> = card
        .said
        .iter()
        .map(|w| w.contains("starting its process"))
        .collect();
    assert_eq!(told, [true, true]);
}
