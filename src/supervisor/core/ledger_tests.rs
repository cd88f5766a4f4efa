//! What attempts use on its way into the ledger, and what follows from what workers hold.

#![allow(clippy::wildcard_enum_match_arm)]

use std::collections::BTreeMap;

use super::super::Start;
use super::super::tests::{
    Disk, Driven, completed, core, epoch, exited, hello, received, spec, start, written,
};
use super::*;
use crate::{Action, Event, Now, WorkerAction, WorkerEvent, WorkerId, WorkerOptions};
use config::Standby;
use device::Device;
use device::{GpuSample, HostSample};
use fault::Death;
use fault::Phase;
use memory::{Estimate, Observation};
use protocol::{AttemptEvent, FromWorker, ToWorker};
use search::sampler::RandomSampler;

const GIB: u64 = 1 << 30;

/// A core with one slot, and every action so far.
struct Run {
    core: Driven,
    actions: Vec<Action>,
    now: Now,
    /// Batches that are durable.
    written: u64,
}

impl Run {
    fn new(core: Driven) -> Run {
        let mut run = Run {
            core,
            actions: vec![],
            now: Now::ZERO,
            written: 0,
        };
        run.on(Event::Ticked);
        run
    }

    /// On a GPU; the first worker is not ready yet.
    fn on_gpu() -> Run {
        Run::on_gpu_after(vec![])
    }

    /// The same where these peaks are known.
    fn on_gpu_after(peaks: Vec<Observation>) -> Run {
        let mut spec = spec(50, 1);
        spec.operation.supervisor.recycle_after = 0;
        spec.operation.standby = Standby::Off;
        let start = Start {
            peaks,
            ..start(spec, vec![Device::Cuda(0)])
        };
        Run::new(Driven::new(start, RandomSampler))
    }

    /// Everything that is written becomes durable at once.
    fn on(&mut self, event: Event) {
        self.actions.extend(self.core.handle(event, self.now));
        while self.batches() > self.written {
            let batch = self.written;
            self.written += 1;
            let written = self.core.handle(written(batch), self.now);
            self.actions.extend(written);
        }
    }

    fn batches(&self) -> u64 {
        let batch = |a: &&Action| matches!(a, Action::Write { .. });
        self.actions.iter().filter(batch).count() as u64
    }

    fn receive(&mut self, message: FromWorker) {
        let worker = self.worker();
        self.on(received(worker, message));
    }

    /// The last one that was started.
    fn worker(&self) -> WorkerId {
        self.spawned().len() as u64 - 1
    }

    /// Whether each worker that was started is to use expandable segments.
    fn spawned(&self) -> Vec<bool> {
        let spawn = |a: &Action| match a {
            Action::Worker(_, WorkerAction::Spawn(WorkerOptions { expandable, .. })) => {
                Some(*expandable)
            }
            _ => None,
        };
        self.actions.iter().filter_map(spawn).collect()
    }

    fn hello(&mut self) {
        let worker = self.worker();
        self.on(Event::Worker(worker, WorkerEvent::Spawned(7)));
        self.receive(hello());
    }

    fn attempt(&self) -> AttemptId {
        self.core.slots[0].attempt().unwrap()
    }

    /// The current attempt ends well.
    fn end(&mut self, usage: Usage) {
        let attempt = self.attempt();
        self.receive(epoch(attempt, 1, 0.5));
        self.receive(FromWorker::Attempt(attempt, AttemptEvent::Measured(usage)));
        self.receive(completed(attempt));
    }

    fn ledger(&self) -> BTreeMap<(u64, u32), Entry> {
        let entry = |w: &Write| match w {
            Write::MemoryUsed { id, entry } if id.job().searches() => {
                Some(((id.number, id.attempt), (**entry).clone()))
            }
            _ => None,
        };
        self.writes().iter().filter_map(entry).collect()
    }

    fn writes(&self) -> Vec<Write> {
        let writes = |a: &Action| match a {
            Action::Write { writes, .. } => writes.clone(),
            _ => vec![],
        };
        self.actions.iter().flat_map(writes).collect()
    }

    fn reports(&self) -> impl Iterator<Item = &report::Event> {
        self.actions.iter().filter_map(|a| match a {
            Action::Report(event) => Some(event),
            _ => None,
        })
    }

    /// What the last attempt that was sent may take.
    fn grant(&self) -> Option<u64> {
        let sent = |a: &Action| match a {
            Action::Worker(_, WorkerAction::Send(ToWorker::Run { grant, .. })) => Some(*grant),
            _ => None,
        };
        self.actions.iter().filter_map(sent).next_back()?
    }

    /// What was said of the first trial that was refused.
    fn refusal(&self) -> Option<String> {
        self.writes().into_iter().find_map(|w| match w {
            Write::TrialFinished { user_attrs, .. } if user_attrs.contains_key("infeasible") => {
                Some(user_attrs.get("error_msg")?.as_str()?.to_owned())
            }
            _ => None,
        })
    }

    fn warnings(&self) -> usize {
        let warned = |e: &&report::Event| matches!(e, report::Event::Warned { .. });
        self.reports().filter(warned).count()
    }

    fn said(&self) -> Vec<String> {
        let said = |e: &report::Event| match e {
            report::Event::Warned { message } => Some(message.clone()),
            _ => None,
        };
        self.reports().filter_map(said).collect()
    }

    /// After every pause that a death may cost.
    fn later(&mut self) {
        self.now += Now::from_secs(120);
        self.on(Event::Ticked);
    }

    fn told_to_leave(&self) -> bool {
        let exit = |a: &Action| matches!(a, Action::Worker(_, WorkerAction::Send(message)) if matches!(message, ToWorker::Exit));
        self.actions.iter().any(exit)
    }
}

/// One that is in its first attempt.
fn training() -> Run {
    training_after(vec![])
}

fn training_after(peaks: Vec<Observation>) -> Run {
    let mut run = Run::on_gpu_after(peaks);
    run.hello();
    run.receive(FromWorker::DeviceOpened {
        capacity: 24 * GIB,
        context: Some(GIB / 2),
    });
    run.receive(FromWorker::Ready);
    run
}

fn usage(reserved: u64) -> Usage {
    Usage {
        reserved: Some(reserved),
        context: Some(GIB / 2),
        resident: Some(3 * GIB),
        resident_before: Some(2 * GIB),
        ..Usage::default()
    }
}

#[test]
fn an_attempt_is_entered_with_what_was_measured_and_expected() {
    let mut run = training();
    let predicted = Estimate {
        lower: GIB,
        expected: 2 * GIB,
        upper: 3 * GIB,
    };
    let active = run.core.active.values_mut().next().unwrap();
    (active.predicted, active.reservation.grant) = (Some(predicted), Some(4 * GIB));
    run.end(usage(2 * GIB));
    let entry = &run.ledger()[&(0, 0)];
    assert_eq!(entry.usage, usage(2 * GIB));
    assert_eq!(entry.device, Device::Cuda(0));
    assert_eq!(entry.capacity, Some(24 * GIB));
    assert_eq!(
        (entry.predicted, entry.grant),
        (Some(predicted), Some(4 * GIB))
    );
    assert_eq!(entry.outcome, "completed");
    let peak = run.writes().into_iter().find_map(|w| match w {
        Write::TrialFinished { user_attrs, .. } => user_attrs.get("peak_memory_mb").cloned(),
        _ => None,
    });
    assert_eq!(peak, Some(2560.0.into()), "the GPU's, with the context");
}

#[test]
fn of_an_attempt_that_died_the_ledger_has_what_samples_saw() {
    let mut run = training();
    for (resident, process) in [(1, 5), (3, 9), (2, 4)] {
        let sample = Sample {
            host: Some(HostSample {
                total: 64 * GIB,
                available: GIB,
                processes: [(7, resident * GIB), (8, 60 * GIB)].into(),
            }),
            gpus: vec![GpuSample {
                index: 0,
                memory_total: 24 * GIB,
                processes: [(7, process * GIB), (8, 12 * GIB)].into(),
                ..GpuSample::default()
            }],
        };
        run.on(Event::Sampled(sample));
    }
    run.on(exited(0, Death::Signaled(11)));
    let entry = &run.ledger()[&(0, 0)];
    assert_eq!(entry.usage.process, Some(9 * GIB));
    assert_eq!(entry.usage.resident, Some(3 * GIB));
    assert_eq!(entry.outcome, "crash");
    assert_eq!(entry.peak(), Some(9 * GIB));
}

#[test]
fn nothing_is_entered_of_an_attempt_of_which_nothing_is_known() {
    let mut run = training();
    run.on(exited(0, Death::Signaled(11)));
    assert!(run.ledger().is_empty());
}

#[test]
fn a_worker_that_keeps_a_tenth_of_its_gpu_is_recycled_before_its_time() {
    let mut run = training();
    let kept = |part: u64| Usage {
        unallocated: Some(24 * GIB * part / 100),
        ..usage(GIB)
    };
    run.end(kept(3));
    run.end(kept(9));
    assert!(!run.told_to_leave());
    run.end(kept(11));
    assert!(run.told_to_leave());
    run.on(exited(0, Death::Exited(0)));
    let stopped = run.reports().find_map(|e| match e {
        report::Event::WorkerStopped { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    let reason = stopped.unwrap();
    assert!(reason.starts_with("recycled: its allocator"), "{reason}");
    assert_eq!(run.spawned().len(), 2, "another one follows");
}

#[test]
fn a_worker_whose_resident_memory_grows_from_trial_to_trial_is_recycled() {
    let mut run = training();
    let before = |gib: u64| Usage {
        resident_before: Some(gib * GIB),
        ..usage(GIB)
    };
    // What it holds before its first trial is not what trials have left.
    for gib in [0, 2, 2, 3] {
        run.end(before(gib));
        assert!(!run.told_to_leave(), "{gib}");
    }
    run.end(before(4));
    assert!(run.told_to_leave());
}

/// Opening the device fails in a way that speaks against expandable segments.
fn refuse_segments(run: &mut Run) {
    run.hello();
    let error = "CUDA driver error: operation not supported".into();
    run.receive(FromWorker::NotExpandable { error });
    assert!(run.told_to_leave());
    let worker = run.worker();
    run.on(exited(worker, Death::Exited(0)));
}

const OPENED: FromWorker = FromWorker::DeviceOpened {
    capacity: 24 * GIB,
    context: None,
};

#[test]
fn a_machine_without_expandable_segments_is_found_out_once() {
    let mut run = Run::on_gpu();
    refuse_segments(&mut run);
    assert_eq!(run.warnings(), 0, "the next one decides");
    run.hello();
    run.receive(OPENED);
    assert_eq!(run.warnings(), 1);
    assert_eq!(run.core.slots[0].deaths(), 0, "nothing has died of it");
    run.receive(FromWorker::Ready);
    let worker = run.worker();
    run.on(exited(worker, Death::Exited(0)));
    run.later();
    assert_eq!(run.spawned(), [true, false, false]);
    let said = run.said();
    let of_segments = said.iter().filter(|w| w.contains("segments"));
    assert_eq!(of_segments.count(), 1, "{said:?}");
}

#[test]
fn a_device_that_fails_without_expandable_segments_too_says_nothing_of_them() {
    let mut run = Run::on_gpu();
    refuse_segments(&mut run);
    run.hello();
    let worker = run.worker();
    let error = fault::ErrorReport::new(Phase::Opening, "CUDA error: out of memory");
    run.receive(FromWorker::Fatal(error));
    run.on(exited(worker, Death::Exited(1)));
    run.later();
    assert_eq!(run.spawned(), [true, false, true]);
    let said = run.said();
    assert!(!said.iter().any(|s| s.contains("expandable")), "{said:?}");
    // With memory again, they are used.
    run.hello();
    run.receive(OPENED);
    let said = run.said();
    assert!(!said.iter().any(|s| s.contains("expandable")), "{said:?}");
}

#[test]
fn on_the_cpu_the_hosts_memory_is_the_capacity() {
    let mut run = Run::new(core(spec(3, 1), &Disk::default()));
    run.hello();
    run.receive(FromWorker::Ready);
    let host = HostSample {
        total: 64 * GIB,
        ..HostSample::default()
    };
    let sample = Sample {
        host: Some(host),
        gpus: vec![],
    };
    run.on(Event::Sampled(sample));
    run.end(usage(GIB));
    let entry = &run.ledger()[&(0, 0)];
    assert_eq!(
        (entry.capacity, entry.peak()),
        (Some(64 * GIB), Some(3 * GIB))
    );
}

/// What a GPU of 24 GiB is used for: by our worker, and in all.
fn gpu(index: usize, ours: u64, all: u64) -> GpuSample {
    GpuSample {
        index,
        memory_total: 24 * GIB,
        memory_used: all * GIB,
        processes: [(7, ours * GIB)].into(),
        ..GpuSample::default()
    }
}

/// So many trainings that took about so much each.
fn took(count: usize, mib: u64) -> Vec<Observation> {
    let spec = spec(50, 1);
    let config =
        |n: usize| spec.effective(&[("x".to_owned(), (n as f64 / count as f64).into())].into());
    let one = |n: usize| Observation {
        config: config(n),
        peak: (mib << 20) / 100 * [99, 100, 101][n % 3],
        censored: false,
    };
    (0..count).map(one).collect()
}

#[test]
fn above_gpu_memory_a_trial_runs_alone_with_all_of_gpu_alone() {
    // Of 24 GiB: 19.2 together, 22.8 alone.
    let run = training_after(took(40, 21 << 10));
    assert_eq!(run.refusal(), None);
    assert_eq!(run.grant(), Some((24.0 * 0.95 * GIB as f64) as u64));
}

#[test]
fn a_trial_is_refused_once_predictions_are_known_to_hold_and_not_before() {
    let run = training_after(took(4, 40 << 10));
    assert_eq!(run.refusal(), None, "nobody knows how good they are");
    assert_eq!(run.grant(), Some((24.0 * 0.95 * GIB as f64) as u64));
    let run = training_after(took(40, 40 << 10));
    let why = run.refusal().unwrap();
    assert!(
        why.contains("at least") && why.contains("gpu.alone"),
        "{why}"
    );
    // As many that were never what was predicted of them.
    let wild = (took(40, 40 << 10).into_iter().enumerate()).map(|(n, o)| Observation {
        peak: o.peak >> [0, 5, 1, 4, 2, 6, 3][n % 7],
        ..o
    });
    let run = training_after(wild.collect());
    assert_eq!(run.refusal(), None);
}

#[test]
fn a_trial_counts_for_its_prediction_until_its_first_epoch_has_shown_what_it_takes() {
    let mut run = training();
    let attempt = run.attempt();
    let active = run.core.active.get_mut(&attempt.job()).unwrap();
    active.reservation.reserved = 10 * GIB;
    let running = |run: &Run| run.core.device_memory(Device::Cuda(0), None).running;
    let sampled = |run: &mut Run, process: u64| {
        let gpus = vec![gpu(0, process, process)];
        run.on(Event::Sampled(Sample { host: None, gpus }));
        running(run)
    };
    assert_eq!(sampled(&mut run, 6), 10 * GIB);
    run.receive(epoch(attempt, 1, 0.5));
    assert_eq!(running(&run), 10 * GIB, "that look was before the end");
    let settled = sampled(&mut run, 6);
    assert!(settled > 6 * GIB && settled < 7 * GIB, "{settled}");
    assert!(sampled(&mut run, 8) > 8 * GIB, "it may still grow");
    assert_eq!(sampled(&mut run, 12), 12 * GIB);
}

#[test]
fn of_two_gpus_with_as_many_trials_the_one_with_more_memory_left_comes_first() {
    let mut run = training();
    let load = |run: &Run, index| run.core.load(Device::Cuda(index));
    let gpus = |others| vec![gpu(0, 1, 1), gpu(1, 0, others), gpu(2, 0, 3)];
    let mut sampled = |others| {
        let gpus = gpus(others);
        run.on(Event::Sampled(Sample { host: None, gpus }));
        (load(&run, 0), load(&run, 1), load(&run, 2))
    };
    let (busy, first, second) = sampled(5);
    assert!(second < first && first < busy);
    let (busy, first, second) = sampled(2);
    assert!(first < second && second < busy);
}
