//! Signs: what is seen of a failure before anything was changed.

use std::collections::BTreeSet;

use serde::Serialize;
use strum::Display;

use crate::noted;
use crate::notes::Notes;
use crate::run::{Outside, RunReport};
use crate::signature::{Hang, Signature};
use crate::texts;
use fault::Death;

messages::table! {
    /// A sign.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Display, Hash)]
    #[serde(rename_all = "snake_case")]
    #[strum(serialize_all = "snake_case")]
    pub enum Sign;

    /// What is known of a sign.
    pub struct Row {
        /// How often it is seen with causes that have nothing to do with it, in 0 to 1.
        pub background: f64,
        /// What was seen, for people.
        pub says: &'static str,
        /// A regular expression of texts that are this sign, looked for in the last lines of the output ([`texts::signs`]).
        pub pattern: Option<&'static str>,
    }

    Flaky(0.12, "it does not fail every time", None);
    Hang(0.05, "it stands still", None);
    Loops(0.03, "it computes on and on, but neither prints nor takes a batch", None);
    NativeCrash(0.12, "native code crashed",
        // A training of a task is a process of its own, whose end is told by another one.
        Some(r"the worker died of SIG(?:SEGV|ABRT|FPE)"));
    BusError(0.01, "it ends by SIGBUS", Some(r"the worker died of SIGBUS"));
    IllegalInstruction(0.01, "it ends by SIGILL, the processor's illegal instruction",
        Some(r"the worker died of SIGILL"));
    Killed(0.03, "it was killed", None);
    OomKilled(0.01, "the kernel's OOM killer ended it", None);
    OutOfMemory(0.01, "host memory was used up",
        Some(r"MemoryError|std::bad_alloc|(?i:cannot allocate memory)|DefaultCPUAllocator|Unable to allocate .*(?:GiB|MiB|KiB)|\bENOMEM\b"));
    OutOfGpuMemory(0.01, "GPU memory was used up", None);
    MemoryGrows(0.05, "its memory grew until the end", None);
    Exception(0.5, "it ends with a Python exception", None);
    Cuda(0.05, "CUDA failed", None);
    CudaIllegalInstruction(0.01, "CUDA's illegal instruction (715)",
        Some(r"(?i)an illegal instruction was encountered|CUDA_ERROR_ILLEGAL_INSTRUCTION|cudaErrorIllegalInstruction"));
    CudaAddress(0.01, "CUDA's illegal or misaligned address",
        Some(r"(?i)illegal memory access|misaligned address|CUDA_ERROR_ILLEGAL_ADDRESS|invalid __global__"));
    CudaAssert(0.01, "an assertion failed on the GPU", Some(r"(?i)device-side assert"));
    /// CUDA's device not ready (600), or a handle that is gone.
    CudaNotReady(0.01, "CUDA's `device not ready` (600)", Some(r"(?i)device not ready|handles_\.at\(i\)|dxgk"));
    CudaInstallation(0.01, "driver, libraries and card do not fit",
        Some(r"(?i)no kernel image|driver version is insufficient|unsupported toolchain|forward compatibility|driver.*too old|PTX JIT|CUDNN_STATUS_(?:NOT_INITIALIZED|VERSION_MISMATCH)|version mismatch.*NVML|libcudnn|libcublas"));
    GpuLost(0.01, "the GPU is gone",
        Some(r"(?i)GPU is lost|fallen off the bus|no CUDA-capable device|unknown error.*cuda|uncorrectable ECC|cudaErrorDevicesUnavailable.*lost"));
    GpuBusy(0.01, "the GPU is in use or not permitted",
        Some(r"(?i)all CUDA-capable devices are busy|devices? .*unavailable|exclusive"));
    LabelText(0.01, "it names a label that is out of range",
        Some(r"(?i)target -?\d+ is out of bounds|label\w* .*out of range|class (?:label|index|values?) .*(?:range|bounds|smaller)|t >= 0 && t < n_classes|cur_target|all elements of target should be"));
    IndexText(0.03, "it names an index that is out of range",
        Some(r"(?i)(?:^|[^t] )index out of range|index -?\d+ is out of bounds|indexSelect|srcIndex < srcSelectDimSize|out of bounds for (?:dimension|axis)"));
    EmbeddingFrames(0.03, "it happens in an embedding",
        Some(r"/nn/modules/sparse\.py|, in embedding|embedding\("));
    ShapeText(0.03, "it names shapes that do not fit",
        Some(r"(?i)size of tensor .* must match|shapes cannot be multiplied|mismatch\b.*(?:size|shape|dim)|(?:size|shape)s? .*mismatch|target size .*different|to match target batch_size|is invalid for input of size|could not broadcast|expected .*(?:got|but) .*(?:dim|shape|size)|to be equal size|multi-target not supported|more than 1 value per channel|dimension .*(?:out of range|specified as 0)|must (?:have|be) the same|must match|weight tensor should be defined|inconsistent tensor size|resize storage that is not resizable"));
    LossFrames(0.05, "it happens in a loss",
        // Not in a line of code that a traceback quotes: what that calls before the loss may have failed.
        Some(r"(?m)/nn/modules/loss\.py|line \d+,? in \w*(?:loss|criterion|entropy)\w*$|^\S.*(?:_loss\b|cross_entropy|nll_loss)"));
    TypeText(0.01, "it names types or devices of tensors that do not belong together",
        Some(r"(?i)expected scalar type|not implemented for '\w+'|must have the same dtype|found dtype|expected all tensors to be on the same device|should be the same|is on \w+(?::\d)?,? (?:but|different)|not on the expected device|dtypes? not supported|unsupported (?:data ?type|dtype|scalartype)|got unsupported|expected object of (?:scalar|device) type|tensor for argument .* (?:type|device)|can't convert \w+:?\d? device type tensor"));
    TextForNumberText(0.01, "it names a text, or nothing, in the place of a number",
        Some(r"'(?:str|NoneType)' and '(?:int|float|Tensor)'|'(?:int|float|Tensor)' and '(?:str|NoneType)'|must be real number, not (?:str|NoneType)|'(?:str|NoneType)' object cannot be interpreted as an integer|can't multiply sequence by non-int of type 'float'|bad operand type for unary [-+]: '(?:str|NoneType)'|invalid data type 'str'|must be (?:int|float|a number|Number), not (?:str|NoneType)|argument must be a string or a real number, not 'NoneType'"));
    StateDictText(0.01, "it names weights that the model lacks, or does not have",
        Some(r"(?i)loading state_dict|loaded state dict (?:contains|has)|missing key\(s\)|unexpected key\(s\)|size mismatch for [\w.]+:"));
    BrokenFileText(0.01, "it names a file that cannot be read as what it should be",
        Some(r"UnpicklingError|invalid load key|PytorchStreamReader|(?i:not a zip (?:archive|file))|BadZipFile|HeaderTooLarge|InvalidHeader|MetadataIncompleteBuffer|pickle data was truncated|(?i:unexpected end of (?:file|data))|JSONDecodeError|ParserError|(?i:file (?:is|appears to be|may be)? ?(?:truncated|corrupt\w*))|Expecting (?:value|property name)|Extra data: line|ended before the end-of-stream|BadGzipFile|Not a gzipped file|incorrect (?:data|header) check|LZMAError|Input format not supported|magic number|TOMLDecodeError|yaml\.\w+\.\w+Error|ParseError|not (?:a )?(?:well-formed|valid) (?:JSON|YAML|XML|TOML)|failed finding central directory|not a database|cannot identify image file|truncated file read|CRC check failed|cannot reshape array of size|No data left in file|Ran out of input|byte order different from the native"));
    AddressText(0.01, "it names an address or port that is in use",
        Some(r"(?i)address already in use|EADDRINUSE|failed to listen on any|port \d+ .*in use"));
    DanglingLink(0.01, "a link in the working directory leads nowhere", None);
    GroupFrames(0.01, "it happens where processes of a group wait for each other",
        Some(r"distributed_c10d\.py|gloo::EnforceNotMet|gloo/transport|ProcessGroup(?:Gloo|NCCL)"));
    RendezvousFrames(0.01, "it happens where a group of processes is made",
        Some(r"\bin init_process_group\b|distributed/rendezvous\.py|\d+/\d+ clients joined"));
    EmptyText(0.01, "it names a data set, a list or a folder in which nothing is",
        Some(r"(?i)num_samples should be a positive|num_samples=0|expects? a non-empty|expected a non-empty|found (?:0|no) (?:\w+ )?(?:files|images|samples|rows|examples|valid)|no (?:files|images|samples|rows|examples|data) (?:found|in|match)|dataset is empty|empty (?:dataset|sequence|list|batch)|max\(\) (?:arg|iterable argument) is|zero-size array"));
    NoDeviceText(0.01, "it names a GPU that is not there",
        Some(r"(?i)no cuda gpus are available|deserialize object on (?:a )?cuda|invalid device ordinal|not compiled with cuda|found no nvidia driver|cuda\.is_available\(\) is false|invalid device id"));
    InputText(0.01, "it asks for input, and there is none", Some(r"EOFError: EOF when reading a line"));
    /// It names the graph of gradients: changed in place, used up, or not there.
    GraphText(0.01, "it names the graph of gradients",
        Some(r"(?i)modified by an inplace operation|backward through the graph a second time|does not require grad and does not have a grad_fn|leaf variable that requires grad|appears to not have been used in the graph|inference tensors? (?:cannot|do not)|inplace update to inference tensor|can't call numpy\(\) on tensor that requires grad"));
    CopyText(0.003, "it names a tensor that cannot be copied", Some(r"support the deepcopy protocol at the moment"));
    IterationText(0.003, "it names something that changed while it was gone through",
        Some(r"(?i)(?:changed(?: size)?|mutated) during iteration"));
    PickleText(0.01, "it names something that cannot be sent to another process",
        Some(r"(?i)picklingerror|can't (?:pickle|get (?:local )?(?:object|attribute))|cannot (?:be pickled|pickle)|finished its\s+bootstrapping phase|daemonic processes are not allowed"));
    UntrustedText(0.01, "it names a class that a checkpoint may not bring",
        Some(r"(?i)unsupported global|weights_only|add_safe_globals"));
    LockedText(0.01, "it names a lock that another process holds",
        Some(r"(?i)(?:database|table|file) is locked|(?:acquire|obtain) (?:the )?lock|lock .*(?:timed? ?out|held by)|\[Errno 11\]|BlockingIOError"));
    ExistsText(0.01, "it names a file or directory that is there already",
        Some(r"(?i)FileExistsError|file exists|already exists|directory not empty"));
    StampText(0.003, "the name of that is made of the time",
        Some(r"(?i)exists\b[^\n]*\d{4}-?\d\d-?\d\d[-_T ]\d\d[-_:.h]?\d\d"));
    UnsetText(0.01, "it names a variable of the environment that is not set",
        Some(r"(?i)environment variable \S+ (?:expected, but )?(?:is )?not set|please set (?:the )?\S* ?environment variable|(?:<frozen os>|/os\.py).{1,3}line \d+, in __getitem__"));
    ScheduleText(0.003, "it names a schedule of learning rates that has come to its end",
        Some(r"(?i)tried to step \d+ times|number of total steps is \d+"));
    UsageText(0.01, "it says that its arguments are not those that it takes",
        Some(r"(?mi)^usage: |error: (?:the following arguments are required|unrecognized arguments|argument .*(?:invalid|expected))|(?:unrecognized|unknown|invalid|no such|missing) (?:option|argument|command|flag)\b|try '.* --help'|could not override|missing mandatory value"));
    ApiText(0.01, "it names something that this version of a library lacks",
        Some(r"(?i)module '[\w.]+' has no attribute|cannot import name '\w+' from '[\w.]+'|got an unexpected keyword argument|(?:was|were|has been|have been|is) (?:deprecated and )?removed (?:in|from|since)|no longer (?:supported|available|exists?)|requires (?:torch|numpy|python|transformers|cuda)\b.*(?:[<>=]=|version)|is required .* but found|DistributionNotFound|VersionConflict|incompatible versions?|unsupported (?:pickle protocol|opset)"));
    LimitText(0.01, "it names a limit on threads, processes or sizes of files",
        Some(r"(?i)file too large|file size limit exceeded|EFBIG|can't start new thread|pthread_create|thread creation failed|fork: .*(?:temporarily unavailable|resource)|cannot fork|cannot lock memory|no locks available"));
    TimeText(0.01, "it names a limit of time",
        Some(r"(?i)due to time limit|time limit (?:reached|exceeded)|alarm clock|cpu time limit|walltime|wall time"));
    WaitText(0.01, "it has waited for something in vain",
        Some(r"(?i)\btimed out\b|TimeoutError|TimeoutExpired|queue\.Empty|DistStoreError|waiting for clients|watchdog caught|deadline exceeded|BrokenBarrierError"));
    ValueText(0.01, "it names a value that does not have the form that it should",
        Some(r"could not convert string to float|invalid literal for int|does not match format|unconverted data remains|Invalid isoformat|Error tokenizing data|cannot convert (?:float NaN|the series)|not enough values to unpack|too many values to unpack|invalid literal for Fraction|ConversionSyntax|\((?:\w+ )?non-numeric"));
    OwnExit(0.15, "it ends by itself with a status, and without a traceback", None);
    /// The program's own code raises the error: a `raise` or an `assert`.
    OwnRaise(0.15, "its own code raises the error", None);
    /// It fails at other rows with other seeds: no row is in each of the last batches.
    Wanders(0.3, "it fails at other rows with other random numbers", None);
    /// One run fails otherwise than another, with nothing changed.
    Various(0.03, "it fails in different ways from run to run", None);
    ProcessorTime(0.01, "its time is limited, and used up", None);
    OwnTimer(0.003, "it is ended by a timer that the program has set itself, and has not taken back", None);
    Unread(0.003, "a program that it has started waits for somebody to read what it writes", None);
    CrossedLocks(0.002, "threads wait for locks that others hold, which wait in turn", None);
    PipeText(0.005, "it writes to a pipe whose reader has ended", Some(r"(?m)^BrokenPipeError\b"));
    MappedFileCut(0.001, "a file that it had mapped into memory was cut short under it", None);
    UntypedCall(0.003, "it happens in a function that is called by ctypes, and no argtypes say what that takes", None);
    RecomputedText(0.003, "it names a part that did not compute the same when it was computed again",
        Some(r"torch\.utils\.checkpoint: .*(?:different number of tensors|different metadata|recomput)"));
    SocketPathText(0.003, "it says that the path of a socket is too long",
        Some(r"AF_UNIX path too long|(?i:socket path .*too long)"));
    /// The card was near where it slows down each time it failed, and cooler before.
    Hot(0.01, "the card was hot each time it failed", None);
    /// Under WSL alone.
    LongKernel(0.01, "an operation takes longer than half of Windows' 2 s", None);
    NotFiniteText(0.03, "it names values that are not finite, or not in 0 to 1",
        Some(r"(?i)\bnan\b|\binf(?:inity)?\b|non-?finite|not finite|should be between 0 and 1|input_val >= zero|returned nan values|\bdiverge[sd]?\b|\bexploded\b|\bblew up\b"));
    /// Rows of the last batch have values that are not finite.
    NotFiniteRows(0.01, "rows that it has taken are not finite", None);
    NotFiniteModule(0.03, "a module or operation makes values that are not finite of finite ones", None);
    NotFiniteGradient(0.03, "a gradient is not finite, of finite values", None);
    NotFiniteWeights(0.01, "weights are not finite", None);
    SilentError(0.003, "the training makes a mistake that raises no error", None);
    Half(0.08, "it computes with 16-bit floats", None);
    Backward(0.08, "it happens in the backward pass",
        Some(r"torch/autograd/|, in backward|\.backward\(|BackwardBackend|Backward\d"));
    OperationOfCudnn(0.05, "the last operation is one that cuDNN and oneDNN have kernels for", None);
    OperationWithTf32(0.05, "the last operation is one that may use TF32", None);
    /// It had not taken a batch of any loader.
    NoBatch(0.3, "it had not begun to train yet", None);
    RowFrames(0.05, "it happens while a row is read",
        Some(r", in __getitem__|, in fetch\b|/utils/data/_utils/fetch\.py|, in collate|line \d+ in __getitem__"));
    LoaderWorkerDied(0.03, "a loader's process ended",
        Some(r"DataLoader worker(?: \(|s? exited)|Pin memory thread exited|worker process .*(?:died|exited)|BrokenProcessPool"));
    LoaderWorkers(0.3, "loaders have processes", None);
    ForkWithThreads(0.12, "it was forked while it had threads", None);
    CudaInFork(0.01, "CUDA was used before a fork",
        Some(r"re-initialize CUDA in forked subprocess|initialization error.*fork"));
    /// `/dev/shm` is small or full, or its text names shared memory.
    SharedMemory(0.01, "shared memory is short",
        Some(r"(?i)shared memory|/dev/shm|torch_\d+_\d+.*(?:no space|resize)|shm_open|insufficient shm"));
    HidesStdlib(0.004, "a file hides a module of Python's",
        Some(r"partially initialized module '\w+' .*circular import|consider renaming"));
    SymbolText(0.01, "a library lacks a symbol or a version",
        Some(r"(?i)undefined symbol|version `[^']+' not found|GLIBCXX_|CXXABI_|symbol lookup error|cannot open shared object|wrong ELF class|file too short|invalid ELF header|binary incompatib|numpy\.dtype size changed|was removed in the NumPy|compiled using NumPy 1|'_OpNamespace' '\w+' object has no attribute|operator \S+ does not exist|Couldn't load custom C\+\+ ops"));
    NoModule(0.01, "a module is missing", Some(r"ModuleNotFoundError|No module named|cannot import name"));
    NoFile(0.01, "a file is missing",
        Some(r"FileNotFoundError|No such file or directory|does not exist|can't open file|IsADirectoryError|NotADirectoryError|(?i:command not found|: not found\b|cannot open|could not open|failed to open|no usable temporary directory)"));
    Permission(0.01, "something is not permitted",
        Some(r"PermissionError|Permission denied|Operation not permitted|Read-only file system"));
    DiskFull(0.01, "the disk is full",
        Some(r"(?i)no space left on device|disk quota exceeded|\bENOSPC\b|disk is full|PytorchStreamWriter failed|inline_container\.cc.*unexpected pos|unexpected pos \d+ vs|could not write bytes|\d+ requested and \d+ written|database or disk is full"));
    Descriptors(0.01, "no file descriptor is left",
        Some(r"(?i)too many open files|\bEMFILE\b|received 0 items of ancdata"));
    LocaleText(0.01, "text could not be decoded, or a number not read",
        Some(r"UnicodeDecodeError|UnicodeEncodeError|codec can't (?:de|en)code|could not convert string to float|unsupported locale|locale\.Error"));
    LocaleSet(0.3, "the locale is not C.UTF-8", None);
    InImport(0.03, "the error was raised in an import", None);
    ImportEffect(0.08, "an import changed what is not its own", None);
    OtherThreads(0.12, "other modules start threads", None);
    NetworkText(0.01, "the network did not answer",
        Some(r"(?i)ConnectionError|Connection refused|Max retries exceeded|Name or service not known|Temporary failure in name resolution|HTTPSConnectionPool|network is unreachable|no route to host|read timed out|urlopen error|connection reset|connection aborted|RemoteDisconnected|HTTP Error \d|\b(?:401|403|404|429|50[0234]) (?:client|server) error|gaierror|couldn't connect to|cannot connect to|failed to connect|LocalEntryNotFound|OfflineMode|SSLError|ProxyError"));
    /// OpenMP says that it is there twice, or that it cannot start threads.
    OpenMpText(0.01, "OpenMP complains",
        Some(r"OMP: Error|libiomp5|libgomp: |OpenBLAS blas_thread_init|KMP_DUPLICATE"));
    LibraryPathSet(0.12, "LD_LIBRARY_PATH or LD_PRELOAD is set", None);
    Recursion(0.01, "the recursion is too deep",
        Some(r"RecursionError|maximum recursion depth|stack overflow"));
    ReadsLeftovers(0.3, "it reads files that earlier runs may have left", None);
    SmallerBatch(0.08, "the batch that it had taken last is smaller than the others", None);
}

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
            // PyTorch tells of a file that cannot become larger in the same words as of a disk that is full.
            let limited = sign == Sign::DiskFull && notes.file_limit && !text.contains("No space");
            see(if limited { Sign::LimitText } else { sign }, true);
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
    see(Sign::CrossedLocks, outside.crossed_locks.is_some());
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
