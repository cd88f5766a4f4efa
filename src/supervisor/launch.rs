//! From a checked configuration to a running study: takes hold of it, compares identities, takes
//! up what an earlier run left.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Map, Value as Json};

use super::core::{Core, Reclaimed, Start, checkpoint_name, checkpoints_dir};
use super::driver::{Driver, logs_dir};
use super::guardian::Guardian;
use super::hold::{Hold, Holder};
use super::signals::{self, outlive_file_size_limit};
use super::strays::{self, Ended, Family};
use super::take_in;
use crate::config::{self, StudySpec};
use crate::exit::{Exit, Failure};
use crate::fault::Tally;
use crate::gpu::Device;
use crate::report::{self, Sink, json_number};
use crate::store::{self, Reclaimable, RunRecord, Store, StudySummary, Write};
use crate::study::FrozenTrial;
use crate::task::Prepared;
use crate::{pruner, sampler};

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
    pub storage: PathBuf,
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
        mut sink,
    } = launch;
    outlive_file_size_limit()
        .map_err(|e| Failure::internal(format!("signals cannot be handled: {e}")))?;
    let dir = directory_of(&storage);
    let me = Holder::this_process();
    let hold = Hold::take(&dir, &spec.study, &me)?;
    let study = Family::study(hold.id());
    end_leftovers(&study);
    let family = study.this_run();
    // Dropped before the hold: when another run can begin, nothing of this one is left.
    let _guardian = Guardian::start(family.clone());
    let (events, inbox) = mpsc::channel();
    signals::listen(events.clone())
        .map_err(|e| Failure::internal(format!("signals cannot be handled: {e}")))?;
    take_in::check(&storage, &dir, &spec.study)?;
    let patience = spec.operation.supervisor.storage_patience;
    let mut warn = |message: String| {
        let event = report::Event::Warned { message };
        tracing::info!(?event);
        sink.handle(&event, jiff::Timestamp::now());
    };
    // A reader alone gets in where another program holds the write lock: that is waited for here,
    // where it is told and a signal ends it.
    let opened = take_in::patiently(patience, &mut warn, || {
        let store = Store::open(&storage)?;
        store.probe_lock()?;
        Ok(store)
    });
    if opened.is_err() && signals::requested() {
        return Err(Failure::new(Exit::Stopped, "stopped by a signal"));
    }
    let mut store = opened.map_err(|e| take_in::with_spool(e, &dir, &spec.study))?;
    store.set_lock_patience(patience);
    let study_id = open_study(&mut store, &spec, &prepared)?;
    take_in::take_in(&mut store, study_id, &dir, &spec.study, &mut warn)?;
    let record = RunRecord {
        pid: me.pid,
        host: me.host,
        version: env!("CARGO_PKG_VERSION").into(),
        command: std::env::args().collect(),
        operation: spec.to_record(),
    };
    let trials = store.trials(study_id)?;
    let reclaimed = reclaim(&store, study_id)?;
    drop_checkpoints(&dir.join(checkpoints_dir(&spec.study)), &reclaimed);
    let run_id = store.begin_run(study_id, &record)?;
    let mut user_attrs = study_attributes(&spec, &prepared);
    mark_injected(&mut user_attrs, &spec, &store)?;
    store.apply(study_id, run_id, &[Write::StudyAttributes { user_attrs }])?;
    let started = store.run_started(study_id, run_id)?.unwrap_or_default();
    store.set_lock_patience(store::LOCK_PATIENCE);
    let spool = take_in::reserve(&dir, &spec.study)?;
    prune_logs(&logs_dir(&dir, &spec.study), spec.operation.max_logs_bytes);
    let core = Core::new(start(&spec, prepared, trials, reclaimed, &devices)?);
    let driver = Driver {
        dir,
        study: spec.study,
        study_id,
        run_id,
        family,
        started,
        sink,
    };
    driver.run(core, store, spool, (events, inbox))
}

/// The trials that an earlier run left unfinished; waits until the last of their processes are gone.
fn reclaim(store: &Store, study_id: i64) -> Result<Vec<Reclaimed>, Failure> {
    let attempts = store.all_attempts(study_id)?;
    let reclaimable = store.reclaimable(study_id)?;
    let last = |r: &Reclaimable| Some(r.last.as_ref()?.pid);
    let pids: Vec<u32> = reclaimable.iter().filter_map(last).collect();
    strays::wait_for_exits(&pids, LEFTOVERS);
    let reclaimed = reclaimable.into_iter().map(|r| {
        let mut tally = Tally::default();
        for attempt in attempts.get(&r.number).into_iter().flatten() {
            tally.add_word(attempt.outcome.as_deref().unwrap_or_default());
        }
        Reclaimed {
            number: r.number,
            attempt: r.attempts,
            tally,
        }
    });
    Ok(reclaimed.collect())
}

/// Before anything is taken up again: what workers of an earlier run have left behind, or those
/// workers themselves where supervisor and guardian were killed at once, must not go on beside it.
fn end_leftovers(study: &Family) {
    match strays::end_or_give_up(study, LEFTOVERS) {
        Some(ended) if ended == Ended::default() => {}
        Some(ended) => tracing::warn!("processes of an earlier run were still alive: {ended}"),
        None => tracing::warn!("processes of an earlier run could not be looked for in time"),
    }
}

/// The directory beside a database: `tune.db` has `tune.db.d`.
pub fn directory_of(storage: &Path) -> PathBuf {
    let mut name = storage.as_os_str().to_owned();
    name.push(".d");
    PathBuf::from(name)
}

fn start(
    spec: &StudySpec,
    prepared: Prepared,
    trials: Vec<FrozenTrial>,
    reclaimed: Vec<Reclaimed>,
    devices: &[Device],
) -> Result<Start, Failure> {
    let operation = &spec.operation;
    let unknown = |what: &str, kind: &str| Failure::internal(format!("{what} {kind} has no code"));
    let slots = operation.parallel.max(1);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Start {
        spec: spec.clone(),
        trials,
        reclaimed,
        devices: (0..slots).map(|i| devices[i % devices.len()]).collect(),
        // Two libtorch threads of different workers on one core slow each other down tenfold.
        threads: operation.threads.unwrap_or((cores / slots).max(1)),
        baseline: prepared.baseline,
        sampler: sampler::sampler(&operation.sampler)
            .ok_or_else(|| unknown("sampler", &operation.sampler.kind))?,
        pruner: pruner::pruner(&operation.pruner)
            .ok_or_else(|| unknown("pruner", &operation.pruner.kind))?,
    })
}

/// Finds the study and checks that it is the one asked for, or creates it.
fn open_study(store: &mut Store, spec: &StudySpec, prepared: &Prepared) -> Result<i64, Failure> {
    let identity = config::identity(spec, prepared);
    let Some(study) = store.find_study(&spec.study)? else {
        let directions = [spec.objective.direction];
        let attrs = study_attributes(spec, prepared);
        return Ok(store.create_study(&spec.study, &directions, &attrs, &identity)?);
    };
    match store.identity(study.study_id)? {
        Some(was) => {
            let differences = config::differences(&was, &identity);
            if !differences.is_empty() {
                return Err(differs(spec, &differences));
            }
        }
        None => {
            check_foreign(store, spec, &study)?;
            store.set_identity(study.study_id, &identity)?;
        }
    }
    Ok(study.study_id)
}

fn study_attributes(spec: &StudySpec, prepared: &Prepared) -> Map<String, Json> {
    let mut attrs = Map::new();
    attrs.insert("task".into(), spec.task.clone().into());
    attrs.insert("task_kind".into(), spec.kind.clone().into());
    attrs.insert("metric".into(), spec.objective.metric.clone().into());
    attrs.insert("trials_goal".into(), spec.operation.trials.into());
    if let Some(baseline) = &prepared.baseline {
        let json = serde_json::json!({
            "value": json_number(baseline.value),
            "what": baseline.what,
        });
        attrs.insert("baseline".into(), json);
    }
    attrs
}

/// Marks a study for good whose runs were disturbed on purpose: every plan that was ever used.
fn mark_injected(
    attrs: &mut Map<String, Json>,
    spec: &StudySpec,
    store: &Store,
) -> Result<(), Failure> {
    let Some(inject) = &spec.operation.inject else {
        return Ok(());
    };
    let study = store.find_study(&spec.study)?;
    let before = study.and_then(|s| s.user_attrs.get("injected_faults").cloned());
    let mut plans = match before {
        Some(Json::Array(plans)) => plans,
        Some(_) | None => Vec::new(),
    };
    let plan = Json::from(inject.plan.to_string());
    if !plans.contains(&plan) {
        plans.push(plan);
    }
    attrs.insert("injected_faults".into(), plans.into());
    Ok(())
}

fn differs(spec: &StudySpec, differences: &[config::Difference]) -> Failure {
    let mut message = format!(
        "the study {} differs from what is asked, so that values would not be comparable:",
        spec.study
    );
    for difference in differences {
        message.push_str(&format!("\n  {difference}"));
    }
    message.push_str(
        "\nGive the new search a name of its own with --study NAME; the old study stays as it is.",
    );
    Failure::new(Exit::Differs, message)
}

/// A study that `tune` did not make: it can be continued when its direction is the one asked for
/// and no categorical parameter has other choices.
fn check_foreign(store: &Store, spec: &StudySpec, study: &StudySummary) -> Result<(), Failure> {
    let mut problems = Vec::new();
    if study.directions != [spec.objective.direction] {
        let was: Vec<String> = study.directions.iter().map(ToString::to_string).collect();
        problems.push(format!(
            "objective.direction: the study has {}, asked is {}",
            was.join(", "),
            spec.objective.direction
        ));
    }
    for trial in store.trials(study.study_id)? {
        for (name, was) in &trial.distributions {
            let Some((_, parameter)) = spec.space.find(name) else {
                continue;
            };
            if !compatible(was, &parameter.domain) {
                problems.push(format!(
                    "space.{name}: trial {} was drawn from {was:?}, asked is {:?}",
                    trial.number, parameter.domain
                ));
            }
        }
        if problems.len() >= 10 {
            break;
        }
    }
    problems.dedup();
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Differs,
        format!(
            "the study {} was made by another program and differs from what is asked:\n  {}\n\
             Give the new search a name of its own with --study NAME.",
            spec.study,
            problems.join("\n  ")
        ),
    ))
}

/// Whether a study can hold both distributions of a parameter. Optuna's rule: the same kind, for
/// categorical parameters the same choices.
pub fn compatible(a: &crate::space::Domain, b: &crate::space::Domain) -> bool {
    use crate::space::Domain;
    match (a, b) {
        (Domain::Categorical { choices: a }, Domain::Categorical { choices: b }) => a == b,
        (Domain::Float { log: a, .. }, Domain::Float { log: b, .. })
        | (Domain::Int { log: a, .. }, Domain::Int { log: b, .. }) => a == b,
        (Domain::Categorical { .. } | Domain::Float { .. } | Domain::Int { .. }, _) => false,
    }
}

/// Deletes the checkpoints of trials that will not go on: a run that was killed could not do it.
fn drop_checkpoints(dir: &Path, reclaimed: &[Reclaimed]) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let wanted = reclaimed.iter().any(|r| {
            let name = checkpoint_name("", r.number);
            Path::new(&name).file_name() == Some(&entry.file_name())
        });
        if !wanted && let Err(error) = std::fs::remove_dir_all(entry.path()) {
            tracing::warn!(path = ?entry.path(), %error, "a checkpoint could not be deleted");
        }
    }
}

/// Deletes the oldest logs of a study until the rest is small enough.
fn prune_logs(dir: &Path, most: u64) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    let mut logs: Vec<(std::time::SystemTime, u64, PathBuf)> = entries
        .flatten()
        .filter_map(|e| {
            let meta = e.metadata().ok()?;
            Some((meta.modified().ok()?, meta.len(), e.path()))
        })
        .collect();
    logs.sort();
    let mut total: u64 = logs.iter().map(|(_, size, _)| size).sum();
    for (_, size, path) in logs {
        if total <= most {
            return;
        }
        if std::fs::remove_file(&path).is_ok() {
            total -= size;
        }
    }
}
