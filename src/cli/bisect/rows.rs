//! The rows at which a training fails.

use std::path::Path;

use serde::Serialize;

use super::program_rows;
use super::runs::{Runs, Stop};
use crate::run;
use config::StudySpec;
use doctor::bisect::{Culprits, culprits};
use doctor::statistics::Rate;
use messages::printable;
use search::space::Params;
use task::TrainingRows;

/// What was found of the rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct RowsFound {
    /// The file.
    pub(super) file: String,
    /// How many rows are trained on.
    pub(super) of: usize,
    /// How it came out.
    pub(super) outcome: RowsOutcome,
    /// With `found`: the rows with which alone it fails.
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
    /// It fails with any row.
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

/// Looks for the rows with which alone this point fails: of the training part, or of a file that a program is given. Nothing
/// where no rows are known, or several models are trained.
pub(super) fn rows(
    runs: &mut Runs,
    spec: &StudySpec,
    point: &Params,
    rate: Rate,
) -> Result<Option<RowsFound>, Stop> {
    if spec.runs_programs() {
        return program_rows::rows(runs, spec, point, rate);
    }
    let kind = run::preparation(&spec.kind);
    let read = kind.map_or(Ok(None), |kind| kind.training_rows(spec));
    let read = read.map_err(|problems| Stop::Failure(problems.into()))?;
    let Some(TrainingRows { file, lines, train }) = read else {
        return Ok(None);
    };
    let [train] = &train[..] else {
        return Ok(None);
    };
    runs.say(&format!("rows of {file}, {} to train on", train.len()));
    let mut fails = |rows: &[usize]| {
        let what = format!("{} of {} rows", rows.len(), train.len());
        runs.ever_fails(&what, point, Some(rows), rate)
    };
    few(file, train, |row| lines[row], &mut fails).map(Some)
}

/// Halves these rows of a file, each at its line, until few are left.
pub(super) fn few(
    file: String,
    all: &[usize],
    line: impl Fn(usize) -> usize,
    fails: &mut dyn FnMut(&[usize]) -> Result<bool, Stop>,
) -> Result<RowsFound, Stop> {
    let (outcome, rows) = match culprits(all.to_vec(), all, fails) {
        Ok(Culprits::These(rows)) if rows.len() <= FEW => (RowsOutcome::Found, rows),
        Ok(Culprits::These(_) | Culprits::Nothing) => (RowsOutcome::Many, Vec::new()),
        Ok(Culprits::Any) => (RowsOutcome::Any, Vec::new()),
        Err(Stop::Budget) => (RowsOutcome::Budget, Vec::new()),
        Err(stop) => return Err(stop),
    };
    let row = |row: usize| Row {
        row: row + 1,
        line: line(row),
    };
    Ok(RowsFound {
        file,
        of: all.len(),
        outcome,
        rows: rows.into_iter().map(row).collect(),
    })
}
