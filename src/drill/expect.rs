//! What each fault has to be detected as, and what has to become of its trial. Pure.

use fault::FaultKind;
use inject::Kind;

/// What is right for a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// It is detected as one of these; none: it must not end the attempt at all.
    pub kinds: &'static [FaultKind],
    /// How its trial ends; `None`: it runs again and ends as if nothing had happened.
    pub ends: Option<&'static str>,
}

/// The contract, for faults made in a trial's first attempt.
pub fn expected(kind: Kind) -> Expected {
    let again = |kinds| Expected { kinds, ends: None };
    let ends = |kinds, state| Expected {
        kinds,
        ends: Some(state),
    };
    match kind {
        Kind::Kill | Kind::Stray | Kind::KillKernel => again(&[FaultKind::Killed]),
        Kind::Segv
        | Kind::Bus
        | Kind::Ill
        | Kind::Fpe
        | Kind::Abort
        | Kind::Exit
        | Kind::StackOverflow
        | Kind::Terminate
        | Kind::Destructor => again(&[FaultKind::Crash]),
        Kind::Panic | Kind::Exception | Kind::Error => ends(&[FaultKind::TaskError], "FAIL"),
        Kind::Descriptors => again(&[FaultKind::Descriptors]),
        Kind::Spin | Kind::Deaf | Kind::Sleep | Kind::SpinKernel => again(&[FaultKind::Hang]),
        Kind::Stop | Kind::Term => again(&[FaultKind::Interrupted]),
        // The end of its line is noticed, or else that it says nothing more.
        Kind::Hangup => again(&[FaultKind::Protocol, FaultKind::Crash, FaultKind::Hang]),
        Kind::Garbage | Kind::Truncated => again(&[FaultKind::Protocol]),
        // Rust's allocator aborts where libtorch's throws.
        Kind::Memory => again(&[FaultKind::HostOom, FaultKind::Crash]),
        Kind::Flood => again(&[]),
        Kind::Assert | Kind::IllegalAddress | Kind::Misaligned => again(&[FaultKind::CudaSticky]),
        Kind::Cublas => ends(&[FaultKind::CudaTransient], "PRUNED"),
        Kind::Oom | Kind::OomSegments => again(&[FaultKind::Oom]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fault::{Tally, Verdict, judge};

    #[test]
    fn what_the_drill_expects_is_what_the_verdicts_say() {
        for &kind in Kind::ALL {
            let expected = expected(kind);
            for &fault in expected.kinds {
                let ends = match judge(fault, &Tally::default()).verdict {
                    Verdict::Again { .. } => None,
                    Verdict::Pruned(_) => Some("PRUNED"),
                    Verdict::Fail => Some("FAIL"),
                };
                assert_eq!(expected.ends, ends, "{kind} as {}", fault.word());
            }
        }
    }
}
