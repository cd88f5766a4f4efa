//! The rows at which a training fails.

use std::path::Path;

use serde::Serialize;

use super::runs::{Runs, Stop};
use config::StudySpec;
use config::kinds::text_classification;
use doctor::bisect::{Culprits, culprits};
use doctor::statistics::Rate;
use messages::exit::Failure;
use messages::printable;
use search::space::{Params, Value};
use text::split::Round;

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

/// Looks for the rows of the training part with which alone this point fails; nothing where the kind of task has no rows
/// that are known, or trains several models.
pub(super) fn rows(
    runs: &mut Runs,
    spec: &StudySpec,
    point: &Params,
    rate: Rate,
) -> Result<Option<RowsFound>, Stop> {
    if spec.kind != text_classification::KIND.name {
        return Ok(None);
    }
    let read = text::prepare::load(spec);
    let (data, split) =
        read.map_err(|problems| Stop::Failure(Failure::input(problems.to_string())))?;
    let [Round { train, .. }] = &split.rounds()[..] else {
        return Ok(None);
    };
    let file = spec.fixed.get("data.path").and_then(Value::as_str);
    let mut found = RowsFound {
        file: file.unwrap_or_default().to_owned(),
        of: train.len(),
        outcome: RowsOutcome::Any,
        rows: Vec::new(),
    };
    runs.say(&format!("rows of {}, {} to train on", found.file, found.of));
    let mut fails = |rows: &[usize]| {
        let what = format!("{} of {} rows", rows.len(), train.len());
        runs.ever_fails(&what, point, Some(rows), rate)
    };
    let few = match culprits(train.clone(), train, &mut fails) {
        Ok(Culprits::These(rows)) if rows.len() <= FEW => {
            found.outcome = RowsOutcome::Found;
            rows
        }
        Ok(Culprits::These(_) | Culprits::Nothing) => {
            found.outcome = RowsOutcome::Many;
            Vec::new()
        }
        Ok(Culprits::Any) => Vec::new(),
        Err(Stop::Budget) => {
            found.outcome = RowsOutcome::Budget;
            Vec::new()
        }
        Err(stop) => return Err(stop),
    };
    found.rows = few
        .into_iter()
        .map(|row| Row {
            row: row + 1,
            line: data.rows[row].line,
        })
        .collect();
    Ok(Some(found))
}
