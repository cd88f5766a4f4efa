//! `tune delete` and `tune rename`: what is done to a whole study.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::commands::{DeleteArgs, RenameArgs};
use super::{Common, acknowledge, run};
use crate::query::{Answer, printable, shell_word};
use config::places::Wanted;
use files::paths::places_of;
use files::plain;
use messages::exit::{Exit, Failure};
use report::format::plural;
use store::{Place, Store, StudySummary};
use supervisor::spool::Waiting;
use supervisor::{LockOwner, StudyLock, patiently};

/// How long another program's lock on the database is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// What was deleted.
#[derive(Debug, Serialize)]
struct Deleted {
    study: String,
    trials: u64,
}

impl Answer for Deleted {
    fn text(&self) -> String {
        let trials = plural(self.trials, "trial");
        format!("deleted {} with its {trials}\n", printable(&self.study))
    }
}

pub(super) fn delete(common: &Common, args: &DeleteArgs) -> Result<Exit, Failure> {
    let storage = run::storage(&run::existing_project(common, Wanted::Studies)?, common)?;
    let store = Store::open_read_only(&storage)?;
    let study = store::choose(&store, Some(&args.study))?;
    drop(store);
    let _lock = locked(&storage, &study, &study.name)?;
    if !args.yes {
        confirmed(&study)?;
    }
    let places = places_of(&storage.files(), &storage.own_files(), &study.name);
    must_be_own(&places)?;
    patiently(PATIENCE, &mut warn(common), || {
        let mut store = Store::open_existing(&storage)?;
        store.hold(study.study_id)?;
        store.delete_study(study.study_id)
    })?;
    for place in places {
        let removed = match std::fs::symlink_metadata(&place) {
            Ok(meta) if meta.is_dir() => std::fs::remove_dir_all(&place),
            Ok(_) => std::fs::remove_file(&place),
            Err(_) => Ok(()),
        };
        removed.map_err(|e| {
            Failure::storage(format!(
                "the study is deleted, but {} could not be removed: {e}; remove it by hand",
                place.display()
            ))
        })?;
    }
    acknowledge(
        common,
        &Deleted {
            study: study.name,
            trials: study.counts.total(),
        },
    )
}

/// Asks on the terminal.
fn confirmed(study: &StudySummary) -> Result<(), Failure> {
    let name = printable(&study.name);
    let trials = plural(study.counts.total(), "trial");
    if !std::io::stdin().is_terminal() {
        return Err(Failure::input(format!(
            "{name} has {trials}; to delete them for good, say --yes"
        )));
    }
    report::err(&format!(
        "{name} has {trials}. Type its name to delete it for good:"
    ));
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    match read.is_ok() && line.trim() == study.name {
        true => Ok(()),
        false => Err(Failure::input(
            "nothing was deleted: another name was given".to_owned(),
        )),
    }
}

/// How a study was renamed.
#[derive(Debug, Serialize)]
struct Renamed {
    study: String,
    from: String,
}

impl Answer for Renamed {
    fn text(&self) -> String {
        let (name, from) = (printable(&self.study), printable(&self.from));
        let flag = shell_word(&self.study);
        format!("{from} is now {name}; its command goes on with --study {flag}\n")
    }
}

pub(super) fn rename(common: &Common, args: &RenameArgs) -> Result<Exit, Failure> {
    let storage = run::storage(&run::existing_project(common, Wanted::Studies)?, common)?;
    let (old, new) = (&args.study, &args.name);
    config::check_name(new).map_err(|why| {
        let new = config::shown_name(new);
        Failure::input(format!("found the name {new}, expected {why}"))
    })?;
    let store = Store::open_read_only(&storage)?;
    let study = store::choose(&store, Some(old))?;
    if store.find_study(new)?.is_some() {
        return Err(Failure::input(format!(
            "there is a study called {new:?} already"
        )));
    }
    drop(store);
    let own = storage.own_files();
    let _lock = locked(&storage, &study, old)?;
    // A run that has just ended may have left one until then.
    if let Some(waiting) = Waiting::of(&storage, old).text() {
        return Err(Failure::storage(format!(
            "{waiting}; rename the study after that"
        )));
    }
    let _new = StudyLock::take(&storage, new, &LockOwner::this_process())?;
    let moves = moves((&storage.files(), &own), old, new)?;
    patiently(PATIENCE, &mut warn(common), || {
        let mut store = Store::open_existing(&storage)?;
        store.hold(study.study_id)?;
        store.rename_study(study.study_id, new)
    })?;
    for (from, to) in moves {
        std::fs::rename(&from, &to).map_err(|e| {
            Failure::storage(format!(
                "the study is renamed, but {} could not be moved to {}: {e}; move it by hand",
                from.display(),
                to.display()
            ))
        })?;
    }
    // Held by nobody else; one that cannot be removed only lies there.
    let _ = std::fs::remove_file(files::paths::lock_of(&own, old));
    let from = old.clone();
    acknowledge(
        common,
        &Renamed {
            study: new.clone(),
            from,
        },
    )
}

/// The places that a study has, and where they go; `own` is the directory of what only this node writes. The lock file stays:
/// locks have names of their own.
fn moves(
    (dir, own): (&Path, &Path),
    old: &str,
    new: &str,
) -> Result<Vec<(PathBuf, PathBuf)>, Failure> {
    let lock = files::paths::lock_of(own, old);
    let places = |study: &str| places_of(dir, own, study);
    let pairs = places(old).into_iter().zip(places(new));
    let moves: Vec<_> = pairs
        .filter(|(from, _)| from.exists() && *from != lock)
        .collect();
    must_be_own(
        &moves
            .iter()
            .map(|(from, _)| from.clone())
            .collect::<Vec<_>>(),
    )?;
    match moves.iter().find(|(_, to)| to.symlink_metadata().is_ok()) {
        Some((_, to)) => Err(Failure::input(format!(
            "{} is there, of an earlier study called {new:?}; remove it first",
            to.display()
        ))),
        None => Ok(moves),
    }
}

/// Refuses where a link leads elsewhere.
fn must_be_own(places: &[PathBuf]) -> Result<(), Failure> {
    for place in places {
        let above = place.parent().unwrap_or(place);
        plain::is_dir(above).map_err(|e| Failure::storage(format!("{}: {e}", above.display())))?;
    }
    Ok(())
}

/// Locks a study that nobody works on.
fn locked(storage: &Place, study: &StudySummary, name: &str) -> Result<StudyLock, Failure> {
    let mut lock = StudyLock::take(storage, name, &LockOwner::this_process())?;
    lock.row(study.study_id, name)?;
    Ok(lock)
}

pub(super) fn warn(common: &Common) -> impl FnMut(String) + use<> {
    let quiet = common.quiet;
    move |message: String| {
        if !quiet {
            report::err(&format!("note: {message}"));
        }
    }
}
