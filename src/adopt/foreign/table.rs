//! A table of trials (CSV): a row a trial, a column each for its parameters and its metrics, which nothing tells apart. So
//! every column is both: a parameter, of which a task takes those that it knows, and where it holds numbers a metric.
//!
//! W&B's page exports its runs as such a table, with what it knows of them in columns of its own (`Name`, `State`, `Created`,
//! `Runtime`); they are taken where they are there. Tables that Optuna's `trials_dataframe()` and `tune trials --csv` make say
//! which columns are parameters. How a trial ended stands in a column `state` or `status` in each of them, in capitals or not.

use std::collections::BTreeSet;
use std::path::Path;

use csv::StringRecord;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value as Json};

use super::{Record, State};
use files::bounded;
use search::space::Value;

/// Longest file that is read, in bytes.
const LONGEST: u64 = 256 << 20;

/// Columns that are neither, in the spelling of W&B: a parameter called `name` is another column.
const OF_WANDB: [&str; 14] = [
    "Notes",
    "User",
    "Tags",
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

/// Words for how a trial ended, in small letters: those of W&B, Optuna, `tune`, Ray Tune and Hyperopt.
const STATES: [(&str, State); 16] = [
    ("finished", State::Ended),
    ("complete", State::Ended),
    ("terminated", State::Ended),
    ("ok", State::Ended),
    ("pruned", State::Pruned),
    ("fail", State::Failed),
    ("failed", State::Failed),
    ("crashed", State::Failed),
    ("killed", State::Failed),
    ("error", State::Failed),
    ("preempted", State::Failed),
    ("preempting", State::Failed),
    ("running", State::Open),
    ("pending", State::Open),
    ("paused", State::Open),
    ("waiting", State::Waiting),
];

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Nothing that a trial is made of.
    Nothing,
    /// What the trial is called.
    Name,
    /// Its number where it was made.
    Number,
    /// How it ended.
    State,
    Start,
    End,
    /// Seconds from start to end.
    Runtime,
    /// Attributes in JSON, as `tune trials --csv` has them.
    Attributes,
    Parameter,
    Metric,
    /// A parameter or a metric.
    Either,
}

/// Reads all trials, the earliest first.
pub(super) fn read(file: &Path) -> Result<Vec<Record>, String> {
    let bytes = bounded::read(file, LONGEST).map_err(|e| format!("cannot be read ({e})"))?;
    // Spreadsheets begin with a mark of the byte order.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut table = csv::Reader::from_reader(bytes);
    let header = table.headers().map_err(|e| told(&e))?.clone();
    let columns = columns(&header);
    must_differ(&header, &columns)?;
    let mut records = Vec::new();
    for (at, row) in (1..).zip(table.records()) {
        records.push(record(at, &columns, &row.map_err(|e| told(&e))?)?);
    }
    if records.is_empty() {
        return Err("the table has no row".to_owned());
    }
    if columns.contains(&(Role::Start, "Created")) {
        // W&B's page has the latest first.
        records.reverse();
        records.sort_by_key(|(_, record)| record.start);
    }
    records.sort_by_key(|(number, _)| *number);
    Ok(records.into_iter().map(|(_, record)| record).collect())
}

/// What the reader of CSV found wrong.
fn told(error: &csv::Error) -> String {
    if let csv::ErrorKind::UnequalLengths {
        pos: Some(at),
        expected_len,
        len,
    } = error.kind()
    {
        return format!(
            "line {}: found {len} cells, expected {expected_len}, as in the header",
            at.line()
        );
    }
    error.to_string()
}

/// What each column holds, and what the parameter or metric in it is called.
fn columns(header: &StringRecord) -> Vec<(Role, &str)> {
    let state: [fn(&str) -> bool; 3] = [
        |name: &str| name == "State",
        |name: &str| name.eq_ignore_ascii_case("state"),
        |name: &str| name.eq_ignore_ascii_case("status"),
    ];
    let state = state.iter().find_map(|is| header.iter().position(is));
    let prefix = ["params_", "params."].into_iter().find(|prefix| {
        let is_parameter = |name: &str| name.starts_with(prefix);
        header.iter().any(|name| name == "state") && header.iter().any(is_parameter)
    });
    let column = |(at, name): (usize, _)| match prefix {
        _ if Some(at) == state => (Role::State, name),
        Some(prefix) => exported(prefix, name),
        None => plain(name),
    };
    header.iter().enumerate().map(column).collect()
}

/// A column of Optuna's `trials_dataframe()`, or of `tune trials --csv`.
fn exported<'a>(prefix: &str, name: &'a str) -> (Role, &'a str) {
    let parameter = name.strip_prefix(prefix).map(|of| (Role::Parameter, of));
    // A study that names its metric has `value_NAME`; `tune` calls the attribute of another one `metric.NAME`.
    let metrics = ["user_attrs_metric.", "user_attrs_", "value_"];
    let metric = metrics.iter().find_map(|start| {
        let metric = name.strip_prefix(start)?;
        Some((Role::Metric, metric))
    });
    let fixed = match name {
        "number" => Role::Number,
        "value" => Role::Metric,
        "datetime_start" => Role::Start,
        "datetime_complete" => Role::End,
        "attrs" => Role::Attributes,
        "" | "duration" => Role::Nothing,
        _ if name.starts_with("system_attrs_") => Role::Nothing,
        _ => Role::Either,
    };
    parameter.or(metric).unwrap_or((fixed, name))
}

/// A column of W&B's, or of a table of one's own.
fn plain(name: &str) -> (Role, &str) {
    let role = match name {
        "Name" => Role::Name,
        "Created" => Role::Start,
        "Runtime" => Role::Runtime,
        _ if name.is_empty() || OF_WANDB.contains(&name) => Role::Nothing,
        _ if name.starts_with('_') => Role::Metric,
        _ => Role::Either,
    };
    (role, name)
}

/// Of two columns that are called alike, nothing says which one counts.
fn must_differ(header: &StringRecord, columns: &[(Role, &str)]) -> Result<(), String> {
    let named = header.iter().filter(|name| !name.is_empty());
    let parameter = |role: &Role| matches!(role, Role::Parameter | Role::Either);
    let parameters = columns.iter().filter(|(role, _)| parameter(role));
    let twice = first_twice(named).or_else(|| first_twice(parameters.map(|(_, name)| *name)));
    twice.map_or(Ok(()), |name| {
        Err(format!(
            "found two columns {name:?}, expected another name for each column"
        ))
    })
}

fn first_twice<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    names.find(|name| !seen.insert(*name))
}

/// The trial in a row, and the number that it had.
fn record(
    at: usize,
    columns: &[(Role, &str)],
    row: &StringRecord,
) -> Result<(Option<u64>, Record), String> {
    let mut record = Record {
        name: format!("row {at}"),
        ..Record::default()
    };
    let (mut number, mut seconds) = (None, None);
    for ((role, name), cell) in columns.iter().zip(row) {
        let cell = cell.trim();
        match role {
            Role::Nothing => {}
            Role::Name if cell.is_empty() => {}
            Role::Name => record.name = cell.to_owned(),
            Role::Number => number = cell.parse().ok(),
            Role::State => record.state = state(name, cell, row)?,
            Role::Start => record.start = time(cell),
            Role::End => record.end = time(cell),
            Role::Runtime => seconds = cell.parse().ok(),
            Role::Attributes => take_metrics(&mut record, cell),
            Role::Parameter | Role::Metric | Role::Either => take(&mut record, *role, name, cell),
        }
    }
    if let Some(number) = number {
        record.name = format!("trial {number}");
    }
    record.end = record.end.or_else(|| end(record.start, seconds));
    Ok((number, record))
}

/// How a trial ended; one of which nothing is said has ended.
fn state(column: &str, cell: &str, row: &StringRecord) -> Result<State, String> {
    let word = cell.to_ascii_lowercase();
    let known = STATES.iter().find(|(known, _)| *known == word);
    match known {
        Some((_, state)) => Ok(*state),
        None if cell.is_empty() => Ok(State::Ended),
        None => {
            let known: Vec<&str> = STATES.iter().map(|(word, _)| *word).collect();
            Err(format!(
                "line {}: {column}: found {cell:?}, expected how the trial ended ({}), or another name for this column",
                row.position().map_or(0, csv::Position::line),
                known.join(", ")
            ))
        }
    }
}

/// Takes over the value of a parameter or metric.
fn take(record: &mut Record, role: Role, name: &str, cell: &str) {
    let Some(value) = value(cell) else {
        return;
    };
    if let Some(x) = value.as_f64().filter(|_| role != Role::Parameter) {
        let metric = record.metrics.entry(name.to_owned());
        metric.or_insert_with(|| [(0, x)].into());
    }
    if role != Role::Metric {
        record.params.insert(name.to_owned(), value);
    }
}

/// Takes over the metrics among a trial's attributes.
fn take_metrics(record: &mut Record, cell: &str) {
    let attributes: Map<String, Json> = serde_json::from_str(cell).unwrap_or_default();
    for (name, json) in &attributes {
        let metric = name.strip_prefix("metric.");
        if let (Some(name), Some(x)) = (metric, messages::number_from_json(json)) {
            let metric = record.metrics.entry(name.to_owned());
            metric.or_insert_with(|| [(0, x)].into());
        }
    }
}

/// A time; one without a zone is taken for UTC.
fn time(cell: &str) -> Option<Timestamp> {
    let utc = |time: DateTime| time.to_zoned(TimeZone::UTC).ok();
    let without_zone = || Some(utc(cell.parse().ok()?)?.timestamp());
    cell.parse().ok().or_else(without_zone)
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

    fn states(text: &str) -> Vec<State> {
        read_text(text).iter().map(|trial| trial.state).collect()
    }

    #[test]
    fn how_a_trial_ended_is_read_from_a_column_of_any_case() {
        use State::{Ended, Failed, Open, Pruned, Waiting};
        let rows = [
            ("finished", Ended),
            ("crashed", Failed),
            ("failed", Failed),
            ("killed", Failed),
            ("running", Open),
            ("COMPLETE", Ended),
            ("PRUNED", Pruned),
            ("FAIL", Failed),
            ("RUNNING", Open),
            ("WAITING", Waiting),
            ("TERMINATED", Ended),
            ("ERROR", Failed),
            ("", Ended),
        ];
        let expected: Vec<State> = rows.iter().map(|(_, state)| *state).collect();
        for column in ["state", "State", "STATE", "status", "Status"] {
            let cells: String = rows.iter().map(|(word, _)| format!("{word},1\n")).collect();
            assert_eq!(states(&format!("{column},lr\n{cells}")), expected);
        }
        // W&B's column comes before a parameter that is called alike.
        let runs = read_text("state,State,lr\nCA,crashed,1\n");
        assert_eq!(runs[0].state, Failed);
        assert_eq!(runs[0].params["state"], Value::from("CA"));
        let error = refused("lr,state\n1,finished\n2,CA\n");
        let expected = "line 3: state: found \"CA\", expected how the trial ended (finished,";
        assert!(error.starts_with(expected), "{error}");
    }

    fn refused(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.csv");
        std::fs::write(&file, text).unwrap();
        read(&file).unwrap_err()
    }

    #[test]
    fn columns_and_rows_that_mean_nothing_certain_are_refused() {
        let error = refused("lr,lr,loss\n0.1,0.2,1\n");
        assert!(error.contains("two columns \"lr\""), "{error}");
        let error = refused("state,params_lr,lr\nCOMPLETE,0.1,0.2\n");
        assert!(error.contains("two columns \"lr\""), "{error}");
        let error = refused("lr,loss\n0.1,0.2\n0.1,0.2,1\n");
        assert_eq!(error, "line 3: found 3 cells, expected 2, as in the header");
    }

    #[test]
    fn tables_of_optuna_and_of_tune_come_back() {
        let text = ",number,value,datetime_start,datetime_complete,duration,params_opt,params_optim.lr,\
             user_attrs_f1,system_attrs_fixed_params,state\n\
             0,1,0.3,2026-11-30 17:20:04.427199,2026-11-30 17:20:14.427199,0 days 00:00:10,a,0.5,0.25,,PRUNED\n\
             1,0,0.1,,,,b,0.01,,{'optim.lr': 0.01},COMPLETE\n";
        let optuna = read_text(text);
        let of_tune = text.replace("user_attrs_f1", "user_attrs_metric.f1");
        assert_eq!(read_text(&of_tune), optuna, "a study of tune's");
        let tune = read_text(
            "number,state,value,datetime_start,datetime_complete,params.opt,params.optim.lr,attrs\n\
             1,PRUNED,0.3,2026-11-30T17:20:04.427199Z,2026-11-30T17:20:14.427199Z,a,0.5,\"{\"\"metric.f1\"\":0.25}\"\n\
             0,COMPLETE,0.1,,,b,0.01,{}\n",
        );
        assert_eq!(optuna, tune);
        assert_eq!(optuna[0].name, "trial 0");
        assert_eq!(optuna[1].state, State::Pruned);
        let params = [("opt", Value::from("a")), ("optim.lr", Value::Float(0.5))];
        let params = params.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(optuna[1].params, params.into());
        let names: Vec<&String> = optuna[1].metrics.keys().collect();
        assert_eq!(names, ["f1", "value"]);
        let length = tune[1].end.unwrap().duration_since(tune[1].start.unwrap());
        assert_eq!(length.as_secs(), 10);
    }

    #[test]
    fn a_table_of_one_s_own_needs_no_other_columns() {
        let rows = read_text("lr,flag,loss\n0.1,True,3\n0.2,false,\n");
        assert_eq!(rows[0].params["flag"], Value::Bool(true));
        assert_eq!((rows[1].name.as_str(), rows[1].start), ("row 2", None));
        assert!(!rows[1].metrics.contains_key("loss"));
    }
}
