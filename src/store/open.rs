//! Opening: what is checked before anything is written, and how the connection is set up.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{AccessFlags, access};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::error::{Cause, Shown, StoreError};
use super::log;
use super::migrate::{Found, inspect, migrate};
use super::place::{FileId, directory, network_file_system};

/// How long a statement waits for another program's lock, unless it is told otherwise.
pub const LOCK_PATIENCE: Duration = Duration::from_millis(500);

/// How often the switch to the write-ahead log, for which SQLite does not wait, is tried.
const WAL_TRIES: u32 = 40;

/// An open database.
///
/// One connection; it may move between threads, and each thread that needs the database at the
/// same time opens its own.
pub struct Store {
    pub(super) conn: Connection,
    pub(super) path: PathBuf,
    pub(super) clock: Clock,
    /// Whether our own tables are there; a file that only Optuna has written, opened for reading,
    /// lacks them.
    pub(super) own_tables: bool,
    pub(super) file: Option<FileId>,
    data_version: i64,
}

/// Where the times of rows come from.
type Clock = Box<dyn Fn() -> jiff::Timestamp + Send>;

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.path)
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
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        if !path.exists() && !path.is_symlink() {
            std::fs::create_dir_all(directory(path)).map_err(|e| StoreError::Io {
                path: Shown(path.to_path_buf()),
                what: format!("cannot make its directory: {e}"),
            })?;
        }
        Store::open_writable(path, OpenFlags::SQLITE_OPEN_CREATE)
    }

    /// Whether there is a database that [`Store::open`] can open; `false` where it would make one.
    /// Nothing is written or made. The directory must be there.
    ///
    /// # Errors
    /// What [`Store::open`] would refuse, as far as that can be told without writing.
    pub fn can_open(path: &Path) -> Result<bool, StoreError> {
        if let Some(kind) = network_file_system(path) {
            let path = Shown(path.to_path_buf());
            return Err(StoreError::Network { path, kind });
        }
        looks_whole(path)?;
        let at = |cause: Cause| cause.at(path);
        let read_only = || StoreError::ReadOnly {
            path: Shown(path.to_path_buf()),
        };
        // The log and its index are made beside the file.
        let all = AccessFlags::W_OK | AccessFlags::X_OK;
        access(directory(path), all).map_err(|_| read_only())?;
        if !path.exists() {
            return Ok(false);
        }
        access(path, AccessFlags::R_OK | AccessFlags::W_OK).map_err(|_| read_only())?;
        log::check(&log_of(path)).map_err(at)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags).map_err(|e| at(Cause::from(e)))?;
        keep_log_on_close(&conn, has_log(path)).map_err(at)?;
        Ok(inspect_patiently(&conn).map_err(at)? != Found::Empty)
    }

    /// Opens the database for reading and writing; never makes one.
    ///
    /// # Errors
    /// See [`Store::open`]; also where there is none.
    pub fn open_existing(path: &Path) -> Result<Store, StoreError> {
        must_exist(path)?;
        Store::open_writable(path, OpenFlags::empty())
    }

    /// Opens the database for reading, also while a run writes to it, and in a directory that
    /// cannot be written.
    ///
    /// # Errors
    /// See [`Store::open_existing`].
    pub fn open_read_only(path: &Path) -> Result<Store, StoreError> {
        must_exist(path)?;
        looks_whole(path)?;
        let at = |cause: Cause| cause.at(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let first = Connection::open_with_flags(path, flags)
            .map_err(Cause::from)
            .and_then(|conn| Ok((inspect_patiently(&conn)?, conn)));
        let (found, conn) = match first {
            Ok(opened) => opened,
            // Without a log beside it the file is complete, and nobody can write here: it can be
            // read without locks.
            Err(cause) if cause.cannot_open() && !has_log(path) => {
                let conn = open_immutable(path).map_err(at)?;
                (inspect(&conn).map_err(at)?, conn)
            }
            Err(cause) => return Err(at(cause)),
        };
        let own_tables = match found {
            Found::Empty => return Err(at(Cause::Foreign("no tables".to_owned()))),
            Found::Optuna { migrations } => migrations > 0,
        };
        Store::assemble(conn, path, own_tables).map_err(at)
    }

    /// Opens a private copy of somebody else's database, made together with the log or journal that
    /// lay beside it: what these hold is recovered into the copy, and nothing is migrated.
    ///
    /// # Errors
    /// See [`Store::open_existing`]; the messages name the copy.
    pub fn open_copy(path: &Path) -> Result<Store, StoreError> {
        must_exist(path)?;
        looks_whole(path)?;
        let at = |cause: Cause| cause.at(path);
        log::check(&log_of(path)).map_err(at)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags).map_err(|e| at(Cause::from(e)))?;
        let own_tables = match inspect_patiently(&conn).map_err(at)? {
            Found::Empty => return Err(at(Cause::Foreign("no tables".to_owned()))),
            Found::Optuna { migrations } => migrations > 0,
        };
        quick_check(&conn).map_err(at)?;
        super::foreign::make_readable(&conn).map_err(at)?;
        Store::assemble(conn, path, own_tables).map_err(at)
    }

    /// Sets how long a statement waits for another program's lock.
    pub fn set_lock_patience(&self, patience: Duration) {
        // Fails for no value of it.
        let _ = self.conn.busy_timeout(patience);
    }

    /// Whether the database can be written now: takes its write lock and gives it back.
    ///
    /// # Errors
    /// Another program holds the lock, or the database cannot be written at all.
    pub fn probe_lock(&self) -> Result<(), StoreError> {
        self.conn
            .execute_batch("BEGIN IMMEDIATE; ROLLBACK")
            .map_err(|e| self.at(Cause::from(e)))
    }

    /// Takes the time of everything written from `clock`, for tests and replays.
    pub fn with_clock(mut self, clock: impl Fn() -> jiff::Timestamp + Send + 'static) -> Store {
        self.clock = Box::new(clock);
        self
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether another connection has committed since the last call (or since opening). Where that
    /// cannot be found out it says yes: reading then shows the error.
    pub fn foreign_change(&mut self) -> bool {
        match data_version(&self.conn) {
            Ok(version) if version == self.data_version => false,
            Ok(version) => {
                self.data_version = version;
                true
            }
            Err(_) => true,
        }
    }

    /// Now, by the store's clock.
    pub fn time(&self) -> jiff::Timestamp {
        (self.clock)()
    }

    /// Now, as Optuna stores it.
    pub(super) fn now(&self) -> String {
        stamp(self.time())
    }

    pub(super) fn at(&self, cause: Cause) -> StoreError {
        cause.at(&self.path)
    }

    fn open_writable(path: &Path, create: OpenFlags) -> Result<Store, StoreError> {
        if let Some(kind) = network_file_system(path) {
            let path = Shown(path.to_path_buf());
            return Err(StoreError::Network { path, kind });
        }
        looks_whole(path)?;
        let at = |cause: Cause| cause.at(path);
        log::check(&log_of(path)).map_err(at)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create;
        let mut conn = Connection::open_with_flags(path, flags).map_err(|e| at(Cause::from(e)))?;
        let now = stamp(jiff::Timestamp::now());
        // A connection that is closed copies what a crash left in the log into the file: not into
        // one that is refused.
        keep_log_on_close(&conn, has_log(path)).map_err(at)?;
        prepare(&mut conn, !create.is_empty(), &now).map_err(at)?;
        Store::assemble(conn, path, true).map_err(at)
    }

    fn assemble(conn: Connection, path: &Path, own_tables: bool) -> Result<Store, Cause> {
        conn.busy_timeout(LOCK_PATIENCE)?;
        conn.set_prepared_statement_cache_capacity(64);
        Ok(Store {
            data_version: data_version(&conn)?,
            conn,
            path: path.to_path_buf(),
            clock: Box::new(jiff::Timestamp::now),
            own_tables,
            file: FileId::of(path),
        })
    }
}

/// A time as Optuna 5 stores it: naive UTC with microseconds.
pub(super) fn stamp(time: jiff::Timestamp) -> String {
    time.to_zoned(jiff::tz::TimeZone::UTC)
        .strftime("%Y-%m-%d %H:%M:%S%.6f")
        .to_string()
}

/// Checks first, writes after.
fn prepare(conn: &mut Connection, create: bool, now: &str) -> Result<(), Cause> {
    let found = inspect_patiently(conn)?;
    if found == Found::Empty && !create {
        return Err(Cause::Foreign("no tables".to_owned()));
    }
    quick_check(conn)?;
    keep_log_on_close(conn, false)?;
    write_ahead(conn)?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    migrate(conn, now)
}

/// The first statement on a connection may find another program recovering the log.
fn inspect_patiently(conn: &Connection) -> Result<Found, Cause> {
    conn.busy_timeout(LOCK_PATIENCE)?;
    inspect(conn)
}

fn keep_log_on_close(conn: &Connection, keep: bool) -> Result<(), Cause> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep)?;
    Ok(())
}

fn quick_check(conn: &Connection) -> Result<(), Cause> {
    let found: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        Ok(())
    } else {
        Err(Cause::Corrupt(found.lines().collect::<Vec<_>>().join(" ")))
    }
}

fn write_ahead(conn: &Connection) -> Result<(), Cause> {
    let mut tries = 0;
    loop {
        let mode = conn
            .query_row("PRAGMA journal_mode = WAL", [], |row| {
                row.get::<_, String>(0)
            })
            .map_err(Cause::from);
        match mode {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(()),
            Ok(mode) => return Err(Cause::NoLog(mode)),
            Err(cause) if cause.busy() && tries < WAL_TRIES => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(25));
            }
            Err(cause) => return Err(cause),
        }
    }
}

fn data_version(conn: &Connection) -> Result<i64, Cause> {
    let mut statement = conn.prepare_cached("PRAGMA data_version")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

fn must_exist(path: &Path) -> Result<(), StoreError> {
    if path.exists() {
        Ok(())
    } else {
        Err(StoreError::NotFound {
            path: Shown(path.to_path_buf()),
        })
    }
}

/// What a look from outside tells, before SQLite touches anything.
fn looks_whole(path: &Path) -> Result<(), StoreError> {
    let shown = || Shown(path.to_path_buf());
    let not_a_file = |found: String| {
        Err(StoreError::NotAFile {
            path: shown(),
            found,
        })
    };
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        // SQLite would make the file that the link names, on whatever lies under a mount point.
        Err(_) if path.is_symlink() => {
            let target = std::fs::read_link(path).unwrap_or_default();
            return not_a_file(format!(
                "a link to {}, which is not there",
                target.display()
            ));
        }
        Err(_) => return Ok(()),
    };
    if meta.is_dir() {
        return not_a_file("a directory".to_owned());
    }
    if !meta.is_file() {
        return not_a_file("a device, pipe or socket".to_owned());
    }
    match meta.len() {
        // SQLite throws the log of an empty file away.
        0 if has_log(path) => Err(StoreError::Corrupt {
            path: shown(),
            what: "the file is empty, but its write-ahead log is not".to_owned(),
        }),
        // SQLite takes a file of a single byte for an empty one and would overwrite it; no
        // database is smaller than its smallest page.
        1..512 => Err(StoreError::NotADatabase { path: shown() }),
        _ => Ok(()),
    }
}

/// The write-ahead log of a database.
fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}

/// Whether a write-ahead log with content lies beside the database.
fn has_log(path: &Path) -> bool {
    std::fs::metadata(log_of(path)).is_ok_and(|m| m.len() > 0)
}

fn open_immutable(path: &Path) -> Result<Connection, Cause> {
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
            uri.push(byte as char);
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri.push_str("?mode=ro&immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    Ok(Connection::open_with_flags(uri, flags)?)
}
