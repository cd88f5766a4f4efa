//! The tokeniser of a checkpoint, from whichever files describe it.
//!
//! `tokenizer.json` says everything. Where there is none, the older files do (a vocabulary, merges,
//! a SentencePiece model), and a tokeniser is put together from them as transformers does it when it
//! converts its slow tokenisers: the ids are the same.

mod added;
mod bpe;
mod review;
mod sentencepiece;
mod wordpiece;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value as Json;
use tokenizers::{Tokenizer, processors::template::TemplateProcessing};

use added::Added;

use files::bounded;

/// The kinds of older files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `vocab.txt`: BERT, ELECTRA.
    WordPiece,
    /// `vocab.json` and `merges.txt`: RoBERTa.
    ByteLevel,
    /// A SentencePiece model with the ids of fairseq: XLM-RoBERTa.
    XlmRoberta,
    /// The same with CamemBERT's order.
    Camembert,
    /// A SentencePiece model as it is: DeBERTa v2 and v3.
    DebertaV2,
}

impl Kind {
    /// By the class that `tokenizer_config.json` names, else by the architecture.
    fn of(class: Option<&str>, model_type: &str) -> Option<Kind> {
        let by_class = class.and_then(|class| match class.trim_end_matches("Fast") {
            "BertTokenizer" | "ElectraTokenizer" => Some(Kind::WordPiece),
            "RobertaTokenizer" => Some(Kind::ByteLevel),
            "XLMRobertaTokenizer" => Some(Kind::XlmRoberta),
            "CamembertTokenizer" => Some(Kind::Camembert),
            "DebertaV2Tokenizer" => Some(Kind::DebertaV2),
            _ => None,
        });
        by_class.or(match model_type {
            "bert" | "electra" => Some(Kind::WordPiece),
            "roberta" => Some(Kind::ByteLevel),
            "xlm-roberta" => Some(Kind::XlmRoberta),
            "camembert" => Some(Kind::Camembert),
            "deberta-v2" => Some(Kind::DebertaV2),
            _ => None,
        })
    }

    /// The files that it needs; of the names of one, the first that is there.
    fn needs(self) -> &'static [&'static [&'static str]] {
        match self {
            Kind::WordPiece => &[&["vocab.txt"]],
            Kind::ByteLevel => &[&["vocab.json"], &["merges.txt"]],
            Kind::XlmRoberta | Kind::Camembert => {
                &[&["sentencepiece.bpe.model", "spiece.model", "spm.model"]]
            }
            Kind::DebertaV2 => &[&["spm.model", "spiece.model", "sentencepiece.bpe.model"]],
        }
    }
}

/// Every file that a tokeniser may be made of, the one that says everything first.
pub const TOKENIZER_FILES: [&str; 10] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spm.model",
    "sentencepiece.bpe.model",
    "spiece.model",
];

/// The files of a checkpoint's tokeniser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizerFiles {
    /// Every file that is read; the one that matters most first.
    pub files: Vec<PathBuf>,
    /// What they are; nothing for `tokenizer.json`.
    kind: Option<Kind>,
}

impl TokenizerFiles {
    /// The files of the tokeniser in a directory.
    ///
    /// # Errors
    /// The names of the files that are missing.
    pub fn find(dir: &Path) -> Result<TokenizerFiles, Vec<String>> {
        let all = dir.join("tokenizer.json");
        if all.is_file() {
            return Ok(TokenizerFiles {
                files: vec![all],
                kind: None,
            });
        }
        let config = json(&dir.join("tokenizer_config.json")).unwrap_or(Json::Null);
        let model = json(&dir.join("config.json")).unwrap_or(Json::Null);
        let class = config["tokenizer_class"].as_str();
        let kind = Kind::of(class, model["model_type"].as_str().unwrap_or_default());
        let needs = kind.map(Kind::needs).unwrap_or_default();
        let mut files = Vec::new();
        let mut absent = Vec::new();
        for names in needs {
            match names
                .iter()
                .map(|name| dir.join(name))
                .find(|f| f.is_file())
            {
                Some(file) => files.push(file),
                None => absent.push(names.join(" or ")),
            }
        }
        if files.is_empty() || !absent.is_empty() {
            let instead = match absent.is_empty() {
                true => String::new(),
                false => format!(" (or {})", absent.join(" and ")),
            };
            return Err(vec![format!("tokenizer.json{instead}")]);
        }
        let further = [
            "tokenizer_config.json",
            "special_tokens_map.json",
            "added_tokens.json",
        ];
        files.extend(
            further
                .map(|name| dir.join(name))
                .into_iter()
                .filter(|f| f.is_file()),
        );
        Ok(TokenizerFiles { files, kind })
    }

    /// The tokeniser, without truncation and padding.
    ///
    /// # Errors
    /// A file cannot be read or is not what its name says.
    pub fn load(&self) -> Result<Tokenizer> {
        let file = &self.files[0];
        let mut tokenizer = match self.kind {
            None => described(file),
            Some(kind) => self.made(kind, file),
        }
        .with_context(|| file.display().to_string())?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(failed)?;
        Ok(tokenizer)
    }

    fn made(&self, kind: Kind, file: &Path) -> Result<Tokenizer> {
        let added = Added::read(file.parent().unwrap_or(Path::new(".")), kind)?;
        match kind {
            Kind::WordPiece => wordpiece::tokenizer(file, &added),
            Kind::ByteLevel => bpe::tokenizer(file, &self.files[1], &added),
            Kind::XlmRoberta | Kind::Camembert | Kind::DebertaV2 => {
                sentencepiece::tokenizer(file, kind, &added)
            }
        }
    }
}

/// What `tokenizer.json` describes.
fn described(file: &Path) -> Result<Tokenizer> {
    let text = bounded::read(file, review::MAX_FILE)?;
    if let Some(found) = review::trouble(&text)? {
        bail!("{found}");
    }
    Tokenizer::from_bytes(text).map_err(failed)
}

/// A file's JSON; nothing where there is no such file.
fn json(file: &Path) -> Option<Json> {
    serde_json::from_slice(&bounded::read(file, bounded::DESCRIPTION).ok()?).ok()
}

/// Special tokens around one text and around two, as templates of the library.
fn template(
    tokenizer: &Tokenizer,
    single: String,
    pair: String,
    tokens: [&str; 2],
) -> Result<TemplateProcessing> {
    let ids = tokens.map(|token| {
        let id = tokenizer.token_to_id(token);
        id.map(|id| (token.to_owned(), id))
            .with_context(|| format!("no token {token}"))
    });
    let ids = ids.into_iter().collect::<Result<Vec<(String, u32)>>>()?;
    let mut builder = TemplateProcessing::builder();
    let failed = |e: String| anyhow::anyhow!("{e}");
    builder
        .try_single(single)
        .map_err(failed)?
        .try_pair(pair)
        .map_err(failed)?;
    Ok(builder.special_tokens(ids).build()?)
}

/// What a tokeniser says of its failure.
pub(crate) fn failed(error: tokenizers::Error) -> anyhow::Error {
    anyhow::anyhow!("the tokeniser: {error}")
}

#[cfg(test)]
mod tests;
