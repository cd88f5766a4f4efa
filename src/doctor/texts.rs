//! Texts of a program that are signs, by the patterns in the table of these.

use std::sync::LazyLock;

use regex::Regex;

use crate::signs::Sign;

static PATTERNS: LazyLock<Vec<(Sign, Regex)>> = LazyLock::new(|| {
    let compiled = |sign: &Sign| Some((*sign, Regex::new(sign.row().pattern?).ok()?));
    Sign::ALL.iter().filter_map(compiled).collect()
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
        let with_pattern = |sign: &&Sign| sign.row().pattern.is_some();
        let all = Sign::ALL.iter().filter(with_pattern);
        assert_eq!(PATTERNS.len(), all.count());
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
