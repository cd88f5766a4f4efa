//! The rows of a table, with all problems of the file together.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::Column;
use config::kinds::tabular::{CATEGORICAL, IGNORE, PROBLEM};
use config::{Problems, StudySpec};
use search::space::Value;
use training::rows::{LARGEST, LARGEST_TARGET, Placement, Wanted, as_number, read};
use training::split::Samples;
use training::table::{FileProblems, Place, Table, is_there};

/// Rows whose target is known.
#[derive(Debug, Clone, PartialEq)]
pub struct TableRows {
    /// What is read of them.
    pub columns: Vec<Column>,
    /// The column that is predicted.
    pub target: String,
    /// The target of each row where it is a number; else empty.
    pub numbers: Vec<f64>,
    /// Their classes, groups, parts and lines; where the target is a number, all are of one class.
    pub samples: Samples,
}

impl TableRows {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Every problem of the file, with its line; of each kind the first few.
    pub fn read(path: &Path, spec: &StudySpec) -> Result<TableRows, Problems> {
        let mut problems = FileProblems::new(path);
        let target = spec.fixed.get("data.target").and_then(Value::as_str);
        let target = target.unwrap_or_default();
        let placement = Placement::of(&spec.fixed);
        let list = |key: &str| spec.lists.get(key).map_or(&[][..], Vec::as_slice);
        let (categorical, ignore) = (list(CATEGORICAL), list(IGNORE));
        let lists = [(CATEGORICAL, categorical), (IGNORE, ignore)];
        let others = lists
            .iter()
            .flat_map(|(key, names)| names.iter().map(move |name| (*key, name.as_str())));
        let wanted = Wanted {
            target: ("data.target", target),
            without: ["no target", "a target in every row"],
            placement,
            others: others.collect(),
        };
        let named = [Some(target), placement.group, placement.part];
        let reads = |name: &String| !named.contains(&Some(name.as_str())) && !ignore.contains(name);
        let mut cells = CellsRead::default();
        let (samples, targets) = read(path, &wanted, &mut problems, &mut |table, problems| {
            cells.take(table, &reads, problems);
        });
        cells.check(categorical, &mut problems);
        let column = |(name, cells): (String, Vec<String>)| {
            Column::of(&name, cells, categorical.contains(&name))
        };
        let mut data = TableRows {
            columns: cells.columns.into_iter().map(column).collect(),
            target: target.to_owned(),
            numbers: Vec::new(),
            samples,
        };
        for column in &data.columns {
            if let Column::Numeric(name, cells) = column {
                note_large(name, cells, &targets, LARGEST_CELL, &mut problems);
            }
        }
        match spec.fixed.get(PROBLEM).and_then(Value::as_str) {
            Some("regression") => data.take_numbers(&targets, &mut problems),
            Some(_) | None => {
                let labels: Vec<String> = targets.into_iter().map(|(label, _)| label).collect();
                let samples = &mut data.samples;
                samples.classify(&labels, "data.target", &mut problems);
            }
        }
        problems.finish(data)
    }

    fn take_numbers(&mut self, targets: &[(String, Place)], problems: &mut FileProblems) {
        self.samples.classes = vec!["any".to_owned()];
        self.samples.class = vec![0; targets.len()];
        for (text, place) in targets {
            let number = as_number(text);
            if number.is_none() && !text.is_empty() {
                let (cell, found) = (place.cell(&self.target), format!("the target {text}"));
                problems.row(place.line, cell, found, "a number in every row");
            }
            self.numbers.push(number.unwrap_or(0.0));
        }
        let (column, numbers) = (&self.target, &self.numbers);
        note_large(column, numbers, targets, LARGEST_TARGET, problems);
    }

    /// Whether numbers are predicted.
    pub fn is_regression(&self) -> bool {
        !self.numbers.is_empty()
    }

    /// Outputs of a model: one a class, or the number.
    pub fn outputs(&self) -> usize {
        self.samples.classes.len()
    }

    /// SHA-256 over what trials can see of the rows.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(b"tabular rows 1\0");
        let mut field = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        for column in &self.columns {
            field(column.name());
            match column {
                Column::Numeric(_, cells) => cells.iter().for_each(|x| field(&x.to_string())),
                Column::Categorical(_, cells) => cells.iter().for_each(|x| field(x)),
            }
        }
        field(&self.target);
        let Samples { classes, class, .. } = &self.samples;
        class.iter().for_each(|class| field(&classes[*class]));
        self.numbers.iter().for_each(|x| field(&x.to_string()));
        self.samples.groups.iter().for_each(|group| field(group));
        training::hex(&hash.finalize())
    }
}

/// What is asked of a number to predict by.
const LARGEST_CELL: &str = "numbers of at most 1e150 either way: the squares of larger ones overflow; leave a cell empty \
                            whose number is not known";

/// Notes the first number of a column that is too large to be standardised, and how many there are.
fn note_large(
    column: &str,
    numbers: &[f64],
    targets: &[(String, Place)],
    expected: &str,
    problems: &mut FileProblems,
) {
    let rows = numbers.iter().zip(targets);
    let mut large = rows.filter(|(number, _)| number.abs() > LARGEST);
    if let Some((number, (_, place))) = large.next() {
        let more = match large.count() {
            0 => String::new(),
            more => format!(", the first of {} such numbers", more + 1),
        };
        let found = format!("{number:e}{more}");
        problems.row(place.line, place.cell(column), found, expected);
    }
}

/// The cells of the columns that are read.
#[derive(Default)]
struct CellsRead {
    /// Of each column of the file the one here; in JSON lines a column may come late.
    places: Vec<Option<usize>>,
    columns: Vec<(String, Vec<String>)>,
    rows: usize,
}

impl CellsRead {
    /// Takes in the row at which a table is; `reads` says which columns are read.
    fn take(
        &mut self,
        table: &Table,
        reads: &dyn Fn(&String) -> bool,
        problems: &mut FileProblems,
    ) {
        for name in &table.columns()[self.places.len()..] {
            let read = reads(name);
            self.places.push(read.then_some(self.columns.len()));
            if read {
                let earlier = vec![String::new(); self.rows];
                self.columns.push((name.clone(), earlier));
            }
        }
        for (at, place) in self.places.iter().enumerate() {
            if let Some(place) = place {
                let cell = table.text_at(at, problems).ok().flatten();
                let cell = cell.unwrap_or_default().trim().to_owned();
                self.columns[*place].1.push(cell);
            }
        }
        self.rows += 1;
    }

    /// Notes that there are no columns, or two of one name; those that are `named` have been looked at.
    fn check(&self, named: &[String], problems: &mut FileProblems) {
        let mut names: Vec<String> = self.columns.iter().map(|c| c.0.clone()).collect();
        names.retain(|name| !named.contains(name));
        names.sort_unstable();
        if let Some([name, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            is_there(name, &names, "data.path", problems);
        }
        if self.columns.is_empty() && !problems.fatal() {
            let (found, expected) = match self.rows {
                0 => ("no rows", "at least one row of each class, or part"),
                _ => ("no column beside the target", "at least one to predict by"),
            };
            problems.file("data.path", found.to_owned(), expected);
        }
    }
}
