//! Answers: the columns that were read, the class, and a probability a class.

use std::io::Write;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::input::Record;
use messages::json_number;
use training::table::Format;

/// How answers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerFormat {
    /// CSV with a header line.
    Csv,
    /// A JSON object a line.
    Jsonl,
}

impl AnswerFormat {
    /// By a file's suffix.
    pub fn of(path: &std::path::Path) -> Option<AnswerFormat> {
        match Format::of(path) {
            Ok(Format::Csv) => Some(AnswerFormat::Csv),
            Ok(Format::Jsonl) => Some(AnswerFormat::Jsonl),
            Ok(Format::Text) | Err(_) => None,
        }
    }
}

/// What is predicted of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Prediction {
    /// A class, by its place.
    Class(usize),
    /// A number.
    Number(f64),
}

/// The columns that are added to those of the file.
pub fn written(labels: &[String]) -> Vec<String> {
    let probability = labels.iter().map(|label| format!("probability.{label}"));
    std::iter::once("prediction".to_owned())
        .chain(probability)
        .collect()
}

/// Writes answers one by one.
pub struct Writer<W: Write> {
    out: W,
    shape: AnswerFormat,
    columns: Vec<String>,
    labels: Vec<String>,
    added: Vec<String>,
}

impl<W: Write> Writer<W> {
    /// Writes the header, where there is one. `columns` are those of the rows to come.
    ///
    /// # Errors
    /// Writing failed.
    pub fn new(
        out: W,
        shape: AnswerFormat,
        columns: &[String],
        labels: &[String],
    ) -> std::io::Result<Writer<W>> {
        let mut writer = Writer {
            out,
            shape,
            columns: columns.to_vec(),
            labels: labels.to_vec(),
            added: written(labels),
        };
        if shape == AnswerFormat::Csv {
            let all: Vec<String> = writer
                .columns
                .iter()
                .chain(&writer.added)
                .cloned()
                .collect();
            writer.line(&all)?;
        }
        Ok(writer)
    }

    /// Writes a row, what is predicted of it and the probabilities of all classes.
    ///
    /// # Errors
    /// Writing failed.
    pub fn row(
        &mut self,
        record: &Record,
        predicted: &Prediction,
        probabilities: &[f64],
    ) -> std::io::Result<()> {
        match self.shape {
            AnswerFormat::Csv => {
                let mut cells = record.cells.list(&self.columns);
                cells.push(match predicted {
                    Prediction::Class(class) => self.labels[*class].clone(),
                    Prediction::Number(number) => number.to_string(),
                });
                cells.extend(probabilities.iter().map(f64::to_string));
                self.line(&cells)
            }
            AnswerFormat::Jsonl => {
                let mut answer = Map::new();
                let predicted = match predicted {
                    Prediction::Class(class) => self.labels[*class].as_str().into(),
                    Prediction::Number(number) => json_number(*number),
                };
                answer.insert(self.added[0].clone(), predicted);
                for (name, p) in self.added[1..].iter().zip(probabilities) {
                    answer.insert(name.clone(), json_number(*p));
                }
                let answer = Json::Object(answer).to_string();
                let row = record.cells.object(&self.columns);
                // What was read stays as it is written, long numbers included.
                let (row, answer) = (row.trim().strip_suffix('}'), answer.strip_prefix('{'));
                let (row, answer) = (row.unwrap_or("{"), answer.unwrap_or("}"));
                let comma = if row.trim_end().ends_with('{') {
                    ""
                } else {
                    ","
                };
                writeln!(self.out, "{row}{comma}{answer}")
            }
        }
    }

    /// Where it writes to.
    pub fn stream(&mut self) -> &mut W {
        &mut self.out
    }

    /// Writes everything that is still held back, and gives the stream.
    ///
    /// # Errors
    /// Writing failed.
    pub fn finish(mut self) -> std::io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn line(&mut self, cells: &[String]) -> std::io::Result<()> {
        let mut line = csv::WriterBuilder::new().from_writer(Vec::new());
        line.write_record(cells).map_err(std::io::Error::other)?;
        let line = line.into_inner().map_err(|e| e.into_error())?;
        self.out.write_all(&line)
    }
}
