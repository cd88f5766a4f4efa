//! What labelled rows have in common, whatever they are rows of: their file, their parts and groups, and the names of their
//! classes.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use super::split::{Part, Samples};
use super::table::{self, FileProblems, Format, Place, Table};
use search::space::{Params, Value};

/// The file of a study's rows; `None`: it cannot be read, which is noted.
fn open(path: &Path, problems: &mut FileProblems) -> Option<(Format, Table)> {
    let format = Format::of(path).and_then(|format| match format {
        Format::Csv | Format::Jsonl => Ok(format),
        Format::Text => Err("a .txt file".to_owned()),
    });
    let noted = |found| problems.file("data.path", found, "a .csv or .jsonl file");
    let format = format.map_err(noted).ok()?;
    let table = Table::open(path, format, table::MAX_FILE, "data.path", problems)?;
    Some((format, table))
}

/// The columns that say where rows belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Placement<'a> {
    /// Rows with the same value stay in one part.
    pub group: Option<&'a str>,
    /// The row's part.
    pub part: Option<&'a str>,
}

impl Placement<'_> {
    /// As a study's keys name them.
    pub fn of(keys: &Params) -> Placement<'_> {
        let name = |key: &str| keys.get(key).and_then(Value::as_str);
        Placement {
            group: name("data.group"),
            part: name("data.split.column"),
        }
    }
}

/// What is read of a file of labelled rows.
pub struct Wanted<'a> {
    /// The key and the column of what is predicted.
    pub target: (&'static str, &'a str),
    /// What is told of a row without it: what was found, and what was expected.
    pub without: [&'static str; 2],
    /// Where rows belong.
    pub placement: Placement<'a>,
    /// The keys and names of further columns that must be there.
    pub others: Vec<(&'static str, &'a str)>,
}

impl Wanted<'_> {
    /// Whether all columns that are named are there; one that is not, or is there twice, is noted.
    fn check(&self, table: &Table, have: &str, problems: &mut FileProblems) -> bool {
        let Placement { group, part } = self.placement;
        let placed = [("data.group", group), ("data.split.column", part)];
        let placed = placed
            .into_iter()
            .filter_map(|(key, name)| Some((key, name?)));
        let named = self.others.iter().copied().chain([self.target]);
        let mut all = true;
        for (key, name) in named.chain(placed) {
            if !table::is_there(name, table.columns(), key, problems) {
                let there = table::listed(table.columns());
                let found = format!("no column {name}; {have} {there}");
                problems.file(key, found, "a column of the file");
                all = false;
            }
        }
        all
    }
}

/// Reads a study's file: `row` is shown each row, and takes what a model reads of it. Gives what a split has to know of the
/// rows, all but their classes ([`Samples::classify`]), and the targets, trimmed, with their places. Of CSV that lacks a
/// column no row is looked at.
pub fn read(
    path: &Path,
    wanted: &Wanted<'_>,
    problems: &mut FileProblems,
    row: &mut dyn FnMut(&Table, &mut FileProblems),
) -> (Samples, Vec<(String, Place)>) {
    let (mut samples, mut targets) = (Samples::default(), Vec::new());
    let Some((format, mut table)) = open(path, problems) else {
        return (samples, targets);
    };
    if format == Format::Csv && !wanted.check(&table, "the file has", problems) {
        return (samples, targets);
    }
    let ((_, column), [found, expected]) = (wanted.target, wanted.without);
    let mut of_cells = FileProblems::new(path);
    while table.advance(problems) {
        let place = table.place();
        let target = table.text(column, &mut of_cells);
        let known = target.is_ok();
        let target = target.ok().flatten().unwrap_or_default();
        // What cannot be read has been told.
        if known && target.trim().is_empty() {
            of_cells.row(place.line, place.cell(column), found, expected);
        }
        samples.take(&table, wanted.placement, &mut of_cells);
        row(&table, &mut of_cells);
        targets.push((target.trim().to_owned(), place));
    }
    // What JSON lines have is known at their end. A column that all of them lack is one problem, not one of each row.
    let unknown = format == Format::Jsonl && !table.columns().is_empty();
    if !unknown || wanted.check(&table, "the rows have", problems) {
        problems.extend(of_cells);
    }
    (samples, targets)
}

impl Samples {
    /// Takes in where the row at which a table is stands, and where it belongs.
    pub fn take(&mut self, table: &Table, placement: Placement<'_>, problems: &mut FileProblems) {
        let place = table.place();
        self.lines.push(place.line);
        if let Some(column) = placement.group
            && let Ok(group) = table.text(column, problems)
        {
            let group = group.unwrap_or_default();
            if group.is_empty() {
                let expected = "a group in every row";
                problems.row(place.line, place.cell(column), "no group", expected);
            }
            self.groups.push(group);
        }
        if let Some(column) = placement.part
            && let Ok(word) = table.text(column, problems)
        {
            let word = word.unwrap_or_default();
            let part = Part::of_word(&word);
            if part.is_none() {
                let found = format!("the part \"{word}\"");
                let expected = "train, validation (valid, val, dev) or test in every row";
                problems.row(place.line, place.cell(column), found, expected);
            }
            self.parts.extend(part);
        }
    }

    /// Numbers the classes that are the labels of the rows; `key` names their column.
    pub fn classify(&mut self, labels: &[String], key: &str, problems: &mut FileProblems) {
        self.classes = classes(labels);
        let expected = "at least two classes";
        match self.classes.as_slice() {
            // Of a file that was not read to its end, nothing is known of them.
            _ if problems.fatal() => {}
            [] => problems.file("data.path", "no labelled rows".to_owned(), expected),
            [only] => problems.file(key, format!("only the class {only}"), expected),
            [_, _, ..] => same_numbers(&self.classes, key, problems),
        }
        let names = self.classes.iter().map(String::as_str);
        let class: HashMap<&str, usize> = names.zip(0..).collect();
        let place = |label: &String| class.get(label.as_str()).copied().unwrap_or(0);
        self.class = labels.iter().map(place).collect();
    }
}

/// One class of the column that `key` names, written in two ways, would be two classes.
fn same_numbers(classes: &[String], key: &str, problems: &mut FileProblems) {
    let mut numbers: Vec<(f64, &str)> = (classes.iter())
        .filter_map(|label| Some((as_number(label)?, label.as_str())))
        .collect();
    numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
    for pair in numbers.windows(2) {
        if let [(a, label), (b, other)] = pair
            && a == b
        {
            problems.file(
                key,
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
        other => number(other),
    }
}

/// The finite number that a text is.
pub fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|x: &f64| x.is_finite())
}

/// How a number is written so that it is read as one.
pub const PLAIN_NUMBER: &str = "plain numbers such as 1234.5: no decimal comma, no thousands separator, no %, currency or unit";

/// What stands before and behind the number in a cell which people read as one and [`number`] does not: `12,5`, `1,200`, `13%`,
/// `€ 120`, `3 kg`.
pub fn dressed_number(text: &str) -> Option<(&str, &str)> {
    let is_digit = |c: char| c.is_ascii_digit();
    let (first, last) = (text.find(is_digit)?, text.rfind(is_digit)?);
    let leading = usize::from(text[..first].ends_with([',', '.']));
    let digits = &text[first - leading..=last];
    let before = text[..first - leading].trim_matches([' ', '+', '-', '\u{2212}']);
    let after = text[last + 1..].trim();
    let is_unit = |c: char| c.is_alphabetic() || "%\u{2030}\u{b0}\u{b2}\u{b3}/$€£¥₹".contains(c);
    let around = before.is_empty() || CURRENCIES.contains(&before);
    let around = around && after.chars().count() <= LONGEST_UNIT && after.chars().all(is_unit);
    (number(text).is_none() && around && is_amount(digits)).then_some((before, after))
}

/// What stands before amounts of money.
const CURRENCIES: [&str; 10] = ["$", "€", "£", "¥", "₹", "US$", "EUR", "USD", "GBP", "CHF"];

/// Characters of a unit behind a number, at most.
const LONGEST_UNIT: usize = 8;

/// Whether these are digits with a decimal point or comma, or with separators of thousands; no date, version or list.
fn is_amount(text: &str) -> bool {
    let Some(separator) = text.chars().find(|c| !c.is_ascii_digit()) else {
        return true;
    };
    let is_point = |c: char| c == ',' || c == '.';
    let other_point = |c: char| is_point(c) && c != separator;
    let (whole, fraction) = text.rsplit_once(other_point).unwrap_or((text, ""));
    let groups: Vec<&str> = whole.split(separator).collect();
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if !digits(fraction) || !groups.iter().copied().all(digits) {
        return false;
    }
    match groups.as_slice() {
        [_, _] if is_point(separator) && fraction.is_empty() => true,
        [first, rest @ ..] => {
            let separates = is_point(separator) || "'\u{2019} \u{a0}\u{202f}".contains(separator);
            let whole = (1..=3).contains(&first.len()) && rest.iter().all(|group| group.len() == 3);
            separates && whole
        }
        [] => false,
    }
}

/// Whether cells that are filled are numbers for the most part: plain ones, or all others written in one way with the same around
/// them. What is written in several ways may be codes, such as `12a` and `12b`.
pub fn mostly_numbers<'a>(cells: impl Iterator<Item = &'a str>) -> bool {
    let (mut all, mut plain, mut dressed) = (0, 0, 0);
    let mut around = BTreeSet::new();
    for cell in cells {
        all += 1;
        if number(cell).is_some() {
            plain += 1;
        } else if let Some(found) = dressed_number(cell) {
            dressed += 1;
            around.insert(found);
        }
    }
    2 * plain > all || (around.len() == 1 && 2 * (plain + dressed) > all)
}

/// The greatest number that a model reads or predicts, either way: of 10,000,000 such rows, as many as there may be, the
/// squared deviations from the mean still sum to a finite number.
pub const LARGEST: f64 = 1e150;

/// What is asked of a number that is predicted.
pub const LARGEST_TARGET: &str =
    "a number of at most 1e150 either way: the squares of larger ones overflow";

/// The distinct labels, sorted: as numbers where all are numbers.
pub fn classes(labels: &[String]) -> Vec<String> {
    let distinct: BTreeSet<&str> = labels
        .iter()
        .map(String::as_str)
        .filter(|l| !l.is_empty())
        .collect();
    let mut classes: Vec<String> = distinct.into_iter().map(str::to_owned).collect();
    if classes.iter().all(|c| number(c).is_some()) {
        classes.sort_by(|a, b| {
            let (x, y) = (number(a).unwrap_or(0.0), number(b).unwrap_or(0.0));
            x.total_cmp(&y).then_with(|| a.cmp(b))
        });
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_write_them_are_known() {
        for (cell, around) in [
            ("12,5", ("", "")),
            (",5", ("", "")),
            ("12,345", ("", "")),
            ("-1.234.567,89", ("", "")),
            ("1'234.5", ("", "")),
            ("1 234", ("", "")),
            ("13%", ("", "%")),
            ("13.5 %", ("", "%")),
            ("€120", ("€", "")),
            ("-$ 1,200.50", ("$", "")),
            ("120 €", ("", "€")),
            ("3 kg", ("", "kg")),
            ("20°C", ("", "°C")),
        ] {
            assert_eq!(dressed_number(cell), Some(around), "{cell}");
        }
        for cell in [
            "",
            "12.5",
            "1e5",
            "1e999",
            "NA",
            "1,2,3",
            "01.02.2024",
            "2024-01-02",
            "10:30",
            "1.2.3",
            "A1",
            "No. 5",
            "1,23,456",
            "0664 123 456",
        ] {
            assert_eq!(dressed_number(cell), None, "{cell}");
        }
    }

    #[test]
    fn cells_with_one_thing_around_their_numbers_are_numbers_and_codes_are_not() {
        let are = |cells: &[&str]| mostly_numbers(cells.iter().copied());
        assert!(are(&["12,5", "3", "0,25"]));
        assert!(are(&["€ 120", "€ 99", "unknown"]));
        assert!(are(&["1", "2", "3 kg", "5 lb", "4", "7"]));
        assert!(!are(&["12a", "12b", "7"]));
        assert!(!are(&["a", "b", "7%"]));
        assert!(!are(&[]));
    }
}
