//! JSON as Python's `json` module reads and writes it.

use serde_json::Value as Json;

/// The words that Python's JSON has beyond the standard.
const WORDS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Parses JSON in which `NaN`, `Infinity` and `-Infinity` may stand for numbers, as Python writes
/// them; they become the strings of the contract (`"NaN"`, ...), and so do numbers beyond the
/// largest float. Halves of surrogate pairs, which Python writes for undecodable bytes, become
/// U+FFFD. `None` where it is no JSON, or nested deeper than 127 levels.
pub fn python_json(text: &str) -> Option<Json> {
    match serde_json::from_str(text) {
        Ok(json) => Some(json),
        Err(_) => serde_json::from_str(&standard(text)).ok(),
    }
}

/// Writes JSON as Python would: the strings of the contract for non-finite numbers (`"NaN"`, ...)
/// become the bare words, so that Python reads numbers; everything else is standard JSON. The
/// inverse of [`python_json`].
pub fn to_python_json(json: &Json) -> String {
    let mut out = String::new();
    write(json, &mut out);
    out
}

fn write(json: &Json, out: &mut String) {
    match json {
        Json::String(s) if WORDS.contains(&s.as_str()) => out.push_str(s),
        Json::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                write(item, out);
            }
            out.push(']');
        }
        Json::Object(map) => {
            out.push('{');
            for (i, (key, value)) in map.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                out.push_str(&Json::from(key.as_str()).to_string());
                out.push_str(": ");
                write(value, out);
            }
            out.push('}');
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {
            out.push_str(&json.to_string());
        }
    }
}

/// Python's JSON as standard JSON: the three words in quotes, lone surrogates and numbers that no
/// float holds replaced.
fn standard(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while !rest.is_empty() {
        let (done, replaced) = if rest.starts_with('"') {
            let end = string_end(rest);
            (end, without_lone_surrogates(&rest[..end]))
        } else if let Some(word) = WORDS.into_iter().find(|w| rest.starts_with(w)) {
            (word.len(), format!("\"{word}\""))
        } else if rest.starts_with(in_number) {
            let end = rest.find(|c: char| !in_number(c)).unwrap_or(rest.len());
            let number = &rest[..end];
            let replaced = match number.parse::<f64>() {
                Ok(f64::INFINITY) => "\"Infinity\"",
                Ok(f64::NEG_INFINITY) => "\"-Infinity\"",
                Ok(_) | Err(_) => number,
            };
            (end, replaced.to_owned())
        } else {
            let first = rest.chars().next().map_or(0, char::len_utf8);
            let next = rest[first..].find(|c: char| matches!(c, '"' | 'N' | 'I' | '-' | '0'..='9'));
            let end = next.map_or(rest.len(), |i| first + i);
            (end, rest[..end].to_owned())
        };
        out.push_str(&replaced);
        rest = &rest[done..];
    }
    out
}

/// Whether a number of JSON can have this character.
fn in_number(c: char) -> bool {
    matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')
}

/// Where the string that `text` starts with ends: after its closing quote.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (i, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return i + 1,
            _ => {}
        }
    }
    text.len()
}

/// A JSON string, quotes included, with `\ud800` to `\udfff` replaced where they are no pair.
fn without_lone_surrogates(string: &str) -> String {
    let mut out = String::with_capacity(string.len());
    let mut rest = string;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = match (surrogate(rest), rest.get(6..).and_then(surrogate)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
            (Some(_), _) => {
                out.push('\u{fffd}');
                rest = &rest[6..];
                continue;
            }
            (None, _) => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out.push_str(rest);
    out
}

/// The surrogate whose escape `text` starts with.
fn surrogate(text: &str) -> Option<u32> {
    let code = u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()?;
    (0xd800..0xe000).contains(&code).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn bare_words_become_strings_outside_of_strings_only() {
        let text =
            r#"{"a": NaN, "b": [Infinity, -Infinity, 1.5, -2], "c": "NaN \" NaN \\", "d": NaN}"#;
        assert_eq!(
            python_json(text).unwrap(),
            json!({"a": "NaN", "b": ["Infinity", "-Infinity", 1.5, -2], "c": "NaN \" NaN \\", "d": "NaN"})
        );
        for bad in [
            "{nonsense",
            "",
            "NaNNaN",
            "[NaN",
            "\"",
            "\"\\",
            "-",
            "{\"a\": N}",
            "é",
        ] {
            assert_eq!(python_json(bad), None, "{bad}");
        }
    }

    #[test]
    fn halves_of_surrogate_pairs_become_replacement_characters() {
        let text = r#"["\udc80x", "\ud83d\ude00", "\ud83d", "\\ud83d", NaN]"#;
        assert_eq!(
            python_json(text).unwrap(),
            json!(["\u{fffd}x", "\u{1f600}", "\u{fffd}", "\\ud83d", "NaN"])
        );
    }

    #[test]
    fn a_number_that_no_float_holds_is_infinite_as_in_python() {
        let text = format!(
            "[1e999, -1e999, {}, -{0}, 1e308, \"1e999\"]",
            "9".repeat(400)
        );
        let (plus, minus) = ("Infinity", "-Infinity");
        assert_eq!(
            python_json(&text).unwrap(),
            json!([plus, minus, plus, minus, 1e308, "1e999"])
        );
        for bad in ["1e999e", "--1e999", "1e999 2", "[1e999", "e", "infinity"] {
            assert_eq!(python_json(bad), None, "{bad}");
        }
    }

    #[test]
    fn keys_stay_strings_when_words_are_written_bare() {
        assert_eq!(
            to_python_json(&json!({"NaN": ["NaN", "-Infinity", "a\"é"], "x": 0.1})),
            r#"{"NaN": [NaN, -Infinity, "a\"é"], "x": 0.1}"#
        );
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            any::<f64>().prop_map(crate::json_number),
            "[NaIfinty\"\\\\ux-]{0,12}".prop_map(Json::from),
            any::<String>().prop_map(Json::from),
            prop::sample::select(WORDS.to_vec()).prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 48, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Json::from),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|pairs| Json::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read_again(json in any_json()) {
            prop_assert_eq!(python_json(&to_python_json(&json)), Some(json));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[\\[\\]{}:,\"\\\\NaIu0-9d -]{0,40}|\\PC{0,20}") {
            let _ = python_json(&text);
        }
    }
}
