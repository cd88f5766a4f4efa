//! Texts that nobody wrote: two classes, of one word to many.

use std::path::Path;

use super::data::Columns;
use config::StudySpec;
use training::division::{MadeUp, make_up};

/// Writes them, under these columns, and puts them in the place of a study's.
///
/// # Errors
/// They cannot be written.
pub fn write(spec: &mut StudySpec, dir: &Path, columns: &Columns) -> anyhow::Result<()> {
    let label = |row: usize| (row % 2).to_string();
    let text = |row: usize| words(row, 256);
    let second = |row: usize| words(row + 1, 64);
    let pair = columns.pair.as_deref();
    let pair = pair.map(|name| -> MadeUp<'_> { (name, &second) });
    let first: MadeUp<'_> = (&columns.text, &text);
    let last: MadeUp<'_> = (&columns.label, &label);
    let all: Vec<MadeUp<'_>> = [first].into_iter().chain(pair).chain([last]).collect();
    make_up(spec, dir, &all)
}

/// At most so many words. The numbers have no common divisor: neighbours differ in length and words.
fn words(row: usize, most: usize) -> String {
    const WORDS: [&str; 8] = ["one", "two", "good", "bad", "the", "a", "is", "not"];
    let words = (0..1 + row * 37 % most).map(|at| WORDS[(row * 5 + at * 3) % WORDS.len()]);
    words.collect::<Vec<&str>>().join(" ")
}
