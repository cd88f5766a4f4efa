//! Texts as token ids that the model can read.

use crate::checkpoint::Checkpoint;
use crate::data::Row;
use crate::tokens::{Tokenised, Tokens};
use messages::exit::Failure;

/// Each row's tokens, at most `max_length`, and how many rows were cut; of a pair the longer text is cut first.
///
/// # Errors
/// The tokeniser cannot be read, or a row has ids that the model does not know; names the row.
pub fn tokens(
    checkpoint: &Checkpoint,
    rows: &[Row],
    max_length: usize,
) -> Result<(Vec<Tokens>, usize), Failure> {
    let failed = |e: anyhow::Error| Failure::input(format!("{e:#}"));
    let mut tokenised = Tokenised::new(&checkpoint.dir, &[]).map_err(failed)?;
    let special = tokenised.special_tokens(rows.iter().any(|row| row.pair.is_some()));
    if max_length <= special {
        return Err(Failure::input(format!(
            "--max-length: found {max_length}, expected at least {}: {special} special tokens are in each row",
            special + 1
        )));
    }
    tokenised.replace(rows).map_err(failed)?;
    let all = tokenised.cut(rows, max_length).map_err(failed)?;
    for (row, tokens) in all.iter().enumerate() {
        if let Some(found) = unknown(checkpoint, tokens) {
            return Err(Failure::input(format!("row {}: {found}", row + 1)));
        }
    }
    let longer = |tokens: &&Tokens| tokens.ids.len() > max_length;
    let cut = tokenised.full.iter().filter(longer).count();
    Ok((all, cut))
}

/// What the model cannot read of a row.
fn unknown(checkpoint: &Checkpoint, tokens: &Tokens) -> Option<String> {
    let (config, name) = (&checkpoint.config, &checkpoint.name);
    let over = |ids: &[u32], limit: usize| ids.iter().find(|id| **id as usize >= limit).copied();
    if tokens.ids.is_empty() {
        return Some("no token at all".to_owned());
    }
    if let Some(id) = over(&tokens.ids, config.vocab_size) {
        return Some(format!(
            "token id {id}, but the model {name} has a vocabulary of {}",
            config.vocab_size
        ));
    }
    let types = config.token_types()?;
    let kind = over(&tokens.types, types)?;
    Some(format!(
        "token type {kind}, but the model {name} knows {types}"
    ))
}
