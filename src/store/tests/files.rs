//! Which files are opened, and which are left as they are.

use std::path::Path;

use super::*;
use crate::{StoreError, StoreErrorKind as Kind};
use messages::exit::{Exit, Failure};

/// The schema of a file, as the text of its statements by name.
fn schema(path: &Path) -> Vec<(String, String)> {
    let conn = rusqlite::Connection::open(path).unwrap();
    let mut statement = conn
        .prepare(
            "SELECT name, sql FROM sqlite_master
             WHERE sql IS NOT NULL AND name NOT LIKE 'tune_%' AND name NOT LIKE 'sqlite_%'
             ORDER BY name",
        )
        .unwrap();
    let rows = statement
        .query_map([], |r| Ok((r.get(0)?, r.get(1)?)))
        .unwrap();
    rows.map(Result::unwrap).collect()
}

fn optuna_file(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("optuna.db");
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch(include_str!("../../../tests/data/optuna-example.sql"))
        .unwrap();
    path
}

fn change(path: &Path, sql: &str) {
    rusqlite::Connection::open(path)
        .unwrap()
        .execute_batch(sql)
        .unwrap();
}

/// Whether the file is refused by every way to open it, with its bytes unchanged.
fn refused(path: &Path) -> StoreError {
    let before = std::fs::read(path).unwrap();
    let error = Store::open(path).unwrap_err();
    assert!(Store::open_existing(path).is_err());
    assert!(Store::open_read_only(path).is_err());
    assert!(
        std::fs::read(path).unwrap() == before,
        "the file was changed"
    );
    assert!(
        error.to_string().contains(&path.display().to_string()),
        "{error}"
    );
    assert!(!error.transient());
    error
}

#[test]
fn a_new_file_has_the_very_tables_of_optuna() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er/tune.db");
    let store = Store::open(&path).unwrap();
    let mode: String = store.conn.value("PRAGMA journal_mode", &[]).unwrap();
    let synchronous: i64 = store.conn.value("PRAGMA synchronous", &[]).unwrap();
    let keys: bool = store.conn.value("PRAGMA foreign_keys", &[]).unwrap();
    assert_eq!((mode.as_str(), synchronous, keys), ("wal", 2, true));
    drop(store);
    assert_eq!(schema(&path), schema(&optuna_file(&dir)));
    Store::open(&path).unwrap();
    Store::open_existing(&path).unwrap();
}

#[test]
fn a_file_of_optuna_only_gets_tables_added() {
    let dir = tempfile::tempdir().unwrap();
    let path = optuna_file(&dir);
    let before = schema(&path);
    let reader = Store::open_read_only(&path).unwrap();
    assert_eq!(reader.studies().unwrap().len(), 2);
    assert!(reader.attempts(1, 0).unwrap().is_empty());
    assert!(reader.runs(1).unwrap().is_empty());
    drop(reader);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.studies().unwrap().len(), 2);
    drop(store);
    assert_eq!(schema(&path), before);
}

#[test]
fn what_does_not_exist_is_not_made_by_a_query() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tune.db");
    for error in [
        Store::open_existing(&path).unwrap_err(),
        Store::open_read_only(&path).unwrap_err(),
    ] {
        assert!(matches!(error.kind, Kind::NotFound), "{error}");
    }
    assert!(!path.exists());
}

#[test]
fn an_empty_file_is_a_database_that_a_killed_start_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tune.db");
    std::fs::write(&path, "").unwrap();
    assert!(Store::open_existing(&path).is_err());
    Store::open(&path).unwrap();
    let path = dir.path().join("wal.db");
    change(&path, "PRAGMA journal_mode = WAL");
    Store::open(&path).unwrap();
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tune.db");
    for content in [
        b"text,label\na,1\n".to_vec(),
        vec![0u8; 4096],
        vec![7u8; 40],
        b"x".to_vec(),
    ] {
        std::fs::write(&path, content).unwrap();
        let error = refused(&path);
        assert!(matches!(error.kind, Kind::NotADatabase), "{error}");
    }
    let failure = Failure::from(refused(&path));
    assert_eq!(failure.exit, Exit::Storage);
}

#[test]
fn a_truncated_or_damaged_database_is_refused_and_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tune.db");
    let whole = std::fs::read(optuna_file(&dir)).unwrap();
    for length in [200, 1000, 4096, 5000, whole.len() / 2, whole.len() - 4096] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let error = refused(&path);
        assert!(
            matches!(error.kind, Kind::Corrupt(_) | Kind::NotADatabase),
            "{length}: {error}"
        );
    }
    let mut damaged = whole.clone();
    for byte in &mut damaged[8192..8192 + 4096] {
        *byte ^= 0x5a;
    }
    std::fs::write(&path, &damaged).unwrap();
    assert!(matches!(
        Store::open(&path),
        Err(StoreError {
            kind: Kind::Corrupt(_),
            ..
        })
    ));
    assert!(std::fs::read(&path).unwrap() == damaged);
}

#[test]
fn a_database_of_another_program_is_refused_and_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tune.db");
    change(
        &path,
        "CREATE TABLE bookmarks (url TEXT); CREATE TABLE studies (id)",
    );
    let error = refused(&path);
    assert!(error.to_string().contains("bookmarks"), "{error}");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(Store::open(&path).is_err());
}

#[test]
fn newer_and_older_schemas_are_refused_and_left() {
    let dir = tempfile::tempdir().unwrap();
    for (sql, word) in [
        (
            "UPDATE version_info SET schema_version = 13",
            "update `tune`",
        ),
        (
            "UPDATE alembic_version SET version_num = 'v6.0.0.a'",
            "update `tune`",
        ),
        (
            "UPDATE alembic_version SET version_num = 'v3.0.0.d'",
            "optuna storage upgrade",
        ),
        (
            "UPDATE version_info SET schema_version = 11",
            "optuna storage upgrade",
        ),
        ("DELETE FROM alembic_version", "optuna storage upgrade"),
        (
            "CREATE TABLE tune_migrations (version INTEGER); INSERT INTO tune_migrations VALUES (99)",
            "update `tune`",
        ),
    ] {
        let path = optuna_file(&dir);
        change(&path, sql);
        let error = refused(&path);
        assert!(error.to_string().contains(word), "{sql}: {error}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn rows_that_make_no_sense_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for (sql, word) in [
        (
            "UPDATE trials SET state = 'OOM' WHERE number = 5",
            "\"OOM\"",
        ),
        (
            "UPDATE trial_values SET value = NULL WHERE trial_value_id = 1",
            "trial 0 is of type FINITE",
        ),
        (
            "UPDATE trial_values SET value_type = 'X' WHERE trial_value_id = 1",
            "\"X\"",
        ),
        (
            "UPDATE trial_user_attributes SET value_json = '{' WHERE trial_id = 1",
            "\"pid\" of trial 0",
        ),
        (
            "UPDATE trial_params SET distribution_json = '{}' WHERE param_id = 1",
            "\"lr\" of trial 0",
        ),
        (
            "UPDATE trial_params SET param_value = 9 WHERE param_name = 'opt'",
            "beyond the choices",
        ),
        (
            "UPDATE trials SET number = NULL WHERE trial_id = 3",
            "id 3 has no number",
        ),
        (
            "UPDATE trials SET number = 2 WHERE number = 3",
            "two trials with the number 2",
        ),
    ] {
        let path = optuna_file(&dir);
        change(&path, sql);
        let error = Store::open(&path).unwrap().trials(1).unwrap_err();
        assert!(error.to_string().contains(word), "{sql}: {error}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn rows_that_contradict_each_other_are_named() {
    let mut bench = Bench::new();
    bench.start(0);
    let path = bench.path();
    let refused = |bench: &Bench| {
        let study = bench.store.studies().unwrap().remove(0);
        let checked = bench
            .store
            .must_be_consistent(&study, &[Direction::Minimize])
            .map_err(|e| e.to_string());
        checked.err().unwrap_or_default()
    };
    assert_eq!(refused(&bench), "");
    change(&path, "UPDATE trials SET state = 'WAITING'");
    assert!(refused(&bench).contains("trial 0 of the study"));
    let error = bench.error(&[started(0, 0)]);
    assert!(!error.contains("defect"), "{error}");
    change(&path, "UPDATE trials SET state = 'RUNNING'");
    change(&path, "UPDATE study_directions SET direction = 'MAXIMIZE'");
    assert!(refused(&bench).contains("MAXIMIZE in study_directions, expected MINIMIZE"));
    change(
        &path,
        "INSERT INTO study_directions (direction, study_id, objective) VALUES ('MINIMIZE', 1, 1)",
    );
    let error = bench.error(&[finished(0, TrialState::Complete, &[1.0])]);
    assert!(error.contains("has 2 directions"), "{error}");
}

#[test]
fn a_database_is_one_whatever_link_names_it_and_refused_by_two_names_of_its_own() {
    let bench = Bench::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link.db");
    std::os::unix::fs::symlink(bench.path(), &link).unwrap();
    assert_eq!(
        Store::open_existing(&link).unwrap().path(),
        bench.store.path()
    );
    let second = elsewhere.path().join("second.db");
    if std::fs::hard_link(bench.path(), &second).is_err() {
        return; // Another file system.
    }
    for opened in [Store::open(&second), Store::open_read_only(&second)] {
        assert!(matches!(
            opened,
            Err(StoreError {
                kind: Kind::Names(2),
                ..
            })
        ));
    }
    // Its log is beside this one.
    assert!(Store::open_existing(bench.path()).is_err());
    Store::open_read_only(bench.path()).unwrap();
}

#[test]
fn what_is_no_file_beside_a_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tune.db");
    Store::open(&path).unwrap();
    for part in ["-wal", "-shm", "-journal"] {
        let beside = PathBuf::from(format!("{}{part}", path.display()));
        nix::unistd::mkfifo(&beside, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = refused(&path).to_string();
        assert!(
            error.contains(&format!("{part}: this is a pipe")),
            "{error}"
        );
        std::fs::remove_file(&beside).unwrap();
        let outside = dir.path().join("outside");
        std::fs::write(&outside, "").unwrap();
        std::fs::hard_link(&outside, &beside).unwrap();
        assert!(refused(&path).to_string().contains("2 names"));
        std::fs::remove_file(&beside).unwrap();
    }
}

#[test]
fn looking_at_a_database_that_cannot_be_written_leaves_nothing_beside_it() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tune.db");
    Store::open(&path).unwrap();
    let mode = |mode| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(0o444);
    Store::open_read_only(&path).unwrap().studies().unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    mode(0o644);
    Store::open(&path).unwrap();
}

#[test]
fn a_log_that_is_cut_short_in_use_is_not_copied_into_the_database() {
    let mut bench = Bench::new();
    bench.start(0);
    let before = std::fs::read(bench.path()).unwrap();
    let log = log_of(&bench.path());
    std::fs::OpenOptions::new()
        .write(true)
        .open(&log)
        .unwrap()
        .set_len(0)
        .unwrap();
    let error = bench.error(&[finished(0, TrialState::Complete, &[1.0])]);
    assert!(error.contains("cut its write-ahead log short"), "{error}");
    let Bench { dir, store, .. } = bench;
    drop(store);
    assert!(std::fs::read(dir.path().join("tune.db")).unwrap() == before);
}

#[test]
fn a_log_that_is_overwritten_in_use_is_noticed_before_a_run_ends_and_not_copied() {
    use std::os::unix::fs::FileExt;
    let ended = Write::RunEnded { exit: 0 };
    for at in [36, 5000, 9000] {
        let mut bench = Bench::new();
        (0..20).for_each(|n| bench.start(n));
        let before = std::fs::read(bench.path()).unwrap();
        let log = std::fs::OpenOptions::new()
            .write(true)
            .open(log_of(&bench.path()));
        log.unwrap().write_all_at(&[0xaa; 100], at).unwrap();
        let error = bench.error(std::slice::from_ref(&ended));
        assert!(
            error.contains("overwritten it, while it was in use"),
            "{error}"
        );
        let Bench { dir, store, .. } = bench;
        drop(store);
        assert!(
            std::fs::read(dir.path().join("tune.db")).unwrap() == before,
            "{at}"
        );
    }
}

#[test]
fn a_long_log_is_copied_into_the_database_and_begun_again() {
    let mut bench = Bench::new();
    let longest = (0..600).map(|number| {
        bench.start(number);
        std::fs::metadata(log_of(&bench.path())).unwrap().len()
    });
    let longest = longest.max().unwrap();
    assert!((4_000_000..8_000_000).contains(&longest), "{longest}");
}

/// One that gives each new trial another number keeps a run from ever reaching its goal.
#[test]
fn triggers_of_others_are_refused_for_writing() {
    for name in ["renumber", "tune_trial_deleted"] {
        let bench = Bench::new();
        let drop_ours = format!("DROP TRIGGER IF EXISTS {name}");
        let trigger = format!(
            "CREATE TRIGGER {name} AFTER INSERT ON trials BEGIN
             UPDATE trials SET number = NEW.number + 1000 WHERE trial_id = NEW.trial_id; END"
        );
        bench.store.conn.batch(&drop_ours).unwrap();
        bench.store.conn.batch(&trigger).unwrap();
        let refused = Store::open(bench.path()).map(drop).unwrap_err();
        assert!(refused.to_string().contains(name), "{refused}");
        Store::open_read_only(bench.path()).unwrap();
    }
}

#[test]
fn queries_work_while_a_run_writes() {
    let mut bench = Bench::new();
    let reader = Store::open_read_only(bench.path()).unwrap();
    bench.start(0);
    assert_eq!(reader.trials(bench.study).unwrap().len(), 1);
    bench.store.conn.batch("BEGIN IMMEDIATE").unwrap();
    let second = Store::open_read_only(bench.path()).unwrap();
    assert_eq!(second.studies().unwrap()[0].counts.running, 1);
    bench.store.conn.batch("ROLLBACK").unwrap();
    let mut writer = Store::open_read_only(bench.path()).unwrap();
    let error = writer
        .add_trials(bench.study, &[waiting(&Params::new(), Map::new())])
        .unwrap_err();
    assert!(matches!(error.kind, Kind::ReadOnly), "{error}");
}

#[test]
fn a_database_that_was_replaced_under_a_run_is_noticed() {
    let mut bench = Bench::new();
    bench.start(0);
    std::fs::rename(bench.path(), bench.dir.path().join("moved.db")).unwrap();
    let error = bench
        .store
        .apply(bench.study, bench.run, &[created(1)])
        .unwrap_err();
    assert!(matches!(error.kind, Kind::Moved), "{error}");
    std::fs::rename(bench.dir.path().join("moved.db"), bench.path()).unwrap();
    assert_eq!(bench.apply(&[created(1)]), Written::Done);
}

#[test]
fn two_programs_may_make_the_database_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tune.db");
    std::thread::scope(|scope| {
        let starts: Vec<_> = (0..6).map(|_| scope.spawn(|| opened(&path))).collect();
        for start in starts {
            start.join().unwrap().unwrap();
        }
    });
}

/// Opens a database as a run does: a lock is waited for, however slow the disk is.
fn opened(path: &std::path::Path) -> Result<(), StoreError> {
    let begun = std::time::Instant::now();
    loop {
        let opened = Store::open(path).map(drop);
        let locked = matches!(
            opened,
            Err(StoreError {
                kind: Kind::Locked,
                ..
            })
        );
        if !locked || begun.elapsed() > std::time::Duration::from_secs(20) {
            return opened;
        }
    }
}

/// Optuna makes its tables one by one, and notes its versions when all are there.
#[test]
fn a_database_that_optuna_is_making_just_now_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tune.db");
    let conn = rusqlite::Connection::open(&path).unwrap();
    let tables = include_str!("../optuna.sql");
    let mut tables = tables.split_inclusive(");\n");
    conn.execute_batch(tables.next().unwrap()).unwrap();
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| opened(&path));
        let pause = std::time::Duration::from_millis(5);
        for table in tables {
            std::thread::sleep(pause);
            conn.execute_batch(table).unwrap();
        }
        std::thread::sleep(pause);
        conn.execute_batch("INSERT INTO version_info VALUES (1, 12, '5.0.0')")
            .unwrap();
        std::thread::sleep(pause);
        conn.execute_batch("INSERT INTO alembic_version VALUES ('v3.2.0.a')")
            .unwrap();
        opened.join().unwrap().unwrap();
    });
    let half = dir.path().join("half.db");
    let conn = rusqlite::Connection::open(&half).unwrap();
    conn.execute_batch("CREATE TABLE studies (study_id INTEGER)")
        .unwrap();
    let refused = Store::open(&half).map(drop);
    assert!(matches!(
        refused,
        Err(StoreError {
            kind: Kind::Foreign(_),
            ..
        })
    ));
}

/// A database and its log as a crash leaves them: everything since `last` is only in the log.
fn crashed(dir: &TempDir, last: &str) -> PathBuf {
    let path = optuna_file(dir);
    Store::open(&path).unwrap();
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA wal_autocheckpoint = 0").unwrap();
    for i in 0..5 {
        conn.execute(
            "INSERT INTO study_user_attributes (study_id, key, value_json) VALUES (1, ?1, '1')",
            [format!("k{i}")],
        )
        .unwrap();
    }
    conn.execute_batch(last).unwrap();
    let copy = dir.path().join("crashed.db");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(log_of(&path), log_of(&copy)).unwrap();
    copy
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

#[test]
fn what_a_crash_left_in_the_log_is_there_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = crashed(&dir, "");
    let store = Store::open(&path).unwrap();
    assert_eq!(store.studies().unwrap()[0].user_attrs["k4"], 1);
}

#[test]
fn a_refused_database_keeps_its_log_and_its_log_stays_out_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = crashed(&dir, "UPDATE version_info SET schema_version = 13");
    let log = std::fs::read(log_of(&path)).unwrap();
    let error = refused(&path);
    assert!(matches!(error.kind, Kind::Newer(_)), "{error}");
    assert!(std::fs::read(log_of(&path)).unwrap() == log);
}

#[test]
fn a_log_that_is_damaged_before_its_last_transactions_is_refused_and_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = crashed(&dir, "");
    let before = std::fs::read(&path).unwrap();
    let mut log = std::fs::read(log_of(&path)).unwrap();
    log[32 + 24 + 1000] ^= 1;
    std::fs::write(log_of(&path), &log).unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(error.to_string().contains("write-ahead log"), "{error}");
    assert!(std::fs::read(&path).unwrap() == before);
    assert!(std::fs::read(log_of(&path)).unwrap() == log);
    std::fs::write(&path, "").unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(error.to_string().contains("the file is empty"), "{error}");
    assert!(std::fs::read(log_of(&path)).unwrap() == log);
}
