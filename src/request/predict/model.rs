//! An exported model of any kind, as far as commands need to know it before it is loaded.

use std::path::{Path, PathBuf};

use config::Problems;
use tabular::{ExportedTable, TABLE_FILE, WEIGHTS_FILE};
use text::export::Exported;
use training::exported::{DETECTION_FILE, problem};

/// A directory that `tune export` wrote, checked.
#[derive(Debug, Clone)]
pub enum AnyExported {
    /// A text classification.
    Text(Box<Exported>),
    /// A model of a table.
    Table(ExportedTable),
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
            return Err(Problems(vec![problem(&detector, None, found, expected)]));
        }
        match dir.join(TABLE_FILE).is_file() {
            true => Ok(AnyExported::Table(ExportedTable::open(dir)?)),
            false => Ok(AnyExported::Text(Box::new(Exported::open(dir)?))),
        }
    }

    /// Where it lies.
    pub fn dir(&self) -> &Path {
        match self {
            AnyExported::Text(exported) => exported.dir(),
            AnyExported::Table(exported) => &exported.dir,
        }
    }

    /// The files that it is read from.
    pub fn files(&self) -> Vec<PathBuf> {
        match self {
            AnyExported::Text(exported) => exported.checkpoint.files().into_iter().collect(),
            AnyExported::Table(exported) => [TABLE_FILE, WEIGHTS_FILE]
                .map(|name| exported.dir.join(name))
                .into(),
        }
    }

    /// The classes; none of a number.
    pub fn labels(&self) -> &[String] {
        match self {
            AnyExported::Text(exported) => &exported.description.labels,
            AnyExported::Table(exported) => &exported.description.labels,
        }
    }

    /// Rows trained on, a class: what the trivial answer knows.
    pub fn train_rows(&self) -> &[usize] {
        match self {
            AnyExported::Text(exported) => &exported.description.train_rows,
            AnyExported::Table(exported) => &exported.description.train_rows,
        }
    }

    /// The column of the class or the number.
    pub fn target(&self) -> &str {
        match self {
            AnyExported::Text(exported) => &exported.description.columns.label,
            AnyExported::Table(exported) => &exported.description.target,
        }
    }
}
