//! What the supervisor's event loop costs: `cargo bench --bench events`.
//!
//! One trial after the other through the core, from its proposal to its end, in a study that has this
//! many already. Criterion shows the time of a whole trial (a dozen events, and the proposal, which is made on
//! another thread in a run); the longest that a single event has kept the loop is printed after it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm
)]

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use config::{Overrides, StudySpec, resolve};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use device::Device;
use memory::Predictor;
use protocol::{AttemptEvent, AttemptId, FromWorker, ToWorker, VERSION};
use search::pruner::pruner;
use search::sampler::{Ask, RandomSampler, Sampler, sampler};
use search::study::{FrozenTrial, History, TrialState};
use supervisor::core::{Core, Start};
use supervisor::{Action, BatchEvent, Event, ExitInfo, Now, Proposer, WorkerAction, WorkerEvent};
use task::{Ended, Epoch, Metrics};

const EPOCHS: u32 = 9;

fn spec(kind: &str) -> StudySpec {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/synthetic.toml");
    let mut spec = resolve(&file, &Overrides::default()).unwrap();
    spec.operation.trials = 1 << 40;
    spec.operation.sampler.kind = kind.into();
    spec
}

/// Complete trials, drawn at random.
fn trials(spec: &StudySpec, count: u64) -> Vec<FrozenTrial> {
    let history = History::new(spec.directions());
    let drawn = (0..count).map(|number| {
        let ask = Ask {
            space: &spec.space,
            history: &history,
            number,
            seed: 1,
        };
        let params = RandomSampler.suggest(&ask).unwrap();
        let value: f64 = spec.space.encode(&params).iter().map(|x| x.sin()).sum();
        let curve = (1..=i64::from(EPOCHS)).map(|t| (t, value + 1.0 / t as f64));
        FrozenTrial {
            trial_id: number as i64,
            distributions: spec.space.distributions(&params),
            values: vec![value],
            intermediate: curve.collect(),
            ..FrozenTrial::new(number, TrialState::Complete, params)
        }
    });
    drawn.collect()
}

/// A core, one worker that answers at once, and a disk that is always ready.
struct Loop {
    core: Core,
    objective: String,
    queue: VecDeque<Event>,
    now: Now,
    attempt: Option<AttemptId>,
    epoch: u32,
    proposer: Proposer,
    /// The longest that an event kept the loop from the next one.
    longest: Duration,
}

impl Loop {
    fn new(kind: &str, count: u64) -> Loop {
        let spec = spec(kind);
        let operation = &spec.operation;
        let proposer = Proposer::new(sampler(&operation.sampler).unwrap(), &spec);
        let core = Core::new(Start {
            node: None,
            nodes: None,
            database: "tune.db".into(),
            dir: "tune.db.d".into(),
            trials: trials(&spec, count),
            reclaimed: vec![],
            devices: vec![Device::Cpu],
            threads: 1,
            baseline: None,
            test: None,
            repeats: vec![],
            selected: None,
            sampler: proposer.name(),
            pruner: pruner(&operation.pruner, &spec.horizon()).unwrap(),
            predictor: Predictor::new(spec.space.clone(), None),
            peaks: vec![],
            spec: spec.clone(),
        });
        Loop {
            core,
            objective: spec.objective.metric,
            queue: VecDeque::from([Event::Ticked]),
            now: Now::ZERO,
            attempt: None,
            epoch: 0,
            proposer,
            longest: Duration::ZERO,
        }
    }

    /// Until the next trial has ended.
    fn trial(&mut self) {
        loop {
            let event = self.queue.pop_front().unwrap_or(Event::Ticked);
            self.now += Duration::from_millis(1);
            let start = Instant::now();
            let mut actions = self.core.on_event(event, self.now, self.now);
            actions.extend(self.core.start_work(self.now));
            self.longest = self.longest.max(start.elapsed());
            let mut over = false;
            for action in actions {
                over |= matches!(&action, Action::Report(report::Event::TrialFinished(_)));
                self.perform(action);
            }
            if over {
                return;
            }
        }
    }

    fn perform(&mut self, action: Action) {
        let worker = match &action {
            Action::Worker(worker, WorkerAction::Spawn(_) | WorkerAction::Send(_)) => *worker,
            _ => 0,
        };
        let hello = || FromWorker::Hello {
            protocol: VERSION,
            version: env!("CARGO_PKG_VERSION").into(),
        };
        let mut said = Vec::new();
        match action {
            Action::Worker(worker, WorkerAction::Spawn(_)) => {
                self.queue
                    .push_back(Event::Worker(worker, WorkerEvent::Spawned(7)));
                said.push(hello());
            }
            Action::Write { batch, .. } => self
                .queue
                .push_back(Event::Batch(batch, BatchEvent::Written)),
            Action::Propose { number, news, seed } => {
                let answer = self.proposer.answer(number, news, seed);
                self.queue.push_back(answer);
            }
            Action::Worker(_, WorkerAction::Send(message)) => match message {
                ToWorker::Open { .. } => said.push(FromWorker::Ready),
                ToWorker::Run { trial, .. } => {
                    self.epoch = 0;
                    self.attempt = Some(AttemptId {
                        number: trial.number,
                        purpose: trial.purpose,
                        attempt: trial.attempt,
                    });
                    said.push(self.next());
                }
                ToWorker::Decided { prune } => {
                    if prune {
                        self.epoch = EPOCHS;
                    }
                    said.push(self.next());
                }
                ToWorker::Exit => self.queue.push_back(Event::Worker(
                    worker,
                    WorkerEvent::Exited(ExitInfo::of(fault::Death::Exited(0))),
                )),
            },
            _ => {}
        }
        for message in said {
            self.queue
                .push_back(Event::Worker(worker, WorkerEvent::Received(message)));
        }
    }

    /// What the worker says next of its attempt.
    fn next(&mut self) -> FromWorker {
        let attempt = self.attempt.unwrap();
        if self.epoch == EPOCHS {
            return FromWorker::Attempt(attempt, AttemptEvent::Ended(Ended::Completed));
        }
        self.epoch += 1;
        let value = (attempt.number as f64).sin() + 1.0 / f64::from(self.epoch);
        let epoch = Epoch {
            epoch: self.epoch,
            metrics: Metrics::from([(self.objective.clone(), value)]),
        };
        FromWorker::Attempt(attempt, AttemptEvent::EpochFinished(epoch))
    }
}

fn trials_of(c: &mut Criterion) {
    for kind in ["random", "tpe", "auto"] {
        let mut group = c.benchmark_group(format!("trial/{kind}"));
        for count in [100, 10_000] {
            let mut looped = Loop::new(kind, count);
            looped.trial();
            println!(
                "{kind}, {count} trials: longest event up to the first trial's end {:?}",
                looped.longest
            );
            looped.longest = Duration::ZERO;
            group.bench_function(BenchmarkId::from_parameter(count), |b| {
                b.iter(|| looped.trial());
            });
            println!("{kind}, {count} trials: longest event {:?}", looped.longest);
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = trials_of
}
criterion_main!(benches);
