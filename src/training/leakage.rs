//! Whether rows that have something in common are in different parts of the split, whatever they are rows of. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use super::split::Samples;
use config::{Problem, Source};

/// Places that are spelled out.
const SPELLED_OUT: usize = 5;

/// Rows that have a text, or a group, in common, and something else not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clash {
    /// How many texts, or groups.
    pub keys: usize,
    /// Rows that have them.
    pub rows: usize,
    /// Line of the first such row.
    pub line: usize,
    /// The first places.
    pub text: String,
}

/// Looks for rows of one key with several values, whose names are told; rows without a key, or
/// without a value, are not looked at.
pub fn clash<'a, K: Ord>(
    samples: &Samples,
    key: impl Fn(usize) -> Option<K>,
    value: impl Fn(usize) -> Option<&'a str>,
) -> Option<Clash> {
    let mut rows_of: BTreeMap<K, Vec<usize>> = BTreeMap::new();
    for row in 0..samples.count() {
        if let (Some(key), Some(_)) = (key(row), value(row)) {
            rows_of.entry(key).or_default().push(row);
        }
    }
    let other = |rows: &[usize]| {
        let first = value(rows[0]);
        rows.iter().copied().find(|row| value(*row) != first)
    };
    let mut shared: Vec<Vec<usize>> = rows_of.into_values().collect();
    shared.retain(|rows| other(rows).is_some());
    shared.sort();
    let place = |row: usize| {
        let value = value(row).unwrap_or_default();
        format!("line {} ({value})", samples.lines[row])
    };
    // The first row, and the first one with another value.
    let places = |rows: &Vec<usize>| {
        let both = [Some(rows[0]), other(rows)];
        let both: Vec<String> = both.into_iter().flatten().map(place).collect();
        both.join(" and ")
    };
    let mut text: Vec<String> = shared.iter().take(SPELLED_OUT).map(places).collect();
    if shared.len() > SPELLED_OUT {
        text.push(format!("and {} more", shared.len() - SPELLED_OUT));
    }
    Some(Clash {
        keys: shared.len(),
        rows: shared.iter().map(Vec::len).sum(),
        line: samples.lines[*shared.first()?.first()?],
        text: text.join("; "),
    })
}

/// The name of each row's set; `sets` are names and rows.
pub fn set_of(rows: usize, sets: &[(String, Vec<usize>)]) -> Vec<Option<&str>> {
    let mut set_of = vec![None; rows];
    for (name, rows) in sets {
        rows.iter()
            .for_each(|row| set_of[*row] = Some(name.as_str()));
    }
    set_of
}

/// `1 text`, `2 texts`.
pub fn count(n: usize, word: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {word}{s}")
}

/// The problem that rows of one group are in two of `sets` (their names and rows): a model would be scored on what it has
/// learned. Drawn parts and folds keep groups whole, so that only those of the data's own column can be like this.
pub fn groups_apart(
    path: &Path,
    samples: &Samples,
    sets: &[(String, Vec<usize>)],
) -> Option<Problem> {
    let set_of = set_of(samples.count(), sets);
    let leak = clash(samples, |row| samples.group(row), |row| set_of[row])?;
    let groups = count(leak.keys, "group");
    let found = format!("{groups} in two parts of the split: {}", leak.text);
    let expected = "all rows of a group in one part: mend data.split.column";
    let place = Source::File(path.to_owned(), Some(leak.line));
    Some(Problem::new(&place, "data.group", found, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_in_two_parts_is_told_with_its_first_lines_in_each() {
        let groups = ["p", "q", "p", "q", "r", "r"];
        let samples = Samples {
            class: vec![0; 6],
            groups: groups.map(str::to_owned).into(),
            lines: (2..8).collect(),
            ..Samples::default()
        };
        let sets = |of: [&[usize]; 2]| {
            let [train, test] = of.map(<[usize]>::to_vec);
            [("train".to_owned(), train), ("test".to_owned(), test)]
        };
        let told = |of: [&[usize]; 2]| groups_apart(Path::new("a.csv"), &samples, &sets(of));
        let problem = told([&[0, 1], &[2, 3, 4, 5]]).unwrap();
        assert_eq!(problem.source, Source::File("a.csv".into(), Some(2)));
        assert_eq!(
            problem.found,
            "2 groups in two parts of the split: line 2 (train) and line 4 (test); line 3 (train) and line 5 (test)"
        );
        assert!(problem.expected.contains("data.split.column"));
        assert_eq!(told([&[0, 1, 2, 3], &[4, 5]]), None);
    }
}
