//! Links and special files in the place of whatever a run or a query opens: a command ends within
//! seconds, with a clear error or its result, and nothing outside of the project is changed.
//!
//! A sixteenth of all combinations is tried, another one with another `TUNE_ATTACK_SEED`; with
//! `TUNE_ATTACK_SEED=all` every one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::Project;
use nix::sys::stat::{Mode, SFlag};

/// What a project holds after a run, or would hold after another one.
const PLACES: [&str; 22] = [
    "tune.db",
    "tune.db-wal",
    "tune.db-shm",
    "tune.db-journal",
    "tune.db.d",
    "tune.db.d/locks",
    "tune.db.d/locks/synthetic.lock",
    "tune.db.d/spool",
    "tune.db.d/spool/synthetic.jsonl",
    "tune.db.d/spool/rejected",
    "tune.db.d/spool/rejected/synthetic.jsonl",
    "tune.db.d/logs",
    "tune.db.d/logs/synthetic",
    "tune.db.d/logs/synthetic/trial-000001-attempt-0.log",
    "tune.db.d/logs/synthetic/run-2-worker-1.log",
    "tune.db.d/checkpoints",
    "tune.db.d/checkpoints/synthetic",
    "tune.db.d/checkpoints/synthetic/trial-000001",
    "tune.db.d/kept",
    "tune.db.d/kept/synthetic",
    "tune.db.d/injected",
    "tune.db.d/injected/synthetic.jsonl",
];

/// What stands there instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thing {
    LinkToFile,
    LinkToDirectory,
    DanglingLink,
    LinkToItself,
    SecondName,
    Pipe,
    Socket,
    Device,
    Directory,
}

const THINGS: [Thing; 9] = [
    Thing::LinkToFile,
    Thing::LinkToDirectory,
    Thing::DanglingLink,
    Thing::LinkToItself,
    Thing::SecondName,
    Thing::Pipe,
    Thing::Socket,
    Thing::Device,
    Thing::Directory,
];

/// Puts the thing there; false where this user cannot make it.
fn plant(thing: Thing, at: &Path, outside: &Path) -> bool {
    let _ = fs::remove_file(at);
    let _ = fs::remove_dir_all(at);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    match thing {
        Thing::LinkToFile => symlink(outside.join("precious"), at).unwrap(),
        Thing::LinkToDirectory => symlink(outside.join("directory"), at).unwrap(),
        Thing::DanglingLink => symlink(outside.join("nowhere"), at).unwrap(),
        Thing::LinkToItself => symlink(at, at).unwrap(),
        Thing::SecondName => fs::hard_link(outside.join("precious"), at).unwrap(),
        Thing::Pipe => nix::unistd::mkfifo(at, Mode::S_IRWXU).unwrap(),
        Thing::Socket => drop(UnixListener::bind(at).unwrap()),
        Thing::Device => {
            let null = nix::sys::stat::makedev(1, 3);
            return nix::sys::stat::mknod(at, SFlag::S_IFCHR, Mode::S_IRWXU, null).is_ok();
        }
        Thing::Directory => fs::create_dir(at).unwrap(),
    }
    true
}

/// What must stay as it is: a file, and a directory that looks like one of ours.
fn outside(dir: &Path) -> PathBuf {
    let outside = dir.join("outside");
    for name in ["synthetic/trial-000009", "locks", "spool", "logs/synthetic"] {
        let dir = outside.join("directory").join(name);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("synthetic.lock"), "somebody's").unwrap();
        fs::write(dir.join("epoch-1.state"), "somebody's").unwrap();
    }
    fs::write(outside.join("precious"), "precious\n".repeat(1000)).unwrap();
    outside
}

/// Every path in a directory, with the content of files.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(tree(&path));
            found.insert(path, Vec::new());
        } else {
            let content = fs::read(&path).unwrap();
            found.insert(path, content);
        }
    }
    found
}

/// Exit code and stderr of a command that must end by itself.
fn ends(mut command: Command, what: &str) -> (i32, String) {
    let said = tempfile::NamedTempFile::new().unwrap();
    let mut child = command
        .stdout(Stdio::null())
        .stderr(said.reopen().unwrap())
        .process_group(0)
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > Duration::from_secs(60) {
            let _ = child.kill();
            panic!("{what}: does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let said = fs::read_to_string(said.path()).unwrap();
    let code = status
        .code()
        .unwrap_or_else(|| panic!("{what}: {status}\n{said}"));
    assert!(!said.contains("panicked"), "{what}: {said}");
    (code, said)
}

fn attack(number: usize, place: &str, thing: Thing) {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "1", "-q"]);
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = outside(elsewhere.path());
    if !plant(thing, &project.path().join(place), &outside) {
        return;
    }
    let before = tree(&outside);
    let queries = [
        vec!["status", "synthetic"],
        vec!["trials", "synthetic"],
        vec!["best", "synthetic"],
        vec!["list"],
        vec!["enqueue", "synthetic", "model.layers=3"],
    ];
    let run: Vec<&str> =
        "synthetic --trials 2 -q --inject panic:1 --set supervisor.checkpoint=true"
            .split(' ')
            .collect();
    let query = &queries[number % queries.len()];
    for args in [query.as_slice(), run.as_slice(), query.as_slice()] {
        let what = format!("{thing:?} as {place}: tune {args:?}");
        let (code, said) = ends(project.tune(args), &what);
        assert!([0, 2, 7].contains(&code), "{what}: {code}\n{said}");
        assert!(
            code == 0 || said.contains("error: "),
            "{what}: {code}\n{said}"
        );
        assert!(tree(&outside) == before, "{what}: changed what is outside");
    }
}

#[test]
fn what_stands_in_the_place_of_our_files_is_neither_followed_nor_waited_for() {
    let seed = std::env::var("TUNE_ATTACK_SEED").unwrap_or_else(|_| "0".to_owned());
    let all = seed == "all";
    let seed: usize = if all { 0 } else { seed.parse().unwrap() };
    // What has been wrong is tried every time.
    let mut attacks = vec![
        ("tune.db-wal", Thing::SecondName),
        ("tune.db-shm", Thing::SecondName),
        ("tune.db.d/spool/synthetic.jsonl", Thing::Pipe),
        ("tune.db.d/locks/synthetic.lock", Thing::LinkToFile),
        ("tune.db.d/logs", Thing::LinkToDirectory),
    ];
    for (i, place) in PLACES.into_iter().enumerate() {
        for (k, thing) in THINGS.into_iter().enumerate() {
            if all || (seed + i + 5 * k).is_multiple_of(16) {
                attacks.push((place, thing));
            }
        }
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some((place, thing)) = attacks.get(number) else {
                        return;
                    };
                    attack(number, place, *thing);
                }
            });
        }
    });
}
