//! The texts by family: which pattern means what, and how sure it is.
//!
//! A rule speaks about one line. Of all lines of a log the strongest decides, as `choose` says.

use crate::FaultKind::{self, *};

/// How much a line says about what ended an attempt. A lost context explains all that follows it, so
/// its first sign decides; a follower explains nothing where anything else is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// Looks like an error, no more.
    Sign,
    /// What others leave behind: a lost peer, a worker that exited.
    Follower,
    /// An exception or panic whose text says nothing special.
    Own,
    /// I/O that failed.
    Io,
    /// A signal or an exit status: what ended the process, not why.
    Signal,
    /// A watchdog's word.
    Hang,
    /// CUDA or one of its libraries, the context not certainly lost.
    Cuda,
    /// NaN or infinity.
    Diverged,
    /// Memory, descriptors, a device that is not there.
    Resource,
    /// The process has no descriptor left; what it could not open is named beside it.
    Descriptors,
    /// A sticky CUDA error.
    Sticky,
    /// The line of a failed device-side assertion.
    Assertion,
    /// The kernel says that the GPU is gone.
    Gone,
}

/// How a line that fits is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It means this.
    Kind(FaultKind, Strength),
    /// The driver or the machine is at fault, not one GPU.
    Machine(Strength),
    /// A failed device-side assertion, as the kernel prints it.
    Assertion,
    /// libtorch's own report of failed device-side assertions.
    AssertionReport,
    /// A CUDA error; the table of errors decides.
    Cuda,
    /// A status of a library around CUDA.
    Status,
    /// An Xid.
    Xid,
    /// A number that a process exited with.
    Exit,
    /// A signal by name or number.
    Signal,
    /// Whatever it says, it follows from something else.
    Demoted(FaultKind),
}

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The pattern, ASCII, searched for within a line.
    pub pattern: &'static str,
    /// What it means.
    pub what: What,
}

const fn rule(what: What, pattern: &'static str) -> Rule {
    Rule { pattern, what }
}

const fn kind(kind: FaultKind, strength: Strength, pattern: &'static str) -> Rule {
    rule(What::Kind(kind, strength), pattern)
}

use Strength::*;

/// All rules. Among equally strong ones that fit a line, the first decides.
#[rustfmt::skip] // One line a rule.
pub const RULES: &[Rule] = &[
    // CUDA itself.
    rule(What::Assertion, r"block: *\[\d+, *\d+, *\d+\], *thread: *\[\d+, *\d+, *\d+\]|Device-side assertion [`'\x22]"),
    rule(What::AssertionReport, r"CUDA device-side assertion failures were found on GPU"),
    rule(What::Cuda, r"(?i)cuda|\bhip ?error|gpuassert|an illegal |assert triggered|launch failure|launch timed out|ECC error|nvlink error|invalid program counter|hardware stack error|too many resources requested|busy or unavailable|ROCm-capable|MPS client|global/shared address space|forward compatibility was attempted|async error has occured|display driver / cuda|invalid device (?:ordinal|function)|peer GPU memory"),
    rule(What::Status, r"_STATUS_[A-Z]|CUFFT_[A-Z]|NVRTC_ERROR_|\bnccl[A-Z]"),
    kind(CudaSticky, Sticky, r"!handles_\.at\(i\) INTERNAL ASSERT FAILED"),
    kind(CudaSticky, Sticky, r"\bCUDA_EXCEPTION_\d+|Memory access fault by GPU|HSA_STATUS_ERROR_(?:EXCEPTION|MEMORY_FAULT|MEMORY_APERTURE_VIOLATION|ILLEGAL_INSTRUCTION)\b"),
    kind(CudaUnclear, Cuda, r"cuDNN error|(?:FIND|GET) was unable to find an engine|[Uu]nable to find a valid cuDNN algorithm|Unknown CUDA graph CaptureStatus|cublas runtime error|INTERNAL ASSERT FAILED at .*CUDACachingAllocator"),
    kind(CudaUnclear, Cuda, r"(?i)cuFFT error|cusolver error|cusparse error|cublas error|cudnn (?:error|failed)|DNN library initialization failed|Failed to get convolution algorithm|could not create cu(?:dnn|blas) handle|failed to create cu(?:dnn|blas)\w* handle|CUDA generator expects graph capture|cudnn[ _]frontend|No (?:valid )?execution plans|cublasLt ran into an error|(?:MIOpen|rocBLAS|hipBLAS) error|miopenStatus[A-Z]"),
    kind(CudaUnclear, Cuda, r"NCCL (?:error|failure|WARN Cuda failure)|unhandled cuda error|unhandled system error"),
    kind(CudaTransient, Cuda, r"nvrtc: error|nvrtc-builtins|NVRTC compilation failed"),
    // GPU memory.
    kind(Oom, Resource, r"(?:CUDA|\[CUDA\]|HIP|XPU|NPU|MPS backend) out of memory|(?i:gpu|vram|device) (?:ran )?out of memory"),
    kind(Oom, Resource, r"OutOfMemoryError: (?:CUDA|HIP|Allocation on device|Out of memory allocating)|would exceed allowed memory\. \(out of memory\)"),
    kind(Oom, Resource, r"(?i)\b(?:cuda|gpu) oom(?:$|[:!,] \D| error| on | at | while | when | during )|out of memory on (?:gpu|cuda|device)"),
    kind(Oom, Resource, r"NVML_SUCCESS\b.*INTERNAL ASSERT FAILED.*CUDACachingAllocator"),
    kind(Oom, Resource, r"RESOURCE_EXHAUSTED: .*(?i:out of memory|OOM|failed to allocate|attempting to (?:allocate|reserve))"),
    kind(Oom, Resource, r"OOM when allocating tensor .*(?:GPU|gpu)|OOM when allocating tensor with shape ?\[[\d, ]*\](?: and type \w+)?\s*$|GPU \d+ has a total capaci?ty of"),
    kind(Oom, Resource, r"(?i)cublas runtime error : resource allocation failed|error out of memory at line \d+ in file|failed to allocate .{1,40} on (?:the )?(?:gpu|cuda|device)|ggml_gallocr|cudaMalloc failed: out of memory|BFCArena.*failed to allocate|no available memory for the cache blocks|free memory on device .*is less than desired"),
    rule(What::Demoted(Oom), r"ran out of memory trying to allocate .*not a failure"),
    // Host memory, and the memory that processes share.
    kind(HostOom, Resource, r"DefaultCPUAllocator: |not enough memory: you tried to allocate|OOM when allocating tensor .*CPU|std::bad_alloc|St9bad_alloc|bad_array_new_length|memory allocation of \d+ bytes failed|Out of memory, malloc failed|JavaScript heap out of memory|cannot allocate vector of size|runtime: out of memory"),
    kind(HostOom, Resource, r"(?:^|[\s.:\]|])_?(?:Array|Arrow)?MemoryError\b|malloc of size \d+ failed|Unable to allocate [\d.]+ [KMGT]?i?B for an array|Cannot allocate memory|\bENOMEM\b|Errno 12\]|os error 12\)|WinError 1455\]|os error 1455\)|paging file is too small"),
    kind(HostOom, Resource, r"[Oo]ut of memory: Kill(?:ed)? process|oom-kill|oom_kill event|invoked oom-killer|oom_reaper: reaped|\bOOMKilled(?:\x22?\s*[:=]\s*(?i:true)|\x22?(?:[\s,;.)}]|$))|OOM[ -][Kk]illed|OUT_OF_MEMORY\b.*(?:slurm|State)|[Ee]xceed(?:s|ed|ing) (?:job |step |its |the )?memory limit|job killed: \w*mem .*exceeded|low memory! at or below|\bSIG(?:TERM|KILL) to process .*badness|\boom_kill [1-9]|TERM_MEMLIMIT|due to memory pressure|(?i:machine|host|system|node|container) (?:has )?r[au]n out of (?i:memory|RAM)|node running low on memory|killed by (?:the )?(?:host's |kernel )?OOM[ -][Kk]iller"),
    kind(HostOom, Resource, r"(?i)unable to (?:open|allocate|mmap|resize|write|create)\b.*(?:shared memory|shm|</?torch_)|(?:out of|insufficient) shared memory|killed by signal: Bus error|bus error encountered in worker|/dev/shm.*No space left|No space left on device.*(?:/dev/shm|torch_)"),
    // Descriptors.
    kind(FaultKind::Descriptors, Strength::Descriptors, r"Too many open files|\bEMFILE\b|\bENFILE\b|Errno 2[34]\]|os error 2[34]\)|received \d+ items of ancdata"),
    // The device.
    rule(What::Xid, r"(?i)\bxid\b"),
    rule(What::Machine(Gone), r"(?i)fallen off the bus|GPU[ _]is[ _]lost|GpuLost"),
    kind(DeviceLost, Gone, r"Unable to determine the device handle for|RmInitAdapter failed|GPU requires reset|NVML_ERROR_RESET_REQUIRED"),
    rule(What::Machine(Resource), r"(?i)driver/library version mismatch|LIB_RM_VERSION_MISMATCH|couldn't communicate with the NVIDIA driver|Found no NVIDIA driver|NVIDIA driver on your system is too old|driver[ _]not[ _]loaded|Failed to initialize NVML|NVML: Unknown Error|GPU access blocked by the operating system|lib(?:cuda|nvidia-ml)\.so[.\d]*: cannot open|nvidia-container-cli:.* error|could not select device driver .*gpu|unresolvable CDI devices|NVRM: (?:API mismatch|No NVIDIA|Can.t find|The NVIDIA probe routine)|module nvidia\w* not found"),
    kind(DeviceLost, Resource, r"\bdxgkio_\w+: .*(?:failed|error)|\b(?:handle|r)_?\d* INTERNAL ASSERT FAILED at .*driver_api\.cpp"),
    kind(DeviceLost, Resource, r"No (?:CUDA|HIP) GPUs are available|No devices were found|CUDA unknown error - this may be due to|CUDA driver initialization failed|device < num_gpus INTERNAL ASSERT|not compiled with CUDA enabled|libcudart\.so[.\d]*: cannot open"),
    // Numbers that are none.
    kind(FaultKind::Diverged, Strength::Diverged, r"(?i)function '?\w+backward\w*'? returned (?:nan|inf)|(?:\b|_)loss\b\W{0,3}(?:is|was|became|has become|value)?\W{0,3}(?:tensor\()?(?:[-+]?(?:nan|inf)\b|infinite|not finite|non-?finite)"),
    kind(FaultKind::Diverged, Strength::Diverged, r"(?i)\binput (?:\w+ )?contains (?:nan|inf)|(?:gradient|grad norm|grads|total norm|logits|outputs?|activations)\b.{0,90}\b(?:non-?finite|not finite|is nan|are nan|contains? (?:nan|inf))|minimum loss scale reached|loss scale already at minimum|probability tensor contains either"),
    kind(FaultKind::Diverged, Strength::Diverged, r"(?i)constraint .*found invalid values|cannot convert float (?:nan|infinity) to integer|value nan is not acceptable|tensor had (?:nan|inf)|\(nan\) encountered in|= ?(?:nan|inf) is not finite|\b(?:nan|inf)s? (?:loss|gradients?|values? (?:detected|encountered|found)|detected|encountered)\b|grad_?norm\W{0,4}nan\b|\b(?:encountered|detected|found|got|produced) (?:an? |any )?(?:nan|inf)s? .{0,20}\b(?:loss|grad|logit|output|weight|param|activation)|training (?:has )?diverged|non-?finite (?:loss|gradient|logit)"),
    // Hangs.
    kind(FaultKind::Hang, Strength::Hang, r"(?i)watchdog caught collective operation timeout|collective operation timed out|heartbeat monitor timed out|no training step for|blocked for more than \d+ seconds|DataLoader timed out after|^Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!|deadlock detected|(?:worker|process|trial|training|task)(?: \w+)? (?:has )?hung\b|\bas hung\b|no (?:progress|heartbeat)\b.{0,40}\bfor \d+|soft lockup|hard lockup|self-detected stall|detected stalls on CPU|(?:process|worker|training|kernel) (?:is|seems|appears)(?: to be)? (?:hung|stuck)"),
    // Ends of processes.
    rule(What::Exit, r"(?i)exit(?:ed)?(?: with)?[ _-]*(?:code|status)|exitcode|non-zero exit|terminated with code|return ?code|process exited|exit value|\*\*\* \[[^\]]*\] Error"),
    rule(What::Signal, r"\bSIG[A-Z]{2,5}\b|(?i:\bsignal\b)"),
    kind(Killed, Strength::Signal, r"^(?:\[[^\]]*\][+-]? *)?(?:[\d:T.,Z-]+ +)*(?:\S+: )*(?:line \d+: +)?(?:\d+ +)?(?:[Kk]illed|[Tt]erminated|Hangup)(?:$|  +\S| \(core|  *python)|^srun: error: .*: (?:Killed|Terminated)$|^make(?:\[\d+\])?: \*\*\* \[.*\] (?:Killed|Terminated|Hangup)"),
    kind(Crash, Strength::Signal, r"^(?:\[[^\]]*\][+-]? *)?(?:[\d:T.,Z-]+ +)*(?:\S+: )*(?:line \d+: +)?(?:\d+ +)?(?:[Aa]bort(?:ed)?|[Bb]us error|[Ii]llegal (?:hardware )?instruction|[Ff]loating[ -]point exception|[Tt]race/breakpoint trap|[Bb]ad system call|(?:CPU time|[Ff]ile size) limit exceeded)(?:$|  +\S| *\(core|  *python)|^srun: error: .*: Aborted\b|^make(?:\[\d+\])?: \*\*\* \[.*\] (?:Aborted|Bus error|Illegal instruction|Floating point exception)"),
    kind(Crash, Strength::Signal, r"[Ss]egmentation fault|\b[Ss]egfault(?:ed)?(?:$|\W* encountered)|\bdumped core\b|OMP: Error #\d+|Fatal Python error|Windows fatal exception|EXCEPTION_ACCESS_VIOLATION|0xC0000005|has overflowed its stack|fatal runtime error: |stack smashing detected|double free or corruption|free\(\): |malloc\(\): |realloc\(\): |corrupted size vs|munmap_chunk\(\)|corrupted double-linked|pure virtual method called"),
    kind(Crash, Strength::Signal, r"terminate called|non-unwinding panic|panic in a (?:destructor|function that cannot unwind)|libc\+\+abi: terminating|: Assertion [`'].*' failed\.|segfault at [0-9a-f]+ ip|general protection fault|trap invalid opcode|runtime error: .*AddressSanitizer|ERROR: AddressSanitizer"),
    kind(Interrupted, Strength::Signal, r"KeyboardInterrupt|[Ii]nterrupted by (?:the )?user|control-C event|CANCELLED AT|[Ss]pot (?:instance )?interruption|[Pp]reemption notice|system is going down for|DUE TO (?:TIME LIMIT|PREEMPTION)|stopped by tune"),
    // Followers.
    rule(What::Demoted(FaultKind::Hang), r"(?i)Timed out (?:after \d+ ?\w+ waiting|waiting \d+ ?\w+ for)|wait timeout after \d+"),
    rule(What::Demoted(Crash), r"DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly"),
    rule(What::Demoted(TaskError), r"remote process exited|Connection (?:reset|closed) by peer|ChildFailedError|ProcessRaisedException|ProcessExitedException|CalledProcessError|Sending process \d+ closing signal|[Ff]ailures?: *$|Broken pipe|ncclRemoteError|DistBackendError: .*(?:socket|store)"),
    // The task's own.
    kind(TaskError, Strength::Io, r"No space left on device|Disk quota exceeded|Read-only file system|Input/output error|os error (?:5|28|30|122)\)|Errno (?:5|28|30|122)\]|database or disk is full|PytorchStreamWriter failed"),
    kind(TaskError, Own, r"(?:^|[\s:|\]\)\x22'(])(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*Error|(?:[A-Z]\w*)?Exception)(?::(?:\s|$)|\(|\s*$)|\b(?:errors?|exc|exceptions?)\.[A-Z]\w*(?::\s|$)|^(?:\[rank\d+\]: )?(?:SystemExit|StopIteration|subprocess\.TimeoutExpired|queue\.(?:Empty|Full))\b|panicked at|^panicked: "),
    kind(TaskError, Sign, r"(?i)^[^a-z]*(?:error|fatal|critical|failure|failed)\b|\b(?:error|fatal|critical)\b ?[:\]]|Traceback \(most recent call last\)"),
    kind(TaskError, Sign, r"(?i)\b(?:cannot|can't|could not|unable to|expected .+ (?:but|got|found)|must (?:be|match|have)|shape mismatch|size mismatch|do not match|does not match|out of (?:range|bounds)|not found|no such|permission denied|access denied|unsupported|not supported|invalid|missing|malformed|undefined|crash(?:ed)?)\b"),
];
