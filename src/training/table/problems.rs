//! What is wrong with a file of rows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::{Problem, Problems, Source};

/// Problems of one file. Of each kind only the first few are kept, the others counted.
pub struct FileProblems {
    path: PathBuf,
    problems: Vec<Problem>,
    /// How often each kind (what was found without its details) came up at a row.
    seen: BTreeMap<String, usize>,
    fatal: bool,
}

/// Problems of one kind that are spelled out.
const SPELLED_OUT: usize = 10;

impl FileProblems {
    /// Of the file at this path: none so far.
    pub fn new(path: &Path) -> FileProblems {
        FileProblems {
            path: path.to_owned(),
            problems: Vec::new(),
            seen: BTreeMap::new(),
            fatal: false,
        }
    }

    /// A problem of the whole file: the rows are not looked at.
    pub fn file(&mut self, key: &str, found: String, expected: &str) {
        self.fatal = true;
        self.problems
            .push(Problem::in_file(&self.path, key, found, expected));
    }

    /// A problem of one row; `expected` names the kind.
    pub fn row(&mut self, line: usize, place: String, found: impl Into<String>, expected: &str) {
        let seen = self.seen.entry(expected.to_owned()).or_insert(0);
        *seen += 1;
        if *seen <= SPELLED_OUT {
            let source = Source::File(self.path.clone(), Some(line));
            self.problems
                .push(Problem::new(&source, place, found, expected));
        }
    }

    /// How many problems of rows there are of a kind.
    pub fn of_kind(&self, expected: &str) -> usize {
        self.seen.get(expected).copied().unwrap_or(0)
    }

    /// Nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// A problem of the whole file that explains all those before it.
    pub fn instead(&mut self, key: &str, found: String, expected: &str) {
        self.problems.clear();
        self.seen.clear();
        self.file(key, found, expected);
    }

    /// Adds problems of the same file, of other kinds.
    pub fn extend(&mut self, others: FileProblems) {
        self.problems.extend(others.problems);
        for (expected, seen) in others.seen {
            *self.seen.entry(expected).or_insert(0) += seen;
        }
        self.fatal |= others.fatal;
    }

    /// Whether the file as a whole is wrong.
    pub fn fatal(&self) -> bool {
        self.fatal
    }

    /// A problem of a row behind which none are read.
    pub fn last_row(&mut self, line: usize, place: String, found: String, expected: &str) {
        self.row(line, place, found, expected);
        self.fatal = true;
    }

    /// `found`, unless something is wrong.
    ///
    /// # Errors
    /// All that is wrong; of each kind the first few, and how many more there are.
    pub fn finish<T>(self, found: T) -> Result<T, Problems> {
        self.into_problems().or(found)
    }

    /// All that is wrong; of each kind the first few, and how many more there are.
    pub fn into_problems(mut self) -> Problems {
        for (expected, seen) in &self.seen {
            if *seen > SPELLED_OUT {
                let found = format!("{} more such rows", seen - SPELLED_OUT);
                let more = Problem::of_file(&self.path, found, expected);
                self.problems.push(more);
            }
        }
        Problems(self.problems)
    }
}
