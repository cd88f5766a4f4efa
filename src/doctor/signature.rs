//! What tells one fault from another: its kind, its end, its place.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use fault::{Death, Evidence, Fault, FaultKind, ProgramEnd};

/// A failure of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Signature {
    /// The fault's word, as in `tune explain`: `crash`, `task_error`, `hang`.
    pub fault: &'static str,
    /// How the process ended, for people.
    pub end: String,
    /// What was printed of it.
    pub message: String,
    /// The line of the user's own code that is the nearest to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// The kernel of a device-side assertion, or the CUDA error's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

/// How a run ended, as far as it was seen from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    /// Exit status or signal.
    pub death: Death,
    /// It was ended because it hung.
    pub hang: Option<Hang>,
    /// Processes that the kernel's OOM killer ended meanwhile.
    pub oom_kills: u64,
    /// The end of what it printed, standard output and error together.
    pub output: String,
}

/// How a run hung, and for how long it had done so when it was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hang {
    /// It neither printed anything nor used the processor.
    Still(Duration),
    /// It used the processor, but neither printed anything nor took a batch.
    Loops(Duration),
    /// It went on, but had not ended by its deadline, which was so long.
    Late(Duration),
}

impl Hang {
    /// For how long nothing had come of it.
    pub fn stood(self) -> Duration {
        match self {
            Hang::Still(time) | Hang::Loops(time) => time,
            Hang::Late(_) => Duration::ZERO,
        }
    }
}

impl fmt::Display for Hang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hang::Still(time) => write!(f, "it stood still for {} s", time.as_secs()),
            Hang::Loops(time) => write!(
                f,
                "it computed for {} s, but neither printed anything nor took a batch",
                time.as_secs()
            ),
            Hang::Late(time) => write!(f, "it had not ended after {} s", time.as_secs()),
        }
    }
}

impl RunEnd {
    /// The signal that ended it, or the program that it ran for it.
    pub fn signal(&self) -> Option<i32> {
        match self.death {
            Death::Signaled(signal) => Some(signal),
            Death::Exited(status @ 129..=192) => Some(status - 128),
            Death::Exited(_) | Death::Unknown => None,
        }
    }
}

impl Signature {
    /// The failure that a run ended with; `None` where it ended with status 0.
    pub fn of(end: &RunEnd) -> Option<Signature> {
        if end.death == Death::Exited(0) && end.hang.is_none() {
            return None;
        }
        let fault = classify(end);
        let known = Signature::of_fault(&fault);
        Some(Signature {
            // Of a standstill, where it stands is known by the stacks that it was made to print.
            line: known.line.or_else(|| fault::own_line(&end.output)),
            end: match end.hang {
                Some(hang) => hang.to_string(),
                None => fault::describe_program(end.death),
            },
            message: message(&fault, end),
            ..known
        })
    }

    /// The failure that a fault is.
    pub fn of_fault(fault: &Fault) -> Signature {
        let place = fault.place.as_ref();
        let kernel = place.and_then(|p| p.function.clone());
        Signature {
            fault: fault.kind.word(),
            end: String::new(),
            message: match is_silent(fault) {
                true => fault
                    .detail
                    .split(':')
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
                false => fault.detail.clone(),
            },
            line: fault
                .own_line
                .clone()
                .or_else(|| place.map(ToString::to_string)),
            kernel: kernel.or_else(|| fault.name.clone()),
        }
    }

    /// Whether it stood still.
    pub fn is_hang(&self) -> bool {
        self.fault == FaultKind::Hang.word()
    }

    /// Whether native code ended it.
    pub fn is_crash(&self) -> bool {
        self.fault == FaultKind::Crash.word()
    }

    /// Whether both are the same failure: the same kind and end, at the same place, in the same words but for numbers and
    /// paths. A standstill is one wherever it is.
    pub fn same(&self, other: &Signature) -> bool {
        let key = |s: &Signature| (s.fault, s.end.clone(), s.kernel.clone(), s.line.clone());
        let words = || fault::masked(&self.message) == fault::masked(&other.message);
        self.fault == other.fault && self.is_hang() || key(self) == key(other) && words()
    }

    /// One line for people.
    pub fn text(&self) -> String {
        let place = self.line.as_deref();
        let place = place.map_or_else(String::new, |line| format!(" ({line})"));
        match self.message.is_empty() {
            true => format!("{}{place}", self.end),
            false => format!("{}: {}{place}", self.end, self.message),
        }
    }
}

fn classify(end: &RunEnd) -> Fault {
    let program = ProgramEnd {
        death: end.death,
        stopped: false,
        oom_kills: end.oom_kills,
        output: end.output.clone(),
    };
    fault::classify(&Evidence {
        silent: end.hang.map(Hang::stood),
        ..Evidence::of_program(program, "")
    })
}

/// Whether it crashed without a word of why: then its last line is of what it did before.
fn is_silent(fault: &Fault) -> bool {
    fault.kind == FaultKind::Crash && fault.text == fault.detail
}

/// The error in its own words, or the last line.
fn message(fault: &Fault, end: &RunEnd) -> String {
    let exception = end.output.lines().rev().find(|l| is_exception(l));
    let said = match exception {
        Some(line) => line.trim(),
        None if is_silent(fault) => "",
        None => fault.text.trim().trim_start_matches(": "),
    };
    messages::printable(said).chars().take(300).collect()
}

/// Whether a line is the last one of a Python traceback: `ValueError: no`, `torch.OutOfMemoryError: ...`.
fn is_exception(line: &str) -> bool {
    let head = line.split(':').next().unwrap_or_default();
    let name = head.rsplit('.').next().unwrap_or_default();
    let word = !head.is_empty()
        && head
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
    let named = ["Error", "Exception", "Interrupt", "Exit"];
    // `zlib.error`, `cv2.error`: a line of a log may begin with `error:`.
    word && (named.iter().any(|end| name.ends_with(end)) || head.ends_with(".error"))
}

/// The kernel that the first finding of compute-sanitizer is of: `=========     at NAME(int *)+0x160 in file.cu:6`, or of
/// older versions `=========     at 0x160 in file.cu:10:NAME(int *)`.
pub fn sanitizer_kernel(output: &str) -> Option<String> {
    let mut places = output
        .lines()
        .filter_map(|line| line.strip_prefix("=========")?.trim().strip_prefix("at "));
    let place = places.find(|place| place.contains('('))?;
    let named = match place.strip_prefix("0x") {
        Some(old) => old.split_once(" in ")?.1.rsplit(".cu:").next()?,
        None => place,
    };
    let named = named.trim_start_matches(|c: char| c.is_ascii_digit());
    let name = named.trim_start_matches(':').split('(').next()?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(death: Death, output: &str) -> RunEnd {
        RunEnd {
            death,
            hang: None,
            oom_kills: 0,
            output: output.to_owned(),
        }
    }

    fn failure(death: Death, output: &str) -> Signature {
        Signature::of(&end(death, output)).unwrap()
    }

    const TRACE: &str =
        "Traceback (most recent call last):\n  File \"t.py\", line 7, in step\n    f()\n";

    #[test]
    fn a_clean_end_is_no_failure() {
        assert_eq!(Signature::of(&end(Death::Exited(0), "loss 1\n")), None);
    }

    #[test]
    fn one_line_with_other_figures_is_one_failure() {
        let with = |n: u32| format!("{TRACE}IndexError: Target {n} is out of bounds.\n");
        let a = failure(Death::Exited(1), &with(7));
        let b = failure(Death::Exited(1), &with(9));
        assert!(a.same(&b));
        assert_eq!(a.message, "IndexError: Target 7 is out of bounds.");
        assert_eq!(a.line.as_deref(), Some("t.py:7 in step"));
        let other = failure(
            Death::Exited(1),
            "Traceback (most recent call last):\n  File \"t.py\", line 9, in f\nKeyError: 'a'\n",
        );
        assert!(!a.same(&other));
    }

    #[test]
    fn another_signal_is_another_failure() {
        let segv = failure(Death::Signaled(11), "");
        assert_eq!(segv.fault, "crash");
        assert!(segv.same(&failure(Death::Signaled(11), "saving step 3\n")));
        assert!(!segv.same(&failure(Death::Signaled(6), "")));
    }

    #[test]
    fn every_standstill_is_the_same_failure() {
        let still = |output: &str| {
            let mut end = end(Death::Signaled(9), output);
            end.hang = Some(Hang::Still(Duration::from_secs(30)));
            Signature::of(&end).unwrap()
        };
        let (a, b) = (still("epoch 1\n"), still("epoch 2\n"));
        assert_eq!(a.fault, "hang");
        assert!(a.same(&b));
        let stacks = "Current thread 0x7 (most recent call first):\n  File \"t.py\", line 14 in save\n  File \"t.py\", line 18 in <module>\n";
        assert_eq!(still(stacks).line.as_deref(), Some("t.py:14 in save"));
    }

    #[test]
    fn warnings_are_no_exceptions() {
        assert!(is_exception("torch.OutOfMemoryError: CUDA out of memory."));
        assert!(is_exception("AssertionError"));
        assert!(is_exception("zlib.error: Error -3"));
        assert!(!is_exception("error: x"));
        assert!(!is_exception("UserWarning: slow"));
        assert!(!is_exception("see Error: x"));
    }

    #[test]
    fn the_kernel_of_the_first_finding_is_named() {
        for (line, name) in [
            (
                "=========     at dgrad<float, 3>(void)+0x160 in conv.cu:6",
                "dgrad<float, 3>",
            ),
            ("=========     at 0x160 in conv.cu:10:dgrad(void)", "dgrad"),
            (
                "=========     at 0x3d0 in at::native::index(int)",
                "at::native::index",
            ),
        ] {
            let output = format!(
                "step 1\n========= COMPUTE-SANITIZER\n========= Invalid __global__ read of size 4 bytes\n{line}\n=========     by thread (0,0,0)\n"
            );
            assert_eq!(sanitizer_kernel(&output).as_deref(), Some(name));
        }
        assert_eq!(
            sanitizer_kernel("at f(x)\n========= ERROR SUMMARY: 0 errors"),
            None
        );
    }
}
