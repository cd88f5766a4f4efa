//! What is written: escaped, and measured without a font.

use std::fmt::Write;

use messages::printable;

/// Height of the letters, in pixels.
pub(crate) const SIZE: f64 = 12.0;

/// Text of others as text of HTML, of XML, or of an attribute in quotes: it ends no element, drives no terminal and
/// turns no writing direction round.
pub fn escaped(text: &str) -> String {
    let text = printable(text);
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // No characters of XML.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// At most so many characters; an ellipsis stands for what is left out.
pub fn shortened(text: &str, most: usize) -> String {
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let kept = most.saturating_sub(1);
    text.chars().take(kept).chain(['…']).collect()
}

/// How wide a text is about, in pixels: by classes of letters of a sans-serif face. Rather too wide.
pub(crate) fn width(text: &str) -> f64 {
    let em = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '|' | '\'' | '!' => 0.3,
        'f' | 'r' | 't' | ' ' | '(' | ')' | '[' | ']' | '-' | '/' | 'I' => 0.4,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.9,
        'A'..='Z' | '&' => 0.72,
        c if c.is_ascii() => 0.58,
        // Latin with marks, Greek, Cyrillic.
        c if (c as u32) < 0x600 => 0.7,
        _ => 1.0,
    };
    SIZE * text.chars().map(em).sum::<f64>()
}

/// As much of a text as fits this width.
pub(crate) fn fitted(text: &str, room: f64) -> String {
    let text = printable(text);
    if width(&text) <= room {
        return text.into_owned();
    }
    let mut kept = text.chars().count().min(400);
    loop {
        let short = shortened(&text, kept);
        if width(&short) <= room || kept <= 2 {
            return short;
        }
        kept -= 1;
    }
}

/// A number of pixels: a tenth is as fine as eyes see.
pub(crate) fn put(out: &mut String, pixels: f64) {
    let tenths = (pixels * 10.0).round() as i64;
    let (sign, tenths) = (if tenths < 0 { "-" } else { "" }, tenths.abs());
    // Writing to a string does not fail.
    let _ = match tenths % 10 {
        0 => write!(out, "{sign}{}", tenths / 10),
        rest => write!(out, "{sign}{}.{rest}", tenths / 10),
    };
}

/// The same as a text.
pub(crate) fn px(pixels: f64) -> String {
    let mut out = String::new();
    put(&mut out, pixels);
    out
}
