//! A trained model of any kind as a directory of its own, written whole or not at all.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use config::{Problem, Source};
use files::replace;

/// Where the model comes from.
pub const ORIGIN_FILE: &str = "tune.json";

/// What a text classification is, beside its encoder.
pub const HEAD_FILE: &str = "head.json";

/// What a model of a table is.
pub const TABLE_FILE: &str = "tabular.json";

/// The files that say what a model is; an exported directory has one of them.
pub const DESCRIPTIONS: [&str; 2] = [HEAD_FILE, TABLE_FILE];

/// Whether a directory may be written to: it is not there, is empty, or, where `force`, holds an earlier
/// export.
///
/// # Errors
/// It may not; says why.
pub fn may_write(dir: &Path, force: bool) -> Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    ensure!(
        dir.is_dir(),
        "{} is no directory; expected one that is new or empty",
        dir.display()
    );
    let empty = fs::read_dir(dir)
        .with_context(|| dir.display().to_string())?
        .next()
        .is_none();
    let described = DESCRIPTIONS
        .into_iter()
        .any(|file| dir.join(file).is_file());
    let exported = described && dir.join(ORIGIN_FILE).is_file();
    match (empty, force, exported) {
        (true, ..) | (false, true, true) => Ok(()),
        (false, true, false) => bail!(
            "{} holds other files than those of an export, which --force does not delete; expected \
             a directory that is new, empty or an earlier export",
            dir.display()
        ),
        (false, false, _) => bail!(
            "{} is not empty; expected a new directory, or --force to replace an earlier export",
            dir.display()
        ),
    }
}

/// A directory that `fill` writes. It appears at once, when it is whole and on the disk; what was there before is gone
/// only then.
///
/// # Errors
/// See [`may_write`]; or writing failed.
pub fn directory<T>(
    dir: &Path,
    force: bool,
    fill: &mut dyn FnMut(&Path) -> Result<T>,
) -> Result<T> {
    may_write(dir, force)?;
    let failed = || dir.display().to_string();
    // What is incomplete is of no use: it is deleted with the value that holds it.
    let place = replace::workplace(dir, "partial").with_context(failed)?;
    // The place itself is for nobody else to read.
    let partial = place.path().join("model");
    fs::create_dir(&partial).with_context(failed)?;
    let description = fill(&partial)?;
    // Once more: the work may have taken long.
    may_write(dir, force)?;
    replace::directory_by(&partial, dir).with_context(failed)?;
    Ok(description)
}

/// A problem with a file of an exported directory.
pub fn problem(file: &Path, key: Option<&str>, found: String, expected: &str) -> Problem {
    Problem {
        source: Source::File(file.to_owned(), None),
        key: key.map(str::to_owned),
        found,
        expected: expected.to_owned(),
    }
}
