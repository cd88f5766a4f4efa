//! The faults there are, and where each of them is possible.

use serde::{Deserialize, Serialize};

use device::Device;

/// A fault that can be made on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // `Kind::what` says it of each of them.
pub enum Kind {
    Kill,
    Term,
    Segv,
    Bus,
    Ill,
    Fpe,
    Abort,
    Panic,
    Exit,
    StackOverflow,
    Exception,
    Terminate,
    Destructor,
    Spin,
    Deaf,
    Sleep,
    Stop,
    Hangup,
    Garbage,
    Truncated,
    Memory,
    Descriptors,
    Stray,
    Flood,
    Error,
    Assert,
    IllegalAddress,
    Misaligned,
    Cublas,
    Oom,
    OomSegments,
    SpinKernel,
    KillKernel,
}

/// What a machine and a binary offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Here {
    /// Trials run on a GPU.
    pub gpu: bool,
    /// libtorch is there.
    pub torch: bool,
}

impl Here {
    /// What is offered on these devices, with libtorch or without.
    pub fn of(devices: &[Device], torch: bool) -> Here {
        Here {
            gpu: devices.iter().any(|d| matches!(d, Device::Cuda(_))),
            torch,
        }
    }
}

/// How far a fault is the real thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// It is.
    Real,
    /// The error's text alone is raised, as libtorch words it: there is no GPU that could fail.
    TextOnly,
}

/// What a fault needs.
#[derive(Clone, Copy)]
enum Needs {
    Nothing,
    Torch,
    /// A GPU, and libtorch.
    Gpu,
    /// A GPU; without one the text is raised.
    GpuOrText,
    /// Only ever a text: nothing makes it happen on request.
    Text,
}

impl Kind {
    /// Every kind, in the order of the drill's table.
    #[rustfmt::skip]
    pub const ALL: [Kind; 33] = [
        Kind::Kill, Kind::Term, Kind::Segv, Kind::Bus, Kind::Ill, Kind::Fpe, Kind::Abort,
        Kind::Panic, Kind::Exit, Kind::StackOverflow, Kind::Exception, Kind::Terminate,
        Kind::Destructor, Kind::Spin, Kind::Deaf, Kind::Sleep, Kind::Stop, Kind::Hangup,
        Kind::Garbage, Kind::Truncated, Kind::Memory, Kind::Descriptors, Kind::Stray, Kind::Flood,
        Kind::Error, Kind::Assert, Kind::IllegalAddress, Kind::Misaligned, Kind::Cublas, Kind::Oom,
        Kind::OomSegments, Kind::SpinKernel, Kind::KillKernel,
    ];

    #[rustfmt::skip]
    fn facts(self) -> (&'static str, Needs, &'static str) {
        match self {
            Kind::Kill => ("kill", Needs::Nothing, "SIGKILL"),
            Kind::Term => ("term", Needs::Nothing, "SIGTERM from another process"),
            Kind::Segv => ("segv", Needs::Nothing, "a write to the first page of memory"),
            Kind::Bus => ("bus", Needs::Nothing, "a write to a mapped file, behind its end"),
            Kind::Ill => ("ill", Needs::Nothing, "an undefined instruction"),
            Kind::Fpe => ("fpe", Needs::Nothing, "an integer division by zero"),
            Kind::Abort => ("abort", Needs::Nothing, "abort()"),
            Kind::Panic => ("panic", Needs::Nothing, "an index out of bounds in the task's code"),
            Kind::Exit => ("exit", Needs::Nothing, "exit(3), which nobody asked for"),
            Kind::StackOverflow => ("stack-overflow", Needs::Nothing, "a recursion without end"),
            Kind::Exception => ("exception", Needs::Torch, "a C++ exception of libtorch: shapes that do not fit"),
            Kind::Terminate => ("terminate", Needs::Torch, "a C++ exception that nobody catches, on a thread"),
            Kind::Destructor => ("destructor", Needs::Torch, "a destructor that throws while another exception unwinds"),
            Kind::Spin => ("spin", Needs::Nothing, "a busy loop"),
            Kind::Deaf => ("deaf", Needs::Nothing, "a busy loop that ignores SIGTERM"),
            Kind::Sleep => ("sleep", Needs::Nothing, "a wait without end"),
            Kind::Stop => ("stop", Needs::Nothing, "SIGSTOP, and again whenever it is woken"),
            Kind::Hangup => ("hangup", Needs::Nothing, "the socket to the supervisor closed, the process busy"),
            Kind::Garbage => ("garbage", Needs::Nothing, "bytes that are no message"),
            Kind::Truncated => ("truncated", Needs::Nothing, "a message cut short"),
            Kind::Memory => ("memory", Needs::Nothing, "allocation up to a limit of the address space"),
            Kind::Descriptors => ("descriptors", Needs::Nothing, "file descriptors used up, then a file to read"),
            Kind::Stray => ("stray", Needs::Nothing, "a grandchild that leaves the group and holds the socket, then SIGKILL"),
            Kind::Flood => ("flood", Needs::Nothing, "100 MB printed on stdout"),
            Kind::Error => ("error", Needs::Nothing, "an error of the task"),
            Kind::Assert => ("assert", Needs::GpuOrText, "cudaErrorAssert (710): a gather out of range"),
            Kind::IllegalAddress => ("illegal-address", Needs::GpuOrText, "cudaErrorIllegalAddress (700)"),
            Kind::Misaligned => ("misaligned", Needs::GpuOrText, "cudaErrorMisalignedAddress (716)"),
            Kind::Cublas => ("cublas", Needs::Text, "CUBLAS_STATUS_EXECUTION_FAILED on a healthy device"),
            Kind::Oom => ("oom", Needs::GpuOrText, "allocation on the GPU beyond what the process may take"),
            Kind::OomSegments => ("oom-segments", Needs::Gpu, "the same without expandable segments"),
            Kind::SpinKernel => ("spin-kernel", Needs::Gpu, "a kernel that never ends"),
            Kind::KillKernel => ("kill-kernel", Needs::Gpu, "SIGKILL in the middle of a kernel"),
        }
    }

    /// The word in `--inject` and in tables.
    pub fn word(self) -> &'static str {
        self.facts().0
    }

    /// What is really done, in a few words.
    pub fn what(self) -> &'static str {
        self.facts().2
    }

    /// The kind of this word.
    pub fn find(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|k| k.word() == word)
    }

    /// Whether libtorch makes it.
    pub fn needs_libtorch(self) -> bool {
        matches!(self.facts().1, Needs::Torch | Needs::Gpu)
    }

    /// In which form it is possible here.
    ///
    /// # Errors
    /// What is missing.
    pub fn possible(self, here: Here) -> Result<Form, &'static str> {
        match self.facts().1 {
            Needs::Nothing => Ok(Form::Real),
            Needs::Torch if here.torch => Ok(Form::Real),
            Needs::Torch => Err("there is no libtorch"),
            Needs::Gpu | Needs::GpuOrText if here.gpu && here.torch => Ok(Form::Real),
            Needs::Gpu if here.gpu => Err("there is no libtorch"),
            Needs::Gpu => Err("there is no GPU"),
            Needs::GpuOrText | Needs::Text => Ok(Form::TextOnly),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_word_of_its_own_that_is_also_its_json() {
        let words: std::collections::BTreeSet<_> = Kind::ALL.iter().map(|k| k.word()).collect();
        assert_eq!(words.len(), Kind::ALL.len());
        for kind in Kind::ALL {
            assert_eq!(Kind::find(kind.word()), Some(kind));
            let json = serde_json::to_value(kind).unwrap();
            assert_eq!(json, kind.word());
        }
        assert_eq!(Kind::find("all"), None);
    }

    #[test]
    fn without_a_gpu_its_errors_are_texts_and_its_kernels_impossible() {
        let cpu = Here {
            gpu: false,
            torch: true,
        };
        let gpu = Here { gpu: true, ..cpu };
        assert_eq!(Kind::Assert.possible(cpu), Ok(Form::TextOnly));
        assert_eq!(Kind::Assert.possible(gpu), Ok(Form::Real));
        assert_eq!(Kind::SpinKernel.possible(cpu), Err("there is no GPU"));
        assert_eq!(Kind::Kill.possible(cpu), Ok(Form::Real));
        let real = |here: Here| {
            let real = |k: &Kind| k.possible(here) == Ok(Form::Real);
            Kind::ALL.into_iter().filter(real).count()
        };
        assert!(real(cpu) >= 20, "{}", real(cpu));
        assert_eq!(real(gpu), Kind::ALL.len() - 1);
    }
}
