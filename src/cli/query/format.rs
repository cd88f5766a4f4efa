//! Small pieces of text: numbers, times, durations, tables.

use std::time::Duration;

use serde_json::Value as Json;

pub(super) use messages::clock::stored as timestamp;
pub use messages::clock::to_store as stored;
use messages::printable as harmless;
use report::format;
use search::space::Value;
use serde::{Serialize, Serializer};

/// A parameter's value for people.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::Float(_) => format::param(value),
        Value::Str(text) => printable(text),
        Value::Null | Value::Bool(_) | Value::Int(_) => value.to_string(),
    }
}

/// An attribute for people: strings as they are, numbers short, everything else as JSON.
pub(super) fn attribute(json: &Json) -> String {
    match json {
        Json::String(text) => printable(text),
        Json::Number(n) if n.is_f64() => format::value(n.as_f64().unwrap_or(f64::NAN)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            json.to_string()
        }
    }
}

/// Text of others on one line that drives no terminal.
pub fn printable(text: &str) -> String {
    harmless(text).into_owned()
}

/// Names in a sentence.
pub(super) fn words<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<String> = names.iter().map(|n| printable(n.as_ref())).collect();
    names.join(", ")
}

/// A time of the database as RFC 3339; other text is left as it is.
pub(super) fn rfc3339(stored: &str) -> String {
    match stored.split_once(' ') {
        Some((date, time)) => format!("{date}T{time}Z"),
        None => stored.to_owned(),
    }
}

/// A field with a time of the database, as RFC 3339.
pub(super) fn stored_field<S: Serializer>(
    stored: &Option<String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    stored.as_deref().map(rfc3339).serialize(serializer)
}

/// A time of the database for people, to the second.
pub(super) fn time(stored: &str) -> String {
    let whole = stored.split_once('.').map_or(stored, |(whole, _)| whole);
    format!("{whole} UTC")
}

/// Seconds from one time of the database to another.
pub(super) fn seconds(from: &str, to: &str) -> Option<f64> {
    let span = timestamp(to)?.duration_since(timestamp(from)?);
    Some(span.as_secs_f64())
}

/// A text of at most so many characters; dots stand for what is cut off.
pub(super) fn shortened(text: &str, most: usize) -> String {
    match text.chars().count() <= most {
        true => text.to_owned(),
        false => {
            text.chars()
                .take(most.saturating_sub(3))
                .collect::<String>()
                + "..."
        }
    }
}

/// Seconds, for people.
pub(super) fn duration(seconds: f64) -> String {
    format::duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// Lines of `heading  text`, the texts below each other.
pub(super) fn facts<H: AsRef<str>>(facts: &[(H, String)]) -> String {
    let facts = facts.iter();
    let facts: Vec<(String, String)> = facts
        .map(|(heading, text)| (printable(heading.as_ref()), printable(text)))
        .collect();
    let widths = facts.iter().map(|(heading, _)| heading.chars().count());
    let width = widths.max().unwrap_or(0);
    facts
        .iter()
        .map(|(heading, text)| format!("{heading:<width$}  {text}").trim_end().to_owned() + "\n")
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::format::table;

    #[test]
    fn times_of_the_database_are_told_apart_and_shown() {
        let (from, to) = ("2026-11-21 23:59:59.500000", "2026-11-22 00:00:01.000000");
        assert_eq!(seconds(from, to), Some(1.5));
        assert_eq!(seconds("nonsense", to), None);
        assert_eq!(time(from), "2026-11-21 23:59:59 UTC");
        assert_eq!(rfc3339(from), "2026-11-21T23:59:59.500000Z");
        assert_eq!(timestamp(from).map(stored).as_deref(), Some(from));
        assert_eq!(timestamp("nonsense"), None);
    }

    #[test]
    fn numeric_columns_stand_to_the_right() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let rows = [
            row(["trial", "state"]),
            row(["7", "FAIL"]),
            row(["12", "é"]),
        ];
        assert_eq!(table(&rows), "trial  state\n    7  FAIL\n   12  é\n");
    }

    #[test]
    fn what_stands_in_a_cell_is_one_line_of_it() {
        let text = "a\u{1b}[2J\n7  COMPLETE".to_owned();
        let shown = "a\\u001b[2J 7  COMPLETE";
        assert_eq!(table(&[vec![text.clone()]]), format!("{shown}\n"));
        assert_eq!(
            facts(&[(text.as_str(), text.clone())]),
            format!("{shown}  {shown}\n")
        );
    }
}
