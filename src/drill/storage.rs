//! Faults of the disk and of the database: on the synthetic task.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::sys::resource::{Resource, setrlimit};
use rand::RngExt;
use rusqlite::Connection;
use serde_json::Value as Json;

use super::directory::{DrillDirectory, Project, spawn, wait_until};
use super::judge::compare;
use super::supervisor::{LONGEST, quick, slow, undisturbed, verify};
use super::{Drill, Report, Scenario};
use messages::exit::{Exit, Failure};
use search::study::rng;

/// Trials of the studies that fill a disk: more than fit.
const MANY: u64 = 400;

/// Trials of the study that others are compared with.
const REFERENCE: u64 = 60;

/// No file may grow beyond this, in bytes: room for a few trials beside an empty database.
const FILE_LIMIT: u64 = 400 * 1024;

/// How long a foreign program holds the database.
const HELD: Duration = Duration::from_secs(3);

pub(super) fn run(
    drill: &Drill,
    site: &DrillDirectory,
    report: &mut Report,
    progress: &dyn Fn(&str),
) -> Result<(), Failure> {
    let peace = site.project("storage-peace")?;
    let reference = undisturbed(&peace, &quick(REFERENCE))?;
    progress("a file-size limit");
    let scenario = file_limit(&site.project("file-limit")?, &reference)?;
    report.scenarios.push(scenario);
    progress("a full file system");
    let scenario = full(&site.project("full-disk")?, &reference)?;
    report.scenarios.push(scenario);
    progress("a database that another program holds");
    let scenario = locked(&site.project("locked")?)?;
    report.scenarios.push(scenario);
    progress("damaged copies of a database");
    report.scenarios.push(damaged(&peace, site, drill)?);
    Ok(())
}

/// A study of [`MANY`] trials that does not wait long for room.
fn impatient() -> Vec<String> {
    let patience = ["--set", "supervisor.storage_patience=2s"].map(str::to_owned);
    [&patience[..], &quick(MANY)].concat()
}

/// The exit code of a run whose database cannot be written.
fn storage() -> i32 {
    i32::from(Exit::Storage.code())
}

/// What was written before the fault is right, and a later run goes on from there.
fn verify_part(scenario: &mut Scenario, reference: &[Json], trials: &[Json]) {
    let known = trials.len().min(reference.len());
    verify(scenario, &reference[..known], trials);
}

fn file_limit(project: &Project, reference: &[Json]) -> Result<Scenario, Failure> {
    let what = "a file-size limit that the database reaches";
    let mut scenario = Scenario::new("file-limit", what);
    scenario.times = 1;
    let mut command = project.tune(&impatient());
    // SAFETY: setrlimit is async-signal-safe.
    unsafe {
        command.pre_exec(|| Ok(setrlimit(Resource::RLIMIT_FSIZE, FILE_LIMIT, FILE_LIMIT)?));
    }
    let child = spawn(&mut command)?;
    let ended = project.finish(child, "limited", Some(LONGEST));
    scenario.check_exit("the run", &ended, storage());
    let before = project.trials("synthetic")?;
    let ended = project.run(&quick(before.len() as u64 + 3), "after", Some(LONGEST))?;
    scenario.check_exit("without the limit the run", &ended, 0);
    let trials = project.trials("synthetic")?;
    verify_part(&mut scenario, reference, &trials);
    scenario.outcome = format!(
        "exit code 7 after {} trials; without the limit it went on from there",
        before.len()
    );
    Ok(scenario)
}

/// Fills a file system of a few megabytes, makes room, goes on. A shell does it, because the file
/// system is seen only by the processes that it was made for.
const FULL: &str = r#"
mkdir -p "$2/configs" && cp "$3/synthetic.toml" "$2/configs/" || exit 1
head -c 2000000 /dev/zero > "$2/ballast"
limit=$4; shift 4
"$EXE" -C "$DIR" "$@" --trials "$limit" > "$OUT/first.log" 2>&1; echo $? > "$OUT/first"
rm "$DIR/ballast"
"$EXE" -C "$DIR" trials synthetic --json > "$OUT/before.json" 2>> "$OUT/first.log"
count=$(grep -c '"number"' "$OUT/before.json")
"$EXE" -C "$DIR" "$@" --trials $((count + 3)) > "$OUT/second.log" 2>&1; echo $? > "$OUT/second"
"$EXE" -C "$DIR" trials synthetic --json > "$OUT/after.json" 2>> "$OUT/second.log"
"#;

fn full(project: &Project, reference: &[Json]) -> Result<Scenario, Failure> {
    let mut scenario = Scenario::new("full-disk", "a file system that is full, then no longer");
    let disk = project.dir.join("disk");
    let internal = |e: std::io::Error| Failure::internal(format!("{}: {e}", disk.display()));
    fs::create_dir_all(&disk).map_err(internal)?;
    let exe = std::env::current_exe().map_err(internal)?;
    let mut command = Command::new("/bin/sh");
    project.prepare(&mut command);
    let mut args = impatient();
    args.truncate(args.len() - 2);
    command
        .args(["-c", FULL, "sh"])
        .arg(&exe)
        .arg(&disk)
        .arg(project.dir.join("configs"))
        .arg(MANY.to_string())
        .args(&args)
        .envs([("EXE", &exe), ("DIR", &disk), ("OUT", &project.dir)]);
    small_file_system(&mut command, &disk);
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            scenario.skipped = Some(format!("a small file system cannot be mounted: {error}"));
            return Ok(scenario);
        }
    };
    scenario.times = 1;
    let ended = project.finish(child, "full", Some(LONGEST));
    let read = |name: &str| fs::read_to_string(project.dir.join(name)).unwrap_or_default();
    let code = |name: &str| read(name).trim().parse::<i32>().ok();
    let trials = |name: &str| serde_json::from_str::<Vec<Json>>(&read(name)).unwrap_or_default();
    let (before, after) = (trials("before.json"), trials("after.json"));
    scenario.check(ended.code() == Some(0), || ended.describe());
    scenario.check(code("first") == Some(storage()), || {
        let log = read("first.log");
        format!(
            "the run ended with {:?}, expected 7: {}",
            code("first"),
            last_line(&log)
        )
    });
    scenario.check(code("second") == Some(0), || {
        let log = read("second.log");
        format!(
            "with room again the run ended with {:?}: {}",
            code("second"),
            last_line(&log)
        )
    });
    scenario.check(after.len() > before.len(), || {
        format!("{} trials before, {} after", before.len(), after.len())
    });
    verify_part(&mut scenario, reference, &after);
    scenario.outcome = format!(
        "exit code 7 after {} trials; with room again it went on from there",
        before.len()
    );
    Ok(scenario)
}

fn last_line(text: &str) -> &str {
    text.trim().lines().next_back().unwrap_or_default()
}

/// Gives the command a user and mount namespace of its own, with 3 MB of memory mounted on `dir`.
/// Where that is not allowed, it cannot be started.
fn small_file_system(command: &mut Command, dir: &Path) {
    let map = |id: u32| format!("0 {id} 1");
    let user = map(nix::unistd::getuid().as_raw());
    let group = map(nix::unistd::getgid().as_raw());
    let dir = CString::new(dir.as_os_str().as_bytes()).unwrap_or_default();
    // SAFETY: between fork and exec only system calls are made, on strings made before.
    unsafe {
        command.pre_exec(move || {
            let checked = |result: libc::c_int| match result {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            };
            checked(libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS))?;
            put(c"/proc/self/setgroups", b"deny")?;
            put(c"/proc/self/uid_map", user.as_bytes())?;
            put(c"/proc/self/gid_map", group.as_bytes())?;
            let (kind, options) = (c"tmpfs".as_ptr(), c"size=3m".as_ptr());
            checked(libc::mount(kind, dir.as_ptr(), kind, 0, options.cast()))
        });
    }
}

/// Writes a small file with system calls alone.
fn put(path: &std::ffi::CStr, text: &[u8]) -> std::io::Result<()> {
    // SAFETY: a C string, and a buffer as long as it is said to be.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let written = libc::write(file, text.as_ptr().cast(), text.len());
        let error = std::io::Error::last_os_error();
        libc::close(file);
        if written < 0 { Err(error) } else { Ok(()) }
    }
}

fn locked(project: &Project) -> Result<Scenario, Failure> {
    const TRIALS: u64 = 8;
    let what = "another program locks the database for three seconds";
    let mut scenario = Scenario::new("foreign-lock", what);
    scenario.times = 1;
    let child = project.start(&slow(TRIALS), "run")?;
    let going = wait_until(LONGEST, || {
        let events = project.events("run");
        events.iter().any(|e| e["event"] == "trial_finished")
    });
    scenario.check(going.is_some(), || "the run does not get going".into());
    let lock = || -> rusqlite::Result<()> {
        let connection = Connection::open(project.database())?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        thread::sleep(HELD);
        connection.execute_batch("ROLLBACK")
    };
    if let Err(error) = lock() {
        scenario.check(false, || {
            format!("the database could not be locked: {error}")
        });
    }
    let ended = project.finish(child, "run", Some(LONGEST));
    scenario.check_exit("the run", &ended, 0);
    let faults = ended
        .events
        .iter()
        .filter(|e| e["event"] == "fault")
        .count();
    scenario.check(faults == 0, || {
        format!("{faults} attempts were ended meanwhile")
    });
    let trials = project.trials("synthetic")?;
    scenario.check(trials.len() as u64 == TRIALS, || {
        format!("{} trials instead of {TRIALS}", trials.len())
    });
    scenario
        .problems
        .extend(compare(&[], &trials, &Default::default()));
    scenario.outcome = "the run waited and went on to its goal".into();
    Ok(scenario)
}

fn damaged(peace: &Project, site: &DrillDirectory, drill: &Drill) -> Result<Scenario, Failure> {
    let what = "a copy of the database, cut off or with flipped bytes";
    let mut scenario = Scenario::new("damaged", what);
    let whole = fs::read(peace.database())
        .map_err(|e| Failure::internal(format!("{}: {e}", peace.database().display())))?;
    let mut rng = rng(drill.seed, 0, "drill damage");
    for round in 0..drill.count {
        for (name, damage) in DAMAGES {
            let project = site.project(&format!("damaged-{name}-{round}"))?;
            let mut bytes = whole.clone();
            damage(&mut bytes, rng.random());
            let file = project.database();
            fs::write(&file, &bytes)
                .map_err(|e| Failure::internal(format!("{}: {e}", file.display())))?;
            let ended = project.run(&quick(REFERENCE + 5), "run", Some(LONGEST))?;
            scenario.times += 1;
            scenario.check_exit(&format!("{name}: the run"), &ended, storage());
            scenario.check(unchanged(&file, &bytes), || {
                format!("{name}: the file was changed")
            });
        }
    }
    scenario.outcome = "refused with exit code 7, the file unchanged".into();
    Ok(scenario)
}

/// Damages a database; the number decides where.
type Damage = fn(&mut Vec<u8>, u64);

const DAMAGES: [(&str, Damage); 3] = [
    ("header", |bytes, at| bytes[at as usize % 16] ^= 0xff),
    ("cut", |bytes, at| {
        let pages = bytes.len() / page_size(bytes);
        let keep = 1 + at as usize % (pages - 1).max(1);
        bytes.truncate(keep * page_size(bytes) - 100);
    }),
    ("pages", |bytes, at| {
        // The headers of a few pages: what SQLite cannot tell from content is nobody's to find.
        let size = page_size(bytes);
        let pages = bytes.len() / size;
        for i in 0..8 {
            let page = 1 + (at as usize).wrapping_add(i * 7) % (pages - 1).max(1);
            for byte in bytes.iter_mut().skip(page * size).take(8) {
                *byte ^= 0xff;
            }
        }
    }),
];

/// From the database's header, in bytes.
fn page_size(bytes: &[u8]) -> usize {
    match bytes.get(16..18) {
        Some(&[high, low]) if (high, low) != (0, 1) => usize::from(high) * 256 + usize::from(low),
        Some(_) | None => 65_536,
    }
}

fn unchanged(file: &PathBuf, bytes: &[u8]) -> bool {
    fs::read(file).is_ok_and(|now| now == bytes)
}
