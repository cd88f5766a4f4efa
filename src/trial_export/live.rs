//! A tracker's directory that is kept up to date while trials run. What is in it already as it is to be is left alone, so
//! that a study which goes on is tracked from where it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use search::study::{FrozenTrial, TrialState};

use crate::mlflow::{Experiment, Known};
use crate::{Trials, milliseconds, tensorboard, wandb};

/// Whose directory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum TrackerKind {
    /// MLflow's file store: the study is an experiment in it, beside others.
    Mlflow,
    /// TensorBoard's directory of logs: the study is a directory in it.
    Tensorboard,
    /// W&B's directory of runs made offline: the study is their project.
    Wandb,
}

impl TrackerKind {
    /// All of them.
    pub const ALL: &[TrackerKind] = <TrackerKind as strum::VariantArray>::VARIANTS;

    /// Its name in configurations and on command lines.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// TensorBoard's directories of trials have at least so many digits: how many trials there will be is not known.
const DIGITS: usize = 5;

/// A directory that trials are told to as they go on.
#[derive(Debug)]
pub struct Tracker {
    study: String,
    metrics: Vec<String>,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Mlflow {
        experiment: Experiment,
        /// Trials that were written since this was opened.
        written: BTreeSet<u64>,
    },
    Tensorboard(Events),
    Wandb(PathBuf),
}

impl Tracker {
    /// Opens a directory, which is made where it is not there. `metrics`: the names of the study's objectives.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(
        kind: TrackerKind,
        dir: &Path,
        study: &str,
        metrics: &[String],
    ) -> io::Result<Tracker> {
        fs::create_dir_all(dir)?;
        let form = match kind {
            TrackerKind::Mlflow => Form::Mlflow {
                experiment: Experiment::of(study, dir, &std::path::absolute(dir)?),
                written: BTreeSet::new(),
            },
            TrackerKind::Tensorboard => Form::Tensorboard(Events {
                dir: dir.join(study),
                running: BTreeMap::new(),
            }),
            TrackerKind::Wandb => Form::Wandb(dir.to_owned()),
        };
        Ok(Tracker {
            study: study.to_owned(),
            metrics: metrics.to_owned(),
            form,
        })
    }

    /// Writes what is new of a trial; `now`: seconds since 1970.
    ///
    /// # Errors
    /// Writing failed; the same trial may be told again.
    pub fn tell(&mut self, trial: &FrozenTrial, now: f64) -> io::Result<()> {
        let study = Trials {
            study: &self.study,
            metrics: &self.metrics,
            trials: &[],
        };
        match &mut self.form {
            Form::Mlflow {
                experiment,
                written,
            } => {
                let known = match written.contains(&trial.number) {
                    true => Known::No,
                    false => Known::Perhaps,
                };
                let start = milliseconds(trial.datetime_start.as_deref()).unwrap_or(0);
                experiment.make(start, start)?;
                experiment.run(&study, trial, known)?;
                written.insert(trial.number);
                Ok(())
            }
            Form::Tensorboard(events) => events.tell(&study, trial, now),
            Form::Wandb(dir) => wandb::run(&study, trial, dir),
        }
    }
}

/// TensorBoard's files. It reads on where it stopped, so that they are appended to.
#[derive(Debug)]
struct Events {
    dir: PathBuf,
    /// What was written of the curves of trials that have not ended.
    running: BTreeMap<u64, BTreeMap<i64, f64>>,
}

impl Events {
    fn tell(&mut self, study: &Trials<'_>, trial: &FrozenTrial, now: f64) -> io::Result<()> {
        if trial.state == TrialState::Waiting {
            return Ok(());
        }
        let home = tensorboard::home(&self.dir, trial.number, DIGITS);
        let file = home.join(tensorboard::file_of(trial));
        // One whose last words could not be written is written anew.
        let before = self.running.remove(&trial.number);
        let mut curve = tensorboard::curve(study, trial);
        let goes_on = before.filter(|before| starts_with(&trial.intermediate, before));
        let mut words = Vec::new();
        match &goes_on {
            Some(before) => drop(curve.drain(..before.len())),
            None => words = tensorboard::begin(trial, now),
        }
        words.extend(tensorboard::records(now, curve));
        if trial.state.finished() {
            words.extend(tensorboard::end(study, trial, now));
        }
        match goes_on {
            Some(_) => OpenOptions::new()
                .append(true)
                .open(&file)?
                .write_all(&words)?,
            None if has_length(&file, words.len()) => {}
            None => {
                fs::create_dir_all(&home)?;
                fs::write(&file, &words)?;
            }
        }
        if !trial.state.finished() {
            self.running
                .insert(trial.number, trial.intermediate.clone());
        }
        Ok(())
    }
}

/// Whether a curve is this one, with more steps behind.
fn starts_with(curve: &BTreeMap<i64, f64>, before: &BTreeMap<i64, f64>) -> bool {
    let same = |((step, x), (known, y)): ((&i64, &f64), (&i64, &f64))| {
        step == known && x.to_bits() == y.to_bits()
    };
    before.len() <= curve.len() && curve.iter().zip(before).all(same)
}

/// Whether an earlier run has written it: only the times of its records can then be others, and all are as long.
fn has_length(file: &Path, length: usize) -> bool {
    file.metadata()
        .is_ok_and(|there| there.len() == length as u64)
}
