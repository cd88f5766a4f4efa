//! A copy of a database that may be in use, taken without touching it: no lock that its program
//! could trip over, no file left beside it, not a byte changed.
//!
//! SQLite itself cannot do that: it makes `-shm` and `-wal` files beside a database in WAL mode, and
//! plays back a hot journal into it. So the files are copied and SQLite opens the copy, where it may
//! recover what it likes. A copy is good when it is the files as they were at one instant, which is
//! what a crash would have left there, and SQLite recovers from that:
//!
//! * Read twice with the same result, everything was as it was read between the two readings.
//! * In WAL mode, programs add to the log, which needs no second reading: database first, log
//!   after it, and the log's header the same before and after both. Whatever a checkpoint had
//!   brought into the database meanwhile stands in that log as well, and what was cut off at its
//!   end is no committed transaction.
//! * A database that is written all the time is read under SQLite's shared lock, as by any reader:
//!   its program waits for the few milliseconds that the copy takes.
//!
//! The last resort, where a writer never rests, is SQLite as one more reader: its program is there and
//! so are the files that it would make.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::fcntl::{FcntlArg, fcntl};

use rusqlite::{Connection, OpenFlags};

use files::{beside, bounded};
use serde_json::Map;

use super::foreign::{self, Foreign, Origin, WantedValue};
use messages::exit::Failure;
use store::{NewStudy, Store, StoreError, StoreErrorKind};

/// How often a copy is tried before it is given up.
const TRIES: u32 = 200;

/// From this try on, the shared lock is taken.
const PATIENT_TRIES: u32 = 20;

/// Larger databases are copied without the lock: it would be held for too long.
const MOST_LOCKED: u64 = 512 << 20;

/// What may lie beside a database, in the order in which it is copied.
const PARTS: [&str; 3] = ["", "-wal", "-journal"];

/// SQLite's first byte for locks, and where and how long the range of shared locks is.
const PENDING: i64 = 0x4000_0000;
const SHARED: (i64, i64) = (PENDING + 2, 510);

/// SignsOfUse that a program is still at work on a database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SignsOfUse {
    /// Processes of this machine that have it open: id and name.
    pub open_in: Vec<(u32, String)>,
    /// Time since it was last written.
    pub written: Option<Duration>,
}

/// A copy, which lives as long as this value.
#[derive(Debug)]
pub struct DatabaseCopy {
    /// The copy, opened.
    pub store: Store,
    /// The original: absolute, links resolved.
    pub path: PathBuf,
    /// What was seen of its program.
    pub signs: SignsOfUse,
    /// Where it comes from.
    pub origin: Origin,
    _dir: tempfile::TempDir,
}

impl DatabaseCopy {
    /// An error of reading the copy, as one of the original.
    pub fn failure(&self, error: StoreError) -> Failure {
        failure(&self.path, self.store.path(), error)
    }
}

/// Copies and opens a database; `own` is that of the project. Of what is no database of Optuna's, the copy is one that holds
/// its trials, with the number for their value that is `wanted`.
///
/// # Errors
/// Bad input (2): nothing there, no database of Optuna 3.2 or newer, damaged, or `own`; a directory or table without the
/// value. No copy could be made (7).
pub fn copy(
    file: &Path,
    own: &Path,
    wanted: Option<&WantedValue>,
) -> Result<DatabaseCopy, Failure> {
    let shown = file.display();
    let path = std::fs::canonicalize(file).map_err(|e| {
        Failure::input(if e.kind() == io::ErrorKind::NotFound {
            format!("{shown}: there is no such file")
        } else {
            format!("{shown}: {e}")
        })
    })?;
    let origin = Origin::of(&path);
    let dir = tempfile::tempdir()
        .map_err(|e| Failure::storage(format!("no temporary directory for a copy: {e}")))?;
    let target = dir.path().join("copy.db");
    if let Some(reader) = origin.reader() {
        let study = foreign::read(origin, reader, &path, file, wanted)?;
        return Ok(DatabaseCopy {
            store: as_database(&study, &target)?,
            path,
            signs: SignsOfUse::default(),
            origin,
            _dir: dir,
        });
    }
    is_candidate(file, &path, own)?;
    if !snapshot(&path, &target)
        .map_err(|e| Failure::storage(format!("{shown}: cannot be copied ({e})")))?
    {
        return Err(Failure::storage(format!(
            "{shown}: it is being written so often that no copy of one instant could be made; try \
             again, or stop the program that writes it"
        )));
    }
    let signs = SignsOfUse {
        open_in: open_in(&path),
        written: written(&path),
    };
    let store = Store::open_copy(&target).map_err(|e| failure(&path, &target, e))?;
    Ok(DatabaseCopy {
        store,
        path,
        signs,
        origin,
        _dir: dir,
    })
}

/// A database with a study that another program has kept in another way.
fn as_database(study: &Foreign, target: &Path) -> Result<Store, Failure> {
    let mut store = Store::open(target)?;
    let new = NewStudy {
        name: &study.name,
        directions: &[study.direction],
        user_attrs: &Map::new(),
        identity: &Map::new(),
    };
    store.create_study(&new, &study.trials)?;
    Ok(store)
}

/// What a look at the file tells, before it is copied.
fn is_candidate(file: &Path, path: &Path, own: &Path) -> Result<(), Failure> {
    let shown = file.display();
    let refuse = |what: &str| Err(Failure::input(format!("{shown}: {what}")));
    let unreadable = |e: io::Error| Failure::input(format!("{shown}: cannot be read ({e})"));
    let meta = std::fs::metadata(path).map_err(unreadable)?;
    if !meta.is_file() {
        return refuse("this is no file; expected Optuna's SQLite database");
    }
    let same = std::fs::metadata(own).is_ok_and(|o| (o.dev(), o.ino()) == (meta.dev(), meta.ino()));
    if same {
        return refuse(
            "this is the project's own database; its studies are there already (tune list), and \
             tune TASK --study NAME continues one of them",
        );
    }
    let mut start = Vec::new();
    let file = bounded::open(path).map_err(unreadable)?;
    file.take(16).read_to_end(&mut start).map_err(unreadable)?;
    if start.starts_with(b"{\"op_code\"") {
        return refuse(
            "this is a journal of Optuna's JournalStorage, not an SQLite database; copy the study \
             once with optuna.copy_study(..., to_storage=\"sqlite:///study.db\")",
        );
    }
    if start != b"SQLite format 3\0" {
        return refuse("this is no SQLite database; expected one that Optuna has written");
    }
    Ok(())
}

/// Copies a database with its log and journal as they are at one instant. False where that was not
/// possible because they kept changing.
fn snapshot(source: &Path, target: &Path) -> io::Result<bool> {
    for attempt in 0..TRIES {
        let lock = if attempt < PATIENT_TRIES || !lockable(source)? {
            None
        } else {
            SharedLock::take(source)?
        };
        let log = log_header(source)?;
        let enough = if log.is_some() {
            PATIENT_TRIES
        } else {
            TRIES / 2
        };
        if attempt >= enough && through_sqlite(source, target).is_ok() {
            return Ok(true);
        }
        for part in PARTS {
            copy_part(&beside(source, part), &beside(target, part))?;
        }
        let whole = if lock.is_some() {
            true
        } else if log.is_some() {
            log_header(target)? == log && log_header(source)? == log
        } else {
            same_parts(source, target)?
        };
        if whole {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(u64::from(attempt).min(50)));
    }
    Ok(false)
}

/// A copy by SQLite itself, which reads as any other reader does, beside a writer that never rests.
fn through_sqlite(source: &Path, target: &Path) -> rusqlite::Result<()> {
    for part in PARTS {
        // What is not there need not go.
        let _ = std::fs::remove_file(beside(target, part));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(source, flags)?;
    conn.busy_timeout(Duration::from_secs(5))?;
    conn.execute("VACUUM INTO ?1", [target.to_string_lossy()])?;
    Ok(())
}

/// Opens a file that need not be there.
fn open(path: &Path) -> io::Result<Option<File>> {
    match bounded::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn copy_part(from: &Path, to: &Path) -> io::Result<()> {
    match open(from)? {
        Some(mut from) => io::copy(&mut from, &mut File::create(to)?).map(|_| ()),
        None => match std::fs::remove_file(to) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            Ok(()) | Err(_) => Ok(()),
        },
    }
}

/// The header of the write-ahead log: another one whenever the log starts over. `None` without a
/// log that holds anything.
fn log_header(database: &Path) -> io::Result<Option<[u8; 32]>> {
    let Some(mut file) = open(&beside(database, "-wal"))? else {
        return Ok(None);
    };
    let mut header = [0; 32];
    match file.read_exact(&mut header) {
        Ok(()) => Ok(Some(header)),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(e) => Err(e),
    }
}

fn same_parts(a: &Path, b: &Path) -> io::Result<bool> {
    for part in PARTS {
        let (a, b) = (open(&beside(a, part))?, open(&beside(b, part))?);
        let same = match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => same_content(a, b)?,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_content(mut a: File, mut b: File) -> io::Result<bool> {
    const CHUNK: u64 = 1 << 20;
    let (mut x, mut y) = (Vec::new(), Vec::new());
    loop {
        x.clear();
        y.clear();
        (&mut a).take(CHUNK).read_to_end(&mut x)?;
        (&mut b).take(CHUNK).read_to_end(&mut y)?;
        if x != y {
            return Ok(false);
        }
        if x.is_empty() {
            return Ok(true);
        }
    }
}

/// Whether the shared lock keeps writers away from this database: not in WAL mode (the header's
/// byte 18 says it), and not for long.
fn lockable(path: &Path) -> io::Result<bool> {
    let mut header = [0; 19];
    let mut file = bounded::open(path)?;
    let small = file.metadata()?.len() <= MOST_LOCKED;
    Ok(small && file.read_exact(&mut header).is_ok() && header[18] == 1)
}

/// SQLite's shared lock, held through an open file description of its own: no other lock of this
/// process touches it, and it ends when the file is closed.
struct SharedLock(#[expect(dead_code, reason = "held, not read")] File);

impl SharedLock {
    /// Takes the lock; `None` while a writer has or wants the database, or where the file system
    /// knows no such locks.
    fn take(path: &Path) -> io::Result<Option<SharedLock>> {
        let file = bounded::open(path)?;
        // A writer that waits for readers to leave holds this byte, so that no new ones come.
        let taken = set_lock(&file, libc::F_RDLCK, (PENDING, 1))
            && set_lock(&file, libc::F_RDLCK, SHARED)
            && set_lock(&file, libc::F_UNLCK, (PENDING, 1));
        Ok(taken.then_some(SharedLock(file)))
    }
}

fn set_lock(file: &File, kind: i32, (start, len): (i64, i64)) -> bool {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock)).is_ok()
}

/// Time since the database or its log was written.
fn written(path: &Path) -> Option<Duration> {
    let modified = |part| {
        let meta = std::fs::metadata(beside(path, part)).ok()?;
        meta.modified().ok()
    };
    let last = PARTS.into_iter().filter_map(modified).max()?;
    // A clock that was put back makes it now.
    Some(
        SystemTime::now()
            .duration_since(last)
            .unwrap_or(Duration::ZERO),
    )
}

/// Other processes that have the file open, as far as this user may see.
fn open_in(path: &Path) -> Vec<(u32, String)> {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pid = |name: std::ffi::OsString| name.to_str()?.parse::<u32>().ok();
    let mut found: Vec<(u32, String)> = processes
        .flatten()
        .filter_map(|entry| {
            let pid = pid(entry.file_name()).filter(|p| *p != std::process::id())?;
            let files = std::fs::read_dir(entry.path().join("fd")).ok()?;
            let has = files
                .flatten()
                .any(|f| std::fs::read_link(f.path()).is_ok_and(|target| target == path));
            let name = || std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            has.then(|| (pid, name().trim().to_owned()))
        })
        .collect();
    found.sort_unstable();
    found
}

/// An error of the copy as one of the original: whatever is wrong with it is bad input.
fn failure(path: &Path, copy: &Path, error: StoreError) -> Failure {
    let shown = path.display();
    use StoreErrorKind::{
        CannotOpen, Content, Corrupt, Foreign, Full, Io, Newer, NotADatabase, Older, ReadOnly,
    };
    let said = error.to_string();
    if matches!(error.kind, Full | Io(_) | CannotOpen(_) | ReadOnly) {
        let said = named(&said, copy, path);
        return Failure::storage(format!("{shown}: its copy cannot be read: {said}"));
    }
    let text = if let Older(what) = error.kind {
        format!(
            "the tables are those of an Optuna before 3.2 ({what}); make a copy, and on the copy run \
             optuna storage upgrade --storage sqlite:///COPY once"
        )
    } else if let Newer(what) = error.kind {
        format!("it was written by a newer version ({what}); update tune")
    } else if let Foreign(found) = error.kind {
        format!("this SQLite database is none of Optuna's ({found})")
    } else if let Corrupt(what) = error.kind {
        format!(
            "the database is damaged ({what}); save what can be read of a copy with sqlite3 COPY \
             .recover"
        )
    } else if let NotADatabase = error.kind {
        "this is no SQLite database, or a damaged one".to_owned()
    } else if let Content(what) = error.kind {
        format!(
            "{what}; the row was changed by hand, and Optuna cannot read it either: correct a copy"
        )
    } else {
        said
    };
    Failure::input(format!("{shown}: {}", named(&text, copy, path)))
}

/// A text that speaks of the copy, speaking of the original.
fn named(text: &str, copy: &Path, path: &Path) -> String {
    let copy = copy.display().to_string();
    text.replace(&copy, &path.display().to_string())
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
