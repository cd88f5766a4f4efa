//! A table of trials (CSV): a row a trial, a column each for its parameters and its metrics, which nothing tells apart. So
//! every column is both: a parameter, of which a task takes those that it knows, and where it holds numbers a metric.
//!
//! W&B's page exports its runs as such a table, with what it knows of them in columns of its own (`Name`, `State`, `Created`,
//! `Runtime`); they are taken where they are there.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};

use super::{Record, State};
use files::bounded;
use search::space::Value;

/// Longest file that is read, in bytes.
const LONGEST: u64 = 256 << 20;

/// Columns that are neither, in the spelling of W&B: a parameter called `name` is another column.
const OF_WANDB: [&str; 18] = [
    "Name",
    "State",
    "Notes",
    "User",
    "Tags",
    "Created",
    "Runtime",
    "Sweep",
    "ID",
    "Group",
    "Job Type",
    "Updated",
    "End Time",
    "Hostname",
    "Description",
    "Commit",
    "GitHub",
    "GPU Type",
];

/// Reads all trials, the earliest first.
pub(super) fn read(file: &Path) -> Result<Vec<Record>, String> {
    let bytes = bounded::read(file, LONGEST).map_err(|e| format!("cannot be read ({e})"))?;
    // Spreadsheets begin with a mark of the byte order.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut table = csv::Reader::from_reader(bytes);
    let header = table.headers().map_err(|e| e.to_string())?.clone();
    let column = |name: &str| header.iter().position(|h| h == name);
    let [name, state, created, runtime] = ["Name", "State", "Created", "Runtime"].map(column);
    let mut records = Vec::new();
    for (number, row) in (1..).zip(table.records()) {
        let row = row.map_err(|e| e.to_string())?;
        let cell = |at: Option<usize>| at.and_then(|at| row.get(at)).unwrap_or_default().trim();
        let mut record = Record {
            name: match cell(name) {
                "" => format!("row {number}"),
                name => name.to_owned(),
            },
            state: match cell(state).to_ascii_lowercase().as_str() {
                "" | "finished" => State::Ended,
                "running" | "pending" => State::Open,
                _ => State::Failed,
            },
            start: cell(created).parse().ok(),
            ..Record::default()
        };
        let seconds: Option<f64> = cell(runtime).parse().ok();
        record.end = end(record.start, seconds);
        for (name, text) in header.iter().zip(&row) {
            let own = name.is_empty() || OF_WANDB.contains(&name);
            let Some(value) = value(text.trim()).filter(|_| !own) else {
                continue;
            };
            if let Some(x) = value.as_f64() {
                record.metrics.insert(name.to_owned(), [(0, x)].into());
            }
            if !name.starts_with('_') {
                record.params.insert(name.to_owned(), value);
            }
        }
        records.push(record);
    }
    if records.is_empty() {
        return Err("the table has no row".to_owned());
    }
    if created.is_some() {
        // W&B's page has the latest first.
        records.reverse();
        records.sort_by_key(|record| record.start);
    }
    Ok(records)
}

fn end(start: Option<Timestamp>, seconds: Option<f64>) -> Option<Timestamp> {
    let length = SignedDuration::try_from_secs_f64(seconds?).ok()?;
    start?.checked_add(length).ok()
}

/// The value of a cell; `None` for one that is empty, and for numbers that no parameter has.
fn value(text: &str) -> Option<Value> {
    if let Ok(whole) = text.parse() {
        return Some(Value::Int(whole));
    }
    match (text, text.parse::<f64>()) {
        ("" | "null", _) => None,
        ("true" | "True", _) => Some(Value::Bool(true)),
        ("false" | "False", _) => Some(Value::Bool(false)),
        (_, Ok(x)) => x.is_finite().then_some(Value::Float(x)),
        (text, Err(_)) => Some(Value::from(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Vec<Record> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.csv");
        std::fs::write(&file, text).unwrap();
        read(&file).unwrap()
    }

    #[test]
    fn w_and_b_s_columns_are_taken_and_parameters_called_like_them_are_parameters() {
        let runs = read_text(
            "\u{feff}Name,State,Created,Runtime,name,lr,_step\n\
             b,crashed,2026-11-01T10:10:00.000Z,20,sgd,,1\n\
             a,finished,2026-11-01T10:00:00.000Z,100,adam,0.5,9\n",
        );
        assert_eq!((runs[0].name.as_str(), runs[0].state), ("a", State::Ended));
        assert_eq!((runs[1].name.as_str(), runs[1].state), ("b", State::Failed));
        let length = runs[0].end.unwrap().duration_since(runs[0].start.unwrap());
        assert_eq!(length.as_secs(), 100);
        let names = |record: &Record| record.params.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&runs[0]), ["lr", "name"]);
        assert_eq!(names(&runs[1]), ["name"]);
        assert_eq!(runs[0].metrics["_step"][&0], 9.0);
    }

    #[test]
    fn a_table_of_one_s_own_needs_no_other_columns() {
        let rows = read_text("lr,flag,loss\n0.1,True,3\n0.2,false,\n");
        assert_eq!(rows[0].params["flag"], Value::Bool(true));
        assert_eq!((rows[1].name.as_str(), rows[1].start), ("row 2", None));
        assert!(!rows[1].metrics.contains_key("loss"));
    }
}
