//! Rows of a CSV file, a file of JSON lines, or a text a line; with all their columns.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use super::super::data::line_numbers::noted;
use super::super::data::{Findings, SECOND_TEXT};
use crate::config::Problems;

/// What is read of each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Column of the text.
    pub text: String,
    /// Column of the second text.
    pub pair: Option<String>,
    /// Column of the class, and the classes that there are.
    pub label: Option<(String, Vec<String>)>,
    /// Columns that must not be there.
    pub forbidden: Vec<String>,
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Line of the file on which it starts, from 1.
    pub line: usize,
    /// From 1; the header is none.
    pub number: usize,
    /// The text.
    pub text: String,
    /// The second text, where one is wanted.
    pub pair: Option<String>,
    /// Index of the class, where one is wanted.
    pub class: usize,
    /// Everything that the row holds.
    pub cells: Cells,
}

/// What a row holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// In the order of the columns.
    List(Vec<String>),
    /// An object, and the line that it stands on.
    Object(Map<String, Json>, String),
}

/// What a first look at the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// Rows.
    pub rows: usize,
    /// Columns, in the order of their first occurrence.
    pub columns: Vec<String>,
}

/// The kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Csv,
    Jsonl,
    Text,
}

/// A file of rows.
#[derive(Debug, Clone)]
pub struct Input {
    path: PathBuf,
    format: Format,
    wanted: Wanted,
}

/// What is done with each row.
type Visit<'a> = dyn FnMut(Record) -> anyhow::Result<()> + 'a;

/// What is done with each line: its numbers as line and as row, and its text; says whether it is a row.
type VisitLine<'a> = dyn FnMut((usize, usize), String, &mut Findings) -> anyhow::Result<bool> + 'a;

impl Input {
    /// A file, by its suffix: `.csv`, `.jsonl` (`.json`, `.ndjson`) or `.txt`. Of a text file the
    /// lines are the texts.
    ///
    /// # Errors
    /// It is no file, or of another kind.
    pub fn new(path: &Path, mut wanted: Wanted) -> Result<Input, Problems> {
        let mut findings = Findings::new(path);
        let extension = path
            .extension()
            .map(|e| e.to_string_lossy().to_ascii_lowercase());
        let format = match extension.as_deref() {
            Some("csv") => Some(Format::Csv),
            Some("jsonl" | "json" | "ndjson") => Some(Format::Jsonl),
            Some("txt") => Some(Format::Text),
            other => {
                let found = other.map_or("no suffix".to_owned(), |e| format!("a .{e} file"));
                findings.file("FILE", found, "a .csv, .jsonl or .txt file");
                None
            }
        };
        // It is read twice: what is no file would be used up by the first look.
        if format.is_some() && !path.is_file() {
            let found = match path.exists() {
                true => "not a plain file",
                false => "no such file",
            };
            findings.file("FILE", found.to_owned(), "a file of rows");
        }
        if format == Some(Format::Text) {
            wanted.text = TEXT.to_owned();
            if let Some(column) = &wanted.pair {
                let found = format!("a file of texts, which has no column {column}");
                findings.file("text_pair", found, "a .csv or .jsonl file");
            }
            if let Some((column, _)) = &wanted.label {
                let found = format!("a file of texts, which has no column {column}");
                findings.file("label", found, "a .csv or .jsonl file");
            }
        }
        match format {
            Some(format) if !findings.fatal() => Ok(Input {
                path: path.to_owned(),
                format,
                wanted,
            }),
            Some(_) | None => Err(findings.into_problems()),
        }
    }

    /// Looks at every row and counts them.
    ///
    /// # Errors
    /// Every problem of the file, with its row; of each kind the first few.
    pub fn survey(&self) -> Result<Survey, Problems> {
        let mut findings = Findings::new(&self.path);
        let mut rows = 0;
        let columns = self.each(&mut findings, &mut |_| {
            rows += 1;
            Ok(())
        });
        let columns = columns.unwrap_or_default();
        self.check_columns(&columns, rows, &mut findings);
        if findings.is_empty() {
            Ok(Survey { rows, columns })
        } else {
            Err(findings.into_problems())
        }
    }

    /// Visits every row.
    ///
    /// # Errors
    /// Those of `visit`; or the file has changed since it was looked at, and is no longer right.
    pub fn visit(&self, visit: &mut Visit<'_>) -> anyhow::Result<()> {
        let mut findings = Findings::new(&self.path);
        self.each(&mut findings, visit)?;
        if !findings.is_empty() {
            return Err(findings.into_problems().into());
        }
        Ok(())
    }

    /// Visits the rows that are right, notes what is wrong with the others, and gives the columns.
    fn each(&self, findings: &mut Findings, visit: &mut Visit<'_>) -> anyhow::Result<Vec<String>> {
        let file = match File::open(&self.path) {
            Ok(file) => BufReader::with_capacity(1 << 16, file),
            Err(error) => {
                findings.file("FILE", error.to_string(), "a file that can be read");
                return Ok(Vec::new());
            }
        };
        match self.format {
            Format::Csv => self.csv(file, findings, visit),
            Format::Jsonl => {
                let mut columns = Columns::default();
                self.lines(file, findings, &mut |place, line, findings| {
                    if line.trim().is_empty() {
                        return Ok(false);
                    }
                    match serde_json::from_str(&line) {
                        Ok(Json::Object(object)) => {
                            columns.note(&object);
                            let cells = Cells::Object(object, line);
                            self.row(place, cells, &[], findings)
                                .map_or(Ok(()), &mut *visit)?;
                        }
                        Ok(other) => {
                            let found: String = format!("the JSON value {other}");
                            let found: String = found.chars().take(80).collect();
                            findings.row(place.0, row(place.1), found, OBJECT);
                        }
                        Err(e) => findings.row(place.0, row(place.1), e.to_string(), OBJECT),
                    }
                    Ok(true)
                })?;
                Ok(columns.names)
            }
            Format::Text => {
                let columns = vec![TEXT.to_owned()];
                self.lines(file, findings, &mut |place, line, findings| {
                    let cells = Cells::List(vec![line]);
                    self.row(place, cells, &columns, findings)
                        .map_or(Ok(()), &mut *visit)?;
                    Ok(true)
                })?;
                Ok(columns)
            }
        }
    }

    /// Hands over the lines, without their ends.
    fn lines(
        &self,
        mut file: impl BufRead,
        findings: &mut Findings,
        visit: &mut VisitLine<'_>,
    ) -> anyhow::Result<()> {
        let (mut line, mut number) = (0, 1);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match file.read_until(b'\n', &mut bytes) {
                Ok(0) => return Ok(()),
                Ok(_) => line += 1,
                Err(error) => {
                    findings.file("FILE", error.to_string(), "a file that can be read");
                    return Ok(());
                }
            }
            let mut text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            text = text.strip_suffix(b"\r").unwrap_or(text);
            if line == 1 {
                text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
            }
            match std::str::from_utf8(text) {
                Ok(text) => {
                    number += usize::from(visit((line, number), text.to_owned(), findings)?);
                }
                Err(error) => {
                    findings.row(line, row(number), invalid(&error), "text in UTF-8");
                    number += 1;
                }
            }
        }
    }

    fn csv(
        &self,
        mut file: impl BufRead,
        findings: &mut Findings,
        visit: &mut Visit<'_>,
    ) -> anyhow::Result<Vec<String>> {
        let first = file.fill_buf().unwrap_or_default();
        if first.starts_with(b"\xef\xbb\xbf") {
            file.consume(3);
        }
        let (file, lines) = noted(file);
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
        let header: Vec<String> = match reader.byte_headers() {
            Ok(header) => header
                .iter()
                .map(|name| String::from_utf8_lossy(name).trim().to_owned())
                .collect(),
            Err(error) => {
                findings.file("FILE", error.to_string(), "CSV with a header line");
                return Ok(Vec::new());
            }
        };
        if !header.contains(&self.wanted.text) {
            return Ok(header);
        }
        let mut record = csv::ByteRecord::new();
        let mut number = 0;
        loop {
            match reader.read_byte_record(&mut record) {
                Ok(true) => number += 1,
                Ok(false) => return Ok(header),
                Err(error) => {
                    findings.file("FILE", error.to_string(), "CSV with a header line");
                    return Ok(header);
                }
            }
            let line = lines.of(&record);
            if record.len() != header.len() {
                findings.row(
                    line,
                    row(number),
                    format!("{} cells (an open quote before it?)", record.len()),
                    &format!("{} cells in every row, as in the header", header.len()),
                );
                continue;
            }
            let mut cells = Vec::with_capacity(header.len());
            for (name, cell) in header.iter().zip(&record) {
                match std::str::from_utf8(cell) {
                    Ok(text) => cells.push(text.to_owned()),
                    Err(error) => {
                        let place = format!("row {number}, column {name}");
                        findings.row(line, place, invalid(&error), "text in UTF-8");
                    }
                }
            }
            if cells.len() == header.len() {
                self.row((line, number), Cells::List(cells), &header, findings)
                    .map_or(Ok(()), &mut *visit)?;
            }
        }
    }

    /// The row of these cells; `None` where something is wrong with it.
    fn row(
        &self,
        (line, number): (usize, usize),
        cells: Cells,
        columns: &[String],
        findings: &mut Findings,
    ) -> Option<Record> {
        let place = |column: &str| format!("row {number}, column {column}");
        let mut right = true;
        let mut get = |column: &str| match cells.get(column, columns) {
            Some(text) => text,
            None => {
                let expected = "a string or a number in every column that is read";
                findings.row(line, place(column), "a list or an object", expected);
                right = false;
                String::new()
            }
        };
        let text = get(&self.wanted.text);
        let pair = self.wanted.pair.as_deref().map(&mut get);
        let absent = (self.wanted.pair.as_deref()).filter(|column| cells.lacks(column));
        let label = (self.wanted.label.as_ref()).map(|(column, _)| get(column).trim().to_owned());
        if right && text.trim().is_empty() {
            findings.row(
                line,
                place(&self.wanted.text),
                "no text",
                "a text in every row",
            );
            right = false;
        }
        if let Some(column) = absent {
            findings.row(line, place(column), "no second text", SECOND_TEXT);
            right = false;
        }
        let mut class = 0;
        if let (Some((column, classes)), Some(label)) = (&self.wanted.label, &label) {
            match classes.iter().position(|c| c == label) {
                Some(found) => class = found,
                None => {
                    let found = match label.is_empty() {
                        true => "no label".to_owned(),
                        false => format!("the label {label}"),
                    };
                    let expected = format!("a class of the model: {}", classes.join(", "));
                    findings.row(line, place(column), found, &expected);
                    right = false;
                }
            }
        }
        right.then_some(Record {
            line,
            number,
            text,
            pair,
            class,
            cells,
        })
    }

    /// Whether each column that is read is there, once, and none that must not be.
    fn check_columns(&self, columns: &[String], rows: usize, findings: &mut Findings) {
        let label = self
            .wanted
            .label
            .as_ref()
            .map(|(column, _)| column.as_str());
        let wanted = [
            ("text", Some(self.wanted.text.as_str())),
            ("text_pair", self.wanted.pair.as_deref()),
            ("label", label),
        ];
        let known = self.format == Format::Csv || !columns.is_empty();
        for (key, name) in wanted {
            let Some(name) = name.filter(|_| known) else {
                continue;
            };
            match columns.iter().filter(|column| *column == name).count() {
                0 => {
                    let found = format!("no column {name}; the file has {}", columns.join(", "));
                    findings.instead(
                        key,
                        found,
                        &format!("a column of the file (--{})", key.replace('_', "-")),
                    );
                }
                1 => {}
                n => findings.file(
                    key,
                    format!("{n} columns called {name}"),
                    "a name that only one column has",
                ),
            }
        }
        for name in &self.wanted.forbidden {
            if columns.contains(name) {
                let expected = "names that the answer does not use itself: rename or remove it";
                findings.file("FILE", format!("a column {name}"), expected);
            }
        }
        if rows == 0 && findings.is_empty() {
            findings.file("FILE", "no rows".to_owned(), "at least one row");
        }
    }
}

impl Cells {
    /// An object has no value there; in a list each column has one.
    fn lacks(&self, column: &str) -> bool {
        match self {
            Cells::List(_) => false,
            Cells::Object(object, _) => matches!(object.get(column), None | Some(Json::Null)),
        }
    }

    /// The text of a column, empty where it is absent; `None` of a list or an object.
    pub fn get(&self, column: &str, columns: &[String]) -> Option<String> {
        match self {
            Cells::List(cells) => {
                let at = columns.iter().position(|c| c == column);
                Some(at.map_or(String::new(), |at| cells[at].clone()))
            }
            Cells::Object(object, _) => match object.get(column) {
                None | Some(Json::Null) => Some(String::new()),
                Some(Json::String(text)) => Some(text.clone()),
                Some(scalar @ (Json::Number(_) | Json::Bool(_))) => Some(scalar.to_string()),
                Some(Json::Array(_) | Json::Object(_)) => None,
            },
        }
    }
}

/// The one column of a text file.
const TEXT: &str = "text";

const OBJECT: &str = "one JSON object a line";

fn row(number: usize) -> String {
    format!("row {number}")
}

fn invalid(error: &std::str::Utf8Error) -> String {
    format!("invalid UTF-8 after byte {}", error.valid_up_to())
}

/// Names in the order of their first occurrence.
#[derive(Default)]
struct Columns {
    names: Vec<String>,
    known: HashSet<String>,
}

impl Columns {
    fn note(&mut self, object: &Map<String, Json>) {
        for name in object.keys() {
            if !self.known.contains(name) {
                self.known.insert(name.clone());
                self.names.push(name.clone());
            }
        }
    }
}
