//! Orphans, with real processes.

use super::*;
use crate::stat::tests::sleeping;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// So long that no test depends on it.
const LONG: Duration = Duration::from_secs(60);

/// A mark that no other test has.
fn mark(name: u64) -> ProcessMark {
    ProcessMark::study((u64::from(std::process::id()), name)).this_run()
}

/// Processes of a test, ended with it.
struct Started(Vec<Child>);

impl Started {
    fn nothing() -> Started {
        Started(vec![])
    }

    /// Runs a shell script in a session of its own, marked as a member.
    fn shell(&mut self, mark: &ProcessMark, script: &str) -> u32 {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .env(VARIABLE, mark.variable(None));
        // SAFETY: setsid is async-signal-safe.
        unsafe {
            command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?));
        }
        let child = command.spawn().unwrap();
        let pid = child.id();
        self.0.push(child);
        pid
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that was let go already is nobody's any more.
            if let Ok(None) = child.try_wait() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "waited for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The members that are seen now.
fn find(mark: &ProcessMark) -> Vec<Orphan> {
    super::find(mark, &BTreeSet::new()).members
}

fn pids(found: &[Orphan]) -> Vec<u32> {
    found.iter().map(|s| s.pid).collect()
}

#[test]
fn each_mark_has_its_own_processes_and_those_of_its_parts() {
    let mut started = Started::nothing();
    let run = mark(1);
    let first = started.shell(&run.worker(1), "exec sleep 1000");
    let eleventh = started.shell(&run.worker(11), "exec sleep 1000");
    wait_for("both", || find(&run).len() == 2);
    assert_eq!(pids(&find(&run.worker(1))), [first]);
    assert_eq!(end(&run.worker(1), LONG).gone, 1);
    assert_eq!(find(&run.worker(1)), []);
    assert_eq!(pids(&find(&run.worker(11))), [eleventh]);
    assert_eq!(
        end(&run, LONG),
        Ended {
            gone: 1,
            left: vec![]
        }
    );
}

#[test]
fn an_orphan_in_a_session_of_its_own_is_found_by_its_mark() {
    let mut started = Started::nothing();
    let mark = mark(2);
    let parent = started.shell(&mark, "(setsid sleep 1000 &) ; exit 0");
    started.0[0].wait().unwrap();
    wait_for("the orphan", || find(&mark).len() == 1);
    assert_ne!(pids(&find(&mark)), [parent]);
    assert_eq!(end(&mark, LONG).gone, 1);
    assert_eq!(find(&mark), []);
}

#[test]
fn a_child_with_an_environment_of_its_own_is_found_by_its_parent() {
    let mut started = Started::nothing();
    let mark = mark(3);
    started.shell(&mark, "env -i sh -c 'sleep 1000; true' & wait");
    wait_for("three processes", || find(&mark).len() == 3);
    assert_eq!(end(&mark, LONG).gone, 3);
    assert_eq!(find(&mark), []);
}

#[test]
fn one_without_parents_and_environment_is_found_by_its_cgroup() {
    let mut started = Started::nothing();
    let mark = mark(9);
    let mut bare = Command::new("sleep");
    let bare = bare.arg("1000").env_clear().spawn().unwrap();
    let pid = bare.id();
    started.0.push(bare);
    assert_eq!(find(&mark), []);
    // What the kernel shows of a cgroup, this test writes itself.
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("worker-0")).unwrap();
    std::fs::write(dir.path().join("worker-0/cgroup.procs"), pid.to_string()).unwrap();
    let mark = mark.in_cgroup(Some(dir.path()));
    assert_eq!(pids(&find(&mark)), [pid]);
    assert_eq!(find(&mark.worker(0)), [], "a worker's is not the run's");
    assert_eq!(end(&mark, LONG).gone, 1);
}

#[test]
fn processes_that_go_on_multiplying_are_all_ended() {
    let mut started = Started::nothing();
    let mark = mark(4);
    let script = "i=0; while [ $i -lt 2000 ]; do sleep 1000 & i=$((i + 1)); done; wait";
    started.shell(&mark, script);
    wait_for("some processes", || find(&mark).len() > 3);
    let ended = end(&mark, LONG);
    assert!(ended.gone > 3 && ended.left.is_empty(), "{ended}");
    assert_eq!(find(&mark), []);
}

#[test]
fn a_stopped_member_that_ignores_signals_is_ended() {
    let mut started = Started::nothing();
    let mark = mark(5);
    let pid = started.shell(&mark, "trap '' TERM INT HUP; kill -STOP $$; sleep 1000");
    let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    wait_for("the stop", || state().contains(") T "));
    assert_eq!(
        end_or_give_up(&mark, LONG),
        Some(Ended {
            gone: 1,
            left: vec![]
        })
    );
}

#[test]
fn a_run_within_a_run_belongs_to_both() {
    let mut started = Started::nothing();
    let (outer, inner) = (mark(6), mark(7));
    let both = inner
        .worker(2)
        .variable(Some(&outer.worker(1).variable(None)));
    let script = format!("{VARIABLE}={both} exec sleep 1000");
    let pid = started.shell(&outer, &script);
    wait_for("the inner mark", || pids(&find(&inner)) == [pid]);
    assert_eq!(pids(&find(&outer.worker(1))), [pid]);
    assert_eq!(find(&outer.worker(2)), []);
    assert_eq!(end(&outer, LONG).gone, 1);
}

#[test]
fn this_process_and_those_that_it_descends_from_are_spared() {
    let process = |pid, parent, start| Stat {
        start,
        ..sleeping(pid, parent)
    };
    let dead = Stat {
        state: b'Z',
        ..process(8, 3, 50)
    };
    let me = std::process::id();
    let table: BTreeMap<u32, Stat> = [
        process(1, 0, 0),
        process(3, 1, 10),
        process(4, 3, 20),
        process(5, 4, 30),
        // Older than its parent: its number was given out again while the table was read.
        process(6, 4, 5),
        process(7, 3, 40),
        dead,
        process(me, 7, 60),
    ]
    .map(|p| (p.pid, p))
    .into();
    let spared = spared(&table);
    assert_eq!(spared, BTreeSet::from([0, 1, 3, 7, me]));
    assert_eq!(pids(&with_descendants(&table, vec![3, 4], &spared)), [4, 5]);
    assert_eq!(with_descendants(&table, vec![3], &spared), []);
}

#[test]
fn only_the_whole_variable_is_a_mark() {
    let mark = ProcessMark {
        prefix: "fe00-2a:".into(),
        since: 0,
        descendants: false,
        cgroup: None,
    };
    assert!(mark.marks(b"A=1\0TUNE_WORKER_OF=fe00-2a:7:8:9:\0B=2\0"));
    assert!(mark.marks(b"TUNE_WORKER_OF=1-1:2:3:4:,fe00-2a:7:8:9:"));
    for other in [
        "",
        "A=fe00-2a:",
        "TUNE_WORKER_OF=fe00-2:",
        "MY_TUNE_WORKER_OF=fe00-2a:",
    ] {
        assert!(!mark.marks(other.as_bytes()), "{other}");
    }
}

#[test]
fn an_ended_process_is_let_go_where_it_is_a_child_of_this_one() {
    let mut started = Started::nothing();
    let mark = mark(8);
    let pid = started.shell(&mark, "exec sleep 1000");
    assert_eq!(end(&mark, LONG).gone, 1);
    assert_eq!(start_of(pid), None);
}

#[test]
fn who_has_lost_its_parent_is_told_so_without_an_allocation() {
    child_of(nix::unistd::getppid()).unwrap();
    let error = child_of(Pid::this()).unwrap_err();
    // An error that carries a number alone is no allocation; one with a text is.
    assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
}

#[test]
fn a_supervisor_is_known_by_its_number_and_its_start() {
    let own = ProcessMark::study((1, 2)).this_run().worker(3);
    let environment = |mark: &str| format!("A=b\0{VARIABLE}={mark}\0C=d\0").into_bytes();
    let (pid, start) = supervisor(&environment(&own.variable(Some("9-9:88:5:0:")))).unwrap();
    assert_eq!((pid, Some(start)), (std::process::id(), start_of(pid)));
    assert_eq!(supervisor(&environment("1-2:88:7:3:")), Some((88, 7)));
    for none in ["", "1-2:", "1-2:x:7:3:"] {
        assert_eq!(supervisor(&environment(none)), None, "{none}");
    }
    assert_eq!(supervisor(b"A=b\0"), None);
    assert!(!outlives_its_supervisor(std::process::id()), "no worker");
}
