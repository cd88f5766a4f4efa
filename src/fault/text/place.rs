//! The place of a device-side assertion: what the kernel prints when it fails.

use std::fmt;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde::{Deserialize, Serialize};

use super::lines::TextLine;
use crate::pattern;

/// Where in which kernel an assertion failed, as far as it was printed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Place {
    /// The source file, as compiled in.
    pub file: Option<String>,
    /// Its line, from 1.
    pub line: Option<u32>,
    /// The kernel's function.
    pub function: Option<String>,
    /// What should have held.
    pub condition: Option<String>,
    /// The block's index.
    pub block: Option<[u32; 3]>,
    /// The thread's index in the block.
    pub thread: Option<[u32; 3]>,
}

/// `Loss.cu:245, nll_loss, block [0,0,0], thread [3,0,0]: t >= 0 && t < n_classes`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self
            .file_and_line()
            .into_iter()
            .chain(self.inside())
            .collect();
        write!(f, "assertion at {}", parts.join(", "))?;
        match &self.condition {
            Some(condition) => write!(f, ": {condition}"),
            None => Ok(()),
        }
    }
}

impl Place {
    /// The place in one line, for people.
    pub fn describe(&self) -> String {
        let file = self.file_and_line();
        let mut parts = vec![file.unwrap_or_else(|| "a kernel".to_owned())];
        parts.extend(self.inside());
        parts.join(", ")
    }

    fn file_and_line(&self) -> Option<String> {
        let file = self.file.clone()?;
        Some(match self.line {
            Some(line) => format!("{file}:{line}"),
            None => file,
        })
    }

    /// The function, the block and the thread, as far as they are known.
    fn inside(&self) -> impl Iterator<Item = String> {
        let index = |name: &str, [x, y, z]: [u32; 3]| format!("{name} [{x},{y},{z}]");
        let block = self.block.map(|b| index("block", b));
        let thread = self.thread.map(|t| index("thread", t));
        self.function.clone().into_iter().chain(block).chain(thread)
    }
}

/// What follows the file in CUDA's own form; some compilers leave the function out.
const REST: &str = r#"(?x)
    : \s? (?P<line> \d+ ) \s? : \s* (?: (?P<function> [^\s:] .*? ) : \s* )??
    block: \s* \[ (?P<bx>\d+) , \s* (?P<by>\d+) , \s* (?P<bz>\d+) \] , \s*
    thread: \s* \[ (?P<tx>\d+) , \s* (?P<ty>\d+) , \s* (?P<tz>\d+) \]
    (?: [\s:,]* Assertion \s* [`'"‘]? (?P<condition> .+? ) [`'"’]? \s+ failed \b )?"#;

/// A Windows path has a colon of its own, and may have spaces. Any other file is the last word that
/// fits: clocks and ranks before it have colons and numbers too. In logs of one line a message, line ends
/// are written as `\n`.
static PRINTED: LazyLock<[Regex; 3]> = LazyLock::new(|| {
    [
        r#"\\n(?P<file>\.{0,2}/[^\s:"'\[\]<>\\]+)"#,
        r#"(?:^|[^A-Za-z0-9])(?P<file>[A-Za-z]:[\\/][^:*?<>|]+)"#,
        r#"^(?:.*[\s\]\)|>"':])?(?P<file>[^\s:"'\[\]<>]+)"#,
    ]
    .map(|file| pattern(&format!("{file}{REST}")))
});

/// HIP's form, without a thread.
static HIP: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?x)
        (?P<file> [^\s:"'\[\]]+ ) : (?P<line> \d+ ) : \s* (?: (?P<function> [^\s:] .*? ) : \s* )?
        Device-side \s assertion \s* [`'"] (?P<condition> .+? ) [`'"] \s+ failed"#,
    )
});

/// The place that a line tells, if it is the line of a failed device-side assertion.
pub fn printed(line: &str) -> Option<Place> {
    let mut forms = PRINTED.iter().chain([&*HIP]);
    let found = forms.find_map(|form| form.captures(line))?;
    Some(Place {
        file: text(&found, "file"),
        line: number(&found, "line"),
        function: text(&found, "function"),
        condition: text(&found, "condition").map(|c| c.replace("\\\"", "\"")),
        block: index(&found, ["bx", "by", "bz"]),
        thread: index(&found, ["tx", "ty", "tz"]),
    })
}

fn text(found: &Captures<'_>, name: &str) -> Option<String> {
    Some(found.name(name)?.as_str().trim().to_owned())
}

fn number(found: &Captures<'_>, name: &str) -> Option<u32> {
    found.name(name)?.as_str().parse().ok()
}

fn index(found: &Captures<'_>, names: [&str; 3]) -> Option<[u32; 3]> {
    let [x, y, z] = names.map(|n| number(found, n));
    Some([x?, y?, z?])
}

/// The first failure of a report of libtorch's own device-side assertions (builds with
/// `TORCH_USE_CUDA_DSA`), which begins at `lines[0]` and has one fact a line.
pub fn reported(lines: &[TextLine]) -> Option<Place> {
    let mut place = Place::default();
    for line in lines.iter().take(20) {
        let Some((heading, value)) = line.text.split_once(" = ") else {
            continue;
        };
        let value = value.trim();
        match heading.trim() {
            "GPU assertion failure message" if place.condition.is_some() => break,
            "GPU assertion failure message" => place.condition = Some(value.to_owned()),
            "File containing assertion" => {
                let (file, line) = value.rsplit_once(':').unwrap_or((value, ""));
                place.file = Some(file.to_owned());
                place.line = line.parse().ok();
            }
            "Device function containing assertion" => place.function = Some(value.to_owned()),
            "Thread ID that failed assertion" => place.thread = triple(value),
            "Block ID that failed assertion" => place.block = triple(value),
            _ => {}
        }
    }
    place.condition.is_some().then_some(place)
}

fn triple(text: &str) -> Option<[u32; 3]> {
    let inner = text.trim_matches(['[', ']']);
    let numbers: Vec<u32> = inner
        .split(',')
        .map_while(|n| n.trim().parse().ok())
        .collect();
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(line: &str) -> (String, u32, String, String) {
        let place = printed(line).unwrap();
        (
            place.file.unwrap(),
            place.line.unwrap(),
            place.function.unwrap_or_default(),
            place.condition.unwrap(),
        )
    }

    #[test]
    fn all_parts_of_a_printed_assertion_are_kept() {
        let line = "[rank0]: ../aten/src/ATen/native/cuda/ScatterGatherKernel.cu:144: operator(): block: [0,1,2], thread: [63,0,0] Assertion `idx_dim >= 0 && idx_dim < index_size && \"index out of bounds\"` failed.";
        let place = printed(line).unwrap();
        assert_eq!(
            (place.block, place.thread),
            (Some([0, 1, 2]), Some([63, 0, 0]))
        );
        assert_eq!(
            parts(line),
            (
                "../aten/src/ATen/native/cuda/ScatterGatherKernel.cu".into(),
                144,
                "operator()".into(),
                "idx_dim >= 0 && idx_dim < index_size && \"index out of bounds\"".into()
            )
        );
    }

    #[test]
    fn clocks_and_ranks_before_the_file_are_no_part_of_it() {
        let line = "2025-01-02 10:00:00,123 [1,2]<stderr>:a/k.cu:7: f: block: [0,0,0], thread: [0,0,0] Assertion `x` failed.";
        assert_eq!(parts(line), ("a/k.cu".into(), 7, "f".into(), "x".into()));
    }

    #[test]
    fn functions_may_have_templates_and_colons_or_be_missing() {
        let line = "/opt/a/Loss.cu:245: void at::native::(anonymous namespace)::f<float, int>(float*, long): block: [0,0,0], thread: [0,0,0] Assertion `t >= 0 && t < n_classes` failed.";
        assert_eq!(
            parts(line).2,
            "void at::native::(anonymous namespace)::f<float, int>(float*, long)"
        );
        let line = "C:/cb/pytorch_1/work\\c10/core/DynamicCast.h:78: block: [34,0,0], thread: [110,0,0] Assertion `false` failed.";
        assert_eq!(
            parts(line),
            (
                "C:/cb/pytorch_1/work\\c10/core/DynamicCast.h".into(),
                78,
                String::new(),
                "false".into()
            )
        );
        let line = "{\"out\": \"loss 0.4\\n/w/k.cu:9: f: block: [0,0,0], thread: [0,0,0] Assertion `x` failed.\\n\"}";
        assert_eq!(parts(line).0, "/w/k.cu");
        let line = "C:\\Program Files\\my code\\k.cu:7: kernel: block: [0,0,0], thread: [0,0,0] Assertion `x ` failed.";
        assert_eq!(parts(line).0, "C:\\Program Files\\my code\\k.cu");
    }

    #[test]
    fn the_first_failure_of_a_report_is_kept() {
        let text = "1 CUDA device-side assertion failures were found on GPU #0!\nAssertion failure 0\n  GPU assertion failure message = i < n\n  File containing assertion = /a/b.cu:33\n  Device function containing assertion = kernel\n  Thread ID that failed assertion = [1,0,0]\n  Block ID that failed assertion = [2,0,0]\nAssertion failure 1\n  GPU assertion failure message = other";
        let place = reported(&super::super::lines::lines(text)).unwrap();
        assert_eq!(place.condition.as_deref(), Some("i < n"));
        assert_eq!(
            (place.line, place.thread, place.block),
            (Some(33), Some([1, 0, 0]), Some([2, 0, 0]))
        );
    }

    #[test]
    fn a_host_assertion_has_no_place_on_the_device() {
        assert_eq!(printed("python: a.c:12: f: Assertion `x' failed."), None);
    }
}
