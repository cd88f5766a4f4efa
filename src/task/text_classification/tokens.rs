//! Rows as token ids.

use std::path::Path;

use tokenizers::{
    EncodeInput, Encoding, PostProcessor, Tokenizer, TruncationDirection, TruncationParams,
    TruncationStrategy,
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

impl Tokenised {
    /// How many special tokens a row has.
    pub fn special_tokens(&self, pair: bool) -> usize {
        let processor = self.tokenizer.get_post_processor();
        processor.map_or(0, |processor| processor.added_tokens(pair))
    }

    /// The windows of each row. A row of at most `max_length` tokens is one window; of a longer one
    /// the longer text (the first, of equals) is laid out in windows of `max_length` tokens with
    /// the row's special tokens and, of a pair, the other text in each. Neighbours share `stride`
    /// tokens, or half of what they have room for where they have no more room than that. With `stride` 0 rows are [cut].
    ///
    /// [cut]: Tokenised::cut
    ///
    /// # Errors
    /// `max_length` leaves no room beside the special tokens.
    pub fn windows(
        &self,
        rows: &[Row],
        max_length: usize,
        stride: usize,
    ) -> anyhow::Result<Vec<Vec<Tokens>>> {
        if stride == 0 {
            let cut = self.cut(rows, max_length)?;
            return Ok(cut.into_iter().map(|tokens| vec![tokens]).collect());
        }
        rows.iter()
            .zip(&self.full)
            .map(|(row, full)| match full.ids.len() <= max_length {
                true => Ok(vec![full.clone()]),
                false => self.laid_out(row, full.ids.len(), max_length, stride),
            })
            .collect()
    }

    /// The windows of one row, which has `full` tokens.
    fn laid_out(
        &self,
        row: &Row,
        full: usize,
        max_length: usize,
        stride: usize,
    ) -> anyhow::Result<Vec<Tokens>> {
        let alone = |text: &str| self.tokenizer.encode_fast(text, false).map_err(failed);
        let first = alone(&row.text)?;
        let second = row.pair.as_deref().map(alone).transpose()?;
        let other = second.as_ref().map_or(0, Encoding::len);
        let special = full.saturating_sub(first.len() + other);
        let Some(room) = max_length.checked_sub(special).filter(|room| *room > 0) else {
            anyhow::bail!(
                "tok.max_length = {max_length}: {special} special tokens are in each row"
            );
        };
        let second_is_longer = other > first.len();
        let (long, short) = match second {
            Some(second) if second_is_longer => (second, Some(first)),
            second => (first, second),
        };
        // The shorter text is in every window: half of the room is the longer one's at least.
        let short = short.map(|mut short| {
            short.truncate(short.len().min(room / 2), 0, TruncationDirection::Right);
            short
        });
        let room = room - short.as_ref().map_or(0, Encoding::len);
        let mut long = long;
        // Beside a long second text there may be less room than they are to share.
        let stride = if stride < room { stride } else { room / 2 };
        long.truncate(room, stride, TruncationDirection::Right);
        let further = long.take_overflowing();
        std::iter::once(long)
            .chain(further)
            .map(|window| {
                let (first, second) = match (short.clone(), second_is_longer) {
                    (Some(short), true) => (short, Some(window)),
                    (short, _) => (window, short),
                };
                let whole = self.tokenizer.post_process(first, second, true);
                Ok(Tokens::from(&whole.map_err(failed)?))
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
