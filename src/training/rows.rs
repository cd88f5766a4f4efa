//! What labelled rows have in common, whatever they are rows of: their file, their parts and groups, and the names of their
//! classes.

use std::collections::BTreeSet;
use std::path::Path;

use super::split::Part;
use super::table::{self, FileProblems, Format, Place, Table};

/// The file of a study's rows; `None`: it cannot be read, which is noted.
pub fn open(path: &Path, problems: &mut FileProblems) -> Option<(Format, Table)> {
    let format = Format::of(path).and_then(|format| match format {
        Format::Csv | Format::Jsonl => Ok(format),
        Format::Text => Err("a .txt file".to_owned()),
    });
    let noted = |found| problems.file("data.path", found, "a .csv or .jsonl file");
    let format = format.map_err(noted).ok()?;
    let table = Table::open(path, format, table::MAX_FILE, "data.path", problems)?;
    Some((format, table))
}

/// A column, where there is one for this, and its cell.
pub type CellOf<'a> = (Option<&'a str>, Option<&'a str>);

/// Notes a row without a group or with no part's name, where columns say them. Its part.
pub fn check_placement(
    place: Place,
    group: CellOf<'_>,
    part: CellOf<'_>,
    problems: &mut FileProblems,
) -> Option<Part> {
    let mut wrong = |column: &str, found: &str, expected: &str| {
        problems.row(place.line, place.cell(column), found, expected);
    };
    if let (Some(column), None | Some("")) = group {
        wrong(column, "no group", "a group in every row");
    }
    let (column, word) = (part.0?, part.1.unwrap_or_default());
    let part = Part::of_word(word);
    if part.is_none() {
        let expected = "train, validation (valid, val, dev) or test in every row";
        wrong(column, &format!("the part \"{word}\""), expected);
    }
    part
}

/// One class written in two ways would be two classes.
pub fn same_numbers(classes: &[String], problems: &mut FileProblems) {
    let mut numbers: Vec<(f64, &str)> = (classes.iter())
        .filter_map(|label| Some((as_number(label)?, label.as_str())))
        .collect();
    numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
    for pair in numbers.windows(2) {
        if let [(a, label), (b, other)] = pair
            && a == b
        {
            problems.file(
                "data.label",
                format!("the labels {label} and {other}"),
                "one way of writing a number or a truth value",
            );
        }
    }
}

/// The number that a label means; truth values are 0 and 1.
pub fn as_number(label: &str) -> Option<f64> {
    match label.to_ascii_lowercase().as_str() {
        "true" => Some(1.0),
        "false" => Some(0.0),
        other => other.parse().ok().filter(|x: &f64| x.is_finite()),
    }
}

/// The distinct labels, sorted: as numbers where all are numbers.
pub fn classes(labels: &[String]) -> Vec<String> {
    let distinct: BTreeSet<&str> = labels
        .iter()
        .map(String::as_str)
        .filter(|l| !l.is_empty())
        .collect();
    let mut classes: Vec<String> = distinct.into_iter().map(str::to_owned).collect();
    let number = |label: &str| label.parse::<f64>().ok().filter(|x| x.is_finite());
    if classes.iter().all(|c| number(c).is_some()) {
        classes.sort_by(|a, b| {
            let (x, y) = (number(a).unwrap_or(0.0), number(b).unwrap_or(0.0));
            x.total_cmp(&y).then_with(|| a.cmp(b))
        });
    }
    classes
}
