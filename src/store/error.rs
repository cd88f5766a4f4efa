//! What can go wrong with the database, as types; every message names the file and what to do.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use messages::exit::Failure;
use search::study::TrialState;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such file, and none was to be made.
    #[error(
        "{path}: there is no such database; a run of `tune` makes it, or give its directory with -C"
    )]
    NotFound {
        /// The database.
        path: Shown,
    },
    /// The file exists and is no SQLite database.
    #[error(
        "{path}: this file is no SQLite database; it is left as it is: move it away, or use another project directory with -C"
    )]
    NotADatabase {
        /// The file.
        path: Shown,
    },
    /// There is something else than a file.
    #[error(
        "{path}: this is {found} and no file; it is left as it is: move it away, or use another project directory with -C"
    )]
    NotAFile {
        /// The path.
        path: Shown,
        /// What it is.
        found: String,
    },
    /// The file has other names that are no links to this one.
    #[error(
        "{path}: this file has {names} names (hard links): what SQLite does by one of them, it knows nothing of by another; remove the others, or replace them by copies"
    )]
    Names {
        /// The database.
        path: Shown,
        /// How many names it has.
        names: u64,
    },
    /// A SQLite database without the tables of Optuna.
    #[error(
        "{path}: this SQLite database belongs to another program ({found}); it is left as it is: use another project directory with -C"
    )]
    Foreign {
        /// The file.
        path: Shown,
        /// What was found in it.
        found: String,
    },
    /// The database is damaged.
    #[error(
        "{path}: the database is damaged ({what}); it is left as it is: restore a copy, or save what can be read with `sqlite3 {path} .recover`"
    )]
    Corrupt {
        /// The database.
        path: Shown,
        /// What SQLite says.
        what: String,
    },
    /// Written by a newer version.
    #[error("{path}: the database was written by a newer version ({what}); update `tune`")]
    NewerSchema {
        /// The database.
        path: Shown,
        /// What is newer.
        what: String,
    },
    /// Written by an Optuna from before the current schema.
    #[error(
        "{path}: the database has an older schema of Optuna ({what}); run `optuna storage upgrade --storage sqlite:///{path}` once"
    )]
    OlderSchema {
        /// The database.
        path: Shown,
        /// What is older.
        what: String,
    },
    /// The write-ahead log does not work on network file systems.
    #[error(
        "{path}: lies on a network file system ({kind}), where SQLite's write-ahead log would lose data; put the project directory on a local disk (-C or TUNE_HOME)"
    )]
    Network {
        /// The database.
        path: Shown,
        /// The file system's name.
        kind: &'static str,
    },
    /// SQLite cannot use its write-ahead log here.
    #[error(
        "{path}: this file system allows no write-ahead log (journal mode stays {mode}); put the project directory on a local disk (-C or TUNE_HOME)"
    )]
    NoLog {
        /// The database.
        path: Shown,
        /// The journal mode that SQLite keeps.
        mode: String,
    },
    /// The disk is full.
    #[error("{path}: the disk is full; make room")]
    Full {
        /// The database.
        path: Shown,
    },
    /// The file or its directory cannot be written.
    #[error("{path}: the database or its directory is not writable for this user")]
    ReadOnly {
        /// The database.
        path: Shown,
    },
    /// Another program holds the lock.
    #[error("{path}: another program holds the database's lock; end it, or try again")]
    Locked {
        /// The database.
        path: Shown,
    },
    /// The file was moved, replaced or deleted while it was open.
    #[error(
        "{path}: the database was moved, replaced or deleted while in use; put it back and start again"
    )]
    Moved {
        /// The database.
        path: Shown,
    },
    /// Reading or writing failed below SQLite.
    #[error(
        "{path}: reading or writing failed ({what}); check the disk and the permissions of the directory"
    )]
    Io {
        /// The database.
        path: Shown,
        /// What SQLite or the system says.
        what: String,
    },
    /// A row that neither Optuna nor `tune` writes.
    #[error(
        "{path}: {what}; the row was changed by hand or by a newer program: correct it, or restore a copy"
    )]
    Content {
        /// The database.
        path: Shown,
        /// Which row, what was found and what was expected.
        what: String,
    },
    /// No study has this id.
    #[error("{path}: there is no study with id {study_id}; it was deleted by another program")]
    UnknownStudy {
        /// The database.
        path: Shown,
        /// The id asked for.
        study_id: i64,
    },
    /// No trial of the study has this number.
    #[error("{path}: study {study_id} has no trial {number}; it was deleted by another program")]
    UnknownTrial {
        /// The database.
        path: Shown,
        /// The study.
        study_id: i64,
        /// The number asked for.
        number: u64,
    },
    /// A study with this name exists.
    #[error("{path}: there is a study called {name:?} already")]
    StudyExists {
        /// The database.
        path: Shown,
        /// The name.
        name: String,
    },
    /// A trial was to make a transition that no trial may make, most likely because another
    /// program ended it meanwhile.
    #[error("{path}: trial {number} is {from} and cannot become {to}; another program changed it")]
    Transition {
        /// The database.
        path: Shown,
        /// Trial number.
        number: u64,
        /// The state it is in.
        from: TrialState,
        /// The state that was asked for.
        to: TrialState,
    },
    /// A write that must never be asked for: a defect of `tune`. Nothing was written.
    #[error("{path}: refused a write that makes no sense: {what}; this is a defect of tune")]
    Invalid {
        /// The database.
        path: Shown,
        /// What was asked.
        what: String,
    },
    /// Anything else that SQLite refuses: a defect of `tune`, or tables changed by hand.
    #[error("{path}: SQLite refuses: {what}")]
    Sql {
        /// The database.
        path: Shown,
        /// What SQLite says.
        what: String,
    },
}

/// A path that can be shown within a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown(pub PathBuf);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.display().fmt(f)
    }
}

impl StoreError {
    /// Whether the same call may succeed later without anybody changing the database: the lock is
    /// released, room is made, the disk answers again or is mounted for writing again.
    pub fn transient(&self) -> bool {
        match self {
            StoreError::Full { .. }
            | StoreError::Locked { .. }
            | StoreError::Io { .. }
            | StoreError::ReadOnly { .. } => true,
            StoreError::NotFound { .. }
            | StoreError::NotADatabase { .. }
            | StoreError::NotAFile { .. }
            | StoreError::Names { .. }
            | StoreError::Foreign { .. }
            | StoreError::Corrupt { .. }
            | StoreError::NewerSchema { .. }
            | StoreError::OlderSchema { .. }
            | StoreError::Network { .. }
            | StoreError::NoLog { .. }
            | StoreError::Moved { .. }
            | StoreError::Content { .. }
            | StoreError::UnknownStudy { .. }
            | StoreError::UnknownTrial { .. }
            | StoreError::StudyExists { .. }
            | StoreError::Transition { .. }
            | StoreError::Invalid { .. }
            | StoreError::Sql { .. } => false,
        }
    }
}

impl StoreError {
    /// Whether the file's content is damaged or none of ours: nothing may be written to it.
    pub fn damaged(&self) -> bool {
        match self {
            StoreError::NotADatabase { .. }
            | StoreError::NotAFile { .. }
            | StoreError::Foreign { .. }
            | StoreError::Corrupt { .. }
            | StoreError::NewerSchema { .. }
            | StoreError::OlderSchema { .. } => true,
            StoreError::NotFound { .. }
            | StoreError::Names { .. }
            | StoreError::Network { .. }
            | StoreError::NoLog { .. }
            | StoreError::Full { .. }
            | StoreError::ReadOnly { .. }
            | StoreError::Locked { .. }
            | StoreError::Moved { .. }
            | StoreError::Io { .. }
            | StoreError::Content { .. }
            | StoreError::UnknownStudy { .. }
            | StoreError::UnknownTrial { .. }
            | StoreError::StudyExists { .. }
            | StoreError::Transition { .. }
            | StoreError::Invalid { .. }
            | StoreError::Sql { .. } => false,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::storage(error.to_string())
    }
}

/// An error inside the store, before it knows its file. `Conflict` never leaves the store as an
/// error: it becomes [`super::Written::Conflict`].
#[derive(Debug)]
pub(super) enum Cause {
    Sql(rusqlite::Error),
    Conflict,
    Content(String),
    Invalid(String),
    Newer(String),
    Older(String),
    Foreign(String),
    /// `Older` or `Foreign` of a file that another program may be making just now.
    Unfinished(Box<Cause>),
    Corrupt(String),
    NoLog(String),
    UnknownStudy(i64),
    UnknownTrial(i64, u64),
    StudyExists(String),
    Transition(u64, TrialState, TrialState),
}

impl From<rusqlite::Error> for Cause {
    fn from(error: rusqlite::Error) -> Cause {
        Cause::Sql(error)
    }
}

/// Most characters of a message about what a row holds, which may be a text of any length.
const LONGEST: usize = 600;

/// The text without its middle, where it is long: what it is about stands at the beginning, what was
/// expected at the end.
fn shortened(text: String) -> String {
    let length = text.chars().count();
    if length <= LONGEST {
        return text;
    }
    let half = LONGEST / 2;
    let (begin, end): (String, String) = (
        text.chars().take(half).collect(),
        text.chars().skip(length - half).collect(),
    );
    format!("{begin} ... {end}")
}

impl Cause {
    /// The error, with the file's name.
    pub(super) fn at(self, path: &Path) -> StoreError {
        let (file, path) = (path, Shown(path.to_path_buf()));
        match self {
            Cause::Sql(error) => from_sqlite(path, &error),
            Cause::Conflict => StoreError::Invalid {
                path,
                what: "a conflict outside of a batch".to_owned(),
            },
            Cause::Content(what) => StoreError::Content {
                path,
                what: shortened(what),
            },
            Cause::Invalid(what) => StoreError::Invalid { path, what },
            Cause::Newer(what) => StoreError::NewerSchema { path, what },
            Cause::Older(what) => StoreError::OlderSchema { path, what },
            Cause::Foreign(found) => StoreError::Foreign { path, found },
            Cause::Unfinished(cause) => cause.at(file),
            Cause::Corrupt(what) => StoreError::Corrupt { path, what },
            Cause::NoLog(mode) => StoreError::NoLog { path, mode },
            Cause::UnknownStudy(study_id) => StoreError::UnknownStudy { path, study_id },
            Cause::UnknownTrial(study_id, number) => StoreError::UnknownTrial {
                path,
                study_id,
                number,
            },
            Cause::StudyExists(name) => StoreError::StudyExists { path, name },
            Cause::Transition(number, from, to) => StoreError::Transition {
                path,
                number,
                from,
                to,
            },
        }
    }

    /// Whether another program's lock is in the way.
    pub(super) fn busy(&self) -> bool {
        matches!(self, Cause::Sql(e) if is(e, &[ErrorCode::DatabaseBusy, ErrorCode::DatabaseLocked]))
    }

    /// Whether the file or its side files cannot be opened for writing.
    pub(super) fn cannot_open(&self) -> bool {
        matches!(self, Cause::Sql(e) if is(e, &[ErrorCode::CannotOpen, ErrorCode::ReadOnly]))
    }
}

fn is(error: &rusqlite::Error, codes: &[ErrorCode]) -> bool {
    error
        .sqlite_error_code()
        .is_some_and(|c| codes.contains(&c))
}

fn extended(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|e| e.extended_code)
}

/// SQLite's result codes, by what a person can do about them.
fn from_sqlite(path: Shown, error: &rusqlite::Error) -> StoreError {
    let what = error.to_string();
    let Some(code) = error.sqlite_error_code() else {
        // A column of another type than its writer's.
        return match error.sqlite_error() {
            Some(_) => StoreError::Sql { path, what },
            None => StoreError::Content { path, what },
        };
    };
    let any = |codes: &[ErrorCode]| codes.contains(&code);
    if extended(error) == Some(rusqlite::ffi::SQLITE_READONLY_DBMOVED) {
        // SQLite looks at the name itself, too, and calls a file that is gone read-only.
        StoreError::Moved { path }
    } else if any(&[ErrorCode::NotADatabase]) {
        StoreError::NotADatabase { path }
    } else if any(&[ErrorCode::DatabaseCorrupt]) {
        StoreError::Corrupt { path, what }
    } else if any(&[ErrorCode::DiskFull]) {
        StoreError::Full { path }
    } else if any(&[ErrorCode::ReadOnly, ErrorCode::PermissionDenied]) {
        StoreError::ReadOnly { path }
    } else if any(&[
        ErrorCode::DatabaseBusy,
        ErrorCode::DatabaseLocked,
        ErrorCode::FileLockingProtocolFailed,
    ]) {
        StoreError::Locked { path }
    } else if any(&[
        ErrorCode::SystemIoFailure,
        ErrorCode::CannotOpen,
        ErrorCode::OutOfMemory,
    ]) {
        StoreError::Io { path, what }
    } else {
        StoreError::Sql { path, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_about_a_long_text_keeps_its_beginning_and_its_end() {
        let what = format!(
            "study 1 has the direction \"{}\", expected MINIMIZE",
            "é".repeat(10_000)
        );
        let said = Cause::Content(what).at(Path::new("/p/tune.db")).to_string();
        assert!(said.contains("study 1 has the direction \"éé"), "{said}");
        assert!(said.contains("éé\", expected MINIMIZE"), "{said}");
        assert!(said.chars().count() < 1_000, "{said}");
        let short = Cause::Content("trial 3 has no number".to_owned());
        let said = short.at(Path::new("/p/tune.db")).to_string();
        assert!(said.contains("trial 3 has no number"), "{said}");
    }
}
