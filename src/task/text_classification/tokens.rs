//! Rows as token ids.

use std::path::Path;

use tokenizers::{
    EncodeInput, Encoding, Tokenizer, TruncationDirection, TruncationParams, TruncationStrategy,
};

use super::data::Row;
use super::tokenizer::TokenizerFiles;

/// One row's tokens, special tokens included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Token types: 0 for the first text, 1 for the second.
    pub types: Vec<u32>,
}

impl From<&Encoding> for Tokens {
    fn from(encoding: &Encoding) -> Tokens {
        Tokens {
            ids: encoding.get_ids().to_vec(),
            types: encoding.get_type_ids().to_vec(),
        }
    }
}

/// A tokeniser with every row's tokens at full length.
pub struct Tokenised {
    tokenizer: Tokenizer,
    /// Each row at full length.
    pub full: Vec<Tokens>,
}

/// Rows handed to the tokeniser at a time.
const CHUNK: usize = 4096;

impl Tokenised {
    /// Reads the tokeniser of a checkpoint's directory and encodes every row at full length; the
    /// files' own truncation and padding are switched off.
    ///
    /// # Errors
    /// The files cannot be read, or a text cannot be encoded.
    pub fn new(dir: &Path, rows: &[Row]) -> anyhow::Result<Tokenised> {
        let files = TokenizerFiles::find(dir)
            .map_err(|absent| anyhow::anyhow!("no {} in {}", absent.join(", "), dir.display()))?;
        let tokenizer = files.load()?;
        let mut full = Vec::with_capacity(rows.len());
        for chunk in rows.chunks(CHUNK) {
            let inputs: Vec<EncodeInput> = chunk.iter().map(input).collect();
            let encodings = tokenizer.encode_batch_fast(inputs, true).map_err(failed)?;
            full.extend(encodings.iter().map(Tokens::from));
        }
        Ok(Tokenised { tokenizer, full })
    }

    /// The longest row, in tokens.
    pub fn longest(&self) -> usize {
        self.full.iter().map(|t| t.ids.len()).max().unwrap_or(0)
    }

    /// Each row cut at `max_length` tokens, its special tokens kept; of a pair the longer text is
    /// cut first.
    ///
    /// # Errors
    /// `max_length` leaves no room beside the special tokens.
    pub fn cut(&self, rows: &[Row], max_length: usize) -> anyhow::Result<Vec<Tokens>> {
        let mut tokenizer = self.tokenizer.clone();
        tokenizer
            .with_truncation(Some(TruncationParams {
                direction: TruncationDirection::Right,
                max_length,
                strategy: TruncationStrategy::LongestFirst,
                stride: 0,
            }))
            .map_err(failed)?;
        rows.iter()
            .zip(&self.full)
            .map(|(row, full)| {
                if full.ids.len() <= max_length {
                    return Ok(full.clone());
                }
                let encoding = tokenizer.encode_fast(input(row), true).map_err(failed)?;
                Ok(Tokens::from(&encoding))
            })
            .collect()
    }
}

fn input(row: &Row) -> EncodeInput<'_> {
    match &row.pair {
        Some(pair) => EncodeInput::Dual(row.text.as_str().into(), pair.as_str().into()),
        None => EncodeInput::Single(row.text.as_str().into()),
    }
}

fn failed(error: tokenizers::Error) -> anyhow::Error {
    anyhow::anyhow!("the tokeniser: {error}")
}
