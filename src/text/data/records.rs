//! Files of rows, record by record, with the line on which each stands: how labelled rows and rows to be
//! answered are read alike. What is wrong goes to the findings; what is made of a record is up to the
//! caller, whose errors end the reading.

use std::io::{BufRead, Read};

use csv::ByteRecord;
use serde_json::{Map, Value as Json};

use super::Findings;
use super::line_numbers::{Next, is_too_long, noted};
use files::bounded::shown;

/// Longest row that is read, in bytes, all its columns together. While a text is made into tokens it
/// takes some 60 times its size.
pub const MAX_ROW: u64 = 4 << 20;

/// Most rows that are read.
pub const MAX_ROWS: usize = 10_000_000;

/// Longest file whose rows are kept in memory, in bytes.
pub const MAX_FILE: u64 = 4 << 30;

/// Where a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Line of the file on which it starts, from 1.
    pub line: usize,
    /// Its number among the records, from 1; a header is none.
    pub number: usize,
}

impl Place {
    /// `row 3`.
    pub fn row(&self) -> String {
        format!("row {}", self.number)
    }

    /// `row 3, column text`.
    pub fn cell(&self, column: &str) -> String {
        format!("row {}, column {column}", self.number)
    }
}

/// Visits a record of CSV, which has as many cells as the header.
pub type VisitRecord<'a, E> =
    dyn FnMut(Place, &[String], &ByteRecord, &mut Findings) -> Result<(), E> + 'a;

/// Visits a line, without its end; says whether it is a row.
pub type VisitLine<'a, E> = dyn FnMut(Place, &str, &mut Findings) -> Result<bool, E> + 'a;

/// Visits an object of JSON lines, and the line that it stands on.
pub type VisitObject<'a, E> =
    dyn FnMut(Place, Map<String, Json>, &str, &mut Findings) -> Result<(), E> + 'a;

const MARK: &[u8] = b"\xef\xbb\xbf";
const HEADER: &str = "CSV with a header line";
const UTF_8: &str = "text in UTF-8";
const OBJECT: &str = "one JSON object a line";

/// Visits the records of CSV with a header line, if `begin` wants them once it has seen the header,
/// which is returned. Problems of the whole file are told under `key`.
///
/// # Errors
/// Those of `visit`.
pub fn csv<E>(
    mut file: impl BufRead,
    key: &str,
    findings: &mut Findings,
    begin: &mut dyn FnMut(&[String], &mut Findings) -> bool,
    visit: &mut VisitRecord<'_, E>,
) -> Result<Vec<String>, E> {
    if !skip_mark(&mut file, key, findings) {
        return Ok(Vec::new());
    }
    let (file, lines) = noted(file, MAX_ROW);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
    let header: Vec<String> = match reader.byte_headers() {
        Ok(header) => header
            .iter()
            .map(|name| String::from_utf8_lossy(name).trim().to_owned())
            .collect(),
        Err(error) => {
            let found = match is_too_long(&error) {
                true => format!("a header of more than {}", shown(MAX_ROW)),
                false => error.to_string(),
            };
            findings.file(key, found, HEADER);
            return Ok(Vec::new());
        }
    };
    if !begin(&header, findings) {
        return Ok(header);
    }
    let mut record = ByteRecord::new();
    let mut number = 0;
    loop {
        number += 1;
        let place = |line| Place { line, number };
        let place = match lines.next(&mut reader, &mut record) {
            Ok(Next::Record(line)) => place(line),
            Ok(Next::End) => return Ok(header),
            Ok(Next::TooLong(line)) => {
                too_long(place(line), " (an open quote?)", findings);
                return Ok(header);
            }
            Err(error) => {
                findings.file(key, error.to_string(), HEADER);
                return Ok(header);
            }
        };
        if number > MAX_ROWS {
            too_many(key, findings);
            return Ok(header);
        }
        if record.len() == header.len() {
            visit(place, &header, &record, findings)?;
        } else {
            findings.row(
                place.line,
                place.row(),
                format!("{} cells (an open quote before it?)", record.len()),
                &format!("{} cells in every row, as in the header", header.len()),
            );
        }
    }
}

/// The text of a cell; `None` where it is none, which is noted.
pub fn text(place: Place, column: &str, cell: &[u8], findings: &mut Findings) -> Option<String> {
    match std::str::from_utf8(cell) {
        Ok(text) => Some(text.to_owned()),
        Err(error) => {
            findings.row(place.line, place.cell(column), invalid(&error), UTF_8);
            None
        }
    }
}

/// Visits the lines. Problems of the whole file are told under `key`.
///
/// # Errors
/// Those of `visit`.
pub fn lines<E>(
    mut file: impl BufRead,
    key: &str,
    findings: &mut Findings,
    visit: &mut VisitLine<'_, E>,
) -> Result<(), E> {
    if !skip_mark(&mut file, key, findings) {
        return Ok(());
    }
    let mut place = Place { line: 0, number: 1 };
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let mut line = (&mut file).take(MAX_ROW + 1);
        match line.read_until(b'\n', &mut bytes) {
            Ok(0) => return Ok(()),
            Ok(_) => place.line += 1,
            Err(error) => {
                findings.file(key, error.to_string(), "a file that can be read");
                return Ok(());
            }
        }
        let mut text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        if text.len() as u64 > MAX_ROW {
            too_long(place, "", findings);
            return Ok(());
        }
        if place.number > MAX_ROWS {
            too_many(key, findings);
            return Ok(());
        }
        text = text.strip_suffix(b"\r").unwrap_or(text);
        match std::str::from_utf8(text) {
            Ok(text) => place.number += usize::from(visit(place, text, findings)?),
            Err(error) => {
                findings.row(place.line, place.row(), invalid(&error), UTF_8);
                place.number += 1;
            }
        }
    }
}

/// Visits the objects of JSON lines; empty lines are passed over. Problems of the whole file are told
/// under `key`.
///
/// # Errors
/// Those of `visit`.
pub fn objects<E>(
    file: impl BufRead,
    key: &str,
    findings: &mut Findings,
    visit: &mut VisitObject<'_, E>,
) -> Result<(), E> {
    lines(file, key, findings, &mut |place, line, findings| {
        if line.trim().is_empty() {
            return Ok(false);
        }
        let found = match serde_json::from_str(line) {
            Ok(Json::Object(object)) => {
                visit(place, object, line, findings)?;
                return Ok(true);
            }
            Ok(other) => format!("the JSON value {other}").chars().take(80).collect(),
            Err(error) => error.to_string(),
        };
        findings.row(place.line, place.row(), found, OBJECT);
        Ok(true)
    })
}

/// A member of an object as a text: of a number or a truth value what stands there, `Ok(None)` where it
/// is absent or null.
///
/// # Errors
/// It is a list or an object.
pub fn member(object: &Map<String, Json>, name: &str) -> Result<Option<String>, NoText> {
    match object.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text.clone())),
        Some(scalar @ (Json::Number(_) | Json::Bool(_))) => Ok(Some(scalar.to_string())),
        Some(Json::Array(_) | Json::Object(_)) => Err(NoText),
    }
}

/// A list or an object, where a text is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoText;

impl NoText {
    /// Notes it.
    pub fn note(self, place: Place, column: &str, findings: &mut Findings) {
        findings.row(
            place.line,
            place.cell(column),
            "a list or an object",
            "a string or a number in every column that is read",
        );
    }
}

/// Passes over a byte-order mark. False where it is one of UTF-16, which is told under `key`.
fn skip_mark(file: &mut impl BufRead, key: &str, findings: &mut Findings) -> bool {
    // What cannot be read is found again by the caller.
    let first = file.fill_buf().unwrap_or_default();
    if first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff") {
        let found = "text in UTF-16 (by its byte-order mark)".to_owned();
        findings.file(key, found, UTF_8);
        return false;
    }
    if first.starts_with(MARK) {
        file.consume(MARK.len());
    }
    true
}

/// What is behind a row without an end is not looked at.
fn too_long(place: Place, why: &str, findings: &mut Findings) {
    let found = format!(
        "more than {}{why}; the rows behind it were not read",
        shown(MAX_ROW)
    );
    let expected = format!("rows of at most {}", shown(MAX_ROW));
    findings.last_row(place.line, place.row(), found, &expected);
}

fn too_many(key: &str, findings: &mut Findings) {
    let found = format!("more than {MAX_ROWS} rows");
    findings.file(key, found, &format!("at most {MAX_ROWS}"));
}

/// Names of columns for people: the first few, and how many more there are.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const LISTED: usize = 30;
    const LONGEST: usize = 60;
    let mut names = names.into_iter();
    let cut = |name: &str| name.chars().take(LONGEST).collect();
    let first: Vec<String> = names.by_ref().take(LISTED).map(cut).collect();
    match names.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn invalid(error: &std::str::Utf8Error) -> String {
    format!("invalid UTF-8 after byte {}", error.valid_up_to())
}
