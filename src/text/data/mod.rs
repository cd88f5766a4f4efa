//! Labelled rows from CSV or JSON lines, with all problems together.

pub mod guess;

use std::path::Path;

use sha2::{Digest, Sha256};

use config::Problems;
use search::space::Params;
use training::hex;
use training::rows::{Placement, Wanted, read};
use training::split::Samples;
use training::table::{FileProblems, Table};

/// What a model reads of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The text.
    pub text: String,
    /// The second text, where there is such a column.
    pub pair: Option<String>,
}

/// All rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// In the file's order.
    pub rows: Vec<Row>,
    /// Their labels, groups, parts and lines. The classes are in numerical order where all are numbers, else in the order of
    /// their characters.
    pub samples: Samples,
}

/// Which columns are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// Column of the text.
    pub text: String,
    /// Column of the second text.
    pub pair: Option<String>,
    /// Column of the label.
    pub label: String,
    /// Column of the group.
    pub group: Option<String>,
    /// Column of the part of the split.
    pub part: Option<String>,
}

impl Columns {
    /// As a study's keys name them.
    pub fn of(keys: &Params) -> Columns {
        let name = |key: &str| keys.get(key)?.as_str().map(str::to_owned);
        Columns {
            text: name("data.text").unwrap_or_else(|| "text".to_owned()),
            pair: name("data.text_pair"),
            label: name("data.label").unwrap_or_else(|| "label".to_owned()),
            group: name("data.group"),
            part: name("data.split.column"),
        }
    }

    /// Those that say where rows belong.
    fn placement(&self) -> Placement<'_> {
        Placement {
            group: self.group.as_deref(),
            part: self.part.as_deref(),
        }
    }
}

impl Dataset {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Every problem of the file, with its line; of each kind the first few.
    pub fn read(path: &Path, columns: &Columns) -> Result<Dataset, Problems> {
        let mut problems = FileProblems::new(path);
        let pair = columns.pair.as_deref().map(|pair| ("data.text_pair", pair));
        let texts = [("data.text", columns.text.as_str())];
        let wanted = Wanted {
            target: ("data.label", columns.label.as_str()),
            without: ["no label", "a class in every row"],
            placement: columns.placement(),
            others: texts.into_iter().chain(pair).collect(),
        };
        let mut rows = Vec::new();
        let (mut samples, labels) = read(path, &wanted, &mut problems, &mut |table, problems| {
            rows.extend(row(table, columns, problems));
        });
        let labels: Vec<String> = labels.into_iter().map(|(label, _)| label).collect();
        samples.classify(&labels, "data.label", &mut problems);
        problems.finish(Dataset { rows, samples })
    }

    /// SHA-256 over what trials can see of the rows: texts, labels and groups, in order.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(b"text-classification rows 1\0");
        let mut field = |value: Option<&str>| match value {
            None => hash.update([0]),
            Some(text) => {
                hash.update([1]);
                hash.update((text.len() as u64).to_le_bytes());
                hash.update(text.as_bytes());
            }
        };
        let samples = &self.samples;
        for (at, row) in self.rows.iter().enumerate() {
            field(Some(&row.text));
            field(row.pair.as_deref());
            field(Some(&samples.classes[samples.class[at]]));
            field(samples.group(at));
        }
        hex(&hash.finalize())
    }
}

/// What a model reads of the row at which a table is; what it lacks is noted.
fn row(table: &Table, columns: &Columns, problems: &mut FileProblems) -> Option<Row> {
    let place = table.place();
    let text = table.text(&columns.text, problems);
    let pair = columns.pair.as_ref();
    let pair = pair.map(|column| (column, table.text(column, problems)));
    let mut wrong = |column: &str, found: &str, expected: &str| {
        problems.row(place.line, place.cell(column), found, expected);
    };
    let blank = |text: &Option<String>| text.as_deref().is_none_or(|t| t.trim().is_empty());
    // What cannot be read has been told.
    if text.as_ref().is_ok_and(blank) {
        wrong(&columns.text, "no text", TEXT);
    }
    if let Some((column, Ok(None))) = &pair {
        wrong(column, "no second text", SECOND_TEXT);
    }
    let pair = match pair {
        Some((_, second)) => Some(second.ok()??),
        None => None,
    };
    let text = text.ok()??;
    Some(Row { text, pair })
}

/// What is asked of every row.
pub const TEXT: &str = "a text in every row";

/// What is asked of rows of pairs.
pub const SECOND_TEXT: &str = "a second text in every row (an empty one is written \"\")";

#[cfg(test)]
mod tests;
