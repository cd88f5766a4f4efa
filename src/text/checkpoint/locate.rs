//! From a model's name to its directory. Nothing here touches the network.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::problem;
use config::Problem;
use files::bounded;
use files::name::inside;

/// Where models are looked for that `[models]` does not name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelPlaces {
    /// `$TUNE_MODELS`: a directory of models, in folders of their own or as in a cache.
    pub models: Option<PathBuf>,
    /// The caches of Hugging Face's libraries, the first one first.
    pub caches: Vec<PathBuf>,
}

impl ModelPlaces {
    /// As variables of the environment say; empty ones count as not set.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> ModelPlaces {
        let path = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let caches = [
            path("HF_HUB_CACHE"),
            path("HF_HOME").map(|home| home.join("hub")),
            path("HOME").map(|home| home.join(".cache/huggingface/hub")),
        ];
        ModelPlaces {
            models: path("TUNE_MODELS"),
            caches: caches.into_iter().flatten().collect(),
        }
    }
}

/// The places that the environment names.
pub fn cache_directories() -> ModelPlaces {
    ModelPlaces::of(|name| std::env::var_os(name))
}

/// The folder of a model in a cache.
pub fn cache_folder(name: &str) -> String {
    format!("models--{}", name.replace('/', "--"))
}

/// The directory of a model: its entry in `models`; the directory that the name is a path of; its
/// folder in `$TUNE_MODELS`; in one of the caches the snapshot that `refs/main` names, else the
/// newest. `NAME@REVISION` means the snapshot of that revision.
///
/// # Errors
/// It is in none of them; says where was looked.
pub fn locate(
    name: &str,
    models: &BTreeMap<String, PathBuf>,
    places: &ModelPlaces,
) -> Result<PathBuf, Problem> {
    if let Some(dir) = models.get(name) {
        return Ok(dir.clone());
    }
    if let Some(dir) = as_path(name) {
        return Ok(dir);
    }
    let (plain, revision) = match name.split_once('@') {
        Some((plain, revision)) => (plain, Some(revision)),
        None => (name, None),
    };
    let mut looked = Vec::new();
    if let Some(place) = &places.models {
        let last = plain.rsplit('/').next().unwrap_or(plain);
        for folder in [plain, last].into_iter().filter(|_| revision.is_none()) {
            let Ok(dir) = inside(place, folder) else {
                continue;
            };
            if dir.join("config.json").is_file() {
                return Ok(dir);
            }
            if !looked.contains(&dir) {
                looked.push(dir);
            }
        }
    }
    for cache in places.models.iter().chain(&places.caches) {
        let Ok(folder) = inside(cache, &cache_folder(plain)) else {
            continue;
        };
        if let Some(dir) = snapshot(&folder, revision) {
            return Ok(dir);
        }
        looked.push(folder);
    }
    let elsewhere = revision.and_then(|revision| other_revisions(plain, revision, &looked));
    Err(elsewhere.unwrap_or_else(|| not_found(name, models, &looked)))
}

/// The model is in a cache, and this revision of it is not; names those that are.
fn other_revisions(name: &str, revision: &str, looked: &[PathBuf]) -> Option<Problem> {
    let names = |dir: PathBuf| -> Vec<String> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter(|entry| entry.path().is_dir() || entry.path().is_file())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    let held = |folder: &&PathBuf| !names(folder.join("snapshots")).is_empty();
    let folder = looked.iter().find(held)?;
    // A name is one of those here where its snapshot is.
    let mut here = names(folder.join("refs"));
    here.retain(|name| snapshot(folder, Some(name)).is_some());
    here.extend(names(folder.join("snapshots")));
    Some(problem(
        folder,
        format!("the revision {revision} of the model {name}, which is not here"),
        format!(
            "a revision that is here ({}); `tune fetch {name}@{revision}` fetches one from the hub",
            here.join(", ")
        ),
    ))
}

fn not_found(name: &str, models: &BTreeMap<String, PathBuf>, looked: &[PathBuf]) -> Problem {
    let known: Vec<&str> = models.keys().map(String::as_str).collect();
    let places: Vec<String> = looked.iter().map(|dir| dir.display().to_string()).collect();
    problem(
        looked.first().map_or(Path::new(name), PathBuf::as_path),
        format!("the model {name}, which is not here: no config.json, no tokeniser, no weights"),
        format!(
            "a name of [models] ({}), a directory, or a model in one of the places where it was \
             looked for ({}); `tune fetch {name}` fetches one from the hub",
            match known.is_empty() {
                true => "empty".to_owned(),
                false => known.join(", "),
            },
            places.join(", ")
        ),
    )
}

/// A name that is a path: one that begins like a path, or of a directory with a `config.json`.
fn as_path(name: &str) -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    if let Some(rest) = name.strip_prefix("~/") {
        return Some(home()?.join(rest));
    }
    let path = PathBuf::from(name);
    let begins = ["/", "./", "../"]
        .iter()
        .any(|start| name.starts_with(start));
    (begins || path.join("config.json").is_file()).then_some(path)
}

/// Longest file that names a commit, in bytes.
const MAX_REF: u64 = 4096;

fn snapshot(model: &Path, revision: Option<&str>) -> Option<PathBuf> {
    let snapshots = model.join("snapshots");
    let of = |commit: &str| inside(&snapshots, commit).ok().filter(|dir| dir.is_dir());
    let reference = inside(&model.join("refs"), revision.unwrap_or("main")).ok()?;
    if let Ok(commit) = bounded::read_to_string(&reference, MAX_REF)
        && let Some(dir) = of(commit.trim())
    {
        return Some(dir);
    }
    if let Some(revision) = revision {
        return of(revision);
    }
    std::fs::read_dir(&snapshots)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .max_by_key(|path| {
            let modified = std::fs::metadata(path).and_then(|m| m.modified()).ok();
            (modified, path.clone())
        })
}
