//! What the core makes of samples, Xids and a lost NVML.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::*;
use super::disk::Disk;
use super::driven::Driven;
use super::setup::{STOP, completed, core, epoch, exited, hello, received, spec, written};
use crate::{ExitInfo, WorkerEvent};
use device::{GpuSample, HostSample, Sample};
use fault::Death;
use fault::{ErrorReport, Phase};
use protocol::{AttemptEvent, FromWorker};

const SECOND: Duration = Duration::from_secs(1);

/// A core whose slots have a GPU each.
struct Bench {
    core: Driven,
    now: Now,
    /// Warnings and faults.
    said: Vec<String>,
    /// Outcomes of attempts.
    outcomes: Vec<String>,
    /// Rows of samples: GPU and number of samples.
    rows: Vec<(usize, usize)>,
    exit: Option<Exit>,
}

impl Bench {
    /// Every slot is training.
    fn training(slots: usize) -> Bench {
        Bench::training_of(20, slots)
    }

    /// The same in a run of so many trials.
    fn training_of(trials: u64, slots: usize) -> Bench {
        let mut core = core(spec(trials, slots), &Disk::default());
        for (index, slot) in core.slots.iter_mut().enumerate() {
            slot.device = Device::Cuda(index);
        }
        let mut bench = Bench {
            core,
            now: Now::ZERO,
            said: vec![],
            outcomes: vec![],
            rows: vec![],
            exit: None,
        };
        bench.event(Event::Ticked);
        assert_eq!(bench.busy(), slots);
        bench
    }

    fn busy(&self) -> usize {
        let busy = |s: &&Slot| s.is_busy();
        self.core.slots.iter().filter(busy).count()
    }

    fn worker(&self, slot: usize) -> WorkerId {
        self.core.slots[slot].worker().unwrap().id
    }

    /// An event and all that follows from it at once: workers start, the disk writes.
    fn event(&mut self, event: Event) {
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
                let received = |message| received(worker, message);
                events.push_back(Event::Worker(worker, WorkerEvent::Spawned(7)));
                events.push_back(received(hello()));
                events.push_back(received(FromWorker::Ready));
            }
            Action::Write { batch, writes } => {
                writes.iter().for_each(|w| self.note(w));
                events.push_back(written(batch));
            }
            Action::WriteSoon(write) => self.note(&write),
            Action::Report(report::Event::Warned { message }) => self.said.push(message),
            Action::Finish { exit, .. } => self.exit = Some(exit),
            Action::Worker(worker, WorkerAction::Terminate) => {
                events.push_back(exited(worker, Death::Signaled(15)))
            }
            Action::Worker(_, WorkerAction::Send(_) | WorkerAction::Kill)
            | Action::Worker(_, WorkerAction::Continue | WorkerAction::Abandon)
            | Action::KeepWeights(..)
            | Action::Forget(_)
            | Action::Propose { .. }
            | Action::Report(_) => {}
        }
    }

    fn note(&mut self, write: &Write) {
        if let Write::AttemptEnded { end, .. } = write {
            self.outcomes.push(end.outcome.clone());
        }
        if let Write::GpuSampled { minute } = write {
            self.rows.push((minute.gpu, minute.samples));
        }
    }

    fn xid(&mut self, gpu: usize, code: u64) {
        self.event(Event::Xid { gpu, code });
    }

    /// The slot's trial ends with a value.
    fn completes(&mut self, slot: usize) {
        let worker = self.worker(slot);
        let attempt = self.core.slots[slot].attempt().unwrap();
        let epoch = epoch(attempt, 1, 0.5);
        let ended = completed(attempt);
        for message in [epoch, ended] {
            self.event(received(worker, message));
        }
    }

    fn dies(&mut self, slot: usize, signal: i32) {
        self.event(exited(self.worker(slot), Death::Signaled(signal)));
    }

    fn sampled(&mut self, gpus: Vec<GpuSample>) {
        let sample = Sample { host: None, gpus };
        self.event(Event::Sampled(sample));
    }
}

fn gpu(index: usize, recovery_action: Option<&str>) -> GpuSample {
    GpuSample {
        index,
        memory_total: 8 << 30,
        memory_used: 1 << 30,
        recovery_action: recovery_action.map(str::to_owned),
        ..GpuSample::default()
    }
}

#[test]
fn a_lost_gpu_is_given_up_and_its_trial_goes_on_elsewhere_unblamed() {
    let mut bench = Bench::training(2);
    bench.now += SECOND;
    bench.xid(0, 79);
    let said = "slot 0 on cuda:0 is given up: Xid 79: GPU has fallen off the bus";
    assert_eq!(bench.said, [said]);
    bench.dies(0, 6);
    assert_eq!(bench.outcomes, ["device_lost"]);
    assert!(bench.core.slots[0].is_drained());
    let again: Vec<u32> = bench
        .core
        .retry
        .iter()
        .map(|j| bench.core.active[j].tally.suspected)
        .collect();
    assert_eq!(again, [0], "waits for the other GPU, no suspect");
    assert_eq!(bench.busy(), 1);
}

#[test]
fn a_gpu_that_is_found_lost_before_any_xid_explains_what_dies_on_it() {
    for first in [true, false] {
        let mut bench = Bench::training(2);
        bench.now += SECOND;
        if first {
            bench.sampled(vec![gpu(0, Some("lost"))]);
            bench.dies(0, 6);
            assert_eq!(bench.outcomes, ["device_lost"]);
        } else {
            bench.dies(0, 6);
            bench.sampled(vec![gpu(0, Some("lost"))]);
        }
        let active = bench.core.active.values();
        let blamed = active.filter(|active| active.tally.suspected > 0).count();
        assert_eq!(blamed, 0);
    }
}

#[test]
fn without_another_gpu_the_run_ends_resumable_and_says_why() {
    let mut bench = Bench::training(1);
    bench.xid(0, 119);
    bench.dies(0, 9);
    assert_eq!(bench.outcomes, ["device_lost"]);
    assert_eq!(bench.exit, Some(Exit::Breaker));
}

#[test]
fn a_silence_on_a_lost_gpu_is_no_hang() {
    let mut bench = Bench::training(2);
    bench.now += SECOND;
    bench.xid(0, 109);
    // The other slot's worker is at work meanwhile, and its silence is a hang.
    bench.now += Duration::from_secs(200);
    bench.event(Event::Ticked);
    assert_eq!(bench.outcomes, ["device_lost", "hang"]);
}

#[test]
fn what_works_on_for_a_while_fails_for_want_of_its_gpu_all_the_same() {
    let mut bench = Bench::training(2);
    bench.xid(0, 79);
    bench.now += Duration::from_secs(60);
    let attempt = bench.core.slots[0].attempt().unwrap();
    bench.event(received(
        bench.worker(0),
        FromWorker::Attempt(attempt, AttemptEvent::Stepped(1)),
    ));
    bench.now += Duration::from_secs(30);
    bench.dies(0, 6);
    assert_eq!(bench.outcomes, ["device_lost"]);
}

#[test]
fn xids_of_other_gpus_and_of_long_ago_explain_nothing() {
    let mut bench = Bench::training(2);
    bench.xid(1, 79);
    bench.dies(0, 6);
    assert_eq!(bench.outcomes, ["crash"]);
    let mut bench = Bench::training(1);
    bench.xid(0, 94);
    bench.now += SECOND;
    bench.dies(0, 6);
    assert_eq!(bench.outcomes, ["cuda_sticky"]);
    bench.now += Duration::from_secs(60);
    // The suspect's next worker begins long after the Xid.
    bench.event(Event::Ticked);
    assert_eq!(bench.busy(), 1);
    bench.dies(0, 6);
    assert_eq!(bench.outcomes, ["cuda_sticky", "crash"]);
}

#[test]
fn an_xid_that_explains_one_end_does_not_explain_the_next_crash_too() {
    for late in [false, true] {
        let mut bench = Bench::training(1);
        if !late {
            bench.xid(0, 31);
        }
        let text = "CUDA error: an illegal memory access was encountered";
        let error = ErrorReport {
            panic: true,
            healthy: Some(false),
            ..ErrorReport::new(Phase::Training, text)
        };
        let worker = bench.worker(0);
        let message = FromWorker::Fatal(error);
        bench.event(received(worker, message));
        bench.event(exited(worker, Death::Exited(70)));
        if late {
            bench.xid(0, 31);
        }
        bench.now += SECOND * 3;
        bench.event(Event::Ticked);
        bench.dies(0, 11);
        assert_eq!(bench.outcomes, ["cuda_sticky", "crash"], "late: {late}");
    }
}

#[test]
fn an_xid_that_comes_just_after_the_death_takes_the_suspicion_away() {
    for (later, suspected) in [(5, 0), (11, 1)] {
        let mut bench = Bench::training(1);
        bench.dies(0, 6);
        assert_eq!(bench.outcomes, ["crash"]);
        bench.now += SECOND * later;
        bench.xid(0, 79);
        let active = bench.core.active.values().next().unwrap();
        assert_eq!(active.tally.suspected, suspected, "{later} s later");
    }
}

#[test]
fn a_gpu_that_needs_a_reset_is_given_up_once_and_a_healthy_one_is_not() {
    let mut bench = Bench::training(2);
    for _ in 0..3 {
        bench.sampled(vec![gpu(0, None), gpu(1, Some("reset"))]);
    }
    let said = "slot 1 on cuda:1 is given up: the driver says that the GPU needs a reset";
    assert_eq!(bench.said, [said]);
    bench.sampled(vec![gpu(0, Some("action_9"))]);
    assert_eq!(bench.said.len(), 1, "nobody knows what that asks for");
}

#[test]
fn a_lost_nvml_is_told_once_and_leaves_no_old_figures() {
    let mut bench = Bench::training(1);
    let host = HostSample {
        total: 2,
        ..HostSample::default()
    };
    bench.event(Event::Sampled(Sample {
        host: Some(host.clone()),
        gpus: vec![gpu(0, None)],
    }));
    assert_eq!(bench.core.machine.gpu(0), Some(&gpu(0, None)));
    for _ in 0..2 {
        let reason = "the NVIDIA driver is not loaded".into();
        bench.event(Event::ProbeLost(reason));
    }
    let said = "NVML cannot be used: the NVIDIA driver is not loaded; going on without GPU samples";
    assert_eq!(bench.said, [said]);
    assert_eq!(bench.core.machine.gpu(0), None);
    assert_eq!(bench.core.machine.host(), Some(&host));
}

#[test]
fn samples_are_kept_once_a_minute_and_at_the_end() {
    let mut bench = Bench::training(1);
    for _ in 0..130 {
        bench.sampled(vec![gpu(0, None)]);
        bench.now += SECOND;
    }
    assert_eq!(bench.rows, [(0, 1), (0, 60), (0, 60)]);
    bench.event(STOP);
    bench.event(STOP);
    bench.event(Event::Ticked);
    assert_eq!(bench.exit, Some(Exit::Stopped));
    assert_eq!(bench.rows.last(), Some(&(0, 9)));
}

#[test]
fn a_trial_to_run_again_gets_a_fresh_worker_although_a_used_one_is_idle() {
    let mut bench = Bench::training_of(3, 3);
    bench.event(Event::Worker(
        bench.worker(0),
        WorkerEvent::Exited(ExitInfo {
            oom_kills: 1,
            ..ExitInfo::of(Death::Signaled(9))
        }),
    ));
    assert_eq!(bench.outcomes, ["host_oom"]);
    assert_eq!(bench.busy(), 2, "no third worker for now");
    let leaving = bench.worker(1);
    bench.completes(1);
    bench.completes(2);
    assert!(bench.core.slots[2].is_idle());
    bench.event(exited(leaving, Death::Exited(0)));
    assert_eq!(bench.busy(), 1, "the trial waits for ever");
}
