//! Files of earlier runs in the project's directory: when they were written, which are kept, and which go.

use std::ffi::OsStr;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::core::weights_kept;
use config::StudySpec;
use files::paths::{checkpoints_dir, logs_dir, weights_dir};
use files::plain;
use messages::exit::Failure;
use search::study::FrozenTrial;
use weights::{Leaders, Unheard};

/// Refuses where a directory in which files of the study are deleted by their names is a link.
pub(super) fn check_places(dir: &Path, study: &str) -> Result<(), Failure> {
    let places = [
        logs_dir(dir, study),
        dir.join(checkpoints_dir(study)),
        dir.join(weights_dir(study)),
    ];
    // A plain file in the way only keeps things from being written: nothing is deleted through it.
    let in_the_way = |p: &Path| p.symlink_metadata().is_ok_and(|m| m.is_file());
    for place in places {
        if place.parent().is_some_and(in_the_way) {
            continue;
        }
        plain::is_dir(&place).map_err(|e| Failure::storage(format!("{}: {e}", place.display())))?;
    }
    Ok(())
}

/// When anything was last heard of what an earlier run was training: a file of these directories was written. What a run left
/// that was killed had run until then, not until somebody starts the next one. The database says nothing, as whoever opens it
/// first puts its parts together; neither do logs of runs, of which this one's is there by now.
pub(super) fn last_heard(dirs: &[PathBuf]) -> Option<SystemTime> {
    let entries = dirs.iter().filter_map(|dir| std::fs::read_dir(dir).ok());
    let entries = entries.flatten().flatten();
    let of_run = |entry: &DirEntry| entry.file_name().as_encoded_bytes().starts_with(b"run-");
    let entries = entries.filter(|entry| !of_run(entry));
    let written = |entry: &DirEntry| match entry.file_type().ok()?.is_dir() {
        true => last_heard(&[entry.path()]),
        false => entry.metadata().ok()?.modified().ok(),
    };
    entries.filter_map(|entry| written(&entry)).max()
}

/// Keeps the weights of the best trials, and those alone: a run that was killed could not do it.
pub(super) fn keep_weights(spec: &StudySpec, trials: &[FrozenTrial], dir: &Path, shared: bool) {
    if let Some(most) = weights_kept(spec) {
        let leaders = Leaders::new(spec.directions(), most, trials);
        let bytes = spec.operation.max_kept_bytes;
        let known = trials.iter().map(|trial| (trial.number, trial.state));
        let unheard = match shared {
            true => Unheard::beside(known),
            false => Unheard::default(),
        };
        weights::sync_kept_weights(dir, &spec.study, leaders.best(), bytes, &unheard);
    }
}

/// In a directory of checkpoints, which study of the database they are of.
const OF_STUDY: &str = ".study";

/// Deletes checkpoints and kept weights of another study of the same name, which was deleted elsewhere or was in a database
/// that is no more. `id` tells the study from every other one; they are this study's from now on.
pub(super) fn drop_of_others(dir: &Path, study: &str, id: &str) {
    let checkpoints = dir.join(checkpoints_dir(study));
    let mark = checkpoints.join(OF_STUDY);
    if std::fs::read_to_string(&mark).is_ok_and(|of| of == id) {
        return;
    }
    for of_trials in [&checkpoints, &dir.join(weights_dir(study))] {
        drop_checkpoints(of_trials, |_| false);
    }
    let marked = plain::make_dirs(&checkpoints).and_then(|()| plain::write(&mark, id.as_bytes()));
    if let Err(error) = marked {
        tracing::warn!(path = ?mark, %error, "it could not be noted whose checkpoints these are");
    }
}

/// Deletes the checkpoints that are not needed any more: a run that was killed could not do it.
pub(super) fn drop_checkpoints(dir: &Path, needed: impl Fn(&OsStr) -> bool) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name != OF_STUDY
            && !needed(&name)
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            tracing::warn!(path = ?entry.path(), %error, "a checkpoint could not be deleted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn files_of_another_study_of_the_same_name_go_and_its_own_stay() {
        let dir = tempfile::tempdir().unwrap();
        let of_trial = ["checkpoints/s/trial-000000", "kept/s/trial-000000"];
        let of_trial = of_trial.map(|path| dir.path().join(path));
        let left = || of_trial.iter().filter(|path| path.exists()).count();
        drop_of_others(dir.path(), "s", "3 2026-11-29");
        of_trial
            .iter()
            .for_each(|path| std::fs::create_dir_all(path).unwrap());
        drop_of_others(dir.path(), "s", "3 2026-11-29");
        assert_eq!(left(), 2);
        drop_of_others(dir.path(), "s", "3 2026-11-30");
        assert_eq!(left(), 0);
    }

    #[test]
    fn an_earlier_run_was_last_heard_of_when_any_of_its_files_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = ["logs", "checkpoints"].map(|name| dir.path().join(name));
        assert_eq!(last_heard(&dirs), None);
        let second = |s| SystemTime::UNIX_EPOCH + Duration::from_secs(s);
        for (file, at) in [
            ("logs/of trial-000000/a.log", 20),
            ("logs/b.log", 10),
            ("checkpoints/c/1", 30),
            ("logs/run-2.log", 40),
        ] {
            let file = dir.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            let file = std::fs::File::options().write(true).open(file).unwrap();
            file.set_modified(second(at)).unwrap();
        }
        assert_eq!(last_heard(&dirs), Some(second(30)));
    }
}
