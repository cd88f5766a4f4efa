//! SentencePiece models as tokenisers of the library: XLM-RoBERTa, CamemBERT, DeBERTa v2 and v3.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use prost::Message;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::replace::{Replace, ReplacePattern};
use tokenizers::normalizers::{Lowercase, NormalizerWrapper, Precompiled, Sequence, Strip};
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::{PreTokenizerWrapper, sequence};
use tokenizers::{AddedToken, SplitDelimiterBehavior, Tokenizer};

use super::added::Added;
use super::review::Pieces;
use super::{Kind, failed, template};
use files::bounded;

/// What is read of SentencePiece's `ModelProto`.
#[derive(Clone, PartialEq, Message)]
struct Model {
    #[prost(message, repeated, tag = "1")]
    pieces: Vec<Piece>,
    #[prost(message, optional, tag = "2")]
    trainer: Option<Trainer>,
    #[prost(message, optional, tag = "3")]
    normalizer: Option<NormalizerSpec>,
}

#[derive(Clone, PartialEq, Message)]
struct Piece {
    #[prost(string, optional, tag = "1")]
    piece: Option<String>,
    #[prost(float, optional, tag = "2")]
    score: Option<f32>,
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Trainer {
    #[prost(int32, optional, tag = "3")]
    model_type: Option<i32>,
    #[prost(int32, optional, tag = "40")]
    unk_id: Option<i32>,
    #[prost(string, optional, tag = "45")]
    unk_piece: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct NormalizerSpec {
    #[prost(bytes = "vec", optional, tag = "2")]
    charsmap: Option<Vec<u8>>,
}

/// `model_type` of unigram models, the preset.
const UNIGRAM: i32 = 1;
/// `model_type` of byte pair encodings.
const BPE_MODEL: i32 = 2;
/// Kind of a piece that stands for no text.
const CONTROL: i32 = 3;
/// Kind of a piece that a user defined.
const USER_DEFINED: i32 = 4;

/// The sign for a space.
const SPACE: &str = "\u{2581}";

/// A piece and its score.
type Scored = (String, f64);

impl Model {
    fn scored(&self, from: usize) -> impl Iterator<Item = Scored> {
        let pieces = self.pieces.iter().skip(from);
        pieces.map(|p| (p.piece().to_owned(), f64::from(p.score())))
    }

    /// The vocabulary in the order of the kind's ids, and the id of unknown text.
    fn vocabulary(&self, kind: Kind) -> (Vec<Scored>, usize) {
        let words = |all: &[(&str, f64)]| -> Vec<Scored> {
            all.iter()
                .map(|(word, score)| ((*word).to_owned(), *score))
                .collect()
        };
        // fairseq puts its own special tokens first and the mask last.
        let mask = words(&[("<mask>", 0.0)]);
        match kind {
            Kind::XlmRoberta => {
                let mut all = words(&[("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]);
                all.extend(self.scored(3).chain(mask));
                (all, 3)
            }
            Kind::Camembert => {
                let mut all = words(&[
                    ("<s>NOTUSED", 0.0),
                    ("<pad>", 0.0),
                    ("</s>NOTUSED", 0.0),
                    ("<unk>", 0.0),
                    ("<unk>NOTUSED", -100.0),
                ]);
                all.extend(self.scored(1).chain(mask));
                (all, 3)
            }
            Kind::DebertaV2 | Kind::WordPiece | Kind::ByteLevel => {
                let unknown = self.trainer.as_ref().map_or(0, Trainer::unk_id);
                (
                    self.scored(0).collect(),
                    usize::try_from(unknown).unwrap_or(usize::MAX),
                )
            }
        }
    }

    /// Control and user-defined pieces: they are found before the text is cut up.
    fn added(&self) -> Vec<AddedToken> {
        let marked = (self.pieces.iter()).filter(|p| [CONTROL, USER_DEFINED].contains(&p.kind()));
        marked
            .map(|p| AddedToken::from(p.piece(), p.kind() == CONTROL).normalized(false))
            .collect()
    }
}

/// Longest model that is read, in bytes. That of XLM-RoBERTa has 5 MB.
const MAX_MODEL: u64 = 16 << 20;

/// Longest text that the table of characters may put in the place of one, in bytes.
const MAX_REPLACEMENT: usize = 256;

/// What no model has that was trained.
fn trouble(model: &Model) -> Option<String> {
    let scores = model.pieces.iter().map(Piece::score);
    if let Some(score) = scores.into_iter().find(|score| !score.is_finite()) {
        return Some(format!("the score {score}"));
    }
    let map = model
        .normalizer
        .as_ref()
        .map_or(&[][..], NormalizerSpec::charsmap);
    // Behind the tree that finds them stand the replacements, with a zero after each.
    let tree = map
        .first_chunk()
        .map_or(0, |length| u32::from_le_bytes(*length) as usize);
    let texts = map.get(tree.saturating_add(4)..).unwrap_or_default();
    let longest = texts.split(|byte| *byte == 0).map(<[u8]>::len).max();
    if let Some(longest) = longest.filter(|length| *length > MAX_REPLACEMENT) {
        return Some(format!(
            "a replacement of {longest} bytes, expected at most {MAX_REPLACEMENT}"
        ));
    }
    Pieces::of(model.pieces.iter().map(Piece::piece)).trouble()
}

/// The tokeniser.
///
/// # Errors
/// The file cannot be read, is no SentencePiece model, or one of another algorithm.
pub fn tokenizer(file: &Path, kind: Kind, added: &Added) -> Result<Tokenizer> {
    let bytes = bounded::read(file, MAX_MODEL)?;
    let model = Model::decode(bytes.as_slice()).context("not a SentencePiece model")?;
    ensure!(
        !model.pieces.is_empty(),
        "a SentencePiece model without pieces"
    );
    if let Some(found) = trouble(&model) {
        bail!("a SentencePiece model with {found}");
    }
    let trainer = model.trainer.clone().unwrap_or_default();
    let (vocabulary, unknown) = model.vocabulary(kind);
    let mut tokenizer = match trainer.model_type.unwrap_or(UNIGRAM) {
        UNIGRAM => Tokenizer::new(Unigram::from(vocabulary, Some(unknown), false).map_err(failed)?),
        BPE_MODEL => Tokenizer::new(byte_pairs(vocabulary, &trainer)?),
        other => bail!("a SentencePiece model of type {other}, neither unigram nor BPE"),
    };
    let map = model
        .normalizer
        .as_ref()
        .map_or(&[][..], NormalizerSpec::charsmap);
    tokenizer
        .with_normalizer(Some(Sequence::new(normalizers(kind, map, added)?)))
        .map_err(failed)?;
    let spaces = Metaspace::new('\u{2581}', PrependScheme::Always, true);
    let mut steps: Vec<PreTokenizerWrapper> = Vec::new();
    if kind == Kind::DebertaV2 && added.switch("split_by_punct") == Some(true) {
        steps.push(Punctuation::new(SplitDelimiterBehavior::Isolated).into());
    }
    steps.push(spaces.into());
    tokenizer.with_pre_tokenizer(Some(sequence::Sequence::new(steps)));
    tokenizer.add_tokens(model.added()).map_err(failed)?;
    added.add_to(&mut tokenizer)?;
    let (single, pair, tokens) = match kind {
        Kind::XlmRoberta | Kind::Camembert => {
            ("<s> $A </s>", "<s> $A </s> </s> $B </s>", ["<s>", "</s>"])
        }
        Kind::DebertaV2 | Kind::WordPiece | Kind::ByteLevel => (
            "[CLS]:0 $A:0 [SEP]:0",
            "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
            ["[CLS]", "[SEP]"],
        ),
    };
    let around = template(&tokenizer, single.to_owned(), pair.to_owned(), tokens)?;
    tokenizer.with_post_processor(Some(around));
    Ok(tokenizer)
}

fn normalizers(kind: Kind, map: &[u8], added: &Added) -> Result<Vec<NormalizerWrapper>> {
    let mut steps: Vec<NormalizerWrapper> = Vec::new();
    let deberta = kind == Kind::DebertaV2;
    if deberta && added.switch("do_lower_case") == Some(true) {
        steps.push(Lowercase.into());
    }
    if deberta {
        steps.push(Strip::new(true, true).into());
    }
    if !map.is_empty() {
        let map = Precompiled::from(map).context("the table of characters")?;
        steps.push(map.into());
    }
    if !deberta {
        steps.push(Strip::new(false, true).into());
    }
    let spaces = ReplacePattern::Regex(" {2,}".to_owned());
    let by = if deberta { " " } else { SPACE };
    steps.push(Replace::new(spaces, by).map_err(failed)?.into());
    Ok(steps)
}

/// A model's merges are every way to put a piece together from two others; the best pieces first.
fn byte_pairs(vocabulary: Vec<Scored>, trainer: &Trainer) -> Result<BPE> {
    let ids: HashMap<&str, u32> = (vocabulary.iter().zip(0..))
        .map(|((piece, _), id)| (piece.as_str(), id))
        .collect();
    let mut merges = Vec::new();
    for (piece, score) in &vocabulary {
        let cuts = piece
            .char_indices()
            .skip(1)
            .map(|(at, _)| piece.split_at(at));
        let mut ways: Vec<(u32, u32, &str, &str)> = cuts
            .filter_map(|(left, right)| Some((*ids.get(left)?, *ids.get(right)?, left, right)))
            .collect();
        ways.sort_by_key(|way| (way.0, way.1));
        merges.extend(
            ways.into_iter()
                .map(|(_, _, left, right)| (*score, left, right)),
        );
    }
    let length = |text: &str| text.chars().count();
    merges.sort_by(|a, b| {
        let lengths = |m: &(f64, &str, &str)| (length(m.1), length(m.2));
        b.0.total_cmp(&a.0)
            .then_with(|| lengths(b).cmp(&lengths(a)))
    });
    let merges: Merges = (merges.into_iter())
        .map(|(_, left, right)| (left.to_owned(), right.to_owned()))
        .collect();
    let ids: Vocab = ids
        .iter()
        .map(|(piece, id)| ((*piece).to_owned(), *id))
        .collect();
    let unknown = trainer
        .unk_piece
        .clone()
        .unwrap_or_else(|| "<unk>".to_owned());
    BPE::builder()
        .vocab_and_merges(ids, merges)
        .unk_token(unknown)
        .fuse_unk(true)
        .build()
        .map_err(failed)
}
