//! The rows of a file at which a program fails: it is run on copies of the file that have some of them.

use std::ops::Range;
use std::path::Path;

use super::rows::{RowsFound, RowsOutcome, few};
use super::runs::{Runs, Stop};
use config::StudySpec;
use doctor::statistics::Rate;
use messages::exit::Failure;
use search::space::Params;
use task::command::{RowsArgument, rows_arguments};

/// Looks through the files that the program's arguments name, one after the other, until rows of one are found.
pub(super) fn rows(
    runs: &mut Runs,
    spec: &StudySpec,
    point: &Params,
    rate: Rate,
) -> Result<Option<RowsFound>, Stop> {
    let mut last = None;
    for argument in rows_arguments(spec, point) {
        let found = rows_of(runs, &argument, point, rate)?;
        if matches!(found.outcome, RowsOutcome::Found | RowsOutcome::Budget) {
            return Ok(Some(found));
        }
        last = Some(found);
    }
    Ok(last)
}

fn rows_of(
    runs: &mut Runs,
    argument: &RowsArgument,
    point: &Params,
    rate: Rate,
) -> Result<RowsFound, Stop> {
    let RowsArgument { at, before, file } = argument;
    let failed = |path: &Path, e: std::io::Error| {
        Stop::Failure(Failure::input(format!("{}: {e}", path.display())))
    };
    let bytes = std::fs::read(file).map_err(|e| failed(file, e))?;
    let records = records(file, &bytes);
    let dir = tempfile::tempdir().map_err(|e| failed(Path::new("a temporary directory"), e))?;
    // Of the same name: programs look at its ending.
    let copy = dir.path().join(file.file_name().unwrap_or_default());
    let named = file.display().to_string();
    let all: Vec<usize> = (0..records.rows.len()).collect();
    runs.say(&format!("rows of {named}, {}", all.len()));
    let own = runs.set_argument(*at, format!("{before}{}", copy.display()));
    let mut fails = |rows: &[usize]| {
        let mut part = bytes[records.head.clone()].to_vec();
        // In the order of the file, whatever order they are tried in.
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        for row in &rows {
            part.extend(&bytes[records.rows[*row].clone()]);
        }
        std::fs::write(&copy, part).map_err(|e| failed(&copy, e))?;
        let what = format!("{} of {} rows", rows.len(), all.len());
        runs.ever_fails(&what, point, None, rate)
    };
    let line = |row: usize| {
        1 + bytes[..records.rows[row].start]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
    };
    let found = few(named, &all, line, &mut fails);
    if let Some(own) = own {
        runs.set_argument(*at, own);
    }
    found
}

/// The parts of a file of rows, as ranges of its bytes.
struct Records {
    /// The heading of a CSV; empty for JSON lines.
    head: Range<usize>,
    /// Each record with the end of its line.
    rows: Vec<Range<usize>>,
}

/// A record of a CSV may hold ends of lines in quotes; a line of JSON is a record.
fn records(file: &Path, bytes: &[u8]) -> Records {
    let ending = file.extension().unwrap_or_default();
    let (delimiter, headed) = match ending == "tsv" {
        true => (b'\t', true),
        false => (b',', ending == "csv"),
    };
    let mut starts = Vec::new();
    if headed {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .from_reader(bytes);
        let mut record = csv::ByteRecord::new();
        while let Ok(true) = reader.read_byte_record(&mut record) {
            starts.extend(record.position().map(|at| at.byte() as usize));
        }
    } else {
        let mut at = 0;
        for line in bytes.split_inclusive(|b| *b == b'\n') {
            if !line.trim_ascii().is_empty() {
                starts.push(at);
            }
            at += line.len();
        }
    }
    let ends = starts.iter().copied().skip(1).chain([bytes.len()]);
    let mut rows: Vec<Range<usize>> = starts
        .iter()
        .copied()
        .zip(ends)
        .map(|(a, b)| a..b)
        .collect();
    let head = match headed && !rows.is_empty() {
        true => rows.remove(0),
        false => 0..0,
    };
    Records { head, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(name: &str, text: &str) -> (String, Vec<String>) {
        let found = records(Path::new(name), text.as_bytes());
        let part = |range: Range<usize>| text[range].to_owned();
        (part(found.head), found.rows.into_iter().map(part).collect())
    }

    #[test]
    fn a_record_of_a_csv_may_be_longer_than_a_line_and_its_heading_is_none() {
        let (head, rows) = parts("t.csv", "text,label\n\"a\nb\",1\nc,2\nd,3");
        assert_eq!(head, "text,label\n");
        assert_eq!(rows, ["\"a\nb\",1\n", "c,2\n", "d,3"]);
    }

    #[test]
    fn a_line_of_json_is_a_record() {
        let (head, rows) = parts("t.jsonl", "{\"a\": 1}\n\n{\"a\": 2}\n");
        assert_eq!(head, "");
        assert_eq!(rows, ["{\"a\": 1}\n\n", "{\"a\": 2}\n"]);
    }
}
