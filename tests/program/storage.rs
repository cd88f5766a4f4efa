//! Storage faults under the real binary: nothing that was finished is lost or run again, and no
//! damaged file is touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use crate::common::{Project, results, signal, wait_for};
use nix::sys::signal::Signal;
use rusqlite::Connection;
use serde_json::Value as Json;

/// A trial takes about a second; a database that cannot be written is waited for a second.
const RUN: [&str; 11] = [
    "synthetic",
    "--trials",
    "4",
    "--parallel",
    "1",
    "--set",
    "task.step_ms=20",
    "--set",
    "task.steps=5",
    "--set",
    "supervisor.storage_patience=1s",
];

/// The same run with a goal of one trial.
fn first_trial(project: &Project) {
    let mut run = RUN;
    run[2] = "1";
    project.expect(0, &run);
}

/// The trials of a study that nothing disturbed.
fn reference() -> &'static [Json] {
    static REFERENCE: OnceLock<Vec<Json>> = OnceLock::new();
    REFERENCE.get_or_init(|| {
        let project = Project::synthetic();
        project.expect(0, &RUN);
        results(&project.trials("synthetic"))
    })
}

fn started(project: &Project, number: u64) -> bool {
    project.database().exists()
        && project
            .connect()
            .query_row(
                "SELECT count(*) FROM tune_attempts a JOIN trials t USING (trial_id) \
                 WHERE t.number = ?1 AND t.state = 'RUNNING' AND a.ended IS NULL",
                [number],
                |row| row.get::<_, i64>(0),
            )
            .is_ok_and(|n| n == 1)
}

/// A run in which trial 1 is in training.
fn in_training(project: &Project) -> Child {
    let child = project
        .tune(&RUN)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("trial 1", || started(project, 1));
    child
}

fn end(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), stderr)
}

fn lock(project: &Project) -> Connection {
    let other = project.connect();
    other
        .busy_timeout(std::time::Duration::from_secs(20))
        .unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    other
}

fn spool(project: &Project) -> PathBuf {
    project.path().join("tune.db.d/spool/synthetic.jsonl")
}

fn holds_results(spool: &Path) -> bool {
    fs::read(spool).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains("trial_finished"))
}

/// The study is run to its goal: as if nothing had happened, each trial in one attempt.
fn goes_on_undisturbed(project: &Project) {
    let (stdout, _) = project.expect(0, &RUN);
    assert!(stdout.contains("taken in"), "{stdout}");
    let trials = project.trials("synthetic");
    assert_eq!(results(&trials), reference());
    for trial in &trials {
        let attempts = trial["attempts"].as_array().unwrap().len();
        assert_eq!(attempts, 1, "trial {} ran again", trial["number"]);
    }
    assert!(!spool(project).exists());
    assert!(!project.path().join("tune.db.d/spool/rejected").exists());
}

#[test]
fn a_lock_that_outlasts_patience_leaves_results_in_the_spool_for_the_next_start() {
    let project = Project::synthetic();
    let child = in_training(&project);
    let other = lock(&project);
    let (code, stderr) = end(child);
    assert_eq!(code, Some(7), "{stderr}");
    for part in ["lock", "1 result", "spool/synthetic.jsonl"] {
        assert!(stderr.contains(part), "{part} is missing in {stderr}");
    }
    assert!(project.workers().is_empty());
    let (stdout, _) = project.expect(0, &["status", "synthetic"]);
    assert!(stdout.contains("1 result waits outside"), "{stdout}");
    let (stdout, _) = project.expect(0, &["status", "synthetic", "--json"]);
    let status: Json = serde_json::from_str(&stdout).unwrap();
    assert_eq!(status["spooled"], 1);
    for query in ["trials", "best"] {
        let (_, stderr) = project.expect(0, &[query, "synthetic"]);
        assert!(stderr.contains("1 result waits outside"), "{stderr}");
    }
    other.execute_batch("ROLLBACK").unwrap();
    goes_on_undisturbed(&project);
}

#[test]
fn a_lock_that_is_released_in_time_is_only_a_warning() {
    let project = Project::synthetic();
    let patient: Vec<&str> = RUN[..10]
        .iter()
        .copied()
        .chain(["supervisor.storage_patience=10m"])
        .collect();
    let child = project
        .tune(&patient)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("trial 1", || started(&project, 1));
    let other = lock(&project);
    wait_for("the spool", || holds_results(&spool(&project)));
    other.execute_batch("ROLLBACK").unwrap();
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert_eq!(
        stdout.matches("no trial starts until").count(),
        1,
        "{stdout}"
    );
    assert_eq!(
        stdout.matches("can be written again after").count(),
        1,
        "{stdout}"
    );
    assert_eq!(results(&project.trials("synthetic")), reference());
    assert!(!spool(&project).exists());
}

#[test]
fn a_supervisor_killed_while_storage_is_down_has_its_results_taken_in() {
    let project = Project::synthetic();
    let mut child = in_training(&project);
    let other = lock(&project);
    wait_for("the spool", || holds_results(&spool(&project)));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the workers to be gone", || project.workers().is_empty());
    other.execute_batch("ROLLBACK").unwrap();
    // The next line was being written.
    let mut bytes = fs::read(spool(&project)).unwrap();
    let line = bytes.iter().position(|&b| b == b'\n').unwrap() + 1;
    let end = bytes.iter().position(|&b| b == 0).unwrap();
    bytes.copy_within(0..line / 2, end);
    fs::write(spool(&project), bytes).unwrap();
    goes_on_undisturbed(&project);
}

#[test]
fn a_signal_while_storage_is_down_ends_the_run_and_keeps_its_results() {
    let project = Project::synthetic();
    let child = in_training(&project);
    let other = lock(&project);
    wait_for("the spool", || holds_results(&spool(&project)));
    signal(child.id(), Signal::SIGTERM);
    let (code, stderr) = end(child);
    assert_eq!(code, Some(7), "{stderr}");
    assert!(stderr.contains("1 result"), "{stderr}");
    other.execute_batch("ROLLBACK").unwrap();
    goes_on_undisturbed(&project);
}

#[test]
fn a_database_that_is_moved_away_under_a_run_gets_its_results_once_it_is_back() {
    let project = Project::synthetic();
    let child = in_training(&project);
    let aside = project.path().join("aside.db");
    fs::rename(project.database(), &aside).unwrap();
    let (code, stderr) = end(child);
    assert_eq!(code, Some(7), "{stderr}");
    assert!(stderr.contains("moved, replaced or deleted"), "{stderr}");
    assert!(!project.database().exists(), "no new one is made");
    let (_, stderr) = project.expect(7, &RUN);
    assert!(stderr.contains("the database is gone"), "{stderr}");
    assert!(!project.database().exists(), "no new one is made");
    fs::rename(&aside, project.database()).unwrap();
    goes_on_undisturbed(&project);
}

/// A second run of the study is refused because the first holds it, and says so.
fn second_is_refused(project: &Project, storage: &Path) {
    let name = storage.to_str().unwrap();
    let run = [&RUN[..], &["--storage", name]].concat();
    let (_, stderr) = project.expect(6, &run);
    assert!(stderr.contains("is held by process"), "{name}: {stderr}");
}

#[test]
fn one_run_holds_a_study_whatever_name_its_database_has_and_though_its_directory_is_removed() {
    let project = Project::synthetic();
    let child = in_training(&project);
    let held = format!("pid {}", child.id());
    // It holds the study while it stands still, and does not come to its end meanwhile.
    signal(child.id(), Signal::SIGSTOP);
    let link = project.path().join("configs/link.db");
    std::os::unix::fs::symlink(project.database(), &link).unwrap();
    let second = project.path().join("configs/second.db");
    fs::hard_link(project.database(), &second).unwrap();
    second_is_refused(&project, &link);
    second_is_refused(&project, &second);
    for name in [project.database(), link.clone()] {
        let storage = name.to_str().unwrap();
        let (stdout, _) = project.expect(0, &["status", "synthetic", "--storage", storage]);
        assert!(stdout.contains(&held), "{storage}: {stdout}");
    }
    // Its log is not beside this name.
    let (_, stderr) = project.expect(7, &["status", "--storage", second.to_str().unwrap()]);
    assert!(stderr.contains("2 names"), "{stderr}");
    fs::remove_file(&second).unwrap();
    fs::remove_dir_all(project.path().join("tune.db.d")).unwrap();
    second_is_refused(&project, &project.database());
    second_is_refused(&project, &link);
    let (stdout, _) = project.expect(0, &["status", "synthetic"]);
    assert!(stdout.contains(&held), "{stdout}");
    signal(child.id(), Signal::SIGCONT);
    let (code, stderr) = end(child);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(results(&project.trials("synthetic")), reference());
    for name in ["link.db.d", "second.db.d"] {
        assert!(!project.path().join("configs").join(name).exists());
    }
}

#[test]
fn a_study_that_is_renamed_under_a_run_is_held_under_its_new_name() {
    let project = Project::synthetic();
    let child = in_training(&project);
    let other = project.connect();
    other
        .busy_timeout(std::time::Duration::from_millis(100))
        .unwrap();
    // Not within a transaction: nobody could write then.
    wait_for("a moment between two of its writes", || {
        signal(child.id(), Signal::SIGSTOP);
        let renamed = other.execute("UPDATE studies SET study_name = 'renamed'", []);
        if renamed.is_err() {
            signal(child.id(), Signal::SIGCONT);
        }
        renamed.is_ok()
    });
    let second = [&RUN[..], &["--study", "renamed"]].concat();
    let (_, stderr) = project.expect(6, &second);
    assert!(
        stderr.contains(&format!("held by process {}", child.id())),
        "{stderr}"
    );
    let (stdout, _) = project.expect(0, &["status", "renamed"]);
    assert!(stdout.contains(&format!("pid {}", child.id())), "{stdout}");
    signal(child.id(), Signal::SIGCONT);
    let (code, stderr) = end(child);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(results(&project.trials("renamed")), reference());
}

#[test]
fn another_database_in_the_place_of_the_first_is_not_run_beside_it() {
    let project = Project::synthetic();
    first_trial(&project);
    let copy = fs::read(project.database()).unwrap();
    let child = in_training(&project);
    // It notices nothing before the second run has tried.
    signal(child.id(), Signal::SIGSTOP);
    let other = project.path().join("other.db");
    fs::write(&other, copy).unwrap();
    fs::rename(&other, project.database()).unwrap();
    second_is_refused(&project, &project.database());
    signal(child.id(), Signal::SIGCONT);
    let (code, stderr) = end(child);
    assert_eq!(code, Some(7), "{stderr}");
    assert!(stderr.contains("1 result"), "{stderr}");
}

#[test]
fn a_log_that_is_cut_short_in_use_ends_the_run_before_it_says_that_its_goal_is_reached() {
    let project = Project::synthetic();
    first_trial(&project);
    let child = in_training(&project);
    let log = format!("{}-wal", project.database().display());
    fs::OpenOptions::new()
        .write(true)
        .open(log)
        .unwrap()
        .set_len(0)
        .unwrap();
    let (code, stderr) = end(child);
    assert_eq!(code, Some(7), "{stderr}");
    for part in ["cut its write-ahead log short", "1 result"] {
        assert!(stderr.contains(part), "{part} is missing in {stderr}");
    }
    assert!(holds_results(&spool(&project)));
    // The first run's trial was in the file itself.
    project.expect(0, &RUN);
    assert_eq!(results(&project.trials("synthetic")), reference());
}

/// The libraries of a program that are not the system's: other users cannot reach what lies in a home directory.
fn own_libraries(program: &Path) -> Vec<PathBuf> {
    let ldd = Command::new("ldd").arg(program).output().unwrap();
    let told = String::from_utf8(ldd.stdout).unwrap();
    let found = told.lines().filter_map(|line| line.split_once("=> "));
    let paths = found.filter_map(|(_, path)| path.split(" (").next());
    paths
        .filter(|path| !path.starts_with("/lib") && !path.starts_with("/usr"))
        .map(PathBuf::from)
        .collect()
}

#[test]
fn who_looks_does_not_keep_the_owner_out() {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    if !nix::unistd::geteuid().is_root() {
        return; // Nobody else can be.
    }
    const OWNER: u32 = 12_001;
    const OTHER: u32 = 12_002;
    let project = Project::synthetic();
    let tune = project.path().join("tune");
    fs::copy(crate::common::program(), &tune).unwrap();
    chown(project.path(), Some(OWNER), Some(OWNER)).unwrap();
    fs::set_permissions(project.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let libraries = project.path().join("lib");
    fs::create_dir(&libraries).unwrap();
    for library in own_libraries(&crate::common::program()) {
        let name = libraries.join(library.file_name().unwrap());
        if fs::hard_link(&library, &name).is_err() {
            fs::copy(&library, &name).unwrap();
        }
    }
    let by = |user: u32, args: &[&str]| {
        let mut command = Command::new(&tune);
        command.env("LD_LIBRARY_PATH", &libraries);
        command.arg("-C").arg(project.path()).args(args);
        command.current_dir(project.path()).uid(user).gid(user);
        command
    };
    let expect = |user: u32, args: &[&str]| {
        let output = by(user, args).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{user} {args:?}: {stderr}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let look = |user: u32| {
        for query in ["status", "best", "trials", "list"] {
            expect(user, &[query]);
        }
    };
    let run = |trials| {
        let mut run = RUN;
        run[2] = trials;
        run
    };
    expect(OWNER, &run("1"));
    look(OTHER);
    let beside = |part: &str| PathBuf::from(format!("{}{part}", project.database().display()));
    assert!(!beside("-wal").exists() && !beside("-shm").exists());
    expect(OWNER, &run("2"));
    // While the owner's run lives, and after it was killed.
    let mut child = by(OWNER, &run("9"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("trial 2", || started(&project, 2));
    look(OTHER);
    let status = expect(OTHER, &["status"]);
    assert!(status.contains(&format!("pid {}", child.id())), "{status}");
    child.kill().unwrap();
    child.wait().unwrap();
    look(OTHER);
    look(0);
    expect(OWNER, &run("3"));
}

#[test]
fn an_older_copy_of_the_database_refuses_what_it_does_not_know_and_goes_on() {
    let project = Project::synthetic();
    first_trial(&project);
    let copy = fs::read(project.database()).unwrap();
    let child = in_training(&project);
    let other = lock(&project);
    let (code, stderr) = end(child);
    assert_eq!(code, Some(7), "{stderr}");
    drop(other);
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{end}", project.database().display()));
    }
    fs::write(project.database(), copy).unwrap();
    let (stdout, _) = project.expect(0, &RUN);
    assert!(stdout.contains("not taken in"), "{stdout}");
    let rejected = project
        .path()
        .join("tune.db.d/spool/rejected/synthetic.jsonl");
    let text = fs::read_to_string(rejected).unwrap();
    let line: Json = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert!(line["reason"].as_str().unwrap().contains("older copy"));
    assert_eq!(project.trials("synthetic").len(), 4);
}

#[test]
fn a_disk_that_is_full_to_the_last_byte_leaves_room_for_the_spool() {
    let project = Project::synthetic();
    // A small file system of its own; the script sees it, and nobody else.
    let script = r#"
        set -e
        mount -t tmpfs -o size=8m tmpfs "$2"
        cp -r "$1/configs" "$2/"
        run() { "$TUNE" -C "$2" synthetic --trials 4 --parallel 1 --set task.step_ms=20 \
            --set task.steps=5 --set supervisor.storage_patience=1s; }
        run "$@" & child=$!
        while ! ls "$2"/tune.db.d/logs/synthetic/trial-000001-attempt-0.log 2>/dev/null; do
            sleep 0.05; done
        cat /dev/zero > "$2/full" 2>/dev/null || true
        code=0; wait $child || code=$?
        echo "first: $code"
        head -c 1 "$2/tune.db.d/spool/synthetic.jsonl"; echo " begins the spool"
        code=0; run "$@" || code=$?
        echo "while full: $code"
        rm "$2/full"
        run "$@"
        "$TUNE" -C "$2" trials synthetic --json > "$1/trials.json"
    "#;
    let disk = project.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let able = Command::new("unshare")
        .args(["-rm", "mount", "-t", "tmpfs", "tmpfs"])
        .arg(&disk)
        .status();
    if !able.is_ok_and(|status| status.success()) {
        eprintln!("no file system can be mounted here; the file-size limit is tested elsewhere");
        return;
    }
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-c", script, "sh"])
        .args([project.path(), &disk])
        .env("TUNE", crate::common::program())
        .output()
        .unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{said}");
    for part in [
        "first: 7",
        "{ begins the spool",
        "while full: 7",
        "1 result",
    ] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    let text = fs::read_to_string(project.path().join("trials.json")).unwrap();
    let trials: Vec<Json> = serde_json::from_str(&text).unwrap();
    assert_eq!(results(&trials), reference());
    for trial in &trials {
        assert_eq!(trial["attempts"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn a_start_under_a_file_size_limit_is_an_error_and_no_death_by_signal() {
    let project = Project::synthetic();
    let output = Command::new("sh")
        .arg("-c")
        .arg("ulimit -f 16; exec \"$0\" \"$@\"")
        .arg(crate::common::program())
        .arg("-C")
        .arg(project.path())
        .args(["synthetic", "--trials", "2"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{stderr}");
    assert!(stderr.contains("tune.db"), "{stderr}");
    project.expect(0, &["synthetic", "--trials", "2"]);
}

#[test]
fn a_start_waits_for_a_lock_and_gives_up_when_patience_ends() {
    let project = Project::synthetic();
    first_trial(&project);
    let other = project.connect();
    // Nobody else can even read.
    other
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; DELETE FROM tune_runs")
        .unwrap();
    let (stdout, stderr) = project.expect(7, &RUN);
    assert!(stderr.contains("lock"), "{stderr}");
    assert!(stdout.contains("waiting for at most"), "{stdout}");
    drop(other);
    project.expect(0, &RUN);
}

/// Runs on a file that must be refused; it must be the same afterwards.
fn refused(project: &Project, word: &str) {
    let files = ["", "-wal"].map(|end| format!("{}{end}", project.database().display()));
    let read = || files.clone().map(|f| fs::read(f).ok());
    let before = read();
    let (_, stderr) = project.expect(7, &RUN);
    assert!(stderr.contains("tune.db"), "{stderr}");
    assert!(stderr.contains(word), "{word}: {stderr}");
    assert!(read() == before, "{word}: the file was changed");
}

#[test]
fn damaged_files_are_refused_and_left_as_they_are() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "3"]);
    let whole = fs::read(project.database()).unwrap();
    // More than a page: the last one may belong to an empty table, and loses nothing with its end.
    for (word, length) in [
        ("damaged", whole.len() / 2),
        ("damaged", whole.len() - 5000),
    ] {
        fs::write(project.database(), &whole[..length]).unwrap();
        refused(&project, word);
    }
    let mut garbage = whole.clone();
    garbage[..16].fill(b'?');
    fs::write(project.database(), &garbage).unwrap();
    refused(&project, "no SQLite database");
    let mut flipped = whole.clone();
    for byte in &mut flipped[8 * 4096..8 * 4096 + 64] {
        *byte ^= 0x5a;
    }
    fs::write(project.database(), &flipped).unwrap();
    refused(&project, "damaged");
    fs::write(project.database(), &whole).unwrap();
    assert_eq!(project.trials("synthetic").len(), 3);
}

#[test]
fn what_is_no_file_is_refused_and_left_as_it_is() {
    let project = Project::synthetic();
    let database = project.database();
    fs::create_dir(&database).unwrap();
    let (_, stderr) = project.expect(7, &RUN);
    assert!(stderr.contains("a directory"), "{stderr}");
    fs::remove_dir(&database).unwrap();
    let target = project.path().join("unmounted/tune.db");
    std::os::unix::fs::symlink(&target, &database).unwrap();
    let (_, stderr) = project.expect(7, &RUN);
    assert!(stderr.contains("a link to"), "{stderr}");
    fs::create_dir(target.parent().unwrap()).unwrap();
    project.expect(7, &RUN);
    assert!(!target.exists());
    fs::remove_file(&database).unwrap();
    nix::unistd::mkfifo(&database, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (_, stderr) = project.expect(7, &RUN);
    assert!(stderr.contains("pipe"), "{stderr}");
}
