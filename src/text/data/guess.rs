//! Which columns of a file of rows are likely the text, the label and the group: for a first configuration, which
//! a person looks through.

use std::collections::BTreeSet;
use std::path::Path;

use super::FileProblems;
use super::table::{Format, MAX_FILE, Table};
use config::Problems;

/// So many rows are looked at.
const ROWS: usize = 5_000;

/// More classes than this are no classes, but names or numbers.
const CLASSES: usize = 100;

/// Names that columns of texts have.
const TEXTS: [&str; 10] = [
    "text", "comment", "review", "sentence", "post", "content", "body", "message", "abstract",
    "title",
];

/// Names that columns of labels have.
const LABELS: [&str; 13] = [
    "label",
    "labels",
    "class",
    "target",
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
}

impl Column {
    fn mean_length(&self) -> f64 {
        self.characters as f64 / self.filled.max(1) as f64
    }

    /// Its place in a list of names; one that is not in it comes last.
    fn rank(&self, names: &[&str]) -> usize {
        let name = self.name.to_ascii_lowercase();
        let place = names.iter().position(|n| name == *n);
        place.unwrap_or(names.len())
    }
}

/// The columns that are likely meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LikelyColumns {
    /// Of the text.
    pub text: String,
    /// Of the label.
    pub label: String,
    /// The classes that the rows looked at have.
    pub classes: Vec<String>,
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
            problems.file("--csv", suffix, "a file that ends in .csv or .jsonl");
            Vec::new()
        }
    };
    if problems.is_empty() {
        let chosen = choose(&columns, text, label);
        match chosen {
            Ok(likely) => return Ok(likely),
            Err((flag, found)) => problems.file(flag, found, &expected(&columns)),
        }
    }
    Err(problems.into_problems())
}

fn expected(columns: &[Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
    match names.as_slice() {
        [one] if one.contains([';', '\t']) => {
            format!("columns that are separated by commas; the header is {one:?}")
        }
        names => format!("one of its columns: {}", names.join(", ")),
    }
}

fn read(path: &Path, format: Format, problems: &mut FileProblems) -> Vec<Column> {
    let Some(mut table) = Table::open(path, format, MAX_FILE, "--csv", problems) else {
        return Vec::new();
    };
    let mut columns: Vec<Column> = Vec::new();
    let mut rows = 0;
    while rows < ROWS && table.advance(problems) {
        rows += 1;
        for name in &table.columns()[columns.len()..] {
            columns.push(Column {
                name: name.clone(),
                ..Column::default()
            });
        }
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
                column.distinct.insert(cell);
            }
        }
    }
    let earlier = |at: usize, name: &str| columns[..at].iter().any(|c| c.name == name);
    let twice = (columns.iter().enumerate()).find(|(at, c)| earlier(*at, &c.name));
    if let Some((_, column)) = twice {
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
    columns
}

/// Chooses among columns.
///
/// # Errors
/// The flag that would say it, and what was found.
fn choose(
    columns: &[Column],
    text: Option<&str>,
    label: Option<&str>,
) -> Result<LikelyColumns, (&'static str, String)> {
    let rows = columns.iter().map(|c| c.filled).max().unwrap_or(0);
    let named = |flag: &'static str, name: &str| {
        let found = columns.iter().find(|c| c.name == name);
        found.ok_or_else(|| (flag, format!("no column {name:?}")))
    };
    let of_class = |c: &&Column| (2..=CLASSES.min(rows / 2).max(2)).contains(&c.distinct.len());
    let label = match label {
        Some(name) => named("--label", name)?,
        None => columns
            .iter()
            .filter(|c| Some(c.name.as_str()) != text && c.filled == rows)
            .filter(of_class)
            .min_by_key(|c| (c.rank(&LABELS), c.distinct.len()))
            .ok_or_else(|| ("--label", no_label(columns, rows)))?,
    };
    let text = match text {
        Some(name) => named("--text", name)?,
        None => columns
            .iter()
            .filter(|c| c.name != label.name && c.filled > 0)
            .max_by(|a, b| {
                let rank =
                    |c: &Column| (c.mean_length() >= 10.0, std::cmp::Reverse(c.rank(&TEXTS)));
                let length = a.mean_length().total_cmp(&b.mean_length());
                rank(a).cmp(&rank(b)).then(length)
            })
            .ok_or_else(|| ("--text", "no column beside the label".to_owned()))?,
    };
    let group = columns.iter().find(|c| {
        let name = c.name.to_ascii_lowercase();
        let named = name.ends_with("id") || c.rank(&GROUPS) < GROUPS.len();
        let repeats =
            c.distinct.len() > label.distinct.len().max(9) && c.distinct.len() * 10 < rows * 9;
        named && repeats && c.filled == rows && c.name != text.name && c.name != label.name
    });
    Ok(LikelyColumns {
        text: text.name.clone(),
        label: label.name.clone(),
        classes: label.distinct.iter().cloned().collect(),
        group: group.map(|c| c.name.clone()),
        columns: columns.iter().map(|c| c.name.clone()).collect(),
        rows,
    })
}

/// What there is instead of a label: a column that is called like one has rows without a value.
fn no_label(columns: &[Column], rows: usize) -> String {
    let called = |c: &&Column| c.rank(&LABELS) < LABELS.len() && c.filled < rows;
    match columns.iter().find(called) {
        Some(column) => format!(
            "{} rows without a value in the column {:?}",
            rows - column.filled,
            column.name
        ),
        None => "no column with a few values in all rows".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likely(name: &str, text: &str) -> Result<LikelyColumns, Problems> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        likely_columns(&path, None, None)
    }

    #[test]
    fn text_label_and_group_are_told_apart_by_what_they_hold() {
        let mut text = "id,user_id,comment,stars,sentiment\n".to_owned();
        for i in 0..60 {
            let mood = ["good", "bad"][i % 2];
            text += &format!(
                "{i},{},\"quite {mood}, the {i}th\",{},{mood}\n",
                i % 20,
                i % 5
            );
        }
        let found = likely("rows.csv", &text).unwrap();
        assert_eq!(found.text, "comment");
        assert_eq!(found.label, "sentiment");
        assert_eq!(found.classes, ["bad", "good"]);
        assert_eq!(found.group.as_deref(), Some("user_id"));
        assert_eq!((found.columns.len(), found.rows), (5, 60));
    }

    #[test]
    fn columns_without_telling_names_are_chosen_by_their_values() {
        let rows: String = (0..30)
            .map(|i| {
                format!(
                    "{{\"a\": {}, \"b\": \"a longer text number {i}\"}}\n",
                    i % 3
                )
            })
            .collect();
        let found = likely("rows.jsonl", &rows).unwrap();
        assert_eq!((found.text.as_str(), found.label.as_str()), ("b", "a"));
        assert_eq!(found.group, None);
    }

    #[test]
    fn what_cannot_be_told_is_an_error_that_names_the_columns() {
        let rows: String = (0..30).map(|i| format!("{i},text {i}\n")).collect();
        let error = likely("x.csv", &format!("n,words\n{rows}")).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("--label") && error.contains("n, words"),
            "{error}"
        );
        assert!(
            likely("x.xlsx", "")
                .unwrap_err()
                .to_string()
                .contains(".xlsx")
        );
        let told = |text: &str| likely("x.csv", text).unwrap_err().to_string();
        let semicolons: String = (0..30).map(|i| format!("{i};text {i};a\n")).collect();
        let error = told(&format!("id;text;label\n{semicolons}"));
        assert!(error.contains("separated by commas"), "{error}");
        let label = |i: usize| ["a", "b", ""][i % 3];
        let rows: String = (0..30)
            .map(|i| format!("text {i},{}\n", label(i)))
            .collect();
        let error = told(&format!("text,label\n{rows}"));
        assert!(
            error.contains("10 rows without a value in the column \"label\""),
            "{error}"
        );
        assert!(told("text,text,label\na,b,c\n").contains("two columns"));
        let error = likely("x.csv", "text,label\n").unwrap_err().to_string();
        assert!(error.contains("no rows"), "{error}");
    }
}
