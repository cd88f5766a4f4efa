//! Signs: what is seen of a failure before anything was changed.

use std::collections::BTreeSet;

use serde::Serialize;
use strum::{Display, VariantArray};

use crate::noted;
use crate::notes::Notes;
use crate::run::{Outside, RunReport};
use crate::signature::{Hang, Signature};
use crate::texts;
use fault::Death;

/// A sign. What people read of it is in a table ([`Sign::says`]).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Display, VariantArray, Hash,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Sign {
    /// It does not fail every time.
    Flaky,
    /// It stands still.
    Hang,
    /// It computes on and on, but neither prints nor takes a batch.
    Loops,
    /// It ends by a signal of native code.
    NativeCrash,
    /// It ends by SIGBUS.
    BusError,
    /// It ends by SIGILL.
    IllegalInstruction,
    /// It is killed.
    Killed,
    /// The kernel's OOM killer ended it.
    OomKilled,
    /// It says that host memory is used up.
    OutOfMemory,
    /// It says that GPU memory is used up.
    OutOfGpuMemory,
    /// Its memory grew from batch to batch until the end.
    MemoryGrows,
    /// It ends with a Python exception.
    Exception,
    /// The error is one of CUDA.
    Cuda,
    /// The error is CUDA's illegal instruction (715).
    CudaIllegalInstruction,
    /// The error is an illegal address or a misaligned one.
    CudaAddress,
    /// A device-side assertion failed.
    CudaAssert,
    /// CUDA's device not ready (600), or a handle that is gone.
    CudaNotReady,
    /// The driver does not fit, or there is no kernel for the card.
    CudaInstallation,
    /// The GPU is gone.
    GpuLost,
    /// The device is in use or not permitted.
    GpuBusy,
    /// It names a label or a class that is out of range.
    LabelText,
    /// It names an index that is out of range.
    IndexText,
    /// The innermost frames are those of an embedding.
    EmbeddingFrames,
    /// It names shapes that do not fit.
    ShapeText,
    /// The innermost frames are those of a loss.
    LossFrames,
    /// It names types or devices of tensors that do not belong together.
    TypeText,
    /// It names weights that a model lacks, or does not have.
    StateDictText,
    /// It names a file that cannot be read as what it should be.
    BrokenFileText,
    /// It names an address or port that is in use.
    AddressText,
    /// A link in the working directory, or below it, leads nowhere.
    DanglingLink,
    /// It happens where processes of a group wait for each other.
    GroupFrames,
    /// It happens where processes become a group.
    RendezvousFrames,
    /// It names a data set, a list or a folder in which nothing is.
    EmptyText,
    /// It names a GPU that is not there.
    NoDeviceText,
    /// It wants an answer from its standard input.
    InputText,
    /// It names the graph of gradients: changed in place, used up, or not there.
    GraphText,
    /// It names something that cannot be sent to another process.
    PickleText,
    /// It names a class that a checkpoint may not bring.
    UntrustedText,
    /// It names a lock that another process holds.
    LockedText,
    /// It names a file or directory that is there already.
    ExistsText,
    /// The name of that is made of a date and a time of day.
    StampText,
    /// It names a variable of the environment that is not set.
    UnsetText,
    /// Its arguments are not those that the program takes.
    UsageText,
    /// It names something that this version of a library does not have.
    ApiText,
    /// It names a limit of the system on threads, processes, memory that is locked or sizes of files.
    LimitText,
    /// It names a limit of time.
    TimeText,
    /// It names something that it has waited for in vain.
    WaitText,
    /// It names a value that is not of the form that it should have.
    ValueText,
    /// It ends by itself, with a status and without a traceback.
    OwnExit,
    /// The program's own code raises the error: a `raise` or an `assert`.
    OwnRaise,
    /// It fails at other rows with other seeds: no row is in each of the last batches.
    Wanders,
    /// One run fails otherwise than another, with nothing changed.
    Various,
    /// The time that it may use is used up.
    ProcessorTime,
    /// It was ended by a timer that the program itself has set.
    OwnTimer,
    /// A program that it has started waits for somebody to read what it prints.
    Unread,
    /// It wrote to a pipe that nobody had open for reading any more.
    PipeText,
    /// A file that it had mapped into memory was cut short.
    MappedFileCut,
    /// Native code that `ctypes` calls ended it, and nothing says what that takes.
    UntypedCall,
    /// A part that is computed again for the backward pass does not compute the same.
    RecomputedText,
    /// The path of a socket.
    SocketPathText,
    /// The card was near where it slows down each time it failed, and cooler before.
    Hot,
    /// Under WSL, an operation took longer than half of what Windows allows.
    LongKernel,
    /// It names NaN, infinity or a value that is not in 0 to 1.
    NotFiniteText,
    /// Rows of the last batch have values that are not finite.
    NotFiniteRows,
    /// A module's result is not finite although what it was given is.
    NotFiniteModule,
    /// A gradient is not finite, of finite values.
    NotFiniteGradient,
    /// Weights are not finite.
    NotFiniteWeights,
    /// A mistake of the training raises no error.
    SilentError,
    /// The program computes with 16-bit floats.
    Half,
    /// The frames, or the last operation, are those of the backward pass.
    Backward,
    /// The last operation is one that cuDNN has kernels for.
    OperationOfCudnn,
    /// The last operation is one that may use TF32.
    OperationWithTf32,
    /// It had not taken a batch of any loader.
    NoBatch,
    /// The innermost own frame reads a row of the data set.
    RowFrames,
    /// A loader's process ended.
    LoaderWorkerDied,
    /// Loaders have processes of their own.
    LoaderWorkers,
    /// It was forked while it had threads.
    ForkWithThreads,
    /// CUDA was initialised before a fork.
    CudaInFork,
    /// `/dev/shm` is small or full, or its text names shared memory.
    SharedMemory,
    /// A module of the standard library is hidden by another file.
    HidesStdlib,
    /// A symbol or a version of a library is missing.
    SymbolText,
    /// A module is missing.
    NoModule,
    /// A file is missing.
    NoFile,
    /// Something is not permitted.
    Permission,
    /// The disk is full.
    DiskFull,
    /// No file descriptor is left.
    Descriptors,
    /// Text could not be decoded or encoded, or a number could not be read.
    LocaleText,
    /// The locale is not UTF-8.
    LocaleSet,
    /// The error was raised while a module was imported.
    InImport,
    /// An import changed what is not its own.
    ImportEffect,
    /// Other modules start threads.
    OtherThreads,
    /// The network did not answer.
    NetworkText,
    /// OpenMP says that it is there twice, or that it cannot start threads.
    OpenMpText,
    /// Libraries are preloaded or found by `LD_LIBRARY_PATH`.
    LibraryPathSet,
    /// The recursion is too deep.
    Recursion,
    /// It reads files that an earlier run may have left.
    ReadsLeftovers,
    /// The batch that was taken last has fewer rows than its loader's batches have.
    SmallerBatch,
}

impl Sign {
    /// What was seen, for people.
    pub fn says(self) -> &'static str {
        SIGNS[self as usize].2
    }

    /// How often it is seen with causes that have nothing to do with it, in 0 to 1.
    pub fn background(self) -> f64 {
        SIGNS[self as usize].1
    }
}

/// Every sign, in the order of [`Sign`], with how often it is seen by chance and what people read of it.
#[rustfmt::skip] // A table: a line a sign.
const SIGNS: &[(Sign, f64, &str)] = &[
    (Sign::Flaky, 0.12, "it does not fail every time"),
    (Sign::Hang, 0.05, "it stands still"),
    (Sign::Loops, 0.03, "it computes on and on, but neither prints nor takes a batch"),
    (Sign::NativeCrash, 0.12, "native code crashed"),
    (Sign::BusError, 0.01, "it ends by SIGBUS"),
    (Sign::IllegalInstruction, 0.01, "it ends by SIGILL, the processor's illegal instruction"),
    (Sign::Killed, 0.03, "it was killed"),
    (Sign::OomKilled, 0.01, "the kernel's OOM killer ended it"),
    (Sign::OutOfMemory, 0.01, "host memory was used up"),
    (Sign::OutOfGpuMemory, 0.01, "GPU memory was used up"),
    (Sign::MemoryGrows, 0.05, "its memory grew until the end"),
    (Sign::Exception, 0.5, "it ends with a Python exception"),
    (Sign::Cuda, 0.05, "CUDA failed"),
    (Sign::CudaIllegalInstruction, 0.01, "CUDA's illegal instruction (715)"),
    (Sign::CudaAddress, 0.01, "CUDA's illegal or misaligned address"),
    (Sign::CudaAssert, 0.01, "an assertion failed on the GPU"),
    (Sign::CudaNotReady, 0.01, "CUDA's `device not ready` (600)"),
    (Sign::CudaInstallation, 0.01, "driver, libraries and card do not fit"),
    (Sign::GpuLost, 0.01, "the GPU is gone"),
    (Sign::GpuBusy, 0.01, "the GPU is in use or not permitted"),
    (Sign::LabelText, 0.01, "it names a label that is out of range"),
    (Sign::IndexText, 0.03, "it names an index that is out of range"),
    (Sign::EmbeddingFrames, 0.03, "it happens in an embedding"),
    (Sign::ShapeText, 0.03, "it names shapes that do not fit"),
    (Sign::LossFrames, 0.05, "it happens in a loss"),
    (Sign::TypeText, 0.01, "it names types or devices of tensors that do not belong together"),
    (Sign::StateDictText, 0.01, "it names weights that the model lacks, or does not have"),
    (Sign::BrokenFileText, 0.01, "it names a file that cannot be read as what it should be"),
    (Sign::AddressText, 0.01, "it names an address or port that is in use"),
    (Sign::DanglingLink, 0.01, "a link in the working directory leads nowhere"),
    (Sign::GroupFrames, 0.01, "it happens where processes of a group wait for each other"),
    (Sign::RendezvousFrames, 0.01, "it happens where a group of processes is made"),
    (Sign::EmptyText, 0.01, "it names a data set, a list or a folder in which nothing is"),
    (Sign::NoDeviceText, 0.01, "it names a GPU that is not there"),
    (Sign::InputText, 0.01, "it asks for input, and there is none"),
    (Sign::GraphText, 0.01, "it names the graph of gradients"),
    (Sign::PickleText, 0.01, "it names something that cannot be sent to another process"),
    (Sign::UntrustedText, 0.01, "it names a class that a checkpoint may not bring"),
    (Sign::LockedText, 0.01, "it names a lock that another process holds"),
    (Sign::ExistsText, 0.01, "it names a file or directory that is there already"),
    (Sign::StampText, 0.003, "the name of that is made of the time"),
    (Sign::UnsetText, 0.01, "it names a variable of the environment that is not set"),
    (Sign::UsageText, 0.01, "it says that its arguments are not those that it takes"),
    (Sign::ApiText, 0.01, "it names something that this version of a library lacks"),
    (Sign::LimitText, 0.01, "it names a limit on threads, processes or sizes of files"),
    (Sign::TimeText, 0.01, "it names a limit of time"),
    (Sign::WaitText, 0.01, "it has waited for something in vain"),
    (Sign::ValueText, 0.01, "it names a value that does not have the form that it should"),
    (Sign::OwnExit, 0.15, "it ends by itself with a status, and without a traceback"),
    (Sign::OwnRaise, 0.15, "its own code raises the error"),
    (Sign::Wanders, 0.3, "it fails at other rows with other random numbers"),
    (Sign::Various, 0.03, "it fails in different ways from run to run"),
    (Sign::ProcessorTime, 0.01, "its time is limited, and used up"),
    (Sign::OwnTimer, 0.003, "it is ended by a timer that the program has set itself, and has not taken back"),
    (Sign::Unread, 0.003, "a program that it has started waits for somebody to read what it prints"),
    (Sign::PipeText, 0.005, "it writes to a pipe whose reader has ended"),
    (Sign::MappedFileCut, 0.001, "a file that it had mapped into memory was cut short under it"),
    (Sign::UntypedCall, 0.003, "it happens in a function that is called by ctypes, and no argtypes say what that takes"),
    (Sign::RecomputedText, 0.003, "it names a part that did not compute the same when it was computed again"),
    (Sign::SocketPathText, 0.003, "it says that the path of a socket is too long"),
    (Sign::Hot, 0.01, "the card was hot each time it failed"),
    (Sign::LongKernel, 0.01, "an operation takes longer than half of Windows' 2 s"),
    (Sign::NotFiniteText, 0.03, "it names values that are not finite, or not in 0 to 1"),
    (Sign::NotFiniteRows, 0.01, "rows that it has taken are not finite"),
    (Sign::NotFiniteModule, 0.03, "a module or operation makes values that are not finite of finite ones"),
    (Sign::NotFiniteGradient, 0.03, "a gradient is not finite, of finite values"),
    (Sign::NotFiniteWeights, 0.01, "weights are not finite"),
    (Sign::SilentError, 0.003, "the training makes a mistake that raises no error"),
    (Sign::Half, 0.08, "it computes with 16-bit floats"),
    (Sign::Backward, 0.08, "it happens in the backward pass"),
    (Sign::OperationOfCudnn, 0.05, "the last operation is one that cuDNN and oneDNN have kernels for"),
    (Sign::OperationWithTf32, 0.05, "the last operation is one that may use TF32"),
    (Sign::NoBatch, 0.3, "it had not begun to train yet"),
    (Sign::RowFrames, 0.05, "it happens while a row is read"),
    (Sign::LoaderWorkerDied, 0.03, "a loader's process ended"),
    (Sign::LoaderWorkers, 0.3, "loaders have processes"),
    (Sign::ForkWithThreads, 0.12, "it was forked while it had threads"),
    (Sign::CudaInFork, 0.01, "CUDA was used before a fork"),
    (Sign::SharedMemory, 0.01, "shared memory is short"),
    (Sign::HidesStdlib, 0.004, "a file hides a module of Python's"),
    (Sign::SymbolText, 0.01, "a library lacks a symbol or a version"),
    (Sign::NoModule, 0.01, "a module is missing"),
    (Sign::NoFile, 0.01, "a file is missing"),
    (Sign::Permission, 0.01, "something is not permitted"),
    (Sign::DiskFull, 0.01, "the disk is full"),
    (Sign::Descriptors, 0.01, "no file descriptor is left"),
    (Sign::LocaleText, 0.01, "text could not be decoded, or a number not read"),
    (Sign::LocaleSet, 0.3, "the locale is not C.UTF-8"),
    (Sign::InImport, 0.03, "the error was raised in an import"),
    (Sign::ImportEffect, 0.08, "an import changed what is not its own"),
    (Sign::OtherThreads, 0.12, "other modules start threads"),
    (Sign::NetworkText, 0.01, "the network did not answer"),
    (Sign::OpenMpText, 0.01, "OpenMP complains"),
    (Sign::LibraryPathSet, 0.12, "LD_LIBRARY_PATH or LD_PRELOAD is set"),
    (Sign::Recursion, 0.01, "the recursion is too deep"),
    (Sign::ReadsLeftovers, 0.3, "it reads files that earlier runs may have left"),
    (Sign::SmallerBatch, 0.08, "the batch that it had taken last is smaller than the others"),
];

/// What the host tells of itself that matters here.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostFacts {
    /// It is WSL, where Windows bounds the time of a kernel.
    pub wsl: bool,
    /// Bytes of `/dev/shm`.
    pub shared_memory: Option<u64>,
    /// `LD_LIBRARY_PATH` or `LD_PRELOAD` is set.
    pub library_path: bool,
    /// The locale, or Python's encoding, is set to something else than UTF-8.
    pub locale: bool,
    /// A link in the working directory leads nowhere.
    pub dangling_link: bool,
}

/// Shared memory below this is what containers have by default (64 MiB).
const SMALL_SHARED_MEMORY: u64 = 256 << 20;

/// The signs of failing runs, with what the program has noted in them.
pub fn signs(
    failure: &Signature,
    runs: &[RunReport],
    flaky: bool,
    notes: &Notes,
    host: HostFacts,
) -> BTreeSet<Sign> {
    let mut found = BTreeSet::new();
    let mut see = |sign: Sign, seen: bool| {
        if seen {
            found.insert(sign);
        }
    };
    see(Sign::Flaky, flaky);
    see(Sign::LibraryPathSet, host.library_path);
    see(Sign::LocaleSet, host.locale);
    see(Sign::DanglingLink, host.dangling_link);
    let mut named = false;
    for run in runs {
        see_end(run, failure, &mut see);
        see_outside(&run.outside, &mut see);
        // A program that is only being loaded grows, too.
        let (long, from) = match (&notes.batch, run.training_from) {
            (Some(batch), Some(from)) => (batch.taken >= LEAST_BATCHES, from),
            (Some(_), None) => (false, 0),
            (None, from) => {
                let from = from.unwrap_or(0);
                (run.memory.len() - from >= LONG, from)
            }
        };
        see(Sign::MemoryGrows, long && grows(&run.memory[from..]));
        let text = texts::end(&run.end.output);
        see(
            Sign::OwnRaise,
            texts::raises(&text, failure.line.as_deref()),
        );
        // Stacks of a standstill may have pushed it out of the last lines.
        let said = texts::signs(&failure.message);
        for sign in texts::signs(&text).into_iter().chain(said) {
            named |= sign == Sign::NotFiniteText;
            see(sign, true);
        }
        let bus = text.contains("Bus error");
        let small = host.shared_memory.is_some_and(|b| b < SMALL_SHARED_MEMORY);
        see(Sign::BusError, bus);
        see(
            Sign::SharedMemory,
            small && (bus || text.contains("No space left")),
        );
    }
    noted::see(notes, named, &mut see);
    let timed = runs
        .iter()
        .any(|run| run.end.signal() == Some(libc::SIGALRM));
    let rang = notes.rang.as_ref().is_some_and(|rang| {
        let line = failure.line.as_deref().unwrap_or_default();
        is_within(line, &rang.handler)
    });
    see(Sign::OwnTimer, timed && notes.timer.is_some() || rang);
    let long = notes
        .longest
        .as_ref()
        .is_some_and(|l| l.seconds >= WINDOWS_ALLOWS / 2.0);
    see(Sign::LongKernel, host.wsl && long);
    found
}

fn see_outside(outside: &Outside, see: &mut impl FnMut(Sign, bool)) {
    see(Sign::Unread, outside.unread.is_some());
    see(Sign::MappedFileCut, outside.cut.is_some());
    see(Sign::UntypedCall, outside.untyped_call.is_some());
    see(Sign::ProcessorTime, outside.processor_time.is_some());
}

/// Whether a line is one of a function; both as in `train.py:12 in fit`.
fn is_within(line: &str, function: &str) -> bool {
    let parts = |place: &str| {
        let (at, function) = place.split_once(" in ")?;
        Some((at.rsplit_once(':')?.0.to_owned(), function.to_owned()))
    };
    let of = parts(function);
    of.is_some() && of == parts(line)
}

fn see_end(run: &RunReport, failure: &Signature, see: &mut impl FnMut(Sign, bool)) {
    let text = &run.end.output;
    let signal = run.end.signal();
    let is =
        |signals: &[i32]| signal.is_some_and(|s| signals.contains(&s)) && run.end.hang.is_none();
    see(Sign::Hang, run.end.hang.is_some());
    see(Sign::Loops, matches!(run.end.hang, Some(Hang::Loops(_))));
    see(
        Sign::NativeCrash,
        is(&[libc::SIGSEGV, libc::SIGABRT, libc::SIGFPE]),
    );
    see(Sign::BusError, is(&[libc::SIGBUS]));
    see(Sign::PipeText, is(&[libc::SIGPIPE]));
    see(
        Sign::IllegalInstruction,
        is(&[libc::SIGILL]) || text.contains("Illegal instruction (core"),
    );
    see(
        Sign::Killed,
        is(&[libc::SIGKILL, libc::SIGTERM, libc::SIGXCPU]),
    );
    see(
        Sign::ProcessorTime,
        is(&[libc::SIGXCPU, libc::SIGALRM]) || run.end.death == Death::Exited(TIMED_OUT),
    );
    see(Sign::LimitText, is(&[libc::SIGXFSZ]));
    let traced = text.contains("Traceback (most recent call last)");
    let own = matches!(run.end.death, Death::Exited(1..=123));
    see(Sign::OwnExit, own && !traced && run.end.hang.is_none());
    see(Sign::OomKilled, run.end.oom_kills > 0);
    see(Sign::Exception, traced);
    see(Sign::Recursion, is_deep(text));
    see(Sign::OutOfGpuMemory, failure.fault == "oom");
    see(Sign::OutOfMemory, failure.fault == "host_oom");
    let cuda = failure.fault.starts_with("cuda") || text.contains("CUDA error");
    see(Sign::Cuda, cuda);
}

/// The status that `timeout` of coreutils gives for a command that it has ended.
const TIMED_OUT: i32 = 124;

/// Whether a dump of a stack has the same frame again and again.
fn is_deep(text: &str) -> bool {
    const DEEP: usize = 20;
    let mut lines = text
        .lines()
        .filter(|line| line.trim_start().starts_with("File \""));
    let mut before = lines.next();
    let mut alike = 0;
    for line in lines {
        alike = if Some(line) == before { alike + 1 } else { 0 };
        if alike >= DEEP {
            return true;
        }
        before = Some(line);
    }
    false
}

/// How long a kernel may take under Windows, in seconds (TdrDelay's default).
pub const WINDOWS_ALLOWS: f64 = 2.0;

/// Batches after which growing memory is a leak's.
const LEAST_BATCHES: u64 = 8;

/// The same for a program without batches, in samples of its memory (10 s).
const LONG: usize = 40;

/// Whether memory rose through the whole of a run: in each of its last three quarters by at least a twentieth of its
/// greatest value, and 64 MiB in all. Who ends gives it back: samples behind a peak near the end do not count.
fn grows(memory: &[u64]) -> bool {
    const LEAST: usize = 8;
    let peak = (0..memory.len()).max_by_key(|at| memory[*at]).unwrap_or(0);
    if peak + 1 < LEAST || peak < memory.len() * 3 / 4 {
        return false;
    }
    let memory = &memory[..=peak];
    let at = |quarter: usize| memory[(memory.len() - 1) * quarter / 4];
    let most = memory.iter().copied().max().unwrap_or(0);
    let risen = (1..4).all(|q| at(q + 1) > at(q) + most / 20);
    risen && at(4).saturating_sub(at(1)) > 64 << 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_sign_in_order() {
        let listed: Vec<Sign> = SIGNS.iter().map(|row| row.0).collect();
        assert_eq!(listed, Sign::VARIANTS);
    }

    #[test]
    fn memory_that_levels_off_does_not_grow() {
        let mib = |n: u64| n << 20;
        let rising: Vec<u64> = (0..20).map(|i| mib(100 + 50 * i)).collect();
        assert!(grows(&rising));
        let ended = [rising.as_slice(), &[mib(30), 0]].concat();
        assert!(grows(&ended));
        let level: Vec<u64> = (0..20).map(|i| mib(100 + 50 * i.min(5))).collect();
        assert!(!grows(&level));
        assert!(!grows(&rising[..4]));
    }
}
