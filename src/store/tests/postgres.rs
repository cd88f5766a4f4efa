//! A server of PostgreSQL for the tests of this process: a real one, from the machine's packages.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ::postgres::{Client, NoTls};

use super::*;
use crate::sql::{Intent, Server};

mod nodes;
#[path = "../../../tests/common/postgres.rs"]
mod shared;

/// A database of its own on the server.
pub(super) struct Postgres;

impl Database for Postgres {
    fn place(dir: &Path) -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed));
        server().sql("postgres", &format!("CREATE DATABASE {name}"));
        Place::named(&server().url(&name), &dir.join("tune.db"), "here").unwrap()
    }

    fn other(place: &Place) -> Connection {
        Connection::Postgres(Box::new(Server::connect(place.server().unwrap()).unwrap()))
    }
}

/// A client of the server that is none of ours.
fn connect(database: &str) -> Client {
    let text = format!(
        "host={} user=postgres dbname={database}",
        server().socket.display()
    );
    Client::connect(&text, NoTls).unwrap()
}

/// The server of this process, which ends with it.
fn server() -> &'static shared::Server {
    static SERVER: OnceLock<shared::Server> = OnceLock::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    SERVER.get_or_init(|| shared::Server::start(&root, &["fsync=off"]))
}

/// The name of the database in a place.
fn database(place: &Place) -> String {
    place.to_string().rsplit('/').next().unwrap().to_owned()
}

#[test]
fn the_study_s_row_is_locked_while_a_batch_is_written() {
    let mut bench = BenchOn::<Postgres>::new();
    let mut other = connect(&database(&bench.place));
    let mut theirs = other.transaction().unwrap();
    theirs
        .execute("SELECT 1 FROM studies FOR UPDATE", &[])
        .unwrap();
    bench.store.set_lock_patience(Duration::from_millis(50));
    let error = (bench.store)
        .apply(bench.study, bench.run, &[created(0)])
        .unwrap_err();
    assert!(error.transient(), "{error}");
    theirs.rollback().unwrap();
    assert_eq!(bench.apply(&[created(0)]), Written::Done);
    assert!(bench.store.foreign_change());
}

#[test]
fn a_connection_that_is_lost_is_made_again_and_loses_nothing() {
    let mut bench = BenchOn::<Postgres>::new();
    bench.start(0);
    let mut other = connect("postgres");
    let gone = "SELECT 1 FROM pg_stat_activity WHERE datname = $1 AND application_name = 'tune'";
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = $1 AND application_name = 'tune'";
    let database = database(&bench.place);
    for number in 1..4 {
        assert_eq!(other.query(kill, &[&database]).unwrap().len(), 1);
        while !other.query(gone, &[&database]).unwrap().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        bench.start(number);
    }
    assert_eq!(bench.store.trials(bench.study).unwrap().len(), 4);
}

#[test]
fn what_a_server_refuses_is_told_with_its_url() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("tune.db");
    let socket = Postgres::place(dir.path());
    assert!(matches!(
        Store::open_read_only(&socket).unwrap_err().kind,
        crate::StoreErrorKind::NoStudies
    ));
    let roles = "CREATE ROLE reader LOGIN; CREATE ROLE barred NOLOGIN";
    server().sql("postgres", roles);
    let database = &database(&socket);
    let opened = |user: &str, database: &str, place: &str| {
        let url = format!("postgresql://{user}@/{database}?host={place}");
        Store::open(Place::named(&url, &project, "here").unwrap()).unwrap_err()
    };
    let here = server().socket.to_str().unwrap();
    for (user, database, place, word) in [
        ("postgres", "nowhere", here, "createdb"),
        ("barred", database, here, "refuses this user"),
        ("reader", database, here, "permission denied"),
        ("postgres", database, "/nowhere", "cannot be reached"),
    ] {
        let error = opened(user, database, place).to_string();
        assert!(error.contains(word), "{error}");
        assert!(error.starts_with("postgresql://"), "{error}");
    }
    assert!(!project.exists());
}

#[test]
fn a_transaction_that_loses_its_connection_writes_nothing_and_the_lock_of_its_study_stays() {
    let mut bench = BenchOn::<Postgres>::new();
    bench.store.hold(bench.study).unwrap();
    let name = database(&bench.place);
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'tune'";
    let study = bench.study;
    let lost = bench.store.write(|conn| {
        conn.batch("INSERT INTO studies (study_name) VALUES ('half')")?;
        server().sql(&name, kill);
        std::thread::sleep(Duration::from_millis(100));
        let _ = conn.batch("SELECT 1");
        conn.batch("INSERT INTO studies (study_name) VALUES ('other half')")
    });
    assert!(lost.unwrap_err().transient());
    assert_eq!(bench.store.studies().unwrap().len(), 1);
    let lost = bench.store.write(|conn| {
        conn.send("INSERT INTO studies (study_name) VALUES ('kept')", &[])?;
        server().sql(&name, kill);
        Ok(())
    });
    assert!(lost.unwrap_err().transient());
    assert_eq!(bench.store.studies().unwrap().len(), 1);
    let mut other = Store::open_existing(&bench.place).unwrap();
    let error = other.hold(study).unwrap_err();
    assert!(
        matches!(error.kind, crate::StoreErrorKind::Held(..)),
        "{error}"
    );
    drop(bench);
    let start = std::time::Instant::now();
    while other.hold(study).is_err() {
        assert!(start.elapsed() < Duration::from_secs(10), "it is free");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_batch_whose_commit_nobody_could_tell_is_asked_for_and_not_written_twice() {
    let mut bench = BenchOn::<Postgres>::new();
    let (ids, time) = ((bench.study, bench.run), bench.store.time());
    let mut seen = crate::KnownTrials::default();
    bench.store.changes(bench.study, &mut seen).unwrap();
    let batch = [created(0), started(0, 0)];
    assert!(
        bench
            .store
            .carry_out(ids, time, &batch, &mut seen)
            .unwrap()
            .late
            .is_empty()
    );
    // The server counts the transactions of all its databases: those of other tests, too.
    let number = "SELECT CAST(CAST(xmin AS text) AS bigint) FROM trials";
    let number = bench.store.conn.value::<i64>(number, &[]).unwrap();
    let before = seen.clone();
    // As if the answer to the commit had been lost.
    bench.store.doubt = Some(crate::changes::Doubt::of(number, &batch));
    assert!(
        bench
            .store
            .carry_out(ids, time, &batch, &mut seen)
            .unwrap()
            .late
            .is_empty()
    );
    assert_eq!(bench.store.trials(bench.study).unwrap().len(), 1);
    assert_eq!(seen, before);
}

#[test]
fn what_stands_behind_a_statement_that_cannot_be_sent_is_not_written_either() {
    let bench = BenchOn::<Postgres>::new();
    let conn = Postgres::other(&bench.place);
    conn.batch("CREATE TABLE narrow (x INTEGER)").unwrap();
    let count = || {
        conn.value::<i64>("SELECT COUNT(*) FROM narrow", &[])
            .unwrap()
    };
    // More than 30: the crate sends so many in another way.
    let write = |unfit: i64| {
        conn.transaction(Intent::Write, |conn| {
            (0..40).try_for_each(|at| {
                let x = if at == unfit { i64::MAX } else { at };
                conn.send("INSERT INTO narrow (x) VALUES (?1)", &[&x])
            })
        })
    };
    assert!(write(3).is_err());
    assert_eq!(count(), 0);
    write(-1).unwrap();
    assert_eq!(count(), 40);
}

#[test]
fn what_is_asked_ahead_is_answered_once_and_forgotten_with_its_transaction() {
    let bench = BenchOn::<Postgres>::new();
    let conn = Postgres::other(&bench.place);
    conn.batch("CREATE SEQUENCE counted").unwrap();
    let next = "SELECT nextval('counted')";
    let drawn: Vec<i64> = conn
        .transaction(Intent::Write, |conn| {
            conn.ask_ahead(next, &[])?;
            conn.ask_ahead(next, &[])?;
            // Has to be prepared between question and answer.
            assert!(conn.exists("SELECT 1 + 1", &[])?);
            (0..2).map(|_| conn.value(next, &[])).collect()
        })
        .unwrap();
    assert_eq!(drawn, [1, 2]);
    let gone = conn.transaction(Intent::Write, |conn| {
        conn.ask_ahead(next, &[])?;
        conn.value::<i64>("SELECT 1 / (SELECT 0)", &[])
    });
    assert!(gone.is_err());
    assert_eq!(conn.value::<i64>(next, &[]).unwrap(), 4);
}
