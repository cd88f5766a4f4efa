//! What is wrong with an input, told to people: where, which key, what was found and expected.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use messages::Failure;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// A file, with the line (from 1) where known.
    File(PathBuf, Option<usize>),
    /// A command-line flag, as typed: `--set train.epochs=x`.
    Flag(String),
    /// An environment variable.
    Environment(String),
}

impl Source {
    /// Whether the value stands in the configuration file, so that overrides win over it.
    pub(super) fn is_file(&self) -> bool {
        match self {
            Source::File(_, _) => true,
            Source::Flag(_) | Source::Environment(_) => false,
        }
    }
}

/// One thing wrong with the input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Where.
    pub source: Source,
    /// The dotted key, the column or the row, where there is one.
    pub key: Option<String>,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

impl Problem {
    /// A problem with a key that a file has, or lacks.
    pub fn in_file(
        file: &Path,
        key: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Problem {
        Problem::new(&Source::File(file.to_owned(), None), key, found, expected)
    }

    /// A problem of a file that no key has.
    pub fn of_file(file: &Path, found: impl Into<String>, expected: impl Into<String>) -> Problem {
        Problem::without_key(Source::File(file.to_owned(), None), found, expected)
    }

    /// A problem that no key has.
    pub(super) fn without_key(
        source: Source,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Problem {
        Problem {
            source,
            key: None,
            found: found.into(),
            expected: expected.into(),
        }
    }

    /// A problem with a key.
    pub fn new(
        source: &Source,
        key: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Problem {
        Problem {
            source: source.clone(),
            key: Some(key.into()),
            found: found.into(),
            expected: expected.into(),
        }
    }
}

/// All problems of an input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// `value`, where there are none.
    ///
    /// # Errors
    /// There are some: these.
    pub fn or<T>(self, value: T) -> Result<T, Problems> {
        match self.0.is_empty() {
            true => Ok(value),
            false => Err(self),
        }
    }

    /// Puts the problems of each file in the order of its lines, before those of flags and of the
    /// environment, and drops repetitions. Files stay in the order in which they were first told.
    pub fn sorted(mut self) -> Problems {
        let mut files: Vec<PathBuf> = Vec::new();
        for problem in &self.0 {
            if let Source::File(path, _) = &problem.source
                && !files.contains(path)
            {
                files.push(path.clone());
            }
        }
        self.0.sort_by_key(|p| match &p.source {
            Source::File(path, line) => {
                let file = files.iter().position(|file| file == path);
                (file.unwrap_or(0), line.unwrap_or(usize::MAX))
            }
            Source::Flag(_) => (files.len(), 0),
            Source::Environment(_) => (files.len() + 1, 0),
        });
        let mut told = HashSet::new();
        self.0.retain(|problem| told.insert(problem.clone()));
        self
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems(vec![problem])
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path, Some(line)) => write!(f, "{}:{line}", path.display()),
            Source::File(path, None) => write!(f, "{}", path.display()),
            Source::Flag(text) => f.write_str(text),
            Source::Environment(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.source)?;
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        let (found, expected) = (cut(&self.found), cut(&self.expected));
        write!(f, "found {found}, expected {expected}")
    }
}

/// Most characters of what was found, or expected, that are told.
const TOLD: usize = 2000;

/// What was found may be as long as its file.
fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(TOLD) {
        None => text.into(),
        Some((at, _)) => format!("{}... ({} bytes)", &text[..at], text.len()).into(),
    }
}

/// One line a problem; a header with their number where there are several.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.len() > 1 {
            writeln!(f, "{} problems:", self.0.len())?;
        }
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Bad input ends the command.
impl From<Problems> for Failure {
    fn from(problems: Problems) -> Failure {
        Failure::input(problems.to_string())
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        Failure::input(problem.to_string())
    }
}

/// The candidate that a mistyped `name` most probably means.
pub(super) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let last = |s: &str| s.rsplit('.').next().map(str::to_owned);
    candidates
        .into_iter()
        .map(|c| {
            let same_last = last(c) == last(name);
            let score = strsim::normalized_damerau_levenshtein(name, c);
            (c, if same_last { score.max(0.75) } else { score })
        })
        .filter(|(_, score)| *score >= 0.6)
        .reduce(|best, next| if next.1 > best.1 { next } else { best })
        .map(|(candidate, _)| candidate)
}

/// The command that a mistyped `name` most probably means: these are short, so that many words look like one.
pub fn nearest_command<'a>(
    name: &str,
    commands: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let near = nearest(name, commands)?;
    near.starts_with(name.chars().next()?).then_some(near)
}

/// ` (did you mean X?)`, or nothing.
pub fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates)
        .map(|c| format!(" (did you mean {c}?)"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_text_the_beginning_is_told() {
        let mut problem = low_above_high();
        problem.found = "ä".repeat(1_000_000);
        let told = problem.to_string();
        assert!(
            told.contains("... (2000000 bytes), expected low <= high"),
            "{told}"
        );
        assert!(told.chars().count() < TOLD + 200);
    }

    fn low_above_high() -> Problem {
        Problem::new(
            &Source::File("configs/criteria.toml".into(), Some(12)),
            "optim.lr",
            "low = 1 above high = 0.1",
            "low <= high",
        )
    }

    #[test]
    fn a_problem_is_one_line_with_place_key_found_and_expected() {
        assert_eq!(
            Problems(vec![low_above_high()]).to_string(),
            "configs/criteria.toml:12: optim.lr: found low = 1 above high = 0.1, expected low <= high"
        );
    }

    #[test]
    fn several_problems_have_a_header_with_their_number() {
        let flag = Problem {
            source: Source::Flag("--set train.epochs=x".into()),
            key: None,
            ..low_above_high()
        };
        let text = Problems(vec![flag, low_above_high()]).sorted().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0], "2 problems:");
        assert!(lines[1].starts_with("configs/criteria.toml:12: "));
        assert!(lines[2].starts_with("--set train.epochs=x: found low"));
    }

    #[test]
    fn what_is_found_twice_is_told_once_also_with_another_between() {
        let between = Problem {
            found: "low = -1".into(),
            ..low_above_high()
        };
        let all = vec![low_above_high(), between.clone(), low_above_high()];
        let told = Problems(all).sorted();
        assert_eq!(told, Problems(vec![low_above_high(), between]));
    }

    #[test]
    fn the_nearest_name_is_found_by_letters_or_by_its_last_part() {
        let names = ["train.epochs", "run.trials", "optim.lr"];
        assert_eq!(nearest("train.epoch", names), Some("train.epochs"));
        assert_eq!(nearest("trials", names), Some("run.trials"));
        assert_eq!(nearest("completely.other", names), None);
        let commands = ["logs", "status", "trials"];
        assert_eq!(nearest_command("trails", commands), Some("trials"));
        assert_eq!(nearest_command("bogus", commands), None);
    }
}
