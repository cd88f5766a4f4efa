//! Evidence and its classification.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{ErrorReport, Phase, ProgramEnd};

use super::text::{self, Diagnosis, diagnose};
use super::{Fault, FaultKind, cuda};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Death {
    /// It exited with this status.
    Exited(i32),
    /// It was ended by this signal.
    Signaled(i32),
    /// Its end could not be observed.
    Unknown,
}

/// Everything known about the end of an attempt or of a worker.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evidence {
    /// The last error message of the worker.
    pub error: Option<ErrorReport>,
    /// How the process ended; `None` while it lives.
    pub death: Option<Death>,
    /// `tune` itself asked the process to end, for a reason that is not the attempt's.
    pub asked: bool,
    /// It was ended because there had been no step for this long.
    pub silent: Option<Duration>,
    /// It was ended because the attempt had run for this long, the longest that one may.
    pub overtime: Option<Duration>,
    /// It was found stopped (state T: SIGSTOP, a debugger).
    pub stopped: bool,
    /// It sent what is no message.
    pub garbage: Option<String>,
    /// Processes that the kernel's OOM killer ended in the worker's cgroup since its start.
    pub oom_kills: u64,
    /// Xids that the driver reported for its GPU about that time.
    pub xids: Vec<u32>,
    /// The driver has lost its GPU, whether or not an Xid has told so.
    pub gpu_lost: bool,
    /// The end of what it printed.
    pub tail: String,
    /// The phase it was in.
    pub phase: Option<Phase>,
}

impl Evidence {
    /// Of a program, whose end says more than `text`, which is for people.
    pub fn of_program(end: ProgramEnd, text: impl Into<String>) -> Evidence {
        Evidence {
            error: Some(ErrorReport {
                program: Some(end),
                ..ErrorReport::new(Phase::Training, text)
            }),
            ..Evidence::default()
        }
    }
}

/// What is said of a GPU that the driver has lost.
pub const GPU_LOST: &str = "the driver has lost the GPU";

/// Classifies. The order of the questions is the order of certainty: what `tune` did itself, and what
/// the kernel says, then what the worker said, then what it printed, then the signal.
///
/// What was printed may hold any text of the task, also of errors that it has handled. So it explains
/// a death, and it tells the place of an assertion; it never overrides what a worker reported, and a
/// kill from outside it explains only by a sticky CUDA error.
pub fn classify(evidence: &Evidence) -> Fault {
    let late = evidence.silent.is_some() || evidence.overtime.is_some();
    let by_tune = evidence.asked || evidence.stopped || late;
    if let Some(error) = &evidence.error
        && let Some(end) = &error.program
        && !by_tune
        && !evidence.gpu_lost
        && !evidence.xids.iter().any(|x| text::takes_the_gpu(*x))
    {
        let mut fault = super::program::classify(end, &error.text);
        (fault.kind, fault.detail) = with_xid(evidence, fault.kind, fault.detail);
        return fault;
    }
    let reported = evidence.error.as_ref().and_then(|e| diagnose(&e.text));
    let printed = diagnose(&evidence.tail);
    let (kind, detail) = kind_and_detail(evidence, reported.as_ref(), printed.as_ref());
    let printed = printed.filter(|_| kind.of_cuda());
    let decided = reported.or_else(|| printed.clone());
    let (name, code) = decided.map_or((None, None), |d| (d.name, d.code));
    Fault {
        kind,
        detail,
        text: match &evidence.error {
            Some(error) => plain(&error.text),
            None => printed
                .as_ref()
                .map_or_else(String::new, |d| d.text.clone()),
        },
        name,
        code,
        // The kernel prints it on the process's own output, whatever the library reports.
        place: printed.and_then(|d| d.place),
        own_line: None,
    }
}

fn kind_and_detail(
    evidence: &Evidence,
    reported: Option<&Diagnosis>,
    printed: Option<&Diagnosis>,
) -> (FaultKind, String) {
    if evidence.asked {
        return (FaultKind::Interrupted, "stopped by tune".into());
    }
    if evidence.stopped {
        return (
            FaultKind::Interrupted,
            "the process was stopped (SIGSTOP)".into(),
        );
    }
    // A lost GPU answers nothing: the silence is not the trial's.
    if let Some(xid) = evidence.xids.iter().find(|x| text::takes_the_gpu(**x)) {
        return (FaultKind::DeviceLost, text::describe_xid(*xid));
    }
    if evidence.gpu_lost {
        return (FaultKind::DeviceLost, GPU_LOST.into());
    }
    let text = |time: Duration| {
        humantime::format_duration(Duration::from_secs(time.as_secs())).to_string()
    };
    if let Some(limit) = evidence.overtime {
        let detail = format!(
            "the attempt ran for longer than {} (--trial-limit)",
            text(limit)
        );
        return (FaultKind::TimeLimit, detail);
    }
    if let Some(silent) = evidence.silent {
        let what = match evidence.phase {
            Some(Phase::Opening) => "not ready after",
            Some(Phase::Seeding | Phase::Training) | None => "no training step for",
        };
        return (FaultKind::Hang, format!("{what} {}", text(silent)));
    }
    if evidence.oom_kills > 0 && evidence.death == Some(Death::Signaled(SIGKILL)) {
        return (FaultKind::HostOom, "killed by the host's OOM killer".into());
    }
    if let Some(error) = &evidence.error {
        let kind = error_kind(error, reported);
        let detail = cuda_summary(kind, &error.text).unwrap_or_else(|| first_lines(&error.text));
        return (kind, detail);
    }
    if let Some(sticky) = printed.filter(|d| d.kind.loses_context()) {
        return (
            by_phase(evidence.phase, FaultKind::CudaSticky),
            sticky.text.clone(),
        );
    }
    if let Some(garbage) = &evidence.garbage {
        return (FaultKind::Protocol, garbage.clone());
    }
    if let Some(last) = last_words(evidence) {
        return (last.kind, last.text);
    }
    let (kind, detail) = death_kind(evidence);
    with_xid(evidence, kind, detail)
}

/// A crash while the driver reported that a context of the GPU was lost: it is nearly always the
/// same event, and the verdict on it does not rest on it alone.
fn with_xid(evidence: &Evidence, kind: FaultKind, detail: String) -> (FaultKind, String) {
    let lost = evidence.xids.iter().find(|x| text::loses_context(**x));
    match lost.filter(|_| kind == FaultKind::Crash) {
        Some(xid) => (
            by_phase(evidence.phase, FaultKind::CudaSticky),
            format!("{detail}; {}", text::describe_xid(*xid)),
        ),
        None => (kind, detail),
    }
}

/// What explains a crash: an error that stands among the last lines printed. Not a kill: whoever
/// sent it did not ask what had been printed.
fn last_words(evidence: &Evidence) -> Option<Diagnosis> {
    const LINES: usize = 40;
    let crashed = match evidence.death? {
        Death::Exited(_) => true,
        Death::Signaled(signal) => CRASH_SIGNALS.contains(&signal),
        Death::Unknown => false,
    };
    let lines: Vec<&str> = evidence.tail.lines().filter(|l| !is_frame(l)).collect();
    let end = lines[lines.len().saturating_sub(LINES)..].join("\n");
    diagnose(&end).filter(|d| crashed && d.kind.of_resources())
}

/// Whether a line belongs to a printed stack, Rust's or C++'s.
pub(super) fn is_frame(line: &str) -> bool {
    let line = line.trim_start();
    let numbered = line.split_once(':').is_some_and(|(number, _)| {
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    });
    numbered || line.starts_with("at ") || line.starts_with("frame #")
}

/// A reported error, by its text and by what the health check said after it.
fn error_kind(error: &ErrorReport, diagnosis: Option<&Diagnosis>) -> FaultKind {
    let phase = Some(error.phase);
    let said = diagnosis.map_or(FaultKind::TaskError, |d| d.kind);
    // libtorch says in words of its own that there is no device ("No CUDA GPUs are available").
    let about_cuda = said == FaultKind::DeviceLost || cuda::cuda_text(&error.text);
    if error.phase == Phase::Opening && !about_cuda {
        return FaultKind::OpenFailed;
    }
    // Before the training it is not the trial that needs the memory.
    if said == FaultKind::Oom && error.phase != Phase::Training {
        return FaultKind::Poisoned;
    }
    // What a library answers where it gets no memory it also answers in a lost context.
    let status = diagnosis.is_some_and(|d| d.code.is_none() && d.name.is_some());
    if said == FaultKind::Oom && status && error.healthy == Some(false) {
        return FaultKind::CudaSticky;
    }
    if said.of_resources() {
        return said;
    }
    let sticky = said.loses_context() || cuda::sticky(&error.text);
    if sticky || error.healthy == Some(false) {
        return by_phase(phase, FaultKind::CudaSticky);
    }
    match said {
        FaultKind::CudaUnclear if error.healthy.is_none() => {
            by_phase(phase, FaultKind::CudaUnclear)
        }
        FaultKind::CudaUnclear | FaultKind::CudaTransient => {
            by_phase(phase, FaultKind::CudaTransient)
        }
        FaultKind::Diverged if error.phase == Phase::Training => FaultKind::Diverged,
        // The worker lives and has told of an error itself: what its text says of signals, exits
        // and time-outs is about others.
        FaultKind::Diverged
        | FaultKind::TaskError
        | FaultKind::Interrupted
        | FaultKind::Killed
        | FaultKind::Crash
        | FaultKind::Hang
        | FaultKind::TimeLimit
        | FaultKind::Protocol
        | FaultKind::OpenFailed
        | FaultKind::Oom
        | FaultKind::HostOom
        | FaultKind::DeviceLost
        | FaultKind::Descriptors
        | FaultKind::CudaSticky
        | FaultKind::Poisoned => {
            if error.phase == Phase::Seeding {
                FaultKind::Poisoned
            } else {
                FaultKind::TaskError
            }
        }
    }
}

/// Before the first step the trial cannot have caused a CUDA error.
fn by_phase(phase: Option<Phase>, in_training: FaultKind) -> FaultKind {
    match phase {
        Some(Phase::Seeding | Phase::Opening) => FaultKind::Poisoned,
        Some(Phase::Training) | None => in_training,
    }
}

fn death_kind(evidence: &Evidence) -> (FaultKind, String) {
    match evidence.death {
        Some(Death::Signaled(signal)) => {
            let name = signal_name(signal);
            let from_outside = format!("the worker was ended by {name} from outside");
            match signal {
                SIGKILL => (FaultKind::Killed, from_outside),
                _ if asks_to_end(signal) => (FaultKind::Interrupted, from_outside),
                SIGXCPU | SIGXFSZ => (
                    FaultKind::Crash,
                    format!("the worker died of {name}: a limit (ulimit) was reached"),
                ),
                _ => (FaultKind::Crash, format!("the worker died of {name}")),
            }
        }
        Some(Death::Exited(code)) => (
            FaultKind::Crash,
            format!("the worker exited with status {code}, which nobody asked for"),
        ),
        Some(Death::Unknown) | None => (FaultKind::Crash, "the worker is gone".into()),
    }
}

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
pub(super) const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;

/// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS.
pub(super) const CRASH_SIGNALS: [i32; 9] = [4, 5, 6, 7, 8, 11, 24, 25, 31];

/// Signals by which service managers and batch systems stop everything.
pub(super) fn asks_to_end(signal: i32) -> bool {
    matches!(signal, SIGTERM | SIGINT | SIGHUP | SIGQUIT)
}

pub(super) fn signal_name(signal: i32) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(known) => known.as_str().to_owned(),
        Err(_) => format!("signal {signal}"),
    }
}

/// `CUDA error: device-side assert triggered (cudaErrorAssert, 710)`: of an error of the device that
/// has a name. The whole text is in the attempt's log.
fn cuda_summary(kind: FaultKind, text: &str) -> Option<String> {
    let of_the_device = matches!(
        kind,
        FaultKind::Poisoned | FaultKind::CudaTransient | FaultKind::CudaSticky
    );
    let found = cuda::find(text).filter(|_| of_the_device)?;
    Some(format!(
        "CUDA error: {} ({}, {})",
        found.text, found.name, found.code
    ))
}

/// What a panic says of an error of libtorch is that error's debug form, with its line ends escaped:
/// gives the error itself, and any other text as it is.
fn plain(text: &str) -> String {
    match text.split_once("on an `Err` value: Torch(\"") {
        Some((_, error)) => {
            let end = error.find("\")\nat ").unwrap_or(error.len());
            error[..end].replace("\\n", "\n")
        }
        None => text.to_owned(),
    }
}

/// The text up to the C++ stack, at most three lines.
fn first_lines(text: &str) -> String {
    let text = plain(text);
    let text = text.split("Exception raised from").next().unwrap_or(&text);
    text.lines()
        .map(str::trim_end)
        .filter(|l| !l.is_empty())
        .take(3)
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
#[path = "evidence_tests.rs"]
mod tests;
