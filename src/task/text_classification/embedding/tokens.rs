//! Texts as token ids that the model can read.

use tokenizers::{EncodeInput, TruncationDirection, TruncationParams, TruncationStrategy};

use super::Plan;
use crate::exit::Failure;
use crate::task::text_classification::tokens::Tokens;

/// Rows handed to the tokeniser at a time.
const CHUNK: usize = 4096;

/// Each row's tokens, and how many rows were cut; of a pair the longer text is cut first.
///
/// # Errors
/// The tokeniser cannot be read, or a row has ids that the model does not know; names the row.
pub fn tokens(plan: &Plan<'_>) -> Result<(Vec<Tokens>, usize), Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::input(format!("the tokeniser: {e}"));
    let mut tokenizer =
        (plan.checkpoint.tokenizer.load()).map_err(|e| Failure::input(format!("{e:#}")))?;
    tokenizer
        .with_truncation(Some(TruncationParams {
            direction: TruncationDirection::Right,
            max_length: plan.max_length,
            strategy: TruncationStrategy::LongestFirst,
            stride: 0,
        }))
        .map_err(|e| Failure::input(format!("--max-length {}: {e}", plan.max_length)))?;
    let mut all = Vec::with_capacity(plan.rows.len());
    let mut cut = 0;
    for chunk in plan.rows.chunks(CHUNK) {
        let inputs: Vec<EncodeInput> = (chunk.iter())
            .map(|(text, pair)| match pair {
                Some(pair) => EncodeInput::Dual(text.as_str().into(), pair.as_str().into()),
                None => EncodeInput::Single(text.as_str().into()),
            })
            .collect();
        let encodings = tokenizer
            .encode_batch_fast(inputs, true)
            .map_err(|e| failed(&e))?;
        cut += encodings
            .iter()
            .filter(|e| !e.get_overflowing().is_empty())
            .count();
        all.extend(encodings.iter().map(Tokens::from));
    }
    for (row, tokens) in all.iter().enumerate() {
        if let Some(found) = unknown(plan, tokens) {
            return Err(Failure::input(format!("row {}: {found}", row + 1)));
        }
    }
    Ok((all, cut))
}

/// What the model cannot read of a row.
fn unknown(plan: &Plan<'_>, tokens: &Tokens) -> Option<String> {
    let config = &plan.checkpoint.config;
    let name = &plan.checkpoint.name;
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
