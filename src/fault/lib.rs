//! From evidence to fault, and from fault to verdict: two pure functions that hold the contract's
//! table of what happens to a trial and to the process.

mod advice;
pub mod cuda;
mod evidence;
mod explain;
mod failures;
mod program;
mod report;
pub mod table;
pub mod text;
mod verdict;

pub use advice::size as size_text;
pub use evidence::{Death, Evidence, GPU_LOST, classify};
pub use explain::{Explanation, Other, explain};
pub use failures::{Failure, FailureGroup, group_failures, masked, own_line};
pub use program::{ProgramEnd, describe as describe_program};
pub use report::{ErrorReport, Phase};
pub use text::{Diagnosis, Memory, Place, diagnose};
pub use verdict::{Outcome, Tally, Verdict, judge};

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// The variable that names a file to which a process with libtorch writes each operation before it is begun, over the one
/// before: evidence of where it died.
pub const TRACE_OPERATIONS: &str = "TUNE_TRACE_OPERATIONS";

/// What ended an attempt otherwise than by its own result.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum FaultKind {
    /// The run was stopped, the supervisor died, the worker was stopped (SIGSTOP) or the machine
    /// went down: nobody's fault.
    Interrupted,
    /// SIGKILL or another deadly signal from outside, without any evidence why.
    Killed,
    /// A CUDA error before the trial's first step: the context was broken already.
    Poisoned,
    /// A CUDA error in training after which the health check passed.
    CudaTransient,
    /// A CUDA library failed in a way that says nothing about the context, and no health check
    /// has been asked.
    CudaUnclear,
    /// A sticky CUDA error in training, or a failed health check after an error.
    CudaSticky,
    /// SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, or an exit that nobody asked for.
    Crash,
    /// Out of GPU memory.
    Oom,
    /// Killed by the host's OOM killer, or the host's allocator gave up.
    HostOom,
    /// No training step before the deadline.
    Hang,
    /// The attempt ran for longer than a trial may.
    TimeLimit,
    /// Loss or logits were not finite.
    Diverged,
    /// An error of the task's own code or data.
    TaskError,
    /// The process has no file descriptor left.
    Descriptors,
    /// The worker sent what is no message.
    Protocol,
    /// The GPU or its driver is gone.
    DeviceLost,
    /// The worker could not open the task: no trial was involved.
    OpenFailed,
}

impl FaultKind {
    /// Every kind, for tables.
    pub const ALL: &[FaultKind] = FaultKind::VARIANTS;

    /// The word in attributes, attempts and events.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Whether it says that CUDA or the GPU has failed.
    fn of_cuda(self) -> bool {
        matches!(
            self,
            FaultKind::Poisoned
                | FaultKind::CudaTransient
                | FaultKind::CudaUnclear
                | FaultKind::CudaSticky
                | FaultKind::Oom
                | FaultKind::DeviceLost
        )
    }

    /// Whether it says that the process has lost its CUDA context.
    fn loses_context(self) -> bool {
        matches!(self, FaultKind::CudaSticky | FaultKind::Poisoned)
    }

    /// Whether it says that something was missing which the process needs.
    fn of_resources(self) -> bool {
        matches!(
            self,
            FaultKind::Oom | FaultKind::HostOom | FaultKind::Descriptors | FaultKind::DeviceLost
        )
    }
}

/// A classified fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    /// What is known of it, for people: the error's first lines, the signal, the deadline.
    pub detail: String,
    /// The error's whole text, where there is one.
    pub text: String,
    /// The CUDA enumerator or library status that was named.
    pub name: Option<String>,
    /// `cudaError_t`, where it is a CUDA error.
    pub code: Option<u32>,
    /// The device-side assertion that failed.
    pub place: Option<Place>,
    /// Of a program: the line of the user's own code, see [`own_line`].
    pub own_line: Option<String>,
}

impl Fault {
    /// A fault of which nothing more is known.
    pub fn new(kind: FaultKind, detail: impl Into<String>) -> Fault {
        Fault {
            kind,
            detail: detail.into(),
            text: String::new(),
            name: None,
            code: None,
            place: None,
            own_line: None,
        }
    }

    /// Whether CUDA or one of its libraries is named by what is known of it.
    pub fn shows_cuda(&self) -> bool {
        self.kind.of_cuda()
            || self.name.is_some()
            || self.code.is_some()
            || cuda::cuda_text(&self.text)
    }
}

/// Compiles a pattern of this module's tables.
#[expect(
    clippy::expect_used,
    reason = "patterns are constants, and tests compile every one"
)]
fn pattern(text: &str) -> regex::Regex {
    regex::Regex::new(text).expect("a constant pattern")
}
