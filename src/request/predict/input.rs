//! Rows of a CSV file, a file of JSON lines, or a text a line; with all their columns.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use config::Problems;
use text::data::{Row, SECOND_TEXT, TEXT};
use training::rows::{LARGEST, LARGEST_TARGET, as_number, number};
use training::table::{self, Cells, FileProblems, Format, Table};

/// What is read of each row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Column of the text, where one is read.
    pub text: Option<String>,
    /// Column of the second text.
    pub pair: Option<String>,
    /// Further columns that are read; their cells may be empty.
    pub columns: Vec<String>,
    /// Those of them whose cells are numbers where they are not empty.
    pub numbers: BTreeSet<String>,
    /// Column of the class, and the classes that there are; none where it is a number.
    pub label: Option<(String, Vec<String>)>,
    /// Columns that must not be there.
    pub forbidden: Vec<String>,
    /// Whether texts may be empty.
    pub empty: bool,
}

/// Which columns have texts to be embedded; only `.csv` and `.jsonl` have any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextColumns {
    /// Column of the text; `text` if it is not said.
    pub text: Option<String>,
    /// Column of the second text.
    pub pair: Option<String>,
}

/// A row with all that the file says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The texts that are read of it; empty where none is wanted.
    pub row: Row,
    /// The class, by its place; 0 where none is wanted.
    pub class: usize,
    /// The number to be predicted; 0 where none is wanted.
    pub number: f64,
    /// The line of the file on which it starts, from 1.
    pub line: usize,
    /// Its cells of [`Wanted::columns`]; empty where there is nothing.
    pub values: Vec<String>,
    /// Everything that it holds.
    pub cells: Cells,
}

/// What a first look at the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// Rows.
    pub rows: usize,
    /// Columns, in the order of their first occurrence.
    pub columns: Vec<String>,
}

/// A file of rows.
#[derive(Debug, Clone)]
pub struct Input {
    path: PathBuf,
    format: Format,
    wanted: Wanted,
    /// Greatest size of the file in bytes.
    longest: u64,
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
        let mut problems = FileProblems::new(path);
        let format = Format::of(path).map_err(|found| {
            problems.file("FILE", found, "a .csv, .jsonl or .txt file");
        });
        let Ok(format) = format else {
            return Err(problems.into_problems());
        };
        // It is read twice: what is no file would be used up by the first look.
        if !path.is_file() {
            let found = match path.exists() {
                true => "not a plain file",
                false => "no such file",
            };
            problems.file("FILE", found.to_owned(), "a file of rows");
        }
        if format == Format::Text {
            wanted.text = wanted.text.as_ref().map(|_| table::TEXT.to_owned());
            let label = wanted.label.as_ref().map(|(column, _)| column);
            let columns = wanted
                .columns
                .iter()
                .map(|column| ("columns", Some(column)));
            let named = [("text_pair", wanted.pair.as_ref()), ("label", label)];
            for (key, column) in named.into_iter().chain(columns) {
                if let Some(column) = column {
                    let found = format!("a file of texts, which has no column {column}");
                    problems.file(key, found, "a .csv or .jsonl file");
                }
            }
        }
        problems.finish(Input {
            path: path.to_owned(),
            format,
            wanted,
            longest: u64::MAX,
        })
    }

    /// A file of texts that are all kept in memory; they may be empty.
    ///
    /// # Errors
    /// See [`Input::new`]; or columns are named of a `.txt` file.
    pub fn texts(path: &Path, columns: &TextColumns) -> Result<Input, Problems> {
        if Format::of(path) == Ok(Format::Text) && *columns != TextColumns::default() {
            let mut problems = FileProblems::new(path);
            let found = "--text or --text-pair with a .txt file".to_owned();
            problems.file("FILE", found, "columns of .csv or .jsonl");
            return Err(problems.into_problems());
        }
        let text = columns.text.as_deref().unwrap_or(table::TEXT);
        let wanted = Wanted {
            text: Some(text.to_owned()),
            pair: columns.pair.clone(),
            columns: Vec::new(),
            numbers: BTreeSet::new(),
            label: None,
            forbidden: Vec::new(),
            empty: true,
        };
        Ok(Input {
            longest: table::MAX_FILE,
            ..Input::new(path, wanted)?
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at every row and counts them.
    ///
    /// # Errors
    /// Every problem of the file, with its row; of each kind the first few.
    pub fn survey(&self) -> Result<Survey, Problems> {
        let mut rows = 0;
        let columns = self.checked(&mut |_| rows += 1)?;
        Ok(Survey { rows, columns })
    }

    /// All rows.
    ///
    /// # Errors
    /// See [`Input::survey`].
    pub fn rows(&self) -> Result<Vec<Row>, Problems> {
        let mut rows = Vec::new();
        self.checked(&mut |record| rows.push(record.row))?;
        Ok(rows)
    }

    /// Visits the rows, and checks the file as a whole; its columns.
    fn checked(&self, visit: &mut dyn FnMut(Record)) -> Result<Vec<String>, Problems> {
        let mut problems = FileProblems::new(&self.path);
        let mut rows = 0;
        let columns = self.each(&mut problems, &mut |record| {
            rows += 1;
            visit(record);
            Ok(())
        });
        let columns = columns.unwrap_or_default();
        self.check_columns(&columns, rows, &mut problems);
        problems.finish(columns)
    }

    /// Visits every row.
    ///
    /// # Errors
    /// Those of `visit`; or the file has changed since it was looked at, and is no longer right.
    pub fn visit(&self, visit: &mut Visit<'_>) -> anyhow::Result<()> {
        let mut problems = FileProblems::new(&self.path);
        self.each(&mut problems, visit)?;
        Ok(problems.finish(())?)
    }

    /// Visits the rows that are right, notes what is wrong with the others, and gives the columns.
    fn each(
        &self,
        problems: &mut FileProblems,
        visit: &mut Visit<'_>,
    ) -> anyhow::Result<Vec<String>> {
        let table = Table::open(&self.path, self.format, self.longest, "FILE", problems);
        let Some(mut table) = table else {
            return Ok(Vec::new());
        };
        let text = self.wanted.text.as_ref();
        if self.format != Format::Csv || text.is_none_or(|text| table.columns().contains(text)) {
            while table.advance(problems) {
                if let Some(record) = self.record(&mut table, problems) {
                    visit(record)?;
                }
            }
        }
        Ok(table.columns().to_vec())
    }

    /// The row at which the table is; `None` where something is wrong with it.
    fn record(&self, table: &mut Table, problems: &mut FileProblems) -> Option<Record> {
        let wanted = &self.wanted;
        let place = table.place();
        let text = match &wanted.text {
            Some(column) => table.text(column, problems),
            None => Ok(Some(String::new())),
        };
        let values = self.values(table, problems);
        let pair = wanted
            .pair
            .as_ref()
            .map(|column| table.text(column, problems));
        let label = wanted.label.as_ref();
        let label = label.map(|(column, _)| table.text(column, problems));
        let mut right = true;
        let mut wrong = |column: &str, found: &str, expected: &str| {
            problems.row(place.line, place.cell(column), found, expected);
            right = false;
        };
        let empty = |text: &Option<String>| match text {
            Some(text) => !wanted.empty && text.trim().is_empty(),
            None => true,
        };
        if let (Some(column), true) = (&wanted.text, text.as_ref().is_ok_and(empty)) {
            wrong(column, "no text", TEXT);
        }
        if let (Some(column), Some(Ok(None))) = (&wanted.pair, &pair) {
            wrong(column, "no second text", SECOND_TEXT);
        }
        let mut target = (0, 0.0);
        if let (Some((column, classes)), Some(Ok(label))) = (&wanted.label, &label) {
            match target_of(label.as_deref().unwrap_or_default().trim(), classes) {
                Ok(known) => target = known,
                Err((found, expected)) => wrong(column, &found, &expected),
            }
        }
        let (text, pair) = (text.ok()??, pair.transpose().ok()?.flatten());
        label.transpose().ok()?;
        let values = values?;
        if !right {
            return None;
        }
        Some(Record {
            row: Row { text, pair },
            class: target.0,
            number: target.1,
            line: place.line,
            values,
            cells: table.take_cells(problems).ok()?,
        })
    }

    /// The row's cells of [`Wanted::columns`]; `None` where something is wrong with one.
    fn values(&self, table: &Table, problems: &mut FileProblems) -> Option<Vec<String>> {
        let (wanted, place) = (&self.wanted, table.place());
        let read = |column: &String| {
            let cell = table.text(column, problems).ok()?.unwrap_or_default();
            let cell = cell.trim().to_owned();
            if !wanted.numbers.contains(column) || cell.is_empty() || number(&cell).is_some() {
                return Some(cell);
            }
            let expected = "a number, or nothing, as in training";
            problems.row(
                place.line,
                place.cell(column),
                format!("\"{cell}\""),
                expected,
            );
            None
        };
        // All of them are looked at before the first that is wrong ends this.
        let cells: Vec<Option<String>> = wanted.columns.iter().map(read).collect();
        cells.into_iter().collect()
    }

    /// Whether each column that is read is there, once, and none that must not be.
    fn check_columns(&self, columns: &[String], rows: usize, problems: &mut FileProblems) {
        let label = self.wanted.label.as_ref().map(|(column, _)| column);
        let wanted = [
            ("text", self.wanted.text.as_ref()),
            ("text_pair", self.wanted.pair.as_ref()),
            ("label", label),
        ];
        let columns_read = self
            .wanted
            .columns
            .iter()
            .map(|column| ("columns", Some(column)));
        let known = self.format == Format::Csv || !columns.is_empty();
        let all = table::listed(columns);
        let mut lacking = Vec::new();
        // The first column that is lacking explains what was told of rows; the others are told with it.
        let mut first = true;
        let mut tell =
            |problems: &mut FileProblems, key: &str, found, expected: &str| match std::mem::take(
                &mut first,
            ) {
                true => problems.instead(key, found, expected),
                false => problems.file(key, found, expected),
            };
        for (key, name) in wanted.into_iter().chain(columns_read) {
            let Some(name) = name.filter(|_| known) else {
                continue;
            };
            if !table::is_there(name, columns, key, problems) {
                match key {
                    "columns" => lacking.push(name.clone()),
                    key => {
                        let found = format!("no column {name}; the file has {all}");
                        let expected =
                            format!("a column of the file (--{})", key.replace('_', "-"));
                        tell(problems, key, found, &expected);
                    }
                }
            }
        }
        if !lacking.is_empty() {
            let found = format!("no column {}; the file has {all}", table::listed(&lacking));
            let expected = "every column that the model was trained on";
            tell(problems, "columns", found, expected);
        }
        for name in &self.wanted.forbidden {
            if columns.contains(name) {
                let expected = "names that the answer does not use itself: rename or remove it";
                problems.file("FILE", format!("a column {name}"), expected);
            }
        }
        if rows == 0 && problems.is_empty() {
            problems.file("FILE", "no rows".to_owned(), "at least one row");
        }
    }
}

/// The class of a label, or where there are no classes its number, beside 0; else what was found and what was expected.
fn target_of(label: &str, classes: &[String]) -> Result<(usize, f64), (String, String)> {
    if classes.is_empty() {
        // Truth values are numbers in training, too.
        let found = format!("the target \"{label}\"");
        return match as_number(label) {
            Some(number) if number.abs() <= LARGEST => Ok((0, number)),
            Some(_) => Err((found, LARGEST_TARGET.to_owned())),
            None => Err((found, "a number in every row".to_owned())),
        };
    }
    let class = classes.iter().position(|c| c == label);
    class.map(|class| (class, 0.0)).ok_or_else(|| {
        let found = match label {
            "" => "no label".to_owned(),
            label => format!("the label {label}"),
        };
        (
            found,
            format!("a class of the model: {}", classes.join(", ")),
        )
    })
}
