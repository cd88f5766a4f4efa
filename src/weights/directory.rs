//! Directories of weights: written, found, moved and deleted.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Map, Value as Json};

use super::{
    DESCRIPTION, Leader, SavedWeights, Step, StoredWeights, Unheard, VERSION, WEIGHTS,
    kept_directory, plan,
};
use files::digest::Hashing;
use files::paths::checkpoints_dir;
use files::{bounded, plain, replace};
use search::space::Params;

/// A candidate's directory within its trial's.
pub fn directory_name(epoch: u32) -> String {
    format!("best-{epoch}")
}

/// Weights that are to be written.
pub struct Draft<'a> {
    /// The trial's number.
    pub trial: u64,
    /// The training's seed.
    pub seed: u64,
    /// The epoch that they are those of, from 1.
    pub epoch: u32,
    /// The objective's value in it.
    pub value: f64,
    /// The trial's parameters.
    pub params: &'a Params,
    /// What the task says of them.
    pub about: &'a Map<String, Json>,
}

impl Draft<'_> {
    /// Writes what `write` writes to a directory in `parent`, whole or not at all; gives the directory.
    ///
    /// # Errors
    /// The value is not finite, or what the system or `write` says.
    pub fn write(
        &self,
        parent: &Path,
        write: &mut dyn FnMut(&mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<PathBuf> {
        anyhow::ensure!(self.value.is_finite(), "its value is {}", self.value);
        let name = directory_name(self.epoch);
        plain::is_dir(parent)?;
        let draft = parent.join(format!("{name}.new"));
        replace::delete_directory(&draft)?;
        replace::make_directories(&draft)?;
        let written = self.fill(&draft, write);
        if written.is_err() {
            // Where the disk is full, nothing of it is of use.
            let _ = replace::delete_directory(&draft);
        }
        written?;
        let path = parent.join(name);
        replace::directory_by(&draft, &path)?;
        Ok(path)
    }

    fn fill(
        &self,
        dir: &Path,
        write: &mut dyn FnMut(&mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut weights = Hashing::new(BufWriter::new(File::create(dir.join(WEIGHTS))?));
        write(&mut weights)?;
        let (bytes, sha256) = weights.finish()?;
        let kept = SavedWeights {
            version: VERSION,
            trial: self.trial,
            seed: self.seed,
            epoch: self.epoch,
            value: self.value,
            params: self.params.clone(),
            about: self.about.clone(),
            bytes,
            sha256,
            tune: env!("CARGO_PKG_VERSION").into(),
        };
        fs::write(dir.join(DESCRIPTION), serde_json::to_vec_pretty(&kept)?)?;
        Ok(())
    }
}

/// The description in a directory; `None`: there is none.
///
/// # Errors
/// It cannot be read, or is of another version.
pub(super) fn description(dir: &Path) -> anyhow::Result<Option<SavedWeights>> {
    let path = dir.join(DESCRIPTION);
    let text = match bounded::read(&path, bounded::DESCRIPTION) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context(path.display().to_string()),
    };
    let kept: SavedWeights = serde_json::from_slice(&text).context(path.display().to_string())?;
    anyhow::ensure!(
        kept.version == VERSION,
        "{}: version {}, expected {VERSION}",
        path.display(),
        kept.version
    );
    Ok(Some(kept))
}

/// Size and SHA-256 of a file.
pub(super) fn digest(path: &Path) -> io::Result<(u64, String)> {
    let mut digest = Hashing::new(io::sink());
    io::copy(&mut bounded::open(path)?, &mut digest)?;
    digest.finish()
}

/// The candidates in a trial's directory. What cannot be read is none.
pub fn candidates(trial: &Path) -> Vec<StoredWeights> {
    let candidate = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let epoch = name.and_then(|name| name.strip_prefix("best-"));
        epoch.is_some_and(|epoch| epoch.parse::<u32>().is_ok())
    };
    let paths = directories(trial).into_iter().filter(candidate);
    paths.filter_map(found).collect()
}

/// What a directory holds, if it is whole: the weights' checksum is not looked at.
fn found(path: PathBuf) -> Option<StoredWeights> {
    let kept = description(&path).ok().flatten()?;
    let size = fs::metadata(path.join(WEIGHTS)).ok()?.len();
    (size == kept.bytes).then_some(StoredWeights {
        number: kept.trial,
        seed: kept.seed,
        epoch: kept.epoch,
        value: kept.value,
        bytes: kept.bytes,
        path,
    })
}

/// Directories in a directory, sorted.
fn directories(of: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.is_dir());
    paths.sort();
    paths
}

/// Keeps the weights of `leaders` (the best first) in `dir`, the database's directory, as far as they
/// are there, of at most `most` bytes together, and no others. What cannot be moved or deleted stays,
/// and is tried again at the next call. So is what another node may have kept ([`Unheard`]).
pub fn sync_kept_weights(
    dir: &Path,
    study: &str,
    leaders: &[Leader],
    most: u64,
    unheard: &Unheard,
) {
    let all = directories(&dir.join(files::paths::weights_dir(study)));
    let mut kept = Vec::new();
    for path in all {
        match found(path.clone()) {
            Some(found) => kept.push(found),
            None => tell(&path, replace::delete_directory(&path)),
        }
    }
    let candidates: Vec<StoredWeights> = leaders
        .iter()
        .flat_map(|leader| {
            let trial = search::study::Job::trial(leader.number).file_stem();
            candidates(&dir.join(checkpoints_dir(study)).join(trial))
        })
        .collect();
    for step in plan(leaders, &kept, &candidates, most, unheard) {
        match step {
            Step::Move { from, number } => {
                let to = kept_directory(dir, study, number);
                tell(&from, replace::directory_by(&from, &to));
            }
            Step::Delete { path } => tell(&path, replace::delete_directory(&path)),
        }
    }
}

fn tell(path: &Path, done: io::Result<()>) {
    if let Err(error) = done {
        tracing::warn!(?path, %error, "kept weights could not be moved or deleted");
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use files::power;
    use search::study::TrialState;

    static ALL_HEARD: std::sync::LazyLock<Unheard> = std::sync::LazyLock::new(Unheard::default);

    fn write(parent: &Path, trial: u64, epoch: u32, value: f64, weights: &[u8]) -> PathBuf {
        let draft = Draft {
            trial,
            seed: 7,
            epoch,
            value,
            params: &Params::from([("optim.lr".into(), 1e-4.into())]),
            about: &Map::from_iter([("model".into(), "tiny".into())]),
        };
        draft
            .write(parent, &mut |to| Ok(to.write_all(weights)?))
            .unwrap()
    }

    fn leader(number: u64, epoch: u32, value: f64) -> Leader {
        Leader {
            number,
            values: vec![value],
            epoch: Some(epoch),
            seed: Some(7),
        }
    }

    #[test]
    fn weights_are_read_with_their_description_and_refused_where_they_are_damaged() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()).unwrap(), None);
        let path = write(dir.path(), 3, 12, 0.75, b"weights");
        let kept = read(&path).unwrap().unwrap();
        assert_eq!((kept.trial, kept.epoch, kept.value), (3, 12, 0.75));
        assert_eq!(kept.about["model"], "tiny");
        fs::write(path.join(WEIGHTS), b"Weights").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("SHA-256"));
    }

    #[test]
    fn a_write_that_fails_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let params = Params::new();
        let about = Map::new();
        let draft = Draft {
            trial: 3,
            seed: 7,
            epoch: 2,
            value: 0.5,
            params: &params,
            about: &about,
        };
        let full = |_: &mut dyn Write| anyhow::bail!("the disk is full");
        draft.write(dir.path(), &mut { full }).unwrap_err();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_candidate_of_the_best_epoch_is_kept_and_what_was_kept_before_goes() {
        let dir = tempfile::tempdir().unwrap();
        let trials = dir.path().join("checkpoints/s");
        for (trial, epoch, value) in [(0, 1, 0.5), (2, 3, 0.6), (2, 5, 0.7)] {
            let name = format!("trial-{trial:06}");
            write(&trials.join(name), trial, epoch, value, b"weights");
        }
        let there = |number| kept_directory(dir.path(), "s", number).exists();
        sync_kept_weights(dir.path(), "s", &[leader(0, 1, 0.5)], 1000, &ALL_HEARD);
        assert!(there(0) && !there(2));
        sync_kept_weights(dir.path(), "s", &[leader(2, 5, 0.7)], 1000, &ALL_HEARD);
        assert!(!there(0) && there(2));
        let kept = read(&kept_directory(dir.path(), "s", 2)).unwrap().unwrap();
        assert_eq!(kept.epoch, 5);
        sync_kept_weights(dir.path(), "s", &[leader(2, 5, 0.7)], 1000, &ALL_HEARD);
        assert!(there(2));
        // Another study's are not touched.
        sync_kept_weights(dir.path(), "t", &[], 1000, &ALL_HEARD);
        assert!(there(2));
        sync_kept_weights(dir.path(), "s", &[], 1000, &ALL_HEARD);
        assert!(!there(2));
    }

    #[test]
    fn what_another_node_has_kept_is_not_deleted_before_the_end_of_its_trial_is_known() {
        use TrialState::{Complete, Running};
        let dir = tempfile::tempdir().unwrap();
        let of = |number: u64| kept_directory(dir.path(), "s", number);
        for number in [0, 2] {
            let trial = format!("trial-{number:06}");
            let at = dir.path().join(checkpoints_dir("s")).join(trial);
            write(&at, number, 1, 0.5, b"w");
        }
        let both = [leader(0, 1, 0.5), leader(2, 1, 0.5)];
        sync_kept_weights(dir.path(), "s", &both, 1000, &ALL_HEARD);
        let others = |known: &[(u64, TrialState)]| {
            let unheard = Unheard::beside(known.iter().copied());
            sync_kept_weights(dir.path(), "s", &[leader(1, 1, 0.6)], 1000, &unheard);
            [0, 2].map(|number| of(number).exists())
        };
        assert_eq!(others(&[(0, Running), (1, Complete)]), [true, true]);
        assert_eq!(others(&[(0, Complete), (1, Complete)]), [false, true]);
        let all = [(0, Complete), (1, Complete), (2, Complete)];
        assert_eq!(others(&all), [false, false]);
    }

    #[test]
    fn after_a_power_cut_at_any_step_a_trials_weights_are_the_old_or_the_new() {
        let dir = tempfile::tempdir().unwrap();
        let trial = dir.path().join("checkpoints/s/trial-000002");
        write(&trial, 2, 3, 0.6, b"old");
        sync_kept_weights(dir.path(), "s", &[leader(2, 3, 0.6)], 1000, &ALL_HEARD);
        let mut seen = Vec::new();
        let better = || {
            write(&trial, 2, 5, 0.7, b"new");
            sync_kept_weights(dir.path(), "s", &[leader(2, 5, 0.7)], 1000, &ALL_HEARD);
        };
        power::cuts(dir.path(), better, |left| {
            let kept = read(&kept_directory(left, "s", 2)).unwrap();
            seen.push(kept.expect("the old or the new").epoch);
        });
        assert_eq!((seen[0], seen.last()), (3, Some(&5)), "{seen:?}");
    }

    #[test]
    fn after_a_power_cut_at_any_step_the_old_leaders_weights_are_there_or_the_new_ones() {
        let dir = tempfile::tempdir().unwrap();
        let trials = dir.path().join("checkpoints/s");
        write(&trials.join("trial-000000"), 0, 1, 0.5, b"old");
        sync_kept_weights(dir.path(), "s", &[leader(0, 1, 0.5)], 1000, &ALL_HEARD);
        let mut last = None;
        let better = || {
            write(&trials.join("trial-000002"), 2, 5, 0.7, b"new");
            sync_kept_weights(dir.path(), "s", &[leader(2, 5, 0.7)], 1000, &ALL_HEARD);
        };
        power::cuts(dir.path(), better, |left| {
            let whole = |number| matches!(read(&kept_directory(left, "s", number)), Ok(Some(_)));
            assert!(whole(0) || whole(2));
            last = Some((whole(0), whole(2)));
        });
        assert!(last.is_some_and(|(_, new)| new));
    }
}
