//! Trainings on a part of the rows, for who looks for the rows at which one fails.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use config::{Problems, StudySpec};
use search::space::Value;
use text::Part;
use text::data::Dataset;
use text::prepare::load;

/// The rows that a study trains and validates on.
pub(super) struct TrainingRows {
    file: PathBuf,
    data: Dataset,
    train: Vec<usize>,
    validation: Vec<usize>,
}

impl TrainingRows {
    /// Reads them; `None` where a trial trains several models, each on rows of its own.
    ///
    /// # Errors
    /// Problems of the data or its split.
    pub(super) fn of(spec: &StudySpec) -> Result<Option<TrainingRows>, Problems> {
        let (data, split) = load(spec)?;
        let file = spec.fixed.get("data.path").and_then(Value::as_str);
        Ok(split.folds().is_empty().then(|| TrainingRows {
            file: file.unwrap_or_default().into(),
            train: split.rows(Part::Train),
            validation: split.rows(Part::Validation),
            data,
        }))
    }

    /// The file of the rows.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// How many rows are trained on.
    pub(super) fn count(&self) -> usize {
        self.train.len()
    }

    /// The number of a row in the file, and the line on which it starts, both from 1. `row` is its place among those that
    /// are trained on.
    pub(super) fn place(&self, row: usize) -> Option<(usize, usize)> {
        let row = *self.train.get(row)?;
        Some((row + 1, self.data.rows.get(row)?.line))
    }

    /// A row of each class, without which nothing can be trained: the first ones, or those behind the first `skip`.
    pub(super) fn one_of_each_class(&self, skip: usize) -> Vec<usize> {
        let of = |class: usize| {
            let rows = self.train.iter().enumerate();
            let rows = rows.filter(|(_, row)| self.data.rows[**row].class == class);
            let places: Vec<usize> = rows.map(|(place, _)| place).take(skip + 1).collect();
            places.last().copied()
        };
        (0..self.data.classes.len()).filter_map(of).collect()
    }

    /// Writes a file with these of the rows that are trained on and all that validate. Gives the study that reads it.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(
        &self,
        spec: &StudySpec,
        rows: &[usize],
        to: &Path,
    ) -> io::Result<StudySpec> {
        let mut file = BufWriter::new(File::create(to)?);
        let train = rows.iter().filter_map(|row| self.train.get(*row));
        let train = train.map(|row| (row, Part::Train));
        let validation = self.validation.iter().map(|row| (row, Part::Validation));
        for (row, part) in train.chain(validation) {
            let row = &self.data.rows[*row];
            let mut line = json!({
                "text": row.text, "label": self.data.classes[row.class], "part": part.name(),
            });
            if let Some(pair) = &row.pair {
                line["pair"] = pair.as_str().into();
            }
            writeln!(file, "{line}")?;
        }
        file.flush()?;
        let mut spec = spec.clone();
        let keys = &mut spec.fixed;
        let path = to.to_string_lossy().into_owned();
        for (key, value) in [
            ("data.path", path.as_str()),
            ("data.text", "text"),
            ("data.label", "label"),
            ("data.split.column", "part"),
        ] {
            keys.insert(key.into(), Value::Str(value.to_owned()));
        }
        if keys.contains_key("data.text_pair") {
            keys.insert("data.text_pair".into(), Value::Str("pair".into()));
        }
        keys.remove("data.group");
        Ok(spec)
    }
}
