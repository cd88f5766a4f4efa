//! `tune export STUDY [TRIAL] -o DIR`: a trial's model as a directory in Hugging Face's layout.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value as Json, json};

use super::replay::{self, find};
use super::{Common, print, print_json, run};
use crate::query;
use config::StudySpec;
use config::places::Wanted;
use device::DevicePolicy;
use files::paths::logs_dir;
use files::plain;
use files::replace::workplace;
use messages::exit::{Exit, Failure};
use messages::json_number;
use protocol::AttemptId;
use search::study::{FrozenTrial, TrialState};
use store::{Place, Store};
use supervisor::{Replay, ReplayEnd, replay_log};
use task::{ExportedModel, TrainedModel, TrialSpec};
use training::Origin;
use training::exported::may_write;
use weights::{SavedWeights, WEIGHTS, kept_directory};

/// `tune export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Study
    pub study: String,
    /// Trial number [default: the winner: of the repeats where there are some, else the best trial]
    #[arg(value_parser = crate::commands::whole::<u64>)]
    pub number: Option<u64>,
    /// Where to: a new directory
    #[arg(short, long, value_name = "DIR")]
    pub out: PathBuf,
    /// Replace an earlier export
    #[arg(long)]
    pub force: bool,
    /// Train the trial again, also where its weights were kept
    #[arg(long)]
    pub retrain: bool,
    /// auto, cpu, cuda or cuda:0, to train on [default: as the study's last run]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DevicePolicy>,
}

/// The trial, and what it was trained with.
struct Chosen {
    spec: StudySpec,
    identity: Map<String, Json>,
    trial: FrozenTrial,
    training: TrialSpec,
}

/// Weights on the disk.
struct WeightsOnDisk {
    dir: PathBuf,
    kept: SavedWeights,
    /// The device that they were trained on anew.
    retrained: Option<String>,
    /// Holds the directory of a replay.
    _held: Option<tempfile::TempDir>,
}

pub(super) fn export(common: &Common, args: &ExportArgs) -> Result<Exit, Failure> {
    may_write(&args.out, args.force).map_err(|e| Failure::input(format!("--out: {e:#}")))?;
    let project = run::project(common, Wanted::Studies)?;
    let storage = run::storage(&project, common)?;
    let chosen = choose(&storage, args)?;
    let loud = common.loud();
    let kind = run::preparation(&chosen.spec.kind)
        .ok_or_else(|| Failure::internal("the task kind has no code".to_owned()))?;
    let found = match find_kept(&storage, &chosen, args)? {
        Some(found) => found,
        None => {
            // On other inputs it would be another model, whatever value it reaches.
            kind.unchanged(&chosen.spec, &chosen.identity, &chosen.training.config)?;
            retrain(&storage, &args.out, &chosen, loud)?
        }
    };
    let origin = Origin {
        spec: &chosen.spec,
        identity: &chosen.identity,
        trial: &chosen.trial,
        training: &chosen.training,
        kept: &found.kept,
        retrained: found.retrained.clone(),
        now: messages::clock::now().to_string(),
    };
    if !origin.reproduced() {
        report::err(&format!(
            "warning: trial {} has the value {} in the study, its exported weights have {}: another \
             device, number of threads, version, or changed files",
            chosen.trial.number,
            chosen
                .trial
                .value()
                .map_or("none".to_owned(), |v| v.to_string()),
            found.kept.value
        ));
    }
    let model = TrainedModel {
        trial: chosen.trial.number,
        config: &chosen.training.config,
        weights: &found.dir.join(WEIGHTS),
        about: &found.kept.about,
        origin: &origin.json(),
    };
    let mut told_size = |bytes: u64| {
        if loud {
            // A reader that has gone away does not end the work.
            let _ = report::out(&format!("writing {} of weights\n", report::size(bytes)));
        }
    };
    let written = kind
        .export(
            &chosen.spec,
            &model,
            (&args.out, args.force),
            &mut told_size,
        )
        .map_err(|e| Failure::input(format!("{}: {e:#}", args.out.display())))?;
    match (common.json, loud) {
        (true, _) => print_json(&summary(args, &chosen, &found, &origin, &written)),
        (false, true) => print(&told(args, &chosen, &found, &written)),
        (false, false) => Ok(Exit::Done),
    }
}

/// For scripts.
fn summary(
    args: &ExportArgs,
    chosen: &Chosen,
    found: &WeightsOnDisk,
    origin: &Origin<'_>,
    written: &ExportedModel,
) -> Json {
    json!({
        "dir": args.out, "study": chosen.spec.study, "trial": chosen.trial.number,
        "value": chosen.trial.value().map(json_number),
        "weights": {
            "from": if found.retrained.is_some() { "retrained" } else { "kept" },
            "epoch": found.kept.epoch, "value": json_number(found.kept.value),
            "reproduced": origin.reproduced(),
        },
        "labels": written.labels, "transformers": written.transformers,
    })
}

/// For people.
fn told(
    args: &ExportArgs,
    chosen: &Chosen,
    found: &WeightsOnDisk,
    written: &ExportedModel,
) -> String {
    let dir = args.out.display();
    let how = match &found.retrained {
        Some(device) => format!("trained again on {device}"),
        None => "kept by the search".to_owned(),
    };
    format!(
        "{dir}: trial {} of {}, epoch {}, {} {} ({how})\n{}\nnext: tune predict {} FILE\n",
        chosen.trial.number,
        chosen.spec.study,
        found.kept.epoch,
        chosen.spec.objective.metric,
        report::format::value(found.kept.value),
        written.note,
        report::shell_word(&dir.to_string()),
    )
}

/// The trial that is meant, which must be one whose model can be exported.
fn choose(storage: &Place, args: &ExportArgs) -> Result<Chosen, Failure> {
    let store = Store::open_read_only(storage)?;
    let study = store::choose(&store, Some(&args.study))?;
    let number = match args.number {
        Some(number) => number,
        None => query::winner_number(&store, &study)?,
    };
    let identity = store.identity(study.study_id)?.unwrap_or_default();
    let (spec, trial) = find(storage, &args.study, number, args.device.as_ref())?;
    if config::kinds::kind(&spec.kind).is_none_or(|kind| !kind.keeps_weights) {
        let others = config::kinds::KINDS
            .iter()
            .filter(|kind| kind.keeps_weights);
        let others: Vec<&str> = others.map(|kind| kind.name).collect();
        return Err(Failure::input(format!(
            "study {}: trials of the task kind {} cannot be exported; expected {}",
            spec.study,
            spec.kind,
            others.join(" or ")
        )));
    }
    if trial.state != TrialState::Complete {
        return Err(Failure::input(format!(
            "trial {number} of {} is {}; expected a COMPLETE one, whose value is that of a whole training",
            spec.study, trial.state
        )));
    }
    let training = replay::training(&spec, &trial);
    let folds = training.config.get("data.folds").and_then(|v| v.as_i64());
    if let Some(folds) = folds.filter(|n| *n > 1) {
        return Err(Failure::input(format!(
            "study {}: a trial is {folds} models, one a fold, of which none is the winner; expected a \
             study without data.folds: enqueue the trial's parameters there",
            spec.study
        )));
    }
    Ok(Chosen {
        spec,
        identity,
        trial,
        training,
    })
}

/// The weights that the search has kept, if they are this trial's and whole.
fn find_kept(
    storage: &Place,
    chosen: &Chosen,
    args: &ExportArgs,
) -> Result<Option<WeightsOnDisk>, Failure> {
    if args.retrain {
        return Ok(None);
    }
    let dir = kept_directory(&storage.files(), &chosen.spec.study, chosen.trial.number);
    let kept = match weights::read(&dir) {
        Ok(Some(kept)) => kept,
        Ok(None) => return Ok(None),
        Err(error) => {
            report::err(&format!("note: the kept weights are not used: {error:#}"));
            return Ok(None);
        }
    };
    let recorded = chosen.trial.value().map(f64::to_bits);
    let same = kept.seed == chosen.training.seed && recorded == Some(kept.value.to_bits());
    if !same {
        report::err("note: the kept weights are those of another training; they are not used");
        return Ok(None);
    }
    Ok(Some(WeightsOnDisk {
        dir,
        kept,
        retrained: None,
        _held: None,
    }))
}

/// Trains the trial again, with its best epoch's weights kept.
fn retrain(
    storage: &Place,
    out: &Path,
    chosen: &Chosen,
    loud: bool,
) -> Result<WeightsOnDisk, Failure> {
    let held = workplace(out, "training")
        .map_err(|e| Failure::input(format!("--out {}: {e}", out.display())))?;
    let plan = plan(storage, held.path(), chosen)?;
    let shown = query::Replayed::new(&plan, &chosen.trial);
    if loud {
        let number = chosen.trial.number;
        print(&format!("training trial {number} again\n{}", shown.head()))?;
    }
    let played = supervisor::replay(&plan, &mut |epoch| {
        if loud {
            // A reader that has gone away does not end the training.
            let _ = report::out(&shown.epoch(epoch));
        }
    })?;
    if let ReplayEnd::Fault(fault) = &played.end {
        if plan.log.starts_with(held.path()) {
            // The log is to be read; the next export to the same place deletes it.
            let _ = held.keep();
        }
        return Err(Failure::internal(format!(
            "trial {} could not be trained again: {}: {}; log: {}",
            chosen.trial.number,
            fault.kind.word(),
            fault.detail,
            plan.log.display()
        )));
    }
    match played.kept.map(|dir| (weights::read(&dir), dir)) {
        Some((Ok(Some(kept)), dir)) => Ok(WeightsOnDisk {
            dir,
            kept,
            retrained: Some(plan.device.to_string()),
            _held: Some(held),
        }),
        Some((Err(error), _)) => Err(Failure::input(format!("{error:#}"))),
        Some((Ok(None), _)) | None => {
            let place = held.path().display().to_string();
            if plan.log.starts_with(held.path()) {
                let _ = held.keep();
            }
            Err(Failure::input(format!(
                "the weights could not be written to {place} (see {})",
                plan.log.display()
            )))
        }
    }
}

/// The second training: as in the study, but for the weights of its best epoch, which go to `keep`.
fn plan(storage: &Place, keep: &Path, chosen: &Chosen) -> Result<Replay, Failure> {
    let (spec, trial) = (&chosen.spec, &chosen.trial);
    let keep = plain::real(keep);
    Ok(Replay {
        log: log(
            &logs_dir(&storage.files(), &spec.study),
            &keep,
            replay::attempt(trial),
        ),
        keep: Some(keep),
        ..replay::plan(storage, spec.clone(), trial, false)?
    })
}

/// The log of a second training: with those of the study, or, where nothing can be written there, with
/// the weights.
fn log(logs: &Path, keep: &Path, attempt: AttemptId) -> PathBuf {
    let now = messages::clock::now();
    let log = replay_log(logs, attempt, now);
    match plain::open(&log, plain::For::Appending) {
        Ok(_) => log,
        Err(_) => replay_log(keep, attempt, now),
    }
}
