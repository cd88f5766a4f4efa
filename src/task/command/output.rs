//! What a program prints: the value in it, and its end as evidence. Pure.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value as Json;

use super::lines::is_too_long;
use super::number::{captured, not_finite, number};
use crate::Metrics;
use messages::number_from_json;
use messages::python_json;

/// The longest line that is looked at, in bytes; of a longer one, its end.
const LONGEST: usize = 64 * 1024;

/// How much of the end of the output is evidence, in bytes.
const TAIL: usize = 64 * 1024;

/// What colours a terminal, and other control sequences of its kind.
#[expect(clippy::expect_used, reason = "constants, which tests compile")]
static COLOUR: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\x1b\[[0-9;?]*[A-Za-z]").expect("a constant pattern"));

/// A line without what colours a terminal, and other control sequences of its kind.
pub fn without_colour(text: &str) -> Cow<'_, str> {
    COLOUR.replace_all(text, "")
}

/// Looks for the value in standard output.
#[derive(Debug)]
pub struct Scanner {
    pattern: Option<Regex>,
    /// The same with NaN or an infinity in the place of the value: a pattern of digits would pass over it.
    not_finite: Option<Regex>,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The value of the last line that the pattern matches, or why it is none.
    captured: Option<Result<f64, String>>,
    last_line: String,
}

impl Scanner {
    /// With a pattern, its first group (or the one called `value`) is the value, that of the last
    /// line that matches.
    pub fn new(pattern: Option<Regex>) -> Scanner {
        Scanner {
            not_finite: pattern.as_ref().and_then(|p| not_finite(p.as_str())),
            pattern,
            line: Vec::new(),
            captured: None,
            last_line: String::new(),
        }
    }

    /// Takes what was printed.
    pub fn feed(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|b| matches!(b, b'\n' | b'\r')) {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") || part.ends_with(b"\r") {
                self.end_line();
            } else if self.line.len() > 2 * LONGEST {
                self.line.drain(..self.line.len() - LONGEST);
            }
        }
    }

    fn end_line(&mut self) {
        let text = String::from_utf8_lossy(&self.line).into_owned();
        self.line.clear();
        let text = without_colour(&text);
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if let Some(pattern) = &self.pattern
            && let Some(found) = pattern.captures_iter(text).last()
        {
            let group = found.name("value").or_else(|| found.get(1));
            let whole = found.get(0).map_or(0..0, |whole| whole.range());
            self.captured = group.map(|g| captured(pattern.as_str(), text, g.range(), whole));
        } else if let Some(pattern) = &self.not_finite
            && let Some(found) = pattern.captures_iter(text).last()
        {
            self.captured = found.name("value").and_then(|g| number(g.as_str())).map(Ok);
        }
        text.clone_into(&mut self.last_line);
    }

    /// The other numbers of the line that gave the value, where it was a JSON object.
    pub fn others(&self) -> Metrics {
        match self.pattern {
            Some(_) => Metrics::new(),
            None => in_last_object(&self.last_line),
        }
    }

    /// The value, once everything was fed: what the pattern captured, or without a pattern the last
    /// line if it is a number, or a JSON object with the objective. `None` where there is none.
    ///
    /// # Errors
    /// The pattern matched, but captured no number, or a part of one.
    pub fn value(&mut self, objective: &str) -> Result<Option<f64>, String> {
        self.end_line();
        match &self.pattern {
            Some(_) => self.captured.clone().transpose(),
            None => Ok(number(&self.last_line).or_else(|| in_object(&self.last_line, objective))),
        }
    }
}

/// Every number of a line that is a JSON object; nothing of a name that no database holds.
fn in_last_object(text: &str) -> Metrics {
    let Some(Json::Object(object)) = python_json(text) else {
        return Metrics::new();
    };
    let numbers = object
        .iter()
        .filter(|(k, _)| !is_too_long(k))
        .filter_map(|(k, v)| Some((k.clone(), number_from_json(v)?)));
    numbers.collect()
}

fn in_object(text: &str, objective: &str) -> Option<f64> {
    let json = python_json(text)?;
    let found = json.get(objective).or_else(|| json.get("value"))?;
    number_from_json(found)
}

/// The end of what was printed.
#[derive(Debug, Default)]
pub struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    /// Takes what was printed.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * TAIL {
            self.bytes.drain(..self.bytes.len() - TAIL);
        }
    }

    /// The last 64 KiB.
    pub fn text(&self) -> String {
        let start = self.bytes.len().saturating_sub(TAIL);
        String::from_utf8_lossy(&self.bytes[start..]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(pattern: Option<&str>, printed: &[&str]) -> Result<Option<f64>, String> {
        let mut scanner = Scanner::new(pattern.map(|p| Regex::new(p).unwrap()));
        for part in printed {
            scanner.feed(part.as_bytes());
        }
        scanner.value("f1")
    }

    #[test]
    fn the_last_match_counts_wherever_the_reads_were_cut() {
        let pattern = Some("val_f1=([0-9.]+)");
        let found = value(pattern, &["val_f1=0.1\nval_", "f1=0.", "25\nbye\n"]);
        assert_eq!(found, Ok(Some(0.25)));
        let found = value(pattern, &["val_f1=0.1 val_f1=0.5\rdone"]);
        assert_eq!(found, Ok(Some(0.5)));
        assert_eq!(value(pattern, &["val_f1=1.5e-05,"]), Ok(Some(1.5e-5)));
        assert_eq!(value(pattern, &["nothing"]), Ok(None));
        assert_eq!(
            value(Some("(a)(?<value>b|1e-3)"), &["a1e-3"]),
            Ok(Some(1e-3))
        );
    }

    #[test]
    fn a_capture_that_is_no_number_is_an_error() {
        let error = value(Some("f1=(.*)"), &["f1=good"]).unwrap_err();
        assert!(error.contains("captured \"good\""), "{error}");
        assert!(error.contains("expected a number"), "{error}");
    }

    #[test]
    fn a_part_of_a_number_is_an_error_of_the_last_line_that_matches() {
        let pattern = Some("val=([0-9.]+)");
        let error = value(pattern, &["val=0,75\n"]).unwrap_err();
        assert!(
            error.contains("\"val=0,75\"") && error.contains("\",75\""),
            "{error}"
        );
        assert!(value(pattern, &["val=0.75\nval=1,234.5\n"]).is_err());
        assert_eq!(value(pattern, &["val=0,75\nval=0.75\n"]), Ok(Some(0.75)));
        assert_eq!(value(None, &["0,75"]), Ok(None));
    }

    #[test]
    fn a_value_that_is_none_is_not_passed_over_for_an_earlier_one() {
        let pattern = Some(r"\bval_loss\s*=\s*(-?[0-9.]+)");
        let found = value(pattern, &["val_loss=0.5\n", "val_loss = nan\n"]);
        assert!(found.unwrap().unwrap().is_nan());
        let found = value(pattern, &["val_loss=0.5\nepoch 2: val_loss=-inf, lr 0.1\n"]);
        assert_eq!(found, Ok(Some(f64::NEG_INFINITY)));
        let found = value(pattern, &["val_loss=nan\nval_loss=0.25\nloss=nan\n"]);
        assert_eq!(found, Ok(Some(0.25)));
    }

    #[test]
    fn without_a_pattern_the_last_line_is_the_value() {
        assert_eq!(value(None, &["epoch 1\n", "0.75\n\n"]), Ok(Some(0.75)));
        assert_eq!(value(None, &["-1.5e-3"]), Ok(Some(-1.5e-3)));
        assert_eq!(value(None, &["\x1b[32m0.75\x1b[0m"]), Ok(Some(0.75)));
        assert_eq!(value(None, &["{\"f1\": 0.5}\n"]), Ok(Some(0.5)));
        assert_eq!(value(None, &["{\"value\": 2}\n"]), Ok(Some(2.0)));
        assert!(value(None, &["nan"]).unwrap().unwrap().is_nan());
        assert_eq!(value(None, &["0.75\nbye"]), Ok(None));
        assert_eq!(value(None, &[]), Ok(None));
    }

    #[test]
    fn other_numbers_have_names_that_a_database_holds() {
        let mut scanner = Scanner::new(None);
        let long = "x".repeat(481);
        scanner.feed(format!(r#"{{"f1": 0.5, "loss": 2, "{long}": 3}}"#).as_bytes());
        assert_eq!(scanner.value("f1"), Ok(Some(0.5)));
        let names: Vec<String> = scanner.others().into_keys().collect();
        assert_eq!(names, ["f1", "loss"]);
    }

    #[test]
    fn endless_lines_and_output_keep_their_end() {
        let mut scanner = Scanner::new(Some(Regex::new("x=([0-9])").unwrap()));
        let mut tail = Tail::default();
        for _ in 0..100 {
            scanner.feed(&[b'y'; 10_000]);
            tail.feed(&[b'y'; 10_000]);
        }
        scanner.feed(b" x=7");
        tail.feed(b"end");
        assert!(scanner.line.len() <= 3 * LONGEST);
        assert_eq!(scanner.value("f1"), Ok(Some(7.0)));
        assert_eq!(tail.text().len(), TAIL);
        assert!(tail.text().ends_with("yend"));
    }
}
