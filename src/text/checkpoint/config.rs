//! `config.json` of an encoder: which architecture it asks for, and whether that is implemented.

use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;
use strum::{EnumString, IntoStaticStr, VariantArray};

use super::raw::{ConfigKeys, misfit};
use super::{missing, problem};
use config::Problem;
use files::bounded;

/// The encoders that are implemented, by `model_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Architecture {
    /// Devlin et al. 2018.
    Bert,
    /// Liu et al. 2019.
    Roberta,
    /// Conneau et al. 2020; RoBERTa with another vocabulary.
    XlmRoberta,
    /// Martin et al. 2020; RoBERTa with another vocabulary.
    Camembert,
    /// Clark et al. 2020: the discriminator, or the generator's encoder.
    Electra,
    /// He et al. 2021, versions 2 and 3.
    DebertaV2,
}

impl Architecture {
    /// All of them.
    pub const ALL: &[Architecture] = Architecture::VARIANTS;

    /// `model_type` of `config.json`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// By `model_type`.
    pub fn of(name: &str) -> Option<Architecture> {
        name.parse().ok()
    }

    /// Whether positions are counted from the padding's id on, tokens of padding left out.
    pub fn counts_from_padding(self) -> bool {
        match self {
            Architecture::Roberta | Architecture::XlmRoberta | Architecture::Camembert => true,
            Architecture::Bert | Architecture::Electra | Architecture::DebertaV2 => false,
        }
    }

    /// Whether checkpoints may hold `pooler.dense`, a layer on the first token.
    pub fn has_pooler(self) -> bool {
        match self {
            Architecture::Bert
            | Architecture::Roberta
            | Architecture::XlmRoberta
            | Architecture::Camembert => true,
            Architecture::Electra | Architecture::DebertaV2 => false,
        }
    }
}

/// The nonlinearity between the two linear layers of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Activation {
    /// x times the normal distribution function of x.
    #[serde(alias = "gelu_python")]
    Gelu,
    /// The approximation of GELU by tanh.
    #[serde(
        rename = "gelu_new",
        alias = "gelu_pytorch_tanh",
        alias = "gelu_python_tanh",
        alias = "gelu_fast",
        alias = "gelu_accurate"
    )]
    #[strum(serialize = "gelu_new")]
    GeluTanh,
    /// GELU between -10 and 10.
    #[serde(rename = "gelu_10")]
    #[strum(serialize = "gelu_10")]
    GeluClipped,
    /// x times the logistic function of 1.702 x.
    QuickGelu,
    /// max(x, 0).
    Relu,
    /// The square of max(x, 0).
    #[strum(serialize = "relu2")]
    Relu2,
    /// max(x, 0), at most 6.
    #[strum(serialize = "relu6")]
    Relu6,
    /// x, or a hundredth of it where it is negative.
    LeakyRelu,
    /// x times the logistic function of x.
    #[serde(alias = "swish")]
    Silu,
    /// x times tanh of the softplus of x.
    Mish,
    /// The logistic function.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// A normal distribution function that approximates the square of ReLU.
    Laplace,
    /// x.
    Linear,
}

/// What a DeBERTa's attention asks of relative positions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relative {
    /// Buckets of distances on either side that are told apart; `None`: each distance is its own.
    pub buckets: Option<usize>,
    /// Distance from which on all are alike.
    pub furthest: usize,
    /// Queries look at positions (`c2p`).
    pub content_to_position: bool,
    /// Positions look at keys (`p2c`).
    pub position_to_content: bool,
    /// Positions go through the query and key layers of the tokens.
    pub shared_layers: bool,
    /// The table of positions goes through a layer norm.
    pub normed: bool,
}

impl Relative {
    /// Distances on either side that the table tells apart: it has twice as many rows.
    pub fn span(&self) -> usize {
        self.buckets.unwrap_or(self.furthest)
    }
}

/// A convolution over neighbouring tokens behind the first block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    /// Tokens that it sees at once; odd.
    pub kernel: usize,
    /// Groups of channels that are kept apart; they divide the width.
    pub groups: usize,
    /// The nonlinearity behind it.
    pub activation: Activation,
}

/// What is peculiar to DeBERTa.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disentangled {
    /// `None` where attention does not look at positions.
    pub relative: Option<Relative>,
    /// Scores are divided by the root of the head's width times this: 1 and the number of position
    /// terms that the configuration names.
    pub terms: usize,
    /// A table of absolute positions is added to the tokens.
    pub absolute: bool,
    /// Behind the first block.
    pub convolution: Option<Convolution>,
}

/// The shape of an encoder.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "ConfigKeys")]
pub struct EncoderConfig {
    /// Which one.
    pub architecture: Architecture,
    /// Token ids are below this.
    pub vocab_size: usize,
    /// Width of a token's vector in the tables.
    pub embedding_size: usize,
    /// Width of a token's vector in the blocks.
    pub hidden_size: usize,
    /// Blocks.
    pub num_hidden_layers: usize,
    /// Attention heads a block; they divide the width.
    pub num_attention_heads: usize,
    /// Width between the two linear layers of a block.
    pub intermediate_size: usize,
    /// Rows of the table of positions, where there is one.
    pub max_position_embeddings: usize,
    /// Token type ids are below this; 0: there is no table of types.
    pub type_vocab_size: usize,
    /// Added to the variance in layer norms.
    pub layer_norm_eps: f64,
    /// Token id of padding.
    pub pad_token_id: usize,
    /// The nonlinearity.
    pub hidden_act: Activation,
    /// Of DeBERTa alone.
    pub disentangled: Option<Disentangled>,
}

impl EncoderConfig {
    /// Reads and checks `config.json`.
    ///
    /// # Errors
    /// The file is absent or broken, or it asks for what is not implemented.
    pub fn read(file: &Path, name: &str) -> Result<EncoderConfig, Problem> {
        let bad = |found: String, expected: &str| {
            problem(file, format!("{found} (model {name})"), expected)
        };
        let bytes = match bounded::read(file, bounded::DESCRIPTION) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let dir = file.parent().unwrap_or(Path::new("."));
                return Err(missing(dir, "config.json", name));
            }
            Err(error) => return Err(bad(error.to_string(), "a model's configuration")),
        };
        let json: serde_json::Value = serde_json::from_slice(&bytes)
            .map_err(|e| bad(format!("broken JSON: {e}"), "a model's configuration"))?;
        let kind = json.get("model_type").and_then(|v| v.as_str());
        if kind.and_then(Architecture::of).is_none() {
            let known = Architecture::ALL.iter().map(|known| known.name());
            let known: Vec<&str> = known.collect();
            return Err(bad(
                format!("model_type {}", kind.unwrap_or("(none)")),
                &format!("model_type one of: {}", known.join(", ")),
            ));
        }
        if let Some((found, expected)) = misfit(&json) {
            return Err(bad(found, &expected));
        }
        let expected = "the configuration of an encoder that is implemented";
        serde_json::from_value(json).map_err(|e| bad(e.to_string(), expected))
    }

    /// Tokens of the longest row; `None` where there is no limit.
    pub fn max_tokens(&self) -> Option<usize> {
        let rows = self.max_position_embeddings;
        match &self.disentangled {
            Some(deberta) => deberta.absolute.then_some(rows),
            None if self.architecture.counts_from_padding() => {
                Some(rows.saturating_sub(self.pad_token_id + 1))
            }
            None => Some(rows),
        }
    }

    /// Token type ids are below this; `None` where the encoder does not read them.
    pub fn token_types(&self) -> Option<usize> {
        // The tokenisers of RoBERTa and its kin answer no types: all are 0.
        let unread = usize::from(self.architecture.counts_from_padding());
        (self.type_vocab_size > unread).then_some(self.type_vocab_size)
    }

    /// What attention asks of relative positions.
    pub fn relative(&self) -> Option<&Relative> {
        self.disentangled.as_ref()?.relative.as_ref()
    }

    /// Parameters of the encoder, without a pooler.
    pub fn parameters(&self) -> usize {
        super::needed(self)
            .iter()
            .map(|t| t.shape.iter().product::<usize>())
            .sum()
    }
}
