//! Text for tests, and what is wrong with it.

use crate::printable::harmful;

/// One of each kind that may not reach a terminal, among letters.
pub const HOSTILE: &str = "a\u{1b}[31m\u{9b}2J\u{202e}b\nc\r\td\u{7}\0\u{7f}\u{85}\u{2028}\u{2066}\u{200b}\u{feff}\u{e0041}\u{ad}e";

/// What of a text may not reach a terminal.
pub fn harmful_in(text: &str) -> Vec<char> {
    text.chars().filter(|c| *c != '\n' && harmful(*c)).collect()
}
