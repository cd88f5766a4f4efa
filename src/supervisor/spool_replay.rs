//! At the start of a run: waiting for the database, and taking in what an earlier run had to leave
//! in its spool.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::signals;
use super::spool::{self, Entry, Spool};
use super::study_lock::{LockOwner, StudyLock};
use files::name::part;
use files::paths::{directory_of, spool_of};
use messages::exit::Failure;
use store::{Place, Replayed, Store, StoreError, StoreErrorKind, Write};

/// How often a locked database is tried; each try waits for the lock itself, too.
const PAUSE: Duration = Duration::from_millis(200);

/// Refuses to make a new database in the place of one for which results wait.
///
/// # Errors
/// There is no database, or an empty one, and results wait (7).
pub fn check(storage: &Place, study: &str) -> Result<(), Failure> {
    let dir = &storage.own_files();
    let nothing = |m: Metadata| m.is_file() && m.len() == 0;
    let empty = !storage.is_shared() && std::fs::metadata(storage.file()).map_or(true, nothing);
    let waiting = if empty { spool::waiting(dir, study) } else { 0 };
    if waiting == 0 {
        return Ok(());
    }
    Err(Failure::storage(format!(
        "{storage}: the database is gone, but {} of the study {study} {} kept for it in {}; put the \
         database or a copy of it back, or move that file away to begin anew",
        spool::count_text(waiting),
        if waiting == 1 { "is" } else { "are" },
        spool_of(dir, study).display()
    )))
}

/// Tells of results that an earlier version has left for a study on a server where they are not looked for any more: apart from
/// the server's own files.
pub fn tell_former(storage: &Place, study: &str, warn: &mut impl FnMut(String)) {
    let Some(node) = storage.node() else {
        return;
    };
    let former = directory_of(storage.file())
        .join("nodes")
        .join(&*part(node));
    let former = directory_of(&former);
    let waiting = spool::waiting(&former, study);
    if waiting > 0 {
        warn(format!(
            "{} left in {}, where earlier versions kept those of any server; what belongs to this one is taken in once that file is moved to {}",
            spool::count_text(waiting),
            spool_of(&former, study).display(),
            spool_of(&storage.own_files(), study).display()
        ));
    }
}

/// Calls `attempt` until another program's lock is no longer in the way, at most for `patience`.
///
/// # Errors
/// Those of `attempt`.
pub fn patiently<T>(
    patience: Duration,
    warn: &mut impl FnMut(String),
    mut attempt: impl FnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let start = Instant::now();
    let mut told = false;
    loop {
        match attempt() {
            Err(error)
                if matches!(error.kind, StoreErrorKind::Locked)
                    && start.elapsed() < patience
                    && !signals::requested() =>
            {
                if !told {
                    warn(format!("{error}; waiting for at most {patience:?}"));
                    told = true;
                }
                thread::sleep(PAUSE.min(patience));
            }
            result => return result,
        }
    }
}

/// The error, and that results wait for the database.
pub fn with_spool(error: StoreError, dir: &Path, study: &str) -> Failure {
    let mut failure = Failure::from(error);
    let waiting = spool::waiting(dir, study);
    if waiting > 0 {
        failure.message.push_str(&format!(
            "\nwaiting in {}, to be taken in once the database can be used: {}",
            spool_of(dir, study).display(),
            spool::count_text(waiting)
        ));
    }
    failure
}

/// Makes the spool of a run.
///
/// # Errors
/// There is no room for it (7): what could not be kept safe is not begun.
pub fn reserve(dir: &Path, study: &str) -> Result<Spool, Failure> {
    Spool::reserve(dir, study).map_err(|e| io(dir, study, "cannot be made", &e))
}

/// Takes in what waits in a study's spool. What does not fit the database is kept aside and
/// warned of, and the spool is removed.
///
/// # Errors
/// Storage failed (7); the spool is then as it was, and taking it in again changes nothing twice.
pub fn replay_spool(
    store: &mut Store,
    study_id: i64,
    dir: &Path,
    study: &str,
    warn: &mut impl FnMut(String),
) -> Result<(), Failure> {
    let path = spool_of(dir, study);
    let contents = spool::read(&path).map_err(|e| io(dir, study, "cannot be read", &e))?;
    let keep_aside = |reason: &str, what: &Json| {
        let result = spool::reject(dir, study, reason, what);
        result.map_err(|e| io(dir, study, "cannot be taken in", &e))
    };
    let (mut taken, mut refused) = (0, Vec::new());
    for entry in &contents.entries {
        let (written, rejected) = replay_entry(store, study_id, entry)?;
        taken += written;
        for (reason, part) in rejected {
            keep_aside(&reason, &serde_json::to_value(part).unwrap_or_default())?;
            refused.push(reason);
        }
    }
    for line in &contents.damaged {
        let reason = "the line is damaged";
        keep_aside(reason, &Json::from(line.as_str()))?;
        refused.push(reason.to_owned());
    }
    if path.exists() {
        std::fs::remove_file(&path).map_err(|e| io(dir, study, "cannot be removed", &e))?;
    }
    if taken > 0 {
        warn(format!(
            "taken in from {}, where it waited for the database: {}",
            path.display(),
            spool::count_text(taken)
        ));
    }
    if contents.torn {
        warn(format!(
            "the last entry of {} was incomplete and is dropped; what it was about runs again",
            path.display()
        ));
    }
    if let Some(reason) = refused.first() {
        warn(format!(
            "not taken in from {}, because it does not fit the database ({reason}): {} in all, \
             kept in {}",
            path.display(),
            refused.len(),
            files::paths::rejected_of(dir, study).display()
        ));
    }
    Ok(())
}

/// Takes in what waits in a study's spool, and in those of other nodes that share this directory and do not run now: before
/// anybody takes their trials over, whose results would be lost by that. What cannot be taken in of theirs is left to them.
///
/// # Errors
/// Storage failed (7).
pub fn replay_spools(
    store: &mut Store,
    study_id: i64,
    study: &str,
    me: &LockOwner,
    warn: &mut impl FnMut(String),
) -> Result<(), Failure> {
    let place = store.place().clone();
    replay_spool(store, study_id, &place.own_files(), study, warn)?;
    for node in place.nodes_here() {
        let other = place.of_node(&node);
        let dir = other.own_files();
        if place.node() == Some(&*node) || spool::waiting(&dir, study) == 0 {
            continue;
        }
        // One that works has it in hand.
        let Ok(_lock) = StudyLock::take_now(&other, study, &me.taking_in()) else {
            continue;
        };
        if store.is_there(study_id, &node)? {
            continue;
        }
        if let Err(failure) = replay_spool(store, study_id, &dir, study, warn) {
            warn(format!(
                "{failure}. Start the node {node} (TUNE_NODE) before others take its trials over"
            ));
        }
    }
    Ok(())
}

/// Parts of entries that do not fit the database, with the reasons.
type Rejected = Vec<(String, Entry)>;

/// Takes in an entry: how many of its results are written by that, and what of it does not fit.
fn replay_entry(
    store: &mut Store,
    study_id: i64,
    entry: &Entry,
) -> Result<(u64, Rejected), Failure> {
    let (mut taken, mut rejected) = (0, Vec::new());
    // What is not written now, and what follows from it: newer words than these may stand there.
    let mut passed = Vec::new();
    for writes in by_trial(&entry.writes) {
        if writes.iter().any(|w| store::follows_from_late(w, &passed)) {
            continue;
        }
        let replayed = write(store, study_id, entry, &writes)?;
        if replayed == Replayed::Written {
            taken += spool::results(&writes);
            continue;
        }
        passed.extend(writes.clone());
        if let Replayed::Refused(reason) = replayed
            && holds_an_end(&writes)
        {
            let part = Entry {
                writes,
                ..entry.clone()
            };
            rejected.push((reason, part));
        }
    }
    Ok((taken, rejected))
}

fn write(
    store: &mut Store,
    study_id: i64,
    entry: &Entry,
    writes: &[Write],
) -> Result<Replayed, StoreError> {
    let started = store.run_started(study_id, entry.run)?;
    if started.as_ref() != Some(&entry.started) {
        return Ok(Replayed::Refused(
            "the database does not know the run: it was replaced, or restored from an older copy"
                .to_owned(),
        ));
    }
    store.replay(study_id, entry.run, entry.time, writes)
}

/// What is not worth keeping: reports of a trial that goes on, or that has ended.
fn holds_an_end(writes: &[Write]) -> bool {
    writes.iter().any(|w| {
        matches!(
            w,
            Write::AttemptEnded { .. } | Write::TrialFinished { .. } | Write::RepeatFinished { .. }
        )
    })
}

/// The writes about each trial, so that one that does not fit keeps no other out; those about none
/// come last.
fn by_trial(writes: &[Write]) -> Vec<Vec<Write>> {
    let mut trials: BTreeMap<u64, Vec<Write>> = BTreeMap::new();
    let mut others = Vec::new();
    for write in writes {
        match write.number() {
            Some(number) => trials.entry(number).or_default().push(write.clone()),
            None => others.push(vec![write.clone()]),
        }
    }
    trials.into_values().chain(others).collect()
}

fn io(dir: &Path, study: &str, what: &str, error: &std::io::Error) -> Failure {
    Failure::storage(format!(
        "{}: the file in which results wait while the database cannot be written {what}: {error}; \
         make room, or see to its permissions",
        spool_of(dir, study).display()
    ))
}
