//! Opening: what is checked before anything is written, and how the connection is set up.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{AccessFlags, access, geteuid};
use rusqlite::OpenFlags;
use rusqlite::config::DbConfig;

use super::changes::Doubt;
use super::file::{
    FileId, has_log, log_of, looks_whole, make_directory, must_be_local, must_exist,
    must_have_one_name,
};
use super::leases::live_runs;
use super::log::{self, Watch};
use super::migrate::{Contents, check_triggers, inspect, migrate};
use super::sql::{Connection, Intent};
#[cfg(feature = "postgres")]
use super::sql::{Server, address::Address};
use super::{Place, StoreError, StoreErrorKind as Kind};
use files::{beside, directory, plain};
use messages::clock::to_store as stamp;

/// How long a statement waits for another program's lock, unless it is told otherwise.
pub const LOCK_PATIENCE: Duration = Duration::from_millis(500);

/// How long another program is given to make the tables of a database.
const MAKING: Duration = Duration::from_secs(3);

/// What is wrong where only the owner of a database can read it.
const LEFT_LOG: &str = "a run that was killed has left its write-ahead log to be taken in, which \
    another user than its owner cannot do: let the owner run tune status once";

/// How often the switch to the write-ahead log, for which SQLite does not wait, is tried.
const WAL_TRIES: u32 = 40;

/// An open database.
///
/// One connection; it may move between threads, and each thread that needs the database at the
/// same time opens its own.
pub struct Store {
    pub(super) conn: Connection,
    pub(super) place: Place,
    pub(super) clock: Clock,
    /// Whether our own tables are there; a file that only Optuna has written, opened for reading,
    /// lacks them.
    pub(super) own_tables: bool,
    pub(super) file: Option<FileId>,
    /// A batch that may have been written.
    pub(super) doubt: Option<Doubt>,
    /// Of a database that is written.
    pub(super) watch: Option<Watch>,
    version: i64,
}

/// What studies on a server are opened for.
#[cfg(feature = "postgres")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Writing; tables are made where there are none.
    Make,
    /// Writing to what is there.
    Write,
    /// Reading.
    Read,
}

/// Where the times of rows come from.
type Clock = Box<dyn Fn() -> jiff::Timestamp + Send>;

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the database for reading and writing; makes it, with its directory, where there is
    /// none. A file that Optuna wrote gets our tables added.
    ///
    /// # Errors
    /// No database of ours, a damaged or newer one, a network file system, no permission. The
    /// file is then as it was.
    pub fn open(place: impl Into<Place>) -> Result<Store, StoreError> {
        let place = place.into();
        #[cfg(feature = "postgres")]
        if let Some(server) = place.server() {
            return Store::open_on(server, &place, Access::Make);
        }
        let path = &plain::real(place.file());
        make_directory(path)?;
        Store::open_writable(path, OpenFlags::SQLITE_OPEN_CREATE)
    }

    /// Whether there is a database that [`Store::open`] can open; `false` where it would make one.
    /// Nothing is written or made. The directory must be there.
    ///
    /// # Errors
    /// What [`Store::open`] would refuse, as far as that can be told without writing.
    pub fn can_open(place: impl Into<Place>) -> Result<bool, StoreError> {
        let place = place.into();
        if place.is_shared() {
            return Ok(Store::open_if_any(place)?.is_some());
        }
        let path = &plain::real(place.file());
        must_be_local(path)?;
        looks_whole(path)?;
        let at = |kind: Kind| kind.at(path);
        let read_only = || Kind::ReadOnly.at(path);
        // The log and its index are made beside the file.
        let all = AccessFlags::W_OK | AccessFlags::X_OK;
        access(directory(path), all).map_err(|_| read_only())?;
        if !path.exists() {
            return Ok(false);
        }
        access(path, AccessFlags::R_OK | AccessFlags::W_OK).map_err(|_| read_only())?;
        must_have_one_name(path)?;
        log::check(&log_of(path)).map_err(at)?;
        let conn = open_file(path, READ_WRITE).map_err(at)?;
        keep_log_on_close(&conn, has_log(path)).map_err(at)?;
        Ok(inspect_patiently(&conn).map_err(at)? != Contents::Empty)
    }

    /// Opens the database for reading and writing; never makes one.
    ///
    /// # Errors
    /// See [`Store::open`]; also where there is none.
    pub fn open_existing(place: impl Into<Place>) -> Result<Store, StoreError> {
        let place = place.into();
        #[cfg(feature = "postgres")]
        if let Some(server) = place.server() {
            return Store::open_on(server, &place, Access::Write);
        }
        let path = &plain::real(place.file());
        must_exist(path)?;
        Store::open_writable(path, OpenFlags::empty())
    }

    /// Opens the database for reading, also while a run writes to it, and in a directory that
    /// cannot be written. Nothing is left beside it that its owner could not use (`Look`).
    ///
    /// # Errors
    /// See [`Store::open_existing`].
    pub fn open_read_only(place: impl Into<Place>) -> Result<Store, StoreError> {
        let place = place.into();
        #[cfg(feature = "postgres")]
        if let Some(server) = place.server() {
            return Store::open_on(server, &place, Access::Read);
        }
        let path = &plain::real(place.file());
        must_exist(path)?;
        looks_whole(path)?;
        if !log_of(path).exists() {
            must_have_one_name(path)?;
        }
        let at = |kind: Kind| kind.at(path);
        let look = Look::at(path);
        let opened = look
            .open(path)
            .and_then(|conn| Ok((inspect_patiently(&conn)?, conn)));
        let (contents, conn) = opened.map_err(|kind| {
            let refused = matches!(kind, Kind::CannotOpen(_) | Kind::ReadOnly);
            match refused && look == Look::AtLog && !beside(path, "-shm").exists() {
                true => at(Kind::Io(LEFT_LOG.to_owned())),
                false => at(kind),
            }
        })?;
        let own_tables = has_own_tables(contents).map_err(at)?;
        Store::assemble(conn, path.into(), own_tables).map_err(at)
    }

    /// The same; `None` where there is no database.
    ///
    /// # Errors
    /// See [`Store::open_existing`].
    pub fn open_if_any(place: impl Into<Place>) -> Result<Option<Store>, StoreError> {
        match Store::open_read_only(place) {
            Err(error) if matches!(error.kind, Kind::NotFound | Kind::NoStudies) => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Opens a private copy of somebody else's database, made together with the log or journal that
    /// lay beside it: what these hold is recovered into the copy, and nothing is migrated.
    ///
    /// # Errors
    /// See [`Store::open_existing`]; the messages name the copy.
    pub fn open_copy(path: &Path) -> Result<Store, StoreError> {
        must_exist(path)?;
        looks_whole(path)?;
        let at = |kind: Kind| kind.at(path);
        log::check(&log_of(path)).map_err(at)?;
        let conn = open_file(path, READ_WRITE).map_err(at)?;
        let contents = inspect_patiently(&conn).map_err(at)?;
        let own_tables = has_own_tables(contents).map_err(at)?;
        quick_check(&conn).map_err(at)?;
        super::foreign::make_readable(&conn).map_err(at)?;
        Store::assemble(conn, path.into(), own_tables).map_err(at)
    }

    /// Sets how long a statement waits for another program's lock.
    pub fn set_lock_patience(&self, patience: Duration) {
        // Fails for no value of it.
        let _ = self.conn.set_lock_patience(patience);
    }

    /// Keeps everybody else from this study until this store is closed. Within a file, the locks on it do that.
    ///
    /// # Errors
    /// A node works on it, or somebody has it like this.
    pub fn hold(&mut self, study_id: i64) -> Result<(), StoreError> {
        let held = self.conn.hold(study_id, None);
        held.map_err(|kind| self.at(kind))?;
        // One that is cut off comes back.
        match self.read(|conn| live_runs(conn, study_id))?.is_empty() {
            true => Ok(()),
            false => Err(self.at(Kind::Held(study_id, None))),
        }
    }

    /// Keeps those from this study, until this store is closed, who would have it to themselves, and those who call
    /// themselves by this node's name.
    ///
    /// # Errors
    /// One of them has it.
    pub fn join(&mut self, study_id: i64) -> Result<(), StoreError> {
        let held = self.conn.hold(study_id, self.place.node());
        held.map_err(|kind| self.at(kind))
    }

    /// What stands for the last sign of life of who else calls itself by this node's name, where that can be told: it is
    /// another one after each word of a living one.
    ///
    /// # Errors
    /// Asking failed.
    pub fn sign_of_life(&self, study_id: i64) -> Result<Option<String>, StoreError> {
        let Some(node) = self.place.node() else {
            return Ok(None);
        };
        self.read(|conn| conn.sign_of_life(study_id, node))
    }

    /// Whether somebody who calls itself by this name works on a study now, as far as that can be told.
    ///
    /// # Errors
    /// Asking failed.
    pub fn is_there(&self, study_id: i64, node: &str) -> Result<bool, StoreError> {
        self.read(|conn| conn.has_name(study_id, node))
    }

    /// Whether the database can be written now: takes its write lock and gives it back.
    ///
    /// # Errors
    /// Another program holds the lock, or the database cannot be written at all.
    pub fn probe_lock(&self) -> Result<(), StoreError> {
        let nothing = self.conn.transaction(Intent::Write, |_| Ok(()));
        nothing.map_err(|kind| self.at(kind))
    }

    /// Takes the time of everything written from `clock`, for tests and replays.
    pub fn with_clock(mut self, clock: impl Fn() -> jiff::Timestamp + Send + 'static) -> Store {
        self.clock = Box::new(clock);
        self
    }

    /// The file; of studies on a server the one that stands for the project ([`Place::file`]).
    pub fn path(&self) -> &Path {
        self.place.file()
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether another connection has committed since the last call (or since opening). Where that
    /// cannot be found out it says yes: reading then shows the error.
    pub fn foreign_change(&mut self) -> bool {
        match self.conn.version() {
            Ok(version) if version == self.version => false,
            Ok(version) => {
                self.version = version;
                true
            }
            Err(_) => true,
        }
    }

    /// Reads as of one moment.
    pub(super) fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, Kind>,
    ) -> Result<T, StoreError> {
        let answer = self.conn.transaction(Intent::Read, query);
        answer.map_err(|kind| self.at(kind))
    }

    /// Writes in one transaction: all of it is durable, or nothing was written.
    pub(super) fn write<T>(
        &mut self,
        change: impl FnOnce(&Connection) -> Result<T, Kind>,
    ) -> Result<T, StoreError> {
        let changed = self.conn.transaction(Intent::Write, change);
        changed.map_err(|kind| self.at(kind))
    }

    /// Now, by the store's clock.
    pub fn time(&self) -> jiff::Timestamp {
        (self.clock)()
    }

    /// Now, as Optuna stores it.
    pub(super) fn now(&self) -> String {
        stamp(self.time())
    }

    pub(super) fn at(&self, kind: Kind) -> StoreError {
        kind.at(&self.place.shown())
    }

    fn open_writable(path: &Path, create: OpenFlags) -> Result<Store, StoreError> {
        must_be_local(path)?;
        looks_whole(path)?;
        must_have_one_name(path)?;
        let at = |kind: Kind| kind.at(path);
        if let Some(gap) = log::check(&log_of(path)).map_err(at)? {
            keep_dropped(path, gap);
        }
        let conn = open_file(path, READ_WRITE | create).map_err(at)?;
        let now = stamp(messages::clock::now());
        // A connection that is closed copies what a crash left in the log into the file: not into
        // one that is refused.
        keep_log_on_close(&conn, has_log(path)).map_err(at)?;
        prepare(&conn, !create.is_empty(), &now).map_err(at)?;
        let mut store = Store::assemble(conn, path.into(), true).map_err(at)?;
        store.watch = Watch::of(log_of(path), beside(path, "-shm"));
        if store.watch.is_some() {
            let by_hand = "PRAGMA wal_autocheckpoint = 0";
            store.conn.batch(by_hand).map_err(at)?;
        }
        Ok(store)
    }

    /// Opens the studies on a server.
    #[cfg(feature = "postgres")]
    fn open_on(address: &Address, place: &Place, access: Access) -> Result<Store, StoreError> {
        let at = |kind: Kind| kind.at(&place.shown());
        let conn = Connection::Postgres(Box::new(Server::connect(address).map_err(at)?));
        let contents = finished(|| inspect(&conn)).map_err(at)?;
        let own_tables = match (contents, access) {
            (Contents::Empty, Access::Write | Access::Read) => return Err(at(Kind::NoStudies)),
            (Contents::Optuna { migrations }, Access::Read) => migrations > 0,
            (Contents::Empty | Contents::Optuna { .. }, Access::Make | Access::Write) => {
                check_triggers(&conn).map_err(at)?;
                let now = stamp(messages::clock::now());
                conn.at_length(|| finished(|| migrate(&conn, &now)))
                    .map_err(at)?;
                true
            }
        };
        Store::assemble(conn, place.clone(), own_tables).map_err(at)
    }

    fn assemble(conn: Connection, place: Place, own_tables: bool) -> Result<Store, Kind> {
        conn.set_lock_patience(LOCK_PATIENCE)?;
        Ok(Store {
            version: conn.version()?,
            conn,
            clock: Box::new(messages::clock::now),
            own_tables,
            file: FileId::of(place.file()).filter(|_| !place.is_shared()),
            watch: None,
            doubt: None,
            place,
        })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SQLite copies the log into the database when it is closed.
        let _ = self.log_must_be_intact();
    }
}

/// How a file is opened that may be written.
const READ_WRITE: OpenFlags =
    OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

fn open_file(path: impl AsRef<Path>, flags: OpenFlags) -> Result<Connection, Kind> {
    let conn = rusqlite::Connection::open_with_flags(path, flags)?;
    conn.set_prepared_statement_cache_capacity(128);
    Ok(Connection::Sqlite(conn))
}

/// Keeps a copy of a log of which SQLite will drop something.
fn keep_dropped(path: &Path, gap: log::Damage) {
    let to = beside(path, "-wal.dropped");
    let copied = std::fs::read(log_of(path)).and_then(|bytes| plain::write(&to, &bytes));
    let (path, to) = (path.display(), to.display());
    let kept = match copied {
        Ok(()) => format!("a copy of the log is in {to}"),
        Err(error) => format!("no copy of the log could be made ({to}: {error})"),
    };
    tracing::warn!(
        "{path}: a power failure has left a gap in its write-ahead log, at frame {}; {} \
         transactions behind it, which another program did not wait for, are dropped; {kept}",
        gap.frame,
        gap.commits
    );
}

/// Checks first, writes after.
fn prepare(conn: &Connection, create: bool, now: &str) -> Result<(), Kind> {
    let contents = inspect_patiently(conn)?;
    if !create {
        has_own_tables(contents)?;
    }
    check_triggers(conn)?;
    quick_check(conn)?;
    keep_log_on_close(conn, false)?;
    write_ahead(conn)?;
    conn.batch("PRAGMA synchronous = FULL; PRAGMA foreign_keys = TRUE")?;
    // Here it may be found half made again: it was empty a moment ago.
    finished(|| migrate(conn, now))
}

/// Whether our tables are there beside Optuna's, which must be.
fn has_own_tables(contents: Contents) -> Result<bool, Kind> {
    match contents {
        Contents::Empty => Err(Kind::NoStudies),
        Contents::Optuna { migrations } => Ok(migrations > 0),
    }
}

/// The first statement on a connection may find another program recovering the log, or making the tables, which Optuna
/// does one by one.
fn inspect_patiently(conn: &Connection) -> Result<Contents, Kind> {
    conn.set_lock_patience(LOCK_PATIENCE)?;
    finished(|| inspect(conn))
}

/// Tries again, for a while, as long as another program seems to be making the database.
fn finished<T>(mut attempt: impl FnMut() -> Result<T, Kind>) -> Result<T, Kind> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(Kind::Unfinished(_)) if start.elapsed() < MAKING => thread::sleep(MAKING / 100),
            result => return result,
        }
    }
}

pub(super) fn keep_log_on_close(conn: &Connection, keep: bool) -> Result<(), Kind> {
    if let Some(sqlite) = conn.sqlite() {
        sqlite.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep)?;
    }
    Ok(())
}

fn quick_check(conn: &Connection) -> Result<(), Kind> {
    let found: String = conn.value("PRAGMA quick_check(1)", &[])?;
    if found == "ok" {
        Ok(())
    } else {
        Err(Kind::Corrupt(found.lines().collect::<Vec<_>>().join(" ")))
    }
}

fn write_ahead(conn: &Connection) -> Result<(), Kind> {
    let mut tries = 0;
    loop {
        match conn.value::<String>("PRAGMA journal_mode = WAL", &[]) {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(()),
            Ok(mode) => return Err(Kind::NoLog(mode)),
            Err(Kind::Locked) if tries < WAL_TRIES => {
                tries += 1;
                thread::sleep(Duration::from_millis(25));
            }
            Err(kind) => return Err(kind),
        }
    }
}

/// How a database is opened for who only reads. SQLite makes the log and its index where they are
/// not there, with the rights of the database as they are now and, but for root, with the owner that
/// this process has. What another user has made, or what was made while the database could not be
/// written, would keep its owner from writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// What SQLite makes is as the owner would make it.
    AsOwner,
    /// There is a log: its index is not made, and read as it is.
    AtLog,
    /// There is no log, so that the file is complete: it is read without locks and without any
    /// other file. A run that begins meanwhile and copies its log into the file can spoil what is
    /// read, never what is stored.
    Alone,
}

impl Look {
    fn at(path: &Path) -> Look {
        let owners = std::fs::metadata(path).is_ok_and(|meta| {
            let me = geteuid();
            (me.is_root() || me.as_raw() == meta.uid()) && meta.mode() & 0o600 == 0o600
        });
        let all = AccessFlags::W_OK | AccessFlags::X_OK;
        match owners && access(directory(path), all).is_ok() {
            true => Look::AsOwner,
            false if has_log(path) => Look::AtLog,
            false => Look::Alone,
        }
    }

    fn open(self, path: &Path) -> Result<Connection, Kind> {
        let mut uri = String::from("file:");
        for &byte in path.as_os_str().as_bytes() {
            if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
                uri.push(byte as char);
            } else {
                uri.push_str(&format!("%{byte:02X}"));
            }
        }
        uri.push_str(match self {
            Look::AsOwner => "?mode=ro",
            Look::AtLog => "?mode=ro&readonly_shm=1",
            Look::Alone => "?mode=ro&immutable=1",
        });
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        open_file(uri, flags)
    }
}
