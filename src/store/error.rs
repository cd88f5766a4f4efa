//! What can go wrong with the database, as types; every message names the file and what to do.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use messages::exit::{Exit, Failure};
use search::study::TrialState;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.message(self.kind.advice()))]
pub struct StoreError {
    /// The database, or a file beside it.
    pub path: PathBuf,
    /// What is wrong.
    pub kind: StoreErrorKind,
}

/// What can be wrong.
#[derive(Debug)]
pub enum StoreErrorKind {
    /// There is no such file, and none was to be made.
    NotFound,
    /// The database on a server has no studies, or that of a file no tables yet, and none were to be made.
    NoStudies,
    /// The file exists and is no SQLite database.
    NotADatabase,
    /// There is something else than a file: what it is.
    NotAFile(String),
    /// The file has this many names that are no links to this one.
    Names(u64),
    /// A SQLite database without the tables of Optuna: what was found in it.
    Foreign(String),
    /// `Older` or `Foreign` of a file that another program may be making just now.
    Unfinished(Box<StoreErrorKind>),
    /// The database is damaged: what SQLite says.
    Corrupt(String),
    /// Written by a newer version: what is newer.
    Newer(String),
    /// Written by an Optuna from before the current schema: what is older.
    Older(String),
    /// The write-ahead log does not work on network file systems: which one.
    Network(&'static str),
    /// SQLite cannot use its write-ahead log here: the journal mode that it keeps.
    NoLog(String),
    /// The disk is full.
    Full,
    /// The file or its directory cannot be written.
    ReadOnly,
    /// Another program holds the lock.
    Locked,
    /// The file was moved, replaced or deleted while it was open.
    Moved,
    /// Reading or writing failed below SQLite: what it or the system says.
    Io(String),
    /// The same while the file, or one beside it, was opened.
    CannotOpen(String),
    /// The server cannot be reached, or has ended the connection: what it or the system says.
    Unreachable(String),
    /// No connection by TLS can be trusted: what is wrong with the server's certificate.
    Untrusted(String),
    /// What says how to connect is of no use: a service that is not there, a password file that others may read.
    Settings(String),
    /// The server does not let this user in, or not do that: what it says.
    Denied(String),
    /// The server has no such database: what it says.
    Missing(String),
    /// The server, or the database, is none that can be used: what it is, and what was expected.
    Unfit(String),
    /// The connection was lost while the transaction of this number was committed, and the server cannot be asked about it.
    Doubtful(i64),
    /// A command has this study (its row id) to itself, or another process works on it under this node's name.
    Held(i64, Option<String>),
    /// A row that neither Optuna nor `tune` writes: which row, what was found and what was expected.
    Content(String),
    /// No study has this id.
    UnknownStudy(i64),
    /// No trial of the study with this id has this number.
    UnknownTrial(i64, u64),
    /// A study with this name exists.
    StudyExists(String),
    /// A trial was to make a transition that no trial may make, most likely because another
    /// program ended it meanwhile: its number, its state and the one that was asked for.
    Transition(u64, TrialState, TrialState),
    /// A trial's number was taken, or it was claimed: see [`super::Written::Conflict`].
    Conflict,
    /// A write that must never be asked for: a defect of `tune`. Nothing was written.
    Invalid(String),
    /// Anything else that the database refuses: a defect of `tune`, or tables changed by hand.
    Sql(String),
}

use StoreErrorKind as Kind;

/// What is wrong with a server that is read-only.
const TAKES_NO_CHANGES: &str =
    "the server takes no changes now: it is a standby, or this user's transactions are read-only";

impl StoreError {
    /// The message with another advice; an empty one is left out.
    pub fn message(&self, advice: &str) -> String {
        let path = self.path.display();
        // A server's is read-only for other reasons than a file.
        let server = matches!(self.kind, Kind::ReadOnly) && self.path.starts_with("postgresql:");
        let what = match server {
            true => TAKES_NO_CHANGES.to_owned(),
            false => self.kind.what(),
        };
        match advice {
            "" => format!("{path}: {what}"),
            _ => format!(
                "{path}: {what}; {}",
                advice.replace("{path}", &path.to_string())
            ),
        }
    }

    /// Whether the same call may succeed later without anybody changing the database: the lock is
    /// released, room is made, the disk answers again or is mounted for writing again.
    pub fn transient(&self) -> bool {
        use Kind::{CannotOpen, Doubtful, Full, Io, Locked, ReadOnly, Unreachable};
        matches!(
            self.kind,
            Full | Locked | Io(_) | CannotOpen(_) | ReadOnly | Unreachable(_) | Doubtful(_)
        )
    }

    /// Whether the file's content is damaged or none of ours: nothing may be written to it.
    pub fn damaged(&self) -> bool {
        use Kind::{Corrupt, Foreign, Newer, NotADatabase, NotAFile, Older};
        matches!(
            self.kind,
            NotADatabase | NotAFile(_) | Foreign(_) | Corrupt(_) | Newer(_) | Older(_)
        )
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        match matches!(error.kind, Kind::Held(..)) {
            true => Failure::new(Exit::Held, error.to_string()),
            false => Failure::storage(error.to_string()),
        }
    }
}

impl StoreErrorKind {
    /// The error, with the file's name.
    pub(super) fn at(self, path: &Path) -> StoreError {
        let path = path.to_path_buf();
        let kind = if let Kind::Unfinished(why) = self {
            *why
        } else if let Kind::Content(what) = self {
            Kind::Content(shortened(what))
        } else {
            self
        };
        StoreError { path, kind }
    }

    /// What is wrong, without the file's name.
    fn what(&self) -> String {
        match self {
            Kind::NotFound => "there is no such database".to_owned(),
            Kind::NoStudies => "there are no studies in this database".to_owned(),
            Kind::NotADatabase => "this file is no SQLite database".to_owned(),
            Kind::NotAFile(found) => format!("this is {found} and no file"),
            Kind::Names(names) => format!(
                "this file has {names} names (hard links): what SQLite does by one of them, it \
                 knows nothing of by another"
            ),
            Kind::Foreign(found) => {
                format!("this database belongs to another program ({found})")
            }
            Kind::Unfinished(why) => why.what(),
            Kind::Corrupt(what) => format!("the database is damaged ({what})"),
            Kind::Newer(what) => format!("the database was written by a newer version ({what})"),
            Kind::Older(what) => format!("the database has an older schema of Optuna ({what})"),
            Kind::Network(system) => format!(
                "lies on a network file system ({system}), where SQLite's write-ahead log would \
                 lose data"
            ),
            Kind::NoLog(mode) => {
                format!("this file system allows no write-ahead log (journal mode stays {mode})")
            }
            Kind::Full => "the disk is full".to_owned(),
            Kind::ReadOnly => {
                "the database or its directory is not writable for this user".to_owned()
            }
            Kind::Locked => "another program holds the database's lock".to_owned(),
            Kind::Moved => "the database was moved, replaced or deleted while in use".to_owned(),
            Kind::Io(what) | Kind::CannotOpen(what) => {
                format!("reading or writing failed ({what})")
            }
            Kind::Unreachable(what) => format!("the server cannot be reached ({what})"),
            Kind::Untrusted(what) if offers_no_tls(what) => {
                format!("the server offers no TLS ({what})")
            }
            Kind::Untrusted(what) => format!("the server cannot be trusted ({what})"),
            Kind::Settings(what) => format!("no connection can be made ({what})"),
            Kind::Denied(what) if is_about_rights(what) => {
                format!("the server does not allow this user that ({what})")
            }
            Kind::Denied(what) => format!("the server refuses this user ({what})"),
            Kind::Missing(what) => format!("the server has no such database ({what})"),
            Kind::Unfit(what) => format!("this server cannot hold studies ({what})"),
            Kind::Doubtful(number) => format!(
                "the connection was lost while transaction {number} was committed, and the server \
                 cannot be asked what has become of it"
            ),
            Kind::Held(_, None) => "nodes work on the study".to_owned(),
            Kind::Held(_, Some(node)) => format!(
                "another process works on the study as the node {node:?}, or has it to itself"
            ),
            Kind::Content(what) => what.clone(),
            Kind::UnknownStudy(_) => "the study is not there".to_owned(),
            Kind::UnknownTrial(_, number) => format!("the study has no trial {number}"),
            Kind::StudyExists(name) => format!("there is a study called {name:?} already"),
            Kind::Transition(number, from, to) => {
                format!("trial {number} is {from} and cannot become {to}")
            }
            Kind::Conflict => Kind::Invalid("a conflict outside of a batch".to_owned()).what(),
            Kind::Invalid(what) => format!("refused a write that makes no sense: {what}"),
            Kind::Sql(what) => format!("the database refuses a statement: {what}"),
        }
    }

    /// What to do, or where it comes from; `{path}` stands for the file.
    fn advice(&self) -> &'static str {
        match self {
            Kind::NotFound => {
                "a run makes it (`tune TASK`; `tune init` makes a first task). Without -C it is looked for from the \
                 working directory upward"
            }
            Kind::NoStudies => "a run makes its study (`tune TASK`)",
            Kind::NotADatabase | Kind::NotAFile(_) => {
                "it is left as it is: move it away, or use another project directory with -C"
            }
            Kind::Names(_) => "remove the others, or replace them by copies",
            Kind::Foreign(_) => {
                "it is left as it is: use another database (--storage), or another project directory with -C"
            }
            Kind::Unfinished(why) => why.advice(),
            Kind::Corrupt(_) => {
                "it is left as it is: restore a copy, or save what can be read with \
                 `sqlite3 {path} .recover`"
            }
            Kind::Newer(_) => "update `tune`",
            Kind::Older(_) => "run `optuna storage upgrade --storage sqlite:///{path}` once",
            Kind::Network(_) | Kind::NoLog(_) => {
                "put the project directory on a local disk (-C or TUNE_HOME)"
            }
            Kind::Full => "make room",
            Kind::Locked => "end it, or try again",
            Kind::Moved => "put it back and start again",
            Kind::Io(_) | Kind::CannotOpen(_) => {
                "check the disk and the permissions of the directory"
            }
            Kind::Content(_) => {
                "the row was changed by hand or by a newer program: correct it, or restore a copy"
            }
            Kind::Unreachable(_) | Kind::Doubtful(_) => {
                "check that it runs, and the network between"
            }
            Kind::Untrusted(what) if offers_no_tls(what) => {
                "have it offer TLS, or go without with ?sslmode=disable"
            }
            Kind::Untrusted(_) => {
                "name the certificate of its authority with ?sslrootcert=FILE, or go without TLS \
                 with ?sslmode=disable"
            }
            Kind::Denied(what) if is_about_rights(what) => {
                "have its owner grant it (GRANT), or connect as another user"
            }
            Kind::Denied(_) => {
                "check the user, the password (PGPASSWORD, ~/.pgpass or a service file) and what \
                 the user may do"
            }
            Kind::Held(_, None) => "wait for them, or stop them; tune nodes tells which they are",
            Kind::Held(_, Some(_)) => {
                "wait for it, or stop it there; two nodes on one machine need a name each (TUNE_NODE)"
            }
            Kind::Missing(_) => "make it with createdb, or correct the URL",
            Kind::Unfit(_) => "use another server or database",
            Kind::UnknownStudy(_) | Kind::UnknownTrial(..) => "it was deleted by another program",
            Kind::Transition(..) => "another program changed it",
            Kind::Invalid(_) | Kind::Conflict => "this is a defect of tune",
            Kind::ReadOnly | Kind::Settings(_) | Kind::StudyExists(_) | Kind::Sql(_) => "",
        }
    }
}

/// Whether a server that was to be reached by TLS has none: what its client says.
fn offers_no_tls(what: &str) -> bool {
    what.contains("does not support TLS")
}

/// Whether a server has let a user in, and does not allow what was asked.
fn is_about_rights(what: &str) -> bool {
    what.starts_with("permission denied for") || what.starts_with("must be owner")
}

/// SQLite's result codes, by what a person can do about them.
impl From<rusqlite::Error> for StoreErrorKind {
    fn from(error: rusqlite::Error) -> Kind {
        let what = error.to_string();
        let moved = Some(rusqlite::ffi::SQLITE_READONLY_DBMOVED);
        if error.sqlite_error().map(|e| e.extended_code) == moved {
            // SQLite looks at the name itself, too, and calls a file that is gone read-only.
            return Kind::Moved;
        }
        let Some(code) = error.sqlite_error_code() else {
            // A column of another type than its writer's.
            return match error.sqlite_error() {
                Some(_) => Kind::Sql(what),
                None => Kind::Content(what),
            };
        };
        let is = |codes: &[ErrorCode]| codes.contains(&code);
        use ErrorCode as E;
        if is(&[E::NotADatabase]) {
            Kind::NotADatabase
        } else if is(&[E::DatabaseCorrupt]) {
            Kind::Corrupt(what)
        } else if is(&[E::DiskFull]) {
            Kind::Full
        } else if is(&[E::ReadOnly, E::PermissionDenied]) {
            Kind::ReadOnly
        } else if is(&[
            E::DatabaseBusy,
            E::DatabaseLocked,
            E::FileLockingProtocolFailed,
        ]) {
            Kind::Locked
        } else if is(&[E::CannotOpen]) {
            Kind::CannotOpen(what)
        } else if is(&[E::SystemIoFailure, E::OutOfMemory]) {
            Kind::Io(what)
        } else {
            Kind::Sql(what)
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_refuses_is_told_by_what_mends_it() {
        let said = |kind: Kind| {
            let url = Path::new("postgresql://me@db/studies");
            kind.at(url).to_string()
        };
        let told = said(Kind::Denied(
            "permission denied for schema public".to_owned(),
        ));
        assert!(
            told.contains("does not allow") && !told.contains("PGPASSWORD"),
            "{told}"
        );
        let told = said(Kind::Denied("password authentication failed".to_owned()));
        assert!(told.contains("PGPASSWORD"), "{told}");
        let told = said(Kind::Settings("services has no service [lab]".to_owned()));
        assert!(told.ends_with("(services has no service [lab])"), "{told}");
        let none = "error performing TLS handshake: server does not support TLS";
        let told = said(Kind::Untrusted(none.to_owned()));
        assert!(
            told.contains("offers no TLS") && !told.contains("sslrootcert"),
            "{told}"
        );
        assert!(!said(Kind::ReadOnly).contains("directory"));
    }

    #[test]
    fn a_message_about_a_long_text_keeps_its_beginning_and_its_end() {
        let what = format!(
            "study 1 has the direction \"{}\", expected MINIMIZE",
            "é".repeat(10_000)
        );
        let said = Kind::Content(what).at(Path::new("/p/tune.db")).to_string();
        assert!(said.contains("study 1 has the direction \"éé"), "{said}");
        assert!(said.contains("éé\", expected MINIMIZE"), "{said}");
        assert!(said.chars().count() < 1_000, "{said}");
        let short = Kind::Content("trial 3 has no number".to_owned());
        let said = short.at(Path::new("/p/tune.db")).to_string();
        assert!(said.contains("trial 3 has no number"), "{said}");
    }
}
