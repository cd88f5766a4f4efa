//! A program, run once to see what it prints.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use config::StudySpec;
use fault::Death;
use messages::exit::Failure;
use nix::sys::signal::Signal;
use process::child::{GroupLeader, lead_group};
use search::space::Params;

/// Lines of standard output that are kept.
const KEPT: usize = 100_000;

/// What was seen.
pub(super) struct Seen {
    /// Lines of standard output.
    pub(super) printed: Vec<String>,
    /// Metric lines.
    pub(super) reported: Vec<String>,
}

/// Runs the program with its parameters' defaults, and shows what it prints if `loud`; after `limit` it is ended, and
/// what it has printed until then counts.
///
/// # Errors
/// It cannot be started, fails, or there is no place for its files.
pub(super) fn run_once(
    spec: &StudySpec,
    cwd: &Path,
    limit: Duration,
    loud: bool,
) -> Result<Seen, Failure> {
    let files = tempfile::tempdir()
        .map_err(|e| Failure::input(format!("no temporary directory can be made: {e}")))?;
    let metrics = files.path().join("metrics.jsonl");
    let mut command =
        task::command::once(spec, &spec.space.point(&Params::new()), cwd, files.path())
            .map_err(|problem| Failure::input(format!("--script: {problem}")))?;
    command.stdout(Stdio::piped()).stdin(Stdio::null());
    command.env("TUNE_METRICS_FILE", &metrics);
    if loud {
        report::err(&format!(
            "running once, to see what it prints: {}",
            shown(&command)
        ));
    } else {
        command.stderr(Stdio::null());
    }
    let (printed, ended) = watch(command, limit, loud)?;
    let reported = ::files::bounded::read_to_string(&metrics, ::files::bounded::REPORTS);
    match ended {
        Some(Death::Exited(0)) | None => Ok(Seen {
            printed,
            reported: reported
                .unwrap_or_default()
                .lines()
                .map(str::to_owned)
                .collect(),
        }),
        Some(death) => Err(Failure::input(format!(
            "{}, so that nothing was written; the last line of its output:\n  {}",
            fault::describe_program(death),
            printed.last().map_or("nothing", |line| line.trim())
        ))),
    }
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// The lines of its standard output, and its end; none where it was ended at the limit.
fn watch(
    mut command: Command,
    limit: Duration,
    loud: bool,
) -> Result<(Vec<String>, Option<Death>), Failure> {
    // SAFETY: nothing is done between fork and exec.
    unsafe { lead_group(&mut command, Signal::SIGKILL, || Ok(())) };
    let mut child = command
        .spawn()
        .map_err(|e| Failure::input(format!("{} cannot be started: {e}", shown(&command))))?;
    let leader = GroupLeader::new(&child);
    let Some(stdout) = child.stdout.take() else {
        return Err(Failure::internal("the program has no output"));
    };
    let (send, lines) = mpsc::channel();
    let reader = thread::Builder::new().name("output".into()).spawn(move || {
        let mut stdout = BufReader::new(stdout);
        let mut line = Vec::new();
        while let Ok(1..) = stdout.read_until(b'\n', &mut line) {
            if send
                .send(String::from_utf8_lossy(&line).into_owned())
                .is_err()
            {
                return;
            }
            line.clear();
        }
    });
    reader.map_err(|e| Failure::internal(format!("cannot start threads: {e}")))?;
    let end = Instant::now() + limit;
    let mut printed: Vec<String> = Vec::new();
    let in_time = loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                let line = line.trim_end().to_owned();
                if loud {
                    report::err(&format!("  | {line}"));
                }
                if printed.len() < KEPT {
                    printed.push(line);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break true,
            Err(RecvTimeoutError::Timeout) => break false,
        }
    };
    // Its output may have been closed before its end.
    let death = match in_time {
        true => Some(leader.reap().death),
        false => {
            leader.end(None);
            report::err("it was ended at --limit; what it has printed counts");
            None
        }
    };
    Ok((printed, death))
}
