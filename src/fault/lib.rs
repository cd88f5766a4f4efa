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
pub use table::FaultKind;
pub use text::{Diagnosis, Memory, Place, diagnose};
pub use verdict::{Outcome, Tally, Verdict, judge};

/// The variable that names a file to which a process with libtorch writes each operation before it is begun, over the one
/// before: evidence of where it died.
pub const TRACE_OPERATIONS: &str = "TUNE_TRACE_OPERATIONS";

impl FaultKind {
    /// The word in attributes, attempts and events.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Whether it says that CUDA or the GPU has failed.
    pub fn of_cuda(self) -> bool {
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
