//! The supervisor's core: every decision of a run, as a function of events and of the time passed
//! in. It owns no process, no file and no clock.

mod active_trial;
mod admission;
mod assign;
mod audit;
mod devices;
mod dispatch;
mod ended_workers;
mod ending;
mod estimates;
mod exits;
mod faults;
mod foreign;
mod kept_weights;
mod ledger;
mod liveness;
mod machine;
mod new_trial;
mod nodes;
mod proposals;
mod repeats;
mod search_end;
mod shortage;
mod slot;
mod spares;
mod storage;
mod study_progress;
#[cfg(test)]
mod tests;
mod timing;
mod winding_down;
mod worker_messages;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use config::StudySpec;
use device::Device;
use fault::{Failure, Tally};
use memory::{Observation, Predictor};
use messages::exit::Exit;
use protocol::{AttemptId, ToWorker};
use report::Counts;
use search::pruner::Pruner;
use search::space::Params;
use search::study::{self, FrozenTrial, History, Job, TrialState};
use serde_json::Value as Json;
use store::{AttemptRecord, OtherNodes, Reclaimable, Write};

use config::Baseline;
use config::TestSplit;

pub use assign::checkpoint_name;
pub use devices::SLOTS_GIVEN_UP;
pub use estimates::in_parts;
pub use kept_weights::weights_kept;
pub use repeats::{Outcome, Repeated};

use super::{Action, Event, Now, WorkerAction, WorkerId};
use active_trial::ActiveTrial;
use audit::Audit;
use dispatch::Concurrency;
use ended_workers::EndedWorkers;
use estimates::Memory;
use kept_weights::Weights;
use ledger::DeviceFacts;
use liveness::LivenessDeadlines;
use machine::Machine;
use new_trial::HeldBack;
use nodes::Nodes;
use proposals::Search;
use repeats::Repeats;
use search_end::SearchEnd;
use slot::Slot;
use storage::{BatchState, StorageOutage};
use study_progress::StudyProgress;

/// A trial that an earlier run or another node has left, which waits to be run again.
fn left_trial(left: &Reclaimable, spec: &StudySpec, mut trial: FrozenTrial) -> ActiveTrial {
    // In studies of earlier versions, one that got another number than it was proposed for has that one's seed.
    let recorded = trial.user_attrs.get("seed").and_then(Json::as_u64);
    let derived = || study::derive_seed(spec.seed, left.number, "trial");
    let seed = recorded.unwrap_or_else(derived);
    trial.intermediate.clear();
    let tally = tally(&left.attempts);
    let mut active = ActiveTrial::new(trial, left.next_attempt(), seed, tally);
    if spec.operation.halve {
        active.halvings = tally.oom;
    }
    active
}

/// The faults of earlier attempts.
fn tally(attempts: &[AttemptRecord]) -> Tally {
    let mut tally = Tally::default();
    for attempt in attempts {
        tally.add_word(attempt.outcome.as_deref().unwrap_or_default());
    }
    tally
}

/// Adds to a queue of which only the latest are kept, so many.
fn remember<T>(queue: &mut VecDeque<T>, most: usize, item: T) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// What a run starts from.
pub struct Start {
    /// The study.
    pub spec: StudySpec,
    /// The path of its database.
    pub database: String,
    /// Its trials, as the store has them.
    pub trials: Vec<FrozenTrial>,
    /// Those to run again.
    pub reclaimed: Vec<Reclaimable>,
    /// Device of each slot.
    pub devices: Vec<Device>,
    /// libtorch threads of each worker.
    pub threads: usize,
    /// The trivial baseline.
    pub baseline: Option<Baseline>,
    /// The test split, where the task has one.
    pub test: Option<TestSplit>,
    /// Repeats that earlier runs have started or finished, in the order in which they ended.
    pub repeats: Vec<Repeated>,
    /// The run's row, where other nodes may work on the study.
    pub node: Option<i64>,
    /// What they do.
    pub nodes: Option<OtherNodes>,
    /// The selection that the study's attributes tell of.
    pub selected: Option<Json>,
    /// Name of the sampler that answers [`Action::Propose`].
    pub sampler: &'static str,
    /// Pruner.
    pub pruner: Box<dyn Pruner>,
    /// Predicts what trials need of memory.
    pub predictor: Predictor,
    /// What earlier runs and rehearsals have measured.
    pub peaks: Vec<Observation>,
    /// The database's directory, to tell people where logs are.
    pub dir: PathBuf,
}

/// What the run is at.
#[derive(Debug, Clone, PartialEq)]
enum Mode {
    /// Working towards the goal.
    Running,
    /// Nothing new is started; what runs may come to its end, until then.
    WindingDown {
        exit: Exit,
        reason: String,
        until: Now,
    },
    /// Running trials are put back.
    Stopping { exit: Exit, reason: String },
    /// The end of the run is being recorded.
    Closing { exit: Exit, reason: String },
    /// Over.
    Finished,
}

/// A batch that was sent to the store.
#[derive(Debug)]
struct Pending {
    writes: Vec<Write>,
    /// The attempt that is sent to this worker when the batch is durable.
    sends: Option<(WorkerId, AttemptId)>,
    /// What ends with it: its checkpoints are of no use once it is durable.
    ends: Vec<Job>,
    /// Where it is while the database cannot be written.
    state: BatchState,
}

/// The state of a run.
pub struct Core {
    spec: StudySpec,
    database: String,
    points: Vec<Params>,
    threads: usize,
    baseline: Option<Baseline>,
    search: Search,
    pruner: Box<dyn Pruner>,
    history: History,
    progress: StudyProgress,
    /// Trials and repeats of this run that have not ended.
    active: BTreeMap<Job, ActiveTrial>,
    /// Those of them that wait for a worker to run again on.
    retry: BTreeSet<Job>,
    /// What comes after the goal.
    repeats: Repeats,
    /// Enqueued trials, by anyone.
    waiting: BTreeMap<u64, FrozenTrial>,
    /// Trials of other programs with the number of a start of ours that is not on record yet: one of
    /// the two cannot be, which the answer to the start will tell.
    contested: BTreeMap<u64, FrozenTrial>,
    /// What is to be written of a new trial once its number is known.
    held_back: Vec<HeldBack>,
    /// Others that work on the study.
    nodes: Nodes,
    slots: Vec<Slot>,
    memory: Memory,
    concurrency: Concurrency,
    device_facts: DeviceFacts,
    deadlines: LivenessDeadlines,
    machine: Machine,
    ended_workers: EndedWorkers,
    mode: Mode,
    /// What is spent on looking whether pruning is right.
    audit: Audit,
    /// Why the search is over before its goal, where it is.
    search_ended: Option<SearchEnd>,
    /// Finished trials at the last look whether more would pay.
    looked_at: usize,
    /// What the run ends with where somebody has asked it to stop, or its time is over, and the goal is not reached.
    asked_to_stop: Option<(Exit, String)>,
    /// A program was seen to keep checkpoints.
    programs_keep_state: bool,
    /// Of attempts, so far.
    warnings: usize,
    /// Whose weights are kept; `None`: nobody's.
    weights: Option<Weights>,
    pending: BTreeMap<u64, Pending>,
    outbox: Vec<Write>,
    next_batch: u64,
    next_worker: WorkerId,
    reclaimed: u64,
    started: bool,
    last_fault: Option<String>,
    /// Trials of this run that failed.
    failures: Vec<Failure>,
    dir: PathBuf,
    outage: Option<StorageOutage>,
    now: Now,
    /// When what was handled last had come: all that came before has been handled. Who was silent, and
    /// how long an attempt took, is judged by this: what comes is handled later where much comes at once.
    heard: Now,
    /// How long the supervisor did not run, by itself or with its machine: counts towards the time
    /// budget alone.
    suspended: Now,
    actions: Vec<Action>,
}

/// What the trials of the study come to: the history, their progress, and those that wait.
fn known_trials(start: &Start) -> (History, StudyProgress, BTreeMap<u64, FrozenTrial>) {
    let mut history = History::new(start.spec.directions());
    let mut progress = StudyProgress::new(start.spec.directions());
    let mut waiting = BTreeMap::new();
    for trial in &start.trials {
        history.put(&start.spec.space, trial);
        progress.put(trial);
        if trial.state == TrialState::Waiting {
            waiting.insert(trial.number, trial.clone());
        }
    }
    for again in &start.reclaimed {
        history.clear_reports(again.number);
    }
    (history, progress, waiting)
}

/// The trials that an earlier run left unfinished, to be run again.
fn reclaimed_trials(start: &Start) -> BTreeMap<Job, ActiveTrial> {
    let again: BTreeMap<u64, &Reclaimable> =
        start.reclaimed.iter().map(|r| (r.number, r)).collect();
    let mut active = BTreeMap::new();
    for trial in &start.trials {
        let Some(again) = again.get(&trial.number) else {
            continue;
        };
        let reclaimed = left_trial(again, &start.spec, trial.clone());
        active.insert(Job::trial(again.number), reclaimed);
    }
    active
}

impl Core {
    /// A core at the start of a run.
    pub fn new(start: Start) -> Core {
        let (history, progress, waiting) = known_trials(&start);
        let active = reclaimed_trials(&start);
        let repeats = Repeats::new(
            &start.spec.operation,
            start.test,
            start.repeats,
            start.selected,
        );
        let weights = Weights::new(&start.spec, &start.trials);
        let memory = Memory::new(start.predictor, start.peaks);
        let audit = Audit::new(start.spec.operation.audit, start.spec.seed, &start.trials);
        let concurrency = Concurrency::new(start.devices.len());
        let mut core = Core {
            points: start.spec.first_points(),
            memory,
            retry: active.keys().copied().collect(),
            reclaimed: active.len() as u64,
            active,
            repeats,
            threads: start.threads,
            baseline: start.baseline,
            search: Search::new(start.sampler, start.spec.seed),
            pruner: start.pruner,
            history,
            progress,
            waiting,
            contested: BTreeMap::new(),
            held_back: Vec::new(),
            nodes: Nodes::new(start.node),
            concurrency,
            device_facts: DeviceFacts::new(),
            deadlines: LivenessDeadlines::default(),
            machine: Machine::default(),
            ended_workers: EndedWorkers::default(),
            slots: spares::slots(start.devices, &start.spec),
            mode: Mode::Running,
            audit,
            search_ended: None,
            looked_at: 0,
            asked_to_stop: None,
            programs_keep_state: false,
            warnings: 0,
            weights,
            pending: BTreeMap::new(),
            outbox: Vec::new(),
            next_batch: 0,
            next_worker: 0,
            started: false,
            last_fault: None,
            failures: Vec::new(),
            dir: start.dir,
            outage: None,
            now: Now::ZERO,
            heard: Now::ZERO,
            suspended: Now::ZERO,
            actions: Vec::new(),
            spec: start.spec,
            database: start.database,
        };
        let waiting: Vec<Job> = core.retry.iter().copied().collect();
        waiting.into_iter().for_each(|job| core.predict(job));
        if let Some(nodes) = start.nodes {
            core.on_other_nodes(nodes);
        }
        core
    }

    /// Whether the goal is reached already and nothing is left to run, repeats included.
    pub fn done(&self) -> bool {
        let repeats_done = self.repeats.done() && !self.nodes.repeat();
        self.active.is_empty() && self.search_done() && repeats_done
    }

    /// Whether the search is over, by its goal or before it, or nothing is left to try, and no trial is under way.
    fn search_done(&self) -> bool {
        let nothing_left = self.searched_out() && self.waiting.is_empty();
        let under_way = self.active.keys().any(|j| j.searches()) || self.nodes.trials() > 0;
        (!self.searching() || nothing_left) && !under_way
    }

    /// Counts now.
    pub fn counts(&self) -> Counts {
        self.progress.counts()
    }

    /// The best trial so far.
    pub fn best(&self) -> Option<&report::Best> {
        self.progress.best()
    }

    /// The supervisor did not run for this long since the run began; `now` did not go on meanwhile.
    pub fn suspended(&mut self, time: Now) {
        self.suspended = time;
    }

    /// Takes an event; gives what follows from it at once, in order: what is sent to workers, and which
    /// of them end. Has to be followed by [`Core::start_work`]. `came` is when it came, `now` the time now.
    pub fn on_event(&mut self, event: Event, came: Now, now: Now) -> Vec<Action> {
        self.now = self.now.max(now);
        self.heard = self.heard.max(came);
        if !self.started {
            self.started = true;
            self.announce();
        }
        match event {
            Event::Worker(worker, event) => self.on_worker(worker, event),
            Event::Batch(batch, event) => self.on_batch(batch, event),
            Event::StorageFailed {
                error,
                heals,
                spool,
            } => self.on_storage_failed(error, heals, spool),
            Event::StorageRecovered => self.on_storage_recovered(),
            Event::StudyChanged(changes) => self.on_look(changes),
            Event::Sampled(sample) => self.on_sampled(sample),
            Event::Xid { gpu, code } => self.on_xid(gpu, code),
            Event::ProbeLost(reason) => self.on_probe_lost(&reason),
            Event::Proposed {
                number,
                proposal,
                exhausted,
            } => self.on_proposed(number, proposal, exhausted),
            Event::StopRequested { now } => self.on_stop_requested(now),
            Event::StopAsked(asked) => self.on_stop_asked(asked),
            Event::FilesChanged { files } => self.on_files_changed(&files),
            Event::TerminalClosed => self.warn(format!(
                "the terminal is gone; the run goes on, and `tune stop {}` ends it",
                self.spec.study
            )),
            Event::Ticked => {}
        }
        self.look_for_end_of_search();
        self.check_search();
        self.plan_repeats();
        self.check_times();
        if self.mode == Mode::Running {
            self.check_breaker();
        }
        self.check_storage();
        std::mem::take(&mut self.actions)
    }

    /// Starts what can be started, and ends the run where nothing is left; gives what is to be done, in order.
    pub fn start_work(&mut self, now: Now) -> Vec<Action> {
        self.now = self.now.max(now);
        if self.mode == Mode::Running && self.outage.is_none() && self.in_doubt().is_none() {
            self.promote_spares();
            self.take_over();
            self.assign_all();
            self.spawn_needed();
            self.spawn_spares();
        }
        // What has ended is written together with what is started next: one flush of the disk a trial.
        if !self.starts_soon() {
            self.flush();
        }
        self.check_end();
        std::mem::take(&mut self.actions)
    }

    fn announce(&mut self) {
        let mut devices: Vec<String> = self.slots.iter().map(|s| s.device.to_string()).collect();
        devices.dedup();
        let several = !self.spec.further.is_empty();
        let event = report::RunStarted {
            database: self.database.clone(),
            trials: self.spec.operation.trials,
            parallel: self.slots.iter().filter(|s| !s.spare).count(),
            devices,
            objective: self.spec.objective.clone(),
            baseline: self.baseline.clone(),
            counts: self.progress.counts(),
            reclaimed: self.reclaimed,
            best: self.progress.best().cloned(),
            sampler: self.search.sampler.into(),
            pruner: self.pruner.name().into(),
            injected: self
                .spec
                .operation
                .inject
                .as_ref()
                .map(|inject| inject.plan.to_string()),
            objectives: match several {
                true => self.spec.objectives().into_iter().cloned().collect(),
                false => Vec::new(),
            },
            front: several.then(|| self.progress.front()),
            defaults: match self.spec.space.has_defaults() {
                true => self.spec.space.point(&Params::new()),
                false => Params::new(),
            },
        };
        self.report(report::Event::RunStarted(Box::new(event)));
    }

    /// Sends the outbox as a batch of its own.
    fn flush(&mut self) {
        if !self.outbox.is_empty() {
            self.send_batch(None);
        }
    }

    fn send_batch(&mut self, sends: Option<(WorkerId, AttemptId)>) {
        let (writes, sends) = self.hold_back(sends);
        if writes.is_empty() {
            return;
        }
        let batch = self.next_batch;
        self.next_batch += 1;
        self.actions.push(Action::Write {
            batch,
            writes: writes.clone(),
        });
        let ends = writes.iter().filter_map(Write::job_ended).collect();
        let pending = Pending {
            writes,
            sends,
            ends,
            state: BatchState::Waiting,
        };
        self.pending.insert(batch, pending);
    }

    fn act_on(&mut self, worker: WorkerId, action: WorkerAction) {
        self.actions.push(Action::Worker(worker, action));
    }

    /// Asks the slot's worker to end, unless it was asked before.
    fn terminate(&mut self, slot: usize) {
        let now = self.now;
        if let Some(worker) = self.slots[slot].worker_mut()
            && worker.terminated.is_none()
        {
            worker.terminated = Some(now);
            let id = worker.id;
            self.act_on(id, WorkerAction::Terminate);
        }
    }

    /// Kills the slot's worker, which counts as asked to end.
    fn kill(&mut self, slot: usize) {
        let now = self.now;
        if let Some(worker) = self.slots[slot].worker_mut() {
            worker.terminated.get_or_insert(now);
            worker.killed.get_or_insert(now);
            let id = worker.id;
            self.act_on(id, WorkerAction::Kill);
        }
    }

    fn send(&mut self, worker: WorkerId, message: ToWorker) {
        self.act_on(worker, WorkerAction::Send(message));
    }

    fn slot_of(&self, worker: WorkerId) -> Option<usize> {
        self.slots
            .iter()
            .position(|s| s.worker().is_some_and(|w| w.id == worker))
    }

    fn report(&mut self, event: report::Event) {
        self.actions.push(Action::Report(event));
    }

    fn warn(&mut self, message: String) {
        self.report(report::Event::Warned { message });
    }

    /// Whether any slot holds a worker.
    fn workers_left(&self) -> bool {
        self.slots.iter().any(|s| s.worker().is_some())
    }
}
