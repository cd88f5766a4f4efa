//! `tune replay STUDY TRIAL`: one trial again, with nothing recorded.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Value as Json;

use super::enqueue::trained_elsewhere;
use super::{Common, ReplayArgs, libtorch, run};
use crate::query;
use adopt::fit;
use config::StudySpec;
use config::places::Wanted;
use device::DevicePolicy;
use files::paths::logs_dir;
use messages::exit::{Exit, Failure};
use protocol::AttemptId;
use search::study::carry::COPIED_FROM;
use search::study::{self, FrozenTrial, Purpose};
use signal_hook::consts::{SIGINT, SIGTERM};
use store::{Place, Store};
use supervisor::{Replay, replay, replay_log};
use task::TrialSpec;

pub(super) fn replay_trial(common: &Common, args: &ReplayArgs) -> Result<Exit, Failure> {
    let project = run::project(common, Wanted::Studies)?;
    let storage = run::storage(&project, common)?;
    let (spec, trial) = find(&storage, &args.study, args.number, args.device.as_ref())?;
    same_inputs(&storage, &args.study, &spec, &trial)?;
    let plan = plan(&storage, spec, &trial, args.blocking)?;
    let shown = query::Replayed::new(&plan, &trial);
    let loud = common.loud();
    if loud {
        super::print(&shown.head())?;
    }
    let played = replay(&plan, &mut |epoch| {
        if loud {
            // A reader that has gone away does not end the replay.
            let _ = report::out(&shown.epoch(epoch));
        }
    })?;
    match common.json {
        true => super::print_json(&shown.json(&played)),
        false => super::print(&shown.end(&played)),
    }
}

/// The training of the trial, as in the study.
pub(super) fn plan(
    storage: &Place,
    spec: StudySpec,
    trial: &FrozenTrial,
    blocking: bool,
) -> Result<Replay, Failure> {
    let devices = libtorch::devices(&spec)?;
    let device = *devices
        .first()
        .ok_or_else(|| Failure::internal("no device was found".to_owned()))?;
    let training = training(&spec, trial);
    let logs = logs_dir(&storage.files(), &spec.study);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Replay {
        device,
        // As in the study: sums of floats depend on it.
        threads: spec.operation.worker_threads(&devices, cores),
        blocking,
        library: libtorch::for_workers(&spec, device)?,
        ..Replay::new(
            spec,
            training,
            replay_log(&logs, attempt(trial), messages::clock::now()),
        )
    })
}

/// What the worker gets.
pub(super) fn training(spec: &StudySpec, trial: &FrozenTrial) -> TrialSpec {
    TrialSpec::new(spec, trial.number, seed(spec, trial), trial.params.clone())
}

/// By which a replay's log is named.
pub(super) fn attempt(trial: &FrozenTrial) -> AttemptId {
    AttemptId {
        number: trial.number,
        purpose: Purpose::Search,
        attempt: 0,
    }
}

/// What SIGINT and SIGTERM set, so that a replay ends in order ([`Bounds::stop`]).
pub(super) fn stopped_by_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| Failure::internal(format!("signals cannot be handled: {e}")))?;
    }
    Ok(stop)
}

/// Refuses a trial whose data or models are no longer those of its study.
pub(super) fn same_inputs(
    storage: &Place,
    study: &str,
    spec: &StudySpec,
    trial: &FrozenTrial,
) -> Result<(), Failure> {
    let Some(kind) = run::preparation(&spec.kind) else {
        return Ok(());
    };
    let store = Store::open_read_only(storage)?;
    let study = store::choose(&store, Some(study))?;
    let identity = store.identity(study.study_id)?.unwrap_or_default();
    Ok(kind.unchanged(spec, &identity, &spec.effective(&trial.params))?)
}

/// The seed that the trial was trained with: one from another study had another number there.
pub(super) fn seed(spec: &StudySpec, trial: &FrozenTrial) -> u64 {
    let noted = trial.user_attrs.get("seed").and_then(|s| s.as_u64());
    noted
        .filter(|_| trial.user_attrs.contains_key(COPIED_FROM))
        .unwrap_or_else(|| study::derive_seed(spec.seed, trial.number, "trial"))
}

/// The study as its last run resolved it, with another device where one is named, and the trial.
pub(super) fn find(
    storage: &Place,
    study: &str,
    number: u64,
    device: Option<&DevicePolicy>,
) -> Result<(StudySpec, FrozenTrial), Failure> {
    let store = Store::open_read_only(storage)?;
    let (study, trial, _) = query::read_trial(&store, Some(study), number)?;
    let runs = store.runs(study.study_id)?;
    let recorded = runs
        .last()
        .and_then(|r| StudySpec::from_record(&r.record.operation));
    let Some(mut spec) = recorded else {
        let study_name = &study.name;
        return Err(Failure::input(match trained_elsewhere(&store, &study)? {
            true => format!(
                "study {study_name}: its points are asked for by a program, through tune ask-tell, and trained there: there \
                 is no task to train one by; try the point in that program"
            ),
            false => format!(
                "study {study_name}: its last run was not recorded with its whole configuration; run its task once with \
                 this version, and try again"
            ),
        }));
    };
    let missing = |p: &&search::space::Parameter| {
        !trial.params.contains_key(&p.name) && spec.space.active_domain(p, &trial.params).is_some()
    };
    if let Some(parameter) = spec.space.parameters.iter().find(missing) {
        if let Some(Json::Object(adopted)) = trial.user_attrs.get(fit::PARAMS) {
            let names: Vec<&str> = adopted.keys().map(String::as_str).collect();
            return Err(Failure::input(format!(
                "trial {} of {} was adopted with parameters, or values of them, that the task does \
                 not have ({}), and has no value for {}: it cannot be replayed",
                trial.number,
                study.name,
                names.join(", "),
                parameter.name
            )));
        }
        return Err(Failure::input(format!(
            "trial {} of {} has no value for {}: it was never started",
            trial.number, study.name, parameter.name
        )));
    }
    if let Some(device) = device {
        spec.operation.device = device.clone();
    }
    // What was injected is not part of the trial.
    spec.operation.inject = None;
    Ok((spec, trial))
}
