//! The rows at which a training fails.

use std::path::Path;

use serde::Serialize;

use super::runs::{Runs, Stop};
use super::subset::TrainingRows;
use config::StudySpec;
use config::kinds::text_classification;
use doctor::bisect::{End, Oracle, Parts, Rate, smallest};
use messages::exit::Failure;
use messages::printable;
use search::space::Params;

/// What was found of the rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct RowsFound {
    /// The file.
    pub(super) file: String,
    /// How many rows are trained on.
    pub(super) of: usize,
    /// How it came out.
    pub(super) outcome: RowsOutcome,
    /// With `found`: the rows, without any one of which it does not fail.
    pub(super) rows: Vec<Row>,
}

/// A row of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Row {
    /// Its number, from 1.
    pub(super) row: usize,
    /// The line on which it starts, from 1.
    pub(super) line: usize,
}

/// How the search for rows came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RowsOutcome {
    /// These few rows.
    Found,
    /// It fails with one row of each class, whichever they are.
    Any,
    /// It takes more than a few rows.
    Many,
    /// The budget was used up before.
    Budget,
}

impl RowsFound {
    /// What is to say of them.
    pub(super) fn sentence(&self) -> Option<String> {
        let file = Path::new(&self.file)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        let file = printable(&file);
        match self.outcome {
            RowsOutcome::Found => {
                let each = |r: &Row| format!("row {} (line {} of {file})", r.row, r.line);
                let rows: Vec<String> = self.rows.iter().map(each).collect();
                Some(rows.join(" together with "))
            }
            RowsOutcome::Any => Some("whichever rows it trains on".to_owned()),
            RowsOutcome::Many => Some("no few rows alone".to_owned()),
            RowsOutcome::Budget => None,
        }
    }
}

/// Rows of a cause, at most.
const FEW: usize = 3;

/// Choices of one row of each class, before any of them is thought to fail.
const CHOICES: usize = 3;

enum RowStop {
    Many,
    Other(Stop),
}

/// Looks for the rows of the training part without which this point does not fail; nothing where the kind of task has no
/// rows that are known, or trains several models.
pub(super) fn rows(
    runs: &mut Runs,
    spec: &StudySpec,
    point: &Params,
    rate: Rate,
) -> Result<Option<RowsFound>, Stop> {
    if spec.kind != text_classification::KIND.name {
        return Ok(None);
    }
    let read = TrainingRows::of(spec);
    let read = read.map_err(|problems| Stop::Failure(Failure::input(problems.to_string())))?;
    let Some(rows) = read else {
        return Ok(None);
    };
    let failed = |e: std::io::Error| {
        Stop::Failure(Failure::input(format!(
            "no temporary directory can be made: {e}"
        )))
    };
    let dir = tempfile::tempdir().map_err(failed)?;
    let mut found = RowsFound {
        file: rows.file().display().to_string(),
        of: rows.count(),
        outcome: RowsOutcome::Any,
        rows: Vec::new(),
    };
    runs.say(&format!("rows of {}, {} to train on", found.file, found.of));
    for skip in 0..CHOICES {
        let always = rows.one_of_each_class(skip);
        let others = (0..rows.count())
            .filter(|row| !always.contains(row))
            .collect();
        let mut subsets = Subsets {
            rows: &rows,
            always,
            others,
            spec,
            point,
            runs,
            dir: dir.path(),
            left: runs_for(rows.count()),
        };
        let count = subsets.others.len();
        let answer = smallest(&mut subsets, count, rate);
        found.outcome = match answer.end {
            End::Found => RowsOutcome::Found,
            End::BaseFails => continue,
            End::Stopped(RowStop::Many) => RowsOutcome::Many,
            End::Stopped(RowStop::Other(Stop::Budget)) => RowsOutcome::Budget,
            End::Stopped(RowStop::Other(stop)) => return Err(stop),
        };
        let places = answer.parts.iter().filter_map(|part| {
            let (row, line) = rows.place(*subsets.others.get(*part)?)?;
            Some(Row { row, line })
        });
        found.rows = places.collect();
        break;
    }
    Ok(Some(found))
}

/// Inputs that a search for a few of so many rows tries.
fn runs_for(rows: usize) -> usize {
    let each = rows.max(2).ilog2() as usize + 3;
    FEW * each + 2
}

/// Trainings on some of the rows, and always on one of each class.
struct Subsets<'a> {
    rows: &'a TrainingRows,
    always: Vec<usize>,
    others: Vec<usize>,
    spec: &'a StudySpec,
    point: &'a Params,
    runs: &'a mut Runs,
    dir: &'a Path,
    /// Inputs that may still be tried.
    left: usize,
}

impl Oracle for Subsets<'_> {
    type Input = Vec<usize>;
    type Stop = RowStop;

    fn input(&self, parts: &Parts) -> Option<Vec<usize>> {
        let parts = parts.iter().filter_map(|part| self.others.get(*part));
        let mut rows: Vec<usize> = self.always.iter().chain(parts).copied().collect();
        rows.sort_unstable();
        Some(rows)
    }

    fn fails(&mut self, rows: &Vec<usize>) -> Result<bool, RowStop> {
        self.left = self.left.checked_sub(1).ok_or(RowStop::Many)?;
        let file = self.dir.join("rows.jsonl");
        let written = self.rows.write(self.spec, rows, &file).map_err(|e| {
            let failure = Failure::input(format!("{}: {e}", file.display()));
            RowStop::Other(Stop::Failure(failure))
        })?;
        let what = format!("{} of {} rows", rows.len(), self.rows.count());
        let failed = self.runs.fails_in(&what, self.point, written);
        failed.map_err(RowStop::Other)
    }
}
