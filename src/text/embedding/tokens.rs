//! Texts as token ids that the model can read.

use tokenizers::EncodeInput;

use super::Plan;
use crate::texts::Text;
use crate::tokens::{Tokens, chunks, special_tokens};
use messages::exit::Failure;

/// Each row's tokens, and how many rows were cut; of a pair the longer text is cut first.
///
/// # Errors
/// The tokeniser cannot be read, or a row has ids that the model does not know; names the row.
pub fn tokens(plan: &Plan<'_>) -> Result<(Vec<Tokens>, usize), Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::input(format!("the tokeniser: {e}"));
    let tokenizer =
        (plan.checkpoint.tokenizer.load()).map_err(|e| Failure::input(format!("{e:#}")))?;
    let special = special_tokens(&tokenizer, plan.rows.iter().any(|(_, pair)| pair.is_some()));
    if plan.max_length <= special {
        return Err(Failure::input(format!(
            "--max-length: found {}, expected at least {}: {special} special tokens are in each row",
            plan.max_length,
            special + 1
        )));
    }
    let mut all = Vec::with_capacity(plan.rows.len());
    let mut cut = 0;
    let bytes = |(text, pair): &Text| text.len() + pair.as_ref().map_or(0, String::len);
    for chunk in chunks(plan.rows, bytes) {
        let inputs: Vec<EncodeInput> = (chunk.iter())
            .map(|(text, pair)| match pair {
                Some(pair) => EncodeInput::Dual(text.as_str().into(), pair.as_str().into()),
                None => EncodeInput::Single(text.as_str().into()),
            })
            .collect();
        let encodings = tokenizer
            .encode_batch_fast(inputs, true)
            .map_err(|e| failed(&e))?;
        for ((text, pair), encoding) in chunk.iter().zip(&encodings) {
            all.push(match encoding.len() <= plan.max_length {
                true => Tokens::from(encoding),
                false => {
                    cut += 1;
                    let texts = (text.as_str(), pair.as_deref());
                    super::super::tokens::cut(&tokenizer, texts, encoding.len(), plan.max_length)
                        .map_err(|e| Failure::input(format!("{e:#}")))?
                }
            });
        }
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
