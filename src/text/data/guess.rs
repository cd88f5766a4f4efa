//! Which columns of a file of rows are likely the text, the label and the group: for a first configuration, which
//! a person looks through.

use std::collections::BTreeSet;
use std::path::Path;

use super::FileProblems;
use config::Problems;
use training::rows::{PLAIN_NUMBER, as_number, dressed_number, mostly_numbers, number};
use training::table::{Format, MAX_FILE, Table, UTF_8};

/// So many rows are looked at.
const ROWS: usize = 5_000;

/// So many lines are told of rows that lack something.
const EMPTY_TOLD: usize = 3;

/// More classes than this are no classes, but names or numbers.
const CLASSES: usize = 100;

/// A table's target that is a number of more values than this is predicted as a number.
const FEW_NUMBERS: usize = 20;

/// From so many rows on, a word that is another one in each of them is no chance.
const MANY_ROWS: usize = 20;

/// Names that columns of texts have.
const TEXTS: [&str; 10] = [
    "text", "comment", "review", "sentence", "post", "content", "body", "message", "abstract",
    "title",
];

/// Names that columns of labels have.
const LABELS: [&str; 14] = [
    "label",
    "labels",
    "class",
    "target",
    "outcome",
    "y",
    "status",
    "sentiment",
    "category",
    "topic",
    "tag",
    "rating",
    "stars",
    "intent",
];

/// Names of columns whose equal values belong together, beside those that end in `id`.
const GROUPS: [&str; 12] = [
    "group", "user", "author", "patient", "document", "thread", "session", "source", "review",
    "post", "product", "page",
];

/// What a column holds in the rows that were looked at.
#[derive(Debug, Clone, Default)]
struct Column {
    name: String,
    distinct: BTreeSet<String>,
    characters: usize,
    filled: usize,
    /// Cells of several words.
    wordy: usize,
    /// Lines of the first rows that have nothing here.
    empty: Vec<usize>,
}

impl Column {
    fn mean_length(&self) -> f64 {
        self.characters as f64 / self.filled.max(1) as f64
    }

    /// Whether it looks like texts that people wrote: most cells have words that no other has, or its name says so.
    fn is_text(&self) -> bool {
        let named = self.rank(&TEXTS) < TEXTS.len();
        let most = |cells: usize| cells * 2 > self.filled;
        let is_label = self.rank(&LABELS) < LABELS.len();
        !self.is_number() && !is_label && (named || most(self.wordy) && most(self.distinct.len()))
    }

    fn is_number(&self) -> bool {
        self.distinct.iter().all(|v| as_number(v.trim()).is_some())
    }

    /// Whether it holds numbers that no model reads as such, for the most part: with decimal commas, units and the like.
    fn is_dressed(&self) -> bool {
        let cells = || self.distinct.iter().map(|v| v.trim());
        cells().any(|cell| dressed_number(cell).is_some()) && mostly_numbers(cells())
    }

    /// Whether a model of a table reads categories in it. To that, unlike to a label, truth values are no numbers.
    fn is_categorical(&self) -> bool {
        self.distinct.iter().any(|v| number(v.trim()).is_none())
    }

    fn has_fractions(&self) -> bool {
        let numbers = self.distinct.iter().filter_map(|v| as_number(v.trim()));
        numbers.into_iter().any(|x| x.fract() != 0.0)
    }

    /// Whether it holds amounts, not classes: numbers with fractions, or of many values.
    fn is_amount(&self, rows: usize) -> bool {
        let distinct = self.distinct.len();
        let many = distinct > FEW_NUMBERS || distinct > (rows / 2).max(2);
        self.is_number() && (many || self.has_fractions())
    }

    /// Whether its equal values belong together: it is called so, and has more than `fewest` values, of which many repeat.
    fn is_group(&self, fewest: usize, rows: usize) -> bool {
        let name = self.name.to_ascii_lowercase();
        let named = name.ends_with("id") || self.rank(&GROUPS) < GROUPS.len();
        let distinct = self.distinct.len();
        named && distinct > fewest && distinct * 10 < rows * 9 && self.filled == rows
    }

    /// Whether it says which row it is: another whole number or word in each.
    fn names_rows(&self, rows: usize) -> bool {
        let name = self.name.to_ascii_lowercase();
        let ids = ["_id", "-id", " id"].iter().any(|end| name.ends_with(end))
            || self.name.ends_with("Id");
        let named = ids || ["", "id", "index", "unnamed: 0"].contains(&name.as_str());
        // A word that is another one in each row tells nothing of the next, whatever its column is called.
        let numbers = self
            .distinct
            .iter()
            .filter(|v| as_number(v.trim()).is_some());
        let words = rows >= MANY_ROWS && numbers.count() * 2 < self.distinct.len();
        // Amounts are another one in each row, too.
        let words = words && !self.is_dressed();
        (named || words) && self.distinct.len() == rows && !self.has_fractions()
    }

    /// Its place in a list of names; one that is not in it comes last.
    fn rank(&self, names: &[&str]) -> usize {
        let name = self.name.to_ascii_lowercase();
        let place = names.iter().position(|n| name == *n);
        place.unwrap_or(names.len())
    }
}

/// Whether a cell has several words, or is long in a script that has no spaces between them.
fn is_wordy(cell: &str) -> bool {
    let letters = |word: &&str| word.chars().any(char::is_alphabetic);
    cell.split_whitespace().filter(letters).count() > 1
        || cell.chars().filter(|c| !c.is_ascii()).count() >= 8
}

/// The columns that are likely meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LikelyColumns {
    /// Of the text; `None`: no column looks like one, the file is a table of numbers and categories.
    pub text: Option<String>,
    /// Of the label, or of what a table is to predict.
    pub label: String,
    /// The classes that the rows looked at have; none where a table's target is a number.
    pub classes: Vec<String>,
    /// Columns of a table that say which row it is.
    pub row_names: Vec<String>,
    /// Columns of a table to predict by that hold numbers as people write them, with decimal commas, units and the like: as they are, no
    /// model reads numbers in them.
    pub dressed: Vec<String>,
    /// Whether what is left of a table to predict by has categories in it, not numbers alone.
    pub categorical: bool,
    /// Of what keeps rows together in one split.
    pub group: Option<String>,
    /// All columns, in the file's order.
    pub columns: Vec<String>,
    /// How many rows were looked at.
    pub rows: usize,
}

/// Looks at the first rows of a CSV or JSONL file; `text` and `label` are columns that the user has named.
///
/// # Errors
/// The file cannot be read, a column that is named is not there, or none looks like a text or a label.
pub fn likely_columns(
    path: &Path,
    text: Option<&str>,
    label: Option<&str>,
) -> Result<LikelyColumns, Problems> {
    let mut problems = FileProblems::new(path);
    let found = Format::of(path).map(|format| read(path, format, &mut problems));
    let columns = match found {
        Ok(columns) => columns,
        Err(suffix) => {
            let mut expected = "a file that ends in .csv or .jsonl".to_owned();
            if suffix == "a .tsv file" {
                expected += &format!("; {}", with_commas(path, "\\t", false));
            }
            problems.file("--csv", suffix, &expected);
            Vec::new()
        }
    };
    if problems.is_empty() {
        let chosen = choose(&columns, text, label);
        match chosen {
            Ok(likely) => return Ok(likely),
            Err(Unclear {
                flag,
                found,
                expected,
            }) => {
                let expected = expected.unwrap_or_else(|| columns_of(path, &columns));
                problems.file(flag, found, &expected);
            }
        }
    }
    Err(problems.into_problems())
}

/// What cannot be told.
struct Unclear {
    /// The flag that would say it.
    flag: &'static str,
    found: String,
    /// None: one of the columns.
    expected: Option<String>,
}

/// The command that makes CSV of a file whose columns something else separates, and whose numbers may have a decimal comma.
fn with_commas(path: &Path, separator: &str, decimal: bool) -> String {
    let rows = format!("csv.reader(sys.stdin, delimiter='{separator}')");
    let rows = match decimal {
        true => format!(
            "[re.sub(r'^([-+]?\\d*),(\\d+)$', r'\\1.\\2', cell) for cell in row] for row in {rows}"
        ),
        false => rows,
    };
    let program = format!("import csv,re,sys; csv.writer(sys.stdout).writerows({rows})");
    format!(
        "this makes one: python3 -c \"{program}\" < {} > NEW.csv",
        path.display()
    )
}

fn columns_of(path: &Path, columns: &[Column]) -> String {
    other_separator(path, columns, false).unwrap_or_else(|| {
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        format!("one of its columns: {}", names.join(", "))
    })
}

/// What to do where something else than a comma separates the columns.
fn other_separator(path: &Path, columns: &[Column], decimal: bool) -> Option<String> {
    let [Column { name, .. }] = columns else {
        return None;
    };
    let separator = [(';', ";"), ('\t', "\\t")];
    let (_, separator) = separator.iter().find(|(c, _)| name.contains(*c))?;
    Some(format!(
        "columns that are separated by commas; the header is {name:?}; {}",
        with_commas(path, separator, decimal)
    ))
}

/// Whether a header looks like a row of data: numbers alone, unless they count up, as numbers of columns and years do.
fn looks_like_data(columns: &[Column]) -> bool {
    let numbers: Option<Vec<f64>> = columns.iter().map(|c| as_number(c.name.trim())).collect();
    let counts = |numbers: &[f64]| {
        let whole = numbers.iter().all(|x| x.fract() == 0.0);
        whole && numbers.windows(2).all(|pair| pair[0] < pair[1])
    };
    numbers.is_some_and(|numbers| numbers.len() > 1 && !counts(&numbers))
}

/// What is to stand in the first line that looks like data.
const NAMES_FIRST: &str =
    "names in the first line, which looks like data: put a line with names first (text,label)";

fn read(path: &Path, format: Format, problems: &mut FileProblems) -> Vec<Column> {
    let Some(mut table) = Table::open(path, format, MAX_FILE, "--csv", problems) else {
        return Vec::new();
    };
    let mut columns: Vec<Column> = Vec::new();
    let mut rows = 0;
    while rows < ROWS && table.advance(problems) {
        rows += 1;
        add_columns(&mut columns, table.columns());
        for column in &mut columns {
            // A list is no text; nor is it a mistake in a column that nobody asked for.
            let cell = match format {
                Format::Jsonl => table.text(&column.name, &mut FileProblems::new(path)),
                Format::Csv | Format::Text => table.text(&column.name, problems),
            };
            let cell = cell.ok().flatten();
            if let Some(cell) = cell.filter(|cell| !cell.trim().is_empty()) {
                column.filled += 1;
                column.characters += cell.chars().count();
                column.wordy += usize::from(is_wordy(&cell));
                column.distinct.insert(cell);
            } else if column.empty.len() < EMPTY_TOLD {
                column.empty.push(table.place().line);
            }
        }
    }
    // Those of a header whose rows are all wrong.
    add_columns(&mut columns, table.columns());
    judge(path, format, &columns, rows, problems);
    columns
}

/// Adds the columns that are new.
fn add_columns(columns: &mut Vec<Column>, names: &[String]) {
    let new = names.iter().skip(columns.len());
    columns.extend(new.map(|name| Column {
        name: name.clone(),
        ..Column::default()
    }));
}

/// What is wrong with a file as a whole.
fn judge(
    path: &Path,
    format: Format,
    columns: &[Column],
    rows: usize,
    problems: &mut FileProblems,
) {
    let wrong = problems.of_kind(UTF_8);
    if wrong > 0 {
        let found = format!("{wrong} cells or lines that are not UTF-8, of {rows} rows");
        let expected = format!(
            "{UTF_8}; where they are Latin-1, this makes it: iconv -f latin1 -t utf-8 {} > NEW.{}",
            path.display(),
            path.extension().unwrap_or_default().display()
        );
        problems.instead("--csv", found, &expected);
    } else if !problems.is_empty()
        && let Some(expected) = other_separator(path, columns, true)
    {
        let found = "a header of one column, and rows of several".to_owned();
        problems.instead("--csv", found, &expected);
    }
    let earlier = |at: usize, name: &str| columns[..at].iter().any(|c| c.name == name);
    let twice = (columns.iter().enumerate()).find(|(at, c)| earlier(*at, &c.name));
    if matches!(format, Format::Csv) && looks_like_data(columns) {
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        problems.file(
            "--csv",
            format!("the header {}", names.join(",")),
            NAMES_FIRST,
        );
    } else if let Some((_, column)) = twice {
        let found = format!("two columns {:?}", column.name);
        problems.file("--csv", found, "another name for each column");
    }
    if rows == 0 && problems.is_empty() {
        problems.file(
            "--csv",
            "no rows".to_owned(),
            "rows with a text and a label",
        );
    }
}

/// Chooses among columns.
///
/// # Errors
/// The flag that would say it, what was found and what to do.
fn choose(
    columns: &[Column],
    text: Option<&str>,
    label: Option<&str>,
) -> Result<LikelyColumns, Unclear> {
    let rows = columns.iter().map(|c| c.filled).max().unwrap_or(0);
    let named = |flag: &'static str, name: &str| {
        let found = columns.iter().find(|c| c.name == name);
        found.ok_or_else(|| unclear(flag, format!("no column {name:?}"), None))
    };
    let is_label = |c: &&Column| Some(c.name.as_str()) == label;
    let mut others = columns.iter().filter(|c| !is_label(c));
    let a_table = text.is_none() && !others.any(Column::is_text);
    let of_class = |c: &&Column| (2..=CLASSES.min(rows / 2).max(2)).contains(&c.distinct.len());
    let label = match label {
        Some(name) => named("--label", name)?,
        None if a_table => target(columns, rows)?,
        None => columns
            .iter()
            .filter(|c| Some(c.name.as_str()) != text && c.filled == rows)
            .filter(of_class)
            .min_by_key(|c| (c.rank(&LABELS), c.distinct.len()))
            .ok_or_else(|| no_label(columns, rows))?,
    };
    let a_number = a_table && label.is_amount(rows);
    check_label(label, rows, a_number)?;
    let text = match text {
        Some(name) => Some(named("--text", name)?),
        None if a_table => None,
        None => longest(columns.iter().filter(|c| c.name != label.name)),
    };
    let others = || columns.iter().filter(|c| c.name != label.name);
    if others().next().is_none() {
        let found = "no column beside the label".to_owned();
        return Err(unclear("--csv", found, None));
    }
    let text = text.map(|c| c.name.clone());
    let fewest = label.distinct.len().max(9);
    let group = others().find(|c| c.is_group(fewest, rows) && Some(&c.name) != text.as_ref());
    let row_names: Vec<String> = others()
        .filter(|c| text.is_none() && c.names_rows(rows))
        .map(|c| c.name.clone())
        .collect();
    let read = others().filter(|c| !row_names.contains(&c.name));
    let read = read.filter(|c| group.is_none_or(|group| group.name != c.name));
    let read: Vec<&Column> = read.collect();
    let dressed = read.iter().filter(|c| text.is_none() && c.is_dressed());
    Ok(LikelyColumns {
        dressed: dressed.map(|c| c.name.clone()).collect(),
        categorical: read.iter().any(|c| c.is_categorical()),
        row_names,
        text,
        label: label.name.clone(),
        classes: match a_number {
            true => Vec::new(),
            false => label.distinct.iter().cloned().collect(),
        },
        group: group.map(|c| c.name.clone()),
        columns: columns.iter().map(|c| c.name.clone()).collect(),
        rows,
    })
}

/// The column of the texts: one that is called so, else the one with the longest cells.
fn longest<'a>(columns: impl Iterator<Item = &'a Column>) -> Option<&'a Column> {
    let rank = |c: &Column| (c.mean_length() >= 10.0, std::cmp::Reverse(c.rank(&TEXTS)));
    columns.filter(|c| c.filled > 0).max_by(|a, b| {
        let length = a.mean_length().total_cmp(&b.mean_length());
        rank(a).cmp(&rank(b)).then(length)
    })
}

fn unclear(flag: &'static str, found: String, expected: Option<&str>) -> Unclear {
    Unclear {
        flag,
        found,
        expected: expected.map(str::to_owned),
    }
}

/// What a table is to predict: a column that is called so, else the last that has a value in each row and does not name it.
fn target(columns: &[Column], rows: usize) -> Result<&Column, Unclear> {
    let called = columns.iter().filter(|c| c.rank(&LABELS) < LABELS.len());
    let last = columns.iter().rev();
    let last = last.filter(|c| c.filled == rows && !c.names_rows(rows) && c.distinct.len() > 1);
    called
        .min_by_key(|c| c.rank(&LABELS))
        .or_else(|| last.into_iter().next())
        .ok_or_else(|| no_label(columns, rows))
}

/// What there is instead of a label: a column that is called like one has rows without a value, or too many values.
fn no_label(columns: &[Column], rows: usize) -> Unclear {
    let called = columns.iter().filter(|c| c.rank(&LABELS) < LABELS.len());
    let wrong = called
        .filter_map(|c| check_label(c, rows, false).err())
        .next();
    wrong.unwrap_or_else(|| {
        let found = "no column with a few values in all rows".to_owned();
        unclear("--label", found, None)
    })
}

/// Whether a column can be the label; a number has any number of values.
fn check_label(column: &Column, rows: usize, a_number: bool) -> Result<(), Unclear> {
    let (name, distinct) = (&column.name, column.distinct.len());
    let wrong = |found: String, expected: &str| Err(unclear("--label", found, Some(expected)));
    if column.distinct.contains(name) {
        return wrong(
            format!("a column called {name:?}, which is also one of its values"),
            NAMES_FIRST,
        );
    }
    if column.filled < rows {
        let lines: Vec<String> = column.empty.iter().map(ToString::to_string).collect();
        return wrong(
            format!(
                "{} of {rows} rows without a value in the column {name:?}, the first on line {}",
                rows - column.filled,
                lines.join(", ")
            ),
            "a label in every row: fill them in, or take these rows out of the file",
        );
    }
    if distinct > (rows / 2).max(2) && !a_number {
        let dressed = column.is_dressed();
        return wrong(
            format!(
                "{distinct} classes in {rows} rows of the column {name:?}{}",
                if column.is_number() || dressed {
                    ": is this a number?"
                } else {
                    ""
                }
            ),
            match dressed {
                true => PLAIN_NUMBER,
                false => "a column with a few values that repeat: a classification needs classes",
            },
        );
    }
    Ok(())
}

#[cfg(test)]
#[path = "guess_tests.rs"]
mod tests;
