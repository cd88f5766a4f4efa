//! Texts that nobody wrote: two classes, of one word to many.

use std::fs::File;

use super::data::Columns;

/// How many.
const ROWS: usize = 240;

/// Writes them, under these columns.
pub fn write(out: &mut csv::Writer<File>, columns: &Columns) -> csv::Result<()> {
    const WORDS: [&str; 8] = ["one", "two", "good", "bad", "the", "a", "is", "not"];
    let words = |row: usize, most: usize| -> String {
        // Numbers without a common divisor: neighbours differ in length and words.
        let words = (0..1 + row * 37 % most).map(|at| WORDS[(row * 5 + at * 3) % WORDS.len()]);
        words.collect::<Vec<&str>>().join(" ")
    };
    let names = [
        Some(columns.text.as_str()),
        columns.pair.as_deref(),
        Some(&columns.label),
    ];
    out.write_record(names.into_iter().flatten())?;
    for row in 0..ROWS {
        let pair = columns.pair.as_ref().map(|_| words(row + 1, 64));
        let label = Some((row % 2).to_string());
        out.write_record([Some(words(row, 256)), pair, label].into_iter().flatten())?;
    }
    Ok(())
}
