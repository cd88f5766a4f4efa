//! Texts of a program that are signs.

use std::sync::LazyLock;

use regex::Regex;

use crate::signs::Sign;

/// Texts that are signs, each looked for in the last lines of the output.
const TEXTS: &[(Sign, &str)] = &[
    (
        Sign::LabelText,
        r"(?i)target -?\d+ is out of bounds|label\w* .*out of range|class (?:label|index|values?) .*(?:range|bounds|smaller)|t >= 0 && t < n_classes|cur_target|all elements of target should be",
    ),
    (
        Sign::IndexText,
        r"(?i)(?:^|[^t] )index out of range|index -?\d+ is out of bounds|indexSelect|srcIndex < srcSelectDimSize|out of bounds for (?:dimension|axis)",
    ),
    (
        Sign::ShapeText,
        r"(?i)size of tensor .* must match|shapes cannot be multiplied|mismatch\b.*(?:size|shape|dim)|(?:size|shape)s? .*mismatch|target size .*different|to match target batch_size|is invalid for input of size|could not broadcast|expected .*(?:got|but) .*(?:dim|shape|size)|to be equal size|multi-target not supported|more than 1 value per channel|dimension .*(?:out of range|specified as 0)|must (?:have|be) the same|must match|weight tensor should be defined|inconsistent tensor size|resize storage that is not resizable",
    ),
    (
        Sign::TypeText,
        r"(?i)expected scalar type|not implemented for '\w+'|must have the same dtype|found dtype|expected all tensors to be on the same device|should be the same|is on \w+(?::\d)?,? (?:but|different)|not on the expected device|dtypes? not supported|unsupported (?:data ?type|dtype|scalartype)|got unsupported|expected object of (?:scalar|device) type|tensor for argument .* (?:type|device)|can't convert \w+:?\d? device type tensor",
    ),
    (
        Sign::StateDictText,
        r"(?i)loading state_dict|loaded state dict (?:contains|has)|missing key\(s\)|unexpected key\(s\)|size mismatch for [\w.]+:",
    ),
    (
        Sign::BrokenFileText,
        r"UnpicklingError|invalid load key|PytorchStreamReader|(?i:not a zip (?:archive|file))|BadZipFile|HeaderTooLarge|InvalidHeader|MetadataIncompleteBuffer|pickle data was truncated|(?i:unexpected end of (?:file|data))|JSONDecodeError|ParserError|(?i:file (?:is|appears to be|may be)? ?(?:truncated|corrupt\w*))|Expecting (?:value|property name)|Extra data: line|ended before the end-of-stream|BadGzipFile|Not a gzipped file|incorrect (?:data|header) check|LZMAError|Input format not supported|magic number|TOMLDecodeError|yaml\.\w+\.\w+Error|ParseError|not (?:a )?(?:well-formed|valid) (?:JSON|YAML|XML|TOML)|failed finding central directory|not a database|cannot identify image file|truncated file read|CRC check failed|cannot reshape array of size|No data left in file|Ran out of input|byte order different from the native",
    ),
    (
        Sign::AddressText,
        r"(?i)address already in use|EADDRINUSE|failed to listen on any|port \d+ .*in use",
    ),
    (Sign::PipeText, r"(?m)^BrokenPipeError\b"),
    (
        Sign::RecomputedText,
        r"torch\.utils\.checkpoint: .*(?:different number of tensors|different metadata|recomput)",
    ),
    (
        Sign::SocketPathText,
        r"AF_UNIX path too long|(?i:socket path .*too long)",
    ),
    (
        Sign::EmptyText,
        r"(?i)num_samples should be a positive|num_samples=0|expects? a non-empty|expected a non-empty|found (?:0|no) (?:\w+ )?(?:files|images|samples|rows|examples|valid)|no (?:files|images|samples|rows|examples|data) (?:found|in|match)|dataset is empty|empty (?:dataset|sequence|list|batch)|max\(\) (?:arg|iterable argument) is|zero-size array",
    ),
    (
        Sign::NoDeviceText,
        r"(?i)no cuda gpus are available|deserialize object on (?:a )?cuda|invalid device ordinal|not compiled with cuda|found no nvidia driver|cuda\.is_available\(\) is false|invalid device id",
    ),
    // A training of a task is a process of its own, whose end is told by another one.
    (
        Sign::NativeCrash,
        r"the worker died of SIG(?:SEGV|ABRT|FPE)",
    ),
    (Sign::BusError, r"the worker died of SIGBUS"),
    (Sign::IllegalInstruction, r"the worker died of SIGILL"),
    (Sign::InputText, r"EOFError: EOF when reading a line"),
    (
        Sign::UsageText,
        r"(?mi)^usage: |error: (?:the following arguments are required|unrecognized arguments|argument .*(?:invalid|expected))|(?:unrecognized|unknown|invalid|no such|missing) (?:option|argument|command|flag)\b|try '.* --help'|could not override|missing mandatory value",
    ),
    (
        Sign::ApiText,
        r"(?i)module '[\w.]+' has no attribute|cannot import name '\w+' from '[\w.]+'|got an unexpected keyword argument|(?:was|were|has been|have been|is) (?:deprecated and )?removed (?:in|from|since)|no longer (?:supported|available|exists?)|requires (?:torch|numpy|python|transformers|cuda)\b.*(?:[<>=]=|version)|is required .* but found|DistributionNotFound|VersionConflict|incompatible versions?|unsupported (?:pickle protocol|opset)",
    ),
    (
        Sign::LimitText,
        r"(?i)file too large|file size limit exceeded|EFBIG|can't start new thread|pthread_create|thread creation failed|fork: .*(?:temporarily unavailable|resource)|cannot fork|cannot lock memory|no locks available",
    ),
    (
        Sign::TimeText,
        r"(?i)due to time limit|time limit (?:reached|exceeded)|alarm clock|cpu time limit|walltime|wall time",
    ),
    (
        Sign::WaitText,
        r"(?i)\btimed out\b|TimeoutError|TimeoutExpired|queue\.Empty|DistStoreError|waiting for clients|watchdog caught|deadline exceeded|BrokenBarrierError",
    ),
    (
        Sign::ValueText,
        r"could not convert string to float|invalid literal for int|does not match format|unconverted data remains|Invalid isoformat|Error tokenizing data|cannot convert (?:float NaN|the series)|not enough values to unpack|too many values to unpack|invalid literal for Fraction|ConversionSyntax|\((?:\w+ )?non-numeric",
    ),
    (
        Sign::HidesStdlib,
        r"partially initialized module '\w+' .*circular import|consider renaming",
    ),
    (
        Sign::GraphText,
        r"(?i)modified by an inplace operation|backward through the graph a second time|does not require grad and does not have a grad_fn|leaf variable that requires grad|appears to not have been used in the graph|inference tensors? (?:cannot|do not)|inplace update to inference tensor|can't call numpy\(\) on tensor that requires grad",
    ),
    (
        Sign::PickleText,
        r"(?i)picklingerror|can't (?:pickle|get (?:local )?(?:object|attribute))|cannot (?:be pickled|pickle)|finished its\s+bootstrapping phase|daemonic processes are not allowed",
    ),
    (
        Sign::UntrustedText,
        r"(?i)unsupported global|weights_only|add_safe_globals",
    ),
    (
        Sign::LockedText,
        r"(?i)(?:database|table|file) is locked|(?:acquire|obtain) (?:the )?lock|lock .*(?:timed? ?out|held by)|\[Errno 11\]|BlockingIOError",
    ),
    (
        Sign::ExistsText,
        r"(?i)FileExistsError|file exists|already exists|directory not empty",
    ),
    (
        Sign::StampText,
        r"(?i)exists\b[^\n]*\d{4}-?\d\d-?\d\d[-_T ]\d\d[-_:.h]?\d\d",
    ),
    (
        Sign::UnsetText,
        r"(?i)environment variable \S+ (?:expected, but )?(?:is )?not set|please set (?:the )?\S* ?environment variable|(?:<frozen os>|/os\.py).{1,3}line \d+, in __getitem__",
    ),
    (
        Sign::NotFiniteText,
        r"(?i)\bnan\b|\binf(?:inity)?\b|non-?finite|not finite|should be between 0 and 1|input_val >= zero|returned nan values|\bdiverge[sd]?\b|\bexploded\b|\bblew up\b",
    ),
    (
        Sign::LoaderWorkerDied,
        r"DataLoader worker(?: \(|s? exited)|Pin memory thread exited|worker process .*(?:died|exited)|BrokenProcessPool",
    ),
    (
        Sign::CudaInFork,
        r"re-initialize CUDA in forked subprocess|initialization error.*fork",
    ),
    (
        Sign::SharedMemory,
        r"(?i)shared memory|/dev/shm|torch_\d+_\d+.*(?:no space|resize)|shm_open|insufficient shm",
    ),
    (
        Sign::SymbolText,
        r"(?i)undefined symbol|version `[^']+' not found|GLIBCXX_|CXXABI_|symbol lookup error|cannot open shared object|wrong ELF class|file too short|invalid ELF header|binary incompatib|numpy\.dtype size changed|was removed in the NumPy|compiled using NumPy 1|'_OpNamespace' '\w+' object has no attribute|operator \S+ does not exist|Couldn't load custom C\+\+ ops",
    ),
    (
        Sign::NoModule,
        r"ModuleNotFoundError|No module named|cannot import name",
    ),
    (
        Sign::NoFile,
        r"FileNotFoundError|No such file or directory|does not exist|can't open file|IsADirectoryError|NotADirectoryError|(?i:command not found|: not found\b|cannot open|could not open|failed to open|no usable temporary directory)",
    ),
    (
        Sign::Permission,
        r"PermissionError|Permission denied|Operation not permitted|Read-only file system",
    ),
    (
        Sign::DiskFull,
        r"(?i)no space left on device|disk quota exceeded|\bENOSPC\b|disk is full|PytorchStreamWriter failed|inline_container\.cc.*unexpected pos|unexpected pos \d+ vs|could not write bytes|\d+ requested and \d+ written|database or disk is full",
    ),
    (
        Sign::Descriptors,
        r"(?i)too many open files|\bEMFILE\b|received 0 items of ancdata",
    ),
    (
        Sign::OutOfMemory,
        r"MemoryError|std::bad_alloc|(?i:cannot allocate memory)|DefaultCPUAllocator|Unable to allocate .*(?:GiB|MiB|KiB)|\bENOMEM\b",
    ),
    (
        Sign::LocaleText,
        r"UnicodeDecodeError|UnicodeEncodeError|codec can't (?:de|en)code|could not convert string to float|unsupported locale|locale\.Error",
    ),
    (
        Sign::NetworkText,
        r"(?i)ConnectionError|Connection refused|Max retries exceeded|Name or service not known|Temporary failure in name resolution|HTTPSConnectionPool|network is unreachable|no route to host|read timed out|urlopen error|connection reset|connection aborted|RemoteDisconnected|HTTP Error \d|\b(?:401|403|404|429|50[0234]) (?:client|server) error|gaierror|couldn't connect to|cannot connect to|failed to connect|LocalEntryNotFound|OfflineMode|SSLError|ProxyError",
    ),
    (
        Sign::OpenMpText,
        r"OMP: Error|libiomp5|libgomp: |OpenBLAS blas_thread_init|KMP_DUPLICATE",
    ),
    (
        Sign::Recursion,
        r"RecursionError|maximum recursion depth|stack overflow",
    ),
    (
        Sign::CudaIllegalInstruction,
        r"(?i)an illegal instruction was encountered|CUDA_ERROR_ILLEGAL_INSTRUCTION|cudaErrorIllegalInstruction",
    ),
    (
        Sign::CudaAddress,
        r"(?i)illegal memory access|misaligned address|CUDA_ERROR_ILLEGAL_ADDRESS|invalid __global__",
    ),
    (Sign::CudaAssert, r"(?i)device-side assert"),
    (
        Sign::CudaNotReady,
        r"(?i)device not ready|handles_\.at\(i\)|dxgk",
    ),
    (
        Sign::CudaInstallation,
        r"(?i)no kernel image|driver version is insufficient|unsupported toolchain|forward compatibility|driver.*too old|PTX JIT|CUDNN_STATUS_(?:NOT_INITIALIZED|VERSION_MISMATCH)|version mismatch.*NVML|libcudnn|libcublas",
    ),
    (
        Sign::GpuLost,
        r"(?i)GPU is lost|fallen off the bus|no CUDA-capable device|unknown error.*cuda|uncorrectable ECC|cudaErrorDevicesUnavailable.*lost",
    ),
    (
        Sign::GpuBusy,
        r"(?i)all CUDA-capable devices are busy|devices? .*unavailable|exclusive",
    ),
    (
        Sign::GroupFrames,
        r"distributed_c10d\.py|gloo::EnforceNotMet|gloo/transport|ProcessGroup(?:Gloo|NCCL)",
    ),
    (
        Sign::RendezvousFrames,
        r"\bin init_process_group\b|distributed/rendezvous\.py|\d+/\d+ clients joined",
    ),
    (
        Sign::LossFrames,
        // Not in a line of code that a traceback quotes: what that calls before the loss may have failed.
        r"(?m)/nn/modules/loss\.py|line \d+,? in \w*(?:loss|criterion|entropy)\w*$|^\S.*(?:_loss\b|cross_entropy|nll_loss)",
    ),
    (
        Sign::EmbeddingFrames,
        r"/nn/modules/sparse\.py|, in embedding|embedding\(",
    ),
    (
        Sign::Backward,
        r"torch/autograd/|, in backward|\.backward\(|BackwardBackend|Backward\d",
    ),
    (
        Sign::RowFrames,
        r", in __getitem__|, in fetch\b|/utils/data/_utils/fetch\.py|, in collate|line \d+ in __getitem__",
    ),
];

static PATTERNS: LazyLock<Vec<(Sign, Regex)>> = LazyLock::new(|| {
    let compiled = TEXTS
        .iter()
        .filter_map(|(sign, text)| Some((*sign, Regex::new(text).ok()?)));
    compiled.collect()
});

/// How many of the last lines of an output are read for signs.
const LINES: usize = 80;

/// Signs that are looked for in the frames of tracebacks, too: others are in what was said alone.
const OF_FRAMES: [Sign; 7] = [
    Sign::GroupFrames,
    Sign::RendezvousFrames,
    Sign::LossFrames,
    Sign::EmbeddingFrames,
    Sign::Backward,
    Sign::RowFrames,
    Sign::UnsetText,
];

/// The last lines of an output, which are read for signs.
pub fn end(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// The signs that a text has.
pub fn signs(text: &str) -> Vec<Sign> {
    let said = said(text);
    let seen = |(sign, pattern): &(Sign, Regex)| {
        let of_frames = OF_FRAMES.contains(sign);
        let text = if of_frames { text } else { &said };
        pattern.is_match(text).then_some(*sign)
    };
    PATTERNS.iter().filter_map(seen).collect()
}

/// Whether the last frame of a traceback is the program's own line, and that raises the error itself.
pub fn raises(text: &str, own_line: Option<&str>) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let frame = lines
        .iter()
        .rposition(|l| l.trim_start().starts_with("File \""));
    let Some((frame, own)) = frame.zip(own_line) else {
        return false;
    };
    let place = lines[frame]
        .trim_start()
        .trim_start_matches("File \"")
        .replacen("\", line ", ":", 1);
    let place = place.split(',').next().unwrap_or_default();
    let code = lines
        .get(frame + 1)
        .map(|line| line.trim_start())
        .unwrap_or_default();
    let raised = code.starts_with("assert ") || code.contains("raise ");
    raised && own.split(" in ").next() == Some(place)
}

/// The text without the frames of tracebacks, whose lines of code name much that has not happened.
fn said(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut in_frame = false;
    for line in text.lines() {
        let frame = line.trim_start().starts_with("File \"");
        in_frame = frame || in_frame && line.starts_with("    ");
        if !in_frame {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(PATTERNS.len(), TEXTS.len());
    }

    #[test]
    fn the_end_of_a_trainings_own_process_is_the_sign_that_a_programs_is() {
        for (signal, sign) in [
            (libc::SIGSEGV, Sign::NativeCrash),
            (libc::SIGABRT, Sign::NativeCrash),
            (libc::SIGBUS, Sign::BusError),
            (libc::SIGILL, Sign::IllegalInstruction),
        ] {
            let told = fault::classify(&fault::Evidence {
                death: Some(fault::Death::Signaled(signal)),
                ..fault::Evidence::default()
            });
            assert_eq!(signs(&told.detail), [sign], "{}", told.detail);
        }
    }

    #[test]
    fn texts_are_signs_of_what_they_name() {
        assert_eq!(
            signs("IndexError: Target 7 is out of bounds."),
            [Sign::LabelText]
        );
        assert_eq!(
            signs("IndexError: index out of range in self"),
            [Sign::IndexText]
        );
        assert_eq!(
            signs("OSError: [Errno 28] No space left on device"),
            [Sign::DiskFull]
        );
        assert_eq!(signs("loss 0.3 at step 4, information"), []);
        let stamped = "FileExistsError: [Errno 17] File exists: 'runs/2026-11-29_12-09-54'";
        assert_eq!(signs(stamped), [Sign::ExistsText, Sign::StampText]);
        for (text, sign) in [
            ("1/2 clients joined.", Sign::RendezvousFrames),
            (
                "ValueError: loaded state dict contains a parameter group",
                Sign::StateDictText,
            ),
            (
                "ValueError: cannot reshape array of size 234 into (128,8)",
                Sign::BrokenFileText,
            ),
            (
                "RuntimeError: 0D or 1D target tensor expected, multi-target not supported",
                Sign::ShapeText,
            ),
        ] {
            assert_eq!(signs(text), [sign], "{text}");
        }
        let text = "The size of tensor a (3) must match the size of tensor b (4)";
        assert_eq!(signs(text), [Sign::ShapeText]);
    }

    #[test]
    fn the_programs_own_raise_is_told_from_a_librarys() {
        let own = "  File \"t.py\", line 3, in load\n    raise ValueError(x)\nValueError: no\n";
        assert!(raises(own, Some("t.py:3 in load")));
        let library =
            format!("{own}  File \"/lib/python3/x.py\", line 9\n    raise ValueError(x)\n");
        assert!(!raises(&library, Some("t.py:3 in load")));
        assert!(!raises(
            "  File \"t.py\", line 3\n    f(x)\n",
            Some("t.py:3")
        ));
    }

    #[test]
    fn code_that_a_traceback_shows_is_no_sign() {
        let text = "  File \"t.py\", line 3, in load\n    unpickler.load() # database is locked\nKeyError: 'lr'\n";
        assert_eq!(signs(text), []);
        assert_eq!(
            signs("sqlite3.OperationalError: database is locked"),
            [Sign::LockedText]
        );
    }
}
