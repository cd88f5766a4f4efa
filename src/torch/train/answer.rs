//! A file of rows through a model, a part at a time.

use std::fmt;
use std::path::Path;

use anyhow::Result;
use config::{Problem, Problems, Source};

use ::request::evaluation::Answered;
use ::request::predict::{AnswerFormat, Input, Prediction, Record, Writer};
use files::replace::Replacement;

/// Rows that are in memory at a time; within them, rows of like length are computed together.
const PART: usize = 2048;

/// A model on its device, which answers rows.
pub trait Predictor {
    /// The answers to these rows; `step` is called with the rows that each batch begins.
    ///
    /// # Errors
    /// A row cannot be read by the model, libtorch throws, or an output is not finite.
    fn answer(&mut self, rows: &[Record], step: &mut dyn FnMut(usize)) -> Result<Answered>;
}

/// A row that a model cannot answer.
#[derive(Debug, Clone, PartialEq)]
pub struct NoAnswer {
    /// The line on which it starts, from 1.
    pub line: usize,
    /// The column that most probably is the reason.
    pub column: String,
    /// What is wrong with it.
    pub found: String,
    /// What the model can answer.
    pub expected: String,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoAnswer {
            line,
            column,
            found,
            expected,
        } = self;
        write!(f, "line {line}: {column}: {found}; expected {expected}")
    }
}

impl std::error::Error for NoAnswer {}

/// The same as a problem of its file; other errors as they are.
fn of_file(error: anyhow::Error, path: &Path) -> anyhow::Error {
    match error.downcast::<NoAnswer>() {
        Ok(row) => {
            let source = Source::File(path.to_owned(), Some(row.line));
            let problem = Problem::new(&source, row.column, row.found, row.expected);
            Problems::from(problem).into()
        }
        Err(error) => error,
    }
}

/// Answers every row; `done` is given each part of the rows with its answers, in the file's order,
/// `step` is called with the rows of each batch.
///
/// # Errors
/// The file has changed since it was looked at, libtorch throws, or `done` fails.
pub fn answer(
    input: &Input,
    predictor: &mut dyn Predictor,
    step: &mut dyn FnMut(usize),
    done: &mut dyn FnMut(&[Record], Answered) -> Result<()>,
) -> Result<()> {
    let mut part: Vec<Record> = Vec::new();
    let mut work = |part: &mut Vec<Record>| -> Result<()> {
        let answers = (predictor.answer(part, step)).map_err(|e| of_file(e, input.path()))?;
        done(part, answers)?;
        part.clear();
        Ok(())
    };
    input.visit(&mut |record| {
        part.push(record);
        if part.len() == PART {
            work(&mut part)
        } else {
            Ok(())
        }
    })?;
    if part.is_empty() {
        Ok(())
    } else {
        work(&mut part)
    }
}

/// Where answers go to, and how.
pub struct Target<'a> {
    /// A file, which appears whole or not at all, or a pipe; `None`: `print` is given the text.
    pub out: Option<&'a Path>,
    /// How they are written.
    pub shape: AnswerFormat,
    /// The columns of the rows.
    pub columns: &'a [String],
    /// The classes; none of a number.
    pub labels: &'a [String],
}

/// Answers every row of a file to another file, or to `print`.
///
/// # Errors
/// See [`answer`]; or writing failed.
pub fn write(
    input: &Input,
    predictor: &mut dyn Predictor,
    target: &Target<'_>,
    step: &mut dyn FnMut(usize),
    print: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<()> {
    let Target {
        shape,
        columns,
        labels,
        ..
    } = *target;
    let Some(out) = target.out else {
        let mut writer = Writer::new(Vec::new(), shape, columns, labels)?;
        return answer(input, predictor, step, &mut |records, answers| {
            rows(&mut writer, records, &answers)?;
            print(&String::from_utf8(std::mem::take(writer.stream()))?)
        });
    };
    let file = Replacement::new(out)?;
    let stream = std::io::BufWriter::with_capacity(1 << 16, file);
    let mut writer = Writer::new(stream, shape, columns, labels)?;
    answer(input, predictor, step, &mut |records, answers| {
        rows(&mut writer, records, &answers)
    })?;
    let file = writer.finish()?.into_inner().map_err(|e| e.into_error())?;
    file.finish()?;
    Ok(())
}

fn rows(
    writer: &mut Writer<impl std::io::Write>,
    records: &[Record],
    answers: &Answered,
) -> Result<()> {
    for (at, record) in records.iter().enumerate() {
        match answers {
            Answered::Classes(answers) => {
                let class = Prediction::Class(answers.predicted(at));
                writer.row(record, &class, &answers.probabilities(at))?;
            }
            Answered::Numbers { predicted, .. } => {
                writer.row(record, &Prediction::Number(predicted[at]), &[])?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_an_answer_is_a_problem_of_its_file() {
        let row = NoAnswer {
            line: 3,
            column: "text".to_owned(),
            found: "token id 9".to_owned(),
            expected: "ids below 8".to_owned(),
        };
        let error = of_file(row.into(), Path::new("rows.csv"));
        assert!(error.is::<Problems>(), "{error}");
        assert_eq!(
            error.to_string(),
            "rows.csv:3: text: found token id 9, expected ids below 8"
        );
    }
}
