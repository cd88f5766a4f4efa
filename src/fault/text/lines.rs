//! A text as lines without the decoration of terminals and frames.

use std::sync::LazyLock;

use regex::Regex;

use crate::pattern;

/// Terminal sequences: colours, cursor, titles; also as `cat -v` and `less` show them.
static ESCAPES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]|\^\[\[[0-9;]*[mK]",
    )
});

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextLine {
    /// Without terminal sequences, control characters and the bars of a frame.
    pub text: String,
    /// A line of source code that a Python traceback quotes: it says what ran, not what happened.
    pub source: bool,
    /// A part of what Python reports as ignored: an exception that could not be raised.
    pub ignored: bool,
    /// The exception below a Python traceback, whatever its class is called: `zlib.error: ...`, `__main__.BadRow: ...`.
    pub raised: bool,
}

/// An exception as Python prints it.
static EXCEPTION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(?:\[rank\d+\]: )?[A-Za-z_]\w*(?:\.\w+)*(?:: |:?$)"));

/// The lines of a text. A carriage return ends a line too, as progress bars use it.
pub fn lines(text: &str) -> Vec<TextLine> {
    let mut lines: Vec<TextLine> = Vec::new();
    let mut quoted: Option<usize> = None;
    let mut ignored = false;
    let mut traced = false;
    for raw in text.split(['\n', '\r']) {
        let text = clean(raw);
        let depth = indent(&text);
        // Python quotes the source right below `File "x", line n, in f`, indented deeper.
        let source = quoted.is_some_and(|frame| depth > frame && !text.trim().is_empty());
        if is_frame(&text) {
            quoted = Some(depth);
        } else if !source && !text.trim().is_empty() {
            quoted = None;
        }
        ignored |= text.contains("Exception ignored in");
        let raised = traced && !source && EXCEPTION.is_match(&text);
        traced = (traced && !raised) || text.contains("Traceback (most recent call last)");
        lines.push(TextLine {
            ignored,
            source,
            raised,
            text,
        });
        let last = lines.len() - 1;
        ignored = ignored && !ends_ignored(&lines[last]);
    }
    lines
}

/// The exception's own line is the last of such a report: not indented, and none of its headings.
fn ends_ignored(line: &TextLine) -> bool {
    let text = line.text.as_str();
    let heading = text.contains("Exception ignored in") || text.contains("Traceback (most recent");
    !heading && !line.source && !is_frame(text) && !text.starts_with(' ') && !text.trim().is_empty()
}

fn clean(raw: &str) -> String {
    let text = if raw.contains(['\x1b', '^']) {
        ESCAPES.replace_all(raw, "")
    } else {
        raw.into()
    };
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let framed = |c: char| matches!(c, '│' | '╭' | '╰' | '╮' | '╯' | '┃' | '❱');
    if text.contains(framed) {
        let inner = text
            .trim()
            .trim_matches(|c: char| framed(c) || c == '─' || c == ' ');
        return inner.to_owned();
    }
    text.trim_end().to_owned()
}

fn indent(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

fn is_frame(text: &str) -> bool {
    text.trim_start().starts_with("File \"") && text.contains("\", line ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        lines(text).into_iter().map(|l| l.text).collect()
    }

    #[test]
    fn decoration_is_taken_off() {
        assert_eq!(
            texts(
                "\x1b[31mRuntimeError\x1b[0m: x\r\n│ CUDA error │\n^[[1mb^[[0m\n\x1b]0;title\x07c"
            ),
            ["RuntimeError: x", "", "CUDA error", "b", "c"]
        );
    }

    #[test]
    fn an_exception_below_a_traceback_is_known_whatever_it_is_called() {
        let text = "x: 1\nTraceback (most recent call last):\n  File \"a.py\", line 3, in f\n    raise BadRow(1)\n\
            __main__.BadRow: 1\ny: 2\n[rank0]: Traceback (most recent call last):\n[rank0]:   File \"a.py\", line 3, in f\n\
            [rank0]: zlib.error";
        let found = lines(text).into_iter().filter(|l| l.raised);
        let found: Vec<String> = found.map(|l| l.text).collect();
        assert_eq!(found, ["__main__.BadRow: 1", "[rank0]: zlib.error"]);
    }

    #[test]
    fn what_python_ignores_ends_with_the_exceptions_line() {
        let text = "x\nException ignored in: <function D.__del__ at 0x7f>\nTraceback (most recent call last):\n  File \"a.py\", line 3, in f\n    g()\nAssertionError: 1\ny";
        let ignored: Vec<bool> = lines(text).iter().map(|l| l.ignored).collect();
        assert_eq!(ignored, [false, true, true, true, true, true, false]);
    }

    #[test]
    fn quoted_source_is_told_from_what_happened() {
        let text = "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    raise X(1)\n    ^^^^\nX: 1";
        let source: Vec<bool> = lines(text).iter().map(|l| l.source).collect();
        assert_eq!(source, [false, false, true, true, false]);
    }
}
