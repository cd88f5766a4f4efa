//! Evidence and its classification.

use std::time::Duration;

use crate::protocol::{ErrorReport, Phase};

use super::{Fault, FaultKind, cuda};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// It was found stopped (state T: SIGSTOP, a debugger).
    pub stopped: bool,
    /// It sent what is no message.
    pub garbage: Option<String>,
    /// Processes that the kernel's OOM killer ended in the worker's cgroup since its start.
    pub oom_kills: u64,
    /// The end of what it printed.
    pub tail: String,
    /// The phase it was in.
    pub phase: Option<Phase>,
}

/// Classifies. The order of the questions is the order of certainty: what `tune` did itself, then
/// what the kernel says, then what the worker said, then what it printed, then the signal.
pub fn classify(evidence: &Evidence) -> Fault {
    let (kind, detail) = kind_and_detail(evidence);
    let text = evidence
        .error
        .as_ref()
        .map(|e| e.text.clone())
        .or_else(|| cuda::cuda_text(&evidence.tail).then(|| evidence.tail.clone()))
        .unwrap_or_default();
    Fault { kind, detail, text }
}

fn kind_and_detail(evidence: &Evidence) -> (FaultKind, String) {
    if evidence.asked {
        return (FaultKind::Interrupted, "stopped by tune".into());
    }
    if evidence.stopped {
        return (
            FaultKind::Interrupted,
            "the process was stopped (SIGSTOP)".into(),
        );
    }
    if let Some(silent) = evidence.silent {
        let detail = format!(
            "no training step for {}",
            humantime::format_duration(Duration::from_secs(silent.as_secs()))
        );
        return (FaultKind::Hang, detail);
    }
    if evidence.oom_kills > 0 && evidence.death == Some(Death::Signaled(SIGKILL)) {
        return (FaultKind::HostOom, "killed by the host's OOM killer".into());
    }
    if let Some(error) = &evidence.error {
        return (error_kind(error), first_lines(&error.text));
    }
    if cuda::sticky(&evidence.tail) {
        return (
            by_phase(evidence.phase, FaultKind::CudaSticky),
            tail_line(&evidence.tail),
        );
    }
    if let Some(garbage) = &evidence.garbage {
        return (FaultKind::Protocol, garbage.clone());
    }
    death_kind(evidence)
}

/// A reported error, by its text and by what the health check said after it.
fn error_kind(error: &ErrorReport) -> FaultKind {
    let text = &error.text;
    if error.phase == Phase::Opening && !cuda::cuda_text(text) {
        return FaultKind::OpenFailed;
    }
    if cuda::out_of_memory(text) {
        return FaultKind::Oom;
    }
    if text.contains("DefaultCPUAllocator: can't allocate memory") {
        return FaultKind::HostOom;
    }
    if cuda::sticky(text) {
        return by_phase(Some(error.phase), FaultKind::CudaSticky);
    }
    if cuda::find(text).is_some_and(|e| e.context == cuda::Context::Environment) {
        return FaultKind::DeviceLost;
    }
    if error.healthy == Some(false) {
        return by_phase(Some(error.phase), FaultKind::CudaSticky);
    }
    if cuda::cuda_text(text) {
        return by_phase(Some(error.phase), FaultKind::CudaTransient);
    }
    if error.phase == Phase::Seeding {
        return FaultKind::Poisoned;
    }
    FaultKind::TaskError
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
            if CRASH_SIGNALS.contains(&signal) {
                (FaultKind::Crash, format!("the worker died of {name}"))
            } else {
                (
                    FaultKind::Killed,
                    format!("the worker was ended by {name} from outside"),
                )
            }
        }
        Some(Death::Exited(code)) => (
            FaultKind::Crash,
            format!("the worker exited with status {code}, which nobody asked for"),
        ),
        Some(Death::Unknown) | None => (FaultKind::Crash, "the worker is gone".into()),
    }
}

const SIGKILL: i32 = 9;

/// SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS.
const CRASH_SIGNALS: [i32; 9] = [4, 5, 6, 7, 8, 11, 24, 25, 31];

fn signal_name(signal: i32) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(known) => known.as_str().to_owned(),
        Err(_) => format!("signal {signal}"),
    }
}

/// The text up to the C++ stack, at most three lines.
fn first_lines(text: &str) -> String {
    let text = text.split("Exception raised from").next().unwrap_or(text);
    text.lines()
        .map(str::trim_end)
        .filter(|l| !l.is_empty())
        .take(3)
        .collect::<Vec<_>>()
        .join("; ")
}

/// The line of the printed output that names the CUDA error.
fn tail_line(tail: &str) -> String {
    tail.lines()
        .rev()
        .find(|l| cuda::cuda_text(l))
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(phase: Phase, text: &str, healthy: Option<bool>) -> Evidence {
        Evidence {
            error: Some(ErrorReport {
                phase,
                panic: false,
                text: text.into(),
                healthy,
            }),
            phase: Some(phase),
            ..Evidence::default()
        }
    }

    fn died(signal: i32) -> Evidence {
        Evidence {
            death: Some(Death::Signaled(signal)),
            phase: Some(Phase::Training),
            ..Evidence::default()
        }
    }

    #[test]
    fn signals_from_outside_and_crashes_are_told_apart() {
        for signal in [9, 15, 1, 2] {
            assert_eq!(classify(&died(signal)).kind, FaultKind::Killed, "{signal}");
        }
        for signal in [4, 6, 7, 8, 11] {
            assert_eq!(classify(&died(signal)).kind, FaultKind::Crash, "{signal}");
        }
        let exited = Evidence {
            death: Some(Death::Exited(3)),
            ..Evidence::default()
        };
        assert_eq!(classify(&exited).kind, FaultKind::Crash);
    }

    #[test]
    fn the_kernels_oom_counter_tells_an_oom_kill_from_any_other() {
        let evidence = Evidence {
            oom_kills: 1,
            ..died(9)
        };
        assert_eq!(classify(&evidence).kind, FaultKind::HostOom);
        let evidence = Evidence {
            oom_kills: 1,
            ..died(11)
        };
        assert_eq!(classify(&evidence).kind, FaultKind::Crash);
    }

    #[test]
    fn what_tune_did_itself_wins_over_every_other_evidence() {
        let asked = Evidence {
            asked: true,
            ..died(15)
        };
        assert_eq!(classify(&asked).kind, FaultKind::Interrupted);
        let hung = Evidence {
            silent: Some(Duration::from_secs(600)),
            ..died(9)
        };
        assert_eq!(classify(&hung).kind, FaultKind::Hang);
        let stopped = Evidence {
            stopped: true,
            silent: Some(Duration::from_secs(600)),
            ..died(9)
        };
        assert_eq!(classify(&stopped).kind, FaultKind::Interrupted);
    }

    #[test]
    fn a_cuda_error_before_the_first_step_is_not_the_trials_fault() {
        let assert = "CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in";
        assert_eq!(
            classify(&error(Phase::Seeding, assert, None)).kind,
            FaultKind::Poisoned
        );
        assert_eq!(
            classify(&error(Phase::Training, assert, None)).kind,
            FaultKind::CudaSticky
        );
        assert_eq!(
            classify(&error(
                Phase::Training,
                "CUDA error: invalid argument",
                Some(true)
            ))
            .kind,
            FaultKind::CudaTransient
        );
        assert_eq!(
            classify(&error(
                Phase::Training,
                "cuDNN error: CUDNN_STATUS_X",
                Some(false)
            ))
            .kind,
            FaultKind::CudaSticky
        );
    }

    #[test]
    fn an_error_of_the_tasks_own_is_not_blamed_on_the_device() {
        let evidence = error(Phase::Training, "index out of range", Some(true));
        assert_eq!(classify(&evidence).kind, FaultKind::TaskError);
        let opening = error(Phase::Opening, "no such file", None);
        assert_eq!(classify(&opening).kind, FaultKind::OpenFailed);
    }

    #[test]
    fn a_printed_sticky_error_explains_an_abort() {
        let evidence = Evidence {
            tail:
                "terminate called\n  what(): CUDA error: an illegal memory access was encountered\n"
                    .into(),
            ..died(6)
        };
        let fault = classify(&evidence);
        assert_eq!(fault.kind, FaultKind::CudaSticky);
        assert!(fault.detail.contains("illegal memory access"));
    }
}
