//! Which files of a repository a checkpoint needs. Pure.

use std::collections::BTreeSet;

use crate::checkpoint::WEIGHTS_FILES;
use crate::tokenizer::TOKENIZER_FILES;
use files::name;

/// What an index of shards ends in; the files that it names are needed, too.
pub const INDEX: &str = ".index.json";

/// Most shards; the largest models have some hundred.
const MAX_SHARDS: usize = 1000;

/// What is needed of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Files, the small ones first.
    pub files: Vec<String>,
    /// The last of them: the weights, or the index of their shards.
    pub weights: String,
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
    let weights = weights.to_owned();
    Ok(Choice { files, weights })
}

/// The shards that an index names, in order; `named` is its own name. They end as the weights do that it is an index of:
/// no shard is the configuration, or the index itself.
///
/// # Errors
/// It is no index, or names what is no file of weights of the repository.
pub fn shards(index: &[u8], all: &[String], named: &str) -> Result<Vec<String>, String> {
    let weights = named.strip_suffix(INDEX).unwrap_or(named);
    let ending = weights.rsplit('.').next().unwrap_or(weights);
    let all: BTreeSet<&str> = all.iter().map(String::as_str).collect();
    let json: serde_json::Value = serde_json::from_slice(index).map_err(|e| e.to_string())?;
    let map = json["weight_map"].as_object().ok_or("no weight_map")?;
    let mut shards = BTreeSet::new();
    for shard in map.values() {
        let bad = |why: &str| {
            format!(
                "the shard {:?}: {why}",
                super::short(shard.as_str().unwrap_or(""))
            )
        };
        let shard = shard.as_str().ok_or_else(|| bad("no name"))?;
        if !shards.insert(shard) {
            continue;
        }
        name::check(shard).map_err(|why| bad(&why.to_string()))?;
        if shard.rsplit_once('.').is_none_or(|(_, end)| end != ending) {
            return Err(bad(&format!("expected a name that ends in .{ending}")));
        }
        if !all.contains(shard) {
            return Err(bad("the repository does not have it"));
        }
    }
    match shards.len() {
        0 => Err("no shards".to_owned()),
        count if count > MAX_SHARDS => {
            Err(format!("{count} shards, expected at most {MAX_SHARDS}"))
        }
        _ => Ok(shards.into_iter().map(str::to_owned).collect()),
    }
}
