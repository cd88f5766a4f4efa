//! JSON as Python's `json` module writes it.

use serde_json::Value as Json;

/// Parses JSON in which `NaN`, `Infinity` and `-Infinity` may stand for numbers, as Python writes
/// them; they become the strings of the contract (`"NaN"`, ...). `None` where it is no JSON.
pub fn python_json(text: &str) -> Option<Json> {
    match serde_json::from_str(text) {
        Ok(json) => Some(json),
        Err(_) => serde_json::from_str(&quote_non_finite(text)).ok(),
    }
}

/// Puts the three bare words outside of strings into quotes.
fn quote_non_finite(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    let mut in_string = false;
    while let Some(c) = rest.chars().next() {
        if in_string {
            let end = rest.find(['"', '\\']).map_or(rest.len(), |i| {
                if rest[i..].starts_with('\\') {
                    (i + 2).min(rest.len())
                } else {
                    i + 1
                }
            });
            let end = (end..=rest.len())
                .find(|&i| rest.is_char_boundary(i))
                .unwrap_or(rest.len());
            in_string = rest[..end].ends_with("\\\"") || !rest[..end].ends_with('"');
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        let word = ["NaN", "Infinity", "-Infinity"]
            .into_iter()
            .find(|w| rest.starts_with(w));
        if let Some(word) = word {
            out.push('"');
            out.push_str(word);
            out.push('"');
            rest = &rest[word.len()..];
        } else {
            in_string = c == '"';
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bare_words_become_strings_outside_of_strings_only() {
        let text = r#"{"a": NaN, "b": [Infinity, -Infinity, 1.5], "c": "NaN \" NaN \\", "d": NaN}"#;
        assert_eq!(
            python_json(text).unwrap(),
            json!({"a": "NaN", "b": ["Infinity", "-Infinity", 1.5], "c": "NaN \" NaN \\", "d": "NaN"})
        );
        assert_eq!(python_json("{nonsense"), None);
    }
}
