//! Weights of a study's best trials, kept beside the database.
//!
//! While a trial runs, its worker writes the weights of each epoch that is the trial's best so far
//! and may make it one of the study's best: a *candidate*, `best-EPOCH` in the trial's directory of
//! checkpoints. Once the trial's end is durable, the supervisor moves the candidate of its best
//! epoch to `kept/STUDY/trial-NNNNNN` or deletes it, and deletes what is no longer among the best.
//! What is to be done is a pure function of the trials and of what is there ([`plan()`]): a run that
//! was killed at any moment is followed by one that does the rest.
//!
//! Every such directory holds `weights.safetensors` and `kept.json`, and appears by one rename once it is on the disk
//! ([`files::replace`]); what was there before is deleted only then. Where a machine goes down at any moment,
//! the old weights are there or the new.

mod directory;
mod leaders;
mod plan;

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use search::space::Params;
use search::study::Job;

pub use directory::{Draft, candidates, directory_name, sync_kept_weights};
pub use leaders::{Leader, Leaders};
pub use plan::{Step, StoredWeights, Unheard, plan};

/// The weights' file name.
pub const WEIGHTS: &str = "weights.safetensors";

/// The description's file name.
pub const DESCRIPTION: &str = "kept.json";

/// The description's version.
pub const VERSION: u32 = 1;

/// `kept.json`: whose weights these are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedWeights {
    /// [`VERSION`].
    pub version: u32,
    /// The trial's number.
    pub trial: u64,
    /// The training's seed.
    pub seed: u64,
    /// The epoch after which the weights were so, from 1.
    pub epoch: u32,
    /// The objective's value in that epoch; finite.
    pub value: f64,
    /// The trial's parameters.
    pub params: Params,
    /// What the task says of them; of a text classification `model`, `model_fingerprint` and `head`.
    pub about: Map<String, Json>,
    /// Size of the weights' file in bytes.
    pub bytes: u64,
    /// SHA-256 of the weights' file, in hexadecimal.
    pub sha256: String,
    /// The version of `tune` that trained them.
    pub tune: String,
}

/// Where the weights of a trial are, if they are kept. `dir` is the database's directory,
/// `tune.db.d`.
pub fn kept_directory(dir: &Path, study: &str, number: u64) -> PathBuf {
    dir.join(files::paths::weights_dir(study))
        .join(Job::trial(number).file_stem())
}

/// The description in a directory of weights ([`kept_directory`], or what a replay has kept), once the
/// weights beside it have turned out to be whole; `None`: there is none.
///
/// # Errors
/// They cannot be read, or are damaged.
pub fn read(dir: &Path) -> anyhow::Result<Option<SavedWeights>> {
    let Some(kept) = directory::description(dir)? else {
        return Ok(None);
    };
    let path = dir.join(WEIGHTS);
    let (bytes, sha256) = directory::digest(&path).with_context(|| path.display().to_string())?;
    anyhow::ensure!(
        (bytes, &sha256) == (kept.bytes, &kept.sha256),
        "{}: {bytes} bytes with SHA-256 {sha256}, expected {} with {}",
        path.display(),
        kept.bytes,
        kept.sha256
    );
    Ok(Some(kept))
}
