//! An exported model of any kind, as far as commands need to know it before it is loaded.

use std::path::{Path, PathBuf};

use config::{Problem, Problems};
use tabular::ExportedTable;
use text::export::Exported;
use training::exported::{DETECTION_FILE, TABLE_FILE};

/// A directory that `tune export` wrote, checked.
#[derive(Debug, Clone)]
pub enum AnyExported {
    /// A text classification.
    Text(Box<Exported>),
    /// A model of a table.
    Table(ExportedTable),
}

/// What is known of a model of any kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known<'a> {
    /// Where it lies.
    pub dir: &'a Path,
    /// The classes; none of a number.
    pub labels: &'a [String],
    /// Rows trained on, a class: what the trivial answer knows.
    pub train_rows: &'a [usize],
    /// The column of the class or the number.
    pub target: &'a str,
}

impl AnyExported {
    /// Reads a directory. The weights themselves are not read.
    ///
    /// # Errors
    /// Every problem found, with its file.
    pub fn open(dir: &Path) -> Result<AnyExported, Problems> {
        let detector = dir.join(DETECTION_FILE);
        if detector.is_file() {
            let found = "a text detector, which reads no rows".to_owned();
            let expected = "a text classification or a model of a table; tune predict DIR PICTURES shows what a detector finds";
            return Err(Problem::of_file(&detector, found, expected).into());
        }
        match dir.join(TABLE_FILE).is_file() {
            true => Ok(AnyExported::Table(ExportedTable::open(dir)?)),
            false => Ok(AnyExported::Text(Box::new(Exported::open(dir)?))),
        }
    }

    /// What is known of it.
    pub fn known(&self) -> Known<'_> {
        match self {
            AnyExported::Text(exported) => Known {
                dir: exported.dir(),
                labels: &exported.description.labels,
                train_rows: &exported.description.train_rows,
                target: &exported.description.columns.label,
            },
            AnyExported::Table(exported) => Known {
                dir: &exported.dir,
                labels: &exported.description.labels,
                train_rows: &exported.description.train_rows,
                target: &exported.description.target,
            },
        }
    }

    /// The files that it is read from.
    pub fn files(&self) -> Vec<PathBuf> {
        match self {
            AnyExported::Text(exported) => exported.checkpoint.files().into_iter().collect(),
            AnyExported::Table(exported) => exported.files().into(),
        }
    }
}
