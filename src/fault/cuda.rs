//! CUDA runtime errors: how a text names one, and which of them leave the context unusable.
//!
//! A text names an error by the runtime's enumerator (`cudaErrorAssert`), by the driver's
//! (`CUDA_ERROR_ASSERT`), by the words of `cudaGetErrorString`, or by its number, in today's or in the
//! numbering before CUDA 10.1. Enumerators are stable, words are not: the enumerator wins.

mod errors;
mod status;

use std::sync::LazyLock;

use regex::Regex;

use super::pattern;

pub use errors::ERRORS;
pub use status::{Status, status};

/// What an error means for the process that got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Context {
    /// Sticky: every later call fails; only a new process helps.
    Lost,
    /// The context goes on.
    Alive,
    /// The environment is at fault (driver, no device); a restart rarely helps.
    Environment,
}

/// One CUDA runtime error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CudaError {
    /// `cudaError_t`; the driver's number is the same where it has one.
    pub code: u32,
    /// The enumerator, as libtorch prints it between backtick and quote.
    pub name: &'static str,
    /// The driver's enumerator; empty where only the runtime has this error.
    pub driver: &'static str,
    /// The text of `cudaGetErrorString`.
    pub text: &'static str,
    /// What it does to the context.
    pub context: Context,
}

/// An error that a line names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Where the name, the words or the introduction to them begin, in bytes.
    pub at: usize,
    /// The error; `None` where CUDA reports one that this table does not know.
    pub error: Option<&'static CudaError>,
    /// The enumerator as it stands there, if there is one.
    pub name: Option<String>,
}

/// Errors that no other library words the same way: they need no mention of CUDA beside them.
const DISTINCT: [u32; 26] = [
    34, 35, 36, 46, 98, 100, 101, 209, 214, 220, 222, 226, 700, 701, 702, 710, 714, 715, 717, 718,
    719, 803, 804, 806, 810, 911,
];

/// Words of older releases and of ROCm that differ from today's.
const OTHER_WORDS: [(&str, u32); 2] = [
    ("all CUDA-capable devices are busy or unavailable", 46),
    ("no ROCm-capable device is detected", 100),
];

/// Numbers before CUDA 10.1, and what they are today.
const OLD_NUMBERS: [(u32, u32); 27] = [
    (4, 719),
    (6, 702),
    (7, 701),
    (8, 98),
    (10, 101),
    (11, 1),
    (30, 999),
    (33, 400),
    (34, 600),
    (38, 100),
    (39, 214),
    (48, 209),
    (59, 710),
    (60, 711),
    (61, 712),
    (62, 713),
    (70, 800),
    (71, 801),
    (72, 714),
    (73, 715),
    (74, 716),
    (75, 717),
    (76, 718),
    (77, 700),
    (78, 218),
    (79, 219),
    (64, 704),
];

/// What stands before the words or the number of an error: CUDA's name with one of error, failure
/// or failed, a number with or without brackets, and punctuation.
static CUE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?ix)
        (?: thcudacheck \ fail .*? \b error
          | \b (?: cuda | cudart | hip ) (?: [\ _-]? (?: runtime | driver | kernel | api | call | launch
              | async | blocks | check | sync ) )* [\ _-]* (?: error | failure | failed | fail ) \b
            (?: \ (?: in | at ) \ \S+ | \ ? \( [^()\s]+ : \d+ \) )?
          | triton \ error \ \[ (?: cuda | hip ) \]
          | gpuassert
        )
        [\]\)\ ]* (?: \ ?(?: code | no\. | number )? [\ =:\(\#]* (?P<number> \d{1,5} ) \b \)? )?
        [\ :=,'`\x22\(\)\|-]*",
    )
});

/// The file and line that macros of C and C++ programs put between introduction and words.
static SITE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^[^;]{0,200}?\.(?:cu|cuh|cpp|cc|c|h|hpp)\b['\x22]?[\s:,(\[]*(?:(?:in |at )?line )?\d+[\s:,)\]\x22'-]*",
    )
});

/// Calls that give only a number: numba's form, PyTorch's when it counts devices, and C's.
static NUMBERED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)
          \[ (\d{1,4}) \] \ Call \ to \ cu\w+ \ results
        | cudaGetDeviceCount\(\) .* \b Error \ (\d{1,4}) :
        | \b (?: cuda | cu ) [A-Z] \w+ (?:\(\))? \ (?: returned | failed \ with ) (?: \ error )? (?: \ code )?
          [\ :=\(]* (\d{1,4}) \b",
    )
});

/// Finds the CUDA error that a text names. A sticky one wins over others, the first among equals.
pub fn find(text: &str) -> Option<&'static CudaError> {
    let mut first = None;
    for error in text
        .lines()
        .filter_map(find_in_line)
        .filter_map(|h| h.error)
    {
        if error.context == Context::Lost {
            return Some(error);
        }
        first = first.or(Some(error));
    }
    first
}

/// Finds the CUDA error that a line names: by an enumerator, else by words or number behind an
/// introduction, else by words that only CUDA uses.
pub fn find_in_line(line: &str) -> Option<Hit> {
    let named: Vec<Hit> = enumerators(line).collect();
    let sticky = |h: &&Hit| h.error.is_some_and(|e| e.context == Context::Lost);
    let known = |h: &&Hit| h.error.is_some();
    if let Some(hit) = named
        .iter()
        .find(sticky)
        .or_else(|| named.iter().find(known))
    {
        return Some(hit.clone());
    }
    introduced(line)
        .or_else(|| numbered(line))
        .or_else(|| distinct(line))
        .or_else(|| named.into_iter().next())
        .or_else(|| unknown(line))
}

/// Words that begin with `cudaError` or `CUDA_ERROR_`, and HIP's twins of them.
fn enumerators(line: &str) -> impl Iterator<Item = Hit> {
    identifiers(line).filter_map(|(at, word)| enumerator(word, at))
}

/// The words of a line as C has them, and where they begin.
fn identifiers(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let between = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let mut end = 0;
    let words = line.split_inclusive(between).map(move |piece| {
        let start = end;
        end += piece.len();
        (start, piece.trim_end_matches(between))
    });
    words.filter(|(_, word)| !word.is_empty())
}

fn enumerator(word: &str, at: usize) -> Option<Hit> {
    let runtime = |tail: &str| tail.starts_with(|c: char| c.is_ascii_uppercase());
    let error = if let Some(tail) = word.strip_prefix("cudaError").filter(|t| runtime(t)) {
        ERRORS.iter().find(|e| e.name[9..] == *tail)
    } else if let Some(tail) = word.strip_prefix("hipError").filter(|t| runtime(t)) {
        let tail = match tail {
            "OutOfMemory" => "MemoryAllocation",
            other => other,
        };
        ERRORS.iter().find(|e| e.name[9..] == *tail)
    } else if word.starts_with("CUDA_ERROR_") {
        ERRORS.iter().find(|e| e.driver == word)
    } else {
        return None;
    };
    Some(Hit {
        at,
        error,
        name: Some(word.to_owned()),
    })
}

/// An error behind an introduction, by its words, else by its number.
fn introduced(line: &str) -> Option<Hit> {
    CUE.captures_iter(line).find_map(|cue| {
        let whole = cue.get(0)?;
        let number = cue.name("number").and_then(|n| n.as_str().parse().ok());
        // Only old versions of PyTorch print these two forms.
        let old = whole.as_str().starts_with("THC") || whole.as_str().contains("runtime error (");
        let rest = &line[whole.end()..];
        let error = words(rest)
            .or_else(|| by_number(number?, old))
            .or_else(|| words(&rest[SITE.find(rest)?.end()..]))?;
        Some(Hit {
            at: whole.start(),
            error: Some(error),
            name: None,
        })
    })
}

fn numbered(line: &str) -> Option<Hit> {
    let found = NUMBERED.captures(line)?;
    let number = found.iter().skip(1).flatten().next()?;
    Some(Hit {
        at: found.get(0)?.start(),
        error: Some(by_number(number.as_str().parse().ok()?, false)?),
        name: None,
    })
}

/// The error whose words stand at the beginning of `text`, the longest if there are several.
fn words(text: &str) -> Option<&'static CudaError> {
    let stands = |e: &&CudaError| {
        let end = e.text.len();
        let same = |part: &[u8]| part.eq_ignore_ascii_case(e.text.as_bytes());
        text.as_bytes().get(..end).is_some_and(same)
            && !text
                .as_bytes()
                .get(end)
                .is_some_and(u8::is_ascii_alphanumeric)
    };
    ERRORS.iter().filter(stands).max_by_key(|e| e.text.len())
}

fn by_number(number: u32, old: bool) -> Option<&'static CudaError> {
    let today = |code: u32| ERRORS.iter().find(|e| e.code == code);
    let before = || {
        let (_, code) = OLD_NUMBERS.iter().find(|(n, _)| *n == number)?;
        today(*code)
    };
    if old {
        before().or_else(|| today(number))
    } else {
        today(number).or_else(before)
    }
}

fn distinct(line: &str) -> Option<Hit> {
    let lower = line.to_ascii_lowercase();
    let texts = DISTINCT
        .iter()
        .filter_map(|&code| Some((by_number(code, false)?.text, code)));
    let found = texts.chain(OTHER_WORDS).filter_map(|(text, code)| {
        let at = lower.find(&text.to_ascii_lowercase())?;
        Some((at, by_number(code, false)?))
    });
    let (at, error) = found.min_by_key(|(at, _)| *at)?;
    Some(Hit {
        at,
        error: Some(error),
        name: None,
    })
}

/// libtorch's introduction with words behind it that nothing here knows.
fn unknown(line: &str) -> Option<Hit> {
    let introductions = ["CUDA error: ", "CUDA driver error: ", "HIP error: "];
    let at = introductions.iter().filter_map(|i| line.find(i)).min()?;
    Some(Hit {
        at,
        error: None,
        name: None,
    })
}

/// Whether a text is an out-of-GPU-memory error in one of libtorch's or cuBLAS's forms.
pub fn out_of_memory(text: &str) -> bool {
    text.contains("CUDA out of memory")
        || text
            .lines()
            .any(|l| status(l).is_some_and(|(_, _, s)| s == Status::OutOfMemory))
        || (text.contains("NVML_SUCCESS") && text.contains("CUDACachingAllocator"))
        || find(text).is_some_and(|e| e.code == 2)
}

/// Whether a text comes from CUDA or one of its libraries at all.
pub fn cuda_text(text: &str) -> bool {
    out_of_memory(text)
        || text
            .lines()
            .any(|l| find_in_line(l).is_some() || status(l).is_some())
        || [
            "CUDA error",
            "CUDA driver error",
            "cuDNN error",
            "CUDACachingAllocator",
            "Unknown CUDA graph CaptureStatus",
            "FIND was unable to find an engine",
            "GET was unable to find an engine",
            "handles_.at(i)",
        ]
        .iter()
        .any(|needle| text.contains(needle))
}

/// Whether the context is certainly lost: decided from the text alone, without touching CUDA.
pub fn sticky(text: &str) -> bool {
    find(text).is_some_and(|e| e.context == Context::Lost) || text.contains("!handles_.at(i)")
}

/// What maps memory into an allocator's expandable segments, and what looks these functions up.
const MAPPING: [&str; 8] = [
    "cuMemAddressReserve",
    "cuMemCreate",
    "cuMemMap",
    "cuMemSetAccess",
    "cuMemGetAllocationGranularity",
    "cudaGetDriverEntryPoint",
    "driver_api.cpp",
    "expandable",
];

/// Whether the error of a process's first allocation speaks against expandable segments: the driver's
/// functions for mapping memory are not there, or it refuses a call of them. A device that is full,
/// busy, not there or broken says nothing of them.
pub fn refuses_segments(text: &str) -> bool {
    // The stack behind it names the allocator's functions, whatever has failed.
    let said = text.split("Exception raised from").next().unwrap_or(text);
    let names = |words: &[&str]| words.iter().any(|word| said.contains(word));
    match find(said) {
        _ if out_of_memory(said) => false,
        Some(error) => {
            error.context == Context::Alive
                && (error.code == 801 || said.contains("CUDA driver error") || names(&MAPPING))
        }
        None => names(&MAPPING),
    }
}

/// PyTorch's class of the error, as in the attribute `cuda_error_type`.
pub fn python_class(text: &str) -> &'static str {
    // Its allocator alone makes the first of them; calls that fail for want of memory are errors like
    // any other. What libraries answer has the words of the second, and no class.
    let of_a_library = |at: usize| status(&text[at..]).is_some_and(|(begins, ..)| begins == 0);
    let mut calls = text.match_indices("CUDA error: ");
    if text.contains("CUDA out of memory") {
        "OutOfMemoryError"
    } else if calls.any(|(at, words)| !of_a_library(at + words.len())) {
        "AcceleratorError"
    } else {
        "RuntimeError"
    }
}

/// Whether a line shows that memory of the host was being pinned: a call's name, libtorch's
/// allocator for it in a stack, or Python's frames.
pub fn pins_memory(line: &str) -> bool {
    const PINNING: [&str; 11] = [
        "cudaHostAlloc",
        "cudaMallocHost",
        "cudaHostRegister",
        "cuMemHostAlloc",
        "cuMemHostRegister",
        "CachingHostAllocator",
        "CUDAHostAllocator",
        "pin memory thread",
        "pin_memory.py",
        "pin_memory(",
        "in pin_memory",
    ];
    PINNING.iter().any(|word| line.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSERT: &str = "CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in https://docs.nvidia.com/ for more information.\nException raised from fn at file:line";

    #[test]
    fn libtorchs_assert_is_sticky() {
        assert_eq!(find(ASSERT).unwrap().code, 710);
        assert!(sticky(ASSERT));
        assert_eq!(python_class(ASSERT), "AcceleratorError");
    }

    #[test]
    fn out_of_memory_is_not_sticky() {
        let text = "CUDA out of memory. Tried to allocate 16.00 MiB. GPU 0 has a total capacity of 23.56 GiB";
        assert!(out_of_memory(text) && !sticky(text));
        assert_eq!(python_class(text), "OutOfMemoryError");
        assert!(out_of_memory("CUDA error: out of memory"));
        assert_eq!(
            python_class("CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in"),
            "AcceleratorError"
        );
        for (text, class) in [
            (
                "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
                "RuntimeError",
            ),
            ("CUDA driver error: out of memory", "RuntimeError"),
        ] {
            assert!(out_of_memory(text));
            assert_eq!(python_class(text), class, "{text}");
        }
    }

    #[test]
    fn only_what_the_driver_says_of_mapped_memory_speaks_against_expandable_segments() {
        for refused in [
            "CUDA driver error: operation not supported",
            "CUDA driver error: invalid argument",
            "CUDA error: operation not supported",
            "CUDA_ERROR_NOT_SUPPORTED when calling cuMemMap",
            "Can't find cuMemCreate",
            "r.cuMemSetAccess_ INTERNAL ASSERT FAILED at \"/pytorch/c10/cuda/driver_api.cpp\":22, please report a bug to PyTorch. ",
        ] {
            assert!(refuses_segments(refused), "{refused}");
        }
        let frames = "\nException raised from map at CUDACachingAllocator.cpp:1\nframe #1: ExpandableSegment::map cuMemCreate expandable";
        for other in [
            "CUDA error: out of memory",
            "CUDA driver error: out of memory",
            "cuMemCreate failed: CUDA_ERROR_OUT_OF_MEMORY",
            "CUDA out of memory. Tried to allocate 4.00 MiB. If reserved but unallocated memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
            "No CUDA GPUs are available",
            "CUDA error: no CUDA-capable device is detected",
            "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
            "CUDA error: an illegal memory access was encountered",
            "CUDA driver error: unknown error",
            "CUDA error: unspecified launch failure",
            "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        ] {
            assert!(!refuses_segments(&format!("{other}{frames}")), "{other}");
        }
    }

    #[test]
    fn an_enumerator_is_found_as_a_whole_word_only() {
        assert_eq!(find("cudaErrorInvalidDeviceFunction").unwrap().code, 98);
        assert_eq!(find("`cudaErrorInvalidDevice'").unwrap().code, 101);
        assert_eq!(find("no CUDA here: out of memory"), None);
        assert!(!cuda_text("shape mismatch"));
    }
}
