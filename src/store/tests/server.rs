//! A server of PostgreSQL for the tests of this process: a real one, from the machine's packages.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::sql::Server;
use postgres::{Client, NoTls};

/// A database of its own on the server.
pub(super) struct Postgres;

impl Database for Postgres {
    fn place(dir: &Path) -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let socket = socket();
        let mut client = connect("postgres");
        client
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .unwrap();
        let url = format!("postgresql://postgres@/{name}?host={socket}");
        Place::named(&url, &dir.join("tune.db")).unwrap()
    }

    fn other(place: &Place) -> Connection {
        Connection::Postgres(Box::new(Server::connect(place.server().unwrap()).unwrap()))
    }
}

/// A client of the server that is none of ours.
pub(super) fn connect(database: &str) -> Client {
    let text = format!("host={} user=postgres dbname={database}", socket());
    Client::connect(&text, NoTls).unwrap()
}

/// The directory of the server's socket. The server ends with this process, which holds its input open.
fn socket() -> &'static str {
    static SERVER: OnceLock<(Child, String)> = OnceLock::new();
    let (_, socket) = SERVER.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/postgres.sh");
        let mut child = Command::new(script)
            .arg("fsync=off")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(
            !line.is_empty(),
            "no server has started: is PostgreSQL installed?"
        );
        (child, line.trim().to_owned())
    });
    socket
}

#[test]
fn the_study_s_row_is_locked_while_a_batch_is_written() {
    let mut bench = BenchOn::<Postgres>::new();
    let database = bench.place.to_string();
    let mut other = connect(database.rsplit('/').next().unwrap());
    let mut theirs = other.transaction().unwrap();
    theirs
        .execute("SELECT 1 FROM studies FOR UPDATE", &[])
        .unwrap();
    bench
        .store
        .set_lock_patience(std::time::Duration::from_millis(50));
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
    let database = bench.place.to_string();
    let database = database.rsplit('/').next().unwrap().to_owned();
    for number in 1..4 {
        assert_eq!(other.query(kill, &[&database]).unwrap().len(), 1);
        while !other.query(gone, &[&database]).unwrap().is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(5));
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
        crate::StoreErrorKind::NotFound
    ));
    let mut admin = connect("postgres");
    admin
        .batch_execute("CREATE ROLE reader LOGIN; CREATE ROLE barred NOLOGIN")
        .unwrap();
    let database = socket.to_string();
    let database = database.rsplit('/').next().unwrap();
    let opened = |user: &str, database: &str, place: &str| {
        let url = format!("postgresql://{user}@/{database}?host={place}");
        Store::open(Place::named(&url, &project).unwrap()).unwrap_err()
    };
    let here = super::server::socket();
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
