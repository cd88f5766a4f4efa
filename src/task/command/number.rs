//! A number within a line of text, which must not be a part of a longer one. Pure.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// So many characters of a line are shown before what was captured, and from there on.
const SHOWN: usize = 60;

/// So many characters beside it are shown.
const BESIDE: usize = 8;

#[expect(clippy::expect_used, reason = "constants, which tests compile")]
fn constant(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern")
}

/// What may follow the digits of a number, and belongs to it.
static EXPONENT: LazyLock<Regex> = LazyLock::new(|| constant(r"^[eE][-+]?[0-9]+"));

/// What a number stands behind that begins earlier: its digits, with a separator or the sign of an
/// exponent after them; a point; a minus.
static BEGUN: LazyLock<Regex> = LazyLock::new(|| {
    constant(
        r"(?x) [0-9]$
        | (?:^|\W) [0-9][0-9_.,'’]* (?: [._,'’/^*+\u{a0}\u{2009}\u{202f}-] | [eEdDxX][-+]? ) $
        | (?:^|[^\w.]) \. $
        | (?:^|[^-]) - $ | \u{2212} $",
    )
});

/// What joins the digits of a number, or two numbers, where a digit or a point follows it.
const JOINTS: &str = ".,':/-+*^~";

/// Reads the number that a pattern has captured in a line, with the exponent if one follows: `group`
/// is where, `whole` all that the pattern has matched.
///
/// # Errors
/// It is no number, or a part of a longer one: what was captured, where, and what to do.
pub fn captured(
    pattern: &str,
    line: &str,
    group: Range<usize>,
    whole: Range<usize>,
) -> Result<f64, String> {
    let text = &line[group.clone()];
    let (before, after) = (&line[..group.start], &line[group.end..]);
    let exponent = EXPONENT.find(after).map_or("", |e| e.as_str());
    let after = &after[exponent.len()..];
    let problem = |what: &str| {
        let shown = around(line, &group);
        format!("task.value = '{pattern}' captured {text:?} in the line {shown:?}, {what}")
    };
    let Some(number) = number(&format!("{text}{exponent}")) else {
        return Err(problem("expected a number"));
    };
    // A pattern that says nothing of what comes before its group finds the 1 of f1.
    let in_a_word = group.start == whole.start && before.ends_with(in_word);
    let begun = in_a_word || BEGUN.is_match(before);
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && begun
        && !(before.chars().next_back()).is_some_and(|c| ends_before_a_group(pattern, c))
    {
        return Err(problem(&format!(
            "but the number may begin earlier, with {:?}: let the group of the pattern hold the whole \
             number, or name what stands directly before it, as in 'top-([0-9.]+)'",
            last(before, BESIDE)
        )));
    }
    let next = after.chars().next().filter(|_| goes_on(after));
    if let Some(next) = next
        && text.ends_with(|c: char| !c.is_whitespace())
        && !(whole.end > group.end && follows_a_group(pattern, next))
    {
        let beside: String = after.chars().take(BESIDE).collect();
        return Err(problem(&format!(
            "but the number may go on with {beside:?}: let the group of the pattern hold the whole \
             number, or name what follows it, as in '([0-9.]+)s'"
        )));
    }
    Ok(number)
}

/// The pattern with NaN or an infinity in the place of its value, in a group of the name `value`; `None` where the pattern
/// names nothing before it, so that any line with such a word would match.
pub fn not_finite(pattern: &str) -> Option<Regex> {
    const WORDS: &str = r"(?<value>(?i:[-+]?\b(?:nan|inf|infinity)\b))";
    let group = value_group(pattern)?;
    let (before, after) = (&pattern[..group.start], &pattern[group.end..]);
    let mut chars = before.chars();
    let mut names = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            c => names |= c.is_alphanumeric(),
        }
    }
    let other = names.then(|| Regex::new(&format!("{before}{WORDS}{after}")).ok());
    other.flatten()
}

/// Where the group of a pattern stands that holds the value: the one called `value`, else the first.
fn value_group(pattern: &str) -> Option<Range<usize>> {
    let named = ["(?<value>", "(?P<value>"].iter();
    let named = named.filter_map(|begin| pattern.find(begin)).min();
    let mut open = Vec::new();
    let (mut class, mut escaped) = (0_u32, false);
    let mut first = None;
    for (at, c) in pattern.char_indices() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match c {
            '\\' => escaped = true,
            '[' => class += 1,
            ']' => class = class.saturating_sub(1),
            '(' if class == 0 => {
                let rest = &pattern[at + 1..];
                let captures = ["?<", "?P<"].iter().any(|name| rest.starts_with(name));
                if first.is_none() && (captures || !rest.starts_with('?')) {
                    first = Some(at);
                }
                open.push(at);
            }
            ')' if class == 0 => {
                let begun = open.pop()?;
                if Some(begun) == named.or(first) {
                    return Some(begun..at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// A text that is a number as a whole.
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"+-._".contains(&b));
    plain.then(|| text.replace('_', "").parse().ok()).flatten()
}

/// Whether what follows the digits may belong to the number: letters and digits do, and what joins
/// numbers where a digit follows it. Space, brackets, quotes and the like do not.
fn goes_on(after: &str) -> bool {
    let mut chars = after.chars();
    let Some(first) = chars.next() else {
        return false;
    };
    if first.is_ascii_whitespace() || first == '±' {
        return false;
    }
    if in_word(first) || first.is_control() || first == char::REPLACEMENT_CHARACTER {
        return true;
    }
    let digit = |c: char| c == '.' || c.is_ascii_digit();
    let joins = JOINTS.contains(first) || !first.is_ascii();
    // Dots that lead to the next column are none of the number's.
    joins && chars.next().is_some_and(digit) && !after.starts_with("..")
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether the pattern itself has this character directly before a group.
fn ends_before_a_group(pattern: &str, c: char) -> bool {
    written(c)
        .iter()
        .any(|c| pattern.contains(&format!("{c}(")))
}

/// Whether the pattern itself has this character after a group.
fn follows_a_group(pattern: &str, c: char) -> bool {
    let rest = pattern.split_once(')').map_or("", |(_, rest)| rest);
    written(c).iter().any(|c| rest.contains(c))
}

/// How a pattern writes a character: escaped, and as it is where that means the same.
fn written(c: char) -> Vec<String> {
    let escaped = format!("\\{c}");
    if ".+*?()[]{}|^$\\".contains(c) {
        vec![escaped]
    } else if c.is_ascii_alphanumeric() {
        // Escaped, a letter is a class.
        vec![c.to_string()]
    } else {
        vec![escaped, c.to_string()]
    }
}

/// The part of a line that shows what was captured.
fn around(line: &str, group: &Range<usize>) -> String {
    let before = last(&line[..group.start], SHOWN);
    let after: String = line[group.start..].chars().take(SHOWN).collect();
    let cut = before.len() + after.len() < line.len();
    format!("{before}{after}{}", if cut { " ..." } else { "" })
}

/// The last `n` characters.
fn last(text: &str, n: usize) -> &str {
    let start = text.char_indices().rev().nth(n - 1).map_or(0, |(i, _)| i);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the last match of a pattern gives.
    fn read(pattern: &str, line: &str) -> Result<f64, String> {
        let regex = Regex::new(pattern).unwrap();
        let found = regex.captures_iter(line).last().unwrap();
        let group = found.get(1).unwrap().range();
        captured(pattern, line, group, found.get(0).unwrap().range())
    }

    #[test]
    fn what_may_stand_beside_a_number_is_none_of_it() {
        for after in [
            "", " ", "\t0.3", " 0.3", "%", ")", "]", "}", ">", "\"", "'", ";0.3", "|0.3", ",",
            ", 0.3", ",loss=1", ". Next", "...", ":", ": 3", "!", "?", "/", "*", "=", "</b>",
            "\\n", "&x=1", "±0.02", "+-", "~", "#", "”", "│ 0.3", "°", "€", "\u{a0}s",
        ] {
            let line = format!("val=0.75{after}");
            assert_eq!(read("val=([0-9.]+[0-9])", &line), Ok(0.75), "{line}");
        }
        for before in [
            "val=", "f1:", "f1,", "f1: ", "top5=", "(", "[", "\"", "'", "$", "~", "....", "--",
            "a/", "+", "<b>", "2, ", "1 ", "é ", "x",
        ] {
            let line = format!("val_{before}0.75");
            assert_eq!(read("val_.*?([0-9]\\.[0-9]+)$", &line), Ok(0.75), "{line}");
        }
        assert_eq!(read("val=([0-9.]+)", "val=1.5e-05, n=3"), Ok(1.5e-5));
        assert_eq!(read("(-?[0-9.]+)", "val=-0.5"), Ok(-0.5));
        assert!(read("val=(\\S+)", "val=nan").unwrap().is_nan());
    }

    #[test]
    fn a_number_that_goes_on_after_the_match_is_an_error() {
        for after in [
            ",5",
            ",234.5",
            ".2.3",
            "_000",
            "x1F",
            "s",
            "ms",
            "K",
            "e",
            "e-",
            "d-05",
            "E",
            "j",
            "-0.8",
            "-.8",
            "+2j",
            "/4",
            ":30",
            "'000",
            "^2",
            "*10",
            "\u{a0}000",
            "\u{202f}000",
            "×10",
            "·5",
            "٫5",
            "٣",
            "²",
            "µ",
            "\0",
            "\u{fffd}",
            "\u{200b}5",
            "\u{2212}1",
            "’000",
            "│5",
        ] {
            let line = format!("val=1{after}");
            let error = read("val=([0-9]+)", &line).unwrap_err();
            for part in ["'val=([0-9]+)'", "captured \"1\"", "\"val=1", "may go on"] {
                assert!(error.contains(part), "{part} in {error}");
            }
        }
        let error = read("val=([0-9.]+)", "val=1.2.3").unwrap_err();
        assert!(
            error.contains("\"1.2.3\"") && error.contains("expected a number"),
            "{error}"
        );
    }

    #[test]
    fn a_number_that_begins_before_the_match_is_an_error() {
        for line in [
            "val=-0.5",
            "0,75",
            "1.5",
            "1_000",
            "1e5",
            "1e-5",
            "1e+5",
            "1D5",
            "0x1",
            "3/4",
            "10^3",
            "2+3",
            "1'000",
            "1\u{202f}000",
            "=.5",
            ".5",
            "\u{2212}5",
            "f1",
            "_1",
            "n3",
            "é3",
        ] {
            let error = read("([0-9]+)", line).unwrap_err();
            assert!(error.contains("may begin earlier"), "{line}: {error}");
        }
        assert!(read("val=.*([0-9.]+)", "val=0.75").is_err());
        assert!(read("val=.?([0-9.]+)", "val=-0.75").is_err());
    }

    #[test]
    fn what_the_pattern_names_is_none_of_the_number() {
        for (pattern, line) in [
            ("([0-9.]+)s", "took 0.75s"),
            ("([0-9.]+)(?:s|ms)", "took 0.75ms"),
            ("([0-9.]+)[,;]", "0.75,2"),
            ("top-([0-9.]+)", "top-0.75"),
            ("top\\-(?<value>[0-9.]+)", "top-0.75"),
            ("f1(0\\.75)", "f10.75"),
            ("([0-9.]+)/20", "0.75/20"),
            ("([0-9.]+),", "0.75,2"),
            ("([0-9.]*[0-9])\\.", "0.75.9"),
        ] {
            assert_eq!(read(pattern, line), Ok(0.75), "{pattern} on {line}");
        }
        // A dot in a pattern is any character.
        assert!(read("([0-9])..", "1.2").is_err());
    }

    #[test]
    fn a_value_that_is_no_finite_number_is_found_where_the_pattern_names_it() {
        let found = |pattern: &str, line: &str| {
            let found = not_finite(pattern)?.captures(line)?;
            Some(found["value"].to_owned())
        };
        let is = |pattern: &str, line: &str, value: &str| {
            assert_eq!(
                found(pattern, line).as_deref(),
                Some(value),
                "{pattern} on {line}"
            );
        };
        is("val=([0-9.]+)", "val=nan", "nan");
        is(
            r"\[(?:x|y)\] f1[:=](?P<value>[-0-9.()]+) end",
            "[x] f1:-Infinity end",
            "-Infinity",
        );
        is("(a|b) f1=(?<value>[0-9]+)", "b f1=NaN", "NaN");
        is(r"f1 \(mean\) ([^)]+)\)", "f1 (mean) inf)", "inf");
        for (pattern, line) in [
            ("([0-9.]+)", "nan"),
            (r"\s([0-9.]+)", " nan"),
            ("val=([0-9.]+)", "val=info"),
            ("val=([0-9.]+)", "value is nan"),
            ("val=[0-9.]+", "val=nan"),
        ] {
            assert_eq!(found(pattern, line), None, "{pattern} on {line}");
        }
    }

    #[test]
    fn an_error_shows_a_part_of_a_long_line() {
        let line = format!("{} val=1,5 {}", "é".repeat(1000), "ü".repeat(1000));
        let error = read("val=([0-9]+)", &line).unwrap_err();
        assert!(
            error.contains("é val=1,5 ü") && error.contains(" ...\""),
            "{error}"
        );
        assert!(error.chars().count() < 500, "{error}");
    }
}
