//! Which study a run is about: the one asked for, a fork of it, or a new one that begins with what
//! fits of others. Decides nothing about trials: that is [`search::study::carry`].

use std::path::Path;

use serde_json::{Map, Value as Json, json};

use super::signals::outlive_file_size_limit;
use super::spool_replay;
use super::study_lock::{LockOwner, StudyLock};
use config::Difference;
use config::Prepared;
use config::StudySpec;
use files::{bounded, plain};
use messages::exit::{Exit, Failure};
use search::space::{Params, Space};
use search::study::carry::{Carried, Source, Target, carry};
use search::study::{Direction, FrozenTrial, lineage, next_fork};
use store::{NewStudy, Place, Store, StoreErrorKind, StudySummary};

/// Study attribute: what a study was made from.
pub const MADE_FROM: &str = "made_from";

/// Study attribute: how many trials there were when `tune` took the study over from another
/// program. Their values are never copied into other studies.
const CLAIMED: &str = "claimed";

/// Study attribute: the file of the task that the study was last run for.
const TASK_FILE: &str = "task_file";

/// What a study that does not exist yet is made from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// Nothing: what is asked must be what the study is.
    #[default]
    New,
    /// Where what is asked differs from the study, a fork of it.
    Fork,
    /// This other study of the same database.
    From(String),
}

impl Origin {
    /// The flag, for people.
    fn flag(&self) -> &'static str {
        match self {
            Origin::New => "",
            Origin::Fork => "--fork",
            Origin::From(_) => "--from",
        }
    }
}

/// The study that a run is about, locked for this process.
#[derive(Debug)]
pub struct LockedStudy {
    pub(super) lock: StudyLock,
    pub(super) owner: LockOwner,
}

/// Finds out which study a run is about, locks it, and sets its name in `spec`.
///
/// # Errors
/// The study to begin with does not exist (2), the study is held (6), no lock can be made (7).
pub fn lock_study(
    storage: &Place,
    spec: &mut StudySpec,
    prepared: &Prepared,
    origin: &Origin,
) -> Result<LockedStudy, Failure> {
    outlive_file_size_limit()
        .map_err(|e| Failure::internal(format!("signals cannot be handled: {e}")))?;
    let owner = LockOwner::this_process();
    let asked = spec.study.clone();
    loop {
        spec.study = match origin {
            Origin::New => asked.clone(),
            Origin::Fork => fork_name(storage, &asked, spec, prepared)?,
            Origin::From(source) => {
                must_be_there(storage, &asked, source)?;
                asked.clone()
            }
        };
        // The lock makes the file: what waits for one that is gone is seen before.
        spool_replay::check(storage, &spec.study)?;
        let lock = StudyLock::take(storage, &spec.study, &owner)?;
        // Another run may have made this very fork before the lock was taken.
        let still =
            *origin != Origin::Fork || fork_name(storage, &asked, spec, prepared)? == spec.study;
        if still {
            return Ok(LockedStudy { lock, owner });
        }
    }
}

/// The study that `--fork` means: the one asked for or one of its forks, if it is what is asked;
/// else the next fork.
fn fork_name(
    storage: &Place,
    asked: &str,
    spec: &StudySpec,
    prepared: &Prepared,
) -> Result<String, Failure> {
    // What is wrong with the database is told by who opens it for writing.
    let Ok(store) = Store::open_read_only(storage) else {
        return Ok(asked.to_owned());
    };
    let studies = store.studies()?;
    if !studies.iter().any(|s| s.name == asked) {
        return Ok(asked.to_owned());
    }
    let identity = config::identity(spec, prepared);
    let fits = fitting_relative(&store, &studies, asked, spec, &identity)?;
    Ok(match fits {
        Some(study) => study.name.clone(),
        None => next_fork(asked, &names(&studies)),
    })
}

/// The study, or else the latest of its forks, that is what is asked.
fn fitting_relative<'a>(
    store: &Store,
    studies: &'a [StudySummary],
    name: &str,
    spec: &StudySpec,
    identity: &Map<String, Json>,
) -> Result<Option<&'a StudySummary>, Failure> {
    let itself = studies.iter().filter(|s| s.name == name);
    for study in itself.chain(relatives(studies, name)) {
        let found = differences(store, study, spec, identity)?;
        if found.lines.is_empty() {
            return Ok(Some(study));
        }
    }
    Ok(None)
}

fn names(studies: &[StudySummary]) -> Vec<&str> {
    studies.iter().map(|s| s.name.as_str()).collect()
}

/// The study and its forks, the latest first.
fn relatives<'a>(studies: &'a [StudySummary], name: &str) -> Vec<&'a StudySummary> {
    let members = lineage(name, &names(studies)).into_iter();
    members
        .filter_map(|name| studies.iter().find(|s| s.name == name))
        .collect()
}

/// A study that is yet to be made needs the one that it begins with.
fn must_be_there(storage: &Place, asked: &str, source: &str) -> Result<(), Failure> {
    if asked == source {
        return Err(Failure::input(format!(
            "--from {source}: that is the study itself; leave --from out to go on with it, or \
             name the new one with --study NAME"
        )));
    }
    if !storage.is_shared() && !storage.file().exists() {
        return Err(Failure::input(format!(
            "--from {source}: there is no such study, because there is no database {storage} yet"
        )));
    }
    match Store::open_read_only(storage) {
        Ok(store) if store.find_study(asked)?.is_none() => {
            let found = store::choose(&store, Some(source));
            found.map(|_| ()).map_err(|mut failure| {
                failure.message = format!("--from {source}: {}", failure.message);
                failure
            })
        }
        // What is wrong with the database is told by who opens it for writing.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// A study that was found or made.
pub(super) struct OpenedStudy {
    pub(super) study_id: i64,
    /// What it was made from, where it was made from others.
    pub(super) fork: Option<report::Fork>,
    /// What people must know of it.
    pub(super) warnings: Vec<String>,
}

/// Finds the study and checks that it is the one asked for, or makes it, with what it was made
/// from. With `same_program`, changed files of a program are taken for the same.
///
/// # Errors
/// The study differs from what is asked (8), reading or writing failed (7).
pub(super) fn open_study(
    store: &mut Store,
    spec: &StudySpec,
    prepared: &Prepared,
    origin: &Origin,
    same_program: bool,
) -> Result<OpenedStudy, Failure> {
    let identity = config::identity(spec, prepared);
    let mut found = store.find_study(&spec.study)?;
    if found.is_none() {
        match make(store, spec, prepared, origin, &identity)? {
            Some((study_id, fork)) => {
                store.name_metrics(study_id, &spec.metric_names())?;
                return Ok(OpenedStudy {
                    study_id,
                    fork,
                    warnings: Vec::new(),
                });
            }
            None => found = store.find_study(&spec.study)?,
        }
    }
    let Some(study) = found else {
        let what = format!(
            "the study {:?} was made by another node and deleted since",
            spec.study
        );
        return Err(Failure::storage(what));
    };
    if let Origin::From(source) = origin {
        must_be_from(&study, source)?;
    }
    let differences = differences(store, &study, spec, &identity)?;
    // A program that has given no value yet is being mended.
    let nothing_yet = differences.of_program
        && !store
            .outlines(study.study_id)?
            .iter()
            .any(FrozenTrial::gave_value);
    let accepted = differences.of_program && (same_program || nothing_yet);
    if !differences.lines.is_empty() && !accepted {
        return Err(differs(store, spec, &identity, &differences)?);
    }
    let mut warnings: Vec<String> = other_task(&study, spec).into_iter().collect();
    if !nothing_yet && !differences.lines.is_empty() {
        let what = differences.lines.join(", ");
        warnings.push(format!(
            "{what} since the study began; with --same-program all its values count as before"
        ));
    }
    match store.identity(study.study_id)? {
        Some(was) => {
            store.must_be_consistent(&study, &spec.directions())?;
            if accepted || config::lacks_program(&was, &identity) {
                store.claim(study.study_id, &identity, &Map::new())?;
            }
        }
        None => warnings.extend(claim(store, &study, &identity)?),
    }
    // Earlier versions named none.
    store.name_metrics(study.study_id, &spec.metric_names())?;
    Ok(OpenedStudy {
        study_id: study.study_id,
        fork: None,
        warnings,
    })
}

/// What to say where the study was begun for another task file, which is still there: two projects may share a
/// database (`--storage`), and their studies a name. A copy in another node's directory is no other task.
fn other_task(study: &StudySummary, spec: &StudySpec) -> Option<String> {
    let begun = Path::new(study.user_attrs.get(TASK_FILE)?.as_str()?);
    if begun == spec.file || !begun.is_file() || plain::real(begun) == plain::real(&spec.file) {
        return None;
    }
    let text = |file: &Path| bounded::read(file, bounded::CONFIGURATION).ok();
    if text(begun).is_some_and(|begun| Some(begun) == text(&spec.file)) {
        return None;
    }
    Some(format!(
        "the study {} was last run for {}, and now for {}: their values go into one study; if that is not \
         meant, give this one a name of its own with --study NAME",
        study.name,
        begun.display(),
        spec.file.display()
    ))
}

/// Takes over a study that another program has made; what is to be said of it.
fn claim(
    store: &mut Store,
    study: &StudySummary,
    identity: &Map<String, Json>,
) -> Result<Option<String>, Failure> {
    let trials = store.trials(study.study_id)?;
    let below = trials.last().map_or(0, |t| t.number + 1);
    let claimed = [(CLAIMED.to_owned(), below.into())];
    store.claim(study.study_id, identity, &claimed.into_iter().collect())?;
    let counted = trials.iter().filter(|t| t.counts()).count() as u64;
    let (trials, their, count) = match counted {
        0 => return Ok(None),
        1 => ("1 finished trial".to_owned(), "its value was", "counts"),
        n => (format!("{n} finished trials"), "their values were", "count"),
    };
    Ok(Some(format!(
        "the study {} was made by another program: its {trials} {count} towards the goal and the \
         sampler learns from them, but nobody knows whether {their} measured by this task; \
         --study NAME begins a new study{}",
        study.name,
        match store.place().is_shared() {
            // It takes in files.
            true => "",
            false => ", tune adopt looks closer",
        }
    )))
}

/// A study that exists is continued with `--from` only where it began that way.
fn must_be_from(study: &StudySummary, source: &str) -> Result<(), Failure> {
    let made = study.user_attrs.get(MADE_FROM);
    let by = made.and_then(|m| m.get("by")).and_then(Json::as_str);
    let from = made.and_then(|m| m.get("studies")?.get(0)?.as_str());
    if by == Some("--from") && from == Some(source) {
        return Ok(());
    }
    let made = match (by, from) {
        (Some(by), Some(from)) => format!("made from {from} ({by})"),
        (Some(_) | None, _) => "made from no other".to_owned(),
    };
    Err(Failure::new(
        Exit::Differs,
        format!(
            "--from {source}: the study {} exists already and was {made}; leave --from out to go \
             on with it, or give the new study a name of its own with --study NAME",
            study.name
        ),
    ))
}

/// A new study, with what fits of those that it is made from; `None`: another node was faster.
fn make(
    store: &mut Store,
    spec: &StudySpec,
    prepared: &Prepared,
    origin: &Origin,
    identity: &Map<String, Json>,
) -> Result<Option<(i64, Option<report::Fork>)>, Failure> {
    let studies = store.studies()?;
    let sources = match origin {
        Origin::New => Vec::new(),
        Origin::Fork => relatives(&studies, &spec.study),
        Origin::From(source) => studies.iter().filter(|s| s.name == *source).collect(),
    };
    let earlier = sources
        .into_iter()
        .map(|study| Earlier::read(store, study, identity))
        .collect::<Result<Vec<_>, Failure>>()?;
    let mut attrs = study_attributes(spec, prepared);
    let (trials, fork) = match earlier.first() {
        None => (Vec::new(), None),
        Some(latest) => {
            let (trials, carried) = carried(&earlier, spec);
            attrs.extend(inherited(&earlier, &carried, origin));
            let fork = report::Fork {
                by: origin.flag().to_owned(),
                from: earlier.iter().map(|e| e.study.name.clone()).collect(),
                differences: latest.differences.clone(),
                carried,
            };
            (trials, Some(fork))
        }
    };
    let study = NewStudy {
        name: &spec.study,
        directions: &spec.directions(),
        user_attrs: &attrs,
        identity,
    };
    match store.create_study(&study, &trials) {
        Ok(study_id) => Ok(Some((study_id, fork))),
        Err(e) if matches!(e.kind, StoreErrorKind::StudyExists(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A study that the new one is made from.
struct Earlier<'a> {
    study: &'a StudySummary,
    space: Option<Space>,
    comparable: bool,
    differences: Vec<String>,
    trials: Vec<FrozenTrial>,
}

impl<'a> Earlier<'a> {
    fn read(
        store: &Store,
        study: &'a StudySummary,
        asked: &Map<String, Json>,
    ) -> Result<Earlier<'a>, Failure> {
        let was = store.identity(study.study_id)?;
        let differences = was.as_ref().map(|was| config::differences(was, asked));
        let differences = differences.unwrap_or_default();
        Ok(Earlier {
            study,
            comparable: was.as_ref().is_some_and(|w| config::comparable(w, asked)),
            space: was.as_ref().map(config::space_of),
            differences: differences.iter().map(ToString::to_string).collect(),
            trials: store.trials(study.study_id)?,
        })
    }

    /// How many of its first trials are another program's.
    fn claimed(&self) -> u64 {
        let claimed = self.study.user_attrs.get(CLAIMED);
        claimed.and_then(Json::as_u64).unwrap_or(0)
    }
}

fn carried(earlier: &[Earlier], spec: &StudySpec) -> (Vec<FrozenTrial>, Carried) {
    let sources: Vec<Source> = earlier
        .iter()
        .map(|e| Source {
            study: &e.study.name,
            space: e.space.as_ref(),
            comparable: e.comparable,
            claimed: e.claimed(),
            directions: &e.study.directions,
            trials: &e.trials,
        })
        .collect();
    let keys = config::kinds::keys_of(&spec.kind);
    let presets: Params = keys
        .iter()
        .filter_map(|key| Some((key.name.to_owned(), key.preset.value()?)))
        .collect();
    let target = Target {
        space: &spec.space,
        presets: &presets,
        first: &spec.first_points(),
    };
    carry(&sources, &target)
}

/// Attributes of a study that come from those it is made from.
fn inherited(earlier: &[Earlier], carried: &Carried, origin: &Origin) -> Map<String, Json> {
    let studies: Vec<&str> = earlier.iter().map(|e| e.study.name.as_str()).collect();
    let made = json!({
        "by": origin.flag(), "studies": studies,
        "copied": carried.copied, "enqueued": carried.enqueued, "waiting": carried.waiting,
    });
    let mut attrs = Map::new();
    attrs.insert(MADE_FROM.into(), made);
    // Results of disturbed runs stay marked as such.
    let injected = |e: &&Earlier| e.study.user_attrs.get("injected_faults").cloned();
    if carried.copied > 0
        && let Some(plans) = earlier.iter().find_map(|e| injected(&e))
    {
        attrs.insert("injected_faults".into(), plans);
    }
    attrs
}

/// The attributes of a study that name its task.
pub fn task_attributes(spec: &StudySpec) -> Map<String, Json> {
    let file = spec.file.to_string_lossy();
    let attrs = [
        ("task", spec.task.as_str()),
        ("task_kind", &spec.kind),
        ("metric", &spec.objective.metric),
        (TASK_FILE, &file),
    ];
    let attrs = attrs.map(|(key, value)| (key.to_owned(), value.into()));
    attrs.into_iter().collect()
}

/// The attributes of a study that a run sets.
pub(super) fn study_attributes(spec: &StudySpec, prepared: &Prepared) -> Map<String, Json> {
    let mut attrs = task_attributes(spec);
    if !spec.further.is_empty() {
        attrs.insert("metrics".into(), spec.metric_names().into());
    }
    attrs.insert("trials_goal".into(), spec.operation.trials.into());
    let sampler = &spec.operation.sampler;
    attrs.insert("sampler".into(), sampler.kind.clone().into());
    let plan = search::sampler::plan(sampler, &spec.space);
    attrs.insert("sampler_plan".into(), plan.into());
    if let Some(baseline) = &prepared.baseline {
        attrs.insert("baseline".into(), json!(baseline));
    }
    attrs
}

/// How a study differs from what is asked.
struct Differences {
    lines: Vec<String>,
    /// Only in the files of its program.
    of_program: bool,
    /// Whether another program made it.
    foreign: bool,
}

fn differences(
    store: &Store,
    study: &StudySummary,
    spec: &StudySpec,
    identity: &Map<String, Json>,
) -> Result<Differences, Failure> {
    Ok(match store.identity(study.study_id)? {
        Some(was) => {
            let differences = config::differences(&was, identity);
            Differences {
                lines: differences.iter().map(ToString::to_string).collect(),
                of_program: differences.iter().all(Difference::is_of_program),
                foreign: false,
            }
        }
        None => Differences {
            lines: foreign_differences(store, spec, study)?,
            of_program: false,
            foreign: true,
        },
    })
}

/// The error, with what to do.
fn differs(
    store: &Store,
    spec: &StudySpec,
    identity: &Map<String, Json>,
    differences: &Differences,
) -> Result<Failure, Failure> {
    let name = &spec.study;
    let whose = match differences.foreign {
        true => "was made by another program and ",
        false => "",
    };
    let mut message = format!("the study {name} {whose}differs from what is asked:");
    for difference in &differences.lines {
        message.push_str(&format!("\n  {difference}"));
    }
    if differences.of_program {
        message.push_str(
            "\nIf the change does not alter what a value means (a comment, a log line), add --same-program to \
             go on with the study.",
        );
    }
    let studies = store.studies()?;
    let fork = fitting_relative(store, &studies, name, spec, identity)?;
    message.push_str(&match fork.map(|study| &study.name) {
        Some(fork) => format!(
            "\nThe study {fork} is what is asked: add --fork to go on with it, or say --study \
             {fork}. The study {name} stays as it is."
        ),
        None => format!(
            "\nAdd --fork to search in a new study {}, which begins with the trials of {name} \
             that still fit, or give the new search a name of its own with --study NAME. The \
             study {name} stays as it is.",
            next_fork(name, &names(&studies))
        ),
    });
    Ok(Failure::new(Exit::Differs, message))
}

/// How a study that `tune` did not make differs from what is asked: it can be continued when its
/// direction is the one asked for and no categorical parameter has other choices.
fn foreign_differences(
    store: &Store,
    spec: &StudySpec,
    study: &StudySummary,
) -> Result<Vec<String>, Failure> {
    let mut problems = Vec::new();
    let asked = spec.directions();
    if study.directions != asked {
        let text = |directions: &[Direction]| {
            let words: Vec<String> = directions.iter().map(ToString::to_string).collect();
            words.join(", ")
        };
        problems.push(format!(
            "objective.direction was {}; now it is {}",
            text(&study.directions),
            text(&asked)
        ));
    }
    for trial in store.trials(study.study_id)? {
        for (_, parameter, was) in spec.space.incompatible(&trial.distributions) {
            problems.push(format!(
                "{} of trial {} was drawn from {was}; now it is searched in {}",
                parameter.name, trial.number, parameter.domain
            ));
        }
        if problems.len() >= 10 {
            break;
        }
    }
    problems.dedup();
    Ok(problems)
}
