//! Whether one part of the split knows what another one asks: the same text, or rows of the same
//! group, in two of them. Pure.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use unicode_normalization::UnicodeNormalization;

use super::data::Dataset;
use config::{Problem, Source, StudySpec};
use search::space::Value;

/// What becomes of rows with the same text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// In two parts they are an error.
    Error,
    /// They are kept in one part.
    Together,
    /// In two parts they are a warning.
    Allow,
}

impl Duplicates {
    /// As the study has it.
    pub fn of(spec: &StudySpec) -> Duplicates {
        match spec.fixed.get("data.duplicates").and_then(Value::as_str) {
            Some("together") => Duplicates::Together,
            Some("allow") => Duplicates::Allow,
            Some(_) | None => Duplicates::Error,
        }
    }
}

/// Equal numbers for equal texts. Equal are texts that differ at most in white space and in Unicode's
/// ways of writing a character (NFKC): a model reads the same. Case counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// By row, of the first text alone.
    pub first: Vec<usize>,
    /// By row, of the text with its pair.
    pub whole: Vec<usize>,
}

impl Texts {
    /// Of all rows; a number is that of the first row with the text.
    pub fn of(data: &Dataset) -> Texts {
        let (mut first, mut whole) = (HashMap::new(), HashMap::new());
        let mut texts = Texts {
            first: Vec::with_capacity(data.rows.len()),
            whole: Vec::with_capacity(data.rows.len()),
        };
        for (row, content) in data.rows.iter().enumerate() {
            let text = plain(&content.text);
            let pair = content.pair.as_deref().map(plain);
            texts.first.push(*first.entry(text.clone()).or_insert(row));
            texts.whole.push(*whole.entry((text, pair)).or_insert(row));
        }
        texts
    }

    /// Rows that repeat an earlier one.
    pub fn repeated(&self) -> usize {
        let repeats = self.whole.iter().enumerate();
        repeats.filter(|(row, first)| row != *first).count()
    }
}

fn plain(text: &str) -> String {
    let text: String = text.nfkc().collect();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Findings {
    /// What keeps the study from being started.
    pub problems: Vec<Problem>,
    /// What people should know.
    pub warnings: Vec<String>,
}

/// Looks for texts and groups in two of `sets` (their names and rows), and for equal texts with
/// different labels. `given`: the sets are a column's, not drawn.
pub fn review(
    data: &Dataset,
    texts: &Texts,
    sets: &[(String, Vec<usize>)],
    duplicates: Duplicates,
    path: &Path,
    given: bool,
) -> Findings {
    let mut findings = Findings::default();
    let look = Look {
        data,
        set_of: set_of(data.rows.len(), sets),
        names: sets.iter().map(|(name, _)| name.as_str()).collect(),
    };
    let problem = |leak: Leak, key: &str, what: &str, expected: &str| Problem {
        source: Source::File(path.to_owned(), Some(leak.line)),
        key: Some(key.to_owned()),
        found: format!("{what}: {}", leak.text),
        expected: expected.to_owned(),
    };
    if let Some(leak) = look.leak(|row| data.rows[row].group.as_deref()) {
        let what = format!("{} in two parts of the split", count(leak.keys, "group"));
        let expected = "all rows of a group in one part: mend data.split.column";
        findings
            .problems
            .push(problem(leak, "data.group", &what, expected));
    }
    if let Some(leak) = look.leak(|row| Some(texts.whole[row])) {
        let what = format!(
            "{} in two parts of the split ({} rows)",
            count(leak.keys, "text"),
            leak.rows
        );
        match duplicates {
            Duplicates::Allow => findings.warnings.push(format!(
                "{what}: {}; values are better than on texts that a model has not seen",
                leak.text
            )),
            Duplicates::Error | Duplicates::Together => {
                let expected = if given { GIVEN } else { DRAWN };
                let found = problem(leak, "data.duplicates", &what, expected);
                findings.problems.push(found);
            }
        }
    } else if let Some(leak) = look.leak(|row| Some(texts.first[row])) {
        findings.warnings.push(format!(
            "{} in two parts of the split with different second texts ({} rows): {}; name the \
             column that ties them together in data.group, or set data.duplicates = \"together\"",
            count(leak.keys, "first text"),
            leak.rows,
            leak.text
        ));
    }
    findings.warnings.extend(contradictions(data, texts));
    findings
}

const DRAWN: &str = "each text in one part: name the column that ties rows together in data.group, \
                     remove the duplicates, or set data.duplicates = \"together\" (equal texts are \
                     kept in one part) or \"allow\" (a warning)";
const GIVEN: &str = "each text in one part: mend data.split.column, remove the duplicates, or set \
                     data.duplicates = \"allow\" (a warning)";

/// Places that are spelled out.
const SPELLED_OUT: usize = 5;

struct Look<'a> {
    data: &'a Dataset,
    /// By row; `None`: in no set.
    set_of: Vec<Option<usize>>,
    names: Vec<&'a str>,
}

/// What several sets share.
struct Leak {
    /// How many texts, or groups.
    keys: usize,
    /// Rows that have them.
    rows: usize,
    /// Line of the first such row.
    line: usize,
    /// The first places.
    text: String,
}

impl Look<'_> {
    /// Rows of one key in several sets; rows without a key have none.
    fn leak<K: Ord>(&self, key: impl Fn(usize) -> Option<K>) -> Option<Leak> {
        let mut rows_of: BTreeMap<K, Vec<usize>> = BTreeMap::new();
        for row in 0..self.data.rows.len() {
            if let Some(key) = key(row).filter(|_| self.set_of[row].is_some()) {
                rows_of.entry(key).or_default().push(row);
            }
        }
        let mut shared: Vec<Vec<usize>> = rows_of
            .into_values()
            .filter(|rows| rows.iter().any(|r| self.set_of[*r] != self.set_of[rows[0]]))
            .collect();
        shared.sort();
        let first = shared.first()?.first()?;
        let places = shared
            .iter()
            .take(SPELLED_OUT)
            .map(|rows| self.places(rows));
        let places: Vec<String> = places.collect();
        Some(Leak {
            keys: shared.len(),
            rows: shared.iter().map(Vec::len).sum(),
            line: self.data.rows[*first].line,
            text: listed(&places, shared.len()),
        })
    }

    /// `line 5 (train) and line 9 (test)`: the first row, and the first one of another set.
    fn places(&self, rows: &[usize]) -> String {
        let other = rows
            .iter()
            .find(|r| self.set_of[**r] != self.set_of[rows[0]]);
        let place = |row: usize| {
            let set = self.set_of[row].map_or("", |set| self.names[set]);
            format!("line {} ({set})", self.data.rows[row].line)
        };
        let both: Vec<String> = rows[..1].iter().chain(other).map(|r| place(*r)).collect();
        both.join(" and ")
    }
}

fn set_of(rows: usize, sets: &[(String, Vec<usize>)]) -> Vec<Option<usize>> {
    let mut set_of = vec![None; rows];
    for (set, (_, rows)) in sets.iter().enumerate() {
        rows.iter().for_each(|row| set_of[*row] = Some(set));
    }
    set_of
}

/// Equal texts with different labels.
fn contradictions(data: &Dataset, texts: &Texts) -> Option<String> {
    let mut rows_of: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (row, first) in texts.whole.iter().enumerate() {
        rows_of.entry(*first).or_default().push(row);
    }
    let class = |row: &usize| data.rows[*row].class;
    let torn: Vec<&Vec<usize>> = rows_of
        .values()
        .filter(|rows| rows.iter().any(|row| class(row) != class(&rows[0])))
        .collect();
    if torn.is_empty() {
        return None;
    }
    let place = |row: usize| {
        let row = &data.rows[row];
        format!("line {} ({})", row.line, data.classes[row.class])
    };
    let places = torn.iter().take(SPELLED_OUT).map(|rows| {
        let other = rows.iter().find(|row| class(row) != class(&rows[0]));
        let both = rows[..1].iter().chain(other);
        both.map(|row| place(*row))
            .collect::<Vec<_>>()
            .join(" and ")
    });
    let places: Vec<String> = places.collect();
    Some(format!(
        "{} with different labels ({} rows): {}",
        count(torn.len(), "text"),
        torn.iter().map(|rows| rows.len()).sum::<usize>(),
        listed(&places, torn.len())
    ))
}

fn listed(places: &[String], all: usize) -> String {
    let mut text = places.join("; ");
    if all > places.len() {
        text.push_str(&format!("; and {} more", all - places.len()));
    }
    text
}

/// `1 text`, `2 texts`.
fn count(n: usize, word: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {word}{s}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Row;

    /// `(text, pair, class, group)`.
    type Line<'a> = (&'a str, Option<&'a str>, usize, Option<&'a str>);

    /// Rows from line 2.
    fn dataset(rows: &[Line]) -> Dataset {
        let row = |(i, (text, pair, class, group)): (usize, &Line)| Row {
            text: (*text).to_owned(),
            pair: pair.map(str::to_owned),
            class: *class,
            group: group.map(str::to_owned),
            line: i + 2,
        };
        Dataset {
            rows: rows.iter().enumerate().map(row).collect(),
            classes: vec!["no".into(), "yes".into()],
            parts: Vec::new(),
        }
    }

    fn reviewed(data: &Dataset, sets: &[&[usize]], duplicates: Duplicates) -> Findings {
        let names = ["train", "validation", "test"];
        let sets: Vec<(String, Vec<usize>)> = (names.iter().zip(sets))
            .map(|(name, rows)| ((*name).to_owned(), rows.to_vec()))
            .collect();
        let texts = Texts::of(data);
        review(data, &texts, &sets, duplicates, Path::new("a.csv"), false)
    }

    #[test]
    fn the_same_text_in_two_parts_is_named_with_lines_parts_and_remedies() {
        let data = dataset(&[
            ("a  b", None, 0, None),
            ("other", None, 1, None),
            (" a b\n", None, 0, None),
        ]);
        let found = reviewed(&data, &[&[0], &[1], &[2]], Duplicates::Error);
        assert_eq!(found.warnings, [""; 0]);
        let [problem] = found.problems.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(problem.source, Source::File("a.csv".into(), Some(2)));
        assert_eq!(
            problem.found,
            "1 text in two parts of the split (2 rows): line 2 (train) and line 4 (test)"
        );
        for remedy in ["data.group", "together", "allow"] {
            assert!(problem.expected.contains(remedy), "{}", problem.expected);
        }
        let same = reviewed(&data, &[&[0, 2], &[1], &[]], Duplicates::Error);
        assert_eq!(same, Findings::default());
        let allowed = reviewed(&data, &[&[0], &[1], &[2]], Duplicates::Allow);
        assert!(allowed.problems.is_empty());
        assert!(allowed.warnings[0].starts_with("1 text in two parts"));
    }

    #[test]
    fn texts_are_equal_whatever_their_blanks_and_unicode_forms_but_not_their_case() {
        let data = dataset(&[
            ("caf\u{e9} fine", None, 0, None),
            ("cafe\u{301}\u{a0}ﬁne\t", None, 0, None),
            ("Caf\u{e9} fine", None, 0, None),
        ]);
        assert_eq!(Texts::of(&data).whole, [0, 0, 2]);
        assert_eq!(Texts::of(&data).repeated(), 1);
    }

    #[test]
    fn of_pairs_both_texts_count_and_a_shared_first_text_is_a_warning() {
        let data = dataset(&[
            ("post", Some("sleep"), 0, None),
            ("post", Some("mood"), 1, None),
            ("post", Some("mood "), 1, None),
        ]);
        let apart = reviewed(&data, &[&[0], &[1, 2]], Duplicates::Error);
        assert!(apart.problems.is_empty(), "{apart:?}");
        assert!(apart.warnings[0].starts_with("1 first text in two parts"));
        assert!(apart.warnings[0].contains("data.group"));
        let leak = reviewed(&data, &[&[0, 1], &[2]], Duplicates::Error);
        assert_eq!(leak.problems.len(), 1);
    }

    #[test]
    fn a_group_in_two_parts_is_a_problem_whatever_the_texts() {
        let data = dataset(&[
            ("a", None, 0, Some("p")),
            ("b", None, 0, Some("p")),
            ("c", None, 1, Some("q")),
        ]);
        let found = reviewed(&data, &[&[0], &[1, 2]], Duplicates::Allow);
        assert_eq!(found.problems.len(), 1);
        assert!(found.problems[0].found.starts_with("1 group in two parts"));
    }

    #[test]
    fn equal_texts_with_different_labels_are_counted() {
        let data = dataset(&[
            ("a", None, 0, None),
            ("a", None, 1, None),
            ("a", None, 1, None),
            ("b", None, 1, None),
        ]);
        let found = reviewed(&data, &[&[0, 1, 2, 3]], Duplicates::Error);
        assert_eq!(
            found.warnings,
            ["1 text with different labels (3 rows): line 2 (no) and line 3 (yes)"]
        );
    }

    #[test]
    fn many_leaks_are_counted_and_not_listed() {
        let names: Vec<String> = (0..40).map(|i| format!("text {}", i % 20)).collect();
        let rows: Vec<_> = names.iter().map(|n| (n.as_str(), None, 0, None)).collect();
        let data = dataset(&rows);
        let (a, b): (Vec<usize>, Vec<usize>) = ((0..20).collect(), (20..40).collect());
        let found = reviewed(&data, &[&a, &b], Duplicates::Error);
        assert!(found.problems[0].found.starts_with("20 texts"));
        assert!(found.problems[0].found.ends_with("; and 15 more"));
    }
}
