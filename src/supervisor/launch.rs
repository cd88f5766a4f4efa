//! From a checked configuration to a running study: locks it, compares identities, takes
//! up what an earlier run left.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Map, Value as Json};

use super::core::{Core, Repeated, SLOTS_GIVEN_UP, Start, checkpoint_name, in_parts};
use super::disk_tasks::RunFiles;
use super::driver::{Driver, log_event};
use super::earlier_files::{
    check_places, drop_checkpoints, drop_of_others, keep_weights, last_heard,
};
use super::event_channel;
use super::open_study::{LockedStudy, Origin, open_study, study_attributes};
use super::proposer::Proposer;
use super::run_processes::RunProcesses;
use super::signals;
use super::spool::Waiting;
use super::spool_replay;
use super::stop::Noted;
use super::study_lock::LockOwner;
use super::writer::RunId;
use config::Prepared;
use config::StudySpec;
use device::Device;
use files::paths::checkpoints_dir;
use files::paths::logs_dir;
use memory::rehearsal::Rehearsed;
use memory::{Floor, Observation, Predictor};
use messages::clock::to_store;
use messages::exit::{Exit, Failure};
use process::orphans::{self, Ended, ProcessMark};
use report::Sink;
use search::pruner;
use search::sampler;
use search::study::{FrozenTrial, Job, TrialState};
use store::{
    KnownTrials, OtherNodes, Place, Reclaimable, RepeatRecord, RunRecord, Store, StoreErrorKind,
    Write,
};

/// How long processes of an earlier run are given to end.
const LEFTOVERS: Duration = Duration::from_secs(2);

/// What a run is started with.
pub struct Launch {
    /// The checked configuration.
    pub spec: StudySpec,
    /// What the task found in its data and models.
    pub prepared: Prepared,
    /// The devices to train on; slots are dealt to them in turn.
    pub devices: Vec<Device>,
    /// The database.
    pub storage: Place,
    /// What a new study is made from.
    pub origin: Origin,
    /// The program's files may have changed since the study began (`--same-program`).
    pub same_program: bool,
    /// The lock on the study, see [`super::lock_study`].
    pub locked: LockedStudy,
    /// What trainings cannot do without of the devices' memory.
    pub floor: Option<Arc<Floor>>,
    /// The library that has libtorch, where workers need it.
    pub library: Option<PathBuf>,
    /// What a rehearsal has shown before a new study.
    pub rehearsed: Vec<Rehearsed>,
    /// Where events go.
    pub sink: Box<dyn Sink>,
}

/// Runs a study until its goal, its budget or a stop.
///
/// # Errors
/// The study is held (6), storage fails (7), the study differs from what is asked (8).
pub fn launch(launch: Launch) -> Result<Exit, Failure> {
    let Launch {
        spec,
        prepared,
        devices,
        storage,
        origin,
        same_program,
        locked,
        floor,
        library,
        rehearsed,
        sink,
    } = launch;
    let (dir, own) = (storage.files(), storage.own_files());
    let LockedStudy { mut lock, owner } = locked;
    let mut sink = Noted::around(&lock, &owner, sink)?;
    check_places(&dir, &spec.study)?;
    let study = ProcessMark::study(lock.id());
    end_leftovers(&study);
    // Dropped before the lock: when another run can begin, nothing of this one is left.
    let processes = Arc::new(RunProcesses::start(&study, spec.operation.host_memory));
    let (clock, events, inbox) = event_channel::start()?;
    signals::listen(events.clone())
        .map_err(|e| Failure::internal(format!("signals cannot be handled: {e}")))?;
    spool_replay::check(&storage, &spec.study)?;
    let mut store = open(&storage, &own, &spec, &mut *sink)?;
    let opened = open_study(&mut store, &spec, &prepared, &origin, same_program)?;
    let study_id = opened.study_id;
    lock.row(study_id, &spec.study)?;
    join(&mut store, study_id, &mut *sink)?;
    if let Some(fork) = opened.fork {
        tell_fork(&mut *sink, fork, &storage);
    }
    let mut warn = |message| tell(&mut *sink, report::Event::Warned { message });
    opened.warnings.into_iter().for_each(&mut warn);
    spool_replay::replay_spools(&mut store, study_id, &spec.study, &owner, &mut warn)?;
    let written = [
        logs_dir(&dir, &spec.study),
        dir.join(checkpoints_dir(&spec.study)),
    ];
    let run = begin_run(&mut store, study_id, &spec, owner, &written)?;
    let (mut earlier, seen) = read_earlier_runs(&store, study_id, run.run_id)?;
    spool_replay::tell_former(&storage, &spec.study, &mut warn);
    tidy(&store, study_id, &spec, &earlier)?;
    let rehearsed = record_attributes(&mut store, &run, &spec, &prepared, &earlier, rehearsed)?;
    earlier.peaks = peaks(&store, &spec, &devices, &rehearsed);
    store.set_lock_patience(store::LOCK_PATIENCE);
    let spool = spool_replay::reserve(&own, &spec.study)?;
    let warnings = prepared.warnings.clone();
    let same = same_program && spec.runs_programs();
    let watched = prepared.watched.clone();
    let (start, proposer) = start(&spec, prepared, earlier, &devices, floor, &storage)?;
    let core = Core::new(start);
    if !core.done() {
        warnings.into_iter().for_each(&mut warn);
    }
    let driver = Driver {
        in_process: !spec.runs_programs(),
        files: run_files(dir, &spec),
        run,
        gpus: devices.iter().any(|d| *d != Device::Cpu),
        library,
        processes: Arc::clone(&processes),
        watched: watched.into_iter().filter(|_| !same).collect(),
        sink,
    };
    let storage = (store, seen, spool);
    driver.run(core, proposer, storage, clock, (events, inbox))
}

fn run_files(dir: PathBuf, spec: &StudySpec) -> RunFiles {
    RunFiles {
        dir,
        study: spec.study.clone(),
        max_kept_bytes: spec.operation.max_kept_bytes,
        max_logs_bytes: spec.operation.max_logs_bytes,
    }
}

/// Opens the database for writing. A reader alone gets in where another program holds the write
/// lock: that is waited for here, where it is told and a signal ends it.
fn open(
    storage: &Place,
    dir: &Path,
    spec: &StudySpec,
    sink: &mut dyn Sink,
) -> Result<Store, Failure> {
    let patience = spec.operation.supervisor.storage_patience;
    let mut warn = |message| tell(sink, report::Event::Warned { message });
    let opened = spool_replay::patiently(patience, &mut warn, || {
        let store = Store::open(storage)?;
        store.probe_lock()?;
        Ok(store)
    });
    if opened.is_err() && signals::requested() {
        return Err(Failure::new(Exit::Stopped, "stopped by a signal"));
    }
    let store = opened.map_err(|e| spool_replay::with_spool(e, dir, &spec.study))?;
    store.set_lock_patience(patience);
    Ok(store)
}

/// Longer than a server needs to find out that a connection's machine is gone.
const SILENCE: Duration = Duration::from_secs(45);

/// Joins the nodes of a study. A machine that went down has its node's name until the server finds that out: that is
/// waited for, as long as who has the name says nothing.
fn join(store: &mut Store, study_id: i64, sink: &mut dyn Sink) -> Result<(), Failure> {
    let (start, mut before) = (Instant::now(), None);
    loop {
        let held = match store.join(study_id) {
            Err(error) if matches!(error.kind, StoreErrorKind::Held(..)) => error,
            result => return Ok(result?),
        };
        let sign = store.sign_of_life(study_id)?;
        if sign.is_none()
            || start.elapsed() > SILENCE
            || before.as_ref().is_some_and(|b| *b != sign)
        {
            return Err(held.into());
        }
        if signals::requested() {
            return Err(Failure::new(Exit::Stopped, "stopped by a signal"));
        }
        if before.is_none() {
            let message = format!(
                "{held}; where that was before this machine went down, the server finds out that it is gone: waiting \
                 for at most {SILENCE:?}, unless it says something"
            );
            tell(sink, report::Event::Warned { message });
        }
        before = Some(sign);
        thread::sleep(Duration::from_secs(1));
    }
}

fn tell(sink: &mut dyn Sink, event: report::Event) {
    log_event(&event);
    sink.handle(&event, messages::clock::now());
}

/// Tells what a study was made from, and which results of those studies it could not see.
fn tell_fork(sink: &mut dyn Sink, fork: report::Fork, storage: &Place) {
    let missed: Vec<String> = fork
        .from
        .iter()
        .filter_map(|study| Some((study, Waiting::of(storage, study).text()?)))
        .map(|(study, text)| format!("study {study}: {text}"))
        .collect();
    tell(sink, report::Event::StudyForked(fork));
    for message in missed {
        tell(sink, report::Event::Warned { message });
    }
}

/// The trials that earlier runs left unfinished and this one has taken over; waits until the last of their processes are
/// gone.
fn reclaim(store: &Store, study_id: i64, run_id: i64) -> Result<Vec<Reclaimable>, Failure> {
    let reclaimable = store.reclaimable(study_id, run_id)?;
    let last = |r: &Reclaimable| Some(r.attempts.last()?.pid);
    let pids: Vec<u32> = reclaimable.iter().filter_map(last).collect();
    orphans::wait_for_exits(&pids, LEFTOVERS);
    Ok(reclaimable)
}

/// Repeats and tests of earlier runs; waits until the last processes of those that go on are gone.
fn repeats(store: &Store, study_id: i64) -> Result<Vec<Repeated>, Failure> {
    let mut records = store.repeats(study_id, None)?;
    // By runs first, which have numbers: between two of them the clock may have been put back.
    let run = |r: &RepeatRecord| r.attempts.last().map(|a| a.run_id);
    records.sort_by(|a, b| (run(a), &a.ended).cmp(&(run(b), &b.ended)));
    if !store.place().is_shared() {
        let open = records.iter().filter(|r| !r.state.finished());
        let pids: Vec<u32> = open.filter_map(|r| Some(r.attempts.last()?.pid)).collect();
        orphans::wait_for_exits(&pids, LEFTOVERS);
    }
    Ok(records.into_iter().map(Repeated::of).collect())
}

/// Before anything is taken up again: what workers of an earlier run have left behind, or those
/// workers themselves where supervisor and guardian were killed at once, must not go on beside it.
fn end_leftovers(study: &ProcessMark) {
    match orphans::end_or_give_up(study, LEFTOVERS) {
        Some(ended) if ended == Ended::default() => {}
        Some(ended) => tracing::warn!("processes of an earlier run were still alive: {ended}"),
        None => tracing::warn!("processes of an earlier run could not be looked for in time"),
    }
}

/// What the database holds of earlier runs.
struct EarlierRuns {
    trials: Vec<FrozenTrial>,
    reclaimed: Vec<Reclaimable>,
    repeats: Vec<Repeated>,
    /// The run after them.
    run_id: i64,
    /// What other nodes do.
    nodes: Option<OtherNodes>,
    /// The study's attributes.
    attrs: Map<String, Json>,
    peaks: Vec<Observation>,
}

impl EarlierRuns {
    /// Whether the checkpoint of this name is that of what goes on, here or, where the directory may be shared, on another
    /// node, which may have begun meanwhile what is not known here.
    fn needs(&self, checkpoint: &OsStr, shared: bool) -> bool {
        let of = |job: Job| Path::new(&checkpoint_name("", job)).file_name() == Some(checkpoint);
        if shared {
            let trials = self.trials.iter().filter(|t| t.state.finished());
            let repeats = self.repeats.iter().filter(|r| r.ended.is_some());
            let ended = trials.map(|t| Job::trial(t.number));
            return !ended.chain(repeats.map(|r| r.job)).any(of);
        }
        let repeats = self.repeats.iter().filter(|r| r.ended.is_none());
        let running = |trial: &&FrozenTrial| trial.state == TrialState::Running;
        let trials = self.trials.iter().filter(running);
        let trials = trials.map(|t| Job::trial(t.number));
        trials.chain(repeats.map(|r| r.job)).any(of)
    }
}

/// Reads them, but for the peaks, which depend on what has been rehearsed.
fn read_earlier_runs(
    store: &Store,
    study_id: i64,
    run_id: i64,
) -> Result<(EarlierRuns, KnownTrials), Failure> {
    let mut seen = KnownTrials::of_run(run_id);
    // By its row: another program may have given it another name by now.
    let known = store
        .studies()?
        .into_iter()
        .find(|s| s.study_id == study_id);
    let all = store.changes(study_id, &mut seen)?;
    let earlier = EarlierRuns {
        trials: all.trials,
        reclaimed: reclaim(store, study_id, run_id)?,
        repeats: repeats(store, study_id)?,
        run_id,
        nodes: all.nodes,
        attrs: known.map(|s| s.user_attrs).unwrap_or_default(),
        peaks: Vec::new(),
    };
    Ok((earlier, seen))
}

/// Brings the files of earlier runs to what the database says: a run that was killed could not do it.
fn tidy(
    store: &Store,
    study_id: i64,
    spec: &StudySpec,
    earlier: &EarlierRuns,
) -> Result<(), Failure> {
    let (dir, shared) = (store.place().files(), store.place().is_shared());
    if shared {
        let began = store.runs(study_id)?.into_iter().next();
        let began = began.map_or_else(String::new, |run| run.started);
        drop_of_others(&dir, &spec.study, &format!("{study_id} {began}"));
    }
    keep_weights(spec, &earlier.trials, &dir, shared);
    let checkpoints = dir.join(checkpoints_dir(&spec.study));
    drop_checkpoints(&checkpoints, |name| earlier.needs(name, shared));
    Ok(())
}

/// Records the run. `written`: where what an earlier one was training has written.
fn begin_run(
    store: &mut Store,
    study_id: i64,
    spec: &StudySpec,
    owner: LockOwner,
    written: &[PathBuf],
) -> Result<RunId, Failure> {
    let record = RunRecord {
        pid: owner.pid,
        host: owner.host,
        version: env!("CARGO_PKG_VERSION").into(),
        command: std::env::args().collect(),
        operation: spec.to_record(),
    };
    let lease = store.place().node().map(|_| spec.operation.lease);
    let last = store.last_run(study_id)?;
    let killed = last.is_some_and(|run| run.ended.is_none());
    let heard = killed.then(|| last_heard(written)).flatten();
    let heard = heard.and_then(|heard| Timestamp::try_from(heard).ok());
    let run_id = match (lease, heard) {
        (Some(lease), _) => store.begin_run_of_node(study_id, &record, lease)?,
        (None, Some(heard)) => store.begin_run_after(study_id, &record, &to_store(heard))?,
        (None, None) => store.begin_run(study_id, &record)?,
    };
    Ok(RunId {
        study: spec.study.clone(),
        study_id,
        run_id,
        started: store.run_started(study_id, run_id)?.unwrap_or_default(),
        lease,
    })
}

/// Records the study's attributes as they are from this run on; gives what was rehearsed, now or
/// before an earlier run.
fn record_attributes(
    store: &mut Store,
    run: &RunId,
    spec: &StudySpec,
    prepared: &Prepared,
    earlier: &EarlierRuns,
    rehearsed: Vec<Rehearsed>,
) -> Result<Vec<Rehearsed>, Failure> {
    let mut user_attrs = study_attributes(spec, prepared);
    mark_injected(&mut user_attrs, &earlier.attrs, spec);
    if earlier.attrs.contains_key(SLOTS_GIVEN_UP) {
        user_attrs.insert(SLOTS_GIVEN_UP.into(), Json::Array(Vec::new()));
    }
    let before = earlier.attrs.get(REHEARSAL);
    let rehearsed = keep_rehearsal(&mut user_attrs, before, rehearsed);
    let write = Write::StudyAttributes { user_attrs };
    store.apply(run.study_id, run.run_id, &[write])?;
    Ok(rehearsed)
}

fn unknown(what: &str, kind: &str) -> Failure {
    Failure::internal(format!("{what} {kind} has no code"))
}

/// What the core starts from, and who answers its questions.
fn start(
    spec: &StudySpec,
    prepared: Prepared,
    earlier: EarlierRuns,
    devices: &[Device],
    floor: Option<Arc<Floor>>,
    storage: &Place,
) -> Result<(Start, Proposer), Failure> {
    let dir = storage.files();
    let operation = &spec.operation;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let slots = operation.parallel.slots(devices, cores);
    let sampler = sampler::sampler(&operation.sampler)
        .ok_or_else(|| unknown("sampler", &operation.sampler.kind))?;
    let proposer = Proposer::new(sampler, spec);
    let start = Start {
        spec: spec.clone(),
        database: storage.to_string(),
        trials: earlier.trials,
        reclaimed: earlier.reclaimed,
        repeats: earlier.repeats,
        node: storage.is_shared().then_some(earlier.run_id),
        nodes: earlier.nodes,
        selected: earlier.attrs.get("selection").cloned(),
        test: prepared.test,
        devices: (0..slots).map(|i| devices[i % devices.len()]).collect(),
        threads: operation.worker_threads(devices, cores),
        baseline: prepared.baseline,
        sampler: proposer.name(),
        pruner: pruner::pruner(&operation.pruner, &spec.horizon())
            .ok_or_else(|| unknown("pruner", &operation.pruner.kind))?,
        predictor: Predictor::new(spec.space.clone(), floor),
        peaks: earlier.peaks,
        dir,
    };
    Ok((start, proposer))
}

/// What is known of the peaks of trainings like these: by the rehearsal, and by this and earlier
/// studies of the task on the same kind of device. What cannot be read is only missed.
fn peaks(
    store: &Store,
    spec: &StudySpec,
    devices: &[Device],
    rehearsed: &[Rehearsed],
) -> Vec<Observation> {
    let cpu = devices.first() == Some(&Device::Cpu);
    let found = store.memory_observations(&spec.kind, &spec.task);
    let measured = found.unwrap_or_else(|error| {
        tracing::warn!(%error, "what earlier trials used of memory could not be read");
        Vec::new()
    });
    let here = measured
        .into_iter()
        .filter(|o| (o.device == Device::Cpu) == cpu)
        .map(|o| Observation {
            config: in_parts(o.observation.config, o.halvings),
            ..o.observation
        });
    let rehearsed = rehearsed.iter().filter_map(Rehearsed::observation);
    rehearsed.chain(here).collect()
}

/// The study's attribute that holds what was rehearsed.
const REHEARSAL: &str = "rehearsal";

/// What was rehearsed, now or before an earlier run; keeps it with the study.
fn keep_rehearsal(
    attrs: &mut Map<String, Json>,
    before: Option<&Json>,
    rehearsed: Vec<Rehearsed>,
) -> Vec<Rehearsed> {
    if rehearsed.is_empty() {
        let read = |json: &Json| serde_json::from_value(json.clone()).ok();
        return before.and_then(read).unwrap_or_default();
    }
    if let Ok(json) = serde_json::to_value(&rehearsed) {
        attrs.insert(REHEARSAL.into(), json);
    }
    rehearsed
}

/// Marks a study for good whose runs were disturbed on purpose: every plan that was ever used.
fn mark_injected(attrs: &mut Map<String, Json>, before: &Map<String, Json>, spec: &StudySpec) {
    let Some(inject) = &spec.operation.inject else {
        return;
    };
    let mut plans = match before.get("injected_faults") {
        Some(Json::Array(plans)) => plans.clone(),
        Some(_) | None => Vec::new(),
    };
    let plan = Json::from(inject.plan.to_string());
    if !plans.contains(&plan) {
        plans.push(plan);
    }
    attrs.insert("injected_faults".into(), plans.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use search::space::Params;

    #[test]
    fn on_shared_places_a_checkpoint_goes_only_where_its_training_is_known_to_have_ended() {
        let trial = |number, state| FrozenTrial::new(number, state, Params::new());
        let earlier = EarlierRuns {
            trials: vec![
                trial(0, TrialState::Complete),
                trial(1, TrialState::Running),
            ],
            reclaimed: Vec::new(),
            repeats: Vec::new(),
            run_id: 1,
            nodes: None,
            attrs: Map::new(),
            peaks: Vec::new(),
        };
        let needs = |number, shared| {
            let name = checkpoint_name("study", Job::trial(number));
            let name = Path::new(&name).file_name();
            name.is_some_and(|name| earlier.needs(name, shared))
        };
        // The last one may have begun elsewhere since the database was read.
        assert_eq!([0, 1, 2].map(|n| needs(n, true)), [false, true, true]);
        assert_eq!([0, 1, 2].map(|n| needs(n, false)), [false, true, false]);
    }
}
