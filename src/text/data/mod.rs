//! Labelled rows from CSV or JSON lines, with all problems together.

mod csv;
mod jsonl;
pub(super) mod line_numbers;
pub(super) mod records;

use std::io::BufReader;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::split::Part;
use config::{Problem, Problems, Source, StudySpec};
use files::bounded;

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

/// A row as the formats hand it over: the cells of the columns asked for.
struct RawRow {
    place: records::Place,
    text: Option<String>,
    pair: Option<String>,
    label: Option<String>,
    group: Option<String>,
    part: Option<String>,
}

impl Columns {
    /// As the study names them.
    pub fn of(spec: &StudySpec) -> Columns {
        let name = |key: &str| {
            spec.fixed
                .get(key)
                .and_then(|v| v.as_str())
                .map(str::to_owned)
        };
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
        let mut findings = Findings::new(path);
        let file = match bounded::open_of(path, records::MAX_FILE) {
            Ok(file) => BufReader::with_capacity(1 << 16, file),
            Err(error) => {
                findings.file("data.path", error.to_string(), "a file that can be read");
                return Err(findings.into_problems());
            }
        };
        let extension = path
            .extension()
            .map(|e| e.to_string_lossy().to_ascii_lowercase());
        let raw = match extension.as_deref() {
            Some("csv") => csv::rows(file, columns, &mut findings),
            Some("jsonl" | "json" | "ndjson") => jsonl::rows(file, columns, &mut findings),
            other => {
                let found = other.map_or("no extension".to_owned(), |e| format!("a .{e} file"));
                findings.file("data.path", found, "a .csv or .jsonl file");
                Vec::new()
            }
        };
        if findings.fatal() {
            return Err(findings.into_problems());
        }
        assemble(raw, columns, findings)
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
        super::hex(&hash.finalize())
    }
}

/// Checks the cells and numbers the classes.
fn assemble(
    raw: Vec<RawRow>,
    columns: &Columns,
    mut findings: Findings,
) -> Result<Dataset, Problems> {
    let mut rows = Vec::with_capacity(raw.len());
    let mut labels = Vec::with_capacity(raw.len());
    let mut parts = Vec::new();
    for cells in raw {
        let line = cells.place.line;
        let place = |column: &str| cells.place.cell(column);
        let label = cells.label.as_deref().map_or("", str::trim).to_owned();
        if label.is_empty() {
            findings.row(
                line,
                place(&columns.label),
                "no label",
                "a class in every row",
            );
        }
        let text = cells.text.unwrap_or_default();
        if text.trim().is_empty() {
            findings.row(line, place(&columns.text), "no text", "a text in every row");
        }
        if let (Some(column), None) = (&columns.pair, &cells.pair) {
            findings.row(line, place(column), "no second text", SECOND_TEXT);
        }
        if let (Some(column), None | Some("")) = (&columns.group, cells.group.as_deref()) {
            findings.row(line, place(column), "no group", "a group in every row");
        }
        if let Some(column) = &columns.part {
            let word = cells.part.as_deref().unwrap_or_default();
            match Part::of_word(word) {
                Some(part) => parts.push(part),
                None => findings.row(
                    line,
                    place(column),
                    format!("the part \"{word}\""),
                    "train, validation (valid, val, dev) or test in every row",
                ),
            }
        }
        labels.push(label);
        rows.push(Row {
            text,
            pair: columns
                .pair
                .as_ref()
                .map(|_| cells.pair.unwrap_or_default()),
            class: 0,
            group: columns.group.as_ref().and(cells.group),
            line,
        });
    }
    let classes = classes(&labels);
    let expected = "at least two classes";
    match classes.as_slice() {
        [] => findings.file("data.path", "no labelled rows".to_owned(), expected),
        [only] => findings.file("data.label", format!("only the class {only}"), expected),
        [_, _, ..] => same_numbers(&classes, &mut findings),
    }
    let index: std::collections::HashMap<&str, usize> = classes
        .iter()
        .enumerate()
        .map(|(i, c)| (c.as_str(), i))
        .collect();
    for (row, label) in rows.iter_mut().zip(&labels) {
        row.class = index.get(label.as_str()).copied().unwrap_or(0);
    }
    findings.finish(Dataset {
        rows,
        classes,
        parts,
    })
}

/// What is asked of rows of pairs.
pub(super) const SECOND_TEXT: &str = "a second text in every row (an empty one is written \"\")";

/// One class written in two ways would be two classes.
fn same_numbers(classes: &[String], findings: &mut Findings) {
    let mut numbers: Vec<(f64, &str)> = (classes.iter())
        .filter_map(|label| Some((as_number(label)?, label.as_str())))
        .collect();
    numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
    for pair in numbers.windows(2) {
        if let [(a, label), (b, other)] = pair
            && a == b
        {
            findings.file(
                "data.label",
                format!("the labels {label} and {other}"),
                "one way of writing a number or a truth value",
            );
        }
    }
}

/// The number that a label means; truth values are 0 and 1.
fn as_number(label: &str) -> Option<f64> {
    match label.to_ascii_lowercase().as_str() {
        "true" => Some(1.0),
        "false" => Some(0.0),
        other => other.parse().ok().filter(|x: &f64| x.is_finite()),
    }
}

/// The distinct labels, sorted: as numbers where all are numbers.
fn classes(labels: &[String]) -> Vec<String> {
    let distinct: std::collections::BTreeSet<&str> = labels
        .iter()
        .map(String::as_str)
        .filter(|l| !l.is_empty())
        .collect();
    let mut classes: Vec<String> = distinct.into_iter().map(str::to_owned).collect();
    let number = |label: &str| label.parse::<f64>().ok().filter(|x| x.is_finite());
    if classes.iter().all(|c| number(c).is_some()) {
        classes.sort_by(|a, b| {
            let (x, y) = (number(a).unwrap_or(0.0), number(b).unwrap_or(0.0));
            x.total_cmp(&y).then_with(|| a.cmp(b))
        });
    }
    classes
}

/// Problems of one file. Of each kind only the first few are kept, the others counted.
pub(super) struct Findings {
    path: PathBuf,
    problems: Vec<Problem>,
    /// How often each kind (what was found without its details) came up at a row.
    seen: std::collections::BTreeMap<String, usize>,
    fatal: bool,
}

/// Problems of one kind that are spelled out.
const SPELLED_OUT: usize = 10;

impl Findings {
    pub(super) fn new(path: &Path) -> Findings {
        Findings {
            path: path.to_owned(),
            problems: Vec::new(),
            seen: std::collections::BTreeMap::new(),
            fatal: false,
        }
    }

    /// A problem of the whole file: the rows are not looked at.
    pub(super) fn file(&mut self, key: &str, found: String, expected: &str) {
        self.fatal = true;
        self.problems.push(Problem {
            source: Source::File(self.path.clone(), None),
            key: Some(key.to_owned()),
            found,
            expected: expected.to_owned(),
        });
    }

    /// A problem of one row; `expected` names the kind.
    pub(super) fn row(
        &mut self,
        line: usize,
        place: String,
        found: impl Into<String>,
        expected: &str,
    ) {
        let seen = self.seen.entry(expected.to_owned()).or_insert(0);
        *seen += 1;
        if *seen <= SPELLED_OUT {
            self.problems.push(Problem {
                source: Source::File(self.path.clone(), Some(line)),
                key: Some(place),
                found: found.into(),
                expected: expected.to_owned(),
            });
        }
    }

    /// Nothing is wrong.
    pub(super) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// A problem of the whole file that explains all those before it.
    pub(super) fn instead(&mut self, key: &str, found: String, expected: &str) {
        self.problems.clear();
        self.seen.clear();
        self.file(key, found, expected);
    }

    pub(super) fn fatal(&self) -> bool {
        self.fatal
    }

    /// A problem of a row behind which none are read.
    pub(super) fn last_row(&mut self, line: usize, place: String, found: String, expected: &str) {
        self.row(line, place, found, expected);
        self.fatal = true;
    }

    fn finish(self, data: Dataset) -> Result<Dataset, Problems> {
        if self.problems.is_empty() {
            Ok(data)
        } else {
            Err(self.into_problems())
        }
    }

    pub(super) fn into_problems(mut self) -> Problems {
        for (expected, seen) in &self.seen {
            if *seen > SPELLED_OUT {
                self.problems.push(Problem {
                    source: Source::File(self.path.clone(), None),
                    key: None,
                    found: format!("{} more such rows", seen - SPELLED_OUT),
                    expected: expected.clone(),
                });
            }
        }
        Problems(self.problems)
    }
}

#[cfg(test)]
mod tests;
