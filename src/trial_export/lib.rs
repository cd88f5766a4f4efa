//! Trials for other programs: a Parquet table ([`parquet()`]), MLflow's file store ([`mlflow`]), TensorBoard's event files
//! ([`tensorboard`]), W&B's offline directories ([`wandb()`]); the last three also kept up to date while trials run
//! ([`Tracker`]). What the database does not know is left out, never made up.

mod event;
mod live;
mod mlflow;
mod parquet;
mod tensorboard;
#[cfg(test)]
mod tests;
mod wandb;

pub use self::live::{Tracker, TrackerKind};
pub use self::mlflow::mlflow;
pub use self::parquet::parquet;
pub use self::tensorboard::tensorboard;
pub use self::wandb::wandb;

use std::path::Path;
use std::{fs, io};

use messages::{clock, number_from_json};
use search::study::FrozenTrial;

/// TensorBoard and W&B get no longer texts, in bytes.
const TEXT: usize = 5000;

/// They get no longer names.
const NAME: usize = 200;

/// A study's trials.
pub struct Trials<'a> {
    /// The study's name.
    pub study: &'a str,
    /// Names of the objectives.
    pub metrics: &'a [String],
    /// All trials, ascending by number, whole.
    pub trials: &'a [FrozenTrial],
}

impl Trials<'_> {
    /// What the values of a trial are called: `value`, or `values_0` and so on.
    fn value_names(&self) -> Vec<String> {
        match self.metrics.len() {
            0 | 1 => vec!["value".to_owned()],
            n => (0..n).map(|i| format!("values_{i}")).collect(),
        }
    }

    /// What the first objective's values step by step are called.
    fn curve_name(&self) -> &str {
        match self.metrics.first().map(String::as_str) {
            None | Some("value") => "intermediate",
            Some(metric) => metric,
        }
    }

    /// The numbers of a trial by name, each with its steps: its values, the first objective step by step, and its other
    /// metrics at its best epoch (`metric.accuracy` of its attributes).
    fn scalars(&self, trial: &FrozenTrial) -> Vec<(String, Vec<(i64, f64)>)> {
        let one = |(name, value)| (name, vec![(0, value)]);
        let values = self
            .value_names()
            .into_iter()
            .zip(trial.values.iter().copied());
        let mut scalars: Vec<_> = values.map(one).collect();
        if !trial.intermediate.is_empty() {
            let curve = trial
                .intermediate
                .iter()
                .map(|(step, value)| (*step, *value));
            scalars.push((self.curve_name().to_owned(), curve.collect()));
        }
        for (name, json) in &trial.user_attrs {
            let metric = name.strip_prefix("metric.").zip(number_from_json(json));
            let known = |name: &str| scalars.iter().any(|(known, _)| known == name);
            if let Some((name, value)) = metric.filter(|(name, _)| !known(name)) {
                scalars.push(one((name.to_owned(), value)));
            }
        }
        scalars
    }
}

/// Seconds since 1970 of a time of the database.
fn seconds(stored: Option<&str>) -> Option<f64> {
    Some(clock::stored(stored?)?.as_millisecond() as f64 / 1e3)
}

/// Milliseconds since 1970 of a time of the database.
fn milliseconds(stored: Option<&str>) -> Option<i64> {
    seconds(stored).map(|s| (s * 1e3).round() as i64)
}

/// A text of others on one line that drives no terminal, of at most so many bytes.
fn plain(text: &str, most: usize) -> String {
    let mut text = messages::printable(text).into_owned();
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
    }
    text
}

/// Gives a file this content at once, by way of a draft in the directory of its run: a tracker may read at any time, and takes
/// every file beside it for one of its own. Nothing is flushed: what a power cut takes is written again.
fn replace(run: &Path, file: &Path, content: &[u8]) -> io::Result<()> {
    let draft = run.join(".tune-draft");
    fs::write(&draft, content)?;
    fs::rename(&draft, file)
}
