//! Copies of databases in every condition, and beside writers.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::*;
use messages::exit::Exit;

const EXAMPLE: &str = include_str!("../../tests/data/optuna-example.sql");

fn database(dir: &Path, mode: &str) -> (PathBuf, Connection) {
    let path = dir.join("optuna.db");
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(EXAMPLE).unwrap();
    conn.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(()))
        .unwrap();
    (path, conn)
}

/// Every file of a directory with its content.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .map(|p| (p.clone(), std::fs::read(&p).unwrap()))
        .collect()
}

fn copied(path: &Path) -> DatabaseCopy {
    copy(path, Path::new("/nowhere/tune.db"), None).unwrap()
}

fn trials(copied: &DatabaseCopy) -> u64 {
    let study = copied.store.find_study("s1").unwrap().unwrap();
    study.counts.total()
}

const ADD: &str = "INSERT INTO trials (number, study_id, state, datetime_start)
    SELECT MAX(number) + 1, 1, 'RUNNING', '2026-01-01 00:00:00.000000' FROM trials WHERE study_id = 1";

#[test]
fn trials_that_stand_only_in_the_log_are_seen_and_the_log_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (path, conn) = database(dir.path(), "WAL");
    conn.execute_batch("PRAGMA wal_autocheckpoint = 0").unwrap();
    conn.execute(ADD, []).unwrap();
    // As a killed program leaves it: nobody has the log open.
    let dead = tempfile::tempdir().unwrap();
    for part in ["", "-wal"] {
        let name = format!("optuna.db{part}");
        std::fs::copy(dir.path().join(&name), dead.path().join(&name)).unwrap();
    }
    drop(conn);
    let before = contents(dead.path());
    assert_eq!(before.len(), 2);
    assert_eq!(trials(&copied(&dead.path().join("optuna.db"))), 13);
    assert_eq!(contents(dead.path()), before);
    assert_eq!(trials(&copied(&path)), 13);
}

#[test]
fn a_hot_journal_is_played_back_into_the_copy_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (path, conn) = database(dir.path(), "DELETE");
    // A small cache spills pages of the unfinished transaction into the file.
    conn.execute_batch("PRAGMA cache_size = 2; BEGIN IMMEDIATE; UPDATE studies SET study_name = 'gone' WHERE study_id = 1; UPDATE trials SET state = 'FAIL'")
        .unwrap();
    conn.execute_batch("UPDATE trial_params SET param_value = 7; UPDATE trial_system_attributes SET value_json = '1'; UPDATE trial_user_attributes SET value_json = '1'")
        .unwrap();
    let dead = tempfile::tempdir().unwrap();
    for part in ["", "-journal"] {
        let name = format!("optuna.db{part}");
        std::fs::copy(dir.path().join(&name), dead.path().join(&name)).unwrap();
    }
    let torn = std::fs::read(dead.path().join("optuna.db")).unwrap();
    conn.execute_batch("ROLLBACK").unwrap();
    assert_ne!(torn, std::fs::read(&path).unwrap(), "nothing was spilled");
    let before = contents(dead.path());
    let copied = copied(&dead.path().join("optuna.db"));
    let study = copied.store.find_study("s1").unwrap().unwrap();
    assert_eq!(study.counts.complete, 6);
    assert_eq!(contents(dead.path()), before);
}

/// A program that adds a trial with 40 attributes in each transaction, as fast as it can, and waits
/// for a lock no longer than Python does by default. A process of its own: within one process, closing
/// a file drops SQLite's locks on it.
const WRITER: &str = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=5, isolation_level=None)
db.execute("PRAGMA synchronous = OFF")
db.execute("PRAGMA wal_autocheckpoint = 50")
while True:
    db.execute("BEGIN")
    trial = db.execute(
        "INSERT INTO trials (number, study_id, state, datetime_start) SELECT MAX(number) + 1, 1,"
        " 'RUNNING', '2026-01-01 00:00:00.000000' FROM trials WHERE study_id = 1"
    ).lastrowid
    db.executemany(
        "INSERT INTO trial_user_attributes (trial_id, key, value_json) VALUES (?, ?, '0')",
        [(trial, "k%d" % key) for key in range(40)],
    )
    db.execute("COMMIT")
"#;

/// Killed with the test.
struct Writer(std::process::Child);

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_copy_beside_a_busy_writer_is_of_one_instant_and_the_writer_goes_on() {
    for mode in ["DELETE", "TRUNCATE", "WAL"] {
        let dir = tempfile::tempdir().unwrap();
        let (path, conn) = database(dir.path(), mode);
        drop(conn);
        let child = std::process::Command::new("python3")
            .args(["-c", WRITER])
            .arg(&path)
            .spawn()
            .unwrap();
        let mut writer = Writer(child);
        let (mut last, mut grown) = (12, 0);
        while grown < 6 {
            let copied = copied(&path);
            let trials = copied.store.trials(1).unwrap();
            let added = trials.iter().filter(|t| t.number >= 12);
            assert!(added.clone().all(|t| t.user_attrs.len() == 40), "{mode}");
            assert!(trials.len() >= last, "{mode}");
            grown += usize::from(trials.len() > last);
            last = trials.len();
            assert_eq!(writer.0.try_wait().unwrap(), None, "{mode}");
        }
    }
}

#[test]
fn the_lock_of_a_reader_keeps_writers_away_while_it_is_held_and_no_longer() {
    let dir = tempfile::tempdir().unwrap();
    let (path, conn) = database(dir.path(), "DELETE");
    conn.busy_timeout(Duration::ZERO).unwrap();
    assert!(lockable(&path).unwrap());
    let lock = SharedLock::take(&path).unwrap().unwrap();
    let refused = conn.execute(ADD, []).unwrap_err();
    assert_eq!(
        refused.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseBusy)
    );
    drop(lock);
    conn.execute(ADD, []).unwrap();
    conn.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert!(SharedLock::take(&path).unwrap().is_none());
    conn.execute_batch("COMMIT").unwrap();
    conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
        .unwrap();
    assert!(!lockable(&path).unwrap());
}

#[test]
fn a_directory_that_cannot_be_written_is_no_trouble() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let (path, conn) = database(dir.path(), "WAL");
    drop(conn);
    let mode = |mode| std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode));
    mode(0o555).unwrap();
    let copied = copied(&path);
    mode(0o755).unwrap();
    assert_eq!(trials(&copied), 12);
    assert_eq!(contents(dir.path()).len(), 1);
}

#[test]
fn what_is_no_database_of_optuna_is_refused_with_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let (path, conn) = database(dir.path(), "DELETE");
    let whole = std::fs::read(&path).unwrap();
    let refused = |name: &str, content: &[u8]| {
        let file = dir.path().join(name);
        std::fs::write(&file, content).unwrap();
        let failure = copy(&file, &path, None).unwrap_err();
        assert_eq!(failure.exit, Exit::BadInput, "{name}");
        let real = std::fs::canonicalize(dir.path()).unwrap();
        let place = [dir.path().join(name), real.join(name)].map(|p| p.display().to_string());
        let message = failure.message;
        assert!(place.iter().any(|p| message.starts_with(p)), "{message}");
        assert!(!message.contains("copy.db"), "{message}");
        assert!(!message.contains('\n'), "{message}");
        message
    };
    assert!(refused("text", b"lr,value\n0.1,0.9\n").contains("no SQLite database"));
    assert!(refused("empty", b"").contains("no SQLite database"));
    assert!(refused("journal", br#"{"op_code": 0, "worker_id": "x"}"#).contains("copy_study"));
    let mut torn = whole.clone();
    torn.truncate(whole.len() / 2);
    assert!(refused("torn", &torn).contains("damaged"));
    let mut flipped = whole.clone();
    for page in 2..flipped.len() / 4096 {
        flipped[page * 4096..page * 4096 + 64].fill(0xff);
    }
    assert!(refused("flipped", &flipped).contains("damaged"));

    let changed = |name: &str, sql: &str| {
        let file = dir.path().join("change.db");
        std::fs::write(&file, &whole).unwrap();
        let conn = Connection::open(&file).unwrap();
        conn.execute_batch(sql).unwrap();
        drop(conn);
        refused(name, &std::fs::read(&file).unwrap())
    };
    let old = "UPDATE alembic_version SET version_num = 'v3.0.0.d'";
    assert!(changed("old", old).contains("before 3.2 (revision v3.0.0.d"));
    let new = "UPDATE version_info SET schema_version = 13";
    assert!(changed("new", new).contains("newer version"));
    let other = "DROP TABLE version_info";
    assert!(changed("other", other).contains("none of Optuna's"));
    drop(conn);

    let own = copy(&path, &path, None).unwrap_err();
    assert!(own.message.contains("the project's own"), "{}", own.message);
    let gone = copy(&dir.path().join("gone"), &path, None).unwrap_err();
    assert!(gone.message.ends_with("there is no such file"));
    let folder = copy(dir.path(), &path, None).unwrap_err();
    assert!(folder.message.contains("has a params.json"));
}

#[test]
fn a_program_that_has_the_database_open_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let (path, conn) = database(dir.path(), "DELETE");
    drop(conn);
    assert_eq!(copied(&path).signs.open_in, []);
    let file = File::open(&path).unwrap();
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .stdin(file)
        .spawn()
        .unwrap();
    let signs = copied(&path).signs;
    child.kill().unwrap();
    child.wait().unwrap();
    let pids: Vec<u32> = signs.open_in.iter().map(|p| p.0).collect();
    assert_eq!(pids, [child.id()]);
    assert!(signs.written.is_some());
}
