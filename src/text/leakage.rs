//! Whether one part of the split knows what another one asks: the same text, or rows of the same
//! group, in two of them. Pure.

use std::collections::HashMap;
use std::path::Path;

use unicode_normalization::UnicodeNormalization;

use super::data::Dataset;
use config::{Problem, Source, StudySpec};
use search::space::Value;
use training::leakage::{clash, count, groups_apart, set_of};

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
pub struct TextIds {
    /// By row, of the first text alone.
    pub first: Vec<usize>,
    /// By row, of the text with its pair.
    pub whole: Vec<usize>,
}

impl TextIds {
    /// Of all rows; a number is that of the first row with the text.
    pub fn of(data: &Dataset) -> TextIds {
        let (mut first, mut whole) = (HashMap::new(), HashMap::new());
        let mut texts = TextIds {
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
pub struct Leaks {
    /// What keeps the study from being started.
    pub problems: Vec<Problem>,
    /// What people should know.
    pub warnings: Vec<String>,
}

/// Looks for texts and groups in two of `sets` (their names and rows), and for equal texts with
/// different labels. `given`: the sets are a column's, not drawn.
pub fn review(
    data: &Dataset,
    texts: &TextIds,
    sets: &[(String, Vec<usize>)],
    duplicates: Duplicates,
    path: &Path,
    given: bool,
) -> Leaks {
    let mut findings = Leaks::default();
    let set_of = set_of(data.rows.len(), sets);
    let apart = groups_apart(path, &data.samples, sets);
    findings.problems.extend(apart);
    let samples = &data.samples;
    if let Some(leak) = clash(samples, |row| Some(texts.whole[row]), |row| set_of[row]) {
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
                let place = Source::File(path.to_owned(), Some(leak.line));
                let found = format!("{what}: {}", leak.text);
                let problem = Problem::new(&place, "data.duplicates", found, expected);
                findings.problems.push(problem);
            }
        }
    } else if let Some(leak) = clash(samples, |row| Some(texts.first[row]), |row| set_of[row]) {
        findings.warnings.push(format!(
            "{} in two parts of the split with different second texts ({} rows): {}; name the \
             column that ties them together in data.group, or set data.duplicates = \"together\"",
            count(leak.keys, "first text"),
            leak.rows,
            leak.text
        ));
    }
    let label = |row: usize| Some(samples.classes[samples.class[row]].as_str());
    if let Some(clash) = clash(samples, |row| Some(texts.whole[row]), label) {
        findings.warnings.push(format!(
            "{} with different labels ({} rows): {}",
            count(clash.keys, "text"),
            clash.rows,
            clash.text
        ));
    }
    findings
}

const DRAWN: &str = "each text in one part: name the column that ties rows together in data.group, \
                     remove the duplicates, or set data.duplicates = \"together\" (equal texts are \
                     kept in one part) or \"allow\" (a warning)";
const GIVEN: &str = "each text in one part: mend data.split.column, remove the duplicates, or set \
                     data.duplicates = \"allow\" (a warning)";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Row;
    use training::split::Samples;

    /// `(text, pair, class, group)`.
    type Line<'a> = (&'a str, Option<&'a str>, usize, Option<&'a str>);

    /// Rows from line 2.
    fn dataset(rows: &[Line]) -> Dataset {
        let row = |(text, pair, ..): &Line| Row {
            text: (*text).to_owned(),
            pair: pair.map(str::to_owned),
        };
        let groups = rows.iter().filter_map(|row| row.3);
        Dataset {
            rows: rows.iter().map(row).collect(),
            samples: Samples {
                classes: vec!["no".into(), "yes".into()],
                class: rows.iter().map(|row| row.2).collect(),
                groups: groups.map(str::to_owned).collect(),
                parts: Vec::new(),
                lines: (2..2 + rows.len()).collect(),
            },
        }
    }

    fn reviewed(data: &Dataset, sets: &[&[usize]], duplicates: Duplicates) -> Leaks {
        let names = ["train", "validation", "test"];
        let sets: Vec<(String, Vec<usize>)> = (names.iter().zip(sets))
            .map(|(name, rows)| ((*name).to_owned(), rows.to_vec()))
            .collect();
        let texts = TextIds::of(data);
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
        assert_eq!(same, Leaks::default());
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
        assert_eq!(TextIds::of(&data).whole, [0, 0, 2]);
        assert_eq!(TextIds::of(&data).repeated(), 1);
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
