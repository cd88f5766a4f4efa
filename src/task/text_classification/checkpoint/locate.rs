//! From a model's name to its directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::problem;
use crate::config::Problem;

/// The directories in which Hugging Face's libraries keep models, from the environment.
pub fn cache_directories() -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let home = |tail: &str| variable("HOME").map(|h| PathBuf::from(h).join(tail));
    [
        variable("HF_HUB_CACHE").map(PathBuf::from),
        variable("HF_HOME").map(|h| PathBuf::from(h).join("hub")),
        home(".cache/huggingface/hub"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The directory of a model: its entry in `models`, else the snapshot that `refs/main` names in
/// one of the caches, else the newest snapshot there.
///
/// # Errors
/// It is in none of them; says where was looked.
pub fn locate(
    name: &str,
    models: &BTreeMap<String, PathBuf>,
    caches: &[PathBuf],
) -> Result<PathBuf, Problem> {
    if let Some(dir) = models.get(name) {
        return Ok(dir.clone());
    }
    let folder = format!("models--{}", name.replace('/', "--"));
    for cache in caches {
        if let Some(dir) = snapshot(&cache.join(&folder)) {
            return Ok(dir);
        }
    }
    let known: Vec<&str> = models.keys().map(String::as_str).collect();
    let looked: Vec<String> = caches
        .iter()
        .map(|c| c.join(&folder).display().to_string())
        .collect();
    Err(problem(
        Path::new(looked.first().map_or(folder.as_str(), String::as_str)),
        "model.name",
        format!("the model {name}, which is not here"),
        format!(
            "a name of [models] ({}), or a model in the Hugging Face cache (looked in {})",
            if known.is_empty() {
                "empty".to_owned()
            } else {
                known.join(", ")
            },
            looked.join(", ")
        ),
    ))
}

fn snapshot(model: &Path) -> Option<PathBuf> {
    let snapshots = model.join("snapshots");
    if let Ok(commit) = std::fs::read_to_string(model.join("refs/main")) {
        let dir = snapshots.join(commit.trim());
        if !commit.trim().is_empty() && dir.is_dir() {
            return Some(dir);
        }
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
