//! Rows of a CSV file, a file of JSON lines, or a text a line; with all their columns.

use std::collections::HashSet;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::super::data::records::{self, Place};
use super::super::data::{Findings, Row, SECOND_TEXT};
use config::Problems;
use files::bounded;

/// What is read of each row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

impl Record {
    /// As the tokeniser takes it.
    pub fn row(&self) -> Row {
        Row {
            text: self.text.clone(),
            pair: self.pair.clone(),
            class: self.class,
            group: None,
            line: self.line,
        }
    }
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
        let file = match bounded::open(&self.path) {
            Ok(file) => BufReader::with_capacity(1 << 16, file),
            Err(error) => {
                findings.file("FILE", error.to_string(), "a file that can be read");
                return Ok(Vec::new());
            }
        };
        match self.format {
            Format::Csv => records::csv(
                file,
                "FILE",
                findings,
                &mut |header, _| header.contains(&self.wanted.text),
                &mut |place, header, record, findings| {
                    let cells = header.iter().zip(record);
                    let cells =
                        cells.map(|(name, cell)| records::text(place, name, cell, findings));
                    // Of each cell that is none something is told.
                    let cells: Vec<Option<String>> = cells.collect();
                    let cells: Option<Vec<String>> = cells.into_iter().collect();
                    let record = cells
                        .and_then(|cells| self.row(place, Cells::List(cells), header, findings));
                    record.map_or(Ok(()), &mut *visit)
                },
            ),
            Format::Jsonl => {
                let mut columns = Columns::default();
                records::objects(
                    file,
                    "FILE",
                    findings,
                    &mut |place, object, line, findings| {
                        columns.note(&object);
                        let cells = Cells::Object(object, line.to_owned());
                        self.row(place, cells, &[], findings)
                            .map_or(Ok(()), &mut *visit)
                    },
                )?;
                Ok(columns.names)
            }
            Format::Text => {
                let columns = vec![TEXT.to_owned()];
                records::lines(file, "FILE", findings, &mut |place, line, findings| {
                    let cells = Cells::List(vec![line.to_owned()]);
                    let record = self.row(place, cells, &columns, findings);
                    record.map_or(Ok(()), &mut *visit).map(|()| true)
                })?;
                Ok(columns)
            }
        }
    }

    /// The row of these cells; `None` where something is wrong with it.
    fn row(
        &self,
        place: Place,
        cells: Cells,
        columns: &[String],
        findings: &mut Findings,
    ) -> Option<Record> {
        let Place { line, number } = place;
        let mut right = true;
        let mut get = |column: &str| {
            cells.get(column, columns).unwrap_or_else(|no_text| {
                no_text.note(place, column, findings);
                right = false;
                String::new()
            })
        };
        let text = get(&self.wanted.text);
        let pair = self.wanted.pair.as_deref().map(&mut get);
        let absent = (self.wanted.pair.as_deref()).filter(|column| cells.lacks(column));
        let label = (self.wanted.label.as_ref()).map(|(column, _)| get(column).trim().to_owned());
        if right && text.trim().is_empty() {
            findings.row(
                line,
                place.cell(&self.wanted.text),
                "no text",
                "a text in every row",
            );
            right = false;
        }
        if let Some(column) = absent {
            findings.row(line, place.cell(column), "no second text", SECOND_TEXT);
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
                    findings.row(line, place.cell(column), found, &expected);
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
                    let all = records::listed(columns.iter().map(String::as_str));
                    let found = format!("no column {name}; the file has {all}");
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

    /// The text of a column, empty where it is absent.
    fn get(&self, column: &str, columns: &[String]) -> Result<String, records::NoText> {
        match self {
            Cells::List(cells) => {
                let at = columns.iter().position(|c| c == column);
                Ok(at.map_or(String::new(), |at| cells[at].clone()))
            }
            Cells::Object(object, _) => Ok(records::member(object, column)?.unwrap_or_default()),
        }
    }
}

/// The one column of a text file.
const TEXT: &str = "text";

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
