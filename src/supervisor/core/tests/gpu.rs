//! A night on one GPU: the real core drives 5,000 trials of the field notes' space on a card whose
//! memory is simulated from recorded trainings.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::RngExt;

use super::super::*;
use super::disk::Disk;
use super::driven::Driven;
use super::setup::{hello, received, start, written};
use crate::{ExitInfo, WorkerEvent};
use config::{Parallel, Standby, StudySpec};
use device::{GpuSample, Sample};
use fault::Death;
use fault::{ErrorReport, Phase};
use memory::Usage;
use memory::simulated::{self, SimulatedGpu, TOTAL};
use messages::exit::Exit;
use protocol::{AttemptEvent, AttemptId, FromWorker, ToWorker};
use search::sampler::RandomSampler;
use search::study::rng;
use task::{Ended, Epoch, Metrics, TrialSpec};

/// Seconds from a worker's start until it is ready.
const OPENING: f64 = 15.0;

const GPU: Device = Device::Cuda(0);

/// What a night came to.
#[derive(Debug, Default)]
struct Night {
    trials: u64,
    ooms: u64,
    /// Among the first fifty trials.
    early_ooms: u64,
    /// Trials that ran out of memory because of what others used, not of what they had been given.
    hit_by_others: u64,
    refused: u64,
    /// Of these, trials that would have fitted under the cap alone.
    refused_wrongly: u64,
    fitting: u64,
    /// Most of the card that was in use at a time.
    fullest: f64,
    days: f64,
    /// Means over time: trainings at once, parts of the cap that were spoken for and used.
    together: f64,
    claimed: f64,
    used: f64,
    /// Longest that a trial waited between its proposal and its start, in started trials.
    passed_over: u32,
}

impl Night {
    fn per_day(&self) -> f64 {
        self.trials as f64 / self.days
    }
}

enum Life {
    Opening { left: f64 },
    Idle,
    Training(Box<Training>),
}

struct Training {
    trial: TrialSpec,
    peak: u64,
    grant: Option<u64>,
    /// Seconds of work left, alone on the card.
    left: f64,
    /// It reaches its peak with so many seconds left.
    climbs_at: f64,
    climbed: bool,
}

struct Process {
    life: Life,
    trials: u64,
}

struct Card {
    gpu: SimulatedGpu,
    core: Driven,
    /// Whether memory is measured and admitted; the old script did neither.
    admits: bool,
    cap: u64,
    seed: u64,
    now: f64,
    workers: BTreeMap<WorkerId, Process>,
    events: Vec<Event>,
    finished: Option<Exit>,
    /// Seconds in a row in which nothing ran.
    idle: u32,
    spawned: u64,
    night: Night,
}

impl Card {
    fn new(spec: StudySpec, seed: u64, admits: bool) -> Card {
        let slots = spec.operation.parallel.slots(&[GPU], 8);
        let cap = (TOTAL as f64 * spec.operation.gpu_alone) as u64;
        let start = Start {
            predictor: Predictor::new(spec.space.clone(), None),
            ..start(spec, vec![GPU; slots])
        };
        let core = Driven::new(start, RandomSampler);
        Card {
            gpu: SimulatedGpu::new(),
            core,
            admits,
            cap,
            seed,
            now: 0.0,
            workers: BTreeMap::new(),
            events: vec![Event::Ticked],
            finished: None,
            idle: 0,
            spawned: 0,
            night: Night::default(),
        }
    }

    fn active(mut self) -> Night {
        let mut disk = Disk::default();
        while self.finished.is_none() {
            if self.events.is_empty() {
                self.pass_time();
            }
            if self.admits {
                let sample = self.sample();
                self.handle(Event::Sampled(sample), &mut disk);
            }
            for event in std::mem::take(&mut self.events) {
                self.handle(event, &mut disk);
            }
        }
        self.night.days = self.now / 86_400.0;
        for mean in [
            &mut self.night.together,
            &mut self.night.claimed,
            &mut self.night.used,
        ] {
            *mean /= self.now;
        }
        self.night
    }

    fn handle(&mut self, event: Event, disk: &mut Disk) {
        let now = Duration::from_secs_f64(self.now);
        for action in self.core.handle(event, now) {
            self.perform(action, disk);
        }
        let held = self.core.memory.held.iter();
        let passed = held
            .filter_map(|j| Some(self.core.active.get(j)?.passed))
            .max();
        self.night.passed_over = self.night.passed_over.max(passed.unwrap_or(0));
    }

    fn perform(&mut self, action: Action, disk: &mut Disk) {
        match action {
            Action::Worker(worker, WorkerAction::Spawn(_)) => {
                let life = Life::Opening { left: OPENING };
                // A worker is worth at least some trials.
                self.spawned += 1;
                let enough = 100 + self.night.trials;
                assert!(
                    self.spawned < enough,
                    "workers come and go: {}",
                    self.state()
                );
                self.workers.insert(worker, Process { life, trials: 0 });
                let pid = worker as u32 + 1;
                self.events
                    .push(Event::Worker(worker, WorkerEvent::Spawned(pid)));
            }
            Action::Worker(worker, WorkerAction::Send(message)) => self.receive(worker, message),
            Action::Worker(worker, WorkerAction::Terminate | WorkerAction::Kill) => {
                self.end(worker)
            }
            Action::Write { batch, writes } => {
                writes.iter().for_each(|w| disk.apply(w, 0));
                self.events.push(written(batch));
            }
            Action::Report(report::Event::TrialFinished(trial)) => {
                self.count(trial.state, &trial.attrs, &trial.params);
            }
            Action::Finish { exit, .. } => self.finished = Some(exit),
            Action::Worker(_, WorkerAction::Continue | WorkerAction::Abandon)
            | Action::KeepWeights(..)
            | Action::Forget(_)
            | Action::WriteSoon(_)
            | Action::Propose { .. }
            | Action::Report(_) => {}
        }
    }

    fn count(
        &mut self,
        state: TrialState,
        attrs: &serde_json::Map<String, serde_json::Value>,
        params: &Params,
    ) {
        let refused = state == TrialState::Pruned && attrs.contains_key("infeasible");
        let peak = self.gpu.peak(&self.core.spec.effective(params), 0);
        self.night.fitting += u64::from(peak <= self.cap);
        if refused {
            self.night.refused += 1;
            self.night.refused_wrongly += u64::from(peak <= self.cap);
        } else {
            self.night.trials += 1;
        }
    }

    fn receive(&mut self, worker: WorkerId, message: ToWorker) {
        match message {
            ToWorker::Open { .. } | ToWorker::Decided { .. } => {}
            ToWorker::Exit => self.end(worker),
            ToWorker::Run { trial, grant, .. } => {
                let trials = self.workers[&worker].trials;
                let torn = self.torn(worker, trials);
                let noise = trial.seed ^ u64::from(trial.attempt);
                let work = self.gpu.duration(&trial.config, 1);
                let early = rng(noise, 0, "climb").random_range(0.02..0.3);
                let life = Life::Training(Box::new(Training {
                    peak: self.gpu.peak(&trial.config, noise) + torn,
                    grant,
                    left: work,
                    climbs_at: work * (1.0 - early),
                    climbed: false,
                    trial: *trial,
                }));
                self.workers.insert(worker, Process { life, trials });
            }
        }
    }

    fn end(&mut self, worker: WorkerId) {
        if self.workers.remove(&worker).is_some() {
            self.events.push(Event::Worker(
                worker,
                WorkerEvent::Exited(ExitInfo::of(Death::Exited(0))),
            ));
        }
    }

    /// What the core is at, for people.
    fn state(&self) -> String {
        let waits = |job: &Job| {
            let active = &self.core.active[job];
            format!(
                "{job} {:?} passed {} {:?}",
                active.predicted, active.passed, active.tally
            )
        };
        let held: Vec<String> = self.core.memory.held.iter().map(waits).collect();
        let retry: Vec<String> = self.core.retry.iter().map(waits).collect();
        let room = self.core.device_memory(GPU, None);
        let slots: Vec<_> = self
            .core
            .slots
            .iter()
            .map(|s| format!("{:?}", s.state))
            .collect();
        let slots: Vec<&str> = slots.iter().map(|s| s.split('(').next().unwrap()).collect();
        format!("{slots:?} held {held:?} retry {retry:?} {room:?}")
    }

    /// What a process holds beyond its peak: torn memory. Assumed: with expandable segments and an
    /// emptied cache a quarter of what the old script's processes held.
    fn torn(&self, worker: WorkerId, trials: u64) -> u64 {
        let torn = self.gpu.fragmentation(trials, worker);
        if self.admits { torn / 4 } else { torn }
    }

    fn foreign(&self) -> u64 {
        self.gpu.foreign(self.now, self.seed)
    }

    /// What a process uses of the card now.
    fn used(&self, worker: WorkerId) -> u64 {
        let process = &self.workers[&worker];
        let torn = || self.torn(worker, process.trials);
        match &process.life {
            Life::Opening { .. } => self.gpu.context,
            Life::Idle => self.gpu.context + torn(),
            Life::Training(t) if t.climbed => t.peak,
            Life::Training(t) => t.peak / 2,
        }
    }

    fn in_use(&self) -> u64 {
        self.foreign() + self.workers.keys().map(|w| self.used(*w)).sum::<u64>()
    }

    fn sample(&self) -> Sample {
        let process = |w: &WorkerId| (*w as u32 + 1, self.used(*w));
        Sample {
            host: None,
            gpus: vec![GpuSample {
                memory_total: TOTAL,
                memory_used: self.in_use(),
                processes: self.workers.keys().map(process).collect(),
                ..GpuSample::default()
            }],
        }
    }

    /// Goes on to the next thing that happens on the card.
    fn pass_time(&mut self) {
        let training = |p: &Process| matches!(p.life, Life::Training(_));
        let together = self.workers.values().filter(|p| training(p)).count();
        let slower = |gpu: &SimulatedGpu, config: &Params| {
            gpu.duration(config, together) / gpu.duration(config, 1)
        };
        let mut next: Option<(f64, WorkerId)> = None;
        for (worker, process) in &self.workers {
            let wait = match &process.life {
                Life::Opening { left } => *left,
                Life::Idle => continue,
                Life::Training(t) => {
                    let work = if t.climbed {
                        t.left
                    } else {
                        t.left - t.climbs_at
                    };
                    work.max(0.0) * slower(&self.gpu, &t.trial.config)
                }
            };
            if next.is_none_or(|(least, _)| wait < least) {
                next = Some((wait, *worker));
            }
        }
        let Some((wait, worker)) = next else {
            self.now += 1.0;
            self.idle += 1;
            assert!(self.idle < 7_200, "nothing goes on: {}", self.state());
            self.events.push(Event::Ticked);
            return;
        };
        self.now += wait;
        let claimed = self.core.device_memory(GPU, None).running as f64 / self.cap as f64;
        self.night.together += wait * together as f64;
        self.night.claimed += wait * claimed;
        self.night.used += wait * self.in_use() as f64 / self.cap as f64;
        self.idle = 0;
        for process in self.workers.values_mut() {
            match &mut process.life {
                Life::Opening { left } => *left -= wait,
                Life::Idle => {}
                Life::Training(t) => t.left -= wait / slower(&self.gpu, &t.trial.config),
            }
        }
        self.happen(worker);
    }

    fn happen(&mut self, worker: WorkerId) {
        let process = self.workers.get_mut(&worker).unwrap();
        match &mut process.life {
            Life::Opening { .. } => {
                process.life = Life::Idle;
                self.say(worker, hello());
                self.say(worker, FromWorker::Ready);
            }
            Life::Idle => {}
            Life::Training(t) if !t.climbed => {
                t.climbed = true;
                let trial = t.trial.clone();
                let over = t.grant.is_some_and(|grant| t.peak > grant);
                let full = self.in_use() > TOTAL;
                self.night.fullest =
                    (self.in_use().min(TOTAL) as f64 / TOTAL as f64).max(self.night.fullest);
                if over || full {
                    self.night.hit_by_others += u64::from(!over);
                    self.run_out(worker);
                } else {
                    self.epoch(worker, &trial, 1);
                }
            }
            Life::Training(t) => {
                let (trial, peak) = (t.trial.clone(), t.peak);
                process.life = Life::Idle;
                process.trials += 1;
                self.epoch(worker, &trial, 2);
                self.measured(worker, &trial, peak);
                self.say(
                    worker,
                    FromWorker::Attempt(id(&trial), AttemptEvent::Ended(Ended::Completed)),
                );
            }
        }
    }

    fn run_out(&mut self, worker: WorkerId) {
        let process = self.workers.get_mut(&worker).unwrap();
        let Life::Training(t) = std::mem::replace(&mut process.life, Life::Idle) else {
            return;
        };
        process.trials += 1;
        self.night.ooms += 1;
        self.night.early_ooms += u64::from(t.trial.number < 50);
        self.measured(worker, &t.trial, t.grant.unwrap_or(t.peak).min(t.peak));
        let text = "CUDA out of memory. Tried to allocate 16.00 MiB. GPU 0 has a total capacity \
                    of 23.56 GiB of which 33.56 MiB is free.";
        self.say(
            worker,
            FromWorker::Attempt(
                id(&t.trial),
                AttemptEvent::Failed(ErrorReport {
                    healthy: Some(true),
                    ..ErrorReport::new(Phase::Training, text)
                }),
            ),
        );
    }

    fn epoch(&mut self, worker: WorkerId, trial: &TrialSpec, epoch: u32) {
        let metric = self.core.spec.objective.metric.clone();
        let attempt = id(trial);
        let metrics = Metrics::from([(metric, 0.5)]);
        let message = FromWorker::Attempt(
            attempt,
            AttemptEvent::EpochFinished(Epoch { epoch, metrics }),
        );
        self.say(worker, message);
    }

    fn measured(&mut self, worker: WorkerId, trial: &TrialSpec, process: u64) {
        if self.admits {
            let usage = Usage {
                process: Some(process),
                context: Some(self.gpu.context),
                ..Usage::default()
            };
            let attempt = id(trial);
            self.say(
                worker,
                FromWorker::Attempt(attempt, AttemptEvent::Measured(usage)),
            );
        }
    }

    fn say(&mut self, worker: WorkerId, message: FromWorker) {
        self.events.push(received(worker, message));
    }
}

fn id(trial: &TrialSpec) -> AttemptId {
    AttemptId {
        number: trial.number,
        purpose: trial.purpose,
        attempt: trial.attempt,
    }
}

/// The field notes' study as a run of so many trials.
fn study(trials: u64, parallel: Parallel, seed: u64) -> StudySpec {
    let mut spec = simulated::study();
    spec.seed = seed;
    spec.operation.trials = trials;
    spec.operation.parallel = parallel;
    spec.operation.standby = Standby::Off;
    spec.operation.supervisor.recycle_after = 50;
    spec.operation.supervisor.max_refused = 5_000;
    spec.operation.supervisor.deadline = config::Deadline::Off;
    spec
}

fn old_script(trials: u64, parallel: usize, seed: u64) -> Night {
    let mut spec = study(trials, Parallel::Limit(parallel), seed);
    // It caught the error and went on; nothing was replaced.
    spec.operation.supervisor.recycle_after = 0;
    Card::new(spec, seed, false).active()
}

fn tune(trials: u64, seed: u64) -> Night {
    Card::new(study(trials, Parallel::Auto, seed), seed, true).active()
}

#[test]
fn what_ran_at_a_time_by_guess_ran_out_of_memory_as_the_notes_tell() {
    let four = old_script(400, 4, 1);
    let three = old_script(400, 3, 1);
    let two = old_script(2_000, 2, 1);
    assert!(
        four.ooms > 10 && four.hit_by_others == four.ooms,
        "{four:?}"
    );
    assert!(three.ooms > 2 && three.ooms < four.ooms, "{three:?}");
    assert!(two.fullest > 0.9, "{two:?}");
}

#[test]
fn five_thousand_trials_share_the_card_by_what_is_predicted() {
    let auto = tune(5_000, 1_001);
    let two = old_script(1_000, 2, 1_001);
    let figures = format!("{auto:?}\n{two:?}");
    println!("{figures}");
    let later = auto.ooms - auto.early_ooms;
    assert!(later * 100 <= auto.trials - 50, "{figures}");
    assert_eq!(auto.hit_by_others, 0, "{figures}");
    assert!(auto.refused_wrongly * 50 <= auto.fitting, "{figures}");
    assert!(auto.fullest <= 0.9, "{figures}");
    assert!(auto.passed_over <= dispatch::PASSED + 8, "{figures}");
    assert!(auto.together >= 1.4 * two.together, "{figures}");
    // How much faster that is depends on how much one training leaves of the card to others.
    assert!(auto.per_day() >= 1.08 * two.per_day(), "{figures}");
}

#[test]
fn on_a_card_of_which_a_training_leaves_much_to_others_a_third_more_are_made_a_day() {
    let roomy = |trials, parallel, admits| {
        let mut card = Card::new(study(trials, parallel, 1_002), 1_002, admits);
        card.gpu.slower = simulated::roomy;
        card.active()
    };
    let auto = roomy(3_000, Parallel::Auto, true);
    let two = roomy(1_000, Parallel::Limit(2), false);
    let figures = format!("{auto:?}\n{two:?}");
    println!("{figures}");
    assert!(auto.per_day() >= 1.3 * two.per_day(), "{figures}");
}

#[test]
fn a_night_is_the_same_every_time() {
    let figures = |_| format!("{:?}", tune(300, 7));
    assert_eq!(figures(0), figures(1));
}
