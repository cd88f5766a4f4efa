//! Which files of a repository a checkpoint needs. Pure.

use crate::task::text_classification::checkpoint::WEIGHTS_FILES;
use crate::task::text_classification::tokenizer::TOKENIZER_FILES;

/// What is needed of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Files, the small ones first.
    pub files: Vec<String>,
    /// The one that lists the weights' shards, which are needed, too.
    pub index: Option<String>,
}

/// What is needed of a repository with these files: the configuration, the tokeniser, and the
/// weights in the first of the forms that are read.
///
/// # Errors
/// What is missing.
pub fn choose(all: &[String]) -> Result<Choice, String> {
    let has = |name: &str| all.iter().any(|file| file == name);
    if !has("config.json") {
        return Err("no config.json".to_owned());
    }
    let mut files = vec!["config.json".to_owned()];
    let tokenizer: Vec<&str> = match has("tokenizer.json") {
        true => TOKENIZER_FILES[..3].to_vec(),
        false => TOKENIZER_FILES.to_vec(),
    };
    files.extend(tokenizer.into_iter().filter(|f| has(f)).map(str::to_owned));
    if files.len() == 1 {
        return Err("no files of a tokeniser".to_owned());
    }
    let Some(weights) = WEIGHTS_FILES.into_iter().find(|file| has(file)) else {
        return Err(format!("none of {}", WEIGHTS_FILES.join(", ")));
    };
    files.push(weights.to_owned());
    let index = weights.ends_with(".index.json").then(|| weights.to_owned());
    Ok(Choice { files, index })
}

/// The shards that an index names, in order.
///
/// # Errors
/// It is no index, or names something outside the repository.
pub fn shards(index: &[u8], all: &[String]) -> Result<Vec<String>, String> {
    let json: serde_json::Value = serde_json::from_slice(index).map_err(|e| e.to_string())?;
    let map = json["weight_map"].as_object().ok_or("no weight_map")?;
    let names: std::collections::BTreeSet<&str> =
        map.values().filter_map(serde_json::Value::as_str).collect();
    match names
        .iter()
        .find(|name| !all.iter().any(|file| file == *name))
    {
        Some(absent) => Err(format!(
            "the shard {absent}, which the repository does not have"
        )),
        None => Ok(names.into_iter().map(str::to_owned).collect()),
    }
}
