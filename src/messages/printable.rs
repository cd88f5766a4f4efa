//! Text from outside, in a form that cannot drive a terminal. Pure.
//!
//! Names, labels, error texts and what programs print come from files and from other people. What
//! writes to the terminal (`output`) passes every line through here, so that no caller can forget it.

use std::borrow::Cow;

/// Text as one line: line breaks and tabs become spaces, and what drives a terminal, hides text or
/// turns its order round becomes an escape, as JSON writes it: `\u001b`. So a JSON document
/// means the same as before.
pub fn printable(text: &str) -> Cow<'_, str> {
    replaced(text, harmful)
}

/// The same for text of several lines, which it keeps.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| c != '\n' && harmful(c))
}

fn replaced(text: &str, bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    // Most text is ASCII, and a look at bytes costs a fraction of one at characters.
    let harmless = |byte: u8| byte.is_ascii() && !bad(char::from(byte));
    if text.bytes().all(harmless) || !text.contains(&bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if !bad(c) {
            out.push(c);
        } else if matches!(c, '\n' | '\r' | '\t') {
            out.push(' ');
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    Cow::Owned(out)
}

/// Control characters, what breaks lines, marks of the writing direction, and what has no width,
/// but for the joiners (U+200C, U+200D) that scripts and emoji need.
pub(crate) fn harmful(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::testing::{HOSTILE, harmful_in};

    #[test]
    fn one_line_of_hostile_text_is_one_harmless_line() {
        let shown = printable(HOSTILE);
        assert_eq!(harmful_in(&shown), []);
        assert!(!shown.contains('\n'));
        assert!(
            shown.starts_with(r"a\u001b[31m\u009b2J\u202eb c  d\u0007\u0000\u007f"),
            "{shown}"
        );
        assert!(shown.ends_with(r"\udb40\udc41\u00ade"), "{shown}");
        assert_eq!(printable_lines("a\nb\tc\r\n"), "a\nb c \n");
    }

    #[test]
    fn what_people_write_is_left_as_it_is() {
        for text in [
            "",
            "lr = 3e-5",
            "Größe µ °C",
            "שלום עולם",
            "می\u{200c}خواهم",
            "👩\u{200d}🔬 ✓",
        ] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn json_means_the_same_as_before() {
        let json = serde_json::json!({ HOSTILE: [HOSTILE, "\\", "\\\u{9b}"] });
        for text in [json.to_string(), format!("{json:#}")] {
            let shown = printable_lines(&text);
            assert_eq!(harmful_in(&shown), []);
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
                json
            );
        }
    }
}
