//! `tune export-trials STUDY --to FORMAT -o PATH`: the trials for other programs.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::{Common, answer};
use crate::query::{self, Answer, Selection, printable};
use files::replace::{self, workplace};
use messages::exit::Exit;
use messages::exit::Failure;
use report::format::plural;
use report::shell_word;
use store::{Store, StudySummary};
use trial_export::Trials;

/// `tune export-trials`
#[derive(Debug, Args)]
pub struct ExportTrialsArgs {
    /// Study [default: the one with the latest activity]
    pub study: Option<String>,
    /// For what: csv, parquet, mlflow (a file store), tensorboard (event files) or wandb (for `wandb sync`)
    #[arg(long, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    pub to: Format,
    /// Where to: a new file; for the last three a new directory
    #[arg(short, long, value_name = "PATH")]
    pub out: PathBuf,
    /// Replace an earlier file, or a directory of an earlier export
    #[arg(long)]
    pub force: bool,
}

/// What trials are exported as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The table of `tune trials --csv`.
    Csv,
    /// The same table, typed.
    Parquet,
    /// MLflow's file store.
    Mlflow,
    /// TensorBoard's event files.
    Tensorboard,
    /// W&B's directories of runs made offline.
    Wandb,
}

impl Format {
    /// Whether it is a directory.
    fn is_directory(self) -> bool {
        match self {
            Format::Csv | Format::Parquet => false,
            Format::Mlflow | Format::Tensorboard | Format::Wandb => true,
        }
    }

    /// The command that shows what is at this place.
    fn shown_by(self, out: &Path) -> Option<String> {
        let absolute = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
        let word = |path: &Path| shell_word(&path.display().to_string());
        match self {
            Format::Csv | Format::Parquet => None,
            // MLflow would rather have a database, and reads files only where it is told to.
            Format::Mlflow => Some(format!(
                "MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {}",
                word(&absolute)
            )),
            Format::Tensorboard => Some(format!("tensorboard --logdir {}", word(out))),
            Format::Wandb => Some(format!("wandb sync {}/wandb/offline-run-*", word(out))),
        }
    }
}

/// What a directory of ours has in it beside what its readers want.
const MARK: &str = "tune-export.json";

/// The content of [`MARK`].
#[derive(Serialize, Deserialize)]
struct Mark {
    study: String,
    format: Format,
    tune: String,
}

/// What was written.
#[derive(Serialize)]
struct Exported {
    study: String,
    format: Format,
    out: PathBuf,
    trials: usize,
    #[serde(skip)]
    shown_by: Option<String>,
}

impl Answer for Exported {
    fn text(&self) -> String {
        let shown_by = self.shown_by.as_ref();
        format!(
            "{} of {} written to {}\n{}",
            plural(self.trials as u64, "trial"),
            printable(&self.study),
            printable(&self.out.display().to_string()),
            shown_by.map_or_else(String::new, |command| format!("  {command}\n")),
        )
    }
}

/// `study`: the one that is meant.
pub(super) fn export_trials(
    common: &Common,
    store: &Store,
    study: StudySummary,
    args: &ExportTrialsArgs,
) -> Result<Exit, Failure> {
    let wrong = |why: String| Failure::input(format!("--out {}: {why}", args.out.display()));
    may_write(&args.out, args.to, args.force).map_err(wrong)?;
    let failed = |e: std::io::Error| wrong(e.to_string());
    let listed = store.trials(study.study_id)?;
    let trials = Trials {
        study: &study.name,
        metrics: &query::metric_names(&study),
        trials: &listed,
    };
    match args.to {
        Format::Csv => {
            let csv = query::trials_csv(store, &study, &Selection::default())?;
            replace::write(&args.out, csv.as_bytes()).map_err(failed)?;
        }
        Format::Parquet => {
            let file = trial_export::parquet(&trials);
            let file = file.map_err(|e| Failure::internal(format!("cannot write Parquet: {e}")))?;
            replace::write(&args.out, &file).map_err(failed)?;
        }
        Format::Mlflow | Format::Tensorboard | Format::Wandb => {
            directory(&trials, args).map_err(failed)?
        }
    }
    let exported = Exported {
        format: args.to,
        shown_by: args.to.shown_by(&args.out),
        out: args.out.clone(),
        trials: listed.len(),
        study: study.name,
    };
    answer(common, &exported)
}

/// A directory appears when it is whole.
fn directory(trials: &Trials<'_>, args: &ExportTrialsArgs) -> std::io::Result<()> {
    let place = std::path::absolute(&args.out)?;
    let work = workplace(&place, "export")?;
    let draft = work.path().join("trials");
    fs::create_dir(&draft)?;
    match args.to {
        Format::Mlflow => trial_export::mlflow(trials, &draft, &place)?,
        Format::Wandb => trial_export::wandb(trials, &draft)?,
        Format::Csv | Format::Parquet | Format::Tensorboard => {
            trial_export::tensorboard(trials, &draft)?
        }
    }
    let mark = Mark {
        study: trials.study.to_owned(),
        format: args.to,
        tune: env!("CARGO_PKG_VERSION").to_owned(),
    };
    fs::write(draft.join(MARK), serde_json::to_vec_pretty(&mark)?)?;
    // Of hundreds of thousands of files each flush would cost a millisecond or more; what a power cut takes is exported
    // again.
    if place.exists() {
        fs::rename(&place, work.path().join("before"))?;
    }
    fs::rename(&draft, &place)
}

/// Whether this place may be written: nobody else's files are replaced.
fn may_write(out: &Path, format: Format, force: bool) -> Result<(), String> {
    let Ok(there) = out.symlink_metadata() else {
        return Ok(());
    };
    if !format.is_directory() {
        return match (there.is_dir(), force || !there.is_file()) {
            (true, _) => Err("this is a directory; expected a file".to_owned()),
            (false, true) => Ok(()),
            (false, false) => Err("this file is there already; --force replaces it".to_owned()),
        };
    }
    if !out.is_dir() {
        return Err("this is no directory; expected one that is new or empty".to_owned());
    }
    let empty = fs::read_dir(out)
        .map_err(|e| e.to_string())?
        .next()
        .is_none();
    let mark = fs::read(out.join(MARK)).ok();
    let ours = mark.is_some_and(|mark| serde_json::from_slice::<Mark>(&mark).is_ok());
    match (empty, ours, force) {
        (true, _, _) | (false, true, true) => Ok(()),
        (false, true, false) => Err("an earlier export is there; --force replaces it".to_owned()),
        (false, false, _) => Err(
            "this directory has other files than those of an export; expected one that is new or empty".to_owned(),
        ),
    }
}
