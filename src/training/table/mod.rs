//! A file of rows, read row by row, with the line on which each row starts: how labelled rows, rows to be
//! answered and texts are read alike. What is wrong with a row is noted, and the row is passed over.

mod line_numbers;
mod problems;

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use csv::ByteRecord;
use serde_json::{Map, Value as Json};

use files::bounded::{self, shown};
use line_numbers::{Lines, Next, Noted, is_too_long, noted};
pub use problems::FileProblems;

/// Longest row that is read, in bytes, all its columns together. While a text is made into tokens it
/// takes some 60 times its size.
pub const MAX_ROW: u64 = 4 << 20;

/// Most rows that are read.
pub const MAX_ROWS: usize = 10_000_000;

/// Longest file whose rows are kept in memory, in bytes.
pub const MAX_FILE: u64 = 4 << 30;

/// The one column of a file of texts.
pub const TEXT: &str = "text";

const MARK: &[u8] = b"\xef\xbb\xbf";
const HEADER: &str = "CSV with a header line";
/// What is asked of every cell.
pub const UTF_8: &str = "text in UTF-8";
const OPEN: &str = "a quote (\") that is still open at the end of the file";
const CLOSED: &str = "a quote at the end of each cell that begins with one; a quote within it is written twice (\"\")";
const OBJECT: &str = "one JSON object a line";
const READABLE: &str = "a file that can be read";

/// The kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// With a header line.
    Csv,
    /// A JSON object a line; empty lines are passed over.
    Jsonl,
    /// A text a line.
    Text,
}

impl Format {
    /// By the file's suffix.
    ///
    /// # Errors
    /// Another suffix; says which.
    pub fn of(path: &Path) -> Result<Format, String> {
        let suffix = path.extension();
        let suffix = suffix.map(|e| e.to_string_lossy().to_ascii_lowercase());
        match suffix.as_deref() {
            Some("csv") => Ok(Format::Csv),
            Some("jsonl" | "json" | "ndjson") => Ok(Format::Jsonl),
            Some("txt") => Ok(Format::Text),
            Some(other) => Err(format!("a .{other} file")),
            None => Err("no suffix".to_owned()),
        }
    }
}

/// Where a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Line of the file on which it starts, from 1.
    pub line: usize,
    /// Its number among the rows, from 1; a header is none.
    pub number: usize,
}

impl Place {
    /// `row 3`.
    fn row(&self) -> String {
        format!("row {}", self.number)
    }

    /// `row 3, column text`.
    pub fn cell(&self, column: &str) -> String {
        format!("row {}, column {column}", self.number)
    }
}

/// Everything that a row holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// In the order of the columns.
    List(Vec<String>),
    /// An object, and the line that it stands on.
    Object(Map<String, Json>, String),
}

impl Cells {
    /// A text a column, of these columns in their order; empty where there is nothing.
    pub fn list(&self, columns: &[String]) -> Vec<String> {
        match self {
            Cells::List(cells) => cells.clone(),
            Cells::Object(object, _) => columns
                .iter()
                .map(|column| match object.get(column) {
                    None | Some(Json::Null) => String::new(),
                    Some(Json::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                })
                .collect(),
        }
    }

    /// The row as a JSON object on one line; of a list, with these columns as keys.
    pub fn object(&self, columns: &[String]) -> String {
        match self {
            Cells::Object(_, line) => line.clone(),
            Cells::List(cells) => {
                let pairs = columns.iter().zip(cells);
                let object = pairs.map(|(name, cell)| (name.clone(), cell.as_str().into()));
                Json::Object(object.collect()).to_string()
            }
        }
    }
}

/// No text is where one is wanted. It has been noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoText;

/// A file of rows, at one of them.
pub struct Table {
    format: Format,
    /// Under which problems of the whole file are told.
    key: &'static str,
    records: Records,
    columns: Vec<String>,
    /// The place of each name among the columns; of two columns of one name the first.
    places: HashMap<String, usize>,
    place: Place,
    /// Of [`Format::Csv`].
    record: ByteRecord,
    /// Of [`Format::Jsonl`].
    object: Map<String, Json>,
    /// Of the others, without its end.
    line: String,
}

/// What rows are made of.
enum Records {
    Csv(Box<csv::Reader<Noted<BufReader<File>>>>, Lines),
    Lines(BufReader<File>),
}

/// What is next in a file.
enum Step {
    /// A row.
    Row,
    /// No row, or a wrong one.
    Passed,
    /// The end, or something behind which nothing is read.
    End,
}

impl Table {
    /// Opens a file of at most `longest` bytes. Problems of the whole file are told under `key`.
    /// `None`: it cannot be read, which is noted.
    pub fn open(
        path: &Path,
        format: Format,
        longest: u64,
        key: &'static str,
        problems: &mut FileProblems,
    ) -> Option<Table> {
        let mut file = match bounded::open_of(path, longest) {
            Ok(file) => BufReader::with_capacity(1 << 16, file),
            Err(error) => {
                problems.file(key, error.to_string(), READABLE);
                return None;
            }
        };
        if !skip_mark(&mut file, key, problems) {
            return None;
        }
        let (records, columns) = match format {
            Format::Csv => {
                let (file, lines) = noted(file, MAX_ROW);
                let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
                let columns = header(&mut reader, key, problems)?;
                if lines.is_open(&reader) {
                    problems.last_row(1, "the header".to_owned(), OPEN.to_owned(), CLOSED);
                    return None;
                }
                (Records::Csv(Box::new(reader), lines), columns)
            }
            Format::Jsonl => (Records::Lines(file), Vec::new()),
            Format::Text => (Records::Lines(file), vec![TEXT.to_owned()]),
        };
        let mut places = HashMap::new();
        for (at, name) in columns.iter().enumerate() {
            places.entry(name.clone()).or_insert(at);
        }
        Some(Table {
            format,
            key,
            records,
            columns,
            places,
            place: Place { line: 0, number: 0 },
            record: ByteRecord::new(),
            object: Map::new(),
            line: String::new(),
        })
    }

    /// The header of CSV; of JSON lines the names that have come so far, in the order of their first
    /// occurrence.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Where the row stands.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Goes on to the next row that can be read; false: there is none.
    pub fn advance(&mut self, problems: &mut FileProblems) -> bool {
        loop {
            let step = match &self.records {
                Records::Csv(..) => self.next_record(problems),
                Records::Lines(_) => self.next_line(problems),
            };
            match step {
                Step::Row => return true,
                Step::Passed => {}
                Step::End => return false,
            }
        }
    }

    fn next_record(&mut self, problems: &mut FileProblems) -> Step {
        let Records::Csv(reader, lines) = &mut self.records else {
            return Step::End;
        };
        self.place.number += 1;
        match lines.next(reader, &mut self.record) {
            Ok(Next::Record(line)) => self.place.line = line,
            Ok(Next::End) => return Step::End,
            Ok(Next::TooLong(line)) => {
                self.place.line = line;
                return self.too_long(" (an open quote?)", problems);
            }
            Ok(Next::Open(line)) => {
                self.place.line = line;
                problems.last_row(line, self.place.row(), OPEN.to_owned(), CLOSED);
                return Step::End;
            }
            Err(error) => {
                problems.file(self.key, error.to_string(), HEADER);
                return Step::End;
            }
        }
        if self.place.number > MAX_ROWS {
            return self.too_many(problems);
        }
        let (found, expected) = (self.record.len(), self.columns.len());
        if found == expected {
            return Step::Row;
        }
        problems.row(
            self.place.line,
            self.place.row(),
            format!("{found} cells (an open quote before it?)"),
            &format!("{expected} cells in every row, as in the header"),
        );
        Step::Passed
    }

    fn next_line(&mut self, problems: &mut FileProblems) -> Step {
        let Records::Lines(file) = &mut self.records else {
            return Step::End;
        };
        let mut bytes = std::mem::take(&mut self.line).into_bytes();
        bytes.clear();
        match file.take(MAX_ROW + 1).read_until(b'\n', &mut bytes) {
            Ok(0) => return Step::End,
            Ok(_) => self.place.line += 1,
            Err(error) => {
                problems.file(self.key, error.to_string(), READABLE);
                return Step::End;
            }
        }
        self.place.number += 1;
        bytes.pop_if(|last| *last == b'\n');
        if bytes.len() as u64 > MAX_ROW {
            return self.too_long("", problems);
        }
        if self.place.number > MAX_ROWS {
            return self.too_many(problems);
        }
        bytes.pop_if(|last| *last == b'\r');
        match String::from_utf8(bytes) {
            Ok(line) => self.line = line,
            Err(error) => {
                let found = invalid(&error.utf8_error());
                problems.row(self.place.line, self.place.row(), found, UTF_8);
                return Step::Passed;
            }
        }
        match self.format {
            Format::Jsonl => self.parse(problems),
            Format::Csv | Format::Text => Step::Row,
        }
    }

    /// The line as an object.
    fn parse(&mut self, problems: &mut FileProblems) -> Step {
        if self.line.trim().is_empty() {
            self.place.number -= 1;
            return Step::Passed;
        }
        let found = match serde_json::from_str(&self.line) {
            Ok(Json::Object(object)) => {
                for name in object.keys() {
                    if !self.places.contains_key(name) {
                        self.places.insert(name.clone(), self.columns.len());
                        self.columns.push(name.clone());
                    }
                }
                self.object = object;
                return Step::Row;
            }
            Ok(other) => format!("the JSON value {other}").chars().take(80).collect(),
            Err(error) => error.to_string(),
        };
        problems.row(self.place.line, self.place.row(), found, OBJECT);
        Step::Passed
    }

    /// The text of a column; of a number or a truth value what stands there. `Ok(None)` where there is
    /// no such column, or null.
    ///
    /// # Errors
    /// It is no UTF-8, a list or an object, which is noted.
    pub fn text(
        &self,
        column: &str,
        problems: &mut FileProblems,
    ) -> Result<Option<String>, NoText> {
        match self.format {
            Format::Csv => {
                let at = self.places.get(column);
                at.map(|at| self.cell(*at, problems)).transpose()
            }
            Format::Text => Ok((column == TEXT).then(|| self.line.clone())),
            Format::Jsonl => match self.object.get(column) {
                None | Some(Json::Null) => Ok(None),
                Some(Json::String(text)) => Ok(Some(text.clone())),
                Some(scalar @ (Json::Number(_) | Json::Bool(_))) => Ok(Some(scalar.to_string())),
                Some(Json::Array(_) | Json::Object(_)) => {
                    problems.row(
                        self.place.line,
                        self.place.cell(column),
                        "a list or an object",
                        "a string or a number in every column that is read",
                    );
                    Err(NoText)
                }
            },
        }
    }

    /// The same of the column at this place of [`Table::columns`].
    ///
    /// # Errors
    /// See [`Table::text`].
    pub fn text_at(
        &self,
        at: usize,
        problems: &mut FileProblems,
    ) -> Result<Option<String>, NoText> {
        match self.format {
            Format::Csv => self.cell(at, problems).map(Some),
            Format::Jsonl | Format::Text => self.text(&self.columns[at], problems),
        }
    }

    /// The text of CSV's column number `at`.
    fn cell(&self, at: usize, problems: &mut FileProblems) -> Result<String, NoText> {
        let text = std::str::from_utf8(&self.record[at]);
        text.map(str::to_owned).map_err(|error| {
            let place = self.place.cell(&self.columns[at]);
            problems.row(self.place.line, place, invalid(&error), UTF_8);
            NoText
        })
    }

    /// Takes all that the row holds.
    ///
    /// # Errors
    /// A cell is no UTF-8, which is noted.
    pub fn take_cells(&mut self, problems: &mut FileProblems) -> Result<Cells, NoText> {
        match self.format {
            Format::Csv => {
                let cells = (0..self.columns.len()).map(|at| self.cell(at, problems));
                // All of them are looked at before the first that is wrong ends this.
                let cells: Vec<Result<String, NoText>> = cells.collect();
                Ok(Cells::List(cells.into_iter().collect::<Result<_, _>>()?))
            }
            Format::Text => Ok(Cells::List(vec![std::mem::take(&mut self.line)])),
            Format::Jsonl => Ok(Cells::Object(
                std::mem::take(&mut self.object),
                std::mem::take(&mut self.line),
            )),
        }
    }

    /// What is behind a row without an end is not looked at.
    fn too_long(&self, why: &str, problems: &mut FileProblems) -> Step {
        let most = shown(MAX_ROW);
        let found = format!("more than {most}{why}; the rows behind it were not read");
        let expected = format!("rows of at most {most}");
        problems.last_row(self.place.line, self.place.row(), found, &expected);
        Step::End
    }

    fn too_many(&self, problems: &mut FileProblems) -> Step {
        let found = format!("more than {MAX_ROWS} rows");
        problems.file(self.key, found, &format!("at most {MAX_ROWS}"));
        Step::End
    }
}

/// The names in the header of CSV; `None` where it cannot be read, which is noted.
fn header(
    reader: &mut csv::Reader<impl Read>,
    key: &str,
    problems: &mut FileProblems,
) -> Option<Vec<String>> {
    let header = reader.byte_headers().map_err(|error| {
        let found = match is_too_long(&error) {
            true => format!("a header of more than {}", shown(MAX_ROW)),
            false => error.to_string(),
        };
        problems.file(key, found, HEADER);
    });
    let name = |name: &[u8]| String::from_utf8_lossy(name).trim().to_owned();
    Some(header.ok()?.iter().map(name).collect())
}

/// Passes over a byte-order mark. False where it is one of UTF-16, which is noted.
fn skip_mark(file: &mut impl BufRead, key: &str, problems: &mut FileProblems) -> bool {
    // What cannot be read is found again by the caller.
    let first = file.fill_buf().unwrap_or_default();
    if first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff") {
        let found = "text in UTF-16 (by its byte-order mark)".to_owned();
        problems.file(key, found, UTF_8);
        return false;
    }
    if first.starts_with(MARK) {
        file.consume(MARK.len());
    }
    true
}

fn invalid(error: &std::str::Utf8Error) -> String {
    format!("invalid UTF-8 after byte {}", error.valid_up_to())
}

/// Notes that a column which is read is there more than once; whether it is there at all.
pub fn is_there(name: &str, columns: &[String], key: &str, problems: &mut FileProblems) -> bool {
    let count = columns.iter().filter(|column| *column == name).count();
    if count > 1 {
        let found = format!("{count} columns called {name}");
        problems.file(key, found, "a name that only one column has");
    }
    count > 0
}

/// Names of columns for people: the first few, and how many more there are.
pub fn listed(names: &[String]) -> String {
    const LISTED: usize = 30;
    const LONGEST: usize = 60;
    let first = names.iter().take(LISTED);
    let first: Vec<String> = first
        .map(|name| name.chars().take(LONGEST).collect())
        .collect();
    match names.len().saturating_sub(LISTED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
