//! A trained model of any kind as a directory of its own, written whole or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use config::{Problem, Problems};
use files::{bounded, replace};
use search::space::Params;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use task::{ExportedModel, TrainedModel};

/// Where the model comes from.
pub const ORIGIN_FILE: &str = "tune.json";

/// What a text classification is, beside its encoder.
pub const HEAD_FILE: &str = "head.json";

/// What a model of a table is.
pub const TABLE_FILE: &str = "tabular.json";

/// What a text detector is.
pub const DETECTION_FILE: &str = "detection.json";

/// The weights.
pub const WEIGHTS_FILE: &str = "model.safetensors";

/// The files that say what a model is; an exported directory has one of them.
pub const DESCRIPTIONS: [&str; 3] = [HEAD_FILE, TABLE_FILE, DETECTION_FILE];

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

/// What is said of a trained model beside its weights, by kinds whose files are their own.
pub trait Describes: Serialize + DeserializeOwned {
    /// The file that says it.
    const FILE: &'static str;

    /// What the file is expected to be.
    const EXPECTED: &'static str;

    /// What of it cannot be.
    fn misfit(&self) -> Option<String>;

    /// With these parameters after training.
    #[must_use]
    fn with(self, post: &Params) -> Self;

    /// The classes; none of a number, or of pictures.
    fn labels(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A directory that `tune export` wrote, checked; the weights are not read.
#[derive(Debug, Clone)]
pub struct Described<T> {
    /// Where it lies.
    pub dir: PathBuf,
    /// What it is.
    pub description: T,
}

impl<T: Describes> Described<T> {
    /// Reads a directory.
    ///
    /// # Errors
    /// The problem found, with its file.
    pub fn open(dir: &Path) -> Result<Described<T>, Problems> {
        let file = dir.join(T::FILE);
        let read = || -> Result<T, String> {
            let bytes = bounded::read(&file, bounded::DESCRIPTION).map_err(|e| e.to_string())?;
            let found: T = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
            found.misfit().map_or(Ok(found), Err)
        };
        let description = read().map_err(|found| Problem::of_file(&file, found, T::EXPECTED))?;
        Ok(Described {
            dir: dir.to_owned(),
            description,
        })
    }

    /// The files that it is read from.
    pub fn files(&self) -> [PathBuf; 2] {
        [T::FILE, WEIGHTS_FILE].map(|name| self.dir.join(name))
    }
}

/// Writes a directory of a model: what is said of it, its weights as they were kept, and where it comes from. See
/// [`task::Preparation::export`].
///
/// # Errors
/// See [`directory`]; or what is kept beside the weights is something else.
pub fn export<T: Describes>(
    model: &TrainedModel<'_>,
    (dir, force): (&Path, bool),
    told: &mut dyn FnMut(u64),
) -> Result<ExportedModel> {
    let about: T =
        serde_json::from_value(Json::Object(model.about.clone())).with_context(|| {
            let weights = model.weights.display();
            format!("what is kept beside {weights} is not {}", T::EXPECTED)
        })?;
    let post: Params = match model.about.get("post") {
        Some(post) => serde_json::from_value(post.clone())?,
        None => Params::new(),
    };
    let about = about.with(&post);
    let json = serde_json::to_value(&about)?;
    directory(dir, force, &mut |partial| {
        told(fs::metadata(model.weights)?.len());
        let write =
            |name: &str, content: &Json| fs::write(partial.join(name), format!("{content:#}\n"));
        write(T::FILE, &json)?;
        write(ORIGIN_FILE, model.origin)?;
        let weights = partial.join(WEIGHTS_FILE);
        fs::copy(model.weights, &weights)?;
        // They were written for nobody else to read.
        fs::set_permissions(&weights, fs::metadata(partial.join(T::FILE))?.permissions())?;
        Ok(())
    })?;
    Ok(ExportedModel {
        labels: about.labels(),
        transformers: None,
        note: format!("{} says what the weights are of", T::FILE),
    })
}
