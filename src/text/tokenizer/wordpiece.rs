//! WordPiece with BERT's normalisation, from `vocab.txt`.

use std::path::Path;

use anyhow::{Result, ensure};
use tokenizers::Tokenizer;
use tokenizers::models::bpe::Vocab;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;

use super::added::Added;
use super::review::MAX_FILE;
use super::{failed, template};
use files::bounded;

/// The tokeniser: a token a line, its id the line's number from 0.
///
/// # Errors
/// The file cannot be read, or lacks a special token.
pub fn tokenizer(file: &Path, added: &Added) -> Result<Tokenizer> {
    let text = bounded::read_to_string(file, MAX_FILE)?;
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let lines = text.strip_suffix('\n').unwrap_or(&text).split('\n');
    // The library's kind of map; it has no other name for it.
    let vocabulary: Vocab = lines
        .zip(0..)
        .map(|(word, id)| (word.to_owned(), id))
        .collect();
    let unknown = added.word("unk_token");
    ensure!(vocabulary.contains_key(unknown), "no line {unknown}");
    let model = WordPiece::builder()
        .vocab(vocabulary)
        .unk_token(unknown.to_owned())
        .build()
        .map_err(failed)?;
    let mut tokenizer = Tokenizer::new(model);
    tokenizer
        .with_normalizer(Some(BertNormalizer::new(
            true,
            added.switch("tokenize_chinese_chars").unwrap_or(true),
            added.switch("strip_accents"),
            added.switch("do_lower_case").unwrap_or(true),
        )))
        .map_err(failed)?;
    tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
    added.add_to(&mut tokenizer)?;
    let (cls, sep) = (added.word("cls_token"), added.word("sep_token"));
    let single = format!("{cls}:0 $A:0 {sep}:0");
    let pair = format!("{single} $B:1 {sep}:1");
    let around = template(&tokenizer, single, pair, [cls, sep])?;
    tokenizer.with_post_processor(Some(around));
    Ok(tokenizer)
}
