//! The rows of a table, with all problems of the file together.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::Column;
use crate::data::{FileProblems, as_number, check_placement, classes, open, same_numbers, table};
use crate::split::{Part, Samples};
use config::kinds::tabular::{CATEGORICAL, IGNORE, PROBLEM};
use config::{Problems, StudySpec};
use search::space::Value;

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
        let name = |key: &str| spec.fixed.get(key).and_then(Value::as_str);
        let (target, group, part) = (
            name("data.target").unwrap_or_default(),
            name("data.group"),
            name("data.split.column"),
        );
        let listed = |key: &str| spec.lists.get(key).map_or(&[][..], Vec::as_slice);
        let mut data = TableRows {
            columns: Vec::new(),
            target: target.to_owned(),
            classes: Vec::new(),
            class: Vec::new(),
            numbers: Vec::new(),
            groups: Vec::new(),
            parts: Vec::new(),
            lines: Vec::new(),
        };
        let Some((_, mut table)) = open(path, &mut problems) else {
            return Err(problems.into_problems());
        };
        // JSON lines: a column may come late.
        let mut cells: Vec<(String, Vec<String>)> = Vec::new();
        let mut targets = Vec::new();
        while table.advance(&mut problems) {
            let names = table.columns().to_vec();
            let (place, row) = (table.place(), data.lines.len());
            let mut cell = |column: &str| table.text(column, &mut problems).ok().flatten();
            let (own, of_group, of_part) =
                (cell(target), group.map(&mut cell), part.map(&mut cell));
            for column in &names {
                let other = [Some(target), group, part].contains(&Some(column.as_str()));
                if other || listed(IGNORE).contains(column) {
                    continue;
                }
                let at = cells.iter().position(|(name, _)| name == column);
                let at = at.unwrap_or_else(|| {
                    cells.push((column.clone(), vec![String::new(); row]));
                    cells.len() - 1
                });
                cells[at]
                    .1
                    .push(cell(column).unwrap_or_default().trim().to_owned());
            }
            cells
                .iter_mut()
                .for_each(|(_, cells)| cells.resize(row + 1, String::new()));
            let own = own.unwrap_or_default().trim().to_owned();
            if own.is_empty() {
                problems.row(
                    place.line,
                    place.cell(target),
                    "no target",
                    "a target in every row",
                );
            }
            let group = group.zip(of_group.as_ref().map(Option::as_deref));
            let part = part.zip(of_part.as_ref().map(Option::as_deref));
            data.parts
                .extend(check_placement(place, group, part, &mut problems));
            data.groups.extend(of_group.flatten());
            data.lines.push(place.line);
            targets.push((own, place));
        }
        let columns = [
            ("data.target", Some(target)),
            ("data.group", group),
            ("data.split.column", part),
        ];
        let asked = columns
            .into_iter()
            .filter_map(|(key, name)| Some((key, name?)));
        let lists = [CATEGORICAL, IGNORE]
            .into_iter()
            .flat_map(|key| listed(key).iter().map(move |name| (key, name.as_str())));
        for (key, name) in asked.chain(lists) {
            if !table::is_there(name, table.columns(), key, &mut problems) {
                let found = format!(
                    "no column {name}; the file has {}",
                    table::listed(table.columns())
                );
                problems.file(key, found, "a column of the file");
            }
        }
        data.columns = (cells.into_iter())
            .map(|(name, cells)| {
                let categorical = listed(CATEGORICAL).contains(&name);
                Column::of(&name, cells, categorical)
            })
            .collect();
        if data.columns.is_empty() && !problems.fatal() {
            problems.file(
                "data.path",
                "no column beside the target".to_owned(),
                "at least one to predict by",
            );
        }
        let regression = name(PROBLEM) == Some("regression");
        if regression {
            data.classes = vec!["any".to_owned()];
            data.class = vec![0; targets.len()];
            for (text, place) in &targets {
                let number = as_number(text);
                if number.is_none() && !text.is_empty() {
                    problems.row(
                        place.line,
                        place.cell(target),
                        format!("the target {text}"),
                        "a number in every row",
                    );
                }
                data.numbers.push(number.unwrap_or(0.0));
            }
        } else {
            let labels: Vec<String> = targets.into_iter().map(|(label, _)| label).collect();
            data.classes = classes(&labels);
            same_numbers(&data.classes, &mut problems);
            let place = |label: &String| data.classes.iter().position(|c| c == label);
            data.class = labels
                .iter()
                .map(|label| place(label).unwrap_or(0))
                .collect();
            if data.classes.len() < 2 && !problems.fatal() {
                let found = format!("{} classes", data.classes.len());
                problems.file("data.target", found, "at least two classes");
            }
        }
        problems.finish(data)
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
        crate::hex(&hash.finalize())
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
