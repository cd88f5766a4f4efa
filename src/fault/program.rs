//! The end of a program that a task has run: what its exit status and what it printed say.
//!
//! A worker's own end is somebody's fault in itself; a program may also end with a status to say that
//! its work has failed. So the status is asked less here, and the text more.

use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::evidence::{CRASH_SIGNALS, Death, SIGKILL, asks_to_end, is_frame, signal_name};
use super::text::{Diagnosis, diagnose};
use super::{Fault, FaultKind, own_line, pattern};

/// How a program ended, and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramEnd {
    /// Exit status or signal.
    pub death: Death,
    /// It had been stopped (SIGSTOP) again and again, and that is why it was ended.
    pub stopped: bool,
    /// Processes that the kernel's OOM killer ended in its cgroup while it ran.
    pub oom_kills: u64,
    /// The end of what it printed, standard output and error together.
    pub output: String,
}

/// Shells end with 128 and the number of the signal that ended their command.
const SHELL: i32 = 128;

/// The greatest number of a signal.
const LAST_SIGNAL: i32 = 64;

/// Among so many lines stands what a program says when it gives up.
const LAST_LINES: usize = 25;

/// The same where libraries print their state before they abort.
const LAST_LINES_OF_A_CRASH: usize = 40;

/// Said of a program that tune has ended because somebody stops it.
const STOPPED_AGAIN: &str = "the program was stopped from outside (SIGSTOP) again after it had been told to go on, and tune has ended it";

/// Classifies the end of a program; `message` says for people what its task was missing.
pub fn classify(end: &ProgramEnd, message: &str) -> Fault {
    // The signal that it died of was not sent from outside.
    let message = match end.stopped {
        true => STOPPED_AGAIN,
        false => message,
    };
    let said = said(end);
    let kind = kind(end, said.as_ref());
    let explains = |d: &&Diagnosis| d.kind == kind || kind.of_cuda() && d.kind.of_cuda();
    let said = said.as_ref().filter(explains);
    let words = said.map_or_else(|| last_line(&end.output), |d| d.text.clone());
    let shown = match said {
        // The line of an assertion says where; the place is told by itself.
        Some(diagnosis) if diagnosis.place.is_some() => diagnosis.detail.clone(),
        Some(_) | None => words.clone(),
    };
    let detail = match shown.as_str() {
        "" => message.to_owned(),
        shown => format!("{message}: {shown}"),
    };
    Fault {
        kind,
        text: match said {
            // Of an assertion that the device has printed, what the library said of it.
            Some(diagnosis) if diagnosis.place.is_some() => {
                cuda_error(&end.output).unwrap_or_else(|| diagnosis.text.clone())
            }
            Some(diagnosis) => diagnosis.text.clone(),
            // What it printed last may be anything: how it ended belongs to it.
            None => detail.clone(),
        },
        detail,
        name: said.and_then(|d| d.name.clone()),
        code: said.and_then(|d| d.code),
        place: said.and_then(|d| d.place.clone()),
        own_line: own_line(&end.output),
    }
}

/// What the output says of the end: a lost context wherever it was printed; anything else may have
/// been survived, and counts among the last lines only.
fn said(end: &ProgramEnd) -> Option<Diagnosis> {
    let lost = |d: &Diagnosis| d.kind.loses_context();
    let lines: Vec<&str> = end.output.lines().filter(|l| !is_frame(l)).collect();
    let last = match signal_of(end.death) {
        Some(_) => LAST_LINES_OF_A_CRASH,
        None => LAST_LINES,
    };
    let last = lines[lines.len().saturating_sub(last)..].join("\n");
    diagnose(&end.output)
        .filter(lost)
        .or_else(|| gave_up(&last))
}

/// How a program says that it gives up. What only tells of a NaN may have been passed over.
static GIVES_UP: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)error|exception|panic|diverged|abort|stopp(?:ed|ing)|terminat|exiting|what\(\):|fatal|quit|halt|giv(?:es?|ing) up|gave up|bail",
    )
});

/// What the text says; of a NaN only where the program gives up by that word, or it is its last line.
fn gave_up(text: &str) -> Option<Diagnosis> {
    let mut lines: Vec<&str> = text.split(['\n', '\r']).collect();
    let last = lines.iter().rposition(|line| !line.trim().is_empty())?;
    loop {
        let found = diagnose(&lines.join("\n"))?;
        let at = found.line.min(last);
        let panicked = at > 0 && lines[at - 1].contains("panicked at");
        let decides = panicked || at == last || GIVES_UP.is_match(&found.text);
        if found.kind != FaultKind::Diverged || decides {
            return Some(found);
        }
        if lines[at].is_empty() {
            return None;
        }
        // It was passed over: what else is said?
        lines[at] = "";
    }
}

fn kind(end: &ProgramEnd, said: Option<&Diagnosis>) -> FaultKind {
    // The program had a context of its own: nobody else can have broken it.
    let said = said.map(|d| {
        if d.kind == FaultKind::Poisoned {
            FaultKind::CudaSticky
        } else {
            d.kind
        }
    });
    // Whoever stops or ends a program again and again means it, or it is the program itself: that
    // has to come to an end.
    if end.stopped {
        return FaultKind::Killed;
    }
    match (signal_of(end.death), said) {
        (Some(SIGKILL), _) if end.oom_kills > 0 => FaultKind::HostOom,
        // A sticky error explains every end: aborts of libraries come after it, and parents kill
        // children that hang in it.
        (_, Some(FaultKind::CudaSticky)) => FaultKind::CudaSticky,
        (Some(SIGKILL), _) => FaultKind::Killed,
        (Some(signal), _) if asks_to_end(signal) => FaultKind::Killed,
        (Some(_), Some(kind)) if is_cause(kind) => kind,
        (Some(_), _) => FaultKind::Crash,
        // The program has ended in order and says itself what was wrong. That it waited too long, or
        // could not open something, is its own affair.
        (None, Some(kind)) if is_cause(kind) || is_child(kind) => kind,
        (None, _) => FaultKind::TaskError,
    }
}

/// Faults of device or memory that explain why a program ended, whatever its status.
fn is_cause(kind: FaultKind) -> bool {
    kind.of_cuda() || kind.of_resources() || kind == FaultKind::Diverged
}

/// What a program may tell of the processes that it had started, such as loaders of data.
fn is_child(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Crash | FaultKind::Killed)
}

/// The signal that ended the program, or the command that a shell ran last.
fn signal_of(death: Death) -> Option<i32> {
    match death {
        Death::Signaled(signal) => Some(signal),
        Death::Exited(status) if (SHELL + 1..=SHELL + LAST_SIGNAL).contains(&status) => {
            let signal = status - SHELL;
            (signal == SIGKILL || asks_to_end(signal) || CRASH_SIGNALS.contains(&signal))
                .then_some(signal)
        }
        Death::Exited(_) | Death::Unknown => None,
    }
}

/// The end for people: `exited with status 1`, `was ended by SIGSEGV`.
pub fn describe(death: Death) -> String {
    match (death, signal_of(death)) {
        (Death::Exited(status), Some(signal)) => format!(
            "the program exited with status {status}, a shell's word for {}",
            signal_name(signal)
        ),
        (Death::Exited(status), None) => format!("the program exited with status {status}"),
        (Death::Signaled(signal), _) => {
            format!("the program was ended by {}", signal_name(signal))
        }
        (Death::Unknown, _) => "the program is gone".to_owned(),
    }
}

/// The last line that names an error of CUDA, from there on: a traceback ends with it, and the lines
/// before may be those of the source.
fn cuda_error(output: &str) -> Option<String> {
    let mut lines = output.lines().rev();
    let line = lines.find_map(|l| Some(&l[l.find("CUDA error")?..]))?;
    Some(line.trim().to_owned())
}

fn last_line(output: &str) -> String {
    let line = output.lines().rev().find(|l| !l.trim().is_empty());
    line.unwrap_or_default().trim().chars().take(1000).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSERT: &str = "../aten/src/ATen/native/cuda/Loss.cu:245: nll_loss_forward: block: \
        [0,0,0], thread: [7,0,0] Assertion `t >= 0 && t < n_classes` failed.\n\
        Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n    \
        raise E(\"CUDA error: device-side assert triggered\")\n\
        RuntimeError: CUDA error: device-side assert triggered\n";

    fn end(death: Death, output: &str) -> ProgramEnd {
        ProgramEnd {
            death,
            stopped: false,
            oom_kills: 0,
            output: output.into(),
        }
    }

    fn kind_of(death: Death, output: &str) -> FaultKind {
        classify(&end(death, output), "").kind
    }

    #[test]
    fn an_error_of_the_program_is_its_own() {
        let traceback =
            "Traceback (most recent call last):\n  File \"t.py\", line 3\nValueError: no\n";
        let fault = classify(
            &end(Death::Exited(1), traceback),
            &describe(Death::Exited(1)),
        );
        assert_eq!(fault.kind, FaultKind::TaskError);
        assert_eq!(
            fault.detail,
            "the program exited with status 1: ValueError: no"
        );
        assert_eq!(fault.text, "ValueError: no");
        let said = classify(&end(Death::Exited(3), "loss=3\n"), "the reason");
        assert_eq!(said.text, "the reason: loss=3");
        assert_eq!(kind_of(Death::Exited(3), ""), FaultKind::TaskError);
        assert_eq!(
            kind_of(Death::Exited(2), "timed out waiting"),
            FaultKind::TaskError
        );
    }

    #[test]
    fn a_printed_cuda_error_decides_however_the_program_ends() {
        for death in [
            Death::Exited(1),
            Death::Exited(0),
            Death::Exited(134),
            Death::Signaled(6),
            Death::Signaled(9),
        ] {
            let fault = classify(&end(death, ASSERT), "m");
            assert_eq!(fault.kind, FaultKind::CudaSticky, "{death:?}");
            assert_eq!(fault.code, Some(710));
            assert!(fault.place.is_some());
            assert_eq!(fault.text, "CUDA error: device-side assert triggered");
        }
        let oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.";
        assert_eq!(kind_of(Death::Exited(1), oom), FaultKind::Oom);
    }

    #[test]
    fn what_was_survived_long_before_does_not_decide() {
        let survived = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n";
        let steps: String = (0..60).map(|i| format!("step {i}\n")).collect();
        let printed = format!("{survived}{steps}fatal: disk quota exceeded\n");
        assert_eq!(kind_of(Death::Exited(3), &printed), FaultKind::TaskError);
        let printed = format!("{ASSERT}{steps}");
        assert_eq!(kind_of(Death::Exited(3), &printed), FaultKind::CudaSticky);
    }

    #[test]
    fn a_nan_that_was_passed_over_does_not_decide() {
        let skipped = "step 3: loss is nan, skipping batch\n";
        let failed = format!("{skipped}{skipped}cp: cannot stat 'x'\n");
        let fault = classify(&end(Death::Exited(1), &failed), "m");
        assert_eq!(fault.kind, FaultKind::TaskError);
        assert_eq!(fault.detail, "m: cp: cannot stat 'x'");
        let import = "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    \
            import sklearn\nModuleNotFoundError: No module named 'sklearn'\n";
        let failed = format!("{skipped}{import}");
        assert_eq!(kind_of(Death::Exited(1), &failed), FaultKind::TaskError);
        for given_up in [
            "loss is nan\n",
            "loss is nan: stopping\nbye\n",
            "loss is nan, quitting\nwandb: Synced 5 files\n",
            "thread 'main' panicked at src/main.rs:1:2:\nloss is NaN\nnote: run with RUST_BACKTRACE\n",
            "Traceback (most recent call last):\n  File \"t.py\", line 3, in f\n    check(loss)\n\
            FloatingPointError: loss is nan\nwandb: synced\n",
        ] {
            assert_eq!(kind_of(Death::Exited(1), given_up), FaultKind::Diverged);
        }
        let cuda = "RuntimeError: CUDA error: invalid argument\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n";
        let failed = format!("{skipped}{cuda}");
        assert_eq!(
            kind_of(Death::Exited(1), &failed),
            kind_of(Death::Exited(1), cuda)
        );
        let printed = format!("{skipped}epoch 1 done\nloss is nan\n");
        assert_eq!(kind_of(Death::Exited(1), &printed), FaultKind::Diverged);
    }

    #[test]
    fn signals_are_seen_through_a_shell() {
        for (status, kind) in [
            (134, FaultKind::Crash),
            (139, FaultKind::Crash),
            (137, FaultKind::Killed),
            (143, FaultKind::Killed),
            (129 + 20, FaultKind::TaskError),
            (255, FaultKind::TaskError),
        ] {
            assert_eq!(kind_of(Death::Exited(status), ""), kind, "{status}");
        }
        assert_eq!(kind_of(Death::Signaled(11), ""), FaultKind::Crash);
        assert_eq!(kind_of(Death::Signaled(9), ""), FaultKind::Killed);
        assert_eq!(kind_of(Death::Signaled(15), ""), FaultKind::Killed);
    }

    #[test]
    fn the_kernel_and_whoever_stopped_it_are_believed_first() {
        let killed = ProgramEnd {
            oom_kills: 1,
            ..end(Death::Signaled(9), ASSERT)
        };
        assert_eq!(classify(&killed, "").kind, FaultKind::HostOom);
        let stopped = ProgramEnd {
            stopped: true,
            ..end(Death::Signaled(9), ASSERT)
        };
        let fault = classify(&stopped, "the program was ended by SIGKILL");
        assert_eq!(fault.kind, FaultKind::Killed);
        assert!(fault.detail.starts_with(STOPPED_AGAIN), "{}", fault.detail);
    }
}
