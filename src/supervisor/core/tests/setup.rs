//! What tests of the core begin with, and what happens to their workers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::*;
use super::disk::Disk;
use super::driven::Driven;
use crate::{BatchEvent, ExitInfo, WorkerEvent};
use config::{Deadline, Objective, Operation, Parallel, TestSplit};
use fault::{Death, ErrorReport, Phase};
use protocol::{AttemptEvent, FromWorker, VERSION};
use search::pruner::NoPruner;
use search::sampler::RandomSampler;
use search::space::{Domain, Parameter, Space, Value};
use search::study::Direction;
use task::{Ended, Epoch, Metrics};

/// A study with one parameter, `x`.
pub fn spec(trials: u64, slots: usize) -> StudySpec {
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
    operation.parallel = Parallel::Limit(slots);
    operation.supervisor.recycle_after = 7;
    operation.supervisor.deadline = Deadline::Fixed(Duration::from_secs(100));
    StudySpec {
        task: "t".into(),
        kind: "synthetic".into(),
        file: "t.toml".into(),
        study: "t".into(),
        objective: Objective {
            metric: "loss".into(),
            direction: Direction::Minimize,
        },
        further: vec![],
        seed: 0,
        space: Space {
            parameters: vec![x],
            ..Space::default()
        },
        fixed: Params::new(),
        sources: Default::default(),
        lists: BTreeMap::new(),
        models: BTreeMap::new(),
        points: vec![],
        operation,
    }
}

/// The start of a first run, with a slot on each of these devices.
pub fn start(spec: StudySpec, devices: Vec<Device>) -> Start {
    Start {
        node: None,
        nodes: None,
        database: "/p/tune.db".into(),
        trials: vec![],
        reclaimed: vec![],
        repeats: vec![],
        selected: None,
        test: None,
        devices,
        threads: 1,
        baseline: None,
        sampler: "random",
        pruner: Box::new(NoPruner),
        predictor: Predictor::new(Space::default(), None),
        peaks: vec![],
        dir: "tune.db.d".into(),
        spec,
    }
}

/// A core on the CPU that goes on with what is on disk.
pub fn core(spec: StudySpec, disk: &Disk) -> Driven {
    let slots = spec.operation.parallel.slots(&[Device::Cpu], 1);
    let start = Start {
        trials: disk.trials.values().cloned().collect(),
        reclaimed: disk.reclaimable(),
        repeats: disk.repeated(),
        selected: disk.attributes.get("selection").cloned(),
        test: Some(TestSplit::default()),
        ..start(spec, vec![Device::Cpu; slots])
    };
    Driven::new(start, RandomSampler)
}

/// SIGINT.
pub const STOP: Event = Event::StopRequested { now: false };

/// A worker says something.
pub fn received(worker: WorkerId, message: FromWorker) -> Event {
    Event::Worker(worker, WorkerEvent::Received(message))
}

/// A worker's process ends.
pub fn exited(worker: WorkerId, death: Death) -> Event {
    Event::Worker(worker, WorkerEvent::Exited(ExitInfo::of(death)))
}

/// A batch is durable.
pub fn written(batch: u64) -> Event {
    Event::Batch(batch, BatchEvent::Written)
}

/// The first message of a worker.
pub fn hello() -> FromWorker {
    FromWorker::Hello {
        protocol: VERSION,
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

/// An epoch of an attempt is over, with this loss.
pub fn epoch(attempt: AttemptId, epoch: u32, loss: f64) -> FromWorker {
    let metrics = Metrics::from([("loss".into(), loss)]);
    let event = AttemptEvent::EpochFinished(Epoch { epoch, metrics });
    FromWorker::Attempt(attempt, event)
}

/// An attempt comes to its end.
pub fn completed(attempt: AttemptId) -> FromWorker {
    FromWorker::Attempt(attempt, AttemptEvent::Ended(Ended::Completed))
}

/// An error that the worker's context has survived.
pub fn error(phase: Phase, text: &str) -> ErrorReport {
    ErrorReport {
        healthy: Some(true),
        ..ErrorReport::new(phase, text)
    }
}
