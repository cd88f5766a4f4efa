//! Rows as token ids.

use std::path::Path;

use tokenizers::{EncodeInput, Encoding, PostProcessor, Tokenizer, TruncationDirection};

use super::data::Row;
use super::tokenizer::{TokenizerFiles, failed};

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

/// Bytes of texts handed to the tokeniser at a time, unless one alone has more. It keeps, until it has
/// done with all of them, where each byte came from and every token's text.
const CHUNK_BYTES: usize = 1 << 20;

/// Parts of rows, whose texts have so many bytes, for the tokeniser.
fn chunks<T>(rows: &[T], bytes: impl Fn(&T) -> usize) -> impl Iterator<Item = &[T]> {
    let mut rest = rows;
    std::iter::from_fn(move || {
        let mut sum = 0;
        let fits = rest.iter().take(CHUNK).take_while(|row| {
            sum += bytes(row);
            sum <= CHUNK_BYTES
        });
        let count = fits.count().max(1);
        let (chunk, behind) = rest.split_at_checked(count)?;
        rest = behind;
        Some(chunk)
    })
}

impl Tokenised {
    /// Reads the tokeniser of a checkpoint's directory and encodes every row at full length; the
    /// files' own truncation and padding are switched off.
    ///
    /// # Errors
    /// The files cannot be read, or a text cannot be encoded.
    pub fn new(dir: &Path, rows: &[Row]) -> anyhow::Result<Tokenised> {
        let files = TokenizerFiles::find(dir)
            .map_err(|absent| anyhow::anyhow!("no {} in {}", absent.join(", "), dir.display()))?;
        let mut tokenised = Tokenised {
            tokenizer: files.load()?,
            full: Vec::new(),
        };
        tokenised.replace(rows)?;
        Ok(tokenised)
    }

    /// Encodes other rows in place of those that it has.
    ///
    /// # Errors
    /// A text cannot be encoded.
    pub fn replace(&mut self, rows: &[Row]) -> anyhow::Result<()> {
        self.full.clear();
        let bytes = |row: &Row| row.text.len() + row.pair.as_ref().map_or(0, String::len);
        for chunk in chunks(rows, bytes) {
            let inputs: Vec<EncodeInput> = chunk.iter().map(input).collect();
            let encodings = (self.tokenizer)
                .encode_batch_fast(inputs, true)
                .map_err(failed)?;
            self.full.extend(encodings.iter().map(Tokens::from));
        }
        Ok(())
    }

    /// The longest row, in tokens.
    pub fn longest(&self) -> usize {
        self.full.iter().map(|t| t.ids.len()).max().unwrap_or(0)
    }

    /// Each row cut at `max_length` tokens, its special tokens kept. Of a pair the longer text is
    /// cut first; where both are longer than half of the room, an odd token goes to the longer text,
    /// of equals to the second.
    ///
    /// # Errors
    /// `max_length` leaves no room beside the special tokens.
    pub fn cut(&self, rows: &[Row], max_length: usize) -> anyhow::Result<Vec<Tokens>> {
        rows.iter()
            .zip(&self.full)
            .map(|(row, full)| match full.ids.len() <= max_length {
                true => Ok(full.clone()),
                false => {
                    let texts = (row.text.as_str(), row.pair.as_deref());
                    cut(&self.tokenizer, texts, full.ids.len(), max_length)
                }
            })
            .collect()
    }
}

impl Tokenised {
    /// How many special tokens a row has.
    pub fn special_tokens(&self, pair: bool) -> usize {
        special_tokens(&self.tokenizer, pair)
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
        let texts = (row.text.as_str(), row.pair.as_deref());
        let (first, second, room) = apart(&self.tokenizer, texts, full, max_length)?;
        let other = second.as_ref().map_or(0, Encoding::len);
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

/// How many special tokens a tokeniser adds to a row.
pub(super) fn special_tokens(tokenizer: &Tokenizer, pair: bool) -> usize {
    let processor = tokenizer.get_post_processor();
    processor.map_or(0, |processor| processor.added_tokens(pair))
}

/// The tokens of a text and a second one, cut at `max_length`; whole they are `full`, which is more.
///
/// The tokeniser's own truncation is not used: it cuts each text at the room of both before it
/// compares their lengths, so that two long texts count as equals.
///
/// # Errors
/// `max_length` leaves no room beside the special tokens, or a text cannot be encoded.
fn cut(
    tokenizer: &Tokenizer,
    texts: (&str, Option<&str>),
    full: usize,
    max_length: usize,
) -> anyhow::Result<Tokens> {
    let (mut first, mut second, room) = apart(tokenizer, texts, full, max_length)?;
    let other = second.as_ref().map_or(0, Encoding::len);
    let (of_first, of_second) = shares(first.len(), other, room);
    first.truncate(of_first, 0, TruncationDirection::Right);
    if let Some(second) = &mut second {
        second.truncate(of_second, 0, TruncationDirection::Right);
    }
    let whole = tokenizer.post_process(first, second, true);
    Ok(Tokens::from(&whole.map_err(failed)?))
}

/// What two texts keep of a room that is less than both.
fn shares(first: usize, second: usize, room: usize) -> (usize, usize) {
    let shorter = first.min(second).min(room / 2);
    match first > second {
        true => (room - shorter, shorter),
        false => (shorter, room - shorter),
    }
}

/// The texts without special tokens, and the room that those leave; with them they are `full` tokens.
fn apart(
    tokenizer: &Tokenizer,
    (text, pair): (&str, Option<&str>),
    full: usize,
    max_length: usize,
) -> anyhow::Result<(Encoding, Option<Encoding>, usize)> {
    let alone = |text: &str| tokenizer.encode_fast(text, false).map_err(failed);
    let first = alone(text)?;
    let second = pair.map(alone).transpose()?.map(|mut second| {
        // Where nothing else gives types.
        second.set_type_ids(vec![1; second.len()]);
        second
    });
    let special = full.saturating_sub(first.len() + second.as_ref().map_or(0, Encoding::len));
    match max_length.checked_sub(special) {
        Some(room) if room > 0 => Ok((first, second, room)),
        Some(_) | None => {
            anyhow::bail!("tok.max_length = {max_length}: {special} special tokens are in each row")
        }
    }
}

fn input(row: &Row) -> EncodeInput<'_> {
    match &row.pair {
        Some(pair) => EncodeInput::Dual(row.text.as_str().into(), pair.as_str().into()),
        None => EncodeInput::Single(row.text.as_str().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_to_the_tokeniser_in_parts_of_so_many_rows_and_bytes() {
        let of = |rows: &[usize]| -> Vec<usize> {
            chunks(rows, |bytes| *bytes).map(<[usize]>::len).collect()
        };
        assert_eq!(of(&[]), [0usize; 0]);
        assert_eq!(of(&vec![1; 2 * CHUNK + 3]), [CHUNK, CHUNK, 3]);
        let half = CHUNK_BYTES / 2;
        assert_eq!(of(&[half, half, 1, half, half, 1]), [2, 2, 2]);
        assert_eq!(of(&[9 * half, 1, 9 * half, 9 * half]), [1, 1, 1, 1]);
    }

    #[test]
    fn two_long_texts_share_the_room_as_the_fast_tokenisers_of_transformers_do() {
        // Lengths, room, and what transformers 4.57 keeps.
        for (first, second, room, kept) in [
            (30, 20, 11, (6, 5)),
            (20, 30, 11, (5, 6)),
            (20, 20, 11, (5, 6)),
            (21, 20, 11, (6, 5)),
            (30, 20, 12, (6, 6)),
            (30, 4, 11, (7, 4)),
            (4, 30, 11, (4, 7)),
            (6, 30, 11, (5, 6)),
            (30, 6, 11, (6, 5)),
            (6, 5, 10, (5, 5)),
            (30, 20, 1, (1, 0)),
            (20, 20, 1, (0, 1)),
            (1, 30, 3, (1, 2)),
            (30, 0, 4, (4, 0)),
        ] {
            assert_eq!(shares(first, second, room), kept, "{first} {second} {room}");
        }
    }
}
