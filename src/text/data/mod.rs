//! Labelled rows from CSV or JSON lines, with all problems together.

pub mod guess;

use std::collections::HashMap;
use std::path::Path;

use sha2::{Digest, Sha256};

use config::Problems;
use search::space::Params;
use training::hex;
use training::rows::{check_placement, classes, open, same_numbers};
use training::split::{Part, Samples};
use training::table::{self, FileProblems, Format, Place, Table};

/// One labelled row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The text.
    pub text: String,
    /// The second text, where there is such a column.
    pub pair: Option<String>,
    /// Index into [`Dataset::classes`].
    pub class: usize,
    /// The group, where there is such a column.
    pub group: Option<String>,
    /// Line of the file on which the row starts, from 1.
    pub line: usize,
}

/// All rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// In the file's order.
    pub rows: Vec<Row>,
    /// The labels: in numerical order where all are numbers, else in the order of their characters.
    pub classes: Vec<String>,
    /// The part of each row, where a column says it; else empty.
    pub parts: Vec<Part>,
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

/// A row as it is read: the cells of the columns asked for.
struct RawRow {
    place: Place,
    text: Option<String>,
    pair: Option<String>,
    label: Option<String>,
    group: Option<String>,
    part: Option<String>,
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

    /// `(key, column)` of every column that is read.
    fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("data.text", Some(self.text.as_str())),
            ("data.text_pair", self.pair.as_deref()),
            ("data.label", Some(self.label.as_str())),
            ("data.group", self.group.as_deref()),
            ("data.split.column", self.part.as_deref()),
        ]
        .into_iter()
        .filter_map(|(key, column)| Some((key, column?)))
    }
}

impl Dataset {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Every problem of the file, with its line; of each kind the first few.
    pub fn read(path: &Path, columns: &Columns) -> Result<Dataset, Problems> {
        let mut problems = FileProblems::new(path);
        let rows = raw_rows(path, columns, &mut problems);
        if problems.fatal() {
            return Err(problems.into_problems());
        }
        assemble(rows, columns, problems)
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
        for row in &self.rows {
            field(Some(&row.text));
            field(row.pair.as_deref());
            field(Some(&self.classes[row.class]));
            field(row.group.as_deref());
        }
        hex(&hash.finalize())
    }
}

impl Samples for Dataset {
    fn count(&self) -> usize {
        self.rows.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn class(&self, row: usize) -> usize {
        self.rows[row].class
    }

    fn group(&self, row: usize) -> Option<&str> {
        self.rows[row].group.as_deref()
    }

    fn parts(&self) -> &[Part] {
        &self.parts
    }
}

/// The rows of a file, of those that can be read.
fn raw_rows(path: &Path, columns: &Columns, problems: &mut FileProblems) -> Vec<RawRow> {
    let mut rows = Vec::new();
    let Some((format, mut table)) = open(path, problems) else {
        return rows;
    };
    if format == Format::Csv {
        check_columns(&table, "the file has", columns, problems);
        let header = table.columns();
        if !header.contains(&columns.text) || !header.contains(&columns.label) {
            return rows;
        }
    }
    while table.advance(problems) {
        let mut cell =
            |name: Option<&str>| name.map_or(Ok(None), |name| table.text(name, problems));
        let cells = [
            cell(Some(&columns.text)),
            cell(Some(&columns.label)),
            cell(columns.pair.as_deref()),
            cell(columns.group.as_deref()),
            cell(columns.part.as_deref()),
        ];
        if let [Ok(text), Ok(label), Ok(pair), Ok(group), Ok(part)] = cells {
            rows.push(RawRow {
                place: table.place(),
                text,
                label,
                pair,
                group,
                part,
            });
        }
    }
    if format == Format::Jsonl && !table.columns().is_empty() {
        check_columns(&table, "the rows have", columns, problems);
    }
    rows
}

/// Each column asked for is there, once.
fn check_columns(table: &Table, have: &str, columns: &Columns, problems: &mut FileProblems) {
    for (key, name) in columns.named() {
        if !table::is_there(name, table.columns(), key, problems) {
            let all = table::listed(table.columns());
            let found = format!("no column {name}; {have} {all}");
            problems.file(key, found, "a column of the file");
        }
    }
}

/// Checks the cells and numbers the classes.
fn assemble(
    raw: Vec<RawRow>,
    columns: &Columns,
    mut problems: FileProblems,
) -> Result<Dataset, Problems> {
    let mut parts = Vec::new();
    for cells in &raw {
        parts.extend(check_cells(cells, columns, &mut problems));
    }
    let label = |cells: &RawRow| cells.label.as_deref().map_or("", str::trim).to_owned();
    let labels: Vec<String> = raw.iter().map(label).collect();
    let classes = classes(&labels);
    let expected = "at least two classes";
    match classes.as_slice() {
        [] => problems.file("data.path", "no labelled rows".to_owned(), expected),
        [only] => problems.file("data.label", format!("only the class {only}"), expected),
        [_, _, ..] => same_numbers(&classes, &mut problems),
    }
    let numbered = classes.iter().enumerate();
    let class: HashMap<&str, usize> = numbered.map(|(at, name)| (name.as_str(), at)).collect();
    let row = |(cells, label): (RawRow, &String)| Row {
        text: cells.text.unwrap_or_default(),
        pair: columns
            .pair
            .as_ref()
            .map(|_| cells.pair.unwrap_or_default()),
        class: class.get(label.as_str()).copied().unwrap_or(0),
        group: columns.group.as_ref().and(cells.group),
        line: cells.place.line,
    };
    let rows = raw.into_iter().zip(&labels).map(row).collect();
    problems.finish(Dataset {
        rows,
        classes,
        parts,
    })
}

/// Notes what a row lacks. Its part, where a column says it.
fn check_cells(cells: &RawRow, columns: &Columns, problems: &mut FileProblems) -> Option<Part> {
    let mut wrong = |column: &str, found: &str, expected: &str| {
        problems.row(cells.place.line, cells.place.cell(column), found, expected);
    };
    if cells
        .label
        .as_deref()
        .is_none_or(|label| label.trim().is_empty())
    {
        wrong(&columns.label, "no label", "a class in every row");
    }
    if cells
        .text
        .as_deref()
        .is_none_or(|text| text.trim().is_empty())
    {
        wrong(&columns.text, "no text", TEXT);
    }
    if let (Some(column), None) = (&columns.pair, &cells.pair) {
        wrong(column, "no second text", SECOND_TEXT);
    }
    let group = (columns.group.as_deref(), cells.group.as_deref());
    let part = (columns.part.as_deref(), cells.part.as_deref());
    check_placement(cells.place, group, part, problems)
}

/// What is asked of every row.
pub const TEXT: &str = "a text in every row";

/// What is asked of rows of pairs.
pub const SECOND_TEXT: &str = "a second text in every row (an empty one is written \"\")";

#[cfg(test)]
mod tests;
