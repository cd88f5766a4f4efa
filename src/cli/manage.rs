//! `tune stop`, `tune delete` and `tune rename`: what is done to a whole study.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::commands::{DeleteArgs, RenameArgs, StopArgs};
use super::{Common, answer, run};
use crate::query::{self, Answer, printable, shell_word};
use config::places::Wanted;
use files::paths::places_of;
use files::plain;
use messages::exit::{Exit, Failure};
use report::format::plural;
use store::{Place, Store, StudySummary};
use supervisor::{LockOwner, StudyLock, ask_to_stop, lock_owner, patiently, spool};

/// How often it is looked whether a run has ended.
const LOOK: Duration = Duration::from_millis(100);

/// How long another program's lock on the database is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// How a study was stopped.
#[derive(Debug, Serialize)]
struct Stopped {
    study: String,
    /// The process that worked on it; null where nobody did.
    pid: Option<u32>,
    /// What its run ended with; null where that is not known.
    exit: Option<u8>,
}

impl Answer for Stopped {
    fn text(&self) -> String {
        let study = printable(&self.study);
        match (self.pid, self.exit) {
            (None, _) => format!("nothing to stop: no process works on {study}\n"),
            (Some(pid), Some(code)) => {
                let meaning = Exit::meaning_of(code);
                format!("{study}: process {pid} has ended with exit code {code} ({meaning})\n")
            }
            (Some(pid), None) => format!("{study}: process {pid} has ended\n"),
        }
    }
}

pub(super) fn stop(common: &Common, args: &StopArgs) -> Result<Exit, Failure> {
    let storage = run::storage(&run::existing_project(common, Wanted::Studies)?, common)?;
    let store = Store::open_read_only(&storage)?;
    let study = store::choose(&store, Some(&args.study))?;
    let mut stopped = Stopped {
        study: study.name.clone(),
        pid: None,
        exit: None,
    };
    let Some(owner) = lock_owner(&storage, &study) else {
        return match elsewhere(&store, &study)? {
            None => answer(common, &stopped),
            Some(others) => Err(Failure::new(
                Exit::Held,
                format!(
                    "at work on {}: {others}; stop it there",
                    printable(&study.name)
                ),
            )),
        };
    };
    let was_suspended = ask_to_stop(&storage, &study, &owner, args.now)?;
    let tell = |text: String| {
        if common.loud() {
            report::err(&format!("{}: {text}", printable(&study.name)));
        }
    };
    let pid = owner.pid;
    if was_suspended {
        tell(format!("process {pid} was suspended, and goes on to stop"));
    }
    tell(match args.now {
        true => format!("process {pid} was asked to stop. Running trials are put back at once"),
        false => format!("process {pid} was asked to stop. It starts nothing new"),
    });
    let mut waits = args.now;
    while let Some(now) = lock_owner(&storage, &study).filter(|now| now.pid == pid) {
        if let (false, Some(stopping)) = (waits, &now.stopping) {
            waits = true;
            let text = query::waits_text(stopping, messages::clock::now());
            tell(format!("{text}. --now puts running trials back at once"));
        }
        thread::sleep(LOOK);
    }
    let runs = store.runs(study.study_id)?;
    let its = runs.iter().rev().find(|run| run.record.pid == owner.pid);
    stopped.exit = its.and_then(|run| run.exit);
    stopped.pid = Some(owner.pid);
    if let Some(others) = elsewhere(&store, &study)? {
        tell(format!("still at work: {others}"));
    }
    answer(common, &stopped)
}

/// The other nodes that work on a study which several share: `node b (process 123 on gpu2)`.
fn elsewhere(store: &Store, study: &StudySummary) -> Result<Option<String>, Failure> {
    let nodes = store.nodes(study.study_id)?;
    let own = store.place().node();
    let others = nodes
        .iter()
        .filter(|node| node.is_live() && own != Some(&node.name));
    let working = others.map(|node| {
        let (name, host) = (printable(&node.name), printable(&node.host));
        format!("node {name} (process {} on {host})", node.pid)
    });
    let working: Vec<String> = working.collect();
    Ok((!working.is_empty()).then(|| working.join(", ")))
}

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
    let places = places_of(&storage.files(), &study.name);
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
    answer(
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
    config::check_name(new)
        .map_err(|why| Failure::input(format!("found the name {new:?}, expected {why}")))?;
    let store = Store::open_read_only(&storage)?;
    let study = store::choose(&store, Some(old))?;
    if store.find_study(new)?.is_some() {
        return Err(Failure::input(format!(
            "there is a study called {new:?} already"
        )));
    }
    drop(store);
    let dir = storage.files();
    let _lock = locked(&storage, &study, old)?;
    // A run that has just ended may have left one until then.
    let waiting = spool::waiting(&storage.own_files(), old);
    if waiting > 0 {
        return Err(Failure::storage(format!(
            "{}; rename the study after that",
            spool::waiting_text(waiting)
        )));
    }
    let _new = StudyLock::take(&storage, new, &LockOwner::this_process())?;
    let moves = moves(&dir, old, new)?;
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
    let _ = std::fs::remove_file(files::paths::lock_of(&dir, old));
    let from = old.clone();
    answer(
        common,
        &Renamed {
            study: new.clone(),
            from,
        },
    )
}

/// The places that a study has, and where they go. The lock file stays: locks have names of their own.
fn moves(dir: &Path, old: &str, new: &str) -> Result<Vec<(PathBuf, PathBuf)>, Failure> {
    let lock = files::paths::lock_of(dir, old);
    let pairs = places_of(dir, old).into_iter().zip(places_of(dir, new));
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
