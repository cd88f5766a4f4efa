//! `tune watch` in a real terminal: tmux is driven, and what it shows is read.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::common::{Project, lives, program, wait_for};
use nix::sys::signal::Signal;

/// What is not on the screen by then will not come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal of tmux's, with a server of its own.
struct Terminal {
    dir: tempfile::TempDir,
}

/// Settings of a terminal and what is run in it.
struct Session<'a> {
    size: (u16, u16),
    /// Variables beside a UTF-8 locale.
    variables: &'a [(&'a str, &'a str)],
    args: &'a [&'a str],
}

impl Terminal {
    /// Opens one and runs `tune` in it; then it says `left with CODE` and waits. `None` where there is no tmux: on
    /// developers' machines alone, for `.ci/run` installs it.
    fn open(project: &Project, session: &Session<'_>) -> Option<Terminal> {
        if Command::new("tmux").arg("-V").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "tmux is missing");
            return None;
        }
        let terminal = Terminal {
            dir: tempfile::tempdir().unwrap(),
        };
        let mut words = vec!["env".to_owned()];
        words.extend(["NO_COLOR", "TUNE_HOME"].map(|name| format!("-u{name}")));
        words.push("LC_ALL=C.UTF-8".to_owned());
        words.extend(session.variables.iter().map(|(n, v)| format!("{n}={v}")));
        words.push(program().display().to_string());
        words.extend(["-C".to_owned(), project.path().display().to_string()]);
        words.extend(session.args.iter().map(|arg| (*arg).to_owned()));
        let line = words.iter().map(|word| report::shell_word(word));
        let line = line.collect::<Vec<_>>().join(" ");
        let script = format!("{line}; echo left with $?; exec sleep 600");
        let (columns, rows) = (session.size.0.to_string(), session.size.1.to_string());
        let new = ["new-session", "-d", "-x", &columns, "-y", &rows, &script];
        let opened = terminal.tmux(&new);
        assert!(opened.status.success(), "{opened:?}");
        Some(terminal)
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.args(["-u", "-f", "/dev/null", "-S"]);
        command.arg(self.dir.path().join("socket")).args(args);
        command.env_remove("TMUX").env("LC_ALL", "C.UTF-8");
        command.output().unwrap()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn resize(&self, (columns, rows): (u16, u16)) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows]);
    }

    fn screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until a text is on the screen, and gives all of it.
    fn shows(&self, text: &str) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            assert!(start.elapsed() < PATIENCE, "no {text} on\n{screen}");
            std::thread::sleep(Duration::from_millis(40));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// A study with finished trials, and a run of it that goes on for minutes.
fn going_on() -> (Project, std::process::Child) {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "12"]);
    let slow = ["--set", "task.step_ms=400", "--parallel", "2"];
    let run = [&["synthetic", "--trials", "500"], &slow[..]].concat();
    let child = project.start(&run);
    wait_for("trials under way", || {
        let (status, _) = project.expect(0, &["status", "synthetic"]);
        status.matches("worker ").count() == 2
    });
    (project, child)
}

fn end(mut child: std::process::Child) {
    crate::common::signal(child.id(), Signal::SIGQUIT);
    child.wait().unwrap();
}

#[test]
fn a_live_run_is_shown_at_every_width() {
    let (project, child) = going_on();
    for (columns, rows) in [(60, 24), (100, 30), (200, 50)] {
        let session = Session {
            size: (columns, rows),
            variables: &[],
            args: &["watch", "synthetic"],
        };
        let Some(terminal) = Terminal::open(&project, &session) else {
            break;
        };
        let screen = terminal.shows("running 2 of 2 ─");
        let lines: Vec<&str> = screen.lines().collect();
        assert!(lines[0].starts_with("synthetic  minimize loss"), "{screen}");
        assert!(lines[0].contains("running "), "{screen}");
        assert!(lines[1].contains(" of 500 finished"), "{screen}");
        assert!(lines[2].starts_with("best loss "), "{screen}");
        assert!(screen.contains("the best first"), "{screen}");
        assert!(screen.contains("q quit   ? keys"), "{screen}");
        assert!(
            lines
                .iter()
                .all(|line| line.chars().count() <= usize::from(columns))
        );
        terminal.keys(&["q"]);
        terminal.shows("left with 0");
        assert!(lives(child.id()));
    }
    end(child);
}

#[test]
fn keys_filter_sort_open_and_lead_back_and_the_terminal_may_change_its_size() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "30", "--seed", "3"]);
    let session = Session {
        size: (100, 30),
        variables: &[],
        args: &["watch"],
    };
    let Some(terminal) = Terminal::open(&project, &session) else {
        return;
    };
    let screen = terminal.shows("trials 30, the best first");
    assert!(screen.contains("finished"), "{screen}");
    terminal.keys(&["/", "state=pruned", "Enter"]);
    let pruned = project
        .trials("synthetic")
        .iter()
        .filter(|t| t["state"] == "PRUNED")
        .count();
    terminal.shows(&format!(
        "trials {pruned} of 30, the best first, /state=pruned"
    ));
    terminal.keys(&["Escape"]);
    terminal.shows("trials 30, the best first");
    terminal.keys(&["s", "r"]);
    terminal.shows("trials 30, by trial, reversed");
    terminal.keys(&["Enter"]);
    terminal.shows("differs from the defaults");
    assert!(terminal.screen().starts_with("trial 29  "));
    terminal.keys(&["n"]);
    terminal.shows("trial 28  ");
    terminal.resize((60, 20));
    terminal.shows("trial 28  ");
    terminal.keys(&["Escape"]);
    terminal.shows("by trial, reversed");
    terminal.keys(&["?"]);
    terminal.shows("This view only reads");
    terminal.resize((160, 40));
    terminal.keys(&["Escape"]);
    terminal.shows("trials 30, by trial, reversed");
    terminal.keys(&["C-c"]);
    terminal.shows("left with 0");
}

#[test]
fn a_signal_and_a_suspension_leave_a_terminal_that_works() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "3", "--seed", "3"]);
    let session = Session {
        size: (80, 24),
        variables: &[],
        args: &["watch"],
    };
    let Some(terminal) = Terminal::open(&project, &session) else {
        return;
    };
    terminal.shows("trials 3, the best first");
    let own = project.path().display().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let watching = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.starts_with(&program().display().to_string()) && line.contains(&own)
    };
    let pid = pids.find(watching).unwrap();
    crate::common::signal(pid, Signal::SIGSTOP);
    crate::common::signal(pid, Signal::SIGCONT);
    terminal.keys(&["j", "Enter"]);
    terminal.shows("parameters");
    crate::common::signal(pid, Signal::SIGTERM);
    let screen = terminal.shows("left with 4");
    assert!(!screen.contains("parameters"), "{screen}");
}

#[test]
fn a_plain_terminal_gets_ascii_and_a_dumb_one_lines() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "9", "--seed", "3"]);
    let plain = Session {
        size: (100, 30),
        variables: &[("LC_ALL", "C"), ("NO_COLOR", "1")],
        args: &["watch"],
    };
    let Some(terminal) = Terminal::open(&project, &plain) else {
        return;
    };
    let screen = terminal.shows("trials 9, the best first --");
    assert!(screen.is_ascii(), "{screen}");
    let coloured = terminal.tmux(&["capture-pane", "-p", "-e"]);
    let coloured = String::from_utf8_lossy(&coloured.stdout).into_owned();
    // 39 and 49 are the terminal's own colours.
    let colours = (0..8).flat_map(|c| ["3", "4", "9", "10"].map(|kind| format!("[{kind}{c}m")));
    let found = colours.filter(|colour| coloured.contains(colour.as_str()));
    assert_eq!(found.collect::<Vec<_>>(), Vec::<String>::new());
    drop(terminal);
    let dumb = Session {
        variables: &[("TERM", "dumb")],
        ..plain
    };
    let terminal = Terminal::open(&project, &dumb).unwrap();
    let screen = terminal.shows("left with 0");
    assert!(screen.contains("state          finished"), "{screen}");
}

#[test]
fn where_there_is_no_terminal_it_is_status() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "3"]);
    let (watched, _) = project.expect(0, &["watch"]);
    let (status, _) = project.expect(0, &["status", "synthetic"]);
    let until_ago = |text: &str| text.split("last activity").next().unwrap().to_owned();
    assert_eq!(until_ago(&watched), until_ago(&status));
    let (json, _) = project.expect(0, &["watch", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["state"], &json["version"]),
        (&"finished".into(), &1.into())
    );
    let (_, error) = project.expect(2, &["watch", "other"]);
    assert!(error.contains("other"), "{error}");
}

#[test]
fn a_run_on_a_terminal_opens_the_view_and_tells_its_lines_when_it_is_left() {
    let project = Project::synthetic();
    let args = ["synthetic", "--trials", "500", "--set", "task.step_ms=100"];
    let run = Session {
        size: (100, 30),
        variables: &[],
        args: &args,
    };
    let Some(terminal) = Terminal::open(&project, &run) else {
        return;
    };
    terminal.shows("running 1 ─");
    terminal.keys(&["q"]);
    terminal.shows("Leave the view? The run goes on.");
    terminal.keys(&["Enter"]);
    // What was told meanwhile is there, and the run goes on.
    let lines = terminal.shows("[1/500] trial 0 COMPLETE loss ");
    assert!(!lines.contains("Leave the view"), "{lines}");
    terminal.shows("[4/500]");
    terminal.keys(&["C-c"]);
    terminal.shows("to continue: run the same command again");
    terminal.shows("left with 4");
    drop(terminal);

    let terminal = Terminal::open(&project, &run).unwrap();
    terminal.shows("running 1 ─");
    terminal.keys(&["C-c"]);
    let lines = terminal.shows("left with 4");
    assert!(lines.contains("stopped by a signal"), "{lines}");
    drop(terminal);

    let args = [&args[..], &["--plain"]].concat();
    let plain = Session { args: &args, ..run };
    let terminal = Terminal::open(&project, &plain).unwrap();
    terminal.shows("running trial");
    assert!(!terminal.screen().contains("the best first"));
    terminal.keys(&["C-c", "C-c"]);
    terminal.shows("left with 4");
}

/// Processes that watch a study of this project.
fn watching(project: &Project) -> Vec<u32> {
    let path = project.path().display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let watches = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words[0].ends_with(b"/tune")
            && words.contains(&path.as_bytes())
            && words.contains(&&b"watch"[..])
    };
    pids.filter(watches).collect()
}

#[test]
fn a_view_ends_with_its_terminal() {
    let project = Project::synthetic();
    project.expect(0, &["synthetic", "--trials", "3"]);
    let session = Session {
        size: (100, 30),
        variables: &[],
        args: &["watch", "synthetic"],
    };
    let Some(terminal) = Terminal::open(&project, &session) else {
        return;
    };
    terminal.shows("q quit");
    assert_eq!(watching(&project).len(), 1);
    drop(terminal);
    wait_for("the end of the view", || watching(&project).is_empty());
}
