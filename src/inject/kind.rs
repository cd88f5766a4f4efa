//! The faults there are, and where each of them is possible.

use serde::{Deserialize, Serialize};

use self::Needs::{Gpu, GpuOrText, Nothing, Text, Torch};
use device::Device;

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

messages::table! {
    /// A fault that can be made on purpose; `ALL` has the order of the drill's table.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Kind;

    /// What is known of a fault.
    struct Row {
        /// The word in `--inject` and in tables.
        word: &'static str,
        needs: Needs,
        /// What is really done, in a few words.
        what: &'static str,
    }

    Kill("kill", Nothing, "SIGKILL");
    Term("term", Nothing, "SIGTERM from another process");
    Segv("segv", Nothing, "a write to the first page of memory");
    Bus("bus", Nothing, "a write to a mapped file, behind its end");
    Ill("ill", Nothing, "an undefined instruction");
    Fpe("fpe", Nothing, "an integer division by zero");
    Abort("abort", Nothing, "abort()");
    Panic("panic", Nothing, "an index out of bounds in the task's code");
    Exit("exit", Nothing, "exit(3), which nobody asked for");
    StackOverflow("stack-overflow", Nothing, "a recursion without end");
    Exception("exception", Torch, "a C++ exception of libtorch: shapes that do not fit");
    Terminate("terminate", Torch, "a C++ exception that nobody catches, on a thread");
    Destructor("destructor", Torch, "a destructor that throws while another exception unwinds");
    Spin("spin", Nothing, "a busy loop");
    Deaf("deaf", Nothing, "a busy loop that ignores SIGTERM");
    Sleep("sleep", Nothing, "a wait without end");
    Stop("stop", Nothing, "SIGSTOP, and again whenever it is woken");
    Hangup("hangup", Nothing, "the socket to the supervisor closed, the process busy");
    Garbage("garbage", Nothing, "bytes that are no message");
    Truncated("truncated", Nothing, "a message cut short");
    Memory("memory", Nothing, "allocation up to a limit of the address space");
    Descriptors("descriptors", Nothing, "file descriptors used up, then a file to read");
    Stray("stray", Nothing, "a grandchild that leaves the group and holds the socket, then SIGKILL");
    Flood("flood", Nothing, "100 MB printed on stdout");
    Error("error", Nothing, "an error of the task");
    Assert("assert", GpuOrText, "cudaErrorAssert (710): a gather out of range");
    IllegalAddress("illegal-address", GpuOrText, "cudaErrorIllegalAddress (700)");
    Misaligned("misaligned", GpuOrText, "cudaErrorMisalignedAddress (716)");
    Cublas("cublas", Text, "CUBLAS_STATUS_EXECUTION_FAILED on a healthy device");
    Oom("oom", GpuOrText, "allocation on the GPU beyond what the process may take");
    OomSegments("oom-segments", Gpu, "the same without expandable segments");
    SpinKernel("spin-kernel", Gpu, "a kernel that never ends");
    KillKernel("kill-kernel", Gpu, "SIGKILL in the middle of a kernel");
}

impl Kind {
    /// The word in `--inject` and in tables.
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// What is really done, in a few words.
    pub fn what(self) -> &'static str {
        self.row().what
    }

    /// The kind of this word.
    pub fn find(word: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|k| k.word() == word)
    }

    /// Whether libtorch makes it.
    pub fn needs_libtorch(self) -> bool {
        matches!(self.row().needs, Torch | Gpu)
    }

    /// In which form it is possible here.
    ///
    /// # Errors
    /// What is missing.
    pub fn possible(self, here: Here) -> Result<Form, &'static str> {
        match self.row().needs {
            Nothing => Ok(Form::Real),
            Torch if here.torch => Ok(Form::Real),
            Torch => Err("there is no libtorch"),
            Gpu | GpuOrText if here.gpu && here.torch => Ok(Form::Real),
            Gpu if here.gpu => Err("there is no libtorch"),
            Gpu => Err("there is no GPU"),
            GpuOrText | Text => Ok(Form::TextOnly),
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
        for &kind in Kind::ALL {
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
            let real = |k: &&Kind| k.possible(here) == Ok(Form::Real);
            Kind::ALL.iter().filter(real).count()
        };
        assert!(real(cpu) >= 20, "{}", real(cpu));
        assert_eq!(real(gpu), Kind::ALL.len() - 1);
    }
}
