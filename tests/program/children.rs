//! Parents and children: nothing that a run has started outlives it, and a run outlives its
//! terminal.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::common::{Project, guardian, lives, signal, stat, wait_for};
use nix::sys::signal::Signal;

/// A run that does not end by itself; a trial takes about 0.36 s.
const ENDLESS: [&str; 9] = [
    "synthetic",
    "--trials",
    "5000",
    "--parallel",
    "2",
    "--set",
    "task.step_ms=8",
    "--set",
    "task.steps=5",
];

/// A run with two workers, and what is known of it.
struct Run {
    project: Project,
    supervisor: Child,
    guardian: u32,
    workers: Vec<u32>,
}

impl Run {
    fn start() -> Run {
        let project = Project::synthetic();
        let supervisor = project.start(&ENDLESS);
        wait_for("workers", || project.workers().len() == 2);
        wait_for("the guardian", || guardian(supervisor.id()).is_some());
        Run {
            guardian: guardian(supervisor.id()).unwrap(),
            workers: project.workers(),
            project,
            supervisor,
        }
    }

    fn kill_supervisor(&mut self) {
        self.supervisor.kill().unwrap();
        self.supervisor.wait().unwrap();
    }
}

impl Drop for Run {
    /// A failed test leaves no run behind.
    fn drop(&mut self) {
        let _ = self.supervisor.kill();
        let _ = self.supervisor.wait();
    }
}

/// A process that carries a worker's mark, as everything does that the worker starts, and that
/// has left its process group.
struct Stray(Child);

impl Stray {
    fn of(worker: u32) -> Stray {
        let environment = std::fs::read(format!("/proc/{worker}/environ")).unwrap();
        let mark = environment
            .split(|b| *b == 0)
            .find_map(|e| e.strip_prefix(b"TUNE_WORKER_OF="))
            .expect("a worker carries a mark");
        let mark = String::from_utf8(mark.to_vec()).unwrap();
        let mut command = Command::new("sleep");
        command.arg("1000").env("TUNE_WORKER_OF", mark);
        // SAFETY: setsid is async-signal-safe.
        unsafe {
            command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?));
        }
        Stray(command.spawn().unwrap())
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Stray {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the descriptors of a process are, by number.
fn descriptors(pid: u32) -> Vec<(u32, String)> {
    let mut found: Vec<(u32, String)> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
        .filter_map(|e| {
            let to = std::fs::read_link(e.path()).ok()?;
            let number = e.file_name().to_str()?.parse().ok()?;
            Some((number, to.to_string_lossy().into_owned()))
        })
        .collect();
    found.sort();
    found
}

#[test]
fn a_killed_supervisor_takes_with_it_what_its_workers_have_started() {
    let mut run = Run::start();
    let mut strays: Vec<Stray> = run.workers.iter().map(|w| Stray::of(*w)).collect();
    run.kill_supervisor();
    wait_for("the strays to be gone", || {
        strays.iter_mut().all(|s| !s.lives())
    });
    wait_for("the workers to be gone", || {
        run.project.workers().is_empty()
    });
    wait_for("the guardian to be gone", || !lives(run.guardian));
}

#[test]
fn a_worker_is_replaced_only_when_what_it_has_started_is_gone() {
    let mut run = Run::start();
    let mut of_first = Stray::of(run.workers[0]);
    let mut of_second = Stray::of(run.workers[1]);
    signal(run.workers[0], Signal::SIGKILL);
    let known = run.workers.clone();
    wait_for("a new worker", || {
        run.project.workers().iter().any(|w| !known.contains(w))
    });
    assert!(!of_first.lives());
    assert!(of_second.lives(), "the other worker's child was ended too");
    signal(run.supervisor.id(), Signal::SIGTERM);
    assert_eq!(run.supervisor.wait().unwrap().code(), Some(4));
    assert!(!of_second.lives());
    assert!(!lives(run.guardian), "the guardian outlived its run");
}

#[test]
fn a_killed_guardian_is_replaced() {
    let mut run = Run::start();
    for _ in 0..2 {
        let old = guardian(run.supervisor.id()).unwrap();
        signal(old, Signal::SIGKILL);
        wait_for("another guardian", || {
            guardian(run.supervisor.id()).is_some_and(|new| new != old)
        });
    }
    let mut stray = Stray::of(run.workers[0]);
    run.kill_supervisor();
    wait_for("the stray to be gone", || !stray.lives());
}

#[test]
fn workers_end_what_they_have_started_where_supervisor_and_guardian_were_killed() {
    let mut run = Run::start();
    let mut stray = Stray::of(run.workers[0]);
    // A supervisor that stands still replaces no guardian.
    signal(run.supervisor.id(), Signal::SIGSTOP);
    signal(run.guardian, Signal::SIGKILL);
    run.kill_supervisor();
    wait_for("the workers and the stray to be gone", || {
        run.project.workers().is_empty() && !stray.lives()
    });
}

#[test]
fn a_stopped_guardian_goes_on_when_the_supervisor_ends() {
    let mut run = Run::start();
    let mut stray = Stray::of(run.workers[0]);
    signal(run.supervisor.id(), Signal::SIGSTOP);
    signal(run.guardian, Signal::SIGSTOP);
    // Nobody else is left to end the stray.
    run.workers.iter().for_each(|w| signal(*w, Signal::SIGKILL));
    run.kill_supervisor();
    wait_for("the stray to be gone", || !stray.lives());
    wait_for("the guardian to be gone", || !lives(run.guardian));
}

#[test]
fn what_nobody_was_left_to_end_is_gone_before_the_next_run_begins() {
    let mut run = Run::start();
    let mut stray = Stray::of(run.workers[0]);
    signal(run.supervisor.id(), Signal::SIGSTOP);
    signal(run.guardian, Signal::SIGKILL);
    run.workers.iter().for_each(|w| signal(*w, Signal::SIGKILL));
    run.kill_supervisor();
    wait_for("the workers to be gone", || {
        run.project.workers().is_empty()
    });
    assert!(stray.lives());
    let again = [&["synthetic", "--trials", "1"], &ENDLESS[5..]].concat();
    let (_, stderr) = run.project.expect(0, &again);
    assert!(!stray.lives());
    assert!(stderr.contains("processes of an earlier run"), "{stderr}");
}

#[test]
fn the_guardian_keeps_nothing_open_and_hears_no_terminal() {
    let run = Run::start();
    let open = descriptors(run.guardian);
    assert_eq!(open.len(), 4, "{open:?}");
    assert!(
        open[..3].iter().all(|(_, to)| to == "/dev/null"),
        "{open:?}"
    );
    assert!(open[3].1.starts_with("socket:"), "{open:?}");
    let (_, _, session) = stat(run.guardian).unwrap();
    assert_eq!(session, run.guardian);
    for name in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signal(run.guardian, name);
    }
    // A signal that is not blocked would have been delivered before this one; a supervisor that stands
    // still does not tell the guardian to go on.
    for (pid, what) in [
        (run.supervisor.id(), "supervisor"),
        (run.guardian, "guardian"),
    ] {
        signal(pid, Signal::SIGSTOP);
        wait_for(&format!("the stop of the {what}"), || {
            stat(pid).is_some_and(|s| s.0 == 'T')
        });
    }
    signal(run.guardian, Signal::SIGCONT);
    signal(run.supervisor.id(), Signal::SIGCONT);
    assert_eq!(guardian(run.supervisor.id()), Some(run.guardian));
}

#[test]
fn a_run_goes_on_when_its_reader_has_gone_away() {
    for json in [&["--json"][..], &[]] {
        let project = Project::synthetic();
        let args = [&["synthetic", "--trials", "200"], json].concat();
        let mut child = project.tune(&args).stderr(Stdio::null()).spawn().unwrap();
        let mut first = String::new();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        reader.read_line(&mut first).unwrap();
        drop(reader);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{json:?}");
        assert_eq!(project.trials("synthetic").len(), 200);
    }
}

#[test]
fn a_run_needs_no_standard_streams_and_no_environment() {
    let project = Project::synthetic();
    let mut child = Command::new("sh")
        .args(["-c", "exec \"$0\" \"$@\" <&- >&- 2>&-"])
        .arg(crate::common::program())
        .arg("-C")
        .arg(project.path())
        .args(ENDLESS)
        .args(["-vv"])
        .env_clear()
        .spawn()
        .unwrap();
    wait_for("workers", || project.workers().len() == 2);
    for (number, to) in descriptors(child.id()).into_iter().take(3) {
        assert!(number < 3 && to == "/dev/null", "{number} is {to}");
    }
    wait_for("a trial", || project.trials("synthetic").len() > 3);
    signal(child.id(), Signal::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(4));
}

#[test]
fn a_run_goes_on_when_its_terminal_has_gone_away() {
    let project = Project::synthetic();
    let (mut terminal, its_other_end) = pseudo_terminal();
    let stdio = || Stdio::from(its_other_end.try_clone().unwrap());
    let mut command = project.tune(&["synthetic", "--trials", "12", "--set", "task.step_ms=8"]);
    command.stdin(stdio()).stdout(stdio()).stderr(stdio());
    // SAFETY: both calls are async-signal-safe; the second makes standard input the terminal.
    unsafe {
        command.pre_exec(|| {
            nix::unistd::setsid()?;
            match libc::ioctl(0, libc::TIOCSCTTY, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let mut child = command.spawn().unwrap();
    drop((command, its_other_end));
    let mut shown = vec![0; 4096];
    wait_for("workers", || {
        // What is shown must be read, or the terminal is full one day.
        let _ = terminal.read(&mut shown);
        !project.workers().is_empty()
    });
    drop(terminal);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(project.trials("synthetic").len(), 12);
}

/// A terminal of 80 columns: the end that shows (reading never waits), and the one for programs.
fn pseudo_terminal() -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let size = libc::winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: two valid places for descriptors, no name, default settings, a valid size.
    let made = unsafe {
        libc::openpty(
            &mut ours,
            &mut theirs,
            std::ptr::null_mut(),
            std::ptr::null(),
            &size,
        )
    };
    assert_eq!(made, 0);
    // SAFETY: both were just made for us.
    let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    // The run must not inherit the end whose closing it is to notice.
    for end in [&ours, &theirs] {
        let close = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC);
        nix::fcntl::fcntl(end, close).unwrap();
    }
    nix::fcntl::fcntl(
        &ours,
        nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK),
    )
    .unwrap();
    assert!(ours.as_raw_fd() > 2);
    (File::from(ours), theirs)
}
