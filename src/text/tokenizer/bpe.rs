//! Byte-level BPE as RoBERTa has it, from `vocab.json` and `merges.txt`.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use anyhow::{Context, Result};
use tokenizers::Tokenizer;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::processors::roberta::RobertaProcessing;

use super::added::Added;
use super::failed;
use super::review::MAX_FILE;
use files::bounded;

/// The tokeniser.
///
/// # Errors
/// A file cannot be read, or the merges do not fit the vocabulary.
pub fn tokenizer(vocabulary: &Path, merges: &Path, added: &Added) -> Result<Tokenizer> {
    let vocabulary: HashMap<String, u32> =
        serde_json::from_slice(&bounded::read(vocabulary, MAX_FILE)?)?;
    let text = bounded::read_to_string(merges, MAX_FILE)?.replace("\r\n", "\n");
    // The first line is a version; what follows the last line break is no merge.
    let mut lines: Vec<&str> = text.split('\n').skip(1).collect();
    lines.pop();
    let mut seen = HashSet::new();
    let mut pairs = Vec::with_capacity(lines.len());
    for line in lines {
        let mut parts = line.split_whitespace();
        let pair = parts
            .next()
            .zip(parts.next())
            .filter(|_| parts.next().is_none());
        let (left, right) = pair.with_context(|| format!("the merge {line:?}"))?;
        if seen.insert((left, right)) {
            pairs.push((left.to_owned(), right.to_owned()));
        }
    }
    let model = BPE::builder()
        .vocab_and_merges(vocabulary.into_iter().collect::<Vocab>(), pairs)
        .build()
        .map_err(failed)?;
    let prefix = added.switch("add_prefix_space").unwrap_or(false);
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_pre_tokenizer(Some(ByteLevel::default().add_prefix_space(prefix)));
    added.add_to(&mut tokenizer)?;
    let id = |key: &str| {
        let word = added.word(key).to_owned();
        let id = tokenizer
            .token_to_id(&word)
            .with_context(|| format!("no token {word}"))?;
        anyhow::Ok((word, id))
    };
    let around =
        RobertaProcessing::new(id("sep_token")?, id("cls_token")?).add_prefix_space(prefix);
    tokenizer.with_post_processor(Some(around));
    Ok(tokenizer)
}
