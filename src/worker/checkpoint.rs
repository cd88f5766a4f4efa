//! Checkpoints of a trial: what an attempt that was cut short leaves for the next one.
//!
//! A checkpoint is a directory with the task's own state (`epoch-17.state`) and a description of it
//! (`checkpoint.json`), which is replaced by a rename and names the state's length and SHA-256. The
//! state is on the disk before the description that names it, and the state before is deleted once
//! that is there: whatever was interrupted, the old checkpoint is there or the new. What is damaged
//! nevertheless is taken for no checkpoint, and the trial starts from its beginning.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use files::digest::Hashing;
use files::replace::{self, Replacement};
use files::{bounded, name, plain};
use search::space::Params;
use task::Epoch;
use task::TrialSpec;

/// The description's version.
const VERSION: u32 = 1;

/// The checkpoints of one trial.
#[derive(Debug)]
pub struct Checkpoints {
    dir: PathBuf,
    number: u64,
    seed: u64,
    params: Params,
}

/// `checkpoint.json`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Description {
    version: u32,
    number: u64,
    seed: u64,
    params: Params,
    /// Everything reported up to this checkpoint, in order.
    epochs: Vec<Epoch>,
    /// The state's file name.
    state: String,
    bytes: u64,
    sha256: String,
}

impl Checkpoints {
    /// The checkpoints of a trial, in a directory of its own.
    pub fn new(dir: PathBuf, trial: &TrialSpec) -> Checkpoints {
        Checkpoints {
            dir,
            number: trial.number,
            seed: trial.seed,
            params: trial.params.clone(),
        }
    }

    /// The directory, made when the first checkpoint is kept.
    pub fn directory(&self) -> &Path {
        &self.dir
    }

    /// The last checkpoint: what was reported up to it, and the task's state from its beginning.
    ///
    /// # Errors
    /// There is one, but it is damaged or belongs to another trial.
    pub fn load(&self) -> anyhow::Result<Option<(Vec<Epoch>, File)>> {
        let text = match bounded::read(&self.description(), bounded::REPORTS) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context(self.description().display().to_string()),
        };
        let found: Description =
            serde_json::from_slice(&text).context(self.description().display().to_string())?;
        anyhow::ensure!(
            found.version == VERSION,
            "version {}, expected {VERSION}",
            found.version
        );
        anyhow::ensure!(
            (found.number, found.seed) == (self.number, self.seed) && found.params == self.params,
            "it belongs to another trial"
        );
        let path = name::inside(&self.dir, &found.state).context(found.state.clone())?;
        let mut state = bounded::open(&path).with_context(|| path.display().to_string())?;
        let mut digest = Hashing::new(io::sink());
        io::copy(&mut BufReader::new(&mut state), &mut digest)?;
        let (bytes, sha256) = digest.finish()?;
        anyhow::ensure!(
            (bytes, &sha256) == (found.bytes, &found.sha256),
            "{}: {bytes} bytes with SHA-256 {sha256}, expected {} with {}",
            path.display(),
            found.bytes,
            found.sha256
        );
        state.rewind()?;
        Ok(Some((found.epochs, state)))
    }

    /// Keeps the state that `write` writes as the checkpoint after `epochs`, instead of the one
    /// before.
    ///
    /// # Errors
    /// What the system or `write` says; the checkpoint before is still there.
    pub fn save(
        &self,
        epochs: &[Epoch],
        write: &mut dyn FnMut(&mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        replace::make_directories(&self.dir)?;
        plain::is_dir(&self.dir)?;
        let last = epochs.last().map_or(0, |e| e.epoch);
        let name = self.free_name(last);
        let (bytes, sha256) = write_state(&self.dir.join(&name), write)?;
        let description = Description {
            version: VERSION,
            number: self.number,
            seed: self.seed,
            params: self.params.clone(),
            epochs: epochs.to_vec(),
            state: name.clone(),
            bytes,
            sha256,
        };
        replace::write(&self.description(), &serde_json::to_vec(&description)?)?;
        self.drop_states_but(&name)
    }

    fn description(&self) -> PathBuf {
        self.dir.join("checkpoint.json")
    }

    /// A name for a state after this epoch that is not the kept state's: within a fold there are
    /// several after one report.
    fn free_name(&self, epoch: u32) -> String {
        let name = format!("epoch-{epoch}.state");
        let kept = bounded::read(&self.description(), bounded::REPORTS).ok();
        let kept = kept.and_then(|text| serde_json::from_slice::<Description>(&text).ok());
        match kept {
            Some(kept) if kept.state == name => format!("epoch-{epoch}-again.state"),
            Some(_) | None => name,
        }
    }

    fn drop_states_but(&self, kept: &str) -> anyhow::Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(".state") && name != kept {
                replace::delete(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// Writes a state, whole or not at all; gives its length and SHA-256.
fn write_state(
    path: &Path,
    write: &mut dyn FnMut(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<(u64, String)> {
    let mut file = Replacement::new(path)?;
    let mut state = Hashing::new(BufWriter::new(&mut file));
    write(&mut state)?;
    let written = state.finish()?;
    file.finish()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use files::power;
    use task::Metrics;

    fn checkpoints(dir: &tempfile::TempDir, seed: u64) -> Checkpoints {
        Checkpoints {
            dir: dir.path().join("trial-000003"),
            number: 3,
            seed,
            params: Params::from([("x".into(), 0.1.into())]),
        }
    }

    fn epochs(count: u32) -> Vec<Epoch> {
        let epoch = |epoch| Epoch {
            epoch,
            metrics: Metrics::from([("loss".into(), f64::INFINITY)]),
        };
        (1..=count).map(epoch).collect()
    }

    fn save(to: &Checkpoints, count: u32, state: &str) {
        to.save(&epochs(count), &mut |w| Ok(w.write_all(state.as_bytes())?))
            .unwrap();
    }

    fn state(mut file: File) -> String {
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn the_last_checkpoint_is_found_with_all_that_was_reported() {
        let dir = tempfile::tempdir().unwrap();
        let trial = checkpoints(&dir, 7);
        assert!(trial.load().unwrap().is_none());
        save(&trial, 1, "one");
        save(&trial, 2, "two");
        let (reported, file) = trial.load().unwrap().unwrap();
        assert_eq!(reported, epochs(2));
        assert_eq!(state(file), "two");
        let files = fs::read_dir(&trial.dir).unwrap().count();
        assert_eq!(files, 2, "older states are deleted");
    }

    #[test]
    fn a_save_that_fails_leaves_the_checkpoint_before() {
        let dir = tempfile::tempdir().unwrap();
        let trial = checkpoints(&dir, 7);
        save(&trial, 1, "one");
        trial
            .save(&epochs(2), &mut |w| {
                w.write_all(b"tw")?;
                anyhow::bail!("the disk is full")
            })
            .unwrap_err();
        let (reported, file) = trial.load().unwrap().unwrap();
        assert_eq!((reported.len(), state(file).as_str()), (1, "one"));
        assert!(!trial.dir.join("epoch-2.state").exists());
    }

    #[test]
    fn a_second_state_after_the_same_epoch_does_not_touch_the_first_before_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let trial = checkpoints(&dir, 7);
        for text in ["one", "two", "three"] {
            save(&trial, 1, text);
            trial
                .save(&epochs(1), &mut |_| anyhow::bail!("the disk is full"))
                .unwrap_err();
            let (_, file) = trial.load().unwrap().unwrap();
            assert_eq!(state(file), text);
        }
    }

    #[test]
    fn a_damaged_state_and_another_trials_checkpoint_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let trial = checkpoints(&dir, 7);
        save(&trial, 1, "one");
        let other = checkpoints(&dir, 8).load().unwrap_err();
        assert!(other.to_string().contains("another trial"));
        fs::write(trial.dir.join("epoch-1.state"), "One").unwrap();
        assert!(trial.load().unwrap_err().to_string().contains("SHA-256"));
        fs::write(trial.description(), "{").unwrap();
        trial.load().unwrap_err();
    }
    #[test]
    fn after_a_power_cut_at_any_step_the_checkpoint_is_the_old_or_the_new() {
        let dir = tempfile::tempdir().unwrap();
        let trial = checkpoints(&dir, 7);
        save(&trial, 1, "one");
        let mut seen = Vec::new();
        let next = || {
            // The second has the name of a state that is there.
            save(&trial, 2, "two");
            save(&trial, 2, "two again");
        };
        power::cuts(dir.path(), next, |left| {
            let mut found = checkpoints(&dir, 7);
            found.dir = left.join("trial-000003");
            let (reported, file) = found.load().unwrap().expect("one of them");
            seen.push((reported.len(), state(file)));
        });
        let expected = [(1, "one"), (2, "two"), (2, "two again")];
        let mut seen: Vec<(usize, &str)> = seen.iter().map(|(n, s)| (*n, s.as_str())).collect();
        assert_eq!((seen[0], seen.last()), (expected[0], Some(&expected[2])));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, expected);
    }

    #[test]
    fn the_first_checkpoint_is_on_the_disk_once_it_is_said_to_be_kept() {
        let dir = tempfile::tempdir().unwrap();
        let trial = checkpoints(&dir, 7);
        let mut last = None;
        power::cuts(
            dir.path(),
            || save(&trial, 1, "one"),
            |left| {
                let mut found = checkpoints(&dir, 7);
                found.dir = left.join("trial-000003");
                last = found.load().unwrap().map(|(_, file)| state(file));
            },
        );
        assert_eq!(last.as_deref(), Some("one"));
    }

    #[test]
    fn a_description_that_names_a_state_elsewhere_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let trial = checkpoints(&dir, 7);
        save(&trial, 1, "one");
        fs::write(dir.path().join("elsewhere"), "one").unwrap();
        let text = fs::read_to_string(trial.description()).unwrap();
        let text = text.replace("epoch-1.state", "../elsewhere");
        fs::write(trial.description(), text).unwrap();
        let told = format!("{:#}", trial.load().unwrap_err());
        assert!(told.contains("leads out"), "{told}");
    }
}
