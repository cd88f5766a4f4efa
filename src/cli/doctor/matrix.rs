//! A command run again under one change at a time: what is asked, its progress, and what is told.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use serde::Serialize;

use super::super::{Common, run};
use super::DoctorArgs;
use crate::replay::stopped_by_signals;
use doctor::change::{Change, Host, Setting};
use doctor::examine::{CutShort, Examined, Request, RunEnded, examine};
use doctor::hypothesis::{Hypothesis, hypotheses};
use doctor::matrix::Verdict;
use doctor::notes::{Batch, Longest};
use doctor::run::Stop;
use doctor::signature::Signature;
use doctor::signs::{HostFacts, Sign};
use doctor::statistics::{self, Rate};
use messages::exit::{Exit, Failure};
use report::format::plural;

/// What the runs have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// It fails, and causes are ranked.
    Found,
    /// It did not fail here.
    DoesNotFail,
    /// The budget was used up before causes could be told apart.
    Unclear,
    /// A signal ended the runs.
    Stopped,
}

impl Answer {
    /// The exit code that says so.
    pub(super) fn exit(self) -> Exit {
        match self {
            Answer::Found => Exit::Breaker,
            Answer::DoesNotFail => Exit::Done,
            Answer::Unclear => Exit::Budget,
            Answer::Stopped => Exit::Stopped,
        }
    }
}

/// The runs of a command, told.
#[derive(Debug, Serialize)]
pub(super) struct RunAnswer {
    command: Vec<String>,
    pub(super) answer: Answer,
    /// One line that says what it is.
    headline: String,
    failures: Vec<Signature>,
    /// What the program had caught, and hidden by words of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<Signature>,
    /// Exceptions that it had gone on from although they may be why it failed in the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    caught_earlier: Vec<String>,
    base: Rate,
    /// How often it fails, in 0 to 1, as estimated.
    rate: Option<f64>,
    changes: Vec<ChangeTold>,
    /// What was seen of it before anything was changed.
    signs: BTreeSet<Sign>,
    batch: Option<Batch>,
    rows: Option<Vec<u64>>,
    /// The same rows as the dataset numbers them of which the loader has a part (`Subset`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dataset_rows: Vec<u64>,
    /// Both in words.
    #[serde(skip)]
    told_rows: Option<String>,
    operation: Option<String>,
    /// The operation that took longest, where they were traced.
    longest: Option<Longest>,
    /// The kernel that compute-sanitizer has named.
    kernel: Option<String>,
    hypotheses: Vec<Hypothesis>,
    runs: usize,
    seconds: f64,
    /// The end of what a failing run printed.
    output: String,
}

impl RunAnswer {
    /// The end of what a failing run printed.
    pub(super) fn output(&self) -> &str {
        &self.output
    }
}

/// One change with its runs.
#[derive(Debug, Serialize)]
struct ChangeTold {
    name: String,
    what: String,
    verdict: Verdict,
    runs: Rate,
    #[serde(skip_serializing_if = "Option::is_none")]
    other: Option<Signature>,
}

/// Lines of a failing run's output that are told.
const LINES: usize = 30;

/// The training of a task as a command: one rung of the ladder.
pub(super) fn training(common: &Common, args: &DoctorArgs, task: &str) -> Vec<String> {
    // The program itself, wherever it was found.
    let program =
        std::env::current_exe().map_or_else(|_| "tune".to_owned(), |p| p.display().to_string());
    let mut words = vec![program];
    if let Some(dir) = &common.dir {
        words.extend(["-C".to_owned(), dir.display().to_string()]);
    }
    words.extend(["rung", "pipeline", task].map(str::to_owned));
    if let Some(device) = &args.device {
        words.extend(["--device".to_owned(), device.clone()]);
    }
    for (key, value) in &args.set {
        words.extend(["--set".to_owned(), format!("{key}={value}")]);
    }
    words
}

/// Examines the command.
pub(super) fn examined(
    common: &Common,
    args: &DoctorArgs,
    words: Vec<String>,
) -> Result<RunAnswer, Failure> {
    let dir = tempfile::tempdir()
        .map_err(|e| Failure::storage(format!("no directory for notes: {e}")))?;
    let request = request(args, words, dir.path())?;
    let signal = stopped_by_signals()?;
    let loud = !common.quiet;
    let mut heard = |ended: &RunEnded| {
        if loud {
            report::err(&progress(ended));
        }
    };
    let found = examine(&request, &mut heard, &|| signal.load(Ordering::Relaxed));
    let found = found.map_err(|e| {
        let unquoted = match request.words.as_slice() {
            [one] if one.contains(char::is_whitespace) => {
                "; the command and its arguments stand there as in a shell, without quotes around them all"
            }
            _ => "",
        };
        Failure::input(format!(
            "{} cannot be run: {e}{unquoted}",
            report::shell_line(&request.words)
        ))
    })?;
    Ok(told(&request, &found))
}

fn request(
    args: &DoctorArgs,
    words: Vec<String>,
    dir: &std::path::Path,
) -> Result<Request, Failure> {
    let keys = args.task.is_some();
    let pair = |(name, value): &(String, String)| match keys {
        true => Setting::Key(name.clone(), value.clone()),
        false => Setting::Option(name.clone(), value.clone()),
    };
    let variable =
        |(name, value): &(String, String)| Setting::Variable(name.clone(), value.clone());
    let own = args
        .vary
        .iter()
        .map(pair)
        .chain(args.vary_env.iter().map(variable));
    let fixed: Result<BTreeSet<Setting>, Failure> =
        args.fix.iter().map(|text| fixed(text, keys)).collect();
    let host = host();
    let facts = HostFacts {
        shared_memory: doctor::machine::shared_memory(),
        library_path: ["LD_LIBRARY_PATH", "LD_PRELOAD"]
            .iter()
            .any(|n| host.variables.contains_key(*n)),
        locale: host.locale_differs(),
        wsl: doctor::machine::wsl(),
        dangling_link: host.dangling_link.is_some(),
    };
    Ok(Request {
        words,
        options: !keys,
        fixed: fixed?,
        own: own.collect(),
        budget: args.budget,
        deadline: args.deadline,
        all: args.all,
        host,
        facts,
        dir: dir.to_owned(),
    })
}

/// A change that is to hold in every run.
fn fixed(text: &str, keys: bool) -> Result<Setting, Failure> {
    if let Ok(change) = text.parse::<Change>() {
        return Ok(Setting::Change(change));
    }
    match text.split_once('=') {
        Some((name, value)) if keys => Ok(Setting::Key(name.to_owned(), value.to_owned())),
        Some((name, value)) => Ok(Setting::Option(name.to_owned(), value.to_owned())),
        None => {
            let names: Vec<String> = Change::ALL.iter().map(Change::to_string).collect();
            Err(Failure::input(format!(
                "--fix {text}: expected NAME=VALUE or one of {}",
                names.join(", ")
            )))
        }
    }
}

fn host() -> Host {
    let variables = doctor::change::variables();
    let nvidia = std::path::Path::new("/dev/nvidiactl").exists()
        || std::path::Path::new("/dev/dxg").exists();
    Host {
        gpu: nvidia || std::env::var_os(device::probe::LIBRARY).is_some(),
        sanitizer: run::on_path("compute-sanitizer"),
        variables,
        dangling_link: doctor::links::dangling_link(std::path::Path::new(".")),
    }
}

/// A line of progress: what was changed and how it ended.
fn progress(ended: &RunEnded) -> String {
    let what = match ended.what.as_str() {
        "" => "as it is",
        what => what,
    };
    let time = report::format::duration(ended.time);
    let end = match (&ended.failure, ended.stop) {
        (Some(failure), _) => format!("failed after {time}: {}", failure.text()),
        (None, Some(Stop::Survived)) => format!("goes on after {time}, and was ended here"),
        (None, Some(Stop::Behind)) => {
            format!("ended here after {time}, not as far as the runs that failed")
        }
        (None, Some(Stop::Budget)) => format!("ended here after {time}"),
        (None, Some(Stop::Hung(_)) | None) => format!("ended well after {time}"),
    };
    format!("[{}] {what}: {end}", ended.number)
}

fn told(request: &Request, found: &Examined) -> RunAnswer {
    let matrix = &found.matrix;
    let base = matrix.base.runs;
    let answer = match found.cut_short {
        Some(CutShort::Signal) => Answer::Stopped,
        Some(CutShort::Budget) if base.failed == 0 && !matrix.notes.is_mistaken() => {
            Answer::Unclear
        }
        Some(CutShort::Budget) | None if base.failed == 0 => Answer::DoesNotFail,
        Some(CutShort::Budget) if matrix.series.is_empty() => Answer::Unclear,
        Some(CutShort::Budget) | None => Answer::Found,
    };
    // Addresses of libtorch's code tell nothing without its symbols.
    let tells = |line: &&str| !line.starts_with("frame #");
    let lines: Vec<&str> = found.output.lines().filter(tells).collect();
    let output = lines[lines.len().saturating_sub(LINES)..].join("\n");
    let changes = matrix.series.iter().map(|(settings, series)| ChangeTold {
        name: settings
            .iter()
            .map(Setting::name)
            .collect::<Vec<_>>()
            .join(" and "),
        what: doctor::change::told(settings),
        verdict: matrix.verdict(settings, series),
        runs: series.runs,
        other: series.other.clone(),
    });
    RunAnswer {
        command: request.words.clone(),
        answer,
        headline: headline(answer, found),
        failures: matrix.failures.clone(),
        hidden: matrix.hidden.clone(),
        caught_earlier: matrix
            .caught_earlier
            .iter()
            .map(|(told, _)| told.clone())
            .collect(),
        base,
        rate: (base.failed > 0).then(|| base.expected()),
        changes: changes.collect(),
        signs: matrix.evidence.signs.clone(),
        batch: matrix.notes.batch.clone().filter(|_| base.failed > 0),
        rows: found.rows.as_ref().map(|r| r.rows.clone()),
        dataset_rows: found.dataset_rows(),
        told_rows: found.told_rows(),
        operation: matrix.notes.operation.clone().filter(|_| base.failed > 0),
        longest: matrix.notes.longest.clone().filter(|_| base.failed > 0),
        kernel: found.kernel.clone(),
        hypotheses: hypotheses(found),
        runs: found.runs,
        seconds: found.time.as_secs_f64(),
        output,
    }
}

/// What it is, first of all: the two illegal instructions are told apart here.
fn headline(answer: Answer, found: &Examined) -> String {
    let base = found.matrix.base.runs;
    let signs = &found.matrix.evidence.signs;
    let runs = plural(base.all.into(), "run");
    match (answer, found.matrix.failures.first()) {
        (_, None) if base.all == 0 => {
            "no run has ended: whether it fails is not known yet".to_owned()
        }
        (Answer::DoesNotFail | Answer::Unclear, None) => format!(
            "it did not fail in {runs}: it fails less often than in {:.0} % of runs (95 %)",
            100.0 * statistics::excluded_rate(base.all)
        ),
        (_, None) => format!("it did not fail in {runs}"),
        (_, Some(_)) if signs.contains(&Sign::IllegalInstruction) => {
            "an illegal instruction of the processor (SIGILL), not of the GPU (CUDA error 715)"
                .to_owned()
        }
        (_, Some(_)) if signs.contains(&Sign::CudaIllegalInstruction) => {
            "an illegal instruction of the GPU (CUDA error 715), not of the processor (SIGILL)"
                .to_owned()
        }
        (_, Some(failure)) => failure.text(),
    }
}

/// For people.
pub(super) fn text(answer: &RunAnswer) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", answer.headline);
    if let Some(hidden) = &answer.hidden {
        let place = hidden.line.as_ref();
        let place = place.map_or_else(String::new, |line| format!(" ({line})"));
        let words = hidden
            .message
            .split_once(": ")
            .map_or("", |(_, words)| words);
        let known = !words.is_empty() && answer.headline.contains(words);
        let what = if known { "which was" } else { "which hides" };
        let _ = writeln!(text, "  {what}: {}{place}", hidden.message);
    }
    for caught in &answer.caught_earlier {
        let _ = writeln!(text, "  it had caught earlier: {caught}");
    }
    let _ = writeln!(text, "  command: {}", report::shell_line(&answer.command));
    let seconds = std::time::Duration::from_secs_f64(answer.seconds.max(0.0));
    let _ = writeln!(
        text,
        "  as it is: {} of {} failed; {} in {}",
        answer.base.failed,
        plural(answer.base.all.into(), "run"),
        plural(answer.runs as u64, "run"),
        report::format::duration(seconds)
    );
    table(&mut text, &answer.changes);
    place(&mut text, answer);
    if answer.base.failed == 0 && !answer.hypotheses.is_empty() {
        let _ = writeln!(text, "what may be wrong all the same:");
    }
    for (at, hypothesis) in answer.hypotheses.iter().enumerate() {
        let percent = 100.0 * hypothesis.probability;
        let _ = writeln!(text, "{}. {percent:.0} %: {}", at + 1, hypothesis.what);
        let mut list = |word: &str, lines: &[String]| {
            if !lines.is_empty() {
                let _ = writeln!(text, "     {word}: {}", lines.join("; "));
            }
        };
        list("for", &hypothesis.evidence_for);
        list("against", &hypothesis.evidence_against);
        list("next", std::slice::from_ref(&hypothesis.remedy));
        list("tried, and did not fail", hypothesis.workaround.as_slice());
    }
    text
}

/// One line a change, in columns.
fn table(text: &mut String, changes: &[ChangeTold]) {
    let wide = changes
        .iter()
        .map(|c| c.what.chars().count())
        .max()
        .unwrap_or(0);
    for change in changes {
        let runs = change.runs;
        let other = match (&change.other, change.verdict) {
            (Some(other), Verdict::Other) => format!(": {}", other.text()),
            (Some(_) | None, _) => String::new(),
        };
        let _ = writeln!(
            text,
            "  {:wide$}  {} of {} failed: {}{other}",
            change.what, runs.failed, runs.all, change.verdict
        );
    }
}

/// Where it happens: batch, rows, operation.
fn place(text: &mut String, answer: &RunAnswer) {
    if let Some(batch) = answer.batch.as_ref().filter(|batch| batch.taken > 0) {
        let _ = writeln!(
            text,
            "  last batch: number {} of loader {}",
            batch.batch, batch.loader
        );
    }
    if let Some(rows) = &answer.told_rows {
        let _ = writeln!(text, "  fails alone with {rows}");
    }
    if let Some(operation) = &answer.operation {
        let _ = writeln!(text, "  last operation: {operation}");
    }
    if let Some(longest) = answer.longest.as_ref().filter(|_| doctor::machine::wsl()) {
        let _ = writeln!(
            text,
            "  longest operation: {longest}; Windows resets a GPU after 2 s in one kernel"
        );
    }
    if let Some(kernel) = &answer.kernel {
        let _ = writeln!(text, "  compute-sanitizer names the kernel {kernel}");
    }
}
