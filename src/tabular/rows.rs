//! The rows of a table, with all problems of the file together.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::Column;
use config::kinds::tabular::{CATEGORICAL, IGNORE, PROBLEM};
use config::{Problems, StudySpec};
use search::space::Value;
use training::rows::{as_number, check_placement, classes, open, same_numbers};
use training::split::{Part, Samples};
use training::table::{FileProblems, Format, Place, Table, is_there, listed};

/// A column's name and its cells.
type RawColumn = (String, Vec<String>);

/// Rows whose target is known.
#[derive(Debug, Clone, PartialEq)]
pub struct TableRows {
    /// What is read of them.
    pub columns: Vec<Column>,
    /// The column that is predicted.
    pub target: String,
    /// The classes of the target; one name for all rows where it is a number.
    pub classes: Vec<String>,
    /// The class of each row.
    pub class: Vec<usize>,
    /// The target of each row where it is a number; else empty.
    pub numbers: Vec<f64>,
    groups: Vec<String>,
    parts: Vec<Part>,
    /// Line of the file on which each row starts, from 1.
    pub lines: Vec<usize>,
}

impl TableRows {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Every problem of the file, with its line; of each kind the first few.
    pub fn read(path: &Path, spec: &StudySpec) -> Result<TableRows, Problems> {
        let mut problems = FileProblems::new(path);
        let names = Names::of(spec);
        let Some((format, mut table)) = open(path, &mut problems) else {
            return Err(problems.into_problems());
        };
        if format == Format::Csv {
            names.check(&table, &mut problems);
            if problems.fatal() {
                return Err(problems.into_problems());
            }
        }
        let mut data = TableRows {
            columns: Vec::new(),
            target: names.target.to_owned(),
            classes: Vec::new(),
            class: Vec::new(),
            numbers: Vec::new(),
            groups: Vec::new(),
            parts: Vec::new(),
            lines: Vec::new(),
        };
        let (cells, targets) = data.take_rows(&mut table, &names, &mut problems);
        if format == Format::Jsonl {
            names.check(&table, &mut problems);
        }
        let column = |(name, cells): RawColumn| {
            let categorical = names.categorical.contains(&name);
            Column::of(&name, cells, categorical)
        };
        data.columns = cells.into_iter().map(column).collect();
        if data.columns.is_empty() && !problems.fatal() {
            let (found, expected) = match data.lines.is_empty() {
                true => ("no rows", "at least one row of each class, or part"),
                false => ("no column beside the target", "at least one to predict by"),
            };
            problems.file("data.path", found.to_owned(), expected);
        }
        match spec.fixed.get(PROBLEM).and_then(Value::as_str) {
            Some("regression") => data.take_numbers(&targets, &mut problems),
            Some(_) | None => data.take_classes(&targets, &mut problems),
        }
        problems.finish(data)
    }

    /// Reads all rows: the cells of each column that is read, and the targets as texts.
    fn take_rows(
        &mut self,
        table: &mut Table,
        names: &Names<'_>,
        problems: &mut FileProblems,
    ) -> (Vec<RawColumn>, Vec<(String, Place)>) {
        // Of each column of the file the one here; in JSON lines a column may come late.
        let mut places: Vec<Option<usize>> = Vec::new();
        let mut cells: Vec<RawColumn> = Vec::new();
        let mut targets = Vec::new();
        while table.advance(problems) {
            let (place, row) = (table.place(), self.lines.len());
            let mut cell = |column: &str| table.text(column, problems).ok().flatten();
            let own = cell(names.target).unwrap_or_default().trim().to_owned();
            let group = names.group.and_then(&mut cell);
            let part = names.part.and_then(&mut cell);
            for name in &table.columns()[places.len()..] {
                places.push(names.reads(name).then_some(cells.len()));
                if names.reads(name) {
                    cells.push((name.clone(), vec![String::new(); row]));
                }
            }
            for (at, place) in places.iter().enumerate() {
                if let Some(place) = place {
                    let cell = table.text_at(at, problems).ok().flatten();
                    let cell = cell.unwrap_or_default().trim().to_owned();
                    cells[*place].1.push(cell);
                }
            }
            if own.is_empty() {
                let cell = place.cell(names.target);
                problems.row(place.line, cell, "no target", "a target in every row");
            }
            let of_group = (names.group, group.as_deref());
            let of_part = (names.part, part.as_deref());
            self.parts
                .extend(check_placement(place, of_group, of_part, problems));
            self.groups.extend(group);
            self.lines.push(place.line);
            targets.push((own, place));
        }
        (cells, targets)
    }

    fn take_numbers(&mut self, targets: &[(String, Place)], problems: &mut FileProblems) {
        self.classes = vec!["any".to_owned()];
        self.class = vec![0; targets.len()];
        for (text, place) in targets {
            let number = as_number(text);
            if number.is_none() && !text.is_empty() {
                let (cell, found) = (place.cell(&self.target), format!("the target {text}"));
                problems.row(place.line, cell, found, "a number in every row");
            }
            self.numbers.push(number.unwrap_or(0.0));
        }
    }

    fn take_classes(&mut self, targets: &[(String, Place)], problems: &mut FileProblems) {
        let labels: Vec<String> = targets.iter().map(|(label, _)| label.clone()).collect();
        self.classes = classes(&labels);
        same_numbers(&self.classes, problems);
        let place = |label: &String| self.classes.iter().position(|c| c == label);
        self.class = (labels.iter())
            .map(|label| place(label).unwrap_or(0))
            .collect();
        if self.classes.len() < 2 && !problems.fatal() {
            let found = format!("{} classes", self.classes.len());
            problems.file("data.target", found, "at least two classes");
        }
    }

    /// Whether numbers are predicted.
    pub fn is_regression(&self) -> bool {
        !self.numbers.is_empty()
    }

    /// Outputs of a model: one a class, or the number.
    pub fn outputs(&self) -> usize {
        self.classes.len()
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
        self.class
            .iter()
            .for_each(|class| field(&self.classes[*class]));
        self.numbers.iter().for_each(|x| field(&x.to_string()));
        self.groups.iter().for_each(|group| field(group));
        training::hex(&hash.finalize())
    }
}

/// The columns that a study names.
struct Names<'a> {
    target: &'a str,
    group: Option<&'a str>,
    part: Option<&'a str>,
    categorical: &'a [String],
    ignore: &'a [String],
}

impl Names<'_> {
    fn of(spec: &StudySpec) -> Names<'_> {
        let name = |key: &str| spec.fixed.get(key).and_then(Value::as_str);
        let list = |key: &str| spec.lists.get(key).map_or(&[][..], Vec::as_slice);
        Names {
            target: name("data.target").unwrap_or_default(),
            group: name("data.group"),
            part: name("data.split.column"),
            categorical: list(CATEGORICAL),
            ignore: list(IGNORE),
        }
    }

    /// Whether a model reads the column.
    fn reads(&self, name: &String) -> bool {
        let other = [Some(self.target), self.group, self.part].contains(&Some(name.as_str()));
        !other && !self.ignore.contains(name)
    }

    /// Each column that is named is there, and none is there twice.
    fn check(&self, table: &Table, problems: &mut FileProblems) {
        let columns = table.columns();
        let single = [
            ("data.target", Some(self.target)),
            ("data.group", self.group),
            ("data.split.column", self.part),
        ];
        let lists = [(CATEGORICAL, self.categorical), (IGNORE, self.ignore)];
        let listed_names = lists
            .iter()
            .flat_map(|(key, names)| names.iter().map(move |n| (*key, n.as_str())));
        let single = single
            .into_iter()
            .filter_map(|(key, name)| Some((key, name?)));
        let asked: Vec<(&str, &str)> = single.chain(listed_names).collect();
        for (key, name) in &asked {
            if !is_there(name, columns, key, problems) {
                let found = format!("no column {name}; the file has {}", listed(columns));
                problems.file(key, found, "a column of the file");
            }
        }
        let mut others = columns.to_vec();
        others.retain(|name| asked.iter().all(|(_, asked)| name != asked));
        others.sort_unstable();
        if let Some([name, _]) = others.windows(2).find(|pair| pair[0] == pair[1]) {
            is_there(name, columns, "data.path", problems);
        }
    }
}

impl Samples for TableRows {
    fn count(&self) -> usize {
        self.lines.len()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn class(&self, row: usize) -> usize {
        self.class[row]
    }

    fn group(&self, row: usize) -> Option<&str> {
        self.groups.get(row).map(String::as_str)
    }

    fn parts(&self) -> &[Part] {
        &self.parts
    }
}
